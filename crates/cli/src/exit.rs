//! Exit codes, and errors that know theirs.

use std::fmt;

use bytegauge_harness::RunError;
use bytegauge_model::Bytes;
use bytegauge_plan::PlanError;
use bytegauge_store::StoreError;
use bytegauge_sys::limit::{self, Limit};

/// Everything was done.
pub const DONE: u8 = 0;
/// What was compared is worse than what there was, by more than the margin.
pub const REGRESSION: u8 = 1;
/// The command line or a plan is wrong; nothing ran.
pub const USAGE: u8 = 2;
/// With `--strict`: not proven.
pub const INCONCLUSIVE: u8 = 3;
/// With `--strict`: of some group not even a bound can be given.
pub const UNBOUNDED: u8 = 4;
/// It should have worked and did not; or what was to be compared cannot be.
pub const FAILED: u8 = 5;
/// Interrupted; what was measured is kept.
pub const INTERRUPTED: u8 = 130;

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

    /// A failure of the machine or of ours.
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
            StoreError::NoSession { .. } | StoreError::NoResults { .. } | StoreError::Import(_) => {
                Failure::usage(message)
            }
            _ => Failure::failed(message),
        }
    }
}

/// SQLite calls a file that may not grow a full disk: where files are limited, that is named too.
fn file_limit() -> String {
    match limit::file_size_bytes() {
        Ok(Limit { soft, .. }) if soft != Limit::UNLIMITED => {
            format!("; a file may have {} here (`ulimit -f`): raise the limit if it is that", Bytes(soft))
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
