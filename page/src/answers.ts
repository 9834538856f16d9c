// The first screen: the same answers as the terminal's, each with its bound as a picture, and where its evidence is.

import { inWords, picture, scale } from "./bound";
import { cellOf, factorOf, groupOf, type UseRow, type View } from "./data";
import { h } from "./dom";
import { atMost, costName, digits, duration, percent, sentence } from "./format";

const MARKS: Record<UseRow["standing"], [string, string]> = {
  proven: ["✓", "shown to be within the margin"],
  open: ["○", "not shown yet; the bound holds"],
  doubtful: ["?", "in doubt: its note says why"],
  nothing: ["×", "nothing can be said"],
  alone: ["•", "one cell: nothing to compare with"],
};

export function answers(view: View, open: (group: string) => void): HTMLElement {
  const { use, lever, avoid, why, holds, audit, noise, next, more, relays = [] } = view.answer;
  const bounded = use.rows.some((row) => row.within != null);
  const costs = [...new Set(view.groups.map((group) => costName(group.cost)))].join(", or ");
  const standings = [...new Set(use.rows.map((row) => row.standing))];
  return h(
    "section",
    { id: "answers", "aria-labelledby": "answers-title" },
    h("h2", { id: "answers-title" }, "What to use"),
    lever.length > 0 && h("div", { class: "lever" }, ...lever.map((line) => h("p", {}, sentence(line)))),
    bounded &&
      h(
        "p",
        { class: "reading" },
        `The bar reaches to how much dearer than the best confirmed the choice may be (more ${costs}), at ${percent(use.level)} confidence: solid where that is shown to be within the margin of ${percent(use.margin)}, which is the shade; hatched where it is not.`,
      ),
    use.grid ? overview(view, open) : null,
    use.rows.length === 0
      ? h("p", { class: "nothing" }, "Nothing was measured that could be recommended.")
      : h(
          "ol",
          { class: "answers" },
          h(
            "li",
            { class: "answer heading", "aria-hidden": "true" },
            h("span", {}),
            h("span", {}, "under these conditions"),
            h("span", {}, "use"),
            h("span", { class: "number" }, use.rate_unit),
            h("span", { class: "picture" }, bounded ? scale(use.margin) : ""),
            h("span", {}, "limited by"),
          ),
          ...use.rows.map((row, at) => answer(view, row, at, open)),
        ),
    h(
      "ul",
      { class: "legend" },
      ...standings.map((standing) =>
        h(
          "li",
          {},
          h("span", { class: `mark ${standing}`, "aria-hidden": "true" }, MARKS[standing][0]),
          ` ${MARKS[standing][1]}`,
        ),
      ),
      use.rows.some((row) => row.shown.some((level) => level.startsWith("("))) &&
        h("li", {}, "(size) is the peer's choice: the answer is for a peer with that one"),
      use.rows.some((row) => row.rough) && h("li", {}, "(rate) is only roughly known"),
    ),
    use.one && use.one.length > 0 ? told("With one constant", use.one) : null,
    avoid.length > 0 &&
      h(
        "section",
        { class: "told" },
        h("h3", {}, "Avoid"),
        h("ul", {}, ...avoid.map((line) => h("li", {}, avoided(line)))),
      ),
    h(
      "div",
      { class: "told-grid" },
      told("Why: what limits", why),
      told("What relays are worth", relays),
      told("Holds for", holds),
      told("In long trials", audit),
      told("Noise", noise),
      next.length > 0 && h("section", { class: "told" }, h("h3", {}, "Next"), h("p", {}, ...steps(next))),
      more.length > 0 &&
        h("section", { class: "told" }, h("h3", {}, "More"), h("p", {}, h("code", {}, more.join(" · ")))),
    ),
  );
}

function told(heading: string, lines: string[]): HTMLElement | false {
  return (
    lines.length > 0 &&
    h("section", { class: "told" }, h("h3", {}, heading), ...lines.map((line) => h("p", {}, sentence(line))))
  );
}

/** A command as it is typed, and what it brings; else a sentence. */
function steps(next: string[]): (Node | string)[] {
  const [first = "", ...rest] = next;
  return first.startsWith("bytegauge ") ? [h("code", {}, first), ` ${rest.join(" ")}`] : [sentence(next.join(" "))];
}

function avoided(line: View["answer"]["avoid"][number]): string {
  const levels = line.levels.map((level) => {
    const upper = level.dearer_upper == null ? "or more" : `to ${atMost(level.dearer_upper)}`;
    return `${level.level}: ${percent(level.dearer_lower)} ${upper} dearer`;
  });
  return `${line.question}, ${line.heading} (against ${line.against}): ${levels.join("; ")}`;
}

