// Rounds the ends of intervals, for all texts of the page, as on the terminal: an upper end up and a lower end down, so that a
// printed interval always contains the computed one. Estimates between them are rounded to the nearest.

import { axisUnit, perCent, quantity, trimmed, withUnit } from "./format";

/** What a number is: an estimate, or an end of its interval. */
export type End = "middle" | "lower" | "upper";

/** The largest rounding error of a round number, in its last digit. */
const ROUNDING = 1e-9;

/** Significant digits, rounded outward at an end. */
export function rounded(value: number, end: End = "middle", count = 3): string {
  if (end === "middle" || value === 0 || !Number.isFinite(value)) return trimmed(value, count);
  const scale = 10 ** Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(value))));
  const parts = value * scale;
  const whole = end === "lower" ? Math.floor(parts + ROUNDING) : Math.ceil(parts - ROUNDING);
  return trimmed(whole / scale, count);
}

/** A share as a percentage: 12.5 %. */
export const percentOf = (share: number, end: End): string => perCent(rounded(share * 100, end, digitsOf(share)));

/** Digits of a share in per cent. */
const digitsOf = (share: number): number => (Math.abs(share) >= 0.1 ? 3 : 2);

/** The significant digits of an interval: three, or as many as make its ends different. */
const digitsApart = (lower: number, upper: number): number =>
  [3, 4, 5].find((count) => trimmed(lower, count) !== trimmed(upper, count)) ?? 3;

/** The ends of an interval: `3.85 to 3.99`. */
export function ends(lower: number, upper: number): string {
  const count = digitsApart(lower, upper);
  return `${rounded(lower, "lower", count)} to ${rounded(upper, "upper", count)}`;
}

/** A value with its interval, in the unit of the value: 1.34 GiB/s (0.98 to 1.67). */
export function withInterval(
  { mid, lower, upper }: { mid: number; lower: number | null; upper: number | null },
  unit: string,
): string {
  if (lower == null || upper == null) return quantity(mid, unit);
  const { name, divisor } = axisUnit(unit, mid);
  const [from, to] = [lower / divisor, upper / divisor];
  return `${withUnit(trimmed(mid / divisor, digitsApart(from, to)), name)} (${ends(from, to)})`;
}

/** An upper end without its interval. */
export function upperEnd(value: number, unit: string): string {
  const { name, divisor } = axisUnit(unit, value);
  return withUnit(rounded(value / divisor, "upper"), name);
}
