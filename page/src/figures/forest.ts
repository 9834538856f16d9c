// Methods ranked: how much more than the best confirmed each may take, beside its rate and what it costs in CPU time. Longer
// than others, since the three panels share their rows.

import * as Plot from "@observablehq/plot";
import { type CellView, cellOf, limitOf, speedsOf, withoutRelay } from "../data";
import { axisUnit, capital, costName, digits, percent, quantity, resourceOf } from "../format";
import { BOUND_MAX, inTimes, range, withInterval } from "../outward";
import type { Figure } from "../frame";
import { nothing } from "../frame";
import { doubt } from "../standing";
import { bounds, meaning, ROOTED, rootTicks, tone, type Verdict } from "./ranking";
import { brokenOff, carriedOf, failing, mayBeBest, notTheFirst, ranked } from "./compared";
import { accent, draw, faint, fromZero, ink, inLines, paper, rows, valueAxis } from "../look";
import { costOf, lacks, measures } from "../measure";
import type { Looking } from "../state";

/** More are no picture: the others have rows in the table of cells. */
const ROWS_MAX = 14;
/** The heading of the limits. */
const LIMITED = "Limited by";
type Laid = ReturnType<typeof rows>;

export function forest(looking: Looking): Figure | null {
  const { view, group } = looking;
  const margin = group.recommendation.margin;
  const best = new Set(group.best_set);
  const all = ranked(view, group);
  if (all.length === 0) return null;
  const cells = all.filter((cell, at) => at < ROWS_MAX || cell.id === group.recommendation.cell);
  const rate = measures(cells)[0];
  const cost = costOf(cells);
  // Of two the verdict stands above, by their pairs: the same by another count beside it would be another number.
  const alone = all.length === 1;
  const unbounded = (cell: CellView) => (cell.above_best_upper ?? 0) >= BOUND_MAX && (cell.above_best_lower ?? 0) <= 0;
  // Bars that all say that nothing is known say it once, in words.
  const nothingBounded = cells.length > 1 && cells.every(unbounded);
  const compared = !view.versus && !alone && !nothingBounded && cells.some((cell) => cell.above_best_upper != null);
  const single = cells.every((cell) => cell.trials <= 1);
  const partial = cells.filter((cell) => cell.above_best_upper == null && brokenOff(cell));
  const relayless = withoutRelay(view, group);
  const several = cells.filter((cell) => speedsOf(cell).length > 0);
  const reach = Math.min(Math.max(...cells.map((cell) => cell.above_best_upper ?? 0), margin * 2), 9);
  // Where bounds reach far a proportional scale would hide what is near, the margin among it.
  const rooted = reach > ROOTED * margin;
  // As the answer above says it: many times as much is no percentage for people.
  const multiples = inTimes(group);
  const beyond = cells.some((cell) => (cell.above_best_upper ?? 0) > reach);
  const told = bounds(multiples);
  // What is not bounded comes last, and says so once.
  const firstUnbounded = cells.find(unbounded);
  const fails = (cell: CellView | undefined) => {
    const share = failing(cell);
    return share == null ? "" : `${percent(share)} of its calls fail`;
  };
  const mark = (cell: CellView) =>
    `${cell.id === group.recommendation.cell && !view.versus ? "▸ " : ""}${[cell.label, fails(cell), carriedOf(cell)].filter((part) => part !== "").join(", ")}`;
  const offered = group.cost.startsWith("cpu")
    ? " Under an offered load it is the CPU time that is compared: the rate is what was offered, for whoever keeps up."
    : "";
  const named = cellOf(view, group.recommendation.cell);
  const closest = all[0];
  const bounded = named?.above_best_upper != null && named.above_best_upper < BOUND_MAX;
  const known = doubt(view, group.id);
  const leads = `${group.recommendation.proven ? `▸ is what to use${known && known.mark !== "decided" ? `. ${known.text.replace(/\.$/, "")}` : ""}` : compared && !bounded ? "▸ leads so far: nothing bounds yet how much more it may take" : compared ? `▸ ${closest === named ? "has the smallest bound, and" : "is named, and"} is not shown to be good` : "▸ leads so far, and is not shown to be good"}${fails(named) ? `; ${fails(named)}` : ""}.`;

  /** What the bar of a cell shows: it ends within the margin, begins beyond it, or neither. */
  const verdict = (cell: CellView): Verdict =>
    (cell.above_best_upper ?? 9) <= margin ? "within" : (cell.above_best_lower ?? 0) > margin ? "beyond" : "open";

  function panel(
    width: number,
    left: number,
    laid: Laid,
    title: string[],
    marks: Plot.Markish[],
    x: (plot: number) => Plot.ScaleOptions,
    /** What stands beside it, in words: on a wide page, what limits each. */
    beside: number,
  ): SVGSVGElement {
    const above = 14 * (title.length - 1);
    return draw(width, {
      height: 44 + above + laid.height,
      marginLeft: left,
      marginRight: 26 + beside,
      marginTop: 34 + above,
      marginBottom: 10,
      x: {
        label: null,
        ticks: Math.max(2, Math.floor((width - left - beside) / 70)),
        ...x(width - left - beside - 26),
        axis: "top",
        grid: true,
      },
      y: laid.y,
      marks: [
        Plot.text([title.join("\n")], {
          frameAnchor: "top-left",
          dy: -34 - above,
          fontWeight: 600,
          textAnchor: "start",
          fill: ink(),
        }),
        ...marks,
        ...(beside > 0
          ? [
              Plot.text([LIMITED], {
                frameAnchor: "top-right",
                dx: 20,
                dy: -34,
                fontWeight: 600,
                textAnchor: "start",
                fill: ink(),
              }),
              Plot.text(cells, {
                y: "id",
                frameAnchor: "right",
                dx: 20,
                textAnchor: "start",
                text: (cell: CellView) => inLines(limitOf(cell.limit), lettersOf(beside), 2).join("\n"),
                fill: ink(),
              }),
            ]
          : []),
      ],
    });
  }

  return {
    id: "forest",
    title: alone
      ? "What it reaches and what it costs: one choice, so nothing to compare it with"
      : view.versus
        ? "What both reach and what they cost"
        : compared
          ? "The confirmed choices, ranked by how much more than the best they may take"
          : nothingBounded
            ? "The confirmed choices, the fastest first: nothing bounds them yet"
            : single
              ? "The choices, the fastest first: one trial each, so not compared"
              : "The choices, the fastest first: not compared yet",
    reading: [
      view.versus
        ? "How they compare stands above, by pairs of trials: of medians beside each other it cannot be read."
        : alone
          ? `The square is ${cells[0]?.trials === 1 ? "one trial" : "the median of its trials"}.${fails(named) ? ` ${fails(named)}.` : ""}${offered}`
          : compared
            ? `Bars are intervals at ${percent(view.plan.level)}: how much more ${costName(group.cost)} a choice takes than the best confirmed, whichever that is. The shade is the margin of ${percent(margin)}.${rooted ? " The scale is a root scale: what is small has more room." : ""}${beyond ? " A bar with → runs out of the scale: its number is what is shown at the least; without one, it has no bound." : ""} ${named ? leads : ""} ${notTheFirst(looking) ?? ""}${offered}`.trimEnd()
            : nothingBounded
              ? `No choice has a bound yet: each of them may take over ${1 + BOUND_MAX}\u00a0× the best's ${resourceOf(group.cost)}, or be the best. Squares are medians, and their order may be luck.${named ? ` ${leads}` : ""}${offered}`
              : `${single ? "Squares are one trial each, which nothing confirms" : partial.length > 0 ? "Squares are medians" : "Too few blocks stand behind these to say how far they are apart: squares are medians"}, and their order may be luck.${named ? ` ${leads}` : ""}${offered}`,
      relayless &&
        `The dashed line is the path without a relay: ${quantity(relayless.estimate.median ?? 0, relayless.estimate.unit)}.`,
      all.length > cells.length && `Drawn are the first ${cells.length} of ${all.length}; every cell has a row below.`,
      several.length > 0 &&
        `${several.map(({ label, id }) => label || id).join(" and ")} ${several.length === 1 ? "has" : "have"} several speeds, marked ◇: a median tells of none of them.`,
      cost && lacks(cells, cost),
      partial.length > 0 &&
        `In some blocks ${partial.map(({ label, id }) => label || id).join(" and ")} failed, so that nothing is compared with ${partial.length === 1 ? "it" : "them"}: why stands with every cell.`,
    ]
      .filter((line) => line)
      .join(" "),
    table: () => ({
      columns: [
        "cell",
        "label",
        "dearer_lower",
        "dearer_upper",
        "in_best_set",
        "rate",
        "rate_lower",
        "rate_upper",
        cost?.key ?? "cost",
        "limit",
      ],
      rows: cells.map((cell) => [
        cell.id,
        cell.label,
        cell.above_best_lower ?? null,
        cell.above_best_upper ?? null,
        mayBeBest(group, cell),
        cell.estimate.median,
        cell.estimate.lower ?? null,
        cell.estimate.upper ?? null,
        cost?.of(cell)?.mid ?? null,
        limitOf(cell.limit),
      ]),
    }),
    draw(width) {
      // One line for all names, or two where one of them has no room in one.
      const longest = Math.max(LIMITED.length + 1, ...cells.map(({ limit }) => limitOf(limit).length));
      const beside = width >= WIDE ? Math.min(longest * 6.8 + 16, LIMIT_MAX) : 0;
      const limits = beside > 0 ? cells.map(({ limit }) => inLines(limitOf(limit), lettersOf(beside), 2)) : [];
      const laid = rows(cells, mark, width, limits.some((lines) => lines.length > 1) ? 34 : undefined);
      const { narrow, left } = laid;
      const tip = (text: (cell: CellView) => string, x: (cell: CellView) => number | null) =>
        Plot.tip(cells, Plot.pointerY({ y: "id", x, title: text, fill: paper(), lineHeight: 1.3 }));
      const symbols = (x: (cell: CellView) => number | null | undefined) =>
        Plot.dot(cells, {
          x,
          y: "id",
          symbol: "square",
          r: 4.5,
          stroke: accent(),
          strokeWidth: 1.6,
          fill: (cell: CellView) => (best.has(cell.id) || !compared ? accent() : paper()),
        } as Plot.DotOptions);
      // Beyond the farthest end its number has room, and what is cut off goes on there.
      const end = reach * (rooted ? ROOM ** 2 : ROOM);
      const scale = (share: number | null | undefined) => (share == null ? null : Math.min(share, reach));
      const dearer = () => [
        Plot.rectX([margin], { x1: 0, x2: margin, fill: accent(), fillOpacity: 0.13 }),
        Plot.ruleX([margin], { stroke: accent(), strokeDasharray: "3 3" }),
        Plot.ruleX([0], { stroke: faint() }),
        Plot.ruleY(cells, {
          y: "id",
          x1: (cell: CellView) => scale(cell.above_best_lower ?? 0),
          x2: (cell: CellView) => scale(cell.above_best_upper),
          strokeWidth: 6,
          strokeLinecap: "butt",
          stroke: (cell: CellView) => tone(verdict(cell)),
        }),
        // A bound at 0 is no bar: its end has a line of its own.
        Plot.tickX(
          cells.filter((cell) => (cell.above_best_upper ?? 0) <= reach),
          {
            y: "id",
            x: (cell: CellView) => scale(cell.above_best_upper),
            strokeWidth: 2.5,
            stroke: (cell: CellView) => tone(verdict(cell)),
            insetTop: 3,
            insetBottom: 3,
          },
        ),
        Plot.text(
          cells.filter((cell) => cell.above_best_upper != null && cell.above_best_upper <= reach),
          {
            x: (cell: CellView) => scale(cell.above_best_upper),
            y: "id",
            text: (cell: CellView) => told.most(cell.above_best_upper ?? 0),
            textAnchor: "start",
            dx: 6,
            fill: ink(),
            stroke: paper(),
            strokeWidth: 4,
          },
        ),
        // How far a bar reaches that runs out of the scale says nothing: what is known is where it begins.
        Plot.text(
          cells.filter((cell) => (cell.above_best_upper ?? 0) > reach),
          {
            x: reach,
            y: "id",
            text: (cell: CellView) =>
              unbounded(cell)
                ? cell === firstUnbounded
                  ? "→ no bound"
                  : "→"
                : `→ ${told.least(cell.above_best_lower ?? 0)}`,
            textAnchor: "start",
            dx: -2,
            fill: ink(),
            stroke: paper(),
            strokeWidth: 4,
          },
        ),
        tip(
          (cell) =>
            `${cell.label}\n${cell.above_best_upper == null ? "not compared" : `${range(cell.above_best_lower, cell.above_best_upper, multiples)} ${multiples ? "as much as" : "more than"} the best`}\n${cell.limit.name === "unknown" ? "" : "limited by "}${limitOf(cell.limit)}`,
          (cell) => scale(cell.above_best_upper),
        ),
      ];
      const rates = () => [
        Plot.ruleX(relayless ? [speed.place(relayless.estimate.median ?? null)] : [], {
          stroke: ink(),
          strokeDasharray: "4 3",
        }),
        Plot.ruleY(cells, {
          y: "id",
          x1: (cell: CellView) => speed.place(cell.estimate.lower ?? null),
          x2: (cell: CellView) => speed.place(cell.estimate.upper ?? null),
          stroke: accent(),
          strokeWidth: 2,
        }),
        symbols((cell) => speed.place(cell.estimate.median ?? null)),
        Plot.dot(
          several.flatMap((cell) => speedsOf(cell).map((at) => ({ id: cell.id, at }))),
          { y: "id", x: ({ at }) => speed.place(at), symbol: "diamond", r: 3.5, stroke: ink(), fill: paper() },
        ),
        tip(
          (cell) =>
            `${cell.label}\n${rate ? withInterval(rate.of(cell) ?? { mid: 0, lower: null, upper: null }, rate.unit) : ""}`,
          (cell) => speed.place(cell.estimate.median ?? null),
        ),
      ];
      const costs = () =>
        cost
          ? [
              Plot.barX(cells, {
                y: "id",
                x: (cell: CellView) => cost.of(cell)?.mid ?? null,
                fill: faint(),
                fillOpacity: 0.35,
                insetTop: 2,
                insetBottom: 2,
              }),
              // Within a bar that has room for it, else behind its end.
              ...[true, false].map((inside) =>
                Plot.text(
                  cells.filter((cell) => (cost.of(cell)?.mid ?? 0) > dearest * ROOMY === inside),
                  {
                    y: "id",
                    x: (cell: CellView) => cost.of(cell)?.mid ?? null,
                    text: (cell: CellView) => digits((cost.of(cell)?.mid ?? 0) / axisUnit(cost.unit, dearest).divisor),
                    textAnchor: inside ? "end" : "start",
                    dx: inside ? -5 : 5,
                    fill: ink(),
                  },
                ),
              ),
              Plot.text(
                cells.filter((cell) => cost.of(cell) == null),
                { y: "id", x: 0, text: () => "not known", textAnchor: "start", dx: 5, fill: faint() },
              ),
              Plot.ruleX([0], { stroke: faint() }),
            ]
          : [];
      const dearest = Math.max(...cells.map((cell) => cost?.of(cell)?.mid ?? 0));
      const reached = cells.flatMap(({ estimate: { lower, median, upper } }) => [lower, median, upper]);
      const known = [...reached, relayless?.estimate.median].filter((value): value is number => value != null);
      const speedOf = (room?: number) => valueAxis(rate?.unit ?? "", Math.min(...known), Math.max(...known, 0), room);
      const priceOf = (room?: number) => fromZero(cost?.unit ?? "", dearest, room);
      const [speed, price] = [speedOf(), priceOf()];
      const labels = (plot: number) => Math.max(2, Math.floor(plot / LABEL));
      type Panel = { title: string; marks(): Plot.Markish[]; x(plot: number): Plot.ScaleOptions };
      const panels: Panel[] = [];
      if (compared)
        panels.push({
          title: multiples ? `${costName(group.cost)}, times the best's` : `more ${costName(group.cost)} than the best`,
          marks: dearer,
          x: (plot) => ({
            domain: [0, end],
            tickFormat: told.at,
            ...(rooted ? { type: "sqrt", ticks: rootTicks(reach, (share) => plot * Math.sqrt(share / end)) } : {}),
          }),
        });
      if (rate)
        panels.push({ title: `${rate.label}, ${speed.name}`, marks: rates, x: (plot) => speedOf(labels(plot)).axis });
      if (cost)
        panels.push({ title: `${cost.label}, ${price.name}`, marks: costs, x: (plot) => priceOf(labels(plot)).axis });
      if (panels.length === 0) return [nothing("No cell of this group was compared.")];
      const key = meaning(
        compared ? [...new Set(cells.map(verdict))] : [],
        compared && best.size > 0 ? [...new Set(cells.map((cell) => best.has(cell.id)))] : [],
        [...(relayless ? (["relayless"] as const) : []), ...(several.length > 0 ? (["speeds"] as const) : [])],
        margin,
        width,
      );
      const room = narrow ? width - 20 : (width - left - beside) / panels.length - 38;
      const two = panels.some(({ title }) => title.length * LETTER > room);
      const make = ({ title, marks, x }: Panel, width: number, left: number, extra: Plot.Markish[], beside = 0) =>
        panel(width, left, laid, two ? halves(capital(title)) : [capital(title)], [...marks(), ...extra], x, beside);
      if (narrow) return [...panels.map((each) => make(each, width, left, [laid.names])), ...key];
      const each = (width - left - beside) / panels.length;
      const row = document.createElement("div");
      row.className = "side";
      row.append(
        ...panels.map((one, at) => {
          const [first, last] = [at === 0, at === panels.length - 1];
          const wide = each + (first ? left : 0) + (last ? beside : 0);
          return make(one, wide, first ? left : 12, first ? [laid.names] : [], last ? beside : 0);
        }),
      );
      return [row, ...key];
    },
  };
}

/** What a label of an axis takes, pixels. */
const LABEL = 46;
/** From which share of the longest bar on a bar has room for its number. */
const ROOMY = 0.25;
/** How much farther than its farthest end a scale goes. */
const ROOM = 1.35;
/** A bold letter's width; from which width on limits stand beside the panels, and the most room that they have; pixels. */
const [LETTER, WIDE, LIMIT_MAX] = [7.3, 900, 200];

/** How many letters a line of limits has beside the panels. */
const lettersOf = (beside: number): number => Math.floor((beside - 16) / 6.8);

/** A name in two lines, as even as its words allow. */
export function halves(text: string): string[] {
  const words = text.split(" ");
  const lines = words.map((_, at) => [words.slice(0, at + 1).join(" "), words.slice(at + 1).join(" ")]);
  const [best = [text]] = lines.sort(
    ([a = "", b = ""], [c = "", d = ""]) => Math.max(a.length, b.length) - Math.max(c.length, d.length),
  );
  return [best[0] ?? "", best[1] ?? ""];
}
