// The results with the texts of the terminal: recommendations, the summary, the next steps, and a table for each test with pictures of
// its intervals. Draws the document and judges nothing.

import { type Ground, interval, scale } from "./bound";
import { cellOf, recommendedOf, type SummaryLine, type Test, type TestTexts, type View } from "./data";
import { h, table } from "./dom";
import { percent } from "./format";
import { following } from "./lines";
import { USED } from "./look";
import { isBeyond, scaleEnd } from "./scale";
import { verdict } from "./versus";
import { hinted, type Explained, words } from "./words";

/** The tables of more tests are folded, below a table of all tests. */
const TESTS_MAX = 6;

/** The results of a session. `open` shows the evidence of a test. */
export function results(view: View, open: (test: string) => void): HTMLElement {
  const explained: Explained = new Set();
  const { screen, tests } = view;
  const many = tests.length > TESTS_MAX;
  const reach = scaleEnd(view);
  const ground = { reach, margin: view.plan.margin, isCut: isBeyond(view, reach) };
  const tables = tests.map((test, at) => one(view, test, screen.tests[at], ground, open, explained));
  return h(
    "section",
    { id: "results", "aria-labelledby": "results-title" },
    first(view, explained),
    words(view),
    verdict(view),
    many && overview(view, open),
    !view.versus && pictured(view, ground),
    !view.versus && legend(view),
    !view.versus && (many ? folded(`All ${tests.length} tests, with every option`, tables) : h("div", {}, ...tables)),
    ...screen.units.map((unit) => h("p", { class: "reading" }, unit)),
    findings(view, explained),
  );
}

/** The first view: what to use and how sure it is, what to avoid, the biggest effect, what limits, what to do next, other facts. */
function first({ screen, next }: View, explained: Explained): HTMLElement {
  const { results, reasons, facts } = screen;
  const [heading, sure] = screen.result;
  return h(
    "div",
    { class: "first" },
    h(
      "div",
      { class: "answer" },
      h("h2", { id: "results-title" }, heading, h("small", {}, sure)),
      list(results, explained, heading),
      list(reasons, explained),
    ),
    following(next),
    facts.length > 0 && h("div", { class: "facts" }, h("h3", {}, "Caveats and facts"), list(facts, explained)),
  );
}

/** Content that a reader opens. */
const folded = (summary: string, content: (Node | null)[], id?: string): HTMLElement =>
  h("details", { id, class: "all texts" }, h("summary", {}, summary), ...content);

/** Lines with their headings, except for the heading above them. */
function list(lines: SummaryLine[], explained: Explained, above?: string): HTMLElement | false {
  const item = ({ heading, text, more }: SummaryLine) =>
    h(
      "li",
      {},
      heading !== above && h("b", {}, `${heading}: `),
      ...hinted(text, explained),
      more != null && " ",
      more != null && h("a", { href: "#findings", onclick: unfold }, `(${more} more)`),
    );
  return lines.length > 0 && h("ul", { class: "summary" }, ...lines.map(item));
}

/** Opens the list of findings. */
const unfold = (): void => document.getElementById("findings")?.setAttribute("open", "");

/** The meaning of the pictures; null if no option was compared. */
function pictured({ tests, plan }: View, { margin, isCut }: Ground): HTMLElement | null {
  const options = tests.flatMap((test) => test.options).filter(({ slower_upper: upper }) => upper != null);
  if (options.length === 0) return null;
  const is = (wanted: Test["options"][number]["status"]) => options.some(({ status }) => status === wanted);
  const parts = [
    `Bars are ${percent(plan.level)} intervals on one linear scale`,
    `the shade up to the dotted line is the margin of ${percent(margin)}`,
    is("best") && "blue options are within it",
    (is("tied") || is("unconfirmed")) && "grey ones are undecided",
    is("slower") && "red ones are slower than the best",
    is("harmful") && "a dashed bar is a harmful option: see Caveat",
    isCut && "an arrow is an interval that goes on beyond the scale: its numbers are next to it",
  ];
  return h("p", { class: "reading" }, `${parts.filter((part) => part).join("; ")}.`);
}

/** The meaning of intervals, marks and columns; null if no option was compared. */
function legend({ plan, screen }: View): HTMLElement | null {
  if (screen.legend.length === 0) return null;
  return h(
    "div",
    { class: "words" },
    `With ${percent(plan.level)} confidence:`,
    h("dl", {}, ...screen.legend.flatMap(([name, meaning]) => [h("dt", {}, name), h("dd", {}, meaning)])),
  );
}

