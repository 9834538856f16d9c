// What a load costs in latency: a percentile of the calls against the rate that was reached.

import * as Plot from "@observablehq/plot";
import { axisName, factorOf, isMeasured, level } from "../data";
import { h } from "../dom";
import { duration, logTicks, quantity } from "../format";
import { type Figure, select } from "../frame";
import { along, held, follows, levels, named, varying } from "../levels";
import { colours, DASHES, draw, ink, legend, logarithmic, NARROW, paper, SERIES_MAX, SYMBOLS } from "../look";
import type { Looking } from "../state";
import { percentileOf } from "./percentiles";

let percentile = "total_p99_ns";

export function load({ view, cell }: Looking, redraw: () => void): Figure | null {
  const calls = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call);
  if (!cell || levels(calls, "call_rate").filter((rate) => typeof rate === "number").length < 2) return null;
  const keys = [...new Set(calls.flatMap((each) => Object.keys(each.more)))].filter(
    (key) => percentileOf(key, "total") != null,
  );
  if (!keys.includes(percentile)) percentile = keys.find((key) => key.includes("p99")) ?? keys[0] ?? percentile;
  const free = varying(calls, view.plan.varied).filter(
    (factor) => factor !== "call_rate" && !follows(calls, factor, ["call_rate"]),
  );
  const colour = free[0] ?? "";
  const near = along(calls, cell, view.plan.varied, ["call_rate", ...(colour ? [colour] : [])]);
  const series = colour ? levels(near, colour).slice(0, SERIES_MAX) : [null];
  const factor = factorOf(view, colour);
  const points = near
    .map((each) => ({
      each,
      s: colour ? series.indexOf(level(each, colour)) : 0,
      rate: each.estimate.median,
      offered: level(each, "call_rate"),
      time: each.more[percentile],
    }))
    .filter((point) => point.s >= 0 && point.rate != null && point.time?.median != null)
    .map((point) => ({
      ...point,
      rate: point.rate as number,
      mid: point.time?.median as number,
      lower: point.time?.lower ?? null,
      upper: point.time?.upper ?? null,
    }))
    .sort((a, b) => Number(a.offered) - Number(b.offered));
  const name = percentile
    .replace(/^total_/, "")
    .replace(/_ns$/, "")
    .replace("_", ".");
  const late = (point: (typeof points)[number]) =>
    typeof point.offered === "number" && point.rate < point.offered * 0.98;
  return {
    id: "load",
    holds: held(view, calls, cell, ["call_rate", colour]),
    title: `Latency (${name} of the calls) against the rate that was reached`,
    reading: `Each mark is an offered load${points.some((point) => point.lower != null) ? "; the bars are intervals" : ""}. A crossed mark fell short of its load by more than 2\u00a0%: beyond the knee, latency is a queue.`,
    controls: h(
      "div",
      { class: "controls" },
      select(
        "percentile",
        keys.map((value) => ({
          value,
          text: value
            .replace(/^total_/, "")
            .replace(/_ns$/, "")
            .replace("_", "."),
        })),
        percentile,
        (value) => {
          percentile = value;
          redraw();
        },
      ),
    ),
    table: () => ({
      columns: [colour || "series", "offered", "reached", percentile, "lower", "upper"],
      rows: points.map((point) => [
        named(series[point.s] ?? null, factor),
        point.offered as string | number,
        point.rate,
        point.mid,
        point.lower,
        point.upper,
      ]),
    }),
    draw(width) {
      const tone = colours();
      const times = points.flatMap((point) => [point.lower ?? point.mid, point.upper ?? point.mid]);
      const narrow = width < NARROW;
      const right =
        colour && !narrow
          ? Math.min(180, Math.max(...series.map((value) => named(value, factor).length)) * 7 + 26)
          : 20;
      return [
        draw(width, {
          height: 340,
          marginLeft: 62,
          marginRight: right,
          marginTop: 20,
          marginBottom: 42,
          x: {
            zero: true,
            label: "calls per second, reached",
            labelArrow: "none",
            labelAnchor: "center",
            grid: true,
            ticks: Math.floor(width / 110),
            tickFormat: (value: number) => quantity(value, null),
            insetRight: 10,
          },
          y: {
            ...logarithmic(logTicks(Math.min(...times), Math.max(...times)), duration, 8),
            grid: true,
            label: null,
            inset: 10,
          },
          marks: [
            ...series.flatMap((value, s) => {
              const own = points.filter((point) => point.s === s);
              const stroke = tone[s % tone.length] ?? ink();
              return [
                Plot.line(own, {
                  x: "rate",
                  y: (point) => Math.log2(point.mid),
                  stroke,
                  strokeWidth: 2,
                  strokeDasharray: DASHES[s] || undefined,
                } as Plot.LineOptions),
                Plot.ruleX(
                  own.filter((point) => point.lower != null),
                  {
                    x: "rate",
                    y1: (point) => Math.log2(point.lower ?? point.mid),
                    y2: (point) => Math.log2(point.upper ?? point.mid),
                    stroke,
                    strokeWidth: 1.5,
                  },
                ),
                Plot.dot(own, {
                  x: "rate",
                  y: (point) => Math.log2(point.mid),
                  symbol: SYMBOLS[s],
                  r: 4.5,
                  fill: stroke,
                  stroke,
                } as Plot.DotOptions),
                Plot.dot(own.filter(late), {
                  x: "rate",
                  y: (point) => Math.log2(point.mid),
                  symbol: "times",
                  r: 8,
                  stroke: ink(),
                  strokeWidth: 2,
                }),
                colour && !narrow
                  ? Plot.text(own.slice(-1), {
                      x: "rate",
                      y: (point) => Math.log2(point.mid),
                      dx: 12,
                      text: () => named(value, factor),
                      textAnchor: "start",
                      fill: stroke,
                      stroke: paper(),
                      strokeWidth: 5,
                      fontWeight: 600,
                    })
                  : null,
              ];
            }),
            Plot.tip(
              points,
              Plot.pointer({
                x: "rate",
                y: (point) => Math.log2(point.mid),
                title: (point) =>
                  `${point.each.label}\noffered ${named(point.offered, factorOf(view, "call_rate"))}, reached ${quantity(point.rate, "calls/s")}\n${name} ${duration(point.mid)}${point.lower == null ? "" : ` (${duration(point.lower)} to ${duration(point.upper ?? 0)})`}`,
                fill: paper(),
                lineHeight: 1.3,
              }),
            ),
          ],
        }),
        ...(colour && narrow
          ? [
              legend(
                axisName(factor),
                series.map((value, s) => ({ name: named(value, factor), series: s })),
                width,
              ),
            ]
          : []),
      ];
    },
  };
}
