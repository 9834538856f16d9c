//! The first screen: the answer in at most 35 lines of 80 columns, the most important first.
//!
//! Lays out what [`AnswerView`] says and settles nothing. What does not fit is counted, and `--full` shows it.
//!
//! Long because what stands, and how long, is decided for the whole screen at once.

use std::collections::BTreeSet;

use anstyle::AnsiColor;

use super::cell_text::{fixed, rounded};
use super::paint::{Paint, TerminalStyle, wrap};
use crate::View;
pub(super) use crate::outward::at_most as bound;
use crate::outward::{BOUND_MAX, whole_percents};
use crate::phrase::ANY;
use crate::sentence::{age_range, is_nothing, percent, times};
use crate::view::document::{AnswerView, AvoidLine, ChoiceColumn, Standing, UseRow, UseView};
use bytegauge_model::factor;

/// Lines of the first screen, the last of them the commands for the rest.
pub const LINES_MAX: usize = 35;
/// Wider lines are hard to read, narrower ones hold no table.
const COLUMNS: std::ops::RangeInclusive<usize> = 60..=100;
/// Room for the name of a section.
const NAME: usize = 7;
/// By which a line of what to avoid is set in.
const INDENT: usize = 2;
/// Heading of what is not told apart from the choice.
const OR: &str = "or";
/// Heading of the time that 99 of 100 calls take at most.
const P99: &str = "p99 ms";
/// Heading of the rate of all trials together.
const ALL: &str = "all";
/// Longer headings give way to short ones.
const HEADING_MAX: usize = 10;
/// Longer questions are cut.
const QUESTION_MAX: usize = 34;
/// Questions of which it is told what relays are worth.
const RELAYS_MAX: usize = 3;
/// And never to less than this.
pub(super) const QUESTION_MIN: usize = 14;
/// So many lines of what to avoid stand even where rows of what to use have to go.
const AVOID_MIN: usize = 2;

/// The answer, so that it fits a screen.
pub fn render(view: &View, style: &TerminalStyle) -> String {
    lines(view, style, Some(LINES_MAX)).join("\n") + "\n"
}

/// The answer as lines; uncut without a limit.
pub(super) fn lines(view: &View, style: &TerminalStyle, limit: Option<usize>) -> Vec<String> {
    let width = style.columns.clamp(*COLUMNS.start(), *COLUMNS.end());
    let page = Page { answer: &view.answer, width, paint: Paint(style.colour) };
    let head = page.whole_parts(&view.answer.head);
    let mut out = vec![page.paint.bold(&head), String::new()];
    let Some(limit) = limit else {
        out.extend(page.first(None));
        out.extend(page.versus_or_middle(view, None));
        out.extend(page.below(style, &Caps::NONE));
        return out;
    };
    out.extend(page.first(Some(3)));
    // What to use comes before how far it holds: the rest is cut first.
    let wanted = page.rows_wanted();
    let mut below = Vec::new();
    for caps in Caps::SOME {
        below = page.below(style, &caps);
        if limit.saturating_sub(out.len() + below.len()) >= wanted {
            break;
        }
    }
    let room = limit.saturating_sub(out.len() + below.len());
    out.extend(page.versus_or_middle(view, Some(room)));
    out.extend(below);
    out
}

/// How many lines a section may have at most; `None` for all.
struct Caps {
    why: Option<usize>,
    audit: Option<usize>,
    relays: Option<usize>,
    holds: Option<usize>,
    noise: Option<usize>,
}

impl Caps {
    const NONE: Caps = Caps { why: None, audit: None, relays: None, holds: None, noise: None };
    /// From the most that is read to the least that tells something.
    const SOME: [Caps; 8] = [
        Caps::at([2, 4, 3, 6, 4]),
        Caps::at([2, 3, 3, 5, 4]),
        Caps::at([2, 2, 3, 4, 3]),
        Caps::at([2, 2, 3, 4, 2]),
        Caps::at([2, 2, 3, 3, 2]),
        Caps::at([2, 2, 2, 3, 2]),
        Caps::at([2, 1, 1, 3, 2]),
        Caps::at([2, 1, 1, 2, 2]),
    ];

