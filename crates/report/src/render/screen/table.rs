//! The options of one test: a row for each, with its rate, its interval, a bar and the recommendation.

use std::collections::BTreeSet;

use bytegauge_model::level_descriptions;
use bytegauge_model::unit::{counted, significant};
use serde::Serialize;

use super::{ScreenLayout, heading};
use crate::interval_rounding::{ShareScale, percent, shown_age};
use crate::phrase;
use crate::render::fit::chars;
use crate::render::paint::wrap;
use crate::view::document::{Compares, FindingKind, OptionResult, OptionStatus, Test, TestState};
use crate::view::results::least_cpu;
use crate::view::results::outcome::{self, OptionMark, reason, up_to};

/// Tests with more options show those with an interval.
const OPTIONS_MAX: usize = 6;
/// Options without an interval that are shown where none has one.
const UNCONFIRMED_MAX: usize = 6;
/// More options without a row are counted, not named.
const HIDDEN_MAX: usize = 6;
/// Characters of the longest bar on 80 columns.
const BAR: usize = 16;
/// The usual width of a terminal; a wider one has room for longer labels and bars.
const USUAL_WIDTH: usize = 80;
/// Characters of the longest bar on any terminal.
const BAR_MAX: usize = 60;
/// Shorter bars show nothing.
const BAR_MIN: usize = 6;
/// On 80 columns longer labels are on a line of their own.
const LABEL_MAX: usize = 30;
/// Columns that a narrow terminal has no room for, the first to go first.
const EXPENDABLE: [&str; 7] = [RATE_INTERVAL, "p50", "server CPU", "CPU", "p99.9", "longest", "p99"];
/// Those that go where even names on lines of their own leave too little room.
const LAST: [&str; 4] = ["p99", P99_OF_ALL, "CPU", "starved"];
/// The heading of the intervals of rates.
const RATE_INTERVAL: &str = "rate (95 %)";
/// The heading of the percentile over the calls of all trials.
const P99_OF_ALL: &str = "p99 of all";
/// An unknown value.
const UNKNOWN: &str = "–";

/// One column: its heading, and a text for each row.
#[derive(Serialize)]
pub struct ScreenColumn {
    /// Its heading.
    pub heading: String,
    /// A text for each row.
    pub texts: Vec<String>,
    /// Numbers align right, intervals left.
    pub right: bool,
}

impl ScreenColumn {
    fn of(heading: &str, right: bool, rows: &[&OptionResult], text: impl Fn(&OptionResult) -> String) -> ScreenColumn {
        ScreenColumn { heading: heading.to_owned(), texts: rows.iter().map(|row| text(row)).collect(), right }
    }

    fn width(&self) -> usize {
        self.texts.iter().map(|text| chars(text)).chain([chars(&self.heading)]).max().unwrap_or(0)
    }

    fn shown(&self, text: &str) -> String {
        let width = self.width();
        if self.right { format!("{text:>width$}") } else { format!("{text:<width$}") }
    }
}

/// The title, the headings, a row for each option, and the options without a result.
pub(super) fn lines(test: &Test, layout: &ScreenLayout, full: bool) -> Vec<String> {
    let mut out: Vec<String> = heading(&test.title, layout.width).iter().map(|line| layout.paint.bold(line)).collect();
    let (rows, hidden) = rows(test, full);
    if !rows.is_empty() {
        out.extend(basis(test).iter().flat_map(|text| wrap(text, layout.text() - 2)).map(|line| format!("  {line}")));
        out.extend(table(test, &rows, layout, full));
    }
    out.extend(self::hidden(test, &rows, hidden, layout).iter().map(|line| layout.paint.dim(line)));
    let indented = |text: &String| wrap(text, layout.text() - 4).into_iter().map(|line| format!("  {line}"));
    let mut without = without_result(test);
    // The result has the only reason of the only test, but that of a search.
    let is_alone = !full && layout.tests.len() == 1 && without.len() == 1;
    if is_alone && test.state == TestState::Failed && outcome::slo(test).is_none() {
        without = vec![format!("{} without a result", counted(test.options.len(), "option"))];
    }
    out.extend(without.iter().flat_map(indented));
    if full {
        let facts =
            facts(test, layout.tests, layout.scale).into_iter().map(|(heading, text)| format!("{heading}: {text}."));
        out.extend(facts.flat_map(|text| wrap(&text, layout.text() - 4)).map(|line| format!("    {line}")));
    }
    out
}

