import { describe, expect, test } from "vitest";
import { place, scaleEnd, ticksAs } from "../src/bound";
import { type CellView, madeAt, mayBeBest, nothingMeasured, pivot, ranked } from "../src/data";
import { flat, withRole } from "../src/figures/facts";
import { corners } from "../src/figures/over-time";
import { percentileOf, underLoad } from "../src/figures/percentiles";
import { across, axes, isJoined, spread, topOf } from "../src/figures/axes";
import { inLines, logarithmic, symbolOf, valueAxis } from "../src/look";
import { heatMap } from "../src/figures/heatmap/contents";
import { atRates, costOf, lacks, measures, nameOf } from "../src/measure";
import { csv } from "../src/save";
import { seriesOf, seriesOfLevels } from "../src/series";
import { pieces, type Explained, WORDS } from "../src/words";
import { cell, grid, session } from "./planted";

describe("the picture of an interval", () => {
  test("places ascend to the end of the scale", () => {
    const places = [0, 0.01, 0.05, 1, 2].map((share) => place(share, 2));
    expect(places).toEqual([...places].sort((a, b) => a - b));
    expect(place(1e9, 2)).toBe(place(2, 2));
    expect(place(-1, 2)).toBe(place(0, 2));
    expect(place(0.5, 1) - place(0, 1), "linear").toBeCloseTo(place(1, 1) - place(0.5, 1));
  });
  test("its scale has room for most intervals and for the margin", () => {
    const of = (margin: number, uppers: (number | null)[]) =>
      scaleEnd({ tests: [{ margin, options: uppers.map((upper) => ({ slower_upper: upper })) }] as never });
    expect(of(0.05, [])).toBe(0.1);
    expect(of(0.05, [0.02, 0.04, null])).toBe(0.1);
    expect(of(0.05, [0.1, 0.2, 0.3, 0.4, 30])).toBe(0.5);
    expect(of(0.05, [3, 4])).toBe(5);
    expect(of(0.05, [0.1, 0.2, 0.3, 4, 30])).toBe(2);
    expect(of(0.4, [0.1])).toBe(1);
    expect(of(3, [0.1])).toBe(10);
    expect([ticksAs(true, null)(0.5), ticksAs(false, null)(0.5), ticksAs(false, 0.5)(0.5)]).toEqual([
      "1.5×",
      "50\u00a0%",
      "50\u00a0%\u00a0→",
    ]);
  });
});

test("a rate is a step of its interval", () => {
  expect(corners([5, 7], 10)).toEqual([
    { at: 0, rate: 5 },
    { at: 10, rate: 5 },
    { at: 10, rate: 7 },
    { at: 20, rate: 7 },
  ]);
});

describe("words", () => {
  test("are explained at their first use", () => {
    const text = "Trials of a block: A/A control, screening, and blocks.";
    const found = pieces(text);
    expect(found.map((piece) => piece.text).join("")).toBe(text);
    expect(found.filter((piece) => piece.meaning).map((piece) => piece.text)).toEqual([
      "Trials",
      "block",
      "A/A control",
    ]);
    expect(pieces("nothing of it")).toEqual([{ text: "nothing of it" }]);
    const capitals = pieces("an A/A control of finalists");
    expect(capitals.filter((piece) => piece.meaning).map((piece) => piece.text)).toEqual(["A/A control", "finalists"]);
    expect(pieces("--profile sum, a block-device, flow_2"), "flags and parts of words").toHaveLength(1);
  });
  test("are explained once in a section", () => {
    const known: Explained = new Set();
    const hinted = (text: string) => pieces(text, known).flatMap(({ text, meaning }) => (meaning ? [text] : []));
    expect(hinted("a block of trials")).toEqual(["block", "trials"]);
    expect(hinted("blocks and their margin")).toEqual(["margin"]);
  });
  test("are different", () => {
    expect(new Set(WORDS.map(({ words }) => words[0])).size).toBe(WORDS.length);
  });
});

describe("whether an option can be the best", () => {
  const cells = [
    cell({ id: "a", factors: {}, rate: 1e9, bound: [0, 0.02] }),
    cell({ id: "b", factors: {}, rate: 2e9, bound: [0.2, 0.4] }),
    cell({ id: "c", factors: {}, stage: "screen" }),
  ];
  test("is the status of its test", () => {
    const view = session(cells);
    expect(cells.map((each) => mayBeBest(view, each))).toEqual(["yes", "no", null]);
    expect(ranked(view, view.groups[0]!).map(({ id }) => id)).toEqual(["a", "b", "c"]);
  });
});

