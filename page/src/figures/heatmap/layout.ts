// Where the tiles of a heat map are, how bright they are, and how their numbers are written. The labels of the axes take room from
// the tiles, so long names are cut; the tip of a cell has the whole names.

import { type ScaleContinuousNumeric, scaleLinear, scaleLog } from "d3-scale";
import { type CellView, isConfirmed, type Level } from "../../data";
import { axisUnit, digits } from "../../format";
import { levels, named } from "../../levels";
import { inLines, NARROW, type Names, namesBelow } from "../../look";
import { type HeatMap, hasNumber, plane } from "./contents";

/** Wider pages have the two lines next to the map; pixels. */
const SIDE_BY_SIDE = 900;
/** The height of a map of many rows, and the least height of a row; on a phone, where tiles are narrow; pixels. */
const [HEIGHT, ROW, PHONE_ROW] = [560, 22, 30];
/** The largest ratio of values on a linear scale of colours. */
const LINEAR_MAX = 30;

export type Layout = ReturnType<typeof layout>;

/** Lays out a map for a width in pixels. */
export function layout(map: HeatMap, width: number) {
  const { wish, dense, measure, compared } = map;
  const cells = plane(map);
  const xs = levels(cells, wish.x);
  const ys = levels(cells, wish.y).reverse();
  const narrow = width < NARROW;
  const sideBySide = width >= SIDE_BY_SIDE && !dense;
  const most = sideBySide ? width * 0.6 : width;
  const { texts: rows, left } = rowLabels(map, ys, most, narrow);
  const wide = Math.min(most, Math.max(360, left + 30 + xs.length * 84));
  const tileWidth = (wide - left - 10) / xs.length;
  const row = Math.min(narrow ? PHONE_ROW : ROW, HEIGHT / ys.length);
  const tile = { width: tileWidth, height: Math.max(Math.min(tileWidth * 0.62, ys.length > 8 ? 36 : 54), row) };
  const measured = cells.filter((cell) => hasNumber(map, cell));
  const valueOf = (cell: CellView): number => measure.of(cell)?.mid ?? 0;
  const values = measured.map(valueOf);
  const [low, top] = [Math.min(...values), Math.max(...values)];
  const logarithmic = low > 0 && top / low > LINEAR_MAX;
  const colours: ScaleContinuousNumeric<number, number> = (logarithmic ? scaleLog : scaleLinear)([low, top], [0, 1]);
  // The numbers are in the unit of the largest one.
  const { divisor } = axisUnit(measure.unit, top);
  const order = Math.floor(Math.log10(top / divisor));
  const number = (cell: CellView, { digits: count, own, brackets }: Writing): string => {
    const value = valueOf(cell) / divisor;
    const text = own ? digits(value, count) : value.toFixed(Math.max(0, Math.min(count - 1 - order, 9)));
    return brackets && compared && !isConfirmed(cell) ? `(${text})` : text;
  };
  const fits = (how: Writing): boolean =>
    Math.max(...measured.map((cell) => widthOf(number(cell, how)))) * how.size + (how.brackets ? 6 : 0) <= tileWidth;
  return {
    cells,
    /** Cells with a number. */
    measured,
    xs,
    ys,
    /** Width of the map, left margin, size of a tile; pixels. */
    width: wide,
    left,
    tile,
    narrow,
    /** The two lines are next to the map. */
    sideBySide,
    /** The labels of the rows and of the columns. */
    rows,
    columns: columnLabels(map, xs, tileWidth, left),
    low,
    top,
    logarithmic,
    /** The value at a share of the way from the lowest to the highest one. */
    valueAt: (share: number): number => colours.invert(share),
    /** Share of the way from the darkest to the brightest colour. */
    bright: (cell: CellView): number => (measure.less ? 1 - colours(valueOf(cell)) : colours(valueOf(cell))),
    /** The first writing whose longest number fits a tile; undefined if none does. */
    writing: tile.height < 20 ? undefined : WRITINGS.find(fits),
    number,
  };
}

/**
 * The ways to write a number in its tile, the one with the most information first. `own`: each number has `digits` significant
 * digits; otherwise each has the decimal places of the highest value.
 */
const WRITINGS = [
  { digits: 3, own: true, brackets: true, size: 12 },
  { digits: 3, own: true, brackets: true, size: 11 },
  { digits: 3, own: true, brackets: false, size: 11 },
  { digits: 3, own: false, brackets: false, size: 11 },
  { digits: 2, own: false, brackets: false, size: 11 },
] as const;
type Writing = (typeof WRITINGS)[number];
/** The width of a digit, and of a dot or a bracket, as a share of the font's size. */
const [DIGIT, DOT] = [0.64, 0.38];
const widthOf = (text: string): number =>
  [...text].reduce((sum, letter) => sum + (/[.()]/.test(letter) ? DOT : DIGIT), 0);

/** The width of a letter of a row's label, pixels. */
const LETTER = 6.8;

/** The labels of the rows, and the left margin that they need, pixels: at most a third of `most`, the map's largest width. */
function rowLabels({ fy }: HeatMap, ys: Level[], most: number, narrow: boolean) {
  // On a phone the name of the axis is above it.
  const [edge, least] = narrow ? [12, 34] : [34, 74];
  const letters = Math.floor((most / 3 - edge) / LETTER);
  const texts = ys.map((value) => inLines(named(value, fy), letters, 1)[0] ?? "");
  return { texts, left: Math.max(least, edge + LETTER * Math.max(...texts.map((text) => text.length))) };
}

/** The labels of columns that are `each` pixels wide: names can be at an angle. */
function columnLabels({ fx }: HeatMap, xs: Level[], each: number, left: number): Names {
  const texts = xs.map((value) => named(value, fx));
  // Numeric axes can omit labels.
  return xs.every((value) => typeof value === "string")
    ? namesBelow(texts, each, left)
    : { rotate: 0, slope: 0, texts };
}
