// The texts about a sweep.

import { axisName, factorOf, isConfirmed, titleOf } from "../data";
import { percent, quantity } from "../format";
import type { Note } from "../frame";
import { named, partsOf } from "../levels";
import { atRates, carried } from "../measure";
import { showsMoved, type Sweep } from "./sweep-data";

/** Whether some mark has an interval. */
const hasBars = ({ cells, measure }: Sweep): boolean => cells.some((each) => measure.of(each)?.lower != null);

export function caption(sweep: Sweep): string {
  const { view, measure, single } = sweep;
  if (single) return "Each mark is one trial: differences can be chance.";
  if (!hasBars(sweep)) return "Marks are medians of a few trials, too few for intervals.";
  const bars = measure.key === "mean" ? "one standard deviation to each side" : `${percent(view.plan.level)} intervals`;
  return `Marks are medians, vertical lines ${bars}.`;
}

export function notes(sweep: Sweep): Note[] {
  const { view, cells, measure, apart, relayless, series, fc, fx, fixed, placeless, dropped, all, used, single } =
    sweep;
  const without = cells.filter((each) => measure.of(each) == null).length;
  const parts = partsOf(view, all, used).map((factor) => factorOf(view, factor).heading);
  return [
    hasBars(sweep) && "An interval that is not visible is smaller than its mark, or the mark has too few trials.",
    !single &&
      cells.some((each) => !isConfirmed(each)) &&
      "Hollow marks were screened only, in other trials than the confirmed ones: no line joins the two.",
    carried(cells, measure),
    showsMoved(sweep) && "After → is the number of bytes that a call moved.",
    without > 0 && `Cells with too few trials or calls for ${measure.label}: ${without}.`,
    apart.length > 0 &&
      `Not drawn, since no factor separates them from the others: ${apart.map(({ id }) => titleOf(view, id)).join("; ")}.`,
    relayless &&
      `The dashed line is the path without a relay: ${quantity(measure.of(relayless)?.mid ?? 0, measure.unit)}.`,
    series.length === 1 && `All marks have ${fc.heading} ${named(series[0] ?? null, fc)}.`,
    fixed && `The same for all marks: ${fixed}.`,
    parts.length > 0 && `A profile sets several factors: ${parts.join(", ")}.`,
    placeless.length > 0 && `Without ${axisName(fx)}, so without a mark: ${atRates(placeless, measure)}.`,
    dropped > 0 && `Levels of ${fc.heading} that are not drawn: ${dropped}. The data has all.`,
  ];
}