/// Whether a rate is offered, which the title has.
fn has_rate(test: &Test) -> bool {
    ["call_rate", "rate"].into_iter().any(|name| test.environment.get(name).is_some_and(serde_json::Value::is_number))
}

/// The quantity that is compared, where it is not the rate of a load without a limit.
fn basis(test: &Test) -> Option<String> {
    if test.compares == Compares::Cpu && !test.unit.starts_with("runs") && test.options.len() > 1 {
        let load = if has_rate(test) { "The load is fixed" } else { "Pauses limit the load" };
        return Some(format!("{load}, so options are ranked by CPU time."));
    }
    let objective = phrase::objective(outcome::slo(test)?);
    Some(format!(
        "Rates are the highest at which half of the trials keep {objective}. Over all trials it is kept at “overall” or less."
    ))
}

/// The options with a rate that are shown, and how many are not.
pub fn rows(test: &Test, full: bool) -> (Vec<&OptionResult>, usize) {
    let rated: Vec<&OptionResult> = test.options.iter().filter(|option| option.rate.is_some()).collect();
    let (with, without): (Vec<_>, Vec<_>) = rated.iter().partition(|option| option.slower_upper.is_some());
    let is_kept = |option: &OptionResult| match with.is_empty() {
        false => full || option.slower_upper.is_some() || without.len() + with.len() <= OPTIONS_MAX,
        true if full => true,
        // The fastest, in the order of the plan.
        true => {
            let is_faster = |other: &&&&OptionResult| other.rate.unwrap_or(0.0) > option.rate.unwrap_or(0.0);
            without.iter().filter(is_faster).count() < UNCONFIRMED_MAX
        }
    };
    let kept: Vec<&OptionResult> = rated.iter().copied().filter(|option| is_kept(option)).collect();
    let hidden = rated.len() - kept.len();
    (kept, hidden)
}

/// The options that were measured in the screening only and are not shown; many are counted.
fn hidden(test: &Test, rows: &[&OptionResult], count: usize, layout: &ScreenLayout) -> Vec<String> {
    let text = match count {
        0 => return Vec::new(),
        1..=HIDDEN_MAX => {
            let (divisor, unit) = test.rate_scale(layout.tests);
            let is_hidden = |one: &&OptionResult| one.rate.is_some() && rows.iter().all(|row| row.id != one.id);
            let rate = |option: &OptionResult| significant(option.rate.unwrap_or(0.0) / divisor, 2);
            let named = test.options.iter().filter(is_hidden).map(|one| format!("{} {}", one.label, rate(one)));
            let how = if test.is_compared() { "dropped after" } else { "measured in" };
            format!("{how} {}, {unit}: {}", few_trials(test), named.collect::<Vec<_>>().join(", "))
        }
        _ => {
            let others = counted(count, if rows.is_empty() { "option" } else { "more option" });
            format!("{others} measured in {} only: --full", few_trials(test))
        }
    };
    wrap(&phrase::capital(&text), layout.text() - 4).iter().map(|line| format!("  {line}")).collect()
}

/// The measurements of the screening: `a few trials of 11 ms`.
fn few_trials(test: &Test) -> String {
    let length = test.screening_trial_ns.map_or_else(String::new, |ns| format!(" of {}", shown_age(ns)));
    format!("a few trials{length}")
}

/// The end of a heading that a narrow terminal leaves out: the legend has it, too.
const LEVEL: &str = " (95 %)";