test("caches and sizes of the machine have units", () => {
  const facts = {
    cpu: {
      caches: [
        { kind: "Data", level: 1, line_bytes: 64, shared_by: 1, size_bytes: 32_768 },
        { kind: "Unified", level: 3, line_bytes: 64, shared_by: 2, size_bytes: 33_554_432 },
      ],
    },
    memory: { total_bytes: 8_340_000_000 },
  };
  expect(flat(facts).map(([name, value]) => `${name}: ${value.replaceAll("\u00a0", " ")}`)).toEqual([
    "cpu · caches: L1 data 32 KiB, L3 32 MiB (2 CPUs share one)",
    "memory · total_bytes: 7.77 GiB",
  ]);
});

test("of many lines a few are drawn", () => {
  const all = Array.from({ length: 12 }, (_, at) => 2 ** at);
  expect(spread(all.slice(0, 6), 4)).toEqual(all.slice(0, 6));
  expect(spread(all.slice(0, 8), 4)).toHaveLength(5);
  const names = ["epoll", "blocking", "tokio", "uring", "splice", "plain", "mmsg", "gso"];
  expect(spread(names, "gso"), "names have no order").toEqual(names);
  const few = spread(all, 2);
  expect(few).toEqual([1, 2, 8, 64, 256, 2048]);
  expect(spread(all, 2048)).toHaveLength(5);
});

describe("measures", () => {
  test("names", () => {
    expect(nameOf("total_p99_9_ns")).toBe("latency p99.9");
    expect(nameOf("first_byte_p50_ns")).toBe("first byte p50");
    expect(nameOf("cpu_ns_per_nop")).toBe("CPU time per NOP");
    expect(nameOf("server_cpu_ns_per_call")).toBe("server CPU time per call");
    const one = cell({ id: "a", factors: {} });
    one.more = { ns_per_call: { metric: "ns_per_call", unit: "ns", median: 5, lower: null, upper: null } };
    const named = () => measures([one]).find(({ key }) => key === "ns_per_call")?.label;
    expect(named(), "without own reads").toBe("time per write call");
    one.counters.reads = 9;
    expect(named()).toBe("time per read call");
    const time = (unit: string) => ({ metric: "", unit, median: 5, lower: null, upper: null });
    one.more = { server_cpu_ns_per_call: time("ns") };
    expect(costOf([one])?.label).toBe("server CPU time per call");
    one.more["relay_cpu_s_per_gib"] = time("s/GiB");
    expect(costOf([one])?.label, "of a relay").toBe("relay CPU time");
  });
  test("the rate is first; unknown is not 0", () => {
    const known = cell({ id: "a", factors: {} });
    const unknown = cell({ id: "b", factors: {}, rate: null, outcome: "failed" });
    expect(measures([known, unknown]).map((each) => each.key)).toEqual(["rate", "mean", "cpu"]);
    expect(measures([known])[0]?.of(unknown)).toBeNull();
    expect(costOf([unknown])).toBeUndefined();
  });
});

test("percentiles by their keys", () => {
  expect(percentileOf("total_p99_9_ns", "total")).toBeCloseTo(0.999);
  expect(percentileOf("connect_p50_ns", "total")).toBeNull();
  expect(percentileOf("total_mean_ns", "total")).toBeNull();
});

test("the cell that is selected first", () => {
  const cells = [
    cell({ id: "a", factors: {}, rate: 1 }),
    cell({ id: "b", factors: {}, rate: 2 }),
    cell({ id: "c", factors: {}, rate: null, outcome: "failed" }),
  ];
  const of = (recommended: string | null) => {
    const view = session(cells, { recommended });
    return pivot(view, view.groups[0]!)?.id;
  };
  expect([of("a"), of(null)]).toEqual(["a", "b"]);
});

test("a logarithmic axis labels its last tick", () => {
  const ticks = (levels: number[], room: number) => {
    const axis = logarithmic(levels, (value) => `${value}`, room);
    const { ticks: places, tickFormat } = axis as { ticks: number[]; tickFormat(place: number): string };
    return places.map((place) => tickFormat(place));
  };
  expect(ticks([2, 5, 10, 20, 40, 60], 5)).toEqual(["2", "5", "10", "20", "60"]);
  expect(ticks([1, 2, 4, 8], 8)).toEqual(["1", "2", "4", "8"]);
  expect(ticks([7], 3)).toEqual(["7"]);
});

test("one wide interval does not flatten the others", () => {
  const value = (mid: number, upper: number | null) => ({ mid, upper });
  expect(topOf([value(1, 2), value(1.5, 2.4), value(0.9, 15.8)])).toBeCloseTo(2.88);
  expect(topOf([value(1, 2), value(4, 5)])).toBe(5);
  expect(topOf([value(1, null), value(8, null)]), "a measured value").toBe(8);
  expect(topOf([value(3, 4)])).toBe(4);
  expect(topOf([value(0.2, 0.6), value(2, 5.1)], true), "a logarithmic axis has room for it").toBe(5.1);
});

