// The fitted cost of a call and a byte: the curve over the cells that it was fitted to, and the distance of trials from it.

import * as Plot from "@observablehq/plot";
import { type GroupView, level, type OffCurve, type Slice } from "../data";
import { h } from "../dom";
import { bytes, capital, digits, duration, enumerated, percent, size, trimmed } from "../format";
import { type Figure, nothing, type Note, select } from "../frame";
import { accent, draw, faint, heading, ink, logarithmic, logAxis, paper } from "../look";
import { SERIES_MAX, symbolOf, toneOf, warn } from "../look";
import type { Looking } from "../state";

type End = "reader" | "writer";
/** The end of the group that is drawn. */
let end: End = "reader";
/** The end that the user selected. */
let wished: End | null = null;

const MARGINS = { marginLeft: 62, marginRight: 20 };
/** The room of a size, and of a letter at most; pixels. */
const [NAME, LETTER] = [56, 6.6];
/** Sizes with a smaller ratio have too few powers of two for an axis. */
const CLOSE = 4;

interface Point {
  cell: string;
  block: number;
  size: number;
  ns: number;
  /** Natural logarithm of the ratio to the curve. */
  ln: number;
}

/** The curve of one end, as far as it does not depend on a width. */
interface Curve {
  model: Slice;
  points: Point[];
  curve: { size: number; ns: number | null }[];
  /** The sizes that were requested, each with its trials. */
  heaps: OffCurve[];
  first: number;
  last: number;
  /** `read`, and `CPU time of a read call`. */
  call: string;
  metric: string;
}

/** The curve's time of a call of a size, nanoseconds. */
export function fitted(slice: Pick<Slice, "per_call_ns" | "segments">, size: number): number | null {
  if (slice.per_call_ns == null || slice.segments.length === 0) return null;
  return slice.segments.reduce((sum, piece, at) => {
    const until = Math.min(slice.segments[at + 1]?.from_bytes ?? Number.POSITIVE_INFINITY, size);
    return sum + Math.max(0, until - (at === 0 ? 0 : piece.from_bytes)) * piece.per_byte_ns;
  }, slice.per_call_ns);
}

export function cost({ group }: Looking, redraw: () => void): Figure | null {
  const has = (name: End) => (group.cost_model[name]?.residuals?.length ?? 0) > 0;
  if (!has("reader") && !has("writer")) return null;
  const own = wished ?? (level(group, "role") === "writer" ? "writer" : "reader");
  end = has(own) ? own : has("reader") ? "reader" : "writer";
  const curve = curveOf(group);
  return {
    id: "cost",
    title: `Cost of a call and of a byte: the ${end}`,
    caption: captionOf(curve),
    notes: notesOf(curve),
    controls: has("reader") && has("writer") ? controls(redraw) : null,
    table: () => ({
      columns: ["cell", "block", "bytes_per_call", "ns_per_call", "fitted_ns", "ln_residual"],
      rows: curve.points.map((point) => [
        point.cell,
        point.block,
        point.size,
        point.ns,
        fitted(curve.model, point.size),
        point.ln,
      ]),
    }),
    draw: (width) => (curve.points.length === 0 ? [nothing("No curve fits.")] : drawn(curve, width)),
  };
}

function curveOf(group: GroupView): Curve {
  const model = group.cost_model[end] as Slice;
  const points = (model.residuals ?? [])
    .map(({ cell, block, ln, bytes_per_call: size }) => ({
      cell,
      block,
      ln,
      size,
      ns: (fitted(model, size) ?? 0) * Math.exp(ln),
    }))
    .filter((point) => point.ns > 0);
  const sizes = points.map((point) => point.size);
  const [first, last] = [Math.min(...sizes), Math.max(...sizes)];
  const call = end === "reader" ? "read" : "write";
  return {
    model,
    points,
    curve: Array.from({ length: 60 }, (_, at) => first * (last / first) ** (at / 59)).map((size) => ({
      size,
      ns: fitted(model, size),
    })),
    heaps: model.off_curve.filter((one) => points.some((point) => point.cell === one.cell)),
    first,
    last,
    call,
    metric: `${model.metric === "on_cpu_ns_per_call" ? "CPU time" : "time"} of a ${call} call`,
  };
}

