//! The first screen: the answer in at most 35 lines of 80 columns, the most important first.
//!
//! Lays out what [`AnswerView`] says and settles nothing. What does not fit is counted, and `--full` shows it.

use std::collections::BTreeSet;

use anstyle::AnsiColor;

use super::cell_text::{fixed, rounded};
use super::paint::{Paint, TerminalStyle, wrap};
use crate::View;
use crate::sentence::percent;
use crate::view::document::{AnswerView, AvoidLine, Standing, UseRow, UseView};

/// Lines of the first screen, the last of them the commands for the rest.
pub const LINES_MAX: usize = 35;
/// Wider lines are hard to read, narrower ones hold no table.
const COLUMNS: std::ops::RangeInclusive<usize> = 60..=100;
/// Room for the name of a section.
const NAME: usize = 7;
/// Longer questions are cut.
const QUESTION_MAX: usize = 34;
/// Questions of which it is told what relays are worth.
const RELAYS_MAX: usize = 3;
/// And never to less than this.
const QUESTION_MIN: usize = 14;
/// So many lines of what to avoid stand even where rows of what to use have to go.
const AVOID_MIN: usize = 3;

/// The answer, so that it fits a screen.
pub fn render(view: &View, style: &TerminalStyle) -> String {
    lines(view, style, Some(LINES_MAX)).join("\n") + "\n"
}

/// The answer as lines; uncut without a limit.
pub(super) fn lines(view: &View, style: &TerminalStyle, limit: Option<usize>) -> Vec<String> {
    let width = style.columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    let page = Page { answer: &view.answer, width, paint: Paint(style.colour) };
    let cap = |lines: usize| limit.map_or(usize::MAX, |_| lines);
    let answer = &view.answer;
    let mut below = Vec::new();
    below.extend(page.section("WHY", &answer.why.join(" · "), cap(2)));
    below.extend(page.section("AUDIT", &answer.audit.join("; "), cap(4)));
    for line in answer.relays.iter().take(if limit.is_some() { RELAYS_MAX } else { usize::MAX }) {
        below.extend(page.section("RELAYS", line, cap(3)));
    }
    below.extend(page.section("HOLDS", &answer.holds.join("; "), cap(6)));
    below.extend(page.section("NOISE", &answer.noise.join("; "), cap(4)));
    below.push(String::new());
    let called = |text: String| text.replace("bytegauge ", &format!("{} ", style.program));
    below.extend(page.section("NEXT", &called(answer.next.join(" ")), cap(3)));
    below.extend(page.section("MORE", &called(answer.more.join(" · ")), cap(2)));
    let head = page.whole_parts(&answer.head);
    let mut out = vec![page.paint.bold(&head), String::new()];
    out.extend(page.section("FIRST", &answer.lever.join("; "), cap(3)));
    let room = limit.map(|limit| limit.saturating_sub(out.len() + below.len()));
    out.extend(match &view.versus {
        Some(versus) => super::versus::lines(view, versus, width, &page.paint),
        None => page.middle(room),
    });
    out.extend(below);
    out
}

/// A table, and its notes where they do not fit into it.
pub(super) struct Table {
    pub(super) lines: Vec<String>,
    pub(super) below: Vec<String>,
}

struct Page<'a> {
    answer: &'a AnswerView,
    width: usize,
    paint: Paint,
}

