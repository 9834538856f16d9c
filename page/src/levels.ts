// Levels of factors: their order, their names, and which cells lie on one line through the plan.

import { type CellView, factorOf, type FactorView, type Level, level, type View } from "./data";
import { bytes, count, quantity } from "./format";

/** A level for people. */
export function named(value: Level, factor: FactorView): string {
  if (value == null) return "–";
  if (value === true) return "on";
  if (value === false) return "off";
  if (typeof value === "string") return value;
  // What a program of the user's takes has no unit: where it looks like a size it is told as one, as in the answers.
  if (factor.name === "value" && factor.unit == null)
    return value >= 1024 && value % 1024 === 0 ? bytes(value) : `${value}`;
  if (factor.unit != null) return quantity(value, factor.unit);
  // A level is told as it was asked for: 1024 entries are not 1.02k.
  return Number.isInteger(value) && value % 1000 !== 0 ? `${value}` : count(value);
}

/** The levels that occur, names first in their order of appearance, then numbers ascending; absent ones last. */
export function levels(cells: CellView[], factor: string): Level[] {
  const seen = new Set(cells.map((cell) => level(cell, factor)));
  const names = [...seen].filter((value) => typeof value === "string" || typeof value === "boolean");
  const numbers = [...seen].filter((value) => typeof value === "number").sort((a, b) => a - b);
  return [...names, ...numbers, ...(seen.has(null) ? [null] : [])];
}

/** Factors with more than one level among the cells, in the order that is given. */
export function varying(cells: CellView[], factors: string[]): string[] {
  return factors.filter((factor) => {
    const first = cells[0] && level(cells[0], factor);
    return cells.some((cell) => level(cell, factor) !== first);
  });
}

/** What is the same in a figure as in the cell looked at, of all that varies in the session: `transport tcp, flows 50`. */
export function held(view: View, cells: CellView[], cell: CellView, used: string[]): string {
  return varying(cells, view.plan.varied)
    .filter((factor) => !used.includes(factor) && level(cell, factor) != null)
    .map((factor) => `${factorOf(view, factor).heading} ${named(level(cell, factor), factorOf(view, factor))}`)
    .join(", ");
}

/** Whether the levels of `by` decide the level of a factor in every cell: then it needs no place of its own. */
export function follows(cells: CellView[], factor: string, by: string[]): boolean {
  const known = new Map<string, Level>();
  return cells.every((cell) => {
    const key = JSON.stringify(by.map((name) => level(cell, name)));
    const value = level(cell, factor);
    if (!known.has(key)) known.set(key, value);
    return known.get(key) === value;
  });
}

/**
 * The cells that agree with `pivot` in all factors but those that are `free`, and those that follow from the free ones. A
 * factor that does not apply to one of two cells does not tell them apart.
 */
export function along(cells: CellView[], pivot: CellView, factors: string[], free: string[]): CellView[] {
  const held = factors.filter((factor) => !free.includes(factor) && !follows(cells, factor, free));
  const agrees = (cell: CellView, factor: string) => {
    const [a, b] = [level(cell, factor), level(pivot, factor)];
    return a === b || a === null || b === null;
  };
  const found = cells.filter((cell) => held.every((factor) => agrees(cell, factor)));
  const places = new Map<string, CellView>();
  for (const cell of found) {
    const key = JSON.stringify(free.map((factor) => level(cell, factor)));
    if (!places.has(key) || cell.id === pivot.id) places.set(key, cell);
  }
  return [...places.values()];
}
