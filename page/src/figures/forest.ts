// Methods ranked: how much more than the best confirmed each may take, beside its rate and what it costs in CPU time.

import * as Plot from "@observablehq/plot";
import { type CellView, candidates, isConfirmed, isMeasured, limitName } from "../data";
import { axisUnit, capital, costName, digits, percent, range, withInterval } from "../format";
import type { Figure } from "../frame";
import { nothing } from "../frame";
import { mayBeBest, notTheFastest } from "./facts";
import { accent, draw, faint, fromZero, ink, paper, rows, warn } from "../look";
import { costOf, measures } from "../measure";
import type { Looking } from "../state";

const ROWS_MAX = 30;
type Verdict = "within" | "beyond" | "open";
const tone = (verdict: Verdict): string => ({ within: accent, beyond: warn, open: faint })[verdict]();
type Laid = ReturnType<typeof rows>;

export function forest(looking: Looking): Figure | null {
  const { view, group } = looking;
  const margin = group.recommendation.margin;
  const best = new Set(group.best_set);
  const all = candidates(view, group).filter((cell) => isMeasured(cell) && isConfirmed(cell));
  if (all.length === 0) return null;
  const order = (cell: CellView) => cell.above_best_upper ?? Number.POSITIVE_INFINITY;
  const cells = all
    .sort((a, b) => order(a) - order(b) || (b.estimate.median ?? 0) - (a.estimate.median ?? 0))
    .slice(0, ROWS_MAX);
  const rate = measures(cells)[0];
  const cost = costOf(cells);
  const compared = cells.some((cell) => cell.above_best_upper != null);
  const reach = Math.min(Math.max(...cells.map((cell) => cell.above_best_upper ?? 0), margin * 2), 9);
  const mark = (cell: CellView) => `${cell.id === group.recommendation.cell ? "▸ " : ""}${cell.label}`;

  /** What the bar of a cell shows: it ends within the margin, begins beyond it, or neither. */
  const verdict = (cell: CellView): Verdict =>
    (cell.above_best_upper ?? 9) <= margin ? "within" : (cell.above_best_lower ?? 0) > margin ? "beyond" : "open";

  function panel(
    width: number,
    left: number,
    laid: Laid,
    title: string,
    marks: Plot.Markish[],
    x: Plot.ScaleOptions,
  ): SVGSVGElement {
    return draw(width, {
      height: 44 + laid.height,
      marginLeft: left,
      marginRight: 18,
      marginTop: 34,
      marginBottom: 10,
      x: { label: null, ticks: Math.max(2, Math.floor((width - left) / 70)), ...x, axis: "top", grid: true },
      y: laid.y,
      marks: [
        Plot.text([capital(title)], {
          frameAnchor: "top-left",
          dy: -34,
          fontWeight: 600,
          textAnchor: "start",
          fill: ink(),
        }),
        ...marks,
      ],
    });
  }

  return {
    id: "forest",
    title: compared
      ? "The confirmed choices, ranked by how much more than the best they may take"
      : "The confirmed choices, the fastest first: not compared yet",
    reading: compared
      ? `Bars are intervals at ${percent(view.plan.level)}: how much more ${costName(group.cost)} a choice takes than the best confirmed, whichever that is. The shade is the margin of ${percent(margin)}. ▸ is what to use. ${notTheFastest(looking) ?? ""}`.trimEnd()
      : `Too few blocks stand behind these to say how far they are apart: squares are ${cells.every((cell) => cell.trials <= 1) ? "one trial each" : "medians"}, and their order may be luck.`,
    table: () => ({
      columns: [
        "cell",
        "label",
        "dearer_lower",
        "dearer_upper",
        "in_best_set",
        "rate",
        "rate_lower",
        "rate_upper",
        cost?.key ?? "cost",
        "limit",
      ],
      rows: cells.map((cell) => [
        cell.id,
        cell.label,
        cell.above_best_lower ?? null,
        cell.above_best_upper ?? null,
        mayBeBest(group, cell),
        cell.estimate.median,
        cell.estimate.lower ?? null,
        cell.estimate.upper ?? null,
        cost?.of(cell)?.mid ?? null,
        limitName(cell.limit.name),
      ]),
    }),
    draw(width) {
      const laid = rows(cells, mark, width);
      const { narrow, left } = laid;
      const tip = (text: (cell: CellView) => string, x: (cell: CellView) => number | null) =>
        Plot.tip(cells, Plot.pointerY({ y: "id", x, title: text, fill: paper(), lineHeight: 1.3 }));
      const symbols = (x: (cell: CellView) => number | null | undefined) =>
        Plot.dot(cells, {
          x,
          y: "id",
          symbol: "square",
          r: 4.5,
          stroke: accent(),
          strokeWidth: 1.6,
          fill: (cell: CellView) => (best.has(cell.id) || !compared ? accent() : paper()),
        } as Plot.DotOptions);
      const scale = (share: number | null | undefined) => (share == null ? null : Math.min(share, reach));
      const dearer = () => [
        Plot.rectX([margin], { x1: 0, x2: margin, fill: accent(), fillOpacity: 0.13 }),
        Plot.ruleX([margin], { stroke: accent(), strokeDasharray: "3 3" }),
        Plot.ruleX([0], { stroke: faint() }),
        Plot.ruleY(cells, {
          y: "id",
          x1: (cell: CellView) => scale(cell.above_best_lower ?? 0),
          x2: (cell: CellView) => scale(cell.above_best_upper),
          strokeWidth: 6,
          strokeLinecap: "butt",
          stroke: (cell: CellView) => tone(verdict(cell)),
        }),
        Plot.text(
          cells.filter((cell) => (cell.above_best_upper ?? 0) > reach),
          { x: reach, y: "id", text: () => "▶", fill: faint() },
        ),
        tip(
          (cell) =>
            `${cell.label}\n${cell.above_best_upper == null ? "not compared" : `${range(cell.above_best_lower, cell.above_best_upper)} more than the best`}\n${cell.limit.name === "unknown" ? "" : "limited by "}${limitName(cell.limit.name)}`,
          (cell) => scale(cell.above_best_upper),
        ),
      ];
      const rates = () => [
        Plot.ruleY(cells, {
          y: "id",
          x1: (cell: CellView) => cell.estimate.lower ?? null,
          x2: (cell: CellView) => cell.estimate.upper ?? null,
          stroke: accent(),
          strokeWidth: 2,
        }),
        symbols((cell) => cell.estimate.median),
        tip(
          (cell) =>
            `${cell.label}\n${rate ? withInterval(rate.of(cell) ?? { mid: 0, lower: null, upper: null }, rate.unit) : ""}`,
          (cell) => cell.estimate.median ?? null,
        ),
      ];
      const costs = () =>
        cost
          ? [
              Plot.barX(cells, {
                y: "id",
                x: (cell: CellView) => cost.of(cell)?.mid ?? null,
                fill: faint(),
                fillOpacity: 0.35,
                insetTop: 2,
                insetBottom: 2,
              }),
              Plot.text(cells, {
                y: "id",
                x: (cell: CellView) => cost.of(cell)?.mid ?? null,
                text: (cell: CellView) => digits((cost.of(cell)?.mid ?? 0) / axisUnit(cost.unit, dearest).divisor),
                textAnchor: "end",
                dx: -5,
                fill: ink(),
              }),
              Plot.ruleX([0], { stroke: faint() }),
            ]
          : [];
      const dearest = Math.max(...cells.map((cell) => cost?.of(cell)?.mid ?? 0));
      const speed = fromZero(
        rate?.unit ?? "",
        Math.max(...cells.map((cell) => cell.estimate.upper ?? cell.estimate.median ?? 0)),
      );
      const price = fromZero(cost?.unit ?? "", dearest);
      const panels: ((width: number, left: number, extra: Plot.Markish[]) => SVGSVGElement)[] = [];
      if (compared)
        panels.push((w, l, extra) =>
          panel(w, l, laid, `more ${costName(group.cost)} than the best`, [...dearer(), ...extra], {
            domain: [0, reach],
            tickFormat: (share: number) => percent(share),
          }),
        );
      if (rate)
        panels.push((w, l, extra) =>
          panel(w, l, laid, `${rate.label}, ${speed.name}`, [...rates(), ...extra], speed.axis),
        );
      if (cost)
        panels.push((w, l, extra) =>
          panel(w, l, laid, `${cost.label}, ${price.name}`, [...costs(), ...extra], price.axis),
        );
      if (panels.length === 0) return [nothing("No cell of this group was compared.")];
      const key = meaning(
        cells.some((cell) => cell.above_best_upper != null) ? [...new Set(cells.map(verdict))] : [],
        compared && best.size > 0 ? [...new Set(cells.map((cell) => best.has(cell.id)))] : [],
        margin,
        width,
      );
      if (narrow) return [...panels.map((make) => make(width, left, [laid.names])), ...key];
      const each = (width - left) / panels.length;
      const row = document.createElement("div");
      row.className = "side";
      row.append(
        ...panels.map((make, at) =>
          make(at === 0 ? each + left : each, at === 0 ? left : 12, at === 0 ? [laid.names] : []),
        ),
      );
      return [row, ...key];
    },
  };
}