    const fn at([why, audit, relays, holds, noise]: [usize; 5]) -> Caps {
        Caps { why: Some(why), audit: Some(audit), relays: Some(relays), holds: Some(holds), noise: Some(noise) }
    }
}

/// A table, and its notes where they do not fit into it.
pub(super) struct Table {
    pub(super) lines: Vec<String>,
    pub(super) below: Vec<String>,
    /// What its headings mean, for the legend.
    pub(super) means: Vec<String>,
}

struct Page<'a> {
    answer: &'a AnswerView,
    width: usize,
    paint: Paint,
}

impl Page<'_> {
    fn first(&self, lines_max: Option<usize>) -> Vec<String> {
        self.section("FIRST", &self.answer.lever, "; ", lines_max)
    }

    fn versus_or_middle(&self, view: &View, room: Option<usize>) -> Vec<String> {
        match &view.versus {
            Some(versus) => super::versus::lines(view, versus, self.width, &self.paint),
            None => self.middle(room),
        }
    }

    /// What stands below the table.
    fn below(&self, style: &TerminalStyle, caps: &Caps) -> Vec<String> {
        let answer = self.answer;
        let mut below = self.section("WHY", &answer.why, " · ", caps.why);
        below.extend(self.section("AUDIT", &answer.audit, "; ", caps.audit));
        let relays = caps.relays.map_or(answer.relays.len(), |_| RELAYS_MAX);
        for line in answer.relays.iter().take(relays) {
            let parts: Vec<String> = line.split("; ").map(str::to_owned).collect();
            below.extend(self.section("RELAYS", &parts, "; ", caps.relays));
        }
        below.extend(self.section("HOLDS", &answer.holds, "; ", caps.holds));
        below.extend(self.section("NOISE", &answer.noise, "; ", caps.noise));
        below.push(String::new());
        let called = |text: &String| text.replacen("bytegauge ", &format!("{} ", style.program), 1);
        let is_command = |text: &String| text.starts_with("bytegauge ");
        for (name, steps) in [("NEXT", answer.next.clone()), ("MORE", more(&answer.more))] {
            let steps = steps.iter().map(|step| (is_command(step), called(step)));
            below.extend(self.steps(name, &steps.collect::<Vec<_>>()));
        }
        below
    }

    /// Lines that the rows of what to use would have, with a few of what to avoid.
    fn rows_wanted(&self) -> usize {
        let lines = self.middle(None).len();
        lines.saturating_sub(self.answer.avoid.len().saturating_sub(AVOID_MIN))
    }

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
        let table = self.table(&all);
        let of_list = if all.is_empty() { 0 } else { 2 + table.below.len() };
        let around = 1
            + self.legend(&table.means).len()
            + self.one().len()
            + grid.len()
            + of_list
            + if avoid > 0 { self.avoid_title(avoid).len() + 1 } else { 0 }
            + usize::from(all.len() == 1)
            + gain;
        let Some(total) = room else { return self.both(grid, &all, None, [0, 0]) };
        let room = total.saturating_sub(around);
        if all.len() + avoid <= room {
            return self.both(grid, &all, Some(avoid), [0, 0]);
        }
        // A line says how many more there are.
        let least = avoid.min(AVOID_MIN);
        let for_rows = room.saturating_sub(least);
        let proven = |rows: &[&UseRow]| rows.iter().filter(|row| row.standing == Standing::Proven).count();
        let mut fewer = 0;
        loop {
            let rows = chosen(&all, for_rows.saturating_sub(fewer));
            let hidden = all.len() - rows.len();
            let left = room.saturating_sub(rows.len() + fewer + usize::from(hidden > 0));
            let out = self.both(grid.clone(), &rows, Some(left.min(avoid)), [hidden, proven(&all) - proven(&rows)]);
            // Fewer rows may have room for more columns, whose headings are explained in a line.
            if out.len() <= total || fewer >= for_rows {
                return out;
            }
            fewer += 1;
        }
    }

    /// The rows that make a grid, where there is one.
    fn grid(&self) -> Option<Table> {
        let to_use = &self.answer.to_use;
        to_use.grid.as_ref().map(|grid| super::grid::table(to_use, grid, self.width, &self.paint))
    }

    /// The grid, the rows, and how many are hidden and how many of those are proven.
    fn both(
        &self,
        grid: Vec<String>,
        rows: &[&UseRow],
        avoid: Option<usize>,
        [hidden, of_hidden]: [usize; 2],
    ) -> Vec<String> {
        let mut out = grid;
        let (mut below, mut means) = (Vec::new(), Vec::new());
        if !rows.is_empty() || out.is_empty() {
            let table = self.table(rows);
            out.extend(table.lines);
            (below, means) = (table.below, table.means);
        }
        if hidden > 0 {
            out.push(self.paint.dim(&format!("       … {hidden} more, {of_hidden} of them proven: --full")));
        }
        out.extend(self.legend(&means));
        out.extend(below);
        out.extend(self.one());
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
        let mut asked = rows.iter().filter(|row| !row.one_for_all && row.standing != Standing::Nothing).peekable();
        let is_tied = |row: &&UseRow| row.tied.as_ref().is_some_and(|tied| tied.starts_with(ANY));
        let what = match judged {
            true if asked.peek().is_some() && asked.all(is_tied) => {
                let (more, level) = (more_of(to_use), percent(to_use.level));
                format!("nothing is told apart; within: takes at most this much {more} ({level})")
            }
            // The longer word has the shorter sentence, so that both fit.
            true if to_use.cost_unit.is_some() => {
                format!(
                    "within: at most so much {} than the best confirmed ({})",
                    more_of(to_use),
                    percent(to_use.level)
                )
            }
            true => format!(
                "within: takes at most this much {} than the best confirmed ({})",
                more_of(to_use),
                percent(to_use.level)
            ),
            false if rows.iter().any(|row| row.times.is_some()) => {
                format!("within: may take up to so many times the {} of the best: no answer yet", resource(to_use))
            }
            false if rows.iter().any(|row| row.standing == Standing::Doubtful) => {
                "measured; nothing is shown to be good yet, each note says why".into()
            }
            false if rows.iter().all(|row| row.standing == Standing::Nothing) => {
                "nothing was measured, each note says why".into()
            }
            false => "measured, and not compared".into(),
        };
        let name = if to_use.grid.is_some() { "" } else { "USE" };
        out.push(format!("{}{}", self.name(name), self.paint.dim(&what)));
        let mut columns = columns(to_use, rows);
        let taken = |columns: &[Column]| columns.iter().map(|column| column.width() + 2).sum::<usize>();
        if taken(&columns) > self.width {
            for column in columns.iter_mut().filter(|column| column.sizes) {
                column.texts.iter_mut().for_each(|text| *text = compact(text));
            }
        }
        let mut widths: Vec<usize> = columns.iter().map(Column::width).collect();
        let width = self.width + usize::from(columns.iter().any(|column| column.names));
        let mut below = Vec::new();
        // Notes stand in their rows where there is room for all of them, else below the table.
        if let Some(notes) = columns.last_mut().filter(|column| column.heading.is_empty())
            && widths.iter().map(|width| width + 2).sum::<usize>() > width
            && notes.texts.iter().any(|text| !text.is_empty())
        {
            below = numbered(&mut notes.texts, self.width, &self.paint);
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
            // What is not shown to be good is no line to copy.
            && row.standing != Standing::Doubtful
        {
            out.push(self.cut(&format!("  in code: {}", row.code.join(", ")), self.width));
        }
        Table {
            lines: out,
            below,
            means: means(to_use, rows, &kept.iter().map(|&at| columns[at].heading.as_str()).collect::<Vec<_>>()),
        }
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
    fn legend(&self, means: &[String]) -> Vec<String> {
        let margin = percent(self.answer.to_use.margin);
        let said = [
            (Standing::Proven, format!("proven within {margin}")),
            (Standing::Open, format!("open: not shown within {margin}, best bounded")),
            (Standing::Doubtful, "in doubt: see its note".into()),
            (Standing::Nothing, "no answer".into()),
        ];
        let rows = &self.answer.to_use.rows;
        let is_told = |row: &UseRow| row.times.is_none() || row.standing != Standing::Doubtful;
        let used = said.iter().filter(|(standing, _)| rows.iter().any(|row| row.standing == *standing && is_told(row)));
        let mut parts: Vec<String> = used.map(|(standing, text)| format!("{} {text}", mark(*standing))).collect();
        // A grid says it with its notes.
        if self.answer.to_use.grid.is_none() && rows.iter().any(|row| row.times.is_some()) {
            let said = format!("no answer yet: may take so many times the best's {}", resource(&self.answer.to_use));
            parts.push(format!("{} {said}", mark(Standing::Doubtful)));
        }
        if rows.iter().any(|row| row.shown.iter().any(|text| text.starts_with('('))) {
            parts.push("(…) its peer's".into());
        }
        parts.extend(means.iter().cloned());
        parts.extend(self.answer.to_use.memory.clone());
        let lines = wrap_parts(&parts, "   ", self.width - 2);
        lines.into_iter().map(|line| self.paint.dim(&format!("  {line}"))).collect()
    }

    /// What a program with one constant may take.
    fn one(&self) -> Vec<String> {
        self.section("ONE", &self.answer.to_use.one, "; ", None)
    }

    fn avoid(&self, room: Option<usize>) -> Vec<String> {
        let to_use = &self.answer.to_use;
        let lines = &self.answer.avoid;
        let shown = room.unwrap_or(lines.len());
        let hidden = lines.len().saturating_sub(shown);
        // Where there is room for nothing, the worst of all tells more than the heading.
        if let (0, Some(worst)) = (shown, lines.first()) {
            let worst = avoid_line(worst, self.width - NAME + INDENT);
            let what = format!("takes so much {}, shown at {}", resource(to_use), percent(to_use.level));
            let more = match lines.len() {
                1 => format!("       {what}"),
                many => format!("       {what}; {} more: --full", many - 1),
            };
            return vec![format!("{}{}", self.name("AVOID"), worst.trim_start()), self.paint.dim(&more)];
        }
        let title = self.avoid_title(hidden).into_iter().enumerate();
        let named = |(at, line): (usize, String)| {
            format!("{}{}", self.name(if at == 0 { "AVOID" } else { "" }), self.paint.dim(&line))
        };
        let mut out: Vec<String> = title.map(named).collect();
        let told = lines.iter().take(shown);
        match room {
            None => out.extend(told.flat_map(|line| avoid_lines(line, self.width))),
            Some(_) => out.extend(told.map(|line| avoid_line(line, self.width))),
        }
        out
    }

    /// What the lines of what to avoid mean, of which so many are hidden; with the age of the connections where those of the
    /// answer were of another one.
    fn avoid_title(&self, hidden: usize) -> Vec<String> {
        let (to_use, lines) = (&self.answer.to_use, &self.answer.avoid);
        let hidden = if hidden > 0 { format!("; {hidden} more: --full") } else { String::new() };
        let (more, level) = (more_of(to_use), percent(to_use.level));
        let ages = lines.iter().filter_map(|line| line.age_ns);
        let Some((from, to)) = ages.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))) else {
            return wrap(&format!("takes so much {more}, shown at {level}{hidden}"), self.width - NAME);
        };
        let which = match lines.iter().all(|line| line.age_ns.is_some()) {
            true => "seen only",
            false => "what is not above the best: seen only",
        };
        let age = age_range(from, to);
        wrap(&format!("takes {more} ({level}); {which} on connections {age} old{hidden}"), self.width - NAME)
    }

    fn name(&self, name: &str) -> String {
        self.paint.bold(&format!("{name:<NAME$}"))
    }

    /// A paragraph beside its name. Where it is too long, whole parts go, from the last: half a sentence tells less than
    /// none, and `…` says that there is more.
    fn section(&self, name: &str, parts: &[String], separator: &str, lines_max: Option<usize>) -> Vec<String> {
        if parts.is_empty() {
            return Vec::new();
        }
        let room = self.width - NAME;
        let said = |count: usize| {
            let parts_said = &parts[..count];
            let joined = wrap(&parts_said.join(separator), room);
            // A part in one piece reads better, where it takes no more lines.
            let whole = wrap_parts(parts_said, separator, room);
            let mut lines = if whole.len() <= joined.len() { whole } else { joined };
            if let Some(last) = lines.last_mut().filter(|_| parts.len() > count) {
                *last = format!("{} …", whole_words(last, room - 2));
            }
            lines
        };
        let fits = (1..=parts.len()).rev().map(said).find(|lines| lines_max.is_none_or(|max| lines.len() <= max));
        let lines = fits.unwrap_or_else(|| {
            let mut lines = wrap(&parts[0], room);
            lines.truncate(lines_max.unwrap_or(lines.len()));
            if let Some(last) = lines.last_mut() {
                *last = format!("{} …", whole_words(last, room - 2));
            }
            lines
        });
        let named = |(at, line): (usize, &String)| {
            let name = if at == 0 { name } else { "" };
            format!("{}{}", self.name(name), self.cut(line, room)).trim_end().to_owned()
        };
        lines.iter().enumerate().map(named).collect()
    }

    /// Lines beside a name. A command stands on a line by itself, however long, so that it can be copied.
    fn steps(&self, name: &str, steps: &[(bool, String)]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for step in steps.chunk_by(|a, b| !a.0 && !b.0) {
            match step {
                [(true, command)] => lines.push(command.clone()),
                words => {
                    let words: Vec<&str> = words.iter().map(|(_, text)| text.as_str()).collect();
                    lines.extend(wrap(&words.join("; "), self.width - NAME));
                }
            }
        }
        let named = lines.iter().enumerate().map(|(at, line)| format!("{}{line}", self.name([name, ""][at.min(1)])));
        named.collect()
    }

    fn cut(&self, text: &str, width: usize) -> String {
        cut(text, width)
    }
}

