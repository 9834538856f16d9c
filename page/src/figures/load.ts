// Which choice to make under an offered load: for each load what every choice costs, how long calls take, and how much of the
// load is answered. All three against the load, which is the same for all choices: what each of them reached is not.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, factorOf, groupOf, type Interval, isMeasured, level } from "../data";
import { h } from "../dom";
import { capital, count, percent, quantity } from "../format";
import { type Figure, select } from "../frame";
import { along, follows, held, levels, named, varying } from "../levels";
import {
  toneOf,
  CURVE_LEAST,
  dashOf,
  draw,
  type Entry,
  faint,
  heading,
  ink,
  legend,
  logarithmic,
  NARROW,
  paper,
  SERIES_MAX,
  symbolOf,
  valueAxis,
} from "../look";
import { costOf, nameOf } from "../measure";
import { seriesOfLevels } from "../series";
import type { Looking } from "../state";
import { percentileOf } from "./percentiles";

let percentile = "total_p99_ns";

/** From here on three panels stand beside each other; pixels. */
const WIDE = 840;

interface Point {
  cell: CellView;
  series: number;
  offered: number;
  reached: number;
  /** Whether it is what to use at this load (`shown`), or what is named there without that. */
  chosen: "shown" | "leads" | null;
}
interface Panel {
  title: string;
  unit: string;
  /** What fell short of its load is crossed, since a queue makes it what it is. */
  crossed?: boolean;
  /** Whether choices are compared by it: then the one that leads has a ring. */
  ringed?: boolean;
  of(point: Point): Interval | null;
}

const short = (key: string) => nameOf(key).replace("latency ", "");