test("a legend has the lines that are drawn", () => {
  expect([1, 2, 3].map((marks) => isJoined(marks, true, 2))).toEqual([false, false, true]);
  expect([1, 2].map((marks) => isJoined(marks, false, 2))).toEqual([false, true]);
  expect(isJoined(5, false, 0), "one series of names").toBe(false);
});

test("the first axis has several levels", () => {
  const of = (profile: string, walk: number, engine: string) =>
    cell({ id: profile + engine, factors: { profile, walk, engine } });
  const cells = ["blocking", "epoll"].flatMap((engine) => [of("drain", 0, engine), of("parser", 524288, engine)]);
  const view = session(cells);
  const plan = { ...view.plan, varied: ["profile", "walk", "engine"] };
  const order = axes(cells, plan.varied);
  expect(order[0]).toBe("walk");
  expect(across({ ...view, plan }, cells, cells[0] as never, order, ["engine"])).toBe("engine");
  const one = cells.filter((each) => each.factors["engine" as never] === "blocking");
  expect(across({ ...view, plan }, one, one[0] as never, axes(one, plan.varied), [])).toBe("profile");
});

test("axes: factors with many numbers first", () => {
  expect(axes(grid(2, 5).cells, ["transport", "read_size", "write_size"])).toEqual(["write_size", "read_size"]);
});

describe("CSV", () => {
  test("quotes, and disarms formulas", () => {
    expect(
      csv({
        columns: ["a", "b"],
        rows: [
          ['print "x", y', null],
          ["=1+1", -2],
        ],
      }),
    ).toBe('a,b\n"print ""x"", y",\n\'=1+1,-2\n');
  });
});

test("a name is broken between words", () => {
  expect(inLines("read 64 KiB, write 1 MiB", 40, 2)).toEqual(["read 64 KiB, write 1 MiB"]);
  expect(inLines("read 64 KiB, write 1 MiB", 14, 2)).toEqual(["read 64 KiB,", "write 1 MiB"]);
  expect(inLines("read 64 KiB, write 1 MiB", 14, 1)).toEqual(["read 64 KiB,…"]);
  expect(inLines("/a/name/without/end", 8, 3)).toEqual(["/a/name/", "without/", "end"]);
  expect(inLines("", 8, 3)).toEqual([]);
});

