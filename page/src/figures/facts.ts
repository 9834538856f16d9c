// What is read rather than seen: options as asked for and as they came out, the machine, the cells.

import { type CellView, candidates, inDoubt, isConfirmed, isMeasured, limitOf, type View } from "../data";
import { h } from "../dom";
import { axisUnit, count, digits, duration, moreOf, percent, resourceOf, size } from "../format";
import { ends, inTimes, percentOf, range } from "../outward";
import { headed, tableOf } from "../frame";
import { named } from "../levels";
import { factorOf } from "../data";
import { csv, save, type Table } from "../save";
import { brokenOff, mayBeBest, notTheFirst } from "./compared";
import type { Looking } from "../state";
import { hinted, type Told } from "../words";

/** A table in a frame of its own; `null` where there is nothing to tell. The page may show it shorter than it is saved. */
function panel(id: string, title: string, reading: string, table: Table, shown = table): HTMLElement | null {
  if (table.rows.length === 0) return null;
  return h(
    "figure",
    { id, "aria-labelledby": `${id}-title` },
    headed(id, title, [["CSV", () => save(`bytegauge-${id}.csv`, "text/csv", csv(table))]]),
    reading ? h("p", { class: "reading" }, ...hinted(reading)) : null,
    tableOf(shown, title),
  );
}

/** Options of the cell that is looked at. */
export function options({ view, cell }: Looking): HTMLElement | null {
  // Of what was not measured the kernel said nothing.
  if (!cell || !isMeasured(cell)) return null;
  // What this workload cannot be asked for is neither in force nor not.
  const known = Object.entries(cell.counters.options).filter(([name]) =>
    view.plan.factors.some((factor) => factor.name === name),
  );
  const isAsked = ({ requested }: { requested?: unknown }) => requested != null && String(requested) !== "auto";
  // Of what nobody asked for and nobody could read there is nothing to tell.
  const told = known.filter(([, option]) => isAsked(option) || option.source != null || option.sink != null);
  const rows = told.map(([name, option]) => {
    const factor = factorOf(view, name);
    const of = (value: unknown) => (value == null ? "–" : named(value as string | number | boolean, factor));
    const read = (value: unknown) => (typeof value === "number" && factor.unit === "bytes" ? size(value) : of(value));
    const verdict =
      option.as_asked == null
        ? isAsked(option)
          ? "cannot be read back"
          : "left as it is"
        : option.as_asked
          ? "✓ in force"
          : "✗ not as asked";
    return [factor.heading, of(option.requested), read(option.source), read(option.sink), verdict];
  });
  const table = { columns: ["option", "asked for", "writing end", "reading end", "in force?"], rows };
  const name = cell.label || cell.id;
  if (told.some(([, option]) => isAsked(option)))
    return panel(
      "options",
      "Options: asked for and in force",
      `Of ${name}, as the kernel reported them while it was measured.`,
      table,
    );
  return panel(
    "options",
    "Options in force, none of them asked for",
    `What the kernel gave ${name} while it was measured: with other settings of the system they may be others.`,
    table,
    {
      columns: ["option", "writing end", "reading end"],
      rows: rows.map(([option, , source, sink]) => [option ?? "", source ?? "", sink ?? ""]),
    },
  );
}

/** What a cell is there for, where it is no choice: two of one name would otherwise stand beside each other. */
const ROLES: Partial<Record<CellView["kind"], string>> = {
  twin: "second trials",
  floor: "null engine, which moves no byte on purpose: the harness's own cost",
  ceiling: "without a relay",
};

/** A cell by its name and by what it is there for. */
export function withRole({ kind, label, id }: Pick<CellView, "kind" | "label" | "id">): string {
  const own = (kind === "floor" ? label.replace(" (moves nothing)", "") : label) || id;
  const role = ROLES[kind];
  return role == null ? own : `${own} (${role})`;
}

