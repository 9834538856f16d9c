import { describe, expect, test } from "vitest";
import { along, follows, held, levels, named, partsOf, varying } from "../src/levels";
import { cell, grid, session } from "./planted";

const sized = (id: string, transport: string, read_size: number, congestion: string | null) =>
  cell({ id, factors: { transport, read_size, congestion } });

describe("levels", () => {
  test("names come first, absent levels last", () => {
    const cells = [64, "auto", 4, null, 16].map((value, at) => cell({ id: `c${at}`, factors: { rcvbuf: value } }));
    expect(levels(cells, "rcvbuf")).toEqual(["auto", 4, 16, 64, null]);
  });
  test("names of levels", () => {
    const factor = session([]).plan.factors.find((each) => each.name === "read_size");
    if (!factor) throw new Error("a factor");
    expect([65_536, null, true, "auto"].map((value) => named(value, factor).replaceAll("\u00a0", " "))).toEqual([
      "64 KiB",
      "–",
      "on",
      "auto",
    ]);
  });
  test("a value of a program can be a size", () => {
    const factor = { name: "value", heading: "value", summary: "", role: "choice" as const, unit: null, names: {} };
    const shown = [65_536, 8, 1500, "fast"].map((value) => named(value, factor).replaceAll("\u00a0", " "));
    expect(shown).toEqual(["64 KiB", "8", "1500", "fast"]);
  });
  test("a count has its requested value", () => {
    const factor = { name: "entries", heading: "entries", summary: "", role: "choice" as const, unit: null, names: {} };
    expect([1, 1024, 4096, 20_000, 1_500_000].map((value) => named(value, factor))).toEqual([
      "1",
      "1024",
      "4096",
      "20k",
      "1.5M",
    ]);
  });
  test("a factor varies if two cells differ in it", () => {
    expect(varying(grid(3, 1).cells, ["transport", "read_size", "write_size"])).toEqual(["read_size"]);
  });
});

describe("a line through the plan", () => {
  const cells = [
    sized("a", "tcp", 4, "cubic"),
    sized("b", "tcp", 8, "cubic"),
    sized("c", "tcp", 4, "bbr"),
    sized("d", "unix", 4, null),
    sized("e", "unix", 8, null),
  ];
  const all = ["transport", "read_size", "congestion"];
  const view = session(cells, { varied: all });
  const line = (pivot: number, free: string[]) => along(view, cells, cells[pivot]!, free).map((each) => each.id);

  test("holds every other factor", () => {
    expect(line(0, ["read_size"])).toEqual(["a", "b"]);
    expect(line(4, ["read_size"])).toEqual(["d", "e"]);
  });
  test("an absent factor counts as a level", () => {
    expect(line(0, ["read_size", "transport"])).toEqual(["a", "b"]);
    expect(line(2, ["transport"])).toEqual(["c"]);
    expect(line(3, ["transport"])).toEqual(["d"]);
    expect(held(view, cells, cells[3]!, ["read_size"])).toBe("transport unix, no cc");
  });
  test("holds a condition that follows an option", () => {
    expect(follows(cells, "transport", ["congestion"])).toBe(true);
    expect(line(0, ["read_size", "congestion"])).toEqual(["a", "b", "c"]);
  });
  test("holds an option that follows another one", () => {
    const two = [sized("a", "tcp", 64, "bbr"), sized("b", "tcp", 256, "cubic")];
    const view = session(two, { varied: ["read_size", "congestion"] });
    expect(along(view, two, two[1]!, ["read_size"]).map(({ id }) => id)).toEqual(["b"]);
  });
  test("a relay without a buffer is separate", () => {
    const relay = (id: string, relay: string, relay_buffer: number | null) =>
      cell({ id, factors: { relay, relay_buffer } });
    const relays = [relay("a", "tokio", 8), relay("b", "tokio", 64), relay("c", "copy", 8), relay("d", "splice", null)];
    const view = session(relays, { varied: ["relay", "relay_buffer"] });
    const ids = (pivot: number) => along(view, relays, relays[pivot]!, ["relay"]).map(({ id }) => id);
    expect(ids(0)).toEqual(["a", "c"]);
    expect(ids(3)).toEqual(["d"]);
  });
  test("a free profile frees its parts", () => {
    const tied = [
      ["drain", "none", "tcp"],
      ["sum", "sum", "unix"],
      ["read", "sum", "tcp"],
      ["idle", "none", "unix"],
    ].map(([profile, work, transport], at) =>
      cell({ id: `p${at}`, factors: { profile: profile!, work: work!, transport: transport! } }),
    );
    const view = session(tied, { varied: ["profile", "work", "transport"] });
    const ids = along(view, tied, tied[0]!, ["profile"]).map(({ id }) => id);
    expect(ids, "the transport is held").toEqual(["p0", "p2"]);
    expect(held(view, tied, tied[0]!, ["profile"])).toBe("transport tcp");
    expect(partsOf(view, tied, ["profile"])).toEqual(["work"]);
  });
});
