// The picture of a bound: where the margin is and how far the bound reaches. The scale is the square root, so that 1 % and
// 100 % are both seen; what reaches beyond the end of the scale has an arrow.

import { svg } from "./dom";
import { atMost, percent } from "./format";

export const REACH = 4;
const WIDTH = 220;
const HEIGHT = 26;
const LEFT = 6;
const RIGHT = 16;

/** Where a cost above the best stands, in pixels. */
export function place(share: number): number {
  const clipped = Math.min(Math.max(share, 0), REACH);
  return LEFT + (WIDTH - LEFT - RIGHT) * Math.sqrt(clipped / REACH);
}

export interface Bound {
  lower: number | null;
  upper: number | null;
  margin: number;
  proven: boolean;
}

/** The bound in words, for who does not see it. */
export function inWords({ lower, upper, margin, proven }: Bound): string {
  if (upper == null) return "no bound: nothing was compared";
  const from = lower != null && lower > 0 ? `between ${percent(lower)} and ` : "at most ";
  return `${from}${atMost(upper)} dearer than the best confirmed, ${proven ? "shown" : "not shown"} to be within ${percent(margin)}`;
}

/** The picture. `id` names its hatching. */
export function picture(bound: Bound, id: string): SVGSVGElement {
  const { lower, upper, margin, proven } = bound;
  const root = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    class: "bound",
    role: "img",
    "aria-label": inWords(bound),
  });
  const pattern = svg(
    "pattern",
    { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svg("rect", { width: 6, height: 6, class: "hatch-paper" }),
    svg("rect", { width: 2.5, height: 6, class: "hatch-ink" }),
  );
  root.append(
    svg("defs", {}, pattern),
    svg("rect", { x: place(0), y: 2, width: place(margin) - place(0), height: HEIGHT - 4, class: "margin" }),
    svg("line", { x1: place(0), x2: WIDTH - RIGHT, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "axis" }),
    svg("line", { x1: place(margin), x2: place(margin), y1: 2, y2: HEIGHT - 2, class: "margin-line" }),
  );
  if (upper != null) {
    const [from, to] = [place(lower ?? 0), place(upper)];
    const bar = { x: from, y: 8, width: Math.max(to - from, 2.5), height: HEIGHT - 16, rx: 2 };
    root.append(
      svg("rect", { ...bar, class: proven ? "bar proven" : "bar open", ...(proven ? {} : { fill: `url(#${id})` }) }),
    );
    if (upper > REACH) root.append(svg("path", { d: `M${to},6 l9,7 l-9,7 z`, class: "beyond" }));
  }
  return root;
}

/** The scale above the pictures. */
export function scale(margin: number): SVGSVGElement {
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} 16`, class: "bound scale", "aria-hidden": "true" });
  const marks = [margin, 0.25, 1, REACH].filter((share, at) => at === 0 || place(share) - place(margin) > 30);
  for (const share of marks) {
    const anchor = share === REACH ? "end" : "middle";
    root.append(
      svg("text", { x: share === REACH ? WIDTH - 2 : place(share), y: 12, "text-anchor": anchor }, percent(share)),
    );
  }
  return root;
}
