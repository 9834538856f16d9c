// The highest rate that keeps a latency objective: of each option, and the probes of its searches.

import * as Plot from "@observablehq/plot";
import { type CellView, factorOf, isMeasured, level, type View } from "../data";
import { h } from "../dom";
import { duration, percent, quantity } from "../format";
import type { Figure, Note } from "../frame";
import { follows, named, varying } from "../levels";
import { draw, faint, ink, legend, NARROW, paper, rows as laidOut, symbolOf, toneOf } from "../look";
import { seriesOf } from "../series";
import type { Looking } from "../state";
import { lost, searched } from "./knee-probes";

const PANELS_MAX = 6;

export interface Row {
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

function table(rows: Row[]) {
  return {
    columns: ["cell", "label", "rate", "lower", "upper", "overall", "at_knee_ns", "beyond", "at_beyond_ns", "closed"],
    rows: rows.map(({ each, knee }) => [
      each.id,
      each.label,
      each.estimate.median,
      each.estimate.lower ?? null,
      each.estimate.upper ?? null,
      knee.overall_per_second ?? null,
      knee.at_knee_ns ?? null,
      knee.beyond_per_second ?? null,
      knee.at_beyond_ns ?? null,
      knee.closed_per_second ?? null,
    ]),
  };
}

function drawn(rows: Row[], width: number, bars: boolean): Node[] {
  const { narrow, left, y, names, height } = laidOut(rows, (row) => row.name, width);
  const overview = draw(width, {
    height: 60 + height,
    marginLeft: left,
    marginRight: 40,
    marginTop: 10,
    marginBottom: 40,
    x: {
      zero: true,
      grid: true,
      label: "calls per second",
      labelArrow: "none",
      labelAnchor: "center",
      ticks: Math.floor((width - left) / 90),
      tickFormat: (value: number) => quantity(value, null),
    },
    y,
    marks: [names, ...marks(rows, narrow)],
  });
  const probed = rows
    .filter((row) => row.knee.probes.some((probe) => probe.percentile_ns != null))
    .slice(0, PANELS_MAX);
  if (probed.length === 0) return [overview, key(width, bars)];
  const columns = Math.min(probed.length, width < NARROW ? 1 : 2);
  const each = columns > 1 ? width / columns - 8 : width;
  const top = Math.max(...probed.flatMap((row) => row.knee.probes.map((probe) => probe.offered_per_second)));
  const times = probed.flatMap((row) => [
    row.knee.limit_ns,
    ...row.knee.probes.flatMap((probe) => probe.percentile_ns ?? []),
  ]);
  const range: [number, number] = [Math.min(...times), Math.max(...times)];
  const panels = probed.map((row) => searched(row, each, top, range));
  return [overview, key(width, bars), h("div", { class: "side" }, ...panels)];
}

/** The marks of the overview: the highest rate, that of all searches together, the lowest lost one, and the rate of a closed loop. */
function marks(rows: Row[], narrow: boolean): Plot.Markish[] {
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
      dy: narrow ? 15 : -15,
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

/** The highest rate over all searches together. */
const together = (): Plot.DotOptions => ({ symbol: "asterisk", stroke: ink(), strokeWidth: 1.8, r: 6 });

/** The rate of a closed loop. */
const closed = (): Plot.DotOptions => ({ stroke: faint(), strokeWidth: 1.8, r: 8 });

/** The key, as a drawing, so that saved files have it. */
const key = (width: number, bars: boolean): SVGSVGElement =>
  legend(
    "",
    [
      { name: `kept in half of the searches${bars ? ", with its interval" : ""}`, look: { fill: ink(), r: 5 } },
      { name: "kept over all together", look: together() },
      { name: "not kept; above: median of the lowest", look: lost() },
      { name: "rate of a closed loop", look: closed() },
    ],
    width,
  );
