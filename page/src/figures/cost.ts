// What a call and a byte cost: the fitted curve over the cells that it was fitted to, and how far trials are off it.

import * as Plot from "@observablehq/plot";
import type { OffCurve, Slice } from "../data";
import { h } from "../dom";
import { bytes, capital, digits, duration, enumerated, percent, size, trimmed } from "../format";
import { type Figure, nothing, select } from "../frame";
import {
  accent,
  draw,
  faint,
  heading,
  ink,
  logarithmic,
  logAxis,
  paper,
  SERIES_MAX,
  symbolOf,
  toneOf,
  warn,
} from "../look";
import type { Looking } from "../state";

let end: "reader" | "writer" = "reader";

/** The curve's time a call at a size, ns: what stands before the first byte, and the pieces up to the size. */
export function fitted(slice: Pick<Slice, "per_call_ns" | "segments">, size: number): number | null {
  if (slice.per_call_ns == null || slice.segments.length === 0) return null;
  return slice.segments.reduce((sum, piece, at) => {
    const until = Math.min(slice.segments[at + 1]?.from_bytes ?? Number.POSITIVE_INFINITY, size);
    return sum + Math.max(0, until - (at === 0 ? 0 : piece.from_bytes)) * piece.per_byte_ns;
  }, slice.per_call_ns);
}

export function cost({ group }: Looking, redraw: () => void): Figure | null {
  const has = (name: "reader" | "writer") => (group.cost_model[name]?.residuals?.length ?? 0) > 0;
  if (!has("reader") && !has("writer")) return null;
  if (!has(end)) end = end === "reader" ? "writer" : "reader";
  const model = group.cost_model[end] as Slice;
  const points = (model.residuals ?? [])
    .map((trial) => ({
      ...trial,
      size: trial.bytes_per_call,
      ns: (fitted(model, trial.bytes_per_call) ?? 0) * Math.exp(trial.ln),
    }))
    .filter((point) => point.ns > 0);
  const first = Math.min(...points.map((point) => point.size));
  const last = Math.max(...points.map((point) => point.size));
  const curve = Array.from({ length: 60 }, (_, at) => first * (last / first) ** (at / 59)).map((size) => ({
    size,
    ns: fitted(model, size),
  }));
  const call = end === "reader" ? "read" : "write";
  const heaps = model.off_curve.filter((one) => points.some((point) => point.cell === one.cell));
  const missed = heaps.filter((one) => one.is_off);
  const metric = `${model.metric === "on_cpu_ns_per_call" ? "CPU time" : "time"} of a ${call} call`;
  const pieces = model.segments
    .map(
      (piece, at) =>
        `${at === 0 ? "" : `from about ${roughly(piece.from_bytes)} on `}${digits(piece.per_byte_ns)} ns a byte`,
    )
    .join(", ");
  return {
    id: "cost",
    title: `What a call and a byte cost: the ${end}`,
    reading: `${capital(metric)} against the bytes that it moved, with the fitted curve: ${duration(model.per_call_ns ?? 0)} a call, ${pieces}. Typical error of the curve ${percent(model.relative_error ?? 0)}. Above each heap of trials the ${call} size that was asked for. Beneath: how many times as long (×) or as short (÷) as by the curve each trial took, and ◆ their mean by size${missed.length > 0 ? `: at ${missed.length > 2 ? `${missed.length} of ${heaps.length} sizes` : enumerated(missed.map((one) => bytes(one.asked_bytes)))} (✗) it is off by more than chance, so the curve is wrong there` : ", off the curve nowhere by more than chance"}. A description: no recommendation rests on it.`,
    controls:
      has("reader") && has("writer")
        ? h(
            "div",
            { class: "controls" },
            select(
              "end",
              [
                { value: "reader", text: "reader" },
                { value: "writer", text: "writer" },
              ],
              end,
              (value) => {
                end = value as typeof end;
                redraw();
              },
            ),
          )
        : null,
    table: () => ({
      columns: ["cell", "block", "bytes_per_call", "ns_per_call", "fitted_ns", "ln_residual"],
      rows: points.map((point) => [point.cell, point.block, point.size, point.ns, fitted(model, point.size), point.ln]),
    }),
    draw(width) {
      if (points.length === 0) return [nothing("No curve fits.")];
      const sizes = sizeTicks(first, last);
      const x: Plot.ScaleOptions = {
        ...logarithmic(sizes, bytes, width / 74),
        // To the tick above the largest, so that the axis ends with one.
        domain: [Math.log2(first * 0.85), Math.log2(Math.max(last, sizes.at(-1) ?? last) * 1.06)],
      };
      // A break may lie beyond the middle of what calls moved: then it has no place here, and stands in the sentence.
      const breaks = model.breaks.filter((each) => each.at_bytes >= first && each.at_bytes <= last);
      const times = [...points.map((point) => point.ns), ...curve.map((point) => point.ns ?? 1)];
      const shared = { marginLeft: 62, marginRight: 20 };
      // Of which size each is, where calls moved less than that.
      const look = (point: { cell: string }) => heaps.findIndex((one) => one.cell === point.cell);
      const tone = (point: { cell: string }) => (heaps.length > SERIES_MAX ? faint() : toneOf(look(point)));
      const symbol = (point: { cell: string }) => (heaps.length > SERIES_MAX ? "circle" : symbolOf(look(point)));
      const dots = { r: 3, fill: tone, fillOpacity: 0.35, stroke: tone, strokeOpacity: 0.7, symbol };
      const reach = Math.max(...points.map((point) => Math.abs(point.ln)), 0.1);
      const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100].find((share) => 2 * Math.log1p(share) >= reach) ?? 1000;
      // As much and as little by the same factor: they lie as far from the curve.
      const around = [1 / (1 + step) - 1, 0, step];
      return [
        draw(width, {
          ...shared,
          height: 284,
          marginTop: 40,
          marginBottom: 30,
          x: { ...x, label: null },
          y: {
            ...logAxis(Math.min(...times), Math.max(...times), duration, 7),
            inset: 6,
          },
          marks: [
            heading(`${capital(metric)}: trials and curve`, 62, -36),
            // Where it is between these is not known.
            Plot.rectX(breaks, {
              x1: (each) => Math.log2(Math.max(each.lower_bytes, first * 0.85)),
              x2: (each) => Math.log2(Math.min(each.upper_bytes, last)),
              fill: warn(),
              fillOpacity: 0.14,
            }),
            // Above the middle of what is known of it, as far as the frame has room to either side.
            ...breaks.map((each) => {
              const text = `a break between ${roughly(each.lower_bytes)} and ${roughly(each.upper_bytes)}`;
              const middle = Math.log2(each.lower_bytes * each.upper_bytes) / 2;
              const [from, to] = x.domain as [number, number];
              const plot = width - shared.marginLeft - shared.marginRight;
              const at = ((middle - from) / (to - from)) * plot;
              const half = (text.length * LETTER) / 2;
              const dx = Math.max(half - shared.marginLeft, Math.min(at, plot + shared.marginRight - half)) - at;
              return Plot.text([text], { x: middle, dx, dy: -10, frameAnchor: "top", fill: warn() });
            }),
            Plot.dot(points, {
              x: (point) => Math.log2(point.size),
              y: (point) => Math.log2(point.ns ?? 1),
              ...dots,
            } as Plot.DotOptions),
            Plot.text(apart(heaps, Math.log2((last * 1.06) / (first * 0.85)), width - 82), {
              x: (one) => Math.log2(one.bytes_per_call),
              y: (one) => Math.log2(Math.max(...points.filter(({ cell }) => cell === one.cell).map(({ ns }) => ns))),
              dy: -14,
              text: (one) => bytes(one.asked_bytes),
              fontWeight: 600,
              fill: ink(),
              stroke: paper(),
              strokeWidth: 4,
            }),
            Plot.line(curve, {
              x: (point) => Math.log2(point.size),
              y: (point) => Math.log2(point.ns ?? 1),
              stroke: accent(),
              strokeWidth: 2.5,
            }),
          ],
        }),
        draw(width, {
          ...shared,
          height: 140,
          marginTop: 22,
          marginBottom: 40,
          x: { ...x, label: "bytes moved by a call" },
          y: {
            // Marks at the ends are seen whole.
            domain: [-1.08 * reach, 1.08 * reach],
            grid: true,
            label: null,
            ticks: around.map((share) => Math.log1p(share)),
            tickFormat: (ln: number) => `${ln < 0 ? "÷" : "×"} ${trimmed(Math.exp(Math.abs(ln)))}`,
          },
          marks: [
            heading("Each trial against the curve", 62, -18),
            Plot.ruleY([0], { stroke: accent(), strokeWidth: 2 }),
            Plot.dot(points, { x: (point) => Math.log2(point.size), y: "ln", ...dots } as Plot.DotOptions),
            ...[true, false].map((off) =>
              Plot.dot(
                heaps.filter((one) => one.is_off === off),
                {
                  x: (one) => Math.log2(one.bytes_per_call),
                  y: "ln",
                  r: 6,
                  ...(off
                    ? { symbol: "times", stroke: warn(), strokeWidth: 2.5 }
                    : { symbol: "diamond", fill: accent(), stroke: paper(), strokeWidth: 1.2 }),
                } as Plot.DotOptions,
              ),
            ),
          ],
        }),
      ];
    },
  };
}

