// Any measure against any factor, with another factor by colour and a third one by panel: sweeps of one factor, clients by
// message size.

import { axisName, type CellView, factorOf, type GroupView, isMeasured, level, type View } from "../data";
import { h } from "../dom";
import { capital } from "../format";
import { type Figure, nothing, select } from "../frame";
import { along, levels, named } from "../levels";
import { type Entry, ink, legend, NARROW } from "../look";
import { usualMeasure } from "../measure";
import type { Looking } from "../state";
import { across, axes, indistinct } from "./axes";
import { isLined, LINE_DASH, lines, rangeOf } from "./sweep-lines";
import { caption, notes } from "./sweep-notes";
import { NONE, type Sweep, sweepOf, type Wish } from "./sweep-data";

const wishes = new Map<number, Wish>();

export function sweep({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const apart = indistinct(view, group);
  const all = view.cells.filter((each) => each.kind === "candidate" && !apart.some(({ id }) => id === each.group));
  if (!cell) return null;
  const order = axes(all, view.plan.varied);
  const wish = wishes.get(view.session) ?? usual(view, group, all, cell, order);
  const sweep = wish && sweepOf(view, group, cell, all, apart, wish);
  if (!sweep) return null;
  const { measure, fx, fc, series } = sweep;
  const by = [axisName(fx), ...(series.length > 1 ? [axisName(fc)] : [])].join(" and ");
  return {
    id: "sweep",
    holds: sweep.fixed,
    title: capital(`${measure.label} by ${by}`),
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
  return { x, colour: colour ?? NONE, facet: NONE, measure: usualMeasure(group) };
}

function controls(
  view: View,
  { wish, known, measure }: Sweep,
  order: string[],
  choose: (change: Partial<Wish>) => void,
): HTMLElement {
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });
  const none = { value: NONE, text: "–" };
  const ofMeasure = known.map((each) => ({ value: each.key, text: each.label }));
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
    select("measure", ofMeasure, measure.key, (key) => choose({ measure: key })),
  );
}

function table({ cells, used, measure }: Sweep) {
  return {
    columns: [...used, measure.key, `${measure.key}_lower`, `${measure.key}_upper`, "stage"],
    rows: cells.map((each) => {
      const value = measure.of(each);
      return [
        ...used.map((factor) => level(each, factor) as string | number | null),
        value?.mid ?? null,
        value?.lower ?? null,
        value?.upper ?? null,
        each.stage ?? null,
      ];
    }),
  };
}

function drawn(sweep: Sweep, width: number): Node[] {
  const { cells, wish, measure, ff } = sweep;
  if (cells.length === 0) return [nothing("Nothing was measured along these factors.")];
  if (cells.length === 1) return [nothing("One option was measured along these factors: a line needs another one.")];
  const panels = wish.facet === NONE ? [null] : levels(cells, wish.facet);
  const columns = Math.min(width < NARROW ? 1 : 2, panels.length);
  const each = width / columns - (columns > 1 ? 8 : 0);
  const range = rangeOf(sweep);
  const drawings = panels.map((panel) => {
    const part = wish.facet === NONE ? cells : cells.filter((one) => level(one, wish.facet) === panel);
    const title = `${measure.label}${wish.facet === NONE ? "" : ` · ${ff.heading} ${named(panel, ff)}`}`;
    return lines(sweep, part, title, each, range);
  });
  return [h("div", { class: "side" }, ...drawings), ...keyOf(sweep, panels, width)];
}

function keyOf(sweep: Sweep, panels: ReturnType<typeof level>[], width: number): Node[] {
  const { series, places, fc, relayless } = sweep;
  const entries: Entry[] = (series.length > 1 ? series : []).map((value, s) => ({
    name: named(value, fc),
    series: places[s] ?? s,
    hollow: sweep.single || !sweep.marked.some((one) => sweep.seriesOf(one) === s && one.stage === "confirm"),
    loose: !panels.some((panel) => isLined(sweep, panel, s)),
  }));
  if (relayless) entries.push({ name: "without a relay", dash: LINE_DASH, line: 1.5, tone: ink() });
  return entries.length > 0 ? [legend(series.length > 1 ? axisName(fc) : "", entries, width)] : [];
}
