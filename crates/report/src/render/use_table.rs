//! The table of what to use: its columns, what stands in them, and what their headings mean.

use anstyle::AnsiColor;

use super::cell_text::{fixed, rounded};
use super::fit::{chars, cut, cut_parts};
use super::paint::{Paint, wrap};
pub use crate::outward::at_most as bound;
use crate::phrase::ANY;
use crate::sentence::{is_nothing, percent, times};
use crate::view::document::{ChoiceColumn, Standing, UseRow, UseView};
use bytegauge_model::factor;

/// Heading of what is not told apart from the choice.
const OR: &str = "or";
/// Heading of the time that 99 of 100 calls take at most.
const P99: &str = "p99 ms";
/// Heading of the rate of all trials together.
const ALL: &str = "all";
/// Longer headings give way to short ones.
const HEADING_MAX: usize = 10;
/// Longer questions are cut.
pub const QUESTION_MAX: usize = 34;
/// And never to less than this.
pub const QUESTION_MIN: usize = 14;

/// A table, and its notes where they do not fit into it.
pub struct Table {
    pub lines: Vec<String>,
    pub below: Vec<String>,
    /// What its headings mean, for the legend.
    pub means: Vec<String>,
}

/// The table of these rows beside the name of its section, in lines of at most so many characters.
pub fn table(to_use: &UseView, rows: &[&UseRow], name: &str, screen: usize, paint: &Paint) -> Table {
    let mut out = Vec::new();
    let judged = rows.iter().any(|row| row.within.is_some());
    let mut asked = rows.iter().filter(|row| !row.one_for_all && row.standing != Standing::Nothing).peekable();
    let is_tied = |row: &&UseRow| row.tied.as_ref().is_some_and(|tied| tied.starts_with(ANY));
    let what = match judged {
        true if asked.peek().is_some() && asked.all(is_tied) => {
            let (more, level) = (more_of(to_use), percent(to_use.level));
            format!("nothing is told apart; dearer: takes at most this much {more} ({level})")
        }
        // The longer word has the shorter sentence, so that both fit.
        true if to_use.cost_unit.is_some() => {
            format!("dearer: at most so much {} than the best confirmed ({})", more_of(to_use), percent(to_use.level))
        }
        true => format!(
            "dearer: takes at most this much {} than the best confirmed ({})",
            more_of(to_use),
            percent(to_use.level)
        ),
        false if rows.iter().any(|row| row.times.is_some()) => {
            format!("dearer: may take up to so many times the {} of the best: no answer yet", resource(to_use))
        }
        false if rows.iter().any(|row| row.standing == Standing::Doubtful) => {
            "nothing is shown to be good yet: each note says why".into()
        }
        false if rows.iter().all(|row| row.standing == Standing::Nothing) => {
            "nothing was measured: each note says why".into()
        }
        false => "measured, and not compared".into(),
    };
    out.push(format!("{name}{}", paint.dim(&what)));
    let mut columns = columns(to_use, rows);
    let taken = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
    if taken(&columns) > screen {
        for column in columns.iter_mut().filter(|column| column.sizes) {
            column.texts.iter_mut().for_each(|text| *text = compact(text));
        }
    }
    let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
    let width = screen + usize::from(columns.iter().any(|column| column.names));
    let mut below = Vec::new();
    // Notes stand in their rows where there is room for all of them, else below the table.
    if let Some(notes) = columns.last_mut().filter(|column| column.heading.is_empty())
        && widths.iter().map(|width| width + 2).sum::<usize>() > width
        && notes.texts.iter().any(|text| !text.is_empty())
    {
        below = numbered(&mut notes.texts, screen, paint);
        *widths.last_mut().expect("as many as columns") = notes.width();
    }
    let kept = fitting(&columns, &widths, width);
    // A question may be shortened; what is answered may not.
    let used: usize = kept.iter().map(|&at| widths[at] + 2).sum();
    let asked = columns.iter().position(|column| column.short).unwrap_or(0);
    let wish = widths[asked];
    let room = wish.saturating_sub(used.saturating_sub(width)).max(QUESTION_MIN.min(wish));
    if room < wish {
        widths[asked] = room;
        columns[asked].texts.iter_mut().for_each(|text| *text = cut_parts(text, room));
    }
    let line = |at: Option<usize>| {
        let mut line = String::new();
        for &place in &kept {
            let (column, width) = (&columns[place], widths[place]);
            let text = at.map_or(column.heading.as_str(), |at| column.texts[at].as_str());
            let gap = match place {
                0 => "",
                _ if columns[place - 1].names => " ",
                _ => "  ",
            };
            match column.right {
                true => line.push_str(&format!("{gap}{text:>width$}")),
                false => line.push_str(&format!("{gap}{text:<width$}")),
            }
        }
        cut(line.trim_end(), screen - 2)
    };
    if !rows.is_empty() {
        out.push(format!("  {}", paint.dim(&line(None))));
    }
    for (at, row) in rows.iter().enumerate() {
        let mark = mark(row.standing);
        let (mark, text) = match row.standing {
            Standing::Proven => (paint.colour(AnsiColor::Green, mark), paint.bold(&line(Some(at)))),
            Standing::Open => (paint.colour(AnsiColor::Yellow, mark), line(Some(at))),
            _ => (paint.dim(mark), line(Some(at))),
        };
        out.push(format!("{mark} {text}"));
    }
    if let [row] = rows
        && !row.code.is_empty()
        // What is not shown to be good is no line to copy.
        && row.standing != Standing::Doubtful
    {
        out.push(cut(&format!("  in code: {}", row.code.join(", ")), screen));
    }
    Table {
        lines: out,
        below,
        means: means(to_use, rows, &kept.iter().map(|&at| columns[at].heading.as_str()).collect::<Vec<_>>()),
    }
}

