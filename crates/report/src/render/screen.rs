//! A session on a terminal of 24 lines: a sentence to quote, what to set, the intervals, cautions, and commands to type next.

use bytegauge_model::Cost;
use bytegauge_model::unit::counted;

use super::layout::Layout;
use crate::Report;
use crate::document::{Decision, NextStep, TestTexts, avoided, step};
use crate::results::{OptionResult, OptionStatus, Test};
use crate::view::numbers::{VersusSideView, VersusView};
use crate::words::fit::{cut, padded, text_width};
use crate::words::interval_rounding::ShareScale;
use crate::words::paint::{TerminalStyle, wrap};
use crate::words::phrase::capital;
use crate::words::table::{self, Column};

/// Lines of the whole screen.
const LINES_MAX: usize = 24;
/// Rows of options of one test.
const OPTIONS_MAX: usize = 12;
/// Tests that have a row whatever else is shown.
const ROWS_MIN: usize = 3;
/// The width of the state of an option.
const STATUS: usize = 11;
/// Steps before the command that shows everything.
const STEPS_MAX: usize = 2;

/// The results of a session.
pub fn render(report: &Report, style: &TerminalStyle) -> String {
    let layout = Layout::of(style);
    let mut out = layout.heading(&report.heading);
    out.push(String::new());
    let mut short = end(report, &layout, false, usize::MAX);
    match (&report.versus, report.tests.as_slice()) {
        (Some(versus), _) => {
            out.extend(sides(report, versus, &layout));
            out.push(String::new());
            out.extend(layout.paragraph(&report.sentence));
        }
        (None, [test]) => {
            out.extend(layout.paragraph(&report.sentence));
            let title = if report.tune.is_none() { layout.paragraph(&test.title) } else { Vec::new() };
            let rows = one_test(report, test, &layout, OPTIONS_MAX);
            let is_empty = title.is_empty() && rows.is_empty();
            out.extend((!is_empty).then(String::new).into_iter().chain(title).chain(rows));
        }
        (None, _) => {
            out.extend(layout.paragraph(&report.sentence));
            out.push(String::new());
            // The matrix comes before all cautions but the first.
            let matrix = report.matrix.as_ref().map_or_else(Vec::new, |matrix| layout.matrix(matrix));
            let decisions = layout.decisions(report, &report.decisions.iter().collect::<Vec<_>>());
            let room = LINES_MAX.saturating_sub(out.len() + decisions.len() + matrix.len() + 2);
            let ends = (1..=report.cautions.len()).rev().map(|kept| end(report, &layout, false, kept));
            let fitting = ends.chain([short.clone()]).find(|end| !matrix.is_empty() && end.len() <= room);
            let matrix = if fitting.is_some() { matrix } else { Vec::new() };
            short = fitting.unwrap_or(short);
            let rows = LINES_MAX.saturating_sub(out.len() + short.len() + 3);
            out.extend(several_tests(report, &layout, rows, matrix));
        }
    }
    out.push(String::new());
    // What each step is for, where lines are left.
    let long = end(report, &layout, true, usize::MAX);
    out.extend(if out.len() + long.len() <= LINES_MAX { long } else { short });
    out.join("\n") + "\n"
}

/// The first cautions, and the commands to type next, with what they are for.
fn end(report: &Report, layout: &Layout, with_texts: bool, cautions: usize) -> Vec<String> {
    let shown: Vec<String> = report.cautions.iter().take(cautions).cloned().collect();
    let mut out = layout.headed("Caution", &shown);
    let full = step(&format!("bytegauge report {} --full", report.session), "");
    let steps: Vec<&NextStep> = report.next.iter().take(STEPS_MAX).chain([&full]).collect();
    out.extend(layout.next(&steps, with_texts));
    out
}

/// What to set in each test, in up to `rows` lines below the heading, and the matrix.
fn several_tests(report: &Report, layout: &Layout, rows: usize, matrix: Vec<String>) -> Vec<String> {
    let mut decisions: Vec<&Decision> = report.decisions.iter().collect();
    let mut out = layout.decisions(report, &decisions);
    if out.len() > rows + 1 {
        // Certain results come first where not all have a row.
        decisions.sort_by_key(|one| !one.is_certain);
    }
    while out.len() > rows + 1 && decisions.len() > ROWS_MIN {
        decisions.pop();
        out = layout.decisions(report, &decisions);
    }
    let hidden = report.decisions.len() - decisions.len();
    if hidden > 0 {
        let certain = report.decisions.iter().filter(|one| one.is_certain).count();
        let more = counted(hidden, "more test");
        let text = format!("  {more} in --full; certain are {certain} of {}", report.decisions.len());
        out.push(layout.paint.dim(&text));
    } else if !matrix.is_empty() {
        out.push(String::new());
        out.extend(matrix);
    }
    out
}

