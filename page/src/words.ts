// The terms of the glossary: as a list, and as hints at their first use in a text.

import glossary from "../../docs/glossary.md?raw";
import type { View } from "./data";
import { h } from "./dom";

/** The section of the glossary whose terms have hints; the other sections contain common words. */
const HINTED_SECTION = "How it is measured";
/** Terms of other sections that have hints. */
const HINTED = ["interval", "margin", "undecided"];

/** The terms of a glossary: rows of Markdown tables, `| term, other name | meaning |`. */
function parse(markdown: string) {
  let section = "";
  return markdown.split("\n").flatMap((line) => {
    if (line.startsWith("## ")) section = line.slice(3);
    const [, terms, meaning] = line.match(/^\| (.+?) \| (.+) \|$/) ?? [];
    if (!terms || !meaning || terms === "term") return [];
    // A term and its other names.
    const words = terms.split(", ");
    // Texts have a hint at its first use.
    const hinted = section === HINTED_SECTION || words.some((word) => HINTED.includes(word));
    return [{ words, meaning: meaning.replaceAll("`", ""), hinted }];
  });
}

export const WORDS = parse(glossary);

const FORMS = new Map(
  WORDS.filter(({ hinted }) => hinted).flatMap((each) =>
    each.words.flatMap((word) => [word, `${word}s`].map((form) => [form.toLowerCase(), each] as const)),
  ),
);
const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
// Longer terms contain shorter ones, so they come first. A flag and a part of another word are no terms.
const FOUND = new RegExp(
  `(?<![-\\w])(${[...FORMS.keys()]
    .sort((a, b) => b.length - a.length)
    .map(escaped)
    .join("|")})(?![-\\w])`,
  "gi",
);

/** The terms that a section has explained. */
export type Explained = Set<(typeof WORDS)[number]>;

/** The pieces of a text: each term has its meaning at the first use. */
export function pieces(text: string, explained: Explained = new Set()): { text: string; meaning?: string }[] {
  const found: { text: string; meaning?: string }[] = [];
  let from = 0;
  for (const { 0: form, index } of text.matchAll(FOUND)) {
    const known = FORMS.get(form.toLowerCase());
    if (!known || explained.has(known)) continue;
    explained.add(known);
    found.push({ text: text.slice(from, index) }, { text: form, meaning: `${known.words[0]}: ${known.meaning}` });
    from = index + form.length;
  }
  return [...found, { text: text.slice(from) }].filter((piece) => piece.text !== "");
}

/** A text whose flags are never broken at the end of a line; text between backticks is code. */
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

/** A text whose terms show their meaning on hover. */
export function hinted(text: string, explained?: Explained): (Node | string)[] {
  return pieces(text, explained).flatMap(({ text, meaning }) =>
    meaning == null ? flagged(text) : [h("abbr", { title: meaning }, text)],
  );
}

/** Texts as a list. */
export const bullets = (texts: string[], explained: Explained, kind?: string): HTMLElement =>
  h("ul", { class: kind }, ...texts.map((text) => h("li", {}, ...hinted(text, explained))));

/** All terms, and the names of levels that occur in a session, folded away. */
export function words(view: View): HTMLElement {
  const listed = WORDS.map(({ words, meaning }): [string, string] => [words.join(", "), meaning]);
  const entries = [...listed, ...namesOf(view)];
  return h(
    "details",
    { class: "words" },
    h("summary", {}, "Glossary"),
    h("dl", {}, ...entries.flatMap(([word, meaning]) => [h("dt", {}, word), h("dd", {}, meaning)])),
  );
}

/** The levels that have names: `uring:multishot`. */
function namesOf(view: View): [string, string][] {
  const found = view.plan.factors.flatMap((factor) =>
    Object.entries(factor.names ?? {}).map(([name, meaning]): [string, string] => [
      name,
      `${factor.heading}: ${meaning}`,
    ]),
  );
  return [...new Map(found)].filter(([name]) => !WORDS.some(({ words }) => words.includes(name)));
}
