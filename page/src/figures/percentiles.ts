// How long calls take: percentiles on an axis that stretches towards the tail, log(1 / (1 − p)).

import * as Plot from "@observablehq/plot";
import { type CellView, candidates, isMeasured } from "../data";
import { h } from "../dom";
import { capital, duration, percent, quantity } from "../format";
import { type Figure, select } from "../frame";
import {
  colours,
  CURVE_LEAST,
  DASHES,
  draw,
  heading,
  ink,
  legend,
  logarithmic,
  logAxis,
  NARROW,
  paper,
  SERIES_MAX,
  SYMBOLS,
} from "../look";
import { withInterval } from "../outward";
import { seriesOf } from "../series";
import type { Looking } from "../state";
import { ranked } from "./compared";

const LINES_MAX = Math.min(6, SERIES_MAX);
/** What stays free at the ends of the axes, so that marks there are seen whole; pixels. */
const INSET = 10;
/** Of more choices than this that are not drawn a few are named. */
const NAMED_MAX = 4;

let part = "total";

/** `total_p99_9_ns` → 0.999. */
export function percentileOf(key: string, part: string): number | null {
  const found = key.match(/^(\w+?)_p(\d+)(?:_(\d+))?_ns$/);
  if (!found || found[1] !== part) return null;
  return Number(`${found[2]}.${found[3] ?? "0"}`) / 100;
}

/** Choices that were each measured at the end of what they keep up with: whoever answers more is not slower for it. */
export function ownLoads(cells: CellView[]): string {
  const own = cells.filter((cell) => cell.call?.knee && cell.estimate.median != null);
  if (own.length === 0) return "";
  const rates = own
    .map((cell) => `${cell.label} ${quantity(cell.estimate.median ?? 0, cell.estimate.unit)}`)
    .join(", ");
  const several =
    own.length > 1 ? " These are different loads: longer times under more calls do not mean a slower choice." : "";
  return ` ${own.length > 1 ? "Each at its own knee" : "At its knee"}: ${rates}.${several}`;
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
    return [...named.map((each) => each.label || each.id), ...(rest > 1 ? [`${rest} more`] : [])].join(", ");
  };
  const measured = candidates(view, group).filter(isMeasured);
  const untimed = measured.filter((each) => !timed(each));
  const others = measured.filter((each) => timed(each) && !cells.includes(each));
  const absent = [
    untimed.length > 0 && ` Without a line, with too few calls for any percentile: ${names(untimed)}.`,
    others.length > 0 && ` Not drawn, so that the others can be told apart: ${names(others)}.`,
  ]
    .filter((line) => line)
    .join("");
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
  const name = (p: number) => `p${String(Number((p * 100).toFixed(3)))}`;
  return {
    id: "percentiles",
    title: "How long calls take",
    reading: `Of ${group.label || group.id}. ${capital(cells[0]?.call?.timing ?? "")}: ${single ? "percentiles of one trial each" : "medians of the trials' percentiles"}${bars ? `, with an interval at ${percent(view.plan.level)} where trials are enough for one` : ", too few for intervals"}. The axis stretches towards the tail; a percentile with fewer than ten calls beyond it is left out.${two ? " Two percentiles are no curve: without a line." : ""}${ownLoads(cells)}${absent}`,
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
      const tone = colours();
      const right = width < NARROW ? 16 : Math.min(310, Math.max(...cells.map((each) => each.label.length)) * 7.1 + 24);
      const times = points.flatMap((point) => [point.lower ?? point.mid, point.upper ?? point.mid]);
      const axis = logAxis(Math.min(...times), Math.max(...times), duration, 8);
      const last = cells
        .map((each) => points.filter((point) => point.each === each).at(-1))
        .filter((point) => point != null);
      const marks = cells.flatMap((each, at) => {
        const s = series[at] ?? at;
        const own = points.filter((point) => point.each === each);
        const stroke = tone[s % tone.length] ?? ink();
        return [
          Plot.areaY(own.length < CURVE_LEAST ? [] : own.filter((point) => point.lower != null), {
            x: (point) => tail(point.p),
            y1: (point) => Math.log2(point.lower ?? point.mid),
            y2: (point) => Math.log2(point.upper ?? point.mid),
            fill: stroke,
            fillOpacity: 0.12,
          }),
          Plot.ruleX(
            own.filter((point) => point.lower != null),
            {
              x: (point) => tail(point.p),
              y1: (point) => Math.log2(point.lower ?? point.mid),
              y2: (point) => Math.log2(point.upper ?? point.mid),
              stroke,
            },
          ),
          Plot.line(own.length < CURVE_LEAST ? [] : own, {
            x: (point) => tail(point.p),
            y: (point) => Math.log2(point.mid),
            stroke,
            strokeWidth: 2,
            strokeDasharray: DASHES[s] || undefined,
          } as Plot.LineOptions),
          Plot.dot(own, {
            x: (point) => tail(point.p),
            y: (point) => Math.log2(point.mid),
            symbol: SYMBOLS[s],
            r: 4.5,
            fill: stroke,
            stroke,
          } as Plot.DotOptions),
        ];
      });
      const drawing = draw(width, {
        height: 340,
        marginLeft: 62,
        marginRight: right,
        marginTop: 30,
        marginBottom: 40,
        x: {
          ...logarithmic(
            all.map((p) => 1 / (1 - p)),
            (value) => name(1 - 1 / value),
            width / 60,
          ),
          label: "percentile of the calls",
          inset: INSET,
        },
        y: { ...axis, inset: INSET },
        marks: [
          heading("Time of a call, log scale", 62, -24),
          ...marks,
          width < NARROW ? null : labels(last, tail, right, axis.domain as number[]),
          Plot.tip(
            points,
            Plot.pointer({
              x: (point) => tail(point.p),
              y: (point) => Math.log2(point.mid),
              title: (point) =>
                `${point.each.label}\n${name(point.p)} ${withInterval({ ...point, upper: point.upper ?? null }, "ns")}`,
              fill: paper(),
              lineHeight: 1.3,
            }),
          ),
        ],
      });
      // One choice alone is told from nothing.
      return width < NARROW && cells.length > 1
        ? [
            drawing,
            legend(
              "",
              cells.map((each, at) => ({ name: each.label, series: series[at] ?? at, loose: two })),
              width,
            ),
          ]
        : [drawing];
    },
  };

  /** Names at the ends of the lines, pushed apart where they would lie on each other. */
  function labels(
    last: (typeof points)[number][],
    tail: (p: number) => number,
    right: number,
    domain: readonly number[],
  ): Plot.Markish {
    const tone = colours();
    const [low = 0, top = 1] = domain;
    const least = ((top - low) / (270 - 2 * INSET)) * 15;
    const sorted = [...last].sort((a, b) => a.mid - b.mid);
    // Each beside its own last mark: at the end of the axis it would name a percentile that its choice has not.
    const before = new Map<number, number>();
    const placed = sorted.map((point) => {
      const at = Math.max(Math.log2(point.mid), (before.get(point.p) ?? Number.NEGATIVE_INFINITY) + least);
      before.set(point.p, at);
      return { ...point, at };
    });
    return Plot.text(placed, {
      x: (point) => tail(point.p),
      y: "at",
      stroke: paper(),
      strokeWidth: 4,
      dx: 10,
      text: (point: (typeof placed)[number]) => point.each.label,
      textAnchor: "start",
      fill: (point: (typeof placed)[number]) => tone[point.s % tone.length] ?? ink(),
      fontWeight: 600,
      lineWidth: right / 12,
      textOverflow: "ellipsis-end",
    } as Plot.TextOptions);
  }
}