/// The first command, and what else stands in place of its last words in the others.
fn more(commands: &[String]) -> Vec<String> {
    let Some((first, others)) = commands.split_first() else { return Vec::new() };
    let Some((before, last)) = first.rsplit_once(" --") else { return commands.to_vec() };
    let differ: Vec<&str> = others.iter().filter_map(|other| Some(other.strip_prefix(before)?.trim_start())).collect();
    match differ.len() == others.len() && !others.is_empty() {
        true => vec![first.clone(), format!("or, in place of --{last}: {}", differ.join(", "))],
        false => commands.to_vec(),
    }
}

/// Parts in lines, none broken that has room in one.
fn wrap_parts(parts: &[String], separator: &str, width: usize) -> Vec<String> {
    let (end, between) = separator.split_at(separator.trim_end().len());
    let mut lines: Vec<String> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let part = if at + 1 < parts.len() { format!("{part}{end}") } else { part.clone() };
        match lines.last_mut() {
            Some(line) if chars(line) + chars(between) + chars(&part) <= width => {
                line.push_str(between);
                line.push_str(&part);
            }
            _ => lines.extend(wrap(&part, width)),
        }
    }
    lines
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

/// A text of at most so many characters; of a longer one as many whole words as fit, and `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    whole_words(text, width.saturating_sub(1)).trim_end_matches([',', ':', ';']).to_owned() + "…"
}

