// The figures of the page, in their order.

import type { Figure, Lacking } from "../frame";
import type { Looking } from "../state";
import { options } from "./facts";
import { heatmap } from "./heatmap";
import { knee } from "./knee";
import { load } from "./load";
import { overTime } from "./over-time";
import { percentiles } from "./percentiles";
import { sweep } from "./sweep";

/**
 * Makes a figure for the selection; null if there is nothing to draw. `redraw` makes it again; `selectCell` selects a
 * cell and makes the other figures again.
 */
export type Maker = (
  looking: Looking,
  redraw: () => void,
  selectCell: (id: string) => void,
) => Figure | Lacking | HTMLElement | null;

export const makers: Maker[] = [heatmap, sweep, percentiles, load, knee, overTime, options];
