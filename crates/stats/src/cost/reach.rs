//! Finds the call sizes that reach half, or 95 %, of the possible rate.
//!
//! Two definitions of "possible": the greatest rate of the curve at any *observed* size, and the *asymptote* 1/slope of
//! the last segment, which is beyond the measured sizes and may not hold there. Both come from the curve: the rate of a
//! size whose trials are above it would contradict the costs reported with it.

use super::Point;
use super::fit::{CostCurve, levels};
use serde::{Deserialize, Serialize};

/// Sizes that reach a share of the possible rate, in bytes per call. `None` if the curve never does, or not within the
/// observed sizes; only the asymptote may be beyond them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reach {
    /// The greatest fitted rate at any observed size, in bytes per ns (= GB/s).
    pub observed_bytes_per_ns: f64,
    /// Size for half of it.
    pub half_of_observed_bytes: Option<f64>,
    /// Size for 95 % of it.
    pub most_of_observed_bytes: Option<f64>,
    /// The limit of the last segment's rate, in bytes per ns; `None` when its slope is 0.
    pub asymptote_bytes_per_ns: Option<f64>,
    /// Size for half of the asymptote.
    pub half_of_asymptote_bytes: Option<f64>,
    /// Size for 95 % of the asymptote.
    pub most_of_asymptote_bytes: Option<f64>,
}

/// Computes the sizes from a fitted curve; `points` are the trials it was fitted to.
#[must_use]
pub fn reach(model: &CostCurve, points: &[Point]) -> Reach {
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
fn smallest_size(model: &CostCurve, bytes_per_ns: f64) -> Option<f64> {
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
