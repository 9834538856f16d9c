//! Delays next to a rate: of urgent messages behind bulk data, and of calls at a fixed load.

use super::OptionResult;
use crate::view::numbers::{CellView, View};

/// The name of a percentile for people, and that of its estimate.
pub type Percentile = (&'static str, &'static str);

/// The mean of the delays of urgent messages, which is compared, and their percentiles.
pub const PERCENTILES: &[Percentile] = &[
    ("urgent mean", "urgent_mean_ns"),
    ("urgent p50", "urgent_p50_ns"),
    ("urgent p90", "urgent_p90_ns"),
    ("urgent p99", "urgent_p99_ns"),
];

/// The mean and the percentiles of calls, which are what an option costs where the load is fixed.
pub const OF_CALLS: &[Percentile] =
    &[("mean time", "total_mean_ns"), ("p50", "total_p50_ns"), ("p90", "total_p90_ns"), ("p99", "total_p99_ns")];

/// The percentile of the pauses between the parts of a reply.
pub const OF_GAPS: &[Percentile] = &[("gap p99", "gap_p99_ns")];

/// The cells of options that were measured.
fn measured<'a>(view: &'a View, options: &'a [OptionResult]) -> impl Iterator<Item = &'a CellView> {
    options.iter().filter_map(|option| view.cell(&option.id)).filter(|cell| cell.trials > 0)
}

/// The highest of these percentiles that is known of all options that were measured.
pub fn highest_of_all(view: &View, options: &[OptionResult], of: &[Percentile]) -> Option<Percentile> {
    let is_known = |name| measured(view, options).all(|cell| cell.median(name).is_some());
    measured(view, options).next()?;
    of.iter().rev().copied().find(|(_, name)| is_known(name))
}
