//! Many answers at one look: a grid of who is best under which conditions, where a plan asks one question of each.
//!
//! A field holds the choice that the verdict names and its rate; the sentence of each stands with its group. Says
//! nothing that the verdicts do not say.

use std::collections::BTreeMap;

use bytegauge_model::{CellKind, Level, Role, factor};

use super::cell_text::{UNKNOWN, compact_level, rate_unit, standing};
use super::use_table::mark;
use crate::phrase;
use crate::view::View;
use crate::view::document::{CellView, Standing, VerdictView};

/// So many sentences are read one by one; more are laid out as a grid.
const SENTENCES_MAX: usize = 6;

/// A grid of answers. The conditions that vary are its rows and columns; where more than two do, there are several.
pub struct Overview {
    /// One line over all grids: what a field holds.
    pub legend: String,
    /// The grids.
    pub grids: Vec<Grid>,
}

/// Answers under two conditions, or one, all others alike.
pub struct Grid {
    /// The levels of the other conditions that vary, or nothing.
    pub title: String,
    /// What stands in rows and columns.
    pub corner: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows: their heading, and a field a column.
    pub rows: Vec<(String, Vec<String>)>,
}

/// One answer under its conditions.
struct Answer<'a> {
    verdict: &'a VerdictView,
    /// Any cell of its first group: whose conditions are the verdict's.
    under: &'a CellView,
    /// The cell that the verdict names there.
    named: Option<&'a CellView>,
    /// How far it is believed, as among what to use.
    standing: Standing,
}

