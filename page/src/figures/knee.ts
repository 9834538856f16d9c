// Where a latency objective ends to be kept: the knee of each cell, and what its searches saw.

import * as Plot from "@observablehq/plot";
import { type CellView, factorOf, isMeasured, level } from "../data";
import { h } from "../dom";
import { duration, quantity } from "../format";
import type { Figure } from "../frame";
import { follows, named, varying } from "../levels";
import { accent, draw, faint, heading, ink, logAxis, NARROW, paper, rows as laidOut, warn } from "../look";
import type { Looking } from "../state";

export function knee({ view }: Looking): Figure | null {
  const cells = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call?.knee);
  if (cells.length === 0) return null;
  const apart = varying(cells, view.plan.varied);
  const own = apart.filter((factor, at) => !follows(cells, factor, apart.slice(0, at)));
  const name = (each: CellView) =>
    own
      .map((factor) => `${factorOf(view, factor).heading} ${named(level(each, factor), factorOf(view, factor))}`)
      .join(", ") || each.label;
  const rows = cells.map((each) => ({
    id: each.id,
    each,
    knee: each.call?.knee as NonNullable<NonNullable<CellView["call"]>["knee"]>,
    name: name(each),
  }));
  const slo = rows[0]?.knee;
  const bars = cells.some((each) => each.estimate.lower != null);
  return {
    id: "knee",
    holds: "",
    title: `The highest rate that keeps ${slo?.percentile ?? "the percentile"} within ${duration(slo?.limit_ns ?? 0)}`,
    reading: `Each search finds a rate of its own; a mark is the middle of them, so half of the searches kept ${slo?.percentile ?? "the percentile"} up to there or beyond, and half did not${bars ? ": plan with the lower end of its interval" : ""}. The number at it is ${slo?.percentile ?? "the percentile"} there. Below: every probe of all searches, at the rate that it offered; the dashed line is the objective, the line the middle knee${bars ? ", the shade its interval" : ""}. A probe that failed left of the line ended another search than one that was kept right of it.${rows.length > 1 ? " Choices are compared search by search within a block, so one may be shown to be worse though these intervals overlap." : ""}`,
    table: () => ({
      columns: ["cell", "label", "rate", "lower", "upper", "at_knee_ns", "beyond", "at_beyond_ns", "closed"],
      rows: rows.map(({ each, knee }) => [
        each.id,
        each.label,
        each.estimate.median,
        each.estimate.lower ?? null,
        each.estimate.upper ?? null,
        knee.at_knee_ns ?? null,
        knee.beyond_per_second ?? null,
        knee.at_beyond_ns ?? null,
        knee.closed_per_second ?? null,
      ]),
    }),
    draw(width) {
      const { narrow, left, y, names, height } = laidOut(rows, (row) => row.name, width, 34);
      const tone = accent();
      const overview = draw(width, {
        height: 60 + height,
        marginLeft: left,
        marginRight: 40,
        marginTop: 10,
        marginBottom: 40,
        x: {
          zero: true,
          grid: true,
          label: "calls per second",
          labelArrow: "none",
          labelAnchor: "center",
          ticks: Math.floor((width - left) / 90),
          tickFormat: (value: number) => quantity(value, null),
        },
        y,
        marks: [
          names,
          Plot.ruleY(rows, {
            y: "id",
            x1: (row) => row.each.estimate.lower ?? null,
            x2: (row) => row.each.estimate.upper ?? null,
            stroke: tone,
            strokeWidth: 3,
          }),
          Plot.dot(rows, { y: "id", x: (row) => row.each.estimate.median, fill: tone, r: 5 }),
          Plot.text(rows, {
            y: "id",
            x: (row) => row.each.estimate.median,
            text: (row) => (row.knee.at_knee_ns == null ? "" : duration(row.knee.at_knee_ns)),
            dy: narrow ? 15 : -15,
            fill: ink(),
          }),
          Plot.dot(rows, {
            y: "id",
            x: (row) => row.knee.beyond_per_second ?? null,
            symbol: "times",
            stroke: warn(),
            strokeWidth: 2,
            r: 5,
          }),
          Plot.dot(rows, {
            y: "id",
            x: (row) => row.knee.closed_per_second ?? null,
            stroke: faint(),
            strokeWidth: 1.8,
            r: 8,
          }),
        ],
      });
      const probed = rows
        .filter((row) => row.knee.probes.some((probe) => probe.percentile_ns != null))
        .slice(0, PANELS_MAX);
      const columns = Math.min(probed.length, width < 640 ? 1 : 2);
      const each = columns > 1 ? width / columns - 8 : width;
      const top = Math.max(...probed.flatMap((row) => row.knee.probes.map((probe) => probe.offered_per_second)));
      const times = probed.flatMap((row) => [
        row.knee.limit_ns,
        ...row.knee.probes.flatMap((probe) => probe.percentile_ns ?? []),
      ]);
      const range: [number, number] = [Math.min(...times), Math.max(...times)];
      return probed.length === 0
        ? [overview, key(width, bars)]
        : [
            overview,
            key(width, bars),
            h("div", { class: "side" }, ...probed.map((row) => searched(row, each, top, range))),
          ];
    },
  };
}

