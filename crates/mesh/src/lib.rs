//! Mesh: many hosts measure each other, started by the user's own launcher.
//!
//! [`schedule`] computes which ranks measure each other, [`coordinator`] decides when, and [`result`] names what is slow and
//! which suspects are repeated. All are pure: they take time and randomness as arguments, open no socket and start
//! no thread, so that tests step 1,000 ranks through a whole run. [`files`] alone reads and writes files.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod coordinator;
pub mod files;
pub mod launcher;
pub mod message;
pub mod page;
#[cfg(feature = "parquet")]
pub mod parquet_file;
pub mod rate_model;
pub mod result;
pub mod row;
pub mod schedule;
pub mod settings;
pub mod summary;

pub use coordinator::{Action, Coordinator, CoordinatorLimits};
pub use message::{RankHello, ToRank, ToRankZero};
pub use rate_model::{MeshFit, RateSample};
pub use result::{MeshResult, RateShift, SlowHost, SlowLink};
pub use row::{MeshRow, SlotPlace};
pub use schedule::{MeshPattern, MeshSchedule, MeshSlot, SlotId};
pub use settings::{MeshCell, MeshSettings};
pub use summary::CallTimes;

/// The number of a process in a mesh, from 0.
pub type Rank = u32;
