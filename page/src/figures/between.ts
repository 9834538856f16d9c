// Differences between sessions: the same cells against the first subject's, and what one session chose in the others.

import type { BetweenChoice, BetweenDifference } from "../data";
import { questionOf } from "../data";
import { capital, moreOf, percent } from "../format";
import type { Figure, Lacking } from "../frame";
import type { Looking, State } from "../state";
import { differences } from "./differences";

const ROWS_MAX = 32;

/** What is shown, in words: the colour alone says nothing. */
export function verdict({ verdict }: BetweenDifference, margin: number): string {
  const said: Partial<Record<BetweenDifference["verdict"], string>> = {
    equal: `within ${percent(margin)}`,
    dearer: "takes more",
    cheaper: "takes less",
  };
  return said[verdict] ?? verdict;
}

const interval = (lower: number | null | undefined, upper: number | null | undefined): [number, number] | null =>
  lower == null || upper == null ? null : [lower, upper];

/** How much dearer each cell is in the other sessions than in the first ones. */
export function apart({ view, group }: Looking, state: State): Figure | null {
  const { between } = state;
  const question = questionOf(between, view, group);
  if (!between || !question) return null;
  const { arms, margin, level, sessions_min: needed } = between;
  const all = question.cells.flatMap((cell) => cell.differences.map((found) => ({ cell, found })));
  const first = arms[0]?.name ?? "";
  const named = (arm: number) => arms[arm]?.name ?? "";
  const rows = all.slice(0, ROWS_MAX).map(({ cell, found }, at) => ({
    id: String(at),
    label: arms.length > 2 ? `${cell.label || "the one cell"}, ${named(found.arm)}` : cell.label || "the one cell",
    mid: found.difference,
    lower: found.lower ?? null,
    upper: found.upper ?? null,
    thin: interval(found.runs_lower, found.runs_upper),
    word: verdict(found, margin),
    alarm: found.verdict === "dearer",
    more: `${found.sessions_first} and ${found.sessions} sessions: ${verdict(found, margin)}`,
  }));
  const bars = rows.some((row) => row.lower != null || row.upper != null);
  const single = rows.some((row) => row.thin);
  const few = all.some(({ found }) => found.sessions_first < needed);
  const guessed = arms.filter((arm) => arm.stated_only).map((arm) => arm.name);
  const reading = [
    `How much ${moreOf(question.cost)} each choice takes ${arms.length === 2 ? `with ${named(1)} ` : ""}than with ${first}. The shade is the margin of ${percent(margin)}${bars ? `; thick bars are intervals at ${percent(level)} with sessions as replicates` : ""}${single ? "; dashed bars tell how far apart two single runs were, and not why" : ""}. “Open” is what shows neither more, nor less, nor that it is within the margin.`,
    few &&
      `Nothing is claimed before ${first} has grown to ${needed} sessions: hours and boots differ by more than the trials of a session know.`,
    guessed.length > 0 && `What ${guessed.join(" and ")} does not state is taken to be as in the others.`,
    all.length > rows.length && `The first ${ROWS_MAX} of ${all.length} rows; the data has all.`,
  ];
  return {
    id: "apart",
    title: arms.length === 2 ? capital(`${named(1)} against ${first}`) : `Other sessions against ${first}`,
    reading: reading.filter((line) => line).join(" "),
    table: () => ({
      columns: [
        "cell",
        "against",
        "subject",
        "dearer",
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
        first,
        named(found.arm),
        found.difference,
        found.lower ?? null,
        found.upper ?? null,
        found.runs_lower ?? null,
        found.runs_upper ?? null,
        found.sessions_first,
        found.sessions,
        found.verdict,
      ]),
    }),
    draw: (width) => [differences(rows, margin, `← takes less · takes ${moreOf(question.cost)} →`, width)],
  };
}

/** What is told of a choice in another session. */
export const FINDINGS: Record<BetweenChoice["finding"], string> = {
  holds: "holds",
  contradicted: "contradicted",
  open: "open",
  absent: "not tried",
};

/** What one session chose, among the cells of another: which needs no history, for it is asked of that one's own blocks. */
export function travelled({ view, group }: Looking, state: State): Figure | Lacking | null {
  const { between } = state;
  const question = questionOf(between, view, group);
  if (!between || !question) return null;
  const asks = (choice: BetweenChoice) => choice.session === view.session && choice.group === group.id;
  const all = between.choices.filter(asks);
  if (all.length === 0) return null;
  const rows = all.slice(0, ROWS_MAX).map((choice, at) => ({
    id: String(at),
    label: `${choice.choice || "the one cell"} in session ${choice.tried_in}`,
    mid: null,
    lower: choice.lower ?? null,
    upper: choice.upper ?? null,
    word: FINDINGS[choice.finding],
    alarm: choice.finding === "contradicted",
    more: FINDINGS[choice.finding],
  }));
  const title = `Does the choice of session ${view.session} hold in the others?`;
  if (rows.every((row) => row.lower == null && row.upper == null))
    return {
      id: "travelled",
      title,
      needs: "none of them has a bound of it, which takes confirmed trials of it there.",
    };
  return {
    id: "travelled",
    title,
    reading: `What session ${view.session} chose, against the best of each other one's own group: how much ${moreOf(group.cost)} it takes there, by the bounds of that session; no bar where it has none. The shade is the margin of ${percent(between.margin)}: a bar that ends within it shows that the choice holds, one that begins beyond it contradicts the choice.`,
    table: () => ({
      columns: ["choice", "of_session", "in_session", "dearer_lower", "dearer_upper", "finding"],
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
      differences(rows, between.margin, `takes ${moreOf(group.cost)} than the best there →`, width, undefined, "more"),
    ],
  };
}
