// How the options of a test compare, as the document has it: their order and short facts about each. Judges nothing.

import { candidates, type CellView, type GroupView, isConfirmed, isMeasured, optionOf } from "../data";
import { recommendedOf, type View } from "../data";

/** Whether an option can be the best one of its test; null if it was not compared. */
export function mayBeBest(view: View, cell: CellView): "yes" | "no" | null {
  const status = optionOf(view, cell)?.status;
  if (status === "use" || status === "as-good" || status === "undecided") return "yes";
  return status === "avoid" ? "no" : null;
}

/** Confirmed options in the order of the upper ends of their intervals; those without an interval last, the fastest first. */
export function ranked(view: View, group: GroupView): CellView[] {
  const most = (cell: CellView) => cell.above_best_upper ?? Number.MAX_VALUE;
  const leads = (cell: CellView) => Number(cell.id === recommendedOf(view, group));
  return candidates(view, group)
    .filter((cell) => isMeasured(cell) && isConfirmed(cell))
    .sort((a, b) => most(a) - most(b) || leads(b) - leads(a) || (b.estimate.median ?? 0) - (a.estimate.median ?? 0));
}
