//! The details of a session on a terminal (`--full`): the counts of every group, the cost of the harness, and the
//! machine.

use super::cell_text::{call_noun, number, rough_size, share};
use super::paint::{Paint, wrap};
use super::table;
use super::table::{columns, lines, rows};
use crate::View;
use crate::limit::UNKNOWN as UNKNOWN_LIMIT;
use crate::limit::call::DELAYED_ACKS;
use crate::outward::percent;
use crate::phrase;
use crate::view::cost::ERROR_MAX;
use crate::view::document::{CellView, EnvironmentView, GroupView, Slice};
use bytegauge_model::SessionStatus;
use bytegauge_model::unit::{Bytes, Nanos, counted};

pub use super::paint::TerminalStyle;

/// Narrower than this nothing is laid out any more.
const COLUMNS_MIN: usize = 40;
/// Longer lines of prose are hard to read.
const PROSE_MAX: usize = 110;

/// The results with the table of every test, every finding, and the details of the measurement.
pub fn full(view: &View, style: &TerminalStyle) -> String {
    super::screen::full(view, style, details(view, style))
}

/// One test: its options, and the details of its group; `None` where there is none of that name.
pub fn group_alone(view: &View, id: &str, style: &TerminalStyle) -> Option<String> {
    let paint = Paint(style.colour);
    let width = style.columns.max(COLUMNS_MIN);
    let group = view.groups.iter().find(|group| group.id.0 == id)?;
    let test = view.tests.iter().find(|test| test.id == group.id)?;
    let mut out = vec![paint.bold(&view.heading), String::new()];
    out.extend(super::screen::of_test(test, style));
    let findings = view.findings.iter().filter(|finding| finding.test.as_ref() == Some(&group.id));
    out.extend(findings.flat_map(|finding| prose(&finding.text, width)));
    out.push(String::new());
    out.extend(self::group(view, group, width, paint));
    let own = format!("{id}: ");
    let notes = view.notes.iter().filter_map(|note| note.strip_prefix(&own));
    out.extend(notes.flat_map(|note| prose(note, width)));
    Some(out.join("\n") + "\n")
}

/// The counts of every group, the cost of the harness, and the machine.
fn details(view: &View, style: &TerminalStyle) -> Vec<String> {
    let paint = Paint(style.colour);
    let width = style.columns.max(COLUMNS_MIN);
    let mut out = vec![paint.bold("Details of the measurement"), format!("  {}", status(view)), String::new()];
    for group in &view.groups {
        out.extend(self::group(view, group, width, paint));
        out.push(String::new());
    }
    out.extend(footer(view, style, width, paint));
    out
}

/// When it was measured, and how far.
fn status(view: &View) -> String {
    let started = view.started.replace('T', " ").replace('Z', " UTC");
    let looks = view.groups.iter().filter_map(|group| group.look.as_ref());
    let status = match looks.max_by_key(|look| (look.done, !look.cut_short)) {
        Some(look) if look.of > 1 && view.status == SessionStatus::Complete => {
            let end = if look.cut_short { ", with fewer blocks than planned" } else { "" };
            format!("analysis {} of {} complete{end}", look.done, look.of)
        }
        _ => view.status.name().to_owned(),
    };
    format!("{started} · {status}")
}

/// The counts of one group.
fn group(view: &View, group: &GroupView, width: usize, paint: Paint) -> Vec<String> {
    let mut out = vec![group_heading(group, width, paint)];
    let rows = rows(view, group);
    if rows.cells.is_empty() {
        return out;
    }
    let drawn = lines(&rows, columns(view, group), width);
    out.extend(drawn.into_iter().enumerate().map(|(at, line)| if at == 0 { paint.dim(&line) } else { line }));
    if rows.left_out > 0 {
        out.push(format!("  {}", paint.dim(&format!("{} more rows: --format csv", rows.left_out))));
    }
    out.extend(evidence(&rows, width, paint));
    let further = super::calls::lines(&rows)
        .into_iter()
        .chain(super::datagrams::lines(&rows))
        .chain(super::both_ways::lines(&rows))
        .chain(super::rings::lines(view, group, &rows));
    out.extend(further.flat_map(|text| prose(&text, width)).map(|line| paint.dim(&line)));
    out.extend(cost_line(group, width, paint));
    out
}

fn group_heading(group: &GroupView, width: usize, paint: Paint) -> String {
    let blocks = (group.blocks.used > 0).then(|| counted(group.blocks.used, "block"));
    let undecided = (!group.undecided.is_empty()).then(|| format!("{} screened only", group.undecided.len()));
    let facts: Vec<String> = [Some(group.id.to_string()), blocks, undecided].into_iter().flatten().collect();
    let facts = facts.join(" · ");
    let used = group.label.chars().count() + facts.chars().count() + 6;
    let rule = "─".repeat(width.min(PROSE_MAX).saturating_sub(used).max(2));
    format!("{} {} {} {}", paint.dim("──"), paint.bold(&group.label), paint.dim(&rule), paint.dim(&facts))
}

