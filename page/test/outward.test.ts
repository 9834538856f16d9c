// The table that outward.rs is tested against as well: both sides print the same number alike.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { slower } from "../src/figures/ratio";
import {
  atLeast,
  atMost,
  ends,
  manyTimes,
  percentOf,
  range,
  rounded,
  upperEnd,
  upTo,
  withInterval,
} from "../src/outward";

type One = [number, string];
const table: {
  at_most: One[];
  at_least: One[];
  percent_up: One[];
  up_to_times: One[];
  range: [number, number, string][];
} = JSON.parse(readFileSync(new URL("../../crates/report/tests/outward.json", import.meta.url), "utf8"));

const plain = (text: string) => text.replaceAll("\u00a0", " ");
/** The first number of a text. */
const number = (text: string) => Number.parseFloat(text.replace("−", "-"));
/** What the last digit of a round number may be beside itself. */
const slack = (value: number) => 1e-9 * Math.max(Math.abs(value), 1);

describe("bounds and intervals", () => {
  test("are rounded outwards, as on the terminal", () => {
    for (const [share, text] of table.at_most) expect(plain(atMost(share))).toBe(text);
    for (const [share, text] of table.at_least) expect(plain(atLeast(share))).toBe(text);
    for (const [share, text] of table.percent_up) expect(plain(percentOf(share, "upper"))).toBe(text);
    for (const [bound, text] of table.up_to_times) expect(plain(manyTimes(1 + bound))).toBe(text);
    for (const [lower, upper, text] of table.range) expect(ends(lower, upper)).toBe(text);
  });

  test("wherever they stand in a text", () => {
    expect(plain(range(0.1259, 0.321))).toBe("12.5 % to 33 %");
    expect(plain(range(0.1259, 44))).toBe("at least 12.5 %");
    expect(plain(withInterval({ mid: 2.8449, lower: 2.7869, upper: 2.8931 }, "ns/byte"))).toBe(
      "2.84 ns/byte (2.78 to 2.9)",
    );
    expect(plain(upperEnd(15_604_500, "calls/s"))).toBe("15.7 M calls/s");
    // What a takes longer is told without its sign: its ends change places.
    const told = slower([-0.2134, -0.1111]);
    expect([told(-0.2134, "lower"), told(-0.1111, "upper"), told(-0.1234)].map(plain)).toEqual([
      "21.4 %",
      "11.1 %",
      "12.3 %",
    ]);
  });

  test("a middle with its interval, all in the unit that suits the middle", () => {
    const told = (mid: number, lower: number | null, upper: number | null, unit: string) =>
      plain(withInterval({ mid, lower, upper }, unit));
    expect(told(1.5 * 2 ** 30, 2 ** 29, 2 ** 31, "bytes/s")).toBe("1.5 GiB/s (0.5 to 2)");
    expect(told(7.57e6, 971e3, 15.6e6, "NOPs/s")).toBe("7.57 M NOPs/s (0.971 to 15.6)");
    expect(told(7.57e6, null, null, "NOPs/s")).toBe("7.57 M NOPs/s");
    expect(told(900, 800, 1000, "calls/s")).toBe("900 calls/s (800 to 1000)");
  });

  test("a bound is rounded up wherever it stands, and one that says nothing has no number", () => {
    expect([upTo(0.06228), upTo(15.77)].map(plain)).toEqual(["≤ 6.3 %", ">900 %"]);
    expect([2, 2.81, 9.95, 10].map(manyTimes).map(plain)).toEqual([
      "up to 2 ×",
      "up to 2.9 ×",
      "up to 10 ×",
      "over 10 ×",
    ]);
    expect([range(null, 0.06228), range(0.77, 1.851), range(0.08, 44)].map(plain)).toEqual([
      "0 % to 6.3 %",
      "77 % to 186 %",
      "at least 8 %",
    ]);
  });

  test("contain what was computed", () => {
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
      expect(number(atLeast(lower)) / 100, `${lower}`).toBeLessThanOrEqual(lower + slack(lower));
      expect(number(percentOf(upper, "upper")) / 100, `${upper}`).toBeGreaterThanOrEqual(upper - slack(upper));
      if (upper >= 0 && upper < 9) {
        expect(number(atMost(upper)) / 100, `${upper}`).toBeGreaterThanOrEqual(upper - slack(upper));
        expect(
          number(
            manyTimes(1 + upper)
              .replace("up to ", "")
              .replace("over ", ""),
          ),
          `${upper}`,
        ).toBeGreaterThanOrEqual(1 + upper - slack(upper));
      }
      expect(number(rounded(upper, "lower", 2)), `${upper}`).toBeLessThanOrEqual(upper + slack(upper));
    }
  });
});
