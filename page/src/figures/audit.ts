// The choice against its rivals in trials far longer than those that chose it: does the answer last?

import { cellOf } from "../data";
import { percent } from "../format";
import type { Figure } from "../frame";
import type { Looking } from "../state";
import { differences } from "./differences";

const FINDINGS: Record<string, string> = {
  holds: "It holds: within the margin of every rival.",
  contradicts: "It does not hold: a rival is cheaper by more than the margin.",
  open: "Whether it holds is open: such trials are too few, or too far apart.",
};

export function audit({ view, group }: Looking): Figure | null {
  const found = group.audit;
  if (!found || found.rivals.length === 0) return null;
  const name = (id: string) => cellOf(view, id)?.label || id;
  const rows = found.rivals.map((rival) => ({
    id: rival.cell,
    label: `against ${name(rival.cell)}`,
    mid: rival.dearer ?? null,
    lower: rival.dearer_lower ?? null,
    upper: rival.dearer_upper ?? null,
    alarm: rival.cell === found.better,
    more: `${rival.blocks} blocks`,
  }));
  return {
    id: "audit",
    title: "Does the choice last? Against its rivals in long trials",
    reading: `How much dearer ${name(found.choice)} is than each rival where trials are far longer. ${FINDINGS[found.finding] ?? found.finding} Bars are intervals at ${percent(view.plan.level)}, the shade is the margin; a crossed row contradicts the choice.`,
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
    draw: (width) => [differences(rows, view.plan.margin, "← choice cheaper · choice dearer →", width)],
  };
}
