//! Rows of what to use that differ in two numbers, as a grid: one condition down, the other across.

use bytegauge_model::unit::counted;

use super::paint::Paint;
use super::use_table::{Table, bound, mark, numbered, rate};
use crate::phrase;
use crate::sentence::times;
use crate::view::document::{GridView, Standing, UseRow, UseView};

/// The longest a choice may stand in a cell; of longer ones the part behind the colon.
const CHOICE_MAX: usize = 9;

/// In every cell the choice and its rate, and the bound where there is room; notes as numbers, explained below.
pub(super) fn table(to_use: &UseView, grid: &GridView, width: usize, paint: &Paint) -> Table {
    let of_grid: Vec<usize> = grid.cells.iter().flatten().flatten().copied().collect();
    let is_here = |at: usize| of_grid.contains(&at);
    // How many times stands in the cell where there is room: the note is the same for all.
    let said = |row: &UseRow| {
        let wide = row.times.map(|_| "no answer yet: may take twice the time of the best or more".to_owned());
        wide.into_iter().chain(row.note.clone()).collect::<Vec<_>>().join("; ")
    };
    let note = |(at, row): (usize, &UseRow)| if is_here(at) { said(row) } else { String::new() };
    let mut notes: Vec<String> = to_use.rows.iter().enumerate().map(note).collect();
    let mut below = numbered(&mut notes, width, paint);
    let noted = |at: usize| !notes[at].is_empty();
    let doubtful = |at: usize| to_use.rows[at].standing == Standing::Doubtful;
    // The mark tells as much where every doubtful cell, and no other, has the one note that there is.
    if below.len() == 1 && of_grid.iter().all(|&at| noted(at) == doubtful(at)) && !below[0].contains("[2]") {
        notes.iter_mut().for_each(String::clear);
        below = below.iter().map(|line| line.replacen("[1]", "?", 1)).collect();
    }
    let short: Vec<String> = to_use.rows.iter().zip(&notes).map(|(row, note)| short(row) + note).collect();
    let longest = of_grid.iter().map(|&at| short[at].chars().count()).max().unwrap_or(0);
    let cells = |told: Told| -> Vec<Vec<String>> {
        let text = |at: &Option<usize>| {
            at.map(|at| {
                let row = &to_use.rows[at];
                let choice = format!("{}{:<longest$}", mark(row.standing), short[at]);
                format!("{choice}{}", numbers(to_use, row, told)).trim_end().to_owned()
            })
        };
        grid.cells.iter().map(|row| row.iter().map(|at| text(at).unwrap_or_default()).collect()).collect()
    };
    let labels = grid.down.levels.iter().map(String::as_str).chain([phrase::in_code(&grid.down.factor)]);
    let down = labels.map(|label| label.chars().count()).max().unwrap_or(0);
    let widths = |cells: &[Vec<String>]| -> Vec<usize> {
        let heads = grid.across.levels.iter().enumerate();
        let of_column = |(x, head): (usize, &String)| {
            let texts = cells.iter().map(|row| row[x].chars().count()).chain([head.chars().count() + 1]);
            texts.max().unwrap_or(0)
        };
        heads.map(of_column).collect()
    };
    let taken = |widths: &[usize]| 2 + down + widths.iter().map(|width| width + 2).sum::<usize>();
    let fits = |told: &Told| taken(&widths(&cells(*told))) <= width;
    let told = [Told::Bounds, Told::Rates].into_iter().find(fits).unwrap_or(Told::Choices);
    let cells = cells(told);
    let mut widths = widths(&cells);
    let all = widths.len();
    while widths.len() > 1 && taken(&widths) > width {
        widths.pop();
    }
    if widths.len() < all {
        below.push(paint.dim(&format!("  … {}: --full", counted(all - widths.len(), "more column"))));
    }
    let line = |first: &str, texts: &dyn Fn(usize) -> String| {
        let cells: String = widths.iter().enumerate().map(|(x, width)| format!("  {:<width$}", texts(x))).collect();
        format!("  {first:>down$}{cells}").trim_end().to_owned()
    };
    let mut lines = vec![format!("{}{}", paint.bold("USE    "), paint.dim(&what(to_use, grid, told)))];
    let heads = line(phrase::in_code(&grid.down.factor), &|x| format!(" {}", grid.across.levels[x]));
    lines.push(paint.dim(&heads));
    lines.extend(grid.down.levels.iter().zip(&cells).map(|(level, row)| line(level, &|x| row[x].clone())));
    Table { lines, below, means: Vec::new() }
}

/// What is told of a cell: all of it where there is room.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Told {
    Bounds,
    Rates,
    Choices,
}

/// What stands in a cell, in words.
fn what(to_use: &UseView, grid: &GridView, told: Told) -> String {
    let choice = to_use.choices.first().map_or("choice", |choice| choice.heading.as_str());
    let across = phrase::in_code(&grid.across.factor);
    let rows = || grid.cells.iter().flatten().flatten().map(|&at| &to_use.rows[at]);
    let widest = rows().filter_map(|row| row.within).reduce(f64::max);
    let widest = widest.map_or_else(String::new, |most| format!("; within {} of the best", bound(most)));
    match told {
        Told::Bounds => {
            format!("{choice}, {}, at most so much more time than the best; across: {across}", to_use.rate_unit)
        }
        Told::Rates => format!("{choice} and {}{widest}; across: {across}", to_use.rate_unit),
        Told::Choices => format!("{choice}{widest}; across: {across}"),
    }
}

