// The key of a heat map's colours.

import * as Plot from "@observablehq/plot";
import { axisUnit, capital, digits, quantity } from "../format";
import { draw, ink } from "../look";

const STEPS = 48;

export interface Colours {
  low: number;
  top: number;
  logarithmic: boolean;
  /** Less is better, and brighter. */
  less: boolean;
  label: string;
  unit: string;
  /** The opacity of the tiles. */
  opacity: number;
}

/** The scale of colours, from the lowest value to the highest. */
export function colourKey({ low, top, logarithmic, less, label, unit, opacity }: Colours): SVGSVGElement {
  const { name, divisor } = axisUnit(unit, top);
  const at = (share: number) => (logarithmic ? low * (top / low) ** share : low + (top - low) * share);
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
          x2: (n: number) => Math.min(1, n + (opacity < 1 ? 1 : 2) / STEPS),
          y1: 0,
          y2: 1,
          fill: (n: number) => (less ? 1 - n : n),
          fillOpacity: opacity,
        },
      ),
      Plot.axisX([0, 0.5, 1], { tickFormat: (share: number) => digits(at(share) / divisor) }),
    ],
  });
  drawing.classList.add("key");
  return drawing;
}
