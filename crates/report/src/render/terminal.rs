//! A session on a terminal in full (`--full`).

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::{Nanos, counted};

use super::cell_text::{call_noun, number, share};
use super::paint::{Paint, wrap};
use crate::View;
use crate::view::document::{EnvironmentView, Note};

pub use super::paint::TerminalStyle;

/// Narrower than this nothing is laid out any more.
const COLUMNS_MIN: usize = 40;
/// Longer lines of prose are hard to read.
const PROSE_MAX: usize = 110;

/// The results with the table of every test, every finding, and the details of the measurement.
pub fn full(view: &View, style: &TerminalStyle) -> String {
    super::screen::full(view, style, details(view, style))
}

/// The cost of the harness, and the machine.
fn details(view: &View, style: &TerminalStyle) -> Vec<String> {
    let paint = Paint(style.colour);
    let width = style.columns.max(COLUMNS_MIN);
    let mut out = vec![paint.bold("Details of the measurement"), format!("  {}", status(view)), String::new()];
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
            format!("complete, after {} of at most {} analyses{end}", look.done, look.of)
        }
        _ => view.status.name().to_owned(),
    };
    format!("{started} · {status}")
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
    let name = |id: &str| {
        let test = view.tests.iter().find(|test| test.id.0 == id).filter(|_| view.tests.len() > 1);
        test.map_or_else(String::new, |test| test.name.clone())
    };
    for note in alike(&view.notes, name) {
        line("note", &note);
    }
    if let Some(store) = &style.store {
        line("results", store);
    }
    line("again", &format!("{} report {}", style.program, view.session));
    out
}

/// Equal notes of several groups, as one, with the names of their tests: `Read from TCP, Write to TCP: …`.
fn alike(notes: &[Note], name: impl Fn(&str) -> String) -> Vec<String> {
    let mut phrases: Vec<(Vec<&str>, &str)> = Vec::new();
    for note in notes {
        let (group, text) = (note.group.as_ref().map(|group| &*group.0), note.own());
        match phrases.iter_mut().find(|(groups, other)| group.is_some() && !groups.is_empty() && *other == text) {
            Some((groups, _)) => groups.extend(group),
            None => phrases.push((group.into_iter().collect(), text)),
        }
    }
    let joined = |(groups, text): (Vec<&str>, &str)| {
        let names: Vec<String> = groups.into_iter().map(&name).filter(|name| !name.is_empty()).collect();
        if names.is_empty() { text.to_owned() } else { format!("{}: {text}", names.join(", ")) }
    };
    phrases.into_iter().map(joined).collect()
}

fn billing(view: &View) -> String {
    if call_noun(view) == "NOP" {
        return "time of the thread that runs the ring, and of the kernel's thread that submits for it (sqpoll)".into();
    }
    let is_external = view.cells.iter().any(|cell| cell.spec().connect().is_some());
    let external = if is_external { "the CPU time of an external server is not visible; " } else { "" };
    let interrupts = match view.cells.iter().find_map(|cell| cell.cpu.softirq_billed_to_interrupted) {
        Some(true) => "soft interrupts count as time of the thread that they interrupt",
        Some(false) => "soft interrupts are accounted apart",
        None => {
            "soft interrupts count as time of the thread that they interrupt, unless the kernel accounts them apart (not \
             known here)"
        }
    };
    format!("{external}{interrupts}")
}

fn floor_text(view: &View) -> String {
    let floor = &view.floor;
    let Some(ns) = floor.ns_per_call else {
        let why = match floor.trials {
            0 => "not measured",
            _ => "not known: something disturbed the null engine, which does least and was not the fastest",
        };
        return format!("its cost is {why}");
    };
    let call = call_noun(view);
    let of_fastest = match (floor.share, floor.fastest_ns_per_call, &floor.fastest_cell) {
        (Some(part), Some(fastest), Some(cell)) => {
            let label = view.cell(cell).map_or_else(|| cell.to_string(), |cell| cell.label.clone());
            format!(", {} of the least time per {call} ({label}: {})", share(Some(part)), Nanos(fastest.round() as u64))
        }
        _ => String::new(),
    };
    format!("{} ns a {call}{of_fastest}", number(Some(ns)))
}

fn environment_text(environment: &EnvironmentView) -> String {
    let quiet = environment.quietness().unwrap_or("how quiet is not known");
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
    format!("{quiet}{reasons}{facts}")
}

fn text_fact(environment: &EnvironmentView, path: &[&str]) -> Option<String> {
    environment.fact(path)?.as_str().map(str::to_owned)
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
        let of = |group: &str, own: &str| Note::of_group(&bytegauge_model::GroupId(group.into()), own);
        let (one, two) = (of("g1", "1 block broke off"), of("g2", "2 blocks broke off"));
        let phrases =
            alike(&[one, Note::stored("c7 failed: it broke"), two, of("g3", "1 block broke off")], str::to_owned);
        assert_eq!(phrases, ["g1, g3: 1 block broke off", "c7 failed: it broke", "g2: 2 blocks broke off"]);
    }

    #[test]
    fn no_colour_means_no_escapes() {
        assert_eq!(Paint(false).bold("x"), "x");
        assert!(Paint(true).bold("x").contains('\u{1b}'));
    }
}
