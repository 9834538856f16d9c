// A scale for the slower of two: ratios, so that "twice as long" is at the same distance on both sides. All numbers of one figure
// are percentages, or all are multiples.

import { type End, mirrored, percentOf, rounded } from "../outward";

/** Above this share numbers are multiples, as in the document's texts. */
const MULTIPLE = 2;

/** The place of a share on a scale of ratios, and the share at a place. */
export const ratio = {
  place: (share: number): number => Math.sign(share) * Math.log1p(Math.abs(share)),
  share: (place: number): number => Math.sign(place) * Math.expm1(Math.abs(place)),
};

/** Whether the numbers of a figure are multiples. */
export const inMultiples = (shares: (number | null)[]): boolean =>
  shares.some((share) => share != null && Math.abs(share) > MULTIPLE);

/** How much longer the slower one takes, as text: percentages or multiples for all numbers of a figure. */
export function slower(shares: (number | null)[]): (share: number, end?: End) => string {
  const multiples = inMultiples(shares);
  return (share, end = "middle") => {
    const [size, side] = [Math.abs(share), share < 0 ? mirrored(end) : end];
    return multiples ? `${rounded(1 + size, side)}×` : percentOf(size, side);
  };
}

/** Round shares on both sides of 0 that have room on a scale of ratios from `low` to `top`, as places. */
export function ratioTicks(low: number, top: number, room: number): number[] {
  const least = (top - low) / Math.max(room, 2);
  const steps = top - low > 0.4 ? [0.1, 0.25, 0.5, 1, 2, 4, 9, 19, 49, 99] : [0.01, 0.02, 0.05, 0.1, 0.2];
  const from = (sign: 1 | -1) => {
    const found: number[] = [];
    for (const step of steps) {
      const at = ratio.place(step);
      const inside = sign > 0 ? at <= top : -at >= low;
      if (inside && at - (found.at(-1) ?? 0) >= least) found.push(at);
    }
    return found.map((at) => sign * at);
  };
  return [...from(-1).reverse(), 0, ...from(1)];
}
