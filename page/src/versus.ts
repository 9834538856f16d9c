// What a session that compared two, or checked a program, came to: its verdict first, in the words of the document, with the
// interval that it was read off.

import { cellOf, groupOf, limitName, type View } from "./data";
import { h, table } from "./dom";
import { differences, FAR } from "./figures/differences";
import { inMultiples } from "./figures/ratio";
import { axisUnit, digits, duration, percent } from "./format";
import { ends, withInterval } from "./outward";
import type { Figure } from "./frame";
import { costOf } from "./measure";
import type { Looking } from "./state";
import { hinted } from "./words";

const VERDICTS = {
  worse: ["✗", "B is worse"],
  better: ["✓", "B is better"],
  equivalent: ["=", "equivalent"],
  open: ["?", "inconclusive"],
} as const;

/** What a program is rated by, where its name in a command says little. */
const MEASURED: Record<string, string> = { wall: "the time of a run (wall)" };

/** The verdict above everything else; nothing in a session that asked something else. */
export function verdict(view: View): HTMLElement | null {
  return view.versus ? two(view, view.versus) : view.check ? program(view.check) : null;
}

function two(view: View, versus: NonNullable<View["versus"]>): HTMLElement {
  const [mark, meaning] = VERDICTS[versus.verdict];
  const side = (name: string, { words, differs, reason }: typeof versus.a) => {
    const apart = Object.entries(differs ?? {}).map(([factor, level]) => `${factor} ${level}`);
    return h(
      "p",
      {},
      h("b", {}, name),
      " ",
      h("code", {}, words),
      apart.length > 0 ? ` (${apart.join(", ")})` : "",
      reason ? `: ${reason}` : "",
    );
  };
  return h(
    "section",
    { id: "verdict", class: "told", "aria-labelledby": "verdict-title" },
    h("h2", { id: "verdict-title" }, "The two against each other"),
    h(
      "p",
      { class: `result ${versus.verdict}` },
      h("span", { class: "mark", role: "img", "aria-label": meaning, title: meaning }, mark),
      " ",
      ...hinted(versus.text),
    ),
    side("A", versus.a),
    side("B", versus.b),
    both(view, versus),
    versus.alike ? h("p", { class: "reading" }, `Both: ${versus.alike}.`) : null,
  );
}

/** What both reached, in one unit, and what limits each. */
function both(view: View, { a, b }: NonNullable<View["versus"]>): HTMLElement | null {
  const sides = [["A", a] as const, ["B", b] as const].filter(([, side]) => side.rate != null);
  const cells = sides.flatMap(([, side]) => cellOf(view, side.cell) ?? []);
  if (sides.length === 0) return null;
  const { name, divisor } = axisUnit(
    cells[0]?.estimate.unit ?? "",
    Math.max(...sides.map(([, { rate }]) => rate ?? 0)),
  );
  const cost = costOf(cells);
  const rows = sides.map(([side, { cell, rate, cpu_ns: cpu, trials }]) => {
    const found = cellOf(view, cell);
    const { lower, upper } = found?.estimate ?? {};
    const [spent, one] = [found && cost?.of(found), (value: number) => digits(value / divisor)];
    const interval = lower == null || upper == null ? "–" : ends(lower / divisor, upper / divisor);
    const limit = found?.limit;
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, side),
      h("td", { class: "number" }, rate == null ? "–" : one(rate)),
      h("td", {}, interval),
      h("td", {}, spent && cost ? withInterval(spent, cost.unit) : cpu == null ? "–" : `${duration(cpu)} a run`),
      h("td", { class: "number" }, String(trials)),
      h("td", {}, limit ? `${limitName(limit.name)}: ${limit.sentence}` : "–"),
    );
  });
  const columns = ["", name, "interval", cost?.label ?? "CPU time", "trials", "limited by"];
  return table("Both of them", columns, rows, { kind: "both" });
}

function program(check: NonNullable<View["check"]>): HTMLElement | null {
  const lines = [...check.gains, ...check.advice].map((each) => each.text);
  const bad = [
    check.left_behind > 0 && `${check.left_behind} runs left processes behind, which were ended.`,
    check.stopped_by_force > 0 && `${check.stopped_by_force} times the server was stopped by force.`,
  ].filter((line) => line !== false);
  return h(
    "section",
    { id: "verdict", class: "told", "aria-labelledby": "verdict-title" },
    h("h2", { id: "verdict-title" }, `What is gained in ${check.program}`),
    ...lines.map((line) => h("p", { class: "result" }, ...hinted(line))),
    ...bad.map((line) => h("p", { class: "reading" }, line)),
    h(
      "p",
      { class: "reading" },
      `Measured: ${MEASURED[check.metric] ?? check.metric}${check.default == null ? "" : `; what it has now: ${check.default}`}.`,
    ),
  );
}

