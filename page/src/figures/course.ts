// Trials in the order of measurement, a row for each option, and CPU steal: shows drift and disturbance.

import { candidates, cellOf, type CourseView, type GroupView, recommendedOf, type View } from "../data";
import { capital, quantity } from "../format";
import type { Figure, Lacking, Note } from "../frame";
import { valueAxis } from "../look";
import { RATES } from "../measure";
import { seriesOf } from "../series";
import type { Looking } from "../state";
import { ranked } from "./compared";
import { drawCourse } from "./course-drawing";

/** More rows do not fit a screen. */
const ROWS_MAX = 6;
/** Figures of more points have faint marks, and running medians of `RUN` points. */
export const [MANY, RUN] = [40, 9];
/** The largest factor by which a rate can leave the bulk and still extend the scale. */
const NEAR = 1.25;

export interface Point {
  id: string;
  /** The option, which is the row. */
  row: string;
  at: number;
  block: number;
  rate: number;
}

/** The trials of a group, as far as they do not depend on a width. */
export interface Course {
  view: View;
  found: CourseView;
  /** The options with a row, and all of them. */
  rows: string[];
  every: string[];
  points: Point[];
  /** The points of all options. */
  all: Point[];
  /** The option that the A/A control repeats. */
  control: string | undefined;
  isControl(id: string): boolean;
  lookOf(row: string): number;
  label(id: string): string;
  unit: string;
  metric: string;
  /** The ends of the scale: rates beyond them are arrows. */
  low: number;
  top: number;
  scale: ReturnType<typeof valueAxis>;
  steal: { at: number; share: number }[];
  /** The largest share of CPU steal in a block. */
  most: number;
}

/**
 * The range of most rates: Tukey's far fences around the quartiles of their logarithms (three times their distance), or the
 * farthest rates within them; at least 95 of 100 are inside. A few trials that stall would flatten the rest.
 */
export function bulk(rates: number[]): [number, number] {
  const sorted = [...rates].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 1;
  if (!(at(0.25) > 0)) return [at(0), at(1)];
  const fence = (at(0.75) / at(0.25)) ** 3;
  const [low, top] = [Math.min(at(0.25) / fence, at(0.025)), Math.max(at(0.75) * fence, at(0.975))];
  const within = sorted.filter((rate) => rate >= low / NEAR && rate <= top * NEAR);
  return [within[0] ?? low, within.at(-1) ?? top];
}

export function course({ view, group }: Looking): Figure | Lacking | null {
  const found = group.course;
  if (!found || found.cells.length === 0) return null;
  if (found.at_ns.length < 2)
    return {
      id: "course",
      title: "The trials in the order of measurement",
      needs: "drift and disturbance need two blocks or more.",
    };
  const course = courseOf(view, group, found);
  return {
    id: "course",
    title: capital(`${RATES[course.metric] ?? "rate"} of the trials, in the order of measurement`),
    caption: captionOf(course),
    notes: notesOf(course, group),
    table: () => ({
      columns: ["cell", "label", "block", "at_ns", "rate"],
      rows: course.all.map((point) => [point.id, nameOf(course, point.id), point.block, point.at, point.rate]),
    }),
    draw: (width) => drawCourse(course, width),
  };
}

function courseOf(view: View, group: GroupView, found: CourseView): Course {
  const label = (id: string) => cellOf(view, id)?.label ?? id;
  const isControl = (id: string) => id === group.twin?.twin || cellOf(view, id)?.kind === "twin";
  /** The option of a trial: an A/A control is in the row of the option that it repeats. */
  const optionOf = (id: string): string =>
    (id === group.twin?.twin && group.twin.cell) ||
    (isControl(id) && candidates(view, group).find((each) => each.label === label(id))?.id) ||
    id;
  const repeated = found.cells.map(({ cell }) => cell).find(isControl);
  const control = repeated == null ? undefined : optionOf(repeated);
  const every = inOrder(view, group, [...new Set(found.cells.map(({ cell }) => optionOf(cell)))]);
  const rows = shownRows(every, [recommendedOf(view, group), control]);
  const all = every.flatMap((row) => pointsOf(found, row, optionOf, isControl));
  const points = all.filter(({ row }) => rows.includes(row));
  const [low, top] = bulk(points.map(({ rate }) => rate));
  const { unit = "", metric = "" } = cellOf(view, rows[0])?.estimate ?? {};
  const scale = valueAxis(unit, low, top, 2);
  const known = rows.flatMap((id) => cellOf(view, id) ?? []);
  const looks = seriesOf(view, known);
  const steal = found.steal_share.flatMap((share, at) => (share == null ? [] : [{ at: found.at_ns[at] ?? 0, share }]));
  return {
    view,
    found,
    rows,
    every,
    points,
    all,
    control,
    isControl,
    lookOf: (row) => looks[known.findIndex((each) => each.id === row)] ?? 0,
    label,
    unit,
    metric,
    // A scale that begins at 0 has room for slow trials.
    low: scale.from,
    top,
    scale,
    steal,
    most: Math.max(...steal.map(({ share }) => share), 0),
  };
}