impl Page<'_> {
    /// What to use and what to avoid, each with a blank line below it.
    fn middle(&self, room: Option<usize>) -> Vec<String> {
        let to_use = &self.answer.to_use;
        let in_grid: BTreeSet<usize> =
            to_use.grid.iter().flat_map(|grid| grid.cells.iter().flatten().flatten().copied()).collect();
        let listed = to_use.rows.iter().enumerate().filter(|(at, _)| !in_grid.contains(at));
        let all: Vec<&UseRow> = listed.map(|(_, row)| row).collect();
        let avoid = self.answer.avoid.len();
        let grid: Vec<String> =
            self.grid().map_or_else(Vec::new, |grid| grid.lines.into_iter().chain(grid.below).collect());
        // Blank lines, headings and legends.
        let gain = self.gain().len();
        let gain = gain + usize::from(gain > 0);
        let of_list = if all.is_empty() { 0 } else { 2 + self.table(&all).below.len() };
        let around = 3 + grid.len() + of_list + usize::from(avoid > 0) * 2 + usize::from(all.len() == 1) + gain;
        let Some(room) = room.map(|room| room.saturating_sub(around)) else {
            return self.both(grid, &all, avoid, [0, 0]);
        };
        if all.len() + avoid <= room {
            return self.both(grid, &all, avoid, [0, 0]);
        }
        // A line says how many more there are.
        let least = if avoid > AVOID_MIN { AVOID_MIN + 1 } else { avoid };
        let for_rows = room.saturating_sub(least);
        let rows = chosen(&all, for_rows);
        let hidden = all.len() - rows.len();
        let left = room.saturating_sub(rows.len() + usize::from(hidden > 0));
        let shown = if avoid <= left { avoid } else { left.saturating_sub(1) };
        let proven = |rows: &[&UseRow]| rows.iter().filter(|row| row.standing == Standing::Proven).count();
        self.both(grid, &rows, shown, [hidden, proven(&all) - proven(&rows)])
    }

    /// The rows that make a grid, where there is one.
    fn grid(&self) -> Option<Table> {
        let to_use = &self.answer.to_use;
        to_use.grid.as_ref().map(|grid| super::grid::table(to_use, grid, self.width, &self.paint))
    }

    /// The grid, the rows, and how many are hidden and how many of those are proven.
    fn both(&self, grid: Vec<String>, rows: &[&UseRow], avoid: usize, [hidden, of_hidden]: [usize; 2]) -> Vec<String> {
        let mut out = grid;
        let mut below = Vec::new();
        if !rows.is_empty() || out.is_empty() {
            let table = self.table(rows);
            out.extend(table.lines);
            below = table.below;
        }
        if hidden > 0 {
            out.push(self.paint.dim(&format!("       … {hidden} more, {of_hidden} of them proven: --full")));
        }
        out.extend(self.legend());
        out.extend(below);
        let gain = self.gain();
        if !gain.is_empty() {
            out.push(String::new());
            out.extend(gain);
        }
        out.push(String::new());
        if !self.answer.avoid.is_empty() {
            out.extend(self.avoid(avoid));
            out.push(String::new());
        }
        out
    }

    fn table(&self, rows: &[&UseRow]) -> Table {
        let to_use = &self.answer.to_use;
        let mut out = Vec::new();
        let judged = rows.iter().any(|row| row.within.is_some());
        let what = match judged {
            true => format!("within: at {}, at most this much dearer than the best confirmed", percent(to_use.level)),
            false => "measured, and not compared".into(),
        };
        let name = if to_use.grid.is_some() { "" } else { "USE" };
        out.push(format!("{}{}", self.name(name), self.paint.dim(&what)));
        let mut columns = columns(to_use, rows);
        let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
        let mut below = Vec::new();
        // Notes stand in their rows where there is room for all of them, else below the table.
        if let Some(notes) = columns.last_mut().filter(|column| column.heading.is_empty())
            && widths.iter().map(|width| width + 2).sum::<usize>() > self.width
            && rows.iter().any(|row| row.note.is_some())
        {
            below = numbered(&mut notes.texts, self.width, &self.paint);
            *widths.last_mut().expect("as many as columns") = notes.width();
        }
        let kept = fitting(&columns, &widths, self.width);
        // A question may be shortened; what is answered may not.
        let used: usize = kept.iter().map(|&at| widths[at] + 2).sum();
        let room = widths[0].saturating_sub(used.saturating_sub(self.width)).max(QUESTION_MIN.min(widths[0]));
        if room < widths[0] {
            widths[0] = room;
            columns[0].texts.iter_mut().for_each(|text| *text = cut(text, room));
        }
        let line = |at: Option<usize>| {
            let mut line = String::new();
            for &place in &kept {
                let (column, width) = (&columns[place], widths[place]);
                let text = at.map_or(column.heading.as_str(), |at| column.texts[at].as_str());
                let gap = if line.is_empty() { "" } else { "  " };
                match column.right {
                    true => line.push_str(&format!("{gap}{text:>width$}")),
                    false => line.push_str(&format!("{gap}{text:<width$}")),
                }
            }
            self.cut(line.trim_end(), self.width - 2)
        };
        if !rows.is_empty() {
            out.push(format!("  {}", self.paint.dim(&line(None))));
        }
        for (at, row) in rows.iter().enumerate() {
            let mark = mark(row.standing);
            let (mark, text) = match row.standing {
                Standing::Proven => (self.paint.colour(AnsiColor::Green, mark), self.paint.bold(&line(Some(at)))),
                Standing::Open => (self.paint.colour(AnsiColor::Yellow, mark), line(Some(at))),
                _ => (self.paint.dim(mark), line(Some(at))),
            };
            out.push(format!("{mark} {text}"));
        }
        if let [row] = rows
            && !row.code.is_empty()
        {
            out.push(self.cut(&format!("  in code: {}", row.code.join(", ")), self.width));
        }
        Table { lines: out, below }
    }

    /// A line of parts that are joined by dots, without those that do not fit.
    fn whole_parts(&self, text: &str) -> String {
        let mut parts: Vec<&str> = text.split(" · ").collect();
        while parts.len() > 1 && chars(&parts.join(" · ")) > self.width {
            parts.pop();
        }
        self.cut(&parts.join(" · "), self.width)
    }

    /// What is gained, a paragraph each.
    fn gain(&self) -> Vec<String> {
        let mut out = Vec::new();
        for text in &self.answer.gain {
            let name = if out.is_empty() { self.name("GAIN") } else { " ".repeat(NAME) };
            for (at, line) in wrap(text, self.width - NAME).into_iter().enumerate() {
                out.push(if at == 0 { format!("{name}{line}") } else { format!("{}{line}", " ".repeat(NAME)) });
            }
        }
        out
    }

    /// What the marks mean, in words.
    fn legend(&self) -> Option<String> {
        let margin = percent(self.answer.to_use.margin);
        let said = [
            (Standing::Proven, format!("proven within {margin}")),
            (Standing::Open, format!("open: not shown within {margin}")),
            (Standing::Doubtful, "in doubt: see its note".into()),
            (Standing::Nothing, "no answer".into()),
        ];
        let rows = &self.answer.to_use.rows;
        let used = said.iter().filter(|(standing, _)| rows.iter().any(|row| row.standing == *standing));
        let mut parts: Vec<String> = used.map(|(standing, text)| format!("{} {text}", mark(*standing))).collect();
        if rows.iter().any(|row| row.shown.iter().any(|text| text.starts_with('('))) {
            parts.push("(size) its peer's".into());
        }
        (!parts.is_empty()).then(|| self.paint.dim(&self.cut(&format!("  {}", parts.join("   ")), self.width)))
    }

    fn avoid(&self, shown: usize) -> Vec<String> {
        let to_use = &self.answer.to_use;
        let how = if to_use.cost_unit.is_some() { "dearer" } else { "slower" };
        let title = format!("by so much {how} than the level in brackets ({}, median column)", percent(to_use.level));
        let mut out = vec![format!("{}{}", self.name("AVOID"), self.paint.dim(&self.cut(&title, self.width - NAME)))];
        let lines = &self.answer.avoid;
        out.extend(lines.iter().take(shown).map(|line| avoid_line(line, to_use.cost_unit.is_some(), self.width)));
        if shown < lines.len() {
            out.push(self.paint.dim(&format!("       … {} more: --full", lines.len() - shown)));
        }
        out
    }

    fn name(&self, name: &str) -> String {
        self.paint.bold(&format!("{name:<NAME$}"))
    }

    /// A paragraph beside its name.
    fn section(&self, name: &str, text: &str, lines_max: usize) -> Vec<String> {
        if text.is_empty() {
            return Vec::new();
        }
        let room = self.width - NAME;
        let mut lines = wrap(text, room);
        if lines.len() > lines_max {
            lines.truncate(lines_max);
            if let Some(last) = lines.last_mut() {
                *last = format!("{} …", last.chars().take(room - 2).collect::<String>().trim_end());
            }
        }
        let named = |(at, line): (usize, &String)| {
            let name = if at == 0 { name } else { "" };
            format!("{}{}", self.name(name), self.cut(line, room)).trim_end().to_owned()
        };
        lines.iter().enumerate().map(named).collect()
    }

    fn cut(&self, text: &str, width: usize) -> String {
        cut(text, width)
    }
}

