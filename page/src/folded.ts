// Long content, folded on a phone.

import { h } from "./dom";
import { PHONE } from "./look";

/** Folded away on a phone, where it is long. */
export function folded(long: boolean, summary: string, content: HTMLElement): HTMLElement {
  if (!long) return content;
  return h("details", { class: "all", open: innerWidth > PHONE }, h("summary", {}, summary), content);
}