/** What the colours of bars and the filling of squares mean, as a drawing, so that it is saved with the figure. */
function meaning(verdicts: Verdict[], filled: boolean[], margin: number, width: number): SVGSVGElement[] {
  const said: Record<Verdict, string> = {
    within: `shown to be within ${percent(margin)}`,
    open: `not shown to be within ${percent(margin)}, nor beyond`,
    beyond: `shown to be beyond ${percent(margin)}`,
  };
  const order: Verdict[] = ["within", "open", "beyond"];
  const bars = order.filter((verdict) => verdicts.includes(verdict));
  const entries = [
    ...bars.map((verdict) => ({ name: said[verdict], verdict })),
    ...[true, false]
      .filter((best) => filled.includes(best))
      .map((best) => ({ name: best ? "may be the best" : "shown not to be the best", best })),
  ];
  if (entries.length === 0) return [];
  const steps = entries.map(({ name }) => name.length * 6.6 + 62);
  const places: [number, number][] = [];
  let [x, y] = [4, 14];
  for (const step of steps) {
    if (x > 4 && x + step > width) [x, y] = [4, y + 22];
    places.push([x, y]);
    x += step;
  }
  const [wide, high] = [width, y + 12];
  return [
    draw(wide, {
      height: high,
      margin: 0,
      ariaLabel: `What the marks mean: ${entries.map(({ name }) => name).join(", ")}`,
      x: { axis: null, domain: [0, wide], range: [0, wide] },
      y: { axis: null, domain: [0, high], range: [0, high] },
      marks: entries.flatMap((entry, at) => {
        const [x, y] = places[at] ?? [0, 0];
        const sign =
          "verdict" in entry
            ? Plot.ruleY([y], { x1: x, x2: x + 28, stroke: tone(entry.verdict), strokeWidth: 6 })
            : Plot.dot([[x + 14, y]], {
                symbol: "square",
                r: 4.5,
                stroke: accent(),
                strokeWidth: 1.6,
                fill: entry.best ? accent() : paper(),
              });
        return [sign, Plot.text([entry.name], { x: x + 36, y, textAnchor: "start", fill: ink() })];
      }),
    }),
  ];
}
