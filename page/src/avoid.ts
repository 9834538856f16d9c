// What to avoid: by how much each level is shown to take more, and than what.

import { scale, shownDearer } from "./bound";
import { type AvoidLine, groupOf, type View } from "./data";
import { h, table } from "./dom";
import { FEW, folded } from "./folded";
import { duration, moreOf, percent } from "./format";
import { both, inTimes, least } from "./outward";
import { hinted, type Told } from "./words";

/** What to avoid: by how much each level is shown to take more, and than what. */
export function toAvoid(view: View, open: (group: string) => void, explained: Told): HTMLElement {
  const { avoid } = view.answer;
  const least = avoid.some((line) => line.against === BEST);
  const named = avoid.some((line) => line.against !== BEST);
  const times = (line: AvoidLine) => {
    const group = groupOf(view, line.group);
    return group != null && inTimes(group);
  };
  const rows = avoid.flatMap((line) =>
    line.levels.map((level, at) => {
      const than = line.against === BEST ? BEST : `${line.heading} ${sized(line.against)}`;
      const [shown, of] = shownRange(level.dearer_lower, level.dearer_upper ?? null, than, times(line));
      return h(
        "tr",
        {},
        h("td", {}, at === 0 ? h("a", { href: "#evidence", onclick: () => open(line.group) }, line.question) : ""),
        h("td", {}, line.contested ? "? " : "", h("b", {}, `${line.heading} ${sized(level.level)}`)),
        h(
          "td",
          { class: "picture" },
          shownDearer(level.dearer_lower, level.dearer_upper ?? Number.POSITIVE_INFINITY, view.answer.use.margin),
        ),
        h("td", {}, `${shown} `, h("small", {}, [of, seenAt(line)].filter((part) => part).join(", "))),
      );
    }),
  );
  const contested = avoid.some((line) => line.contested);
  const costs = [...new Set(avoid.map((line) => moreOf(groupOf(view, line.group)?.cost ?? "")))].join(" or ");
  const reading = [
    `Shown to take this much ${costs}, at ${percent(view.answer.use.level)} confidence, where trials of the same block are compared: intervals of rates may overlap all the same.`,
    contested && "Where a ? stands, what speaks against the answer of these conditions speaks against this as well.",
    least && "“The best” is the best confirmed choice of the same conditions, whichever that is.",
    named &&
      "Where a level is named, both were compared with all else the same, in the few short trials of the screening, all of them together: none of these cells need have been confirmed.",
  ];
  return h(
    "section",
    { class: "told", id: "avoid" },
    h("h3", {}, "Avoid"),
    h("p", { class: "reading" }, ...hinted(reading.filter((line) => line).join(" "), explained)),
    folded(
      rows.length > 2 * FEW,
      `All ${rows.length} of them`,
      table(
        "What to avoid",
        [
          "under these conditions",
          "avoid",
          scale(view.answer.use.margin),
          h("span", {}, `${costs}, at least and at most`),
        ],
        rows,
      ),
    ),
  );
}

/** How old the connections were on which it was seen, where those of the answers were of another age. */
function seenAt({ age_ns: age }: AvoidLine): string {
  const [young, old] = (age ?? []) as number[];
  return young == null || old == null ? "" : `seen only on connections ${duration(young)} to ${duration(old)} old`;
}

/** What is shown to be taken, with both its ends: more than the best, or times as much where the answer is told so. */
export function shownRange(
  lower: number,
  upper: number | null,
  than: string,
  multiples = false,
): [range: string, of: string] {
  const shown = upper == null ? least(lower, multiples) : both(lower, upper, multiples);
  return [shown, multiples ? `as much as ${than === BEST ? BEST : `with ${than}`}` : `more than ${than}`];
}

/** What a level is compared with where it is whichever choice is the best, as the document says it. */
const BEST = "the best";

/** Sizes as the answers say them, `64 KiB`, where the terminal has room for `64K` alone. */
export const sized = (text: string): string => text.replace(/(?<![\w.-])(\d+)([KMG])(?![\w-])/g, "$1\u00a0$2iB");
