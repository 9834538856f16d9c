// The drawing of the trials in the order of measurement: a row for each option, and CPU steal below.

import * as Plot from "@observablehq/plot";
import { cellOf } from "../data";
import { capital, duration, percent, quantity } from "../format";
import { draw, heading, ink, paper, stolen, symbolOf, toneOf } from "../look";
import { RATES } from "../measure";
import { beyond, type Course, MANY, nameOf, type Point, RUN } from "./course";

/** The dashes of an A/A control. */
const CONTROL_DASH = "1 3";
/** The height of a row, of its name, and of the panel of CPU steal; pixels. */
const [ROW, NAME, STEAL] = [92, 22, 106];
const SHARED = { marginLeft: 66, marginRight: 20 };
const SINCE = { label: "since the session began", labelArrow: "none", labelAnchor: "center" } as const;

export function drawCourse(course: Course, width: number): Node[] {
  const { found, most } = course;
  const x: Plot.ScaleOptions = {
    domain: [Math.min(...found.at_ns), Math.max(...found.at_ns, 1)],
    ticks: Math.max(3, Math.floor(width / 120)),
    tickFormat: (ns: number) => duration(ns),
    inset: 8,
  };
  return [trials(course, x, width), ...(most > 0 ? [steal(course, x, width)] : [])];
}

function trials(course: Course, x: Plot.ScaleOptions, width: number): SVGSVGElement {
  const { rows, most, metric, scale } = course;
  return draw(width, {
    ...SHARED,
    height: 22 + rows.length * ROW + (most > 0 ? 26 : 40),
    marginTop: 22 + NAME,
    marginBottom: most > 0 ? 26 : 40,
    x: { ...x, ...(most > 0 ? { label: null } : SINCE) },
    y: scale.axis,
    // The name of a row is in the gap above it.
    fy: { domain: rows, axis: null, paddingInner: NAME / ROW, paddingOuter: 0 },
    marks: [
      heading(capital(`${RATES[metric] ?? "rate"}, ${scale.name}`), 66, -36, "super"),
      ...names(course, width),
      ...rows.flatMap((row) => [false, true].flatMap((isControl) => marks(course, row, isControl))),
      tip(course),
    ],
  });
}

/** The name and the median of each row. */
function names({ view, rows, control, label, lookOf, scale }: Course, width: number): Plot.Markish[] {
  const all = rows.map((row) => ({
    row,
    text: row === control ? `${label(row)}; hollow: its A/A control` : label(row),
    stroke: toneOf(lookOf(row)),
    middle: cellOf(view, row)?.estimate.median,
  }));
  return [
    Plot.text(all, {
      fy: "row",
      text: "text",
      frameAnchor: "top-left",
      dx: 4,
      dy: -15,
      textAnchor: "start",
      fontWeight: 600,
      fill: "stroke",
      lineWidth: (width - 90) / 12,
      textOverflow: "ellipsis-end",
    }),
    Plot.ruleY(
      all.filter(({ middle }) => middle != null),
      { fy: "row", y: ({ middle }) => scale.place(middle ?? null), stroke: "stroke", strokeOpacity: 0.45 },
    ),
  ];
}

/** The place of a rate; beyond the scale it is at the edge. */
const placeOf =
  ({ low, top, scale }: Course) =>
  ({ rate }: Point) =>
    scale.place(Math.max(low, Math.min(rate, top)));

/** The marks of an option, or of its A/A control. */
function marks(course: Course, row: string, isControl: boolean): Plot.Markish[] {
  const own = course.points.filter((point) => point.row === row && course.isControl(point.id) === isControl);
  if (own.length === 0) return [];
  const many = course.found.at_ns.length > MANY;
  const look = course.lookOf(row);
  const stroke = toneOf(look);
  const place = { x: "at", y: placeOf(course), fy: "row" };
  const line = {
    ...place,
    stroke,
    strokeWidth: many ? 2 : 1.2,
    strokeOpacity: many ? 1 : 0.6,
    strokeDasharray: isControl ? CONTROL_DASH : undefined,
  } as Plot.LineOptions;
  return [
    // Many marks are faint, and their running median is the line.
    !many
      ? Plot.line(own, line)
      : own.length > RUN
        ? Plot.line(own, Plot.windowY({ k: RUN, reduce: "median" }, line))
        : null,
    Plot.text(
      own.filter((point) => beyond(course, point) !== 0),
      { ...place, text: (point) => (beyond(course, point) < 0 ? "↓" : "↑"), fill: stroke, fontWeight: 700 },
    ),
    Plot.dot(
      own.filter((point) => beyond(course, point) === 0),
      {
        ...place,
        symbol: symbolOf(look),
        r: many ? 2.1 : 3.2,
        stroke,
        fill: isControl ? paper() : stroke,
        ...(many ? { strokeOpacity: 0.5, fillOpacity: 0.5, strokeWidth: 1 } : {}),
      } as Plot.DotOptions,
    ),
  ];
}

const tip = (course: Course): Plot.Markish =>
  Plot.tip(
    course.points,
    Plot.pointer({
      x: "at",
      y: placeOf(course),
      fy: "row",
      title: (point: Point) =>
        `${nameOf(course, point.id)}\nblock ${point.block}, ${duration(point.at)} after the start\n${quantity(point.rate, course.unit)}`,
      fill: paper(),
      lineHeight: 1.3,
    }),
  );

function steal({ steal, most }: Course, x: Plot.ScaleOptions, width: number): SVGSVGElement {
  return draw(width, {
    ...SHARED,
    height: STEAL,
    marginTop: 30,
    marginBottom: 38,
    x: { ...x, ...SINCE },
    y: {
      domain: [0, Math.max(most, 0.02)],
      label: null,
      ticks: 2,
      grid: true,
      tickFormat: (share: number) => percent(share),
    },
    marks: [
      heading("CPU steal", 66, -24),
      Plot.ruleX(steal, {
        x: "at",
        y1: 0,
        y2: "share",
        stroke: stolen(),
        strokeWidth: Math.min(10, Math.max(2, (width - 90) / Math.max(steal.length, 1) / 3)),
      }),
      Plot.ruleY([0], { stroke: ink() }),
    ],
  });
}
