// The board of a heat map: the drawing, the selected cell, keyboard and pointer, the two lines through the cell, and the keys.

import { axisName, type CellView, factorOf, isConfirmed, type Level, level } from "../../data";
import { h, svg } from "../../dom";
import { nothing } from "../../frame";
import { named } from "../../levels";
import { NARROW } from "../../look";
import { colourKey } from "../key";
import { isSlower, selectedColour, markKey, type Sign } from "../marks";
import { NONE, type Sweep, sweepOf } from "../sweep-data";
import { lines, rangeOf } from "../sweep-lines";
import { type Layout, layout as laidOut, tileAt } from "./layout";
import { describe, type HeatMap, isRecommended, isSure, plane, withoutTile } from "./contents";
import { drawMap, type Drawn, STRIPES, PALE, type Scale } from "./draw";

/** The least width of a line through the map, pixels. */
const LINE_MIN = 300;

const STEPS: Record<string, [number, number]> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Draws a map for a width in pixels; `selected` hears of each cell that the reader selects. */
export function board(map: HeatMap, width: number, selected: (id: string) => void): Node[] {
  if (plane(map).length === 0) return [nothing("No cell has these levels.")];
  const layout = laidOut(map, width);
  const drawn = drawMap(map, layout);
  const frame = frameOf(drawn);
  const text = h("p", { class: "selected", "aria-live": "polite" });
  // Next to a small map the lines are side by side, so that they are not higher than the map.
  const rest = width - layout.width - 32;
  const isPair = layout.sideBySide && rest >= 2 * LINE_MIN + 16;
  const slices = h("div", { class: isPair ? "side slices pair" : "side slices" });
  const lineWidth = isPair ? rest / 2 - 8 : layout.sideBySide ? rest : width < NARROW ? width : width / 2 - 8;
  const show = () => {
    const [where, ...facts] = describe(map, map.chosen);
    text.textContent = `${where}: ${facts.join("; ")}`;
    moveFrame(frame, map, drawn);
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

/** The frame of the selected cell, below the tip. */
function frameOf({ svg: drawing, tip }: Drawn): SVGRectElement {
  const frame = svg("rect", {
    fill: "none",
    class: "chosen",
    "stroke-width": 3,
    stroke: selectedColour(),
    rx: 3,
    "pointer-events": "none",
  }) as SVGRectElement;
  drawing.insertBefore(frame, tip);
  return frame;
}

function moveFrame(frame: SVGRectElement, { wish, chosen }: HeatMap, { x, y }: Drawn): void {
  const places = {
    x: (x.apply(level(chosen, wish.x)) as number) - 1,
    y: (y.apply(level(chosen, wish.y)) as number) - 1,
    width: (x.bandwidth ?? 0) + 2,
    height: (y.bandwidth ?? 0) + 2,
  };
  for (const [key, value] of Object.entries(places)) frame.setAttribute(key, String(value));
}

/** The height of a line, pixels. */
const LINE_HEIGHT = 210;

/** The row and the column of the selected cell as two lines with one scale. */
function linesThrough({ view, group, wish, chosen, measure }: HeatMap, { cells }: Layout, width: number): Element[] {
  const through = (free: string): Sweep | null => {
    const wished = { x: free, colour: NONE, facet: NONE, measure: measure.key };
    const sweep = sweepOf(view, group, chosen, cells, [], wished);
    return sweep && { ...sweep, relayless: undefined, chosen: chosen.id };
  };
  const both = [wish.x, wish.y].map((free) => through(free)).filter((sweep) => sweep != null);
  const range = rangeOf({ measure, cells: both.flatMap((sweep) => sweep.cells), relayless: undefined });
  const line = (sweep: Sweep) => {
    const factor = factorOf(view, sweep.wish.x === wish.x ? wish.y : wish.x);
    const at = `${factor.heading} ${named(level(chosen, factor.name), factor)}`;
    if (sweep.cells.length < 2) return nothing(`At ${at} no other ${axisName(sweep.fx)} was measured.`);
    return lines(sweep, sweep.cells, `${measure.label} at ${at}`, width, range, LINE_HEIGHT);
  };
  const all = both.map(line);
  const drawings = all.filter((each) => each instanceof SVGElement);
  if (drawings.length === 0) return [nothing("No other cell of its row or column was measured.")];
  return [...drawings, ...all.filter((each) => !(each instanceof SVGElement))];
}

/** The drawing, where the arrow keys and clicks select a cell. */
function surface(
  map: HeatMap,
  layout: Layout,
  { svg: drawing, x, y }: Drawn,
  go: (cell: CellView | undefined) => void,
): HTMLElement {
  const { xs, ys } = layout;
  const { wish, measure } = map;
  const at = tileAt(map, layout);
  const step = ([dx, dy]: [number, number]) => {
    const [column, row] = [xs.indexOf(level(map.chosen, wish.x)), ys.indexOf(level(map.chosen, wish.y))];
    // A plan can have gaps: take the next cell in that direction.
    for (let n = 1; n <= Math.max(xs.length, ys.length); n += 1) {
      const [nextX, nextY] = [xs[column + dx * n], ys[row + dy * n]];
      const next = nextX === undefined || nextY === undefined ? undefined : at(nextX, nextY);
      if (next) return go(next);
    }
  };
  const clicked = ({ clientX, clientY }: MouseEvent) => {
    const box = drawing.getBoundingClientRect();
    const zoom = drawing.viewBox.baseVal.width / box.width;
    const column = levelAt(xs, x, (clientX - box.left) * zoom);
    const row = levelAt(ys, y, (clientY - box.top) * zoom);
    if (column !== undefined && row !== undefined) go(at(column, row));
  };
  return h(
    "div",
    {
      class: "board",
      tabindex: 0,
      role: "application",
      "aria-label": `Heat map of ${measure.label}: the arrow keys move from cell to cell, and the text below describes it`,
      onkeydown: (event) => {
        const by = STEPS[(event as KeyboardEvent).key];
        if (!by) return;
        event.preventDefault();
        step(by);
      },
      onclick: (event) => clicked(event as MouseEvent),
    },
    drawing,
  );
}

/** The level whose tiles contain a place, pixels. */
const levelAt = (list: Level[], scale: Scale, pixel: number): Level | undefined =>
  list.find((value) => {
    const from = scale.apply(value) as number;
    return pixel >= from && pixel <= from + (scale.bandwidth ?? 0);
  });

/** The meaning of colours, marks and lines, and the options without a tile. */
function keys(map: HeatMap, layout: Layout): (Node | false)[] {
  const { measure, placeless } = map;
  const { low, top, logarithmic, measured, width } = layout;
  const opacity = measured.some((cell) => isSure(map, cell)) ? 1 : PALE;
  const absent = placeless.length > 0 && h("p", { class: "reading" }, withoutTile(map));
  if (absent) absent.style.maxWidth = `${width}px`;
  return [
    colourKey({ low, top, logarithmic, ...measure, opacity }),
    markKey(signs(map, layout), width, `${STRIPES}-key`),
    absent,
  ];
}

/** The marks that occur in the map. */
function signs(map: HeatMap, { cells, measured }: Layout): Sign[] {
  const { view, best, dense, compared } = map;
  const uncertain = measured.some((cell) => !isConfirmed(cell));
  const all: (Sign | false)[] = [
    best.size > 0 && "best",
    cells.some((cell) => isRecommended(map, cell)) && "use",
    cells.some((cell) => isSlower(view, cell)) && "avoid",
    "selected",
    !dense && compared && uncertain && "screened",
    measured.length < cells.length && "empty",
  ];
  return all.filter((sign) => sign !== false);
}
