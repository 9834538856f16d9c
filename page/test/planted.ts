// Small documents for tests, with the types of the schema.

import { type CellView, type GroupView, type Level, type Test, type TestTexts, type View } from "../src/data";

export interface PlantedCell {
  id: string;
  group?: string;
  factors: Record<string, Level>;
  rate?: number | null;
  stage?: "screen" | "confirm";
  outcome?: "measured" | "skipped" | "failed";
  bound?: [number, number] | null;
  label?: string;
}

export function cell(planted: PlantedCell): CellView {
  const { id, group = "g1", factors, rate = 1e9, stage = "confirm", outcome = "measured", bound = null } = planted;
  const known = rate != null && stage === "confirm";
  const found: Partial<CellView> = {
    id,
    group,
    kind: "candidate",
    label: planted.label ?? id,
    stage,
    outcome,
    trials: stage === "confirm" ? 12 : 2,
    factors: factors as CellView["factors"],
    failed_trials: outcome === "failed" ? 3 : 0,
    stolen_trials: 0,
    estimate: {
      metric: "throughput",
      unit: "bytes/s",
      median: rate,
      lower: known ? rate * 0.9 : null,
      upper: known ? rate * 1.1 : null,
    },
    more: {},
    counters: { options: {} } as CellView["counters"],
    cpu: { ends_s_per_gib: rate == null ? null : 0.4 } as CellView["cpu"],
    limit: {
      title: "sender CPU",
      name: "sender CPU",
      sentence: "the writer runs all the time",
      brief: "the writer runs all the time",
      evidence: {},
    } as CellView["limit"],
    above_best_lower: bound?.[0] ?? null,
    above_best_upper: bound?.[1] ?? null,
    mean: rate,
    sd: rate == null ? null : rate * 0.05,
  };
  return found as CellView;
}

const FACTORS: View["plan"]["factors"] = [
  {
    name: "transport",
    heading: "transport",
    summary: "",
    role: "condition",
    unit: null,
    names: { tcp: "one connection after another" },
  },
  { name: "read_size", heading: "read", summary: "", role: "choice", unit: "bytes", names: {} },
  { name: "write_size", heading: "write", summary: "", role: "choice", unit: "bytes", names: {} },
  { name: "congestion", heading: "cc", summary: "", role: "choice", unit: null, names: {} },
];

/** A session of one group, unless the cells name others. */
export function session(
  cells: CellView[],
  change: { name?: string; best?: string[]; recommended?: string | null; varied?: string[] } = {},
): View {
  const varied = change.varied ?? ["read_size", "write_size"];
  const recommended = change.recommended === undefined ? (cells[0]?.id ?? null) : change.recommended;
  const groups = [...new Set(cells.map((each) => each.group))].map((id, at): Partial<GroupView> => ({
    id,
    factors: (cells.find((each) => each.group === id)?.factors ?? {}) as GroupView["factors"],
    varied,
    cost: "ns_per_byte",
    best_set: at === 0 ? (change.best ?? (recommended ? [recommended] : [])) : [],
    spoken_against: [],
    blocks: { used: 12, broken: 0, mean_ns: 1e6 },
    recommendation: {
      cell: at === 0 ? recommended : null,
      proven: true,
      margin: 0.05,
      bound: 0.03,
      survives_exchange: true,
      best: recommended,
      more_blocks: null,
    },
    cost_model: { reader: null, writer: null } as GroupView["cost_model"],
    twin: null,
    throws_away: false,
  }));
  const tests = groups.map((group, at) => test(group, cells, at === 0 ? recommended : null));
  const view: Partial<View> = {
    schema_version: 4,
    session: 1,
    status: "complete",
    started: "2026-01-01T00:00:00Z",
    elapsed_ns: 6e10,
    version: "0.1.0",
    seed: 1,
    plan: {
      name: change.name ?? "buffer-size",
      workload: "stream",
      margin: 0.05,
      level: 0.95,
      budget_ns: 6e10,
      audit_share: null,
      answered_share: 0.95,
      ends: null,
      varied,
      factors: FACTORS,
    },
    environment: {
      grade: "A",
      reasons: [],
      steal_share: 0,
      steal_share_worst: 0,
      foreign_cpus: 0,
      throttled_us: 0,
      twin_reach: 0.02,
      os: { kernel: "6.1" },
    } as unknown as View["environment"],
    heading: `bytegauge ${change.name ?? "buffer-size"} #1  56 s`,
    tests,
    sentence: "Use 64K: at most 5 % slower than the best.",
    decisions: tests.map(({ id, name }) => ({
      test: id,
      name,
      set: "64K",
      rate: "1",
      unit: "GiB/s",
      is_certain: true,
      why: "at most 5 % slower than the best",
    })),
    matrix: null,
    texts: tests.map(textsOf),
    cautions: ["CPU steal in 1 of 9 trials."],
    findings: [
      {
        kind: "noise",
        cause: "steal",
        amount: 1,
        of: 9,
        severity: "warning",
        test: null,
        option: null,
        text: "CPU steal in 1 of 9 trials.",
      },
    ] as unknown as View["findings"],
    scope: ["Loopback, without a network."],
    next: [{ command: "bytegauge report 1 --full", text: "see all details" }],
    floor: { ns_per_call: null, trials: 0, fastest_cell: null, fastest_ns_per_call: null, share: null },
    cells,
    groups: groups as GroupView[],
    notes: [],
  };
  return view as View;
}

