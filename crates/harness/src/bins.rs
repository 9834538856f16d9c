//! A calibration trial's laps as bins of equal length, as the statistics want them.

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
    let total_ns: u64 = flow.series.iter().map(|bin| bin.ns).sum();
    let mut bytes = vec![0.0; (total_ns / BIN_NS) as usize];
    let mut at_ns = 0;
    for lap in &flow.series {
        let end_ns = at_ns + lap.ns;
        // A lap's bytes are spread evenly over the bins that it touches.
        let mut from_ns = at_ns;
        while from_ns < end_ns {
            let to_ns = end_ns.min((from_ns / BIN_NS + 1) * BIN_NS);
            if let Some(bin) = bytes.get_mut((from_ns / BIN_NS) as usize) {
                *bin += lap.bytes as f64 * (to_ns - from_ns) as f64 / lap.ns as f64;
            }
            from_ns = to_ns;
        }
        at_ns = end_ns;
    }
    (!bytes.is_empty()).then_some(bytes)
}
