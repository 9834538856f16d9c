// The frame of every figure: heading, how to read it, controls, the drawing, its data as a table and as files.

import { h, table as laidOut } from "./dom";
import { ink, paper } from "./look";
import { csv, png, save, standalone, type Table } from "./save";
import { flagged, hinted } from "./words";

export interface Figure {
  /** Names the files and the place in the page. */
  id: string;
  title: string;
  /** What it holds for where that is not the group looked at: other conditions are drawn as well. */
  holds?: string;
  /** One sentence: what stands where, and what a mark means. */
  reading: string;
  /** What a reader may do with it, beneath that; no file says it. */
  asks?: string;
  /** Selects and the like, above the drawing. */
  controls?: HTMLElement | null;
  /** Draws for a width in pixels. */
  draw(width: number): Node[];
  /** The data of what is drawn now. */
  table(): Table;
}

/** A figure that has nothing to draw yet. */
export interface Lacking {
  id: string;
  title: string;
  /** What it would need, in a sentence. */
  needs: string;
}

/** One line in its place. */
export const lacking = ({ id, title, needs }: Lacking): HTMLElement =>
  h("p", { id, class: "lacking" }, h("b", {}, title), ": ", ...hinted(needs));

/** The heading of a figure, and the files that it is saved as. */
export function headed(id: string, title: string, files: [name: string, save: () => void][]): HTMLElement {
  return h(
    "div",
    { class: "figure-head" },
    h("h3", { id: `${id}-title` }, ...hinted(title)),
    h(
      "div",
      { class: "save", role: "group", "aria-label": `Save “${title}”` },
      ...files.map(([name, save]) => h("button", { type: "button", onclick: save }, name)),
    ),
  );
}

const NARROWEST = 300;
const ROWS_MAX = 400;

/** The figure in its frame, drawn once it has a width; `redraw` draws it again. Its files say under which conditions it holds, and where and when it was measured; `prefix` begins their names. */
export function frame(figure: Figure, conditions: string[], prefix: string): { element: HTMLElement; redraw(): void } {
  const drawing = h("div", { class: "drawing" });
  const data = h("details", { class: "data", ontoggle: () => fill() }, h("summary", {}, "Data as a table"));
  const name = `${prefix}-${figure.id}`;
  const svgs = () =>
    [...drawing.querySelectorAll<SVGSVGElement>("svg")].filter((each) => !each.parentElement?.closest("svg"));
  const file = () => {
    const beneath = [...drawing.querySelectorAll("p.said, p.reading")].map((each) =>
      each.textContent.replace(/[^.]$/, "$&."),
    );
    return standalone(svgs(), figure.title, conditions, [figure.reading, ...beneath].join(" "), paper(), ink());
  };
  const element = h(
    "figure",
    { id: figure.id, "aria-labelledby": `${figure.id}-title` },
    headed(figure.id, figure.title, [
      ["SVG", () => save(`${name}.svg`, "image/svg+xml", file())],
      ["PNG", () => void png(file()).then((dots) => save(`${name}.png`, "image/png", dots))],
      ["CSV", () => save(`${name}.csv`, "text/csv", csv(figure.table()))],
    ]),
    figure.controls ?? null,
    h("p", { class: "reading" }, ...hinted(figure.reading), figure.asks ? ` ${figure.asks}` : ""),
    drawing,
    data,
  );

  function fill(): void {
    data.querySelector(".table")?.remove();
    if (data.open) data.append(tableOf(figure.table(), `Data of “${figure.title}”`));
  }

  return {
    element,
    redraw() {
      const width = Math.max(NARROWEST, Math.floor(drawing.clientWidth || element.clientWidth || 800));
      drawing.replaceChildren(...figure.draw(width));
      for (const each of svgs()) {
        if (!each.hasAttribute("aria-label")) each.setAttribute("aria-label", `${figure.title}. ${figure.reading}`);
      }
      fill();
    },
  };
}

/** A plain table; long ones end with how many rows the CSV has beyond. */
export function tableOf({ columns, rows }: Table, name: string): HTMLElement {
  const shown = rows.slice(0, ROWS_MAX);
  const more = rows.length - shown.length;
  const value = (value: string | number | null) =>
    h("td", typeof value === "number" ? { class: "number" } : {}, ...flagged(text(value)));
  return laidOut(
    name,
    columns.map((column) => (column === "" ? "" : h("span", {}, ...hinted(column)))),
    shown.map((row) => h("tr", {}, ...row.map(value))),
    { foot: more > 0 ? h("tr", {}, h("td", { colspan: columns.length }, `… ${more} rows more: save the CSV`)) : null },
  );
}

function text(value: string | number | null): string {
  if (value == null) return "";
  if (typeof value === "string") return value;
  // A size is told to the byte, a rate to what can be known of it.
  return String(Number.isInteger(value) && Math.abs(value) < 2 ** 31 ? value : Number(value.toPrecision(6)));
}

/** A select with a label. */
export function select(
  label: string,
  choices: { value: string; text: string }[],
  chosen: string,
  changed: (value: string) => void,
): HTMLElement {
  const list = h(
    "select",
    { onchange: (event) => changed((event.target as HTMLSelectElement).value) },
    ...choices.map((choice) => h("option", { value: choice.value, selected: choice.value === chosen }, choice.text)),
  );
  list.value = chosen;
  return h("label", { class: "select" }, h("span", {}, label), list);
}

/** What is said where there is nothing to draw. */
export function nothing(text: string): HTMLElement {
  return h("p", { class: "nothing" }, text);
}
