//! Times of a session: when, how long, and how long it was planned to take. Reads no clock.

use bytegauge_model::{BlockRecord, Nanos, Outcome, Trial};
use serde_json::Value;

use super::environment::fact;
use crate::SessionData;

/// Blocks and trials follow one another within moments; a longer gap is a pause until `--resume`.
const PAUSE_NS: u64 = 10_000_000_000;

/// The longest wait of a session between two trials is for a run that does not end (60 s), and for ends that do not get ready
/// (30 s); twice as long with pauses between trials.
const FAILURE_NS: u64 = 200_000_000_000;

/// From the session's beginning to its end, without the pauses between an interruption, or an analysis, and `--resume`; of an
/// unfinished one to its last trial.
pub fn elapsed_ns(data: &SessionData) -> Option<u64> {
    let started = data.record.started_unix_ns;
    let last_trial = || data.trials.iter().map(|trial| trial.started_unix_ns.saturating_add(trial.wall_ns)).max();
    let lasted = data.record.finished_unix_ns.or_else(last_trial)?.checked_sub(started)?;
    lasted.checked_sub(paused_ns(&data.blocks, &data.trials)).filter(|ns| *ns > 0)
}

/// The pauses between a session's blocks, and between its trials, nanoseconds. An interrupted block is not kept, but its trials are.
fn paused_ns(blocks: &[BlockRecord], trials: &[Trial]) -> u64 {
    let span = |began: u64, lasted: u64| (began, began.saturating_add(lasted));
    // A failed trial may have waited, and a program may have been prepared.
    let is_short = |trial: &Trial| trial.outcome == Outcome::Measured && trial.task().is_none();
    let patience = |trial: &Trial| if is_short(trial) { PAUSE_NS } else { FAILURE_NS };
    let trials = trials.iter().map(|trial| (span(trial.started_unix_ns, trial.wall_ns), patience(trial)));
    let blocks = blocks.iter().map(|block| (span(block.started_unix_ns, block.surroundings.wall_ns), PAUSE_NS));
    let mut measured: Vec<((u64, u64), u64)> = blocks.chain(trials).collect();
    measured.sort_unstable();
    let Some(&((mut until, _), mut before)) = measured.first() else { return 0 };
    let mut paused = 0;
    // A gap within a block is no pause.
    for ((began, ends), patience) in measured {
        if ends > until {
            let gap = began.saturating_sub(until);
            paused += if gap > patience.max(before) { gap } else { 0 };
            (until, before) = (ends, patience);
        }
    }
    paused
}

/// The plan's budget, if it has one.
pub fn budget_ns(plan: &Value) -> Option<u64> {
    if let Some(ns) = fact(plan, "budget_ns").and_then(Value::as_u64) {
        return Some(ns);
    }
    match fact(plan, "budget")? {
        Value::Number(ns) => ns.as_u64(),
        Value::String(text) => text.parse::<Nanos>().ok().map(|Nanos(ns)| ns),
        _ => None,
    }
    .filter(|ns| *ns > 0)
}

/// Unix time as RFC 3339 in UTC, whole seconds.
pub fn rfc3339(unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Date of a day counted from 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms"): years begin
/// in March, so that the leap day is the last, and eras of 400 years repeat.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::session::Surroundings;
    use bytegauge_model::{CellId, GroupId, Stage, Workload};
    use serde_json::json;

    #[test]
    fn dates() {
        let check = |seconds: u64, expected: &str| assert_eq!(rfc3339(seconds * 1_000_000_000), expected);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_709_251_200, "2024-03-01T00:00:00Z");
        check(4_102_444_799, "2099-12-31T23:59:59Z");
    }

    #[test]
    fn pauses_between_blocks_are_detected() {
        const SECOND: u64 = 1_000_000_000;
        let block = |at_s: u64, lasted_s: u64| BlockRecord {
            index: at_s,
            group: GroupId("g1".into()),
            stage: Stage::Confirm,
            started_unix_ns: at_s * SECOND,
            complete: true,
            surroundings: Surroundings { wall_ns: lasted_s * SECOND, ..Surroundings::default() },
        };
        let trial = |at_s: u64, is_measured: bool| {
            let outcome = if is_measured { Outcome::Measured } else { Outcome::Failed("late".into()) };
            let trial = Trial::without_numbers(CellId("c".into()), Workload::Stream, Stage::Confirm, outcome);
            Trial { started_unix_ns: at_s * SECOND, wall_ns: SECOND, ..trial }
        };
        let paused = |blocks: &[BlockRecord], trials_s: &[u64]| {
            paused_ns(blocks, &trials_s.iter().map(|at| trial(*at, true)).collect::<Vec<_>>()) / SECOND
        };
        // Within a block there is no pause, however far its trials are apart.
        assert_eq!(paused(&[block(100, 300)], &[100, 398]), 0);
        assert_eq!(paused(&[block(100, 3), block(103, 3), block(150, 3)], &[100, 102, 103, 105, 150]), 44);
        // An interrupted block is not kept: its trials are, here at 10 and 12 s.
        assert_eq!(paused(&[block(400, 3), block(403, 3)], &[10, 12, 400, 402, 403]), 387);
        // So is a short one, of a session whose trials follow each other at once; here from 108 to 130 s.
        let whole = [block(100, 3), block(103, 3)];
        assert_eq!(paused(&whole, &[100, 101, 102, 103, 104, 105, 106, 107, 130, 131]), 22);
        // A failure may take a while.
        let failed = [trial(100, true), trial(101, true), trial(107, false), trial(130, true)];
        assert_eq!(paused_ns(&whole, &failed), 0);
        // Here 181 to 300 s are a pause.
        let ok = |at_s| trial(at_s, true);
        let waited = [ok(100), trial(101, false), ok(170), ok(172), ok(180), ok(300)];
        assert_eq!(paused_ns(&[block(100, 75)], &waited) / SECOND, 119);
        assert_eq!(paused(&[], &[10, 100, 102]), 89);
        assert_eq!(paused(&[], &[]), 0);
    }

    #[test]
    fn budgets() {
        assert_eq!(budget_ns(&json!({ "budget_ns": 5 })), Some(5));
        assert_eq!(budget_ns(&json!({ "spec": { "budget": "60s" } })), Some(60_000_000_000));
        assert_eq!(budget_ns(&json!(null)), None);
    }
}
