// Where the tiles of a heat map are, how bright they are, and how their numbers are written.

import { type CellView, isConfirmed, type Level, level } from "../../data";
import { axisUnit, digits } from "../../format";
import { levels } from "../../levels";
import { NARROW, type Names } from "../../look";
import { written, type Writing } from "../tiles";
import { columnLabels, rowLabels } from "./axis-labels";
import { type HeatMap, hasNumber, plane } from "./contents";

/** Wider pages have the two lines next to the map; pixels. */
const SIDE_BY_SIDE = 900;
/** The height of a map of many rows, and the least height of a row; on a phone, where tiles are narrow; pixels. */
const [HEIGHT, ROW, PHONE_ROW] = [560, 22, 30];
/** The largest ratio of values on a linear scale of colours. */
const LINEAR_MAX = 30;

export interface Layout {
  cells: CellView[];
  /** Cells with a number. */
  measured: CellView[];
  xs: Level[];
  ys: Level[];
  /** Width of the map, left margin, size of a tile; pixels. */
  width: number;
  left: number;
  tile: { width: number; height: number };
  narrow: boolean;
  /** The two lines are next to the map. */
  sideBySide: boolean;
  /** The labels of the rows and of the columns. */
  rows: string[];
  columns: Names;
  low: number;
  top: number;
  logarithmic: boolean;
  /** Share of the way from the darkest to the brightest colour. */
  bright(cell: CellView): number;
  writing: Writing | undefined;
  number(cell: CellView, how: Writing): string;
}

/** Lays out a map for a width in pixels. */
export function layout(map: HeatMap, width: number): Layout {
  const { wish, dense, measure } = map;
  const cells = plane(map);
  const xs = levels(cells, wish.x);
  const ys = levels(cells, wish.y).reverse();
  const narrow = width < NARROW;
  const sideBySide = width >= SIDE_BY_SIDE && !dense;
  const most = sideBySide ? width * 0.6 : width;
  const { texts, left } = rowLabels(map, ys, most, narrow);
  const wide = Math.min(most, Math.max(360, left + 30 + xs.length * 84));
  const tileWidth = (wide - left - 10) / xs.length;
  const row = Math.min(narrow ? PHONE_ROW : ROW, HEIGHT / ys.length);
  const tile = { width: tileWidth, height: Math.max(Math.min(tileWidth * 0.62, ys.length > 8 ? 36 : 54), row) };
  const measured = cells.filter((cell) => hasNumber(map, cell));
  const values = measured.map((cell) => measure.of(cell)?.mid ?? 0);
  const [low, top] = [Math.min(...values), Math.max(...values)];
  const logarithmic = low > 0 && top / low > LINEAR_MAX;
  const number = numbers(map, top);
  return {
    cells,
    measured,
    xs,
    ys,
    width: wide,
    left,
    tile,
    narrow,
    sideBySide,
    rows: texts,
    columns: columnLabels(map, xs, tileWidth, left),
    low,
    top,
    logarithmic,
    bright(cell) {
      const value = measure.of(cell)?.mid ?? 0;
      const share = shareOf(value, low, top, logarithmic);
      return measure.less ? 1 - share : share;
    },
    writing: tile.height < 20 ? undefined : written((how) => measured.map((cell) => number(cell, how)), tileWidth),
    number,
  };
}

function shareOf(value: number, low: number, top: number, logarithmic: boolean): number {
  if (top === low) return 1;
  return logarithmic ? Math.log(value / low) / Math.log(top / low) : (value - low) / (top - low);
}

/** The number of a tile, in the unit of the largest one. */
function numbers({ measure, compared }: HeatMap, top: number): Layout["number"] {
  const { divisor } = axisUnit(measure.unit, top);
  const order = Math.floor(Math.log10(top / divisor));
  return (cell, { digits: count, own, brackets }) => {
    const value = (measure.of(cell)?.mid ?? 0) / divisor;
    const text = own ? digits(value, count) : value.toFixed(Math.max(0, Math.min(count - 1 - order, 9)));
    return brackets && compared && !isConfirmed(cell) ? `(${text})` : text;
  };
}

/** The cell with a level on each axis. */
export function tileAt({ wish }: HeatMap, { cells }: Layout): (x: Level, y: Level) => CellView | undefined {
  const tiles = new Map(cells.map((cell) => [JSON.stringify([level(cell, wish.x), level(cell, wish.y)]), cell]));
  return (x, y) => tiles.get(JSON.stringify([x, y]));
}
