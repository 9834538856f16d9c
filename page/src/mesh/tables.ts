// The tables under the map: hosts from the slowest, slow links, and tests that were not measured.

import { h, table } from "../dom";
import { counted } from "../format";
import type { HostShifts, Mesh, MeshOption } from "./data";
import { shiftOf } from "./words";

const COMPARED = "Rates compared with the typical host, with 95 % intervals";
const EXPLAINED = "Rates compared with other links of both hosts, with 95 % intervals";

/** The smaller of both sides of a host. */
const slowest = (shifts: HostShifts | null): number =>
  Math.min(shifts?.sends?.shift ?? 0, shifts?.receives?.shift ?? 0);

/** Every host, the slowest first; null if hosts are not compared. */
export function ranking(mesh: Mesh, option: MeshOption): HTMLElement | null {
  const order = mesh.hosts.map((_, at) => at).filter((at) => option.shifts[at]);
  if (order.length === 0) return null;
  order.sort((one, other) => slowest(option.shifts[one] ?? null) - slowest(option.shifts[other] ?? null));
  const rows = order.map((at) => {
    const [host, shifts] = [mesh.hosts[at], option.shifts[at]];
    const slow = option.slow_hosts.includes(at);
    return h(
      "tr",
      { class: slow ? "slow" : null },
      h("th", { scope: "row" }, host?.name ?? ""),
      h("td", {}, host?.rack ?? ""),
      h("td", {}, shiftOf(shifts?.sends ?? null)),
      h("td", {}, shiftOf(shifts?.receives ?? null)),
      h("td", {}, slow ? "slow" : ""),
    );
  });
  const heads = ["Host", "Rack", "Sends", "Receives", ""];
  return h("section", {}, h("h2", {}, "Hosts, the slowest first"), table("Hosts", heads, rows, { caption: COMPARED }));
}

/** Links that are slower than both of their hosts explain; null if there are none. */
export function links(mesh: Mesh, option: MeshOption): HTMLElement | null {
  if (option.slow_links.length === 0) return null;
  const name = (at: number): string => mesh.hosts[at]?.name ?? "";
  const rows = option.slow_links.map((link) =>
    h(
      "tr",
      { class: "slow" },
      h("th", { scope: "row" }, `${name(link.sender)} to ${name(link.receiver)}`),
      h("td", {}, shiftOf(link.shift)),
    ),
  );
  return h(
    "section",
    {},
    h("h2", {}, "Slow links"),
    table("Slow links", ["Link", "Rate"], rows, { caption: EXPLAINED }),
  );
}

/** Tests that were not measured, by reason; null if all were. */
export function missing(mesh: Mesh): HTMLElement | null {
  if (mesh.missing.length === 0) return null;
  const rows = mesh.missing.map(([reason, many]) =>
    h("tr", {}, h("th", { scope: "row" }, counted(many, "test")), h("td", {}, reason)),
  );
  return h("section", {}, h("h2", {}, "Not measured"), table("Not measured", ["Tests", "Reason"], rows));
}