/// The bottleneck of the recommended cell, or of the fastest, with its evidence.
fn evidence(rows: &table::Rows, width: usize, paint: Paint) -> Vec<String> {
    let Some(cell) = rows.named() else { return Vec::new() };
    let text = match cell.limit.name {
        UNKNOWN_LIMIT => format!("{}: {}: {}", cell.label, phrase::limit(UNKNOWN_LIMIT), cell.limit.sentence),
        _ => format!("{} is limited by {}: {}", cell.label, limit_name(cell), cell.limit.sentence),
    };
    prose(&text, width).iter().map(|line| paint.dim(line)).collect()
}

fn limit_name(cell: &CellView) -> String {
    match cell.limit.name {
        name if name.starts_with("the ")
            || name.starts_with("what ")
            || matches!(name, "both CPUs" | "wake-ups" | DELAYED_ACKS) =>
        {
            phrase::limit(name).into()
        }
        name => format!("the {}", phrase::limit(name)),
    }
}

fn cost_line(group: &GroupView, width: usize, paint: Paint) -> Vec<String> {
    let slices = [("reading", &group.cost_model.reader), ("writing", &group.cost_model.writer)];
    let phrases: Vec<String> = slices.into_iter().filter_map(|(end, slice)| slice_text(end, slice.as_ref()?)).collect();
    phrases.iter().flat_map(|text| prose(text, width)).map(|line| paint.dim(&line)).collect()
}

fn slice_text(end: &str, slice: &Slice) -> Option<String> {
    // The curve, whose costs are never negative; the plain line is for comparison with published fits.
    let Some((call, byte)) = slice.per_call_ns.zip(slice.segments.first().map(|first| first.per_byte_ns)) else {
        return unreported(end, slice);
    };
    let mut off = slice.relative_error.map_or_else(String::new, |error| format!(", trials {} off it", percent(error)));
    off +=
        &missed(slice).map_or_else(String::new, |at| format!(", not only by chance at {at}: the curve is wrong there"));
    let metric = if slice.metric == Some("on_cpu_ns_per_call") { "CPU" } else { "wall" };
    let up_to = slice.fit_max.map_or_else(String::new, |most| format!(", up to {}", Bytes(most)));
    let most = if metric == "CPU" { "the most bytes a CPU second" } else { "the best rate" };
    let sizes = [("half", slice.size_for_half), ("95 %", slice.size_for_95)]
        .into_iter()
        .filter_map(|(share, size)| Some(format!("{share} of {most} from {}", rough_size(size?))));
    let sizes: Vec<String> = sizes.collect();
    let sizes = if sizes.is_empty() { String::new() } else { format!("; {}", sizes.join(", ")) };
    let breaks: Vec<String> = slice
        .breaks
        .iter()
        .zip(slice.segments.iter().skip(1))
        .map(|(at, after)| format!(", {} from {}", number(Some(after.per_byte_ns)), rough_size(at.at_bytes)))
        .collect();
    Some(format!(
        "{end} costs about {} ns a call + {} ns a byte{} ({metric} time{up_to}, descriptive{off}){sizes}",
        number(Some(call)),
        number(Some(byte)),
        breaks.concat()
    ))
}

/// The sizes that the curve misses by more than chance; of many how many there are.
fn missed(slice: &Slice) -> Option<String> {
    let sizes = slice.off_curve.iter().filter(|one| one.is_off).map(|one| Bytes(one.asked_bytes).to_string());
    let sizes: Vec<String> = sizes.collect();
    match sizes.len() {
        0 => None,
        1 | 2 => Some(phrase::join(&sizes, "and")),
        many => Some(format!("{many} of {} sizes", slice.off_curve.len())),
    }
}

/// Why there is no cost line although there are enough sizes for one.
fn unreported(end: &str, slice: &Slice) -> Option<String> {
    let why = match slice.relative_error? {
        error if error >= ERROR_MAX => format!("trials are {} off any line", percent(error)),
        _ => "a line would have calls or bytes that cost nothing".to_owned(),
    };
    Some(format!("the cost of {end} per call and per byte is unknown here: {why}"))
}

fn footer(view: &View, style: &TerminalStyle, width: usize, paint: Paint) -> Vec<String> {
    let mut out = Vec::new();
    let mut line = |name: &str, text: &str| {
        for (at, line) in wrap(text, width.min(PROSE_MAX) - 10).iter().enumerate() {
            let name = if at == 0 { name } else { "" };
            out.push(format!("{} {line}", paint.dim(&format!("{name:<9}"))));
        }
    };
    line("harness", &floor_text(view));
    line("cpu", &billing(view));
    line("machine", &environment_text(&view.environment));
    for note in alike(&view.notes) {
        line("note", &note);
    }
    if let Some(store) = &style.store {
        line("results", store);
    }
    line("again", &format!("{} report {}", style.program, view.session));
    out
}

