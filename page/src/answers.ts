// The first screen: the same answers as the terminal's, each with its bound as a picture, and where its evidence is.
// Longer than others: an answer has many parts, and each reads the same row.

import { sized, toAvoid } from "./avoid";
import { inWords, picture, scale } from "./bound";
import {
  candidates,
  type CellView,
  cellOf,
  factorOf,
  groupOf,
  type GroupView,
  inDoubt,
  level,
  limitOf,
  nothingMeasured,
  pivot,
  type UseRow,
  type View,
} from "./data";
import { h, table } from "./dom";
import { FEW, folded } from "./folded";
import { costName, digits, duration, resourceOf, percent, sentence } from "./format";
import { manyTimes, upTo } from "./outward";
import { nothing } from "./nothing";
import { contradicting, marked, MARKS, meaningOfMark, noteOf, OWN, secondTrials, summary } from "./standing";
import { following, showing, stolen, told } from "./told";
import { hinted, type Told, WORDS, words } from "./words";

/** Whether every choice has one trial, as a table has it that was imported: nothing is compared or confirmed by that. */
const isSingle = ({ cells, status }: View): boolean =>
  status === "imported" && cells.every(({ kind, trials }) => kind !== "candidate" || trials <= 1);

export function answers(view: View, open: (group: string) => void): HTMLElement {
  if (nothingMeasured(view)) return nothing(view);
  const { use, lever, avoid, why, holds, audit, noise, next, more, relays = [] } = view.answer;
  const bounded = use.rows.some((row) => row.within != null || row.times != null);
  const costs = [...new Set(view.groups.map((group) => costName(group.cost)))].join(", or ");
  const marks = [...new Set(use.rows.map(marked))];
  const said =
    view.versus || view.check
      ? null
      : isSingle(view)
        ? "One trial of each choice: nothing is compared or confirmed by that. What is named was the fastest once."
        : summary(use.rows, use.margin);
  const alone = use.rows.length > 0 && use.rows.every(({ standing }) => standing === "alone");
  // Of two the verdict stands above, at the level of its looks: the same by another level beside it would be another number.
  const two = view.versus != null;
  const explained: Told = new Set();
  const kinds = ["answers", !bounded && "unbounded", use.rows.length > FEW && "many"];
  const list = h(
    "ol",
    { class: kinds.filter((kind) => kind).join(" ") },
    h(
      "li",
      { class: "answer heading", "aria-hidden": "true" },
      h("span", {}),
      h("span", {}, "under these conditions"),
      h("span", {}, "use"),
      h("span", { class: "number" }, use.rate_unit),
      bounded && h("span", { class: "picture" }, h("span", {}, `more ${costs}, at most`, scale(use.margin))),
      h("span", {}, "limited by"),
    ),
    ...use.rows.map((row, at) => answer(view, row, at, bounded, open, explained)),
  );
  return h(
    "section",
    { id: "answers", "aria-labelledby": "answers-title" },
    h("h2", { id: "answers-title" }, two ? "What stands behind it" : alone ? "What it reaches" : "What to use"),
    said && h("p", { class: "summary" }, ...hinted(said, explained)),
    lever.length > 0 && h("div", { class: "lever" }, ...lever.map((line) => h("p", {}, sentence(line)))),
    bounded &&
      !two &&
      h(
        "p",
        { class: "reading" },
        ...hinted(
          `A bar reaches as far as the choice may take more ${costs} than the best confirmed, at ${percent(use.level)} confidence. The shade is the margin of ${percent(use.margin)}: a solid bar is shown to end within it, a hatched one is not. The scale is a root scale: what is small has more room. Bounds and the ends of intervals are rounded outwards.`,
          explained,
        ),
      ),
    !two &&
      view.groups.some(({ cost }) => cost.startsWith("cpu")) &&
      h(
        "p",
        { class: "reading" },
        ...hinted(
          "Where a load is offered it is the CPU time that choices are compared by, and not the rate: another one may answer more of a load that is too high, for more CPU time.",
          explained,
        ),
      ),
    use.rows.length > 0 && words(view),
    use.grid ? overview(view, open) : null,
    use.rows.length === 0
      ? h("p", { class: "nothing" }, "Nothing was measured that could be recommended.")
      : !two && folded(use.grid != null, `All ${use.rows.length} answers, with what bounds and limits each`, list),
    !two &&
      h(
        "ul",
        { class: "legend" },
        ...marks.map((standing) =>
          h(
            "li",
            {},
            h("span", { class: `mark ${standing}`, "aria-hidden": "true" }, MARKS[standing][0]),
            " ",
            ...hinted(meaningOfMark(standing, use.rows), explained),
          ),
        ),
        use.rows.some((row) => row.shown.some((level) => level.startsWith("("))) &&
          h("li", {}, "(size) is the peer's choice: the answer is for a peer with that one"),
        use.rows.some((row) => row.rough) && h("li", {}, "(rate) is only roughly known"),
        use.rows.some((row) => row.rate_all != null) &&
          h("li", {}, "all trials: their rate together, slow ones in full, where the median above it tells less"),
      ),
    use.one && use.one.length > 0 ? told("With one constant", use.one, explained) : null,
    avoid.length > 0 && toAvoid(view, open, explained),
    h(
      "div",
      { class: "told-grid" },
      told("Why: what limits", why, explained),
      told("What relays are worth", relays, explained),
      told("Holds for", holds, explained),
      told("Audit in long trials", audit, explained, "audit-told"),
      told("Noise", [...noise, ...stolen(view)], explained, "noise"),
    ),
    following(next),
    showing(more),
  );
}

