// The time of calls: percentiles on an axis that stretches towards the tail, log(1 / (1 − p)).

import * as Plot from "@observablehq/plot";
import { type CellView, type GroupView, type Interval, ranked, titleOf, type View } from "../data";
import { duration, listed, percent, quantity } from "../format";
import { type Figure, type Note, setting } from "../frame";
import { CURVE_LEAST, draw, heading, legend, logarithmic, logAxis, paper, SERIES_MAX, tip } from "../look";
import { interval, percentileIn } from "../measure";
import { withInterval } from "../outward";
import { seriesOf } from "../series";
import type { Looking } from "../state";
import { seriesMarks } from "./series-marks";

const LINES_MAX = Math.min(6, SERIES_MAX);
/** Room at the ends of the axes; margins left and right; the largest distance between options at a percentile; pixels. */
const [INSET, LEFT, RIGHT, STEP] = [10, 62, 20, 13];
/** Further options are counted. */
const NAMED_MAX = 4;

let part = "total";

/** The percentile of a part of a call, by its key: `total_p99_9_ns` → 0.999. */
export function percentileOf(key: string, part: string): number | null {
  const found = percentileIn(key);
  return found?.part === part ? found.percent / 100 : null;
}

/** The name of an option, with its load if it was measured at its own highest rate. */
export function underLoad({ label, id, call, estimate }: CellView): string {
  const load = call?.knee && estimate.median != null ? `, at ${quantity(estimate.median, estimate.unit)}` : "";
  return `${label || id}${load}`;
}

interface Point extends Interval {
  each: CellView;
  /** The number of the option. */
  at: number;
  p: number;
}

/** The times of the options, as far as they do not depend on a width. */
type Times = ReturnType<typeof timesOf>;

