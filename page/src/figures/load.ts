// The options under an offered load: CPU time, latency, and the answered share, all against the load, which is the same for
// all options.

import { axisName, type CellView, factorOf, groupOf, type Interval, isMeasured, type Level, level } from "../data";
import { type FactorView, recommendedOf, testOf, type View } from "../data";
import { h } from "../dom";
import { percent } from "../format";
import { type Figure, setting } from "../frame";
import { along, follows, held, levels, named, varying } from "../levels";
import { CURVE_LEAST, type Entry, legend, NARROW, SERIES_MAX } from "../look";
import { costOf, interval, type Measure, nameOf } from "../measure";
import { seriesOfLevels } from "../series";
import type { Looking } from "../state";
import { cross, loadPanel, ring } from "./load-panel";
import { percentileOf } from "./percentiles";

let percentile = "total_p99_ns";

/** From this width on three panels are side by side; pixels. */
const WIDE = 840;

export interface Point {
  cell: CellView;
  series: number;
  offered: number;
  reached: number;
  /** Whether it is recommended at this load: within the margin of the best (`decided`), or not yet. */
  chosen: "decided" | "leads" | null;
}

export interface Panel {
  title: string;
  unit: string;
  /** Marks that missed their load have a cross: a queue decides their latency. */
  crossed?: boolean;
  /** The measure that compares the options: the recommended one has a ring. */
  ringed?: boolean;
  of(point: Point): Interval | null;
}

/** The points of a session, and what its panels share. */
export interface Load {
  view: View;
  near: CellView[];
  points: Point[];
  colour: string;
  factor: FactorView;
  series: Level[];
  /** The look of each series. */
  places: number[];
  cost: Measure | undefined;
  /** The percentiles that the cells have. */
  keys: string[];
  isLate(point: Point): boolean;
}

const short = (key: string) => nameOf(key).replace("latency ", "");

export function load({ view, cell }: Looking, redraw: () => void): Figure | null {
  const calls = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call);
  if (!cell || levels(calls, "call_rate").filter((rate) => typeof rate === "number").length < 2) return null;
  const load = loadOf(view, cell, calls);
  const { colour, factor, points, keys, isLate } = load;
  if (!keys.includes(percentile)) percentile = keys.find((key) => key.includes("p99")) ?? keys[0] ?? percentile;
  const options = keys.map((value) => ({ value, text: short(value) }));
  const panels = panelsOf(load);
  const without = points.filter((point) => keys.length > 0 && panels.some((panel) => panel.of(point) == null)).length;
  const bars = points.some((point) => panels.some((panel) => panel.of(point)?.lower != null));
  return {
    id: "load",
    holds: held(view, calls, cell, ["call_rate", colour]),
    title: colour ? `Options of ${axisName(factor)} by offered load` : "Cost of an offered load",
    caption: bars ? `Vertical lines are ${percent(view.plan.level)} intervals.` : "Marks are medians.",
    notes: [
      bars && "A mark without a line has too few trials.",
      points.some(isLate) &&
        `A latency is crossed if less than ${percent(view.plan.answered_share)} of the load was answered: calls queue there.`,
      points.some((point) => point.reached > 1.02 * point.offered) &&
        "More than 100 % are answered if calls that were due before the window are answered in it.",
      without > 0 && `Of ${points.length} marks ${without} are missing, since too few calls were made.`,
    ],
    controls: setting("percentile", options, percentile, (key) => {
      percentile = key;
      redraw();
    }),
    table: () => table(load),
    draw(width) {
      const columns = width >= WIDE ? panels.length : width >= NARROW ? 2 : 1;
      const each = width / columns - (columns > 1 ? 8 : 0);
      const entries = entriesOf(load);
      const isNamed = colour && load.series.length > 1;
      return [
        h("div", { class: "side" }, ...panels.map((panel) => loadPanel(load, panel, each))),
        ...(entries.length > 0 ? [legend(isNamed ? axisName(factor) : "", entries, width)] : []),
      ];
    },
  };
}

