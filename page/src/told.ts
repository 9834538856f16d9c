// What is around the results, in words: lines under a heading, and commands.

import type { View } from "./data";
import { h } from "./dom";
import { sentence } from "./format";
import { flagged, hinted, type Told } from "./words";

/** Some lines under a heading; nothing where there are none. */
export function told(heading: string, lines: string[], explained: Told, id?: string): HTMLElement | false {
  return (
    lines.length > 0 &&
    h(
      "section",
      { class: "told", ...(id ? { id } : {}) },
      h("h3", {}, ...hinted(heading, explained)),
      ...lines.map((line) => h("p", {}, ...hinted(sentence(line), explained))),
    )
  );
}

/** A command as it is typed, on a line by itself that is never broken: one click takes all of it. */
function command(words: string): HTMLElement {
  return h("pre", { class: "command", tabindex: 0 }, h("code", {}, ...flagged(words)));
}

/** The section of what to do next: what each command does, then the command. */
export function following(next: View["next"]): HTMLElement | false {
  const steps = next.flatMap(({ command: typed, text }) =>
    typed ? [h("p", {}, sentence(`${text}:`)), command(typed)] : [h("p", {}, sentence(`${text}.`))],
  );
  return next.length > 0 && h("section", { class: "told" }, h("h3", {}, "Next"), ...steps);
}