/// The same of parts behind commas, none of which is broken: `20 competing` without its noun is another number.
pub(super) fn cut_parts(text: &str, width: usize) -> String {
    let mut parts: Vec<&str> = text.split(", ").collect();
    if chars(text) <= width || parts.len() == 1 {
        return cut(text, width);
    }
    // `…` needs room as well.
    while parts.len() > 1 && (parts.join(", ") == text || chars(&parts.join(", ")) >= width) {
        parts.pop();
    }
    cut(&(parts.join(", ") + "…"), width)
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

/// As many of a text's words as fit.
fn whole_words(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        None => text.trim_end().to_owned(),
        Some((end, _)) if text[end..].starts_with(' ') => text[..end].trim_end().to_owned(),
        Some((end, _)) => text[..end].rsplit_once(' ').map_or(&text[..end], |(words, _)| words).trim_end().to_owned(),
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
        columns.push(column("within", true, 0, &|row| row.within.map_or_else(|| no_answer(row), within)));
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
fn within(bound: f64) -> String {
    if is_nothing(bound) { BEST.into() } else { self::bound(bound) }
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
    let best = best.then(|| format!("{BEST}: no other is better"));
    let block = rows.iter().any(|row| row.note.as_ref().is_some_and(|note| note.contains("block")));
    let block = block.then(|| "block: every choice once".to_owned());
    let all = headings.contains(&ALL).then(|| format!("{ALL}: of all trials, slow ones in full"));
    let moves = rows.iter().any(|row| row.moves).then(|| format!("{MOVES} moved: NOISE"));
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
fn more_of(to_use: &UseView) -> &'static str {
    if to_use.cost_unit.is_some() { "more CPU time" } else { "more time" }
}

/// What is compared.
fn resource(to_use: &UseView) -> &'static str {
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
    let text = if row.rough { format!("({text})") } else { text };
    if row.moves { format!("{MOVES}{text}") } else { text }
}

/// Each level of a line with its bounds.
fn avoid_levels(line: &AvoidLine) -> Vec<String> {
    let each = line.levels.iter().enumerate().map(|(at, level)| {
        let range = match level.dearer_upper.filter(|upper| *upper < BOUND_MAX) {
            Some(upper) => whole_percents(level.dearer_lower, upper).join("–") + " %",
            _ if level.dearer_lower >= BOUND_MAX => format!(">{:.0} %", BOUND_MAX * 100.0),
            _ => format!("≥ {} %", whole_percents(level.dearer_lower, level.dearer_lower)[0]),
        };
        format!("{} {} {range}", if at == 0 { "" } else { "," }, level.level)
    });
    each.collect()
}

/// The mark before a line of a question whose answer something speaks against.
fn contested(line: &AvoidLine) -> &'static str {
    if line.contested { mark(Standing::Doubtful) } else { "" }
}

