// The numbers of a mesh as they are in the page and as text, and the rates of its pairs. A pair is a position: sender × hosts +
// receiver.

import { quantity } from "../format";

export interface Shift {
  shift: number;
  low: number;
  high: number;
}

export interface HostShifts {
  sends: Shift | null;
  receives: Shift | null;
}

export interface MeshOption {
  name: string;
  typical: number;
  scale: [number, number];
  rates: string;
  reaches: string;
  shifts: (HostShifts | null)[];
  slow_hosts: number[];
  slow_links: { sender: number; receiver: number; shift: Shift }[];
}

export interface Round {
  replicate: number;
  round: number;
  begin_ns: number;
  end_ns: number;
  measured: number;
  missing: number;
}

export interface Mesh {
  pattern: string;
  workload: string;
  margin: number;
  span_ns: number;
  parts: number;
  measured: number;
  ranks: number;
  /** Every rank, and an external server. */
  hosts: { rank: number; name: string; rack: string }[];
  options: MeshOption[];
  options_left: number;
  rounds: Round[];
  missing: [string, number][];
}

/** The rates of all pairs of one option. */
export type Cells = ReturnType<typeof cells>;

const RATE_CODES = 65_534;

const binary = (text: string): Uint8Array => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** Reads the cells of an option. */
export function cells(mesh: Mesh, option: MeshOption) {
  const size = mesh.hosts.length;
  const [rates, reaches] = [binary(option.rates), binary(option.reaches)];
  const [low, high] = option.scale;
  /** The rate; NaN if it was not measured. */
  function rate(sender: number, receiver: number): number {
    const at = 2 * (sender * size + receiver);
    const code = (rates[at] ?? 0) + 256 * (rates[at + 1] ?? 0);
    return code === 0 ? NaN : Math.exp(low + ((code - 1) / RATE_CODES) * (high - low));
  }
  /** The 95 % interval of the rate; null if it is unknown. */
  function interval(sender: number, receiver: number): [number, number] | null {
    const code = reaches[sender * size + receiver] ?? 0;
    const middle = rate(sender, receiver);
    if (code === 0 || Number.isNaN(middle)) return null;
    const factor = Math.exp(0.001 * 2 ** ((code - 1) / 16));
    return [middle / factor, middle * factor];
  }
  return { size, rate, interval };
}

/** A part of the map: consecutive hosts, drawn as one row or column. */
export interface Band {
  name: string;
  first: number;
  count: number;
}

/** Each host of a range on its own. */
export const single = (mesh: Mesh, first: number, count: number): Band[] =>
  mesh.hosts.slice(first, first + count).map((host, at) => ({ name: host.name, first: first + at, count: 1 }));

/** Hosts by rack, or by tens where there are no racks: at most about a hundred bands. */
export function grouped(mesh: Mesh): Band[] {
  const bands: Band[] = [];
  const step = Math.max(10, Math.ceil(mesh.hosts.length / 100));
  const racks = new Set(mesh.hosts.map((host) => host.rack)).size > 1;
  mesh.hosts.forEach((host, at) => {
    const last = bands.at(-1);
    const joins = last && (racks ? host.rack === mesh.hosts[last.first]?.rack : last.count < step);
    if (joins) last.count += 1;
    else bands.push({ name: racks ? host.rack || "no rack" : host.name, first: at, count: 1 });
  });
  return bands;
}

/** The median rate between two bands; NaN without a rate. */
export function between(cells: Cells, sender: Band, receiver: Band): number {
  const rates: number[] = [];
  for (let from = sender.first; from < sender.first + sender.count; from += 1)
    for (let to = receiver.first; to < receiver.first + receiver.count; to += 1) {
      const rate = cells.rate(from, to);
      if (!Number.isNaN(rate)) rates.push(rate);
    }
  rates.sort((one, other) => one - other);
  return rates[rates.length >> 1] ?? NaN;
}

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
