// One line through the plan: a measure against one factor, intervals as ribbons where all levels are numbers, as bars otherwise.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, type FactorView, isConfirmed, level } from "../data";
import { capital } from "../format";
import { withInterval as told } from "../outward";
import { nothing } from "../frame";
import { named } from "../levels";
import { accent, CURVE_LEAST, draw, heading, ink, logarithmic, paper, slopeOf, thinned, valueAxis } from "../look";
import type { Measure } from "../measure";

/** More marks than this on a line are small. */
const MANY = 40;
/** What stands left of the axis, and a bold letter's width; pixels. */
const [LEFT, LETTER] = [62, 7.1];

/** Draws cells that differ in one factor alone; `chosen` is marked. Of fewer than two it says so. */
export function slice(
  cells: CellView[],
  factor: FactorView,
  measure: Measure,
  chosen: string | undefined,
  title: string,
  width: number,
  /** Whose values the axis is for: lines beside each other have one scale. */
  scaled: CellView[] = cells,
): SVGSVGElement | HTMLElement {
  const points = cells
    .map((cell) => ({ cell, x: level(cell, factor.name), value: measure.of(cell) }))
    .filter((point) => point.x != null && point.value != null)
    .map(({ cell, x, value }) => ({ cell, x: x as string | number, ...(value as NonNullable<typeof value>) }));
  const values = scaled.map((cell) => measure.of(cell)).filter((value) => value != null);
  if (points.length < 2) return nothing(`At ${title} no other ${axisName(factor)} was measured.`);
  const numeric = points.every((point) => typeof point.x === "number" && point.x > 0);
  if (numeric) points.sort((a, b) => Number(a.x) - Number(b.x));
  const at = (point: (typeof points)[number]) => (numeric ? Math.log2(Number(point.x)) : point.x);
  const withInterval = points.filter((point) => point.lower != null && point.upper != null);
  const { axis, name, place } = valueAxis(
    measure.unit,
    Math.min(...values.map(({ lower, mid }) => lower ?? mid)),
    Math.max(...values.map(({ upper, mid }) => upper ?? mid), 0),
  );
  const y = (point: (typeof points)[number]) => place(point.mid);
  const [y1, y2] = (["lower", "upper"] as const).map((end) => (point: (typeof points)[number]) => place(point[end]));
  const curve = <Mark>(own: Mark[]) => (own.length < CURVE_LEAST ? [] : own);
  const unit = name ? `, ${name}` : "";
  const whole = capital(`${measure.label} at ${title}${unit}`);
  // A name that is longer than its drawing stands in two lines.
  const lines = whole.length * LETTER < width ? [whole] : [capital(`${measure.label}${unit}`), `at ${title}`];
  const above = 14 * (lines.length - 1);
  const names = points.map((point) => named(point.x, factor));
  // Sizes beside a name leave out some; where all are names every one is told.
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
    x: {
      ...(numeric
        ? logarithmic(
            points.map((point) => Number(point.x)),
            (value) => named(value, factor),
            (width - 108) / (Math.max(...points.map((point) => named(point.x, factor).length), 1) * 6.6 + 10),
          )
        : {
            type: "point",
            domain: points.map((point) => point.x),
            ticks: thinned(
              points.map((point) => point.x),
              slope > 0 ? points.length : width / 64,
            ),
            tickRotate: slope > 0 ? -30 : 0,
            tickFormat: (value: string | number) => named(value, factor),
            labelArrow: "none",
          }),
      label: axisName(factor),
      inset: 12,
    } as Plot.ScaleOptions,
    y: axis,
    marks: [
      heading(lines.join("\n"), LEFT, -24 - above),
      numeric && withInterval.length >= CURVE_LEAST
        ? Plot.areaY(withInterval, { x: at, y1: y1!, y2: y2!, fill: accent(), fillOpacity: 0.2 })
        : null,
      // Each kind by itself: what was screened was measured at another time, in other trials.
      ...[true, false].map((sure) =>
        Plot.line(curve(points.filter((point) => isConfirmed(point.cell) === sure)), {
          x: at,
          y,
          stroke: accent(),
          strokeOpacity: numeric ? (sure ? 1 : 0.35) : 0,
        }),
      ),
      Plot.ruleX(withInterval, { x: at, y1: y1!, y2: y2!, stroke: accent(), strokeWidth: 1.5 }),
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
            `${named(point.x, factor)}: ${told(point, measure.unit)}${isConfirmed(point.cell) ? "" : ", screened only"}`,
          fill: paper(),
          lineHeight: 1.3,
        }),
      ),
    ],
  });
}