/// The whole of a line, however many it takes.
fn avoid_lines(line: &AvoidLine, width: usize) -> Vec<String> {
    let text = format!("{}: {}{} above {}", line.question, line.heading, avoid_levels(line).concat(), line.against);
    let parts = wrap(&text, width - INDENT).into_iter().enumerate();
    parts.map(|(at, part)| format!("{:INDENT$}{part}", if at == 0 { contested(line) } else { "" })).collect()
}

/// `g2 TCP, you read: read 4K 90–140 %, 16K 20–60 % above the best`, as much of it as one line holds.
fn avoid_line(line: &AvoidLine, width: usize) -> String {
    let end = format!(" above {}", line.against);
    let each = avoid_levels(line);
    // A question may be shortened; the worst level stands in full.
    let behind = format!(": {}{}{end}", line.heading, each.first().map_or("", String::as_str));
    let more = if each.len() > 1 { chars(" … 00 more") } else { 0 };
    let room = width.saturating_sub(INDENT + chars(&behind) + more).max(QUESTION_MIN);
    let mut text = format!("{:INDENT$}{}: {}", contested(line), cut_parts(&line.question, room), line.heading);
    for (at, one) in each.iter().enumerate() {
        let rest = line.levels.len() - at;
        let more = format!(" … {rest} more");
        let after = if rest > 1 { chars(&more) } else { 0 };
        if at > 0 && chars(&text) + chars(one) + after + chars(&end) > width {
            return cut(&format!("{text}{end}{more}"), width);
        }
        text.push_str(one);
    }
    cut(&format!("{text}{end}"), width)
}