/// Puts numbers in place of notes: what they say, in lines, each note once.
pub(super) fn numbered(notes: &mut [String], width: usize, paint: &Paint) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for note in notes.iter_mut().filter(|note| !note.is_empty()) {
        let at = said.iter().position(|known| known == note).unwrap_or_else(|| {
            said.push(note.clone());
            said.len() - 1
        });
        *note = format!("({})", at + 1);
    }
    let said: Vec<String> = said.iter().enumerate().map(|(at, note)| format!("({}) {note}", at + 1)).collect();
    let lines = wrap(&said.join("   "), width - 2);
    lines.into_iter().map(|line| paint.dim(&format!("  {line}"))).collect()
}

/// A text of at most so many characters; a longer one ends in `…`.
fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).collect::<String>().trim_end().to_owned() + "…"
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// One character; what it means stands below the table.
pub(super) fn mark(standing: Standing) -> &'static str {
    match standing {
        Standing::Proven => "✓",
        Standing::Open => "○",
        Standing::Doubtful => "?",
        Standing::Nothing => "-",
        Standing::Alone => " ",
    }
}

/// The rows that stand in so many lines, in their order: of questions with one choice for all readers that alone, then
/// the best known.
fn chosen<'a>(all: &[&'a UseRow], room: usize) -> Vec<&'a UseRow> {
    if all.len() <= room {
        return all.to_vec();
    }
    let stood_for = |row: &UseRow| {
        !row.one_for_all
            && all.iter().any(|other| other.one_for_all && row.groups.iter().all(|id| other.groups.contains(id)))
    };
    let mut kept: Vec<(usize, &UseRow)> = all.iter().copied().enumerate().filter(|(_, row)| !stood_for(row)).collect();
    // One line says how many more there are.
    let room = room.saturating_sub(1).max(1);
    if kept.len() > room {
        let bound = |row: &UseRow| row.within.unwrap_or(f64::INFINITY);
        kept.sort_by(|(_, a), (_, b)| a.standing.cmp(&b.standing).then(bound(a).total_cmp(&bound(b))));
        kept.truncate(room);
        kept.sort_by_key(|(at, _)| *at);
    }
    kept.into_iter().map(|(_, row)| row).collect()
}

