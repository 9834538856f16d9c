//! Looks as their user meets them: judged by the report, and the command that takes the next one.

use bytegauge_harness::{Judge, Judgement, Stand, Subject};
use bytegauge_model::{SessionId, SessionStatus};
use bytegauge_report::view::document::GroupView;
use bytegauge_report::{Progress, SessionData, Settings, Subject as Answered, View};
use bytegauge_store::{Store, StoreError};

/// Judges a session as its report does.
pub struct ByReport;

impl Judge for ByReport {
    fn judge(&mut self, store: &Store, session: SessionId) -> Result<Judgement, StoreError> {
        Ok(judged(&SessionData::load(store, session)?))
    }

    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<Subject>, StoreError> {
        let answered = Answered::all_of(&SessionData::load(store, session)?, &Settings::default());
        let subject = |Answered { group, cells, proven }| Subject { group, cells, proven };
        Ok(answered.into_iter().map(subject).collect())
    }
}

fn judged(data: &SessionData) -> Judgement {
    let Progress { groups, settled, likely } = Progress::of(data, &Settings::default());
    Judgement { groups, settled, likely }
}

/// What to do after a look that left something open: the command for the next one, or that a new session is due.
pub fn next(store: &Store, view: &View, command: &str) -> Option<String> {
    if view.status != SessionStatus::Complete {
        return None;
    }
    let data = SessionData::load(store, view.session).ok()?;
    let stand = Stand::of(&data.groups)?;
    let judgement = judged(&data);
    if judgement.is_settled() {
        return None;
    }
    let Judgement { groups, settled, likely } = judgement;
    let shown = format!("look {} of {} settled {settled} of {groups} groups", stand.begun, stand.of);
    if !stand.has_next() {
        return Some(format!(
            "{shown} and was the last: what is open needs a new session; with --budget or --blocks its looks are longer"
        ));
    }
    let time = match seconds_to_next(&view.groups) {
        Some(seconds) => format!("about {:.0} s, ", seconds.max(1.0).ceil()),
        None => String::new(),
    };
    Some(format!(
        "{shown}; look {} ({time}likely to settle {likely} more): {command} --resume {}",
        stand.begun + 1,
        view.session
    ))
}

/// Time of the blocks that the next look adds, seconds.
fn seconds_to_next(groups: &[GroupView]) -> Option<f64> {
    let each = groups.iter().filter_map(|group| {
        let look = group.look.as_ref()?;
        let blocks = look.next_blocks?.saturating_sub(look.blocks + look.so_far);
        Some(blocks as f64 * group.blocks.mean_ns? as f64 / 1e9)
    });
    each.reduce(|all, one| all + one)
}