/** The interval behind the verdict of two. */
export function versus({ view }: Looking): Figure | null {
  const found = view.versus;
  if (found?.longer == null) return null;
  const { longer, lower = null, upper = null, margin, level, blocks } = found;
  const [, word] = VERDICTS[found.verdict];
  const [verb, more] = { events: ["counts", "more events"], "cpu time": ["takes", "more CPU time"] }[found.cost] ?? [
    "takes",
    "longer",
  ];
  // As the axis is labelled: all its numbers are of one kind.
  const multiples = inMultiples([longer, lower, upper]);
  const told = multiples
    ? "how many times as much that one takes, so 2\u00a0× is twice as much as the other"
    : "how much more that one takes than the other";
  const side = verb === "takes" && more === "longer" ? "slower" : `${verb} ${more}`;
  const bar =
    lower == null && upper == null
      ? `There are too few paired blocks (${blocks}) for an interval; the`
      : `The bar is the interval at ${percent(level)} from ${blocks} paired blocks, the`;
  return {
    id: "versus",
    holds: "",
    title: `Which of the two ${verb} ${more}, and how much`,
    reading: `For the same work. a is ${found.a.words}, b is ${found.b.words}. Right of the middle b ${verb} ${more}, left of it a does; a number is ${told}, and the same lies as far on either side. ${bar} shade is the margin of ${percent(margin)}.${found.why_open ? ` Not decided: ${found.why_open}.` : ""}`,
    table: () => ({
      columns: ["a", "b", "b_takes_times_a", "lower", "upper", "level", "margin", "blocks", "verdict"],
      rows: [
        [found.a.words, found.b.words, ...[longer, lower, upper].map(timesOf), level, margin, blocks, found.verdict],
      ],
    }),
    draw: (width) => [
      differences(
        [{ id: "b", label: "a and b", mid: longer, lower, upper, word, alarm: found.verdict === "worse", more: word }],
        margin,
        `← a ${side} · b ${side} →`,
        width,
        FAR,
        "either",
      ),
    ],
  };
}

/** How many times as much the one takes as the other, of how much longer the slower of the two does, left of 0 the other. */
export const timesOf = (longer: number | null): number | null =>
  longer == null ? null : longer < 0 ? 1 / (1 - longer) : 1 + longer;

/** From twice as fast on, gains are told as times. */
const MANY = 1;

/** What the named values gain over what the program has now. */
export function gains({ view }: Looking): Figure | null {
  const { check } = view;
  const rows = (check?.gains ?? []).filter((gain) => gain.gain != null);
  if (!check || rows.length === 0) return null;
  const program = check.program;
  const label = (gain: (typeof rows)[number]) => {
    const value = cellOf(view, gain.cell)?.label || "the named value";
    return rows.length > 1 ? `${groupOf(view, gain.group)?.label ?? gain.group}: ${value}` : value;
  };
  // Where it is many times as fast, a percentage is no number for people.
  const many = rows.some((gain) => (gain.gain ?? 0) >= MANY);
  const now = [...new Set(rows.map((gain) => gain.default))].join(", ");
  return {
    id: "gains",
    holds: "",
    title: `What ${program} gains`,
    reading: `How much faster the named value is than ${now}, the value of now, within the same blocks. ${rows.some((gain) => gain.lower != null) ? `The bar is the interval at ${percent(view.plan.level)}, for all values at once. ` : ""}${many ? `The margin of ${percent(view.plan.margin)} is narrower than the line at 1\u00a0×, where nothing is gained.` : `The shade is the margin of ${percent(view.plan.margin)}.`}`,
    table: () => ({
      columns: ["group", "named", "default", "gain", "lower", "upper", "cpu_ns", "default_cpu_ns"],
      rows: rows.map((gain) => [
        gain.group,
        label(gain),
        gain.default,
        gain.gain ?? null,
        gain.lower ?? null,
        gain.upper ?? null,
        gain.cpu_ns ?? null,
        gain.default_cpu_ns ?? null,
      ]),
    }),
    draw: (width) => [
      differences(
        rows.map((gain, at) => ({
          id: String(at),
          label: label(gain),
          mid: gain.gain ?? null,
          lower: gain.lower ?? null,
          upper: gain.upper ?? null,
          alarm: false,
          more: gain.cpu_ns == null ? "" : `CPU time of a run ${duration(gain.cpu_ns)}`,
        })),
        view.plan.margin,
        many ? `times as fast as with ${now}` : `faster than with ${now}`,
        width,
        FAR,
        many ? "times" : "both",
      ),
    ],
  };
}
