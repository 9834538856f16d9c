// Which cells have a tile of a map, which one is selected first, and how the number of a tile is written in its room.

import { type CellView, isConfirmed, isMeasured, level } from "../data";
import type { Measure } from "../measure";

/** The factors of both axes. */
export interface Axes {
  x: string;
  y: string;
}

/** Whether a cell has a level on both axes. */
export const hasPlace = (cell: CellView, { x, y }: Axes): boolean => level(cell, x) != null && level(cell, y) != null;

/**
 * The cells with a level on both axes, those without, and the cell that is selected first: the given one, or the best with a
 * tile if the given one has none.
 */
export function placing(all: CellView[], axes: Axes, cell: CellView, measure: Measure) {
  const has = (each: CellView) => hasPlace(each, axes);
  const placed = all.filter(has);
  const worth = (each: CellView) => (measure.of(each)?.mid ?? 0) * (measure.less ? -1 : 1);
  const ranked = [...placed].sort((a, b) => Number(isConfirmed(b)) - Number(isConfirmed(a)) || worth(b) - worth(a));
  const start = has(cell) ? cell : (ranked.find((each) => isMeasured(each) && measure.of(each)) ?? ranked[0]);
  return { placed, placeless: all.filter((each) => !has(each) && isMeasured(each)), start };
}

/** The first writing whose longest number fits a tile; undefined if none does. */
export function written(texts: (how: Writing) => string[], tile: number): Writing | undefined {
  const wide = (text: string) => [...text].reduce((sum, letter) => sum + (/[.()]/.test(letter) ? DOT : DIGIT), 0);
  return WRITINGS.find((how) => Math.max(...texts(how).map(wide)) * how.size + (how.brackets ? 6 : 0) <= tile);
}

/**
 * The ways to write a number in its tile, the one with the most information first. `own`: each number has `digits` significant
 * digits; otherwise each has the decimal places of the highest value.
 */
const WRITINGS = [
  { digits: 3, own: true, brackets: true, size: 12 },
  { digits: 3, own: true, brackets: true, size: 11 },
  { digits: 3, own: true, brackets: false, size: 11 },
  { digits: 3, own: false, brackets: false, size: 11 },
  { digits: 2, own: false, brackets: false, size: 11 },
] as const;
export type Writing = (typeof WRITINGS)[number];
/** The width of a digit, and of a dot or a bracket, as a share of the font's size. */
const [DIGIT, DOT] = [0.64, 0.38];
