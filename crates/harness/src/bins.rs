//! A calibration trial's laps as bins of equal length, as the statistics want them.

use bytegauge_model::trial::Bin;
use bytegauge_model::{Outcome, Trial};

/// Bins of a calibration series, nanoseconds.
pub(crate) const BIN_NS: u64 = 1_000_000;

/// Rates of a calibration trial's first flow in bins of equal length. Laps are about as long, but the first
/// ones, which learn their length, are shorter, and those of a slow path longer.
pub(crate) fn series(trial: &Trial) -> Option<Vec<f64>> {
    if trial.outcome != Outcome::Measured {
        return None;
    }
    // Of calls the client keeps the series: bytes both ways, which are calls by their constant size.
    let flow = trial.ends.measuring()?.flows.first()?;
    let bytes = Bin::by_interval(&flow.series, BIN_NS);
    (!bytes.is_empty()).then_some(bytes)
}
