// The marks and the axis of a figure of differences.

import * as Plot from "@observablehq/plot";
import { accent, faint, ink, paper, warn } from "../look";
import type { End } from "../outward";
import { type Difference, type Laid, type Named, NUMBER } from "./differences";
import { ratioTicks } from "./ratio";

/** The width of a letter of the axis' text at most; pixels. */
const LETTER = 7;

/** The axis, the texts below it, and the room that they take. */
export function axis(laid: Laid): { below: number; x: Plot.ScaleOptions; texts: Plot.Markish[] } {
  const { look, sides, low, top, plot, left, right, named } = laid;
  // The texts of both sides meet at 0 if they have room; else they are in one line, or in two.
  const [less = "", more = ""] = look.label.split(" · ");
  const zero = (plot * -low) / (top - low);
  const meets = more !== "" && zero > less.length * LETTER && plot - zero + right > more.length * LETTER;
  const stacked = !meets && more !== "" && look.label.length * LETTER > plot + 2 * Math.min(left, right);
  const side = (text: string, dx: number, textAnchor: "start" | "middle" | "end") =>
    Plot.text([text], { x: 0, frameAnchor: "bottom", dy: 34, dx, textAnchor, fill: ink() });
  const line = (text: string, dy: number, textAnchor: "start" | "end") =>
    Plot.text([text], {
      frameAnchor: textAnchor === "start" ? "bottom-left" : "bottom-right",
      dy,
      textAnchor,
      lineAnchor: "middle",
      fill: ink(),
    });
  return {
    below: stacked ? 58 : 40,
    x: {
      domain: [low, top],
      grid: true,
      label: meets || stacked ? null : look.label,
      labelArrow: "none",
      labelAnchor: "center",
      ticks:
        sides === "times"
          ? wholes(1 + top, (look.width - left) / 90)
          : sides === "either"
            ? ratioTicks(low, top, (look.width - left) / 60)
            : Math.max(3, Math.floor((look.width - left) / 90)),
      tickFormat: (at: number) => named(at),
    },
    texts: [
      ...(stacked ? [line(less, 34, "start"), line(more, 50, "end")] : []),
      ...(meets ? [side(less, -7, "end"), side("·", 0, "middle"), side(more, 7, "start")] : []),
    ],
  };
}

/** Whole multiples as shares above 1, as many as have room: 1×, 10×, 20×. */
function wholes(most: number, room: number): number[] {
  const step = [1, 2, 5, 10, 20, 50].find((each) => most / each <= Math.max(room, 2)) ?? 100;
  const multiples = Array.from({ length: Math.floor(most / step) }, (_, at) => (at + 1) * step);
  return [1, ...multiples.filter((each) => each > 1)].map((each) => each - 1);
}

const isWithin = ({ low, top }: Laid, { mid }: Difference): boolean => mid != null && mid >= low && mid <= top;
const isLone = (laid: Laid, row: Difference): boolean => isWithin(laid, row) && row.lower == null && row.upper == null;
const tone = (row: Difference): string => (row.alarm ? warn() : accent());
const clip = ({ low, top }: Laid, share: number | null): number | null =>
  share == null ? null : Math.max(low, Math.min(share, top));

export function marks(laid: Laid): Plot.Markish[] {
  const { rows, margin, low, top, capped } = laid;
  return [
    Plot.rectX([margin], { x1: Math.max(low, -margin), x2: Math.min(top, margin), fill: accent(), fillOpacity: 0.12 }),
    Plot.ruleX([0], { stroke: faint() }),
    ...bars(laid),
    ...arrows(laid),
    // A hollow mark has no interval.
    Plot.dot(
      rows.filter((row) => isWithin(laid, row)),
      {
        y: "id",
        x: "mid",
        fill: (row) => (isLone(laid, row) ? paper() : tone(row)),
        stroke: tone,
        strokeWidth: 1.6,
        r: 4.5,
      },
    ),
    ...numbers(laid),
    Plot.dot(
      rows.filter((row) => row.alarm && isWithin(laid, row)),
      { y: "id", x: (row) => clip(laid, row.mid), symbol: "times", stroke: ink(), r: 8, strokeWidth: 2 },
    ),
    Plot.tip(
      rows.filter((row) => row.mid != null),
      Plot.pointerY({
        y: "id",
        x: (row) => clip(laid, row.mid),
        title: (row) => `${row.label}\n${interval(row, capped)}\n${row.more}`,
        fill: paper(),
        lineHeight: 1.3,
      }),
    ),
  ];
}

