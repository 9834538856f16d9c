//! Parts of slots that were not measured, and why ranks take no further part.

use bytegauge_model::Outcome;
use thiserror::Error;

use crate::Rank;
use crate::schedule::SlotId;

/// Why a rank takes no further part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum LostRank {
    /// It never joined.
    #[error("did not join in time")]
    Absent,
    /// Its connection ended before its work did.
    #[error("disconnected")]
    Disconnected,
    /// It gave no sign of life for too long.
    #[error("stopped answering")]
    Silent,
    /// It did not confirm that it had stopped.
    #[error("did not stop when its test was cancelled")]
    Stuck,
    /// It reported a slot that it was not measuring.
    #[error("reported a test that it was not running")]
    Misreported,
    /// It left because it cannot measure; the reason is in its log.
    #[error("left because of an error of its own")]
    Left,
}

/// A client's part of a slot that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// The slot.
    pub slot: SlotId,
    /// The client.
    pub client: Rank,
    /// Skipped or failed, with the reason.
    pub outcome: Outcome,
}
