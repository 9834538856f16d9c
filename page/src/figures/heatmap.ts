// Two choices against each other on band axes, and the two lines through the cell that is looked at. Cells that only were
// screened are hatched: what is known of them is little. What is shown of the others has a mark (marks.ts). Long, since map,
// keyboard, pointer and both lines share the cell that is chosen.

import * as Plot from "@observablehq/plot";
import {
  type CellView,
  axisName,
  candidates,
  factorOf,
  isConfirmed,
  isMeasured,
  type Level,
  level,
  limitOf,
} from "../data";
import { h, svg } from "../dom";
import { axisUnit, capital, digits, resourceOf } from "../format";
import { atMost, inTimes, manyTimes, withInterval } from "../outward";
import { type Figure, nothing, select } from "../frame";
import { along, levels, named, varying } from "../levels";
import { draw, faint, ink, NARROW, paper, slopeOf, thinned } from "../look";
import { atRates, carried, lacks, measures } from "../measure";
import type { Looking, State } from "../state";
import { mayBeBest } from "./compared";
import { contourKey, contours, told as toldOfContours } from "./contours";
import { colourKey } from "./key";
import { crosses, hatching, isDear, looked, markKey, outline, type Sign } from "./marks";
import { slice } from "./slice";
import { hasPlace, placing, type Writing, written } from "./tiles";

/** What the reader chose in this figure. Kept while the page is open, group by group. */
interface Wish {
  x: string;
  y: string;
  measure: string;
  contours: boolean;
}
const wishes = new Map<string, Wish>();
/** What the reader coloured by last, in whichever group: another group begins with it. */
let lastMeasure = "rate";

const CELLS_WITH_TIP = 2000;
const BESIDE = 900;
/** More levels than this in a row or column: tiles are small, and hatching them would hide their colours. */
const DENSE = 24;
/** How high a map of many rows is, the least that a row has of it, and on a phone, where tiles are narrow; pixels. */
const [HIGH, ROW, PHONE_ROW] = [560, 22, 30];
/** How much of its colour a tile has that is not confirmed: numbers that prove nothing must not shine. */
const PALE = 0.4;
/** The narrowest that a line through the map may be. */
const LINE = 300;