/// One row for each option, with its interval drawn; at most `rows_max` of them.
pub fn one_test(report: &Report, test: &Test, layout: &Layout, rows_max: usize) -> Vec<String> {
    let Some(texts) = report.texts.iter().find(|texts| texts.test == test.id) else { return Vec::new() };
    let mut out: Vec<String> = Vec::new();
    let (rows, hidden) = shown(test, rows_max);
    if !rows.is_empty() {
        out.extend(texts.basis.iter().flat_map(|text| layout.paragraph(text)));
        out.extend(table_of(texts, test, &rows, layout));
    }
    if hidden > 0 {
        let dropped = test.with(OptionStatus::Dropped).count();
        let text = match dropped >= hidden {
            true => format!("  {hidden} dropped: far behind in the first trials"),
            false => format!("  {} in --full", counted(hidden, "more option")),
        };
        out.push(layout.paint.dim(&text));
    }
    out.extend(texts.without_result.iter().flat_map(|text| layout.paragraph(text)));
    out
}

/// More options to avoid than this have no row where there are too many rows.
const AVOIDED_ROWS: usize = 2;

/// The options with a row in the order of the plan, and how many measured ones have none: the worst to avoid have one, and of the
/// others those with an interval come first.
fn shown(test: &Test, rows_max: usize) -> (Vec<&OptionResult>, usize) {
    let rated: Vec<&OptionResult> = test.options.iter().filter(|option| option.rate.is_some()).collect();
    if rated.len() <= rows_max {
        return (rated, 0);
    }
    let worst = avoided(test).into_iter().filter(|option| option.rate.is_some()).take(AVOIDED_ROWS);
    let worst: Vec<&OptionResult> = worst.collect();
    let is_worst = |option: &&OptionResult| worst.iter().any(|other| other.id == option.id);
    let mut best: Vec<&OptionResult> = rated.iter().copied().filter(|option| !is_worst(option)).collect();
    let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
    let rate = |option: &OptionResult| option.rate.unwrap_or(0.0);
    best.sort_by(|a, b| upper(a).total_cmp(&upper(b)).then(rate(b).total_cmp(&rate(a))));
    best.truncate(rows_max.saturating_sub(worst.len()));
    let is_kept = |option: &&OptionResult| is_worst(option) || best.iter().any(|kept| kept.id == option.id);
    (rated.iter().copied().filter(is_kept).collect(), rated.len() - best.len() - worst.len())
}

/// The width of all columns with the spaces before them.
fn wide(columns: &[Column]) -> usize {
    columns.iter().map(|column| column.width() + 2).sum()
}

/// The columns of the table of one test that fit: columns give way to the name of the option, the first ones last.
pub fn fitting(texts: &TestTexts, test: &Test, rows: &[&OptionResult], layout: &Layout) -> Vec<Column> {
    let mut columns: Vec<Column> = texts.columns.iter().filter(|column| column.brief).cloned().collect();
    let is_compared = rows.iter().any(|row| row.slower_upper.is_some());
    let label = rows.iter().map(|row| text_width(&row.label)).max().unwrap_or(0);
    // What is compared stays: the last column is the interval, and the one before it another cost than time; for time the first one.
    let by_time = usize::from(test.compares == Cost::Time);
    let kept = usize::from(is_compared) + 1 - by_time;
    let status = if is_compared { STATUS } else { 0 };
    while columns.len() > kept + by_time && 4 + label + wide(&columns) + status > layout.width {
        columns.remove(columns.len() - kept - 1);
    }
    columns
}

