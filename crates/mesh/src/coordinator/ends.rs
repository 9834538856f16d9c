//! How parts of slots end, and why ranks take no further part.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Rank;
use crate::schedule::SlotId;

/// How the part of one client in a slot ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SlotEnd {
    /// The client has the numbers.
    Measured,
    /// Nothing was measured, for this reason.
    Skipped(String),
    /// The measurement was begun and failed, for this reason.
    Failed(String),
}

/// The longest reason of a rank that is kept, bytes.
const REASON_MAX: usize = 2048;

impl SlotEnd {
    /// The same with a reason of at most 2 KiB: rank 0 keeps one for each part that was not measured.
    pub(super) fn with_short_reason(self) -> SlotEnd {
        match self {
            SlotEnd::Measured => SlotEnd::Measured,
            SlotEnd::Skipped(reason) => SlotEnd::Skipped(shortened(reason)),
            SlotEnd::Failed(reason) => SlotEnd::Failed(shortened(reason)),
        }
    }
}

/// A text of another host without the part beyond 2 KiB.
pub fn shortened(reason: String) -> String {
    cut(reason, REASON_MAX)
}

/// A text without the part beyond `max` bytes.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text.shrink_to_fit();
    text
}

/// Why a rank takes no further part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LostRank {
    /// It never joined.
    Absent,
    /// Its connection ended before its work did.
    Disconnected,
    /// It gave no sign of life for too long.
    Silent,
    /// It did not confirm that it had stopped.
    Stuck,
    /// It reported a slot that it was not measuring.
    Misreported,
    /// It left because it cannot measure; the reason is in its log.
    Left,
}

impl fmt::Display for LostRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostRank::Absent => "did not join in time",
            LostRank::Disconnected => "disconnected",
            LostRank::Silent => "stopped answering",
            LostRank::Stuck => "did not stop when its test was cancelled",
            LostRank::Misreported => "reported a test that it was not running",
            LostRank::Left => "left because of an error of its own",
        })
    }
}

/// A client's part of a slot that was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// The slot.
    pub slot: SlotId,
    /// The client.
    pub client: Rank,
    /// Skipped or failed, with the reason.
    pub end: SlotEnd,
}
