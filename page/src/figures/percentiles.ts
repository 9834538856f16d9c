// How long calls take: percentiles on an axis that stretches towards the tail, log(1 / (1 − p)).

import * as Plot from "@observablehq/plot";
import { type CellView, candidates, isMeasured } from "../data";
import { h } from "../dom";
import { duration, percent, quantity } from "../format";
import { type Figure, select } from "../frame";
import {
  toneOf,
  CURVE_LEAST,
  dashOf,
  draw,
  heading,
  legend,
  logarithmic,
  logAxis,
  paper,
  SERIES_MAX,
  symbolOf,
} from "../look";
import { withInterval } from "../outward";
import { seriesOf } from "../series";
import type { Looking } from "../state";
import { ranked } from "./compared";

const LINES_MAX = Math.min(6, SERIES_MAX);
/** What stays free at the ends of the axes, so that marks there are seen whole; pixels. */
const INSET = 10;
/** Left and right of the axes; from one choice to the next at a percentile, at most; pixels. */
const [LEFT, RIGHT, STEP] = [62, 20, 13];
/** Of more choices than this that are not drawn a few are named. */
const NAMED_MAX = 4;

let part = "total";

/** `total_p99_9_ns` → 0.999. */
export function percentileOf(key: string, part: string): number | null {
  const found = key.match(/^(\w+?)_p(\d+)(?:_(\d+))?_ns$/);
  if (!found || found[1] !== part) return null;
  return Number(`${found[2]}.${found[3] ?? "0"}`) / 100;
}

/** A choice that was measured at the end of what it keeps up with, with its load: whoever answers more is not slower for it. */
export function underLoad({ label, id, call, estimate }: CellView): string {
  const load = call?.knee && estimate.median != null ? `, at ${quantity(estimate.median, estimate.unit)}` : "";
  return `${label || id}${load}`;
}

