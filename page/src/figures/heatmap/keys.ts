// The keys of a heat map: its colours, and its marks: may be the best, use, avoid, selected, screened, without a number.

import * as Plot from "@observablehq/plot";
import { isConfirmed, isRecommended, isSlower } from "../../data";
import { axisUnit, capital, digits, quantity } from "../../format";
import { draw, type Entry, ink, isDark, legend, single, USED } from "../../look";
import { type HeatMap, isSure } from "./contents";
import type { Layout } from "./layout";

/** The opacity of tiles that are not confirmed. */
export const PALE = 0.4;
/** The fill with the pattern of stripes, which the drawing of a map contains. */
export const STRIPES = "url(#heat-stripes)";
/** The steps of the scale of colours. */
const STEPS = 48;

/** The colour of the frame of the selected cell. */
export const selectedColour = () => (isDark() ? "#ff66b8" : "#d6006c");

/** A cross in the corner of a tile: a halo, and the cross above it. */
export const crosses = (): Plot.DotOptions[] => [
  { symbol: "times", r: 4.5, stroke: "#fff", strokeWidth: 4 },
  { symbol: "times", r: 4.5, stroke: "#b42318", strokeWidth: 2 },
];

/** The scale of colours, from the lowest value to the highest. */
export function colourKey(map: HeatMap, { low, top, logarithmic, valueAt, measured }: Layout): SVGSVGElement {
  const { label, unit, less } = map.measure;
  const { name, divisor } = axisUnit(unit, top);
  const opacity = measured.some((cell) => isSure(map, cell)) ? 1 : PALE;
  const drawing = draw(330, {
    height: 58,
    marginTop: 22,
    marginBottom: 22,
    marginLeft: 74,
    marginRight: 30,
    ariaLabel: `What the colours mean: ${label} from ${quantity(low, unit)} to ${quantity(top, unit)}`,
    x: { domain: [0, 1], label: null },
    y: { axis: null },
    color: { type: "linear", scheme: "cividis", domain: [0, 1] },
    marks: [
      Plot.text([`${capital(label)}, ${name}${logarithmic ? ", log scale" : ""}`], {
        frameAnchor: "top-left",
        dy: -16,
        textAnchor: "start",
        fill: ink(),
      }),
      Plot.rect(
        Array.from({ length: STEPS }, (_, n) => n / STEPS),
        {
          x1: (n: number) => n,
          // Pale steps must not lie on each other.
          x2: (n: number) => Math.min(1, n + (opacity < 1 ? 1 : 2) / STEPS),
          y1: 0,
          y2: 1,
          fill: (n: number) => (less ? 1 - n : n),
          fillOpacity: opacity,
        },
      ),
      Plot.axisX([0, 0.5, 1], { tickFormat: (share: number) => digits(valueAt(share) / divisor) }),
    ],
  });
  drawing.classList.add("key");
  return drawing;
}

/** The key of the marks that occur in a map. */
export function markKey({ view, best, dense, compared }: HeatMap, { cells, measured, width }: Layout): SVGSVGElement {
  const box =
    (...all: Plot.RectOptions[]) =>
    (x: number, y: number) =>
      all.map((more) => Plot.rect([0], { x1: x - 11, x2: x + 11, y1: y - 7, y2: y + 7, ...more }));
  const framed = box({ stroke: ink(), strokeWidth: 2 });
  const dot = single({ r: 2.5, fill: "#fff", stroke: "#000" });
  const [halo, cross] = crosses().map(single);
  const hatched = !dense && compared && measured.some((cell) => !isConfirmed(cell));
  const entries: (Entry | false)[] = [
    best.size > 0 && { name: "may be the best", marks: (x, y) => [...framed(x, y), ...dot(x, y)] },
    cells.some((cell) => isRecommended(view, cell)) && {
      name: "use",
      marks: (x, y) => [Plot.text([USED], { x, y, fill: ink(), fontSize: 14 })],
    },
    cells.some((cell) => isSlower(view, cell)) && {
      name: "avoid",
      marks: (x, y) => [halo, cross].flatMap((mark) => mark?.(x, y) ?? []),
    },
    { name: "selected", marks: box({ stroke: selectedColour(), strokeWidth: 3 }) },
    hatched && { name: "screened only", marks: box({ fill: "#7d7c78" }, { fill: STRIPES }) },
    measured.length < cells.length && {
      name: "no number: see its tip",
      marks: box({ stroke: ink(), strokeDasharray: "2 3" }),
    },
  ];
  return legend(
    "",
    entries.filter((entry) => entry !== false),
    width,
  );
}
