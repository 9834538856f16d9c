//! A table of texts: a heading for each column, and a text for each row.

use schemars::JsonSchema;
use serde::Serialize;

use super::fit::{padded, text_width};

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// A text for each row.
    pub texts: Vec<String>,
    /// Numbers align right, texts left.
    pub right: bool,
    /// Whether the first screen has it.
    pub brief: bool,
}

impl Column {
    /// A column of texts.
    pub fn of<T>(heading: &str, right: bool, rows: &[T], text: impl Fn(&T) -> String) -> Column {
        Column { heading: heading.to_owned(), texts: rows.iter().map(text).collect(), right, brief: true }
    }

    /// Columns of its widest text on a terminal.
    pub fn width(&self) -> usize {
        self.texts.iter().map(|text| text_width(text)).chain([text_width(&self.heading)]).max().unwrap_or(0)
    }

    /// A text as wide as the column.
    pub fn padded(&self, text: &str) -> String {
        padded(text, self.width(), self.right)
    }
}

/// The heading and a line for each row, two spaces apart.
pub fn lines(columns: &[Column]) -> Vec<String> {
    let rows = columns.first().map_or(0, |column| column.texts.len());
    let line = |text: &dyn Fn(&Column) -> String| {
        let texts: Vec<String> = columns.iter().map(|column| column.padded(&text(column))).collect();
        texts.join("  ").trim_end().to_owned()
    };
    let heading = line(&|column| column.heading.clone());
    [heading].into_iter().chain((0..rows).map(|at| line(&|column| column.texts[at].clone()))).collect()
}

/// The same in several tables that each fit a width and begin with the first column.
pub fn fitted(columns: &[Column], width: usize) -> Vec<String> {
    let Some((first, rest)) = columns.split_first() else { return Vec::new() };
    let wide = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    let fits = |count: &usize| first.width() + wide(&rest[..*count]) <= width;
    let count = (1..=rest.len()).rfind(fits).unwrap_or(1.min(rest.len()));
    let mut out = lines(&[&columns[..1], &rest[..count]].concat());
    if count < rest.len() {
        out.extend(fitted(&[&columns[..1], &rest[count..]].concat(), width));
    }
    out
}