export function heatmap(looking: Looking, state: State, redraw: () => void): Figure | null {
  const { view, group } = looking;
  // Of two the verdict has a level of its own: a bound of one against the best beside it would be another number.
  if (view.versus) return null;
  const all = candidates(view, group);
  const factors = varying(all, group.varied).filter(
    (factor) => levels(all, factor).filter((value) => value != null).length > 1,
  );
  const [first, second] = factors;
  if (!first || !second || !looking.cell) return null;
  const preferred = (wanted: string[], fallback: string) => wanted.find((name) => factors.includes(name)) ?? fallback;
  const x0 = preferred(["read_size", "request", "flows"], first);
  const y0 = preferred(
    ["write_size", "rcvbuf"].filter((name) => name !== x0),
    [second, first].find((name) => name !== x0) ?? second,
  );
  const wish = wishes.get(group.id) ?? { x: x0, y: y0, measure: lastMeasure, contours: false };
  const choose = (change: Partial<Wish>) => {
    const next = { ...wish, ...change };
    if (next.x === next.y) Object.assign(next, change.x ? { y: wish.x } : { x: wish.y });
    wishes.set(group.id, next);
    lastMeasure = next.measure;
    redraw();
  };
  const fx = factorOf(view, wish.x);
  const fy = factorOf(view, wish.y);
  const known = measures(all);
  const measure = known.find((each) => each.key === wish.measure) ?? known[0];
  if (!measure) return null;
  const best = new Set(group.best_set.filter((id) => all.some((cell) => cell.id === id && hasPlace(cell, wish))));
  const isNamed = (cell: CellView) => cell.id === group.recommendation.cell;
  const { placed, placeless, start } = placing(all, wish, looking.cell, measure);
  if (!start) return null;
  let chosen = start;
  const plane = () => along(view, placed, chosen, [wish.x, wish.y]);
  const dense = [wish.x, wish.y].some((factor) => levels(plane(), factor).length > DENSE);
  const screened = all.some((cell) => isMeasured(cell) && !isConfirmed(cell));
  // Nothing is confirmed by a trial that is compared with none.
  const compared = all.some((cell) => cell.above_best_upper != null);
  const isSure = (cell: CellView) => compared && isConfirmed(cell);
  const others = factors.filter((factor) => factor !== wish.x && factor !== wish.y);
  const option = (factor: string) => ({ value: factor, text: axisName(factorOf(view, factor)) });

  const controls = h(
    "div",
    { class: "controls" },
    select("across", factors.map(option), wish.x, (x) => choose({ x })),
    select("down", factors.map(option), wish.y, (y) => choose({ y })),
    select(
      "colour",
      known.map((each) => ({ value: each.key, text: each.label })),
      measure.key,
      (key) => choose({ measure: key }),
    ),
    select(
      "contours",
      ["none", "of medians"].map((text) => ({ value: text, text })),
      wish.contours ? "of medians" : "none",
      (how) => choose({ contours: how !== "none" }),
    ),
    ...others.map((factor) => {
      const fixed = factorOf(view, factor);
      const values = levels(all, factor);
      return select(
        fixed.heading,
        values.map((value, at) => ({ value: String(at), text: named(value, fixed) })),
        String(values.indexOf(level(chosen, factor))),
        (at) => {
          const wanted = values[Number(at)] ?? null;
          const found = all.filter((cell) => level(cell, factor) === wanted);
          const near =
            found.find((cell) =>
              factors.every((name) => name === factor || level(cell, name) === level(chosen, name)),
            ) ?? found[0];
          if (near) state.chooseCell(near.id);
          redraw();
        },
      );
    }),
  );

  /** Choices to which an axis does not apply: the map says nothing of them, though one of them may be the best. */
  const absent = (cells: CellView[]): string => {
    const without = [fx, fy].filter(({ name }) => cells.some((cell) => level(cell, name) == null)).map(axisName);
    const use = cells.some((cell) => cell.id === group.recommendation.cell);
    return `Not in this map, since without ${without.join(" or ")}: ${atRates(cells, measure)}${use ? (cells.length > 1 ? "; the one to use is among them" : ", which is the one to use") : ""}.`;
  };

  const told = (cell: CellView): string[] => {
    const value = measure.of(cell);
    const at = `${fx.heading} ${named(level(cell, wish.x), fx)}, ${fy.heading} ${named(level(cell, wish.y), fy)}`;
    if (!isMeasured(cell) || !value) return [at, `${cell.outcome}${cell.reason ? `, ${cell.reason}` : ""}`];
    const trials = `${cell.trials} trial${cell.trials === 1 ? "" : "s"}`;
    const standing = isSure(cell)
      ? `confirmed in ${trials}`
      : isConfirmed(cell)
        ? `${trials}, compared with nothing yet`
        : `screened in ${trials}, not confirmed`;
    const { above_best_upper: upper } = cell;
    const resource = resourceOf(group.cost);
    const above =
      upper == null
        ? []
        : !inTimes(group)
          ? [`takes at most ${atMost(upper)} more ${resource} than the best`]
          : [`may take ${manyTimes(1 + upper)} the best's ${resource}`];
    const limit = cell.limit.name === "unknown" ? limitOf(cell.limit) : `limited by ${limitOf(cell.limit)}`;
    return [at, withInterval(value, measure.unit), standing, ...above, limit];
  };

  return {
    id: "heatmap",
    title: capital(`${measure.label} by ${axisName(fx)} and ${axisName(fy)}`),
    reading: [
      `Brighter is ${measure.less ? "less" : "more"}: ${measure.label}, a median with no bound of its own: what is shown to be close to the best stands in the ranking, and here by its mark.`,
      !compared
        ? `Pale throughout: ${all.every(({ trials }) => trials <= 1) ? "one trial each" : "too few trials"}, so nothing here is confirmed or compared, and the brightest may be so by luck.`
        : screened &&
          (dense
            ? "Framed: confirmed; all others, pale, were screened only, so roughly known."
            : "Pale and hatched, and in brackets where there is room: screened only, so roughly known."),
      screened &&
        compared &&
        "What was screened was measured before the rest and in other trials: compare those that were confirmed with each other alone. Of many that were tried briefly the brightest is so partly by luck.",
      wish.contours && toldOfContours(measure.unit),
      lacks(placed.filter(isMeasured), measure),
      carried(all, measure),
    ]
      .filter((line) => line)
      .join(" "),
    asks: "Click a cell, or use the arrow keys, to see the two lines through it.",
    controls,
    table: () => ({
      columns: [wish.x, wish.y, measure.key, "lower", "upper", "stage", "in_best_set", "outcome", "limit"],
      rows: plane().map((cell) => {
        const value = measure.of(cell);
        return [
          level(cell, wish.x) as string | number,
          level(cell, wish.y) as string | number,
          value?.mid ?? null,
          value?.lower ?? null,
          value?.upper ?? null,
          cell.stage ?? null,
          mayBeBest(group, cell),
          cell.outcome,
          limitOf(cell.limit),
        ];
      }),
    }),
    draw(width) {
      const cells = plane();
      const xs = levels(cells, wish.x);
      const ys = levels(cells, wish.y).reverse();
      if (cells.length === 0) return [nothing("No cell lies in this plane.")];
      const narrow = width < NARROW;
      const longest = Math.max(...ys.map((value) => named(value, fy).length)) * 6.8;
      // On a phone the name of the axis stands above it, and its levels have the room.
      const left = narrow ? Math.max(34, longest + 12) : Math.max(74, longest + 34);
      const beside = width >= BESIDE && !dense;
      const wide = Math.min(beside ? width * 0.6 : width, Math.max(360, left + 30 + xs.length * 84));
      const tileWide = (wide - left - 10) / xs.length;
      const row = Math.min(narrow ? PHONE_ROW : ROW, HIGH / ys.length);
      const high = Math.max(Math.min(tileWide * 0.62, ys.length > 8 ? 36 : 54), row);
      const seen = (cell: CellView) => isMeasured(cell) && measure.of(cell) != null;
      const measured = cells.filter(seen);
      const values = measured.map((cell) => measure.of(cell)?.mid ?? 0);
      const [low, top] = [Math.min(...values), Math.max(...values)];
      const logarithmic = low > 0 && top / low > 30;
      const share = (value: number) =>
        top === low ? 1 : logarithmic ? Math.log(value / low) / Math.log(top / low) : (value - low) / (top - low);
      const place = { x: (cell: CellView) => level(cell, wish.x), y: (cell: CellView) => level(cell, wish.y) };
      const unit = axisUnit(measure.unit, top);
      const bright = (cell: CellView) =>
        measure.less ? 1 - share(measure.of(cell)?.mid ?? 0) : share(measure.of(cell)?.mid ?? 0);
      const hatch = `heat-hatch`;
      const order = Math.floor(Math.log10(top / unit.divisor));
      const number = (cell: CellView, { digits: many, own, brackets }: Writing) => {
        const value = (measure.of(cell)?.mid ?? 0) / unit.divisor;
        const text = own ? digits(value, many) : value.toFixed(Math.max(0, Math.min(many - 1 - order, 9)));
        return brackets && compared && !isConfirmed(cell) ? `(${text})` : text;
      };
      const writing = high < 20 ? undefined : written((how) => measured.map((cell) => number(cell, how)), tileWide);
      const roomy = writing?.brackets ?? false;
      const uncertain = measured.filter((cell) => !isConfirmed(cell));
      // Numbers leave out some; every name is told.
      const slope = xs.every((value) => typeof value === "string")
        ? slopeOf(
            xs.map((value) => named(value, fx)),
            tileWide,
          )
        : 0;
      const drawing = draw(wide, {
        height: 62 + slope + ys.length * high,
        marginLeft: left,
        marginRight: 10,
        marginBottom: 42 + slope,
        marginTop: 20,
        x: {
          type: "band",
          domain: xs,
          label: axisName(fx),
          labelArrow: "none",
          tickFormat: (value: Level) => named(value, fx),
          ticks: slope > 0 ? xs : thinned(xs, (wide - left) / 54),
          tickRotate: slope > 0 ? -30 : 0,
          padding: dense ? 0 : 0.04,
        },
        y: {
          type: "band",
          domain: ys,
          label: axisName(fy),
          labelArrow: "none",
          labelAnchor: narrow ? "top" : "center",
          labelOffset: narrow ? left - 4 : undefined,
          tickFormat: (value: Level) => named(value, fy),
          ticks: thinned(ys, (ys.length * high) / 16),
          padding: dense ? 0 : 0.06,
        },
        color: { type: "linear", scheme: "cividis", domain: [0, 1] },
        marks: [
          // Between small tiles no paper shines through.
          ...[true, false].map((sure) =>
            Plot.cell(
              measured.filter((cell) => isSure(cell) === sure),
              {
                ...place,
                fill: bright,
                fillOpacity: sure ? 1 : PALE,
                ...(dense ? { shapeRendering: "crispEdges" } : {}),
              } as Plot.CellOptions,
            ),
          ),
          dense || !compared ? null : Plot.cell(uncertain, { ...place, fill: `url(#${hatch})` }),
          Plot.cell(
            cells.filter((cell) => !seen(cell)),
            { ...place, fill: "none", stroke: faint(), strokeDasharray: "2 3" },
          ),
          Plot.cell(
            cells.filter((cell) => best.has(cell.id)),
            { ...place, fill: "none", stroke: ink(), ...(dense ? { strokeWidth: 2 } : { strokeWidth: 2.5, inset: 1 }) },
          ),
          // The halo in the tile's own colour keeps the hatching away from the number; brackets as on the terminal's screen.
          ...(writing
            ? [true, false].map((sure) =>
                Plot.text(
                  measured.filter((cell) => isSure(cell) === sure),
                  {
                    ...place,
                    text: (cell: CellView) => number(cell, writing),
                    ...(sure
                      ? { fill: (cell: CellView) => (bright(cell) > 0.5 ? "#111111" : "#ffffff"), stroke: bright }
                      : { fill: ink(), stroke: paper() }),
                    // Of a small tile the hatching has to be seen beside its number.
                    strokeWidth: roomy && compared ? (sure ? 7 : 5) : 3,
                    fontSize: writing.size,
                  } as Plot.TextOptions,
                ),
              )
            : []),
          // Above the halo, which would hide it.
          Plot.dot(
            cells.filter((cell) => best.has(cell.id)),
            {
              ...place,
              // In the corner, where it hides no number.
              r: roomy ? 3 : Math.min(2.5, high / 4),
              dx: writing ? tileWide / 2 - (roomy ? 8 : 6) : 0,
              dy: writing ? -high / 2 + (roomy ? 7 : 6) : 0,
              fill: "#fff",
              stroke: "#000",
            } as Plot.DotOptions,
          ),
          Plot.text(cells.filter(isNamed), {
            ...place,
            text: () => "▸",
            fontSize: roomy ? 14 : 8,
            dx: -tileWide / 2 + (roomy ? 9 : 4),
            dy: writing ? -high / 2 + (roomy ? 9 : 4) : 0,
            fill: "#111111",
            stroke: "#ffffff",
            strokeWidth: roomy ? 3 : 2,
          } as Plot.TextOptions),
          ...crosses().map((cross) =>
            Plot.dot(
              cells.filter((cell) => isDear(cell, group)),
              {
                ...place,
                ...cross,
                ...(roomy ? {} : { r: 3 }),
                dx: writing ? tileWide / 2 - (roomy ? 9 : 6) : 0,
                dy: writing ? high / 2 - (roomy ? 9 : 6) : 0,
              } as Plot.DotOptions,
            ),
          ),
          cells.length <= CELLS_WITH_TIP
            ? Plot.tip(
                cells,
                Plot.pointer({
                  ...place,
                  title: (cell: CellView) => told(cell).join("\n"),
                  fill: paper(),
                  lineHeight: 1.3,
                } as Plot.TipOptions),
              )
            : null,
        ],
      });
      drawing.prepend(hatching(hatch));
      const scaleX = drawing && scaleOf(drawing, "x");
      const scaleY = drawing && scaleOf(drawing, "y");
      const above = cells.length <= CELLS_WITH_TIP ? drawing.lastElementChild : null;
      const corners = (list: Level[], scale: Scale) => {
        const starts = list.map((value) => scale.apply(value) as number);
        const size = scale.bandwidth ?? 0;
        const gap = starts.length > 1 ? ((starts[1] ?? 0) - (starts[0] ?? 0) - size) / 2 : 0;
        return [...starts.map((start) => start - gap), (starts.at(-1) ?? 0) + size + gap];
      };
      const tiles = new Map(cells.map((cell) => [JSON.stringify([level(cell, wish.x), level(cell, wish.y)]), cell]));
      const [across, down] = [corners(xs, scaleX), corners(ys, scaleY)];
      const tile = (x: Level, y: Level) => tiles.get(JSON.stringify([x, y]));
      if (wish.contours) {
        const medians = ys.map((y) =>
          xs.map((x) => {
            const cell = tile(x, y);
            return cell && seen(cell) ? (measure.of(cell)?.mid ?? null) : null;
          }),
        );
        drawing.insertBefore(contours(medians, measure.less, across, down), above);
      }
      if (dense && screened) {
        const sure = ys.map((y) =>
          xs.map((x) => {
            const cell = tile(x, y);
            return cell != null && isConfirmed(cell);
          }),
        );
        drawing.insertBefore(outline(sure, across, down), above);
      }
      const ring = svg("rect", {
        fill: "none",
        class: "chosen",
        "stroke-width": 3,
        stroke: looked(),
        rx: 3,
        "pointer-events": "none",
      });
      // Below the tip, which is drawn last.
      drawing.insertBefore(ring, above);
      const said = h("p", { class: "said", "aria-live": "polite" });
      // Beside a small map the lines stand side by side: no higher than it is.
      const rest = width - wide - 32;
      const pair = beside && rest >= 2 * LINE + 16;
      const lines = h("div", { class: pair ? "side slices pair" : "side slices" });
      const show = () => {
        const [left, top] = [
          scaleX.apply(level(chosen, wish.x)) as number,
          scaleY.apply(level(chosen, wish.y)) as number,
        ];
        for (const [key, value] of Object.entries({
          x: left - 1,
          y: top - 1,
          width: (scaleX.bandwidth ?? 0) + 2,
          height: (scaleY.bandwidth ?? 0) + 2,
        }))
          ring.setAttribute(key, String(value));
        const [where, ...what] = told(chosen);
        said.textContent = `${where}: ${what.join("; ")}`;
        const half = pair ? rest / 2 - 8 : beside ? rest : width < 640 ? width : width / 2 - 8;
        const both = [wish.x, wish.y].flatMap((free) => along(view, cells, chosen, [free]));
        const line = (free: string, fixed: string) =>
          slice(
            along(view, cells, chosen, [free]),
            factorOf(view, free),
            measure,
            chosen.id,
            `${factorOf(view, fixed).heading} ${named(level(chosen, fixed), factorOf(view, fixed))}`,
            half,
            both,
          );
        // What has nothing to be drawn says so once.
        const [drawn, bare] = [line(wish.x, wish.y), line(wish.y, wish.x)].reduce<[Element[], Element[]]>(
          ([svgs, texts], each) => (each instanceof SVGElement ? [[...svgs, each], texts] : [svgs, [...texts, each]]),
          [[], []],
        );
        lines.replaceChildren(
          ...drawn,
          ...(drawn.length > 0 ? bare : [nothing("No other cell of its row or column was measured.")]),
        );
      };
      const go = (cell: CellView | undefined) => {
        if (!cell) return;
        chosen = cell;
        state.chooseCell(cell.id);
        show();
      };
      const at = (x: Level | undefined, y: Level | undefined) =>
        cells.find((cell) => level(cell, wish.x) === x && level(cell, wish.y) === y);
      const step = (dx: number, dy: number) => {
        // A plan with holes: the next cell in that direction, if there is one.
        for (let n = 1; n <= Math.max(xs.length, ys.length); n += 1) {
          const next = at(
            xs[xs.indexOf(level(chosen, wish.x)) + dx * n],
            ys[ys.indexOf(level(chosen, wish.y)) + dy * n],
          );
          if (next) return go(next);
        }
      };
      const steps: Record<string, [number, number]> = {
        ArrowLeft: [-1, 0],
        ArrowRight: [1, 0],
        ArrowUp: [0, -1],
        ArrowDown: [0, 1],
      };
      const board = h(
        "div",
        {
          class: "board",
          tabindex: 0,
          role: "application",
          "aria-label": `Heat map of ${measure.label}: the arrow keys go from cell to cell, and what is there is said below`,
          onkeydown: (event) => {
            const by = steps[(event as KeyboardEvent).key];
            if (!by) return;
            event.preventDefault();
            step(...by);
          },
          onclick: (event) => {
            const { clientX, clientY } = event as MouseEvent;
            const box = drawing.getBoundingClientRect();
            const zoom = drawing.viewBox.baseVal.width / box.width;
            const find = (list: Level[], scale: Scale, pixel: number) =>
              list.find((value) => {
                const from = scale.apply(value) as number;
                return pixel >= from && pixel <= from + (scale.bandwidth ?? 0);
              });
            go(at(find(xs, scaleX, (clientX - box.left) * zoom), find(ys, scaleY, (clientY - box.top) * zoom)));
          },
        },
        drawing,
      );
      show();
      const apart = h("p", { class: "reading" }, absent(placeless));
      apart.style.maxWidth = `${wide}px`;
      const signs: Sign[] = [
        best.size > 0 && ("best" as const),
        cells.some(isNamed) && ("use" as const),
        cells.some((cell) => isDear(cell, group)) && ("avoid" as const),
        "looked" as const,
        dense && screened && ("confirmed" as const),
        !dense && compared && uncertain.length > 0 && ("screened" as const),
        measured.length < cells.length && ("untold" as const),
      ].filter((sign) => sign !== false);
      const map = h(
        "div",
        {},
        board,
        colourKey(low, top, logarithmic, measure.less, measure.label, measure.unit, measured.some(isSure) ? 1 : PALE),
        markKey(signs, group.recommendation.margin, wide, `${hatch}-key`),
        wish.contours && contourKey(measure.unit, wide),
        placeless.length > 0 && apart,
      );
      // What is said of a cell heads the two lines through it.
      const through = h("div", { class: "through" }, said, lines);
      return [beside ? h("div", { class: "side map" }, map, through) : h("div", {}, map, through)];
    },
  };
}

type Scale = { apply(value: unknown): unknown; bandwidth?: number };

function scaleOf(drawing: SVGSVGElement, name: "x" | "y"): Scale {
  const scale = (drawing as SVGSVGElement & Plot.Plot).scale(name);
  if (!scale) throw new Error(`a heat map has a scale ${name}`);
  return scale as unknown as Scale;
}