/** Opens one answer of many on a phone. */
function unfold(question: string): HTMLElement {
  const turn = (event: Event) => {
    const button = event.currentTarget as HTMLElement;
    const open = button.closest(".answer")?.classList.toggle("open") ?? false;
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "less" : "more";
  };
  const name = `More about ${question}`;
  return h(
    "button",
    { type: "button", class: "unfold", "aria-expanded": "false", "aria-label": name, onclick: turn },
    "more",
  );
}

/** Many questions that differ in two numbers: their answers by row and column. */
function overview(view: View, open: (group: string) => void): HTMLElement | null {
  const { use } = view.answer;
  const { grid } = use;
  if (!grid) return null;
  // A level that is a bare number has its unit beside the name.
  const heading = ({ factor, levels }: { factor: string; levels: string[] }) => {
    const { heading, unit } = factorOf(view, factor);
    return unit && levels.every((level) => /^\d+$/.test(level)) ? `${heading} (${unit})` : heading;
  };
  const { down, across } = { down: alike(grid.down.levels), across: alike(grid.across.levels) };
  const place = (at: number | null): HTMLElement => {
    const row = at == null ? undefined : use.rows[at];
    const group = row?.groups[0];
    if (!row || !group) return h("td", {});
    const [mark, meaning] = MARKS[marked(row)];
    const shown = row.shown.filter((level) => level !== "" && level !== "–").join(", ") || "–";
    return h(
      "td",
      {},
      h(
        "a",
        { href: "#evidence", onclick: () => open(group), "aria-label": `${row.question}: ${shown}, ${meaning}` },
        h("span", { class: `mark ${marked(row)}` }, mark),
        ` ${shown}`,
      ),
      h("small", {}, row.within != null ? ` ${upTo(row.within)}` : row.times != null ? ` ${manyTimes(row.times)}` : ""),
    );
  };
  const rows = grid.cells.map((cells, at) =>
    h("tr", {}, h("th", { scope: "row" }, down[at] ?? ""), ...cells.map(place)),
  );
  return table("The answers by two conditions", ["", ...across], rows, {
    kind: "grid",
    caption: `${heading(grid.down)} down, ${heading(grid.across)} across`,
  });
}

/** Levels of one kind: where one is in bytes, sizes are as the questions below say them, `64 B` and `1 KiB`. */
export const alike = (levels: string[]): string[] =>
  levels.some((level) => / B$/.test(level)) ? levels.map(sized) : levels;

