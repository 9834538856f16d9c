// One cell measured twice in every group: how far apart the same thing came out.

import { percent } from "../format";
import type { Figure } from "../frame";
import type { Looking } from "../state";
import { differences } from "./differences";

export function twins({ view, group }: Looking): Figure | null {
  const found = view.groups.flatMap(({ id, label, twin }) => (twin?.difference == null ? [] : [{ id, label, twin }]));
  if (found.length === 0) return null;
  const rows = found.map(({ id, label, twin }) => ({
    id,
    label: `${id === group.id ? "▸ " : ""}${label}`,
    mid: twin.difference ?? null,
    lower: twin.lower ?? null,
    upper: twin.upper ?? null,
    alarm: twin.alarm,
    more: `${twin.blocks} blocks`,
  }));
  return {
    id: "twins",
    title: "The same thing measured twice",
    reading: `In every group the leader runs twice under two names. The bar is the interval of the difference at ${percent(view.plan.level)}; it should cover 0. A crossed row is an alarm: nothing in that group is proven. The shade is the margin.`,
    table: () => ({
      columns: ["group", "label", "cell", "twin", "difference", "lower", "upper", "alarm", "blocks"],
      rows: found.map(({ id, label, twin }) => [
        id,
        label,
        twin.cell,
        twin.twin,
        twin.difference ?? null,
        twin.lower ?? null,
        twin.upper ?? null,
        twin.alarm ? "alarm" : "no",
        twin.blocks,
      ]),
    }),
    draw: (width) => [differences(rows, view.plan.margin, "twin dearer than the cell it repeats", width)],
  };
}
