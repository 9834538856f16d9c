// The picture of an interval with the margin. An interval beyond the end of the scale has an arrow. Places are in per cent of the
// width, so that a picture is as wide as its place.

import type { OptionResult } from "./data";
import { svg } from "./dom";
import { ticksOf, ticksAs } from "./scale";

type Compared = Pick<OptionResult, "slower_lower" | "slower_upper" | "status">;

/** The margin, and the axis, in a test. */
export interface Ground {
  margin: number;
  /** The end of the scale, as a share. */
  reach: number;
  /** Intervals go on beyond it. */
  isCut: boolean;
}

const HEIGHT = 26;
const MIDDLE = HEIGHT / 2;
/** The ends of the scale, per cent of the width: labels and the arrow need room beyond them. */
const [LEFT, RIGHT] = [4, 88];

/** The place of a share of extra time, per cent of the width. */
export const place = (share: number, reach: number): number =>
  LEFT + ((RIGHT - LEFT) * Math.min(Math.max(share, 0), reach)) / reach;

const at = (share: number, reach: number): string => `${place(share, reach).toFixed(2)}%`;

/** A horizontal line between two shares. */
const across = (from: number, to: number, reach: number, look: string): SVGLineElement =>
  svg("line", { x1: at(from, reach), x2: at(to, reach), y1: MIDDLE, y2: MIDDLE, class: look });

/** A vertical line at a share. */
const upright = (share: number, reach: number, half: number, look: string): SVGLineElement =>
  svg("line", { x1: at(share, reach), x2: at(share, reach), y1: MIDDLE - half, y2: MIDDLE + half, class: look });

/** The arrow at the end of the scale: the interval goes on. */
const arrow = (look: string): SVGSVGElement =>
  svg("svg", { x: `${RIGHT}%`, class: "beyond" }, svg("path", { d: `M0,${MIDDLE - 7} l9,7 l-9,7 z`, class: look }));

/** An interval of extra time: a bar from its lower to its upper end. Its numbers are next to it. */
export function interval(option: Compared, { margin, reach }: Ground): SVGSVGElement {
  const { slower_lower: lower, slower_upper: upper, status } = option;
  const root = svg(
    "svg",
    { class: "bound", height: HEIGHT, "aria-hidden": "true" },
    svg("rect", {
      x: `${LEFT}%`,
      width: `${place(margin, reach) - LEFT}%`,
      y: 2,
      height: HEIGHT - 4,
      class: "margin",
    }),
    across(0, reach, reach, "axis"),
    upright(margin, reach, MIDDLE - 2, "margin-line"),
  );
  if (lower == null || upper == null) return root;
  root.append(across(lower, upper, reach, `bar ${status}`));
  // A bar of no length is visible by its end.
  root.append(upper > reach ? arrow(status) : upright(upper, reach, 7, `end ${status}`));
  return root;
}

/** The scale above the pictures. */
export function scale({ reach, isCut }: Ground, multiples: boolean): SVGSVGElement {
  const textOf = ticksAs(multiples, isCut ? reach : null);
  const labels = ticksOf(reach).flatMap((share) => [
    svg("text", { x: at(share, reach), y: 11, "text-anchor": "middle" }, textOf(share)),
    svg("line", { x1: at(share, reach), x2: at(share, reach), y1: 15, y2: 20, class: "tick" }),
  ]);
  return svg("svg", { class: "bound scale", height: 20, "aria-hidden": "true" }, ...labels);
}
