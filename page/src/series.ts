// Which colour, symbol and dash a choice has: the same in every figure of a session's page, whichever of them are drawn there.

import { type CellView, type Level, level, type View } from "./data";
import { varying } from "./levels";
import { SERIES_MAX } from "./look";

/**
 * A place of its own for each that is wanted: that of its rank among all, or the next free one where there are more than can be
 * told apart. The same one again has the same place.
 */
export function places(all: string[], wanted: string[]): number[] {
  const taken = new Map<string, number>();
  const free = (from: number) => {
    const used = new Set(taken.values());
    for (let step = 0; step < SERIES_MAX; step += 1) {
      const place = (from + step) % SERIES_MAX;
      if (!used.has(place)) return place;
    }
    return from % SERIES_MAX;
  };
  return wanted.map((key) => {
    const place = taken.get(key) ?? free(Math.max(0, all.indexOf(key)));
    taken.set(key, place);
    return place;
  });
}

const keyOf = (cell: CellView, factors: string[]): string =>
  JSON.stringify(factors.map((factor) => level(cell, factor)));

/** All that occurs, what was confirmed first: that is drawn everywhere. */
function ranked(view: View, factors: string[]): string[] {
  const cells = view.cells.filter((cell) => cell.kind === "candidate");
  const confirmed = cells.filter((cell) => cell.stage === "confirm");
  return [...new Set([...confirmed, ...cells].map((cell) => keyOf(cell, factors)))];
}

/** The series of cells, by what is compared in the session; a twin has that of the cell that it repeats. */
export function seriesOf(view: View, cells: CellView[]): number[] {
  const candidates = view.cells.filter((cell) => cell.kind === "candidate");
  const compared = varying(candidates, [...new Set(view.groups.flatMap((group) => group.varied))]);
  return places(
    ranked(view, compared),
    cells.map((cell) => keyOf(cell, compared)),
  );
}

/** The series of a factor's levels; of the one factor that is compared they are those of the cells. */
export function seriesOfLevels(view: View, factor: string, wanted: Level[]): number[] {
  return places(
    ranked(view, [factor]),
    wanted.map((value) => JSON.stringify([value])),
  );
}
