// Bounds and the ends of intervals for people: the one rule by which every text of the page has them, as on the terminal.
// An upper end is rounded up and a lower end down, so that a printed interval always contains the computed one and a bound
// never claims more than was shown. Estimates between them are rounded to the nearest.

import { axisUnit, perCent, percent, quantity, trimmed } from "./format";

/** What a number is: an estimate, or an end of its interval. */
export type End = "middle" | "lower" | "upper";

/** What was meant to be round may lie beside itself by so much of its last digit. */
const ROUNDING = 1e-9;

/** Significant digits, to the side on which an end lies. */
export function rounded(value: number, end: End = "middle", count = 3): string {
  if (end === "middle" || value === 0 || !Number.isFinite(value)) return trimmed(value, count);
  const scale = 10 ** Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(value))));
  const parts = value * scale;
  const whole = end === "lower" ? Math.floor(parts + ROUNDING) : Math.ceil(parts - ROUNDING);
  return trimmed(whole / scale, count);
}

/** The end of a mirrored interval: what is told without its sign. */
export const mirrored = (end: End): End => (end === "lower" ? "upper" : end === "upper" ? "lower" : end);

/** A share as a percentage: 12.5 %. */
export const percentOf = (share: number, end: End): string => perCent(rounded(share * 100, end, digitsOf(share)));

/** Digits of a share in per cent. */
const digitsOf = (share: number): number => (Math.abs(share) >= 0.1 ? 3 : 2);

/** From here on a bound says that nothing is known, and its number would say more. */
export const BOUND_MAX = 9;

/** A share that something is at most: what is not within 5 % does not read so. */
export function atMost(share: number): string {
  if (share >= BOUND_MAX) return `>${percent(BOUND_MAX)}`;
  const parts = share >= 0.1 ? 100 : 1000;
  return percent(Math.max(0, Math.ceil(share * parts - ROUNDING)) / parts);
}

/** A share that something is at least. */
export const atLeast = (share: number): string => percentOf(share, "lower");

/** A bound as it stands in a table: `≤ 6.3 %`, or that it is beyond what is told. */
export function upTo(share: number): string {
  const most = atMost(share);
  return most.startsWith(">") ? most : `≤ ${most}`;
}

/** So many times as much: `up to 4.6 ×`. */
export const manyTimes = (times: number): string =>
  times >= 1 + BOUND_MAX ? `over ${1 + BOUND_MAX}\u00a0×` : `up to ${rounded(times, "upper", 2)}\u00a0×`;

/** From here on a bound is told as a multiple. */
const MANY_TIMES = 1;

/** Whether all shares of a group's choices are told as multiples, as its answer is: one number has one notation. */
export const inTimes = ({ recommendation: { bound } }: { recommendation: { bound?: number | null } }): boolean =>
  (bound ?? 0) >= MANY_TIMES;

/** What is shown at the least; as multiples, how many times as much. */
export const least = (lower: number, multiples = false): string =>
  `at least ${multiples ? `${rounded(1 + lower, "lower")}\u00a0×` : atLeast(lower)}`;

/** Both ends, however far they reach. */
export const both = (lower: number, upper: number, multiples = false): string =>
  multiples
    ? `${rounded(1 + lower, "lower")}\u00a0× to ${rounded(1 + upper, "upper", 2)}\u00a0×`
    : `${atLeast(lower)} to ${upper < BOUND_MAX ? atMost(upper) : percentOf(upper, "upper")}`;

/**
 * How much more something takes, from its bound from below to that from above; where it has neither, that it has none. As
 * multiples, how many times as much.
 */
export function range(lower: number | null | undefined, upper: number, multiples = false): string {
  const from = lower ?? 0;
  if (upper < BOUND_MAX) return both(from, upper, multiples);
  return from > 0 ? least(from, multiples) : "no bound";
}

/** The significant digits that an interval has: three, or as many as tell its ends apart. */
const digitsApart = (lower: number, upper: number): number =>
  [3, 4, 5].find((count) => trimmed(lower, count) !== trimmed(upper, count)) ?? 3;

/** `3.85 to 3.99`: the ends of an interval in the unit of what stands before it. */
export function ends(lower: number, upper: number): string {
  const count = digitsApart(lower, upper);
  return `${rounded(lower, "lower", count)} to ${rounded(upper, "upper", count)}`;
}

/** A middle with its interval in brackets, all in the unit that suits the middle: 1.34 GiB/s (0.98 to 1.67). */
export function withInterval(
  { mid, lower, upper }: { mid: number; lower: number | null; upper: number | null },
  unit: string,
): string {
  if (lower == null || upper == null) return quantity(mid, unit);
  const { name, divisor } = axisUnit(unit, mid);
  const [from, to] = [lower / divisor, upper / divisor];
  return `${inUnit(trimmed(mid / divisor, digitsApart(from, to)), name)} (${ends(from, to)})`;
}

/** An upper end by itself, in the unit that suits it. */
export function upperEnd(value: number, unit: string): string {
  const { name, divisor } = axisUnit(unit, value);
  return inUnit(rounded(value / divisor, "upper"), name);
}

const inUnit = (text: string, name: string): string => `${text}\u00a0${name.replaceAll(" ", "\u00a0")}`;
