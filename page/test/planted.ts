// Small documents for tests, with the types of the schema.

import {
  type Between,
  type BetweenDifference,
  type CellView,
  type GroupView,
  type Level,
  level,
  type Test,
  type TestTexts,
  type View,
} from "../src/data";

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
    label: `${change.name ?? "unix"} · ${id}`,
    factors: (cells.find((each) => each.group === id)?.factors ?? {}) as GroupView["factors"],
    varied,
    cost: "ns_per_byte",
    best_set: at === 0 ? (change.best ?? (recommended ? [recommended] : [])) : [],
    undecided: [],
    spoken_against: [],
    avoid: [],
    blocks: { used: 12, broken: 0, mean_ns: 1e6 },
    recommendation: {
      cell: at === 0 ? recommended : null,
      proven: true,
      margin: 0.05,
      bound: 0.03,
      survives_exchange: true,
      best: recommended,
      more_blocks: null,
      likely_bound: null,
    },
    cost_model: { reader: null, writer: null } as GroupView["cost_model"],
    twin: null,
    course: null,
    throws_away: false,
  }));
  const tests = groups.map((group, at) => test(group, cells, at === 0 ? recommended : null));
  const view: Partial<View> = {
    schema_version: 3,
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
    heading: `bytegauge ${change.name ?? "buffer-size"} · session 1`,
    tests,
    screen: {
      result: ["Result", ""],
      results: [{ heading: "Result", text: "Use 64K, within 5 % of the best." }],
      reasons: [{ heading: "Bottleneck", text: "sender CPU" }],
      facts: [],
      legend: [],
      overview_head: ["", "use", "GiB/s"],
      overview: tests.map(({ name }) => [name, "64K", "1"]),
      units: [],
      tests: tests.map(textsOf),
      findings: [["Caveat", ["CPU steal in 1 of 9 trials."]]],
    },
    findings: [
      { kind: "steal", severity: "warning", test: null, option: null, text: "CPU steal in 1 of 9 trials." },
    ] as View["findings"],
    summary: [{ heading: "Result", text: "Use 64K, within 5 % of the best." }],
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
    title: group.label ?? "",
    name: group.label ?? "",
    heading: group.label ?? "",
    conditions: "",
    result: recommended ? "use 64K, within 5 % of the best" : "no result",
    code: recommended ? ["read(fd, buf, 65536)"] : [],
    compares: "time",
    slower_heading: "slower than best (95 %)",
    unit: "bytes/s",
    margin: 0.05,
    state: recommended ? "decided" : "unconfirmed",
    recommended,
    because: recommended ? "smallest" : null,
    bottleneck: { limit: "sender CPU", text: "sender CPU: the writer runs all the time" } as Test["bottleneck"],
    options: own.map((each) => ({
      id: each.id,
      label: each.label,
      settings: {},
      status: statusOf(each),
      rate: each.estimate.median ?? null,
      trials: each.trials,
      slower_lower: each.above_best_lower ?? null,
      slower_upper: each.above_best_upper ?? null,
      slower: each.above_best_upper == null ? "screened only" : "0–5 %",
      reason: each.reason ?? undefined,
    })) as unknown as Test["options"],
  };
  return found as Test;
}

/** The texts of a test on the screen. */
function textsOf({ options, recommended, result, code }: Test): TestTexts {
  const known = options.filter(({ rate }) => rate != null);
  const rated = known.filter(({ slower_upper: upper }) => known.length <= 12 || upper != null).slice(0, 48);
  return {
    rows: rated.map(({ id }) => id),
    hidden: known.length - rated.length,
    columns: [
      { heading: "GiB/s", texts: rated.map(({ rate }) => `${(rate ?? 0) / 1e9}`), right: true },
      { heading: "slower than best (95 %)", texts: rated.map(({ slower }) => slower), right: false },
    ],
    marks: rated.map(({ id }) => (id === recommended ? "use (smallest)" : "")),
    multiples: false,
    without_result: options
      .filter(({ rate }) => rate == null)
      .map(({ label, status, reason }) => `${label}  ${status}${reason ? `: ${reason}` : ""}`),
    facts: [["Result", result], ...code.map((line): [string, string] => ["In the program", line])],
    details: ["read 64 KiB: a read moved 60 KiB on average"],
  };
}

