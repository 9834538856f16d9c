// The confirmed options of a test, ranked: how much slower each is than the best, its rate, and its CPU time.

import { type CellView, type GroupView, optionOf, recommendedOf, speedsOf } from "../data";
import { type OptionResult, testOf, type View, withoutRelay } from "../data";
import { h } from "../dom";
import { percent, quantity } from "../format";
import { type Figure, nothing, type Note } from "../frame";
import { inLines, rows, USED } from "../look";
import { costOf, lacks, type Measure, measures } from "../measure";
import type { Table } from "../save";
import { isBeyond, scaleEnd } from "../scale";
import type { Looking } from "../state";
import { carriedOf, failing, mayBeBest, ranked } from "./compared";
import { costPanel, LIMITED, lettersOf, type Panel, panelOf, ratePanel, slowerPanel } from "./forest-panels";
import { meaning, type Sign } from "./ranking";

/** More rows do not fit a screen: the table of all options has them all. */
const ROWS_MAX = 14;
/** From this width on the limits are next to the panels; the most room that they take; pixels. */
const [WIDE, LIMIT_MAX] = [900, 200];

/** The ranking of a group, as far as it does not depend on a width. */
export interface Ranking {
  view: View;
  group: GroupView;
  /** All confirmed options, and those with a row. */
  all: CellView[];
  cells: CellView[];
  rate: Measure | undefined;
  cost: Measure | undefined;
  /** Some options have an interval of "slower than the best". */
  compared: boolean;
  margin: number;
  /** The path without a relay, if relays are compared. */
  relayless: CellView | undefined;
  /** Options whose rate changes between several values. */
  several: CellView[];
  /** The end of the scale of "slower", as a share: that of all tests. */
  reach: number;
  /** Intervals of some test go on beyond it. */
  isCut: boolean;
  /** The intervals are multiples. */
  multiples: boolean;
}

export function forest({ view, group }: Looking): Figure | null {
  const all = ranked(view, group);
  if (all.length === 0) return null;
  const ranking = rankingOf(view, group, all);
  return {
    id: "forest",
    title: titleOf(ranking),
    caption: captionOf(ranking),
    notes: notesOf(ranking),
    table: () => table(ranking),
    draw: (width) => drawn(ranking, width),
  };
}

function rankingOf(view: View, group: GroupView, all: CellView[]): Ranking {
  const reach = scaleEnd(view);
  const recommended = recommendedOf(view, group);
  const cells = all.filter((cell, at) => at < ROWS_MAX || cell.id === recommended);
  const margin = testOf(view, group)?.margin ?? view.plan.margin;
  return {
    view,
    group,
    all,
    cells,
    rate: measures(cells)[0],
    cost: costOf(cells),
    compared: !view.versus && all.length > 1 && cells.some((cell) => cell.above_best_upper != null),
    margin,
    relayless: withoutRelay(view, group),
    several: cells.filter((cell) => speedsOf(cell).length > 0),
    reach,
    isCut: isBeyond(view, reach),
    multiples: view.screen.tests[view.tests.findIndex(({ id }) => id === group.id)]?.multiples ?? false,
  };
}

function titleOf({ view, all, compared }: Ranking): string {
  if (view.versus) return "Rate and CPU time of both";
  if (all.length === 1) return "Rate and CPU time of the only option";
  return compared ? "The confirmed options, ranked" : "The options, the fastest first: not compared yet";
}

function captionOf(ranking: Ranking): string {
  const { view, group, cells, compared, margin } = ranking;
  if (view.versus) return "Squares are medians: the comparison by pairs of trials is above.";
  const lone = cells.length === 1 && cells[0];
  if (!compared)
    return lone
      ? `The square is ${lone.trials === 1 ? "one trial" : "the median of its trials"}.`
      : "Squares are medians of a few trials: their order can be chance.";
  const use = recommendedOf(view, group) ? `; ${USED} is recommended` : "";
  return `Bars are ${percent(view.plan.level)} intervals; the shade is the margin of ${percent(margin)}${use}.`;
}

