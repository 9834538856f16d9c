// Several sessions at a glance: for each question, what is shown of each subject against the first. Counts of verdicts, no more.

import type { BetweenQuestion } from "./data";
import { h, table } from "./dom";
import { verdict } from "./figures/between";
import type { State } from "./state";
import { hinted } from "./words";

/** How often each word was said: `3 takes more, 1 open`. */
export function counted(words: string[]): string {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${count} ${word}`).join(", ") || "–";
}

export function beside(state: State): HTMLElement | null {
  const { between, view } = state;
  if (!between || between.questions.length === 0) return null;
  const { arms, margin } = between;
  const told = (sessions: number[]) => `${sessions.length > 1 ? "sessions" : "session"} ${sessions.join(", ")}`;
  const [first] = arms;
  const compared = arms.flatMap(({ sessions }) => sessions);
  const asked = between.questions.flatMap(({ groups }) => groups.map(({ session }) => session));
  const alone = compared.filter((session) => !asked.includes(session));
  const few = arms.length > 0 && (first?.sessions.length ?? 0) < between.sessions_min;
  const reading = [
    `Confirmed cells against ${first?.name ?? ""}${first ? ` (${told(first.sessions)})` : ""}, and choices of one session tried in the others.`,
    few
      ? `${first?.name ?? "The first"} would have to be ${between.sessions_min} sessions at least; until then differences stay open: neither more nor less is shown.`
      : "“Open” is what shows neither more, nor less, nor that it is within the margin.",
    alone.length > 0 && `Of ${told(alone)} no question was asked by another one.`,
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
    return counted(found.map((choice) => choice.finding));
  };
  const link = (question: BetweenQuestion) => {
    const own = question.groups.find((each) => each.session === view.session);
    const open = () => own && state.openGroup(own.group);
    return own ? h("a", { href: "#evidence", onclick: open }, question.question) : question.question;
  };
  return h(
    "section",
    { id: "others", class: "told", "aria-labelledby": "others-title" },
    h("h2", { id: "others-title" }, "Side by side"),
    h("p", { class: "reading" }, ...hinted(reading.filter((line) => line).join(" "))),
    table(
      "What is shown of each question",
      ["question", ...others.map(({ name }) => name), "choices in other sessions"],
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