/// The columns that the width has room for, the others, and the width of the marks behind the columns.
struct TableColumns {
    numbers: Vec<ScreenColumn>,
    others: Vec<ScreenColumn>,
    marks: usize,
}

fn table_columns(test: &Test, rows: &[&OptionResult], layout: &ScreenLayout, full: bool) -> TableColumns {
    let mut numbers = columns(test, rows, full, layout.tests);
    // Without a comparison the last column is empty.
    numbers.retain(|column| column.heading != test.slower_heading || column.texts.iter().any(|text| text != UNKNOWN));
    let marks = rows.iter().map(|row| chars(&arrow(test, mark(test, row, false), row))).max().unwrap_or(0) + 2;
    let widest_label = rows.iter().map(|row| chars(&row.label)).max().unwrap_or(0);
    let label = if widest_label > label_max(layout) { 2 } else { widest_label };
    let mut others = Vec::new();
    let is_too_wide = |numbers: &[ScreenColumn], label: usize| 2 + label + width_of(numbers) + marks > layout.width;
    let mut drop = |numbers: &mut Vec<ScreenColumn>, name: &str, label: usize| {
        if is_too_wide(numbers, label) {
            let is_kept = |column: &ScreenColumn| Some(column.heading.as_str()) == test.more_cpu_heading;
            // The unit of CPU time is a part of its heading.
            let is_named = |heading: &str| heading == name || name.ends_with("CPU") && heading.starts_with(name);
            others.extend(numbers.extract_if(.., |column| !is_kept(column) && is_named(&column.heading)));
        }
    };
    // The CPU time of relays is a result, and not only a detail. A fixed load is in the title, and options are ranked by CPU time.
    let rate = test.rate_scale(layout.tests).1;
    let is_ranked = test.compares == Compares::Cpu && has_rate(test);
    let expendable = EXPENDABLE.into_iter().map(|name| if is_ranked && name == "CPU" { rate } else { name });
    let is_result = |name: &str| name == "CPU" && has_relay(test) && test.more_cpu_heading.is_none();
    // Where the percentile of all calls is next to it, the median of the trials' percentiles is a detail.
    let has_all = numbers.iter().any(|column| column.heading == P99_OF_ALL);
    let expendable = expendable.filter(|name| !is_result(name) && (*name != "p99" || has_all));
    expendable.for_each(|name| drop(&mut numbers, name, label));
    if is_too_wide(&numbers, label) {
        numbers.iter_mut().for_each(|column| column.heading = column.heading.trim_end_matches(LEVEL).to_owned());
    }
    // Relays have no lines for their names only because of a p99, which is mostly waiting.
    LAST[..2].iter().filter(|_| has_relay(test)).for_each(|name| drop(&mut numbers, name, label));
    LAST.into_iter().for_each(|name| drop(&mut numbers, name, 2));
    TableColumns { numbers, others, marks }
}

/// The names of the options and the columns that their table has no room for, in as many tables as they need.
fn further_columns(rows: &[&OptionResult], mut others: Vec<ScreenColumn>, layout: &ScreenLayout) -> Vec<String> {
    if others.is_empty() {
        return Vec::new();
    }
    let label = ScreenColumn::of("", false, rows, |row| row.label.clone());
    let fits = |count: &usize| 2 + label.width() + width_of(&others[..*count]) <= layout.width;
    let rest = others.split_off((1..=others.len()).rfind(fits).unwrap_or(1));
    let columns: Vec<ScreenColumn> = [label].into_iter().chain(others).collect();
    let line = |text: &dyn Fn(&ScreenColumn) -> String| {
        let texts: Vec<String> = columns.iter().map(text).collect();
        format!("  {}", texts.join("  ")).trim_end().to_owned()
    };
    let headings = layout.paint.dim(&line(&|column| column.shown(&column.heading)));
    let lines = (0..rows.len()).map(|at| line(&|column| column.shown(&column.texts[at])));
    [headings].into_iter().chain(lines).chain(further_columns(rows, rest, layout)).collect()
}

