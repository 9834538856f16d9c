// The page of a mesh: the map of all pairs, the hosts and links that are slow, and the time line. Everything is drawn from the
// numbers in the page; nothing is fetched.

import "./mesh.css";
import { h } from "../dom";
import { counted, duration } from "../format";
import { cells, type Mesh, rateOf } from "./data";
import { DARK } from "./colours";
import { map } from "./map";
import { rounds } from "./rounds";
import { links, missing, ranking } from "./tables";

function start(): void {
  const mesh = JSON.parse(document.getElementById("mesh")?.textContent ?? "null") as Mesh | null;
  const page = document.getElementById("page");
  if (!page || !mesh) return;
  const shown = h("div", {});
  const title = `Mesh of ${counted(mesh.ranks, "host")}`;
  document.title = `bytegauge: ${title}`;
  const choice = h(
    "select",
    { onchange: () => show(Number(choice.value)) },
    ...mesh.options.map((option, at) => h("option", { value: at }, option.name)),
  );

  function show(at: number): void {
    const option = mesh?.options[at];
    if (!mesh || !option) return;
    const typical = `Typical rate per direction: ${rateOf(mesh, option.typical)}. Slow: more than ${Math.round(
      mesh.margin * 100,
    )} % below typical with 95 % confidence.`;
    const parts = [ranking(mesh, option), links(mesh, option), missing(mesh), rounds(mesh)];
    shown.replaceChildren(
      h("p", {}, typical),
      map(mesh, option, cells(mesh, option)),
      ...parts.filter((part) => part != null),
    );
  }

  const tested = `${mesh.measured} of ${counted(mesh.parts, "test")} measured in ${duration(mesh.span_ns)}`;
  const left = mesh.options_left > 0 ? `${counted(mesh.options_left, "more option")}: see trials.parquet.` : null;
  page.replaceChildren(
    h("header", {}, h("h1", {}, title), h("p", {}, `${mesh.workload}, pattern ${mesh.pattern}: ${tested}`)),
    h(
      "main",
      {},
      mesh.options.length > 1 ? h("label", {}, "Option: ", choice) : null,
      left ? h("p", { class: "soft" }, left) : null,
      shown,
    ),
  );
  show(0);
  DARK.addEventListener("change", () => show(Number(choice.value)));
}

start();
