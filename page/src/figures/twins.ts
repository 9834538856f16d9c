// One cell measured twice in every group: how far apart the same thing came out.

import { cellOf, type TwinView, type View } from "../data";
import { counted, moreOf, percent } from "../format";
import type { Figure } from "../frame";
import type { Looking } from "../state";
import { differences, FAR, reachOf } from "./differences";

/** The test of a group by its short name. */
const asked = (view: View, id: string): string | undefined => view.tests.find((test) => test.id === id)?.name;

/** What is said at the end of a row. */
export function verdict(lower: number | null | undefined, upper: number | null | undefined, alarm: boolean): string {
  if (alarm) return "alarm";
  return lower != null && upper != null && lower * upper > 0 ? "misses the middle" : "";
}

/** Whether a twin alarms: not known before there is an interval. */
export function alarmed({ alarm, lower, upper }: Pick<TwinView, "alarm" | "lower" | "upper">): string {
  if (alarm) return "yes";
  return lower == null || upper == null ? "not known" : "no";
}

/** What was measured twice; nothing where there is one choice alone. */
export const repeated = (view: View, { cell }: Pick<TwinView, "cell">): string => cellOf(view, cell)?.label ?? "";

/** A share of the first trials as one of whichever took less: twice as long lies as far on either side, as in the texts. */
export const either = (share: number | null | undefined): number | null =>
  share == null ? null : share < 0 ? 1 - 1 / (1 + share) : share;

export function twins({ view, group }: Looking): Figure | null {
  const found = view.groups.flatMap(({ id, label, twin }) => (twin?.difference == null ? [] : [{ id, label, twin }]));
  if (found.length === 0) return null;
  const rows = found.map(({ id, label, twin }) => ({
    id,
    label: `${id === group.id && found.length > 1 ? "▸ " : ""}${[asked(view, id) ?? label, repeated(view, twin)].filter((part) => part).join(": ")}`,
    mid: either(twin.difference),
    lower: either(twin.lower),
    upper: either(twin.upper),
    alarm: twin.alarm,
    word: verdict(twin.lower, twin.upper, twin.alarm),
    more: counted(twin.blocks, "block"),
  }));
  const bars = rows.filter((row) => row.lower != null && row.upper != null).length;
  const reading = [
    "Every block measured the choice of a row twice, as if it were two (an A/A test): first and second trials differ by chance and disturbance alone.",
    bars > 0 &&
      `A bar is the interval of the difference at ${percent(view.plan.level)} and should cover the line in the middle; one in twenty misses it by chance, which is no alarm.`,
    bars < rows.length && "A dot without a bar has too few blocks for one.",
    rows.some((row) => row.alarm) &&
      "A crossed row is an alarm, which takes more than that: nothing under those conditions is proven.",
    `The shade is the margin of ${percent(view.plan.margin)}; the scale is logarithmic, so that twice as long lies as far on either side.`,
    rows.length > 1 && "▸ is that of the conditions looked at.",
  ];
  return {
    id: "twins",
    holds: "",
    title: "What differs where nothing does: the same cell measured twice",
    reading: reading.filter((line) => line).join(" "),
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
        alarmed(twin),
        twin.blocks,
      ]),
    }),
    draw: (width) => [
      differences(
        rows,
        view.plan.margin,
        `← the first trials take ${moreOf(group.cost)} · the second ones →`,
        width,
        Math.min(reachOf(rows), FAR),
        "either",
      ),
    ],
  };
}
