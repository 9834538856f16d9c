// The subjects of a session that compared two options, or checked a program, and the figures of their intervals.

import { cellOf, groupOf, type View } from "./data";
import { h, table } from "./dom";
import { differences, FAR } from "./figures/differences";
import { inMultiples } from "./figures/ratio";
import { axisUnit, digits, duration, percent } from "./format";
import { ends, withInterval } from "./outward";
import type { Figure } from "./frame";
import { costOf } from "./measure";
import type { Looking } from "./state";

const VERDICTS = {
  worse: "B is worse",
  better: "B is better",
  equivalent: "B is not slower",
  open: "undecided",
} as const;

/** Metrics of a program whose names need an explanation. */
const MEASURED: Record<string, string> = { wall: "the time of a run (wall)" };

/** The subjects of a comparison of two, or of a check of a program; null in other sessions. */
export function verdict(view: View): HTMLElement | null {
  return view.versus ? two(view, view.versus) : view.check ? program(view.check) : null;
}

/** What A and B are, and their numbers. */
function two(view: View, versus: NonNullable<View["versus"]>): HTMLElement {
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
    { id: "verdict", class: "texts", "aria-labelledby": "verdict-title" },
    h("h3", { id: "verdict-title" }, "Comparison of A and B"),
    side("A", versus.a),
    side("B", versus.b),
    both(view, versus),
    versus.alike ? h("p", { class: "reading" }, `Both: ${versus.alike}.`) : null,
  );
}

/** The rates of both in one unit, and their limits. */
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
      h("td", {}, limit ? `${limit.title}: ${limit.sentence}` : "–"),
    );
  });
  const columns = ["", name, "interval", cost?.label ?? "CPU time", "trials", "limited by"];
  return table("A and B", columns, rows, { kind: "both" });
}

/** What was measured of a program. */
const program = (check: NonNullable<View["check"]>): HTMLElement =>
  h(
    "p",
    { id: "verdict", class: "reading" },
    `${check.program}: measured ${MEASURED[check.metric] ?? check.metric}${check.default == null ? "" : `; present value ${check.default}`}.`,
  );

/** The verb and the quantity of a comparison, by what it counts. */
const COSTS: Record<string, [verb: string, quantity: string]> = {
  events: ["counts", "more events"],
  "cpu-time": ["takes", "more CPU time"],
};

/** The interval of a comparison of two. */
export function versus({ view }: Looking): Figure | null {
  const found = view.versus;
  if (found?.longer == null) return null;
  const { longer, lower = null, upper = null, margin, level, blocks, a, b } = found;
  const word = VERDICTS[found.verdict];
  const [verb, more] = COSTS[found.cost] ?? ["takes", "longer"];
  const side = more === "longer" ? "slower" : `${verb} ${more}`;
  const row = {
    id: "b",
    label: "A and B",
    mid: longer,
    lower,
    upper,
    word,
    alarm: found.verdict === "worse",
    more: word,
  };
  return {
    id: "versus",
    holds: "",
    title: `Which of the two ${verb} ${more}`,
    caption: `Right of 0, B ${verb} ${more}; left of 0, A does. The shade is the margin of ${percent(margin)}. Log scale.`,
    notes: [
      `A is ${a.words}, B is ${b.words}.`,
      lower == null && upper == null
        ? `${blocks} paired blocks are too few for an interval.`
        : `The bar is the ${percent(level)} interval from ${blocks} paired blocks.`,
      inMultiples([longer, lower, upper]) && "2× is twice as much as the other one.",
      found.why_open && `Undecided: ${found.why_open}.`,
    ],
    table: () => ({
      columns: ["a", "b", "b_takes_times_a", "lower", "upper", "level", "margin", "blocks", "verdict"],
      rows: [[a.words, b.words, ...[longer, lower, upper].map(timesOf), level, margin, blocks, found.verdict]],
    }),
    draw: (width) => [
      differences([row], { margin, label: `← A ${side} · B ${side} →`, width, reach: FAR, sides: "either" }),
    ],
  };
}

/** The time of B as a multiple of that of A. */
export const timesOf = (longer: number | null): number | null =>
  longer == null ? null : longer < 0 ? 1 / (1 - longer) : 1 + longer;

/** From twice as fast on, gains are multiples. */
const MANY = 1;

/** How much faster the recommended values are than the present one. */
export function gains({ view }: Looking): Figure | null {
  const { check } = view;
  const rows = (check?.gains ?? []).filter((gain) => gain.gain != null);
  if (!check || rows.length === 0) return null;
  const label = (gain: (typeof rows)[number]) => {
    const value = cellOf(view, gain.cell)?.label || "the recommended value";
    return rows.length > 1 ? `${groupOf(view, gain.group)?.label ?? gain.group}: ${value}` : value;
  };
  const many = rows.some((gain) => (gain.gain ?? 0) >= MANY);
  const now = [...new Set(rows.map((gain) => gain.default))].join(", ");
  const { level, margin } = view.plan;
  return {
    id: "gains",
    holds: "",
    title: `Gain of ${check.program}`,
    caption: `How much faster the recommended value is than the present one, ${now}, within the same blocks.`,
    notes: [
      rows.some((gain) => gain.lower != null) && `The bar is the ${percent(level)} interval, for all values together.`,
      many ? "At 1× both are equally fast." : `The shade is the margin of ${percent(margin)}.`,
    ],
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
    draw: (width) => {
      const differing = rows.map((gain, at) => ({
        id: String(at),
        label: label(gain),
        mid: gain.gain ?? null,
        lower: gain.lower ?? null,
        upper: gain.upper ?? null,
        alarm: false,
        more: gain.cpu_ns == null ? "" : `CPU time of a run ${duration(gain.cpu_ns)}`,
      }));
      const text = many ? `times as fast as with ${now}` : `faster than with ${now}`;
      return [differences(differing, { margin, label: text, width, reach: FAR, sides: many ? "times" : "both" })];
    },
  };
}
