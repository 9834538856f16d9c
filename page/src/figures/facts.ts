// What is read rather than seen: options as asked for and as they came out, the machine, the cells.

import { type CellView, candidates, limitName, type View } from "../data";
import { h } from "../dom";
import { axisUnit, count, digits, duration, moreOf, percent } from "../format";
import { tableOf } from "../frame";
import { named } from "../levels";
import { factorOf } from "../data";
import { csv, save, type Table } from "../save";
import type { Looking } from "../state";

/** A table in a frame of its own; `null` where there is nothing to tell. */
function panel(id: string, title: string, reading: string, table: Table): HTMLElement | null {
  if (table.rows.length === 0) return null;
  return h(
    "figure",
    { id, "aria-labelledby": `${id}-title` },
    h(
      "div",
      { class: "figure-head" },
      h("h3", { id: `${id}-title` }, title),
      h(
        "div",
        { class: "save", role: "group", "aria-label": `Save “${title}”` },
        h("button", { type: "button", onclick: () => save(`bytegauge-${id}.csv`, "text/csv", csv(table)) }, "CSV"),
      ),
    ),
    reading ? h("p", { class: "reading" }, reading) : null,
    h("div", { class: "table", tabindex: 0, role: "group", "aria-label": title }, tableOf(table, title)),
  );
}

/** Options of the cell that is looked at. */
export function options({ view, cell }: Looking): HTMLElement | null {
  if (!cell) return null;
  const rows = Object.entries(cell.counters.options).map(([name, option]) => {
    const factor = factorOf(view, name);
    const of = (value: unknown) => (value == null ? "–" : named(value as string | number | boolean, factor));
    const verdict =
      option.as_asked == null
        ? option.requested == null || String(option.requested) === "auto"
          ? "left as it is"
          : "cannot be read back"
        : option.as_asked
          ? "✓ in force"
          : "✗ not as asked";
    return [factor.heading, of(option.requested), of(option.source), of(option.sink), verdict];
  });
  return panel(
    "options",
    "Options: asked for and in force",
    `Of ${cell.label || cell.id}, as the kernel reported them while it was measured.`,
    { columns: ["option", "asked for", "writing end", "reading end", "in force?"], rows },
  );
}

/** Cells that were not measured, and why. */
export function missing(view: View): HTMLElement | null {
  const rows = view.cells
    .filter((cell) => cell.outcome !== "measured")
    .map((cell) => [
      cell.id,
      view.groups.find((group) => group.id === cell.group)?.label ?? cell.group,
      cell.label,
      cell.outcome,
      cell.reason ?? "",
    ]);
  return panel("missing", "Not measured", "", { columns: ["cell", "group", "label", "outcome", "reason"], rows });
}

/** The cells of a group, as in the report's table; rates in one unit, so that they can be compared down the column. */
export function cells({ view, group }: Looking): HTMLElement | null {
  const best = new Set(group.best_set);
  const all = candidates(view, group);
  const known = all.flatMap((cell) => cell.estimate.median ?? []);
  const { name, divisor } = axisUnit(all[0]?.estimate.unit ?? "", Math.max(...known, 0));
  const one = (value: number) => digits(value / divisor);
  const row = ({ id, label, outcome, stage, trials, estimate, limit, ...cell }: CellView) => [
    (label || id).replaceAll(" ", "\u00a0").replaceAll(",\u00a0", ", "),
    outcome,
    stage ?? "–",
    trials,
    estimate.median == null ? "–" : one(estimate.median),
    estimate.lower == null || estimate.upper == null ? "–" : `${one(estimate.lower)} to ${one(estimate.upper)}`,
    cell.above_best_upper == null ? "–" : `${percent(cell.above_best_lower ?? 0)} to ${percent(cell.above_best_upper)}`,
    best.has(id) ? "yes" : "no",
    limitName(limit.name),
    limit.sentence,
  ];
  return panel("cells", "Every cell of these conditions", "", {
    columns: [
      "cell",
      "outcome",
      "stage",
      "trials",
      `rate, ${name}`,
      `interval, ${name}`,
      `${moreOf(group.cost)} than the best`,
      "may be the best",
      "limited by",
      "evidence",
    ],
    rows: all.map(row),
  });
}

/** The machine, and what went on beside the measurement. */
export function environment(view: View): HTMLElement {
  const { grade, reasons, steal_share, steal_share_worst, foreign_cpus, throttled_us, twin_reach, ...facts } =
    view.environment;
  const rows: [string, string][] = [
    [
      "grade",
      grade == null
        ? "nothing is known about the machine"
        : `${grade}${reasons.length > 0 ? `: ${reasons.join("; ")}` : ""}`,
    ],
    [
      "taken by the host (steal)",
      steal_share == null
        ? "not known"
        : `${percent(steal_share)} on average, ${percent(steal_share_worst ?? steal_share)} in the worst block`,
    ],
    ["other programs", foreign_cpus == null ? "not known" : `${count(foreign_cpus)} CPUs on average`],
    [
      "throttled",
      throttled_us == null ? "not known" : throttled_us === 0 ? "not at all" : duration(throttled_us * 1000),
    ],
    ["the same measured twice differed by at most", twin_reach == null ? "not measured twice" : percent(twin_reach)],
    ["harness", view.floor.share == null ? "not measured" : `${percent(view.floor.share)} of the fastest real call`],
    ["bytegauge", view.version],
    ["began", view.started],
    ...flat(facts),
  ];
  return panel("environment", "The machine and what went on beside", "What the answers hold for.", {
    columns: ["fact", "as it was read"],
    rows,
  }) as HTMLElement;
}

/** Facts as they were read, nested ones by their path. */
function flat(value: Record<string, unknown>, path = ""): [string, string][] {
  return Object.entries(value).flatMap(([name, inner]): [string, string][] => {
    const key = path ? `${path} · ${name}` : name.replaceAll("_", " ");
    if (inner == null) return [];
    if (Array.isArray(inner))
      return inner.length > 0
        ? [
            [
              key,
              inner
                .map((one) =>
                  one && typeof one === "object"
                    ? Object.entries(one)
                        .map(([name, part]) => `${name} ${String(part)}`)
                        .join(" ")
                    : String(one),
                )
                .join(", "),
            ],
          ]
        : [];
    return typeof inner === "object" ? flat(inner as Record<string, unknown>, key) : [[key, String(inner)]];
  });
}

/** What a reader must know beside the numbers. */
export function notes(view: View): HTMLElement | null {
  return view.notes.length > 0
    ? h(
        "section",
        { class: "told", id: "notes" },
        h("h3", {}, "Notes"),
        h("ul", {}, ...view.notes.map((note) => h("li", {}, note))),
      )
    : null;
}
