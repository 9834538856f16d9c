// Differences with their intervals about 0, a row each: the shade is the margin, a crossed row is one that alarms.

import * as Plot from "@observablehq/plot";
import { accent, draw, faint, ink, NARROW, paper, rows as laidOut, warn } from "../look";
import { BOUND_MAX, type End, percentOf, rounded } from "../outward";
import { ratio, ratioTicks, slower } from "./ratio";

export interface Difference {
  id: string;
  label: string;
  mid: number | null;
  lower: number | null;
  upper: number | null;
  alarm: boolean;
  /** A second interval, which knows less: drawn thin. */
  thin?: [number, number] | null;
  /** What is shown of it, in a word at the end of its row. */
  word?: string;
  /** What a hover adds. */
  more: string;
}

/** Rows that reach so many times as far as the middle one are cut off: one that says nothing must not make the others unreadable. */
const FAR_OUT = 4;
/** Nothing is cut off before this. */
const REACH_LEAST = 0.6;

/** Both ends of a row, as far as they are known. */
const endsOf = (row: Difference): number[] =>
  [row.lower, row.mid, row.upper, ...(row.thin ?? [])].filter((end) => end != null);

/** How far the axis reaches from 0: to the farthest row, or to where one is cut off that reaches much farther than the others. */
export function reachOf(rows: Difference[]): number {
  const far = rows.map((row) => Math.max(0, ...endsOf(row).map(Math.abs))).sort((a, b) => a - b);
  // The nearer one of an even number: of two rows one may be the one that says nothing.
  const middle = far[Math.floor((far.length - 1) / 2)] ?? 0;
  return Math.max(REACH_LEAST, Math.min(far.at(-1) ?? 0, FAR_OUT * middle));
}

/**
 * Where values may lie: on both sides of 0, of which both are told, and on the left as a share of one and the same (`both`) or of
 * the other one (`either`: how much longer that one takes, by a scale of ratios, on which twice as long lies as far on either
 * side); as multiples, above 0; or, beside the best, not below it.
 */
export type Sides = "both" | "either" | "times" | "more";

/** From where to where the axis goes, as shares. */
export function domainOf(
  rows: Difference[],
  margin: number,
  reach: number,
  sides: Sides,
  /** What is left free beyond the farthest ends, as a share of the axis. */
  beside = ROOM,
): [number, number] {
  const ends = rows.flatMap(endsOf);
  const top = Math.min(reach, Math.max(margin * 1.4, ...ends));
  const low = sides === "more" ? 0 : Math.max(-reach, Math.min(-margin * 1.4, ...ends));
  // A mark at the end of the axis looks like a part of its name. What is cut off has its arrow there.
  const room = (top - low) * beside;
  const right = ends.some((end) => end > top) ? top : top + room;
  if (sides === "times" || sides === "more") return [low, right];
  const left = ends.some((end) => end < low) ? low : low - room;
  // What is said of either side of 0 has to stand there; and nothing takes less than nothing.
  const side = sides === "either" ? 1 : SIDE;
  const least = sides === "both" ? -1 : -reach - room;
  return [Math.max(least, Math.min(left, -right * side)), Math.max(right, -left * side)];
}
const ROOM = 0.03;
/** How far the shorter side reaches at least, of the longer one: as far, where the same lies as far on either. */
const SIDE = 0.4;

/** How far a row that has nobody beside it, or whose size is what was asked, may reach: a hundred times. */
export const FAR = 99;

