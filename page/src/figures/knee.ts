// What a load costs in latency: a percentile against the rate, and where a latency objective ends to be kept.

import * as Plot from "@observablehq/plot";
import { type CellView, factorOf, isMeasured, level, type View } from "../data";
import { h } from "../dom";
import { duration, logTicks, quantity } from "../format";
import { type Figure, select } from "../frame";
import { along, follows, levels, named, varying } from "../levels";
import { accent, colours, DASHES, draw, faint, ink, logarithmic, paper, rows as laidOut, SERIES_MAX, SYMBOLS, warn } from "../look";
import type { Looking } from "../state";
import { percentileOf } from "./percentiles";

let percentile = "total_p99_ns";

export function knee({ view, cell }: Looking, redraw: () => void): Figure | null {
  const calls = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call);
  const swept = levels(calls, "call_rate").filter((rate) => typeof rate === "number").length > 1;
  const kneed = calls.filter((each) => each.call?.knee);
  if (!cell || (!swept && kneed.length === 0)) return null;
  return swept ? curve(view, calls, cell, redraw) : knees(view, kneed);
}

function curve(view: View, calls: CellView[], cell: CellView, redraw: () => void): Figure | null {
  const keys = [...new Set(calls.flatMap((each) => Object.keys(each.more)))].filter((key) => percentileOf(key, "total") != null);
  if (!keys.includes(percentile)) percentile = keys.find((key) => key.includes("p99")) ?? keys[0] ?? percentile;
  const free = varying(calls, view.plan.varied).filter((factor) => factor !== "call_rate" && !follows(calls, factor, ["call_rate"]));
  const colour = free[0] ?? "";
  const near = along(calls, cell, view.plan.varied, ["call_rate", ...(colour ? [colour] : [])]);
  const series = colour ? levels(near, colour).slice(0, SERIES_MAX) : [null];
  const factor = factorOf(view, colour);
  const points = near
    .map((each) => ({ each, s: colour ? series.indexOf(level(each, colour)) : 0, rate: each.estimate.median, offered: level(each, "call_rate"), time: each.more[percentile] }))
    .filter((point) => point.s >= 0 && point.rate != null && point.time?.median != null)
    .map((point) => ({ ...point, rate: point.rate as number, mid: point.time?.median as number, lower: point.time?.lower ?? null, upper: point.time?.upper ?? null }))
    .sort((a, b) => Number(a.offered) - Number(b.offered));
  const name = percentile.replace(/^total_/, "").replace(/_ns$/, "").replace("_", ".");
  const late = (point: (typeof points)[number]) => typeof point.offered === "number" && point.rate < point.offered * 0.98;
  return {
    id: "knee",
    title: `${name} of a call against the rate that was reached`,
    reading: "Each mark is an offered load; the bars are intervals. A crossed mark fell short of its load by more than 2 %: beyond the knee, latency is a queue.",
    controls: h("div", { class: "controls" }, select("percentile", keys.map((value) => ({ value, text: value.replace(/^total_/, "").replace(/_ns$/, "").replace("_", ".") })), percentile, (value) => { percentile = value; redraw(); })),
    table: () => ({ columns: [colour || "series", "offered", "reached", percentile, "lower", "upper"], rows: points.map((point) => [named(series[point.s] ?? null, factor), point.offered as string | number, point.rate, point.mid, point.lower, point.upper]) }),
    draw(width) {
      const tone = colours();
      const times = points.flatMap((point) => [point.lower ?? point.mid, point.upper ?? point.mid]);
      const right = colour ? Math.min(180, Math.max(...series.map((value) => named(value, factor).length)) * 7 + 26) : 20;
      return [
        draw(width, {
          height: 340, marginLeft: 62, marginRight: right, marginTop: 20, marginBottom: 42,
          x: { zero: true, label: "calls per second", labelArrow: "none", labelAnchor: "center", grid: true, ticks: Math.floor(width / 110), tickFormat: (value: number) => quantity(value, null) },
          y: { ...logarithmic(logTicks(Math.min(...times), Math.max(...times)), duration, 8), grid: true, label: null },
          marks: [
            ...series.flatMap((value, s) => {
              const own = points.filter((point) => point.s === s);
              const stroke = tone[s % tone.length] ?? ink();
              return [
                Plot.line(own, { x: "rate", y: (point) => Math.log2(point.mid), stroke, strokeWidth: 2, strokeDasharray: DASHES[s] || undefined } as Plot.LineOptions),
                Plot.ruleX(own.filter((point) => point.lower != null), { x: "rate", y1: (point) => Math.log2(point.lower ?? point.mid), y2: (point) => Math.log2(point.upper ?? point.mid), stroke, strokeWidth: 1.5 }),
                Plot.dot(own, { x: "rate", y: (point) => Math.log2(point.mid), symbol: SYMBOLS[s], r: 4.5, fill: stroke, stroke } as Plot.DotOptions),
                Plot.dot(own.filter(late), { x: "rate", y: (point) => Math.log2(point.mid), symbol: "times", r: 8, stroke: ink(), strokeWidth: 2 }),
                colour ? Plot.text(own.slice(-1), { x: "rate", y: (point) => Math.log2(point.mid), dx: 12, text: () => named(value, factor), textAnchor: "start", fill: stroke, fontWeight: 600 }) : null,
              ];
            }),
            Plot.tip(points, Plot.pointer({ x: "rate", y: (point) => Math.log2(point.mid), title: (point) => `${point.each.label}\noffered ${named(point.offered, factorOf(view, "call_rate"))}, reached ${quantity(point.rate, "calls/s")}\n${name} ${duration(point.mid)}${point.lower == null ? "" : ` (${duration(point.lower)} to ${duration(point.upper ?? 0)})`}`, fill: paper(), lineHeight: 1.3 })),
          ],
        }),
      ];
    },
  };
}

