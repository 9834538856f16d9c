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
    let [first, _, ..] = results.tests else { return None };
    let axes: Vec<(&str, Vec<Level>)> = results.tests.iter().map(axis).collect::<Option<_>>()?;
    let (factor, columns) = &axes[0];
    let is_shared = |own: &[Level]| own.len() == columns.len() && own.iter().all(|level| columns.contains(level));
    if !(2..=COLUMNS_MAX).contains(&columns.len()) || !axes.iter().all(|(_, own)| is_shared(own)) {
        return None;
    }
    let options = results.tests.iter().flat_map(|test| &test.options);
    let scale = ShareScale::of(options.filter_map(|option| option.slower_lower));
    let tests = results.tests.iter().zip(&axes);
    let rows = tests.flat_map(|(test, (factor, _))| rows(test, factor, columns, scale)).collect();
    // Tests with several costs are those of time and others.
    let is_alike = results.tests.iter().all(|test| test.compares == first.compares);
    let words = cost_words(if is_alike { first.compares } else { Cost::Time });
    let heading = if scale.multiples { words.ratio.to_owned() } else { format!("{} by … %", words.above) };
    let columns = columns.iter().map(|level| phrase::compact(factor, level)).collect();
    Some(Matrix { heading, columns, rows })
}

/// The factor of the columns, the one with most values among the options of a test, and its values in the order of the plan.
fn axis(test: &Test) -> Option<(&str, Vec<Level>)> {
    let levels = |name: &str| phrase::unique(test.options.iter().map(|option| option.settings.get(name)));
    // The first of equals.
    let all = test.varied.iter().rev().map(|name| (name.as_str(), levels(name)));
    all.max_by_key(|(_, levels)| levels.len())
}

/// The rows of a test: one for each combination of its other settings.
fn rows(test: &Test, column: &str, columns: &[Level], scale: ShareScale) -> Vec<MatrixRow> {
    let part = |option: &OptionResult| {
        let others = test.varied.iter().filter(|name| *name != column);
        let others = others.map(|name| level_label(&test.varied, &test.environment, name, &option.settings.get(name)));
        others.collect::<Vec<_>>().join(" + ")
    };
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
    phrase::unique(test.options.iter().map(part)).into_iter().enumerate().map(row).collect()
}

/// `118–156`, with `*` for use and `~` for undecided; a word for an option without an interval.
fn text(option: &OptionResult, scale: ShareScale) -> String {
    let ends = option.slower_lower.zip(option.slower_upper);
    let interval = ends.map(|(lower, upper)| scale.interval(lower, upper).trim_end_matches([' ', '%', '×']).to_owned());
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
