//! Opens a path, warms up, measures, checks, closes; and runs a plan's stages of blocks within
//! its budget, writing every trial to the store before the next one starts.
//!
//! Judges nothing: `report` computes results from the store.
#![forbid(unsafe_code)]

pub mod ceiling;
pub mod event;
pub mod pair;
pub mod placing;
pub mod probe;
pub mod run;
mod run_error;
pub mod sampled;
pub mod surroundings;
pub mod trial;

mod analysis;
mod analysis_state;
mod audit;
mod bins;
mod block;
mod calibrate;
mod confirm;
mod forecast;
mod giving_way;
mod home;
mod interim;
mod knee;
mod lost_host;
mod screen;
mod stages;
mod time_limit;
mod time_use;

pub use analysis::{AnalysedGroup, AnalysisProgress, SessionAnalysis};
pub use analysis_state::{Ahead, AnalysisState};
pub use event::{Event, Observer};
pub use lost_host::HOST_WAIT_NS;
pub use run::{Ended, Run, RunOptions, this_machine};
pub use run_error::RunError;