export function differences(
  given: Difference[],
  marginShare: number,
  label: string,
  width: number,
  // Beyond that a bound says that nothing is known, as in the ranking.
  reachShare = Math.min(reachOf(given), BOUND_MAX),
  /** `times`: instead of percentages how many times as much, which is 1 where nothing differs. */
  sides: Sides = "both",
): SVGSVGElement {
  const times = sides === "times";
  const ratios = sides === "either";
  const place = (share: number | null) => (ratios && share != null ? ratio.place(share) : share);
  const rows = given.map((row) => ({
    ...row,
    mid: place(row.mid),
    lower: place(row.lower),
    upper: place(row.upper),
  }));
  const [margin, reach] = [place(marginShare) ?? 0, place(reachShare) ?? 0];
  const longer = slower(given.flatMap(endsOf));
  const named = times
    ? (share: number, end?: End) => `${rounded(1 + share, end)}\u00a0×`
    : ratios
      ? (at: number, end?: End) => longer(ratio.share(at), end)
      : (share: number, end: End = "middle") => percentOf(share, end);
  // How far beyond that an end lies says nothing more.
  const farthest = place(FAR) ?? FAR;
  const capped: Named = (share, end) =>
    Math.abs(share) > farthest ? `over ${named(Math.sign(share) * farthest)}` : named(share, end);
  const clip = (share: number | null) => (share == null ? null : Math.max(low, Math.min(share, top)));
  const told = rows.some((row) => row.word);
  const { narrow, left, y, names, height } = laidOut(
    rows,
    (row) => (width < NARROW && row.word ? `${row.word}: ${row.label}` : row.label),
    width,
    // One row alone has its numbers beneath it.
    rows.length === 1 ? 46 : undefined,
  );
  const beside = told && !narrow;
  const marginRight = beside ? 136 : 22;
  const wide = width - left - marginRight;
  // Several have them beside their ends, which takes room that a narrow page, and what has a second interval, has not.
  const numbered = rows.length > 1 && !narrow && rows.every((row) => !row.thin);
  const many = rows.some(({ lower, upper }) => (lower ?? -1) > 0 || (upper ?? 1) < 0) ? 2 : 1;
  const room = numbered ? Math.min((many * NUMBER) / wide, ROOM_MOST) : undefined;
  const [low, top] = domainOf(rows, margin, reach, sides, room);
  const within = (row: Difference) => row.mid != null && row.mid >= low && row.mid <= top;
  const lone = (row: Difference) => within(row) && row.lower == null && row.upper == null;
  const tone = (row: Difference) => (row.alarm ? warn() : accent());
  const zero = (wide * -low) / (top - low);
  // The middle where it has room between the ends.
  const wideEnough = (share: number, row: Difference) =>
    [row.lower, row.upper].every((end) => end == null || Math.abs(share - end) > ((top - low) * NUMBER) / wide);
  const ends = rows.flatMap((row) => {
    const told: [number | null, End][] = [
      [row.lower, "lower"],
      [row.mid != null && wideEnough(row.mid, row) ? row.mid : null, "middle"],
      [row.upper, "upper"],
    ];
    return told.flatMap(([share, end]) =>
      share == null || share < low || share > top ? [] : [{ id: row.id, at: share, text: named(share, end) }],
    );
  });
  /** The numbers at one side of a row: of one that lies on that side of 0 both, since the other end has none. */
  const outer = ({ lower, upper }: Difference, side: -1 | 1): string[] => {
    const shown = (share: number | null, end: End) =>
      share == null || share < low || share > top ? [] : [named(share, end)];
    const [first, last] = [shown(lower, "lower"), shown(upper, "upper")];
    if (upper != null && upper < 0) return side < 0 ? [...first, ...last] : [];
    if (lower != null && lower > 0) return side > 0 ? [...first, ...last] : [];
    return side < 0 ? first : last;
  };
  // What is said of both sides meets at 0, where there is room.
  const [less = "", more = ""] = label.split(" · ");
  const meets = more !== "" && zero > less.length * LETTER && wide - zero + marginRight > more.length * LETTER;
  const side = (text: string, dx: number, textAnchor: "start" | "middle" | "end") =>
    Plot.text([text], { x: 0, frameAnchor: "bottom", dy: 34, dx, textAnchor, fill: ink() });
  // Where they have no room beside each other they stand in two lines.
  const stacked = !meets && more !== "" && label.length * LETTER > wide + 2 * Math.min(left, marginRight);
  const line = (text: string, dy: number, textAnchor: "start" | "end") =>
    Plot.text([text], {
      frameAnchor: textAnchor === "start" ? "bottom-left" : "bottom-right",
      dy,
      textAnchor,
      lineAnchor: "middle",
      fill: ink(),
    });
  const below = stacked ? 58 : 40;
  return draw(width, {
    height: 22 + below + height,
    marginLeft: left,
    marginRight,
    marginTop: 8,
    marginBottom: below,
    x: {
      domain: [low, top],
      grid: true,
      label: meets || stacked ? null : label,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: times
        ? wholes(1 + top, (width - left) / 90)
        : ratios
          ? ratioTicks(low, top, (width - left) / 60)
          : Math.max(3, Math.floor((width - left) / 90)),
      tickFormat: (at: number) => named(at),
    },
    y,
    marks: [
      Plot.rectX([margin], {
        x1: Math.max(low, -margin),
        x2: Math.min(top, margin),
        fill: accent(),
        fillOpacity: 0.12,
      }),
      Plot.ruleX([0], { stroke: faint() }),
      ...(stacked ? [line(less, 34, "start"), line(more, 50, "end")] : []),
      ...(meets ? [side(less, -7, "end"), side("·", 0, "middle"), side(more, 7, "start")] : []),
      names,
      Plot.ruleY(
        rows.filter((row) => row.thin),
        {
          y: "id",
          x1: (row) => clip(row.thin?.[0] ?? null),
          x2: (row) => clip(row.thin?.[1] ?? null),
          stroke: faint(),
          strokeWidth: 1.5,
          strokeDasharray: "5 2",
        },
      ),
      beside
        ? Plot.text(rows, {
            y: "id",
            text: (row) => row.word ?? "",
            frameAnchor: "right",
            textAnchor: "start",
            dx: 14,
            fontWeight: 600,
            fill: ink(),
          })
        : null,
      Plot.ruleY(
        rows.filter((row) => row.lower != null || row.upper != null),
        {
          y: "id",
          x1: (row) => clip(row.lower ?? low),
          x2: (row) => clip(row.upper ?? top),
          stroke: tone,
          strokeWidth: 3,
        },
      ),
      // A mark alone would be taken for a part of its row's name. From end to end, so that nobody takes it for an interval.
      Plot.ruleY(rows.filter(lone), {
        y: "id",
        x1: low,
        x2: top,
        stroke: faint(),
        strokeOpacity: 0.6,
        strokeDasharray: "1 5",
      }),
      Plot.text(
        rows.filter((row) => Math.max(row.upper ?? 0, row.thin?.[1] ?? 0, row.mid ?? 0) > top),
        { y: "id", x: top, text: () => "→", dx: 7, fill: faint() },
      ),
      Plot.text(
        rows.filter((row) => Math.min(row.lower ?? 0, row.thin?.[0] ?? 0, row.mid ?? 0) < low),
        { y: "id", x: low, text: () => "←", dx: -7, fill: faint() },
      ),
      // What is beyond the end has no place there: its number stands for it.
      ...[low, top].map((end) =>
        Plot.text(
          rows.filter((row) => beyond(row, end, low, capped) !== ""),
          {
            y: "id",
            x: end,
            text: (row) => beyond(row, end, low, capped),
            textAnchor: end === low ? "start" : "end",
            dx: end === low ? 4 : -4,
            // Beneath the bar, which would strike it through.
            dy: 13,
            fontWeight: 600,
            fill: ink(),
            stroke: paper(),
            strokeWidth: 3,
          },
        ),
      ),
      // Hollow, as everywhere, is what is roughly known.
      Plot.dot(rows.filter(within), {
        y: "id",
        x: "mid",
        fill: (row) => (lone(row) ? paper() : tone(row)),
        stroke: tone,
        strokeWidth: 1.6,
        r: 4.5,
      }),
      rows.length === 1 ? Plot.text(ends, { y: "id", x: "at", dy: 15, text: "text", fill: ink() }) : null,
      ...(numbered ? ([-1, 1] as const) : []).map((side) =>
        Plot.text(
          rows.filter((row) => outer(row, side).length > 0),
          {
            y: "id",
            x: side < 0 ? "lower" : "upper",
            text: (row) => outer(row, side).join(" to "),
            textAnchor: side < 0 ? "end" : "start",
            dx: 6 * side,
            fill: ink(),
            stroke: paper(),
            strokeWidth: 3,
          },
        ),
      ),
      Plot.dot(
        rows.filter((row) => row.alarm && within(row)),
        { y: "id", x: (row) => clip(row.mid), symbol: "times", stroke: ink(), r: 8, strokeWidth: 2 },
      ),
      Plot.tip(
        rows.filter((row) => row.mid != null),
        Plot.pointerY({
          y: "id",
          x: (row) => clip(row.mid),
          title: (row) => `${row.label}\n${interval(row, capped)}\n${row.more}`,
          fill: paper(),
          lineHeight: 1.3,
        }),
      ),
    ],
  });
}

