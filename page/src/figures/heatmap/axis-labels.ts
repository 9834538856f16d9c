// The labels of both axes of a heat map: the room that they take from the tiles, where long names are cut, and which labels have
// room. The tip of a cell has the whole names.

import type * as Plot from "@observablehq/plot";
import { axisName, type Level } from "../../data";
import { named } from "../../levels";
import { inLines, LINE, NAME_LETTER, type Names, namesBelow } from "../../look";
import type { HeatMap } from "./contents";
import type { Layout } from "./layout";

/** The width of a letter, the least gap between labels of columns, and the least distance between labels of rows; pixels. */
const [LETTER, GAP, DOWN] = [6.8, 6, 16];

/** The labels of the rows, and the left margin that they need, pixels: at most a third of `most`, the map's largest width. */
export function rowLabels({ fy }: HeatMap, ys: Level[], most: number, narrow: boolean) {
  // On a phone the name of the axis is above it.
  const [edge, least] = narrow ? [12, 34] : [34, 74];
  const letters = Math.floor((most / 3 - edge) / LETTER);
  const texts = ys.map((value) => inLines(named(value, fy), letters, 1)[0] ?? "");
  return { texts, left: Math.max(least, edge + LETTER * Math.max(...texts.map((text) => text.length))) };
}

/** The labels of columns that are `each` pixels wide: names can be at an angle. */
export function columnLabels({ fx }: HeatMap, xs: Level[], each: number, left: number): Names {
  const texts = xs.map((value) => named(value, fx));
  // Numeric axes can omit labels.
  return xs.every((value) => typeof value === "string")
    ? namesBelow(texts, each, left)
    : { rotate: 0, slope: 0, texts };
}

/** The scale of the columns. */
export function across({ fx, dense }: HeatMap, { xs, tile, columns }: Layout): Plot.ScaleOptions {
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
export function down({ fy, dense }: HeatMap, { ys, rows, narrow, left, tile }: Layout): Plot.ScaleOptions {
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
