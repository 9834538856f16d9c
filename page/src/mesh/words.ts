// Numbers of a mesh as text.

import { quantity } from "../format";
import type { Mesh, Shift } from "./data";

/** A rate in the unit of the workload. */
export const rateOf = (mesh: Mesh, rate: number): string =>
  quantity(rate, mesh.workload === "call" ? "calls/s" : "bytes/s");

/** A difference to the typical rate: `12 % below`. */
export function shareOf(shift: number): string {
  const percent = Math.round(Math.abs(shift) * 100);
  return percent === 0 ? "as" : `${percent} % ${shift < 0 ? "below" : "above"}`;
}

/** A difference with its interval: `−40 % (−41 to −38)`. */
export function shiftOf(shift: Shift | null): string {
  if (!shift) return "";
  const signed = (share: number): string => {
    const percent = Math.round(share * 100);
    return percent < 0 ? `−${-percent}` : percent > 0 ? `+${percent}` : "0";
  };
  return `${signed(shift.shift)} % (${signed(shift.low)} to ${signed(shift.high)})`;
}
