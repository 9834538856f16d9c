//! The first screen of a session that compares two: what limits each, how far the verdict holds, and what to do next.

use bytegauge_model::unit::{counted, significant};

use super::super::document::{AnswerView, VersusSideView, VersusView, View};
use super::{Questions, heading, holds, noise, rows};
use crate::phrase;
use crate::sentence::{measured_twice, percent};

/// Everything that the first screen says of two.
pub fn answer(view: &View, versus: &VersusView) -> AnswerView {
    let questions = Questions::of(view);
    AnswerView {
        head: heading(view),
        to_use: rows::to_use(view, &questions),
        gain: vec![versus.text.clone()],
        why: why(view, versus),
        holds: shown(view, versus),
        noise: noise::noise(view, &questions),
        more: super::more(view),
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

/// CPU time of a unit of a workload, for people.
pub fn cpu(workload: &str, ns: f64) -> String {
    match workload {
        "stream" => format!("{} CPU s/GiB", significant(ns * 1.073_741_824, 3)),
        "call" => format!("{} CPU µs/call", significant(ns / 1e3, 3)),
        "ring" => format!("{} CPU ns/op", significant(ns, 3)),
        _ => format!("{} CPU ms/run", significant(ns / 1e6, 3)),
    }
}
