//! The parts that the first screen and the full text have in common.

use anstyle::{AnsiColor, Style};

use crate::Report;
use crate::document::{Decision, Matrix, MatrixRow, NextStep};
use crate::results::OptionStatus;
use crate::words::fit::{padded, text_width};
use crate::words::paint::{Paint, TerminalStyle, wrap};
use crate::words::table::{self, Column};

/// Shorter lines hold no table; wider ones are hard to follow.
const COLUMNS: std::ops::RangeInclusive<usize> = 40..=200;
/// Longer lines of text are hard to read.
const TEXT_MAX: usize = 110;
/// A shorter reason is useless: rates give way.
const REASON_MIN: usize = 16;
/// The width of the headings `Caution` and `Next`.
const HEADING: usize = 9;

/// How wide and in which colours text is laid out.
pub struct Layout<'a> {
    pub width: usize,
    pub paint: Paint,
    pub program: &'a str,
}

impl<'a> Layout<'a> {
    /// For a terminal.
    pub fn of(style: &'a TerminalStyle) -> Layout<'a> {
        let width = style.columns.clamp(*COLUMNS.start(), *COLUMNS.end());
        Layout { width, paint: Paint(style.colour), program: &style.program }
    }

    /// How wide text is; tables use the whole width.
    pub fn text(&self) -> usize {
        self.width.min(TEXT_MAX)
    }

    /// The first line, broken between its parts.
    pub fn heading(&self, text: &str) -> Vec<String> {
        if text_width(text) <= self.width || text.contains(bytegauge_model::escape::is_hidden) {
            return vec![self.paint.bold(text)];
        }
        let mut lines: Vec<String> = Vec::new();
        for part in text.split(" · ") {
            match lines.last_mut() {
                Some(line) if text_width(line) + 3 + text_width(part) <= self.width => *line += &format!(" · {part}"),
                _ => lines.extend(wrap(part, self.width)),
            }
        }
        lines.iter().map(|line| self.paint.bold(line)).collect()
    }

    /// Text, indented by two.
    pub fn paragraph(&self, text: &str) -> Vec<String> {
        wrap(text, self.text() - 4).into_iter().map(|line| format!("  {line}")).collect()
    }

    /// Texts behind a heading: `Caution  …`.
    pub fn headed(&self, heading: &str, texts: &[String]) -> Vec<String> {
        let mut out = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            for (line_at, line) in wrap(text, self.text() - HEADING - 4).into_iter().enumerate() {
                let heading = if at == 0 && line_at == 0 { heading } else { "" };
                let indent = if line_at == 0 { "" } else { "  " };
                out.push(format!("  {} {indent}{line}", self.paint.bold(&format!("{heading:<w$}", w = HEADING - 1))));
            }
        }
        out
    }

