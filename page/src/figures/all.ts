// The figures of the page, in their order.

import type { Figure, Lacking } from "../frame";
import type { Looking, State } from "../state";
import { heatmap } from "./heatmap";
import { knee } from "./knee";
import { load } from "./load";
import { overTime } from "./over-time";
import { percentiles } from "./percentiles";
import { sweep } from "./sweep";

/** Makes a figure for the selection; null if there is nothing to draw. `redraw` makes it again. */
export type Maker = (looking: Looking, redraw: () => void) => Figure | Lacking | null;

export const makers = (state: State): Maker[] => [
  (looking, redraw) => heatmap(looking, state, redraw),
  sweep,
  percentiles,
  load,
  knee,
  overTime,
];