/// Equal notes of several groups, as one: `g2, g5: …`.
fn alike(notes: &[String]) -> Vec<String> {
    let mut phrases: Vec<(Vec<&str>, &str)> = Vec::new();
    for note in notes {
        let (group, text) = match note.split_once(": ") {
            Some((group, text)) if group.starts_with('g') && group[1..].bytes().all(|byte| byte.is_ascii_digit()) => {
                (Some(group), text)
            }
            _ => (None, note.as_str()),
        };
        match phrases.iter_mut().find(|(groups, other)| group.is_some() && !groups.is_empty() && *other == text) {
            Some((groups, _)) => groups.extend(group),
            None => phrases.push((group.into_iter().collect(), text)),
        }
    }
    let joined = |(groups, text): (Vec<&str>, &str)| match groups.is_empty() {
        true => text.to_owned(),
        false => format!("{}: {text}", groups.join(", ")),
    };
    phrases.into_iter().map(joined).collect()
}

fn billing(view: &View) -> String {
    if call_noun(view) == "NOP" {
        return "time of the thread that runs the ring, and of the kernel's thread that submits for it (sqpoll)".into();
    }
    let external = |cell: &CellView| cell.spec().connect().is_some();
    let ends = match view.cells.iter().any(external) {
        true => "our end's threads (the CPU time of an external server is not visible)",
        false => "both ends' threads",
    };
    let interrupts = match view.cells.iter().find_map(|cell| cell.cpu.softirq_billed_to_interrupted) {
        Some(true) => "soft interrupts are billed to whom they interrupt",
        Some(false) => "soft interrupts are accounted apart",
        None => {
            "soft interrupts are billed to whom they interrupt, unless the kernel accounts interrupt time apart (not \
             known here)"
        }
    };
    format!("time of {ends}; {interrupts}")
}

fn floor_text(view: &View) -> String {
    let floor = &view.floor;
    let Some(ns) = floor.ns_per_call else {
        let why = match floor.trials {
            0 => "not measured (no null engine in the plan)",
            _ => {
                "not known: the null engine, which does less than any other, was slower than one, so something disturbed it"
            }
        };
        return format!("its cost is {why}");
    };
    let call = call_noun(view);
    let of_fastest = match (floor.share, floor.fastest_ns_per_call, &floor.fastest_cell) {
        (Some(part), Some(fastest), Some(cell)) => {
            let label = view.cell(cell).map_or_else(|| cell.to_string(), |cell| cell.label.clone());
            format!(", {} of the fastest real {call} ({label}: {})", share(Some(part)), Nanos(fastest.round() as u64))
        }
        _ => String::new(),
    };
    format!("{} ns a {call}{of_fastest}", number(Some(ns)))
}

fn environment_text(environment: &EnvironmentView) -> String {
    let grade = environment
        .grade
        .map_or_else(|| "how quiet is not known".into(), |grade| format!("{grade} (A quiet … D not to be trusted)"));
    let reasons =
        if environment.reasons.is_empty() { String::new() } else { format!(": {}", environment.reasons.join(", ")) };
    let steal = environment.steal_share.filter(|share| *share > 0.0);
    let facts = [
        steal.map(|part| format!("steal {}", share(Some(part)))),
        text_fact(environment, &["kernel_release"]).map(|kernel| format!("Linux {kernel}")),
        text_fact(environment, &["cpu", "model"]),
        environment.allowed_cpus().map(|cpus| counted(cpus, "CPU")),
        environment.congestion().map(|name| format!("TCP {name}")),
    ];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    let facts = if facts.is_empty() { String::new() } else { format!(" · {}", facts.join(" · ")) };
    format!("{grade}{reasons}{facts}")
}

fn text_fact(environment: &EnvironmentView, path: &[&str]) -> Option<String> {
    environment.fact(path)?.as_str().map(str::to_owned)
}

/// A paragraph under a heading.
fn prose(text: &str, width: usize) -> Vec<String> {
    wrap(text, width.min(PROSE_MAX) - 2).iter().map(|line| format!("  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_numbers_with_their_units() {
        assert_eq!(wrap("read with 32 KiB and write", 13), ["read with", "32 KiB and", "write"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("aaaaaaaaaaaaaaa b", 5), ["aaaaaaaaaaaaaaa", "b"]);
    }

    #[test]
    fn notes_that_are_alike_are_one() {
        let notes = ["g1: 1 block broke off", "c7 failed: it broke", "g2: 2 blocks broke off", "g3: 1 block broke off"];
        let phrases = alike(&notes.map(String::from));
        assert_eq!(phrases, ["g1, g3: 1 block broke off", "c7 failed: it broke", "g2: 2 blocks broke off"]);
    }

    #[test]
    fn no_colour_means_no_escapes() {
        assert_eq!(Paint(false).bold("x"), "x");
        assert!(Paint(true).bold("x").contains('\u{1b}'));
    }
}
