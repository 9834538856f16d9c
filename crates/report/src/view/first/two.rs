//! The first screen of a session that compares two: what limits each, how far the verdict holds, and what to do next.

use bytegauge_model::forecast::forecast;
use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{SessionStatus, session};

use super::super::document::{AnswerView, LookView, VersusSideView, VersusView, View};
use super::{Questions, heading, holds, next, noise, rows};
use crate::outward::at_most;
use crate::phrase;
use crate::sentence::{FORECAST_MAX_S, budget, likely_bound, measured_twice, percent};

/// Everything that the first screen says of two.
pub fn answer(view: &View, versus: &VersusView, imported: bool) -> AnswerView {
    let questions = Questions::of(view);
    AnswerView {
        head: heading(view),
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
        (Some(a), Some(b)) if a.name == b.name && a.doubt.is_none() && b.doubt.is_none() => {
            vec![format!("both: {} ({})", phrase::limit(a.name), b.brief)]
        }
        (a, b) => {
            let each = [("a", a), ("b", b)].into_iter().filter_map(|(name, limit)| Some((name, limit?)));
            each.map(|(name, limit)| format!("{name}: {}: {}", phrase::limit_with_doubt(limit), limit.brief)).collect()
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
    [by_pairs, twin, Some(holds::when(view))].into_iter().flatten().collect()
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
        _ => [further(view, versus, imported), why_ended(view).into_iter().collect()].concat(),
    }
}

/// How to go on where it is open, and what that likely brings.
fn further(view: &View, versus: &VersusView, imported: bool) -> Vec<String> {
    let narrows = narrows(view, versus);
    let own_s = view.elapsed_ns.unwrap_or(0) as f64 / 1e9;
    let more = match next::rest_ns(view).filter(|_| !imported) {
        Some(rest_ns) => {
            let time = format!("up to about {} more at this pace", forecast(rest_ns));
            let what = [Some(time), narrows].into_iter().flatten().collect::<Vec<_>>().join("; ");
            vec![format!("{} --until conclusive", next::resume(view)), what]
        }
        None if own_s * LONGER > FORECAST_MAX_S => vec!["give a run more to do".to_owned()],
        None => {
            let wanted = budget(own_s * LONGER);
            let again = next::again_with(view, Some(&wanted));
            [Some(again.unwrap_or_else(|| format!("measure again with --time {wanted}"))), narrows]
                .into_iter()
                .flatten()
                .collect()
        }
    };
    let near = versus.longer.filter(|longer| versus.why_open.is_none() && is_near(*longer, versus.margin)).map(|_| {
        let margin = percent(versus.margin);
        format!("the difference lies so near {margin}, from which on it counts (--margin), that no time may decide it")
    });
    more.into_iter().chain(near).collect()
}

/// So many times as long is a new session, which brings half of the interval.
const LONGER: f64 = 4.0;

fn looks(view: &View) -> Option<&LookView> {
    view.groups.iter().find_map(|group| group.look.as_ref())
}

/// What the looks that are left, or a longer session, likely make of the interval; `None` where it is decided, and where more
/// pairs remove no reason.
fn narrows(view: &View, versus: &VersusView) -> Option<String> {
    let (lower, upper) =
        versus.lower.zip(versus.upper).filter(|_| versus.verdict == "open" && versus.why_open.is_none())?;
    let used = view.groups.first().map_or(versus.blocks, |group| group.blocks.used) as f64;
    let then = looks(view).and_then(LookView::left_until).map_or(used * LONGER, |last| last as f64);
    // Ends say how much longer the slower of the two takes.
    let ln = |end: f64| end.abs().ln_1p().copysign(end);
    let now = ln(upper) - ln(lower);
    let [now, then] = [now, likely_bound(now, used, then)].map(|wide| at_most(wide.exp_m1()));
    Some(format!("likely narrows the interval from {now} to {then}"))
}

/// Whether a difference lies so near the margin that hardly any number of pairs tells on which side: no more than half of the
/// margin is between them.
fn is_near(longer: f64, margin: f64) -> bool {
    (longer.abs().ln_1p() - margin.ln_1p()).abs() <= margin.ln_1p() / 2.0
}

/// Why a session that was to go on until it is decided went no further.
fn why_ended(view: &View) -> Option<String> {
    let told = view.notes.iter().rev().find(|note| session::tells_the_end(note))?;
    Some(format!("it {told}"))
}

/// What is said of two wherever a recommendation stands: the verdict, and what more time may bring.
pub fn recommendation(view: &View, versus: &VersusView) -> String {
    let more = narrows(view, versus).filter(|_| view.status == SessionStatus::Complete);
    [Some(versus.text.clone()), more.map(|more| format!("more time {more}"))]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("; ")
        + "."
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
        for near in [0.05, -0.05, 0.04, -0.07] {
            assert!(is_near(near, 0.05), "{near}");
        }
        for far in [-0.096, 0.0, 0.3] {
            assert!(!is_near(far, 0.05), "{far}");
        }
    }
}
