// Trials in the order in which they were measured, and what the host took meanwhile: drift and disturbance are seen here.

import * as Plot from "@observablehq/plot";
import { cellOf } from "../data";
import { capital, counted, duration, percent, quantity } from "../format";
import type { Figure, Lacking } from "../frame";
import { colours, DASHES, draw, heading, ink, legend, paper, SERIES_MAX, stolen, SYMBOLS, valueAxis } from "../look";
import { RATES } from "../measure";
import { BOUND_MAX } from "../outward";
import { seriesOf } from "../series";
import { ranked } from "./compared";
import type { Looking } from "../state";

const LINES_MAX = Math.min(6, SERIES_MAX);
/** More points than this lie on each other: marks are faint then, with running medians of so many of them. */
const [MANY, RUN] = [40, 9];
/** What is measured twice has one colour, and a line of its own. */
const TWIN_DASH = "1 3";

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
  const recommended = group.recommendation.cell ?? group.recommendation.best;
  // Of two neither is to be used, and of one alone there is nothing to be told from.
  const lined = view.versus ? undefined : recommended;
  const twin = group.twin?.twin;
  // Too few blocks judge no twin, and have measured it all the same.
  const again = (id: string) => id === twin || cellOf(view, id)?.kind === "twin";
  // In the order of the ranking, so that what has no bound yet is drawn by how fast it is.
  const order = ranked(view, group).map(({ id }) => id);
  const weight = (id: string) =>
    id === recommended ? 0 : again(id) ? 1 : 2 + (order.includes(id) ? order.indexOf(id) : order.length);
  const all = [...found.cells].sort((a, b) => weight(a.cell) - weight(b.cell));
  const cells = all.slice(0, LINES_MAX);
  const choices = (of: typeof all) => of.filter((each) => !again(each.cell)).length;
  const known = cells.flatMap(({ cell }) => cellOf(view, cell) ?? []);
  const looks = seriesOf(view, known);
  const series = cells.map(({ cell }) => looks[known.findIndex(({ id }) => id === cell)]);
  const twinned = label(group.twin?.cell ?? "");
  const { broken } = group.blocks;
  const bounded = known.some((each) => (each.above_best_upper ?? BOUND_MAX) < BOUND_MAX);
  const unit = cellOf(view, cells[0]?.cell)?.estimate.unit ?? "";
  const metric = cellOf(view, cells[0]?.cell)?.estimate.metric ?? "";
  const name = (id: string) =>
    again(id) ? `${label(id === twin ? (group.twin?.cell ?? id) : id)}, second trials` : label(id);
  const pointsOf = (of: typeof all) =>
    of
      .flatMap(({ cell: id, rate }) =>
        rate.map((rate, at) => ({ id, at: found.at_ns[at] ?? 0, block: found.block[at] ?? 0, rate })),
      )
      .filter((point): point is typeof point & { rate: number } => point.rate != null);
  const points = pointsOf(cells);
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
      `Each mark is ${each} of a confirmed choice; ${many ? `the lines are running medians of ${RUN} marks` : lined ? `the line is that of ${label(lined)}` : "no line joins them"}.`,
      choices(cells) < choices(all) &&
        `Drawn are ${choices(cells)} of ${choices(all)} confirmed choices, ${bounded ? "those that may take the least" : "the fastest"}; the data has all.`,
      cells.some((one) => again(one.cell)) &&
        `Hollow are second trials: ${twinned ? `${twinned}, picked before the first block, was` : "one choice was"} measured twice in every block.`,
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
      const tone = colours();
      const rates = points.map((point) => point.rate);
      const { axis, name: unitName, place } = valueAxis(unit, Math.min(...rates), Math.max(...rates));
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
      const drawings: Node[] = [
        draw(width, {
          ...shared,
          height: most > 0 ? 270 : 284,
          marginTop: 26,
          marginBottom: most > 0 ? 26 : 40,
          x: { ...x, ...(most > 0 ? { label: null } : since) },
          y: axis,
          marks: [
            heading(capital(`${RATES[metric] ?? "rate"}, ${unitName}`), 66, -20),
            ...cells.flatMap((one, s) => {
              const own = points.filter((point) => point.id === one.cell);
              const look = series[s] ?? s;
              const stroke = tone[look % tone.length] ?? ink();
              const y = (point: { rate: number }) => place(point.rate);
              const dash = again(one.cell) ? TWIN_DASH : DASHES[look] || undefined;
              const line = { x: "at", y, stroke, strokeWidth: 2, strokeDasharray: dash } as Plot.LineOptions;
              return [
                // Among many marks nobody sees which belong together: they stand back, and their middle is drawn.
                many && own.length > RUN ? Plot.line(own, Plot.windowY({ k: RUN, reduce: "median" }, line)) : null,
                !many && one.cell === lined ? Plot.line(own, { ...line, strokeWidth: 1.5, strokeOpacity: 0.4 }) : null,
                Plot.dot(own, {
                  x: "at",
                  y,
                  symbol: SYMBOLS[look],
                  r: many ? 1.8 : 3.2,
                  stroke,
                  fill: again(one.cell) ? paper() : stroke,
                  ...(many ? { strokeOpacity: 0.35, fillOpacity: 0.35, strokeWidth: 1 } : {}),
                } as Plot.DotOptions),
              ];
            }),
            Plot.tip(
              points,
              Plot.pointer({
                x: "at",
                y: (point) => place(point.rate),
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
            height: 106,
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
      const entries = cells.map((one, at) => ({
        name: name(one.cell),
        series: series[at] ?? at,
        hollow: again(one.cell),
        loose: !many && one.cell !== lined,
        dash: again(one.cell) ? TWIN_DASH : undefined,
      }));
      // One choice alone is told from nothing.
      if (entries.length > 1) drawings.push(legend("", entries, width));
      return drawings;
    },
  };
}