/** One row for each test, with its recommendation. */
function overview({ tests, screen }: View, open: (test: string) => void): HTMLElement {
  const last = screen.overview_head.length - 1;
  const shown = screen.overview_head.map((_, at) => at > 0 && screen.overview.some((row) => row[at]));
  const rows = tests.map((test, row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: "#evidence", onclick: () => open(test.id) }, test.name)),
      ...(screen.overview[row] ?? []).map(
        (text, at) =>
          shown[at] &&
          h(
            "td",
            { "data-head": screen.overview_head[at], class: at >= last - 1 ? "slower" : null },
            at === 1 ? h("b", {}, text) : text,
          ),
      ),
    ),
  );
  const heads = ["test", ...screen.overview_head.filter((_, at) => shown[at])];
  return table("Recommendation of each test", heads, rows, { kind: "overview cards" });
}

/** The options of one test. */
function one(
  view: View,
  test: Test,
  texts: TestTexts | undefined,
  { reach, isCut }: Ground,
  open: (test: string) => void,
  explained: Explained,
): HTMLElement | null {
  if (!texts) return null;
  const { hidden, without_result: others, details } = texts;
  const link = h("a", { href: "#evidence", onclick: () => open(test.id), title: "See the evidence" }, test.title);
  const line = (text: string) => h("p", {}, ...hinted(text, explained));
  const fact = ([heading, text]: TestTexts["facts"][number]) =>
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
    h("h3", {}, link),
    texts.rows.length > 0 && optionsOf(view, test, texts, { reach, margin: test.margin, isCut }),
    hidden > 0 && h("p", {}, `${hidden} more options are in the table of all options.`),
    ...others.map(line),
    ...texts.facts.map(fact),
    details.length > 0 && h("details", { class: "notes" }, h("summary", {}, "Counts and costs"), ...details.map(line)),
  );
}

/** The heading of the line with code. */
const CODE = "In the program";

/** Names that stay in one line. */
const isShort = (name: string): boolean => name.length <= 20;

/** A row for each option: its interval with a picture, the recommendation, and its numbers, which a narrow page may scroll. */
function optionsOf(view: View, test: Test, texts: TestTexts, ground: Ground): HTMLElement {
  const { rows, marks, multiples } = texts;
  const [slower, numbers] = [texts.columns.slice(-1), texts.columns.slice(0, -1)];
  const options = new Map(test.options.map((option) => [option.id, option]));
  const compared = test.options.some(({ slower_upper: upper }) => upper != null);
  const row = (id: string, at: number) => {
    const option = options.get(id);
    const name = option?.label ?? id;
    const text = (look: string | null, { heading, texts, right }: TestTexts["columns"][number]) =>
      h("td", { "data-head": heading, class: right ? "number" : look }, texts[at] ?? "");
    return h(
      "tr",
      { class: id === recommendedOf(view, test) ? "used" : null },
      h("th", { scope: "row", title: cellOf(view, id)?.label ?? "", class: isShort(name) ? "short" : null }, name),
      ...slower.map((column) => text("slower", column)),
      compared && h("td", { class: "picture" }, option && interval(option, ground)),
      h("td", { class: "mark" }, `${id === test.recommended && marks[at] ? `${USED} ` : ""}${marks[at] ?? ""}`),
      ...numbers.map((column) => text(null, column)),
    );
  };
  const head = ({ heading, right }: TestTexts["columns"][number]) =>
    right ? h("span", { class: "number" }, heading) : heading;
  const pictures = compared ? [scale(ground, multiples)] : [];
  const heads = ["", ...slower.map(head), ...pictures, "", ...numbers.map(head)];
  return table(test.title, heads, rows.map(row), { kind: "options cards" });
}

/** Every finding that is no result, folded away; the summary has the most important ones. */
function findings({ screen }: View, explained: Explained): HTMLElement | false {
  const count = screen.findings.reduce((sum, [, texts]) => sum + texts.length, 0);
  const under = ([heading, texts]: (typeof screen.findings)[number]) =>
    texts.length === 1
      ? h("p", {}, h("b", {}, `${heading}: `), ...hinted(texts[0] ?? "", explained))
      : h(
          "div",
          {},
          h("p", {}, h("b", {}, heading)),
          h("ul", {}, ...texts.map((text) => h("li", {}, ...hinted(text, explained)))),
        );
  return count > 0 && folded(`All findings (${count})`, screen.findings.map(under), "findings");
}
