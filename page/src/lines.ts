// Sections of text: lines under a heading, and commands.

import type { View } from "./data";
import { h } from "./dom";
import { sentence } from "./format";
import { type Explained, flagged, hinted } from "./words";

/** A heading with lines; false without lines. */
export function section(heading: string, lines: string[], explained: Explained, id?: string): HTMLElement | false {
  return (
    lines.length > 0 &&
    h(
      "section",
      { class: "texts", ...(id ? { id } : {}) },
      h("h3", {}, ...hinted(heading, explained)),
      ...lines.map((line) => h("p", {}, ...hinted(sentence(line), explained))),
    )
  );
}

/** A command on a line of its own: one click selects all of it. */
function command(words: string): HTMLElement {
  return h("pre", { class: "command", tabindex: 0 }, h("code", {}, ...flagged(words)));
}

/** The next steps: the purpose of each command, then the command. */
export function following(next: View["next"]): HTMLElement | false {
  const steps = next.flatMap(({ command: typed, text }) =>
    typed ? [h("p", {}, sentence(`${text}:`)), command(typed)] : [h("p", {}, sentence(`${text}.`))],
  );
  return next.length > 0 && h("section", { class: "texts" }, h("h3", {}, "Next"), ...steps);
}
