// The results with the texts of the terminal: recommendations, the summary, the next steps, and a table for each test with pictures of
// its intervals. Draws the document and judges nothing.

import { interval, scale } from "./bound";
import { cellOf, type Test, type TestTexts, type View } from "./data";
import { h, table } from "./dom";
import { folded } from "./folded";
import { following } from "./lines";
import { verdict } from "./versus";
import { hinted, type Explained, words } from "./words";

/** The tables of more tests are folded, below a table of all tests. */
const TESTS_MAX = 6;

/** More findings are folded on a narrow page. */
const FINDINGS_MAX = 3;

/** The results of a session. `open` shows the evidence of a test. */
export function results(view: View, open: (test: string) => void): HTMLElement {
  const explained: Explained = new Set();
  const { screen, summary, tests } = view;
  const many = tests.length > TESTS_MAX;
  const [heading, sure] = screen.result;
  const tables = tests.map((test, at) => one(view, test, screen.tests[at], open, explained));
  const facts = summary.slice(screen.results);
  return h(
    "section",
    { id: "results", "aria-labelledby": "results-title" },
    h("h2", { id: "results-title" }, heading, h("small", {}, sure)),
    list(summary.slice(0, screen.results), explained, heading),
    facts.length > 0 && h("h3", {}, "Summary"),
    list(facts, explained),
    following(view.next),
    words(view),
    verdict(view),
    many && overview(view, open),
    !view.versus && folded(many, `All ${tests.length} tests, with every option`, h("div", {}, ...tables)),
    ...screen.units.map((unit) => h("p", { class: "reading" }, unit)),
    findings(view, explained),
  );
}

/** Lines with their headings, except for the heading above them. */
function list(lines: View["summary"], explained: Explained, above?: string): HTMLElement | false {
  const item = ({ heading, text, more }: (typeof lines)[number]) =>
    h(
      "li",
      {},
      heading !== above && h("b", {}, `${heading}: `),
      ...hinted(text, explained),
      more != null && h("a", { href: "#findings" }, ` (${more} more)`),
    );
  return lines.length > 0 && h("ul", { class: "summary" }, ...lines.map(item));
}

/** One row for each test, with its recommendation. */
function overview({ tests, screen }: View, open: (test: string) => void): HTMLElement {
  const shown = screen.overview_head.map((_, at) => at > 0 && screen.overview.some((row) => row[at]));
  const rows = tests.map((test, row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: "#evidence", onclick: () => open(test.id) }, test.name)),
      ...(screen.overview[row] ?? []).map((text, at) => shown[at] && h("td", {}, at === 1 ? h("b", {}, text) : text)),
    ),
  );
  const heads = ["test", ...screen.overview_head.filter((_, at) => shown[at])];
  return table("Recommendation of each test", heads, rows, { kind: "overview" });
}

/** The options of one test. */
function one(
  view: View,
  test: Test,
  texts: TestTexts | undefined,
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
    texts.rows.length > 0 && optionsOf(view, test, texts),
    hidden > 0 && h("p", {}, `${hidden} more options are in the table of cells.`),
    ...others.map(line),
    ...texts.facts.map(fact),
    details.length > 0 && h("details", { class: "notes" }, h("summary", {}, "Counts and costs"), ...details.map(line)),
  );
}

/** The heading of the line with code. */
const CODE = "In the program";

/** A row for each option, with its numbers, the picture of its interval, and the recommendation. */
function optionsOf(view: View, test: Test, { rows, columns, marks }: TestTexts): HTMLElement {
  const options = new Map(test.options.map((option) => [option.id, option]));
  const compared = test.options.some(({ slower_upper: upper }) => upper != null);
  const row = (id: string, at: number) => {
    const option = options.get(id);
    return h(
      "tr",
      { class: id === test.recommended ? "used" : null },
      h("th", { scope: "row", title: cellOf(view, id)?.label ?? "" }, option?.label ?? id),
      ...columns.map(({ texts, right }) => h("td", right ? { class: "number" } : {}, texts[at] ?? "")),
      compared && h("td", { class: "picture" }, option && interval(option, test.margin)),
      h("td", {}, marks[at] ? h("b", {}, marks[at]) : ""),
    );
  };
  const head = ({ heading, right }: (typeof columns)[number]) =>
    right ? h("span", { class: "number" }, heading) : heading;
  const heads = ["", ...columns.map(head), ...(compared ? [scale(test.margin)] : []), ""];
  return table(test.title, heads, rows.map(row), { kind: "options" });
}

/** Every finding; the summary has the most important ones. */
function findings({ findings, screen }: View, explained: Explained): HTMLElement | false {
  if (findings.length === 0) return false;
  const line = ({ text }: (typeof findings)[number], at: number) =>
    h("p", {}, h("b", {}, `${screen.findings[at] ?? ""}: `), ...hinted(text, explained));
  const many = findings.length > FINDINGS_MAX;
  const all = h("section", { class: "texts", id: "findings" }, !many && h("h3", {}, "Findings"), ...findings.map(line));
  return folded(many, `Findings (${findings.length})`, all);
}
