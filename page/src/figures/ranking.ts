// How the ranking writes its bounds, where the ticks of its root scale stand, and what its marks mean.

import * as Plot from "@observablehq/plot";
import { percent, trimmed } from "../format";
import { accent, draw, faint, ink, paper, warn } from "../look";
import { least, manyTimes, upTo } from "../outward";

/** What a bar shows: it ends within the margin, begins beyond it, or neither. */
export type Verdict = "within" | "beyond" | "open";
/** The colour of what a bar shows. */
export const tone = (verdict: Verdict): string => ({ within: accent, beyond: warn, open: faint })[verdict]();

/** How a figure writes shares above the best, in one way throughout: percentages, or multiples. */
export function bounds(multiples: boolean) {
  const times = (share: number) => `${trimmed(1 + share)}\u00a0×`;
  return {
    at: multiples ? times : (share: number) => percent(share),
    most: multiples ? (share: number) => manyTimes(1 + share).replace("up to", "≤") : upTo,
    least: (share: number) => least(share, multiples),
  };
}

/** A bound that reaches so many margins far is drawn on a root scale, with these ticks. */
export const ROOTED = 20;
const ROOT_TICKS = [0, 0.25, 1, 2, 4, 6, 9];
/** From tick to tick at least, pixels. */
const APART = 44;

/** Those of a root scale that have room, by where each stands. */
export function rootTicks(reach: number, place: (share: number) => number): number[] {
  const found: number[] = [];
  for (const share of ROOT_TICKS) {
    const last = found.at(-1);
    if (share <= reach && (last == null || place(share) - place(last) >= APART)) found.push(share);
  }
  return found;
}
/** What the colours of bars and the filling of squares mean, as a drawing, so that it is saved with the figure. */
export function meaning(
  verdicts: Verdict[],
  filled: boolean[],
  beside: ("relayless" | "speeds")[],
  margin: number,
  width: number,
): SVGSVGElement[] {
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
    ...beside.map((sign) => ({ name: sign === "speeds" ? "one of its speeds" : "without a relay", sign })),
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
            : "best" in entry
              ? Plot.dot([[x + 14, y]], {
                  symbol: "square",
                  r: 4.5,
                  stroke: accent(),
                  strokeWidth: 1.6,
                  fill: entry.best ? accent() : paper(),
                })
              : entry.sign === "speeds"
                ? Plot.dot([[x + 14, y]], { symbol: "diamond", r: 3.5, stroke: ink(), fill: paper() })
                : Plot.ruleY([y], { x1: x, x2: x + 28, stroke: ink(), strokeDasharray: "4 3" });
        return [sign, Plot.text([entry.name], { x: x + 36, y, textAnchor: "start", fill: ink() })];
      }),
    }),
  ];
}
