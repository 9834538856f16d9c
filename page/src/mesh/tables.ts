// The tables under the map: hosts from the slowest, slow links, and tests that were not measured.

import { h, table } from "../dom";
import { counted } from "../format";
import { type HostShifts, type Mesh, type MeshOption, shiftOf } from "./data";

const COMPARED = "Rates compared with the typical host, with 95 % intervals";
const EXPLAINED = "Rates compared with other links of both hosts, with 95 % intervals";

/** The smaller of both sides of a host. */
const slowest = (shifts: HostShifts | null): number =>
  Math.min(shifts?.sends?.shift ?? 0, shifts?.receives?.shift ?? 0);

/** A table under its heading; the first cell of a row is its name. */
function section(
  title: string,
  heads: string[],
  rows: { cells: string[]; slow?: boolean }[],
  caption?: string,
): HTMLElement {
  const row = ({ cells: [name = "", ...cells], slow }: (typeof rows)[number]) =>
    h(
      "tr",
      { class: slow ? "slow" : null },
      h("th", { scope: "row" }, name),
      ...cells.map((text) => h("td", {}, text)),
    );
  return h("section", {}, h("h2", {}, title), table(title, heads, rows.map(row), { caption }));
}

/** Every host, the slowest first; null if hosts are not compared. */
export function ranking(mesh: Mesh, option: MeshOption): HTMLElement | null {
  const order = mesh.hosts.map((_, at) => at).filter((at) => option.shifts[at]);
  if (order.length === 0) return null;
  order.sort((one, other) => slowest(option.shifts[one] ?? null) - slowest(option.shifts[other] ?? null));
  const rows = order.map((at) => {
    const [host, shifts] = [mesh.hosts[at], option.shifts[at]];
    const slow = option.slow_hosts.includes(at);
    const [sends, receives] = [shiftOf(shifts?.sends ?? null), shiftOf(shifts?.receives ?? null)];
    return { slow, cells: [host?.name ?? "", host?.rack ?? "", sends, receives, slow ? "slow" : ""] };
  });
  return section("Hosts, the slowest first", ["Host", "Rack", "Sends", "Receives", ""], rows, COMPARED);
}

/** Links that are slower than both of their hosts explain; null if there are none. */
export function links(mesh: Mesh, option: MeshOption): HTMLElement | null {
  if (option.slow_links.length === 0) return null;
  const name = (at: number): string => mesh.hosts[at]?.name ?? "";
  const rows = option.slow_links.map(({ sender, receiver, shift }) => ({
    slow: true,
    cells: [`${name(sender)} to ${name(receiver)}`, shiftOf(shift)],
  }));
  return section("Slow links", ["Link", "Rate"], rows, EXPLAINED);
}

/** Tests that were not measured, by reason; null if all were. */
export function missing(mesh: Mesh): HTMLElement | null {
  if (mesh.missing.length === 0) return null;
  const rows = mesh.missing.map(([reason, many]) => ({ cells: [counted(many, "test"), reason] }));
  return section("Not measured", ["Tests", "Reason"], rows);
}