export function load({ view, cell }: Looking, redraw: () => void): Figure | null {
  const calls = view.cells.filter((each) => each.kind === "candidate" && isMeasured(each) && each.call);
  if (!cell || levels(calls, "call_rate").filter((rate) => typeof rate === "number").length < 2) return null;
  const keys = [...new Set(calls.flatMap((each) => Object.keys(each.more)))].filter(
    (key) => percentileOf(key, "total") != null,
  );
  if (!keys.includes(percentile)) percentile = keys.find((key) => key.includes("p99")) ?? keys[0] ?? percentile;
  const free = varying(calls, view.plan.varied).filter(
    (factor) => factor !== "call_rate" && !follows(calls, factor, ["call_rate"]),
  );
  // What is chosen comes before what life imposes.
  const role = (factor: string) => (factorOf(view, factor).role === "choice" ? 0 : 1);
  const colour = free.sort((a, b) => role(a) - role(b))[0] ?? "";
  const near = along(view, calls, cell, ["call_rate", ...(colour ? [colour] : [])]);
  const series = colour ? levels(near, colour).slice(0, SERIES_MAX) : [null];
  const places = colour ? seriesOfLevels(view, colour, series) : [0];
  const factor = factorOf(view, colour);
  const points = near.flatMap((each): Point[] => {
    const [offered, reached] = [level(each, "call_rate"), each.estimate.median];
    const at = colour ? series.indexOf(level(each, colour)) : 0;
    if (typeof offered !== "number" || reached == null || at < 0) return [];
    const own = groupOf(view, each.group)?.recommendation;
    const chosen = own?.cell !== each.id ? null : own.proven ? "shown" : "leads";
    return [{ cell: each, series: at, offered, reached, chosen: series.length > 1 ? chosen : null }];
  });
  points.sort((a, b) => a.offered - b.offered);
  const cost = costOf(near);
  const answered = view.plan.answered_share;
  const late = (point: Point) => point.reached < point.offered * answered;
  const all: (Panel | undefined | false)[] = [
    cost && { title: cost.label, unit: cost.unit, ringed: true, of: ({ cell }: Point) => cost.of(cell) },
    keys.length > 0 && {
      title: `latency, ${short(percentile)} of the calls`,
      unit: "ns",
      crossed: true,
      of: ({ cell: { more } }: Point) => {
        const time = more[percentile];
        return time?.median == null ? null : { mid: time.median, lower: time.lower ?? null, upper: time.upper ?? null };
      },
    },
    {
      title: "answered of what was offered",
      unit: "share",
      of: ({ cell: { estimate }, offered, reached }: Point) => ({
        mid: reached / offered,
        lower: estimate.lower == null ? null : estimate.lower / offered,
        upper: estimate.upper == null ? null : estimate.upper / offered,
      }),
    },
  ];
  const panels = all.filter((panel): panel is Panel => Boolean(panel));
  const without = points.filter((point) => keys.length > 0 && panels.some((panel) => panel.of(point) == null)).length;
  const bars = points.some((point) => panels.some((panel) => panel.of(point)?.lower != null));

  return {
    id: "load",
    holds: held(view, calls, cell, ["call_rate", colour]),
    title: colour ? `Which ${axisName(factor)} under which offered load` : "What an offered load costs",
    reading: [
      bars &&
        `Vertical lines are intervals at ${percent(view.plan.level)}; a mark without one has too few trials for it.`,
      points.some(late) &&
        `Where less than ${percent(answered)} of a load was answered its latency is crossed: calls queue there, and it is mostly waiting.`,
      points.some((point) => point.reached > 1.02 * point.offered) &&
        "More than 100 % is answered where calls that were due before the window are answered in it.",
      without > 0 && `${without} of the ${points.length} marks are missing where too few calls were made.`,
    ]
      .filter((line) => line)
      .join(" "),
    controls:
      keys.length > 1
        ? h(
            "div",
            { class: "controls" },
            select(
              "percentile",
              keys.map((value) => ({ value, text: short(value) })),
              percentile,
              (value) => {
                percentile = value;
                redraw();
              },
            ),
          )
        : null,
    table: () => ({
      columns: ["offered", colour || "series", "chosen", "reached", cost?.key ?? "cost", percentile, "lower", "upper"],
      rows: points.map((point) => {
        const time = point.cell.more[percentile];
        return [
          point.offered,
          named(series[point.series] ?? null, factor),
          point.chosen ?? "",
          point.reached,
          cost?.of(point.cell)?.mid ?? null,
          time?.median ?? null,
          time?.lower ?? null,
          time?.upper ?? null,
        ];
      }),
    }),
    draw(width) {
      const columns = width >= WIDE ? panels.length : width >= NARROW ? 2 : 1;
      const each = width / columns - (columns > 1 ? 8 : 0);
      const entries: Entry[] = [
        ...(colour && series.length > 1
          ? series.map((value, at) => ({
              name: named(value, factor),
              series: places[at] ?? at,
              loose: points.filter((point) => point.series === at).length < CURVE_LEAST,
            }))
          : []),
        ...(cost && points.some(({ chosen }) => chosen === "shown")
          ? [{ name: "what to use there", look: ring("shown") }]
          : []),
        ...(cost && points.some(({ chosen }) => chosen === "leads")
          ? [{ name: "leads there, not shown to be good", look: ring("leads") }]
          : []),
        ...(points.some(late) ? [{ name: `answered less than ${percent(answered)}`, look: cross() }] : []),
      ];
      return [
        h("div", { class: "side" }, ...panels.map((panel) => drawn(panel, each))),
        ...(entries.length > 0 ? [legend(colour && series.length > 1 ? axisName(factor) : "", entries, width)] : []),
      ];
    },
  };

  function drawn({ title, unit, crossed, ringed, of }: Panel, width: number): SVGSVGElement {
    const known = points.flatMap((point) => {
      const value = of(point);
      return value ? [{ ...point, value }] : [];
    });
    type Known = (typeof known)[number];
    const ends = known.flatMap(({ value: { mid, lower, upper } }) => [lower ?? mid, mid, upper ?? mid]);
    const [least, most] = [Math.min(...ends), Math.max(...ends)];
    const { axis, name, place } = valueAxis(unit, least, unit === "share" ? Math.max(1, most) : most);
    const loads = levels(near, "call_rate").filter((rate) => typeof rate === "number");
    // What is compared stands side by side at each load, as far as there is room.
    const step = Math.min(12, (0.6 * (width - 112)) / loads.length / Math.max(1, series.length));
    const x = (point: { offered: number }) => Math.log2(point.offered);
    const y = (point: Known) => place(point.value.mid);
    return draw(width, {
      height: 280,
      marginLeft: 62,
      marginRight: 22,
      marginTop: 34,
      marginBottom: 42,
      ariaLabel: title,
      x: {
        ...logarithmic(loads, (rate) => count(rate), (width - 112) / 28),
        // All panels have all loads: where too few calls were made there is a gap.
        domain: [Math.log2(Math.min(...loads)), Math.log2(Math.max(...loads))],
        label: "calls per second, offered",
        inset: 14 + (step * (series.length - 1)) / 2,
      },
      y: {
        ...axis,
        ...(unit === "share" ? { tickFormat: (share: number) => percent(share) } : {}),
        insetTop: 8,
      },
      marks: [
        heading(capital(name && unit !== "share" ? `${title}, ${name}` : title), 62, -28),
        unit === "share" ? Plot.ruleY([1], { stroke: faint(), strokeDasharray: "4 3" }) : null,
        ...series.flatMap((_, at) => {
          const own = known.filter((point) => point.series === at);
          const look = places[at] ?? at;
          const stroke = toneOf(look);
          const dx = (at - (series.length - 1) / 2) * step;
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
            ...(ringed ? (["shown", "leads"] as const) : []).map((how) =>
              Plot.dot(
                own.filter(({ chosen }) => chosen === how),
                { x, y, dx, ...ring(how) },
              ),
            ),
            crossed ? Plot.dot(own.filter(late), { x, y, dx, ...cross() }) : null,
          ];
        }),
        Plot.tip(
          known,
          Plot.pointer({
            x,
            y,
            title: (point: Known) =>
              `${point.cell.label}\n${quantity(point.offered, "calls/s")} offered, ${quantity(point.reached, "calls/s")} answered\n${title}: ${quantity(point.value.mid, unit)}`,
            fill: paper(),
            lineHeight: 1.3,
          }),
        ),
      ],
    });
  }
}

/** Around what to use: dashed where nothing is shown of it. */
const ring = (how: "shown" | "leads"): Plot.DotOptions => ({
  r: 9,
  stroke: ink(),
  strokeWidth: 1.6,
  strokeDasharray: how === "leads" ? "3 2.5" : undefined,
  fill: "none",
});

const cross = (): Plot.DotOptions => ({ symbol: "times", r: 7, stroke: ink(), strokeWidth: 2 });
