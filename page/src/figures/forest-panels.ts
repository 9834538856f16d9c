// The panels of the ranking: slower than the best, rate, CPU time. They share their rows.

import * as Plot from "@observablehq/plot";
import { type CellView, optionOf, slowerHeading, speedsOf } from "../data";
import { axisUnit, capital, digits } from "../format";
import { accent, draw, faint, fromZero, ink, inLines, paper, rows, valueAxis } from "../look";
import { withInterval } from "../outward";
import { ticksAs, ticksOf } from "../scale";
import type { Ranking } from "./forest";
import { tone } from "./ranking";

/** The heading of the limits. */
export const LIMITED = "Limited by";

/** The width of a label of an axis, and of a bold letter; pixels. */
const [LABEL, LETTER] = [46, 7.3];
/** The least share of the longest bar with room for a number inside it. */
const ROOMY = 0.25;
/** The width of a letter of the numbers next to a bar, the space before them, and the most of a plot that they take; pixels. */
const [DIGIT, BEFORE, ROOM_MAX] = [6.8, 12, 0.6];

export interface Panel {
  title: string;
  marks: Plot.Markish[];
  /** The scale, for a width of the plot in pixels. */
  x(plot: number): Plot.ScaleOptions;
}

export interface Place {
  width: number;
  left: number;
  laid: ReturnType<typeof rows>;
  /** Room for a title, pixels. */
  room: number;
  /** The names of the rows are part of this panel. */
  names: boolean;
  /** Width of the limits at the right, pixels. */
  limits?: number;
}

/** The letters of a line of the limits. */
export const lettersOf = (limits: number): number => Math.floor((limits - 16) / 6.8);

const labels = (plot: number): number => Math.max(2, Math.floor(plot / LABEL));

const tip = (
  cells: CellView[],
  title: (cell: CellView) => string,
  x: (cell: CellView) => number | null,
): Plot.Markish => Plot.tip(cells, Plot.pointerY({ y: "id", x, title, fill: paper(), lineHeight: 1.3 }));

/** Intervals of "slower than the best"; null if nothing is compared. */
export function slowerPanel(ranking: Ranking): Panel | null {
  const { cells, compared, reach, isCut, multiples, margin } = ranking;
  if (!compared) return null;
  const longest = Math.max(...cells.map((cell) => besides(ranking, cell).length));
  return {
    title: capital(slowerHeading(ranking.view, ranking.group)),
    marks: [
      Plot.rectX([margin], { x1: 0, x2: margin, fill: accent(), fillOpacity: 0.13 }),
      Plot.ruleX([margin], { stroke: accent(), strokeDasharray: "3 3" }),
      Plot.ruleX([0], { stroke: faint() }),
      ...bars(ranking),
      tip(
        cells,
        (cell) => `${cell.label}\n${slowerText(ranking, cell)}\n${limitText(cell)}`,
        (cell) => (cell.above_best_upper == null ? null : Math.min(cell.above_best_upper, reach)),
      ),
    ],
    // The text of an interval that leaves the scale needs room as well.
    x: (plot) => ({
      domain: [0, reach / (1 - Math.min(ROOM_MAX, (longest * DIGIT + BEFORE) / Math.max(plot, 1)))],
      ticks: ticksOf(reach),
      tickFormat: ticksAs(multiples, isCut ? reach : null),
    }),
  };
}

/** The bars, a line at the end of each (a bar of no length is visible then), and the text of each interval. */
function bars({ view, cells, reach }: Ranking): Plot.Markish[] {
  const scale = (share: number | null | undefined) => (share == null ? null : Math.min(share, reach));
  const isBeyond = (cell: CellView) => (cell.above_best_upper ?? 0) > reach;
  const stroke = (cell: CellView) => tone(optionOf(view, cell)?.status);
  const known = cells.filter((cell) => cell.above_best_upper != null);
  return [
    Plot.ruleY(known, {
      y: "id",
      x1: (cell: CellView) => scale(cell.above_best_lower ?? 0),
      x2: (cell: CellView) => scale(cell.above_best_upper),
      strokeWidth: 6,
      strokeLinecap: "butt",
      stroke,
    }),
    Plot.tickX(
      known.filter((cell) => !isBeyond(cell)),
      { y: "id", x: "above_best_upper", strokeWidth: 2.5, stroke, insetTop: 3, insetBottom: 3 },
    ),
    Plot.text(known, {
      x: (cell: CellView) => scale(cell.above_best_upper),
      y: "id",
      text: (cell: CellView) => besides({ view, reach }, cell),
      textAnchor: "start",
      dx: 6,
      fill: ink(),
      stroke: paper(),
      strokeWidth: 4,
    }),
  ];
}

/** The numbers next to a bar. */
const besides = ({ view, reach }: Pick<Ranking, "view" | "reach">, cell: CellView): string =>
  `${(cell.above_best_upper ?? 0) > reach ? "→ " : ""}${optionOf(view, cell)?.slower ?? ""}`;

function slowerText({ view, group }: Ranking, cell: CellView): string {
  const slower = optionOf(view, cell)?.slower ?? "–";
  return cell.above_best_upper == null ? "not compared" : `${slowerHeading(view, group)}: ${slower}`;
}

const limitText = ({ limit }: CellView): string =>
  limit.name === "unknown" ? limit.title : `limited by ${limit.title}`;

