// Any measure against any factor, with another one by colour and a third by panel: one-factor sweeps, clients by
// message size. Longer than others, since what is chosen decides what is said, drawn and saved alike.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, factorOf, isConfirmed, isMeasured, type Level, level, withoutRelay } from "../data";
import { h } from "../dom";
import { capital, count, percent, quantity, size } from "../format";
import { upperEnd, withInterval } from "../outward";
import { type Figure, nothing, select } from "../frame";
import { along, held, levels, named, partsOf } from "../levels";
import {
  toneOf,
  CURVE_LEAST,
  dashOf,
  draw,
  type Entry,
  faint,
  farApart,
  heading,
  ink,
  legend,
  logarithmic,
  paper,
  slopeOf,
  symbolOf,
  valueAxis,
} from "../look";
import { atRates, carried, type Measure, measures, movedBy } from "../measure";
import { seriesOfLevels } from "../series";
import { ranked } from "./compared";
import { across, axes, farthest, indistinct, isJoined, isNumeric, told, topOf } from "./axes";
import type { Looking } from "../state";

interface Wish {
  x: string;
  colour: string;
  facet: string;
  measure: string;
  second: string;
}
const NONE = "";
/** How the line of a path without a relay is dashed. */
const WITHOUT = "4 3";
/** More ribbons than this hide each other; then bars alone tell the intervals. */
const RIBBONS_MAX = 2;
/** Sizes that calls are asked to move, and the share of one below which they moved less. */
const SIZES = ["read_size", "write_size"];
const SHORT = 0.95;
/** Left and right of the axes; between series at one level of few, at most; pixels. */
const [LEFT, RIGHT, APART] = [66, 24, 16];
const wishes = new Map<number, Wish>();

/** What is worth a look beside the rate: how long a call takes, of calls the tail. */
const BESIDE = ["total_p99_ns", "ns_per_call"];
const beside = (cells: CellView[]): string =>
  BESIDE.find((key) => cells.some((cell) => cell.more[key]?.median != null)) ?? NONE;

