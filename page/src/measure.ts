// What can be drawn of a cell: its rate, the other estimates that it has, CPU time.

import type { CellView, Interval } from "./data";
import { quantity, size } from "./format";

export interface Measure {
  key: string;
  label: string;
  unit: string;
  /** Less of it is better. */
  less: boolean;
  of(cell: CellView): Interval | null;
}

const interval = (mid: number | null | undefined, lower?: number | null, upper?: number | null): Interval | null =>
  mid == null ? null : { mid, lower: lower ?? null, upper: upper ?? null };

/** What a rate counts, by its metric. */
export const RATES: Record<string, string> = {
  throughput: "throughput",
  calls: "completed calls",
  nops: "completed operations",
  // Their unit says what is counted.
  runs: "rate",
};

function rate(cells: CellView[]): Measure {
  const estimate = cells[0]?.estimate;
  const both = cells.some((cell) => cell.more["to_bytes_per_second"]) ? ", both directions together" : "";
  const label = `${RATES[estimate?.metric ?? ""] ?? estimate?.metric ?? "rate"}${both}`;
  const of = (cell: CellView) => interval(cell.estimate.median, cell.estimate.lower, cell.estimate.upper);
  return { key: "rate", label, unit: estimate?.unit ?? "", less: false, of };
}

function mean(cells: CellView[]): Measure {
  const of = (cell: CellView) =>
    cell.mean == null || cell.sd == null ? null : interval(cell.mean, cell.mean - cell.sd, cell.mean + cell.sd);
  return { ...rate(cells), key: "mean", label: `${rate(cells).label}, mean ± sd`, of };
}

/** A device is read by one end: what it costs is that one's. */
const cpu = (cells: CellView[]): Measure => ({
  key: "cpu",
  label: `CPU time of ${cells.some(({ cpu: { source, sink } }) => sink && !source) ? "the reader" : "both ends"}`,
  unit: "s/GiB",
  less: true,
  of: (cell) => interval(cell.cpu.ends_s_per_gib),
});

/** A name of the document for people: `total_p99_9_ns` → `latency p99.9`. */
export function nameOf(key: string): string {
  const percentile = key.match(/^(\w+?)_p(\d+)(?:_(\d+))?_ns$/);
  if (percentile) {
    const [, part = "", whole = "", rest] = percentile;
    return `${part === "total" ? "latency" : part.replaceAll("_", " ")} p${whole}${rest ? `.${rest}` : ""}`;
  }
  return key
    .replace(/^total_mean_ns$/, "latency mean")
    .replace(/(^|_)ns_per_/, "$1time per ")
    .replace(/_ns$/, "")
    .replace(/_s_per_(gib|million_calls)$/, "_time")
    .replaceAll("_", " ")
    .replace("cpu", "CPU")
    .replace(/\bnop\b/, "NOP");
}

/** Of a stream a call is a system call of one of its ends, which its name has to say. */
const SYSTEM_CALLS: Record<string, (cells: CellView[]) => string> = {
  // The reader's, or the writer's where whoever reads is not ours.
  ns_per_call: (cells) => `time per ${cells.some(({ counters }) => counters.reads != null) ? "read" : "write"} call`,
  calls_per_second: () => "read calls per second",
};

/** Everything that the cells have a number for, the rate first. */
export function measures(cells: CellView[]): Measure[] {
  const keys = new Map<string, string>();
  for (const cell of cells) {
    for (const [key, estimate] of Object.entries(cell.more)) keys.set(key, estimate.unit);
  }
  const more = [...keys].map(([key, unit]): Measure => {
    const of = (cell: CellView) => {
      const estimate = cell.more[key];
      return estimate ? interval(estimate.median, estimate.lower, estimate.upper) : null;
    };
    return {
      key,
      label: SYSTEM_CALLS[key]?.(cells) ?? nameOf(key),
      unit,
      less: !unit.endsWith("/s") && !key.includes("per_server_cpu_second"),
      of,
    };
  });
  const all = [rate(cells), ...more, mean(cells), cpu(cells)];
  return all.filter((measure) => cells.some((cell) => measure.of(cell) != null));
}

/** What an answer costs beside its rate: the first of these that the cells have. */
export function costOf(cells: CellView[]): Measure | undefined {
  const all = measures(cells);
  // What passes bytes on for others is paid for by its own time.
  const wanted = [
    "relay_cpu_s_per_gib",
    "relay_cpu_s_per_million_calls",
    "server_cpu_ns_per_call",
    "cpu_ns_per_nop",
    "cpu",
  ];
  return wanted.map((key) => all.find((measure) => measure.key === key)).find((measure) => measure != null);
}

/** Calls that carry so many times as much are not compared by their time. */
const CARRIED = 1.5;

/** What a call moved whose time is told, bytes. */
export const movedBy = ({ counters }: CellView): number | undefined =>
  counters.bytes_per_read ?? counters.bytes_per_write ?? undefined;

/** How much calls move whose time is shown, where that is not the same: a longer one may carry more. */
export function carried(cells: CellView[], { key }: Measure): string | false {
  if (key !== "ns_per_call") return false;
  const sizes = cells.flatMap((cell) => movedBy(cell) ?? []);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return (
    most > CARRIED * least &&
    `Calls move from ${size(least)} to ${size(most)} each: compare their times only where they move the same.`
  );
}

/** How many cells have a rate and not this measure, and why; nothing where none. */
export function lacks(cells: CellView[], measure: Measure): string | false {
  const without = cells.filter((cell) => cell.estimate.median != null && measure.of(cell) == null);
  if (without.length === 0 || without.length === cells.length) return false;
  const why = measure.key.includes("cpu")
    ? "the two ends were counted at moments so different that what both used for a byte cannot be added"
    : "too few trials, or too short ones";
  return `${without.length === 1 ? "One has" : `${without.length} have`} no ${measure.label}: ${why}.`;
}

const NAMED_MAX = 3;

/** Cells with what each reaches, the best first: those that a figure has no place for. */
export function atRates(cells: CellView[], measure: Measure): string {
  const known = cells.flatMap((cell) => {
    const mid = measure.of(cell)?.mid;
    return mid == null ? [] : [{ cell, mid }];
  });
  known.sort((a, b) => (measure.less ? a.mid - b.mid : b.mid - a.mid));
  const told = known.slice(0, NAMED_MAX).map(({ cell, mid }) => `${cell.label} (${quantity(mid, measure.unit)})`);
  return [...told, cells.length > told.length && `${cells.length - told.length} more`]
    .filter((part) => part)
    .join(", ");
}
