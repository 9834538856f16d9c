// The contents of a heat map: the axes, the measure, the cells, and the texts about them. Draws nothing.

import {
  type CellView,
  axisName,
  candidates,
  factorOf,
  isConfirmed,
  isMeasured,
  isRecommended,
  level,
} from "../../data";
import { mayBeBest, ranked, slowerBy } from "../../data";
import { counted } from "../../format";
import type { Note } from "../../frame";
import { along, levels, named, varying } from "../../levels";
import { atRates, carried, lacks, measures } from "../../measure";
import { withInterval } from "../../outward";
import type { Table } from "../../save";
import type { Looking } from "../../state";

/** The reader's settings of this figure. Kept while the page is open, one for each group. */
export interface Wish {
  x: string;
  y: string;
  measure: string;
}

/** A map, as far as it does not depend on a width. */
export type HeatMap = NonNullable<ReturnType<typeof heatMap>>;

/** More levels than this in a row or column are dense. */
const DENSE = 24;

/** The map of a group with two factors or more; `wished` are the reader's settings, `measureKey` the last measure. */
export function heatMap({ view, group, cell }: Looking, wished: Wish | undefined, measureKey: string) {
  // Two options are compared with each other: a limit against the best would be another number.
  if (view.versus || !cell) return null;
  const all = candidates(view, group);
  const factors = varying(all, group.varied).filter(
    (factor) => levels(all, factor).filter((value) => value != null).length > 1,
  );
  const axes = usualAxes(factors);
  const known = measures(all);
  if (!axes || !known[0]) return null;
  const wish = wished ?? { ...axes, measure: measureKey };
  const hasPlace = (each: CellView) => level(each, wish.x) != null && level(each, wish.y) != null;
  const placed = all.filter(hasPlace);
  const chosen = hasPlace(cell) ? cell : (ranked(view, group).find(hasPlace) ?? placed[0]);
  if (!chosen) return null;
  const shown = along(view, placed, chosen, [wish.x, wish.y]);
  return {
    view,
    group,
    /** All candidates of the group. */
    all,
    /** Factors with two levels or more: any of them can be an axis. */
    factors,
    wish,
    fx: factorOf(view, wish.x),
    fy: factorOf(view, wish.y),
    known,
    measure: known.find(({ key }) => key === wish.measure) ?? known[0],
    /** Cells that may be the best and have a tile. */
    best: new Set(placed.filter((each) => mayBeBest(view, each) === "yes").map(({ id }) => id)),
    /** Cells with a level on both axes, and measured ones without. */
    placed,
    placeless: all.filter((each) => !hasPlace(each) && isMeasured(each)),
    /** The selected cell; the board changes it. */
    chosen,
    /** Some cells are compared with the best. */
    compared: all.some((each) => each.above_best_upper != null),
    /** Some cells were measured in the screening only. */
    screened: all.some((each) => isMeasured(each) && !isConfirmed(each)),
    /** Many levels, so that tiles are small: hatching would hide their colours. */
    dense: [wish.x, wish.y].some((factor) => levels(shown, factor).length > DENSE),
  };
}

/** The usual factor across and down, the first that a map has. */
const USUAL_X = ["read_size", "request", "flows"];
const USUAL_Y = ["write_size", "rcvbuf"];

/** The axes of a map that the reader did not change: sizes first. */
function usualAxes(factors: string[]): { x: string; y: string } | null {
  const x = USUAL_X.find((name) => factors.includes(name)) ?? factors[0];
  const others = factors.filter((name) => name !== x);
  const y = USUAL_Y.find((name) => others.includes(name)) ?? others[0];
  return x && y ? { x, y } : null;
}

/** The cells of the map: those that agree with the selected one in every other factor. */
export const plane = ({ view, placed, chosen, wish }: HeatMap): CellView[] =>
  along(view, placed, chosen, [wish.x, wish.y]);

/** A confirmed cell of a map whose cells are compared. */
export const isSure = ({ compared }: HeatMap, cell: CellView): boolean => compared && isConfirmed(cell);

/** Whether a tile has a number. */
export const hasNumber = ({ measure }: HeatMap, cell: CellView): boolean =>
  isMeasured(cell) && measure.of(cell) != null;

/** A cell as text: its levels, its value, and how it was measured. */
export function describe(map: HeatMap, cell: CellView): [at: string, ...facts: string[]] {
  const { fx, fy, wish, measure } = map;
  const value = measure.of(cell);
  const at = `${fx.heading} ${named(level(cell, wish.x), fx)}, ${fy.heading} ${named(level(cell, wish.y), fy)}`;
  if (!isMeasured(cell) || !value) return [at, `${cell.outcome}${cell.reason ? `, ${cell.reason}` : ""}`];
  const limit = cell.limit.name === "unknown" ? cell.limit.title : `limited by ${cell.limit.title}`;
  return [at, withInterval(value, measure.unit), evidence(map, cell), ...slowerBy(map.view, cell), limit];
}

function evidence(map: HeatMap, cell: CellView): string {
  const trials = counted(cell.trials, "trial");
  if (isSure(map, cell)) return `confirmed in ${trials}`;
  return isConfirmed(cell) ? `${trials}, not compared yet` : `screened in ${trials}, not confirmed`;
}

export function caption({ measure, compared, screened }: HeatMap): string {
  const pale = !compared ? "; no tile is confirmed or compared yet" : screened ? "; pale tiles were screened only" : "";
  return `Brighter is ${measure.less ? "less" : "more"} ${measure.label}${pale}.`;
}

export function notes(map: HeatMap): Note[] {
  const { all, measure, compared, screened, dense, placed } = map;
  const few = all.every(({ trials }) => trials <= 1) ? "one trial each" : "too few trials";
  return [
    "A number is a median without an interval: the table of the test has the intervals.",
    !compared && `All tiles are pale, since they have ${few}: the brightest one can be so by chance.`,
    screened && compared && !dense && "Screened tiles are hatched, with their numbers in brackets.",
    screened &&
      compared &&
      "Screening came before the confirmation, in other trials: compare confirmed tiles only with each other.",
    lacks(placed.filter(isMeasured), measure),
    carried(all, measure),
  ];
}

/** The options to which an axis does not apply: they have no tile, though one of them may be the best. */
export function withoutTile(map: HeatMap): string {
  const { placeless, fx, fy, measure } = map;
  const without = [fx, fy].filter(({ name }) => placeless.some((cell) => level(cell, name) == null)).map(axisName);
  const use = placeless.some((cell) => isRecommended(map.view, cell)) ? "; the one to use is among them" : "";
  return `Not in this map, without ${without.join(" or ")}: ${atRates(placeless, measure)}${use}.`;
}

export function table(map: HeatMap): Table {
  const { view, wish, measure } = map;
  return {
    columns: [wish.x, wish.y, measure.key, "lower", "upper", "stage", "in_best_set", "outcome", "limit"],
    rows: plane(map).map((cell) => {
      const value = measure.of(cell);
      return [
        level(cell, wish.x),
        level(cell, wish.y),
        value?.mid,
        value?.lower,
        value?.upper,
        cell.stage,
        mayBeBest(view, cell),
        cell.outcome,
        cell.limit.title,
      ];
    }),
  };
}
