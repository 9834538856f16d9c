//! Converts a calibration trial's laps into bins of equal length for the statistics.

use bytegauge_model::Bin;
use bytegauge_model::{Outcome, Trial};

/// Bins of a calibration series, nanoseconds.
pub(crate) const BIN_NS: u64 = 1_000_000;

/// Rates of a calibration trial's first flow in bins of equal length. Laps are about as long, but the first
/// ones, which learn their length, are shorter, and those of a slow path longer.
pub(crate) fn series(trial: &Trial) -> Option<Vec<f64>> {
    if trial.outcome != Outcome::Measured {
        return None;
    }
    // In calls the client keeps the series: bytes both ways, which are proportional to calls.
    let flow = trial.ends.measuring()?.flows.first()?;
    let bytes = Bin::by_interval(&flow.series, BIN_NS);
    (!bytes.is_empty()).then_some(bytes)
}