/// The table of one test.
fn table_of(texts: &TestTexts, test: &Test, rows: &[&OptionResult], layout: &Layout) -> Vec<String> {
    let is_compared = rows.iter().any(|row| row.slower_upper.is_some());
    let numbers = fitting(texts, test, rows, layout).into_iter().map(|column| {
        let place = |row: &&OptionResult| texts.rows.iter().position(|id| *id == row.id);
        let text = |row: &&OptionResult| place(row).map_or_else(String::new, |at| column.texts[at].clone());
        Column { texts: rows.iter().map(text).collect(), ..column.clone() }
    });
    let numbers: Vec<Column> = numbers.collect();
    let starts_with_digit = |row: &&OptionResult| row.label.starts_with(|c: char| c.is_ascii_digit());
    let right = rows.iter().all(starts_with_digit);
    let status = if is_compared { STATUS } else { 0 };
    let label = rows.iter().map(|row| text_width(&row.label)).max().unwrap_or(0);
    let label = label.min(layout.width.saturating_sub(4 + wide(&numbers) + status).max(12));
    let room = layout.width.saturating_sub(4 + label + wide(&numbers) + status + 2);
    let scale = ShareScale::of(test.options.iter().filter_map(|option| option.slower_lower));
    let picture = Picture::of(rows, scale, room).filter(|_| room >= WIDTH_MIN);
    let name = |row: &&OptionResult| {
        let mark = if row.status == OptionStatus::Use { "*" } else { " " };
        format!("{mark} {}", padded(&cut(&row.label, label), label, right))
    };
    let state = |row: &&OptionResult| format!("{:<w$}", row.status.name(), w = STATUS - 2);
    let mut columns = vec![Column::of("", false, rows, name)];
    columns.extend(numbers);
    columns.extend(is_compared.then(|| Column::of("", false, rows, state)));
    columns.extend(picture.map(|picture| Column::of(&picture.heading(), false, rows, |row| picture.line(row))));
    let lines = table::lines(&columns).into_iter().map(|line| format!("  {line}")).collect::<Vec<_>>();
    let rows = lines[1..].iter().zip(rows).map(|(line, row)| layout.coloured(row.status, line));
    [layout.paint.dim(&lines[0])].into_iter().chain(rows).collect()
}

/// The two sides of a comparison: what each took, and what it is.
fn sides(report: &Report, versus: &VersusView, layout: &Layout) -> Vec<String> {
    // The rate first, then delays and losses; the last column compares both, and CPU time is in --full.
    let numbers = |side: &VersusSideView| {
        let row = |texts: &TestTexts| {
            let at = texts.rows.iter().position(|id| *id == side.cell)?;
            let is_of_side = |column: &Column| column.brief && column.right && !column.heading.starts_with("CPU");
            let shown = texts.columns.iter().enumerate().filter(|(place, column)| *place == 0 || is_of_side(column));
            let of = |(place, column): (usize, &Column)| match (place, column.heading.as_str()) {
                (0, "a run") => column.texts[at].clone(),
                (0, unit) => format!("{} {unit}", column.texts[at]),
                (_, name) => format!("{name} {}", column.texts[at]),
            };
            Some(shown.map(of).collect::<Vec<String>>())
        };
        report.texts.iter().find_map(row).unwrap_or_default()
    };
    let sides = [("A", &versus.a), ("B", &versus.b)];
    let amounts = sides.map(|(_, side)| numbers(side).first().cloned().unwrap_or_else(|| "–".into()));
    let width = amounts.iter().map(|text| text_width(text)).max().unwrap_or(0);
    let mut out = Vec::new();
    for ((name, side), amount) in sides.into_iter().zip(&amounts) {
        let differs: Vec<String> = side.differs.iter().map(|(name, level)| format!("{name} {level}")).collect();
        let differs = if differs.is_empty() { String::new() } else { format!(" ({})", differs.join(", ")) };
        let room = layout.text().saturating_sub(width + 10).max(20);
        let others = numbers(side).into_iter().skip(1).collect::<Vec<_>>().join(", ");
        let lines = [format!("{}{differs}", side.words), others];
        let lines = lines.iter().filter(|text| !text.is_empty()).flat_map(|text| wrap(text, room));
        for (at, line) in lines.enumerate() {
            let (name, amount) = if at == 0 { (name, amount.as_str()) } else { ("", "") };
            out.push(format!("  {name:<1}  {amount:>width$}   {line}"));
        }
        out.extend(side.reason.iter().flat_map(|reason| layout.paragraph(&capital(reason))));
    }
    out
}

/// The results of a session among those of other sessions: at most `lines_max` tests, certain ones first; the last line counts the rest, and names the command that shows them, where
/// `program` is how this one is called to find the session.
pub fn brief(report: &Report, lines_max: usize, width: usize, program: &str) -> Vec<String> {
    let mut shown: Vec<(usize, &Decision)> = report.decisions.iter().enumerate().collect();
    shown.sort_by_key(|(at, one)| (!one.is_certain, *at));
    let hidden = shown.len().saturating_sub(lines_max);
    shown.truncate(lines_max);
    shown.sort_by_key(|(at, _)| *at);
    let mut out: Vec<String> = Vec::new();
    for (_, one) in shown {
        let lines = wrap(&format!("{}: {}; {}.", one.name, one.set, one.why), width.saturating_sub(4));
        out.extend(lines.iter().enumerate().map(|(at, line)| format!("{}{line}", if at == 0 { "  " } else { "    " })));
    }
    if hidden > 0 {
        out.push(format!("  {hidden} more: {program} report {}", report.session));
    }
    out
}

