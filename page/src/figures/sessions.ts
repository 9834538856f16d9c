// The same cells in several sessions on one axis: another kernel, machine or hour. Compares nothing: sessions have no blocks in
// common, so they differ by more than their intervals cover. The figure of differences compares them.

import * as Plot from "@observablehq/plot";
import {
  type Between,
  type BetweenQuestion,
  type CellView,
  candidates,
  cellOf,
  factorOf,
  isConfirmed,
  isMeasured,
  level,
  type GroupView,
  questionOf,
  type View,
} from "../data";
import { capital, quantity } from "../format";
import type { Figure } from "../frame";
import { named, varying } from "../levels";
import { draw, fromZero, ink, legend, paper, rows as laidOut, SERIES_MAX, symbolOf, toneOf } from "../look";
import { RATES } from "../measure";
import type { Looking, State } from "../state";

const ROWS_MAX = 24;

/** The identity of a cell, independent of its session. */
export function identity(cell: CellView): string {
  const known = Object.entries(cell.factors as Record<string, unknown>).filter(([, level]) => level != null);
  return JSON.stringify(known.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Cells of one group with the same cells of each session; only those that two sessions measured. An imported table states only
 * some levels: the question has the matching cells.
 */
export function same(
  views: View[],
  own: CellView[],
  question?: BetweenQuestion,
  session?: number,
): { cell: CellView; found: (CellView | undefined)[] }[] {
  const stated = (cell: CellView, view: View) => {
    const is = (place: { session: number; cell: string }) => place.session === session && place.cell === cell.id;
    const places = question?.cells.find(({ cells }) => cells.some(is))?.cells;
    return cellOf(view, places?.find((place) => place.session === view.session)?.cell);
  };
  const known = views.map(
    (view) =>
      new Map(
        view.cells
          .filter((cell) => cell.kind === "candidate" && isMeasured(cell))
          .map((cell) => [identity(cell), cell]),
      ),
  );
  return own
    .map((cell) => ({
      cell,
      found: views.map((view, at) => stated(cell, view) ?? known[at]?.get(identity(cell))),
    }))
    .filter(({ found }) => found.filter((each) => each != null).length > 1);
}

/** A session in the legend: its number, its subject if it has one, and its time. */
export function called({ session, plan, started }: View, between: Between | null): string {
  const arm = between && between.arms.length > 1 && between.arms.find(({ sessions }) => sessions.includes(session));
  const own = arm ? arm.name : plan.name;
  const what = /^(the sessions before|session \d+)$/.test(own) ? "" : `${own}, `;
  return `${session}: ${what}${started.slice(0, 16).replace("T", " ")}`;
}

/** Confirmed cells first, then those with the smallest upper ends. */
export const byWorth = (a: CellView, b: CellView): number =>
  Number(isConfirmed(b)) - Number(isConfirmed(a)) ||
  (a.above_best_upper ?? Number.MAX_VALUE) - (b.above_best_upper ?? Number.MAX_VALUE);

interface Point {
  /** The row. */
  id: string;
  /** The number of the session. */
  s: number;
  cell: CellView;
  rate: number;
  lower: number | null;
  upper: number | null;
}

/** The cells of a figure, as far as they do not depend on a width. */
interface Shared {
  views: View[];
  between: Between | null;
  rows: { id: string; cell: CellView }[];
  points: Point[];
  label(cell: CellView): string;
  /** `throughput`. */
  rate: string;
  unit: string;
}

export function sessions({ view, group }: Looking, state: State): Figure | null {
  const views = state.views.slice(0, SERIES_MAX);
  if (views.length < 2) return null;
  const shared = sharedOf(view, group, views, state.between);
  if (!shared) return null;
  const { points, label, rate } = shared;
  const hollow = points.every((point) => isConfirmed(point.cell)) ? "" : "; hollow marks were screened only";
  return {
    id: "same-cells",
    title: capital(`${rate} of the same options in other sessions`),
    caption: `Each session has its own mark and interval${hollow}.`,
    notes: ["Intervals cover the variation within a session: hours, boots and machines differ by more."],
    table: () => ({
      columns: ["cell", "session", "rate", "lower", "upper", "stage"],
      rows: points.map((point) => [
        label(point.cell),
        views[point.s]?.session ?? null,
        point.rate,
        point.lower,
        point.upper,
        point.cell.stage ?? null,
      ]),
    }),
    draw: (width) => drawn(shared, width),
  };
}

function sharedOf(view: View, group: GroupView, views: View[], between: Between | null): Shared | null {
  const own = candidates(view, group).filter(isMeasured);
  const found = same(views, [...own].sort(byWorth), questionOf(between, view, group), view.session).slice(0, ROWS_MAX);
  if (found.length === 0) return null;
  // Sizes are in ascending order.
  const numbers = varying(own, view.plan.varied).filter((factor) =>
    own.every((cell) => typeof level(cell, factor) === "number"),
  );
  const order = (a: CellView, b: CellView) =>
    numbers.map((factor) => Number(level(a, factor)) - Number(level(b, factor))).find((apart) => apart !== 0) ?? 0;
  found.sort((a, b) => order(a.cell, b.cell));
  const varied = group.varied.length > 0 ? group.varied : view.plan.varied;
  const points = found.flatMap((row) =>
    row.found.flatMap((cell, s): Point[] => {
      const { median: rate, lower, upper } = cell?.estimate ?? {};
      return cell == null || rate == null
        ? []
        : [{ id: row.cell.id, s, cell, rate, lower: lower ?? null, upper: upper ?? null }];
    }),
  );
  const { metric = "", unit = "" } = points[0]?.cell.estimate ?? {};
  return {
    views,
    between,
    rows: found.map(({ cell }) => ({ id: cell.id, cell })),
    points,
    label: (cell) =>
      cell.label || varied.map((factor) => named(level(cell, factor), factorOf(view, factor))).join(", ") || cell.id,
    rate: RATES[metric] ?? "rate",
    unit,
  };
}

function drawn({ views, between, rows, points, label, rate, unit }: Shared, width: number): Node[] {
  const shift = (s: number) => (s - (views.length - 1) / 2) * 9;
  const rowHeight = 16 + views.length * 9;
  const reach = shift(views.length - 1) + 4;
  const { left, y, names, height } = laidOut(rows, ({ cell }) => label(cell), width, rowHeight, reach);
  const { axis, name } = fromZero(unit, Math.max(...points.map((point) => point.upper ?? point.rate)));
  const drawing = draw(width, {
    height: 74 + height,
    marginLeft: left,
    marginRight: 18,
    marginTop: 10,
    marginBottom: 42,
    x: { ...axis, label: capital(`${rate}, ${name}`), labelAnchor: "center" },
    y,
    marks: [
      Plot.ruleY(rows, { y: "id", stroke: ink(), strokeOpacity: 0.06, strokeWidth: 1 }),
      names,
      ...views.flatMap((_, s) =>
        marks(
          points.filter((point) => point.s === s),
          s,
          shift(s),
        ),
      ),
      Plot.tip(
        points,
        Plot.pointer({
          y: "id",
          x: "rate",
          title: (point: Point) =>
            `${label(point.cell)}\nsession ${views[point.s]?.session}\n${quantity(point.rate, unit)}`,
          fill: paper(),
          lineHeight: 1.3,
        }),
      ),
    ],
  });
  const entries = views.flatMap((each, series) =>
    points.some((point) => point.s === series) ? [{ name: called(each, between), series, loose: true }] : [],
  );
  return [drawing, legend("session", entries, width)];
}

/** The intervals and marks of a session. */
function marks(own: Point[], s: number, dy: number): Plot.Markish[] {
  const stroke = toneOf(s);
  return [
    Plot.ruleY(
      own.filter((point) => point.lower != null),
      { y: "id", x1: "lower", x2: "upper", dy, stroke, strokeWidth: 2 },
    ),
    Plot.dot(own, {
      y: "id",
      x: "rate",
      dy,
      symbol: symbolOf(s),
      r: 4,
      stroke,
      fill: (point: Point) => (isConfirmed(point.cell) ? stroke : paper()),
    } as Plot.DotOptions),
  ];
}
