//! The first screen of a session that compares two: what limits each, how far the verdict holds, and what to do next.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{SessionStatus, session};

use super::super::document::{AnswerView, LookView, VersusSideView, VersusView, View};
use super::{Questions, head, holds, next, noise, rows};
use crate::phrase;
use crate::sentence::{FORECAST_MAX_S, budget, forecast, measured_twice, percent};

/// Everything that the first screen says of two.
pub fn answer(view: &View, versus: &VersusView, imported: bool) -> AnswerView {
    let questions = Questions::of(view);
    AnswerView {
        head: head(view),
        to_use: rows::to_use(view, &questions),
        gain: vec![versus.text.clone()],
        why: why(view, versus),
        holds: shown(view, versus),
        noise: noise::noise(view, &questions),
        next: next(view, versus, imported),
        more: next::more(view),
        ..AnswerView::default()
    }
}

fn why(view: &View, versus: &VersusView) -> Vec<String> {
    let limit = |side: &VersusSideView| view.cell(&side.cell).filter(|cell| cell.trials > 0).map(|cell| &cell.limit);
    match (limit(&versus.a), limit(&versus.b)) {
        (Some(a), Some(b)) if a.name == b.name => vec![format!("both: {} ({})", phrase::limit(a.name), b.sentence)],
        (a, b) => {
            let each = [("a", a), ("b", b)].into_iter().filter_map(|(name, limit)| Some((name, limit?)));
            each.map(|(name, limit)| format!("{name}: {} ({})", phrase::limit(limit.name), limit.sentence)).collect()
        }
    }
}

fn shown(view: &View, versus: &VersusView) -> Vec<String> {
    let group = view.groups.first();
    let judged = group.and_then(|group| group.look.as_ref());
    let judged = judged.map(|look| format!(" (judgement {} of at most {}; 95 % for all together)", look.done, look.of));
    let by_pairs = (versus.blocks > 0).then(|| {
        let used = group.map_or(versus.blocks, |group| group.blocks.used.max(versus.blocks));
        let merged = match used > versus.blocks {
            true => format!(", which resemble their neighbours and count as {}", versus.blocks),
            false => String::new(),
        };
        let (level, pairs) = (percent(versus.level), counted(used, "pair"));
        format!("shown at {level} by {pairs} of a and b{merged}, not by the medians{}", judged.unwrap_or_default())
    });
    let twin = group.and_then(|group| group.twin_reach).map(measured_twice);
    [by_pairs, twin, Some(holds::scope(view))].into_iter().flatten().collect()
}

fn next(view: &View, versus: &VersusView, imported: bool) -> Vec<String> {
    if view.status == SessionStatus::Running {
        return vec![next::GOES_ON.into()];
    }
    if view.status == SessionStatus::Incomplete {
        return match imported {
            true => vec!["it was interrupted where it was measured, and goes on only there".into()],
            false => vec![next::resume(view), "goes on where it stopped; until then nothing more is shown".into()],
        };
    }
    let failed = [("a", &versus.a), ("b", &versus.b)].into_iter().find(|(_, side)| side.trials == 0);
    if let Some((name, _)) = failed {
        return vec![format!("mend {name}, and measure again")];
    }
    match versus.verdict {
        "worse" => vec!["keep a; exit code 1 says so to a script".into()],
        "better" => {
            vec![format!("take b: it gains more than {}, which is what counts (--margin)", percent(versus.margin))]
        }
        "equivalent" => vec![format!(
            "take either: no more than {} lies between them, which does not count (--margin)",
            percent(versus.margin)
        )],
        _ => {
            let outlook = outlook(view, versus);
            let last = looks(view).and_then(LookView::left_until).filter(|_| !imported);
            let how = match (&outlook, last) {
                (Some(outlook), _) if outlook.is_far => format!(
                    "say what difference counts for you (--margin, {} here), or give a run more to do",
                    percent(versus.margin)
                ),
                (Some(outlook), Some(last)) if outlook.blocks <= last as u64 => decided(view),
                // Of what has no forecast yet the next look tells more.
                (None, Some(_)) => decided(view),
                _ => longer(view, outlook.as_ref()),
            };
            [Some(how), outlook.map(|outlook| outlook.text), why_ended(view)].into_iter().flatten().collect()
        }
    }
}

/// The command that goes on to the looks that are left.
fn decided(view: &View) -> String {
    format!("{} --until decided", next::resume(view))
}

