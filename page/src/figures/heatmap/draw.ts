// The drawing of a heat map: tiles, hatching, numbers, and the marks in their corners.

import * as Plot from "@observablehq/plot";
import { axisName, type CellView, isConfirmed, isRecommended, isSlower, type Level, level } from "../../data";
import { svg } from "../../dom";
import { draw, faint, ink, LINE, NAME_LETTER, paper, tip, USED } from "../../look";
import { describe, hasNumber, type HeatMap, isSure } from "./contents";
import { crosses, PALE, STRIPES } from "./keys";
import type { Layout } from "./layout";

/** More cells than this have no tip, which would make the page slow. */
const TIPS_MAX = 2000;
/** The least gap between labels of columns, and the least distance between labels of rows; pixels. */
const [GAP, DOWN] = [6, 16];

/** The margin above the tiles, pixels. */
export const TOP = 20;

export type Drawn = ReturnType<typeof drawMap>;

/** Draws the map. */
export function drawMap(map: HeatMap, layout: Layout) {
  const { cells, width, left, ys, tile } = layout;
  const { slope } = layout.columns;
  const drawing = draw(width, {
    height: TOP + 42 + slope + ys.length * tile.height,
    marginLeft: left,
    marginRight: 10,
    marginBottom: 42 + slope,
    marginTop: TOP,
    x: across(map, layout),
    y: down(map, layout),
    color: { type: "linear", scheme: "cividis", domain: [0, 1] },
    marks: [
      ...tiles(map, layout),
      ...numbers(map, layout),
      // Above the halo of the numbers, which would hide them.
      ...corners(map, layout),
      cells.length <= TIPS_MAX ? tip(cells, placeOf(map), (cell) => describe(map, cell).join("\n")) : null,
    ],
  });
  drawing.prepend(hatching());
  const [x, y] = [drawing.scale("x"), drawing.scale("y")];
  if (!x || !y) throw new Error("a heat map has both scales");
  return {
    drawing,
    x,
    y,
    /** The tip, which stays the last element. */
    tip: cells.length <= TIPS_MAX ? drawing.lastElementChild : null,
  };
}