#[cfg(test)]
mod tests {
    use super::super::grid::tests::row;
    use super::*;
    use crate::view::document::AvoidLevel;

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

    #[test]
    fn what_is_cut_ends_with_a_whole_word() {
        let check = |width: usize, expected: &str| assert_eq!(whole_words("wake-ups: g3, g4", width), expected);
        check(20, "wake-ups: g3, g4");
        check(16, "wake-ups: g3, g4");
        check(15, "wake-ups: g3,");
        check(13, "wake-ups: g3,");
        check(12, "wake-ups:");
        check(4, "wake");
    }

    #[test]
    fn parts_stand_whole_where_there_is_room() {
        let parts = ["sender CPU: g1".to_owned(), "full TCP window or receiver CPU: g2, g3".to_owned()];
        let check = |separator: &str, width: usize, expected: &[&str]| {
            assert_eq!(wrap_parts(&parts, separator, width), expected, "{separator:?} {width}");
        };
        check(" · ", 60, &["sender CPU: g1 · full TCP window or receiver CPU: g2, g3"]);
        check(" · ", 55, &["sender CPU: g1 ·", "full TCP window or receiver CPU: g2, g3"]);
        check("; ", 55, &["sender CPU: g1; full TCP window or receiver CPU: g2, g3"]);
        check("   ", 40, &["sender CPU: g1", "full TCP window or receiver CPU: g2, g3"]);
        check("; ", 20, &["sender CPU: g1;", "full TCP window or", "receiver CPU: g2, g3"]);
    }