function notesOf({ group, all, cells, cost, compared, reach, relayless, several }: Ranking): Note[] {
  const rate = relayless?.estimate;
  return [
    compared && "The scale is linear and the same for all tests.",
    compared &&
      cells.some(({ above_best_upper: upper }) => (upper ?? 0) > reach) &&
      "An arrow is an interval beyond the scale.",
    compared && group.cost.startsWith("cpu") && "The load is offered, so CPU time is compared instead of the rate.",
    rate?.median != null && `The dashed line is the path without a relay: ${quantity(rate.median, rate.unit)}.`,
    all.length > cells.length &&
      `${cells.length} of ${all.length} options have a row: the table of all options has them all.`,
    several.length > 0 && "◇ marks the speeds of an option that changes between several: its median is none of them.",
    cost && lacks(cells, cost),
  ];
}

/** The name of a row, with what keeps the option from being best. */
export function rowName({ view, group }: Pick<Ranking, "view" | "group">, cell: CellView): string {
  const share = failing(cell);
  const parts = [cell.label, share == null ? "" : `${percent(share)} of its calls fail`, carriedOf(cell)];
  const mark = cell.id === recommendedOf(view, group) && !view.versus ? `${USED} ` : "";
  return `${mark}${parts.filter((part) => part !== "").join(", ")}`;
}

function table({ view, cells, cost }: Ranking): Table {
  return {
    columns: [
      "cell",
      "label",
      "slower_lower",
      "slower_upper",
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
      mayBeBest(view, cell),
      cell.estimate.median,
      cell.estimate.lower ?? null,
      cell.estimate.upper ?? null,
      cost?.of(cell)?.mid ?? null,
      cell.limit.title,
    ]),
  };
}

function drawn(ranking: Ranking, width: number): Node[] {
  const { cells } = ranking;
  const panels = [slowerPanel(ranking), ratePanel(ranking), costPanel(ranking)].filter((panel) => panel != null);
  if (panels.length === 0) return [nothing("No option of this test was compared.")];
  const longest = Math.max(LIMITED.length + 1, ...cells.map(({ limit }) => limit.title.length));
  const limits = width >= WIDE ? Math.min(longest * 6.8 + 16, LIMIT_MAX) : 0;
  const isTwoLines = limits > 0 && cells.some(({ limit }) => inLines(limit.title, lettersOf(limits), 2).length > 1);
  const laid = rows(cells, (cell) => rowName(ranking, cell), width, isTwoLines ? 34 : undefined);
  const key = limits > 0 ? keyOf(ranking, width) : [...keyOf(ranking, width), limitsOf(ranking)];
  if (laid.narrow)
    return [
      ...panels.map((panel) =>
        panelOf(ranking, panel, { width, left: laid.left, laid, room: width - 20, names: true }),
      ),
      ...key,
    ];
  const each = (width - laid.left - limits) / panels.length;
  const one = (panel: Panel, at: number) => {
    const [isFirst, isLast] = [at === 0, at === panels.length - 1];
    const left = isFirst ? laid.left : 12;
    const wide = each + (isFirst ? laid.left : 0) + (isLast ? limits : 0);
    return panelOf(ranking, panel, {
      width: wide,
      left,
      laid,
      room: each - 38,
      names: isFirst,
      limits: isLast ? limits : 0,
    });
  };
  return [h("div", { class: "side" }, ...panels.map(one)), ...key];
}

/** The limits, where they have no room next to the panels: each with its options. */
function limitsOf({ cells }: Ranking): HTMLElement {
  const titles = [...new Set(cells.map(({ limit }) => limit.title))];
  const named = (title: string) => {
    const options = cells.filter(({ limit }) => limit.title === title).map(({ label }) => label);
    return titles.length === 1 ? title : `${title} (${options.join(", ")})`;
  };
  return h("p", { class: "reading" }, h("b", {}, `${LIMITED}: `), `${titles.map(named).join("; ")}.`);
}

/** The key of the marks that occur. */
function keyOf({ view, cells, compared, relayless, several, margin }: Ranking, width: number): SVGSVGElement[] {
  const found = compared ? cells.flatMap((cell) => optionOf(view, cell)?.status ?? []) : [];
  const statuses = [...new Set<OptionResult["status"]>(found)];
  const signs: (Sign | false | undefined)[] = [relayless && "relayless", several.length > 0 && "speeds"];
  return meaning(
    statuses,
    signs.filter((sign): sign is Sign => Boolean(sign)),
    margin,
    width,
  );
}