function knees(view: View, cells: CellView[]): Figure {
  const apart = varying(cells, view.plan.varied);
  const own = apart.filter((factor, at) => !follows(cells, factor, apart.slice(0, at)));
  const name = (each: CellView) => own.map((factor) => `${factorOf(view, factor).heading} ${named(level(each, factor), factorOf(view, factor))}`).join(", ") || each.label;
  const rows = cells.map((each) => ({ id: each.id, each, knee: each.call?.knee as NonNullable<NonNullable<CellView["call"]>["knee"]>, name: name(each) }));
  const slo = rows[0]?.knee;
  return {
    id: "knee",
    title: `How far the load may go: ${slo?.slo ?? ""}`,
    reading: `Filled: the highest rate that keeps ${slo?.percentile ?? "the percentile"} at ${duration(slo?.limit_ns ?? 0)}, with its interval and what the percentile is there. Crossed: the next rate that was tried and did not keep it. Hollow: what a closed loop reaches. Below: every probe of the searches, kept (dot) or not (cross); the dashed line is the objective, the shade the interval of the knee.`,
    table: () => ({ columns: ["cell", "label", "rate", "lower", "upper", "at_knee_ns", "beyond", "at_beyond_ns", "closed"], rows: rows.map(({ each, knee }) => [each.id, each.label, each.estimate.median, each.estimate.lower ?? null, each.estimate.upper ?? null, knee.at_knee_ns ?? null, knee.beyond_per_second ?? null, knee.at_beyond_ns ?? null, knee.closed_per_second ?? null]) }),
    draw(width) {
      const { left, y, names, height } = laidOut(rows, (row) => row.name, width, 34);
      const tone = accent();
      const overview = draw(width, {
        height: 60 + height, marginLeft: left, marginRight: 40, marginTop: 10, marginBottom: 40,
        x: { zero: true, grid: true, label: "calls per second", labelArrow: "none", labelAnchor: "center", ticks: Math.floor((width - left) / 90), tickFormat: (value: number) => quantity(value, null) },
        y,
        marks: [
          names,
          Plot.ruleY(rows, { y: "id", x1: (row) => row.each.estimate.lower ?? null, x2: (row) => row.each.estimate.upper ?? null, stroke: tone, strokeWidth: 3 }),
          Plot.dot(rows, { y: "id", x: (row) => row.each.estimate.median, fill: tone, r: 5 }),
          Plot.text(rows, { y: "id", x: (row) => row.each.estimate.median, text: (row) => (row.knee.at_knee_ns == null ? "" : duration(row.knee.at_knee_ns)), dy: -12, fill: ink() }),
          Plot.dot(rows, { y: "id", x: (row) => row.knee.beyond_per_second ?? null, symbol: "times", stroke: warn(), strokeWidth: 2, r: 5 }),
          Plot.dot(rows, { y: "id", x: (row) => row.knee.closed_per_second ?? null, stroke: faint(), r: 5 }),
        ],
      });
      const probed = rows.filter((row) => row.knee.probes.some((probe) => probe.percentile_ns != null)).slice(0, PANELS_MAX);
      const columns = Math.min(probed.length, width < 640 ? 1 : 2);
      const each = columns > 1 ? width / columns - 8 : width;
      const top = Math.max(...probed.flatMap((row) => row.knee.probes.map((probe) => probe.offered_per_second)));
      const times = probed.flatMap((row) => [row.knee.limit_ns, ...row.knee.probes.flatMap((probe) => probe.percentile_ns ?? [])]);
      const range: [number, number] = [Math.min(...times), Math.max(...times)];
      return probed.length === 0 ? [overview] : [overview, h("div", { class: "side" }, ...probed.map((row) => searched(row, each, top, range)))];
    },
  };
}

