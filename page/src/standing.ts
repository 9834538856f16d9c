// How far an answer is to be believed: its mark, what the mark means, and what speaks against it. Everything is read off the
// rows of the document; nothing is judged here.

import { cellOf, groupOf, type GroupView, type UseRow, type View } from "./data";
import { capital, resourceOf, percent } from "./format";
import { manyTimes, upTo } from "./outward";

export type Mark = UseRow["standing"] | "contested";

export const MARKS: Record<Mark, [string, string]> = {
  proven: ["✓", "shown to be within the margin"],
  contested: ["✓?", "shown, but something speaks against it: its note says what"],
  open: ["○", "not shown yet; the bound holds"],
  doubtful: ["?", "in doubt: its note says why"],
  nothing: ["×", "nothing can be said"],
  alone: ["–", "one cell: nothing to compare with"],
};

/** What a mark means under the answers: what is doubted without a note has no bound yet that answers anything. */
export function meaningOfMark(mark: Mark, rows: Pick<UseRow, "standing" | "note">[]): string {
  const noted = rows.filter((row) => marked(row) === mark).map(({ note }) => Boolean(note));
  if (mark !== "doubtful" || !noted.includes(false)) return MARKS[mark][1];
  const unbounded = "no answer yet: it may take so many times the best's";
  return noted.includes(true) ? `in doubt: its note says why, or there is ${unbounded}` : unbounded;
}

/** How far a row is to be believed: what is shown and has a note is not plainly shown. */
export function marked(row: Pick<UseRow, "standing" | "note">): Mark {
  return row.standing === "proven" && row.note ? "contested" : row.standing;
}

/** How far the answer of a group is to be believed, as its row says it; nothing where it has none of its own. */
export function doubt(view: View, group: string): { mark: Mark; text: string } | null {
  const row = view.answer.use.rows.find(({ groups }) => groups.length === 1 && groups[0] === group);
  if (!row || view.versus || row.standing === "alone") return null;
  const mark = marked(row);
  const second = contradicting(view, row);
  const resource = resourceOf(groupOf(view, group)?.cost ?? "");
  const bound = second == null ? "" : ` (by these ${upTo(second)} more ${resource})`;
  const meaning = mark === "contested" ? "shown, but something speaks against it" : MARKS[mark][1].split(":")[0];
  const why = [
    row.times == null ? "" : `no answer yet: may take ${manyTimes(row.times)} the best's ${resource}`,
    row.note ? `${noteOf(view, row).replace(/: (NOISE|AUDIT)$/, "")}${bound}` : "",
  ].filter((part) => part !== "");
  return { mark, text: `${[capital(meaning ?? ""), why.join("; ")].filter((part) => part !== "").join(": ")}.` };
}

/** The sign of how well something is known. */
export const signOf = (mark: Mark): string => MARKS[mark][0];

/** How many answers are how well known, in a sentence; nothing where nothing was compared. */
export function summary(rows: Pick<UseRow, "standing" | "note">[], margin: number): string | null {
  const of = (...wanted: Mark[]) => rows.filter((row) => wanted.includes(marked(row))).length;
  const compared = rows.length - of("alone");
  if (compared === 0) return null;
  const are = (many: number) => (many === 1 ? "is" : "are");
  const rest = [
    [of("contested"), "shown, with something against it"],
    [of("open"), "not proven, and bounded"],
    [of("doubtful"), "in doubt"],
    [of("nothing"), "without an answer"],
  ] as const;
  const told = rest.filter(([many]) => many > 0).map(([many, what]) => `${many} ${are(many)} ${what}`);
  const plainly = of("contested") > 0 ? "plainly shown" : "shown";
  const shown = `${of("proven")} of ${compared} ${compared === 1 ? "answer" : "answers"} ${compared === 1 ? "is" : are(of("proven"))} ${plainly} to be within ${percent(margin)} of the best confirmed`;
  return `${[shown, ...told].join("; ")}.`;
}

export const OWN = "second trials";

/** Whose second trials they are: what was measured twice need not be what the answer names. */
export function secondTrials(view: View, group: GroupView | undefined): string {
  const other =
    group?.twin && group.twin.cell !== group.recommendation.cell ? cellOf(view, group.twin.cell) : undefined;
  return other?.label ? `${OWN} of ${other.label}` : OWN;
}

/** A row's note, which calls second trials the answer's own only where they are. */
export function noteOf(view: View, { note, groups }: Pick<UseRow, "note" | "groups">): string {
  const again = groups.length === 1 ? secondTrials(view, groupOf(view, groups[0])) : OWN;
  return (note ?? "").replace(`its ${OWN}`, again === OWN ? `its ${OWN}` : `the ${again}`);
}

/** The bound by the second trials of a choice that was measured twice, where those contradict the first ones. */
export function contradicting(view: View, row: UseRow): number | null {
  const group = row.groups.length === 1 ? groupOf(view, row.groups[0]) : undefined;
  return group?.recommendation.survives_exchange === false ? (group.twin?.exchanged_bound ?? null) : null;
}
