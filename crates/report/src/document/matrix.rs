//! Tests as rows, options as columns, where tests share their options: how much slower each is.

use bytegauge_model::{CellId, Cost, GroupId, Level};
use schemars::JsonSchema;
use serde::Serialize;

use super::Results;
use crate::results::{OptionResult, OptionStatus, Test};
use crate::words::interval_rounding::ShareScale;
use crate::words::{cost_words, level_label, phrase};

/// More columns than this do not fit a line.
const COLUMNS_MAX: usize = 12;
/// A larger upper end is shown as above it, as a share.
const UPPER_MAX: f64 = 4.0;

/// The intervals of several tests.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Matrix {
    /// What the numbers are: `slower than the best by … %`.
    pub heading: String,
    /// The values of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<MatrixRow>,
}

/// One row: a test, or a part of its options.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatrixRow {
    /// The test.
    pub test: GroupId,
    /// Its name; empty in further rows of one test.
    pub name: String,
    /// The other settings of its options; empty where they differ in the columns alone.
    pub part: String,
    /// A cell for each column; `null` where the test has no such option.
    pub cells: Vec<Option<MatrixCell>>,
}

impl MatrixRow {
    /// The text of a column.
    pub fn text(&self, column: usize) -> &str {
        self.cells[column].as_ref().map_or("–", |cell| &cell.text)
    }
}

/// One option of a test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MatrixCell {
    /// The option.
    pub option: CellId,
    /// How it compares.
    pub status: OptionStatus,
    /// Its interval, or why it has none.
    pub text: String,
}

/// The matrix of the tests; `None` of one test, and where they share no options.
pub fn matrix(results: &Results) -> Option<Matrix> {
    let tests: Vec<&Test> = results.tests.iter().collect();
    let [first, _, ..] = tests.as_slice() else { return None };
    let column = column_factor(first);
    let columns = shared_levels(&tests, column)?;
    if columns.len() < 2 || columns.len() > COLUMNS_MAX {
        return None;
    }
    let scale = ShareScale::of(tests.iter().flat_map(|test| &test.options).filter_map(|option| option.slower_lower));
    let rows = tests.iter().flat_map(|test| rows(test, column_factor(test), &columns, scale)).collect();
    // Tests with several costs are those of time and others.
    let cost = if tests.iter().all(|test| test.compares == first.compares) { first.compares } else { Cost::Time };
    let words = cost_words(cost);
    let heading = if scale.multiples { words.ratio.to_owned() } else { format!("{} by … %", words.above) };
    let label = |level: &Level| {
        let factor = column.unwrap_or_default();
        phrase::compact(factor, level)
    };
    Some(Matrix { heading, columns: columns.iter().map(label).collect(), rows })
}

/// The factor of the columns: the one with most values among the options of a test.
fn column_factor(test: &Test) -> Option<&str> {
    let values = |name: &&String| {
        let mut levels: Vec<Level> = test.options.iter().map(|option| option.settings.get(name)).collect();
        levels.sort();
        levels.dedup();
        levels.len()
    };
    // The first of equals.
    test.varied.iter().rev().max_by_key(values).map(String::as_str)
}

/// The values of the columns in the order of the plan, where all tests have them.
fn shared_levels(tests: &[&Test], column: Option<&str>) -> Option<Vec<Level>> {
    column?;
    let levels = |test: &Test| {
        let factor = column_factor(test).unwrap_or_default();
        let mut levels: Vec<Level> = Vec::new();
        for level in test.options.iter().map(|option| option.settings.get(factor)) {
            if !levels.contains(&level) {
                levels.push(level);
            }
        }
        levels
    };
    let first = levels(tests[0]);
    let is_shared = |test: &&Test| {
        let own = levels(test);
        own.len() == first.len() && own.iter().all(|level| first.contains(level))
    };
    tests.iter().all(is_shared).then_some(first)
}

/// The rows of a test: one for each combination of its other settings.
fn rows(test: &Test, column: Option<&str>, columns: &[Level], scale: ShareScale) -> Vec<MatrixRow> {
    let Some(column) = column else { return Vec::new() };
    let part = |option: &OptionResult| {
        let others = test.varied.iter().filter(|name| *name != column);
        let others = others.map(|name| level_label(&test.varied, &test.environment, name, &option.settings.get(name)));
        others.collect::<Vec<_>>().join(" + ")
    };
    let mut parts: Vec<String> = Vec::new();
    for option in &test.options {
        let own = part(option);
        if !parts.contains(&own) {
            parts.push(own);
        }
    }
    let row = |(at, own): (usize, String)| {
        let cell = |level: &Level| {
            let is_it = |option: &&OptionResult| option.settings.get(column) == *level && part(option) == own;
            let option = test.options.iter().find(is_it)?;
            Some(MatrixCell { option: option.id.clone(), status: option.status, text: text(option, scale) })
        };
        MatrixRow {
            test: test.id.clone(),
            name: if at == 0 { test.name.clone() } else { String::new() },
            cells: columns.iter().map(cell).collect(),
            part: own.clone(),
        }
    };
    parts.into_iter().enumerate().map(row).collect()
}

/// `118–156`, with `*` for use and `~` for undecided; a word for an option without an interval.
fn text(option: &OptionResult, scale: ShareScale) -> String {
    let interval = option.slower_lower.zip(option.slower_upper).map(|(lower, upper)| interval(scale, lower, upper));
    match (option.status, interval) {
        (OptionStatus::Use, Some(interval)) => format!("*{interval}"),
        (OptionStatus::Undecided, Some(interval)) => format!("{interval}~"),
        (_, Some(interval)) => interval,
        (OptionStatus::Failed, None) => "fail".into(),
        (OptionStatus::Skipped, None) => "skip".into(),
        (OptionStatus::Avoid, None) => "harm".into(),
        (OptionStatus::Dropped, None) => "drop".into(),
        (_, None) => "–".into(),
    }
}

/// An interval without its unit.
pub fn interval(scale: ShareScale, lower: f64, upper: f64) -> String {
    if !scale.multiples && upper > UPPER_MAX {
        let lower = scale.at_least(lower);
        return format!("{}–>400", lower.trim_end_matches(" %"));
    }
    scale.interval(lower, upper).trim_end_matches(" %").trim_end_matches('×').to_owned()
}
