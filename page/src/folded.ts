// What is long: behind a line of its own on a phone.

import { h } from "./dom";
import { PHONE } from "./look";

/** More answers than this are short on a phone, until one of them is asked for. */
export const FEW = 4;

/** Folded away on a phone, where it is long. */
export function folded(long: boolean, summary: string, content: HTMLElement): HTMLElement {
  if (!long) return content;
  return h("details", { class: "all", open: innerWidth > PHONE }, h("summary", {}, summary), content);
}
