// What stands around the answers, in words: lines under a heading, commands, what the host took.

import type { View } from "./data";
import { h } from "./dom";
import { percent, sentence } from "./format";
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

/** What to do, in its order: commands, and what each brings; or a sentence. */
function steps(next: string[]): Node[] {
  const typed = (line: string) => line.startsWith("bytegauge ");
  if (!next.some(typed)) return [h("p", {}, sentence(next.join("; ")))];
  return next.map((line) => (typed(line) ? command(line) : h("p", {}, sentence(line))));
}

/** The section of what to do next. */
export function following(next: string[]): HTMLElement | false {
  return next.length > 0 && h("section", { class: "told" }, h("h3", {}, "Next"), ...steps(next));
}

/** The section of commands that show more. */
export function showing(more: string[]): HTMLElement | false {
  return (
    more.length > 0 &&
    h("section", { class: "told" }, h("h3", {}, "More"), h("div", { class: "commands" }, ...more.map(command)))
  );
}

/** How much the host took, where it took something: how many trials it hit says nothing of it. */
export function stolen({ environment: { steal_share: mean, steal_share_worst: worst } }: View): string[] {
  if (mean == null || worst == null || worst <= 0) return [];
  return [`the host took ${percent(mean)} of the CPU time on average, and ${percent(worst)} in the worst block`];
}