/** The status of an option, by its interval and a margin of 5 %. */
function statusOf({ outcome, above_best_lower: lower, above_best_upper: upper }: CellView): string {
  if (outcome !== "measured") return outcome;
  if (upper == null) return "unconfirmed";
  return upper <= 0.05 ? "best" : (lower ?? 0) > 0 ? "slower" : "tied";
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

/** The same session with the parts of a long one: course, residuals, A/A controls, probes. */
export function long(view: View): View {
  const points = 120;
  for (const group of view.groups) {
    const own = view.cells.filter((each) => each.group === group.id && each.stage === "confirm");
    group.course = {
      blocks_per_point: 40,
      block: Array.from({ length: points }, (_, at) => at * 40),
      at_ns: Array.from({ length: points }, (_, at) => at * 1e9),
      steal_share: Array.from({ length: points }, (_, at) => (at % 10 === 0 ? 0.04 : 0)),
      cells: own.map((each) => ({
        cell: each.id,
        rate: Array.from({ length: points }, (_, at) => (at % 7 === 0 ? null : 1e9 + 1e7 * (at % 13))),
      })),
    };
    group.over_time = overTime(own[0]?.id ?? "", 3, 40);
    const residuals = Array.from({ length: 600 }, (_, at) => ({
      cell: own[at % own.length]?.id ?? "",
      block: at,
      bytes_per_call: 1000 << ((at % own.length) % 8),
      ln: ((at % 21) - 10) / 100,
    }));
    const slice = {
      metric: "on_cpu_ns_per_call",
      trials: 24_000,
      per_call_ns: 900,
      segments: [
        { from_bytes: 0, per_byte_ns: 0.2 },
        { from_bytes: 2048, per_byte_ns: 0.3 },
      ],
      breaks: [{ at_bytes: 2048, lower_bytes: 1500, upper_bytes: 3000, p: 0.01 }],
      relative_error: 0.05,
      residuals,
      off_curve: own.slice(0, 3).map(({ id }, at) => ({
        cell: id,
        asked_bytes: 1024 << at,
        bytes_per_call: 1000 << at,
        ln: at / 50,
        is_off: at === 2,
      })),
    };
    group.cost_model = { reader: slice, writer: slice } as unknown as GroupView["cost_model"];
    group.audit = {
      choice: own[0]?.id ?? "",
      finding: "contradicts",
      bound: 0.2,
      better: own[1]?.id ?? "",
      rivals: own.slice(1).map((each, at) => ({
        cell: each.id,
        blocks: 12,
        slower: 0.1 - at / 20,
        slower_lower: 0.02,
        slower_upper: 0.2,
      })),
    };
    group.twin = {
      cell: own[0]?.id ?? "",
      twin: "t",
      difference: 0.01,
      spread: 0.1,
      lower: -0.02,
      upper: 0.04,
      alarm: false,
      exchanged_bound: 0.04,
      blocks: 4800,
    };
  }
  for (const each of view.cells) {
    each.counters.bytes_per_read = Number(level(each, "read_size"));
    each.counters.bytes_per_write = Number(level(each, "write_size"));
  }
  return view;
}

/** Two sessions with a comparison: a cell for each possible result. */
export function between(first: View, other: View, change: Partial<Between["arms"][number]> = {}): Between {
  const shown: BetweenDifference["verdict"][] = ["worse", "better", "equivalent", "open"];
  const cells = first.cells.slice(0, shown.length).map((cell, at) => ({
    label: cell.label,
    cells: [first, other].map(({ session }) => ({ session, cell: cell.id })),
    differences: [
      {
        arm: 1,
        longer: [0.2, -0.1, 0.01, 0.3][at] ?? 0,
        lower: at === 3 ? null : ([0.15, -0.15, -0.02][at] ?? null),
        upper: at === 3 ? null : ([0.25, -0.06, 0.03][at] ?? null),
        runs_lower: at === 3 ? 0.1 : null,
        runs_upper: at === 3 ? 0.9 : null,
        sessions_first: at === 3 ? 1 : 6,
        sessions: 1,
        verdict: shown[at] ?? "open",
      },
    ],
  }));
  const group = first.groups[0]?.id ?? "g1";
  const choice = (session: number, tried: number, finding: Between["choices"][number]["finding"]) => ({
    question: "unix, sums",
    session,
    group,
    choice: "read 64 KiB",
    tried_in: tried,
    lower: finding === "contradicted" ? 0.1 : 0,
    upper: finding === "contradicted" ? 0.2 : 0.03,
    finding,
  });
  return {
    margin: 0.05,
    level: 0.95,
    sessions_min: 5,
    arms: [
      { name: "Linux 6.1", sessions: [first.session], stated_only: false },
      { name: "Linux 6.18", sessions: [other.session], stated_only: false, ...change },
    ],
    questions: [
      {
        question: "unix, sums",
        groups: [first, other].map(({ session }) => ({ session, group })),
        cost: "ns_per_byte",
        cells,
      },
    ],
    choices: [choice(1, 2, "contradicted"), choice(2, 1, "holds")],
  };
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