function answer(
  view: View,
  row: UseRow,
  at: number,
  /** Whether any answer has a bound: a column of none says nothing. */
  bounded: boolean,
  open: (group: string) => void,
  explained: Told,
): HTMLElement {
  const { use } = view.answer;
  const group = row.groups[0];
  const cells = row.groups.map((id) => named(view, row, groupOf(view, id)));
  const lower = cells.length === 1 ? (cells[0]?.above_best_lower ?? null) : null;
  const second = contradicting(view, row);
  const again = secondTrials(view, groupOf(view, group));
  const resource = resourceOf(groupOf(view, group)?.cost ?? "");
  const bound = {
    lower,
    upper: row.within ?? null,
    times: row.times ?? null,
    second,
    again: again === OWN ? `its ${OWN}` : again,
    margin: use.margin,
    proven: row.standing === "proven",
    resource,
  };
  const [mark, meaning] = MARKS[marked(row)];
  const shown = use.choices
    .map((choice, at) => [choice.heading, left(row.shown[at] ?? "", choice.auto)] as const)
    .filter(([, level]) => level !== "" && level !== "–");
  const link = group
    ? h("a", { href: "#evidence", onclick: () => open(group), title: "See the evidence" }, unparted(row.question))
    : h("span", {}, row.question);
  const peers = row.peer_code ?? [];
  const asked = groupOf(view, group);
  const mode = asked && meaningOf(level(asked, "mode"));
  return h(
    "li",
    { class: "answer", "data-standing": row.standing },
    h("span", { class: `mark ${marked(row)}`, role: "img", "aria-label": meaning, title: meaning }, mark),
    h(
      "span",
      { class: "question" },
      // Other lines speak of a question by this name.
      use.rows.length > 1 && !row.one_for_all && row.groups.length > 0
        ? h("small", {}, `${row.groups.join(", ")} `)
        : null,
      link,
      use.rows.some((other) => other !== row && other.question === row.question && other.who === row.who)
        ? h("small", {}, ` ${apart(view, row)}`)
        : null,
      // A mode has a name that says nothing to who meets it first.
      mode && h("small", { class: "mode" }, ` ${mode}`),
      row.one_for_all
        ? h("small", {}, " one for all of the above")
        : row.who && row.who !== "any"
          ? h("small", {}, ` ${use.worker} ${row.who}`)
          : null,
    ),
    h(
      "span",
      { class: "choice" },
      ...(shown.length > 0
        ? shown.map(([heading, level]) => h("span", { class: "pair" }, h("small", {}, heading), h("b", {}, level)))
        : ["–"]),
      row.tied ? h("small", {}, ...hinted(`or ${sized(row.tied)}: not told apart`, explained)) : null,
      // What speaks against a choice stands with it, and a choice in doubt is not called for in bold.
      row.note ? h("span", { class: "note" }, ...noted(noteOf(view, row), explained)) : null,
    ),
    use.rows.length > FEW && unfold(row.question),
    h("span", { class: "rate number" }, ...rates(row, use.rate_divisor, use.rate_unit, use.cost_unit ?? null)),
    bounded &&
      h(
        "span",
        { class: "picture" },
        row.within == null && row.times == null ? null : picture(bound, `hatch-${at}`),
        h(
          "span",
          { class: "within" },
          row.within != null
            ? upTo(row.within)
            : row.times != null
              ? manyTimes(row.times)
              : row.note
                ? "see its note"
                : "nothing shown",
          h("span", { class: "unit" }, row.within == null ? "" : ` more ${resource}`),
          row.times == null ? null : h("small", {}, `the best's ${resource}`),
          second == null ? null : h("small", {}, again, h("br", {}), upTo(second)),
        ),
      ),
    h("span", { class: "limit" }, ...limits(cells)),
    row.code.length > 0 || peers.length > 0
      ? h(
          "span",
          { class: "code" },
          h("code", {}, row.code.join("; ")),
          peers.length > 0 ? h("small", {}, "beside a peer with ", h("code", {}, peers.join("; "))) : null,
        )
      : null,
    h("span", { class: "unseen" }, inWords(bound)),
  );
}

