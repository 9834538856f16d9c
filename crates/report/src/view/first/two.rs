//! The first screen of a session that compares two: what limits each, how far the verdict holds, and what to do next.

use bytegauge_model::SessionStatus;
use bytegauge_model::unit::significant;

use super::super::document::{AnswerView, VersusSideView, VersusView, View};
use super::{Questions, head, next, noise, rows};
use crate::phrase;
use crate::sentence::percent;

/// Everything that the first screen says of two.
pub fn answer(view: &View, versus: &VersusView, imported: bool) -> AnswerView {
    let questions = Questions::of(view);
    AnswerView {
        head: head(view),
        to_use: rows::to_use(view, &questions),
        gain: vec![versus.text.clone()],
        why: why(view, versus),
        holds: holds(view, versus),
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

fn holds(view: &View, versus: &VersusView) -> Vec<String> {
    let group = view.groups.first();
    let looks = group.and_then(|group| group.look.as_ref()).map(|look| format!("look {} of {}", look.done, look.of));
    let shown = format!(
        "interval at {} from {} paired blocks{}",
        percent(versus.level),
        versus.blocks,
        looks.map_or_else(String::new, |looks| format!(" ({looks}; all together 95 %)"))
    );
    let twin = group.and_then(|group| group.twin_reach);
    let twin = twin.map(|reach| format!("the same once more differed by at most {}", percent(reach)));
    let here = "this machine, this boot, now".to_owned();
    [Some(shown), twin, Some(here)].into_iter().flatten().collect()
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
    match (versus.verdict, versus.blocks_more) {
        ("worse", _) => vec!["keep a; exit code 1 says so to a script".into()],
        ("better", _) => vec!["take b: it gains more than the margin".into()],
        ("equivalent", _) => vec!["take either; what differs is smaller than --margin".into()],
        (_, more) if more.is_none_or(|more| more <= 4 * versus.blocks.max(6) as u64) => {
            let so_far = versus.blocks;
            let more = more.map(|more| format!("about {more} more blocks may decide it ({so_far} so far)"));
            let looks =
                view.groups.iter().filter_map(|group| group.look.as_ref()).any(|look| look.next_blocks.is_some());
            let how = match looks && !imported {
                true => format!("{} --until decided", next::resume(view)),
                false => "measure again with more --blocks or --budget".into(),
            };
            [Some(how), more].into_iter().flatten().collect()
        }
        _ => vec![format!(
            "the difference lies near the margin of {}: more time would hardly decide it; ask for another --margin, or give \
             a run more to do",
            percent(versus.margin)
        )],
    }
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
