// The same cells in several sessions, on one axis: another kernel, another machine, another hour. Shows, and judges nothing:
// sessions are not measured in the same blocks, so what lies between them is more than the intervals know. What is shown of
// their differences stands in the figure beside it.

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
  questionOf,
  type View,
} from "../data";
import { capital, quantity } from "../format";
import type { Figure } from "../frame";
import { named, varying } from "../levels";
import { toneOf, draw, fromZero, ink, legend, paper, rows as laidOut, SERIES_MAX, symbolOf } from "../look";
import { RATES } from "../measure";
import type { Looking, State } from "../state";

const ROWS_MAX = 24;

/** What a cell is, whatever its session calls it. */
export function identity(cell: CellView): string {
  const known = Object.entries(cell.factors as Record<string, unknown>).filter(([, level]) => level != null);
  return JSON.stringify(known.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Cells of one group and, by session, the same cells there; only those that two sessions measured. A table that was imported
 * states some levels alone: which of its cells is meant, the question knows.
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

/** A session in the legend: what it is a subject of, where that says more than its number. */
export function called({ session, plan, started }: View, between: Between | null): string {
  const arm = between && between.arms.length > 1 && between.arms.find(({ sessions }) => sessions.includes(session));
  const own = arm ? arm.name : plan.name;
  const what = /^(the sessions before|session \d+)$/.test(own) ? "" : `${own}, `;
  return `${session}: ${what}${started.slice(0, 16).replace("T", " ")}`;
}

/** What was confirmed comes first, what is bounded closest before the rest: a bound may reach as far as it likes. */
export const byWorth = (a: CellView, b: CellView): number =>
  Number(isConfirmed(b)) - Number(isConfirmed(a)) ||
  (a.above_best_upper ?? Number.MAX_VALUE) - (b.above_best_upper ?? Number.MAX_VALUE);

export function sessions({ view, group }: Looking, state: State): Figure | null {
  const views = state.views.slice(0, SERIES_MAX);
  if (views.length < 2) return null;
  const own = candidates(view, group).filter(isMeasured);
  const shared = same(views, own.sort(byWorth), questionOf(state.between, view, group), view.session).slice(
    0,
    ROWS_MAX,
  );
  if (shared.length === 0) return null;
  // Sizes are read in their order.
  const numbers = varying(own, view.plan.varied).filter((factor) =>
    own.every((cell) => typeof level(cell, factor) === "number"),
  );
  const before = (a: CellView, b: CellView) =>
    numbers.map((factor) => Number(level(a, factor)) - Number(level(b, factor))).find((apart) => apart !== 0) ?? 0;
  shared.sort((a, b) => before(a.cell, b.cell));
  const rows = shared.map(({ cell, found }) => ({ id: cell.id, cell, found }));
  const varied = group.varied.length > 0 ? group.varied : view.plan.varied;
  const label = (cell: CellView) =>
    cell.label ||
    varied
      .map((factor) => named((cell.factors as Record<string, string>)[factor] ?? null, factorOf(view, factor)))
      .join(", ") ||
    cell.id;
  const points = rows.flatMap((row) =>
    row.found.flatMap((cell, s) =>
      cell?.estimate.median == null
        ? []
        : [
            {
              id: row.id,
              s,
              cell,
              rate: cell.estimate.median,
              lower: cell.estimate.lower ?? null,
              upper: cell.estimate.upper ?? null,
            },
          ],
    ),
  );
  const unit = points[0]?.cell.estimate.unit ?? "";
  return {
    id: "same-cells",
    title: capital(`${RATES[points[0]?.cell.estimate.metric ?? ""] ?? "rate"} of the same cells in other sessions`),
    reading: `Each session has its own mark and its own interval${points.every((point) => isConfirmed(point.cell)) ? "" : "; hollow marks were screened only"}. Intervals cover what varied within a session: hours, boots and machines differ by more.`,
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
    draw(width) {
      const apart = (s: number) => (s - (views.length - 1) / 2) * 9;
      const { left, y, names, height } = laidOut(
        rows,
        (row) => label(row.cell),
        width,
        16 + views.length * 9,
        apart(views.length - 1) + 4,
      );
      const { axis, name } = fromZero(unit, Math.max(...points.map((point) => point.upper ?? point.rate)));
      const marks = views.flatMap((_, s) => {
        const own = points.filter((point) => point.s === s);
        const stroke = toneOf(s);
        return [
          Plot.ruleY(
            own.filter((point) => point.lower != null),
            { y: "id", x1: "lower", x2: "upper", dy: apart(s), stroke, strokeWidth: 2 },
          ),
          Plot.dot(own, {
            y: "id",
            x: "rate",
            dy: apart(s),
            symbol: symbolOf(s),
            r: 4,
            stroke,
            fill: (point: (typeof own)[number]) => (isConfirmed(point.cell) ? stroke : paper()),
          } as Plot.DotOptions),
        ];
      });
      return [
        draw(width, {
          height: 74 + height,
          marginLeft: left,
          marginRight: 18,
          marginTop: 10,
          marginBottom: 42,
          x: {
            ...axis,
            label: capital(`${RATES[points[0]?.cell.estimate.metric ?? ""] ?? "rate"}, ${name}`),
            labelAnchor: "center",
          },
          y,
          marks: [
            Plot.ruleY(rows, { y: "id", stroke: ink(), strokeOpacity: 0.06, strokeWidth: 1 }),
            names,
            ...marks,
            Plot.tip(
              points,
              Plot.pointer({
                y: "id",
                x: "rate",
                title: (point) =>
                  `${label(point.cell)}\nsession ${views[point.s]?.session}\n${quantity(point.rate, unit)}`,
                fill: paper(),
                lineHeight: 1.3,
              }),
            ),
          ],
        }),
        legend(
          "session",
          views.flatMap((each, series) =>
            points.some((point) => point.s === series)
              ? [{ name: called(each, state.between), series, loose: true }]
              : [],
          ),
          width,
        ),
      ];
    },
  };
}