function captionOf({ model, metric }: Curve): string {
  const pieces = model.segments.map(
    (piece, at) =>
      `${at === 0 ? "" : `from about ${roughly(piece.from_bytes)} on `}${digits(piece.per_byte_ns)} ns a byte`,
  );
  return `${capital(metric)} by the bytes that it moved, and the fitted curve: ${duration(model.per_call_ns ?? 0)} a call, ${pieces.join(", ")}. The lower panel has the ratio of each trial to the curve (× above, ÷ below); ◆ is the mean of a size, red ✗ one that is off by more than chance.`;
}

function notesOf({ model, call, heaps }: Curve): Note[] {
  const missed = heaps.filter((one) => one.is_off);
  const where =
    missed.length > 2
      ? `${missed.length} of ${heaps.length} sizes`
      : enumerated(missed.map((one) => bytes(one.asked_bytes)));
  return [
    `The typical error of the curve is ${percent(model.relative_error ?? 0)}.`,
    `Above each group of marks is the requested ${call} size.`,
    missed.length > 0
      ? `At ${where} the mean is off by more than chance: the curve is wrong there.`
      : "No mean is off by more than chance.",
    "The curve is a description: no recommendation depends on it.",
  ];
}

function controls(redraw: () => void): HTMLElement {
  const ends = (["reader", "writer"] as const).map((value) => ({ value, text: value }));
  return h(
    "div",
    { class: "controls" },
    select("end", ends, end, (value) => {
      wished = value as End;
      redraw();
    }),
  );
}

function drawn(curve: Curve, width: number): Node[] {
  const { first, last } = curve;
  const sizes = sizeTicks(first, last);
  const x: Plot.ScaleOptions = {
    ...logarithmic(sizes, bytes, width / 74),
    // To the tick above the largest size.
    domain: [Math.log2(first * 0.85), Math.log2(Math.max(last, sizes.at(-1) ?? last) * 1.06)],
  };
  return [trials(curve, x, width), residuals(curve, x, width)];
}

/** The look of the trials, by their requested size. */
function dots({ heaps }: Curve): Plot.DotOptions {
  const look = (point: { cell: string }) => heaps.findIndex((one) => one.cell === point.cell);
  const many = heaps.length > SERIES_MAX;
  const tone = (point: { cell: string }) => (many ? faint() : toneOf(look(point)));
  const symbol = (point: { cell: string }) => (many ? "circle" : symbolOf(look(point)));
  return { r: 3, fill: tone, fillOpacity: 0.35, stroke: tone, strokeOpacity: 0.7, symbol } as Plot.DotOptions;
}

/** The trials and the curve. */
function trials(curve: Curve, x: Plot.ScaleOptions, width: number): SVGSVGElement {
  const { points, heaps, first, last, metric } = curve;
  const times = [...points.map((point) => point.ns), ...curve.curve.map((point) => point.ns ?? 1)];
  const place = {
    x: (point: { size: number }) => Math.log2(point.size),
    y: (point: { ns: number | null }) => Math.log2(point.ns ?? 1),
  };
  const top = (one: OffCurve) => Math.max(...points.filter(({ cell }) => cell === one.cell).map(({ ns }) => ns));
  return draw(width, {
    ...MARGINS,
    height: 284,
    marginTop: 40,
    marginBottom: 30,
    x: { ...x, label: null },
    y: { ...logAxis(Math.min(...times), Math.max(...times), duration, 7), inset: 6 },
    marks: [
      heading(`${capital(metric)}, log scale`, 62, -36),
      ...breaks(curve, x, width),
      Plot.dot(points, { ...place, ...dots(curve) } as Plot.DotOptions),
      Plot.text(apart(heaps, Math.log2((last * 1.06) / (first * 0.85)), width - 82), {
        x: (one) => Math.log2(one.bytes_per_call),
        y: (one) => Math.log2(top(one)),
        dy: -14,
        text: (one) => bytes(one.asked_bytes),
        fontWeight: 600,
        fill: ink(),
        stroke: paper(),
        strokeWidth: 4,
      }),
      Plot.line(curve.curve, { ...place, stroke: accent(), strokeWidth: 2.5 }),
    ],
  });
}

