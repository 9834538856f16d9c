// The marks on the tiles of a heat map and their key: may be the best, recommended, slower. Lines around bright tiles are drawn
// only on request (contours.ts), since medians of single trials decide nothing.

import * as Plot from "@observablehq/plot";
import { type CellView, optionOf, type View } from "../data";
import { svg } from "../dom";
import { draw, ink, isDark, paper, USED } from "../look";

/** A piece of a line, in tiles from the upper left corner. */
export type Edge = [x1: number, y1: number, x2: number, y2: number];

/** The edges between a tile inside and a neighbour outside; null is a tile without a value, which has no such edge. */
export function edges(inside: (boolean | null)[][]): Edge[] {
  const found: Edge[] = [];
  const differ = (one: boolean | null | undefined, other: boolean | null | undefined) =>
    one != null && other != null && one !== other;
  const [rows, columns] = [inside.length, Math.max(0, ...inside.map((row) => row.length))];
  const at = (row: number, column: number) => inside[row]?.[column];
  /** Adjacent pieces are one line, so that its dashes continue from tile to tile. */
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

/** Pieces of lines in pixels. */
export const path = (pieces: Edge[], x: number[], y: number[]): string =>
  pieces.map(([x1, y1, x2, y2]) => `M${x[x1] ?? 0},${y[y1] ?? 0}L${x[x2] ?? 0},${y[y2] ?? 0}`).join("");

/** A line with a halo around all tiles that are `inside`. */
export function outline(inside: boolean[][], x: number[], y: number[]): SVGGElement {
  const d = path(edges(inside), x, y);
  return svg(
    "g",
    { fill: "none", "pointer-events": "none" },
    svg("path", { d, stroke: paper(), "stroke-width": 3.4 }),
    svg("path", { class: "frames", d, stroke: ink(), "stroke-width": 1.6 }),
  );
}

/** A mark of a tile; `avoid`: slower than the best. */
export type Sign = "best" | "use" | "avoid" | "selected" | "confirmed" | "screened" | "empty";

/** Whether a cell is slower than the best. */
export const isSlower = (view: View, cell: CellView): boolean => optionOf(view, cell)?.status === "slower";

/** Stripes of white and black, which are visible on bright and dark tiles. */
export function hatching(id: string): SVGDefsElement {
  const stripe = (x: number, fill: string) => svg("rect", { x, width: 1.5, height: 7, fill, "fill-opacity": 0.5 });
  const attributes = { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return svg("defs", {}, svg("pattern", attributes, stripe(0, "#fff"), stripe(1.5, "#000"))) as SVGDefsElement;
}

/** The colour of the frame of the selected cell. */
export const selectedColour = () => (isDark() ? "#ff66b8" : "#d6006c");

/** A cross in the corner of a tile: a halo, and the cross above it. */
export const crosses = (): Plot.DotOptions[] => [
  { symbol: "times", r: 4.5, stroke: "#fff", strokeWidth: 4 },
  { symbol: "times", r: 4.5, stroke: "#b42318", strokeWidth: 2 },
];

/** The key of the marks. */
export function markKey(signs: Sign[], wide: number, stripes: string): SVGSVGElement {
  const names: Record<Sign, string> = {
    best: "may be the best",
    use: "recommended",
    avoid: "slower than the best",
    selected: "selected",
    confirmed: "confirmed",
    screened: "screened only",
    empty: "no number: see its tip",
  };
  const [step, row] = [Math.min(246, wide), 22];
  const columns = Math.max(1, Math.min(signs.length, Math.floor(wide / step)));
  const [width, height] = [step * columns, row * Math.ceil(signs.length / columns) + 6];
  const drawing = draw(width, {
    height,
    margin: 0,
    ariaLabel: `What the marks mean: ${signs.map((sign) => names[sign]).join(", ")}`,
    x: { axis: null, domain: [0, width], range: [0, width] },
    y: { axis: null, domain: [0, height], range: [0, height] },
    marks: signs.flatMap((sign, at) => {
      const [x, y] = [6 + (at % columns) * step, 12 + Math.floor(at / columns) * row];
      const box = (more: Plot.RectOptions) => Plot.rect([0], { x1: x + 6, x2: x + 28, y1: y - 7, y2: y + 7, ...more });
      const framed = box({ stroke: ink(), strokeWidth: 2 });
      const marks: Record<Sign, Plot.Markish[]> = {
        best: [framed, Plot.dot([[x + 17, y]], { r: 2.5, fill: "#fff", stroke: "#000" })],
        use: [Plot.text([USED], { x: x + 17, y, fill: ink(), fontSize: 14 })],
        avoid: crosses().map((cross) => Plot.dot([[x + 17, y]], cross)),
        selected: [box({ stroke: selectedColour(), strokeWidth: 3 })],
        confirmed: [framed],
        screened: [box({ fill: "#7d7c78" }), box({ fill: `url(#${stripes})` })],
        empty: [box({ stroke: ink(), strokeDasharray: "2 3" })],
      };
      return [...marks[sign], Plot.text([names[sign]], { x: x + 42, y, textAnchor: "start", fill: ink() })];
    }),
  });
  drawing.classList.add("key");
  if (signs.includes("screened")) drawing.prepend(hatching(stripes));
  return drawing;
}
