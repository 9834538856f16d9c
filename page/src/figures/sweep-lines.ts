// One panel of a sweep: a measure against a factor, a line for each series.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, type Interval, isConfirmed, type Level, level } from "../data";
import { capital, count, size } from "../format";
import { levels, named } from "../levels";
import {
  CURVE_LEAST,
  draw,
  faint,
  farApart,
  heading,
  inLines,
  ink,
  logarithmic,
  NAME_LETTER,
  type Names,
  namesBelow,
  paper,
  tip,
  toneOf,
  valueAxis,
} from "../look";
import { movedBy } from "../measure";
import { upperEnd, withInterval } from "../outward";
import { farthest, isJoined, isNumeric, topOf } from "./axes";
import { ranked } from "./compared";
import { seriesMarks } from "./series-marks";
import { movedLess, NONE, showsMoved, type Sweep } from "./sweep-data";

/** The dashes of the path without a relay. */
export const LINE_DASH = "4 3";
/** More ribbons hide each other. */
const RIBBONS_MAX = 2;
/** The margins left and right, the largest distance between series at a level, and the width of a bold letter; pixels. */
const [LEFT, RIGHT, APART, LETTER] = [66, 24, 16, 7.3];

interface Point extends Interval {
  one: CellView;
  x: string | number;
  s: number;
}

/** What all marks of a panel share. */
interface Panel {
  sweep: Sweep;
  points: Point[];
  xs: (string | number)[];
  numeric: boolean;
  most: number;
  at(point: { x: string | number }): string | number;
  /** The place of a value; values beyond the axis are at its end. */
  place(value: number | null): number;
  /** The shift of a series, pixels. */
  shift(s: number): number;
}

export function lines(
  sweep: Sweep,
  part: CellView[],
  title: string,
  width: number,
  [least, most]: [number, number],
  height = 300,
): SVGSVGElement {
  const { measure } = sweep;
  const xs = levelsOf(sweep);
  // Two levels make no curve.
  const numeric = sweep.numbers && xs.length >= CURVE_LEAST;
  const { axis, name, place } = valueAxis(measure.unit, least, most);
  const step = stepOf(sweep.series.length, numeric, (width - LEFT - RIGHT) / Math.max(xs.length, 1));
  const panel: Panel = {
    sweep,
    points: pointsOf(sweep, part).sort((a, b) => xs.indexOf(a.x) - xs.indexOf(b.x)),
    xs,
    numeric,
    most,
    at: (point) => (numeric ? Math.log2(Number(point.x)) : point.x),
    place: (value) => place(value == null ? null : Math.min(value, most)),
    shift: (s) => (s - (Math.max(1, sweep.series.length) - 1) / 2) * step,
  };
  const tick = ticks(sweep);
  const secondLine = showsMoved(sweep) ? 14 : 0;
  const names = numeric ? null : namesBelow(xs.map(tick.text), (width - LEFT - RIGHT) / Math.max(xs.length, 1), LEFT);
  const slope = names?.slope ?? 0;
  const head = inLines(capital(name ? `${title}, ${name}` : title), Math.floor(width / LETTER), 2);
  const above = 14 * (head.length - 1);
  return draw(width, {
    height: height + above + slope + secondLine,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: 34 + above,
    marginBottom: 42 + slope + secondLine,
    ariaLabel: title,
    x: across(panel, tick, names, width),
    y: axis,
    marks: [
      heading(head.join("\n"), LEFT, -28 - above),
      ...reference(panel),
      ...panel.sweep.places.flatMap((_, s) => marks(panel, s)),
      panel.points.length === 0 ? Plot.text(["nothing measured"], { frameAnchor: "middle", fill: faint() }) : null,
      tips(panel),
    ],
  });
}

/** The lowest and the highest value in all panels. */
export function rangeOf({
  cells,
  relayless,
  measure,
}: Pick<Sweep, "cells" | "relayless" | "measure">): [number, number] {
  const all = relayless ? [...cells, relayless] : cells;
  const lows = all.map((one) => measure.of(one)?.lower ?? measure.of(one)?.mid ?? Number.POSITIVE_INFINITY);
  const least = Math.min(...lows);
  const values = all.flatMap((one) => {
    const value = measure.of(one);
    // The line without a relay is drawn without its interval.
    return value ? [one === relayless ? { mid: value.mid, upper: null } : value] : [];
  });
  return [least, topOf(values, farApart(measure.unit, least, farthest(values)))];
}

/** The levels of the axis; names of options are in the order of the ranking. */
function levelsOf({ view, group, cells, wish, series }: Sweep): (string | number)[] {
  const xs = levels(cells, wish.x).filter((value) => value != null) as (string | number)[];
  if (isNumeric(xs) || series.length > 0) return xs;
  const rank = ranked(view, group).map((one) => level(one, wish.x));
  const place = (value: Level) => (rank.includes(value) ? rank.indexOf(value) : rank.length);
  return xs.sort((a, b) => place(a) - place(b));
}

const stepOf = (series: number, numeric: boolean, room: number): number =>
  numeric ? Math.min(5, 16 / Math.max(1, series - 1)) : Math.min(APART, (0.7 * room) / Math.max(1, series));

const pointsOf = ({ wish, seriesOf, measure }: Sweep, part: CellView[]): Point[] =>
  part.flatMap((one): Point[] => {
    const [x, s, value] = [level(one, wish.x), seriesOf(one), measure.of(one)];
    return value == null || s < 0 || x == null ? [] : [{ one, x: x as string | number, s, ...value }];
  });

interface Ticks {
  /** The unit, if the name of the axis has it. */
  unit: string | null;
  text(value: Level): string;
}

