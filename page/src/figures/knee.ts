// The highest rate that keeps a latency objective: of each option, and the probes of its searches.

import * as Plot from "@observablehq/plot";
import { type CellView, factorOf, isMeasured, level, type View } from "../data";
import { duration, percent, quantity } from "../format";
import type { Figure, Note } from "../frame";
import { follows, named, varying } from "../levels";
import { draw, faint, heading, inLines, ink, legend, LINE, logAxis, paper, sideBySide, single } from "../look";
import { symbolOf, tip, toneOf } from "../look";
import { seriesOf } from "../series";
import type { Looking } from "../state";

const PANELS_MAX = 6;

interface Row {
  id: string;
  name: string;
  each: CellView;
  knee: NonNullable<NonNullable<CellView["call"]>["knee"]>;
  /** The look of the option. */
  look: number;
}

export function knee({ view }: Looking): Figure | null {
  const rows = rowsOf(view);
  const [first] = rows;
  if (!first) return null;
  const { percentile = "the percentile", limit_ns: limit } = first.knee;
  const bars = rows.some(({ each }) => each.estimate.lower != null);
  return {
    id: "knee",
    holds: "",
    title: `The highest rate that keeps ${percentile} within ${duration(limit)}`,
    caption: `A filled mark is the median of the rates that the searches found${bars ? `, the bar its ${percent(view.plan.level)} interval` : ""}. All searches together keep it at most up to the star.`,
    notes: notesOf(rows, bars),
    table: () => table(rows),
    draw: (width) => drawn(rows, width, bars),
  };
}

function rowsOf(view: View): Row[] {
  const cells = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call?.knee);
  const apart = varying(cells, view.plan.varied);
  const own = apart.filter((factor, at) => !follows(cells, factor, apart.slice(0, at)));
  const factors = (each: CellView) =>
    own.map((factor) => `${factorOf(view, factor).heading} ${named(level(each, factor), factorOf(view, factor))}`);
  const isOneTest = cells.every(({ group }) => group === cells[0]?.group);
  const name = (each: CellView) => (isOneTest ? each.label : factors(each).join(", ") || each.label);
  const looks = seriesOf(view, cells);
  return cells.flatMap((each, at): Row[] => {
    const knee = each.call?.knee;
    return knee ? [{ id: each.id, each, knee, name: name(each), look: looks[at] ?? 0 }] : [];
  });
}

const notesOf = (rows: Row[], bars: boolean): Note[] => [
  "Each search looks for the highest offered rate that keeps the objective; half of the searches kept it at the median.",
  `Below is each probe of all searches. The dashed line is the objective, with the same mark${bars ? " and bar" : ""}.`,
  "Over all searches together calls that took too long count wherever they occurred: few bad moments can be enough.",
  "A search can fail at a rate that another one keeps, since the machine changes from moment to moment.",
  rows.length > 1 &&
    "Options are compared search by search within a block, so one can be significantly slower although the bars overlap.",
];

const table = (rows: Row[]) => ({
  columns: ["cell", "label", "rate", "lower", "upper", "overall", "at_knee_ns", "beyond", "at_beyond_ns", "closed"],
  rows: rows.map(({ each: { id, label, estimate }, knee }) => [
    id,
    label,
    estimate.median,
    estimate.lower,
    estimate.upper,
    knee.overall_per_second,
    knee.at_knee_ns,
    knee.beyond_per_second,
    knee.at_beyond_ns,
    knee.closed_per_second,
  ]),
});

function drawn(rows: Row[], width: number, bars: boolean): Node[] {
  const { y, names, height } = laidOut(rows, width);
  const overview = draw(width, {
    height: 60 + height,
    marginLeft: 12,
    marginRight: 40,
    marginTop: 10,
    marginBottom: 40,
    x: { zero: true, ...rateAxis("calls per second", width) },
    y,
    marks: [names, ...marks(rows)],
  });
  const probed = rows
    .filter((row) => row.knee.probes.some((probe) => probe.percentile_ns != null))
    .slice(0, PANELS_MAX);
  if (probed.length === 0) return [overview, key(width, bars)];
  const probes = probed.flatMap(({ knee }) => knee.probes);
  const top = Math.max(...probes.map((probe) => probe.offered_per_second));
  const times = [
    ...probed.map(({ knee }) => knee.limit_ns),
    ...probes.flatMap(({ percentile_ns: time }) => time ?? []),
  ];
  const axis = logAxis(Math.min(...times), Math.max(...times), duration, 7);
  const panels = sideBySide(probed, width, 2, (row, each) => searched(row, each, top, axis));
  return [overview, key(width, bars), panels];
}

/** An axis of rates that is `room` pixels wide. */
const rateAxis = (label: string, room: number): Plot.ScaleOptions => ({
  grid: true,
  label,
  labelArrow: "none",
  labelAnchor: "center",
  ticks: Math.floor(room / 90),
  tickFormat: (value: number) => quantity(value, null),
});

/** The most lines of a name, and the width of a letter at most, pixels. */
const [LINES_MAX, LETTER] = [4, 7];

