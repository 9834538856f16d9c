// Lines around the values of a heat map that are close to its best one, drawn on request. They follow the edges of the tiles,
// since nothing was measured between two levels. They are about medians, without intervals.

import * as Plot from "@observablehq/plot";
import { svg } from "../dom";
import { percent } from "../format";
import { draw, ink, paper } from "../look";
import { edges, path } from "./marks";

/** The distance from the best value, and the dashes of the line; the closest first. */
const CONTOURS: readonly { share: number; dash: string }[] = [
  { share: 0.05, dash: "" },
  { share: 0.25, dash: "7 4" },
  { share: 1, dash: "2 4" },
];
/** Line and halo, pixels. */
const [LINE, HALO] = [2, 5];

/** Which values are within a share of the best one: `less` of the measure is better, or more of it. */
export function near(values: (number | null)[][], less: boolean, share: number): (boolean | null)[][] {
  const known = values.flat().filter((value) => value != null);
  const best = less ? Math.min(...known) : Math.max(...known);
  const within = (value: number) => (less ? value / best : best / value) <= 1 + share;
  return values.map((row) => row.map((value) => (value == null ? null : within(value))));
}

/** A lower rate takes more time; any other measure is higher. */
const moreOf = (unit: string): string => (unit.endsWith("/s") ? "more time" : "more");

/** The note about the lines. */
export const note = (unit: string): string =>
  `Lines surround the tiles that take at most ${CONTOURS.map(({ share }) => percent(share)).join(", ")} ${moreOf(unit)} than the brightest. They compare medians, without intervals.`;

/** The lines; `x` and `y` are the places of the tiles' corners in pixels. */
export function contours(values: (number | null)[][], less: boolean, x: number[], y: number[]): SVGGElement {
  // Several lines can share an edge: the closest one is drawn last, on top.
  const lines = [...CONTOURS].reverse().flatMap(({ share, dash }) => {
    const d = path(edges(near(values, less, share)), x, y);
    const line = (stroke: string, width: number) =>
      svg("path", { d, stroke, "stroke-width": width, "stroke-dasharray": dash || null });
    return d ? [line(paper(), HALO), line(ink(), LINE)] : [];
  });
  return svg("g", { class: "contours", fill: "none", "pointer-events": "none" }, ...lines);
}

/** The key of the lines. */
export function contourKey(unit: string, wide: number): SVGSVGElement {
  const [step, row] = [Math.min(246, wide), 22];
  const columns = Math.max(1, Math.floor(wide / step));
  const [width, height] = [step * Math.min(columns, CONTOURS.length), row * Math.ceil(CONTOURS.length / columns) + 6];
  const named = CONTOURS.map(({ share, dash }) => ({ name: `≤ ${percent(share)} ${moreOf(unit)}`, dash }));
  const drawing = draw(width, {
    height,
    margin: 0,
    ariaLabel: `What the lines mean: ${named.map(({ name }) => name).join(", ")}`,
    x: { axis: null, domain: [0, width], range: [0, width] },
    y: { axis: null, domain: [0, height], range: [0, height] },
    marks: named.flatMap(({ name, dash }, at) => {
      const [x, y] = [6 + (at % columns) * step, 12 + Math.floor(at / columns) * row];
      const line = { x1: x, x2: x + 34, stroke: ink(), strokeWidth: LINE, strokeDasharray: dash || undefined };
      return [
        Plot.ruleY([y], line as Plot.RuleYOptions),
        Plot.text([name], { x: x + 42, y, textAnchor: "start", fill: ink() }),
      ];
    }),
  });
  drawing.classList.add("key");
  return drawing;
}