impl Overview {
    /// The grids of a session; `None` where its sentences are few enough to be read.
    pub fn of(view: &View) -> Option<Overview> {
        if view.verdicts.len() <= SENTENCES_MAX {
            return None;
        }
        let answers: Vec<Answer> = view.verdicts.iter().filter_map(|verdict| Answer::of(view, verdict)).collect();
        let mut varied: Vec<(&'static str, Vec<Level>)> = factor::FACTORS
            .iter()
            .filter(|factor| factor.role == Role::Condition && factor.name != "profile")
            .map(|factor| (factor.name, levels(&answers, factor.name)))
            .filter(|(_, levels)| levels.len() > 1)
            .collect();
        // The two with the most levels span the grids; those that stay keep the order of the table.
        varied.sort_by_key(|(_, levels)| std::cmp::Reverse(levels.len()));
        let mut axes: Vec<(&'static str, Vec<Level>)> = varied.drain(..varied.len().min(2)).collect();
        let columns = if axes.len() == 2 { axes.pop() } else { None };
        let rows = axes.pop()?;
        let most = answers.iter().filter_map(Answer::rate).fold(f64::MIN_POSITIVE, f64::max);
        let base = answers.iter().find_map(|answer| answer.named).or(answers.first().map(|answer| answer.under));
        let base = base.map_or("", |cell| cell.estimate.unit);
        let unit = rate_unit(base, most);
        let mut parts: BTreeMap<Vec<Level>, Vec<&Answer>> = BTreeMap::new();
        for answer in &answers {
            parts.entry(varied.iter().map(|(name, _)| answer.under.level(name)).collect()).or_default().push(answer);
        }
        let proven = answers.iter().filter(|answer| answer.standing == Standing::Proven).count();
        let profile = answers.iter().find(|answer| answer.verdict.profiles.len() > 1);
        let profile =
            profile.map_or_else(String::new, |answer| format!(" in the profile {}", answer.verdict.profiles[0]));
        let legend = format!(
            "best bounded, {}{profile}: {proven} of {} proven (✓), the others open (○) or in doubt (?), which need not have \
             the best median; each is spelled out with its group",
            unit.1,
            answers.len()
        );
        let grids = parts.into_values().map(|part| grid(&part, &varied, &rows, columns.as_ref(), unit.0)).collect();
        Some(Overview { legend, grids })
    }
}

impl Overview {
    /// The least width that the grids need, characters.
    pub fn width_min(&self) -> usize {
        self.grids.iter().map(Grid::narrowest).max().unwrap_or(0)
    }
}

impl<'a> Answer<'a> {
    fn of(view: &'a View, verdict: &'a VerdictView) -> Option<Answer<'a>> {
        let group = verdict.groups.first()?;
        let under = view.cells_of(group).find(|cell| cell.kind == CellKind::Candidate)?;
        let named =
            verdict.recommendation.cells.values().find_map(|id| view.cell(id).filter(|cell| cell.group == *group));
        Some(Answer { verdict, under, named, standing: standing(view, verdict) })
    }

    fn rate(&self) -> Option<f64> {
        self.named.and_then(|cell| cell.estimate.median)
    }

    /// `✓ epoll 45.9`.
    fn text(&self, unit: f64) -> String {
        let (Some(cell), Some(rate)) = (self.named, self.rate()) else { return UNKNOWN.into() };
        let sign = mark(self.standing);
        let choice: Vec<String> =
            self.verdict.recommendation.choice.keys().map(|name| compact_level(cell, name)).collect();
        let rate = bytegauge_model::unit::significant(rate / unit, 3);
        format!("{sign} {} {rate}", choice.join(" ")).replace("  ", " ")
    }
}

fn levels(answers: &[Answer], name: &str) -> Vec<Level> {
    let mut levels: Vec<Level> = answers.iter().map(|answer| answer.under.level(name)).collect();
    levels.sort();
    levels.dedup();
    levels
}

fn grid(
    answers: &[&Answer],
    others: &[(&'static str, Vec<Level>)],
    (down, rows): &(&'static str, Vec<Level>),
    across: Option<&(&'static str, Vec<Level>)>,
    unit: f64,
) -> Grid {
    let short = |name: &str, level: &Level| match level {
        Level::Absent => UNKNOWN.into(),
        level => factor::find(name).map_or_else(|| level.to_string(), |factor| factor.kind.compact(level)),
    };
    let title = answers.first().map_or_else(String::new, |answer| {
        let parts =
            others.iter().map(|(name, _)| format!("{} {}", phrase::in_code(name), compact_level(answer.under, name)));
        parts.collect::<Vec<_>>().join(" · ")
    });
    let field = |row: &Level, column: Option<&Level>| {
        let fits = |answer: &&&Answer| {
            answer.under.level(down) == *row
                && across.zip(column).is_none_or(|((name, _), level)| answer.under.level(name) == *level)
        };
        answers.iter().find(fits).map_or_else(|| "·".to_owned(), |answer| answer.text(unit))
    };
    let no_columns = Vec::new();
    let columns = across.map_or(&no_columns, |(_, levels)| levels);
    let present = rows.iter().filter(|row| answers.iter().any(|answer| answer.under.level(down) == **row));
    Grid {
        title,
        corner: match across {
            Some((name, _)) => format!("{} ↓  {} →", phrase::in_code(down), phrase::in_code(name)),
            None => format!("{} ↓", phrase::in_code(down)),
        },
        columns: match across {
            Some((name, levels)) => levels.iter().map(|level| short(name, level)).collect(),
            None => vec![String::new()],
        },
        rows: present
            .map(|row| {
                let fields = match columns.is_empty() {
                    true => vec![field(row, None)],
                    false => columns.iter().map(|column| field(row, Some(column))).collect(),
                };
                (short(down, row), fields)
            })
            .collect(),
    }
}

impl Grid {
    /// The grid as lines of text, columns two spaces apart; columns that do not fit beside the others stand below them.
    pub fn lines(&self, width_max: usize) -> Vec<String> {
        let first = self.first_width();
        let title = (!self.title.is_empty()).then(|| self.title.clone());
        let mut lines: Vec<String> = title.into_iter().collect();
        let mut columns = 0..self.columns.len();
        while !columns.is_empty() {
            let mut used = first;
            let fits = columns.clone().take_while(|&at| {
                used += 2 + self.column_width(at);
                used <= width_max
            });
            let band = columns.start..columns.start + fits.count().max(1);
            lines.push(self.line(&self.corner, &self.columns, band.clone()));
            lines.extend(self.rows.iter().map(|(name, fields)| self.line(name, fields, band.clone())));
            columns.start = band.end;
        }
        lines
    }

    fn line(&self, name: &str, fields: &[String], band: std::ops::Range<usize>) -> String {
        let first = self.first_width();
        let fields = band.map(|at| format!("  {:<wide$}", fields[at], wide = self.column_width(at)));
        format!("{name:>first$}{}", fields.collect::<String>()).trim_end().to_owned()
    }

    fn first_width(&self) -> usize {
        self.rows.iter().map(|(name, _)| width(name)).chain([width(&self.corner)]).max().unwrap_or(0)
    }

    fn column_width(&self, at: usize) -> usize {
        self.rows.iter().map(|(_, fields)| width(&fields[at])).chain([width(&self.columns[at])]).max().unwrap_or(0)
    }

    /// The widest that a line with one column is, characters.
    fn narrowest(&self) -> usize {
        let widest = (0..self.columns.len()).map(|at| self.column_width(at)).max().unwrap_or(0);
        (self.first_width() + 2 + widest).max(width(&self.title))
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}