export function percentiles({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const timed = (each: CellView) => Object.keys(each.more).some((key) => percentileOf(key, part) != null);
  const parts = ["total", "connect", "write", "first_byte"].filter((name) =>
    candidates(view, group).some((each) => Object.keys(each.more).some((key) => percentileOf(key, name) != null)),
  );
  if (parts.length === 0) return null;
  if (!parts.includes(part)) part = parts[0] ?? "total";
  // In the order of the ranking: of what has no bound the fastest are drawn.
  const rank = ranked(view, group).map(({ id }) => id);
  const order = (each: CellView) =>
    each.id === cell?.id ? -1 : rank.includes(each.id) ? rank.indexOf(each.id) : rank.length;
  const cells = candidates(view, group)
    .filter((each) => isMeasured(each) && timed(each))
    .sort((a, b) => order(a) - order(b))
    .slice(0, LINES_MAX);
  const series = seriesOf(view, cells);
  const names = (all: CellView[]) => {
    const rest = all.length - NAMED_MAX;
    const named = rest > 1 ? all.slice(0, NAMED_MAX) : all;
    return [...named.map(underLoad), ...(rest > 1 ? [`${rest} more`] : [])].join(", ");
  };
  const measured = candidates(view, group).filter(isMeasured);
  const untimed = measured.filter((each) => !timed(each));
  const others = measured.filter((each) => timed(each) && !cells.includes(each));
  const points = cells.flatMap((each, at) =>
    Object.entries(each.more)
      .map(([key, estimate]) => ({
        each,
        s: series[at] ?? at,
        p: percentileOf(key, part),
        mid: estimate.median ?? null,
        lower: estimate.lower ?? null,
        upper: estimate.upper ?? null,
      }))
      .filter((point): point is typeof point & { p: number; mid: number } => point.p != null && point.mid != null)
      .sort((a, b) => a.p - b.p),
  );
  const tail = (p: number) => Math.log2(1 / (1 - p));
  const all = [...new Set(points.map((point) => point.p))].sort((a, b) => a - b);
  const two = cells.some((each) => points.filter((point) => point.each === each).length < CURVE_LEAST);
  const bars = points.some((point) => point.lower != null);
  const single = cells.every((each) => each.trials <= 1);
  const ownLoads = cells.length > 1 && cells.some((each) => each.call?.knee);
  const name = (p: number) => `p${String(Number((p * 100).toFixed(3)))}`;
  return {
    id: "percentiles",
    title: "How long calls take",
    reading: [
      `Of ${group.label || group.id}. Times are the client's, ${cells[0]?.call?.timing ?? ""}: ${single ? "percentiles of one trial each" : "medians of the trials' percentiles"}${bars ? `, with an interval at ${percent(view.plan.level)} where trials are enough for one` : ", too few for intervals"}.`,
      cells.length > 1 && "Choices stand side by side at each percentile.",
      "The axis stretches towards the tail; a percentile with fewer than ten calls beyond it is left out.",
      two && "Two percentiles are no curve: without a line.",
      ownLoads &&
        "Each choice is at its own knee, so under another load: longer times under more calls do not mean a slower choice.",
      untimed.length > 0 && `Without a line, with too few calls for any percentile: ${names(untimed)}.`,
      others.length > 0 && `Not drawn, so that the others can be told apart: ${names(others)}.`,
    ]
      .filter((line) => line)
      .join(" "),
    controls:
      parts.length > 1
        ? h(
            "div",
            { class: "controls" },
            select(
              "part of a call",
              parts.map((value) => ({ value, text: value === "total" ? "all of it" : value.replace("_", " ") })),
              part,
              (value) => {
                part = value;
                redraw();
              },
            ),
          )
        : null,
    table: () => ({
      columns: ["cell", "label", "percentile", "ns", "lower_ns", "upper_ns"],
      rows: points.map((point) => [point.each.id, point.each.label, point.p, point.mid, point.lower, point.upper]),
    }),
    draw(width) {
      const times = points.flatMap((point) => [point.lower ?? point.mid, point.upper ?? point.mid]);
      const axis = logAxis(Math.min(...times), Math.max(...times), duration, 8);
      const across = (width - LEFT - RIGHT - 2 * INSET) / Math.max(tail(all.at(-1) ?? 0) - tail(all[0] ?? 0), 1);
      const gaps = all.slice(1).map((p, at) => across * (tail(p) - tail(all[at] ?? 0)));
      const step = Math.min(STEP, (0.7 * Math.min(...gaps, width)) / cells.length);
      const x = (point: { p: number }) => tail(point.p);
      const ends = {
        x,
        y1: (point: (typeof points)[number]) => Math.log2(point.lower ?? point.mid),
        y2: (point: (typeof points)[number]) => Math.log2(point.upper ?? point.mid),
      };
      const y = (point: { mid: number }) => Math.log2(point.mid);
      const marks = cells.flatMap((each, at) => {
        const s = series[at] ?? at;
        const own = points.filter((point) => point.each === each);
        const bounded = own.filter((point) => point.lower != null);
        const stroke = toneOf(s);
        const dx = (at - (cells.length - 1) / 2) * step;
        return [
          // Ribbons of several hide each other.
          Plot.areaY(own.length < CURVE_LEAST || cells.length > 1 ? [] : bounded, {
            ...ends,
            fill: stroke,
            fillOpacity: 0.12,
          }),
          Plot.line(own.length < CURVE_LEAST ? [] : own, {
            x,
            y,
            dx,
            stroke,
            strokeWidth: 1.5,
            strokeOpacity: cells.length > 1 ? 0.55 : 1,
            strokeDasharray: dashOf(s),
          } as Plot.LineOptions),
          Plot.ruleX(bounded, { ...ends, dx, stroke, strokeWidth: 2.5 }),
          Plot.dot(own, {
            x,
            y,
            dx,
            symbol: symbolOf(s),
            r: 4.5,
            fill: stroke,
            stroke: paper(),
            strokeWidth: 1,
          } as Plot.DotOptions),
        ];
      });
      const drawing = draw(width, {
        height: 340,
        marginLeft: LEFT,
        marginRight: RIGHT,
        marginTop: 30,
        marginBottom: 40,
        x: {
          ...logarithmic(
            all.map((p) => 1 / (1 - p)),
            (value) => name(1 - 1 / value),
            width / 60,
          ),
          label: "percentile of the calls",
          // Those of the first and the last percentile stand side by side as well.
          inset: INSET + (step * (cells.length - 1)) / 2,
        },
        y: { ...axis, inset: INSET },
        marks: [
          heading("Time of a call as its client measures it, log scale", LEFT, -24),
          ...marks,
          Plot.tip(
            points,
            Plot.pointer({
              x,
              y,
              title: (point) =>
                `${underLoad(point.each)}\n${name(point.p)} ${withInterval({ ...point, upper: point.upper ?? null }, "ns")}`,
              fill: paper(),
              lineHeight: 1.3,
            }),
          ),
        ],
      });
      // One choice alone is told from nothing.
      return cells.length > 1
        ? [
            drawing,
            legend(
              "",
              cells.map((each, at) => ({ name: underLoad(each), series: series[at] ?? at, loose: two })),
              width,
            ),
          ]
        : [drawing];
    },
  };
}
