// Levels of factors: their order, their names, and the cells on one line through the plan.

import { axisName, type CellView, factorOf, type FactorView, type Level, level, type View } from "./data";
import { bytes, count, quantity } from "./format";

/** The name of a level. */
export function named(value: Level, factor: FactorView): string {
  if (value == null) return "–";
  if (value === true) return "on";
  if (value === false) return "off";
  if (typeof value === "string") return value;
  // A value of the user's program has no unit: multiples of 1024 are shown as sizes, as on the terminal.
  if (factor.name === "value" && factor.unit == null)
    return value >= 1024 && value % 1024 === 0 ? bytes(value) : `${value}`;
  if (factor.unit != null) return quantity(value, factor.unit);
  // A level has its requested value: 1024 entries, not 1.02k.
  return Number.isInteger(value) && value % 1000 !== 0 ? `${value}` : count(value);
}

/** The levels that occur, names first in their order of appearance, then numbers ascending; absent ones last. */
export function levels(cells: CellView[], factor: string): Level[] {
  const seen = new Set(cells.map((cell) => level(cell, factor)));
  const names = [...seen].filter((value) => typeof value === "string" || typeof value === "boolean");
  const numbers = [...seen].filter((value) => typeof value === "number").sort((a, b) => a - b);
  // `max` is more than any number.
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

/** The levels that all cells of a figure have in common with the selected cell: `transport tcp, flows 50`. */
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
 * The conditions that change with the profile, if that is free: a profile is a name for levels of other conditions. A factor that
 * only happens to change with another one is not part of it.
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
/** Conditions that no profile sets. */
const WHERE = ["transport", "role"];

/**
 * The cells that agree with `pivot` in all varied factors except the `free` ones and the parts of a free profile. A factor that
 * does not apply counts as a level: a cell without it has other conditions.
 */
export function along(view: View, cells: CellView[], pivot: CellView, free: string[]): CellView[] {
  const loose = [...free, ...partsOf(view, cells, free)];
  const fixed = view.plan.varied.filter((factor) => !loose.includes(factor));
  return cells.filter((cell) => fixed.every((factor) => level(cell, factor) === level(pivot, factor)));
}
