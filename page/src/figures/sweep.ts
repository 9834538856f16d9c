// Any measure against any factor, with another factor by colour and a third one by panel: sweeps of one factor, clients by
// message size.

import { axisName, type CellView, factorOf, type GroupView, isMeasured, level, type View } from "../data";
import { h } from "../dom";
import { capital } from "../format";
import { type Figure, nothing, select } from "../frame";
import { along, levels, named } from "../levels";
import { type Entry, farApart, ink, legend } from "../look";
import type { Measure } from "../measure";
import type { Looking } from "../state";
import { across, axes, farthest, indistinct, topOf } from "./axes";
import { isLined, LINE_DASH, lines } from "./sweep-lines";
import { caption, notes } from "./sweep-notes";
import { NONE, type Sweep, sweepOf, type Wish } from "./sweep-data";

const wishes = new Map<number, Wish>();

/** The second measure of a new sweep: the time of a call of the program's end; for calls the tail. */
const second = (group: GroupView): string[] =>
  level(group, "role") === "writer" ? ["total_p99_ns", "ns_per_write_call"] : ["total_p99_ns", "ns_per_call"];

export function sweep({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const apart = indistinct(view, group);
  const all = view.cells.filter((each) => each.kind === "candidate" && !apart.some(({ id }) => id === each.group));
  if (!cell) return null;
  const order = axes(all, view.plan.varied);
  const wish = wishes.get(view.session) ?? usual(view, group, all, cell, order);
  const sweep = wish && sweepOf(view, group, cell, all, apart, wish);
  if (!sweep) return null;
  const { shown, fx, fc, series } = sweep;
  const by = [axisName(fx), ...(series.length > 1 ? [axisName(fc)] : [])].join(" and ");
  return {
    id: "sweep",
    holds: sweep.fixed,
    title: capital(`${shown.map((each) => each.label).join(" and ")} by ${by}`),
    caption: caption(sweep),
    notes: notes(sweep),
    controls: controls(view, sweep, order, (change) => {
      wishes.set(view.session, { ...wish, ...change });
      redraw();
    }),
    table: () => table(sweep),
    draw: (width) => drawn(sweep, width),
  };
}

/** The settings of a sweep that the reader did not change. */
function usual(view: View, group: GroupView, all: CellView[], cell: CellView, order: string[]): Wish | null {
  const x = across(view, all.filter(isMeasured), cell, order, group.varied);
  if (!x) return null;
  // Compared factors come first, then conditions.
  const isCondition = (factor: string) => (group.varied.includes(factor) ? 0 : 1);
  const count = (free: string[]) => along(view, all, cell, free).length;
  const colour = [...order]
    .sort((a, b) => isCondition(a) - isCondition(b))
    .find((factor) => factor !== x && count([x, factor]) > count([x]));
  const cells = along(view, all, cell, colour ? [x, colour] : [x]);
  const numeric = levels(all, x).filter((value) => typeof value === "number").length > 1;
  const known = second(group).find((key) => cells.some((each) => each.more[key]?.median != null));
  return { x, colour: colour ?? NONE, facet: NONE, measure: "rate", second: (numeric && known) || NONE };
}

function controls(
  view: View,
  { wish, known, shown }: Sweep,
  order: string[],
  choose: (change: Partial<Wish>) => void,
): HTMLElement {
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });
  const none = { value: NONE, text: "–" };
  const ofMeasure = known.map((each) => ({ value: each.key, text: each.label }));
  const [first, second] = shown;
  const without = (factor: string, taken: string) => (factor === taken ? NONE : factor);
  return h(
    "div",
    { class: "controls" },
    select("across", order.map(option), wish.x, (x) =>
      choose({ x, colour: without(wish.colour, x), facet: without(wish.facet, x) }),
    ),
    select("colour", [none, ...order.filter((factor) => factor !== wish.x).map(option)], wish.colour, (colour) =>
      choose({ colour, facet: without(wish.facet, colour) }),
    ),
    select(
      "panels",
      [none, ...order.filter((factor) => factor !== wish.x && factor !== wish.colour).map(option)],
      wish.facet,
      (facet) => choose({ facet }),
    ),
    select("measure", ofMeasure, first.key, (measure) => choose({ measure })),
    select(
      "second measure",
      [none, ...ofMeasure.filter((each) => each.value !== first.key)],
      second?.key ?? NONE,
      (key) => choose({ second: key }),
    ),
  );
}

function table({ cells, used, shown }: Sweep) {
  return {
    columns: [...used, ...shown.flatMap((each) => [each.key, `${each.key}_lower`, `${each.key}_upper`]), "stage"],
    rows: cells.map((each) => [
      ...used.map((factor) => level(each, factor) as string | number | null),
      ...shown.flatMap((measure) => {
        const value = measure.of(each);
        return [value?.mid ?? null, value?.lower ?? null, value?.upper ?? null];
      }),
      each.stage ?? null,
    ]),
  };
}

function drawn(sweep: Sweep, width: number): Node[] {
  const { cells, wish, shown, ff } = sweep;
  if (cells.length === 0) return [nothing("Nothing was measured along these factors.")];
  if (cells.length === 1) return [nothing("One option was measured along these factors: a line needs another one.")];
  const panels = wish.facet === NONE ? [null] : levels(cells, wish.facet);
  const columns = Math.min(width < 640 ? 1 : 2, shown.length * panels.length);
  const each = width / columns - (columns > 1 ? 8 : 0);
  const row = h("div", { class: "side" });
  for (const measure of shown) {
    const range = rangeOf(sweep, measure);
    for (const panel of panels) {
      const part = wish.facet === NONE ? cells : cells.filter((one) => level(one, wish.facet) === panel);
      const title = `${measure.label}${wish.facet === NONE ? "" : ` · ${ff.heading} ${named(panel, ff)}`}`;
      row.append(lines(sweep, part, measure, title, each, range));
    }
  }
  return [row, ...keyOf(sweep, panels, width)];
}

/** The lowest and the highest value of a measure in all panels. */
function rangeOf({ cells, relayless }: Sweep, measure: Measure): [number, number] {
  const all = relayless ? [...cells, relayless] : cells;
  const lows = all.map((one) => measure.of(one)?.lower ?? measure.of(one)?.mid ?? Number.POSITIVE_INFINITY);
  const least = Math.min(...lows);
  const values = all.flatMap((one) => {
    const value = measure.of(one);
    // The line without a relay is drawn without its interval.
    return value ? [one === relayless ? { mid: value.mid, upper: null } : value] : [];
  });
  return [least, topOf(values, farApart(measure.unit, least, farthest(values)))];
}

function keyOf(sweep: Sweep, panels: ReturnType<typeof level>[], width: number): Node[] {
  const { series, places, fc, shown, relayless } = sweep;
  const entries: Entry[] = (series.length > 1 ? series : []).map((value, s) => ({
    name: named(value, fc),
    series: places[s] ?? s,
    hollow: sweep.single || !sweep.marked.some((one) => sweep.seriesOf(one) === s && one.stage === "confirm"),
    loose: !panels.some((panel) => shown.some((measure) => isLined(sweep, panel, measure, s))),
  }));
  if (relayless) entries.push({ name: "without a relay", dash: LINE_DASH, line: 1.5, tone: ink() });
  return entries.length > 0 ? [legend(series.length > 1 ? axisName(fc) : "", entries, width)] : [];
}