    #[test]
    fn no_word_and_no_number_is_cut() {
        let question = "TCP, 2 CPUs, 50 flows, 20 competing";
        let check = |width: usize, expected: &str| assert_eq!(cut_parts(question, width), expected);
        check(35, question);
        check(34, "TCP, 2 CPUs, 50 flows…");
        check(25, "TCP, 2 CPUs, 50 flows…");
        check(21, "TCP, 2 CPUs…");
        assert_eq!(cut_parts("one word after another", 12), "one word…");
        assert_eq!(cut("read 4K 125–210 % above the best", 20), "read 4K 125–210 %…");
        let long = AvoidLine {
            question: question.into(),
            group: bytegauge_model::GroupId("g1".into()),
            factor: "server_engine".into(),
            heading: "server".into(),
            against: "the best".into(),
            age_ns: None,
            contested: false,
            levels: [(0.359, Some(0.821)), (0.085, Some(0.4601))]
                .map(|(dearer_lower, dearer_upper)| AvoidLevel { level: "blocking".into(), dearer_lower, dearer_upper })
                .to_vec(),
        };
        // Bounds are rounded outwards: 35.9 to 82.1 % is no more than 35 % at least.
        let text = avoid_line(&long, 70);
        assert_eq!(text, "  TCP, 2 CPUs…: server blocking 35–83 % above the best … 1 more");
        assert!(
            avoid_line(&long, 100).contains("blocking 35–83 %, blocking 8–47 % above"),
            "{}",
            avoid_line(&long, 100)
        );
        // Where there is room for everything, nothing is counted away.
        let whole = avoid_lines(&long, 50);
        assert!(whole.len() > 1 && whole.iter().all(|line| chars(line) <= 50), "{whole:?}");
        assert!(whole.join(" ").contains("20 competing: server") && !whole.join("").contains('…'), "{whole:?}");
    }
}
