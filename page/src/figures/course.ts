// Trials in the order in which they were measured, a row for each choice, and what the host took meanwhile: drift and disturbance
// are seen here.

import * as Plot from "@observablehq/plot";
import { candidates, cellOf } from "../data";
import { capital, counted, duration, percent, quantity } from "../format";
import type { Figure, Lacking } from "../frame";
import { toneOf, draw, heading, ink, paper, stolen, symbolOf, valueAxis } from "../look";
import { RATES } from "../measure";
import { BOUND_MAX } from "../outward";
import { seriesOf } from "../series";
import { ranked } from "./compared";
import type { Looking } from "../state";

/** A row each: more of them would be a picture that nobody can see at once. */
const ROWS_MAX = 6;
/** More points than this lie on each other: marks are faint then, with running medians of so many of them. */
const [MANY, RUN] = [40, 9];
/** The line of what is measured twice. */
const TWIN_DASH = "1 3";
/** How high a row is, and of that its name; how high what the host took is; pixels. */
const [ROW, NAME, STOLEN] = [92, 22, 106];

/** So many times as far out as most is no matter. */
const NEAR = 1.25;

/**
 * From where to where most rates lie: Tukey's far fences about the quartiles of their logarithms (three times their distance), or
 * the farthest rates within them; but never fewer than 95 of 100. A few trials that stall would flatten the rest.
 */