/// Characters of columns and of the space in front of each.
fn width_of(columns: &[ScreenColumn]) -> usize {
    columns.iter().map(|column| column.width() + 2).sum()
}

/// Longer labels are on a line of their own.
fn label_max(layout: &ScreenLayout) -> usize {
    LABEL_MAX + layout.width.saturating_sub(USUAL_WIDTH)
}

fn table(test: &Test, rows: &[&OptionResult], layout: &ScreenLayout, full: bool) -> Vec<String> {
    let bar_max = (BAR + layout.width.saturating_sub(USUAL_WIDTH) / 2).min(BAR_MAX);
    let TableColumns { numbers, others, marks: mark_width } = table_columns(test, rows, layout, full);
    let marks: Vec<String> = rows.iter().map(|row| arrow(test, mark(test, row, true), row)).collect();
    let short: Vec<String> = rows.iter().map(|row| arrow(test, mark(test, row, false), row)).collect();
    let widest = |marks: &[String]| marks.iter().map(|mark| chars(mark)).max().unwrap_or(0);
    let widest_label = rows.iter().map(|row| chars(&row.label)).max().unwrap_or(0);
    let of_numbers = width_of(&numbers);
    // Labels that do not fit next to the numbers are above them.
    let own_line = widest_label > label_max(layout) || 2 + widest_label + of_numbers + mark_width > layout.width;
    let starts_with_digit = |row: &&OptionResult| row.label.starts_with(|c: char| c.is_ascii_digit());
    let name = varied(test);
    let has_room = !own_line && 2 + chars(&name) + of_numbers + 2 + BAR_MIN + mark_width <= layout.width;
    let name = if has_room { name.as_str() } else { "" };
    let label = ScreenColumn::of(name, rows.iter().all(starts_with_digit), rows, |row| {
        if own_line { "  ".into() } else { row.label.clone() }
    });
    let columns: Vec<ScreenColumn> = [label].into_iter().chain(numbers).collect();
    let used = 2 + width_of(&columns);
    let room = layout.width.saturating_sub(used);
    // The reason gives way to the bar, the bar to the mark.
    let (marks, bar) = match room.checked_sub(widest(&marks) + 2) {
        Some(bar) if bar >= BAR_MIN => (marks, bar.min(bar_max)),
        _ => match room.checked_sub(widest(&short) + 2) {
            Some(bar) if bar >= BAR_MIN => (short, bar.min(bar_max)),
            _ => (short, 0),
        },
    };
    let most = rows.iter().filter_map(|row| bar_value(test, row)).fold(0.0, f64::max);
    let headings: Vec<String> = columns.iter().map(|column| column.shown(&column.heading)).collect();
    let of_bar = if bar > 0 && most > 0.0 { bar_heading(test) } else { "" };
    let mut out = vec![layout.paint.dim(format!("  {}  {of_bar}", headings.join("  ")).trim_end())];
    for (at, row) in rows.iter().enumerate() {
        if own_line {
            out.extend(wrap(&row.label, layout.width - 2).iter().map(|line| format!("  {line}")));
        }
        let texts: Vec<String> = columns.iter().map(|column| column.shown(&column.texts[at])).collect();
        let drawn = bar_value(test, row).map_or_else(String::new, |value| self::bar(value / most, bar));
        let space = if bar > 0 { format!("  {drawn:<bar$}") } else { String::new() };
        let line = format!("  {}{space}  {}", texts.join("  "), marks[at]);
        let line = line.trim_end();
        out.push(match test.recommended.as_ref() == Some(&row.id) && !marks[at].is_empty() {
            true => layout.paint.bold(line),
            false => line.to_owned(),
        });
    }
    if full {
        out.extend(further_columns(rows, others, layout));
    }
    out
}

