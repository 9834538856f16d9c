// Lines around what comes close to the best value that a heat map shows, for whoever asks for them: along the edges of its
// tiles, since between two levels nothing was measured. They are about medians alone, and no bound stands behind them.

import * as Plot from "@observablehq/plot";
import { svg } from "../dom";
import { percent } from "../format";
import { draw, ink, paper } from "../look";
import { edges, path } from "./marks";

/** How far from the best value, and how the line is dashed; the closest first. */
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

/** What there is more of than at the brightest: what is slower takes more time, of anything else there is more. */
const moreOf = (unit: string): string => (unit.endsWith("/s") ? "more time" : "more");

/** What a reader must know of the lines. */
export const told = (unit: string): string =>
  `Lines surround what takes at most ${CONTOURS.map(({ share }) => percent(share)).join(", ")} ${moreOf(unit)} than the brightest: by medians alone, without a bound, and of what is hatched roughly known.`;

/** The lines; `x` and `y` are the places of the tiles' corners in pixels. */
export function contours(values: (number | null)[][], less: boolean, x: number[], y: number[]): SVGGElement {
  // Where several run along one edge the closest one is seen: what lies within it lies within all.
  const lines = [...CONTOURS].reverse().flatMap(({ share, dash }) => {
    const d = path(edges(near(values, less, share)), x, y);
    const line = (stroke: string, width: number) =>
      svg("path", { d, stroke, "stroke-width": width, "stroke-dasharray": dash || null });
    return d ? [line(paper(), HALO), line(ink(), LINE)] : [];
  });
  return svg("g", { class: "contours", fill: "none", "pointer-events": "none" }, ...lines);
}

/** What the lines mean, in as many rows as it takes. */
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
