//! Small maps of a group: two sizes as a grid of shaded numbers, one size as bars; of rings their size by who drives
//! them.
//!
//! Shade shows the share of the largest rate; the number stands in every field and marks are characters, so
//! nothing is told by colour alone. Too narrow for numbers, a digit shows tenths of the largest rate.

use std::collections::BTreeMap;

use anstyle::{Ansi256Color, AnsiColor, Style};
use bytegauge_model::unit::significant;
use bytegauge_model::{CellKind, Level, factor};

use super::cell_text::{Mark, Marks, cell_rate, compact_level, is_confirmed, rate, rate_unit, rounded, scale};
use super::paint::{Paint, wrap};
use crate::phrase;
use crate::view::View;
use crate::view::document::{CellView, GroupView};

/// Ten steps of viridis in the 256-colour palette: even in lightness, told apart by the colour-blind.
const SHADES: [u8; 10] = [53, 54, 60, 24, 30, 36, 35, 77, 148, 220];
/// From this step on the ground is light enough for black text.
const LIGHT_FROM: usize = 5;

/// Width of a field: a number between two marks.
const FIELD: usize = 6;
const BAR_WIDTH: usize = 32;

/// The map of a group, as lines; none where nothing was screened along a size.
pub fn lines(view: &View, group: &GroupView, width: usize, paint: Paint) -> Vec<String> {
    let cells: Vec<&CellView> = view
        .cells_of(&group.id)
        .filter(|cell| cell.kind == CellKind::Candidate && cell.estimate.median.is_some_and(|rate| rate > 0.0))
        .collect();
    let sizes: Vec<&str> = group
        .varied
        .iter()
        .map(String::as_str)
        .filter(|name| cells.iter().filter_map(|cell| cell.level(name).number()).count() >= 2)
        .collect();
    let marks = Marks::of_group(view, group);
    let by_ring = group.varied.iter().any(|name| name == "implementation");
    match sizes.as_slice() {
        [down, ..] if by_ring => grid(&cells, &marks, group.varied.len() > 2, down, "implementation", width, paint),
        [down, across, ..] => grid(&cells, &marks, group.varied.len() > 2, down, across, width, paint),
        // One size and one name: the names side by side.
        [down] if group.varied.len() == 2 => {
            let across = group.varied.iter().find(|name| name.as_str() != *down).map_or("", String::as_str);
            grid(&cells, &marks, false, down, across, width, paint)
        }
        [one] if group.varied.len() == 1 => bars(&cells, &marks, one, width, paint),
        _ => Vec::new(),
    }
}

fn levels(cells: &[&CellView], name: &str) -> Vec<Level> {
    let mut levels: Vec<Level> = cells.iter().map(|cell| cell.level(name)).collect();
    levels.sort();
    levels.dedup();
    levels
}

/// The cell that stands for each field, of those that agree in both sizes: the one that is named, else one that was
/// confirmed, else the fastest (positive rates order as their bits do).
fn fields<'a>(
    cells: &[&'a CellView],
    marks: &Marks,
    down: &str,
    across: &str,
) -> BTreeMap<(Level, Level), &'a CellView> {
    let merit = |cell: &CellView| {
        (marks.of(cell).is_named(), is_confirmed(cell), cell.estimate.median.unwrap_or(0.0).to_bits())
    };
    let mut fields: BTreeMap<(Level, Level), &CellView> = BTreeMap::new();
    for cell in cells {
        let field = fields.entry((cell.level(down), cell.level(across))).or_insert(cell);
        if merit(cell) > merit(field) {
            *field = cell;
        }
    }
    fields
}

