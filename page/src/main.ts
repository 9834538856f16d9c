// The page: the results of a session, then the evidence of one test. Draws only the documents in the page; requests nothing and
// computes only places of marks.

import "./style.css";
import { nothingMeasured, read } from "./data";
import { h } from "./dom";
import { evidence } from "./evidence";
import { environment, missing, notes } from "./figures/facts";
import { select } from "./frame";
import { isDark } from "./look";
import { results } from "./results";
import { State } from "./state";

/** The pause after a change of the width before figures are drawn again. */
const RESIZED_MS = 120;

function start(): void {
  const page = document.getElementById("page");
  const views = read(document.getElementById("sessions")?.textContent ?? "[]");
  if (!page || views.length === 0) return;
  const state = new State(views);
  const top = h("div", {});
  const shown = evidence(state);
  const machine = h("section", { id: "machine", "aria-label": "Machine, notes and options that were not measured" });
  const main = h("main", {}, top, shown.element, machine);
  page.replaceChildren(head(state, shown.redraw), main);

  function show(): void {
    const { view } = state;
    document.title = `bytegauge ${view.plan.name} · session ${view.session}`;
    top.replaceChildren(results(view, (group) => state.openGroup(group)));
    const parts = [notes(view), environment(view), nothingMeasured(view) ? null : missing(view)];
    machine.replaceChildren(...parts.filter((part) => part != null));
    shown.show();
  }

  state.onChange(show);
  onWidth(shown.redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown.redraw);
  matchMedia("print").addEventListener("change", shown.redraw);
  addEventListener("beforeprint", unfold);
  show();
}

/** Opens the folded lists: paper has no other way to them. */
const unfold = (): void => document.querySelectorAll("details.all").forEach((list) => list.setAttribute("open", ""));

/** Calls `redraw` after the width of the window has changed. */
function onWidth(redraw: () => void): void {
  let width = innerWidth;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(redraw, RESIZED_MS);
  });
}

/** The name of the session, the selection of a session, light and dark. */
function head(state: State, redraw: () => void): HTMLElement {
  const title = h("h1", {});
  const line = h("p", { class: "head" });
  const fill = () => {
    const name = `bytegauge ${state.view.plan.name}`;
    title.textContent = name;
    // The title has the name already.
    line.textContent = state.view.heading.replace(name, "").trim();
  };
  state.onChange(fill);
  fill();
  const options = state.views.map((view, at) => ({
    value: String(at),
    text: `${view.session}: ${view.plan.name}, ${view.started}`,
  }));
  const sessions =
    options.length > 1 && select("session", options, String(state.at), (at) => state.openSession(Number(at)));
  const flip = () => {
    document.documentElement.dataset["theme"] = isDark() ? "light" : "dark";
    redraw();
  };
  return h(
    "header",
    {},
    h("a", { class: "skip", href: "#evidence" }, "To the evidence"),
    h(
      "div",
      { class: "head-row" },
      title,
      h(
        "div",
        { class: "tools" },
        sessions,
        h("button", { type: "button", id: "theme", onclick: flip }, "Light / dark"),
        h("button", { type: "button", onclick: () => print() }, "Print"),
      ),
    ),
    line,
  );
}

start();