/** Options in the order of the ranking. */
function inOrder(view: View, group: GroupView, options: string[]): string[] {
  const order = ranked(view, group).map(({ id }) => id);
  const rank = (id: string) => (order.includes(id) ? order.indexOf(id) : order.length);
  return options.sort((a, b) => rank(a) - rank(b));
}

/** The first options; the wanted ones have a row in any case. */
function shownRows(every: string[], wanted: (string | null | undefined)[]): string[] {
  const first = every.filter((id) => wanted.includes(id));
  const others = every.filter((id) => !wanted.includes(id)).slice(0, ROWS_MAX - first.length);
  return every.filter((id) => first.includes(id) || others.includes(id));
}

/** The trials of an option, then those of its A/A control. */
function pointsOf(
  found: CourseView,
  row: string,
  optionOf: (id: string) => string,
  isControl: (id: string) => boolean,
): Point[] {
  const own = found.cells.filter(({ cell }) => optionOf(cell) === row);
  own.sort((a, b) => Number(isControl(a.cell)) - Number(isControl(b.cell)));
  return own.flatMap(({ cell: id, rate }) =>
    rate.flatMap((rate, at): Point[] =>
      rate == null ? [] : [{ id, row, at: found.at_ns[at] ?? 0, block: found.block[at] ?? 0, rate }],
    ),
  );
}

/** The name of a point's option. */
export const nameOf = ({ control, isControl, label }: Course, id: string): string =>
  isControl(id) ? `${label(control ?? id)}, A/A control` : label(id);

/** Whether a rate is below the scale, above it, or on it. */
export const beyond = ({ low, top }: Course, { rate }: { rate: number }): -1 | 0 | 1 =>
  rate < low ? -1 : rate > top ? 1 : 0;

function captionOf({ rows, found }: Course): string {
  const each = found.blocks_per_point === 1 ? "one trial" : `the median of ${found.blocks_per_point} adjacent trials`;
  const many = found.at_ns.length > MANY ? `, the curve the running median of ${RUN} marks` : "";
  const row = rows.length > 1 ? "Each row is an option, each mark" : "Each mark is";
  return `${row} ${each}${many}; a slope is drift.`;
}

function notesOf(course: Course, group: GroupView): Note[] {
  const { rows, every, control, points, unit, steal, most, label } = course;
  const { broken } = group.blocks;
  const outside = points.filter((point) => beyond(course, point) !== 0).map(({ rate }) => rate);
  const ends = [...new Set([Math.min(...outside), Math.max(...outside)])].map((rate) => quantity(rate, unit));
  return [
    "The level line is the median of the option's trials.",
    rows.length < every.length &&
      `${rows.length} of ${every.length} confirmed options have a row: the first ones of the ranking, the recommended one and the one with the A/A control.`,
    control != null &&
      `Hollow marks are the A/A control: ${label(control)} is measured twice in each block, so the two differ by chance and disturbance only.`,
    outside.length > 0 &&
      `Marks beyond the scale: ${outside.length}, drawn as arrows at its edge (${ends.join(" to ")}).`,
    broken > 0 && `Blocks that were interrupted and repeated: ${broken}. They are omitted.`,
    steal.length > 0 && most === 0 && "No block had CPU steal.",
    most > 0 && "The bars below show CPU steal in each block: marks that fall at the same time were disturbed.",
  ];
}
