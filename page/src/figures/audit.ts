// The long-trial check: the recommended option against its rivals in trials far longer than those of the confirmation.

import { cellOf, type GroupView, type View } from "../data";
import { counted, duration, percent, resourceOf } from "../format";
import type { Figure, Lacking } from "../frame";
import type { Looking } from "../state";
import { type Difference, differences, reachOf } from "./differences";

const TITLE = "Long-trial check";
/** The end of the axis at most: twice as much, or half. */
const REACH_MAX = 1;

/** The result of the check, as the document has it. */
const resultOf = (view: View, group: GroupView): string | undefined =>
  view.findings.find(({ test, kind }) => test === group.id && kind.startsWith("long-trials-"))?.text;

export function audit({ view, group }: Looking): Figure | Lacking | null {
  const found = group.audit;
  if (!found || found.rivals.length === 0) return null;
  const name = (id: string) => cellOf(view, id)?.label || id;
  const rows: Difference[] = found.rivals.map((rival) => ({
    id: rival.cell,
    label: `compared with ${name(rival.cell)}`,
    // Fewer blocks than give an interval show nothing.
    mid: rival.slower_lower == null ? null : (rival.slower ?? null),
    lower: rival.slower_lower ?? null,
    upper: rival.slower_upper ?? null,
    alarm: rival.cell === found.better,
    more: rival.slower_lower == null ? `too few blocks (${rival.blocks})` : counted(rival.blocks, "block"),
  }));
  if (rows.every((row) => row.mid == null && row.lower == null && row.upper == null))
    return { id: "audit", title: TITLE, needs: "three blocks with long trials of two options." };
  const length = view.audit ? ` of ${duration(Math.floor(view.audit.window_ns / 1e6) * 1e6)}` : "";
  const resource = resourceOf(group.cost);
  return {
    id: "audit",
    title: TITLE,
    caption: `How much more ${resource} ${name(found.choice)} takes than each other option in long trials${length}.`,
    notes: [
      resultOf(view, group),
      rows.some((row) => row.lower != null) && `Bars are ${percent(view.plan.level)} intervals.`,
      rows.some((row) => row.lower == null) && "An empty row has too few blocks for an interval.",
      `The shade is the margin of ${percent(view.plan.margin)}.`,
      found.better != null && "A crossed row contradicts the recommendation.",
    ],
    table: () => ({
      columns: ["choice", "rival", "label", "slower", "lower", "upper", "blocks"],
      rows: found.rivals.map((rival) => [
        found.choice,
        rival.cell,
        name(rival.cell),
        rival.slower ?? null,
        rival.slower_lower ?? null,
        rival.slower_upper ?? null,
        rival.blocks,
      ]),
    }),
    draw: (width) => [
      differences(rows, {
        margin: view.plan.margin,
        label: `← it takes less · it takes more ${resource} →`,
        width,
        reach: Math.min(reachOf(rows), REACH_MAX),
      }),
    ],
  };
}