export function bulk(rates: number[]): [number, number] {
  const sorted = [...rates].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))] ?? 1;
  if (!(at(0.25) > 0)) return [at(0), at(1)];
  const fence = (at(0.75) / at(0.25)) ** 3;
  const [low, top] = [Math.min(at(0.25) / fence, at(0.025)), Math.max(at(0.75) * fence, at(0.975))];
  // What is hardly farther out has room.
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
      needs: "one block shows neither drift nor what disturbed; from two blocks on, they are drawn here.",
    };
  const label = (id: string) => cellOf(view, id)?.label ?? id;
  // Too few blocks judge no twin, and have measured it all the same.
  const again = (id: string) => id === group.twin?.twin || cellOf(view, id)?.kind === "twin";
  /** What a trial is one of: second trials are of the choice that they repeat, and stand in its row. */
  const choice = (id: string): string =>
    (id === group.twin?.twin && group.twin.cell) ||
    (again(id) && candidates(view, group).find((each) => each.label === label(id))?.id) ||
    id;
  const twinned = found.cells.map(({ cell }) => cell).find(again);
  // In the order of the ranking, so that what has no bound yet is drawn by how fast it is.
  const order = ranked(view, group).map(({ id }) => id);
  const rank = (id: string) => (order.includes(choice(id)) ? order.indexOf(choice(id)) : order.length);
  const all = [...found.cells].sort(
    (a, b) => rank(a.cell) - rank(b.cell) || Number(again(a.cell)) - Number(again(b.cell)),
  );
  const every = [...new Set(all.map(({ cell }) => choice(cell)))];
  // Whom the answer names and what was measured twice are drawn, whatever their ranks.
  const wanted = [group.recommendation.cell ?? group.recommendation.best, twinned && choice(twinned)];
  const first = every.filter((id) => wanted.includes(id));
  const others = every.filter((id) => !wanted.includes(id)).slice(0, ROWS_MAX - first.length);
  const rows = every.filter((id) => [...first, ...others].includes(id));
  const cells = all.filter(({ cell }) => rows.includes(choice(cell)));
  const known = rows.flatMap((id) => cellOf(view, id) ?? []);
  const looks = seriesOf(view, known);
  const lookOf = (id: string) => looks[known.findIndex((each) => each.id === choice(id))] ?? 0;
  const { broken } = group.blocks;
  const bounded = known.some((each) => (each.above_best_upper ?? BOUND_MAX) < BOUND_MAX);
  const unit = cellOf(view, cells[0]?.cell)?.estimate.unit ?? "";
  const metric = cellOf(view, cells[0]?.cell)?.estimate.metric ?? "";
  const name = (id: string) => (again(id) ? `${label(choice(id))}, second trials` : label(id));
  const pointsOf = (of: typeof all) =>
    of
      .flatMap(({ cell: id, rate }) =>
        rate.map((rate, at) => ({
          id,
          row: choice(id),
          at: found.at_ns[at] ?? 0,
          block: found.block[at] ?? 0,
          rate,
        })),
      )
      .filter((point): point is typeof point & { rate: number } => point.rate != null);
  const points = pointsOf(cells);
  const [low, top] = bulk(points.map(({ rate }) => rate));
  const scale = valueAxis(unit, low, top, 2);
  // A scale that begins at 0 has room for what is slow.
  const least = scale.from;
  /** How far a rate lies beyond the scale: below it, above it, or not. */
  const beyond = ({ rate }: { rate: number }): -1 | 0 | 1 => (rate < least ? -1 : rate > top ? 1 : 0);
  const y = ({ rate }: { rate: number }) => scale.place(Math.max(least, Math.min(rate, top)));
  const outside = points.filter(beyond).map(({ rate }) => rate);
  const many = found.at_ns.length > MANY;
  const steal = found.steal_share
    .map((share, at) => ({ at: found.at_ns[at] ?? 0, share }))
    .filter((point): point is { at: number; share: number } => point.share != null);
  const most = Math.max(...steal.map((point) => point.share), 0);
  const each =
    found.blocks_per_point === 1 ? "one trial" : `the median of ${found.blocks_per_point} neighbouring trials`;
  return {
    id: "course",
    title: capital(`${RATES[metric] ?? "rate"} of the trials, in the order of measurement`),
    reading: [
      `${rows.length > 1 ? "A row for each confirmed choice, all on one scale: each" : "Each"} mark is ${each}${many ? `, and the line the running median of ${RUN} marks` : ""}; the level line is the median of its trials.`,
      rows.length < every.length &&
        `Drawn are ${rows.length} of ${every.length} confirmed choices, ${bounded ? "those that may take the least" : "the fastest"}${first.some((id) => every.indexOf(id) >= ROWS_MAX) ? ", and what is named or was measured twice" : ""}; the data has all.`,
      twinned &&
        `Hollow are second trials: ${label(choice(twinned))}, picked before the first block, was measured twice in every block, so what both differ by is chance and disturbance.`,
      outside.length > 0 &&
        `${outside.length === 1 ? "1 mark lies" : `${outside.length} marks lie`} beyond the scale, drawn as an arrow at its edge (${[...new Set([Math.min(...outside), Math.max(...outside)])].map((rate) => quantity(rate, unit)).join(" to ")}).`,
      broken > 0 &&
        `${counted(broken, "block")} broke off, ${broken === 1 ? "was" : "were"} repeated, and ${broken === 1 ? "is" : "are"} left out: what broke off counts for nothing.`,
      steal.length > 0 && most === 0 && "The host took no CPU time from this machine in any of these blocks (steal).",
      most > 0 &&
        "Beneath: the share of CPU time that the host took from this machine in that block; marks that fall together with it were disturbed.",
      "A slope here is drift.",
    ]
      .filter((line) => line)
      .join(" "),
    table: () => ({
      columns: ["cell", "label", "block", "at_ns", "rate"],
      rows: pointsOf(all).map((point) => [point.id, name(point.id), point.block, point.at, point.rate]),
    }),
    draw(width) {
      const { axis, name: unitName, place } = scale;
      const end = Math.max(...found.at_ns, 1);
      const x: Plot.ScaleOptions = {
        domain: [Math.min(...found.at_ns), end],
        ticks: Math.max(3, Math.floor(width / 120)),
        tickFormat: (ns: number) => duration(ns),
        // The first and the last marks are seen whole.
        inset: 8,
      };
      const since = { label: "since the session began", labelArrow: "none", labelAnchor: "center" } as const;
      const shared = { marginLeft: 66, marginRight: 20 };
      const named = rows.map((id) => ({
        row: id,
        text: cells.some(({ cell }) => again(cell) && choice(cell) === id)
          ? `${label(id)}; hollow: its second trials`
          : label(id),
        stroke: toneOf(lookOf(id)),
        middle: cellOf(view, id)?.estimate.median,
      }));
      const drawings: Node[] = [
        draw(width, {
          ...shared,
          height: 22 + rows.length * ROW + (most > 0 ? 26 : 40),
          marginTop: 22 + NAME,
          marginBottom: most > 0 ? 26 : 40,
          x: { ...x, ...(most > 0 ? { label: null } : since) },
          y: axis,
          // Between rows there is room for the name of the one below.
          fy: { domain: rows, axis: null, paddingInner: NAME / ROW, paddingOuter: 0 },
          marks: [
            heading(capital(`${RATES[metric] ?? "rate"}, ${unitName}`), 66, -36, "super"),
            Plot.text(named, {
              fy: "row",
              text: "text",
              frameAnchor: "top-left",
              dx: 4,
              dy: -15,
              textAnchor: "start",
              fontWeight: 600,
              fill: "stroke",
              lineWidth: (width - 90) / 12,
              textOverflow: "ellipsis-end",
            }),
            Plot.ruleY(
              named.filter(({ middle }) => middle != null),
              { fy: "row", y: ({ middle }) => place(middle ?? null), stroke: "stroke", strokeOpacity: 0.45 },
            ),
            ...cells.flatMap((one) => {
              const own = points.filter((point) => point.id === one.cell);
              const inside = own.filter((point) => beyond(point) === 0);
              const twin = again(one.cell);
              const stroke = toneOf(lookOf(one.cell));
              const line = {
                x: "at",
                y,
                fy: "row",
                stroke,
                strokeWidth: many ? 2 : 1.2,
                strokeOpacity: many ? 1 : 0.6,
                strokeDasharray: twin ? TWIN_DASH : undefined,
              } as Plot.LineOptions;
              return [
                // Among many marks nobody sees which belong together: they stand back, and their middle is drawn.
                many
                  ? own.length > RUN && Plot.line(own, Plot.windowY({ k: RUN, reduce: "median" }, line))
                  : Plot.line(own, line),
                Plot.text(own.filter(beyond), {
                  x: "at",
                  y,
                  fy: "row",
                  text: (point) => (beyond(point) < 0 ? "↓" : "↑"),
                  fill: stroke,
                  fontWeight: 700,
                }),
                Plot.dot(inside, {
                  x: "at",
                  y,
                  fy: "row",
                  symbol: symbolOf(lookOf(one.cell)),
                  r: many ? 2.1 : 3.2,
                  stroke,
                  fill: twin ? paper() : stroke,
                  ...(many ? { strokeOpacity: 0.5, fillOpacity: 0.5, strokeWidth: 1 } : {}),
                } as Plot.DotOptions),
              ].filter((mark) => mark !== false);
            }),
            Plot.tip(
              points,
              Plot.pointer({
                x: "at",
                y,
                fy: "row",
                title: (point) =>
                  `${name(point.id)}\nblock ${point.block}, ${duration(point.at)} after the start\n${quantity(point.rate, unit)}`,
                fill: paper(),
                lineHeight: 1.3,
              }),
            ),
          ],
        }),
      ];
      if (most > 0) {
        drawings.push(
          draw(width, {
            ...shared,
            height: STOLEN,
            marginTop: 30,
            marginBottom: 38,
            x: { ...x, ...since },
            y: {
              domain: [0, Math.max(most, 0.02)],
              label: null,
              ticks: 2,
              grid: true,
              tickFormat: (share: number) => percent(share),
            },
            marks: [
              heading("CPU time taken by the host (steal)", 66, -24),
              Plot.ruleX(steal, {
                x: "at",
                y1: 0,
                y2: "share",
                stroke: stolen(),
                strokeWidth: Math.min(10, Math.max(2, (width - 90) / Math.max(steal.length, 1) / 3)),
              }),
              Plot.ruleY([0], { stroke: ink() }),
            ],
          }),
        );
      }
      return drawings;
    },
  };
}
