// The cells, series and measures of a sweep, for the settings of the reader.

import {
  type CellView,
  factorOf,
  type FactorView,
  type GroupView,
  isMeasured,
  type Level,
  level,
  type View,
  withoutRelay,
} from "../data";
import { along, held, levels } from "../levels";
import { isOfCalls, type Measure, measures, movedBy } from "../measure";
import { seriesOfLevels } from "../series";
import { isNumeric, spread } from "./axes";

export interface Wish {
  x: string;
  colour: string;
  facet: string;
  measure: string;
}
/** No factor, or no measure. */
export const NONE = "";

/** Factors that are sizes of calls, and the share of one below which a call moved less than its size. */
const SIZES = ["read_size", "write_size"];
const SHORT = 0.95;

/** A sweep, as far as it does not depend on a width. */
export interface Sweep {
  view: View;
  group: GroupView;
  wish: Wish;
  all: CellView[];
  cells: CellView[];
  /** Cells with a level on the axis, and those without. */
  marked: CellView[];
  placeless: CellView[];
  /** Factors of the axes, colours and panels. */
  used: string[];
  known: Measure[];
  measure: Measure;
  fx: FactorView;
  fc: FactorView;
  ff: FactorView;
  /** The levels of the colour, and the look of each. */
  series: Level[];
  places: number[];
  seriesOf(cell: CellView): number;
  /** Levels of the colour that are not drawn. */
  dropped: number;
  /** All levels of the axis are numbers; `mixed`: names and numbers. */
  numbers: boolean;
  mixed: boolean;
  /** The levels that are the same in all cells, as text. */
  fixed: string;
  /** Groups that no factor tells from another one: not drawn. */
  apart: GroupView[];
  relayless: CellView | undefined;
  /** Each cell has one trial. */
  single: boolean;
  /** The cell with a ring. */
  chosen?: string;
}

export function sweepOf(
  view: View,
  group: GroupView,
  cell: CellView,
  all: CellView[],
  apart: GroupView[],
  wish: Wish,
): Sweep | null {
  const used = [wish.x, wish.colour, wish.facet].filter((factor) => factor !== NONE);
  const cells = along(view, all, cell, used).filter(isMeasured);
  const known = measures(all);
  const measure = known.find((each) => each.key === wish.measure) ?? known[0];
  if (!measure) return null;
  const marked = cells.filter((each) => level(each, wish.x) != null);
  const ofColour = wish.colour === NONE ? [] : levels(marked, wish.colour);
  const series = wish.colour === NONE ? [] : spread(ofColour, level(cell, wish.colour));
  const numbers = isNumeric(levels(marked, wish.x));
  // The path without a relay has the conditions of one group only.
  const reference = cells.every((each) => each.group === group.id) ? withoutRelay(view, group) : undefined;
  return {
    view,
    group,
    wish,
    all,
    cells,
    marked,
    placeless: cells.filter((each) => level(each, wish.x) == null),
    used,
    known,
    measure,
    fx: factorOf(view, wish.x),
    fc: factorOf(view, wish.colour),
    ff: factorOf(view, wish.facet),
    series,
    places: series.length > 0 ? seriesOfLevels(view, wish.colour, series) : [0],
    seriesOf: (each) => (wish.colour === NONE ? 0 : series.indexOf(level(each, wish.colour))),
    dropped: ofColour.length - series.length,
    numbers,
    mixed: !numbers && levels(marked, wish.x).some((value) => typeof value === "number"),
    fixed: held(view, all, cell, used),
    apart,
    relayless: reference && measure.of(reference) ? reference : undefined,
    single: cells.length > 0 && cells.every((each) => each.trials <= 1),
  };
}

/** Whether the calls of a cell moved less than their size. */
export function movedLess({ wish, measure }: Sweep, cell: CellView): boolean {
  const moved = movedBy(cell, measure.key);
  return moved != null && moved < SHORT * Number(level(cell, wish.x));
}

/** Whether the labels of sizes contain the bytes that a call moved: where its time is shown. */
export const showsMoved = (sweep: Sweep): boolean =>
  isOfCalls(sweep.measure.key) &&
  sweep.series.length <= 1 &&
  SIZES.includes(sweep.wish.x) &&
  sweep.cells.some((cell) => movedLess(sweep, cell));
