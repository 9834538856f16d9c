// The time line of the rounds: a bar for each, from its first test to its last one. Rounds overlap, since no round waits for the
// one before.

import { h } from "../dom";
import { counted, duration } from "../format";
import type { Mesh, Round } from "./data";

const WIDTH = 640;
const HEIGHT_MAX = 400;

/** The time line, with a line that describes the round under the pointer; null without rounds. */
export function rounds(mesh: Mesh): HTMLElement | null {
  const all = mesh.rounds;
  const last = Math.max(...all.map((round) => round.end_ns), 1);
  if (all.length === 0) return null;
  const each = Math.max(1, Math.min(8, Math.floor(HEIGHT_MAX / all.length)));
  const canvas = h("canvas", { role: "img", "aria-label": `${counted(all.length, "round")} in ${duration(last)}` });
  [canvas.width, canvas.height] = [WIDTH, Math.min(HEIGHT_MAX, each * all.length)];
  const drawing = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  const top = (at: number): number => (at / all.length) * canvas.height;
  all.forEach((round, at) => {
    if (!drawing) return;
    drawing.fillStyle = style.getPropertyValue(round.missing > 0 ? "--warn" : "--accent");
    const [begin, end] = [round.begin_ns, round.end_ns].map((ns) => (ns / last) * WIDTH) as [number, number];
    drawing.fillRect(begin, top(at), Math.max(1, end - begin), Math.max(1, each - 1));
  });
  const detail = h("p", { class: "detail", "aria-live": "polite" }, " ");
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const at = Math.floor(((event.clientY - box.top) / box.height) * all.length);
    detail.textContent = all[at] ? described(all[at]) : " ";
  });
  return h(
    "section",
    {},
    h("h2", {}, "Rounds"),
    canvas,
    detail,
    h(
      "p",
      { class: "soft" },
      `${duration(last)} from left to right; a round with tests that were not measured is orange.`,
    ),
  );
}

function described(round: Round): string {
  const missing = round.missing > 0 ? `, ${round.missing} not measured` : "";
  const when = `${duration(round.begin_ns)} to ${duration(round.end_ns)}`;
  return `Round ${round.round + 1} (repetition ${round.replicate + 1}): ${when}, ${counted(round.measured, "trial")}${missing}`;
}
