// Tables: socket options, cells that were not measured, the machine.

import { type CellView, factorOf, isMeasured, titleOf, type View } from "../data";
import { h } from "../dom";
import { count, duration, percent, size } from "../format";
import { percentOf } from "../outward";
import { headed, tableOf } from "../frame";
import { named } from "../levels";
import { csv, save, type Table } from "../save";
import type { Looking } from "../state";
import { bullets, hinted } from "../words";

/** A table in its own frame; null without rows. The page can show a shorter table than the saved one. */
function panel(id: string, title: string, reading: string, table: Table, shown = table): HTMLElement | null {
  if (table.rows.length === 0) return null;
  return h(
    "figure",
    { id, "aria-labelledby": `${id}-title` },
    headed(id, title, [["CSV", () => save(`bytegauge-${id}.csv`, "text/csv", csv(table))]]),
    reading ? h("p", { class: "reading" }, ...hinted(reading)) : null,
    tableOf(shown, title, "cards"),
  );
}

type OptionFact = CellView["counters"]["options"][string];

const isRequested = ({ requested }: OptionFact): boolean => requested != null && String(requested) !== "auto";

/** Whether the kernel has the requested value. */
function state(option: OptionFact): string {
  if (option.as_asked == null) return isRequested(option) ? "cannot be read back" : "not set";
  return option.as_asked ? "✓ in force" : "✗ different";
}

/** The socket options of the selected cell, as the kernel reported them. */
export function options({ view, cell }: Looking): HTMLElement | null {
  if (!cell || !isMeasured(cell)) return null;
  const known = Object.entries(cell.counters.options).filter(([name, option]) => {
    const isFactor = view.plan.factors.some((factor) => factor.name === name);
    return isFactor && (isRequested(option) || option.source != null || option.sink != null);
  });
  const rows = known.map(([name, option]) => {
    const factor = factorOf(view, name);
    const of = (value: unknown) => (value == null ? "–" : named(value as string | number | boolean, factor));
    const read = (value: unknown) => (typeof value === "number" && factor.unit === "bytes" ? size(value) : of(value));
    return [factor.heading, of(option.requested), read(option.source), read(option.sink), state(option)];
  });
  const table = { columns: ["option", "requested", "writing end", "reading end", "in force?"], rows };
  const caption = `Options of ${cell.label || cell.id}, as the kernel reported them during the measurement.`;
  const requested = known.some(([, option]) => isRequested(option));
  const title = requested
    ? "Socket options, requested and in force"
    : "Socket options in force, none of them requested";
  return panel("options", title, caption, table);
}

/** The roles of cells that are not options: they can have the name of an option. */
const ROLES: Partial<Record<CellView["kind"], string>> = {
  twin: "A/A control",
  ceiling: "without a relay",
};

/** A cell by its name and its role. */
export function withRole({ kind, label, id }: Pick<CellView, "kind" | "label" | "id">): string {
  const own = label || id;
  const role = ROLES[kind];
  return role == null ? own : `${own} (${role})`;
}

/** Cells that were not measured, and why. */
export function missing(view: View): HTMLElement | null {
  const absent = view.cells.filter((cell) => cell.outcome !== "measured");
  const rows = absent.map((cell) => [cell.id, titleOf(view, cell.group), withRole(cell), cell.outcome, cell.reason]);
  const alike = grouped(absent, ({ outcome, reason }) => `${outcome} ${reason ?? ""}`);
  return panel(
    "missing",
    "Not measured",
    "",
    { columns: ["cell", "group", "label", "outcome", "reason"], rows },
    {
      columns: ["options", "outcome", "reason"],
      // Cells with the same reason are one row.
      rows: alike.map((all) => [listed(all, view.groups.length > 1), all[0].outcome, all[0].reason]),
    },
  );
}

/** Cells by their names, each with its groups. */
const listed = (cells: CellView[], several: boolean): string =>
  grouped(cells, withRole)
    .map((all) => `${withRole(all[0])}${several ? ` (${all.map(({ group }) => group).join(", ")})` : ""}`)
    .join("; ");