/** Of names along an axis of so many octaves those that have room, the first one among them. */
function apart(all: OffCurve[], octaves: number, width: number): OffCurve[] {
  const place = (one: OffCurve) => (Math.log2(one.bytes_per_call) / octaves) * width;
  const told: OffCurve[] = [];
  for (const one of all) {
    const last = told.at(-1);
    if (last == null || place(one) - place(last) >= NAME) told.push(one);
  }
  return told;
}
/** The room that a size takes, and a letter at most, pixels. */
const [NAME, LETTER] = [56, 6.6];

/** Round sizes from the smallest on to the one above the largest: powers of two, or, of sizes that lie close together, whole numbers. */
export function sizeTicks(first: number, last: number): number[] {
  const from = Math.ceil(Math.log2(first * 0.9));
  const powers = Array.from(
    { length: Math.max(0, Math.ceil(Math.log2(last * 0.95)) - from + 1) },
    (_, at) => 2 ** (from + at),
  );
  if (last > CLOSE * first) return powers;
  const unit = 2 ** (10 * Math.floor(Math.log2(first) / 10));
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((each) => (last - first) / (each * unit) <= 5) ?? 1000;
  const begin = Math.ceil(first / unit / step);
  const many = Math.ceil(last / unit / step) - begin + 1;
  return Array.from({ length: Math.max(1, many) }, (_, at) => (begin + at) * step * unit);
}
/** Sizes of which none is more than so many times another one have too few powers of two among them for an axis. */
const CLOSE = 4;

/** A size that was worked out, and not measured: in two digits. */
export const roughly = (value: number): string =>
  size(value).replace(/[\d.]+/, (text) => trimmed(Number(Number(text).toPrecision(2))));