fn grid(
    cells: &[&CellView],
    marks: &Marks,
    crowded: bool,
    down: &str,
    across: &str,
    width: usize,
    paint: Paint,
) -> Vec<String> {
    let (rows, columns) = (levels(cells, down), levels(cells, across));
    let most = largest(cells);
    let base = cells.first().map_or("", |cell| cell.estimate.unit);
    let (unit, unit_name) = rate_unit(base, most);
    let label_width = rows.iter().map(|level| short(down, level).chars().count()).max().unwrap_or(0).max(5) + 2;
    // Names of rings are longer than sizes.
    let wide = columns.iter().map(|level| short(across, level).chars().count()).max().unwrap_or(0).max(FIELD);
    let numbers = label_width + columns.len() * (wide + 1) <= width;
    let field = if numbers { wide } else { 2 };
    if label_width + columns.len() * (field + 1) > width {
        return Vec::new();
    }
    let what = if numbers { unit_name.to_owned() } else { format!("tenths of {}", rate(base, most)) };
    let others = if crowded { ", the best over the other choices" } else { "" };
    let looked = numbers && cells.iter().any(|cell| !is_confirmed(cell));
    let looked = if looked { "   (…): only screened" } else { "" };
    let title = format!("{} ↓  {} →   {what}{others}", phrase::in_code(down), phrase::in_code(across));
    let fits = title.chars().count() + looked.chars().count() <= width;
    let mut lines = vec![paint.dim(&format!("{title}{}", if fits { looked } else { "" }))];
    let mut head = " ".repeat(label_width);
    for level in &columns {
        head.push_str(&format!("{:>field$} ", short(across, level)));
    }
    lines.push(paint.dim(head.trim_end()));
    let fields = fields(cells, marks, down, across);
    for row in &rows {
        let mut line = format!("{:>label_width$}", format!("{}  ", short(down, row)));
        for column in &columns {
            line.push_str(&match fields.get(&(row.clone(), column.clone())) {
                None => format!("{:^field$}", "·"),
                Some(cell) => {
                    let median = cell.estimate.median.unwrap_or(0.0);
                    let text = match (numbers, is_confirmed(cell)) {
                        (false, _) => framed(&tenth(median, most), marks.of(cell), field),
                        (true, true) => framed(&fixed(median / unit), marks.of(cell), field),
                        (true, false) if marks.of(cell) == Mark::Avoid => {
                            format!("{:>field$}", format!("{}({})", Mark::Avoid.symbol(), rounded(median / unit)))
                        }
                        (true, false) => format!("{:>field$}", format!("({})", rounded(median / unit))),
                    };
                    shaded(&text, median / most, paint)
                }
            });
            line.push(' ');
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
        .extend(legend(&fields, marks, numbers).iter().flat_map(|text| wrap(text, width)).map(|line| paint.dim(&line)));
    lines
}

/// What frames a number, and why that need not be the largest one.
fn legend(fields: &BTreeMap<(Level, Level), &CellView>, marks: &Marks, numbers: bool) -> Option<String> {
    let used = |mark: &Mark| fields.values().any(|cell| marks.of(cell) == *mark);
    let each: Vec<String> = Mark::SHOWN
        .into_iter()
        .filter(used)
        .map(|mark| {
            let (left, right) = frame(mark);
            let right = if numbers && mark != Mark::Avoid { format!("…{right}") } else { String::new() };
            format!("{left}{right} {}", marks.meaning(mark))
        })
        .collect();
    (!each.is_empty()).then(|| format!("{}: by comparisons within blocks, and not by these medians", each.join("   ")))
}

fn bars(cells: &[&CellView], marks: &Marks, name: &str, width: usize, paint: Paint) -> Vec<String> {
    let (most, scale) = (largest(cells), scale(cells.iter().copied()));
    let room = width.saturating_sub(30).min(BAR_WIDTH);
    if room < 8 {
        return Vec::new();
    }
    let mut ordered: Vec<&CellView> = cells.to_vec();
    ordered.sort_by_key(|cell| cell.level(name));
    let mut lines = vec![paint.dim(&format!("{} ↓", phrase::in_code(name)))];
    for cell in ordered {
        let median = cell.estimate.median.unwrap_or(0.0);
        let eighths = ((median / most) * (room * 8) as f64).round() as usize;
        let part = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
        let bar = format!("{}{part}", "█".repeat(eighths / 8));
        let padding = " ".repeat(room.saturating_sub(bar.chars().count()));
        let bar = paint.style(Style::new().fg_color(Some(shade(median / most).into())), &bar);
        let mark = marks.of(cell).symbol();
        lines.push(format!("{mark} {:>6}  {bar}{padding}  {:>12}", compact_level(cell, name), cell_rate(cell, scale)));
    }
    lines
}

fn largest(cells: &[&CellView]) -> f64 {
    cells.iter().filter_map(|cell| cell.estimate.median).fold(f64::MIN_POSITIVE, f64::max)
}

fn short(name: &str, level: &Level) -> String {
    factor::find(name).map_or_else(|| level.to_string(), |factor| factor.kind.compact(level))
}

/// Four characters: `3.92`, `0.04`, `12.3`, ` 815`.
fn fixed(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{:>4}", significant(v.round(), 4)),
    }
}

fn tenth(value: f64, most: f64) -> String {
    (((value / most) * 10.0) as usize).min(9).to_string()
}

/// What stands on either side of a number.
fn frame(mark: Mark) -> (&'static str, &'static str) {
    match mark {
        Mark::Recommended => ("▶", "◀"),
        Mark::EnoughHere => ("◆", "◆"),
        Mark::BestHere => ("◇", "◇"),
        Mark::BestConfirmed => ("▷", "◁"),
        Mark::BestSet => ("[", "]"),
        Mark::Avoid => (mark.symbol(), " "),
        Mark::None => (" ", " "),
    }
}

fn framed(text: &str, mark: Mark, field: usize) -> String {
    let (left, right) = frame(mark);
    if field < 3 { format!("{left}{text}") } else { format!("{:>field$}", format!("{left}{text:>4}{right}")) }
}

fn step(share: f64) -> usize {
    ((share * 10.0) as usize).min(9)
}

fn shade(share: f64) -> Ansi256Color {
    Ansi256Color(SHADES[step(share)])
}

fn shaded(text: &str, share: f64, paint: Paint) -> String {
    let ink = if step(share) >= LIGHT_FROM { AnsiColor::Black } else { AnsiColor::BrightWhite };
    paint.style(Style::new().bg_color(Some(shade(share).into())).fg_color(Some(ink.into())), text)
}
