// The measures of a cell: its rate, its other estimates, CPU time.

import type { CellView, GroupView, Interval } from "./data";
import { counted, listed, quantity, size } from "./format";

export interface Measure {
  key: string;
  label: string;
  unit: string;
  /** Less of it is better. */
  less: boolean;
  of(cell: CellView): Interval | null;
}

/** A value with its interval, as far as both are known. */
export const interval = (
  mid: number | null | undefined,
  lower?: number | null,
  upper?: number | null,
): Interval | null => (mid == null ? null : { mid, lower: lower ?? null, upper: upper ?? null });

/** The names of rates, by their metric. */
export const RATES: Record<string, string> = {
  throughput: "throughput",
  calls: "completed calls",
  nops: "completed operations",
  // The unit has the count.
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

/** Seconds a GiB of nanoseconds a byte. */
const S_PER_GIB = 2 ** 30 / 1e9;

/** CPU time, as the table of options has it: the median over trials, else the sum of all; a device is read by one end. */
const cpu = (cells: CellView[]): Measure => ({
  key: "cpu",
  label: `CPU time of ${cells.some(({ cpu: { source, sink } }) => sink && !source) ? "the reader" : "both ends"}`,
  unit: "s/GiB",
  less: true,
  of: (cell) => {
    const { median, lower, upper } = cell.more["cpu_ns_per_byte"] ?? {};
    const scaled = (value: number | null | undefined) => (value == null ? null : value * S_PER_GIB);
    return median == null ? interval(cell.cpu.ends_s_per_gib) : interval(scaled(median), scaled(lower), scaled(upper));
  },
});

/** A percentile by its key: `total_p99_9_ns` → 99.9 of the part `total`. */
export function percentileIn(key: string): { part: string; percent: number } | null {
  const [, part, whole, rest = "0"] = key.match(/^(\w+?)_p(\d+)(?:_(\d+))?_ns$/) ?? [];
  return part ? { part, percent: Number(`${whole}.${rest}`) } : null;
}

/** The name of a key of the document: `total_p99_9_ns` → `latency p99.9`. */
export function nameOf(key: string): string {
  const percentile = percentileIn(key);
  if (percentile) {
    const { part, percent } = percentile;
    return `${part === "total" ? "latency" : part.replaceAll("_", " ")} p${percent}`;
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

/** In a stream a call is a system call of one end: its name has the end. */
const SYSTEM_CALLS: Record<string, (cells: CellView[]) => string> = {
  // The reader's, or the writer's if the reader is another program.
  ns_per_call: (cells) => `time per ${cells.some(({ counters }) => counters.reads != null) ? "read" : "write"} call`,
  calls_per_second: () => "read calls per second",
};

/** The measure that a figure of a group begins with: the delay that compares its options, else the rate. */
export const usualMeasure = ({ cost }: GroupView): string => (/_(p99|mean)_ns$/.test(cost) ? cost : "rate");

/** All measures that the cells have, the rate first. */
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
      less: !/\/(s|min)$/.test(unit) && !key.includes("per_server_cpu_second"),
      of,
    };
  });
  const all = [rate(cells), ...more, mean(cells), cpu(cells)];
  return all.filter((measure) => cells.some((cell) => measure.of(cell) != null));
}

/** Measures as choices. */
export const choicesOf = (known: Measure[]) => known.map(({ key, label }) => ({ value: key, text: label }));

/** The cost of a rate: the first of these measures that the cells have. */
export function costOf(cells: CellView[]): Measure | undefined {
  const all = measures(cells);
  // The cost of a relay is its own CPU time.
  const wanted = [
    "relay_cpu_s_per_gib",
    "relay_cpu_s_per_million_calls",
    "server_cpu_ns_per_call",
    "cpu_ns_per_nop",
    "cpu",
  ];
  return wanted.map((key) => all.find((measure) => measure.key === key)).find((measure) => measure != null);
}

/** From this ratio of sizes on, the times of calls are not comparable. */
const CARRIED = 1.5;

/** The bytes that a system call of a stream moved, by the measure of its time. */
const MOVED: Record<string, (counters: CellView["counters"]) => number | null | undefined> = {
  ns_per_call: (counters) => counters.bytes_per_read ?? counters.bytes_per_write,
  ns_per_write_call: (counters) => counters.bytes_per_write,
};

/** A note if the calls whose times are shown move different sizes; else false. */
export function carried(cells: CellView[], { key }: Measure): string | false {
  const sizes = cells.flatMap(({ counters }) => MOVED[key]?.(counters) ?? []);
  const [least, most] = [Math.min(...sizes), Math.max(...sizes)];
  return (
    most > CARRIED * least && `Calls move ${size(least)} to ${size(most)} each: compare the times of equal sizes only.`
  );
}

/** A note about cells with a rate but without this measure; else false. */
export function lacks(cells: CellView[], measure: Measure): string | false {
  const without = cells.filter((cell) => cell.estimate.median != null && measure.of(cell) == null);
  if (without.length === 0 || without.length === cells.length) return false;
  const why = measure.key.includes("cpu")
    ? "the ends were counted at times that are too different"
    : "too few trials, or too short ones";
  return `${counted(without.length, "option")} without ${measure.label}: ${why}.`;
}

const NAMED_MAX = 3;

/** Cells with their values, the best first. */
export function atRates(cells: CellView[], measure: Measure): string {
  const known = cells.flatMap((cell) => {
    const mid = measure.of(cell)?.mid;
    return mid == null ? [] : [{ cell, mid }];
  });
  known.sort((a, b) => (measure.less ? a.mid - b.mid : b.mid - a.mid));
  return listed(
    known.map(({ cell, mid }) => `${cell.label} (${quantity(mid, measure.unit)})`),
    NAMED_MAX,
  );
}