/** Rates with their intervals. */
export function ratePanel({ view, cells, rate, relayless, several, compared }: Ranking): Panel | null {
  if (!rate) return null;
  const reached = cells.flatMap(({ estimate: { lower, median, upper } }) => [lower, median, upper]);
  const known = [...reached, relayless?.estimate.median].filter((value): value is number => value != null);
  const axisOf = (room?: number) => valueAxis(rate.unit, Math.min(...known), Math.max(...known, 0), room);
  const { name, place } = axisOf();
  const middle = (cell: CellView) => place(cell.estimate.median ?? null);
  const isFilled = (cell: CellView) => !compared || ["best", "tied"].includes(optionOf(view, cell)?.status ?? "");
  return {
    title: `${capital(rate.label)}, ${name}`,
    marks: [
      Plot.ruleX(relayless ? [middle(relayless)] : [], { stroke: ink(), strokeDasharray: "4 3" }),
      Plot.ruleY(cells, {
        y: "id",
        x1: (cell: CellView) => place(cell.estimate.lower ?? null),
        x2: (cell: CellView) => place(cell.estimate.upper ?? null),
        stroke: accent(),
        strokeWidth: 2,
      }),
      Plot.dot(cells, {
        x: middle,
        y: "id",
        symbol: "square",
        r: 4.5,
        stroke: accent(),
        strokeWidth: 1.6,
        fill: (cell: CellView) => (isFilled(cell) ? accent() : paper()),
      } as Plot.DotOptions),
      Plot.dot(
        several.flatMap((cell) => speedsOf(cell).map((at) => ({ id: cell.id, at }))),
        { y: "id", x: ({ at }) => place(at), symbol: "diamond", r: 3.5, stroke: ink(), fill: paper() },
      ),
      tip(
        cells,
        (cell) => `${cell.label}\n${withInterval(rate.of(cell) ?? { mid: 0, lower: null, upper: null }, rate.unit)}`,
        middle,
      ),
    ],
    x: (plot) => axisOf(labels(plot)).axis,
  };
}

/** CPU time as bars; null if no option has it. */
export function costPanel({ cells, cost }: Ranking): Panel | null {
  if (!cost) return null;
  const valueOf = (cell: CellView) => cost.of(cell)?.mid ?? null;
  const largest = Math.max(...cells.map((cell) => valueOf(cell) ?? 0));
  const { divisor } = axisUnit(cost.unit, largest);
  const number = (isInside: boolean) =>
    Plot.text(
      cells.filter((cell) => (valueOf(cell) ?? 0) > largest * ROOMY === isInside),
      {
        y: "id",
        x: valueOf,
        text: (cell: CellView) => digits((valueOf(cell) ?? 0) / divisor),
        textAnchor: isInside ? "end" : "start",
        dx: isInside ? -5 : 5,
        fill: ink(),
      },
    );
  return {
    title: `${capital(cost.label)}, ${fromZero(cost.unit, largest).name}`,
    marks: [
      Plot.barX(cells, { y: "id", x: valueOf, fill: faint(), fillOpacity: 0.35, insetTop: 2, insetBottom: 2 }),
      number(true),
      number(false),
      Plot.text(
        cells.filter((cell) => valueOf(cell) == null),
        { y: "id", x: 0, text: () => "unknown", textAnchor: "start", dx: 5, fill: faint() },
      ),
      Plot.ruleX([0], { stroke: faint() }),
    ],
    x: (plot) => fromZero(cost.unit, largest, labels(plot)).axis,
  };
}

/** Draws a panel. */
export function panelOf({ cells }: Ranking, panel: Panel, place: Place): SVGSVGElement {
  const { width, left, laid, room, names, limits = 0 } = place;
  const title = panel.title.length * LETTER > room ? halves(panel.title) : [panel.title];
  // All panels have room for two lines, so that their rows are aligned.
  const above = 14;
  const bold = { fontWeight: 600, textAnchor: "start", fill: ink() } as const;
  return draw(width, {
    height: 44 + above + laid.height,
    marginLeft: left,
    marginRight: 26 + limits,
    marginTop: 34 + above,
    marginBottom: 10,
    x: {
      label: null,
      ticks: Math.max(2, Math.floor((width - left - limits) / 70)),
      ...panel.x(width - left - limits - 26),
      axis: "top",
      grid: true,
    },
    y: laid.y,
    marks: [
      Plot.text([title.join("\n")], { frameAnchor: "top-left", dy: -20 - 14 * title.length, ...bold }),
      ...panel.marks,
      names ? laid.names : null,
      limits > 0 ? Plot.text([LIMITED], { frameAnchor: "top-right", dx: 20, dy: -34, ...bold }) : null,
      limits > 0
        ? Plot.text(cells, {
            y: "id",
            frameAnchor: "right",
            dx: 20,
            textAnchor: "start",
            text: (cell: CellView) => inLines(cell.limit.title, lettersOf(limits), 2).join("\n"),
            fill: ink(),
          })
        : null,
    ],
  });
}

/** A name in two lines, as even as its words allow. */
export function halves(text: string): string[] {
  const words = text.split(" ");
  const lines = words.map((_, at) => [words.slice(0, at + 1).join(" "), words.slice(at + 1).join(" ")]);
  const [best = [text]] = lines.sort(
    ([a = "", b = ""], [c = "", d = ""]) => Math.max(a.length, b.length) - Math.max(c.length, d.length),
  );
  return [best[0] ?? "", best[1] ?? ""];
}
