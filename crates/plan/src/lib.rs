//! From flags or TOML to a resolved plan: typed spec, cells, groups, families, seeded blocks, a budget.
//!
//! Parse, don't validate: past this crate no cell is an impossible combination. A request without a possible one is refused;
//! others, impossible by contradiction or on this machine, stay as skipped with a reason. It never reads the clock and never
//! opens a socket; the machine's capabilities arrive as a [`Catalog`].
#![forbid(unsafe_code)]

pub mod block_order;
mod budget;
pub mod built_in;
mod cross;
pub mod design;
mod effective_factors;
pub mod emulated;
mod engines;
mod external;
mod far;
pub mod file;
mod iperf3;
mod missing_features;
mod plan;
pub mod relay;
mod resolve;
pub mod spec;
mod stage_times;
mod task;
pub mod trial_length;
pub mod versus;

pub use design::{ANALYSES, AUDIT_CELLS_MIN, BLOCKS_WANTED, Design, FINALISTS_MIN, Finalists, OVERTIME, StageTimes};
pub use missing_features::{Catalog, EMULATED};
pub use plan::{Family, Plan, SeenPace};
pub use resolve::resolve;
pub use spec::{Part, PlanSpec, ProfileSpec};

use bytegauge_model::Workload;
use thiserror::Error;

// Why a request gives no plan, with the next step.

/// Why a request gives no plan. Every case is wrong usage: nothing has run yet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// Wrong usage, with what to do.
    #[error("{0}")]
    Usage(String),
    /// Nothing that can be measured here remains.
    #[error("nothing of this plan can be measured here: {0}")]
    NothingLeft(String),
    /// The budget is too short for the smallest design.
    #[error("{0}")]
    Budget(String),
}

impl PlanError {
    /// Wrong usage.
    pub(crate) fn usage<T>(text: impl Into<String>) -> Result<T, PlanError> {
        Err(PlanError::Usage(text.into()))
    }

    /// Of a factor that has no meaning in the plan's workload, but in another one.
    pub fn not_in_workload(flag: &str, workload: Workload, other: Workload) -> PlanError {
        PlanError::Usage(format!(
            "--{flag} has no meaning in the workload {workload}: leave it out, or use the workload {other}"
        ))
    }

    /// Of a named factor without an effect with the levels of the other factors.
    pub(crate) fn moot(flag: &str, needs: &str) -> PlanError {
        PlanError::Usage(format!("--{flag} has no effect without {needs}"))
    }
}
