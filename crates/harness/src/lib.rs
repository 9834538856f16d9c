//! Opens a path, warms up, measures, checks, closes; and runs a plan's stages of blocks within
//! its budget, writing every trial to the store before the next one starts.
//!
//! Judges nothing: `report` computes results from the store.
#![forbid(unsafe_code)]

pub mod ceiling;
pub mod cpu_placement;
pub mod environment;
pub mod event;
pub mod host_visit;
pub mod machine_probe;
pub mod profiled_trial;
pub mod run;
mod run_error;
pub mod trial;

mod analysis;
mod analysis_state;
mod audit;
mod bins;
mod block;
mod calibrate;
mod confirm;
mod failures;
mod forecast;
mod interim;
mod knee;
mod lost_host;
mod same_machine;
mod screen;
mod shorten_plan;
mod stages;
mod time_limit;
mod time_use;

pub use analysis::{AnalysedGroup, AnalysisProgress, SessionAnalysis};
pub use analysis_state::{Ahead, AnalysisState};
pub use event::{Event, Observer};
pub use lost_host::HOST_WAIT_NS;
pub use run::{Ended, Run, RunOptions, this_machine};
pub use run_error::RunError;
