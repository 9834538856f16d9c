// The selected test: its result, its trials, and the list of its figures.

import { candidates, isMeasured, titleOf, type View } from "./data";
import { h } from "./dom";
import { capital, counted, duration } from "./format";
import { select } from "./frame";
import { PHONE } from "./look";
import type { Looking, State } from "./state";
import { hinted } from "./words";

/** The result of a test: what to set, and how certain that is. */
function decisionOf({ decisions }: View, { id }: Looking["group"]): string {
  const found = decisions.find(({ test }) => test === id);
  return found ? capital(`${found.set}: ${found.why}.`) : "No result.";
}

/** The selection of a test. */
export function picker(state: State, { view, group }: Looking): HTMLElement {
  const at = view.groups.indexOf(group);
  const step = (by: number) => () => {
    const next = view.groups[(at + by + view.groups.length) % view.groups.length];
    if (next) state.openGroup(next.id);
  };
  const measured = candidates(view, group).filter(isMeasured).length;
  const [young, old] = (group.age_ns ?? []) as number[];
  const facts = [
    `${counted(measured, "option")} measured`,
    view.status === "imported"
      ? `${counted(group.blocks.used, "trial")} of each, imported`
      : `${counted(group.blocks.used, "block")} of confirmation`,
    group.warmup_ns != null && `${duration(group.warmup_ns)} of warm-up`,
    young != null && old != null && `connections ${duration(young)} to ${duration(old)} after they opened`,
  ];
  return h(
    "div",
    { class: "picker" },
    h("h2", { id: "evidence-title" }, "The evidence"),
    h(
      "div",
      { class: "controls" },
      select(
        "test",
        view.groups.map((each) => ({ value: each.id, text: titleOf(view, each.id) })),
        group.id,
        (id) => state.openGroup(id),
      ),
      view.groups.length > 1 &&
        h("button", { type: "button", onclick: step(-1), "aria-label": "The test before" }, "‹"),
      view.groups.length > 1 && h("button", { type: "button", onclick: step(1), "aria-label": "The next test" }, "›"),
    ),
    // That of the only test is at the top of the page.
    view.groups.length > 1 && !view.versus && h("p", { class: "verdict" }, ...hinted(decisionOf(view, group))),
    h("p", { class: "reading" }, ...hinted(`${facts.filter((part) => part).join(", ")}.`)),
  );
}

/** The list of the figures, with links: a small screen shows one figure at a time. */
export function index(room: HTMLElement): { element: HTMLElement; fill(): void } {
  const figures = () => [...room.querySelectorAll("figure")];
  const list = h("ol", {});
  const fill = () =>
    list.replaceChildren(
      ...figures().map((each) => h("li", {}, h("a", { href: `#${each.id}` }, each.querySelector("h3")?.textContent))),
    );
  // Open on a wide page, so that the figures are visible.
  const attributes = { class: "index", open: innerWidth > PHONE, ontoggle: fill };
  return { element: h("details", attributes, h("summary", {}, "Go to a figure"), list), fill };
}
