// One panel of the figure of offered loads.

import * as Plot from "@observablehq/plot";
import type { Interval } from "../data";
import { capital, count, percent, quantity } from "../format";
import { levels } from "../levels";
import { CURVE_LEAST, dashOf, draw, faint, heading, ink, logarithmic, symbolOf, tip, toneOf, valueAxis } from "../look";
import type { Load, Panel, Point } from "./load";

interface Known extends Point {
  value: Interval;
}

/** A panel's scales. */
interface Scales {
  x(point: { offered: number }): number;
  place(value: number | null): number;
  /** The distance between series at a load, pixels. */
  step: number;
}

export function loadPanel(load: Load, panel: Panel, width: number): SVGSVGElement {
  const { title, unit, of } = panel;
  const { points, near, series } = load;
  const known = points.flatMap((point): Known[] => {
    const value = of(point);
    return value ? [{ ...point, value }] : [];
  });
  const ends = known.flatMap(({ value: { mid, lower, upper } }) => [lower ?? mid, mid, upper ?? mid]);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const { axis, name, place } = valueAxis(unit, least, unit === "share" ? Math.max(1, most) : most);
  const loads = levels(near, "call_rate").filter((rate) => typeof rate === "number");
  const step = Math.min(12, (0.6 * (width - 112)) / loads.length / Math.max(1, series.length));
  const scales: Scales = { x: (point) => Math.log2(point.offered), place, step };
  return draw(width, {
    height: 280,
    marginLeft: 62,
    marginRight: 22,
    marginTop: 34,
    marginBottom: 42,
    ariaLabel: title,
    x: {
      ...logarithmic(loads, (rate) => count(rate), (width - 112) / 28),
      // All panels have all loads: too few calls leave a gap.
      domain: [Math.log2(Math.min(...loads)), Math.log2(Math.max(...loads))],
      label: "calls per second, offered",
      inset: 14 + (step * (series.length - 1)) / 2,
    },
    y: { ...axis, ...(unit === "share" ? { tickFormat: (share: number) => percent(share) } : {}), insetTop: 8 },
    marks: [
      heading(capital(name && unit !== "share" ? `${title}, ${name}` : title), 62, -28),
      unit === "share" ? Plot.ruleY([1], { stroke: faint(), strokeDasharray: "4 3" }) : null,
      ...series.flatMap((_, at) => marks(load, panel, scales, known, at)),
      tip(
        known,
        { x: scales.x, y: (point: Known) => place(point.value.mid) },
        ({ cell, offered, reached, value }) =>
          `${cell.label}\n${quantity(offered, "calls/s")} offered, ${quantity(reached, "calls/s")} answered\n${title}: ${quantity(value.mid, unit)}`,
      ),
    ],
  });
}

/** Line, intervals and marks of a series. */
function marks(load: Load, panel: Panel, { x, place, step }: Scales, known: Known[], at: number): Plot.Markish[] {
  const own = known.filter((point) => point.series === at);
  const look = load.places[at] ?? at;
  const stroke = toneOf(look);
  const dx = (at - (load.series.length - 1) / 2) * step;
  const y = (point: Known) => place(point.value.mid);
  const rings = panel.ringed ? (["decided", "leads"] as const) : [];
  return [
    Plot.line(own.length < CURVE_LEAST ? [] : own, {
      x,
      y,
      dx,
      stroke,
      strokeWidth: 2,
      strokeDasharray: dashOf(look),
    } as Plot.LineOptions),
    Plot.ruleX(
      own.filter((point) => point.value.lower != null),
      {
        x,
        y1: (point: Known) => place(point.value.lower),
        y2: (point: Known) => place(point.value.upper),
        dx,
        stroke,
        strokeWidth: 1.5,
      },
    ),
    Plot.dot(own, { x, y, dx, symbol: symbolOf(look), r: 4.5, fill: stroke, stroke } as Plot.DotOptions),
    ...rings.map((how) =>
      Plot.dot(
        own.filter(({ chosen }) => chosen === how),
        { x, y, dx, ...ring(how) },
      ),
    ),
    panel.crossed ? Plot.dot(own.filter(load.isLate), { x, y, dx, ...cross() }) : null,
  ];
}

/** The ring of a recommended option: dashed if the test is inconclusive. */
export const ring = (how: "decided" | "leads"): Plot.DotOptions => ({
  r: 9,
  stroke: ink(),
  strokeWidth: 1.6,
  strokeDasharray: how === "leads" ? "3 2.5" : undefined,
  fill: "none",
});

export const cross = (): Plot.DotOptions => ({ symbol: "times", r: 7, stroke: ink(), strokeWidth: 2 });