describe("a heat map without some options", () => {
  const relay = (id: string, relay: string, relay_buffer: number | null, rate: number, stage: "screen" | "confirm") =>
    cell({ id, factors: { relay, relay_buffer }, rate, stage, label: `relay ${relay}` });
  const all = [
    relay("a", "tokio", 8, 4e8, "confirm"),
    relay("b", "tokio", 64, 9e8, "confirm"),
    relay("c", "copy", 8, 1e9, "screen"),
    relay("d", "splice", null, 2 ** 30, "confirm"),
  ];
  const view = session(all, { recommended: null, varied: ["relay", "relay_buffer"] });
  const map = (at: number) => heatMap({ view, group: view.groups[0]!, cell: all[at] }, undefined, "rate")!;
  test("begins at a cell with a tile", () => {
    expect(map(0).chosen.id).toBe("a");
    expect(map(3).chosen.id).toBe("b");
    expect(map(3).placed.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  });
  test("names the options without a tile", () => {
    const { placeless, measure } = map(0);
    expect(atRates(placeless, measure).replaceAll("\u00a0", " ")).toBe("relay splice (1 GiB/s)");
    expect(atRates(Array(5).fill(all[3]), measure)).toMatch(/, 2 more$/);
  });
});

describe("one look for one option", () => {
  const engine = (id: string, server_engine: string, call_rate: number, kind = "candidate") =>
    ({ ...cell({ id, factors: { server_engine, call_rate }, label: `server ${server_engine}` }), kind }) as CellView;
  const cells = [engine("a", "epoll", 1000), engine("b", "blocking", 1000), engine("c", "epoll", 2000)];
  const view = session(cells, { varied: ["server_engine"] });
  view.plan.varied = ["call_rate", "server_engine"];
  test("in each figure and for each level", () => {
    expect(seriesOf(view, [cells[1]!, cells[0]!])).toEqual([1, 0]);
    expect(seriesOf(view, [cells[2]!, cells[1]!])).toEqual([0, 1]);
    expect(seriesOfLevels(view, "server_engine", ["blocking", "epoll"])).toEqual([1, 0]);
  });
  test("an A/A control looks like its option", () => {
    expect(seriesOf(view, [cells[1]!, engine("bt", "blocking", 1000, "twin")])).toEqual([1, 1]);
  });
  test("under all conditions", () => {
    expect(new Set(Array.from({ length: 20 }, (_, at) => `${at % 8} ${symbolOf(at)}`)).size).toBe(20);
    // Congestion control has a level in one group only.
    const read = (group: string, size: number, congestion: string | null) =>
      cell({ id: `${group}${size}`, group, factors: { read_size: size, congestion }, label: `read ${size}` });
    const view = session([
      read("tcp", 1, "cubic"),
      read("tcp", 2, "cubic"),
      read("unix", 2, null),
      read("unix", 4, null),
    ]);
    for (const group of view.groups) group.varied = ["read_size"];
    expect(seriesOf(view, view.cells)).toEqual([0, 1, 1, 2]);
    expect(seriesOfLevels(view, "read_size", [1, 2])).toEqual([0, 1]);
  });
});

test("options at their own rates name their loads", () => {
  const at = (id: string, rate: number) => {
    const found = cell({ id, factors: {}, rate, label: `server ${id}` });
    found.estimate.unit = "calls/s";
    found.call = { knee: {} } as CellView["call"];
    return found;
  };
  const named = [at("epoll", 29_700), at("blocking", 8400)].map(underLoad);
  expect(named.map((name) => name.replaceAll("\u00a0", " "))).toEqual([
    "server epoll, at 29.7 k calls/s",
    "server blocking, at 8.4 k calls/s",
  ]);
  expect(underLoad(cell({ id: "a", factors: {}, label: "server epoll" }))).toBe("server epoll");
});

describe("a session in which nothing was measured", () => {
  const failed = (id: string, outcome: "failed" | "skipped" = "failed") =>
    cell({ id, factors: {}, rate: null, outcome, bound: null });
  test("is over and has no measured option", () => {
    const view = session([failed("a"), failed("b")], { recommended: null });
    expect(nothingMeasured(view)).toBe(true);
    expect(nothingMeasured({ ...view, status: "running" })).toBe(false);
    expect(nothingMeasured(session([failed("a"), cell({ id: "b", factors: {} })]))).toBe(false);
  });
});

test("cells with one name have roles", () => {
  const own = cell({ id: "a", factors: {}, label: "flows 4 (moves nothing)" });
  expect(withRole(own)).toBe("flows 4 (moves nothing)");
  expect(withRole({ ...own, label: "flows 4", kind: "twin" })).toBe("flows 4 (A/A control)");
  expect(withRole({ ...own, kind: "floor" })).toBe("flows 4 (moves nothing)");
});

test("a cell without a measure has the reason", () => {
  const known = cell({ id: "a", factors: {} });
  const cpu = costOf([known])!;
  const without = { ...cell({ id: "b", factors: {} }), cpu: {} } as CellView;
  expect(lacks([known], cpu)).toBe(false);
  expect(lacks([known, without], cpu)).toMatch(/^1 option without CPU time of both ends: /);
});

describe("an axis of values", () => {
  test("has a tick beyond the largest value", () => {
    for (const top of [580, 691, 1001])
      expect((valueAxis("runs", 1e2, top).axis.domain as number[])[1]).toBeGreaterThanOrEqual(top);
    const [low, end] = valueAxis("runs", 3, 691).axis.domain as [number, number];
    expect([low <= Math.log2(3), end >= Math.log2(691)]).toEqual([true, true]);
  });
  test("is logarithmic for a wide range", () => {
    const far = valueAxis("bytes/s", 0.04 * 2 ** 30, 3 * 2 ** 30);
    expect(far.name).toBe("GiB/s, log scale");
    expect(far.place(4)).toBe(2);
    expect(far.place(null)).toBeNaN();
    const near = valueAxis("bytes/s", 1e9, 3e9);
    expect([near.name, near.place(4)]).toEqual(["GiB/s", 4]);
    expect(valueAxis("share", 0.01, 1).name, "a share").not.toContain("log");
  });
});

describe("a saved picture", () => {
  test("has the place and time of the measurement", () => {
    const view = session([]);
    Object.assign(view.environment, { cpu: { model: "EPYC", online: 2 }, kernel_release: "6.1" });
    const made = "EPYC, 2 CPUs · Linux 6.1 · began 2026-01-01T00:00:00Z · bytegauge 0.1.0";
    expect(madeAt(view)).toBe(made);
    view.environment.foreign_cpus = 1.24;
    expect(madeAt(view)).toBe(`${made} · other programs used 1.2 CPUs`);
  });
});
