// What a session that compared two, or checked a program, came to: its verdict first, in the words of the document, with the
// interval that it was read off.

import { cellOf, groupOf, type View } from "./data";
import { h } from "./dom";
import { differences, FAR } from "./figures/differences";
import { duration, percent } from "./format";
import type { Figure } from "./frame";
import type { Looking } from "./state";

const VERDICTS = {
  worse: ["✗", "b is worse"],
  better: ["✓", "b is better"],
  equivalent: ["=", "as good"],
  open: ["?", "not decided"],
} as const;

/** The verdict above everything else; nothing in a session that asked something else. */
export function verdict(view: View): HTMLElement | null {
  return view.versus ? two(view.versus) : view.check ? program(view.check) : null;
}

function two(versus: NonNullable<View["versus"]>): HTMLElement {
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
      versus.text,
    ),
    side("a", versus.a),
    side("b", versus.b),
    versus.alike ? h("p", { class: "reading" }, `Alike: ${versus.alike}.`) : null,
  );
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
    ...lines.map((line) => h("p", { class: "result" }, line)),
    ...bad.map((line) => h("p", { class: "reading" }, line)),
    h(
      "p",
      { class: "reading" },
      `Measured: ${check.metric}${check.default == null ? "" : `; what it has now: ${check.default}`}.`,
    ),
  );
}

/** The interval behind the verdict of two. */
export function versus({ view }: Looking): Figure | null {
  const found = view.versus;
  if (found?.longer == null) return null;
  const { longer, lower = null, upper = null, margin, level, blocks } = found;
  const [, word] = VERDICTS[found.verdict];
  return {
    id: "versus",
    holds: "",
    title: `How much longer b takes than a`,
    reading: `For the same work, by its ${found.cost}; to the left of 0 it is a that takes longer. The bar is the interval at ${percent(level)} from ${blocks} paired blocks, the shade the margin of ${percent(margin)}.${found.why_open ? ` Not decided: ${found.why_open}.` : ""}`,
    table: () => ({
      columns: ["b_longer", "lower", "upper", "level", "margin", "blocks", "verdict"],
      rows: [[longer, lower, upper, level, margin, blocks, found.verdict]],
    }),
    draw: (width) => [
      differences(
        [{ id: "b", label: "b", mid: longer, lower, upper, word, alarm: found.verdict === "worse", more: word }],
        margin,
        "← a takes longer · b takes longer →",
        width,
        FAR,
      ),
    ],
  };
}

/** From three times as fast on, gains are told as times. */
const MANY = 2;

/** What the named values gain over what the program has now. */
export function gains({ view }: Looking): Figure | null {
  const { check } = view;
  const rows = (check?.gains ?? []).filter((gain) => gain.gain != null);
  if (!check || rows.length === 0) return null;
  const { program } = check;
  const label = (gain: (typeof rows)[number]) => {
    const named = cellOf(view, gain.cell)?.label || "the named value";
    return rows.length > 1 ? `${groupOf(view, gain.group)?.label ?? gain.group}: ${named}` : named;
  };
  // Where it is many times as fast, a percentage is no number for people.
  const many = rows.some((gain) => (gain.gain ?? 0) >= MANY);
  const now = [...new Set(rows.map((gain) => gain.default))].join(", ");
  return {
    id: "gains",
    holds: "",
    title: `What ${program} gains`,
    reading: `How much faster the named value is than ${now}, the value of now, within the same blocks. The bar is the interval, for all values at once; the shade is the margin.`,
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
