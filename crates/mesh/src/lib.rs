//! Mesh: many hosts measure each other, started by the user's own launcher.
//!
//! [`schedule`] computes who measures whom, [`coordinator`] decides when. Both are pure: they take time and randomness
//! as arguments, open no socket and start no thread, so that tests step 1,000 ranks through a whole run.
#![forbid(unsafe_code)]

pub mod coordinator;
pub mod pattern;
pub mod schedule;

pub use coordinator::{Action, Coordinator, CoordinatorLimits, SlotEnd};
pub use pattern::{MeshPattern, MeshPatternError};
pub use schedule::{MeshSchedule, MeshSlot, SlotId};

/// The number of a process in a mesh, from 0.
pub type Rank = u32;
