// Where a latency objective ends to be kept: the knee of each cell, and what its searches saw.

import * as Plot from "@observablehq/plot";
import { type CellView, factorOf, isMeasured, level } from "../data";
import { h } from "../dom";
import { duration, percent, quantity } from "../format";
import type { Figure } from "../frame";
import { follows, named, varying } from "../levels";
import { draw, faint, heading, ink, logAxis, NARROW, paper, rows as laidOut, symbolOf, toneOf } from "../look";
import { seriesOf } from "../series";
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
  const series = seriesOf(view, cells);
  const looks = new Map(cells.map((each, at) => [each.id, series[at] ?? 0]));
  const slo = rows[0]?.knee;
  const kept = slo?.percentile ?? "the percentile";
  const bars = cells.some((each) => each.estimate.lower != null);
  return {
    id: "knee",
    holds: "",
    title: `The highest rate that keeps ${kept} within ${duration(slo?.limit_ns ?? 0)}`,
    reading: [
      `Each search looks for the highest offered rate at which ${kept} stays within ${duration(slo?.limit_ns ?? 0)}, and no two find the same. The filled mark is the middle of what they found: half of them kept ${kept} at that rate, half did not.`,
      bars && `The bar is its interval at ${percent(view.plan.level)}: plan with the lower end.`,
      `Below: every probe of all searches, ${kept} against the rate that was offered; the dashed line is the objective, and on it stands the same mark${bars ? " with its bar" : ""}.`,
      "One search may fail at a rate that another one keeps: the machine is not the same from moment to moment.",
      rows.length > 1 &&
        "Choices are compared search by search within a block, so one may be shown to be worse though these bars overlap.",
    ]
      .filter((line) => line)
      .join(" "),
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
      const tone = (row: Row) => toneOf(looks.get(row.each.id) ?? 0);
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
          Plot.text(rows, {
            y: "id",
            x: (row) => row.each.estimate.median,
            text: (row) => (row.knee.at_knee_ns == null ? "" : `${kept} ${duration(row.knee.at_knee_ns)}`),
            stroke: paper(),
            strokeWidth: 4,
            dy: narrow ? 15 : -15,
            fill: ink(),
          }),
          Plot.dot(rows, {
            y: "id",
            x: (row) => row.knee.closed_per_second ?? null,
            stroke: faint(),
            strokeWidth: 1.8,
            r: 8,
          }),
          Plot.dot(rows, { y: "id", x: (row) => row.knee.beyond_per_second ?? null, ...lost() }),
          ...rows.map((row) =>
            Plot.dot([row], {
              y: "id",
              x: () => row.each.estimate.median,
              symbol: symbolOf(looks.get(row.each.id) ?? 0),
              fill: tone(row),
              r: 5,
            } as Plot.DotOptions),
          ),
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
            h(
              "div",
              { class: "side" },
              ...probed.map((row) => searched(row, looks.get(row.each.id) ?? 0, each, top, range)),
            ),
          ];
    },
  };
}

/** What the marks mean, as a drawing, so that it is saved with the figure. */
function key(width: number, bars: boolean): SVGSVGElement {
  const narrow = width < NARROW;
  /** Where each begins on a wide page, pixels. */
  const KEYS = [12, 310, 660];
  const entries: [string, Plot.DotOptions][] = [
    [`kept in half of the searches${bars ? ", with its interval" : ""}`, { fill: ink(), r: 5 }],
    ["not kept; above: the lowest such rate, in the middle", lost()],
    ["what a closed loop reaches, whatever the latency", { stroke: faint(), strokeWidth: 1.8, r: 8 }],
  ];
  const place = (at: number): [number, number] => (narrow ? [12, 12 + at * 22] : [KEYS[at] ?? 12, 12]);
  const [wide, high] = narrow ? [width, 70] : [Math.min(width, 1000), 26];
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

/** A rate at which the objective was not kept. */
const lost = (): Plot.DotOptions => ({ symbol: "times", stroke: ink(), strokeWidth: 1.8, r: 4.5 });

/** What the searches of one cell saw: the percentile against the rate that was offered, kept or not. */
function searched(
  { name, each, knee }: Row,
  series: number,
  width: number,
  top: number,
  [low, high]: [number, number],
): SVGSVGElement {
  const [tone, objective] = [toneOf(series), Math.log2(knee.limit_ns)];
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
      Plot.ruleY([objective], { stroke: ink(), strokeDasharray: "5 3", strokeWidth: 1.2 }),
      Plot.dot(
        probes.filter((probe) => probe.kept),
        { x: "offered_per_second", y: "place", r: 3.5, stroke: tone, strokeWidth: 1.5 },
      ),
      Plot.dot(
        probes.filter((probe) => !probe.kept),
        { x: "offered_per_second", y: "place", ...lost() },
      ),
      lower != null && upper != null
        ? Plot.ruleY([objective], { x1: lower, x2: upper, stroke: tone, strokeWidth: 3 } as Plot.RuleYOptions)
        : null,
      median == null
        ? null
        : Plot.dot([[median, objective]], {
            symbol: symbolOf(series),
            fill: tone,
            stroke: paper(),
            strokeWidth: 1,
            r: 6,
          }),
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
