// A/A controls: one option of each group is measured twice in each block, and the two are compared.

import { cellOf, type TwinView, type View } from "../data";
import { counted, moreOf, percent } from "../format";
import type { Figure } from "../frame";
import type { Looking } from "../state";
import { differences, FAR, reachOf } from "./differences";

/** The short name of a group's test. */
const testName = (view: View, id: string): string | undefined => view.tests.find((test) => test.id === id)?.name;

/** The word at the end of a row. */
export const wordOf = ({ alarm }: Pick<TwinView, "alarm">): string => (alarm ? "differs" : "");

/** The option that is measured twice; empty if it is the only one. */
export const repeated = (view: View, { cell }: Pick<TwinView, "cell">): string => cellOf(view, cell)?.label ?? "";

/** A difference as a share of the faster of the two, so that "twice as long" is at the same distance on both sides. */
export const either = (share: number | null | undefined): number | null =>
  share == null ? null : share < 0 ? 1 - 1 / (1 + share) : share;

export function aaControls({ view, group }: Looking): Figure | null {
  const found = view.groups.flatMap(({ id, label, twin }) => (twin?.difference == null ? [] : [{ id, label, twin }]));
  if (found.length === 0) return null;
  const rows = found.map(({ id, label, twin }) => ({
    id,
    label: [testName(view, id) ?? label, repeated(view, twin)].filter((part) => part).join(": "),
    mid: either(twin.difference),
    lower: either(twin.lower),
    upper: either(twin.upper),
    alarm: twin.alarm,
    word: wordOf(twin),
    more: counted(twin.blocks, "block"),
  }));
  const hasBar = (row: (typeof rows)[number]) => row.lower != null && row.upper != null;
  return {
    id: "aa-controls",
    holds: "",
    title: "A/A controls",
    caption: `Each row compares two measurements of the same option, which differ by chance and disturbance only. Log scale.${rows.some((row) => row.alarm) ? " A crossed row differs by more: no result of that test is valid." : ""}`,
    notes: [
      rows.some(hasBar) &&
        `A bar is the ${percent(view.plan.level)} interval and normally covers 0; one in twenty misses it by chance.`,
      !rows.every(hasBar) && "A dot without a bar has too few blocks for an interval.",
      `The shade is the margin of ${percent(view.plan.margin)}.`,
    ],
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
        twin.alarm ? "yes" : "no",
        twin.blocks,
      ]),
    }),
    draw: (width) => [
      differences(rows, {
        margin: view.plan.margin,
        label: `← the first takes ${moreOf(group.cost)} · the second takes ${moreOf(group.cost)} →`,
        width,
        reach: Math.min(reachOf(rows), FAR),
        sides: "either",
      }),
    ],
  };
}
