// Rounding outward, by the table that outward.rs is tested with: both sides print the same text.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { ends, percentOf, rounded, upperEnd, withInterval } from "../src/outward";

type One = [number, string];
const table: {
  percent_up: One[];
  range: [number, number, string][];
} = JSON.parse(readFileSync(new URL("../../crates/report/tests/outward.json", import.meta.url), "utf8"));

const plain = (text: string) => text.replaceAll("\u00a0", " ");
/** The first number of a text. */
const number = (text: string) => Number.parseFloat(text.replace("−", "-"));
/** The largest rounding error of a number. */
const slack = (value: number) => 1e-9 * Math.max(Math.abs(value), 1);

describe("ends of intervals", () => {
  test("are rounded outwards, as on the terminal", () => {
    for (const [share, text] of table.percent_up) expect(plain(percentOf(share, "upper"))).toBe(text);
    for (const [lower, upper, text] of table.range) expect(ends(lower, upper)).toBe(text);
  });

  test("in texts", () => {
    expect(plain(withInterval({ mid: 2.8449, lower: 2.7869, upper: 2.8931 }, "ns/byte"))).toBe(
      "2.84 ns/byte (2.78 to 2.9)",
    );
    expect(plain(upperEnd(15_604_500, "calls/s"))).toBe("15.7 M calls/s");
  });

  test("a value with its interval in one unit", () => {
    const text = (mid: number, lower: number | null, upper: number | null, unit: string) =>
      plain(withInterval({ mid, lower, upper }, unit));
    expect(text(1.5 * 2 ** 30, 2 ** 29, 2 ** 31, "bytes/s")).toBe("1.5 GiB/s (0.5 to 2)");
    expect(text(7.57e6, 971e3, 15.6e6, "NOPs/s")).toBe("7.57 M NOPs/s (0.971 to 15.6)");
    expect(text(7.57e6, null, null, "NOPs/s")).toBe("7.57 M NOPs/s");
    expect(text(900, 800, 1000, "calls/s")).toBe("900 calls/s (800 to 1000)");
  });

  test("contain the computed interval", () => {
    // xorshift32 (Marsaglia 2003): the same numbers in every run.
    let state = 2463534242;
    const uniform = () => {
      for (const [left, by] of [
        [true, 13],
        [false, 17],
        [true, 5],
      ] as const)
        state ^= left ? state << by : state >>> by;
      return (state >>> 0) / 2 ** 32;
    };
    for (let run = 0; run < 2_000; run += 1) {
      const scale = 10 ** Math.floor(uniform() * 9 - 5);
      const [lower, upper] = [uniform(), uniform()].map((part) => (part * 13 - 1) * scale).sort((a, b) => a - b) as [
        number,
        number,
      ];
      const [from, to] = ends(lower, upper).split(" to ").map(number) as [number, number];
      expect(from, `${lower}`).toBeLessThanOrEqual(lower + slack(lower));
      expect(to, `${upper}`).toBeGreaterThanOrEqual(upper - slack(upper));
      expect(number(percentOf(upper, "upper")) / 100, `${upper}`).toBeGreaterThanOrEqual(upper - slack(upper));
      expect(number(rounded(upper, "lower", 2)), `${upper}`).toBeLessThanOrEqual(upper + slack(upper));
    }
  });
});