/// Puts numbers in place of notes: what they say, in lines, each note once.
pub fn numbered(notes: &mut [String], width: usize, paint: &Paint) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for note in notes.iter_mut().filter(|note| !note.is_empty()) {
        let at = said.iter().position(|known| known == note).unwrap_or_else(|| {
            said.push(note.clone());
            said.len() - 1
        });
        *note = format!("[{}]", at + 1);
    }
    let said: Vec<String> = said.iter().enumerate().map(|(at, note)| format!("[{}] {note}", at + 1)).collect();
    let lines = wrap(&said.join("   "), width - 2);
    lines.into_iter().map(|line| paint.dim(&format!("  {line}"))).collect()
}

/// One character; what it means stands below the table.
pub fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Proven => "✓",
        Standing::Open => "○",
        Standing::Doubtful => "?",
        Standing::Nothing => "-",
        Standing::Alone => " ",
    }
}

struct Column {
    heading: String,
    right: bool,
    /// How soon it goes where there is no room; 0 never.
    expendable: u8,
    /// The names of groups, close to what follows.
    names: bool,
    /// Its sizes may be written shorter.
    sizes: bool,
    /// Its texts may be shortened.
    short: bool,
    texts: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.texts.iter().map(|text| chars(text)).chain([chars(&self.heading)]).max().unwrap_or(0)
    }
}

fn columns(to_use: &UseView, rows: &[&UseRow]) -> Vec<Column> {
    let column = |heading: &str, right: bool, expendable: u8, text: &dyn Fn(&UseRow) -> String| Column {
        heading: heading.to_owned(),
        right,
        expendable,
        names: false,
        sizes: false,
        short: false,
        texts: rows.iter().map(|row| text(row)).collect(),
    };
    let mut columns = Vec::new();
    if rows.iter().any(|row| row.groups != rows[0].groups) {
        columns.push(Column { names: true, ..column("", false, 0, &names) });
    }
    let mut questions: Vec<String> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        // A question is asked once; what follows below answers it as well.
        let again = at > 0 && rows[at - 1].question == row.question;
        let text = if again { String::new() } else { cut_parts(&row.question, QUESTION_MAX) };
        questions.push(match (row.one_for_all, again) {
            (true, true) => "  one for all".into(),
            (true, false) => format!("{text}, one for all"),
            (false, _) => text,
        });
    }
    columns.push(Column {
        heading: String::new(),
        right: false,
        expendable: 0,
        names: false,
        sizes: false,
        short: true,
        texts: questions,
    });
    let shown = |row: &UseRow, at: usize| row.shown.get(at).cloned().unwrap_or_else(|| "–".into());
    if ask_one_each(to_use, rows) {
        let text = |row: &UseRow| {
            let asked = to_use.choices.iter().position(|choice| row.varied.contains(&choice.factor));
            asked.map_or("–".into(), |at| format!("{} {}", heading(&to_use.choices[at]), shown(row, at)))
        };
        columns.push(Column { sizes: true, ..column("", false, 0, &text) });
    } else {
        for (at, choice) in to_use.choices.iter().enumerate() {
            columns.push(Column { sizes: true, ..column(heading(choice), true, 0, &|row| shown(row, at)) });
        }
    }
    if rows.iter().any(|row| !row.who.is_empty()) {
        // The same everywhere it tells no rows apart.
        let expendable = if rows.iter().all(|row| row.who == rows[0].who) { 4 } else { 0 };
        columns.push(column(to_use.worker, false, expendable, &|row| row.who.clone()));
    }
    columns.push(column(to_use.rate_unit, true, 0, &|row| rate(to_use, row)));
    let all_in_column = rows.iter().filter(|row| row.rate_all.is_some()).count() > 1;
    if all_in_column {
        columns.push(column(ALL, true, 0, &|row| rate_all(to_use, row).unwrap_or_default()));
    }
    if let Some(unit) = to_use.cost_unit {
        columns.push(column(unit, true, 2, &|row| row.cost.map_or("–".into(), |cost| fixed(cost, 3))));
    }
    if rows.iter().any(|row| row.p99_ns.is_some()) {
        columns.push(column(P99, true, 3, &|row| row.p99_ns.map_or("–".into(), |ns| fixed(ns / 1e6, 2))));
    }
    if rows.iter().any(|row| row.within.is_some() || row.times.is_some()) {
        let no_answer = |row: &UseRow| row.times.map_or("–".into(), times);
        columns.push(column("dearer", true, 0, &|row| row.within.map_or_else(|| no_answer(row), dearer)));
    }
    if rows.iter().any(|row| row.tied.is_some()) {
        columns.push(column(OR, false, 1, &|row| row.tied.clone().unwrap_or_default()));
    }
    let notes: Vec<String> = rows.iter().map(|row| note(to_use, row, all_in_column)).collect();
    if notes.iter().any(|note| !note.is_empty()) {
        columns.push(Column { texts: notes, ..column("", false, 0, &|_| String::new()) });
    }
    columns
}

