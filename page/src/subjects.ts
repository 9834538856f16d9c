// What was compared by a session of two options, or by `tune` on a program.

import type { View } from "./data";
import { h } from "./dom";

/** Metrics of a program whose names need an explanation. */
const MEASURED: Record<string, string> = { wall: "the time of a run (wall)" };

/** The subjects of a comparison of two, or of `tune` on a program; null in other sessions. */
export function subjects({ versus, tune }: View): HTMLElement | null {
  return versus ? two(versus) : tune ? program(tune) : null;
}

/** What A and B are. */
function two({ a, b, alike }: NonNullable<View["versus"]>): HTMLElement {
  const side = (name: string, { words, differs, reason }: typeof a) => {
    const apart = Object.entries(differs ?? {}).map(([factor, level]) => `${factor} ${level}`);
    return h(
      "p",
      {},
      h("b", {}, name),
      " ",
      h("code", {}, words),
      apart.length > 0 ? ` (${apart.join(", ")})` : "",
      reason ? `: ${reason}` : "",
    );
  };
  return h(
    "section",
    { id: "subjects", class: "texts", "aria-labelledby": "subjects-title" },
    h("h3", { id: "subjects-title" }, "Comparison of A and B"),
    side("A", a),
    side("B", b),
    alike ? h("p", { class: "reading" }, `Both: ${alike}.`) : null,
  );
}

/** What was measured of a program. */
const program = (tune: NonNullable<View["tune"]>): HTMLElement =>
  h(
    "p",
    { id: "subjects", class: "reading" },
    `${tune.program}: measured ${MEASURED[tune.metric] ?? tune.metric}${tune.default == null ? "" : `; present value ${tune.default}`}.`,
  );