/** The ranges in which the curve has a break, with their texts inside the frame. */
function breaks({ model, first, last }: Curve, x: Plot.ScaleOptions, width: number): Plot.Markish[] {
  const own = model.breaks.filter((each) => each.at_bytes >= first && each.at_bytes <= last);
  const [from, to] = x.domain as [number, number];
  const plot = width - MARGINS.marginLeft - MARGINS.marginRight;
  return [
    Plot.rectX(own, {
      x1: (each) => Math.log2(Math.max(each.lower_bytes, first * 0.85)),
      x2: (each) => Math.log2(Math.min(each.upper_bytes, last)),
      fill: warn(),
      fillOpacity: 0.14,
    }),
    ...own.map((each) => {
      const text = `a break between ${roughly(each.lower_bytes)} and ${roughly(each.upper_bytes)}`;
      const middle = Math.log2(each.lower_bytes * each.upper_bytes) / 2;
      const at = ((middle - from) / (to - from)) * plot;
      const half = (text.length * LETTER) / 2;
      const dx = Math.max(half - MARGINS.marginLeft, Math.min(at, plot + MARGINS.marginRight - half)) - at;
      return Plot.text([text], { x: middle, dx, dy: -10, frameAnchor: "top", fill: warn() });
    }),
  ];
}

/** The ratio of each trial to the curve, and the mean of each size. */
function residuals(curve: Curve, x: Plot.ScaleOptions, width: number): SVGSVGElement {
  const { points, heaps } = curve;
  const reach = Math.max(...points.map((point) => Math.abs(point.ln)), 0.1);
  const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100].find((share) => 2 * Math.log1p(share) >= reach) ?? 1000;
  // The same factor above and below the curve.
  const ticks = [1 / (1 + step) - 1, 0, step].map((share) => Math.log1p(share));
  const mean = (isOff: boolean) =>
    Plot.dot(
      heaps.filter((one) => one.is_off === isOff),
      {
        x: (one) => Math.log2(one.bytes_per_call),
        y: "ln",
        r: 6,
        ...(isOff
          ? { symbol: "times", stroke: warn(), strokeWidth: 2.5 }
          : { symbol: "diamond", fill: accent(), stroke: paper(), strokeWidth: 1.2 }),
      } as Plot.DotOptions,
    );
  return draw(width, {
    ...MARGINS,
    height: 140,
    marginTop: 22,
    marginBottom: 40,
    x: { ...x, label: "bytes moved by a call" },
    y: {
      domain: [-1.08 * reach, 1.08 * reach],
      grid: true,
      label: null,
      ticks,
      tickFormat: (ln: number) => `${ln < 0 ? "÷" : "×"} ${trimmed(Math.exp(Math.abs(ln)))}`,
    },
    marks: [
      heading("Each trial compared with the curve", 62, -18),
      Plot.ruleY([0], { stroke: accent(), strokeWidth: 2 }),
      Plot.dot(points, { x: (point) => Math.log2(point.size), y: "ln", ...dots(curve) } as Plot.DotOptions),
      mean(true),
      mean(false),
    ],
  });
}

/** The sizes whose names have room on an axis of `octaves`, the first one among them. */
function apart(all: OffCurve[], octaves: number, width: number): OffCurve[] {
  const place = (one: OffCurve) => (Math.log2(one.bytes_per_call) / octaves) * width;
  const shown: OffCurve[] = [];
  for (const one of all) {
    const last = shown.at(-1);
    if (last == null || place(one) - place(last) >= NAME) shown.push(one);
  }
  return shown;
}

/** Round sizes from the smallest to the one above the largest: powers of two, or whole numbers if the sizes are close. */
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

/** A computed size, in two digits. */
export const roughly = (value: number): string =>
  size(value).replace(/[\d.]+/, (text) => trimmed(Number(Number(text).toPrecision(2))));