/** The labels of the levels: below a size, the bytes that its calls moved if they moved less. */
function ticks(sweep: Sweep): Ticks {
  const { fx, numbers, cells, wish, measure } = sweep;
  // A rate has its unit once, in the name of the axis.
  const unit = numbers && fx.unit?.endsWith("/s") && fx.unit !== "bytes/s" ? fx.unit : null;
  const text = (value: Level): string => {
    if (unit) return count(Number(value));
    const name = named(value, fx);
    const [one, ...others] = cells.filter((each) => level(each, wish.x) === value);
    if (!one || others.length > 0 || !showsMoved(sweep)) return name;
    return movedLess(sweep, one) ? `${name}\n→ ${size(movedBy(one, measure.key) ?? 0)}` : name;
  };
  return { unit, text };
}

function across({ sweep, xs }: Panel, { unit, text }: Ticks, names: Names | null, width: number): Plot.ScaleOptions {
  const { fx } = sweep;
  const shared = { label: unit ? `${axisName(fx)}, ${unit}` : axisName(fx), inset: 12 };
  if (names)
    return {
      type: "point",
      domain: xs,
      padding: 0.5,
      tickRotate: names.rotate,
      tickFormat: (_: Level, at: number) => names.texts[at] ?? "",
      labelArrow: "none",
      ...shared,
    };
  const widest = (label: string) => Math.max(...label.split("\n").map((line) => line.length));
  const longest = Math.max(...xs.map((value) => widest(text(value))), 1) * NAME_LETTER;
  const all = xs.map(Number);
  return {
    ...logarithmic(all, text, (width - 114) / (longest + 10)),
    // All panels have all levels: a level that was not measured is a gap.
    domain: [Math.log2(Math.min(...all)), Math.log2(Math.max(...all))],
    ...shared,
  };
}

/** The line of the path without a relay. */
function reference({ sweep, place }: Panel): Plot.Markish[] {
  const value = sweep.relayless && sweep.measure.of(sweep.relayless);
  return value ? [Plot.ruleY([place(value.mid)], { stroke: ink(), strokeDasharray: LINE_DASH })] : [];
}

/** Ribbon, lines, intervals and marks of a series. */
function marks(panel: Panel, s: number): Plot.Markish[] {
  const { sweep, points, numeric, at, place, shift } = panel;
  const own = points.filter((point) => point.s === s);
  if (own.length === 0) return [];
  const look = sweep.places[s] ?? s;
  const dx = shift(s);
  const series = seriesMarks({ points: own, look, x: at, place, dx });
  const bounded = own.filter((point) => point.lower != null);
  const hasRibbon = numeric && sweep.series.length <= RIBBONS_MAX && bounded.length >= CURVE_LEAST;
  const line = (sure: boolean) => {
    const part = own.filter((point) => isConfirmed(point.one) === sure);
    return series.line(curve(sweep, part), {
      strokeWidth: sure ? 2 : 1.2,
      strokeOpacity: numeric ? (sure ? 1 : 0.45) : 0.35,
    });
  };
  const isFilled = (point: Point) => isConfirmed(point.one) && !sweep.single;
  return [
    series.ribbon(hasRibbon ? own : [], 0.13),
    line(true),
    line(false),
    series.intervals(1.5),
    beyond(panel, own, toneOf(look), dx),
    series.dots({ fill: (point: Point) => (isFilled(point) ? toneOf(look) : paper()) }),
    series.over(
      own.filter((point) => point.one.id === sweep.chosen),
      { r: 9, stroke: ink(), strokeWidth: 1.5 },
    ),
  ];
}

/** The numbers of upper ends beyond the axis. */
const beyond = ({ sweep, most, place, at, numeric }: Panel, own: Point[], stroke: string, dx: number): Plot.Markish =>
  Plot.text(
    own.filter((point) => (point.upper ?? 0) > most),
    {
      x: at,
      y: () => place(most),
      dx,
      dy: -7,
      text: (point) => `↑ to ${upperEnd(point.upper ?? 0, sweep.measure.unit)}`,
      textAnchor: numeric ? "end" : "middle",
      fill: stroke,
      stroke: paper(),
      strokeWidth: 4,
    },
  );

/** The marks that a line joins; between a name and a number there is no line. */
function curve<Mark extends { x: unknown }>({ mixed, single, numbers, series }: Sweep, all: Mark[]): Mark[] {
  const own = mixed ? all.filter(({ x }) => typeof x === "number") : all;
  return !single && isJoined(own.length, numbers || mixed, series.length) ? own : [];
}

/** Whether a line joins the marks of a series in a panel: the legend shows only lines that are drawn. */
export function isLined(sweep: Sweep, panel: Level, s: number): boolean {
  const { wish, marked, seriesOf, measure } = sweep;
  const own = marked
    .filter(
      (one) =>
        seriesOf(one) === s && measure.of(one) != null && (wish.facet === NONE || level(one, wish.facet) === panel),
    )
    .map((one) => ({ x: level(one, wish.x), sure: isConfirmed(one) }));
  return [true, false].some(
    (sure) =>
      curve(
        sweep,
        own.filter((each) => each.sure === sure),
      ).length > 0,
  );
}

function tips({ sweep, points, at, place }: Panel): Plot.Markish {
  const { fx, fc, series, single, measure } = sweep;
  const levelOf = ({ x, s }: Point) =>
    [`${fx.heading} ${named(x, fx)}`, series.length > 0 && `${fc.heading} ${named(series[s] ?? null, fc)}`]
      .filter((part) => part)
      .join(", ");
  return tip(
    points,
    { x: at, y: (point: Point) => place(point.mid) },
    (point) =>
      `${point.one.label}\n${levelOf(point)}\n${withInterval(point, measure.unit)}${isConfirmed(point.one) ? "" : ", screened only"}${single ? ", one trial" : ""}`,
  );
}
