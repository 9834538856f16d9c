//! The environment's grade: facts of the machine and counters of the blocks, graded by `stats`. The grade describes and decides
//! nothing; whether other programs kept the machine busy does.
//!
//! Facts are searched by name at any depth, so that a store of another version can be read. A missing fact is unknown, never
//! assumed.

use bytegauge_model::{CellKind, SessionStatus};
use bytegauge_stats::noise_grade::{DisturbanceReadings, Grade, OTHER_LOAD_MUCH, grade};
use serde_json::{Map, Value};

use super::numbers::{CellView, EnvironmentView, SPEEDS_SHARE};
use crate::SessionData;

/// The CPUs that other programs kept busy, and the number of CPUs; `None` where that is no reason to measure again.
pub fn crowd(environment: &EnvironmentView) -> Option<(f64, usize)> {
    let cpus = environment.allowed_cpus()?;
    let busy = environment.foreign_cpus?;
    is_crowded(busy, cpus as f64).then_some((busy, cpus))
}

/// Whether other programs kept a fifth of the CPUs busy or more: a quiet machine may have another result.
pub fn is_crowded(busy: f64, cpus: f64) -> bool {
    busy >= OTHER_LOAD_MUCH * cpus
}

/// Judges the environment of a session.
pub fn judge(data: &SessionData, twin_reach: Option<f64>) -> EnvironmentView {
    let machine = &data.record.machine;
    let surroundings = || data.blocks.iter().map(|block| &block.surroundings);
    let steal = mean(surroundings().filter_map(|s| Some((s.steal_share?, s.wall_ns))));
    let others = mean(surroundings().filter_map(|s| Some((s.foreign_cpus?, s.wall_ns))));
    let throttled_us = surroundings().filter_map(|s| s.throttled_us).reduce(u64::saturating_add);
    let worst = surroundings().filter_map(|s| s.steal_share).filter(|share| share.is_finite()).reduce(f64::max);
    let judged = grade(&DisturbanceReadings {
        steal_share: steal,
        throttled_ns: throttled_us.map(|us| us as f64 * 1e3),
        other_load_cpus: others,
        cpus: cpus(machine).map(|cpus| cpus as f64),
        governor_known: fact(machine, "governor").is_some(),
        turbo_known: fact(machine, "turbo").is_some(),
    });
    // Imported trials have no machine, so a grade would have no basis.
    let unknown = data.record.status == SessionStatus::Imported
        && machine.as_object().is_none_or(Map::is_empty)
        && surroundings().all(|seen| seen.steal_share.is_none() && seen.foreign_cpus.is_none());
    let reasons = match unknown {
        true => vec!["imported: nothing is known about the machine".to_owned()],
        false => judged.reasons.iter().map(ToString::to_string).collect(),
    };
    EnvironmentView {
        grade: (!unknown).then_some(letter(judged.grade)),
        reasons,
        steal_share: steal,
        steal_share_worst: worst,
        foreign_cpus: others,
        throttled_us,
        twin_reach,
        facts: facts(machine),
    }
}

impl EnvironmentView {
    /// The same once the trials are known: a machine is not quiet where they ran at several speeds, whatever its counters show.
    #[must_use]
    pub fn with_speeds(mut self, cells: &[CellView], margin: f64) -> EnvironmentView {
        // An option that is surely slower may have speeds of its own.
        let may_be_best = |cell: &&CellView| cell.above_best_lower.is_none_or(|lower| lower <= margin);
        let candidates = cells.iter().filter(|cell| cell.kind == CellKind::Candidate).filter(may_be_best);
        let worst = candidates.filter_map(CellView::slow_trials).max_by(|a, b| a.share.total_cmp(&b.share));
        if let Some((grade, slow)) = self.grade.zip(worst).filter(|(_, slow)| slow.share > SPEEDS_SHARE) {
            self.grade = Some(grade.max(letter(Grade::C)));
            self.reasons.insert(0, format!("{:.0} % of the trials of an option were slow", slow.share * 100.0));
        }
        self
    }

    /// How quiet the machine was, from its grade; `None` when nothing is known.
    pub fn quietness(&self) -> Option<&'static str> {
        match self.grade? {
            'C' => Some("noisy"),
            'D' => Some("very noisy"),
            _ => Some("quiet"),
        }
    }
}

/// Grades are in the order of their letters.
fn letter(grade: Grade) -> char {
    char::from(b'A' + grade as u8)
}

/// Mean weighted by the blocks' length; a length of 0 still counts a little.
fn mean(values: impl Iterator<Item = (f64, u64)>) -> Option<f64> {
    let finite = values.filter(|(value, _)| value.is_finite());
    let (sum, weight) = finite.fold((0.0, 0.0), |(sum, weight), (value, ns)| {
        let ns = ns.max(1) as f64;
        (sum + value * ns, weight + ns)
    });
    (weight > 0.0).then(|| sum / weight)
}

/// The place of other hosts' facts among those of a machine.
const FAR_HOSTS: &str = "far_hosts";

/// The first fact of that name at any depth that is not null.
pub fn fact<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => {
            let here = map.get(name).filter(|found| !found.is_null());
            // Facts of another host do not apply to this one.
            let inner = map.iter().filter(|(key, _)| *key != FAR_HOSTS).map(|(_, inner)| inner);
            here.or_else(|| inner.into_iter().find_map(|inner| fact(inner, name)))
        }
        _ => None,
    }
}

/// CPUs that the session might use.
pub fn cpus(machine: &Value) -> Option<u64> {
    let allowed = fact(machine, "allowed").and_then(|cpus| cpus.as_array().map(|list| list.len() as u64));
    allowed.or_else(|| fact(machine, "online")?.as_u64()).filter(|cpus| *cpus > 0)
}

/// The facts as read, without those that the grade uses.
fn facts(machine: &Value) -> Map<String, Value> {
    const TAKEN: [&str; 7] =
        ["grade", "reasons", "steal_share", "steal_share_worst", "foreign_cpus", "throttled_us", "twin_reach"];
    let mut facts = machine.as_object().cloned().unwrap_or_default();
    for name in TAKEN {
        facts.remove(name);
    }
    facts
}
