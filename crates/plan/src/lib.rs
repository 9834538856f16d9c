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

pub use design::{
    ANALYSES, ANALYSES_MAX, AUDIT_CELLS_MIN, AUDIT_MAX, BLOCKS_WANTED, Design, FINALISTS_MIN, Finalists, OVERTIME,
    StageTimes,
};
pub use missing_features::Catalog;
pub use plan::{Family, Plan, SeenPace};
pub use resolve::resolve;
pub use spec::{Part, PlanSpec, ProfileSpec};

use bytegauge_model::{TextError, Workload};
use thiserror::Error;

// Why a request gives no plan, with the next step.

/// Why a request gives no plan. Every case is wrong usage: nothing has run yet.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlanError {
    /// A level that does not parse.
    #[error("--{flag}: {error}")]
    Level {
        /// The factor's flag.
        flag: String,
        /// The problem.
        error: TextError,
    },
    /// A factor or key that does not exist.
    #[error("{place}: no factor or key is called `{name}`{hint}")]
    UnknownKey {
        /// The file or part.
        place: String,
        /// The name given.
        name: String,
        /// A similar name, as a hint.
        hint: String,
    },
    /// A factor that has no meaning in the plan's workload.
    #[error("--{flag} has no meaning in the workload {workload}: leave it out, or use the workload {other}")]
    NotInWorkload {
        /// The factor's flag.
        flag: String,
        /// The plan's workload.
        workload: Workload,
        /// The workload in which it has a meaning.
        other: Workload,
    },
    /// A named factor without an effect with the levels of the other factors.
    #[error("--{flag} has no effect without {needs}")]
    Moot {
        /// The factor's flag.
        flag: String,
        /// The change that would give it an effect.
        needs: String,
    },
    /// Any other wrong usage, with what to do.
    #[error("{0}")]
    Usage(String),
    /// A factor that has no meaning with an external server, another host or a link.
    #[error("--{flag} does not work with --{with}: {why}")]
    NotWith {
        /// The factor's flag.
        flag: String,
        /// The flag that names the server, host or link.
        with: String,
        /// Why, and what to do.
        why: &'static str,
    },
    /// Nothing that can be measured here remains.
    #[error("nothing of this plan can be measured here: {0}")]
    NothingLeft(String),
    /// The budget is too short for the smallest design.
    #[error("a budget of {budget} is too short for {cells} options in {of}: give --time {needed} or more{shorter}")]
    Budget {
        /// The budget given.
        budget: String,
        /// The cells planned.
        cells: usize,
        /// The groups of these cells.
        of: String,
        /// The time of the smallest design.
        needed: String,
        /// Other ways to make it fit.
        shorter: String,
    },
}