/** A question in which no line ends between a number and its unit. */
const unparted = (question: string): string => question.replace(/(\d) (?=(?:[KMG]i)?B\b)/g, "$1\u00a0");

/** What a mode of a ring asks of it, in short. */
function meaningOf(mode: unknown): string | null {
  const meaning = WORDS.find(({ word }) => word === mode)?.meaning;
  return meaning?.replace(/^of NOPs: /, "").split(/,| with /)[0] ?? null;
}

/** By what a question differs from others of its name: the parts of its group's label that not all of them have. */
function apart(view: View, row: UseRow): string {
  const label = (each: UseRow) => (groupOf(view, each.groups[0])?.label ?? "").split(" · ");
  const others = view.answer.use.rows.filter(
    (other) => other !== row && other.question === row.question && other.who === row.who,
  );
  return label(row)
    .filter((part) => !others.every((other) => label(other).includes(part)))
    .join(" · ");
}

/** The cell that an answer names: the recommended, the one alone, or of what was not confirmed the one with its levels. */
function named(view: View, row: UseRow, group: GroupView | undefined): CellView | undefined {
  const recommended = cellOf(view, group?.recommendation.cell);
  if (recommended || !group) return recommended;
  if (row.standing === "alone") return pivot(view, group);
  const levels = Object.entries(row.choice ?? {});
  const fitting = candidates(view, group).filter((cell) =>
    levels.every(([factor, value]) => level(cell, factor) === value),
  );
  return levels.length > 0 && fitting.length === 1 ? fitting[0] : undefined;
}

/** What a choice is that is left to the system: `auto (= bbr here)`. */
function left(level: string, auto: string | null | undefined): string {
  return level === "auto" && auto ? `auto (= ${auto} here)` : level;
}

/** A note with the sections that it names as places to go to. */
function noted(note: string, explained: Told): (Node | string)[] {
  const places: [string, string, string][] = [
    ["NOISE", "#noise", "Noise"],
    ["AUDIT", "#audit-told", "Audit"],
  ];
  for (const [word, href, name] of places) {
    const at = note.indexOf(word);
    if (at >= 0) return [...hinted(note.slice(0, at), explained), h("a", { href }, name), note.slice(at + word.length)];
  }
  return hinted(note, explained);
}

/** What limits the cells of an answer, each with what says so; where nothing stands out, how busy both were. */
function limits(cells: (CellView | undefined)[]): HTMLElement[] {
  const found = new Map(cells.flatMap((cell) => (cell ? [[limitOf(cell.limit), cell.limit] as const] : [])));
  return [...found.values()].map((limit) => {
    const unknown = limit.name === "unknown";
    // What comes behind is the evidence in full, which stands with the cell.
    const short = unknown ? limit.brief : (limit.brief.split(/[:;]/)[0] ?? "");
    const divided = inDoubt(limit);
    return h(
      "span",
      { class: "because" },
      h("span", { class: "tag", title: limit.sentence }, limitOf(limit)),
      // How its trials stand to it stands for its reason, which WHY tells.
      h("small", {}, divided ?? short),
    );
  });
}

function rates(row: UseRow, divisor: number, unit: string, costUnit: string | null): (Node | string)[] {
  if (row.rate == null) return ["–"];
  const count = row.rough ? 2 : 3;
  const one = (rate: number) => digits(rate / divisor, count);
  const ends = [one(row.rate), one(row.rate_max ?? row.rate)];
  const range = [...new Set(ends)].join("–");
  const parts: (Node | string)[] = [row.rough ? `(${range})` : range, h("span", { class: "unit" }, ` ${unit}`)];
  // A median that flatters is not told without the rate of all trials.
  if (row.rate_all != null) parts.push(h("small", {}, `all trials ${digits(row.rate_all / divisor, count)}`));
  if (costUnit && row.cost != null) parts.push(h("small", {}, `${digits(row.cost)} ${costUnit}`));
  if (row.p99_ns != null) parts.push(h("small", {}, `p99 ${duration(row.p99_ns)}`));
  return parts;
}
