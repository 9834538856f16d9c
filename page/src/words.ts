// The words that are used here as nowhere else: as a list, and hinted at where a text uses them.

import type { View } from "./data";
import { h } from "./dom";

export interface Word {
  word: string;
  /** How tables and notes say it. */
  short?: string;
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
    forms: ["twin", "twins"],
    meaning:
      "one choice, picked before the first block, is measured twice in every block, as if it were two (its twin): what the two differ by is chance and disturbance",
  },
  { word: "A/A test", meaning: "the same measured against itself, which tells how far chance alone reaches" },
  {
    word: "paired",
    forms: ["paired blocks", "paired trials"],
    meaning: "compared within a block: each trial with those that were measured beside it, under the same disturbance",
  },
  {
    word: "judgement",
    forms: ["look"],
    meaning: "what all blocks so far show together, at a moment that was declared beforehand",
  },
  {
    word: "stage",
    meaning:
      "screen: all choices in a few short trials; narrow: the same again with those that may be the best; confirm: the trials that claims rest on",
  },
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
  {
    word: "confidence",
    meaning: "how often such a claim is right, if the same were measured many times over: 95 % is 19 times in 20",
  },
  { word: "rival", forms: ["rivals"], meaning: "a confirmed choice beside the one that is named" },
  {
    word: "told apart",
    meaning: "shown to differ: what is not told apart may be as good, or better, or worse",
  },
  { word: "audit", meaning: "trials far longer than those that chose: does what was chosen last?" },
  {
    word: "profile",
    meaning: "what goes on around the bytes, such as what the reader does with them, or how many connections idle",
  },
  {
    word: "flow",
    forms: ["flows"],
    meaning: "one connection that is busy, or one stream of datagrams; several of them run at the same time",
  },
  { word: "goodput", meaning: "what arrived, and not what was sent" },
  {
    word: "percentile",
    forms: ["percentiles", "p50", "p90", "p99", "p99.9", "p99.99"],
    meaning: "p99 is the time within which 99 of 100 calls are answered; p50 is the middle one",
  },
  { word: "tail", meaning: "the slowest of all calls" },
  { word: "median", forms: ["medians"], meaning: "the middle one of all values: half of them lie above it" },
  {
    word: "offered load",
    forms: ["offered", "open loop"],
    meaning:
      "calls begin at a rate that is given, whether the last ones were answered or not (an open loop): time spent waiting for their turn counts",
  },
  {
    word: "objective",
    meaning: "the latency that must be kept, such as p99 within 2 ms",
  },
  { word: "probe", forms: ["probes"], meaning: "a short run at one offered rate, by which a search finds the knee" },
  {
    word: "closed loop",
    meaning: "each flow sends its next call when the reply to the last one has come: as fast as the server answers",
  },
  { word: "knee", meaning: "the highest offered rate at which a search saw the latency objective kept" },
  { word: "may be the best", meaning: "no other confirmed choice is shown to take less" },
  { word: "warm-up", meaning: "what is left out at the beginning of a trial, until its rate has settled" },
  {
    word: "drift",
    meaning: "a machine that becomes faster or slower during the session; blocks keep it out of comparisons",
  },
  {
    word: "harness",
    meaning: "bytegauge itself: what its own loop and its clock cost, measured without moving a byte",
  },
  { word: "throttled", meaning: "kept from the CPU by a limit of its control group" },
  { word: "root scale", meaning: "places are square roots: what is small has more room than on an even scale" },
  { word: "log scale", forms: ["logarithmic scale"], meaning: "equal steps are equal factors" },
  {
    word: "standard deviation",
    forms: ["sd"],
    meaning: "how far trials typically lie from their mean; it is no interval of the mean",
  },
  {
    word: "NOP",
    forms: ["NOPs"],
    meaning: "an io_uring operation that does nothing: submitted, completed, and taken",
  },
  {
    word: "ceiling",
    meaning: "of NOPs: completions are only counted, the least that can be done with one: no real program is faster",
  },
  {
    word: "checked",
    meaning: "of NOPs: every completion is compared with what was submitted, as a real program has to",
  },
  {
    word: "TCP_CONGESTION",
    short: "cc",
    forms: ["congestion control", "congestion controls"],
    meaning: "by which rule TCP decides how much it may send, such as cubic or bbr",
  },
  { word: "relay", forms: ["relays"], meaning: "a program between the two ends that passes bytes on" },
  { word: "auto", meaning: "left to the system, which may choose otherwise elsewhere" },
  {
    word: "grade",
    meaning:
      "how much disturbed the machine during the session, from A (nothing is known to) to D (much was taken from it)",
  },
  {
    word: "TCP window",
    forms: ["full TCP window"],
    meaning: "how many bytes TCP may have under way: while it is full the sender waits for the reader",
  },
  { word: "softirq", meaning: "the kernel's own work on packets, which no program is charged for" },
  {
    word: "artefact",
    meaning: "a published loop that measures something else than it seems to: shown beside, never compared",
  },
  { word: "session", forms: ["sessions"], meaning: "one execution of a plan, as it is kept and reported" },
  { word: "steal", meaning: "time in which a CPU of this machine had work, and the host let others run on it" },
];

const FORMS = new Map(
  WORDS.flatMap((each) =>
    [each.word, ...(each.short ? [each.short] : []), ...(each.forms ?? [])].map(
      (form) => [form.toLowerCase(), each] as const,
    ),
  ),
);
// The longest first: it holds shorter ones. What is a flag, or a part of another word, is none.
const FOUND = new RegExp(
  `(?<![-\\w])(${[...FORMS.keys()].sort((a, b) => b.length - a.length).join("|")})(?![-\\w])`,
  "gi",
);

/** What was explained already, where several texts stand together. */
export type Told = Set<Word>;

/** A text in its pieces: each word of the list with its meaning where it is used first. */
export function pieces(text: string, told: Told = new Set()): { text: string; meaning?: string }[] {
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

/**
 * A text in which no line ends within a flag, since what is left of it at the end of a line reads as a dash, and what is typed
 * (between backticks) looks so.
 */
export const flagged = (text: string): (Node | string)[] =>
  text
    .split(/(`[^`]+`|--[a-z][\w-]*)/)
    .filter((part) => part !== "")
    .map((part) =>
      part.startsWith("`")
        ? h("code", {}, part.slice(1, -1))
        : part.startsWith("--")
          ? h("span", { class: "flag" }, part)
          : part,
    );

/** A text whose words say what they mean when they are pointed at; the list says it to everybody. */
export function hinted(text: string, told?: Told): (Node | string)[] {
  return pieces(text, told).flatMap(({ text, meaning }) =>
    meaning == null ? flagged(text) : [h("abbr", { title: meaning }, text)],
  );
}

/** All of them, and what the names are that occur in a session, folded away. */
export function words(view: View): HTMLElement {
  const listed = WORDS.map(({ word, short, meaning }) => [short ? `${word}, ${short}` : word, meaning] as const);
  return h(
    "details",
    { class: "words" },
    h("summary", {}, "What the words mean"),
    h(
      "dl",
      {},
      ...[...listed, ...namesOf(view)].flatMap(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)]),
    ),
  );
}

/** What the levels are that have names: `uring:multishot`. */
function namesOf(view: View): [string, string][] {
  const found = view.plan.factors.flatMap((factor) =>
    Object.entries(factor.names ?? {}).map(([name, meaning]): [string, string] => [
      name,
      `${factor.heading}: ${meaning}`,
    ]),
  );
  return [...new Map(found)].filter(([name]) => !WORDS.some(({ word }) => word === name));
}