/// From so many choices on, of which each row asks for one, the others' columns say nothing.
const CHOICES_MANY: usize = 3;

/// Whether each row asks for one choice, and the rows for many: then one column names it.
fn ask_one_each(to_use: &UseView, rows: &[&UseRow]) -> bool {
    to_use.choices.len() >= CHOICES_MANY && rows.iter().all(|row| row.varied.len() == 1)
}

/// Before a rate that moved.
const MOVES: &str = "~";

/// What a bound of nothing means, in a word.
const BEST: &str = "best";

/// The bound of a row; a choice than which no other is better is the best.
fn dearer(most: f64) -> String {
    if is_nothing(most) { BEST.into() } else { format!("≤{}", bound(most)) }
}

/// The rate of all trials of a row together, slow ones in full, where the median flatters.
fn rate_all(to_use: &UseView, row: &UseRow) -> Option<String> {
    row.rate_all.map(|rate| fixed(rate / to_use.rate_divisor, 3))
}

/// What has to be known beside a row: the rate of all its trials, unless several rows have a column of it, and its note.
fn note(to_use: &UseView, row: &UseRow, all_in_column: bool) -> String {
    let all = rate_all(to_use, row).filter(|_| !all_in_column);
    let all = all.map(|rate| format!("all trials: {rate} {}", to_use.rate_unit));
    all.into_iter().chain(row.note.clone()).collect::<Vec<_>>().join("; ")
}

/// A heading of a choice: its name in code, of a long one the short name, which is explained below the table.
fn heading(choice: &ChoiceColumn) -> &str {
    match choice.heading.chars().count() > HEADING_MAX {
        true => factor::find(&choice.factor).map_or(&choice.heading, |factor| factor.heading),
        false => &choice.heading,
    }
}

/// What the headings of a table mean that explain nothing themselves.
fn means(to_use: &UseView, rows: &[&UseRow], headings: &[&str]) -> Vec<String> {
    let ties = headings.contains(&OR).then(|| {
        let counted = rows.iter().filter_map(|row| row.tied.as_ref()).any(|tied| tied.ends_with(" others"));
        format!("{OR}: not told apart{}", if counted { "; others: --group" } else { "" })
    });
    let best = rows.iter().any(|row| row.within.is_some_and(is_nothing));
    let best = best.then(|| format!("{BEST}: none is better ({})", percent(to_use.level)));
    let block = rows.iter().any(|row| row.note.as_ref().is_some_and(|note| note.contains("block")));
    let block = block.then(|| "block: every choice once".to_owned());
    let all = headings.contains(&ALL).then(|| format!("{ALL}: of all trials, slow ones in full"));
    let moves = rows.iter().any(|row| row.moves).then(|| format!("{MOVES} unsteady: NOISE"));
    let rough = rows.iter().any(|row| row.rough).then(|| "(rate): from few trials".to_owned());
    let lacks_p99 = rows.iter().any(|row| row.rate.is_some() && row.p99_ns.is_none());
    let p99 =
        (headings.contains(&P99) && lacks_p99).then(|| "p99 –: longer than a trial, or of too few calls".to_owned());
    let of_choice = |(at, choice): (usize, &ChoiceColumn)| {
        let short = heading(choice);
        let is_left = rows.iter().any(|row| row.shown.get(at).is_some_and(|text| text == "auto"));
        // Whoever is told to set it wants to know what it is now.
        let set = if is_left { "auto" } else { "here now" };
        let auto = choice.auto.as_ref().map(|value| format!("{set}: {value}"));
        let name = (short != choice.heading).then(|| format!("{short}: {}", choice.heading));
        let said: Vec<String> = name.into_iter().chain(auto).collect();
        (!said.is_empty() && !rows.is_empty()).then(|| said.join(", "))
    };
    best.into_iter()
        .chain(all)
        .chain(block)
        .chain(moves)
        .chain(rough)
        .chain(p99)
        .chain(ties)
        .chain(to_use.choices.iter().enumerate().filter_map(of_choice))
        .collect()
}

