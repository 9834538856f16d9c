// The scale of "slower than the best": linear, and the same for all tests of a session, so that their bars can be compared.

import type { View } from "./data";
import { percent } from "./format";

/** The ends that a scale can have, as shares. */
const ENDS = [0.1, 0.2, 0.5, 1, 2];
/** The scale has room for this share of the intervals; an interval beyond its end has an arrow. */
const INSIDE = 0.8;

/** The end of the scale of a session. */
export function scaleEnd({ tests }: Pick<View, "tests">): number {
  const ends = tests.flatMap(({ options }) => options.flatMap(({ slower_upper: upper }) => upper ?? []));
  const inside = ends.sort((a, b) => a - b)[Math.ceil(INSIDE * ends.length) - 1] ?? 0;
  const far = Math.max(inside, ...tests.map(({ margin }) => 2 * margin));
  return ENDS.find((end) => far <= end) ?? Math.max(2, 2 * Math.max(...tests.map(({ margin }) => margin)));
}

/** The labels of the scale. */
export const ticksOf = (reach: number): number[] => [0, reach / 2, reach];

/** A label: 50 %, or 1.5× where the texts of the test are multiples. */
export const tickText = (share: number, multiples: boolean): string =>
  multiples ? `${Number((1 + share).toPrecision(3))}×` : percent(share);
