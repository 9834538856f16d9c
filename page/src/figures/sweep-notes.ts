// The texts about a sweep.

import { axisName, factorOf, isConfirmed } from "../data";
import { percent, quantity } from "../format";
import type { Note } from "../frame";
import { named, partsOf } from "../levels";
import { atRates, carried } from "../measure";
import { showsMoved, type Sweep } from "./sweep-data";

/** Whether some mark has an interval. */
const hasBars = ({ cells, shown }: Sweep): boolean =>
  cells.some((each) => shown.some((measure) => measure.of(each)?.lower != null));

export function caption(sweep: Sweep): string {
  const { view, shown, single } = sweep;
  if (single) return "Each mark is one trial: differences can be chance.";
  if (!hasBars(sweep)) return "Marks are medians of a few trials, too few for intervals.";
  const bars =
    shown[0].key === "mean" ? "one standard deviation to each side" : `${percent(view.plan.level)} intervals`;
  return `Marks are medians, vertical lines ${bars}.`;
}

export function notes(sweep: Sweep): Note[] {
  const { view, cells, shown, apart, relayless, series, fc, fx, fixed, placeless, dropped, all, used, single } = sweep;
  const [first] = shown;
  const parts = partsOf(view, all, used).map((factor) => factorOf(view, factor).heading);
  return [
    hasBars(sweep) && "An interval that is not visible is smaller than its mark, or the mark has too few trials.",
    !single &&
      cells.some((each) => !isConfirmed(each)) &&
      "Hollow marks were screened only, in other trials than the confirmed ones: no line joins the two.",
    ...shown.map((measure) => carried(cells, measure)),
    shown.some((measure) => showsMoved(sweep, measure)) && "After → is the number of bytes that a call moved.",
    ...shown.map((measure) => {
      const without = cells.filter((each) => measure.of(each) == null).length;
      return without > 0 && `Cells with too few trials or calls for ${measure.label}: ${without}.`;
    }),
    apart.length > 0 &&
      `Not drawn, since no factor separates them from the others: ${apart.map(({ label, id }) => label || id).join("; ")}.`,
    relayless && `The dashed line is the path without a relay: ${quantity(first.of(relayless)?.mid ?? 0, first.unit)}.`,
    series.length === 1 && `All marks have ${fc.heading} ${named(series[0] ?? null, fc)}.`,
    fixed && `The same for all marks: ${fixed}.`,
    parts.length > 0 && `A profile sets several factors: ${parts.join(", ")}.`,
    placeless.length > 0 && `Without ${axisName(fx)}, so without a mark: ${atRates(placeless, first)}.`,
    dropped > 0 && `Levels of ${fc.heading} that are not drawn: ${dropped}. The data has all.`,
  ];
}
