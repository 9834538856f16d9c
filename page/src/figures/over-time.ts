// One long trial from its first moment, interval by interval: all flows together, and each of them.

import * as Plot from "@observablehq/plot";
import { cellOf, type GroupView, type View } from "../data";
import { h } from "../dom";
import { capital, counted, duration, percent, quantity } from "../format";
import type { Figure, Note } from "../frame";
import { dashOf, draw, type Entry, faint, fromZero, heading, legend, tip, toneOf } from "../look";
import { RATES } from "../measure";
import type { Looking } from "../state";
import { hinted } from "../words";

/** More flows have one colour. */
const COLOURS_MAX = 6;
/** The width of the line of all flows, and of one; pixels. */
const [BOLD, THIN] = [2.6, 1.2];

type Found = NonNullable<GroupView["over_time"]>;

/** The trial, and what its panels share. */
type Trial = ReturnType<typeof trialOf>;

/** The corners of a line of steps: each rate from the start of its interval to the end. */
export function corners(rates: number[], interval_ns: number): { at: number; rate: number }[] {
  return rates.flatMap((rate, step) => [step, step + 1].map((end) => ({ at: end * interval_ns, rate })));
}

export function overTime({ view, group }: Looking): Figure | HTMLElement | null {
  const found = group.over_time;
  if (!found || found.sum.length === 0) return view.interval_ns == null ? null : lacking(view.interval_ns);
  const trial = trialOf(view, group, found);
  const { interval_ns, unit, flows, sum, mean } = found;
  const label = cellOf(view, found.cell)?.label;
  return {
    id: "over-time",
    title: capital(`${trial.what} over time, in one long trial`),
    caption: `The last long trial${label ? ` of ${label}` : ""}: ${quantity(mean, unit)} on average of ${counted(sum.length, "step")} of ${duration(interval_ns)}.`,
    notes: notesOf(view, trial),
    table: () => ({
      columns: ["from_ns", "to_ns", "rate", ...flows.map((_, flow) => `flow_${flow + 1}`)],
      rows: sum.map((rate, step) => [
        step * interval_ns,
        (step + 1) * interval_ns,
        rate,
        ...flows.map((rates) => rates[step]),
      ]),
    }),
    draw: (width) => drawn(trial, width),
  };
}

/** The line in place of the figure, if it was requested. */
function lacking(interval_ns: number): HTMLElement {
  const needs = `trials of a second or more (--trial-time 10s), longer than the requested interval of ${duration(interval_ns)}.`;
  return h("p", { id: "over-time", class: "lacking" }, h("b", {}, "One trial over time"), ": ", ...hinted(needs));
}

function trialOf(view: View, group: GroupView, found: Found) {
  const calls = cellOf(view, found.cell)?.estimate.metric === "calls";
  const rate = found.unit !== "bytes/s" ? RATES["nops"] : calls ? "bytes of requests and replies" : RATES["throughput"];
  const end = found.sum.length * found.interval_ns;
  const warmup = group.warmup_ns ?? 0;
  return {
    ...found,
    /** `throughput`. */
    what: rate ?? "rate",
    /** The end of the trial, nanoseconds. */
    end,
    /** The warm-up, nanoseconds; 0 if it is longer than the trial. */
    warmup: warmup < end ? warmup : 0,
    /** Each flow has its own colour. */
    coloured: found.flows.length <= COLOURS_MAX,
  };
}

function notesOf(view: View, { cell, spread, flows, warmup }: Trial): Note[] {
  const again = cellOf(view, cell)?.counters.retransmits;
  return [
    spread != null && `The standard deviation of the steps is ${percent(spread)}.`,
    flows.length > 1 &&
      `The upper panel shows all ${flows.length} flows together, the lower one each flow on its own scale.`,
    warmup > 0 && "The shade is the warm-up, which is not part of a result.",
    again != null && `TCP retransmitted ${counted(again, "segment")} in all trials of this option.`,
  ];
}

function drawn(trial: Trial, width: number): Node[] {
  const { what, flows, sum, coloured } = trial;
  if (flows.length < 2) return [panel(trial, what, sum, 300, true, width)];
  return [
    panel(trial, `${what}, all ${flows.length} flows together`, sum, 240, false, width),
    // One scale for both would flatten the flows.
    panel(trial, "each flow", null, 240, true, width),
    legend("", key(flows.length, coloured), width),
  ];
}

/** A panel of all flows together (`sum`), or of each flow. */
function panel(
  trial: Trial,
  title: string,
  sum: number[] | null,
  height: number,
  isLast: boolean,
  width: number,
): SVGSVGElement {
  const { end, warmup, unit } = trial;
  const { axis, name } = fromZero(unit, Math.max(...(sum ?? trial.flows.flat())));
  return draw(width, {
    height,
    marginLeft: 66,
    marginRight: 20,
    marginTop: 30,
    marginBottom: isLast ? 40 : 24,
    x: {
      domain: [0, end],
      ticks: Math.max(3, Math.floor(width / 120)),
      tickFormat: (ns: number) => (ns === 0 ? "0" : duration(ns)),
      label: isLast ? "since the trial began" : null,
      labelArrow: "none",
      labelAnchor: "center",
    },
    y: axis,
    marks: [
      heading(capital(`${title}, ${name}`), 66, -24),
      warmup > 0 ? Plot.rectX([warmup], { x1: 0, x2: warmup, fill: faint(), fillOpacity: 0.16 }) : null,
      ...(sum ? sumMarks(trial, sum) : flowMarks(trial)),
      Plot.ruleY([0], { stroke: faint() }),
    ],
  });
}

const line = ({ interval_ns }: Trial, rates: number[], more: Plot.LineOptions) =>
  Plot.line(corners(rates, interval_ns), { x: "at", y: "rate", strokeLinejoin: "round", ...more });

function sumMarks(trial: Trial, sum: number[]): Plot.Markish[] {
  const { interval_ns, unit } = trial;
  const steps = sum.map((rate, step) => ({ step, at: (step + 0.5) * interval_ns, rate }));
  return [
    line(trial, sum, { stroke: toneOf(0), strokeWidth: BOLD }),
    tip(
      steps,
      { x: "at", y: "rate" },
      ({ step, rate }) =>
        `${duration(step * interval_ns)} to ${duration((step + 1) * interval_ns)}\n${quantity(rate, unit)}`,
      Plot.pointerX,
    ),
  ];
}

const flowMarks = (trial: Trial): Plot.Markish[] =>
  trial.flows.map((rates, flow) =>
    line(trial, rates, {
      stroke: trial.coloured ? toneOf(flow + 1) : faint(),
      strokeWidth: THIN,
      strokeOpacity: trial.coloured ? 1 : 0.55,
      strokeDasharray: trial.coloured ? dashOf(flow + 1) : undefined,
    } as Plot.LineOptions),
  );

/** The entries of the legend. */
function key(flows: number, coloured: boolean): Entry[] {
  const sum: Entry = { name: "all flows together", series: 0, line: BOLD };
  if (!coloured) return [sum, { name: `each of ${flows} flows`, series: null, line: THIN }];
  return [
    sum,
    ...Array.from({ length: flows }, (_, flow) => ({ name: `flow ${flow + 1}`, series: flow + 1, line: THIN })),
  ];
}
