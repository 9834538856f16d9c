// The words that are used here as nowhere else: as a list, and hinted at where a text uses them.

import { h } from "./dom";

interface Word {
  word: string;
  /** How texts say it beside the word itself. */
  forms?: string[];
  meaning: string;
}

export const WORDS: readonly Word[] = [
  { word: "cell", forms: ["cells"], meaning: "one combination of choices and conditions, which is measured as such" },
  {
    word: "trial",
    forms: ["trials"],
    meaning: "one measurement of one cell, with sockets and threads of its own",
  },
  {
    word: "block",
    forms: ["blocks"],
    meaning:
      "one visit to all cells that are compared, in random order: trials of one block are compared with each other",
  },
  {
    word: "screened",
    forms: ["screened only"],
    meaning: "tried in a few short trials, which choose who is worth more; its rate is roughly known",
  },
  {
    word: "confirmed",
    forms: ["confirmation"],
    meaning: "measured again in every block; claims rest on these trials alone",
  },
  {
    word: "second trials",
    meaning:
      "the leading choice is measured twice in every block, as if it were two (its twin): what the two differ by is chance and disturbance",
  },
  { word: "look", meaning: "a moment, declared beforehand, at which all blocks so far are judged" },
  {
    word: "interval",
    forms: ["intervals"],
    meaning: "the values that the trials do not speak against, at the confidence that is told",
  },
  {
    word: "bound",
    forms: ["bounds"],
    meaning:
      "how much more the choice takes, at most, than whichever confirmed choice is the best, at the confidence that is told",
  },
  {
    word: "margin",
    meaning: "the difference that is taken to matter; a choice is shown when its bound lies within it",
  },
  { word: "audit", meaning: "trials far longer than those that chose: does what was chosen last?" },
  {
    word: "profile",
    meaning: "what goes on around the bytes, such as what the reader does with them, or how many connections idle",
  },
  {
    word: "closed loop",
    meaning: "each flow sends its next call when the reply to the last one has come: as fast as the server answers",
  },
  { word: "knee", meaning: "the highest offered rate at which a search saw the latency objective kept" },
  { word: "may be the best", meaning: "no other confirmed choice is shown to take less" },
  { word: "steal", meaning: "time in which a CPU of this machine had work, and the host let others run on it" },
];

const FORMS = new Map(WORDS.flatMap((each) => [each.word, ...(each.forms ?? [])].map((form) => [form, each] as const)));
// The longest first: it holds shorter ones.
const FOUND = new RegExp(`\\b(${[...FORMS.keys()].sort((a, b) => b.length - a.length).join("|")})\\b`, "gi");

/** A text in its pieces: each word of the list with its meaning where it is used first. */
export function pieces(text: string): { text: string; meaning?: string }[] {
  const told = new Set<Word>();
  const found: { text: string; meaning?: string }[] = [];
  let from = 0;
  for (const { 0: form, index } of text.matchAll(FOUND)) {
    const known = FORMS.get(form.toLowerCase());
    if (!known || told.has(known)) continue;
    told.add(known);
    found.push({ text: text.slice(from, index) }, { text: form, meaning: `${known.word}: ${known.meaning}` });
    from = index + form.length;
  }
  return [...found, { text: text.slice(from) }].filter((piece) => piece.text !== "");
}

/** A text whose words say what they mean when they are pointed at; the list says it to everybody. */
export function hinted(text: string): (Node | string)[] {
  return pieces(text).map(({ text, meaning }) => (meaning == null ? text : h("abbr", { title: meaning }, text)));
}

/** All of them, folded away. */
export function words(): HTMLElement {
  return h(
    "details",
    { class: "words" },
    h("summary", {}, "What the words mean"),
    h("dl", {}, ...WORDS.flatMap(({ word, meaning }) => [h("dt", {}, word), h("dd", {}, meaning)])),
  );
}