/// `64K` of `64 KiB`, where there is no room for more.
fn compact(text: &str) -> String {
    [(" KiB", "K"), (" MiB", "M"), (" GiB", "G")]
        .iter()
        .fold(text.to_owned(), |text, (long, short)| text.replace(long, short))
}

/// The names of the groups that a row stands for: what `--group` takes, and what is named below the table.
fn names(row: &UseRow) -> String {
    match row.groups.as_slice() {
        _ if row.one_for_all => String::new(),
        [] => String::new(),
        [one] => one.to_string(),
        [first, second] => format!("{first},{second}"),
        [first, others @ ..] => format!("{first} +{}", others.len()),
    }
}

/// What the choice takes more of.
pub fn more_of(to_use: &UseView) -> &'static str {
    if to_use.cost_unit.is_some() { "more CPU time" } else { "more time" }
}

/// What is compared.
pub fn resource(to_use: &UseView) -> &'static str {
    if to_use.cost_unit.is_some() { "CPU time" } else { "time" }
}

/// Which columns stand: the most expendable go first until the others fit.
fn fitting(columns: &[Column], widths: &[usize], width: usize) -> Vec<usize> {
    let mut kept: Vec<usize> = (0..columns.len()).collect();
    loop {
        let used: usize = kept.iter().map(|&at| widths[at] + 2).sum();
        let most = kept.iter().map(|&at| columns[at].expendable).max().unwrap_or(0);
        if used <= width || most == 0 {
            return kept;
        }
        kept.retain(|&at| columns[at].expendable != most);
    }
}

pub fn rate(to_use: &UseView, row: &UseRow) -> String {
    let Some(rate) = row.rate else { return "–".into() };
    let shown = |rate: f64| {
        let rate = rate / to_use.rate_divisor;
        // Few trials carry few digits.
        if row.rough { rounded(rate) } else { fixed(rate, 3) }
    };
    let (slow, fast) = (shown(rate), row.rate_max.map(shown));
    let text = match fast.filter(|fast| *fast != slow) {
        Some(fast) => format!("{slow}–{fast}"),
        None => slow,
    };
    let text = if row.rough { format!("({text})") } else { text };
    if row.moves { format!("{MOVES}{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::row;
    use super::*;

    #[test]
    fn rows_that_ask_for_one_choice_each_name_it_in_one_column() {
        let factors = ["flows", "sndbuf", "rcvbuf"];
        let choice = |factor: &str| ChoiceColumn { factor: factor.into(), heading: factor.to_uppercase(), auto: None };
        let asks = |varied: &[&str]| UseRow {
            varied: varied.iter().map(|factor| (*factor).to_owned()).collect(),
            shown: vec!["4".into(), "auto".into(), "64 KiB".into()],
            ..row("", 1e3, Standing::Open, None)
        };
        let headings = |rows: &[UseRow], choices: &[&str]| {
            let to_use = UseView { choices: choices.iter().map(|name| choice(name)).collect(), ..UseView::default() };
            let columns = columns(&to_use, &rows.iter().collect::<Vec<_>>());
            columns.into_iter().map(|column| (column.heading, column.texts.join("|"))).collect::<Vec<_>>()
        };
        let each = headings(&[asks(&["rcvbuf"]), asks(&["flows"])], &factors);
        assert_eq!(each[1], (String::new(), "RCVBUF 64 KiB|FLOWS 4".into()), "{each:?}");
        // Where a row asks for two, or all ask for few, each choice has its column.
        for wide in [headings(&[asks(&["rcvbuf", "flows"])], &factors), headings(&[asks(&["flows"])], &factors[..2])] {
            assert_eq!(wide[1], ("FLOWS".into(), "4".into()), "{wide:?}");
        }
    }
}
