//! How large a call must be to reach half, or 95 %, of what is possible.
//!
//! Two ideas of "possible": the greatest rate that the curve has at any size that was *observed*, and the
//! *asymptote* 1/slope of the last segment, which lies beyond the sizes measured and may not hold
//! there. Both are of the curve: a size whose trials lie above it would set a mark that contradicts the
//! costs said beside it.

use super::Point;
use super::fit::{CostModel, levels};
use serde::{Deserialize, Serialize};

/// Sizes that reach a share of the possible, in bytes a call. `None` = the curve never does, or not within the sizes
/// observed: only the asymptote is meant to lie beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The greatest fitted rate at any size observed, in bytes per ns (= GB/s).
    pub observed_bytes_per_ns: f64,
    /// Size for half of it.
    pub half_of_observed_bytes: Option<f64>,
    /// Size for 95 % of it.
    pub most_of_observed_bytes: Option<f64>,
    /// The rate that the last segment tends to, in bytes per ns; `None` when its slope is 0.
    pub asymptote_bytes_per_ns: Option<f64>,
    /// Size for half of the asymptote.
    pub half_of_asymptote_bytes: Option<f64>,
    /// Size for 95 % of the asymptote.
    pub most_of_asymptote_bytes: Option<f64>,
}

/// Reads the sizes off a fitted curve; `points` are the trials it was fitted to.
#[must_use]
pub fn reach(model: &CostModel, points: &[Point]) -> Reach {
    let (levels, _) = levels(points);
    let rates = levels.iter().map(|level| model.bytes_per_ns(level.bytes));
    let observed = rates.fold(0.0, f64::max);
    let largest = levels.last().map_or(0.0, |level| level.bytes);
    let within = |share: f64| smallest_size(model, share * observed).filter(|size| *size <= largest);
    let slope = model.segments.last().map_or(0.0, |segment| segment.per_byte_ns);
    let asymptote = (slope > 0.0).then(|| 1.0 / slope);
    Reach {
        observed_bytes_per_ns: observed,
        half_of_observed_bytes: within(0.5),
        most_of_observed_bytes: within(0.95),
        asymptote_bytes_per_ns: asymptote,
        half_of_asymptote_bytes: asymptote.and_then(|rate| smallest_size(model, 0.5 * rate)),
        most_of_asymptote_bytes: asymptote.and_then(|rate| smallest_size(model, 0.95 * rate)),
    }
}

/// The smallest size whose fitted rate is at least `bytes_per_ns`. On a segment the time is
/// α + β·s, so the rate is reached at s = r·α/(1 − r·β).
fn smallest_size(model: &CostModel, bytes_per_ns: f64) -> Option<f64> {
    let ends = model.segments.iter().skip(1).map(|s| s.from_bytes).chain([f64::INFINITY]);
    model.segments.iter().zip(ends).find_map(|(segment, end)| {
        let start = segment.from_bytes;
        if start > 0.0 && model.bytes_per_ns(start) >= bytes_per_ns {
            return Some(start);
        }
        let before_ns = model.ns(start) - segment.per_byte_ns * start;
        let room = 1.0 - bytes_per_ns * segment.per_byte_ns;
        let size = bytes_per_ns * before_ns / room;
        (room > 0.0 && size >= start && size <= end).then_some(size)
    })
}
