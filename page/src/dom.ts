// Makes elements. Text goes in as text alone: whatever a name in the data looks like, it is never markup.

import { unbroken } from "./format";

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

/** An element with attributes, listeners (`onclick`) and children. */
export const h = <K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) =>
  filled(document.createElement(tag), attributes, children);

/** The same of SVG. */
export const svg = <K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

function filled<Made extends Element>(element: Made, attributes: Attributes, children: Child[]): Made {
  for (const [name, value] of Object.entries(attributes)) {
    if (value == null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child == null || child === false) continue;
    // Code stays as it is.
    element.append(typeof child === "string" && element.tagName !== "CODE" ? unbroken(child) : child);
  }
  return element;
}

const ARROWS: Record<string, [right: number, down: number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The step of an arrow key, which then does not scroll; undefined for another key. */
export function arrow(event: KeyboardEvent): [right: number, down: number] | undefined {
  const step = ARROWS[event.key];
  if (step) event.preventDefault();
  return step;
}

/** Tables of more rows scroll in their own box. */
const LONG = 24;

/**
 * A table that scrolls in its own box, by the keyboard as well. Its name is a hidden caption for screen readers; a `caption` is
 * visible. An empty head is no heading.
 */
export function table(
  name: string,
  heads: (Node | string)[],
  rows: HTMLTableRowElement[],
  { kind, caption, foot }: { kind?: string; caption?: string; foot?: HTMLTableRowElement | null } = {},
): HTMLElement {
  return h(
    "div",
    {
      class: ["table", kind, rows.length > LONG && "long"].filter((each) => each).join(" "),
      tabindex: 0,
      role: "group",
      "aria-label": name,
    },
    h(
      "table",
      {},
      h("caption", { class: caption == null ? "unseen" : null }, caption ?? name),
      h("thead", {}, h("tr", {}, ...heads.map((head) => (head === "" ? h("td") : h("th", { scope: "col" }, head))))),
      h("tbody", {}, ...rows),
      foot ? h("tfoot", {}, foot) : null,
    ),
  );
}