struct Column {
    heading: String,
    right: bool,
    /// How soon it goes where there is no room; 0 never.
    expendable: u8,
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
        texts: rows.iter().map(|row| text(row)).collect(),
    };
    let mut columns = Vec::new();
    let mut questions: Vec<String> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        // A question is asked once; what follows below answers it as well.
        let again = at > 0 && rows[at - 1].question == row.question;
        let text = if again { String::new() } else { cut(&row.question, QUESTION_MAX) };
        questions.push(match (row.one_for_all, again) {
            (true, true) => "  one for all".into(),
            (true, false) => format!("{text}, one for all"),
            (false, _) => text,
        });
    }
    columns.push(Column { heading: String::new(), right: false, expendable: 0, texts: questions });
    for (at, choice) in to_use.choices.iter().enumerate() {
        let text = |row: &UseRow| row.shown.get(at).cloned().unwrap_or_else(|| "–".into());
        columns.push(column(&choice.heading, true, 0, &text));
    }
    if rows.iter().any(|row| !row.who.is_empty()) {
        // The same everywhere it tells no rows apart.
        let expendable = if rows.iter().all(|row| row.who == rows[0].who) { 4 } else { 0 };
        columns.push(column(to_use.worker, false, expendable, &|row| row.who.clone()));
    }
    columns.push(column(to_use.rate_unit, true, 0, &|row| rate(to_use, row)));
    if let Some(unit) = to_use.cost_unit {
        columns.push(column(unit, true, 2, &|row| row.cost.map_or("–".into(), |cost| fixed(cost, 3))));
    }
    if rows.iter().any(|row| row.p99_ns.is_some()) {
        columns.push(column("p99 ms", true, 3, &|row| row.p99_ns.map_or("–".into(), |ns| fixed(ns / 1e6, 2))));
    }
    if rows.iter().any(|row| row.within.is_some()) {
        columns.push(column("within", true, 0, &|row| row.within.map_or("–".into(), bound)));
    }
    if rows.iter().any(|row| row.note.is_some()) {
        columns.push(column("", false, 0, &|row| row.note.clone().unwrap_or_default()));
    }
    columns
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

/// Above this a bound says nothing but that it is large.
const BOUND_MAX: f64 = 9.0;

pub(super) fn bound(share: f64) -> String {
    match share {
        share if share >= BOUND_MAX => format!("> {:.0} %", BOUND_MAX * 100.0),
        share if share >= 0.1 => format!("{:.0} %", share * 100.0),
        share => percent(share),
    }
}

pub(super) fn rate(to_use: &UseView, row: &UseRow) -> String {
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
    if row.rough { format!("({text})") } else { text }
}

fn avoid_line(line: &AvoidLine, costs: bool, width: usize) -> String {
    // So much dearer is that much slower: the rate is the cost's inverse.
    let loss = |dearer: f64| if costs { dearer } else { dearer / (1.0 + dearer) };
    let shown = |dearer: f64| format!("{:.0}", loss(dearer) * 100.0);
    let mut text = format!("  {} · {} [{}] ", line.question, line.heading, line.against);
    for (at, level) in line.levels.iter().enumerate() {
        let range = match level.dearer_upper {
            Some(upper) => format!("{}–{} %", shown(level.dearer_lower), shown(upper)),
            None => format!("≥ {} %", shown(level.dearer_lower)),
        };
        let one = format!(" {} {range} ", level.level);
        let rest = line.levels.len() - at;
        let more = format!(" … {rest} more");
        let room = if rest > 1 { width.saturating_sub(chars(&more)) } else { width };
        if chars(&text) + chars(one.trim_end()) > room {
            return cut(&format!("{}{more}", text.trim_end()), width);
        }
        text.push_str(&one);
    }
    text.trim_end().to_owned()
}
