// One panel of the figure of offered loads.

import * as Plot from "@observablehq/plot";
import type { Interval } from "../data";
import { capital, count, percent, quantity } from "../format";
import { levels } from "../levels";
import { CURVE_LEAST, draw, faint, heading, ink, logarithmic, tip, valueAxis } from "../look";
import type { Load, Panel, Point } from "./load";
import { seriesMarks } from "./series-marks";

type Known = Point & Interval;

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
    return value ? [{ ...point, ...value }] : [];
  });
  const ends = known.flatMap(({ mid, lower, upper }) => [lower ?? mid, mid, upper ?? mid]);
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
        { x: scales.x, y: (point: Known) => place(point.mid) },
        ({ cell, offered, reached, mid }) =>
          `${cell.label}\n${quantity(offered, "calls/s")} offered, ${quantity(reached, "calls/s")} answered\n${title}: ${quantity(mid, unit)}`,
      ),
    ],
  });
}

/** Line, intervals and marks of a series. */
function marks(load: Load, panel: Panel, { x, place, step }: Scales, known: Known[], at: number): Plot.Markish[] {
  const points = known.filter((point) => point.series === at);
  const dx = (at - (load.series.length - 1) / 2) * step;
  const series = seriesMarks({ points, look: load.places[at] ?? at, x, place, dx });
  const rings = panel.ringed ? (["decided", "leads"] as const) : [];
  return [
    series.line(points.length < CURVE_LEAST ? [] : points, { strokeWidth: 2 }),
    series.intervals(1.5),
    series.dots(),
    ...rings.map((how) =>
      series.over(
        points.filter(({ chosen }) => chosen === how),
        ring(how),
      ),
    ),
    panel.crossed ? series.over(points.filter(load.isLate), cross()) : null,
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
