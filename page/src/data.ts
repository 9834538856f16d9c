// The documents that the page shows, and what is looked up in them. Knows no statistics: every number is settled before.

import type { BetweenQuestion, BytegaugeBetween } from "./between";
import type { BytegaugeReport, CellView, FactorView, GroupView } from "./document";

export type View = BytegaugeReport;
export type Between = BytegaugeBetween;
export type { BetweenChoice, BetweenDifference, BetweenQuestion } from "./between";
export type {
  CellView,
  CourseView,
  Estimate,
  FactorView,
  GroupView,
  OffCurve,
  OptionResult,
  Slice,
  Test,
  TwinView,
} from "./document";

/** A factor's level. */
export type Level = string | number | boolean | null;

/** A middle with its interval, where there is one. */
export interface Interval {
  mid: number;
  lower: number | null;
  upper: number | null;
}

/** Reads the documents that stand in the page. Keys whose value is not known are left out of them: they read as absent. */
export function read(text: string): View[] {
  return (JSON.parse(text) as View[]).map(readable);
}

/** What stands for the words of a program that were taken out before its session was passed on. */
const REDACTED = "(redacted)";

/** A session whose program is called so where its name was taken out: no answer is headed by brackets. */
export function readable(view: View): View {
  if (!view.check) return view;
  const named = <T>(value: T): T => JSON.parse(JSON.stringify(value ?? null).replaceAll(REDACTED, "the program")) as T;
  return {
    ...view,
    heading: named(view.heading),
    tests: named(view.tests),
    findings: named(view.findings),
    summary: named(view.summary),
    next: named(view.next),
    check: named(view.check),
    groups: named(view.groups),
    notes: named(view.notes),
  };
}

/** Reads what they show beside each other; nothing of one alone. */
export function readBetween(text: string): Between | null {
  return JSON.parse(text) as Between | null;
}

/** The question that a group of a session asks, where others ask it as well. */
export function questionOf(between: Between | null, view: View, group: GroupView): BetweenQuestion | undefined {
  return between?.questions.find(({ groups }) =>
    groups.some((each) => each.session === view.session && each.group === group.id),
  );
}

/** The level of a factor in a cell or group. */
export function level(of: CellView | GroupView, factor: string): Level {
  return ((of.factors as Record<string, Level>)[factor] ?? null) as Level;
}

/** The cells of a group that compete. */
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

/** A factor as an axis names it: `read size`, where a cell says `read 64 KiB`. */
export function axisName(factor: FactorView): string {
  // A rate that is asked for is not the one that is measured.
  if (factor.name === "call_rate" || factor.name === "rate") return "offered rate";
  // What has a name in code has that one alone: `F_SETPIPE_SZ`.
  const short = factor.name.endsWith("_size") && !/size|[A-Z]/.test(factor.heading);
  return short ? `${factor.heading} size` : factor.heading;
}

/** Limits whose names do not explain themselves, as the terminal says them. */
const LIMITS: Record<string, string> = {
  window: "full TCP window",
  "the harness": "bytegauge itself",
  "wake-ups": "waits for wake-ups",
  unknown: "no limit found",
};

/** What limits a cell, for people. */
export const limitName = (name: string): string => LIMITS[name] ?? name;

type Limit = CellView["limit"];

/** The same with what its trials, one by one, show as often or oftener. */
export function limitOf({ name, doubt }: Limit): string {
  if (!doubt) return limitName(name);
  if (name === "unknown") return `perhaps ${limitName(doubt.other)}`;
  if (doubt.other === "unknown") return `perhaps ${limitName(name)}`;
  return byTrials(name, doubt)
    .map(([each]) => each)
    .join(", or ");
}

/** How its trials stand to a limit that is in doubt; nothing where they agree. */
export function inDoubt({ name, doubt }: Limit): string | null {
  if (!doubt) return null;
  const { agree, trials, other, show_other } = doubt;
  return agree === 0
    ? `all trials together show this, and ${limitName(other)} ${show_other} of the ${trials} one by one`
    : byTrials(name, doubt)
        .map(([each, many], at) => `${each} in ${many}${at === 0 ? ` of ${trials} trials` : ""}`)
        .join(", ");
}

/** Both that may limit, that which more of the trials show first, each with how many do. */
function byTrials(name: string, { agree, other, show_other }: NonNullable<Limit["doubt"]>): [string, number][] {
  const own: [string, number] = [limitName(name), agree];
  const others: [string, number] = [limitName(other), show_other];
  return show_other > agree ? [others, own] : [own, others];
}

/** The speeds of a cell that has several: its median tells of none of them. */
export const speedsOf = ({ modes }: Pick<CellView, "modes">): number[] =>
  modes && modes.modes.length > 1 ? modes.modes.map(({ median }) => median) : [];

/** Shown by confirmation, not by screening alone. */
export function isConfirmed(cell: CellView): boolean {
  return cell.stage === "confirm";
}

export function isMeasured(cell: CellView): boolean {
  return cell.outcome === "measured" && cell.estimate.median != null;
}

/** Whether no choice of a session that is over was measured: then there is nothing to draw. */
export function nothingMeasured({ cells, status }: Pick<View, "cells" | "status">): boolean {
  const compared = cells.filter((cell) => cell.kind === "candidate");
  return status !== "running" && compared.length > 0 && !compared.some(isMeasured);
}

/** The path of a group without the relays that are compared on it: what they could reach at most. */
export function withoutRelay(view: View, group: Pick<GroupView, "id">): CellView | undefined {
  return view.cells.find((cell) => cell.kind === "ceiling" && cell.group === group.id && isMeasured(cell));
}

/** The cell that a group is looked at around: the one to use, else the best confirmed, else the fastest seen. */
export function pivot(view: View, group: GroupView): CellView | undefined {
  const named = cellOf(view, group.recommendation.cell ?? group.recommendation.best);
  if (named) return named;
  const measured = candidates(view, group).filter(isMeasured);
  return measured.reduce<CellView | undefined>(
    (best, cell) => ((cell.estimate.median ?? 0) > (best?.estimate.median ?? -1) ? cell : best),
    undefined,
  );
}

/** The parts that all labels of groups share, in the order of the first: `tcp · 8 flows`. */
export function common(labels: string[]): string {
  const [first = [], ...others] = labels.map((label) => label.split(" · "));
  return first.filter((part) => others.every((parts) => parts.includes(part))).join(" · ");
}

/** From here on other programs are told with every picture: they took a tenth of a CPU. */
const FOREIGN = 0.1;

/** Where and when a session was measured, in a line: processor, kernel, date, and what else used CPUs. What nobody read is left out. */
export function madeAt({ environment, started, version }: View): string {
  const { foreign_cpus: foreign } = environment;
  const { cpu, kernel_release: kernel } = environment as unknown as {
    cpu?: { model?: unknown; online?: unknown };
    kernel_release?: unknown;
  };
  const parts = [
    typeof cpu?.model === "string" && `${cpu.model}${typeof cpu.online === "number" ? `, ${cpu.online} CPUs` : ""}`,
    typeof kernel === "string" && `Linux ${kernel}`,
    `began ${started}`,
    `bytegauge ${version}`,
    foreign != null && foreign >= FOREIGN && `other programs used ${foreign.toFixed(1)} CPUs`,
  ];
  return parts.filter((part) => part).join(" · ");
}
