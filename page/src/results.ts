// The results with the texts of the document: the sentence, what to set, the matrix, cautions, the next steps, and a table for each
// test with pictures of its intervals. Draws the document and judges nothing.

import { type Ground, groundOf, interval, scale } from "./bound";
import { cellOf, type Test, type TestTexts, type View } from "./data";
import { h, table } from "./dom";
import { percent, sentence } from "./format";
import { USED } from "./look";
import { bullets, type Explained, flagged, hinted, words } from "./words";

/** The tables of more tests are folded. */
const TESTS_MAX = 6;
/** Above this share differences are multiples, as in the document. */
const MULTIPLES = 4;
/** The heading of the line with code. */
const CODE = "In the program";

/** The results of a session. `open` shows the evidence of a test. */
export function results(view: View, open: (test: string) => void): HTMLElement {
  const explained: Explained = new Set();
  const { tests, texts } = view;
  const many = tests.length > TESTS_MAX;
  const ground = groundOf(view);
  const tables = tests.map((test, at) => one(view, test, texts[at], ground, open, explained));
  return h(
    "section",
    { id: "results", "aria-labelledby": "results-title" },
    first(view, open, explained),
    words(view),
    subjects(view),
    many ? folded(`All ${tests.length} tests, with every option`, tables) : h("div", {}, ...tables),
    findings(view, explained),
  );
}

/** The first view: the sentence, what to set and how certain it is, the matrix, cautions and the next steps. */
function first(view: View, open: (test: string) => void, explained: Explained): HTMLElement {
  const { cautions, decisions, matrix, next, sentence, tests } = view;
  return h(
    "div",
    { class: "first" },
    h(
      "div",
      { class: "answer" },
      h("h2", { id: "results-title" }, sentence),
      tests.length > 1 && decided(view, decisions, open),
      matrix && matrixOf(matrix, open),
    ),
    cautions.length > 0 &&
      h("div", { class: "facts" }, h("h3", {}, "Cautions"), bullets(cautions, explained, "summary")),
    following(next),
  );
}

/** What to set in each test, and how certain it is. */
function decided(view: View, decisions: View["decisions"], open: (test: string) => void): HTMLElement {
  const row = ({ test, name, set, rate, unit, why }: View["decisions"][number]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, link(test, name, open)),
      h("td", { "data-head": "set" }, h("b", {}, set)),
      h("td", { "data-head": "rate" }, rate === "" ? "–" : `${rate} ${unit}`),
      h("td", { "data-head": "the best" }, why),
    );
  const heads = ["test", "set", "rate", `the best (${percent(view.plan.level)})`];
  return table("What to set in each test", heads, decisions.map(row), { kind: "overview cards" });
}

const link = (test: string, text: string, open: (test: string) => void): HTMLElement =>
  h("a", { href: "#evidence", onclick: () => open(test), title: "See the evidence" }, text);

/** Tests as rows, options as columns. */
function matrixOf({ heading, columns, rows }: NonNullable<View["matrix"]>, open: (test: string) => void): HTMLElement {
  const row = ({ test, name, part, cells }: (typeof rows)[number]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, name ? link(test, name, open) : "", part ? ` ${part}` : ""),
      ...cells.map((cell, at) =>
        h("td", { "data-head": columns[at] ?? "", class: cell?.status, title: cell?.status }, cell?.text ?? "–"),
      ),
    );
  return table(heading, [heading, ...columns], rows.map(row), { kind: "matrix cards" });
}

/** Content that a reader opens. */
const folded = (summary: string, content: (Node | null)[], id?: string): HTMLElement =>
  h("details", { id, class: "all texts" }, h("summary", {}, summary), ...content);

/** The options of one test. */
function one(
  view: View,
  test: Test,
  texts: TestTexts | undefined,
  ground: Ground,
  open: (test: string) => void,
  explained: Explained,
): HTMLElement | null {
  if (!texts) return null;
  const { without_result: others, details, basis } = texts;
  const line = (text: string) => h("p", {}, ...hinted(text, explained));
  const fact = ({ heading, text }: TestTexts["facts"][number]) =>
    h(
      "p",
      {},
      h("b", {}, `${heading}: `),
      ...(heading === CODE ? [h("code", {}, text)] : hinted(text, explained)),
      ".",
    );
  return h(
    "section",
    { class: "texts test" },
    h("h3", {}, link(test.id, test.title, open)),
    basis ? line(basis) : null,
    texts.rows.length > 0 && optionsOf(view, test, texts, ground),
    texts.rows.length > ROWS_MAX &&
      h("p", {}, `${texts.rows.length - ROWS_MAX} more options: bytegauge report ${view.session} --full.`),
    ...others.map(line),
    ...texts.facts.map(fact),
    details.length > 0 && h("details", { class: "notes" }, h("summary", {}, "Counts and costs"), ...details.map(line)),
  );
}