/** The test of a group: every cell is an option. */
function test(group: Partial<GroupView>, cells: CellView[], recommended: string | null): Test {
  const own = cells.filter((each) => each.group === group.id && each.kind === "candidate");
  const found: Partial<Test> = {
    id: group.id ?? "",
    title: group.id ?? "",
    name: group.id ?? "",
    compares: "time",
    unit: "bytes/s",
    margin: 0.05,
    claim: (recommended
      ? { kind: "use", options: [recommended], at_most: 0.03 }
      : { kind: "invalid", reason: "few-blocks" }) as Test["claim"],
    options: own.map((each) => ({
      id: each.id,
      label: each.label,
      settings: {},
      status: each.id === recommended ? "use" : statusOf(each),
      rate: each.estimate.median ?? null,
      trials: each.trials,
      slower_lower: each.above_best_lower ?? null,
      slower_upper: each.above_best_upper ?? null,
      reason: each.reason ?? undefined,
    })) as unknown as Test["options"],
  };
  return found as Test;
}

/** The texts of a test on the screen. */
function textsOf({ id, options }: Test): TestTexts {
  const rated = options.filter(({ rate }) => rate != null);
  return {
    test: id,
    rows: rated.map(({ id }) => id),

    columns: [
      { heading: "GiB/s", texts: rated.map(({ rate }) => `${(rate ?? 0) / 1e9}`), right: true, brief: true },
      {
        heading: "slower by",
        texts: rated.map(({ slower_upper: upper }) => (upper == null ? "–" : "0–5 %")),
        right: false,
        brief: true,
      },
    ],
    basis: null,
    without_result: options
      .filter(({ rate }) => rate == null)
      .map(({ label, status, reason }) => `${label}  ${status}${reason ? `: ${reason}` : ""}`),
    facts: [{ heading: "In the program", text: "read(fd, buf, 65536)" }],
    details: ["read 64 KiB: a read moved 60 KiB on average"],
  };
}

/** The status of an option, by its interval and a margin of 5 %. */
function statusOf({ outcome, above_best_lower: lower, above_best_upper: upper }: CellView): string {
  if (outcome !== "measured") return outcome;
  if (upper == null) return "dropped";
  return upper <= 0.05 ? "as-good" : (lower ?? 0) > 0.05 ? "avoid" : "undecided";
}

/** A long trial of some flows with different rates, in steps of a second. */
export function overTime(cell: string, flows: number, steps: number): NonNullable<GroupView["over_time"]> {
  const rates = Array.from({ length: flows }, (_, flow) =>
    Array.from({ length: steps }, (_, step) => 1e8 * (flow + 1) + 1e7 * ((step * 7 + flow) % 5)),
  );
  const sum = Array.from({ length: steps }, (_, step) => rates.reduce((all, own) => all + (own[step] ?? 0), 0));
  const mean = sum.reduce((all, rate) => all + rate, 0) / steps;
  return { cell, interval_ns: 1e9, unit: "bytes/s", flows: rates, sum, mean, spread: 0.04 };
}

/** The same session with a long trial. */
export function long(view: View): View {
  for (const group of view.groups) {
    const [own] = view.cells.filter((each) => each.group === group.id && each.stage === "confirm");
    group.over_time = overTime(own?.id ?? "", 3, 40);
  }
  return view;
}

/** A grid of sizes, `across` × `down`, the first of which is to be used. */
export function grid(across: number, down: number): View {
  const cells: CellView[] = [];
  for (let x = 0; x < across; x += 1) {
    for (let y = 0; y < down; y += 1) {
      const confirmed = x < 2 && y < 2;
      cells.push(
        cell({
          id: `c${x}-${y}`,
          factors: { transport: "unix", read_size: 1024 * (x + 1), write_size: 1024 * (y + 1) },
          rate: 1e9 + 1e7 * ((x * 7 + y * 3) % 100),
          stage: confirmed ? "confirm" : "screen",
          bound: confirmed ? [0, 0.02 + 0.03 * (x + y)] : null,
        }),
      );
    }
  }
  return session(cells, { best: ["c0-0", "c1-0"] });
}
