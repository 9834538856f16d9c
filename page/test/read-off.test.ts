// Texts and numbers of figures that readers quote elsewhere.

import { describe, expect, test } from "vitest";
import { axisName, common, type FactorView, speedsOf } from "../src/data";
import { bulk, course } from "../src/figures/course";
import { roughly, sizeTicks } from "../src/figures/cost";
import { brokenOff } from "../src/figures/compared";
import { forest, rowName } from "../src/figures/forest";
import { percentiles } from "../src/figures/percentiles";
import { indistinct } from "../src/figures/axes";
import { either } from "../src/figures/aa-controls";
import { carried } from "../src/measure";
import { type Figure, type Lacking, readingOf } from "../src/frame";
import type { Looking } from "../src/state";
import { timesOf } from "../src/versus";
import { cell, session } from "./planted";

/** Caption and notes of a figure, with plain blanks; empty without a figure. */
const textOf = (figure: Figure | Lacking | null): string =>
  figure && "caption" in figure ? readingOf(figure).replaceAll("\u00a0", " ") : "";

describe("texts of figures", () => {
  test("the time of one as a multiple of the other", () => {
    expect(timesOf(0.5)).toBe(1.5);
    // A takes a third longer: B takes three quarters of its time.
    expect(timesOf(-1 / 3)).toBeCloseTo(0.75);
    expect(timesOf(null)).toBe(null);
  });
  test("equal distances are equal factors", () => {
    expect(either(1)).toBe(1);
    expect(either(-0.5)).toBe(-1);
    expect(either(-0.65)).toBeCloseTo(-1.857);
  });
  test("an option and its A/A control share a row", () => {
    const view = session(["a", "b"].map((id) => cell({ id, factors: {} })));
    const [group, first] = [view.groups[0], view.cells[0]];
    if (!group || !first) throw new Error("no group");
    view.cells.push({ ...first, id: "t", kind: "twin" });
    const points = { at_ns: [1, 2, 3], block: [0, 1, 2], steal_share: [null, null, null], blocks_per_point: 1 };
    const reading = (cells: string[]) => {
      group.course = { ...points, cells: cells.map((cell) => ({ cell, rate: [1, 2, 3] })) } as never;
      return textOf(course({ view, group, cell: first } as Looking));
    };
    expect(reading(["a"])).toMatch(/^Each mark is one trial/);
    expect(reading(["b", "t", "a"])).toMatch(/^Each row is an option, each mark one trial/);
    expect(reading(["b", "t", "a"])).toContain("A/A control: a is measured twice in each block");
  });
  test("a stalled trial does not flatten the others", () => {
    const steady = Array.from({ length: 40 }, (_, at) => 100 + (at % 7));
    expect(bulk(steady)).toEqual([100, 106]);
    expect(bulk([...steady, 0.01, 5000])).toEqual([100, 106]);
    const slow = Array.from({ length: 8 }, (_, at) => 30 + at / 10);
    expect(bulk([...steady, ...slow])[0], "a slow option").toBe(30);
    expect(bulk([0, 0, 0, 5]), "trials that mostly stalled").toEqual([0, 5]);
    const wide = [1, 2, 4, 8, 16, 32, 64, 128];
    expect(bulk(wide), "a wide range").toEqual([1, 128]);
    const view = session([cell({ id: "a", factors: {} })]);
    const [group, first] = [view.groups[0], view.cells[0]];
    if (!group || !first) throw new Error("no group");
    const points = { at_ns: steady, block: steady, steal_share: steady.map(() => null), blocks_per_point: 1 };
    const reading = (rate: number[]) => {
      group.course = { ...points, cells: [{ cell: "a", rate }] } as never;
      return textOf(course({ view, group, cell: first }));
    };
    expect(reading(steady)).not.toContain("beyond the scale");
    expect(reading([5000, ...steady.slice(1)])).toContain("Marks beyond the scale: 1, drawn as arrows at its edge");
    expect(reading([0.01, ...steady.slice(1)])).toContain("Marks beyond the scale: 1");
    const apart = steady.map((rate, at) => rate / (1 + (at % 3)));
    expect(reading([1, ...apart.slice(1)]), "an axis from 0 has room for it").not.toContain("beyond the scale");
  });
  test("the speeds of a cell", () => {
    const mode = (median: number) => ({ median, share: 0.5 });
    expect(speedsOf({ modes: { modes: [mode(1), mode(2)] } as never })).toEqual([1, 2]);
    expect(speedsOf({ modes: { modes: [mode(1)] } as never })).toEqual([]);
    expect(speedsOf({ modes: null })).toEqual([]);
  });
  test("the names of axes", () => {
    const factor = (name: string, heading: string) => ({ name, heading }) as FactorView;
    expect(axisName(factor("pipe_size", "F_SETPIPE_SZ"))).toBe("F_SETPIPE_SZ");
    expect(axisName(factor("read_size", "read"))).toBe("read size");
    expect(axisName(factor("call_rate", "rate"))).toBe("offered rate");
  });
  test("without intervals the fastest have a row", () => {
    const cells = Array.from({ length: 9 }, (_, at) => cell({ id: `m${at}`, factors: {}, rate: 1e8 * (at + 1) }));
    const view = session(cells, { recommended: null });
    const [group] = view.groups;
    if (!group) throw new Error("no group");
    const points = { at_ns: [1, 2], block: [0, 1], steal_share: [null, null], blocks_per_point: 1 };
    group.course = { ...points, cells: cells.map(({ id }) => ({ cell: id, rate: [1, 2] })) } as never;
    const drawn = course({ view, group, cell: cells[0] });
    expect(textOf(drawn)).toContain("6 of 9 confirmed options have a row");
    expect(drawn && "table" in drawn && drawn.table().rows[0]?.[0]).toBe("m8");
  });
  test("the name of a row has what the option missed", () => {
    const late = { ...cell({ id: "a", factors: {}, bound: [0, 0.1] }), behind: 0.47 };
    const view = session([late, cell({ id: "b", factors: {}, bound: [0, 0.3] })], { recommended: "b" });
    const names = view.cells.map((each) => rowName({ view, group: view.groups[0]! }, each).replaceAll("\u00a0", " "));
    expect(names).toEqual(["a, carried 47 % of the load", "★ b"]);
  });
  test("an option that failed in some blocks has the reason", () => {
    const one = { ...cell({ id: "a", factors: {} }), reason: "the link took too long" };
    expect(brokenOff(one)).toBe("not in every block: the link took too long");
    expect(brokenOff(cell({ id: "b", factors: {} }))).toBe(null);
  });
  test("close sizes have more ticks than powers of two", () => {
    expect(sizeTicks(13.4 * 1024, 20.2 * 1024).map((size) => size / 1024)).toEqual([14, 16, 18, 20, 22]);
    expect(sizeTicks(1024, 27 * 1024).map((size) => size / 1024)).toEqual([1, 2, 4, 8, 16, 32]);
  });
  test("groups without a different factor are not drawn together", () => {
    const view = session(
      ["g1", "g2", "g3"].map((group) =>
        cell({ id: group, group, factors: { transport: group === "g3" ? "unix" : "tcp" } }),
      ),
    );
    const [one, two, three] = view.groups;
    if (!one || !two || !three) throw new Error("three groups");
    const left = (selected: typeof one) => indistinct(view, selected).map(({ id }) => id);
    expect([left(one), left(two), left(three)]).toEqual([["g2"], ["g1"], ["g2"]]);
  });
  test("a computed break has two digits", () => {
    expect([101 * 1024, 68.2 * 1024, 800].map((value) => roughly(value).replaceAll("\u00a0", " "))).toEqual([
      "100 KiB",
      "68 KiB",
      "800 B",
    ]);
  });
  test("conditions of all groups", () => {
    expect(common(["tcp · 8 flows · 2 k", "tcp · 8 flows · 5 k"])).toBe("tcp · 8 flows");
    expect(common([])).toBe("");
  });
  test("times of calls name the sizes that they moved", () => {
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
  test("one option alone is not compared", () => {
    const view = session([cell({ id: "a", factors: {} })]);
    const alone = forest({ view, group: view.groups[0]!, cell: view.cells[0] });
    expect(alone?.title).toContain("only option");
    expect(textOf(alone)).not.toContain("margin");
  });
  test("the ranking marks the recommended option", () => {
    const view = session(["a", "b"].map((id) => cell({ id, factors: {}, bound: [0, 0.04] })));
    expect(textOf(forest({ view, group: view.groups[0]!, cell: view.cells[0] }))).toContain("★ is recommended");
  });
  test("of many options the first ones have a row", () => {
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
    expect(textOf(drawn)).toContain("30 more.");
    expect(textOf(forest({ view, group, cell: undefined }))).toContain("14 of 40 options have a row");
  });
});