/// The command for a session that is long enough by the outlook, or four times as long as this one.
fn longer(view: &View, outlook: Option<&Outlook>) -> String {
    let elapsed_s = view.elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let wanted = budget(outlook.and_then(|outlook| outlook.seconds).map_or(4.0 * elapsed_s, |more| elapsed_s + more));
    next::again_with(view, Some(&wanted)).unwrap_or_else(|| format!("measure again with --budget {wanted}"))
}

fn looks(view: &View) -> Option<&LookView> {
    view.groups.iter().find_map(|group| group.look.as_ref())
}

/// What more time may bring, where it is not decided.
struct Outlook {
    /// Blocks that would likely decide it, those that there are included.
    blocks: u64,
    /// And how long those take that there are not yet.
    seconds: Option<f64>,
    /// More than anybody waits for.
    is_far: bool,
    text: String,
}

/// By the estimates as they are; `None` where it is decided, and where nothing can be told: too few blocks, or a reason that
/// more of them would not remove.
fn outlook(view: &View, versus: &VersusView) -> Option<Outlook> {
    if versus.verdict != "open" || versus.why_open.is_some() || versus.longer.is_none() {
        return None;
    }
    let used = view.groups.first().map_or(versus.blocks, |group| group.blocks.used).max(1) as f64;
    // Of neighbours that were merged each counts.
    let more = versus.blocks_more.map(|more| (more as f64 * used / versus.blocks.max(1) as f64).ceil());
    let seconds = |more: f64| view.elapsed_ns.unwrap_or(0) as f64 / 1e9 * more / used;
    Some(match more.filter(|more| seconds(*more) <= FORECAST_MAX_S) {
        Some(more) => Outlook {
            blocks: (used + more) as u64,
            seconds: Some(seconds(more)),
            is_far: false,
            text: format!(
                "about {} more ({more} pairs, {used} so far) may decide it if nothing changes",
                forecast(seconds(more))
            ),
        },
        None => Outlook {
            blocks: u64::MAX,
            seconds: None,
            is_far: true,
            text: format!("{} that to decide it would take more than an hour", hard(versus.longer, versus.margin)),
        },
    })
}

/// What makes it hard to decide: a difference beside the margin, or trials that differ by far more than lies between them.
fn hard(longer: Option<f64>, margin: f64) -> String {
    let away = longer.map_or(0.0, |longer| (longer.abs().ln_1p() - margin.ln_1p()).abs());
    match away <= margin.ln_1p() / NEAR {
        true => format!("the difference lies so near {}, from which on it counts,", percent(margin)),
        false => "the trials of each differ so much among themselves".to_owned(),
    }
}

/// A difference lies near the margin where no more than such a part of the margin is between them.
const NEAR: f64 = 2.0;

/// Why a session that was to go on until it is decided went no further.
fn why_ended(view: &View) -> Option<String> {
    let told = view.notes.iter().rev().find(|note| session::tells_the_end(note))?;
    Some(format!("it {told}"))
}

/// What is said of two wherever a recommendation stands: the verdict, and what more time may bring.
pub fn recommendation(view: &View, versus: &VersusView) -> String {
    let complete = view.status == SessionStatus::Complete;
    let outlook = outlook(view, versus).filter(|_| complete).map(|outlook| outlook.text);
    [Some(versus.text.clone()), outlook].into_iter().flatten().collect::<Vec<_>>().join("; ") + "."
}

/// CPU time of a unit of a workload, for people.
pub fn cpu(workload: &str, ns: f64) -> String {
    match workload {
        "stream" => format!("{} CPU s/GiB", significant(ns * 1.073_741_824, 3)),
        "call" => format!("{} CPU µs/call", significant(ns / 1e3, 3)),
        "ring" => format!("{} CPU ns/op", significant(ns, 3)),
        _ => format!("{} CPU ms/run", significant(ns / 1e6, 3)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_beside_the_margin_is_said_to() {
        let says = |longer: f64| hard(Some(longer), 0.05);
        for near in [0.05, -0.05, 0.04, -0.07] {
            assert!(says(near).contains("so near 5 %"), "{near}: {}", says(near));
        }
        for far in [-0.096, 0.0, 0.3] {
            assert!(says(far).starts_with("the trials of each differ"), "{far}: {}", says(far));
        }
    }
}