/// The columns behind the name of an option: numbers, then the interval.
pub fn columns(test: &Test, rows: &[&OptionResult], full: bool, tests: &[Test]) -> Vec<ScreenColumn> {
    let mut columns = numbers(test, rows, full, test.rate_scale(tests));
    columns.extend(test.more_cpu_heading.map(|heading| {
        ScreenColumn::of(heading, false, rows, |row| row.more_cpu.clone().unwrap_or_else(|| UNKNOWN.into()))
    }));
    columns.push(ScreenColumn::of(test.slower_heading, false, rows, |row| row.slower.clone()));
    columns
}

/// The rate, and what belongs to it: latency, CPU time, losses.
fn numbers(test: &Test, rows: &[&OptionResult], full: bool, (divisor, unit): (f64, &str)) -> Vec<ScreenColumn> {
    let digits = |row: &OptionResult| if row.slower_upper.is_some() || row.trials >= 6 { 3 } else { 2 };
    let rate = |rate: Option<f64>, digits: usize| {
        rate.map_or_else(|| UNKNOWN.into(), |rate| significant(rate / divisor, digits))
    };
    let mut columns = Vec::new();
    // Rates of the screening do not compare with those of confirmed options.
    let marked =
        |row: &OptionResult, text: String| if outcome::is_screened(test, row) { format!("({text})") } else { text };
    // The duration of a program is read as time.
    if test.unit == "runs/CPU s" {
        // Its inverse, CPU time, has a column.
    } else if test.unit == "runs/s" {
        let a_run =
            |row: &OptionResult| marked(row, row.rate.map_or_else(|| UNKNOWN.into(), |rate| outcome::time(1e9 / rate)));
        columns.push(ScreenColumn::of("a run", true, rows, a_run));
    } else {
        columns.push(ScreenColumn::of(unit, true, rows, |row| marked(row, rate(row.rate, digits(row)))));
    }
    let any = |has: fn(&OptionResult) -> bool| rows.iter().any(|row| has(row));
    // A column with a value in some row.
    let mut add = |is_shown: bool, heading: &str, right: bool, text: &dyn Fn(&OptionResult) -> Option<String>| {
        if is_shown && rows.iter().any(|row| text(row).is_some()) {
            let shown = |row: &OptionResult| text(row).unwrap_or_else(|| UNKNOWN.into());
            columns.push(ScreenColumn::of(heading, right, rows, shown));
        }
    };
    let carried = |row: &OptionResult| Some(row.carried_share.map_or_else(|| "all".into(), percent));
    add(any(|row| row.carried_share.is_some()), "carried", true, &carried);
    let is_search = outcome::slo(test).is_some();
    let overall = |row: &OptionResult| Some(row.overall_rate.map_or_else(|| "none".into(), |own| rate(Some(own), 2)));
    add(is_search, "overall", true, &overall);
    let interval = |row: &OptionResult| {
        let (lower, upper) = row.rate_lower.zip(row.rate_upper)?;
        Some(crate::interval_rounding::ends(lower / divisor, upper / divisor).0.join("–"))
    };
    add(full && test.unit != "runs/s", RATE_INTERVAL, false, &interval);
    add(full, "p50", true, &|row| row.p50_ns.map(outcome::time));
    add(full || !is_search, "p99", true, &|row| row.p99_ns.map(outcome::time));
    add(true, P99_OF_ALL, true, &|row| row.p99_all_ns.map(outcome::time));
    add(full, "p99.9", true, &|row| row.p99_9_ns.map(outcome::time));
    let unit = rows.iter().find_map(|row| row.cpu_unit).unwrap_or_default();
    let cpu = |row: &OptionResult| Some(row.cpu.map_or_else(|| UNKNOWN.into(), |cpu| significant(cpu, 3)));
    add(!unit.is_empty() && (full || shows_cpu(test)), &format!("CPU {unit}"), true, &cpu);
    add(true, "server CPU ms/run", true, &|row| row.server_cpu_ms.map(|cpu| significant(cpu, 3)));
    add(true, "lost", true, &|row| row.lost_share.map(percent));
    let failed = |row: &OptionResult| Some(percent(row.failed_share.unwrap_or(0.0)));
    add(any(|row| row.failed_share.is_some()), "failed", true, &failed);
    // A rate hides both: other clients have the calls of those that wait.
    let starves = any(|row| row.harm.contains(&FindingKind::StarvedClients));
    add(starves, "starved", true, &|row| row.starved_share.map(percent));
    add(starves, "longest", true, &|row| row.longest_ns.map(|ns| outcome::time(ns as f64)));
    columns
}

