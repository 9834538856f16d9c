//! Delays next to a rate: of urgent messages behind bulk data, with the option that surely delays them least, and of calls at a fixed load.

use bytegauge_model::CellId;

use super::{OptionResult, OptionStatus};
use crate::view::numbers::{CellView, View};

/// The name of a percentile for people, and that of its estimate.
pub type Percentile = (&'static str, &'static str);

/// The percentiles of urgent messages.
pub const PERCENTILES: &[Percentile] =
    &[("urgent p50", "urgent_p50_ns"), ("urgent p90", "urgent_p90_ns"), ("urgent p99", "urgent_p99_ns")];

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

/// The option within the margin whose interval of the delay is below those of all others.
pub fn surely_quickest<'a>(view: &'a View, options: &'a [OptionResult]) -> Option<&'a CellId> {
    let (_, name) = highest_of_all(view, options, PERCENTILES)?;
    let good = options.iter().filter(|option| option.status == OptionStatus::AsGood);
    let delay = |option: &'a OptionResult| {
        let delay = view.cell(&option.id)?.more.get(name)?;
        Some((&option.id, delay.lower?, delay.upper?))
    };
    let delays: Vec<(&CellId, f64, f64)> = good.filter_map(delay).collect();
    let is_least =
        |(id, _, upper): &&(&CellId, f64, f64)| delays.iter().all(|(other, lower, _)| other == id || upper < lower);
    delays.iter().find(is_least).map(|(id, ..)| *id)
}
