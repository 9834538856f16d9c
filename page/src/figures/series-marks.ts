// The marks of one series against an axis of values: its line, ribbon, intervals and dots.

import * as Plot from "@observablehq/plot";
import type { Interval } from "../data";
import { dashOf, symbolOf, toneOf } from "../look";

interface Series<Point extends Interval> {
  points: Point[];
  /** The number of its look. */
  look: number;
  x: (point: Point) => string | number;
  /** The place of a value on the axis; not a number for null. */
  place(value: number | null): number;
  /** The distance from the place of a point, so that series are side by side; pixels. */
  dx: number;
}

/** Makers of the marks of a series; `more` are options in addition to its look and place. */
export function seriesMarks<Point extends Interval>({ points, look, x, place, dx }: Series<Point>) {
  const stroke = toneOf(look);
  const at = { x, y: ({ mid }: Point) => place(mid), dx };
  const ends = { x, y1: ({ lower }: Point) => place(lower), y2: ({ upper }: Point) => place(upper), dx };
  return {
    line: (part: Point[], more: Plot.LineOptions) =>
      Plot.line(part, { ...at, stroke, strokeDasharray: dashOf(look), ...more } as Plot.LineOptions),
    ribbon: (part: Point[], fillOpacity: number) => Plot.areaY(part, { ...ends, fill: stroke, fillOpacity }),
    intervals: (strokeWidth: number) =>
      Plot.ruleX(
        points.filter(({ lower }) => lower != null),
        { ...ends, stroke, strokeWidth },
      ),
    dots: (more: Plot.DotOptions = {}) =>
      Plot.dot(points, { ...at, symbol: symbolOf(look), r: 4.5, fill: stroke, stroke, ...more } as Plot.DotOptions),
    /** Marks around or on the dots of some points. */
    over: (part: Point[], more: Plot.DotOptions) => Plot.dot(part, { ...at, ...more }),
  };
}
