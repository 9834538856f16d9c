//! Opens a path, warms up, measures, checks, closes; and runs a plan's stages of blocks within
//! its budget, writing every trial to the store before the next one starts.
//!
//! Decides which trials failed, which cells become finalists and when measuring ends; `report` computes all results from the
//! store.
#![forbid(unsafe_code)]

pub mod cpu_placement;
pub mod environment;
pub mod host_visit;
pub mod machine_probe;
pub mod run;
mod run_state;
pub mod trial;

mod audit;
mod block;
mod calibrate;
mod confirm;
mod harm_guard;
mod interim;
mod knee;
mod lost_host;
mod screening;
pub mod stages;
mod time_limit;

pub use interim::{AnalysisState, SessionAnalysis};
pub use lost_host::HOST_WAIT_NS;
pub use run::{Ended, Run, RunError, RunOptions, stored_plan, this_machine};
pub use stages::{Event, Observer};