function loadOf(view: View, cell: CellView, calls: CellView[]): Load {
  const free = varying(calls, view.plan.varied).filter(
    (factor) => factor !== "call_rate" && !follows(calls, factor, ["call_rate"]),
  );
  // Options come before conditions.
  const role = (factor: string) => (factorOf(view, factor).role === "choice" ? 0 : 1);
  const colour = free.sort((a, b) => role(a) - role(b))[0] ?? "";
  const near = along(view, calls, cell, ["call_rate", ...(colour ? [colour] : [])]);
  const series = colour ? levels(near, colour).slice(0, SERIES_MAX) : [null];
  const points = near.flatMap((each): Point[] => {
    const [offered, reached] = [level(each, "call_rate"), each.estimate.median];
    const at = colour ? series.indexOf(level(each, colour)) : 0;
    if (typeof offered !== "number" || reached == null || at < 0) return [];
    return [{ cell: each, series: at, offered, reached, chosen: series.length > 1 ? chosenOf(view, each) : null }];
  });
  points.sort((a, b) => a.offered - b.offered);
  return {
    view,
    near,
    points,
    colour,
    factor: factorOf(view, colour),
    series,
    places: colour ? seriesOfLevels(view, colour, series) : [0],
    cost: costOf(near),
    keys: [...new Set(calls.flatMap((each) => Object.keys(each.more)))].filter(
      (key) => percentileOf(key, "total") != null,
    ),
    isLate: ({ reached, offered }) => reached < offered * view.plan.answered_share,
  };
}

function chosenOf(view: View, cell: CellView): Point["chosen"] {
  const group = groupOf(view, cell.group);
  if (!group || recommendedOf(view, group) !== cell.id) return null;
  return testOf(view, group)?.claim.kind === "use" ? "decided" : "leads";
}

function panelsOf({ cost, keys }: Load): Panel[] {
  const all: (Panel | undefined | false)[] = [
    cost && { title: cost.label, unit: cost.unit, ringed: true, of: ({ cell }: Point) => cost.of(cell) },
    keys.length > 0 && {
      title: `latency, ${short(percentile)} of the calls`,
      unit: "ns",
      crossed: true,
      of: ({ cell: { more } }: Point) => {
        const time = more[percentile];
        return interval(time?.median, time?.lower, time?.upper);
      },
    },
    {
      title: "answered share of the load",
      unit: "share",
      of: ({ cell: { estimate }, offered, reached }: Point) => ({
        mid: reached / offered,
        lower: estimate.lower == null ? null : estimate.lower / offered,
        upper: estimate.upper == null ? null : estimate.upper / offered,
      }),
    },
  ];
  return all.filter((panel): panel is Panel => Boolean(panel));
}

function table({ points, series, factor, colour, cost }: Load) {
  return {
    columns: ["offered", colour || "series", "chosen", "reached", cost?.key ?? "cost", percentile, "lower", "upper"],
    rows: points.map((point) => {
      const time = point.cell.more[percentile];
      return [
        point.offered,
        named(series[point.series] ?? null, factor),
        point.chosen ?? "",
        point.reached,
        cost?.of(point.cell)?.mid ?? null,
        time?.median ?? null,
        time?.lower ?? null,
        time?.upper ?? null,
      ];
    }),
  };
}

function entriesOf({ view, points, series, places, factor, colour, cost, isLate }: Load): Entry[] {
  const names: Entry[] = series.map((value, at) => ({
    name: named(value, factor),
    series: places[at] ?? at,
    loose: points.filter((point) => point.series === at).length < CURVE_LEAST,
  }));
  const isChosen = (how: Point["chosen"]) => cost && points.some(({ chosen }) => chosen === how);
  const entries: (Entry | false | undefined)[] = [
    ...(colour && series.length > 1 ? names : []),
    isChosen("decided") && { name: "use there", look: ring("decided") },
    isChosen("leads") && { name: "leads there, undecided", look: ring("leads") },
    points.some(isLate) && { name: `answered less than ${percent(view.plan.answered_share)}`, look: cross() },
  ];
  return entries.filter((entry): entry is Entry => Boolean(entry));
}
