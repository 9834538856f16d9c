// Numbers as text: binary prefixes for bytes, SI prefixes for counts, three significant digits, rounded to the nearest. The ends
// of intervals are rounded outward (outward.ts).

import { format } from "d3-format";
import { scaleLinear } from "d3-scale";

/** Three significant digits without an exponent: 0.0123, 3.59, 128, 1230. */
export const digits = (value: number, count = 3): string => significant(value, count, "");

/** The same without zeros at the end: 64, not 64.0. */
export const trimmed = (value: number, count = 3): string => significant(value, count, "~");

function significant(value: number, count: number, trim: "" | "~"): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-12) return format(`.${count - 1}${trim}e`)(value);
  return format(size < 10 ** (count - 1) ? `.${count}${trim}r` : ".0f")(value);
}

/** A value in the unit that suits it, which stays on its line. */
function inUnit(value: number, unit: string): string {
  const { name, divisor } = axisUnit(unit, Math.abs(value));
  return withUnit(trimmed(value / divisor), name);
}

/** A number and its unit stay on one line. */
export const withUnit = (text: string, unit: string): string => `${text}\u00a0${unit.replaceAll(" ", "\u00a0")}`;

/** A measured size: rounded. */
export const size = (value: number): string => inUnit(value, "bytes");

/** A duration. */
export const duration = (ns: number): string => inUnit(ns, "ns");

/** A size that is a level: exact, in B unless it is a whole number of KiB. */
export function bytes(value: number): string {
  if (Number.isInteger(value) && value > 1024 && value < 1 << 20 && value % 1024 !== 0)
    return withUnit(`${value}`, "B");
  return size(value);
}

/** A number of things: `1 block`, `2 blocks`. */
export const counted = (many: number, thing: string): string => `${many} ${thing}${many === 1 ? "" : "s"}`;

/** A number and its sign stay on one line. */
export const unbroken = (text: string): string => text.replace(/(\d) (?=%)/g, "$1\u00a0");

/** The prefixes of units, and their base. */
const PREFIXES: Record<string, [names: string[], base: number]> = {
  "bytes/s": [["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s", "PiB/s"], 1024],
  bytes: [["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024],
  ns: [["ns", "µs", "ms", "s"], 1000],
};

/** The unit of an axis that ends at `most`, and its divisor. */
export function axisUnit(unit: string, most: number): { name: string; divisor: number } {
  // `12 k calls/s`: the prefix belongs to the unit.
  const rates = unit.endsWith("/s") ? ["", "k ", "M ", "G "].map((prefix) => `${prefix}${unit}`) : [unit];
  const [names, base] = PREFIXES[unit] ?? [rates, 1000];
  const place = Math.floor(Math.log(Math.max(most, 1) * 1.0001) / Math.log(base)) || 0;
  const last = Math.min(place, names.length - 1);
  return { name: names[last] ?? unit, divisor: base ** last };
}

/** Multiples of powers of ten for ticks of a logarithmic axis, the finest first. */
const ROUND = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]];

/**
 * Round ticks of a logarithmic axis: the first is not above the lowest value, the last not below the highest, so that the labels
 * show the range. The ticks of d3 end inside the range, and its `nice` extends to powers of ten.
 */
export function logTicks(low: number, top: number, room = 8): number[] {
  const [first, last] = [Math.floor(Math.log10(low)) - 1, Math.ceil(Math.log10(top)) + 1];
  const choices = ROUND.map((steps) => {
    const powers = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
    const all = powers.flatMap((power) => steps.map((step) => Number((step * power).toPrecision(12))));
    const from = all.findLastIndex((tick) => tick <= low * 1.001);
    const to = all.findIndex((tick) => tick >= top * 0.999);
    // A single value has a tick on both sides.
    return from < to ? all.slice(from, to + 1) : all.slice(from - 1, from + 2);
  });
  return choices.find((ticks) => ticks.length <= room) ?? choices.at(-1) ?? [];
}

/** Round ticks from 0 to the first one that is not below `most`, in at most `room` steps. */
export function evenTicksTo(most: number, room = 6): number[] {
  if (!(most > 0)) return [0, 1];
  for (let count = Math.max(1, Math.floor(room)); count > 1; count -= 1) {
    const ticks = scaleLinear().domain([0, most]).nice(count).ticks(count);
    if (ticks.length - 1 <= room && (ticks.at(-1) ?? 0) >= most) return ticks;
  }
  return scaleLinear().domain([0, most]).nice(1).ticks(1);
}

/** The text with a capital first letter. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A line as a sentence; commands and names of groups stay as they are. */
export const sentence = (line: string): string => (/^(bytegauge |-|`|g\d)/.test(line) ? line : capital(line));

const SI = format(".3~s");

/** A count with an SI prefix: 20k, 1.5M. */
export const count = (value: number): string =>
  Math.abs(value) < 1000 || !Number.isFinite(value) ? trimmed(value) : SI(value);

/** A share as a percentage, with the digits of the document's texts: 5 %, 0.16 %, 28.5 %, 304 %. */
export function percent(share: number): string {
  return perCent(trimmed(share * 100, Math.abs(share) >= 0.1 ? 3 : 2));
}

/** A number with a per cent sign. */
export const perCent = (text: string): string => `${text}\u00a0%`;

/** A value in a base unit of the document. */
export function quantity(value: number, unit: string | null | undefined): string {
  if (unit === "bytes") return bytes(value);
  if (unit === "share") return percent(value);
  return unit ? inUnit(value, unit) : count(value);
}

/** The first `most` names, and how many more there are. */
export function listed(names: string[], most: number): string {
  const more = names.length - most;
  return [...names.slice(0, most), ...(more > 0 ? [`${more} more`] : [])].join(", ");
}