/** The rows with their names above them: the scale, the names, and the height. */
function laidOut(all: Row[], width: number) {
  const lines = all.map((row) => inLines(row.name, Math.floor((width - 20) / LETTER), LINES_MAX));
  const most = Math.max(...lines.map((each) => each.length));
  const y: Plot.ScaleOptions = { type: "band", domain: all.map((row) => row.id), axis: null, padding: 0.62 };
  const names = Plot.text(all, {
    y: "id",
    text: (_, at: number) => lines[at]?.join("\n") ?? "",
    frameAnchor: "left",
    // They grow upwards.
    lineAnchor: "bottom",
    dy: -10,
    stroke: paper(),
    strokeWidth: 5,
    textAnchor: "start",
    fill: ink(),
  });
  return { y, names, height: all.length * (42 + LINE * (most - 1)) };
}

/** The marks of the overview: the highest rate, that of all searches together, the lowest lost one, and the rate of a closed loop. */
function marks(rows: Row[]): Plot.Markish[] {
  const tone = (row: Row) => toneOf(row.look);
  const rate = (row: Row) => row.each.estimate.median;
  const latency = ({ knee }: Row) => (knee.at_knee_ns == null ? "" : `${knee.percentile} ${duration(knee.at_knee_ns)}`);
  return [
    Plot.ruleY(rows, {
      y: "id",
      x1: (row) => row.each.estimate.lower ?? null,
      x2: (row) => row.each.estimate.upper ?? null,
      stroke: tone,
      strokeWidth: 3,
    }),
    Plot.text(rows, {
      y: "id",
      x: rate,
      text: latency,
      stroke: paper(),
      strokeWidth: 4,
      dy: 15,
      fill: ink(),
    }),
    Plot.dot(rows, { y: "id", x: (row) => row.knee.closed_per_second ?? null, ...closed() }),
    Plot.dot(rows, { y: "id", x: (row) => row.knee.beyond_per_second ?? null, ...lost() }),
    Plot.dot(rows, { y: "id", x: (row) => row.knee.overall_per_second ?? null, ...together() }),
    ...rows.map((row) =>
      Plot.dot([row], { y: "id", x: rate, symbol: symbolOf(row.look), fill: tone(row), r: 5 } as Plot.DotOptions),
    ),
  ];
}

/** A rate at which the objective was not kept. */
const lost = (): Plot.DotOptions => ({ symbol: "times", stroke: ink(), strokeWidth: 1.8, r: 4.5 });

/** The highest rate over all searches together. */
const together = (): Plot.DotOptions => ({ symbol: "asterisk", stroke: ink(), strokeWidth: 1.8, r: 6 });

/** The rate of a closed loop. */
const closed = (): Plot.DotOptions => ({ stroke: faint(), strokeWidth: 1.8, r: 8 });

/** The key, as a drawing, so that saved files have it. */
function key(width: number, bars: boolean): SVGSVGElement {
  const kept = `kept in half of the searches${bars ? ", with its interval" : ""}`;
  const entries = [
    { name: kept, marks: single({ fill: ink(), r: 5 }) },
    { name: "kept over all together", marks: single(together()) },
    { name: "not kept; above: median of the lowest", marks: single(lost()) },
    { name: "rate of a closed loop", marks: single(closed()) },
  ];
  return legend("", entries, width);
}

/** The probes of the searches of one option: the percentile against the offered rate, which ends at `top`, kept or not. */
function searched(row: Row, width: number, top: number, axis: Plot.ScaleOptions): SVGSVGElement {
  const { name, knee } = row;
  return draw(width, {
    height: 250,
    marginLeft: 62,
    marginRight: 16,
    marginTop: 32,
    marginBottom: 40,
    x: { domain: [0, top * 1.03], ...rateAxis("calls per second, offered", width) },
    y: { ...axis, inset: 6 },
    marks: [heading(`${name}: ${knee.percentile} of every probe, log scale`, 62, -24), ...probeMarks(row)],
  });
}

function probeMarks({ knee, each, look }: Row): Plot.Markish[] {
  const [tone, objective] = [toneOf(look), Math.log2(knee.limit_ns)];
  const probes = knee.probes.flatMap((probe) =>
    probe.percentile_ns == null ? [] : [{ ...probe, place: Math.log2(probe.percentile_ns) }],
  );
  const { lower, upper, median } = each.estimate;
  const place = { x: "offered_per_second", y: "place" };
  return [
    Plot.ruleY([objective], { stroke: ink(), strokeDasharray: "5 3", strokeWidth: 1.2 }),
    Plot.dot(
      probes.filter((probe) => probe.kept),
      { ...place, r: 3.5, stroke: tone, strokeWidth: 1.5 },
    ),
    Plot.dot(
      probes.filter((probe) => !probe.kept),
      { ...place, ...lost() },
    ),
    lower != null && upper != null
      ? Plot.ruleY([objective], { x1: lower, x2: upper, stroke: tone, strokeWidth: 3 } as Plot.RuleYOptions)
      : null,
    median == null
      ? null
      : Plot.dot([[median, objective]], { symbol: symbolOf(look), fill: tone, stroke: paper(), strokeWidth: 1, r: 6 }),
    tip(
      probes,
      place,
      (probe) =>
        `${quantity(probe.offered_per_second, "calls/s")}\n${knee.percentile} ${duration(probe.percentile_ns ?? 0)}\n${probe.kept ? "kept" : "not kept"}, search ${probe.search + 1}`,
    ),
  ];
}