/** What the marks mean, as a drawing, so that it is saved with the figure. */
function key(width: number, bars: boolean): SVGSVGElement {
  const narrow = width < NARROW;
  /** Where each begins on a wide page, pixels. */
  const KEYS = [12, 330, 660];
  const entries: [string, Plot.DotOptions][] = [
    [`kept in half of the searches${bars ? ", with its interval" : ""}`, { fill: accent(), r: 5 }],
    ["not kept: the middle of the lowest rates lost", { symbol: "times", stroke: warn(), strokeWidth: 2, r: 5 }],
    ["what a closed loop reaches", { stroke: faint(), strokeWidth: 1.8, r: 8 }],
  ];
  const place = (at: number): [number, number] => (narrow ? [12, 12 + at * 22] : [KEYS[at] ?? 12, 12]);
  const [wide, high] = narrow ? [width, 70] : [Math.min(width, 900), 26];
  return draw(wide, {
    height: high,
    margin: 0,
    ariaLabel: `What the marks mean: ${entries.map(([name]) => name).join("; ")}`,
    x: { axis: null, domain: [0, wide], range: [0, wide] },
    y: { axis: null, domain: [0, high], range: [0, high] },
    marks: entries.flatMap(([name, look], at) => {
      const [x, y] = place(at);
      return [Plot.dot([[x, y]], look), Plot.text([name], { x: x + 16, y, textAnchor: "start", fill: ink() })];
    }),
  });
}

const PANELS_MAX = 6;

type Row = { name: string; each: CellView; knee: NonNullable<NonNullable<CellView["call"]>["knee"]> };

/** What the searches of one cell saw: the percentile against the rate that was offered, kept or not. */
function searched({ name, each, knee }: Row, width: number, top: number, [low, high]: [number, number]): SVGSVGElement {
  const probes = knee.probes.flatMap((probe) =>
    probe.percentile_ns == null ? [] : [{ ...probe, place: Math.log2(probe.percentile_ns) }],
  );
  const { lower, upper, median } = each.estimate;
  return draw(width, {
    height: 250,
    marginLeft: 62,
    marginRight: 16,
    marginTop: 32,
    marginBottom: 40,
    x: {
      domain: [0, top * 1.03],
      grid: true,
      label: "calls per second, offered",
      labelArrow: "none",
      labelAnchor: "center",
      ticks: Math.floor(width / 90),
      tickFormat: (value: number) => quantity(value, null),
    },
    y: {
      ...logAxis(low, high, duration, 7),
      inset: 6,
    },
    marks: [
      heading(`${name}: ${knee.percentile} of every probe`, 62, -24),
      lower != null && upper != null
        ? Plot.rect([0], {
            x1: lower,
            x2: upper,
            y1: Math.log2(low) - 0.3,
            y2: Math.log2(high) + 0.3,
            fill: accent(),
            fillOpacity: 0.13,
          })
        : null,
      median == null ? null : Plot.ruleX([median], { stroke: accent(), strokeWidth: 2 }),
      Plot.ruleY([Math.log2(knee.limit_ns)], { stroke: warn(), strokeDasharray: "5 3", strokeWidth: 1.5 }),
      Plot.dot(
        probes.filter((probe) => probe.kept),
        { x: "offered_per_second", y: "place", r: 3.5, fill: accent(), fillOpacity: 0.7 },
      ),
      Plot.dot(
        probes.filter((probe) => !probe.kept),
        { x: "offered_per_second", y: "place", symbol: "times", r: 4, stroke: warn(), strokeWidth: 1.8 },
      ),
      Plot.tip(
        probes,
        Plot.pointer({
          x: "offered_per_second",
          y: "place",
          title: (probe) =>
            `${quantity(probe.offered_per_second, "calls/s")}\n${knee.percentile} ${duration(probe.percentile_ns ?? 0)}\n${probe.kept ? "kept" : "not kept"}, search ${probe.search + 1}`,
          fill: paper(),
          lineHeight: 1.3,
        }),
      ),
    ],
  });
}
