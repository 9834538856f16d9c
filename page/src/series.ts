// Which colour, symbol and dash a choice has: the same in every figure of a session's page, and under all conditions, whichever
// choices are drawn there.

import { type CellView, candidates, type GroupView, type Level, level, type View } from "./data";
import { varying } from "./levels";

/**
 * A place for each name, the first that nothing has beside which it stands in a group: what never stand beside each other may look
 * alike, but no name looks different from group to group. `first` names have the first places.
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

/** What was confirmed comes first: that is drawn everywhere. */
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

/** The series of cells, by their names; a twin has that of the cell that it repeats. */
export const seriesOf = (view: View, cells: CellView[]): number[] =>
  cells.map((cell) => placesOf(view).get(nameOf(cell)) ?? 0);

/** Groups whose choices differ in one factor alone, with their choices: there a level is a choice. */
const alone = remembered((view: View) =>
  view.groups.flatMap((group: GroupView) => {
    const own = candidates(view, group);
    const [factor, other] = varying(own, group.varied);
    return factor && !other ? [{ factor, own }] : [];
  }),
);

/** The series of a factor's levels: of one factor that is compared alone they are those of the choices. */
export function seriesOfLevels(view: View, factor: string, wanted: Level[]): number[] {
  const cells = alone(view).flatMap((each) => (each.factor === factor ? each.own : []));
  const choices = wanted.map((value) => cells.find((cell) => level(cell, factor) === value));
  if (choices.every((cell) => cell != null)) return seriesOf(view, choices);
  const all = view.cells.filter(({ kind }) => kind === "candidate");
  const confirmed = all.filter(({ stage }) => stage === "confirm");
  const ranked = [...new Set([...confirmed, ...all].map((cell) => level(cell, factor)))];
  return wanted.map((value) => Math.max(0, ranked.indexOf(value)));
}

/** Worked out once for each document: a figure is drawn again and again. */
function remembered<Found>(make: (view: View) => Found): (view: View) => Found {
  const known = new WeakMap<View, Found>();
  return (view) => {
    const found = known.get(view) ?? make(view);
    known.set(view, found);
    return found;
  };
}
