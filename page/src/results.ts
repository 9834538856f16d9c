// The results, as on the terminal: the summary, the next steps, and a table for each test with pictures of its intervals.
// Draws the document and judges nothing.

import { interval, scale } from "./bound";
import { cellOf, type OptionResult, type Test, type View } from "./data";
import { h, table } from "./dom";
import { folded } from "./folded";
import { axisUnit, digits, duration, percent, sentence } from "./format";
import { following, section } from "./lines";
import { hinted, type Explained, words } from "./words";

/** The tables of more tests are folded, below a table of all tests. */
const TESTS_MAX = 6;

/** Of more options only those with an interval are drawn. */
const OPTIONS_MAX = 12;

const REASONS: Record<NonNullable<Test["because"]>, string> = {
  fastest: "",
  default: "the default",
  smallest: "smallest",
  "smallest-maximum": "smallest maximum",
  only: "only option",
};

/** The results of a session. `open` shows the evidence of a test. */
export function results(view: View, open: (test: string) => void): HTMLElement {
  const explained: Explained = new Set();
  const many = view.tests.length > TESTS_MAX;
  const tables = h("div", {}, ...view.tests.map((test) => one(view, test, open, explained)));
  return h(
    "section",
    { id: "results", "aria-labelledby": "results-title" },
    h("h2", { id: "results-title" }, "Summary"),
    h(
      "ul",
      { class: "summary" },
      ...view.summary.map(({ heading, text }) => h("li", {}, h("b", {}, `${heading}: `), ...hinted(text, explained))),
    ),
    following(view.next),
    words(view),
    many && overview(view, open),
    folded(many, `All ${view.tests.length} tests, with every option`, tables),
    findings(view, explained),
  );
}

/** One row for each test, with its recommendation. */
function overview(view: View, open: (test: string) => void): HTMLElement {
  const rows = view.tests.map((test) => {
    const used = test.options.find(({ id }) => id === test.recommended);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, h("a", { href: "#evidence", onclick: () => open(test.id) }, test.name)),
      h("td", {}, h("b", {}, used?.label ?? "–")),
      h("td", {}, used ? used.slower : test.result),
    );
  });
  return table("Recommendation of each test", ["test", "use", view.tests[0]?.slower_heading ?? ""], rows, {
    kind: "overview",
  });
}

/** The options of one test. */
function one(view: View, test: Test, open: (test: string) => void, explained: Explained): HTMLElement {
  const all = test.options.filter(({ rate }) => rate != null);
  const rated = drawn(all);
  const others = test.options.filter(({ rate, status }) => rate == null || status === "failed");
  const { name, divisor } = axisUnit(test.unit, Math.max(...rated.map(({ rate }) => rate ?? 0)));
  const columns = shown(rated, name, divisor);
  const compared = rated.some(({ slower_upper: upper }) => upper != null);
  const rows = rated.map((option) =>
    h(
      "tr",
      { class: option.id === test.recommended ? "used" : null },
      h("th", { scope: "row", title: cellOf(view, option.id)?.label ?? "" }, option.label),
      ...columns.map(({ of }) => h("td", { class: "number" }, of(option))),
      compared && h("td", { class: "picture" }, interval(option, test.margin)),
      h("td", {}, option.slower),
      h("td", {}, mark(test, option)),
    ),
  );
  const heads = [
    "",
    ...columns.map(({ head }) => head),
    ...(compared ? [scale(test.margin)] : []),
    test.slower_heading,
    "",
  ];
  const link = h("a", { href: "#evidence", onclick: () => open(test.id), title: "See the evidence" }, test.title);
  return h(
    "section",
    { class: "texts test" },
    h("h3", {}, link),
    rows.length > 0 && table(test.title, heads, rows, { kind: "options" }),
    all.length > rated.length && h("p", {}, `${all.length - rated.length} more options are in the table of cells.`),
    ...others
      .slice(0, OPTIONS_MAX)
      .map(({ label, status, reason }) => h("p", {}, `${label} ${status}${reason ? `: ${reason}` : ""}`)),
    h("p", {}, ...hinted(sentence(`${test.result}.`), explained)),
    test.code.length > 0 && h("p", { class: "code" }, "In the program: ", h("code", {}, test.code.join(", "))),
    test.bottleneck && h("p", { class: "reading" }, `Bottleneck: ${test.bottleneck.text}`),
  );
}

/** The options with an interval; of many without one the fastest; in the order of the plan. */
function drawn(rated: OptionResult[]): OptionResult[] {
  const known = rated.filter(({ slower_upper: upper }) => upper != null);
  if (rated.length <= OPTIONS_MAX) return rated;
  if (known.length > 0) return known.slice(0, 4 * OPTIONS_MAX);
  const fastest = [...rated].sort((a, b) => (b.rate ?? 0) - (a.rate ?? 0)).slice(0, OPTIONS_MAX);
  return rated.filter((option) => fastest.includes(option));
}

interface Column {
  head: string;
  of: (option: OptionResult) => string;
}

/** The columns in which some option has a number. */
function shown(options: OptionResult[], unit: string, divisor: number): Column[] {
  const number = (value: number | null | undefined, text: (value: number) => string) =>
    value == null ? "–" : text(value);
  const rate = (value: number | null | undefined) => number(value, (rate) => digits(rate / divisor));
  const cpu = options.find(({ cpu_unit: unit }) => unit)?.cpu_unit;
  const columns: (Column & { has: (option: OptionResult) => unknown })[] = [
    { head: unit, of: (option) => rate(option.rate), has: () => true },
    { head: "average", of: (option) => rate(option.rate_all ?? option.rate), has: ({ rate_all: all }) => all },
    { head: "p50", of: ({ p50_ns: ns }) => number(ns, duration), has: ({ p50_ns: ns }) => ns },
    { head: "p99", of: ({ p99_ns: ns }) => number(ns, duration), has: ({ p99_ns: ns }) => ns },
    { head: "p99.9", of: ({ p99_9_ns: ns }) => number(ns, duration), has: ({ p99_9_ns: ns }) => ns },
    { head: `CPU ${cpu ?? ""}`, of: ({ cpu }) => number(cpu, digits), has: ({ cpu }) => cpu },
    { head: "lost", of: ({ lost_share: share }) => number(share, percent), has: ({ lost_share: share }) => share },
    { head: "failed", of: ({ failed_share: share }) => percent(share ?? 0), has: ({ failed_share: share }) => share },
  ];
  return columns.filter(({ has }) => options.some((option) => has(option) != null));
}

/** `use (smallest maximum)`. */
function mark(test: Test, option: OptionResult): HTMLElement | string {
  if (option.id !== test.recommended || test.state === "single") return "";
  const why = test.because ? REASONS[test.because] : "";
  return h("b", {}, why ? `use (${why})` : "use");
}

const HEADINGS = { error: "Error", warning: "Caveat", result: "Result", note: "Note" } as const;

/** Every finding; the summary has the most important ones. */
function findings(view: View, explained: Explained): HTMLElement | false {
  const lines = view.findings.map(({ severity, text }) => `${HEADINGS[severity]}: ${text}`);
  const all = section("Findings", lines, explained, "findings");
  return all && folded(lines.length > 3, `All ${lines.length} findings`, all);
}
