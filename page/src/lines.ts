// The next steps, with their commands.

import type { View } from "./data";
import { h } from "./dom";
import { sentence } from "./format";
import { flagged } from "./words";

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
