//! From flags or TOML to a resolved plan: typed spec, cells, groups, families, seeded blocks, a budget.
//!
//! Parse, don't validate: past this crate no impossible combination exists. It never reads the clock and
//! never opens a socket; the machine's capabilities arrive as a [`Catalog`].
#![forbid(unsafe_code)]

pub mod block_order;
mod budget;
pub mod built_in;
pub mod capabilities;
mod cross;
mod datagram;
pub mod design;
mod effective_factors;
pub mod emulated;
mod engines;
mod error;
mod external;
mod far;
pub mod file;
mod index;
mod iperf3;
mod missing_features;
mod named_levels;
mod plan;
pub mod relay;
mod resolve;
mod ring;
mod schedule;
pub mod search;
pub mod spec;
pub mod survey;
mod task;
pub mod trial_length;
pub mod versus;

pub use capabilities::Catalog;
pub use design::{
    AUDIT_CELLS_MIN, AUDIT_MAX, BLOCKS_WANTED, Design, FINALISTS_MIN, Finalists, LOOKS, LOOKS_MAX, OVERTIME, StageTimes,
};
pub use error::PlanError;
pub use plan::{Family, Plan, SeenPace};
pub use resolve::resolve;
pub use spec::{Part, PlanSpec, ProfileSpec};
pub use task::RunTime;
