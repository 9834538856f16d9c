// How a cell stands among those that it is compared with: its rank, whether it may be the best, and what keeps it from either.

import { candidates, type CellView, cellOf, type GroupView, isConfirmed, isMeasured, type View } from "../data";
import { percent } from "../format";
import { BOUND_MAX } from "../outward";
import type { Looking } from "../state";

/** Whether a cell may be the best of its group: not known where the group compared nothing, nor of what was not confirmed. */
export function mayBeBest({ best_set }: GroupView, cell: CellView): "yes" | "no" | null {
  if (best_set.length === 0 || cell.above_best_upper == null) return best_set.includes(cell.id) ? "yes" : null;
  return best_set.includes(cell.id) ? "yes" : "no";
}

/** From here on calls that fail are told with whoever has them, as in the answers. */
const FAILING = 0.01;

/** What share of a cell's calls fail, where it is worth a word: then its rate is no service. */
export function failing(cell: CellView | undefined): number | null {
  const share = cell?.call?.failed_share;
  return share != null && share >= FAILING ? share : null;
}

/** How much of an offered load a cell carried, where it left it to others; nothing where it did not. */
export const carriedOf = ({ behind }: Pick<CellView, "behind">): string =>
  behind == null ? "" : `carried ${percent(behind)} of the load`;

/** Confirmed choices by how much more than the best each may take at most, what is bounded best first; of no bound, by rate. */
export function ranked(view: View, group: GroupView): CellView[] {
  // Beyond what is told nothing is known, and no order is left.
  const most = (cell: CellView) => Math.min(cell.above_best_upper ?? BOUND_MAX, BOUND_MAX);
  const leads = (cell: CellView) => Number(cell.id === group.recommendation.cell);
  return candidates(view, group)
    .filter((cell) => isMeasured(cell) && isConfirmed(cell))
    .sort((a, b) => most(a) - most(b) || leads(b) - leads(a) || (b.estimate.median ?? 0) - (a.estimate.median ?? 0));
}

/** Rates closer than this look the same. */
const SHOWN = 1.01;

/** Why the choice that is named is not the one with the smallest bound, or the highest rate; nothing where it is both. */
export function notTheFirst({ view, group }: Looking): string | null {
  // Of two none is named.
  if (view.versus) return null;
  const { cell, proven } = group.recommendation;
  const own = cellOf(view, cell);
  const rate = own?.estimate.median;
  if (!own || rate == null || own.above_best_upper == null) return null;
  const all = ranked(view, group);
  const name = (each: CellView) => each.label || each.id;
  const bounded = all.find((each) => each.id !== own.id && (each.above_best_upper ?? 9) < (own.above_best_upper ?? 9));
  // What three digits do not show is no matter.
  const faster = !group.cost.startsWith("cpu") && all.some((other) => (other.estimate.median ?? 0) > rate * SHOWN);
  if (!bounded && !faster) return null;
  const has = [bounded && "the smallest bound", faster && "the highest rate"].filter((each) => each).join(" nor ");
  const lacks = bounded && faster ? `has neither ${has}` : `has not ${has}`;
  if (
    group.varied.length > 0 &&
    group.varied.every((factor) => own.factors[factor as keyof typeof own.factors] === "auto")
  )
    return `${name(own)} ${lacks} and is named all the same: it changes nothing, and ${proven ? "is shown to be within the margin" : "nothing is shown to be better"}.`;
  if (proven)
    return `${name(own)} ${lacks} and is named all the same: of what is shown to be within the margin it is the smallest, or else costs the least CPU time.`;
  const why = !bounded
    ? "none is shown to be within the margin yet, and no other is bounded so closely"
    : bounded.behind != null
      ? `${name(bounded)} ${carriedOf(bounded)}, which others carry`
      : group.spoken_against.includes(bounded.id)
        ? `slow trials, counted in full, speak against ${name(bounded)}`
        : "it was the smallest that was shown to be within the margin, before longer trials took that back";
  return `${name(own)} ${lacks} and is named all the same: ${why}.`;
}

/** Why some trials of a cell failed that was measured all the same: it is compared with nothing then. */
export const brokenOff = (cell: CellView): string | null =>
  isMeasured(cell) && cell.reason ? `not in every block: ${cell.reason}` : null;
