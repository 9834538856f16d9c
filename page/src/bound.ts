// The picture of an interval with the margin. The scale is a square root, so that 1 % and 100 % are both visible; an interval
// beyond the end of the scale has an arrow.

import type { OptionResult } from "./data";
import { svg } from "./dom";
import { percent } from "./format";

type Compared = Pick<OptionResult, "slower_lower" | "slower_upper" | "status">;

export const REACH = 4;
const WIDTH = 178;
const HEIGHT = 26;
const LEFT = 6;
const RIGHT = 16;

/** The place of a share of extra time, in pixels. */
export function place(share: number): number {
  const clipped = Math.min(Math.max(share, 0), REACH);
  return LEFT + (WIDTH - LEFT - RIGHT) * Math.sqrt(clipped / REACH);
}

/** The margin and the axis of an interval. */
function ground(margin: number, attributes: Record<string, string>): SVGSVGElement {
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "bound", ...attributes },
    svg("rect", { x: place(0), y: 2, width: place(margin) - place(0), height: HEIGHT - 4, class: "margin" }),
    svg("line", { x1: place(0), x2: WIDTH - RIGHT, y1: HEIGHT / 2, y2: HEIGHT / 2, class: "axis" }),
    svg("line", { x1: place(margin), x2: place(margin), y1: 2, y2: HEIGHT - 2, class: "margin-line" }),
  );
}

/** The rectangle of a bar; a bar of no length is visible. */
const bar = (from: number, to: number) => ({
  x: place(from),
  y: 8,
  width: Math.max(place(to) - place(from), 2.5),
  height: HEIGHT - 16,
  rx: 2,
});

const arrow = (): SVGPathElement => svg("path", { d: `M${place(REACH)},6 l9,7 l-9,7 z`, class: "beyond" });

/** An interval of extra time: a bar from its lower to its upper end. Its numbers are next to it. */
export function interval(option: Compared, margin: number): SVGSVGElement {
  const { slower_lower: lower, slower_upper: upper, status } = option;
  const root = ground(margin, { "aria-hidden": "true" });
  if (lower == null || upper == null) return root;
  const look = status === "best" ? "within" : status;
  root.append(svg("rect", { ...bar(Math.min(lower, REACH), upper), class: `bar ${look}` }));
  if (upper > REACH) root.append(arrow());
  return root;
}

/** The width of a digit, and the room between two labels; pixels. */
const DIGIT = 7;
const FREE = 4;

/**
 * The labels of the scale with their left and right ends: the margin, and those of 0, 25 %, 100 % and 400 % that have room next
 * to it. The last label has the unit.
 */
export function labels(margin: number): { share: number; text: string; from: number; to: number }[] {
  const label = (share: number) => {
    const text = share === REACH ? percent(share) : percent(share).replace(/\s*%$/, "");
    const [half, end] = [(text.length * DIGIT) / 2, share === REACH];
    return end
      ? { share, text, from: WIDTH - 2 * half, to: WIDTH }
      : { share, text, from: place(share) - half, to: place(share) + half };
  };
  const first = label(margin);
  const clear = (one: typeof first) => one.to + FREE <= first.from || one.from >= first.to + FREE;
  const others = [0, 0.25, 1, REACH].filter((share) => share !== margin).map(label);
  return [first, ...others.filter(clear)].sort((a, b) => a.share - b.share);
}

/** The scale above the pictures. */
export function scale(margin: number): SVGSVGElement {
  const root = svg("svg", { viewBox: `0 0 ${WIDTH} 20`, class: "bound scale", "aria-hidden": "true" });
  for (const { share, text, from, to } of labels(margin)) {
    root.append(
      svg(
        "text",
        { x: share === REACH ? to : (from + to) / 2, y: 11, "text-anchor": share === REACH ? "end" : "middle" },
        text,
      ),
      svg("line", { x1: place(share), x2: place(share), y1: 15, y2: 20, class: "tick" }),
    );
  }
  return root;
}