/** Intervals, those of single runs, and a dotted line under a mark without an interval, which else looks like a part of a name. */
function bars(laid: Laid): Plot.Markish[] {
  const { rows, low, top, worded } = laid;
  return [
    Plot.ruleY(
      rows.filter((row) => row.thin),
      {
        y: "id",
        x1: (row) => clip(laid, row.thin?.[0] ?? null),
        x2: (row) => clip(laid, row.thin?.[1] ?? null),
        stroke: faint(),
        strokeWidth: 1.5,
        strokeDasharray: "5 2",
      },
    ),
    worded
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
        x1: (row) => clip(laid, row.lower ?? low),
        x2: (row) => clip(laid, row.upper ?? top),
        stroke: tone,
        strokeWidth: 3,
      },
    ),
    Plot.ruleY(
      rows.filter((row) => isLone(laid, row)),
      { y: "id", x1: low, x2: top, stroke: faint(), strokeOpacity: 0.6, strokeDasharray: "1 5" },
    ),
  ];
}

/** Arrows at the ends of the axis, with the numbers of the rows that leave it. */
function arrows(laid: Laid): Plot.Markish[] {
  const { rows, low, top, capped } = laid;
  return [
    Plot.text(
      rows.filter((row) => Math.max(row.upper ?? 0, row.thin?.[1] ?? 0, row.mid ?? 0) > top),
      { y: "id", x: top, text: () => "→", dx: 7, fill: faint() },
    ),
    Plot.text(
      rows.filter((row) => Math.min(row.lower ?? 0, row.thin?.[0] ?? 0, row.mid ?? 0) < low),
      { y: "id", x: low, text: () => "←", dx: -7, fill: faint() },
    ),
    ...[low, top].map((end) =>
      Plot.text(
        rows.filter((row) => beyond(row, end, low, capped) !== ""),
        {
          y: "id",
          x: end,
          text: (row) => beyond(row, end, low, capped),
          textAnchor: end === low ? "start" : "end",
          dx: end === low ? 4 : -4,
          // Below the bar.
          dy: 13,
          fontWeight: 600,
          fill: ink(),
          stroke: paper(),
          strokeWidth: 3,
        },
      ),
    ),
  ];
}

/** The numbers of a row beyond one end of the axis. */
function beyond(row: Difference, end: number, low: number, named: Named): string {
  const out = (share: number | null): share is number => share != null && (end === low ? share < low : share > end);
  const [far, word, side] =
    end === low ? ([row.lower, "from", "lower"] as const) : ([row.upper, "to", "upper"] as const);
  const parts = [out(row.mid) ? named(row.mid) : "", out(far) ? `${word} ${named(far, side)}` : ""];
  return parts.filter((part) => part !== "").join(", ");
}

/** The numbers of a single row below its bar, or of several next to the ends of their bars. */
function numbers(laid: Laid): Plot.Markish[] {
  const { rows, numbered } = laid;
  if (rows.length === 1)
    return [
      Plot.text(
        rows.flatMap((row) => ends(laid, row)),
        { y: "id", x: "at", dy: 15, text: "text", fill: ink() },
      ),
    ];
  if (!numbered) return [];
  return ([-1, 1] as const).map((side) =>
    Plot.text(
      rows.filter((row) => outer(laid, row, side) !== ""),
      {
        y: "id",
        x: side < 0 ? "lower" : "upper",
        text: (row) => outer(laid, row, side),
        textAnchor: side < 0 ? "end" : "start",
        dx: 6 * side,
        fill: ink(),
        stroke: paper(),
        strokeWidth: 3,
      },
    ),
  );
}

/** The numbers of a row within the axis; the middle one if it has room between the ends. */
function ends({ low, top, plot, named }: Laid, row: Difference): { id: string; at: number; text: string }[] {
  const hasRoom = (share: number) =>
    [row.lower, row.upper].every((end) => end == null || Math.abs(share - end) > ((top - low) * NUMBER) / plot);
  const all: [number | null, End][] = [
    [row.lower, "lower"],
    [row.mid != null && hasRoom(row.mid) ? row.mid : null, "middle"],
    [row.upper, "upper"],
  ];
  return all.flatMap(([share, end]) =>
    share == null || share < low || share > top ? [] : [{ id: row.id, at: share, text: named(share, end) }],
  );
}

/** The number at one end of a row; empty if the axis does not reach it. */
function outer({ low, top, named }: Laid, { lower, upper }: Difference, side: -1 | 1): string {
  const [share, end] = side < 0 ? ([lower, "lower"] as const) : ([upper, "upper"] as const);
  return share == null || share < low || share > top ? "" : named(share, end);
}

function interval({ mid, lower, upper }: Difference, named: Named): string {
  const middle = mid == null ? "–" : named(mid);
  return lower == null || upper == null ? middle : `${middle} (${named(lower, "lower")} to ${named(upper, "upper")})`;
}
