// What is read off a figure by itself, and repeated elsewhere: it must say what it is.

import { describe, expect, test } from "vitest";
import { axisName, common, type FactorView, inDoubt, limitName, limitOf, speedsOf } from "../src/data";
import { bulk, course } from "../src/figures/course";
import { roughly, sizeTicks } from "../src/figures/cost";
import { brokenOff, notTheFirst } from "../src/figures/compared";
import { forest } from "../src/figures/forest";
import { percentiles } from "../src/figures/percentiles";
import { indistinct } from "../src/figures/axes";
import { either } from "../src/figures/twins";
import { carried } from "../src/measure";
import { inTimes, range } from "../src/outward";
import { bounds } from "../src/figures/ranking";
import type { Looking } from "../src/state";
import { timesOf } from "../src/versus";
import { cell, session } from "./planted";

describe("numbers that are read off by themselves", () => {
  test("what one of two takes is a multiple of the other's", () => {
    expect(timesOf(0.5)).toBe(1.5);
    // a takes a third longer: b takes three quarters of its time.
    expect(timesOf(-1 / 3)).toBeCloseTo(0.75);
    expect(timesOf(null)).toBe(null);
  });
  test("what lies as far on either side differs by the same factor", () => {
    expect(either(1)).toBe(1);
    expect(either(-0.5)).toBe(-1);
    expect(either(-0.65)).toBeCloseTo(-1.857);
  });
  test("limits have the names that the terminal has", () => {
    expect(["window", "wake-ups", "the harness", "unknown", "sender CPU"].map(limitName)).toEqual([
      "full TCP window",
      "waits for wake-ups",
      "bytegauge itself",
      "no limit found",
      "sender CPU",
    ]);
  });
  test("a limit that its trials do not agree on has the other one beside it", () => {
    const doubt = { trials: 56, agree: 10, other: "relay CPU", show_other: 22 };
    const limit = (change: object) => ({ name: "window", sentence: "it waits", evidence: {}, ...change }) as never;
    expect(limitOf(limit({}))).toBe("full TCP window");
    expect(inDoubt(limit({}))).toBe(null);
    const both = limit({ doubt });
    expect(limitOf(both)).toBe("relay CPU, or full TCP window");
    expect(limitOf(limit({ name: "unknown", doubt }))).toBe("perhaps relay CPU");
    expect(inDoubt(both)).toBe("relay CPU in 22 of 56 trials, full TCP window in 10");
    const none = limit({ doubt: { ...doubt, agree: 0 } });
    expect(inDoubt(none)).toBe("all trials together show this, and relay CPU 22 of the 56 one by one");
  });
  test("a course has a row for each choice, in which its second trials stand as well", () => {
    const view = session(["a", "b"].map((id) => cell({ id, factors: {} })));
    const [group, first] = [view.groups[0], view.cells[0]];
    if (!group || !first) throw new Error("no group");
    view.cells.push({ ...first, id: "t", kind: "twin" });
    const points = { at_ns: [1, 2, 3], block: [0, 1, 2], steal_share: [null, null, null], blocks_per_point: 1 };
    const reading = (cells: string[]) => {
      group.course = { ...points, cells: cells.map((cell) => ({ cell, rate: [1, 2, 3] })) } as never;
      const drawn = course({ view, group, cell: first } as Looking);
      return drawn && "reading" in drawn ? drawn.reading : "";
    };
    expect(reading(["a"])).toMatch(/^Each mark is one trial/);
    expect(reading(["b", "t", "a"])).toMatch(/^A row for each confirmed choice, all on one scale/);
    expect(reading(["b", "t", "a"])).toContain("second trials: a, picked before the first block");
  });
  test("a trial that stalls far from all others does not flatten them", () => {
    const steady = Array.from({ length: 40 }, (_, at) => 100 + (at % 7));
    expect(bulk(steady)).toEqual([100, 106]);
    expect(bulk([...steady, 0.01, 5000])).toEqual([100, 106]);
    const slow = Array.from({ length: 8 }, (_, at) => 30 + at / 10);
    expect(bulk([...steady, ...slow])[0], "a choice that is slow throughout").toBe(30);
    expect(bulk([0, 0, 0, 5]), "what mostly stood still").toEqual([0, 5]);
    const wide = [1, 2, 4, 8, 16, 32, 64, 128];
    expect(bulk(wide), "what lies apart throughout is drawn").toEqual([1, 128]);
    const view = session([cell({ id: "a", factors: {} })]);
    const [group, first] = [view.groups[0], view.cells[0]];
    if (!group || !first) throw new Error("no group");
    const points = { at_ns: steady, block: steady, steal_share: steady.map(() => null), blocks_per_point: 1 };
    const reading = (rate: number[]) => {
      group.course = { ...points, cells: [{ cell: "a", rate }] } as never;
      const drawn = course({ view, group, cell: first });
      return drawn && "reading" in drawn ? drawn.reading.replaceAll("\u00a0", " ") : "";
    };
    expect(reading(steady)).not.toContain("beyond the scale");
    expect(reading([5000, ...steady.slice(1)])).toContain(
      "1 mark lies beyond the scale, drawn as an arrow at its edge",
    );
    expect(reading([0.01, ...steady.slice(1)])).toContain("1 mark lies beyond the scale");
    const apart = steady.map((rate, at) => rate / (1 + (at % 3)));
    expect(reading([1, ...apart.slice(1)]), "an axis from 0 has room for it").not.toContain("beyond the scale");
  });
  test("a cell with several speeds tells them", () => {
    const mode = (median: number) => ({ median, share: 0.5 });
    expect(speedsOf({ modes: { modes: [mode(1), mode(2)] } as never })).toEqual([1, 2]);
    expect(speedsOf({ modes: { modes: [mode(1)] } as never })).toEqual([]);
    expect(speedsOf({ modes: null })).toEqual([]);
  });
  test("an axis has the name in code alone, and a rate that is asked for is not the one that is measured", () => {
    const factor = (name: string, heading: string) => ({ name, heading }) as FactorView;
    expect(axisName(factor("pipe_size", "F_SETPIPE_SZ"))).toBe("F_SETPIPE_SZ");
    expect(axisName(factor("read_size", "read"))).toBe("read size");
    expect(axisName(factor("call_rate", "rate"))).toBe("offered rate");
  });
  test("a course draws the fastest where nothing is bounded, and says so", () => {
    const cells = Array.from({ length: 9 }, (_, at) => cell({ id: `m${at}`, factors: {}, rate: 1e8 * (at + 1) }));
    const view = session(cells, { recommended: null });
    const [group] = view.groups;
    if (!group) throw new Error("no group");
    const points = { at_ns: [1, 2], block: [0, 1], steal_share: [null, null], blocks_per_point: 1 };
    group.course = { ...points, cells: cells.map(({ id }) => ({ cell: id, rate: [1, 2] })) } as never;
    const drawn = course({ view, group, cell: cells[0] });
    if (!drawn || !("reading" in drawn)) throw new Error("no course");
    expect(drawn.reading).toContain("6 of 9 confirmed choices, the fastest;");
    expect(drawn.table().rows[0]?.[0]).toBe("m8");
  });
  test("who leaves a load to others has that beside his name, and it says why another is named", () => {
    const cells = [
      { ...cell({ id: "a", factors: {}, bound: [0, 0.1] }), behind: 0.47 },
      cell({ id: "b", factors: {}, bound: [0, 0.3] }),
    ];
    const view = session(cells, { recommended: "b" });
    const [group] = view.groups;
    if (!group) throw new Error("no group");
    group.spoken_against = ["a"];
    Object.assign(group.recommendation, { cell: "b", proven: false });
    const reading = (forest({ view, group, cell: view.cells[1] })?.reading ?? "").replaceAll("\u00a0", " ");
    expect(reading).toContain("a carried 47 % of the load, which others carry");
    expect(reading).toContain("▸ is named, and is not shown to be good");
  });
  test("what failed in some blocks is said to be, and not that blocks are few", () => {
    const view = session(["a", "b"].map((id) => cell({ id, factors: {} })));
    const [group, one] = [view.groups[0], view.cells[1]];
    if (!group || !one) throw new Error("no group");
    const reading = () => forest({ view, group, cell: view.cells[0] })?.reading;
    expect(reading()).toContain("Too few blocks");
    one.reason = "the link took too long";
    expect(reading()).toContain("In some blocks b failed, so that nothing is compared with it");
    expect(reading()).not.toContain("Too few blocks");
    expect(brokenOff(one)).toBe("not in every block: the link took too long");
  });
  test("sizes that lie close together have more ticks than powers of two", () => {
    expect(sizeTicks(13.4 * 1024, 20.2 * 1024).map((size) => size / 1024)).toEqual([14, 16, 18, 20, 22]);
    expect(sizeTicks(1024, 27 * 1024).map((size) => size / 1024)).toEqual([1, 2, 4, 8, 16, 32]);
  });
  test("what has no bound is not said to be at least nothing", () => {
    expect(range(0, 12)).toBe("no bound");
    expect(range(0.2, 12).replaceAll("\u00a0", " ")).toBe("at least 20 %");
  });
  test("all shares of one answer have the notation of the answer", () => {
    const told = (lower: number, upper: number) =>
      [range(lower, upper, true), bounds(true).most(upper)].map((text) => text.replaceAll("\u00a0", " "));
    expect(told(0.2, 7.53)).toEqual(["1.2 × to 8.6 ×", "≤ 8.6 ×"]);
    expect(inTimes({ recommendation: { bound: 7.53 } })).toBe(true);
    expect(inTimes({ recommendation: { bound: 0.4 } })).toBe(false);
  });
  test("groups that no factor tells apart are not drawn as one", () => {
    const view = session(
      ["g1", "g2", "g3"].map((group) =>
        cell({ id: group, group, factors: { transport: group === "g3" ? "unix" : "tcp" } }),
      ),
    );
    const [one, two, three] = view.groups;
    if (!one || !two || !three) throw new Error("three groups");
    const left = (looked: typeof one) => indistinct(view, looked).map(({ id }) => id);
    expect([left(one), left(two), left(three)]).toEqual([["g2"], ["g1"], ["g2"]]);
  });
  test("a break that was worked out has two digits", () => {
    expect([101 * 1024, 68.2 * 1024, 800].map((value) => roughly(value).replaceAll("\u00a0", " "))).toEqual([
      "100 KiB",
      "68 KiB",
      "800 B",
    ]);
  });
  test("conditions that all groups share", () => {
    expect(common(["tcp · 8 flows · 2 k", "tcp · 8 flows · 5 k"])).toBe("tcp · 8 flows");
    expect(common([])).toBe("");
  });
  test("a call that carries more is said beside its time", () => {
    const cells = [8192, 65536].map((bytes, at) => {
      const one = cell({ id: `c${at}`, factors: {} });
      one.counters.bytes_per_read = bytes;
      return one;
    });
    const measure = (key: string) => ({ key }) as Parameters<typeof carried>[1];
    expect(carried(cells, measure("ns_per_call"))).toContain("8\u00a0KiB to 64\u00a0KiB");
    expect(carried(cells.slice(1), measure("ns_per_call"))).toBe(false);
    expect(carried(cells, measure("rate"))).toBe(false);
  });
  test("of one choice, and of two, nothing is said to be within the margin", () => {
    const looking = (view: ReturnType<typeof session>): Looking => {
      const [group] = view.groups;
      if (!group) throw new Error("a group");
      return { view, group, cell: view.cells[0] };
    };
    const alone = forest(looking(session([cell({ id: "a", factors: {} })])));
    expect(alone?.title).toContain("nothing to compare it with");
    expect(alone?.reading).not.toContain("margin");
    const open = session(["a", "b"].map((id) => cell({ id, factors: {}, bound: [0, 12] })));
    for (const group of open.groups) Object.assign(group.recommendation, { proven: false, bound: 12 });
    const reading = forest(looking(open))?.reading ?? "";
    expect(reading, "once, and no bar says it").toContain("No choice has a bound yet");
    expect(reading).not.toContain("smallest bound, and");
    expect(forest(looking(open))?.title).toBe("The confirmed choices, the fastest first: nothing bounds them yet");
    const [, second] = open.cells;
    if (second) second.above_best_lower = 2;
    expect(forest(looking(open))?.title, "of one something is shown").toContain("ranked");
    expect(forest(looking(open))?.reading).toContain("nothing bounds yet how much more it may take");
  });
  test("what speaks against a choice stands in its ranking as well", () => {
    const view = session(["a", "b"].map((id) => cell({ id, factors: {}, bound: [0, 0.04] })));
    const [row] = view.tests;
    if (row) row.state = "inconclusive";
    const [group] = view.groups;
    if (!group) throw new Error("a group");
    expect(forest({ view, group, cell: view.cells[0] })?.reading).toContain("Inconclusive: the intervals are wide");
  });
  test("of many choices a few are drawn, the fastest where none is bounded, and few are named that are not", () => {
    const cells = Array.from({ length: 40 }, (_, at) => {
      const found = cell({ id: `m${at}`, factors: { server_engine: `m${at}` }, rate: 1e5 * (at + 1) });
      found.call = { timing: "closed loop", errors: [] } as unknown as NonNullable<typeof found.call>;
      found.more = { total_p50_ns: { median: 1e6 + at, unit: "ns", metric: "time" } } as never;
      return found;
    });
    const view = session(cells, { recommended: null, varied: ["server_engine"] });
    const [group] = view.groups;
    if (!group) throw new Error("a group");
    const drawn = percentiles({ view, group, cell: undefined }, () => {});
    expect(drawn?.table().rows[0]?.[0]).toBe("m39");
    expect(drawn?.reading).toContain("m0, m1, m2, m3, 30 more.");
    expect(forest({ view, group, cell: undefined })?.reading).toContain("Drawn are the first 14 of 40");
  });
  test("of two none is named, whatever has the highest rate", () => {
    const view = session(["a", "b"].map((id, at) => cell({ id, factors: {}, rate: 1e9 * (at + 1), bound: [0, 0.4] })));
    const [group] = view.groups;
    if (!group) throw new Error("a group");
    const looking = () => notTheFirst({ view, group, cell: view.cells[0] });
    expect(looking()).toContain("has not the highest rate");
    view.versus = {} as NonNullable<typeof view.versus>;
    expect(looking()).toBe(null);
  });
});