export function sweep({ view, group, cell }: Looking, redraw: () => void): Figure | null {
  const apart = indistinct(view, group);
  const all = view.cells.filter((each) => each.kind === "candidate" && !apart.some(({ id }) => id === each.group));
  const order = axes(all, view.plan.varied);
  const numeric = (factor: string) => levels(all, factor).filter((value) => typeof value === "number").length > 1;
  if (!cell) return null;
  const x0 = across(view, all.filter(isMeasured), cell, order, group.varied);
  if (!x0) return null;
  // What is compared is a curve each; what life imposes comes after it.
  const compared = (factor: string) => (group.varied.includes(factor) ? 0 : 1);
  const colour0 = [...order]
    .sort((a, b) => compared(a) - compared(b))
    .find(
      (factor) => factor !== x0 && along(view, all, cell, [x0, factor]).length > along(view, all, cell, [x0]).length,
    );
  const wish = wishes.get(view.session) ?? {
    x: x0,
    colour: colour0 ?? NONE,
    facet: NONE,
    measure: "rate",
    second: numeric(x0) ? beside(along(view, all, cell, colour0 ? [x0, colour0] : [x0])) : NONE,
  };
  const choose = (change: Partial<Wish>) => {
    wishes.set(view.session, { ...wish, ...change });
    redraw();
  };
  const used = [wish.x, wish.colour, wish.facet].filter((factor) => factor !== NONE);
  const cells = along(view, all, cell, used).filter(isMeasured);
  const known = measures(all);
  const first = known.find((each) => each.key === wish.measure) ?? known[0];
  const second = known.find((each) => each.key === wish.second);
  if (!first) return null;
  const shown = [first, ...(second ? [second] : [])];
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });
  const none = { value: NONE, text: "–" };
  const ofMeasure = known.map((each) => ({ value: each.key, text: each.label }));
  const marked = cells.filter((each) => level(each, wish.x) != null);
  const series = wish.colour === NONE ? [] : told(levels(marked, wish.colour), level(cell, wish.colour));
  const places = series.length > 0 ? seriesOfLevels(view, wish.colour, series) : [0];
  const dropped = wish.colour === NONE ? 0 : levels(marked, wish.colour).length - series.length;
  const fx = factorOf(view, wish.x);
  const fc = factorOf(view, wish.colour);
  const ff = factorOf(view, wish.facet);
  // Between a name and a number there is no line.
  const numbers = isNumeric(levels(marked, wish.x));
  const mixed = !numbers && levels(marked, wish.x).some((value) => typeof value === "number");
  const seriesOf = (each: CellView): number => (wish.colour === NONE ? 0 : series.indexOf(level(each, wish.colour)));
  const fixed = held(view, all, cell, used);
  const parts = partsOf(view, all, used).map((factor) => factorOf(view, factor).heading);
  const placeless = cells.filter((each) => level(each, wish.x) == null);

  // Of one path alone: under other conditions it reaches something else.
  const reference = cells.every((each) => each.group === group.id) ? withoutRelay(view, group) : undefined;
  const relayless = reference && first.of(reference) ? reference : undefined;
  // One trial each says nothing of how they follow on each other.
  const single = cells.length > 0 && cells.every((each) => each.trials <= 1);
  const bars = cells.some((each) => shown.some((measure) => measure.of(each)?.lower != null));
  const loose = cells.some((each) => shown.some((measure) => measure.of(each) && measure.of(each)?.lower == null));
  return {
    id: "sweep",
    holds: fixed,
    title: capital(
      `${shown.map((each) => each.label).join(" and ")} by ${[axisName(fx), ...(series.length > 1 ? [axisName(fc)] : [])].join(" and ")}`,
    ),
    reading: [
      bars &&
        `Vertical lines are ${first.key === "mean" ? "one standard deviation to each side" : `intervals at ${percent(view.plan.level)}`}${loose ? "; a mark without one has too few trials for it" : "; one that is not seen is narrower than its mark"}.`,
      ...shown.map((measure) => carried(cells, measure)),
      shown.some((measure) => carriers(measure)) && "Behind → what such a call moved.",
      single
        ? "One trial each, so without a line: what lies between them may be chance."
        : cells.some((each) => !isConfirmed(each)) &&
          "Hollow marks were screened only, before the others and in other trials: they are roughly known, and no line joins them to what was confirmed.",
      !bars &&
        !single &&
        "Marks are medians of a few trials each, too few for an interval: what lies between them may be chance.",
      ...shown.map((measure) => {
        const without = cells.filter((each) => measure.of(each) == null).length;
        return (
          without > 0 &&
          `${without === 1 ? "One cell has" : `${without} cells have`} too few trials or calls for ${measure.label}, and no mark there.`
        );
      }),
      apart.length > 0 &&
        `Not drawn, since no factor tells it from what is: ${apart.map(({ label, id }) => label || id).join("; ")}.`,
      relayless &&
        `The dashed line is the path without a relay: ${quantity(first.of(relayless)?.mid ?? 0, first.unit)}.`,
      series.length === 1 && `All marks are of ${fc.heading} ${named(series[0] ?? null, fc)}.`,
      fixed && `Held as in the cell looked at: ${fixed}.`,
      parts.length > 0 && `A profile sets more than its name says: with it differ ${parts.join(", ")}.`,
      placeless.length > 0 && `Without ${axisName(fx)}, and so without a mark here: ${atRates(placeless, first)}.`,
      dropped > 0 && `${dropped} more levels of ${fc.heading} are in the data, which has all.`,
    ]
      .filter((line) => line)
      .join(" "),
    controls: h(
      "div",
      { class: "controls" },
      select("across", order.map(option), wish.x, (x) =>
        choose({ x, colour: wish.colour === x ? NONE : wish.colour, facet: wish.facet === x ? NONE : wish.facet }),
      ),
      select("colour", [none, ...order.filter((factor) => factor !== wish.x).map(option)], wish.colour, (colour) =>
        choose({ colour, facet: wish.facet === colour ? NONE : wish.facet }),
      ),
      select(
        "panels",
        [none, ...order.filter((factor) => factor !== wish.x && factor !== wish.colour).map(option)],
        wish.facet,
        (facet) => choose({ facet }),
      ),
      select("measure", ofMeasure, first.key, (measure) => choose({ measure })),
      select("beside it", [none, ...ofMeasure.filter((each) => each.value !== first.key)], second?.key ?? NONE, (key) =>
        choose({ second: key }),
      ),
    ),
    table: () => ({
      columns: [...used, ...shown.flatMap((each) => [each.key, `${each.key}_lower`, `${each.key}_upper`]), "stage"],
      rows: cells.map((each) => [
        ...used.map((factor) => level(each, factor) as string | number | null),
        ...shown.flatMap((measure) => {
          const value = measure.of(each);
          return [value?.mid ?? null, value?.lower ?? null, value?.upper ?? null];
        }),
        each.stage ?? null,
      ]),
    }),
    draw(width) {
      if (cells.length === 0) return [nothing("Nothing was measured along these factors.")];
      if (cells.length === 1)
        return [nothing("One cell alone was measured along these factors: another one would make a line.")];
      const panels = wish.facet === NONE ? [null] : levels(cells, wish.facet);
      const columns = Math.min(width < 640 ? 1 : 2, shown.length * panels.length);
      const each = width / columns - (columns > 1 ? 8 : 0);
      const row = h("div", { class: "side" });
      for (const measure of shown) {
        const all = relayless ? [...cells, relayless] : cells;
        const least = Math.min(
          ...all.map((one) => measure.of(one)?.lower ?? measure.of(one)?.mid ?? Number.POSITIVE_INFINITY),
        );
        const values = all.flatMap((one) => {
          const value = measure.of(one);
          // The line without a relay is drawn without its interval.
          return value ? [one === relayless ? { mid: value.mid, upper: null } : value] : [];
        });
        const most = topOf(values, farApart(measure.unit, least, farthest(values)));
        for (const panel of panels) {
          const part =
            panel === null && wish.facet === NONE ? cells : cells.filter((one) => level(one, wish.facet) === panel);
          const title = `${measure.label}${wish.facet === NONE ? "" : ` · ${ff.heading} ${named(panel, ff)}`}`;
          row.append(lines(part, measure, title, each, [least, most]));
        }
      }
      // One level alone tells nothing apart: it is named above.
      const entries: Entry[] = (series.length > 1 ? series : []).map((value, s) => ({
        name: named(value, fc),
        series: places[s] ?? s,
        hollow: single || !marked.some((one) => seriesOf(one) === s && isConfirmed(one)),
        loose: !panels.some((panel) => shown.some((measure) => isLined(panel, measure, s))),
      }));
      if (relayless) entries.push({ name: "without a relay", dash: WITHOUT, line: 1.5, tone: ink() });
      return [row, ...(entries.length > 0 ? [legend(series.length > 1 ? axisName(fc) : "", entries, width)] : [])];
    },
  };

  /** Whether a panel tells beneath its sizes what calls moved, whose time it shows. */
  function carriers({ key }: Measure): boolean {
    return key === "ns_per_call" && series.length <= 1 && SIZES.includes(wish.x) && cells.some(falls);
  }

  /** Whether the calls of a cell moved less than they might. */
  function falls(one: CellView): boolean {
    const moved = movedBy(one);
    return moved != null && moved < SHORT * Number(level(one, wish.x));
  }

  /** A level on its axis: what calls moved beneath sizes that they did not, and what else the cell's name says of it. */
  function ticked(value: Level, measure: Measure): string {
    const name = named(value, fx);
    const [one, ...others] = cells.filter((each) => level(each, wish.x) === value);
    if (!one || others.length > 0) return name;
    if (carriers(measure)) return falls(one) ? `${name}\n→ ${size(movedBy(one) ?? 0)}` : name;
    const own = `${fx.heading} ${name}`;
    return one.label.startsWith(`${own} (`) ? `${name}${one.label.slice(own.length)}` : name;
  }

  /** Whether the marks of a series are joined in a panel: no legend shows a line that is not drawn. */
  function isLined(panel: Level, measure: Measure, s: number): boolean {
    const own = marked.filter(
      (one) =>
        seriesOf(one) === s &&
        measure.of(one) != null &&
        (wish.facet === NONE || level(one, wish.facet) === panel) &&
        (!mixed || typeof level(one, wish.x) === "number"),
    );
    const sure = own.filter(isConfirmed).length;
    return !single && [sure, own.length - sure].some((many) => isJoined(many, numbers || mixed, series.length));
  }

  /** Where a mark stands, each factor once: a cell's own name has those that are compared. */
  function placed(one: CellView, x: Level, s: number): string {
    const wanted = [
      `${fx.heading} ${named(x, fx)}`,
      ...(series.length > 0 ? [`${fc.heading} ${named(series[s] ?? null, fc)}`] : []),
    ];
    const label = one.label.replaceAll("\u00a0", " ");
    const rest = wanted.filter((part) => !label.includes(part.replaceAll("\u00a0", " ")));
    return [label, ...rest].filter((part) => part !== "").join(", ");
  }

  function lines(
    part: CellView[],
    measure: Measure,
    title: string,
    width: number,
    [least, most]: [number, number],
  ): SVGSVGElement {
    const points = part
      .map((one) => ({ one, x: level(one, wish.x), s: seriesOf(one), value: measure.of(one) }))
      .filter((point) => point.value && point.s >= 0 && point.x != null)
      .map(({ one, x, s, value }) => ({ one, x: x as string | number, s, ...(value as NonNullable<typeof value>) }));
    const xs = levels(cells, wish.x).filter((value) => value != null) as (string | number)[];
    // Names have no order of their own: where each is one choice they stand as in the ranking.
    if (!isNumeric(xs) && series.length === 0) {
      const rank = ranked(view, group).map((one) => level(one, wish.x));
      const place = (value: Level) => (rank.includes(value) ? rank.indexOf(value) : rank.length);
      xs.sort((a, b) => place(a) - place(b));
    }
    // Of two levels there is no curve, and room between them.
    const numeric = numbers && xs.length >= CURVE_LEAST;
    points.sort((a, b) => xs.indexOf(a.x) - xs.indexOf(b.x));
    const at = (point: { x: string | number }) => (numeric ? Math.log2(Number(point.x)) : point.x);
    const { axis, name, place: anywhere } = valueAxis(measure.unit, least, most);
    // What reaches beyond the axis ends there, with an arrow and its number.
    const place = (value: number | null) => anywhere(value == null ? null : Math.min(value, most));
    // Bars of several series at one level stand beside each other, as far as there is room.
    const room = (width - LEFT - RIGHT) / Math.max(xs.length, 1);
    const step = numeric
      ? Math.min(5, 16 / Math.max(1, series.length - 1))
      : Math.min(APART, (0.7 * room) / Math.max(1, series.length));
    const apart = (s: number) => (s - (Math.max(1, series.length) - 1) / 2) * step;
    const reach = (measure: Measure): Plot.Markish[] => {
      const value = relayless && measure.of(relayless);
      if (!value) return [];
      return [Plot.ruleY([place(value.mid)], { stroke: ink(), strokeDasharray: WITHOUT })];
    };
    const curve = <Mark extends { x: unknown }>(all: Mark[]) => {
      const own = mixed ? all.filter(({ x }) => typeof x === "number") : all;
      return !single && isJoined(own.length, numbers || mixed, series.length) ? own : [];
    };
    const marks: Plot.Markish[] = [];
    for (let s = 0; s < Math.max(1, series.length); s += 1) {
      const own = points.filter((point) => point.s === s);
      if (own.length === 0) continue;
      const look = places[s] ?? s;
      const stroke = toneOf(look);
      marks.push(
        Plot.areaY(
          numeric && series.length <= RIBBONS_MAX && own.filter((point) => point.lower != null).length >= CURVE_LEAST
            ? own
            : [],
          {
            x: at,
            y1: (point) => place(point.lower),
            y2: (point) => place(point.upper),
            dx: apart(s),
            fill: stroke,
            fillOpacity: 0.13,
          },
        ),
        ...[true, false].map((sure) =>
          Plot.line(curve(own.filter((point) => isConfirmed(point.one) === sure)), {
            x: at,
            y: (point) => place(point.mid),
            dx: apart(s),
            stroke,
            strokeDasharray: dashOf(look),
            strokeWidth: sure ? 2 : 1.2,
            strokeOpacity: numeric ? (sure ? 1 : 0.45) : 0.35,
          } as Plot.LineOptions),
        ),
        Plot.ruleX(
          own.filter((point) => point.lower != null),
          {
            x: at,
            y1: (point) => place(point.lower),
            y2: (point) => place(point.upper),
            dx: apart(s),
            stroke,
            strokeWidth: 1.5,
          },
        ),
        Plot.text(
          own.filter((point) => (point.upper ?? 0) > most),
          {
            x: at,
            y: () => place(most),
            dx: apart(s),
            dy: -7,
            text: (point) => `↑ to ${upperEnd(point.upper ?? 0, measure.unit)}`,
            textAnchor: numeric && s >= 0 ? "end" : "middle",
            fill: stroke,
            stroke: paper(),
            strokeWidth: 4,
          },
        ),
        Plot.dot(own, {
          x: at,
          y: (point: { mid: number }) => place(point.mid),
          dx: apart(s),
          symbol: symbolOf(look),
          r: 4.5,
          stroke,
          fill: (point: { one: CellView }) => (isConfirmed(point.one) && !single ? stroke : paper()),
        } as Plot.DotOptions),
      );
    }
    // Names are all told: where they have no room side by side they stand aslant.
    // A rate has its unit once, beside the name.
    const unit = numbers && fx.unit?.endsWith("/s") && fx.unit !== "bytes/s" ? fx.unit : null;
    const tick = (value: Level) => (unit ? count(Number(value)) : ticked(value, measure));
    // Panels beside each other end at one height.
    const second = shown.some(carriers) ? 14 : 0;
    const widest = (text: string) => Math.max(...text.split("\n").map((line) => line.length));
    const longest = Math.max(...xs.map((value) => widest(tick(value))), 1) * 6.6;
    const slope = numeric ? 0 : slopeOf(xs.map(tick), (width - LEFT - RIGHT) / Math.max(xs.length, 1));
    return draw(width, {
      height: 300 + slope + second,
      marginLeft: LEFT,
      marginRight: RIGHT,
      marginTop: 34,
      marginBottom: 42 + slope + second,
      ariaLabel: title,
      x: {
        ...(numeric
          ? {
              ...logarithmic(xs.map(Number), tick, (width - 114) / (longest + 10)),
              // All panels have all levels: where one of them was not measured there is a gap.
              domain: [Math.log2(Math.min(...xs.map(Number))), Math.log2(Math.max(...xs.map(Number)))],
            }
          : {
              type: "point",
              domain: xs,
              padding: 0.5,
              tickRotate: slope > 0 ? -30 : 0,
              tickFormat: tick,
              labelArrow: "none",
            }),
        label: unit ? `${axisName(fx)}, ${unit}` : axisName(fx),
        inset: 12,
      } as Plot.ScaleOptions,
      y: axis,
      marks: [
        heading(capital(name ? `${title}, ${name}` : title), LEFT, -28),
        ...reach(measure),
        ...marks,
        points.length === 0 ? Plot.text(["nothing measured"], { frameAnchor: "middle", fill: faint() }) : null,
        Plot.tip(
          points,
          Plot.pointer({
            x: at,
            y: (point) => place(point.mid),
            title: (point: (typeof points)[number]) =>
              `${placed(point.one, point.x, point.s)}\n${withInterval(point, measure.unit)}${isConfirmed(point.one) ? "" : ", screened only"}${single ? ", one trial" : ""}`,
            fill: paper(),
            lineHeight: 1.3,
          }),
        ),
      ],
    });
  }
}
