// One line through the plan: a measure against one factor, with ribbons of intervals if all levels are numbers, otherwise bars.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, type FactorView, isConfirmed, level } from "../data";
import { capital } from "../format";
import { nothing } from "../frame";
import { named } from "../levels";
import { accent, CURVE_LEAST, draw, heading, ink, logarithmic, paper, slopeOf, thinned, valueAxis } from "../look";
import type { Measure } from "../measure";
import { withInterval } from "../outward";

/** Lines of more marks have small ones. */
const MANY = 40;
/** The margin left of the axis, and the width of a bold letter; pixels. */
const [LEFT, LETTER] = [62, 7.1];

interface Point {
  cell: CellView;
  x: string | number;
  mid: number;
  lower: number | null;
  upper: number | null;
}

/** The axis of values, and the points on it. */
interface Line {
  points: Point[];
  factor: FactorView;
  measure: Measure;
  numeric: boolean;
  at(point: Point): string | number;
  value: ReturnType<typeof valueAxis>;
}

/** Draws cells that differ in one factor; the cell `chosen` has a ring. `scaled` are the cells that share the scale. */
export function slice(
  cells: CellView[],
  factor: FactorView,
  measure: Measure,
  chosen: string | undefined,
  title: string,
  width: number,
  scaled: CellView[] = cells,
): SVGSVGElement | HTMLElement {
  const points = cells.flatMap((cell): Point[] => {
    const [x, value] = [level(cell, factor.name), measure.of(cell)];
    return x == null || value == null ? [] : [{ cell, x: x as string | number, ...value }];
  });
  if (points.length < 2) return nothing(`At ${title} no other ${axisName(factor)} was measured.`);
  const numeric = points.every((point) => typeof point.x === "number" && point.x > 0);
  if (numeric) points.sort((a, b) => Number(a.x) - Number(b.x));
  const values = scaled.map((cell) => measure.of(cell)).filter((value) => value != null);
  const line: Line = {
    points,
    factor,
    measure,
    numeric,
    at: (point) => (numeric ? Math.log2(Number(point.x)) : point.x),
    value: valueAxis(
      measure.unit,
      Math.min(...values.map(({ lower, mid }) => lower ?? mid)),
      Math.max(...values.map(({ upper, mid }) => upper ?? mid), 0),
    ),
  };
  const { name, axis } = line.value;
  const unit = name ? `, ${name}` : "";
  const whole = capital(`${measure.label} at ${title}${unit}`);
  const lines = whole.length * LETTER < width ? [whole] : [capital(`${measure.label}${unit}`), `at ${title}`];
  const above = 14 * (lines.length - 1);
  const names = points.map((point) => named(point.x, factor));
  // Numeric axes can omit labels; names are all shown.
  const slope = points.every((point) => typeof point.x === "string")
    ? slopeOf(names, (width - LEFT - 22) / names.length)
    : 0;
  return draw(width, {
    height: 210 + above + slope,
    marginLeft: LEFT,
    marginRight: 22,
    marginBottom: 40 + slope,
    marginTop: 30 + above,
    ariaLabel: title,
    x: across(line, names, slope, width),
    y: axis,
    marks: [heading(lines.join("\n"), LEFT, -24 - above), ...marks(line, chosen)],
  });
}

function across({ points, factor, numeric }: Line, names: string[], slope: number, width: number): Plot.ScaleOptions {
  const shared = { label: axisName(factor), inset: 12 };
  const all = points.map((point) => point.x);
  if (numeric) {
    const longest = Math.max(...names.map((name) => name.length), 1) * 6.6 + 10;
    return { ...logarithmic(all.map(Number), (value) => named(value, factor), (width - 108) / longest), ...shared };
  }
  return {
    type: "point",
    domain: all,
    ticks: thinned(all, slope > 0 ? points.length : width / 64),
    tickRotate: slope > 0 ? -30 : 0,
    tickFormat: (value: string | number) => named(value, factor),
    labelArrow: "none",
    ...shared,
  };
}

function marks({ points, factor, measure, numeric, at, value }: Line, chosen: string | undefined): Plot.Markish[] {
  const y = (point: Point) => value.place(point.mid);
  const ends = {
    x: at,
    y1: (point: Point) => value.place(point.lower),
    y2: (point: Point) => value.place(point.upper),
  };
  const bounded = points.filter((point) => point.lower != null && point.upper != null);
  // Screened and confirmed cells have separate lines: they were measured in different trials.
  const lineOf = (sure: boolean) => {
    const own = points.filter((point) => isConfirmed(point.cell) === sure);
    return Plot.line(own.length < CURVE_LEAST ? [] : own, {
      x: at,
      y,
      stroke: accent(),
      strokeOpacity: numeric ? (sure ? 1 : 0.35) : 0,
    });
  };
  return [
    numeric && bounded.length >= CURVE_LEAST
      ? Plot.areaY(bounded, { ...ends, fill: accent(), fillOpacity: 0.2 })
      : null,
    lineOf(true),
    lineOf(false),
    Plot.ruleX(bounded, { ...ends, stroke: accent(), strokeWidth: 1.5 }),
    Plot.dot(points, {
      x: at,
      y,
      r: points.length > MANY ? 2 : 4,
      stroke: accent(),
      fill: (point) => (isConfirmed(point.cell) ? accent() : paper()),
    }),
    Plot.dot(
      points.filter((point) => point.cell.id === chosen),
      { x: at, y, r: 9, stroke: ink(), strokeWidth: 1.5 },
    ),
    Plot.tip(
      points,
      Plot.pointerX({
        x: at,
        y,
        title: (point) =>
          `${named(point.x, factor)}: ${withInterval(point, measure.unit)}${isConfirmed(point.cell) ? "" : ", screened only"}`,
        fill: paper(),
        lineHeight: 1.3,
      }),
    ),
  ];
}
