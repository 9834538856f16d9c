// The colour, symbol and dash of an option: the same in every figure of a session and under all conditions.

import { type CellView, candidates, type GroupView, type Level, level, type View } from "./data";
import { varying } from "./levels";

/**
 * A place for each name: the first one that no other name of its groups has. Names that share no group can have the same place.
 * The names in `first` have the first places.
 */
export function places(groups: string[][], first: Set<string> = new Set()): Map<string, number> {
  const among = new Map<string, number[]>();
  for (const [at, names] of groups.entries())
    for (const name of new Set(names)) among.set(name, [...(among.get(name) ?? []), at]);
  const taken = groups.map(() => new Set<number>());
  const free = groups.map(() => 0);
  const found = new Map<string, number>();
  const all = [...among.keys()];
  for (const name of [...all.filter((each) => first.has(each)), ...all.filter((each) => !first.has(each))]) {
    const own = among.get(name) ?? [];
    let place = Math.max(0, ...own.map((at) => free[at] ?? 0));
    while (own.some((at) => taken[at]?.has(place))) place += 1;
    found.set(name, place);
    for (const at of own) {
      taken[at]?.add(place);
      while (taken[at]?.has(free[at] ?? 0)) free[at] = (free[at] ?? 0) + 1;
    }
  }
  return found;
}

const nameOf = ({ label, id }: CellView): string => label || id;

/** Confirmed options come first: they are in all figures. */
const placesOf = remembered((view: View) => {
  const own = view.cells.filter(({ kind }) => kind === "candidate");
  const groups = new Map<string, string[]>();
  for (const cell of own) {
    const names = groups.get(cell.group) ?? [];
    names.push(nameOf(cell));
    groups.set(cell.group, names);
  }
  return places([...groups.values()], new Set(own.filter(({ stage }) => stage === "confirm").map(nameOf)));
});

/** The series of cells, by their names; an A/A control has that of its option. */
export const seriesOf = (view: View, cells: CellView[]): number[] =>
  cells.map((cell) => placesOf(view).get(nameOf(cell)) ?? 0);

/** Groups whose options differ in one factor, with their options: there a level is an option. */
const alone = remembered((view: View) =>
  view.groups.flatMap((group: GroupView) => {
    const own = candidates(view, group);
    const [factor, other] = varying(own, group.varied);
    return factor && !other ? [{ factor, own }] : [];
  }),
);

/** The series of a factor's levels; if it is the only compared factor, those of the options. */
export function seriesOfLevels(view: View, factor: string, wanted: Level[]): number[] {
  const cells = alone(view).flatMap((each) => (each.factor === factor ? each.own : []));
  const choices = wanted.map((value) => cells.find((cell) => level(cell, factor) === value));
  if (choices.every((cell) => cell != null)) return seriesOf(view, choices);
  const all = view.cells.filter(({ kind }) => kind === "candidate");
  const confirmed = all.filter(({ stage }) => stage === "confirm");
  const ranked = [...new Set([...confirmed, ...all].map((cell) => level(cell, factor)))];
  return wanted.map((value) => Math.max(0, ranked.indexOf(value)));
}

/** Computes once for each document. */
function remembered<Found>(make: (view: View) => Found): (view: View) => Found {
  const known = new WeakMap<View, Found>();
  return (view) => {
    const found = known.get(view) ?? make(view);
    known.set(view, found);
    return found;
  };
}