/// The one mark of an option, with the reason why it is recommended; empty where its row has another text in its place.
pub fn mark(test: &Test, option: &OptionResult, with_reason: bool) -> String {
    let Some(mark) = outcome::mark(test, option) else { return String::new() };
    match reason(test.because).filter(|_| with_reason && matches!(mark, OptionMark::Use | OptionMark::Safest)) {
        Some(reason) => format!("{} ({reason})", mark.name()),
        None => mark.name().to_owned(),
    }
}

/// A mark as it is at the end of a row: that of the recommended option is seen at once.
fn arrow(test: &Test, mark: String, option: &OptionResult) -> String {
    let is_recommended =
        matches!(outcome::mark(test, option), Some(OptionMark::Use | OptionMark::Safest | OptionMark::Keep));
    if is_recommended { format!("<- {mark}") } else { mark }
}

/// The factors that the options differ in: `write size + congestion control`.
fn varied(test: &Test) -> String {
    test.varied.iter().map(|factor| outcome::factor_name(factor)).collect::<Vec<_>>().join(" + ")
}

/// The factors whose levels are ways to do something, which few readers know by their names.
const METHODS: [&str; 4] = ["relay", "server_engine", "client_engine", "engine"];
/// The sizes of calls in a stream, each with its call.
const SIZES: [(&str, &str); 2] = [("read_size", "read(2)"), ("write_size", "write(2)")];

/// The names of the compared methods, each with what it does, and the meaning of compared sizes.
pub fn methods(tests: &[Test]) -> Vec<(&'static str, String)> {
    let options = || tests.iter().flat_map(|test| &test.options);
    let is_used =
        |factor: &str, name: &str| options().any(|option| option.settings.get(factor).is_some_and(|own| own == name));
    let all =
        METHODS.into_iter().flat_map(|factor| level_descriptions::of(factor).into_iter().map(move |row| (factor, row)));
    let used = all.filter(|(factor, (name, _))| is_used(factor, name)).map(|(_, (name, text))| (name, text.to_owned()));
    let is_compared = |size: &str| options().any(|option| option.settings.contains_key(size));
    let calls: Vec<&str> = SIZES.into_iter().filter(|(size, _)| is_compared(size)).map(|(_, call)| call).collect();
    let size = (!calls.is_empty()).then(|| ("size", format!("the bytes of each call of {}", calls.join(" or "))));
    // Servers and clients may have the same.
    let once: BTreeSet<(&str, String)> = used.chain(size).collect();
    once.into_iter().collect()
}

