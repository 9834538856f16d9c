// Differences with their intervals about 0, a row each: the shade is the margin, a crossed row is one that alarms.

import * as Plot from "@observablehq/plot";
import { percent, trimmed } from "../format";
import { accent, draw, faint, ink, NARROW, paper, rows as laidOut, warn } from "../look";

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

/** What lies beyond is cut off: one row that says nothing must not make the others unreadable. */
const REACH = 0.6;

/** How far a row that has nobody beside it, or whose size is what was asked, may reach: a hundred times. */
export const FAR = 99;

export function differences(
  rows: Difference[],
  margin: number,
  label: string,
  width: number,
  reach = REACH,
  /** Instead of percentages above: how many times as much, which is 1 where nothing differs. */
  times = false,
): SVGSVGElement {
  const named = times ? (share: number) => `${trimmed(1 + share)}\u00a0×` : signed;
  const ends = rows.flatMap((row) => [row.lower ?? row.mid ?? 0, row.upper ?? row.mid ?? 0, ...(row.thin ?? [])]);
  const low = Math.max(-reach, Math.min(-margin * 1.4, ...ends));
  const top = Math.min(reach, Math.max(margin * 1.4, ...ends));
  const clip = (share: number | null) => (share == null ? null : Math.max(low, Math.min(share, top)));
  const told = rows.some((row) => row.word);
  const { narrow, left, y, names, height } = laidOut(
    rows,
    (row) => (width < NARROW && row.word ? `${row.word}: ${row.label}` : row.label),
    width,
  );
  const beside = told && !narrow;
  const within = (row: Difference) => row.mid != null && row.mid >= low && row.mid <= top;
  const tone = (row: Difference) => (row.alarm ? warn() : accent());
  return draw(width, {
    height: 62 + height,
    marginLeft: left,
    marginRight: beside ? 120 : 22,
    marginTop: 8,
    marginBottom: 40,
    x: {
      domain: [low, top],
      grid: true,
      label,
      labelArrow: "none",
      labelAnchor: "center",
      ticks: times ? wholes(1 + top, (width - left) / 90) : Math.max(3, Math.floor((width - left) / 90)),
      tickFormat: named,
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
      Plot.text(
        rows.filter((row) => Math.max(row.upper ?? 0, row.thin?.[1] ?? 0, row.mid ?? 0) > top),
        { y: "id", x: top, text: () => "▶", dx: 6, fill: faint() },
      ),
      Plot.text(
        rows.filter((row) => Math.min(row.lower ?? 0, row.thin?.[0] ?? 0, row.mid ?? 0) < low),
        { y: "id", x: low, text: () => "◀", dx: -6, fill: faint() },
      ),
      // A middle beyond the end has no place there: its number stands for it.
      ...[low, top].map((end) =>
        Plot.text(
          rows.filter((row) => row.mid != null && (end === low ? row.mid < low : row.mid > top)),
          {
            y: "id",
            x: end,
            text: (row) => named(row.mid ?? 0),
            textAnchor: end === low ? "start" : "end",
            dx: end === low ? 4 : -4,
            fontWeight: 600,
            fill: ink(),
            stroke: paper(),
            strokeWidth: 5,
          },
        ),
      ),
      Plot.dot(rows.filter(within), { y: "id", x: "mid", fill: tone, r: 4.5 }),
      Plot.dot(
        rows.filter((row) => row.alarm && within(row)),
        { y: "id", x: (row) => clip(row.mid), symbol: "times", stroke: ink(), r: 8, strokeWidth: 2 },
      ),
      Plot.tip(
        rows.filter((row) => row.mid != null),
        Plot.pointerY({
          y: "id",
          x: (row) => clip(row.mid),
          title: (row) => `${row.label}\n${interval(row, named)}\n${row.more}`,
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

const signed = (share: number): string => percent(share).replace("-", "−");

function interval({ mid, lower, upper }: Difference, named: (share: number) => string): string {
  const middle = mid == null ? "–" : named(mid);
  return lower == null || upper == null ? middle : `${middle} (${named(lower)} to ${named(upper)})`;
}
