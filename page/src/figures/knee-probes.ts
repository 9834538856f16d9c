// The probes of the searches of one option: the percentile against the offered rate, kept or not.

import * as Plot from "@observablehq/plot";
import { duration, quantity } from "../format";
import { draw, heading, ink, logAxis, paper, symbolOf, tip, toneOf } from "../look";
import type { Row } from "./knee";

/** A rate at which the objective was not kept. */
export const lost = (): Plot.DotOptions => ({ symbol: "times", stroke: ink(), strokeWidth: 1.8, r: 4.5 });

/** Draws the probes; `top` is the end of the axis of rates, `low` and `high` those of the axis of times. */
export function searched(row: Row, width: number, top: number, [low, high]: [number, number]): SVGSVGElement {
  const { name, knee } = row;
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
    y: { ...logAxis(low, high, duration, 7), inset: 6 },
    marks: [heading(`${name}: ${knee.percentile} of every probe, log scale`, 62, -24), ...marks(row)],
  });
}

function marks({ knee, each, look }: Row): Plot.Markish[] {
  const [tone, objective] = [toneOf(look), Math.log2(knee.limit_ns)];
  const probes = knee.probes.flatMap((probe) =>
    probe.percentile_ns == null ? [] : [{ ...probe, place: Math.log2(probe.percentile_ns) }],
  );
  const { lower, upper, median } = each.estimate;
  const place = { x: "offered_per_second", y: "place" };
  return [
    Plot.ruleY([objective], { stroke: ink(), strokeDasharray: "5 3", strokeWidth: 1.2 }),
    Plot.dot(
      probes.filter((probe) => probe.kept),
      { ...place, r: 3.5, stroke: tone, strokeWidth: 1.5 },
    ),
    Plot.dot(
      probes.filter((probe) => !probe.kept),
      { ...place, ...lost() },
    ),
    lower != null && upper != null
      ? Plot.ruleY([objective], { x1: lower, x2: upper, stroke: tone, strokeWidth: 3 } as Plot.RuleYOptions)
      : null,
    median == null
      ? null
      : Plot.dot([[median, objective]], { symbol: symbolOf(look), fill: tone, stroke: paper(), strokeWidth: 1, r: 6 }),
    tip(
      probes,
      place,
      (probe) =>
        `${quantity(probe.offered_per_second, "calls/s")}\n${knee.percentile} ${duration(probe.percentile_ns ?? 0)}\n${probe.kept ? "kept" : "not kept"}, search ${probe.search + 1}`,
    ),
  ];
}