/// The ends of intervals, the marks and columns that occur, each with its meaning; empty without a mark.
pub fn legend(tests: &[Test], scale: ShareScale, full: bool) -> Vec<(&'static str, String)> {
    let shown = tests.iter().flat_map(|test| test.options.iter().filter_map(|option| outcome::mark(test, option)));
    let known: BTreeSet<OptionMark> = shown.collect();
    let Some(first) = tests.iter().find(|test| test.is_compared()).filter(|_| !known.is_empty()) else {
        return Vec::new();
    };
    let is_noisy = tests.iter().any(|test| test.control_upper.is_some_and(|upper| upper > test.margin));
    let is_harmful = tests.iter().flat_map(|test| &test.avoid).any(|avoid| avoid.harm.is_some());
    let margin = scale.at_most(first.margin);
    let meaning = |mark: &OptionMark| (mark.name(), meaning(*mark, &margin, scale, is_noisy, is_harmful));
    let (numbers, explained) = outcome::interval_explained(first.compares, scale);
    let mut all = vec![(numbers, explained.to_owned())];
    all.extend(known.iter().map(meaning));
    if is_noisy {
        all.push(("noise", "how much one option differs from itself, measured twice".to_owned()));
    }
    let has_short = |test: &&Test| test.options.iter().any(|option| outcome::is_screened(test, option));
    let screened = tests.iter().find(has_short).filter(|test| full && test.screening_trial_ns.is_some());
    all.extend(screened.map(|test| ("screening", few_trials(test) + " each, which select the options to confirm")));
    let any = |has: fn(&OptionResult) -> bool| tests.iter().flat_map(|test| &test.options).any(has);
    let carried = ("carried", "share of the load that all trials together answered".to_owned());
    all.extend(any(|option| option.carried_share.is_some()).then_some(carried));
    let of_all = (P99_OF_ALL, "over the calls of all trials together; other percentiles: medians".to_owned());
    all.extend(any(|option| option.p99_all_ns.is_some()).then_some(of_all));
    let more_cpu = tests.iter().find_map(|test| test.more_cpu_heading);
    all.extend(more_cpu.map(|heading| (heading, least_cpu::explained(scale))));
    all
}

/// The meaning of the columns of CPU time that are shown.
pub(super) fn units(layout: &ScreenLayout) -> BTreeSet<&'static str> {
    let is_shown = |test: &&Test| {
        let columns = table_columns(test, &rows(test, false).0, layout, false).numbers;
        let has_unit = |unit: &str| columns.iter().any(|column| column.heading.strip_prefix("CPU ") == Some(unit));
        test.more_cpu_heading.is_some() || test.options.iter().find_map(|option| option.cpu_unit).is_some_and(has_unit)
    };
    layout.tests.iter().filter(is_shown).filter_map(cpu_explained).collect()
}

fn meaning(mark: OptionMark, margin: &str, scale: ShareScale, is_noisy: bool, is_harmful: bool) -> String {
    let nothing = if scale.multiples { "1×" } else { "0" };
    let above = if is_noisy { format!("both {margin} and the noise") } else { margin.to_owned() };
    match mark {
        OptionMark::Use if is_noisy => format!("B and the noise are at most {margin}"),
        OptionMark::Use => format!("B is at most {margin}"),
        OptionMark::Safest => "not decided; for now the smallest B, or a default near it".to_owned(),
        OptionMark::Keep => "the present value: no other one is surely better".to_owned(),
        OptionMark::AsGood => format!("B is at most {margin}, too"),
        OptionMark::Undecided => format!("A is {nothing}: may be the best"),
        OptionMark::Slower => format!("A is above {nothing}, but too near to it for “avoid”"),
        OptionMark::Avoid => {
            let harm = if is_harmful { ", or it is harmful" } else { "" };
            format!("A is above {above}{harm}")
        }
    }
}

/// Whether the table has a column of CPU time also where not all columns are asked for.
fn shows_cpu(test: &Test) -> bool {
    let is_shown = |unit: &str| has_relay(test) || unit != "s/GiB" || test.compares == Compares::Cpu;
    test.options.iter().find_map(|option| option.cpu_unit).is_some_and(is_shown)
}

/// The length of a bar: the rate, or the CPU time where the rate is fixed.
fn bar_value(test: &Test, option: &OptionResult) -> Option<f64> {
    match test.compares {
        _ if outcome::is_screened(test, option) || option.missed_load() => None,
        Compares::Time => option.rate,
        Compares::Cpu => option.cpu,
    }
}

