// Colours of rates, compared with the typical one.

import { h } from "../dom";

/** Whether the page is dark. */
export const DARK = matchMedia("(prefers-color-scheme: dark)");

type Colour = [number, number, number];

/** Colours by the share of the typical rate: slow is orange to red, fast is blue, and typical is near the colour of the page. */
const STOPS: Record<"light" | "dark", [number, Colour][]> = {
  light: [
    [0.3, [127, 29, 29]],
    [0.6, [220, 88, 42]],
    [0.85, [250, 190, 110]],
    [1, [236, 240, 243]],
    [1.15, [140, 187, 224]],
    [1.6, [11, 98, 164]],
  ],
  dark: [
    [0.3, [255, 205, 180]],
    [0.6, [240, 110, 50]],
    [0.85, [125, 75, 35]],
    [1, [42, 44, 48]],
    [1.15, [40, 80, 120]],
    [1.6, [108, 182, 245]],
  ],
};

const UNMEASURED: Colour = [150, 150, 150];

/** The colour of a share of the typical rate. */
export function colour(share: number): Colour {
  if (Number.isNaN(share)) return UNMEASURED;
  const stops = STOPS[DARK.matches ? "dark" : "light"];
  const above = stops.findIndex(([at]) => share <= at);
  if (above === 0) return stops[0]![1];
  const [upper, lower] = [stops.at(above), stops.at(above === -1 ? -1 : above - 1)];
  if (!upper || !lower || above === -1) return stops.at(-1)![1];
  const part = (share - lower[0]) / (upper[0] - lower[0]);
  return lower[1].map((low, at) => Math.round(low + part * (upper[1][at]! - low))) as Colour;
}

/** The colours with their shares. */
export function key(): HTMLElement {
  const entry = (share: number, text: string): HTMLElement => {
    const box = h("span", { class: "box" });
    box.style.background = `rgb(${colour(share).join(" ")})`;
    return h("span", { class: "entry" }, box, text);
  };
  const named = STOPS.light.map(([share]) => entry(share, `${Math.round(share * 100)} %`));
  return h("p", { class: "key" }, "Share of the typical rate: ", ...named, entry(NaN, "not measured"));
}