// Intervals drawn on one scale of characters: `├────┤`.

/// Narrower pictures show nothing.
pub const WIDTH_MIN: usize = 12;
/// Wider ones show no more.
pub const WIDTH_MAX: usize = 60;
/// Ends of the scale, as shares: the first that holds all intervals.
const ENDS: [f64; 16] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 9.0, 19.0, 49.0, 99.0];

/// The scale of the intervals of a test, from 0 on.
pub struct Picture {
    end: f64,
    width: usize,
    scale: ShareScale,
}

impl Picture {
    /// The scale that holds these options in that width; `None` without an interval.
    pub fn of(options: &[&OptionResult], scale: ShareScale, width: usize) -> Option<Picture> {
        let most = |ends: fn(&OptionResult) -> Option<f64>| {
            options.iter().filter_map(|option| ends(option)).filter(|end| end.is_finite()).fold(0.0, f64::max)
        };
        let limit = if scale.multiples { f64::INFINITY } else { 4.0 };
        // A wide interval does not hide the others.
        let wanted =
            most(|option| option.slower_upper).min((most(|option| option.slower_lower) * 3.0).max(0.5)).min(limit);
        let end = ENDS.into_iter().find(|end| *end >= wanted).unwrap_or(wanted);
        let any = options.iter().any(|option| option.slower_upper.is_some());
        (any && width >= WIDTH_MIN).then_some(Picture { end, width: width.min(WIDTH_MAX), scale })
    }

    /// The numbers above the scale: its beginning, its middle and its end.
    pub fn heading(&self) -> String {
        let at = |share: f64| match self.scale.multiples {
            true => format!("{}×", (1.0 + share).round()),
            false => format!("{} %", (share * 1000.0).round() / 10.0),
        };
        let (first, middle, last) = (at(0.0), at(self.end / 2.0), at(self.end));
        let room = self.width.saturating_sub(first.chars().count() + last.chars().count());
        let middle = if room > middle.chars().count() + 4 { middle } else { String::new() };
        let before = (self.width / 2).saturating_sub(first.chars().count() + middle.chars().count() / 2);
        let line = format!("{first}{}{middle}", " ".repeat(before));
        let after = self.width.saturating_sub(line.chars().count() + last.chars().count());
        format!("{line}{}{last}", " ".repeat(after))
    }

    /// The interval of an option; empty without one.
    pub fn line(&self, option: &OptionResult) -> String {
        let Some((lower, upper)) = option.slower_lower.zip(option.slower_upper) else { return String::new() };
        let place = |share: f64| ((share / self.end).min(1.0) * (self.width - 1) as f64).round() as usize;
        let (from, to) = (place(lower), place(upper));
        let is_cut = upper > self.end;
        let mut line = " ".repeat(from);
        if from == to {
            line.push(if is_cut { '▶' } else { '┼' });
            return line;
        }
        line.push('├');
        line.push_str(&"─".repeat(to - from - 1));
        line.push(if is_cut { '▶' } else { '┤' });
        line
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{CellId, Spec};

    use super::*;
    use crate::results::OptionStatus;

    fn option(lower: f64, upper: f64) -> OptionResult {
        OptionResult {
            id: CellId("c1".into()),
            label: String::new(),
            settings: Spec::default(),
            status: OptionStatus::Undecided,
            rate: None,
            trials: 1,
            slower_lower: Some(lower),
            slower_upper: Some(upper),
            harm: Vec::new(),
            reason: None,
        }
    }

    #[test]
    fn intervals_are_drawn_to_one_scale() {
        let (narrow, wide) = (option(0.0, 0.1), option(0.5, 1.0));
        let picture = Picture::of(&[&narrow, &wide], ShareScale::default(), 21).unwrap();
        assert_eq!(picture.line(&narrow), "├─┤");
        assert_eq!(picture.line(&wide), "          ├─────────┤");
        assert_eq!(picture.heading().chars().count(), 21);
        // An interval without an end goes on beyond the scale.
        assert!(picture.line(&option(0.9, f64::INFINITY)).ends_with("├─▶"), "{}", picture.line(&option(0.9, 9.0)));
        assert!(Picture::of(&[&narrow], ShareScale::default(), 5).is_none());
    }
}
