// The labels of both axes of a heat map: the room that they take from the tiles, their angle, and which of them have room.

import type * as Plot from "@observablehq/plot";
import { axisName, type Level } from "../../data";
import { named } from "../../levels";
import { slopeOf } from "../../look";
import type { HeatMap } from "./contents";
import type { Layout } from "./layout";

/** The width of a letter, and the least distance between labels across and down; pixels. */
const [LETTER, ACROSS, DOWN] = [6.8, 54, 16];

/** The left margin for the labels of the rows, pixels. */
export function leftOf({ fy }: HeatMap, ys: Level[], narrow: boolean): number {
  const longest = Math.max(...ys.map((value) => named(value, fy).length)) * LETTER;
  // On a phone the name of the axis is above it.
  return narrow ? Math.max(34, longest + 12) : Math.max(74, longest + 34);
}

/** The room below the axis for names at an angle, pixels; 0 if they are horizontal. */
export function slopeBelow({ fx }: HeatMap, xs: Level[], each: number): number {
  // Numeric axes can omit labels; names are all shown.
  if (!xs.every((value) => typeof value === "string")) return 0;
  return slopeOf(
    xs.map((value) => named(value, fx)),
    each,
  );
}

/** The scale of the columns. */
export function across({ fx, dense }: HeatMap, { xs, width, left, slope }: Layout): Plot.ScaleOptions {
  return {
    type: "band",
    domain: xs,
    label: axisName(fx),
    labelArrow: "none",
    tickFormat: (value: Level) => named(value, fx),
    ticks: slope > 0 ? xs : thinned(xs, (width - left) / ACROSS),
    tickRotate: slope > 0 ? -30 : 0,
    padding: dense ? 0 : 0.04,
  };
}

/** The scale of the rows. */
export function down({ fy, dense }: HeatMap, { ys, narrow, left, tile }: Layout): Plot.ScaleOptions {
  return {
    type: "band",
    domain: ys,
    label: axisName(fy),
    labelArrow: "none",
    labelAnchor: narrow ? "top" : "center",
    labelOffset: narrow ? left - 4 : undefined,
    tickFormat: (value: Level) => named(value, fy),
    ticks: thinned(ys, (ys.length * tile.height) / DOWN),
    padding: dense ? 0 : 0.06,
  };
}

/** Every n-th tick, so that the labels have room. */
function thinned<Tick>(ticks: Tick[], room: number): Tick[] {
  const every = Math.max(1, Math.ceil(ticks.length / Math.max(2, room)));
  return ticks.filter((_, at) => at % every === 0);
}
