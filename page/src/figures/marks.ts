// The marks on the tiles of a heat map and their key: may be the best, recommended, slower.

import * as Plot from "@observablehq/plot";
import { type CellView, optionOf, type View } from "../data";
import { svg } from "../dom";
import { draw, ink, isDark, USED } from "../look";

/** A mark of a tile; `avoid`: slower than the best. */
export type Sign = "best" | "use" | "avoid" | "selected" | "screened" | "empty";

/** Whether a cell is slower than the best. */
export const isSlower = (view: View, cell: CellView): boolean => optionOf(view, cell)?.status === "avoid";

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
    use: "use",
    avoid: "avoid",
    selected: "selected",
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
