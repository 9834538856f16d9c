// Any measure against any factor, with another factor by colour and a third one by panel: sweeps of one factor, clients by
// message size.

import { axisName, type CellView, factorOf, type GroupView, isMeasured, level } from "../data";
import { titleOf, type View, withoutRelay } from "../data";
import { h } from "../dom";
import { capital, quantity } from "../format";
import { type Figure, type Note, nothing, select } from "../frame";
import { along, levels, named, partsOf } from "../levels";
import { sideBySide } from "../look";
import { atRates, carried, choicesOf, type Measure, measures, usualMeasure } from "../measure";
import type { Looking } from "../state";
import { across, axes, indistinct } from "./axes";
import { dashed, keyOf, lines, rangeOf } from "./sweep-lines";
import { type Axes, caption, hasBars, hollow, NONE, type Sweep, sweepOf, table } from "./sweep-data";

interface Wish extends Axes {
  measure: string;
}

const wishes = new Map<number, Wish>();

export function sweep({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const apart = indistinct(view, group);
  const all = view.cells.filter((each) => each.kind === "candidate" && !apart.some(({ id }) => id === each.group));
  if (!cell) return null;
  const order = axes(all, view.plan.varied);
  const wish = wishes.get(view.session) ?? usual(view, group, all, cell, order);
  const known = measures(all);
  const measure = known.find(({ key }) => key === wish?.measure) ?? known[0];
  if (!wish || !measure) return null;
  const sweep = sweepOf(view, group, all, cell, wish, measure);
  const { fx, fc, series, cells } = sweep;
  // The path without a relay has the conditions of one group only.
  const relayless = cells.every((each) => each.group === group.id) ? withoutRelay(view, group) : undefined;
  sweep.reference = relayless && measure.of(relayless)?.mid;
  const by = [axisName(fx), ...(series.length > 1 ? [axisName(fc)] : [])].join(" and ");
  return {
    id: "sweep",
    holds: sweep.fixed,
    title: capital(`${measure.label} by ${by}`),
    caption: caption(sweep),
    notes: notes(sweep, all, apart),
    controls: controls(view, wish, known, measure, order, (change) => {
      wishes.set(view.session, { ...wish, ...change });
      redraw();
    }),
    table: () => table([sweep]),
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
  { x, colour, facet }: Wish,
  known: Measure[],
  measure: Measure,
  order: string[],
  choose: (change: Partial<Wish>) => void,
): HTMLElement {
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });
  /** Factors that are not taken, or none. */
  const others = (...taken: string[]) => [
    { value: NONE, text: "–" },
    ...order.filter((factor) => !taken.includes(factor)).map(option),
  ];
  const without = (factor: string, taken: string) => (factor === taken ? NONE : factor);
  return h(
    "div",
    { class: "controls" },
    select("across", order.map(option), x, (x) => choose({ x, colour: without(colour, x), facet: without(facet, x) })),
    select("colour", others(x), colour, (colour) => choose({ colour, facet: without(facet, colour) })),
    select("panels", others(x, colour), facet, (facet) => choose({ facet })),
    select("measure", choicesOf(known), measure.key, (key) => choose({ measure: key })),
  );
}

function notes(sweep: Sweep, all: CellView[], apart: GroupView[]): Note[] {
  const { view, cells, x, measure, reference, series, fc, fx, fixed, dropped, used } = sweep;
  const without = cells.filter((each) => measure.of(each) == null).length;
  const placeless = cells.filter((each) => level(each, x) == null);
  const parts = partsOf(view, all, used).map((factor) => factorOf(view, factor).heading);
  return [
    hasBars(sweep) && "An interval that is not visible is smaller than its mark, or the mark has too few trials.",
    hollow(sweep),
    carried(cells, measure),
    without > 0 && `Cells with too few trials or calls for ${measure.label}: ${without}.`,
    apart.length > 0 &&
      `Not drawn, since no factor separates them from the others: ${apart.map(({ id }) => titleOf(view, id)).join("; ")}.`,
    reference != null && `The dashed line is the path without a relay: ${quantity(reference, measure.unit)}.`,
    series.length === 1 && `All marks have ${fc.heading} ${named(series[0] ?? null, fc)}.`,
    fixed && `The same for all marks: ${fixed}.`,
    parts.length > 0 && `A profile sets several factors: ${parts.join(", ")}.`,
    placeless.length > 0 && `Without ${axisName(fx)}, so without a mark: ${atRates(placeless, measure)}.`,
    dropped > 0 && `Levels of ${fc.heading} that are not drawn: ${dropped}. The data has all.`,
  ];
}

function drawn(sweep: Sweep, width: number): Node[] {
  const { cells, facet, measure, ff, reference } = sweep;
  if (cells.length === 0) return [nothing("Nothing was measured along these factors.")];
  if (cells.length === 1) return [nothing("One option was measured along these factors: a line needs another one.")];
  const range = rangeOf(measure, cells, reference);
  const panels = facet === NONE ? [null] : levels(cells, facet);
  const drawings = sideBySide(panels, width, 2, (panel, each) => {
    if (facet === NONE) return lines(sweep, cells, measure.label, each, range);
    const part = cells.filter((one) => level(one, facet) === panel);
    return lines(sweep, part, `${measure.label} · ${ff.heading} ${named(panel, ff)}`, each, range);
  });
  return [drawings, ...keyOf(sweep, reference == null ? [] : [dashed("without a relay")], width)];
}