/** Stripes of white and black, which are visible on bright and dark tiles. */
function hatching(): SVGDefsElement {
  const stripe = (x: number, fill: string) => svg("rect", { x, width: 1.5, height: 7, fill, "fill-opacity": 0.5 });
  const id = STRIPES.slice("url(#".length, -1);
  const attributes = { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return svg("defs", {}, svg("pattern", attributes, stripe(0, "#fff"), stripe(1.5, "#000")));
}

const placeOf = ({ wish }: HeatMap) => ({
  x: (cell: CellView) => level(cell, wish.x),
  y: (cell: CellView) => level(cell, wish.y),
});

/** Coloured tiles, hatching, dashed frames of cells without a number, and frames of those that may be the best. */
function tiles(map: HeatMap, { cells, measured, bright }: Layout): Plot.Markish[] {
  const { dense, compared, best } = map;
  const place = placeOf(map);
  return [
    ...[true, false].map((sure) =>
      Plot.cell(
        measured.filter((cell) => isSure(map, cell) === sure),
        {
          ...place,
          fill: bright,
          fillOpacity: sure ? 1 : PALE,
          // No gap between small tiles.
          ...(dense ? { shapeRendering: "crispEdges" } : {}),
        } as Plot.CellOptions,
      ),
    ),
    dense || !compared
      ? null
      : Plot.cell(
          measured.filter((cell) => !isConfirmed(cell)),
          { ...place, fill: STRIPES },
        ),
    Plot.cell(
      cells.filter((cell) => !hasNumber(map, cell)),
      { ...place, fill: "none", stroke: faint(), strokeDasharray: "2 3" },
    ),
    Plot.cell(
      cells.filter((cell) => best.has(cell.id)),
      { ...place, fill: "none", stroke: ink(), ...(dense ? { strokeWidth: 2 } : { strokeWidth: 2.5, inset: 1 }) },
    ),
  ];
}

/** The numbers; a halo in the colour of the tile keeps the hatching away from them. */
function numbers(map: HeatMap, { measured, writing, bright, number }: Layout): Plot.Markish[] {
  if (!writing) return [];
  const haloOf = (sure: boolean) => (writing.brackets && map.compared ? (sure ? 7 : 5) : 3);
  return [true, false].map((sure) =>
    Plot.text(
      measured.filter((cell) => isSure(map, cell) === sure),
      {
        ...placeOf(map),
        text: (cell: CellView) => number(cell, writing),
        ...(sure
          ? { fill: (cell: CellView) => (bright(cell) > 0.5 ? "#111111" : "#ffffff"), stroke: bright }
          : { fill: ink(), stroke: paper() }),
        strokeWidth: haloOf(sure),
        fontSize: writing.size,
      } as Plot.TextOptions,
    ),
  );
}

/** Marks in the corners of tiles, where they hide no number, or in their middle: may be the best, recommended, slower. */
function corners(map: HeatMap, { cells, writing, tile }: Layout): Plot.Markish[] {
  const { best, view } = map;
  const roomy = writing?.brackets ?? false;
  const inset = roomy ? 8 : 5;
  const corner = (right: 1 | -1, low: 1 | -1) => ({
    ...placeOf(map),
    ...(writing ? { dx: right * (tile.width / 2 - inset), dy: low * (tile.height / 2 - inset) } : {}),
  });
  return [
    Plot.dot(
      cells.filter((cell) => best.has(cell.id)),
      { ...corner(1, -1), r: roomy ? 3 : Math.min(2.5, tile.height / 4), fill: "#fff", stroke: "#000" },
    ),
    Plot.text(
      cells.filter((cell) => isRecommended(view, cell)),
      {
        ...corner(-1, -1),
        text: () => USED,
        fontSize: roomy ? 14 : 8,
        fill: "#111111",
        stroke: "#ffffff",
        strokeWidth: roomy ? 3 : 2,
      },
    ),
    ...crosses().map((cross) =>
      Plot.dot(
        cells.filter((cell) => isSlower(view, cell)),
        { ...corner(1, 1), ...cross, ...(roomy ? {} : { r: 3 }) },
      ),
    ),
  ];
}

/** The scale of the columns. */
function across({ fx, dense }: HeatMap, { xs, tile, columns }: Layout): Plot.ScaleOptions {
  const { rotate, texts } = columns;
  const least = rotate === 0 ? Math.max(...texts.map((text) => text.length)) * NAME_LETTER + GAP : LINE;
  return {
    type: "band",
    domain: xs,
    label: axisName(fx),
    labelArrow: "none",
    tickFormat: (value: Level) => texts[xs.indexOf(value)] ?? "",
    ticks: thinned(xs, (xs.length * tile.width) / least),
    tickRotate: rotate,
    padding: dense ? 0 : 0.04,
  };
}

/** The scale of the rows. */
function down({ fy, dense }: HeatMap, { ys, rows, narrow, left, tile }: Layout): Plot.ScaleOptions {
  return {
    type: "band",
    domain: ys,
    label: axisName(fy),
    labelArrow: "none",
    labelAnchor: narrow ? "top" : "center",
    labelOffset: narrow ? left - 4 : undefined,
    tickFormat: (value: Level) => rows[ys.indexOf(value)] ?? "",
    ticks: thinned(ys, (ys.length * tile.height) / DOWN),
    padding: dense ? 0 : 0.06,
  };
}

/** Every n-th tick, so that the labels have room. */
function thinned<Tick>(ticks: Tick[], room: number): Tick[] {
  const every = Math.max(1, Math.ceil(ticks.length / Math.max(2, room)));
  return ticks.filter((_, at) => at % every === 0);
}
