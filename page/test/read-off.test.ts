// Texts and numbers of figures that readers quote elsewhere.

import { describe, expect, test } from "vitest";
import { axisName, type FactorView } from "../src/data";
import { percentiles } from "../src/figures/percentiles";
import { indistinct } from "../src/figures/axes";
import { carried } from "../src/measure";
import { type Figure, readingOf } from "../src/frame";
import { cell, session } from "./planted";

/** Caption and notes of a figure, with plain blanks; empty without a figure. */
const textOf = (figure: Figure | null): string => (figure ? readingOf(figure).replaceAll("\u00a0", " ") : "");

describe("texts of figures", () => {
  test("the names of axes", () => {
    const factor = (name: string, heading: string) => ({ name, heading }) as FactorView;
    expect(axisName(factor("pipe_size", "F_SETPIPE_SZ"))).toBe("F_SETPIPE_SZ");
    expect(axisName(factor("read_size", "read"))).toBe("read size");
    expect(axisName(factor("call_rate", "rate"))).toBe("offered rate");
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
  test("of many options the fastest ones have a line", () => {
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
  });
});
