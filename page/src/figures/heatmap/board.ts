// The board of a heat map: the drawing, the selected cell, keyboard and pointer, the two lines through the cell, and the keys.

import { axisName, type CellView, factorOf, level } from "../../data";
import { arrow, h, svg } from "../../dom";
import { nothing } from "../../frame";
import { named } from "../../levels";
import { ink, NARROW } from "../../look";
import { NONE, type Sweep, sweepOf } from "../sweep-data";
import { lines, rangeOf } from "../sweep-lines";
import { describe, type HeatMap, withoutTile } from "./contents";
import { drawMap, type Drawn, TOP } from "./draw";
import { colourKey, markKey, selectedColour } from "./keys";
import { type Layout, layout as laidOut } from "./layout";

/** The least width of a line through the map, pixels. */
const LINE_MIN = 300;

/** Draws a map for a width in pixels; `selected` hears of each cell that the reader selects. */
export function board(map: HeatMap, width: number, selected: (id: string) => void): Node[] {
  const layout = laidOut(map, width);
  const drawn = drawMap(map, layout);
  const text = h("p", { class: "selected", "aria-live": "polite" });
  // Next to a small map the lines are side by side, so that they are not higher than the map.
  const rest = width - layout.width - 32;
  const isPair = layout.sideBySide && rest >= 2 * LINE_MIN + 16;
  const slices = h("div", { class: isPair ? "side slices pair" : "side slices" });
  const lineWidth = isPair ? rest / 2 - 8 : layout.sideBySide ? rest : width < NARROW ? width : width / 2 - 8;
  const show = () => {
    const [where, ...facts] = describe(map, map.chosen);
    text.textContent = `${where}: ${facts.join("; ")}`;
    frameSelected(map, drawn);
    slices.replaceChildren(...linesThrough(map, layout, lineWidth));
  };
  const go = (cell: CellView | undefined) => {
    if (!cell) return;
    map.chosen = cell;
    selected(cell.id);
    show();
  };
  const place = surface(map, layout, drawn, go);
  show();
  const picture = h("div", {}, place, ...keys(map, layout));
  const through = h("div", { class: "through" }, text, slices);
  return [layout.sideBySide ? h("div", { class: "side map" }, picture, through) : h("div", {}, picture, through)];
}

/** Frames the selected cell, below the tip. */
function frameSelected({ wish, chosen }: HeatMap, { drawing, x, y, tip }: Drawn): void {
  const frame = svg("rect", {
    class: "chosen",
    x: x.apply(level(chosen, wish.x)) - 1,
    y: y.apply(level(chosen, wish.y)) - 1,
    width: (x.bandwidth ?? 0) + 2,
    height: (y.bandwidth ?? 0) + 2,
    rx: 3,
    fill: "none",
    stroke: selectedColour(),
    "stroke-width": 3,
    "pointer-events": "none",
  });
  const last = drawing.querySelector(".chosen");
  // Plot makes the tip again when the pointer moves: only the first frame can be put before it.
  if (last) last.replaceWith(frame);
  else drawing.insertBefore(frame, tip);
}

/** The height of a line, pixels. */
const LINE_HEIGHT = 210;

/** The row and the column of the selected cell as two lines with one scale. */
function linesThrough({ view, group, wish, chosen, measure }: HeatMap, { cells }: Layout, width: number): Element[] {
  const ring = {
    name: "selected",
    is: (cell: CellView) => cell === chosen,
    look: () => ({ r: 9, stroke: ink(), strokeWidth: 1.5 }),
  };
  const both = [wish.x, wish.y].map((x): Sweep => {
    const sweep = sweepOf(view, group, cells, chosen, { x, colour: NONE, facet: NONE }, measure);
    return { ...sweep, over: [ring] };
  });
  const range = rangeOf(
    measure,
    both.flatMap((sweep) => sweep.cells),
  );
  const line = (sweep: Sweep) => {
    const factor = factorOf(view, sweep.x === wish.x ? wish.y : wish.x);
    const at = `${factor.heading} ${named(level(chosen, factor.name), factor)}`;
    if (sweep.cells.length < 2) return nothing(`At ${at} no other ${axisName(sweep.fx)} was measured.`);
    return lines(sweep, sweep.cells, `${measure.label} at ${at}`, width, range, LINE_HEIGHT);
  };
  return both.map(line);
}

/** The drawing, where the arrow keys and clicks select a cell. */
function surface(
  map: HeatMap,
  { cells, xs, ys, left, tile }: Layout,
  { drawing }: Drawn,
  go: (cell: CellView | undefined) => void,
): HTMLElement {
  const { wish, measure } = map;
  const at = (column: number, row: number): CellView | undefined =>
    cells.find((cell) => level(cell, wish.x) === xs[column] && level(cell, wish.y) === ys[row]);
  const step = ([right, down]: [number, number]) => {
    const [column, row] = [xs.indexOf(level(map.chosen, wish.x)), ys.indexOf(level(map.chosen, wish.y))];
    // A plan can have gaps: take the next cell in that direction.
    for (let n = 1; n <= Math.max(xs.length, ys.length); n += 1) {
      const next = at(column + right * n, row + down * n);
      if (next) return go(next);
    }
  };
  const clicked = ({ clientX, clientY }: MouseEvent) => {
    const box = drawing.getBoundingClientRect();
    const zoom = drawing.viewBox.baseVal.width / box.width;
    const [x, y] = [(clientX - box.left) * zoom - left, (clientY - box.top) * zoom - TOP];
    go(at(Math.floor(x / tile.width), Math.floor(y / tile.height)));
  };
  return h(
    "div",
    {
      class: "board",
      tabindex: 0,
      role: "application",
      "aria-label": `Heat map of ${measure.label}: the arrow keys move from cell to cell, and the text below describes it`,
      onkeydown: (event) => {
        const by = arrow(event as KeyboardEvent);
        if (by) step(by);
      },
      onclick: (event) => clicked(event as MouseEvent),
    },
    drawing,
  );
}

/** The meaning of colours and marks, and the options without a tile. */
function keys(map: HeatMap, layout: Layout): (Node | false)[] {
  const absent = map.placeless.length > 0 && h("p", { class: "reading" }, withoutTile(map));
  if (absent) absent.style.maxWidth = `${layout.width}px`;
  return [colourKey(map, layout), markKey(map, layout), absent];
}
