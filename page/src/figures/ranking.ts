// The colours of the ranking's bars, and its key.

import * as Plot from "@observablehq/plot";
import type { OptionResult } from "../data";
import { percent } from "../format";
import { accent, draw, faint, ink, paper, stolen, warn } from "../look";

type Status = OptionResult["status"];

/** The colour of a bar, by the status of the option. */
export const tone = (status: Status | undefined): string =>
  status === "best" ? accent() : status === "slower" ? warn() : status === "harmful" ? stolen() : faint();

export type Sign = "relayless" | "speeds";
interface Entry {
  name: string;
  mark(x: number, y: number): Plot.Markish;
}

/** The key of the marks that occur, as a drawing, so that saved files have it. */
export function meaning(statuses: Status[], signs: Sign[], margin: number, width: number): SVGSVGElement[] {
  const all = entries(statuses, signs, margin);
  if (all.length === 0) return [];
  const places: [number, number][] = [];
  let [x, y] = [4, 14];
  for (const { name } of all) {
    const step = name.length * 6.6 + 62;
    if (x > 4 && x + step > width) [x, y] = [4, y + 22];
    places.push([x, y]);
    x += step;
  }
  const high = y + 12;
  return [
    draw(width, {
      height: high,
      margin: 0,
      ariaLabel: `What the marks mean: ${all.map(({ name }) => name).join(", ")}`,
      x: { axis: null, domain: [0, width], range: [0, width] },
      y: { axis: null, domain: [0, high], range: [0, high] },
      marks: all.flatMap(({ name, mark }, at) => {
        const [x, y] = places[at] ?? [0, 0];
        return [mark(x, y), Plot.text([name], { x: x + 36, y, textAnchor: "start", fill: ink() })];
      }),
    }),
  ];
}

function entries(statuses: Status[], signs: Sign[], margin: number): Entry[] {
  const names: Partial<Record<Status, string>> = {
    best: `within ${percent(margin)} of the best`,
    tied: "undecided: may be the best",
    harmful: "undecided, but harmful: see Caveat",
    slower: "slower than the best",
  };
  const bar = (status: Status) => (x: number, y: number) =>
    Plot.ruleY([y], { x1: x, x2: x + 28, stroke: tone(status), strokeWidth: 6 });
  const square = (isFilled: boolean) => (x: number, y: number) =>
    Plot.dot([[x + 14, y]], {
      symbol: "square",
      r: 4.5,
      stroke: accent(),
      strokeWidth: 1.6,
      fill: isFilled ? accent() : paper(),
    });
  const bars = (["best", "tied", "harmful", "slower"] as const).filter((status) => statuses.includes(status));
  const squares = [
    bars.some((status) => status !== "slower") && { name: "rate of one that can be the best", mark: square(true) },
    bars.includes("slower") && { name: "rate of a slower one", mark: square(false) },
  ];
  return [
    ...bars.map((status) => ({ name: names[status] ?? status, mark: bar(status) })),
    ...squares.filter((each) => each !== false),
    ...signs.map((sign) => ({
      name: sign === "speeds" ? "one of its speeds" : "without a relay",
      mark: (x: number, y: number) =>
        sign === "speeds"
          ? Plot.dot([[x + 14, y]], { symbol: "diamond", r: 3.5, stroke: ink(), fill: paper() })
          : Plot.ruleY([y], { x1: x, x2: x + 28, stroke: ink(), strokeDasharray: "4 3" }),
    })),
  ];
}
