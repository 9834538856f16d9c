// The evidence of the selected test: its figures and tables. A figure that changes a setting is made again in its place; after the
// selection of another cell the other figures are.

import { madeAt, nothingMeasured, titleOf } from "./data";
import { h } from "./dom";
import { makers, type Maker } from "./figures/all";
import { missing } from "./figures/facts";
import { type Figure, frame, lacking } from "./frame";
import { index, picker } from "./picker";
import type { Looking, State } from "./state";

export interface Evidence {
  element: HTMLElement;
  /** Makes all figures for the selection. */
  show(): void;
  /** Draws all figures again, for another width or colour. */
  redraw(): void;
}

export function evidence(state: State): Evidence {
  const element = h("section", { id: "evidence", "aria-labelledby": "evidence-title" });
  const redraws = new Map<Element, () => void>();
  /** Makes the figure of a place again. */
  const remakes = new Map<Element, () => void>();
  /** Fills the list of figures again: settings change their titles. */
  let relist = () => {};

  /** The place of a figure. */
  function slot(make: Maker): HTMLElement {
    const place = h("div", { class: "slot" });
    const fill = (): void => {
      const looking = state.looking();
      const figure = looking && make(looking, again, selectCell);
      redraws.delete(place);
      if (!figure) return place.replaceChildren();
      if (figure instanceof HTMLElement) return place.replaceChildren(figure);
      if ("needs" in figure) return place.replaceChildren(lacking(figure));
      const framed = frame(figure, conditions(looking, figure), prefix(looking, figure));
      place.replaceChildren(framed.element);
      redraws.set(place, framed.redraw);
    };
    // The select that the reader changed keeps the focus, and open lists stay open.
    function again(): void {
      const focused = [...place.querySelectorAll("select")].indexOf(document.activeElement as HTMLSelectElement);
      const unfolded = [...place.querySelectorAll("details[open]")].map((list) => list.className);
      fill();
      for (const list of place.querySelectorAll("details")) list.open = unfolded.includes(list.className);
      redraws.get(place)?.();
      relist();
      if (focused >= 0) place.querySelectorAll("select")[focused]?.focus();
    }
    function selectCell(id: string): void {
      state.chooseCell(id);
      for (const [other, remake] of remakes) if (other !== place) remake();
    }
    remakes.set(place, again);
    fill();
    return place;
  }

  function redraw(): void {
    for (const [place, again] of redraws) {
      if (place.isConnected) again();
      else redraws.delete(place);
    }
  }

  function show(): void {
    const looking = state.looking();
    const empty = emptyEvidence(state, looking);
    if (empty || !looking) return element.replaceChildren(...(empty ?? []));
    remakes.clear();
    const figures = h("div", { class: "figures" }, ...makers.map(slot));
    const list = index(figures);
    relist = list.fill;
    element.replaceChildren(picker(state, looking), list.element, figures);
    redraw();
  }

  return { element, show, redraw };
}

/** The text of a session without evidence; null in other sessions. */
function emptyEvidence({ view }: State, looking: Looking | undefined): Node[] | null {
  if (!looking) return [h("p", { class: "nothing" }, "This session has no test, so there is no evidence.")];
  if (!nothingMeasured(view)) return null;
  const absent = missing(view);
  return [
    h("h2", { id: "evidence-title" }, "Evidence"),
    h(
      "p",
      { class: "nothing" },
      "Nothing was measured, so there is no figure. The table lists the outcome of each option.",
    ),
    ...(absent ? [absent] : []),
  ];
}

/** The conditions of a figure, for readers of a saved file: those of its group, or those of all groups. */
function conditions({ view, group }: Looking, { holds }: Figure): string[] {
  const parts = [`bytegauge ${view.plan.name}`, `session ${view.session}`, holds ?? titleOf(view, group.id)];
  return [parts.filter((part) => part !== "").join(" · "), madeAt(view)];
}

/** The beginning of file names: `bytegauge-stream-session12-g3`; a figure of all groups names none. */
function prefix({ view, group }: Looking, { holds }: Figure): string {
  const plan = view.plan.name.replaceAll(/[^\w-]+/g, "-");
  return ["bytegauge", plan, `session${view.session}`, ...(holds == null ? [group.id] : [])].join("-");
}
