import { describe, expect, test } from "vitest";
import { along, follows, levels, named, varying } from "../src/levels";
import { cell, grid, session } from "./planted";

const sized = (id: string, transport: string, read_size: number, congestion: string | null) =>
  cell({ id, factors: { transport, read_size, congestion } });

describe("levels", () => {
  test("names come first, numbers ascend, what does not apply is last", () => {
    const cells = [64, "auto", 4, null, 16].map((value, at) => cell({ id: `c${at}`, factors: { rcvbuf: value } }));
    expect(levels(cells, "rcvbuf")).toEqual(["auto", 4, 16, 64, null]);
  });
  test("a level for people", () => {
    const factor = session([]).plan.factors.find((each) => each.name === "read_size");
    if (!factor) throw new Error("a factor");
    expect([65_536, null, true, "auto"].map((value) => named(value, factor).replaceAll("\u00a0", " "))).toEqual([
      "64 KiB",
      "–",
      "on",
      "auto",
    ]);
  });
  test("a program's value has no unit: a size is told as one, a number of threads is not", () => {
    const factor = { name: "value", heading: "value", summary: "", role: "choice" as const, unit: null };
    const shown = [65_536, 8, 1500, "fast"].map((value) => named(value, factor).replaceAll("\u00a0", " "));
    expect(shown).toEqual(["64 KiB", "8", "1500", "fast"]);
  });
  test("a count is told as it was asked for", () => {
    const factor = { name: "entries", heading: "entries", summary: "", role: "choice" as const, unit: null };
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
  const line = (pivot: number, free: string[]) =>
    along(cells, cells[pivot] ?? cells[0]!, all, free).map((each) => each.id);

  test("holds every other factor", () => {
    expect(line(0, ["read_size"])).toEqual(["a", "b"]);
    expect(line(4, ["read_size"])).toEqual(["d", "e"]);
  });
  test("does not hold what does not apply", () => {
    expect(line(0, ["read_size", "transport"])).toEqual(["a", "b", "d", "e"]);
  });
  test("has one cell a place, the pivot where it may", () => {
    expect(line(2, ["transport"])).toEqual(["c", "d"]);
    expect(line(3, ["transport"])).toEqual(["a", "d"]);
  });
  test("lets go what follows from a free factor", () => {
    const tied = [
      ["drain", "none"],
      ["sum", "sum"],
    ].map(([profile, work], at) => cell({ id: `p${at}`, factors: { profile: profile!, work: work! } }));
    expect(follows(tied, "work", ["profile"])).toBe(true);
    expect(along(tied, tied[0]!, ["profile", "work"], ["profile"])).toHaveLength(2);
  });
});