/** More options than this have no row on the page. */
const ROWS_MAX = 48;

/** Names that stay in one line. */
const isShort = (name: string): boolean => name.length <= 20;

/** A row for each option: its interval with a picture, its state, and its numbers, which a narrow page may scroll. */
function optionsOf(view: View, test: Test, texts: TestTexts, ground: Ground): HTMLElement {
  const [slower, numbers] = [texts.columns.slice(-1), texts.columns.slice(0, -1)];
  const options = new Map(test.options.map((option) => [option.id, option]));
  const compared = test.options.some(({ slower_upper: upper }) => upper != null);
  const multiples = test.options.some(({ slower_lower: lower }) => (lower ?? 0) > MULTIPLES);
  const row = ({ id, at }: { id: string; at: number }) => {
    const option = options.get(id);
    const name = option?.label ?? id;
    const isUsed = option?.status === "use";
    const text = (look: string | null, { heading, texts, right }: TestTexts["columns"][number]) =>
      h("td", { "data-head": heading, class: right ? "number" : look }, texts[at] ?? "");
    return h(
      "tr",
      { class: isUsed ? "used" : null },
      h("th", { scope: "row", title: cellOf(view, id)?.label ?? "", class: isShort(name) ? "short" : null }, name),
      ...slower.map((column) => text("slower", column)),
      compared && h("td", { class: "picture" }, option && interval(option, ground)),
      h("td", { class: "mark" }, `${isUsed ? `${USED} ` : ""}${(option?.status ?? "").replace("-", " ")}`),
      ...numbers.map((column) => text(null, column)),
    );
  };
  const head = ({ heading, right }: TestTexts["columns"][number]) =>
    right ? h("span", { class: "number" }, heading) : heading;
  const pictures = compared ? [scale(ground, multiples)] : [];
  const heads = ["", ...slower.map(head), ...pictures, "", ...numbers.map(head)];
  const rows = texts.rows.map((id, at) => ({ id, at }));
  // Where there is no room for all, those with an interval come first.
  const without = ({ id }: { id: string }) => Number(options.get(id)?.slower_upper == null);
  if (rows.length > ROWS_MAX) rows.sort((a, b) => without(a) - without(b));
  return table(test.title, heads, rows.slice(0, ROWS_MAX).map(row), { kind: "options cards" });
}

/** A command on a line of its own: one click selects all of it. */
function command(words: string): HTMLElement {
  return h("pre", { class: "command", tabindex: 0 }, h("code", {}, ...flagged(words)));
}

/** The next steps: the purpose of each command, then the command. */
function following(next: View["next"]): HTMLElement | false {
  const steps = next.flatMap(({ command: typed, text }) =>
    typed ? [h("p", {}, sentence(`${text}:`)), command(typed)] : [h("p", {}, sentence(`${text}.`))],
  );
  return next.length > 0 && h("section", { class: "texts" }, h("h3", {}, "Next"), ...steps);
}

/** Metrics of a program whose names need an explanation. */
const MEASURED: Record<string, string> = { wall: "the time of a run (wall)" };

/** The subjects of a comparison of two, or of `tune` on a program; null in other sessions. */
function subjects({ versus, tune }: View): HTMLElement | null {
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

/** Every finding and the scope, folded away; the cautions have the most important ones. */
function findings({ findings, scope }: View, explained: Explained): HTMLElement | false {
  const list = (name: string, texts: string[]) =>
    texts.length > 0 && h("div", {}, h("p", {}, h("b", {}, name)), bullets(texts, explained));
  const all = findings.map(({ text }) => text);
  const content = [list("Findings", all), list("Valid for", scope)].filter((each) => each !== false);
  return content.length > 0 && folded(`All findings (${all.length})`, content, "findings");
}