/** Cells that were not measured, and why. */
export function missing(view: View): HTMLElement | null {
  const several = view.groups.length > 1;
  const absent = view.cells.filter((cell) => cell.outcome !== "measured");
  const rows = absent.map((cell) => [
    cell.id,
    ...(several ? [view.groups.find((group) => group.id === cell.group)?.label ?? cell.group] : []),
    withRole(cell),
    cell.outcome,
    cell.reason ?? "",
  ]);
  const floors = view.cells.filter((cell) => cell.kind === "floor" && cell.outcome !== "measured").length;
  const reading = floors === rows.length ? "No choice is missing here: what failed measures the harness alone." : "";
  const told = new Map<string, CellView[]>();
  for (const cell of absent) {
    const key = JSON.stringify([cell.outcome, cell.reason ?? ""]);
    told.set(key, [...(told.get(key) ?? []), cell]);
  }
  return panel(
    "missing",
    "Not measured",
    reading,
    { columns: ["cell", ...(several ? ["group"] : []), "label", "outcome", "reason"], rows },
    {
      columns: ["what", "outcome", "reason"],
      // What several have in common stands once.
      rows: [...told].map(([key, all]) => [listed(all, several), ...(JSON.parse(key) as string[])]),
    },
  );
}

/** Cells by their names, each with the groups that it lies in. */
function listed(cells: CellView[], several: boolean): string {
  const groups = new Map<string, string[]>();
  for (const cell of cells) groups.set(withRole(cell), [...(groups.get(withRole(cell)) ?? []), cell.group]);
  return [...groups].map(([name, all]) => (several ? `${name} (${all.join(", ")})` : name)).join("; ");
}

/** The cells of a group, as in the report's table; rates in one unit, so that they can be compared down the column. */
export function cells(looking: Looking): HTMLElement | null {
  const { view, group } = looking;
  const all = candidates(view, group);
  // What all of them are needs no column.
  const differ = all.some((cell) => cell.outcome !== "measured");
  // Of two the verdict stands above, by their pairs.
  const compared = !view.versus && all.length > 1;
  const known = all.flatMap((cell) => cell.estimate.median ?? []);
  const { name, divisor } = axisUnit(all[0]?.estimate.unit ?? "", Math.max(...known, 0));
  const one = (value: number) => digits(value / divisor);
  // A table that was imported knows of no stages.
  const staged = view.status !== "imported";
  // What is the same of all is no matter of a column that is seen.
  const stages = new Set(all.map(({ stage }) => stage)).size > 1;
  const row = (cell: CellView, isShort: boolean) => {
    const { id, label, outcome, stage, trials, estimate, limit } = cell;
    return [
      (label || id).replaceAll(" ", "\u00a0").replaceAll(",\u00a0", ", "),
      ...(differ ? [outcome] : []),
      ...((isShort ? stages && staged : staged) ? [stage ?? "–"] : []),
      trials,
      estimate.median == null ? "–" : one(estimate.median),
      estimate.lower == null || estimate.upper == null ? "–" : ends(estimate.lower / divisor, estimate.upper / divisor),
      ...(compared
        ? [
            cell.above_best_upper == null
              ? "–"
              : cell.above_best_upper <= 0
                ? "none: all others take more"
                : range(cell.above_best_lower, cell.above_best_upper, inTimes(group)),
            mayBeBest(group, cell) ?? (isConfirmed(cell) ? "not known" : "–"),
          ]
        : []),
      // Why it was not measured is all that is known of it.
      ...(estimate.median == null
        ? ["–", cell.reason ?? limit.sentence]
        : [
            limitOf(limit),
            [brokenOff(cell), isShort ? limit.brief : limit.sentence, isShort && inDoubt(limit)]
              .filter((part) => part)
              .join("; "),
          ]),
    ];
  };
  const table = (isShort: boolean): Table => ({
    columns: [
      "cell",
      ...(differ ? ["outcome"] : []),
      ...((isShort ? stages && staged : staged) ? ["stage"] : []),
      "trials",
      `rate, ${name}`,
      `interval, ${name}`,
      ...(compared
        ? [
            inTimes(group) ? `times the best's ${resourceOf(group.cost)}` : `${moreOf(group.cost)} than the best`,
            "may be the best",
          ]
        : []),
      "limited by",
      "evidence",
    ],
    rows: all.map((cell) => row(cell, isShort)),
  });
  const reading = ["Rates are medians of trials; the evidence is of all trials together.", notTheFirst(looking)];
  const told = reading.filter((line) => line).join(" ");
  return panel("cells", "Every cell of these conditions", told, table(false), table(true));
}

