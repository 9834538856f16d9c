// Differences with their intervals around 0, one in each row. The shade is the margin; a crossed row is an alarm.

import { draw, NARROW, rows as laidOut } from "../look";
import { type End, percentOf, rounded } from "../outward";
import { axis, marks } from "./differences-marks";
import { ratio, slower } from "./ratio";

export interface Difference {
  id: string;
  label: string;
  mid: number | null;
  lower: number | null;
  upper: number | null;
  alarm: boolean;
  /** A second interval, of two single runs: dashed. */
  thin?: [number, number] | null;
  /** The result, at the end of its row. */
  word?: string;
  /** The last line of the tip. */
  more: string;
}

/** Rows that reach farther than this multiple of the median row are cut off: one wide interval would flatten the others. */
const FAR_OUT = 4;
/** The least reach of the axis. */
const REACH_LEAST = 0.6;

/** The known numbers of a row. */
export const endsOf = (row: Difference): number[] =>
  [row.lower, row.mid, row.upper, ...(row.thin ?? [])].filter((end) => end != null);

/** The reach of the axis from 0: the farthest row, or the place where a much wider one is cut off. */
export function reachOf(rows: Difference[]): number {
  const far = rows.map((row) => Math.max(0, ...endsOf(row).map(Math.abs))).sort((a, b) => a - b);
  // The lower median: one of two rows can be the wide one.
  const middle = far[Math.floor((far.length - 1) / 2)] ?? 0;
  return Math.max(REACH_LEAST, Math.min(far.at(-1) ?? 0, FAR_OUT * middle));
}

/**
 * The kind of the axis. `both`: shares of one subject, on both sides of 0. `either`: how much longer the slower one of two takes,
 * on a scale of ratios. `times`: multiples. `more`: shares above the best, never below 0.
 */
export type Sides = "both" | "either" | "times" | "more";

/** The ends of the axis, as shares. */
export function domainOf(
  rows: Difference[],
  margin: number,
  reach: number,
  sides: Sides,
  /** The free room beyond each of the farthest ends, as a share of the distance between them. */
  margins = ROOM,
): [number, number] {
  const ends = rows.flatMap(endsOf);
  const top = Math.min(reach, Math.max(margin * 1.4, ...ends));
  const low = sides === "more" ? 0 : Math.max(-reach, Math.min(-margin * 1.4, ...ends));
  // A mark at the end of the axis would look like a part of its name. A row that is cut off has its arrow there.
  const span = sides === "either" ? 2 * Math.max(top, -low) : top - low;
  const room = span * margins;
  const right = ends.some((end) => end > top) ? top : top + room;
  if (sides === "times" || sides === "more") return [low, right];
  const left = ends.some((end) => end < low) ? low : low - room;
  // The texts about both sides of 0 need room; and nothing takes less than no time.
  const side = sides === "either" ? 1 : SIDE;
  const least = sides === "both" ? -1 : -reach - room;
  return [Math.max(least, Math.min(left, -right * side)), Math.max(right, -left * side)];
}
const ROOM = 0.03;
/** The least length of the shorter side, as a share of the longer one. */
const SIDE = 0.4;

/** The reach of a figure with one row, or of requested sizes: a hundred times. */
export const FAR = 99;
/** The reach of other figures at most. */
const SHARE_MAX = 9;

/** How a figure of differences looks. */
export interface Look {
  margin: number;
  /** The text below the axis; ` · ` separates the texts of both sides. */
  label: string;
  width: number;
  reach?: number;
  sides?: Sides;
}

/** A value of a row as text. */
export type Named = (share: number, end?: End) => string;

/** What the marks of a figure share. Values are places on the axis. */
export interface Laid {
  rows: Difference[];
  look: Look;
  sides: Sides;
  margin: number;
  low: number;
  top: number;
  /** The width of the plot, and its margins; pixels. */
  plot: number;
  left: number;
  right: number;
  named: Named;
  /** The same, with `over` for values beyond the largest number. */
  capped: Named;
  /** Rows have their numbers next to the ends of their bars. */
  numbered: boolean;
  /** The results are next to the rows. */
  worded: boolean;
}

/** The room of a number, pixels, and the largest share of the axis that numbers take, on a wide page and on a narrow one. */
export const NUMBER = 46;
const [NUMBERS_MAX, NUMBERS_MAX_NARROW] = [0.2, 0.3];
/** The margin with and without results; pixels. */
const [WORDS, BARE] = [136, 22];

export function differences(given: Difference[], look: Look): SVGSVGElement {
  const { width, margin, sides = "both", reach = Math.min(reachOf(given), SHARE_MAX) } = look;
  const place = (share: number | null) => (sides === "either" && share != null ? ratio.place(share) : share);
  const rows = given.map((row) => ({
    ...row,
    mid: place(row.mid),
    lower: place(row.lower),
    upper: place(row.upper),
  }));
  const isNarrow = width < NARROW;
  const { narrow, left, y, names, height } = laidOut(
    rows,
    (row) => (isNarrow && row.word ? `${row.word}: ${row.label}` : row.label),
    width,
    // A single row has its numbers below.
    rows.length === 1 ? 46 : undefined,
  );
  const worded = rows.some((row) => row.word) && !narrow;
  const right = worded ? WORDS : BARE;
  const plot = width - left - right;
  const numbered = rows.length > 1 && rows.every((row) => !row.thin);
  const share = Math.min(NUMBER / plot, narrow ? NUMBERS_MAX_NARROW : NUMBERS_MAX);
  const room = numbered ? share / (1 - 2 * share) : undefined;
  const [low, top] = domainOf(rows, place(margin) ?? 0, place(reach) ?? 0, sides, room);
  const named = namedBy(given, sides);
  const farthest = place(FAR) ?? FAR;
  const laid: Laid = {
    rows,
    look,
    sides,
    margin: place(margin) ?? 0,
    low,
    top,
    plot,
    left,
    right,
    named,
    capped: (share, end) =>
      Math.abs(share) > farthest ? `over ${named(Math.sign(share) * farthest)}` : named(share, end),
    numbered,
    worded,
  };
  const { below, x, texts } = axis(laid);
  return draw(width, {
    height: 22 + below + height,
    marginLeft: left,
    marginRight: right,
    marginTop: 8,
    marginBottom: below,
    x,
    y,
    marks: [...texts, names, ...marks(laid)],
  });
}

/** How the numbers of a figure are written. */
function namedBy(given: Difference[], sides: Sides): Named {
  if (sides === "times") return (share, end) => `${rounded(1 + share, end)}×`;
  const longer = slower(given.flatMap(endsOf));
  if (sides === "either") return (at, end) => longer(ratio.share(at), end);
  return (share, end = "middle") => percentOf(share, end);
}
