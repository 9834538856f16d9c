// Differences between sessions: the same cells compared with the first subject, and recommendations tried in other sessions.

import type { Between, BetweenChoice, BetweenDifference, BetweenQuestion } from "../data";
import { questionOf } from "../data";
import { capital, moreOf, percent } from "../format";
import type { Figure, Lacking, Note } from "../frame";
import type { Looking, State } from "../state";
import { type Difference, differences } from "./differences";

const ROWS_MAX = 32;

/** The result of a comparison in a word or two. */
export function verdict({ verdict }: BetweenDifference, margin: number): string {
  const names: Partial<Record<BetweenDifference["verdict"], string>> = {
    equivalent: `within ${percent(margin)}`,
    worse: "slower",
    better: "faster",
    open: "undecided",
  };
  return names[verdict] ?? verdict;
}

interface Row {
  cell: BetweenQuestion["cells"][number];
  found: BetweenDifference;
}

/** How much slower each cell is in the other sessions than in the first ones. */
export function apart({ view, group }: Looking, state: State): Figure | null {
  const { between } = state;
  const question = questionOf(between, view, group);
  if (!between || !question) return null;
  const all = question.cells.flatMap((cell) => cell.differences.map((found): Row => ({ cell, found })));
  const rows = all.slice(0, ROWS_MAX).map((row, at) => differenceOf(between, row, at));
  const [first, second] = between.arms.map(({ name }) => name);
  const isPair = between.arms.length === 2;
  return {
    id: "apart",
    title: isPair ? capital(`${second} compared with ${first}`) : `Other sessions compared with ${first}`,
    caption: `How much ${moreOf(question.cost)} each option takes ${isPair ? `with ${second} ` : ""}than with ${first}; the shade is the margin of ${percent(between.margin)}.`,
    notes: notesOf(between, all, rows),
    table: () => table(between, all),
    draw: (width) => [
      differences(rows, { margin: between.margin, label: `← less · ${moreOf(question.cost)} →`, width }),
    ],
  };
}

function differenceOf({ arms, margin }: Between, { cell, found }: Row, at: number): Difference {
  const label = cell.label || "the only option";
  const { runs_lower: from, runs_upper: to } = found;
  return {
    id: String(at),
    label: arms.length > 2 ? `${label}, ${arms[found.arm]?.name ?? ""}` : label,
    mid: found.longer ?? null,
    lower: found.lower ?? null,
    upper: found.upper ?? null,
    thin: from == null || to == null ? null : [from, to],
    word: verdict(found, margin),
    alarm: found.verdict === "worse",
    more: `${found.sessions_first} and ${found.sessions} sessions: ${verdict(found, margin)}`,
  };
}

function notesOf({ arms, level, sessions_min: needed }: Between, all: Row[], rows: Difference[]): Note[] {
  const guessed = arms.filter((arm) => arm.stated_only).map((arm) => arm.name);
  return [
    rows.some((row) => row.lower != null || row.upper != null) &&
      `Thick bars are ${percent(level)} intervals over sessions.`,
    rows.some((row) => row.thin) && "Dashed bars show how far two single runs differ.",
    all.some(({ found }) => found.sessions_first < needed) &&
      `A difference between hours or boots needs ${needed} sessions of ${arms[0]?.name ?? "the first subject"}: until then rows are inconclusive.`,
    guessed.length > 0 && `Levels that ${guessed.join(" and ")} does not state are taken from the others.`,
    all.length > rows.length && `The first ${ROWS_MAX} of ${all.length} rows; the data has all.`,
  ];
}

function table({ arms }: Between, all: Row[]) {
  return {
    columns: [
      "cell",
      "compared_with",
      "subject",
      "slower",
      "lower",
      "upper",
      "runs_lower",
      "runs_upper",
      "sessions_first",
      "sessions",
      "verdict",
    ],
    rows: all.map(({ cell, found }) => [
      cell.label,
      arms[0]?.name ?? "",
      arms[found.arm]?.name ?? "",
      found.longer ?? null,
      found.lower ?? null,
      found.upper ?? null,
      found.runs_lower ?? null,
      found.runs_upper ?? null,
      found.sessions_first,
      found.sessions,
      found.verdict,
    ]),
  };
}

/** The result of a recommendation in another session. */
export const FINDINGS: Record<BetweenChoice["finding"], string> = {
  holds: "confirmed",
  contradicted: "contradicted",
  open: "undecided",
  absent: "not tried",
};

/** The recommendation of one session among the cells of others, by the intervals of those sessions. */
export function travelled({ view, group }: Looking, state: State): Figure | Lacking | null {
  const { between } = state;
  if (!between || !questionOf(between, view, group)) return null;
  const all = between.choices.filter((choice) => choice.session === view.session && choice.group === group.id);
  if (all.length === 0) return null;
  const rows = all.slice(0, ROWS_MAX).map((choice, at) => ({
    id: String(at),
    label: `${choice.choice || "the only option"} in session ${choice.tried_in}`,
    mid: null,
    lower: choice.lower ?? null,
    upper: choice.upper ?? null,
    word: FINDINGS[choice.finding],
    alarm: choice.finding === "contradicted",
    more: FINDINGS[choice.finding],
  }));
  const [id, title] = ["travelled", `The recommendation of session ${view.session} in other sessions`];
  if (rows.every((row) => row.lower == null && row.upper == null))
    return { id, title, needs: "confirmed trials of it in another session." };
  return {
    id,
    title,
    caption: `How much ${moreOf(group.cost)} it takes than the best option of each other session; the shade is the margin of ${percent(between.margin)}.`,
    notes: [
      "Bars are intervals of the other session; a row without a bar has none.",
      "A bar that ends within the shade confirms the recommendation; a bar that begins beyond it contradicts it.",
    ],
    table: () => ({
      columns: ["choice", "of_session", "in_session", "slower_lower", "slower_upper", "finding"],
      rows: all.map((choice) => [
        choice.choice,
        choice.session,
        choice.tried_in,
        choice.lower ?? null,
        choice.upper ?? null,
        choice.finding,
      ]),
    }),
    draw: (width) => [
      differences(rows, {
        margin: between.margin,
        label: `${moreOf(group.cost)} than the best there →`,
        width,
        sides: "more",
      }),
    ],
  };
}
