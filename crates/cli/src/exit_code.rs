//! Exit codes: of errors, and of results.

use std::fmt;

use bytegauge_harness::RunError;
use bytegauge_import::ImportError;
use bytegauge_mesh::files::MeshFileError;
use bytegauge_model::{CellKind, SessionStatus};
use bytegauge_plan::PlanError;
use bytegauge_report::Report;
use bytegauge_report::results::{Test, is_answered};
use bytegauge_report::view::numbers::{CellOutcome, Verdict};
use bytegauge_store::StoreError;
use bytegauge_traffic::EndError;

use crate::terminal;

/// Success.
pub const DONE: u8 = 0;
/// A comparison found a regression.
pub const REGRESSION: u8 = 1;
/// Wrong usage; nothing ran.
pub const USAGE: u8 = 2;
/// The result is not significant: of `ab`, and with `--strict`.
pub const INCONCLUSIVE: u8 = 3;
/// With `--strict`: a test has no interval.
pub const UNBOUNDED: u8 = 4;
/// A failure.
pub const FAILED: u8 = 5;
/// A far host was lost.
pub const HOST_LOST: u8 = 6;
/// Interrupted by a signal.
pub const INTERRUPTED: u8 = 130;

/// Every exit code with its meaning: the source of `--help`, the manual page and `docs/exit-codes.md`.
pub const CODES: [(u8, &str); 8] = [
    (DONE, "success"),
    (REGRESSION, "a regression larger than --margin (ab, compare, --against)"),
    (USAGE, "wrong usage (flag, plan, file or session); nothing was measured"),
    (INCONCLUSIVE, "ab: undecided (--undecided pass: 0); --strict: a result is not significant"),
    (UNBOUNDED, "--strict: a test has no interval, so there is no result at all"),
    (FAILED, "failure: nothing could be measured, compared or written"),
    (HOST_LOST, "a far host was lost for longer than --host-wait, or too often; --resume continues"),
    (INTERRUPTED, "interrupted; everything measured is kept, --resume continues"),
];

/// The table of exit codes for `--help`.
pub fn help() -> String {
    let rows: Vec<String> = CODES.iter().map(|(code, meaning)| format!("  {code:>3}  {meaning}")).collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}

/// An error on its way to the user.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

#[expect(clippy::needless_pass_by_value, reason = "errors are mapped by value")]
impl Failure {
    /// Wrong usage.
    pub fn usage(message: impl ToString) -> Failure {
        Failure { code: USAGE, message: message.to_string() }
    }

    /// A failure of the machine or of bytegauge.
    pub fn failed(message: impl ToString) -> Failure {
        Failure { code: FAILED, message: message.to_string() }
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

/// The result of wrong usage.
pub fn usage<T>(message: impl ToString) -> Result<T, Failure> {
    Err(Failure::usage(message))
}

/// The result of a failure of the machine or of bytegauge.
pub fn failed<T>(message: impl ToString) -> Result<T, Failure> {
    Err(Failure::failed(message))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        Failure::usage(error)
    }
}

impl From<EndError> for Failure {
    fn from(error: EndError) -> Failure {
        Failure::failed(error)
    }
}

impl From<MeshFileError> for Failure {
    fn from(error: MeshFileError) -> Failure {
        Failure::failed(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        match error {
            StoreError::NoSession { .. } | StoreError::NoResults { .. } | StoreError::NoFile { .. } => {
                Failure::usage(error)
            }
            _ => Failure::failed(error),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Store(error) => error.into(),
            _ => Failure::usage(error),
        }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Store(error) => error.into(),
            RunError::Refused(text) => Failure::usage(text),
            _ => Failure::failed(error),
        }
    }
}

/// The exit code of a session. Prints the reason of a failure to standard error.
pub fn code_of(view: &Report, strict: bool) -> u8 {
    let code = verdict_code(view, strict);
    if code == FAILED {
        let why = match view.status {
            SessionStatus::Complete | SessionStatus::Imported => {
                "nothing could be measured or compared: the reasons are in the report"
            }
            SessionStatus::Running | SessionStatus::Incomplete => "it was interrupted before anything was measured",
        };
        terminal::note(&format!("session {}: {why}", view.session));
    }
    code
}

/// The exit code of a result: failures always count, the rest only if requested.
pub fn verdict_code(view: &Report, strict: bool) -> u8 {
    // The harness's own floor is no result.
    let measured = view.cells.iter().any(|cell| cell.outcome == CellOutcome::Measured && cell.kind != CellKind::Floor);
    if let Some(versus) = &view.versus {
        let both = versus.a.trials > 0 && versus.b.trials > 0;
        return match versus.difference.verdict {
            _ if !both => FAILED,
            Verdict::Worse => REGRESSION,
            Verdict::Open if strict => INCONCLUSIVE,
            _ => DONE,
        };
    }
    // Fewer than two of a program's values are left to compare.
    let changes = view.changes();
    // The time may be over when only the watched run shows the program as it is.
    let is_watched = changes.and_then(|changes| changes.task.as_ref()?.watched_ns).is_some();
    let fewest = if is_watched && view.status == SessionStatus::Incomplete { 1 } else { 2 };
    let candidates = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let alone = view.tune.is_some()
        && candidates().any(|cell| cell.outcome != CellOutcome::Measured)
        && candidates().filter(|cell| cell.outcome == CellOutcome::Measured).count() < fewest;
    if !measured || alone || changes.is_some_and(|changes| changes.left_for().is_some()) {
        FAILED
    } else if strict {
        strict_code(view)
    } else {
        DONE
    }
}

/// The exit code of results that must all be significant.
fn strict_code(view: &Report) -> u8 {
    let compared = || view.tests.iter().filter(|test| !test.varied.is_empty());
    // A reader without work is no program: its result is no recommendation.
    let works = |test: &&Test| !view.groups.iter().any(|group| group.id == test.id && group.throws_away);
    let mut with_work = compared().filter(works).peekable();
    if !compared().all(Test::is_compared) {
        UNBOUNDED
    } else if with_work.peek().is_none() || !with_work.all(|test| is_answered(view, test)) {
        INCONCLUSIVE
    } else {
        DONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_list_every_exit_code() {
        let docs = include_str!("../../../docs/exit-codes.md");
        let rows: Vec<String> = CODES.iter().map(|(code, meaning)| format!("| {code} | {meaning} |")).collect();
        let listed: Vec<&str> =
            docs.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| code")).collect();
        assert_eq!(listed, rows);
    }
}
