// The frame of every figure: heading, caption, notes on demand, controls, the drawing, its data as a table and as files.

import type { Level } from "./data";
import { h, table as laidOut } from "./dom";
import { ink, paper } from "./look";
import { csv, png, save, standalone, type Table } from "./save";
import { type Explained, flagged, hinted } from "./words";

/** A sentence, or nothing where its condition does not hold. */
export type Note = string | false | null | undefined;

export interface Figure {
  /** Names the files and the element in the page. */
  id: string;
  title: string;
  /** The conditions of the data, if they differ from those of the selected group. */
  holds?: string;
  /** One sentence: what the axes are and what a mark means. */
  caption: string;
  /** Further sentences, folded away. */
  notes?: Note[];
  /** What a reader can do with the figure; not part of a saved file. */
  asks?: string;
  /** Selects and the like, above the drawing. */
  controls?: HTMLElement | null;
  /** Draws for a width in pixels. */
  draw(width: number): Node[];
  /** The data of the current drawing. */
  table(): Table;
}

/** Caption and notes as one text: for saved files and screen readers. */
export const readingOf = ({ caption, notes = [] }: Pick<Figure, "caption" | "notes">): string =>
  [caption, ...notes].filter((line) => line).join(" ");

/** The heading of a figure, and the buttons that save it. */
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

/** The caption, and the notes behind one line. */
export function reading(caption: string, notes: Note[] = [], asks?: string): HTMLElement {
  const more = notes.filter((note) => note).join(" ");
  const explained: Explained = new Set();
  return h(
    "div",
    { class: "reading" },
    h("p", {}, ...hinted(caption, explained), asks ? ` ${asks}` : ""),
    more &&
      h("details", { class: "notes" }, h("summary", {}, "How to read this"), h("p", {}, ...hinted(more, explained))),
  );
}

const WIDTH_MIN = 300;
const ROWS_MAX = 400;

/**
 * A figure in its frame, drawn once it has a width; `redraw` draws it again. Saved files contain the conditions, and where and
 * when the session was measured; their names begin with `prefix`.
 */
export function frame(figure: Figure, conditions: string[], prefix: string): { element: HTMLElement; redraw(): void } {
  const drawing = h("div", { class: "drawing" });
  const data = h("details", { class: "data", ontoggle: () => fill() }, h("summary", {}, "Data as a table"));
  const svgs = () =>
    [...drawing.querySelectorAll<SVGSVGElement>("svg")].filter((each) => !each.parentElement?.closest("svg"));
  const element = h(
    "figure",
    { id: figure.id, "aria-labelledby": `${figure.id}-title` },
    headed(figure.id, figure.title, files(figure, drawing, svgs, conditions, `${prefix}-${figure.id}`)),
    figure.controls ?? null,
    reading(figure.caption, figure.notes, figure.asks),
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
      const width = Math.max(WIDTH_MIN, Math.floor(drawing.clientWidth || element.clientWidth || 800));
      drawing.replaceChildren(...figure.draw(width));
      for (const each of svgs())
        if (!each.hasAttribute("aria-label")) each.setAttribute("aria-label", `${figure.title}. ${readingOf(figure)}`);
      fill();
    },
  };
}

/** The files that a figure is saved as. */
function files(
  figure: Figure,
  drawing: HTMLElement,
  svgs: () => SVGSVGElement[],
  conditions: string[],
  name: string,
): [name: string, save: () => void][] {
  const file = () => {
    const below = [...drawing.querySelectorAll("p.selected, p.reading")].map((each) =>
      each.textContent.replace(/[^.]$/, "$&."),
    );
    const text = [readingOf(figure), ...below].join(" ");
    return standalone(svgs(), figure.title, conditions, text, paper(), ink());
  };
  return [
    ["SVG", () => save(`${name}.svg`, "image/svg+xml", file())],
    ["PNG", () => void png(file()).then((dots) => save(`${name}.png`, "image/png", dots))],
    ["CSV", () => save(`${name}.csv`, "text/csv", csv(figure.table()))],
  ];
}

/** A plain table; the last line of a long one gives the number of rows that only the CSV has. */
export function tableOf({ columns, rows }: Table, name: string, kind?: string): HTMLElement {
  const shown = rows.slice(0, ROWS_MAX);
  const more = rows.length - shown.length;
  const value = (value: Level | undefined, at: number) =>
    h(
      "td",
      { class: typeof value === "number" ? "number" : null, "data-head": at > 0 ? columns[at] : null },
      ...flagged(text(value)),
    );
  return laidOut(
    name,
    columns.map((column) => (column === "" ? "" : h("span", {}, ...hinted(column)))),
    shown.map((row) => h("tr", {}, ...row.map(value))),
    {
      kind,
      foot: more > 0 ? h("tr", {}, h("td", { colspan: columns.length }, `… ${more} rows more: save the CSV`)) : null,
    },
  );
}

function text(value: Level | undefined): string {
  if (typeof value !== "number") return String(value ?? "");
  // A size is exact; a rate has the digits that can be measured.
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

/** The controls of a figure with one setting; null without a choice. */
export function setting(...[label, choices, chosen, changed]: Parameters<typeof select>): HTMLElement | null {
  return choices.length < 2 ? null : h("div", { class: "controls" }, select(label, choices, chosen, changed));
}

/** The line that replaces an empty drawing. */
export function nothing(text: string): HTMLElement {
  return h("p", { class: "nothing" }, text);
}
