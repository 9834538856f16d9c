// The documents of the page and look-ups in them. Computes no statistics: every number comes from the document.

import type { BytegaugeReport, CellView, FactorView, GroupView } from "./document";

/** The document of a session. */
export type View = BytegaugeReport;
/** The table and the lines of a test. */
export type TestTexts = View["texts"][number];
export type Matrix = NonNullable<View["matrix"]>;

import type { OptionResult, Test } from "./document";
export type { CellView, FactorView, GroupView, OptionResult, Test } from "./document";

/** A factor's level. */
export type Level = string | number | boolean | null;

/** A value with its interval, if it has one. */
export interface Interval {
  mid: number;
  lower: number | null;
  upper: number | null;
}

/** Reads the documents in the page, with the names of options as on the screen. They omit keys without a value. */
export function read(text: string): View[] {
  const views = JSON.parse(text) as View[];
  for (const view of views)
    for (const cell of view.cells)
      if (cell.kind === "candidate") cell.label = optionOf(view, cell)?.label ?? cell.label;
  return views;
}

/** The level of a factor in a cell or group. */
export function level(of: CellView | GroupView, factor: string): Level {
  return ((of.factors as Record<string, Level>)[factor] ?? null) as Level;
}

/** The test of a group: its options and the recommendation. */
export const testOf = (view: View, group: Pick<GroupView, "id">): Test | undefined =>
  view.tests.find(({ id }) => id === group.id);

/** The name of a group for people. */
export const titleOf = (view: View, id: string): string => testOf(view, { id })?.title ?? id;

/** The heading of the intervals of a group's options. */
export const slowerHeading = (view: View, group: Pick<GroupView, "id">): string =>
  view.texts.find(({ test }) => test === group.id)?.columns.at(-1)?.heading ?? "slower by";

/** The interval of a cell as the document has it; `–` without one. */
export function slowerText(view: View, cell: CellView): string {
  const texts = view.texts.find(({ test }) => test === cell.group);
  const at = texts?.rows.indexOf(cell.id) ?? -1;
  return cell.above_best_upper == null ? "–" : (texts?.columns.at(-1)?.texts[at] ?? "–");
}

/** The option of a group to use; null if none is certain. */
export const recommendedOf = (view: View, group: Pick<GroupView, "id">): string | null =>
  testOf(view, group)?.options.find(({ status }) => status === "use")?.id ?? null;

/** The options of a document's tests by their cells, made once: a session can have thousands. */
const optionsOf = new WeakMap<Test[], Map<string, OptionResult>>();

/** The result of a cell. */
export function optionOf({ tests }: View, cell: CellView): OptionResult | undefined {
  let options = optionsOf.get(tests);
  if (!options) {
    options = new Map(tests.flatMap((test) => test.options.map((option) => [option.id, option])));
    optionsOf.set(tests, options);
  }
  return options.get(cell.id);
}

/** The cells of a group that are compared. */
export function candidates(view: View, group: GroupView): CellView[] {
  return view.cells.filter((cell) => cell.group === group.id && cell.kind === "candidate");
}

export function cellOf(view: View, id: string | null | undefined): CellView | undefined {
  return id == null ? undefined : view.cells.find((cell) => cell.id === id);
}

export function groupOf(view: View, id: string | null | undefined): GroupView | undefined {
  return id == null ? undefined : view.groups.find((group) => group.id === id);
}

export function factorOf(view: View, name: string): FactorView {
  const found = view.plan.factors.find((factor) => factor.name === name);
  return found ?? { name, heading: name.replaceAll("_", " "), summary: "", role: "condition", unit: null, names: {} };
}

/** The name of a factor on an axis: `read size`; in a cell it is `read 64 KiB`. */
export function axisName(factor: FactorView): string {
  // The offered rate is not the measured one.
  if (factor.name === "call_rate" || factor.name === "rate") return "offered rate";
  // Names from C stay as they are: `F_SETPIPE_SZ`.
  const short = factor.name.endsWith("_size") && !/size|[A-Z]/.test(factor.heading);
  return short ? `${factor.heading} size` : factor.heading;
}

/** Whether a cell was confirmed, not only screened. */
export function isConfirmed(cell: CellView): boolean {
  return cell.stage === "confirm";
}

export function isMeasured(cell: CellView): boolean {
  return cell.outcome === "measured" && cell.estimate.median != null;
}

/** Whether a session ended without a measured option: then there is nothing to draw. */
export function nothingMeasured({ cells, status }: Pick<View, "cells" | "status">): boolean {
  const compared = cells.filter((cell) => cell.kind === "candidate");
  return status !== "running" && compared.length > 0 && !compared.some(isMeasured);
}

/** The path of a group without a relay: the highest rate that a relay on it can have. */
export function withoutRelay(view: View, group: Pick<GroupView, "id">): CellView | undefined {
  return view.cells.find((cell) => cell.kind === "ceiling" && cell.group === group.id && isMeasured(cell));
}

/** The cell that is selected first: the recommended one, else the one with the smallest upper end, else the fastest. */
export function pivot(view: View, group: GroupView): CellView | undefined {
  const recommended = cellOf(view, recommendedOf(view, group));
  if (recommended) return recommended;
  const measured = candidates(view, group).filter(isMeasured);
  const most = (cell: CellView) => cell.above_best_upper ?? Number.MAX_VALUE;
  const rate = (cell: CellView) => cell.estimate.median ?? 0;
  return [...measured].sort((a, b) => most(a) - most(b) || rate(b) - rate(a))[0];
}

/** Saved figures mention other programs from this CPU use on. */
const OTHERS_MIN = 0.1;

/** Where and when a session was measured, in a line: processor, kernel, date, CPU use of other programs; unknown parts are omitted. */
export function madeAt({ environment, started, version }: View): string {
  const { foreign_cpus: others } = environment;
  const { cpu, kernel_release: kernel } = environment as unknown as {
    cpu?: { model?: unknown; online?: unknown };
    kernel_release?: unknown;
  };
  const parts = [
    typeof cpu?.model === "string" && `${cpu.model}${typeof cpu.online === "number" ? `, ${cpu.online} CPUs` : ""}`,
    typeof kernel === "string" && `Linux ${kernel}`,
    `began ${started}`,
    `bytegauge ${version}`,
    others != null && others >= OTHERS_MIN && `other programs used ${others.toFixed(1)} CPUs`,
  ];
  return parts.filter((part) => part).join(" · ");
}
