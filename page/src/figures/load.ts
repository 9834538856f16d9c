// The options under an offered load: CPU time, latency, and the answered share, each as a sweep over the load, which is the same
// for all options.

import { axisName, type CellView, factorOf, isMeasured, isRecommended, level, type View } from "../data";
import { percent } from "../format";
import { type Figure, setting } from "../frame";
import { follows, levels, varying } from "../levels";
import { ink, sideBySide, single } from "../look";
import { costOf, interval, type Measure, nameOf } from "../measure";
import type { Looking } from "../state";
import { percentileOf } from "./percentiles";
import { keyOf, lines, rangeOf } from "./sweep-lines";
import { caption, hasBars, hollow, NONE, type Over, type Sweep, sweepOf, table } from "./sweep-data";

let percentile = "total_p99_ns";

const LOAD = "call_rate";
/** From this width on three panels are side by side; pixels. */
const WIDE = 840;

const short = (key: string) => nameOf(key).replace("latency ", "");
const offered = (cell: CellView): number => Number(level(cell, LOAD));
const reached = ({ estimate }: CellView): number => estimate.median ?? 0;
const isLate = ({ plan }: View, cell: CellView): boolean => reached(cell) < offered(cell) * plan.answered_share;

export function load(looking: Looking, redraw: () => void): Figure | null {
  const { view, cell } = looking;
  const calls = view.cells.filter(
    (each) => each.kind === "candidate" && isMeasured(each) && each.call && typeof level(each, LOAD) === "number",
  );
  if (!cell || levels(calls, LOAD).length < 2) return null;
  const keys = [...new Set(calls.flatMap(({ more }) => Object.keys(more)))].filter(
    (key) => percentileOf(key, "total") != null,
  );
  if (!keys.includes(percentile)) percentile = keys.find((key) => key.includes("p99")) ?? keys[0] ?? percentile;
  const options = keys.map((value) => ({ value, text: short(value) }));
  const colour = colourOf(view, calls);
  const sweeps = sweepsOf(looking, cell, calls, colour, keys.length > 0);
  const [{ cells, fc, fixed }] = sweeps;
  const marks = sweeps.flatMap((sweep) => sweep.over.filter(({ is }) => cells.some(is)));
  const without = cells.filter((each) => keys.length > 0 && sweeps.some(({ measure }) => measure.of(each) == null));
  return {
    id: "load",
    holds: fixed,
    title: colour ? `Options of ${axisName(fc)} by offered load` : "Cost of an offered load",
    caption: caption(sweeps.find(hasBars) ?? sweeps[0]),
    notes: [
      sweeps.some(hasBars) && "A mark without a line has too few trials.",
      hollow(sweeps[0]),
      cells.some((each) => isLate(view, each)) &&
        `A latency is crossed if less than ${percent(view.plan.answered_share)} of the load was answered: calls queue there.`,
      cells.some((each) => reached(each) > 1.02 * offered(each)) &&
        "More than 100 % are answered if calls that were due before the window are answered in it.",
      without.length > 0 && `Of ${cells.length} marks ${without.length} are missing, since too few calls were made.`,
    ],
    controls: setting("percentile", options, percentile, (key) => {
      percentile = key;
      redraw();
    }),
    table: () => table(sweeps),
    draw: (width) => [
      sideBySide(sweeps, width, width >= WIDE ? 3 : 2, (sweep, each) =>
        lines(sweep, cells, sweep.measure.label, each, rangeOf(sweep.measure, cells, sweep.reference), 280),
      ),
      ...keyOf(
        sweeps[0],
        marks.map(({ name, look }) => ({ name, marks: single(look()) })),
        width,
      ),
    ],
  };
}

/** The factor of the colours: an option before a condition. */
function colourOf(view: View, calls: CellView[]): string {
  const free = varying(calls, view.plan.varied).filter((factor) => factor !== LOAD && !follows(calls, factor, [LOAD]));
  return free.find((factor) => factorOf(view, factor).role === "choice") ?? free[0] ?? NONE;
}

/** The panels. The recommended option has a ring where the options are compared, and a latency a cross where calls queue. */
function sweepsOf({ view, group }: Looking, cell: CellView, calls: CellView[], colour: string, timed: boolean) {
  const sweepBy = (measure: Measure, more: Partial<Sweep> = {}): Sweep => ({
    ...sweepOf(view, group, calls, cell, { x: LOAD, colour, facet: NONE }, measure),
    xName: "calls per second, offered",
    ...more,
  });
  const cost = costOf(calls);
  const chosen: Over = {
    name: "use there",
    is: (each) => colour !== NONE && isRecommended(view, each),
    look: () => ({ r: 9, stroke: ink(), strokeWidth: 1.6, fill: "none" }),
  };
  const late: Over = {
    name: `answered less than ${percent(view.plan.answered_share)}`,
    is: (each) => isLate(view, each),
    look: () => ({ symbol: "times", r: 7, stroke: ink(), strokeWidth: 2 }),
  };
  const latency: Measure = {
    key: percentile,
    label: `latency, ${short(percentile)} of the calls`,
    unit: "ns",
    less: true,
    of: ({ more }) => interval(more[percentile]?.median, more[percentile]?.lower, more[percentile]?.upper),
  };
  const share = (value: number | null | undefined, each: CellView) => (value == null ? null : value / offered(each));
  const answered: Measure = {
    key: "answered",
    label: "answered share of the load",
    unit: "share",
    less: false,
    of: (each) => {
      const { median, lower, upper } = each.estimate;
      return interval(share(median, each), share(lower, each), share(upper, each));
    },
  };
  const all = [
    cost && sweepBy(cost, { over: [chosen] }),
    timed && sweepBy(latency, { over: [late] }),
    sweepBy(answered, { reference: 1 }),
  ];
  return all.filter((sweep) => sweep != null && sweep !== false) as [Sweep, ...Sweep[]];
}
