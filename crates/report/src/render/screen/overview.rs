//! Many tests: one row for each, with what to use and what to avoid.

use bytegauge_model::unit::significant;

use super::ScreenLayout;
use crate::View;
use crate::interval_rounding::ShareScale;
use crate::number::common_unit;
use crate::phrase::rate_unit;
use crate::render::fit::{chars, cut_parts};
use crate::render::paint::wrap;
use crate::view::document::{Avoided, Test, TestState};
use crate::view::results::outcome::{has_safest, recommended_label, time};

/// Less room holds nothing of what to avoid.
const AVOID_MIN: usize = 17;
/// The heading of what to avoid.
const AVOID: &str = "avoid";
/// Cells of a row: the test, the option, its rate, p99 and interval.
const CELLS: usize = 5;
/// The cell that gives way where a row does not fit.
const P99: usize = 3;

/// The headings and a row for each test, nothing of them cut. The last column has the options to avoid.
pub fn whole(view: &View) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let tests = &view.tests;
    let scale = scale(tests);
    let whole = |test: &Test| {
        let avoid = avoid(test, view.scale, usize::MAX);
        row(test, true, scale).into_iter().chain([avoid]).collect()
    };
    let rows: Vec<Vec<String>> = tests.iter().map(whole).collect();
    let has_p99 = rows.iter().any(|row| !row[P99].is_empty());
    (head(tests, has_p99).into_iter().chain([AVOID]).collect(), rows)
}

fn head(tests: &[Test], has_p99: bool) -> [&'static str; CELLS] {
    let slower = tests.first().map_or("", |test| test.slower_heading);
    ["", "use", scale(tests).map_or("rate", |(_, unit)| unit), if has_p99 { "p99" } else { "" }, slower]
}

/// One row for each test, under the headings of their titles.
pub fn lines(view: &View, layout: &ScreenLayout) -> Vec<String> {
    let tests = &view.tests;
    let is_alone = |test: &Test| tests.iter().filter(|other| other.heading == test.heading).count() == 1;
    let scale = scale(tests);
    let rows: Vec<[String; CELLS]> = tests.iter().map(|test| row(test, is_alone(test), scale)).collect();
    let has_p99 = rows.iter().any(|row| !row[P99].is_empty());
    let head = head(tests, has_p99);
    let width = |at: usize| rows.iter().map(|row| chars(&row[at])).chain([chars(head[at])]).max().unwrap_or(0);
    let mut widths: [usize; CELLS] = std::array::from_fn(width);
    let used = |widths: &[usize]| widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum::<usize>();
    if used(&widths) > layout.width {
        widths[P99] = 0;
    }
    // Where a test and its numbers do not fit in one line they have two.
    let two_lines = used(&widths) > layout.width;
    if two_lines {
        widths[0] = 2;
        widths[1] = widths[1].min(layout.width.saturating_sub(used(&widths) - widths[1]));
    }
    let for_avoid = layout.width.saturating_sub(used(&widths) + 2);
    let for_avoid = if for_avoid >= AVOID_MIN { for_avoid } else { 0 };
    let mut out = Vec::new();
    let avoided = if for_avoid == 0 { "" } else { AVOID };
    out.push(layout.paint.dim(&line(&head.map(str::to_owned), &widths, avoided)));
    let mut heading = "";
    for (test, row) in tests.iter().zip(&rows) {
        if test.heading != heading && !is_alone(test) {
            out.push(layout.paint.bold(&test.heading));
        }
        heading = &test.heading;
        let avoid = if for_avoid > 0 { avoid(test, view.scale, for_avoid) } else { String::new() };
        let mut row = row.clone();
        if two_lines {
            let name = std::mem::take(&mut row[0]);
            out.extend(wrap(&name, layout.width - 2).iter().map(|line| format!("  {line}")));
        }
        out.push(line(&row, &widths, &avoid));
    }
    if tests.iter().any(has_safest) {
        let text = "safest: undecided; another option may be faster, by up to the second number of the interval";
        out.extend(wrap(text, layout.width - 2).iter().map(|line| layout.paint.dim(&format!("  {line}"))));
    }
    out.push(String::new());
    out
}

/// The divisor and the unit of all rates; `None` where no unit suits all.
fn scale(tests: &[Test]) -> Option<(f64, &'static str)> {
    let unit = tests.first()?.unit;
    let rates = tests.iter().flat_map(|test| &test.options).filter_map(|option| option.rate);
    common_unit(unit, rates).filter(|_| tests.iter().all(|test| test.unit == unit))
}

fn line(texts: &[String; CELLS], widths: &[usize; CELLS], avoid: &str) -> String {
    let shown = texts.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0);
    let shown: Vec<String> = shown
        .map(|(at, (text, &width))| {
            let text = if at == 1 { cut_parts(text, width) } else { text.clone() };
            if matches!(at, 2 | 3) { format!("{text:>width$}") } else { format!("{text:<width$}") }
        })
        .collect();
    format!("  {}  {avoid}", shown.join("  ")).trim_end().to_owned()
}

/// The conditions, the option to use, its rate, p99 and interval.
fn row(test: &Test, is_alone: bool, scale: Option<(f64, &'static str)>) -> [String; CELLS] {
    let conditions = if is_alone { test.name.clone() } else { test.conditions.clone() };
    let Some(own) = test.recommended_option() else {
        let why = match test.state {
            TestState::Invalid => "not valid",
            TestState::Failed => "failed",
            TestState::Inconclusive => "undecided",
            _ => "no result yet",
        };
        return [conditions, "–".into(), String::new(), String::new(), why.into()];
    };
    let rate = own.rate.map_or_else(String::new, |rate| match scale {
        Some((divisor, _)) => significant(rate / divisor, 3),
        None => {
            let (divisor, unit) = rate_unit(test.unit, rate);
            format!("{} {unit}", significant(rate / divisor, 3))
        }
    });
    let p99 = own.p99_ns.map_or_else(String::new, time);
    // One option alone is measured, not recommended.
    let (label, slower) = match test.state {
        TestState::Single => ("–".to_owned(), format!("{} only", own.label)),
        _ => (recommended_label(test, own), own.slower.clone()),
    };
    [conditions, label, rate, p99, slower]
}

/// The options to avoid, the worst first; those that do not fit are counted.
fn avoid(test: &Test, scale: ShareScale, width: usize) -> String {
    let text = |one: &Avoided| match &one.harm {
        Some(harm) => format!("{} ({harm})", one.label),
        None => format!("{} {}", one.label, one.interval(scale)),
    };
    let each: Vec<String> = test.avoid.iter().map(text).collect();
    for count in (1..=each.len()).rev() {
        let more = if count < each.len() { format!(", +{}", each.len() - count) } else { String::new() };
        let text = each[..count].join(", ") + &more;
        if chars(&text) <= width {
            return text;
        }
    }
    if each.is_empty() { String::new() } else { bytegauge_model::unit::counted(each.len(), "option") }
}
