// Lines around what comes close to the best value that a heat map shows: along the edges of its tiles, since between two
// levels nothing was measured.

import * as Plot from "@observablehq/plot";
import { svg } from "../dom";
import { percent } from "../format";
import { draw, ink, paper } from "../look";
import type { Measure } from "../measure";

/** How far from the best value, and how the line is dashed. */
export const CONTOURS: readonly { share: number; dash: string }[] = [
  { share: 0.05, dash: "" },
  { share: 0.25, dash: "7 4" },
  { share: 1, dash: "2 4" },
];

const LINE = 2;

/** A piece of a line, in tiles from the upper left corner. */
export type Edge = [x1: number, y1: number, x2: number, y2: number];

/** Where one of two neighbours lies within and the other does not. Nothing is drawn towards what was not measured. */
export function edges(inside: (boolean | null)[][]): Edge[] {
  const found: Edge[] = [];
  const differ = (one: boolean | null | undefined, other: boolean | null | undefined) =>
    one != null && other != null && one !== other;
  const [rows, columns] = [inside.length, Math.max(0, ...inside.map((row) => row.length))];
  const at = (row: number, column: number) => inside[row]?.[column];
  /** Neighbouring pieces are one line, so that its dashes do not begin anew at every tile. */
  const runs = (length: number, crossed: (at: number) => boolean, add: (from: number, to: number) => void) => {
    let from: number | null = null;
    for (let place = 0; place <= length; place += 1) {
      const here = place < length && crossed(place);
      if (here) from ??= place;
      else if (from != null) {
        add(from, place);
        from = null;
      }
    }
  };
  for (let column = 1; column < columns; column += 1) {
    runs(
      rows,
      (row) => differ(at(row, column - 1), at(row, column)),
      (from, to) => found.push([column, from, column, to]),
    );
  }
  for (let row = 1; row < rows; row += 1) {
    runs(
      columns,
      (column) => differ(at(row - 1, column), at(row, column)),
      (from, to) => found.push([from, row, to, row]),
    );
  }
  return found;
}

/** Which values take more than the best one by no more than a share: `less` of the measure is better, or more of it. */
export function near(values: (number | null)[][], less: boolean, share: number): (boolean | null)[][] {
  const known = values.flat().filter((value) => value != null);
  const best = less ? Math.min(...known) : Math.max(...known);
  const within = (value: number) => (less ? value / best : best / value) <= 1 + share;
  return values.map((row) => row.map((value) => (value == null ? null : within(value))));
}

/**
 * The lines as marks; `x` and `y` are the places of the tiles' corners in pixels. With a halo of the paper's colour, to be
 * seen on every tile.
 */
export function contours(values: (number | null)[][], less: boolean, x: number[], y: number[]): SVGGElement {
  const lines = CONTOURS.flatMap(({ share, dash }) => {
    const path = edges(near(values, less, share))
      .map(([x1, y1, x2, y2]) => `M${x[x1] ?? 0},${y[y1] ?? 0}L${x[x2] ?? 0},${y[y2] ?? 0}`)
      .join("");
    const line = (stroke: string, width: number) =>
      svg("path", { d: path, stroke, "stroke-width": width, "stroke-dasharray": dash || null });
    return path ? [line(paper(), 2 * LINE + 1), line(ink(), LINE)] : [];
  });
  return svg("g", { class: "contours", fill: "none", "stroke-linecap": "butt", "pointer-events": "none" }, ...lines);
}

/** What the dashes mean, in as many rows as it takes. */
export function contourKey({ unit }: Pick<Measure, "unit">, wide: number): SVGSVGElement {
  // What is slower takes more time; of anything else there is more.
  const what = unit.endsWith("/s") ? "more time" : "more";
  const [step, row] = [158, 22];
  const columns = Math.max(1, Math.min(CONTOURS.length, Math.floor(wide / step)));
  const [width, height] = [step * columns, row * Math.ceil(CONTOURS.length / columns) + 6];
  const named = CONTOURS.map(({ share }) => `≤ ${percent(share)} ${what}`);
  const drawing = draw(width, {
    height,
    margin: 0,
    ariaLabel: `Lines around what is close to the brightest: ${named.join(", ")}`,
    x: { axis: null, domain: [0, width], range: [0, width] },
    y: { axis: null, domain: [0, height], range: [0, height] },
    marks: CONTOURS.flatMap(({ dash }, at) => {
      const [x, y] = [6 + (at % columns) * step, 12 + Math.floor(at / columns) * row];
      return [
        Plot.ruleY([y], {
          x1: x,
          x2: x + 34,
          stroke: ink(),
          strokeWidth: LINE,
          strokeDasharray: dash || undefined,
        } as Plot.RuleYOptions),
        Plot.text([named[at] ?? ""], { x: x + 42, y, textAnchor: "start", fill: ink() }),
      ];
    }),
  });
  drawing.classList.add("key");
  return drawing;
}
