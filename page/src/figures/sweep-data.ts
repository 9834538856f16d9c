// The cells, levels and looks of a sweep: a measure against a factor, with others by colour and by panel.

import type * as Plot from "@observablehq/plot";
import { axisName, type CellView, factorOf, type GroupView, isConfirmed, isMeasured } from "../data";
import { type Level, level, ranked, type View } from "../data";
import { count, percent } from "../format";
import type { Note } from "../frame";
import { along, held, levels, named } from "../levels";
import type { Measure } from "../measure";
import { seriesOfLevels } from "../series";
import { isNumeric, spread } from "./axes";

/** The factors of a sweep: its axis, its colours and its panels. */
export interface Axes {
  x: string;
  colour: string;
  facet: string;
}
/** No factor. */
export const NONE = "";

/** Marks on the dots of some cells. */
export interface Over {
  name: string;
  is(cell: CellView): boolean;
  look(): Plot.DotOptions;
}

/** A sweep, as far as it does not depend on a width. */
export type Sweep = ReturnType<typeof sweepOf>;

/** The sweep of those of `all` cells that have the conditions of `cell`. */
export function sweepOf(
  view: View,
  group: GroupView,
  all: CellView[],
  cell: CellView,
  { x, colour, facet }: Axes,
  measure: Measure,
) {
  const used = [x, colour, facet].filter((factor) => factor !== NONE);
  const cells = along(view, all, cell, used).filter(isMeasured);
  const marked = cells.filter((each) => level(each, x) != null);
  const ofColour = colour === NONE ? [] : levels(marked, colour);
  const series = colour === NONE ? [] : spread(ofColour, level(cell, colour));
  const known = levels(marked, x) as (string | number)[];
  const numbers = isNumeric(known);
  const fx = factorOf(view, x);
  // A rate has its unit once, in the name of the axis.
  const unit = numbers && fx.unit?.endsWith("/s") && fx.unit !== "bytes/s" ? fx.unit : null;
  return {
    view,
    x,
    facet,
    /** The factors of the axis, colours and panels. */
    used,
    measure,
    cells,
    /** Cells with a level on the axis. */
    marked,
    fx,
    fc: factorOf(view, colour),
    ff: factorOf(view, facet),
    /** The name of the axis, and of its levels. */
    xName: unit ? `${axisName(fx)}, ${unit}` : axisName(fx),
    tick: (value: Level): string => (unit ? count(Number(value)) : named(value, fx)),
    /** The levels of the axis. */
    xs: numbers || series.length > 0 ? known : inOrder(view, group, x, known),
    /** All levels of the axis are numbers; `mixed`: names and numbers. */
    numbers,
    mixed: !numbers && known.some((value) => typeof value === "number"),
    /** The levels of the colour, and the look of each. */
    series,
    places: series.length > 0 ? seriesOfLevels(view, colour, series) : [0],
    seriesOf: (each: CellView): number => (colour === NONE ? 0 : series.indexOf(level(each, colour))),
    /** Levels of the colour that are not drawn. */
    dropped: ofColour.length - series.length,
    /** The levels that are the same in all cells, as text. */
    fixed: held(view, all, cell, used),
    /** Each cell has one trial. */
    single: cells.length > 0 && cells.every((each) => each.trials <= 1),
    /** The value of a dashed line. */
    reference: undefined as number | undefined,
    over: [] as Over[],
  };
}

/** Names of options in the order of the ranking. */
function inOrder<Name extends Level>(view: View, group: GroupView, factor: string, names: Name[]): Name[] {
  const rank = ranked(view, group).map((one) => level(one, factor));
  const place = (name: Name) => (rank.includes(name) ? rank.indexOf(name) : rank.length);
  return names.sort((a, b) => place(a) - place(b));
}

/** Whether some mark has an interval. */
export const hasBars = ({ cells, measure }: Sweep): boolean => cells.some((each) => measure.of(each)?.lower != null);

/** One sentence: what a mark means. */
export function caption(sweep: Sweep): string {
  const { view, measure, single } = sweep;
  if (single) return "Each mark is one trial: differences can be chance.";
  if (!hasBars(sweep)) return "Marks are medians of a few trials, too few for intervals.";
  const bars = measure.key === "mean" ? "one standard deviation to each side" : `${percent(view.plan.level)} intervals`;
  return `Marks are medians, vertical lines ${bars}.`;
}

/** The note about marks of the screening. */
export const hollow = ({ cells, single }: Sweep): Note =>
  !single &&
  cells.some((each) => !isConfirmed(each)) &&
  "Hollow marks were screened only, in other trials than the confirmed ones: no line joins the two.";

/** The data of sweeps of the same cells. */
export function table(sweeps: [Sweep, ...Sweep[]]) {
  const [{ cells, used }] = sweeps;
  const all = sweeps.map(({ measure }) => measure);
  return {
    columns: [...used, ...all.flatMap(({ key }) => [key, `${key}_lower`, `${key}_upper`]), "stage"],
    rows: cells.map((each) => [
      ...used.map((factor) => level(each, factor)),
      ...all.map((measure) => measure.of(each)).flatMap((value) => [value?.mid, value?.lower, value?.upper]),
      each.stage,
    ]),
  };
}
