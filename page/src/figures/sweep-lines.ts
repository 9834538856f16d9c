// The drawing of a sweep: a measure against a factor, a line for each series, and the key.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, type Interval, isConfirmed, level } from "../data";
import { capital } from "../format";
import { named } from "../levels";
import {
  CURVE_LEAST,
  draw,
  type Entry,
  faint,
  farApart,
  heading,
  inLines,
  ink,
  legend,
  lineAt,
  logarithmic,
  NAME_LETTER,
  type Names,
  namesBelow,
  paper,
  tip,
  toneOf,
  valueAxis,
} from "../look";
import type { Measure } from "../measure";
import { upperEnd, withInterval } from "../outward";
import { farthest, isJoined, topOf } from "./axes";
import { seriesMarks } from "./series-marks";
import type { Sweep } from "./sweep-data";

/** The look of a line of reference. */
const reference = () => ({ stroke: ink(), strokeDasharray: "4 3" });
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
  numeric: boolean;
  most: number;
  at(point: { x: string | number }): string | number;
  /** The place of a value; values beyond the axis are at its end. */
  place(value: number | null): number;
  /** The shift of a series, pixels. */
  shift(s: number): number;
}

/** One panel, of a part of the cells. */
export function lines(
  sweep: Sweep,
  part: CellView[],
  title: string,
  width: number,
  [least, most]: [number, number],
  height = 300,
): SVGSVGElement {
  const { measure, xs, series } = sweep;
  // Two levels make no curve.
  const numeric = sweep.numbers && xs.length >= CURVE_LEAST;
  const { axis, name, place } = valueAxis(measure.unit, least, most);
  const room = (width - LEFT - RIGHT) / Math.max(xs.length, 1);
  const several = Math.max(1, series.length);
  const step = numeric ? Math.min(5, 16 / Math.max(1, several - 1)) : Math.min(APART, (0.7 * room) / several);
  const panel: Panel = {
    sweep,
    points: pointsOf(sweep, part).sort((a, b) => xs.indexOf(a.x) - xs.indexOf(b.x)),
    numeric,
    most,
    at: (point) => (numeric ? Math.log2(Number(point.x)) : point.x),
    place: (value) => place(value == null ? null : Math.min(value, most)),
    shift: (s) => (s - (several - 1) / 2) * step,
  };
  const names = numeric ? null : namesBelow(xs.map(sweep.tick), room, LEFT);
  const slope = names?.slope ?? 0;
  const head = inLines(capital(name ? `${title}, ${name}` : title), Math.floor(width / LETTER), 2);
  const above = 14 * (head.length - 1);
  return draw(width, {
    height: height + above + slope,
    marginLeft: LEFT,
    marginRight: RIGHT,
    marginTop: 34 + above,
    marginBottom: 42 + slope,
    ariaLabel: title,
    x: across(sweep, names, width),
    y: axis,
    marks: [
      heading(head.join("\n"), LEFT, -28 - above),
      sweep.reference == null ? null : Plot.ruleY([panel.place(sweep.reference)], reference()),
      ...sweep.places.flatMap((_, s) => marks(panel, s)),
      panel.points.length === 0 ? Plot.text(["nothing measured"], { frameAnchor: "middle", fill: faint() }) : null,
      tips(panel),
    ],
  });
}

/** The lowest and the highest value of cells, with the line of reference, which has no interval. */
export function rangeOf({ of, unit }: Measure, cells: CellView[], reference?: number): [number, number] {
  const line = reference == null ? [] : [{ mid: reference, lower: null, upper: null }];
  const values = [...cells.flatMap((one) => of(one) ?? []), ...line];
  const least = Math.min(...values.map(({ mid, lower }) => lower ?? mid));
  return [least, topOf(values, farApart(unit, least, farthest(values)))];
}

const pointsOf = ({ x: factor, seriesOf, measure }: Sweep, part: CellView[]): Point[] =>
  part.flatMap((one): Point[] => {
    const [x, s, value] = [level(one, factor), seriesOf(one), measure.of(one)];
    return value == null || s < 0 || x == null ? [] : [{ one, x: x as string | number, s, ...value }];
  });

function across({ xName, xs, tick }: Sweep, names: Names | null, width: number): Plot.ScaleOptions {
  if (names)
    return {
      type: "point",
      domain: xs,
      padding: 0.5,
      tickRotate: names.rotate,
      tickFormat: (_: unknown, at: number) => names.texts[at] ?? "",
      label: xName,
      labelArrow: "none",
    };
  const longest = Math.max(...xs.map((value) => tick(value).length)) * NAME_LETTER;
  const all = xs.map(Number);
  return {
    ...logarithmic(all, tick, (width - 114) / (longest + 10)),
    // All panels have all levels: a level that was not measured is a gap.
    domain: [Math.log2(Math.min(...all)), Math.log2(Math.max(...all))],
    label: xName,
    inset: 12,
  };
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
    return series.line(joined(sweep, part), {
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
    ...sweep.over.map((over) =>
      series.over(
        own.filter((point) => over.is(point.one)),
        over.look(),
      ),
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
function joined<Mark extends { x: unknown }>({ mixed, single, numbers, series }: Sweep, all: Mark[]): Mark[] {
  const own = mixed ? all.filter(({ x }) => typeof x === "number") : all;
  return !single && isJoined(own.length, numbers || mixed, series.length) ? own : [];
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

/** A line of reference in the key. */
export const dashed = (name: string): Entry => ({ name, marks: (x, y) => [lineAt(x, y, reference())] });

/** The key of a sweep, with `more` entries; nothing without an entry. */
export function keyOf(sweep: Sweep, more: Entry[], width: number): SVGSVGElement[] {
  const { series, places, fc, xs, marked, seriesOf, single } = sweep;
  const several = series.length > 1;
  // The key shows only lines that are drawn.
  const loose =
    joined(
      sweep,
      xs.map((x) => ({ x })),
    ).length === 0;
  const names = (several ? series : []).map((value, s) => ({
    name: named(value, fc),
    series: places[s] ?? s,
    hollow: single || !marked.some((one) => seriesOf(one) === s && isConfirmed(one)),
    loose,
  }));
  const entries = [...names, ...more];
  return entries.length > 0 ? [legend(several ? axisName(fc) : "", entries, width)] : [];
}