/** Many questions that differ in two numbers: their answers by row and column. */
function overview(view: View, open: (group: string) => void): HTMLElement | null {
  const { use } = view.answer;
  const { grid } = use;
  if (!grid) return null;
  const heading = (factor: string) => factorOf(view, factor).heading;
  const place = (at: number | null): HTMLElement => {
    const row = at == null ? undefined : use.rows[at];
    const group = row?.groups[0];
    if (!row || !group) return h("td", {});
    const [mark, meaning] = MARKS[row.standing];
    const shown = row.shown.filter((level) => level !== "" && level !== "–").join(", ") || "–";
    return h(
      "td",
      {},
      h(
        "a",
        { href: "#evidence", onclick: () => open(group), "aria-label": `${row.question}: ${shown}, ${meaning}` },
        h("span", { class: `mark ${row.standing}` }, mark),
        ` ${shown}`,
      ),
      h("small", {}, row.within == null ? "" : ` ≤ ${atMost(row.within)}`),
    );
  };
  return h(
    "div",
    { class: "table grid", tabindex: 0, role: "group", "aria-label": "The answers by two conditions" },
    h(
      "table",
      {},
      h("caption", {}, `${heading(grid.down.factor)} down, ${heading(grid.across.factor)} across`),
      h("thead", {}, h("tr", {}, h("td", {}), ...grid.across.levels.map((level) => h("th", { scope: "col" }, level)))),
      h(
        "tbody",
        {},
        ...grid.cells.map((cells, at) =>
          h("tr", {}, h("th", { scope: "row" }, grid.down.levels[at] ?? ""), ...cells.map(place)),
        ),
      ),
    ),
  );
}

function answer(view: View, row: UseRow, at: number, open: (group: string) => void): HTMLElement {
  const { use } = view.answer;
  const group = row.groups[0];
  const cells = row.groups.map((id) => cellOf(view, groupOf(view, id)?.recommendation.cell));
  const limits = [
    ...new Map(cells.flatMap((cell) => (cell ? [[cell.limit.name as string, cell.limit.sentence] as const] : []))),
  ];
  const lower = cells.length === 1 ? (cells[0]?.above_best_lower ?? null) : null;
  const bound = { lower, upper: row.within ?? null, margin: use.margin, proven: row.standing === "proven" };
  const [mark, meaning] = MARKS[row.standing];
  const shown = use.choices
    .map((choice, at) => [choice.heading, row.shown[at] ?? ""] as const)
    .filter(([, level]) => level !== "" && level !== "–");
  const link = group
    ? h("a", { href: "#evidence", onclick: () => open(group), title: "See the evidence" }, row.question)
    : h("span", {}, row.question);
  return h(
    "li",
    { class: `answer ${row.standing}` },
    h("span", { class: `mark ${row.standing}`, role: "img", "aria-label": meaning, title: meaning }, mark),
    h(
      "span",
      { class: "question" },
      // Other lines speak of a question by this name.
      use.rows.length > 1 && row.groups.length === 1 ? h("small", {}, `${row.groups[0]} `) : null,
      link,
      row.who && row.who !== "any" ? h("small", {}, ` ${use.worker} ${row.who}`) : null,
    ),
    h(
      "span",
      { class: "choice" },
      ...(shown.length > 0
        ? shown.map(([heading, level]) => h("span", { class: "pair" }, h("small", {}, heading), h("b", {}, level)))
        : ["–"]),
      row.tied ? h("small", {}, `or ${row.tied}: not told apart`) : null,
    ),
    h("span", { class: "rate number" }, ...rates(row, use.rate_divisor, use.rate_unit, use.cost_unit ?? null)),
    h(
      "span",
      { class: "picture" },
      row.within == null ? null : picture(bound, `hatch-${at}`),
      h("small", { class: "within" }, row.within == null ? "no bound" : `≤ ${atMost(row.within)}`),
    ),
    h(
      "span",
      { class: "limit" },
      ...limits.map(([name, sentence]) =>
        h("span", { class: "tag", title: sentence }, name === "unknown" ? "none found" : name),
      ),
    ),
    row.note ? h("span", { class: "note" }, row.note) : null,
    row.code.length > 0 ? h("code", { class: "code" }, row.code.join("; ")) : null,
    h("span", { class: "unseen" }, inWords(bound)),
  );
}

function rates(row: UseRow, divisor: number, unit: string, costUnit: string | null): (Node | string)[] {
  if (row.rate == null) return ["–"];
  const count = row.rough ? 2 : 3;
  const one = (rate: number) => digits(rate / divisor, count);
  const range =
    row.rate_max != null && row.rate_max !== row.rate ? `${one(row.rate)}–${one(row.rate_max)}` : one(row.rate);
  const parts: (Node | string)[] = [row.rough ? `(${range})` : range, h("span", { class: "unit" }, ` ${unit}`)];
  if (costUnit && row.cost != null) parts.push(h("small", {}, `${digits(row.cost)} ${costUnit}`));
  if (row.p99_ns != null) parts.push(h("small", {}, `p99 ${duration(row.p99_ns)}`));
  return parts;
}
