//! Times that are shown before they have passed.

use bytegauge_model::Nanos;

/// A time that leaves a forecast a tenth of room, in whole seconds.
pub(crate) fn with_spare(ns: u64) -> Nanos {
    const SECOND: u64 = 1_000_000_000;
    Nanos((ns + ns / 10).div_ceil(SECOND) * SECOND)
}