/** Cells with the same key, in the order of their first ones. */
function grouped(cells: CellView[], keyOf: (cell: CellView) => string): [CellView, ...CellView[]][] {
  const groups = new Map<string, [CellView, ...CellView[]]>();
  for (const cell of cells) {
    const own = groups.get(keyOf(cell));
    if (own) own.push(cell);
    else groups.set(keyOf(cell), [cell]);
  }
  return [...groups.values()];
}

/** How quiet a machine of a grade is. */
const QUIETNESS: Record<string, string> = {
  A: "quiet",
  B: "quiet, as far as known",
  C: "noisy",
  D: "very noisy",
};

/** The machine, and the activity during the measurement. */
export function environment(view: View): HTMLElement {
  const { grade, reasons, steal_share, steal_share_worst, foreign_cpus, throttled_us, twin_reach, ...facts } =
    view.environment;
  const unknown = "unknown";
  const because = reasons.length > 0 ? `: ${reasons.join("; ")}` : "";
  const rows: [string, string][] = [
    ["noise", grade == null ? unknown : `${QUIETNESS[grade] ?? ""}${because}`],
    [
      "CPU steal",
      steal_share == null
        ? unknown
        : `${percent(steal_share)} on average, ${percent(steal_share_worst ?? steal_share)} in the worst block`,
    ],
    ["other programs", foreign_cpus == null ? unknown : `${count(foreign_cpus)} CPUs on average`],
    ["throttled", throttled_us == null ? unknown : throttled_us === 0 ? "never" : duration(throttled_us * 1000)],
    ["A/A controls differ by at most", twin_reach == null ? "no A/A control" : percentOf(twin_reach, "upper")],
    [
      "cost of bytegauge",
      view.floor.share == null ? "not measured" : `${percent(view.floor.share)} of the least time per call`,
    ],
    ["bytegauge", view.version],
    ["began", view.started],
  ];
  const columns = ["fact", "value"];
  const every = flat(facts);
  const title = "The machine and its activity";
  const all = { columns, rows: [...rows, ...every] };
  const caption = "The results are valid for this machine in this state.";
  const figure = panel("environment", title, caption, all, { columns, rows }) as HTMLElement;
  const summary = h("summary", {}, `${every.length} facts about the machine`);
  if (every.length > 0)
    figure.append(h("details", { class: "data" }, summary, tableOf({ columns, rows: every }, summary.textContent)));
  return figure;
}

/** A processor's cache: `L2 1 MiB (2 CPUs share one)`; null for another fact. */
function cache(fact: Record<string, unknown>): string | null {
  const { level, kind, size_bytes: bytes, shared_by: shared } = fact;
  if (typeof level !== "number" || typeof bytes !== "number") return null;
  const of = kind === "Unified" || kind == null ? "" : ` ${String(kind).toLowerCase()}`;
  const by = typeof shared === "number" && shared > 1 ? ` (${shared} CPUs share one)` : "";
  return `L${level}${of} ${size(bytes)}${by}`;
}

/** A value of the document as text. */
const plain = (name: string, value: unknown): string =>
  typeof value === "number" && name.endsWith("_bytes") ? size(value) : String(value);

/** Facts of the document, nested ones by their path. */
export function flat(value: Record<string, unknown>, path = ""): [string, string][] {
  return Object.entries(value).flatMap(([name, inner]): [string, string][] => {
    const key = path ? `${path} · ${name}` : name.replaceAll("_", " ");
    if (inner == null || (Array.isArray(inner) && inner.length === 0)) return [];
    if (Array.isArray(inner)) return [[key, inner.map(item).join(", ")]];
    return isRecord(inner) ? flat(inner, key) : [[key, plain(name, inner)]];
  });
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value != null;

/** An item of a list. */
function item(one: unknown): string {
  if (!isRecord(one)) return String(one);
  const facts = Object.entries(one).map(([name, part]) => `${name} ${plain(name, part)}`);
  return cache(one) ?? facts.join(" ");
}

/** The notes of the session. */
export function notes(view: View): HTMLElement | null {
  if (view.notes.length === 0) return null;
  /** Notes are stored with the number of their test. */
  const named = (note: string): string => {
    const test = view.tests.find(({ id }) => note.startsWith(`${id}: `));
    return test ? test.name + note.slice(test.id.length) : note;
  };
  return h("section", { class: "texts", id: "notes" }, h("h3", {}, "Notes"), bullets(view.notes.map(named), new Set()));
}
