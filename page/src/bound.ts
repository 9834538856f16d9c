// The picture of an interval with the margin, on a linear scale of "slower than the best". An interval beyond the end of the scale has an arrow. Places are in per cent of the
// width, so that a picture is as wide as its place.

import type { OptionResult, View } from "./data";
import { svg } from "./dom";
import { percent } from "./format";

type Compared = Pick<OptionResult, "slower_lower" | "slower_upper" | "status">;

/** The margin, and the scale: the same for all tests of a session, so that their bars can be compared. */
export type Ground = ReturnType<typeof groundOf>;

export function groundOf(view: View) {
  const reach = scaleEnd(view);
  const uppers = view.tests.flatMap(({ options }) => options.map(({ slower_upper: upper }) => upper ?? 0));
  return {
    margin: view.plan.margin,
    /** The end of the scale, as a share. */
    reach,
    /** Intervals go on beyond it. */
    isCut: uppers.some((upper) => upper > reach),
  };
}

/** The ends that a scale can have, as shares. */
const ENDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
/** The scale has room for this share of the intervals; an interval beyond its end has an arrow. */
const INSIDE = 0.8;
/** A longer scale has no room for the margin: it is used only where half of the intervals need it. */
const [USUAL, HALF] = [2, 0.5];

/** The end of the scale of a session. */
export function scaleEnd({ tests }: Pick<View, "tests">): number {
  const ends = tests.flatMap(({ options }) => options.flatMap(({ slower_upper: upper }) => upper ?? []));
  ends.sort((a, b) => a - b);
  const end = (share: number) => ends[Math.ceil(share * ends.length) - 1] ?? 0;
  const inside = Math.min(end(INSIDE), Math.max(USUAL, end(HALF)));
  const far = Math.max(inside, ...tests.map(({ margin }) => 2 * margin));
  return ENDS.find((end) => far <= end) ?? far;
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
  const labels = [0, reach / 2, reach].flatMap((share) => [
    svg("text", { x: at(share, reach), y: 11, "text-anchor": "middle" }, textOf(share)),
    svg("line", { x1: at(share, reach), x2: at(share, reach), y1: 15, y2: 20, class: "tick" }),
  ]);
  return svg("svg", { class: "bound scale", height: 20, "aria-hidden": "true" }, ...labels);
}

/** The labels as texts: 50 %, or 1.5× where the texts of the test are multiples; `200 % →` where the scale is `cut`. */
export const ticksAs =
  (multiples: boolean, cut: number | null) =>
  (share: number): string =>
    `${multiples ? `${Number((1 + share).toPrecision(3))}×` : percent(share)}${share === cut ? "\u00a0→" : ""}`;