/// The heading of the bars.
fn bar_heading(test: &Test) -> &'static str {
    if test.compares == Compares::Cpu { "CPU" } else { "rate" }
}

/// A bar of eighths of a character.
fn bar(share: f64, width: usize) -> String {
    if width == 0 || !share.is_finite() {
        return String::new();
    }
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    "█".repeat(eighths / 8) + part
}

/// Options that were not measured, by their reason.
pub fn without_result(test: &Test) -> Vec<String> {
    let mut reasons: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for option in test.options.iter().filter(|option| option.rate.is_none() || option.reason.is_some()) {
        let what = match option.status {
            OptionStatus::Failed => "failed",
            _ if option.rate.is_some() => "stopped",
            OptionStatus::Skipped => "skipped",
            _ => "not measured",
        };
        let reason = option.reason.as_deref().unwrap_or("");
        let mut known = reasons.iter_mut().filter(|(known, ..)| *known == what);
        match known.find_map(|(_, why, labels)| Some((phrase::with_ranges(why, reason)?, why, labels))) {
            Some((both, why, labels)) => {
                *why = both;
                labels.push(&option.label);
            }
            None => reasons.push((what, reason.to_owned(), vec![&option.label])),
        }
    }
    let phrases = reasons.into_iter().map(|(what, reason, labels)| {
        let labels = if labels.len() > 4 { format!("{} options", labels.len()) } else { labels.join(", ") };
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        format!("{labels}  {what}{reason}")
    });
    phrases.collect()
}

/// Whether a relay is between the ends; its CPU time is shown then.
fn has_relay(test: &Test) -> bool {
    let is_one = |relay: &serde_json::Value| relay.as_str().is_some_and(|name| name != "none");
    test.varied.iter().any(|name| name == "relay") || test.environment.get("relay").is_some_and(is_one)
}

/// The meaning of the column of CPU time.
pub fn cpu_explained(test: &Test) -> Option<&'static str> {
    let unit = test.options.iter().find_map(|option| option.cpu_unit)?;
    Some(match (unit, has_relay(test)) {
        ("s/GiB", false) => "CPU: seconds that both ends together take for each GiB.",
        ("s/GiB", true) => "CPU: seconds that the relay takes for each GiB, without the ends.",
        ("µs/call", true) => "CPU: time that the relay takes for each call, without the ends.",
        ("µs/call", _) if test.varied.iter().any(|name| name == "client_engine") => {
            "CPU: time that the client takes for each call."
        }
        ("µs/call", _) => "CPU: time that the server takes for each call.",
        ("ms/run", _) if test.options.iter().any(|option| option.server_cpu_ms.is_some()) => {
            "CPU: time that the program and its server take together for each run; the server's is part of it."
        }
        ("ms/run", _) => "CPU: time that the program takes for each run.",
        _ => return None,
    })
}

/// The lines under a table with all columns: the result of one of several tests, the code, the bottleneck, the blocks and the
/// A/A control.
pub fn facts(test: &Test, tests: &[Test], scale: ShareScale) -> Vec<(&'static str, String)> {
    let mut facts = Vec::from_iter((tests.len() > 1).then(|| ("Result", test.result.clone())));
    if !test.code.is_empty() {
        facts.push(("In the program", test.code.join(", ")));
    }
    facts.extend(test.bottleneck.as_ref().map(|found| {
        let remedy = found.remedy.as_ref().map_or_else(String::new, |remedy| format!(". {}", phrase::capital(remedy)));
        ("Bottleneck", format!("{}{remedy}", found.text.trim_end_matches('.')))
    }));
    let control =
        test.control_upper.map(|upper| format!("the same option, measured twice, differs by {}", up_to(scale, upper)));
    let blocks = (test.blocks > 0).then(|| format!("{} complete blocks", test.blocks));
    let basis: Vec<String> = blocks.into_iter().chain(control).collect();
    if !basis.is_empty() {
        facts.push(("Basis", basis.join("; ")));
    }
    facts
}
