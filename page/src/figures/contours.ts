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

/** Line and halo, pixels. */
const [LINE, HALO] = [2, 5];
/** Among small tiles lines are thin, and what is nearest to the best is no line but a sprinkle. */
const [FINE_LINE, FINE_HALO] = [1.3, 2.6];

/** Those that can be told from each other where tiles are many. */
export const drawn = (dense: boolean): typeof CONTOURS => CONTOURS.filter(({ share }) => !dense || share >= 0.25);

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

/** Without single tiles: among many, one lies within where most of it and its neighbours do. */
export function cleared(inside: (boolean | null)[][]): (boolean | null)[][] {
  const around = (row: number, column: number) =>
    [-1, 0, 1].flatMap((down) => [-1, 0, 1].flatMap((right) => inside[row + down]?.[column + right] ?? []));
  const most = (all: boolean[]) => 2 * all.filter((each) => each).length > all.length;
  return inside.map((tiles, row) => tiles.map((tile, column) => (tile == null ? null : most(around(row, column)))));
}

/** Pieces of lines in pixels. */
const path = (pieces: Edge[], x: number[], y: number[]): string =>
  pieces.map(([x1, y1, x2, y2]) => `M${x[x1] ?? 0},${y[y1] ?? 0}L${x[x2] ?? 0},${y[y2] ?? 0}`).join("");

/** A line around all tiles that are `inside`, with a halo as the others have. */
export function outline(inside: boolean[][], x: number[], y: number[]): SVGGElement {
  const d = path(edges(inside), x, y);
  return svg(
    "g",
    { fill: "none", "pointer-events": "none" },
    svg("path", { d, stroke: paper(), "stroke-width": 3.4 }),
    svg("path", { class: "frames", d, stroke: ink(), "stroke-width": 1.6 }),
  );
}

/**
 * The lines as marks; `x` and `y` are the places of the tiles' corners in pixels. With a halo of the paper's colour, to be
 * seen on every tile.
 */
export function contours(
  values: (number | null)[][],
  less: boolean,
  x: number[],
  y: number[],
  dense: boolean,
): SVGGElement {
  const [thick, halo] = dense ? [FINE_LINE, FINE_HALO] : [LINE, HALO];
  // Where several run along one edge the closest one is seen: what lies within it lies within all.
  const lines = [...drawn(dense)].reverse().flatMap(({ share, dash }) => {
    const inside = near(values, less, share);
    const d = path(edges(dense ? cleared(inside) : inside), x, y);
    const line = (stroke: string, width: number) =>
      svg("path", { d, stroke, "stroke-width": width, "stroke-dasharray": dash || null });
    return d ? [line(paper(), halo), line(ink(), thick)] : [];
  });
  return svg("g", { class: "contours", fill: "none", "stroke-linecap": "butt", "pointer-events": "none" }, ...lines);
}

/** What the lines mean, in as many rows as it takes: those of the contours, and those around the best and the confirmed. */
export function contourKey(
  { unit }: Pick<Measure, "unit">,
  wide: number,
  dense: boolean,
  { best, framed }: { best: boolean; framed: boolean },
): SVGSVGElement {
  // What is slower takes more time; of anything else there is more.
  const what = unit.endsWith("/s") ? "more time" : "more";
  const lines = drawn(dense).map(({ share, dash }) => ({ name: `≤ ${percent(share)} ${what}`, dash }));
  const boxes = [
    ...(best ? [{ name: "may be the best", dot: true }] : []),
    ...(framed ? [{ name: "confirmed", dot: false }] : []),
  ];
  const shown = [...lines, ...boxes];
  const [step, row] = [164, 22];
  const columns = Math.max(1, Math.min(shown.length, Math.floor(wide / step)));
  const [width, height] = [step * columns, row * Math.ceil(shown.length / columns) + 6];
  const drawing = draw(width, {
    height,
    margin: 0,
    ariaLabel: `Lines around what is close to the brightest: ${lines.map(({ name }) => name).join(", ")}${boxes.map(({ name }) => `; outlined: ${name}`).join("")}`,
    x: { axis: null, domain: [0, width], range: [0, width] },
    y: { axis: null, domain: [0, height], range: [0, height] },
    marks: shown.flatMap((entry, at) => {
      const [x, y] = [6 + (at % columns) * step, 12 + Math.floor(at / columns) * row];
      const sign =
        "dash" in entry
          ? [
              Plot.ruleY([y], {
                x1: x,
                x2: x + 34,
                stroke: ink(),
                strokeWidth: dense ? FINE_LINE : LINE,
                strokeDasharray: entry.dash || undefined,
              } as Plot.RuleYOptions),
            ]
          : [
              Plot.rect([0], { x1: x + 6, x2: x + 28, y1: y - 7, y2: y + 7, stroke: ink(), strokeWidth: 2 }),
              entry.dot ? Plot.dot([[x + 17, y]], { r: 2.5, fill: "#fff", stroke: "#000" }) : null,
            ];
      return [...sign, Plot.text([entry.name], { x: x + 42, y, textAnchor: "start", fill: ink() })];
    }),
  });
  drawing.classList.add("key");
  return drawing;
}
