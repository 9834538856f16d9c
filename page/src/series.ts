// The colour, symbol and dash of an option: the same in every figure of a session and under all conditions.

import { type CellView, type Level, level, type View } from "./data";

/** The number of the look of some names, by their first appearance: confirmed options come first, since they are in all figures. */
function looksOf<Name>({ cells }: View, nameOf: (cell: CellView) => Name, wanted: Name[]): number[] {
  const all = cells.filter(({ kind }) => kind === "candidate");
  const confirmed = all.filter(({ stage }) => stage === "confirm");
  const order = [...new Set([...confirmed, ...all].map(nameOf))];
  return wanted.map((name) => Math.max(0, order.indexOf(name)));
}

const nameOf = ({ label, id }: CellView): string => label || id;

/** The series of cells, by their names; an A/A control has that of its option. */
export const seriesOf = (view: View, cells: CellView[]): number[] => looksOf(view, nameOf, cells.map(nameOf));

/** The series of a factor's levels; if it is the only factor that differs, those of the options. */
export const seriesOfLevels = (view: View, factor: string, wanted: Level[]): number[] =>
  looksOf(view, (cell) => level(cell, factor), wanted);
