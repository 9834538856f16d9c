// Which conditions are looked at, what is known of them, and what figures there are to go to.

import { candidates } from "./data";
import { h } from "./dom";
import { capital, counted, duration } from "./format";
import { select } from "./frame";
import { PHONE } from "./look";
import { doubt, signOf } from "./standing";
import type { Looking, State } from "./state";
import { hinted } from "./words";

/** The result of the test. */
const recommended = ({ view, group }: Pick<Looking, "view" | "group">): string =>
  capital(`${view.tests.find(({ id }) => id === group.id)?.result ?? "no result"}.`);

/** Which conditions are looked at. */
export function picker(state: State, { view, group }: Looking): HTMLElement {
  const at = view.groups.indexOf(group);
  const step = (by: number) => () => {
    const next = view.groups[(at + by + view.groups.length) % view.groups.length];
    if (next) state.openGroup(next.id);
  };
  const known = doubt(view, group.id);
  const measured = candidates(view, group).filter((cell) => cell.outcome === "measured").length;
  const [young, old] = (group.age_ns ?? []) as number[];
  const facts = [
    `${counted(measured, "cell")} measured`,
    view.status === "imported"
      ? `${counted(group.blocks.used, "trial")} of each, by somebody else`
      : `${counted(group.blocks.used, "block")} of confirmation`,
    group.warmup_ns != null && `${duration(group.warmup_ns)} of warm-up`,
    young != null && old != null && `connections ${duration(young)} to ${duration(old)} after they opened`,
    group.look && `analysis ${group.look.done} of ${group.look.of}`,
  ];
  return h(
    "div",
    { class: "picker" },
    h("h2", { id: "evidence-title" }, "The evidence"),
    h(
      "div",
      { class: "controls" },
      select(
        "under these conditions",
        view.groups.map((each) => ({ value: each.id, text: each.label || each.id })),
        group.id,
        (id) => state.openGroup(id),
      ),
      view.groups.length > 1 &&
        h("button", { type: "button", onclick: step(-1), "aria-label": "The conditions before" }, "‹"),
      view.groups.length > 1 &&
        h("button", { type: "button", onclick: step(1), "aria-label": "The next conditions" }, "›"),
    ),
    h("p", { class: "verdict" }, ...hinted(recommended({ view, group }))),
    known &&
      h(
        "p",
        { class: "known" },
        h("span", { class: `mark ${known.mark}` }, signOf(known.mark)),
        " ",
        ...hinted(known.text),
      ),
    h("p", { class: "reading" }, ...hinted(`${facts.filter((part) => part).join(", ")}.`)),
  );
}

/** What there is to see of these conditions, to go to it: a small screen shows one of them at a time. */
export function index(room: HTMLElement): { element: HTMLElement; fill(): void } {
  const figures = () => [...room.querySelectorAll("figure")];
  const list = h("ol", {});
  const fill = () =>
    list.replaceChildren(
      ...figures().map((each) => h("li", {}, h("a", { href: `#${each.id}` }, each.querySelector("h3")?.textContent))),
    );
  // On a wide page it stands open: a closed one tells nobody what there is.
  const attributes = { class: "index", open: innerWidth > PHONE, ontoggle: fill };
  return { element: h("details", attributes, h("summary", {}, "Go to a figure"), list), fill };
}
