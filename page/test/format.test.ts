import { describe, expect, test } from "vitest";
import {
  axisUnit,
  bytes,
  count,
  counted,
  digits,
  duration,
  evenTicksTo,
  logTicks,
  percent,
  quantity,
  sentence,
  size,
  trimmed,
  unbroken,
} from "../src/format";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("numbers", () => {
  test("names of groups stay as they are", () => {
    expect(sentence("g1 TCP, peer 16K: trust it less")).toBe("g1 TCP, peer 16K: trust it less");
    expect(sentence("given up")).toBe("Given up");
  });
  test("very large numbers have an exponent", () => {
    expect(trimmed(1e285)).toBe("1e+285");
    expect(trimmed(8.8817e284)).toBe("8.88e+284");
    expect(trimmed(1e-300)).toBe("1e-300");
  });
  test("sizes are binary, and exact where they are no whole KiB", () => {
    expect([0, 512, 5000, 4096, 65_536, 1 << 20, 3.5 * 2 ** 30].map((size) => plain(bytes(size)))).toEqual([
      "0 B",
      "512 B",
      "5000 B",
      "4 KiB",
      "64 KiB",
      "1 MiB",
      "3.5 GiB",
    ]);
  });
  test("durations, counts, shares", () => {
    expect([12, 1500, 2.5e6, 6e10].map((ns) => plain(duration(ns)))).toEqual(["12 ns", "1.5 µs", "2.5 ms", "60 s"]);
    expect([7, 20_000, 1_234_567].map((n) => plain(count(n)))).toEqual(["7", "20k", "1.23M"]);
    expect([0, 0.0016, 0.05, 0.2847, 0.983, 1, 3.04].map((share) => plain(percent(share)))).toEqual([
      "0 %",
      "0.16 %",
      "5 %",
      "28.5 %",
      "98.3 %",
      "100 %",
      "304 %",
    ]);
  });
  test("a zero within a number stays", () => {
    expect([100, 140, 20, 0, 1050].map((value) => trimmed(value))).toEqual(["100", "140", "20", "0", "1050"]);
    expect(trimmed(2.5)).toBe("2.5");
    expect(digits(2.6)).toBe("2.60");
  });
  test("digits are counted after rounding", () => {
    expect([digits(9.98, 2), digits(0.9996), digits(99.95), digits(9.94, 2)]).toEqual(["10", "1.00", "100", "9.9"]);
  });
  test("a line is a sentence, a command is not", () => {
    expect(["all is shown", "bytegauge ab --resume 3 goes on", "--resume"].map(sentence)).toEqual([
      "All is shown",
      "bytegauge ab --resume 3 goes on",
      "--resume",
    ]);
  });
  test("not a number is a dash", () => {
    expect([digits(Number.NaN), digits(Number.POSITIVE_INFINITY), digits(-0.5)]).toEqual(["–", "–", "−0.500"]);
  });
  test("quantities by unit", () => {
    expect(plain(quantity(2 ** 31, "bytes/s"))).toBe("2 GiB/s");
    expect(plain(quantity(12_000, "calls/s"))).toBe("12 k calls/s");
    expect(plain(quantity(0.25, "ns/byte"))).toBe("0.25 ns/byte");
  });
});

describe("words next to numbers", () => {
  test("one of something, and many", () => {
    expect([counted(1, "block"), counted(2, "block"), counted(0, "cell")]).toEqual(["1 block", "2 blocks", "0 cells"]);
  });
  test("a number and its sign stay on one line", () => {
    expect(unbroken("shown at 95 %, these 5 s")).toBe("shown at 95\u00a0%, these 5 s");
  });
  test("measured sizes are rounded", () => {
    expect([size(800_855), size(4_731_244), size(1), size(4 << 20)].map(plain)).toEqual([
      "782 KiB",
      "4.51 MiB",
      "1 B",
      "4 MiB",
    ]);
  });
});

describe("axes", () => {
  test("a unit suits what the axis reaches", () => {
    expect(axisUnit("bytes/s", 4.2 * 2 ** 30)).toEqual({ name: "GiB/s", divisor: 2 ** 30 });
    expect(axisUnit("bytes/s", 0)).toEqual({ name: "B/s", divisor: 1 });
    expect(axisUnit("calls/s", 160_000)).toEqual({ name: "k calls/s", divisor: 1000 });
    expect(axisUnit("ns", 1_000_000)).toEqual({ name: "ms", divisor: 1_000_000 });
    expect(axisUnit("s/GiB", 0.4)).toEqual({ name: "s/GiB", divisor: 1 });
  });
  test("logarithmic ticks", () => {
    expect(logTicks(8, 900), "no value is beyond the last one").toEqual([5, 10, 20, 50, 100, 200, 500, 1000]);
    expect(logTicks(8, 35)).toEqual([7, 10, 15, 20, 30, 40]);
    expect(logTicks(52_000, 95_000)).toEqual([50_000, 70_000, 100_000]);
    expect(logTicks(5, 5), "one value has room about it").toEqual([4, 5, 7]);
    expect(logTicks(1, 1e6)).toEqual([1, 10, 100, 1000, 1e4, 1e5, 1e6]);
  });
  test("from 0 go as far as the largest", () => {
    expect(evenTicksTo(690, 4)).toEqual([0, 200, 400, 600, 800]);
    expect(evenTicksTo(5.32, 3)).toEqual([0, 2, 4, 6]);
    expect(evenTicksTo(1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(evenTicksTo(0)).toEqual([0, 1]);
  });
});
