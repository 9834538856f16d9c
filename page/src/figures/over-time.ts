// One long trial from its first moment, interval by interval: each flow, and all of them together.

import * as Plot from "@observablehq/plot";
import { cellOf } from "../data";
import { capital, counted, duration, percent, quantity } from "../format";
import type { Figure, Lacking } from "../frame";
import { accent, toneOf, dashOf, draw, type Entry, faint, fromZero, heading, legend, paper } from "../look";
import { RATES } from "../measure";
import type { Looking } from "../state";

/** More flows than this have no colour of their own. */
const TOLD_APART = 6;
/** The lines of all flows together, and of one; pixels. */
const [BOLD, THIN] = [2.6, 1.2];
/** A warm-up that is a smaller share of the trial cannot be seen. */
const SEEN = 0.003;

/** The corners of a line of steps: each rate from the begin of its interval to the end. */
export function corners(rates: number[], interval_ns: number): { at: number; rate: number }[] {
  return rates.flatMap((rate, step) => [step, step + 1].map((end) => ({ at: end * interval_ns, rate })));
}

export function overTime({ view, group }: Looking): Figure | Lacking | null {
  const found = group.over_time;
  if (!found || found.sum.length === 0)
    return view.interval_ns == null
      ? null
      : {
          id: "over-time",
          title: "One trial over time",
          needs: `no trial of these conditions is known from millisecond to millisecond. Those of a second or more are (--trial-time 10s), where they are longer than the intervals of ${duration(view.interval_ns)} that were asked for.`,
        };
  const { interval_ns, unit, flows, sum, mean, spread } = found;
  const cell = cellOf(view, found.cell);
  const calls = cell?.estimate.metric === "calls";
  const what = unit !== "bytes/s" ? RATES["nops"] : calls ? "bytes of requests and replies" : RATES["throughput"];
  const end = sum.length * interval_ns;
  const warmup = group.warmup_ns ?? 0;
  const warm = warmup > SEEN * end && warmup < end;
  const several = flows.length > 1;
  const apart = flows.length <= TOLD_APART;
  const again = cell?.counters.retransmits;
  const steps = sum.map((rate, step) => ({ step, at: (step + 0.5) * interval_ns, rate }));
  const reading = [
    `The last long trial${cell?.label ? ` of ${cell.label}` : ""}, from its first moment: ${quantity(mean, unit)} on average of ${counted(sum.length, "step")} of ${duration(interval_ns)}${spread == null ? "" : `, which differ by ${percent(spread)} (standard deviation)`}.`,
    several &&
      `Above all ${flows.length} flows together, below each of them on a scale of its own; where they lie on each other they are alike.`,
    warm && "The shade is the warm-up, which no answer counts.",
    again != null &&
      `TCP sent ${again === 0 ? "no segment" : counted(again, "segment")} again in all trials of this cell together.`,
  ];
  return {
    id: "over-time",
    title: capital(`${what} over time, in one long trial`),
    reading: reading.filter((line) => line).join(" "),
    table: () => ({
      columns: ["from_ns", "to_ns", "rate", ...(several ? flows.map((_, flow) => `flow_${flow + 1}`) : [])],
      rows: sum.map((rate, step) => [
        step * interval_ns,
        (step + 1) * interval_ns,
        rate,
        ...(several ? flows.map((rates) => rates[step] ?? null) : []),
      ]),
    }),
    draw(width) {
      const thin = (flow: number) => (apart ? toneOf(flow + 1) : faint());
      const line = (rates: number[], more: Plot.LineOptions) =>
        Plot.line(corners(rates, interval_ns), { x: "at", y: "rate", strokeLinejoin: "round", ...more });
      const panel = (title: string, height: number, most: number, marks: Plot.Markish[], last: boolean) => {
        const { axis, name } = fromZero(unit, most);
        return draw(width, {
          height,
          marginLeft: 66,
          marginRight: 20,
          marginTop: 30,
          marginBottom: last ? 40 : 24,
          x: {
            domain: [0, end],
            ticks: Math.max(3, Math.floor(width / 120)),
            tickFormat: (ns: number) => (ns === 0 ? "0" : duration(ns)),
            label: last ? "since the trial began" : null,
            labelArrow: "none",
            labelAnchor: "center",
          },
          y: axis,
          marks: [
            heading(capital(`${title}, ${name}`), 66, -24),
            warm ? Plot.rectX([warmup], { x1: 0, x2: warmup, fill: faint(), fillOpacity: 0.16 }) : null,
            ...marks,
            Plot.ruleY([0], { stroke: faint() }),
          ],
        });
      };
      const all = panel(
        several ? `${what}, all ${flows.length} flows together` : (what ?? ""),
        several ? 240 : 300,
        Math.max(...sum),
        [
          line(sum, { stroke: accent(), strokeWidth: BOLD }),
          Plot.tip(
            steps,
            Plot.pointerX({
              x: "at",
              y: "rate",
              title: ({ step, rate }: (typeof steps)[number]) =>
                `${duration(step * interval_ns)} to ${duration((step + 1) * interval_ns)}\n${quantity(rate, unit)}`,
              fill: paper(),
              lineHeight: 1.3,
            }),
          ),
        ],
        !several,
      );
      if (!several) return [all];
      // On a scale of their own: beneath the sum they would be one line.
      const each = panel(
        "each flow",
        240,
        Math.max(...flows.flat()),
        flows.map((rates, flow) =>
          line(rates, {
            stroke: thin(flow),
            strokeWidth: THIN,
            strokeOpacity: apart ? 1 : 0.55,
            strokeDasharray: apart ? dashOf(flow + 1) : undefined,
          } as Plot.LineOptions),
        ),
        true,
      );
      return [all, each, legend("", key(flows.length, apart), width)];
    },
  };
}

/** What the lines mean. */
function key(flows: number, apart: boolean): Entry[] {
  const sum: Entry = { name: "all flows together", series: 0, line: BOLD };
  if (!apart) return [sum, { name: `each of ${flows} flows`, series: null, line: THIN }];
  return [
    sum,
    ...Array.from({ length: flows }, (_, flow) => ({ name: `flow ${flow + 1}`, series: flow + 1, line: THIN })),
  ];
}
