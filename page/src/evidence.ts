// The evidence of the selected test: its figures and tables. A figure that changes a setting is made again in its place; after the
// selection of another cell the other figures are.

import { madeAt, nothingMeasured, titleOf } from "./data";
import { h } from "./dom";
import { missing, options } from "./figures/facts";
import { heatmap } from "./figures/heatmap";
import { knee } from "./figures/knee";
import { load } from "./figures/load";
import { overTime } from "./figures/over-time";
import { percentiles } from "./figures/percentiles";
import { sweep } from "./figures/sweep";
import { type Figure, frame } from "./frame";
import { index, picker } from "./picker";
import type { Looking, State } from "./state";

/**
 * Makes a figure for the selection; null if there is nothing to draw. `redraw` makes it again; `selectCell` selects a
 * cell and makes the other figures again.
 */
type Maker = (looking: Looking, redraw: () => void, selectCell: (id: string) => void) => Figure | HTMLElement | null;

/** The figures of the page, in their order. */
const MAKERS: Maker[] = [heatmap, sweep, percentiles, load, knee, overTime, options];

/** The place of a figure. */
interface Slot {
  place: HTMLElement;
  /** Makes the figure again. */
  make(): void;
  /** Draws it again. */
  draw(): void;
}

/** The element; `show` makes all figures for the selection, `redraw` draws them again, for another width or colour. */
export function evidence(state: State) {
  const element = h("section", { id: "evidence", "aria-labelledby": "evidence-title" });
  let slots: Slot[] = [];
  /** Fills the list of figures again: settings change their titles. */
  let relist = () => {};

  function slotOf(maker: Maker): Slot {
    const place = h("div", { class: "slot" });
    const slot: Slot = { place, make: again, draw: () => {} };
    const fill = (): void => {
      const looking = state.looking();
      const figure = looking && maker(looking, again, selectCell);
      slot.draw = () => {};
      if (!figure || figure instanceof HTMLElement) return place.replaceChildren(...(figure ? [figure] : []));
      const framed = frame(figure, conditions(looking, figure), prefix(looking, figure));
      place.replaceChildren(framed.element);
      slot.draw = framed.redraw;
    };
    // The select that the reader changed keeps the focus, and open lists stay open.
    function again(): void {
      const focused = [...place.querySelectorAll("select")].indexOf(document.activeElement as HTMLSelectElement);
      const unfolded = [...place.querySelectorAll("details[open]")].map((list) => list.className);
      fill();
      for (const list of place.querySelectorAll("details")) list.open = unfolded.includes(list.className);
      slot.draw();
      relist();
      if (focused >= 0) place.querySelectorAll("select")[focused]?.focus();
    }
    function selectCell(id: string): void {
      state.chooseCell(id);
      for (const other of slots) if (other !== slot) other.make();
    }
    fill();
    return slot;
  }

  const redraw = (): void => slots.forEach((slot) => slot.draw());

  function show(): void {
    const looking = state.looking();
    slots = [];
    if (!looking || nothingMeasured(looking.view)) return element.replaceChildren(...withoutFigures(looking));
    slots = MAKERS.map(slotOf);
    const figures = h("div", { class: "figures" }, ...slots.map(({ place }) => place));
    const list = index(figures);
    relist = list.fill;
    element.replaceChildren(picker(state, looking), list.element, figures);
    redraw();
  }

  return { element, show, redraw };
}

/** The text of a session without a test, or without a measured option. */
function withoutFigures(looking: Looking | undefined): Node[] {
  if (!looking) return [h("p", { class: "nothing" }, "This session has no test, so there is no evidence.")];
  const text = "Nothing was measured, so there is no figure. The table lists the outcome of each option.";
  const absent = missing(looking.view);
  return [
    h("h2", { id: "evidence-title" }, "Evidence"),
    h("p", { class: "nothing" }, text),
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