/** Whole multiples as shares above, as many as there is room for: 1 ×, 10 ×, 20 ×. */
function wholes(most: number, room: number): number[] {
  const step = [1, 2, 5, 10, 20, 50].find((each) => most / each <= Math.max(room, 2)) ?? 100;
  const multiples = Array.from({ length: Math.floor(most / step) }, (_, at) => (at + 1) * step);
  return [1, ...multiples.filter((each) => each > 1)].map((each) => each - 1);
}

/** The room that a number takes, pixels; and of an axis at most. */
const NUMBER = 46;
const ROOM_MOST = 0.2;
/** A letter's width in an axis' name, at most; pixels. */
const LETTER = 7;

/** The numbers of a row that have no place within the axis, at one of its ends. */
function beyond(row: Difference, end: number, low: number, named: Named): string {
  const out = (share: number | null): share is number => share != null && (end === low ? share < low : share > end);
  const [far, word, side] =
    end === low ? ([row.lower, "from", "lower"] as const) : ([row.upper, "to", "upper"] as const);
  const parts = [out(row.mid) ? named(row.mid) : "", out(far) ? `${word} ${named(far, side)}` : ""];
  return parts.filter((part) => part !== "").join(", ");
}

/** A value of a row in words, by what it is of it. */
type Named = (share: number, end?: End) => string;

function interval({ mid, lower, upper }: Difference, named: Named): string {
  const middle = mid == null ? "–" : named(mid);
  return lower == null || upper == null ? middle : `${middle} (${named(lower, "lower")} to ${named(upper, "upper")})`;
}
