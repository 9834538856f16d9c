//! Exit codes, and errors with their exit code.

use std::fmt;

use bytegauge_harness::RunError;
use bytegauge_import::ImportError;
use bytegauge_model::Bytes;
use bytegauge_plan::PlanError;
use bytegauge_store::StoreError;
use bytegauge_sys::process::{self, Limit};

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

impl Failure {
    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { code: USAGE, message: message.into() }
    }

    /// A failure of the machine or of bytegauge.
    pub fn failed(message: impl Into<String>) -> Failure {
        Failure { code: FAILED, message: message.into() }
    }

    /// Standard output could not be written in full.
    pub fn output(error: &str) -> Failure {
        Failure::failed(format!(
            "standard output is incomplete: {error}: write to another place; stored results are kept, and \
             `bytegauge report` prints the latest again"
        ))
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        Failure::usage(error.to_string())
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        let mut message = error.to_string();
        match error {
            StoreError::DiskFull { .. } => {
                message += &file_limit();
                Failure::failed(message)
            }
            StoreError::NoSession { .. } | StoreError::NoResults { .. } | StoreError::NoFile { .. } => {
                Failure::usage(message)
            }
            _ => Failure::failed(message),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Failure {
        match error {
            ImportError::Store(error) => error.into(),
            _ => Failure::usage(error.to_string()),
        }
    }
}

/// SQLite reports a file that may not grow as a full disk: if file sizes are limited, the message names the limit too.
fn file_limit() -> String {
    match process::file_size_bytes() {
        Ok(Limit { soft, .. }) if soft != Limit::UNLIMITED => {
            format!("; the limit of a file's size is {} here (`ulimit -f`): raise it if a file reached it", Bytes(soft))
        }
        _ => String::new(),
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Failure {
        match error {
            RunError::Store(error) => error.into(),
            RunError::OldPlan(_) | RunError::Elsewhere { .. } | RunError::Over { .. } => {
                Failure::usage(error.to_string())
            }
            _ => Failure::failed(error.to_string()),
        }
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
