// What a sweep is drawn over: which factor makes a good axis, which levels are drawn, and how far the other axis reaches.

import { type CellView, type GroupView, type Level, type View } from "../data";
import { along, levels, partsOf, varying } from "../levels";
import { CURVE_LEAST, SERIES_MAX } from "../look";

export const isNumeric = (values: Level[]): boolean => values.every((value) => typeof value === "number" && value > 0);

/** Whether so many marks of a series are joined: of numbers a few make a curve; names have no order, so that there a line tells no more than which marks belong together. */
export const isJoined = (marks: number, numeric: boolean, series: number): boolean =>
  numeric ? marks >= CURVE_LEAST : marks > 1 && series > 1;

/** Of more lines than can be followed a few are drawn, evenly spread, and that of the cell looked at. */
export function told(all: Level[], own: Level): Level[] {
  // A size stands between others, which tell of it; a name stands for itself.
  if (all.length <= (all.every((each) => typeof each === "number") ? SPREAD + 1 : SERIES_MAX)) return all;
  const spread = Array.from({ length: SPREAD }, (_, at) => all[Math.round((at * (all.length - 1)) / (SPREAD - 1))]);
  return all.filter((each) => each === own || spread.includes(each));
}
const SPREAD = 5;

/** One end that reaches so many times as far as all others is cut off: an interval that says nothing must not flatten the rest. */
const FAR_OUT = 2.5;

const end = ({ mid, upper }: { mid: number; upper: number | null }) => Math.max(mid, upper ?? mid);
export const farthest = (values: { mid: number; upper: number | null }[]): number => Math.max(0, ...values.map(end));

/** How far an axis reaches: to the farthest end, or a little beyond the second one where that lies far below it. */
export function topOf(values: { mid: number; upper: number | null }[], logarithmic = false): number {
  // What lies far out has its place on a logarithmic axis, and flattens nothing.
  if (logarithmic) return farthest(values);
  const ends = values.map(end).sort((a, b) => b - a);
  const middles = Math.max(0, ...values.map(({ mid }) => mid));
  const [far = 0, next = far] = ends;
  const others = Math.max(next, middles);
  return far > FAR_OUT * others ? 1.2 * others : far;
}

/** Groups that no factor tells from another one, as tables of two machines: of those alike the one looked at is drawn, or the first. */
export function indistinct({ groups }: Pick<View, "groups">, looked: GroupView): GroupView[] {
  const key = ({ factors }: GroupView) => JSON.stringify(Object.entries(factors).sort());
  return groups.filter((one, at) =>
    groups.some(
      (other, place) => one !== looked && other !== one && key(other) === key(one) && (other === looked || place < at),
    ),
  );
}

/** Factors in the order in which they make good axes: many numeric levels first. */
export function axes(cells: CellView[], factors: string[]): string[] {
  const weight = (factor: string) => levels(cells, factor).filter((value) => typeof value === "number").length;
  return varying(cells, factors)
    .map((factor, at) => ({ factor, at, weight: weight(factor) }))
    .sort((a, b) => b.weight - a.weight || a.at - b.at)
    .map(({ factor }) => factor);
}

/**
 * What to begin with: the sizes that are compared, else what else there is a number of; never what there is one of under the
 * conditions of the cell looked at, nor what a profile is a name for.
 */
export function across(
  view: View,
  all: CellView[],
  cell: CellView,
  order: string[],
  compared: string[],
): string | undefined {
  const numeric = (factor: string) => levels(all, factor).filter((value) => typeof value === "number").length > 1;
  const several = (factor: string) =>
    levels(along(view, all, cell, [factor]), factor).filter((value) => value != null).length > 1;
  const parts = order.includes("profile") ? partsOf(view, all, ["profile"]) : [];
  const useful = order.filter((factor) => several(factor) && !parts.includes(factor));
  const own = useful.filter((factor) => compared.includes(factor));
  return own.find(numeric) ?? useful.find(numeric) ?? own[0] ?? useful[0] ?? order[0];
}
