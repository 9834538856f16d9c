// The axes of a sweep: which factor is a good axis, which levels are drawn, and the end of the axis of values.

import { type CellView, type GroupView, type Level, type View } from "../data";
import { along, levels, partsOf, varying } from "../levels";
import { CURVE_LEAST, SERIES_MAX } from "../look";

export const isNumeric = (values: Level[]): boolean => values.every((value) => typeof value === "number" && value > 0);

/** Whether a line joins the marks of a series. Names have no order: there a line only shows which marks belong together. */
export const isJoined = (marks: number, numeric: boolean, series: number): boolean =>
  numeric ? marks >= CURVE_LEAST : marks > 1 && series > 1;

/** Few enough levels that their lines can be distinguished: evenly spread, and the one of the selected cell. */
export function spread(all: Level[], own: Level): Level[] {
  // A size is between others, which represent it; a name is not.
  if (all.length <= (all.every((each) => typeof each === "number") ? SPREAD + 1 : SERIES_MAX)) return all;
  const some = Array.from({ length: SPREAD }, (_, at) => all[Math.round((at * (all.length - 1)) / (SPREAD - 1))]);
  return all.filter((each) => each === own || some.includes(each));
}
const SPREAD = 5;

/** An end that is farther than this multiple of all others is cut off: it would flatten the rest. */
const FAR_OUT = 2.5;

const end = ({ mid, upper }: { mid: number; upper: number | null }) => Math.max(mid, upper ?? mid);
export const farthest = (values: { mid: number; upper: number | null }[]): number => Math.max(0, ...values.map(end));

/** The end of an axis: the farthest end, or a little beyond the second one if that is far below. */
export function topOf(values: { mid: number; upper: number | null }[], logarithmic = false): number {
  // On a logarithmic axis a distant end flattens nothing.
  if (logarithmic) return farthest(values);
  const ends = values.map(end).sort((a, b) => b - a);
  const middles = Math.max(0, ...values.map(({ mid }) => mid));
  const [far = 0, next = far] = ends;
  const others = Math.max(next, middles);
  return far > FAR_OUT * others ? 1.2 * others : far;
}

/** Groups that no factor separates from another one, as tables of two machines: of such groups the selected one is drawn, or the first. */
export function indistinct({ groups }: Pick<View, "groups">, selected: GroupView): GroupView[] {
  const key = ({ factors }: GroupView) => JSON.stringify(Object.entries(factors).sort());
  return groups.filter((one, at) =>
    groups.some(
      (other, place) =>
        one !== selected && other !== one && key(other) === key(one) && (other === selected || place < at),
    ),
  );
}

/** Factors, the best axes first: those with the most numeric levels. */
export function axes(cells: CellView[], factors: string[]): string[] {
  const weight = (factor: string) => levels(cells, factor).filter((value) => typeof value === "number").length;
  return varying(cells, factors)
    .map((factor, at) => ({ factor, at, weight: weight(factor) }))
    .sort((a, b) => b.weight - a.weight || a.at - b.at)
    .map(({ factor }) => factor);
}

/**
 * The first axis: a compared size, else another number; never a factor with one level under the conditions of the selected cell,
 * nor a part of a profile.
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