export function percentiles({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const measured = ranked(view, group);
  const hasPart = (each: CellView, name: string) =>
    Object.keys(each.more).some((key) => percentileOf(key, name) != null);
  const parts = ["total", "connect", "write", "first_byte"].filter((name) =>
    measured.some((each) => hasPart(each, name)),
  );
  if (parts.length === 0) return null;
  if (!parts.includes(part)) part = parts[0] ?? "total";
  const timed = measured.filter((each) => hasPart(each, part));
  // The selected one comes first.
  const others = timed.filter((each) => each !== cell);
  const cells = [...timed.filter((each) => each === cell), ...others].slice(0, LINES_MAX);
  const times = timesOf(view, group, cells);
  const options = parts.map((value) => ({ value, text: value === "total" ? "all of it" : value.replace("_", " ") }));
  const untimed = measured.filter((each) => !timed.includes(each));
  return {
    id: "percentiles",
    title: "Latency percentiles",
    caption: captionOf(times),
    notes: notesOf(
      times,
      untimed,
      timed.filter((each) => !cells.includes(each)),
    ),
    controls: setting("part of a call", options, part, (value) => {
      part = value;
      redraw();
    }),
    table: () => ({
      columns: ["cell", "label", "percentile", "ns", "lower_ns", "upper_ns"],
      rows: times.points.map((point) => [
        point.each.id,
        point.each.label,
        point.p,
        point.mid,
        point.lower,
        point.upper,
      ]),
    }),
    draw: (width) => drawn(times, width),
  };
}

function timesOf(view: View, group: GroupView, cells: CellView[]) {
  const points = cells.flatMap(pointsOf);
  return {
    view,
    group,
    cells,
    /** The look of each option. */
    series: seriesOf(view, cells),
    points,
    /** The percentiles, ascending. */
    all: [...new Set(points.map((point) => point.p))].sort((a, b) => a - b),
  };
}

const pointsOf = (each: CellView, at: number): Point[] =>
  Object.entries(each.more)
    .flatMap(([key, { median, lower, upper }]): Point[] => {
      const [p, value] = [percentileOf(key, part), interval(median, lower, upper)];
      return p == null || value == null ? [] : [{ each, at, p, ...value }];
    })
    .sort((a, b) => a.p - b.p);

/** Whether some option has too few percentiles for a line. */
const isLoose = ({ cells, points }: Times): boolean =>
  cells.some((each) => points.filter((point) => point.each === each).length < CURVE_LEAST);

function captionOf({ view, cells, points }: Times): string {
  const what = cells.every((each) => each.trials <= 1) ? "percentiles of one trial each" : "medians over the trials";
  const bars = points.some(({ lower }) => lower != null) ? ` with ${percent(view.plan.level)} intervals` : "";
  const timing = cells[0]?.call?.timing;
  return `Times at the client${timing ? `, ${timing}` : ""}: ${what}${bars}.`;
}

function notesOf(times: Times, untimed: CellView[], others: CellView[]): Note[] {
  const { view, group, cells } = times;
  return [
    `Test: ${titleOf(view, group.id)}.`,
    cells.length > 1 && "Options are side by side at each percentile.",
    "The axis stretches towards the tail; a percentile with fewer than ten calls beyond it is omitted.",
    isLoose(times) && "Two percentiles have no line.",
    cells.length > 1 &&
      cells.some((each) => each.call?.knee) &&
      "Each option is at its own highest rate, so the loads differ: longer times at a higher rate do not mean a slower option.",
    untimed.length > 0 && `With too few calls for a percentile: ${names(untimed)}.`,
    others.length > 0 && `Not drawn: ${names(others)}.`,
  ];
}

const names = (all: CellView[]): string => listed(all.map(underLoad), NAMED_MAX);

const tail = (p: number) => Math.log2(1 / (1 - p));
const place = (ns: number | null) => Math.log2(ns ?? Number.NaN);
/** The place of a point. */
const AT = { x: (point: Point) => tail(point.p), y: (point: Point) => place(point.mid) };
const nameOf = (p: number) => `p${String(Number((p * 100).toFixed(3)))}`;

function drawn(times: Times, width: number): Node[] {
  const { cells, series, points, all } = times;
  const ends = points.flatMap((point) => [point.lower ?? point.mid, point.upper ?? point.mid]);
  const axis = logAxis(Math.min(...ends), Math.max(...ends), duration, 8);
  const across = (width - LEFT - RIGHT - 2 * INSET) / Math.max(tail(all.at(-1) ?? 0) - tail(all[0] ?? 0), 1);
  const gaps = all.slice(1).map((p, at) => across * (tail(p) - tail(all[at] ?? 0)));
  const step = Math.min(STEP, (0.7 * Math.min(...gaps, width)) / cells.length);
  const drawing = draw(width, {
    height: 340,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: 30,
    marginBottom: 40,
    x: {
      ...logarithmic(
        all.map((p) => 1 / (1 - p)),
        (value) => nameOf(1 - 1 / value),
        width / 60,
      ),
      label: "percentile of the calls",
      inset: INSET + (step * (cells.length - 1)) / 2,
    },
    y: { ...axis, inset: INSET },
    marks: [
      heading("Time of a call at its client, log scale", LEFT, -24),
      ...cells.flatMap((_, at) => marks(times, at, step)),
      tip(points, AT, (point) => `${underLoad(point.each)}\n${nameOf(point.p)} ${withInterval(point, "ns")}`),
    ],
  });
  if (cells.length < 2) return [drawing];
  const entries = cells.map((each, at) => ({
    name: underLoad(each),
    series: series[at] ?? at,
    loose: isLoose(times),
  }));
  return [drawing, legend("", entries, width)];
}

/** Ribbon, line, intervals and marks of an option. */
function marks({ cells, series, points }: Times, at: number, step: number): Plot.Markish[] {
  const own = points.filter((point) => point.at === at);
  const dx = (at - (cells.length - 1) / 2) * step;
  const option = seriesMarks({ points: own, look: series[at] ?? at, x: AT.x, place, dx });
  const curve = own.length >= CURVE_LEAST ? own : [];
  return [
    // Ribbons of several options hide each other.
    option.ribbon(cells.length === 1 ? curve.filter((point) => point.lower != null) : [], 0.12),
    option.line(curve, { strokeWidth: 1.5, strokeOpacity: cells.length > 1 ? 0.55 : 1 }),
    option.intervals(2.5),
    option.dots({ stroke: paper(), strokeWidth: 1 }),
  ];
}
