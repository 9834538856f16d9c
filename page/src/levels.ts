// Levels of factors: their order, their names, and which cells lie on one line through the plan.

import { axisName, type CellView, factorOf, type FactorView, type Level, level, type View } from "./data";
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
  // As much as goes is more than any number of it.
  const most = names.filter((name) => name === "max");
  return [...names.filter((name) => name !== "max"), ...numbers, ...most, ...(seen.has(null) ? [null] : [])];
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
  const parts = partsOf(view, cells, used);
  return varying(cells, view.plan.varied)
    .filter((factor) => !used.includes(factor) && !parts.includes(factor))
    .map((factor) => {
      const [own, value] = [factorOf(view, factor), level(cell, factor)];
      return value == null ? `no ${axisName(own)}` : `${own.heading} ${named(value, own)}`;
    })
    .join(", ");
}

/** Whether the levels of `by` decide the level of a factor in every cell. */
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
 * What changes along with the profile where that is free: a profile is a name for levels of other conditions. What merely
 * happens to go along with another factor in these cells is no part of it: nobody could tell which of the two made a difference.
 */
export function partsOf(view: View, cells: CellView[], free: string[]): string[] {
  if (!free.includes("profile")) return [];
  return varying(cells, view.plan.varied).filter(
    (factor) =>
      !free.includes(factor) &&
      !WHERE.includes(factor) &&
      factorOf(view, factor).role === "condition" &&
      follows(cells, factor, ["profile"]),
  );
}
/** What bytes go through, and who is asked for: no profile is a name for these. */
const WHERE = ["transport", "role"];

/**
 * The cells that agree with `pivot` in all that varies in the session but what is `free` and what a free profile stands for.
 * That a factor does not apply is a level as any other: a cell without it was measured under other conditions.
 */
export function along(view: View, cells: CellView[], pivot: CellView, free: string[]): CellView[] {
  const loose = [...free, ...partsOf(view, cells, free)];
  const fixed = view.plan.varied.filter((factor) => !loose.includes(factor));
  return cells.filter((cell) => fixed.every((factor) => level(cell, factor) === level(pivot, factor)));
}
