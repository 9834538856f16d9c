//! The first screen: the answer in at most 35 lines of 80 columns, the most important first.
//!
//! Lays out what [`AnswerView`] says and settles nothing. What does not fit is counted, and `--full` shows it.

use std::collections::BTreeSet;

use super::avoid;
use super::fit::{chars, cut, wrap_parts};
use super::paint::{Paint, TerminalStyle, wrap};
use super::use_table::{Table, mark, more_of, resource, table};
use crate::View;
use crate::sentence::{age_range, percent};
use crate::view::document::{AnswerView, Standing, UseRow};

/// Lines of the first screen, the last of them the commands for the rest.
pub const LINES_MAX: usize = 35;
/// Wider lines are hard to read, narrower ones hold no table.
const COLUMNS: std::ops::RangeInclusive<usize> = 60..=100;
/// Room for the name of a section.
const NAME: usize = 7;
/// Questions of which it is told what relays are worth.
const RELAYS_MAX: usize = 3;
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
    const SOME: [Caps; 9] = [
        Caps::at([4, 6, 4, 9, 6]),
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
        let avoid = &self.answer.avoid;
        let uncut: usize = avoid.iter().map(|line| avoid::uncut(line, self.width).len()).sum();
        self.middle(None).len().saturating_sub(uncut) + avoid.len().min(AVOID_MIN)
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

    /// A line of parts that are joined by dots, without those that do not fit.
    fn whole_parts(&self, text: &str) -> String {
        let mut parts: Vec<&str> = text.split(" · ").collect();
        while parts.len() > 1 && chars(&parts.join(" · ")) > self.width {
            parts.pop();
        }
        cut(&parts.join(" · "), self.width)
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
            (Standing::Open, format!("open: bounded, not shown within {margin}")),
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
            let worst = avoid::cut_to(worst, self.width - NAME + avoid::INDENT);
            let what = format!("takes so much {}, shown at {}", more_of(to_use), percent(to_use.level));
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
            None => out.extend(told.flat_map(|line| avoid::uncut(line, self.width))),
            Some(_) => out.extend(told.map(|line| avoid::cut_to(line, self.width))),
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

    fn table(&self, rows: &[&UseRow]) -> Table {
        let to_use = &self.answer.to_use;
        let name = self.name(if to_use.grid.is_some() { "" } else { "USE" });
        table(to_use, rows, &name, self.width, &self.paint)
    }

    fn name(&self, name: &str) -> String {
        self.paint.bold(&format!("{name:<NAME$}"))
    }

    /// A paragraph beside its name. Where it is too long whole parts go, from the last, and are counted: half a sentence tells
    /// less than none. The first stands whole however long it is.
    fn section(&self, name: &str, parts: &[String], separator: &str, lines_max: Option<usize>) -> Vec<String> {
        let room = self.width - NAME;
        let said = |count: usize| {
            let mut said = parts[..count].to_vec();
            if count < parts.len() {
                said.push(format!("{} more: --full", parts.len() - count));
            }
            let joined = wrap(&said.join(separator), room);
            // A part in one piece reads better, where it takes no more lines.
            let whole = wrap_parts(&said, separator, room);
            if whole.len() <= joined.len() { whole } else { joined }
        };
        let fits = (1..=parts.len()).rev().map(said).find(|lines| lines_max.is_none_or(|max| lines.len() <= max));
        let lines = fits.or_else(|| (!parts.is_empty()).then(|| said(1))).unwrap_or_default();
        let named = |(at, line): (usize, &String)| {
            let name = if at == 0 { name } else { "" };
            format!("{}{}", self.name(name), cut(line, room)).trim_end().to_owned()
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
