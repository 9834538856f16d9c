// The drawing of a heat map: tiles, hatching, numbers, and the marks in their corners.

import * as Plot from "@observablehq/plot";
import { type CellView, isConfirmed, level } from "../../data";
import { draw, faint, ink, paper, tip, USED } from "../../look";
import { crosses, hatching, isSlower } from "../marks";
import { across, down } from "./axis-labels";
import type { Layout } from "./layout";
import { describe, hasNumber, type HeatMap, isRecommended, isSure } from "./contents";

/** More cells than this have no tip, which would make the page slow. */
const TIPS_MAX = 2000;
/** The opacity of tiles that are not confirmed. */
export const PALE = 0.4;
/** The id of the pattern of stripes. */
export const STRIPES = "heat-stripes";

/** A scale of a drawing. */
export interface Scale {
  apply(value: unknown): unknown;
  bandwidth?: number;
}

export interface Drawn {
  svg: SVGSVGElement;
  x: Scale;
  y: Scale;
  /** The tip, which stays the last element. */
  tip: Element | null;
}

/** Draws the map. */
export function drawMap(map: HeatMap, layout: Layout): Drawn {
  const { cells, width, left, ys, tile } = layout;
  const { slope } = layout.columns;
  const svg = draw(width, {
    height: 62 + slope + ys.length * tile.height,
    marginLeft: left,
    marginRight: 10,
    marginBottom: 42 + slope,
    marginTop: 20,
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
  svg.prepend(hatching(STRIPES));
  return {
    svg,
    x: scaleOf(svg, "x"),
    y: scaleOf(svg, "y"),
    tip: cells.length <= TIPS_MAX ? svg.lastElementChild : null,
  };
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
          { ...place, fill: `url(#${STRIPES})` },
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

/** Marks in the corners of tiles, where they hide no number: may be the best, recommended, slower. */
function corners(map: HeatMap, { cells, writing, tile }: Layout): Plot.Markish[] {
  const { best, view } = map;
  const roomy = writing?.brackets ?? false;
  const place = placeOf(map);
  return [
    Plot.dot(
      cells.filter((cell) => best.has(cell.id)),
      {
        ...place,
        r: roomy ? 3 : Math.min(2.5, tile.height / 4),
        dx: writing ? tile.width / 2 - (roomy ? 8 : 6) : 0,
        dy: writing ? -tile.height / 2 + (roomy ? 7 : 6) : 0,
        fill: "#fff",
        stroke: "#000",
      } as Plot.DotOptions,
    ),
    Plot.text(
      cells.filter((cell) => isRecommended(map, cell)),
      {
        ...place,
        text: () => USED,
        fontSize: roomy ? 14 : 8,
        dx: -tile.width / 2 + (roomy ? 9 : 4),
        dy: writing ? -tile.height / 2 + (roomy ? 9 : 4) : 0,
        fill: "#111111",
        stroke: "#ffffff",
        strokeWidth: roomy ? 3 : 2,
      } as Plot.TextOptions,
    ),
    ...crosses().map((cross) =>
      Plot.dot(
        cells.filter((cell) => isSlower(view, cell)),
        {
          ...place,
          ...cross,
          ...(roomy ? {} : { r: 3 }),
          dx: writing ? tile.width / 2 - (roomy ? 9 : 6) : 0,
          dy: writing ? tile.height / 2 - (roomy ? 9 : 6) : 0,
        } as Plot.DotOptions,
      ),
    ),
  ];
}

function scaleOf(drawing: SVGSVGElement, name: "x" | "y"): Scale {
  const scale = (drawing as SVGSVGElement & Plot.Plot).scale(name);
  if (!scale) throw new Error(`a heat map has a scale ${name}`);
  return scale as unknown as Scale;
}
