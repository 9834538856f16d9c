//! Sessions, stages and blocks: when and in which environment trials were taken.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cell::{CellId, GroupId};
use crate::end::stored_names;

/// A session's number in its store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Beginning of the note why a session with `--until` stopped.
pub const ENDED_AFTER: &str = "ended after analysis";

/// Beginning of the note what was reduced since measuring went slower than planned.
pub const SLOWER: &str = "slower than planned, so only ";

/// The subject of a stored note of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Why it stopped although some tests may be inconclusive.
    End,
    /// The kept part of its plan.
    Reduced(String),
    /// Anything else.
    Other,
}

/// The kind of a stored note. Stores have notes as texts, so that those of other versions and imports can be printed.
pub fn kind_of_note(note: &str) -> NoteKind {
    match note.strip_prefix(SLOWER) {
        Some(kept) => NoteKind::Reduced(kept.to_owned()),
        // Earlier versions wrote "judgement".
        None if note.starts_with(ENDED_AFTER) || note.starts_with("ended after judgement") => NoteKind::End,
        None => NoteKind::Other,
    }
}

/// The status of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionStatus {
    /// Begun; if no process works on it any more, it was cut off.
    #[default]
    Running,
    /// Every planned block was measured.
    Complete,
    /// Interrupted; everything measured is kept, `--resume` continues it.
    Incomplete,
    /// External trials, read by `import`.
    Imported,
}

stored_names!(SessionStatus, SESSION_STATUSES {
    Running = "running", Complete = "complete", Incomplete = "incomplete", Imported = "imported",
});

/// The purpose of a block's trials. Intervals of cells come from `Confirm` alone; `Audit` may withdraw a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Finds the warm-up.
    Calibrate,
    /// Measures every cell.
    Screen,
    /// Measures the better ones again.
    Narrow,
    /// Measures the finalists: the reported results.
    Confirm,
    /// Compares the recommendation with its rivals again, in far longer trials.
    Audit,
}

stored_names!(Stage, STAGES {
    Calibrate = "calibrate", Screen = "screen", Narrow = "narrow", Confirm = "confirm", Audit = "audit",
});

/// One group's visit to all its cells of a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockRecord {
    /// Counted from 0 over the session.
    pub index: u64,
    /// The group visited.
    pub group: GroupId,
    /// The stage.
    pub stage: Stage,
    /// When it began, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// Every trial of it was measured. A block that broke is repeated under a new index.
    pub complete: bool,
    /// The environment while it ran.
    pub surroundings: Surroundings,
}

/// The environment of a block, from counters read before and after it. Judged later, never altered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Surroundings {
    /// Length of the block, nanoseconds.
    pub wall_ns: u64,
    /// CPU steal: share of all CPU time that the hypervisor gave to other VMs, 0 to 1. Ticks of 10 ms.
    pub steal_share: Option<f64>,
    /// CPU use of other processes, in CPUs.
    pub foreign_cpus: Option<f64>,
    /// Time that the control group was throttled, µs.
    pub throttled_us: Option<u64>,
    /// `/proc/pressure/cpu`, "some", growth over the block, µs.
    pub cpu_pressure_us: Option<u64>,
    /// Load average over one minute at the block's end.
    pub load: Option<f64>,
}

/// The result of an interim analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisProgress {
    /// Tests in which options are compared.
    pub tests: usize,
    /// Those with a conclusive result, as the report has it.
    pub decided: usize,
    /// Those that need no more blocks: they are decided, or more blocks would not help.
    pub settled: usize,
}

impl AnalysisProgress {
    /// Whether another analysis is useless.
    pub fn is_settled(&self) -> bool {
        self.settled >= self.tests
    }
}

/// The recommended option of a group, and the options that long trials compare it with again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnalysedGroup {
    /// The group.
    pub group: GroupId,
    /// The recommended option first, then the others, the most important first.
    pub cells: Vec<CellId>,
    /// Whether the option has a significant result.
    pub proven: bool,
}

/// A session as it is listed and reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Its number.
    pub id: SessionId,
    /// When it began, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// When it ended, nanoseconds of Unix time.
    pub finished_unix_ns: Option<u64>,
    /// Its status.
    pub status: SessionStatus,
    /// The plan's name: `buffer-size`, `stream`, or a file's.
    pub plan_name: String,
    /// The workload: `stream`.
    pub workload: String,
    /// Seed of every random choice, of the design and of the statistics.
    pub seed: u64,
    /// "Within x of the best", as a share: 0.05.
    pub margin: f64,
    /// Version of bytegauge that measured it.
    pub version: String,
    /// The resolved plan, for `--resume`; null for an import.
    pub plan: serde_json::Value,
    /// The machine before the first trial: facts as read, judged in the report.
    pub machine: serde_json::Value,
    /// The machine after the last trial.
    pub machine_after: serde_json::Value,
    /// Notes of the plan on collapsed or refused factors, and of the import on unread data.
    pub notes: Vec<String>,
    /// Whether it came from `import`, whatever its status: it is never resumed here. A property of the store, never exported.
    #[serde(skip)]
    pub imported: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settled_sessions_need_no_analysis() {
        assert!(AnalysisProgress { tests: 0, decided: 0, settled: 0 }.is_settled());
        assert!(AnalysisProgress { tests: 3, decided: 2, settled: 3 }.is_settled());
        assert!(!AnalysisProgress { tests: 3, decided: 2, settled: 2 }.is_settled());
    }
}
