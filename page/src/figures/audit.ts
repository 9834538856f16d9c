// The choice against its rivals in trials far longer than those that chose it: does the answer last?

import { cellOf } from "../data";
import { counted, duration, resourceOf, percent } from "../format";
import type { Figure, Lacking } from "../frame";
import type { Looking } from "../state";
import { percentOf } from "../outward";
import { type Difference, differences, reachOf } from "./differences";

const FINDINGS: Record<string, string> = {
  holds: "It holds: within the margin of every rival.",
  contradicts: "It does not hold: a rival takes less, by more than the margin.",
  open: "Whether it holds is open: such trials are too few, or too far apart.",
};

export function audit({ view, group }: Looking): Figure | Lacking | null {
  const found = group.audit;
  if (!found || found.rivals.length === 0) return null;
  const name = (id: string) => cellOf(view, id)?.label || id;
  const resource = resourceOf(group.cost);
  const rows = found.rivals.map((rival) => ({
    id: rival.cell,
    label: `against ${name(rival.cell)}`,
    mid: rival.dearer ?? null,
    lower: rival.dearer_lower ?? null,
    upper: rival.dearer_upper ?? null,
    alarm: rival.cell === found.better,
    more: counted(rival.blocks, "block"),
  }));
  if (rows.every((row) => row.mid == null && row.lower == null && row.upper == null))
    return {
      id: "audit",
      title: "Audit: does the choice last?",
      needs: "a block with long trials of both the choice and a rival would tell it; there is none yet.",
    };
  const length = view.audit ? `of ${duration(Math.floor(view.audit.window_ns / 1e6) * 1e6)}, ` : "";
  const longer = `in trials ${length}far longer than those that chose it`;
  const [only] = rows;
  if (only && rows.length === 1)
    return {
      id: "audit",
      title: "Audit: does the choice last?",
      needs: `${longer}, ${name(found.choice)} takes ${against(only, resource)} than ${name(only.id)} (${only.more}). ${FINDINGS[found.finding] ?? found.finding}`,
    };
  const bars = rows.filter((row) => row.lower != null || row.upper != null).length;
  const known = [
    ...(bars > 0 ? [`Bars are intervals at ${percent(view.plan.level)}`] : []),
    ...(bars < rows.length ? [`${bars > 0 ? "a" : "A"} dot without a bar has too few trials for one`] : []),
  ];
  return {
    id: "audit",
    title: "Audit: does the choice last? Against its closest rivals in longer trials",
    reading: `How much more ${resource} ${name(found.choice)} takes than each rival ${longer}. ${FINDINGS[found.finding] ?? found.finding} ${known.join(", and ")}; the shade is the margin of ${percent(view.plan.margin)}${found.better ? "; a crossed row contradicts the choice" : ""}.`,
    table: () => ({
      columns: ["choice", "rival", "label", "dearer", "lower", "upper", "blocks"],
      rows: found.rivals.map((rival) => [
        found.choice,
        rival.cell,
        name(rival.cell),
        rival.dearer ?? null,
        rival.dearer_lower ?? null,
        rival.dearer_upper ?? null,
        rival.blocks,
      ]),
    }),
    draw: (width) => [
      differences(
        rows,
        view.plan.margin,
        `← the choice takes less · the choice takes more ${resource} →`,
        width,
        Math.min(reachOf(rows), REACH),
      ),
    ],
  };
}

/** What takes twice as long as its rival, or half, is as far out as anybody needs to see. */
const REACH = 1;

/** How a row reads as a sentence: one dot in an empty figure says no more. */
function against({ mid, lower, upper }: Difference, resource: string): string {
  const interval = lower != null && upper != null ? `${percentOf(lower, "lower")} to ${percentOf(upper, "upper")}` : "";
  if (mid == null) return `${interval} more ${resource}`;
  const size = `${percentOf(Math.abs(mid), "middle")} ${mid < 0 ? "less" : "more"} ${resource}`;
  // Of less neither end has a sign.
  if (mid < 0 && lower != null && upper != null && upper <= 0)
    return `${size} (${percentOf(-upper, "lower")} to ${percentOf(-lower, "upper")})`;
  return interval === "" ? size : `${size} (${interval})`;
}
