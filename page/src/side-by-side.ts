// Several sessions in one table: for each test, how often each subject differs from the first. Counts results only.

import type { BetweenQuestion, View } from "./data";
import { h, table } from "./dom";
import { FINDINGS, verdict } from "./figures/between";
import { reading } from "./frame";
import type { State } from "./state";

/** How often each word occurs: `3 slower, 1 inconclusive`. */
export function counted(words: string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${count} ${word}`).join(", ") || "–";
}

/** The name of a test, as in the session that has it first. */
function nameOf(views: readonly View[], { groups, question }: BetweenQuestion): string {
  const [first] = groups;
  const tests = views.find(({ session }) => session === first?.session)?.tests;
  return tests?.find(({ id }) => id === first?.group)?.name ?? question;
}

export function sideBySide(state: State): HTMLElement | null {
  const { between, view } = state;
  if (!between || between.questions.length === 0) return null;
  const { arms, margin } = between;
  const named = (sessions: number[]) => `${sessions.length > 1 ? "sessions" : "session"} ${sessions.join(", ")}`;
  const [first] = arms;
  const compared = arms.flatMap(({ sessions }) => sessions);
  const asked = between.questions.flatMap(({ groups }) => groups.map(({ session }) => session));
  const alone = compared.filter((session) => !asked.includes(session));
  const few = arms.length > 0 && (first?.sessions.length ?? 0) < between.sessions_min;
  const caption = `Confirmed options compared with ${first?.name ?? "the first subject"}${first ? ` (${named(first.sessions)})` : ""}, and recommendations of one session tried in the others.`;
  const notes = [
    few &&
      `A difference between subjects needs ${between.sessions_min} sessions of ${first?.name ?? "the first"}: until then rows are inconclusive.`,
    alone.length > 0 && `No other session has a test of ${named(alone)}.`,
  ];
  const others = arms.map(({ name }, arm) => ({ name, arm })).slice(1);
  const shown = ({ cells }: BetweenQuestion, arm: number) =>
    counted(
      cells.flatMap((cell) => cell.differences.filter((each) => each.arm === arm).map((each) => verdict(each, margin))),
    );
  const travels = ({ groups }: BetweenQuestion) => {
    const own = (choice: { session: number; group: string }) =>
      groups.some((each) => each.session === choice.session && each.group === choice.group);
    const found = between.choices.filter((choice) => own(choice) && choice.finding !== "absent");
    return counted(found.map((choice) => FINDINGS[choice.finding]));
  };
  const link = (question: BetweenQuestion) => {
    const own = question.groups.find((each) => each.session === view.session);
    const open = () => own && state.openGroup(own.group);
    const name = nameOf(state.views, question);
    return own ? h("a", { href: "#evidence", onclick: open }, name) : name;
  };
  return h(
    "section",
    { id: "others", class: "texts", "aria-labelledby": "others-title" },
    h("h2", { id: "others-title" }, "Side by side"),
    reading(caption, notes),
    table(
      "Results of each test",
      ["test", ...others.map(({ name }) => name), "recommendations in other sessions"],
      between.questions.map((question) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, link(question)),
          ...others.map(({ arm }) => h("td", {}, shown(question, arm))),
          h("td", {}, travels(question)),
        ),
      ),
    ),
  );
}
