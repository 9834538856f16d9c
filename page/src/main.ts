// The page: the answers of a session, then the evidence for one of them. Everything is drawn from the documents that stand
// in the page; nothing is fetched, and nothing is computed but places of marks.

import "./style.css";
import { beside as besideOthers } from "./beside";
import { common, madeAt, nothingMeasured, read, readBetween } from "./data";
import { h } from "./dom";
import { type Figure, frame, type Lacking, lacking, select } from "./frame";
import { audit } from "./figures/audit";
import { apart, travelled } from "./figures/between";
import { cost } from "./figures/cost";
import { course } from "./figures/course";
import { errors } from "./figures/errors";
import { cells, environment, missing, notes, options } from "./figures/facts";
import { forest } from "./figures/forest";
import { heatmap } from "./figures/heatmap";
import { knee } from "./figures/knee";
import { load } from "./figures/load";
import { overTime } from "./figures/over-time";
import { percentiles } from "./figures/percentiles";
import { sessions } from "./figures/sessions";
import { sweep } from "./figures/sweep";
import { twins } from "./figures/twins";
import { type Live, live } from "./live";
import { nothing } from "./nothing";
import { index, picker } from "./picker";
import { results } from "./results";
import { type Looking, State } from "./state";
import { gains, verdict, versus } from "./versus";

type Maker = (looking: Looking, redraw: () => void) => Figure | Lacking | null;

const RESIZED_MS = 120;

function start(): void {
  const data = document.getElementById("sessions")?.textContent ?? "[]";
  const page = document.getElementById("page");
  const views = read(data);
  if (!page || views.length === 0) return;
  const state = new State(views, readBetween(document.getElementById("between")?.textContent ?? "null"));
  const makers: Maker[] = [
    versus,
    gains,
    forest,
    (looking) => sessions(looking, state),
    (looking) => apart(looking, state),
    (looking) => travelled(looking, state),
    (looking, redraw) => heatmap(looking, state, redraw),
    sweep,
    percentiles,
    load,
    knee,
    errors,
    audit,
    overTime,
    course,
    cost,
    twins,
  ];
  const top = h("div", {});
  const evidence = h("section", { id: "evidence", "aria-labelledby": "evidence-title" });
  const beside = h("section", { id: "beside", "aria-label": "Machine, notes and what was not measured" });
  const served = JSON.parse(document.getElementById("live")?.textContent ?? "null") as Live;
  page.replaceChildren(head(state), h("main", {}, ...(served ? [live(served, state)] : []), top, evidence, beside));

  function show(): void {
    const { view } = state;
    document.title = `bytegauge ${view.plan.name} · session ${view.session}`;
    const others = besideOthers(state);
    const decided = verdict(view);
    top.replaceChildren(
      ...(decided ? [decided] : []),
      nothingMeasured(view) ? nothing(view) : results(view, (group) => state.openGroup(group)),
      ...(others ? [others] : []),
    );
    beside.replaceChildren(
      ...[notes(view), environment(view), nothingMeasured(view) ? null : missing(view)].filter((each) => each != null),
    );
    showEvidence();
  }

  function showEvidence(): void {
    const looking = state.looking();
    if (!looking) {
      evidence.replaceChildren(
        h("p", { class: "nothing" }, "This session has no group of cells: there is no evidence to show."),
      );
      return;
    }
    if (nothingMeasured(state.view)) {
      const told = missing(state.view);
      evidence.replaceChildren(
        h("h2", { id: "evidence-title" }, "The evidence"),
        h(
          "p",
          { class: "nothing" },
          "Nothing was measured, so there is no figure: every cell is listed with what became of it.",
        ),
        ...(told ? [told] : []),
      );
      return;
    }
    evidence.replaceChildren(picker(state, looking), h("div", { class: "figures" }));
    const room = evidence.lastElementChild as HTMLElement;
    for (const make of makers) room.append(slot(make, state));
    for (const each of [options(looking), cells(looking)]) if (each) room.append(each);
    const { element, fill } = index(room);
    relist = fill;
    room.before(element);
    drawAll();
  }

  /** Writes the list of figures anew: their titles change with what is chosen in them. */
  let relist = () => {};
  const redraws = new Map<Element, () => void>();
  /** A figure's place; a figure that chooses something is made anew in its place, and keeps the focus. */
  function slot(make: Maker, state: State): HTMLElement {
    const place = h("div", { class: "slot" });
    const fill = (): boolean => {
      const looking = state.looking();
      const figure = looking && make(looking, again);
      redraws.delete(place);
      if (!figure || "needs" in figure) {
        place.replaceChildren(...(figure ? [lacking(figure)] : []));
        return false;
      }
      const framed = frame(figure, conditions(looking, figure), prefix(looking, figure));
      place.replaceChildren(framed.element);
      redraws.set(place, framed.redraw);
      return true;
    };
    function again(): void {
      const focused = [...place.querySelectorAll("select")].indexOf(document.activeElement as HTMLSelectElement);
      if (fill()) redraws.get(place)?.();
      relist();
      if (focused >= 0) place.querySelectorAll("select")[focused]?.focus();
    }
    fill();
    return place;
  }

  function drawAll(): void {
    for (const [place, redraw] of redraws) {
      if (place.isConnected) redraw();
      else redraws.delete(place);
    }
  }

  state.onChange(show);
  let width = innerWidth;
  let waiting: ReturnType<typeof setTimeout> | undefined;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(drawAll, RESIZED_MS);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);
  addEventListener("themechange", drawAll);
  show();
}

/** Under which conditions a figure holds, for whoever sees it elsewhere: those of its group, or those that all groups share. */
function conditions({ view, group }: Looking, { holds }: Figure): string[] {
  const own = holds == null ? group.label || group.id : [common(view.groups.map(({ label }) => label)), holds];
  const parts = [`bytegauge ${view.plan.name}`, `session ${view.session}`, own].flat();
  return [parts.filter((part) => part !== "").join(" · "), madeAt(view)];
}

/** What the names of files begin with: `bytegauge-stream-session12-g3`; of all groups none is named. */
function prefix({ view, group }: Looking, { holds }: Figure): string {
  const plan = view.plan.name.replaceAll(/[^\w-]+/g, "-");
  return ["bytegauge", plan, `session${view.session}`, ...(holds == null ? [group.id] : [])].join("-");
}

/** Name of the session, choice of the session, light and dark. */
function head(state: State): HTMLElement {
  const title = h("h1", {});
  const said = h("p", { class: "head" });
  const tell = () => {
    const { view } = state;
    title.textContent = `bytegauge ${view.plan.name}`;
    // The name is above it.
    said.textContent = view.heading.replace(`${title.textContent} · `, "");
  };
  const sessions =
    state.views.length > 1
      ? select(
          "session",
          state.views.map((view, at) => ({
            value: String(at),
            text: `${view.session}: ${view.plan.name}, ${view.started}`,
          })),
          String(state.at),
          (at) => {
            state.openSession(Number(at));
          },
        )
      : null;
  state.onChange(() => {
    tell();
  });
  tell();
  const flip = (): void => {
    const root = document.documentElement;
    const dark = root.dataset["theme"]
      ? root.dataset["theme"] === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset["theme"] = dark ? "light" : "dark";
    dispatchEvent(new Event("themechange"));
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
    said,
  );
}

start();
