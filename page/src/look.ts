// The look of figures: colours that colour-blind readers can distinguish, light and dark, with a symbol and a dash for each.

import * as Plot from "@observablehq/plot";
import { h } from "./dom";
import { axisUnit, duration, evenTicksTo, logTicks, percent, trimmed } from "./format";

const LIGHT = ["#0b62a4", "#c2410c", "#0f766e", "#9d3c8e", "#7a5c00", "#4f46b5", "#3f3f46", "#b42318"];
const DARK = ["#6cb6f5", "#ff9a5c", "#3fd0a8", "#eb9fd6", "#e6c34a", "#aba6ff", "#d4d4d8", "#ff8f85"];

const SYMBOLS: Plot.SymbolType[] = ["circle", "square", "triangle", "diamond", "star", "cross", "wye", "hexagon"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3", "12 4", "4 2 1 2", "1 2", "10 2 2 2"];

/** Whether the page is dark: never in print, else as the reader chose, else as the system states. */
export function isDark(): boolean {
  if (matchMedia("print").matches) return false;
  const chosen = document.documentElement.dataset["theme"];
  if (chosen) return chosen === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

function colours(): string[] {
  return isDark() ? DARK : LIGHT;
}

/** More series than colours repeat the colours, each with the next symbol: no two look alike. */
const shifted = (series: number) => (series + Math.floor(series / SYMBOLS.length)) % SYMBOLS.length;

/** The look of a series. */
export const toneOf = (series: number): string => colours()[series % colours().length] ?? ink();
export const symbolOf = (series: number): Plot.SymbolType => SYMBOLS[shifted(series)] ?? "circle";
export const dashOf = (series: number): string | undefined => DASHES[shifted(series)] || undefined;

/** The mark of the recommended option. */
export const USED = "★";

export const ink = () => (isDark() ? "#e7e5e4" : "#1c1917");
export const faint = () => (isDark() ? "#a8a29e" : "#57534e");
export const paper = () => (isDark() ? "#1c1917" : "#ffffff");

/** Plots; the result is always the bare drawing. */
export function draw(width: number, more: Plot.PlotOptions): SVGSVGElement & Plot.Plot {
  const drawn = Plot.plot({
    width,
    // One class, so that the style element of Plot has the text that the policy allows.
    className: "plot",
    style: { background: "transparent", fontSize: "12px", fontFamily: "inherit", color: ink(), overflow: "visible" },
    ...more,
  });
  if (!(drawn instanceof SVGSVGElement)) throw new Error("figures have no legend of Plot's own");
  drawn.setAttribute("role", "img");
  // A click would pin Plot's tip above other elements.
  drawn.addEventListener("pointerdown", (event) => event.stopImmediatePropagation(), { capture: true });
  // A drawing is one image with one label; the labels of Plot's layers have no use.
  for (const layer of drawn.querySelectorAll("g[aria-label]")) layer.removeAttribute("aria-label");
  return drawn;
}

/** The title of a panel, above it from the left edge on; `left` is the margin there. */
export const heading = (text: string, left: number, dy: number): Plot.Markish =>
  Plot.text([text], {
    frameAnchor: "top-left",
    dx: 4 - left,
    dy,
    textAnchor: "start",
    fontWeight: 600,
    fill: ink(),
  });

/** A tip at the mark that is next to the pointer; `pointer`: how the distance counts. */
export const tip = <Datum>(
  data: Datum[],
  place: { x: Plot.ChannelValue; y: Plot.ChannelValue },
  title: (datum: Datum) => string,
  pointer = Plot.pointer,
): Plot.Markish => Plot.tip(data, pointer({ ...place, title, fill: paper(), lineHeight: 1.3 } as Plot.TipOptions));

/** The least number of points of a curve: a line between two would suggest values that were not measured. */
export const CURVE_LEAST = 3;

/** The largest number of series in a figure that can be distinguished. */
export const SERIES_MAX = SYMBOLS.length;

/** A linear axis from 0 to a tick that no value exceeds, and its unit, which belongs into the panel's title. */
export function fromZero(unit: string, most: number): { axis: Plot.ScaleOptions; name: string } {
  const isShare = unit === "share";
  const { name, divisor } = isShare ? { name: "", divisor: 1 } : axisUnit(unit, most);
  const ticks = evenTicksTo(most / divisor);
  const axis: Plot.ScaleOptions = {
    // Not a number for null, which would be drawn at 0.
    transform: (value: number | null) => (value == null ? Number.NaN : value / divisor),
    domain: [0, ticks.at(-1) ?? 1],
    ticks,
    grid: true,
    label: null,
    labelArrow: "none",
    tickFormat: (value: number) => (isShare ? percent(value) : trimmed(value)),
  };
  return { axis, name };
}

/** Names below an axis. */
export type Names = ReturnType<typeof namesBelow>;

/** The most additional room below an axis, pixels. */
const SLOPE_MAX = 120;
/** The mean width of a letter of a name, pixels. */
export const NAME_LETTER = 6.6;

/**
 * Names below ticks that are `each` pixels apart, with `left` pixels before the first tick's room: horizontal if they have room
 * side by side, else at an angle, and upright if they would touch each other even there.
 */
export function namesBelow(names: string[], each: number, left: number) {
  const longest = Math.max(...names.map((name) => name.length), 1);
  if (longest * NAME_LETTER + 10 <= each) return { rotate: 0, slope: 0, texts: names };
  // Lines at 30° are half as far apart as their ticks.
  const upright = each < 2 * LINE;
  const rise = upright ? 1 : 0.5;
  const letters = Math.min(longest, Math.floor(SLOPE_MAX / rise / NAME_LETTER));
  const lettersAt = (at: number) =>
    upright ? letters : Math.min(letters, Math.floor((left + (at + 0.5) * each) / Math.cos(Math.PI / 6) / NAME_LETTER));
  const texts = names.map((name, at) => {
    const lines = name.split("\n").map((line) => inLines(line, lettersAt(at), 1)[0] ?? "");
    return lines.join("\n");
  });
  return {
    /** Their angle, degrees; 0: horizontal. */
    rotate: upright ? -90 : -30,
    /** The room that names at an angle need in addition, pixels. */
    slope: letters * NAME_LETTER * rise,
    /** The names, cut where they would be too long. */
    texts,
  };
}

/**
 * A logarithmic axis with labels at the given ticks, as far as they have room; Plot's own axis would omit some. Places are
 * logarithms, so values need `Math.log2`.
 */
export function logarithmic(ticks: number[], named: (value: number) => string, room: number): Plot.ScaleOptions {
  // By their places, not by their number: close levels would overlap.
  const [first = 1, last = 1] = [ticks[0], ticks.at(-1)];
  const least = (0.98 * Math.log2(last / first)) / Math.max(1, room);
  const shown: number[] = [];
  for (const tick of ticks)
    if (shown.length === 0 || Math.log2(tick / (shown.at(-1) ?? tick)) >= least) shown.push(tick);
  // The last tick shows the end of the axis: it replaces a tick that is too close to it.
  if (shown.at(-1) !== ticks.at(-1) && ticks.length > 1) {
    while (shown.length > 1 && Math.log2(last / (shown.at(-1) ?? last)) < least) shown.pop();
    shown.push(last);
  }
  const places = shown.map((tick) => Math.log2(tick));
  return {
    ticks: places,
    tickFormat: (place: number) => named(shown[places.indexOf(place)] ?? 2 ** place),
    labelArrow: "none",
    labelAnchor: "center",
  };
}

/** A logarithmic axis of values from `low` to `top`, from a round tick to a round tick. */
export function logAxis(
  low: number,
  top: number,
  named: (value: number) => string,
  room: number,
  /** The divisor of the unit in which ticks are round. */
  divisor = 1,
): Plot.ScaleOptions {
  const ticks = logTicks(low / divisor, top / divisor, room).map((tick) => tick * divisor);
  const ends = [ticks[0] ?? low, ticks.at(-1) ?? top].map((end) => Math.log2(end));
  return { ...logarithmic(ticks, named, room + 1), domain: ends, grid: true, label: null };
}

/**
 * An axis for values of a unit: from 0; logarithmic for a wide range; from a little below the smallest value for a narrow range,
 * with its start in the name.
 */
export function valueAxis(
  unit: string,
  low: number,
  top: number,
): { axis: Plot.ScaleOptions; name: string; place: (value: number | null) => number } {
  const known = (value: number | null) => value ?? Number.NaN;
  if (farApart(unit, low, top)) {
    // Each time has its own unit; other values share the unit of the title, in which ticks are round.
    const { name, divisor } = unit === "ns" ? { name: "", divisor: 1 } : axisUnit(unit, top);
    const shown = (value: number) => (unit === "ns" ? duration(value) : trimmed(value / divisor));
    return {
      axis: logAxis(low, top, shown, 8, divisor),
      name: [name, "log scale"].filter((part) => part).join(", "),
      place: (value) => Math.log2(known(value)),
    };
  }
  const whole = fromZero(unit, top);
  if (unit === "share" || low < CLOSE * top || low === top) return { ...whole, place: known };
  const { divisor } = axisUnit(unit, top);
  const [, step = 1] = evenTicksTo((1.4 * (top - low)) / divisor);
  const begin = Number((Math.floor(low / divisor / step - 0.2) * step).toPrecision(12));
  const ticks = evenTicksTo(top / divisor - begin).map((tick) => Number((begin + tick).toPrecision(12)));
  const end = ticks.at(-1) ?? top / divisor;
  const name = [whole.name, `from ${trimmed(begin)}`].filter((part) => part).join(", ");
  return { axis: { ...whole.axis, domain: [begin, end], ticks }, name, place: known };
}
/** The range is narrow if the smallest value is at least this share of the largest. */
const CLOSE = 0.6;

/** Whether the axis of a range is logarithmic. */
export const farApart = (unit: string, low: number, top: number): boolean =>
  unit !== "share" && low > 0 && top / low > FAR_APART;
const FAR_APART = 20;

/** An entry of a legend: the look of a series, or other marks. */
export interface Entry {
  name: string;
  /** The number of its look; null for the colour of many series. */
  series?: number | null;
  hollow?: boolean;
  /** No line joins its marks. */
  loose?: boolean;
  /** The width of a line without marks, pixels. */
  line?: number;
  /** Other marks around a place. */
  marks?(x: number, y: number): Plot.Markish[];
}

/** One mark in a legend. */
export const single =
  (look: Plot.DotOptions) =>
  (x: number, y: number): Plot.Markish[] => [Plot.dot([[x, y]], look)];

/** A line in a legend. */
export const lineAt = (x: number, y: number, more: Plot.RuleYOptions): Plot.Markish =>
  Plot.ruleY([y], { x1: x - 14, x2: x + 14, ...more } as Plot.RuleYOptions);

/** The line and the mark of a series in a legend. */
function seriesAt({ series, hollow, loose, line }: Entry, x: number, y: number): Plot.Markish[] {
  const [look, stroke] = [series ?? 0, series == null ? faint() : toneOf(series)];
  const joined = lineAt(x, y, { stroke, strokeWidth: line ?? 2, strokeDasharray: dashOf(look) });
  if (line != null) return [joined];
  const mark = Plot.dot([[x, y]], { symbol: symbolOf(look), r: 4.5, fill: hollow ? paper() : stroke, stroke });
  return loose ? [mark] : [joined, mark];
}

/** A legend, as a drawing, so that saved files have it. */
export function legend(title: string, entries: Entry[], width: number): SVGSVGElement {
  const step = Math.max(...entries.map((entry) => entry.name.length), 1) * 6.9 + 58;
  const columns = Math.max(1, Math.min(entries.length, Math.floor(width / step)));
  const wide = Math.min(columns * step + 10, width);
  const high = Math.ceil(entries.length / columns) * 22 + (title ? 26 : 6);
  const drawing = draw(wide, {
    height: high,
    margin: 0,
    ariaLabel: `What the marks mean: ${title || entries.map(({ name }) => name).join(", ")}`,
    x: { axis: null, domain: [0, wide], range: [0, wide] },
    y: { axis: null, domain: [0, high], range: [0, high] },
    marks: [
      Plot.text([title], { x: 4, y: 12, textAnchor: "start", fontWeight: 600, fill: ink() }),
      ...entries.flatMap((entry, at) => {
        const [x, y] = [18 + (at % columns) * step, (title ? 36 : 14) + Math.floor(at / columns) * 22];
        return [
          ...(entry.marks?.(x, y) ?? seriesAt(entry, x, y)),
          Plot.text([entry.name], {
            x: x + 22,
            y,
            textAnchor: "start",
            fill: ink(),
            lineWidth: (wide - 40) / 12,
            textOverflow: "ellipsis-end",
          }),
        ];
      }),
    ],
  });
  drawing.classList.add("key");
  return drawing;
}

/** Narrower pages fold long content; pixels, as in the style sheet. */
export const PHONE = 560;
/** Narrower figures have names above their rows, and panels below each other; pixels. */
export const NARROW = 640;

/** The height of a line, pixels. */
export const LINE = 13;

/** A name in at most `most` lines of at most `letters`, broken between words; a longer one ends with `…`. */
export function inLines(name: string, letters: number, most: number): string[] {
  const lines: string[] = [];
  for (const word of name.split(" ")) {
    const joined = [...lines.slice(-1), word].join(" ");
    if (lines.length > 0 && joined.length <= letters) lines[lines.length - 1] = joined;
    else for (let from = 0; from < word.length; from += letters) lines.push(word.slice(from, from + letters));
  }
  if (lines.length <= most) return lines;
  const last = `${lines[most - 1]} ${lines[most]}`.slice(0, letters - 1).trimEnd();
  return [...lines.slice(0, most - 1), `${last}…`];
}

/** Drawings side by side, in at most `most` columns, each for its width. */
export function sideBySide<Item>(
  all: Item[],
  width: number,
  most: number,
  drawn: (item: Item, width: number) => SVGSVGElement,
): HTMLElement {
  const columns = Math.min(width < NARROW ? 1 : most, all.length);
  const each = width / columns - (columns > 1 ? 8 : 0);
  return h("div", { class: "side" }, ...all.map((item) => drawn(item, each)));
}
