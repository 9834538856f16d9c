// Numbers for people: binary prefixes for bytes, decimal ones for counts, three significant digits, to the nearest. Bounds and
// the ends of intervals are not (outward.ts).

const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
const DECIMAL = ["", "k", "M", "G", "T"];

/** Three significant digits without an exponent: 0.0123, 3.59, 128, 1230. */
export function digits(value: number, count = 3): string {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  // 9.98 is 10 in two digits, and has no third one then.
  // What no unit brings near to 1 has as many zeros as nobody counts.
  if (Math.abs(value) >= 1e15 || Math.abs(value) < 1e-12) return value.toExponential(count - 1).replace("-", "−");
  const rounded = Math.abs(Number(value.toPrecision(count)));
  const places = Math.max(0, count - 1 - Math.floor(Math.log10(rounded)));
  return value
    .toFixed(Math.min(places, 12))
    .replace(/^-(?=0(\.0*)?$)/, "")
    .replace("-", "−");
}

/** A size that is a level: exact where it is a whole number of KiB or MiB. */
export function bytes(value: number): string {
  if (Number.isInteger(value) && value >= 1024 && value < 1 << 20 && value % 1024 !== 0) return `${value}\u00a0B`;
  return scaled(value, 1024, BINARY, "B");
}

/** A size that was read back: what the system made of it, which nobody asked for to the byte. */
export const size = (value: number): string => scaled(value, 1024, BINARY, "B");

/** How many of something: `1 block`, `2 blocks`. */
export const counted = (many: number, what: string): string => `${many} ${what}${many === 1 ? "" : "s"}`;

/** A number and its sign stay on one line. */
export const unbroken = (text: string): string => text.replace(/(\d) (?=%)/g, "$1\u00a0");

/** A duration. */
export function duration(ns: number): string {
  const sign = ns < 0 ? "−" : "";
  const size = Math.abs(ns);
  const [unit, name] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"] : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${sign}${trimmed(size / unit)}\u00a0${name}`;
}

/** The unit in which an axis that reaches to `most` is labelled, and what its values are divided by. */
export function axisUnit(unit: string, most: number): { name: string; divisor: number } {
  const step = (names: string[], base: number, rest: string) => {
    const place = Math.max(
      0,
      Math.min(names.length - 1, Math.floor(Math.log(Math.max(most, 1) * 1.0001) / Math.log(base))),
    );
    return { name: `${names[place] ?? ""}${rest}`, divisor: base ** place };
  };
  if (unit === "bytes/s") return step(BINARY, 1024, "B/s");
  if (unit === "bytes") return step(BINARY, 1024, "B");
  if (unit === "ns") return step(["ns", "µs", "ms", "s"], 1000, "");
  if (unit.endsWith("/s")) return step(["", "k ", "M ", "G "], 1000, unit);
  return { name: unit, divisor: 1 };
}

/** Multiples of powers of ten that make round ticks, the finest first. */
const ROUND = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]];

/**
 * Ticks of a logarithmic axis, as many as there is room for, at round numbers: the first is not above what is drawn, and the last not
 * below it. An axis that is labelled to its ends tells how large the largest is.
 */
export function logTicks(low: number, top: number, room = 8): number[] {
  const [first, last] = [Math.floor(Math.log10(low)) - 1, Math.ceil(Math.log10(top)) + 1];
  const choices = ROUND.map((steps) => {
    const powers = Array.from({ length: last - first + 1 }, (_, at) => 10 ** (first + at));
    const all = powers.flatMap((power) => steps.map((step) => Number((step * power).toPrecision(12))));
    const from = all.findLastIndex((tick) => tick <= low * 1.001);
    const to = all.findIndex((tick) => tick >= top * 0.999);
    // One value alone has a tick on either side.
    return from < to ? all.slice(from, to + 1) : all.slice(from - 1, from + 2);
  });
  return choices.find((ticks) => ticks.length <= room) ?? choices.at(-1) ?? [];
}

/** Equal steps from 0 to the first round one that is not below `most`: at most so many. */
export function evenTicksTo(most: number, room = 6): number[] {
  if (!(most > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(most));
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10].map((part) => part * power);
  const counted = (step: number) => Math.ceil(most / step - 1e-9);
  const step = steps.find((each) => counted(each) <= Math.max(1, room)) ?? 10 * power;
  return Array.from({ length: counted(step) + 1 }, (_, at) => Number((at * step).toPrecision(12)));
}

/** `a`, `a and b`, `a, b and c`. */
export const enumerated = (parts: string[]): string =>
  [parts.slice(0, -1).join(", "), parts.at(-1)].filter((part) => part).join(" and ");

/** The first letter as it begins a heading. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A line of the first screen as a sentence: what is a command, or the name of a group, stays as it is. */
export const sentence = (line: string): string => (/^(bytegauge |-|`|g\d)/.test(line) ? line : capital(line));

/** A plain count: 20k, 1.5M. */
export function count(value: number): string {
  return scaled(value, 1000, DECIMAL, "").replace("\u00a0", "").trim();
}

/** A share as a percentage, with as many digits as the document's texts have: 5 %, 0.16 %, 28.5 %, 304 %. */
export function percent(share: number): string {
  return perCent(trimmed(share * 100, Math.abs(share) >= 0.1 ? 3 : 2));
}

/** A number of per cent. */
export const perCent = (text: string): string => `${text}\u00a0%`;

/** A value in its base unit, as the document names it. */
export function quantity(value: number, unit: string | null | undefined): string {
  switch (unit) {
    case "bytes":
      return bytes(value);
    case "ns":
      return duration(value);
    case "bytes/s":
      return `${scaled(value, 1024, BINARY, "B")}/s`;
    case "share":
      return percent(value);
    case null:
    case undefined:
    case "":
      return count(value);
    default:
      return unit.endsWith("/s") && value >= 1000
        ? scaled(value, 1000, DECIMAL, ` ${unit}`).replace(" ", "\u00a0")
        : `${count(value)}\u00a0${unit}`;
  }
}

/** What something takes more of, in a word: `more CPU time` of `cpu_ns_per_byte`. */
export const moreOf = (cost: string): string => `more ${resourceOf(cost)}`;

/** What a choice takes. */
export const resourceOf = (cost: string): string => (cost.startsWith("cpu") ? "CPU time" : "time");

/** What costs are counted by: `ns_per_byte` → `time a byte`. */
export function costName(cost: string): string {
  const unit = cost.split("_per_")[1] ?? "unit";
  const what = unit === "nop" ? "an operation" : `a ${unit.replaceAll("_", " ")}`;
  // Of a call it is the server's: nobody chooses his clients.
  const cpu = cost === "cpu_ns_per_call" ? "server CPU time" : "CPU time";
  return `${cost.startsWith("cpu") ? cpu : "time"} ${what}`;
}

function scaled(value: number, step: number, prefixes: string[], unit: string): string {
  if (!Number.isFinite(value)) return "–";
  let size = value;
  let place = 0;
  while (Math.abs(size) >= step && place < prefixes.length - 1) {
    size /= step;
    place += 1;
  }
  return `${trimmed(size)}\u00a0${prefixes[place] ?? ""}${unit}`.trimEnd();
}

/** Significant digits without zeros that say nothing: 64, not 64.0. */
export function trimmed(value: number, count = 3): string {
  const text = digits(value, count);
  return text.includes(".") ? text.replace(/\.?0+(?=e|$)/, "") : text;
}