const PANELS_MAX = 6;

type Row = { name: string; each: CellView; knee: NonNullable<NonNullable<CellView["call"]>["knee"]> };

/** What the searches of one cell saw: the percentile against the rate that was offered, kept or not. */
function searched({ name, each, knee }: Row, width: number, top: number, [low, high]: [number, number]): SVGSVGElement {
  const probes = knee.probes.flatMap((probe) => (probe.percentile_ns == null ? [] : [{ ...probe, place: Math.log2(probe.percentile_ns) }]));
  const { lower, upper, median } = each.estimate;
  return draw(width, {
    height: 250, marginLeft: 62, marginRight: 16, marginTop: 32, marginBottom: 40,
    x: { domain: [0, top * 1.03], grid: true, label: `calls per second offered, ${knee.percentile} of each`, labelArrow: "none", labelAnchor: "center", ticks: Math.floor(width / 90), tickFormat: (value: number) => quantity(value, null) },
    y: { ...logarithmic(logTicks(low, high), duration, 7), domain: [Math.log2(low) - 0.3, Math.log2(high) + 0.3], grid: true, label: null },
    marks: [
      Plot.text([name], { frameAnchor: "top-left", dy: -24, textAnchor: "start", fontWeight: 600, fill: ink() }),
      lower != null && upper != null ? Plot.rect([0], { x1: lower, x2: upper, y1: Math.log2(low) - 0.3, y2: Math.log2(high) + 0.3, fill: accent(), fillOpacity: 0.13 }) : null,
      median == null ? null : Plot.ruleX([median], { stroke: accent(), strokeWidth: 2 }),
      Plot.ruleY([Math.log2(knee.limit_ns)], { stroke: warn(), strokeDasharray: "5 3", strokeWidth: 1.5 }),
      Plot.dot(probes.filter((probe) => probe.kept), { x: "offered_per_second", y: "place", r: 3.5, fill: accent(), fillOpacity: 0.7 }),
      Plot.dot(probes.filter((probe) => !probe.kept), { x: "offered_per_second", y: "place", symbol: "times", r: 4, stroke: warn(), strokeWidth: 1.8 }),
      Plot.tip(probes, Plot.pointer({ x: "offered_per_second", y: "place", title: (probe) => `${quantity(probe.offered_per_second, "calls/s")}\n${knee.percentile} ${duration(probe.percentile_ns ?? 0)}\n${probe.kept ? "kept" : "not kept"}, search ${probe.search + 1}`, fill: paper(), lineHeight: 1.3 })),
    ],
  });
}
