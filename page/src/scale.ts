// The scale of "slower than the best": linear, and the same for all tests of a session, so that their bars can be compared.

import type { View } from "./data";
import { percent } from "./format";

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

/** The labels of the scale. */
export const ticksOf = (reach: number): number[] => [0, reach / 2, reach];

/** Whether an interval goes on beyond the end of the scale. */
export const isBeyond = ({ tests }: Pick<View, "tests">, reach: number): boolean =>
  tests.some(({ options }) => options.some(({ slower_upper: upper }) => (upper ?? 0) > reach));

/** The labels as texts: 50 %, or 1.5× where the texts of the test are multiples; `200 % →` where the scale is `cut`. */
export const ticksAs =
  (multiples: boolean, cut: number | null) =>
  (share: number): string =>
    `${multiples ? `${Number((1 + share).toPrecision(3))}×` : percent(share)}${share === cut ? "\u00a0→" : ""}`;
