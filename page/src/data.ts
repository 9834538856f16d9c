// The documents of the page and look-ups in them. Computes no statistics: every number comes from the document.

import type { BytegaugeReport, CellView, FactorView, GroupView, OptionResult, Test } from "./document";

/** The document of a session. */
export type View = BytegaugeReport;
/** The table and the lines of a test. */
export type TestTexts = View["texts"][number];

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

/** The name of a group for people. */
export const titleOf = ({ tests }: View, group: string): string => tests.find(({ id }) => id === group)?.title ?? group;

/** The interval of a cell under its heading, as the document has it; nothing without one. */
export function slowerBy(view: View, cell: CellView): string[] {
  const texts = view.texts.find(({ test }) => test === cell.group);
  const column = texts?.columns.at(-1);
  if (cell.above_best_upper == null || !column) return [];
  return [`${column.heading} ${column.texts[texts?.rows.indexOf(cell.id) ?? -1] ?? "–"}`];
}

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

/** Whether a cell is the option to use. */
export const isRecommended = (view: View, cell: CellView): boolean => optionOf(view, cell)?.status === "use";

/** Whether a cell is slower than the best. */
export const isSlower = (view: View, cell: CellView): boolean => optionOf(view, cell)?.status === "avoid";

/** Whether an option can be the best one of its test; null if it was not compared. */
export function mayBeBest(view: View, cell: CellView): "yes" | "no" | null {
  const status = optionOf(view, cell)?.status;
  if (status === "use" || status === "as-good" || status === "undecided") return "yes";
  return status === "avoid" ? "no" : null;
}

/** The cells of a group that are compared. */
export function candidates(view: View, group: GroupView): CellView[] {
  return view.cells.filter((cell) => cell.group === group.id && cell.kind === "candidate");
}

/** The option of a group to use; undefined if none is certain. */
export const recommendedOf = (view: View, group: GroupView): CellView | undefined =>
  candidates(view, group).find((cell) => isRecommended(view, cell));

export const cellOf = (view: View, id: string | null): CellView | undefined =>
  view.cells.find((cell) => cell.id === id);

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

/**
 * The measured options of a group: confirmed ones in the order of the upper ends of their intervals, then those without an
 * interval, the fastest first.
 */
export function ranked(view: View, group: GroupView): CellView[] {
  const most = (cell: CellView) => cell.above_best_upper ?? Number.MAX_VALUE;
  const order = (a: CellView, b: CellView) =>
    Number(isConfirmed(b)) - Number(isConfirmed(a)) ||
    most(a) - most(b) ||
    Number(isRecommended(view, b)) - Number(isRecommended(view, a)) ||
    (b.estimate.median ?? 0) - (a.estimate.median ?? 0);
  return candidates(view, group).filter(isMeasured).sort(order);
}

/** The cell that is selected first: the recommended one, else the first of the ranking. */
export const pivot = (view: View, group: GroupView): CellView | undefined =>
  recommendedOf(view, group) ?? ranked(view, group)[0];

/** Saved figures mention other programs from this CPU use on. */
const OTHERS_MIN = 0.1;

/** Where and when a session was measured, in a line: processor, kernel, date, CPU use of other programs; unknown parts are omitted. */
export function madeAt({ environment, started, version }: View): string {
  const { foreign_cpus: others, cpu, kernel_release: kernel } = environment as View["environment"] & Machine;
  const parts = [
    cpu?.model && `${cpu.model}${cpu.online == null ? "" : `, ${cpu.online} CPUs`}`,
    kernel && `Linux ${kernel}`,
    `began ${started}`,
    `bytegauge ${version}`,
    others != null && others >= OTHERS_MIN && `other programs used ${others.toFixed(1)} CPUs`,
  ];
  return parts.filter((part) => part).join(" · ");
}

/** Facts of a machine that the schema leaves open. */
interface Machine {
  cpu?: { model?: string; online?: number };
  kernel_release?: string;
}
