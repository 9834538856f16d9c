// The results of a session without a measured option: the outcomes, the reasons, and the next steps.

import { type CellView, groupOf, type View } from "./data";
import { h } from "./dom";
import { withRole } from "./figures/facts";
import { following, section } from "./lines";
import { hinted, type Explained, words } from "./words";

/** More reasons are only at the end of the page. */
const REASONS_MAX = 6;

/** The results of a session without a measured option. */
export function nothing(view: View): HTMLElement {
  const explained: Explained = new Set();
  const cells = view.cells.filter((cell) => cell.kind === "candidate");
  const several = view.groups.length > 1;
  const reasons = new Map<string, string[]>();
  for (const cell of cells) {
    const group = groupOf(view, cell.group)?.label ?? cell.group;
    const reason = cell.reason ?? "it was not reached";
    reasons.set(reason, [...(reasons.get(reason) ?? []), several ? `${withRole(cell)} (${group})` : withRole(cell)]);
  }
  const lines = [...reasons].map(([reason, names]) => {
    const more = names.length - NAMED_MAX;
    return `${names.slice(0, NAMED_MAX).join("; ")}${more > 0 ? ` and ${more} more` : ""}: ${reason}`;
  });
  const rest = lines.length - REASONS_MAX;
  const findings = view.findings.map(({ text }) => text);
  return h(
    "section",
    { id: "results", "aria-labelledby": "results-title" },
    h("h2", { id: "results-title" }, "Nothing was measured"),
    h(
      "p",
      { class: "reading" },
      ...hinted(`${became(cells)}, so nothing is recommended and nothing is drawn.`, explained),
    ),
    words(view),
    section(
      "Why",
      rest > 0 ? [...lines.slice(0, REASONS_MAX), `${rest} more reasons: “Not measured”, below`] : lines,
      explained,
    ),
    following(view.next),
    section("Findings", findings, explained),
  );
}

/** More options of one reason are counted. */
const NAMED_MAX = 4;

/** The outcomes of options without a measured one: `both options failed`, `3 options were skipped and 1 failed`. */
export function became(cells: Pick<CellView, "outcome">[]): string {
  const of = (outcome: string) => cells.filter((cell) => cell.outcome === outcome).length;
  const [failed, skipped] = [of("failed"), of("skipped")];
  const others = cells.length - failed - skipped;
  const were = (many: number) => (many === 1 ? "was" : "were");
  const parts = [
    failed > 0 && `${failed} failed`,
    skipped > 0 && `${skipped} ${were(skipped)} skipped`,
    others > 0 && `${others} ${were(others)} not reached`,
  ].filter((part) => part !== false);
  const [first = "", ...rest] = parts;
  const all =
    cells.length === 1 ? "The one option" : cells.length === 2 ? "Both options" : `All ${cells.length} options`;
  return rest.length === 0
    ? `${all} ${first.replace(/^\d+ /, "").replace("was ", cells.length === 1 ? "was " : "were ")}`
    : `${parts.join(", ")} of ${cells.length} options`;
}