/// The choice; of a long one the part behind the colon.
fn short(row: &UseRow) -> String {
    let choice = row.shown.first().map_or("–", String::as_str);
    match choice.split_once(':') {
        Some((_, behind)) if choice.chars().count() > CHOICE_MAX => behind.to_owned(),
        _ => choice.to_owned(),
    }
}

fn numbers(to_use: &UseView, row: &UseRow, told: Told) -> String {
    let rate = format!(" {:>4}", rate(to_use, row));
    match (told, row.within) {
        (Told::Choices, _) => String::new(),
        (Told::Bounds, Some(within)) => format!("{rate} {}", bound(within)),
        (Told::Bounds, None) => row.times.map_or(rate.clone(), |of_best| format!("{rate} {}", times(of_best))),
        _ => rate,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::view::document::{ChoiceColumn, GridAxis};

    pub fn row(choice: &str, rate: f64, standing: Standing, note: Option<&str>) -> UseRow {
        UseRow {
            question: String::new(),
            groups: Vec::new(),
            profiles: Vec::new(),
            who: String::new(),
            one_for_all: false,
            standing,
            varied: Vec::new(),
            choice: BTreeMap::new(),
            shown: vec![choice.to_owned()],
            code: Vec::new(),
            peer_code: Vec::new(),
            rate: Some(rate),
            rate_max: None,
            rate_all: None,
            rough: false,
            moves: false,
            cost: None,
            p99_ns: None,
            within: (standing == Standing::Open).then_some(0.12),
            times: None,
            ties: Vec::new(),
            tied: None,
            note: note.map(str::to_owned),
        }
    }

    fn printed(rows: Vec<UseRow>, across: usize, width: usize) -> String {
        let axis = |factor: &str, levels: usize| GridAxis {
            factor: factor.to_owned(),
            levels: (1..=levels).map(|level| (level * 100).to_string()).collect(),
        };
        let grid = GridView {
            down: axis("flows", rows.len() / across),
            across: axis("request", across),
            cells: (0..rows.len()).map(Some).collect::<Vec<_>>().chunks(across).map(<[_]>::to_vec).collect(),
        };
        let choices = vec![ChoiceColumn { factor: "server_engine".into(), heading: "server".into(), auto: None }];
        let to_use = UseView { choices, rate_unit: "k calls/s", rate_divisor: 1000.0, rows, ..UseView::default() };
        let Table { lines, below, .. } = table(&to_use, &grid, width, &Paint(false));
        lines.into_iter().chain(below).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn four_sizes_fit_eighty_columns_with_the_longest_engine() {
        let rows = vec![row("uring:multishot", 166_000.0, Standing::Open, None); 12];
        let text = printed(rows, 4, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(text.matches("○multishot  166").count(), 12, "{text}");
        assert!(text.contains("within 12 % of the best"), "{text}");
    }

    #[test]
    fn bounds_stand_in_the_cells_where_there_is_room() {
        let rows = vec![row("epoll", 20_000.0, Standing::Open, None); 4];
        assert_eq!(printed(rows, 2, 80).matches("○epoll 20.0 12 %").count(), 4);
    }

    #[test]
    fn a_note_of_all_doubtful_cells_is_said_once() {
        let rows = [Standing::Proven, Standing::Doubtful, Standing::Doubtful, Standing::Proven];
        let rows = rows.map(|standing| row("epoll", 1e4, standing, (standing == Standing::Doubtful).then_some("why")));
        let text = printed(rows.to_vec(), 2, 80);
        assert!(text.ends_with("  ? why") && !text.contains("[1]"), "{text}");
        // Where notes differ they have numbers.
        let rows = [Some("one"), Some("two"), None, None].map(|note| row("epoll", 1e4, Standing::Open, note));
        let text = printed(rows.to_vec(), 2, 80);
        assert!(text.contains("[1] one") && text.contains("[2] two"), "{text}");
    }

    #[test]
    fn bounds_that_are_no_answer_are_explained_once() {
        let wide = |of_best| UseRow { times: Some(of_best), ..row("epoll", 2e4, Standing::Doubtful, None) };
        let text = printed(vec![wide(2.4), wide(3.1), wide(2.2), row("epoll", 2e4, Standing::Open, None)], 2, 80);
        assert!(text.contains("?epoll 20.0 2.4 ×") && text.contains("?epoll 20.0 3.1 ×"), "{text}");
        assert_eq!(text.matches("no answer yet").count(), 1, "{text}");
    }

    #[test]
    fn columns_that_do_not_fit_are_counted() {
        let text = printed(vec![row("uring:multishot", 166_000.0, Standing::Open, None); 16], 8, 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80) && text.contains("2 more columns"), "{text}");
    }
}