/** What the grades of a machine mean. */
const GRADES: Record<string, string> = {
  A: "nothing is known to disturb",
  B: "something that may disturb is not known",
  C: "something disturbs",
  D: "much was taken from the session",
};

/** The machine, and what went on beside the measurement. */
export function environment(view: View): HTMLElement {
  const { grade, reasons, steal_share, steal_share_worst, foreign_cpus, throttled_us, twin_reach, ...facts } =
    view.environment;
  const rows: [string, string][] = [
    [
      "grade",
      grade == null
        ? "nothing is known about the machine"
        : `${grade} of A to D, ${GRADES[grade] ?? ""}${reasons.length > 0 ? `: ${reasons.join("; ")}` : ""}`,
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
    [
      "the same measured twice, equal to within",
      twin_reach == null ? "not measured twice" : percentOf(twin_reach, "upper"),
    ],
    ["harness", view.floor.share == null ? "not measured" : `${percent(view.floor.share)} of the fastest real call`],
    ["bytegauge", view.version],
    ["began", view.started],
  ];
  const columns = ["fact", "as it was read"];
  const [title, every] = ["The machine and what went on beside", flat(facts)];
  const all = { columns, rows: [...rows, ...every] };
  const figure = panel("environment", title, "What the answers hold for.", all, { columns, rows }) as HTMLElement;
  const summary = h("summary", {}, `${every.length} facts of the machine, as they were read`);
  if (every.length > 0)
    figure.append(h("details", { class: "data" }, summary, tableOf({ columns, rows: every }, summary.textContent)));
  return figure;
}

/** A cache of a processor, if that is what it is: `L2 1 MiB, shared by 2 CPUs`. */
function cache(fact: Record<string, unknown>): string | null {
  const { level, kind, size_bytes: bytes, shared_by: shared } = fact;
  if (typeof level !== "number" || typeof bytes !== "number") return null;
  const of = kind === "Unified" || kind == null ? "" : ` ${String(kind).toLowerCase()}`;
  const by = typeof shared === "number" && shared > 1 ? ` (${shared} CPUs share one)` : "";
  return `L${level}${of} ${size(bytes)}${by}`;
}

/** A value as it was read; bytes as everywhere. */
const plain = (name: string, value: unknown): string =>
  typeof value === "number" && name.endsWith("_bytes") ? size(value) : String(value);

/** Facts as they were read, nested ones by their path. */
export function flat(value: Record<string, unknown>, path = ""): [string, string][] {
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
                    ? (cache(one as Record<string, unknown>) ??
                      Object.entries(one)
                        .map(([name, part]) => `${name} ${plain(name, part)}`)
                        .join(" "))
                    : String(one),
                )
                .join(", "),
            ],
          ]
        : [];
    return typeof inner === "object" ? flat(inner as Record<string, unknown>, key) : [[key, plain(name, inner)]];
  });
}

/** Notes that say the same of several groups stand once: `g5, g6: not steady`. */
export function merged(notes: string[]): string[] {
  const found = new Map<string, string[]>();
  for (const note of notes) {
    const [, group, said] = note.match(/^(g\d+): (.*)$/s) ?? [];
    const key = group == null ? note : `: ${said}`;
    found.set(key, [...(found.get(key) ?? []), ...(group == null ? [] : [group])]);
  }
  return [...found].map(([said, groups]) => groups.join(", ") + said);
}

/** What a reader must know beside the numbers. */
export function notes(view: View): HTMLElement | null {
  const explained: Told = new Set();
  return view.notes.length > 0
    ? h(
        "section",
        { class: "told", id: "notes" },
        h("h3", {}, "Notes"),
        h("ul", {}, ...merged(view.notes).map((note) => h("li", {}, ...hinted(note, explained)))),
      )
    : null;
}