    /// The next steps: a command in a line that can be typed, with the time that it takes, or a text.
    pub fn next(&self, steps: &[&NextStep], with_texts: bool) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for step in steps {
            let heading = if out.is_empty() { "Next" } else { "" };
            let Some(command) = step.typed(self.program) else {
                out.extend(self.headed(heading, std::slice::from_ref(&step.text)));
                continue;
            };
            let heading = self.paint.bold(&format!("{heading:<w$}", w = HEADING - 1));
            // A comment of the shell, so that the whole line can be copied.
            let takes = step.takes.as_ref().map_or_else(String::new, |takes| format!("  # {takes}"));
            out.push(format!("  {heading} {command}{takes}"));
            if with_texts && !step.text.is_empty() {
                let indent = " ".repeat(HEADING + 4);
                out.extend(wrap(&step.text, self.text() - HEADING - 6).iter().map(|line| format!("{indent}{line}")));
            }
        }
        out
    }

    /// A text in the colour of a state.
    pub fn coloured(&self, status: OptionStatus, text: &str) -> String {
        let colour = match status {
            OptionStatus::Use | OptionStatus::AsGood => Style::new().fg_color(Some(AnsiColor::Green.into())),
            OptionStatus::Avoid => Style::new().fg_color(Some(AnsiColor::Red.into())),
            OptionStatus::Undecided => Style::new(),
            OptionStatus::Dropped | OptionStatus::Skipped | OptionStatus::Failed => Style::new().dimmed(),
        };
        if colour == Style::new() { text.to_owned() } else { self.paint.style(colour, text) }
    }

    /// The first table: what to set in each test, and how certain it is. A decision that is too long for its column takes more lines.
    pub fn decisions(&self, report: &Report, decisions: &[&Decision]) -> Vec<String> {
        let is_program = report.tests.iter().all(|test| test.environment.role().is_some());
        let level = crate::words::interval_rounding::percent(report.plan.level);
        let one_unit = decisions.windows(2).all(|pair| pair[0].unit == pair[1].unit);
        let unit = decisions.first().map_or("", |one| if one_unit { one.unit.as_str() } else { "rate" });
        let rate = |one: &&Decision| if one_unit { one.rate.clone() } else { format!("{} {}", one.rate, one.unit) };
        let set = |one: &Decision| wrap(&one.set, (self.width / 3).max(16));
        let lines = |one: &Decision, room: usize| {
            let own = [vec![one.name.clone()], set(one), vec![rate(&one)], wrap(&one.why, room)];
            let count = own.iter().map(Vec::len).max().unwrap_or(0);
            let of = |at: usize| own.each_ref().map(|lines| lines.get(at).cloned().unwrap_or_default());
            (0..count).map(of).collect::<Vec<_>>()
        };
        let headings = [if is_program { "your program" } else { "test" }, "set", unit, &format!("the best ({level})")];
        let columns = |shown: &[usize], room: usize| -> Vec<Column> {
            let rows: Vec<[String; 4]> = decisions.iter().flat_map(|one| lines(one, room)).collect();
            shown.iter().map(|at| Column::of(headings[*at], false, &rows, |row| row[*at].clone())).collect()
        };
        // On a narrow terminal rates give way to the reason.
        let used = |shown: &[usize]| 2 + columns(shown, REASON_MIN).iter().map(|one| one.width() + 2).sum::<usize>();
        let has_rates = decisions.iter().any(|one| !one.rate.is_empty()) && used(&[0, 1, 2]) + REASON_MIN <= self.width;
        let shown: &[usize] = if has_rates { &[0, 1, 2, 3] } else { &[0, 1, 3] };
        let room = self.width.saturating_sub(used(&shown[..shown.len() - 1])).max(REASON_MIN);
        let text = table::lines(&columns(shown, room));
        let status = |one: &Decision| if one.is_certain { OptionStatus::Use } else { OptionStatus::Undecided };
        let states = decisions.iter().flat_map(|one| vec![status(one); lines(one, room).len()]);
        let rows = text.iter().skip(1).zip(states).map(|(line, status)| self.coloured(status, &format!("  {line}")));
        [self.paint.dim(&format!("  {}", text[0]))].into_iter().chain(rows).collect()
    }

    /// Tests as rows, options as columns; nothing where a line is too narrow.
    pub fn matrix(&self, matrix: &Matrix) -> Vec<String> {
        let name = matrix.rows.iter().map(|row| text_width(&row.name)).max().unwrap_or(0);
        let has_parts = matrix.rows.iter().any(|row| !row.part.is_empty());
        let label = |row: &MatrixRow| match has_parts {
            true => format!("{}  {}", padded(&row.name, name, false), row.part),
            false => row.name.clone(),
        };
        let first = Column::of(&matrix.heading, false, &matrix.rows, label);
        let values = matrix.columns.iter().enumerate();
        let of_value =
            |(at, heading): (usize, &String)| Column::of(heading, true, &matrix.rows, |row| row.text(at).to_owned());
        let columns: Vec<Column> = [first].into_iter().chain(values.map(of_value)).collect();
        if columns.iter().map(|column| column.width() + 2).sum::<usize>() > self.width {
            return Vec::new();
        }
        let mut out = vec![self.paint.dim(&format!("  {}", table::lines(&columns)[0]))];
        for (at, row) in matrix.rows.iter().enumerate() {
            let text = |column: &Column| format!("  {}", column.padded(&column.texts[at]));
            let shown = columns[1..].iter().zip(&row.cells).map(|(column, cell)| {
                let status = cell.as_ref().map_or(OptionStatus::Undecided, |cell| cell.status);
                self.coloured(status, &text(column))
            });
            out.push(text(&columns[0]) + &shown.collect::<String>());
        }
        let has = |mark: &str| {
            matrix.rows.iter().flat_map(|row| row.cells.iter().flatten()).any(|cell| cell.text.contains(mark))
        };
        let legend = [
            ("*", "* use"),
            ("~", "~ undecided"),
            ("drop", "drop: far behind in the first trials, no interval"),
            ("harm", "harm: harmful"),
        ];
        let legend: Vec<&str> = legend.into_iter().filter(|(mark, _)| has(mark)).map(|(_, text)| text).collect();
        if !legend.is_empty() {
            out.push(self.paint.dim(&format!("  {}", legend.join("   "))));
        }
        out
    }
}
