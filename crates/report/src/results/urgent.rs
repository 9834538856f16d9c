//! The delay of urgent messages behind bulk data: the percentile that is compared, and the option that surely delays them least.

use bytegauge_model::CellId;

use super::{OptionResult, OptionStatus};
use crate::view::numbers::{CellView, View};

/// The percentiles of urgent messages, with their names for people.
pub const PERCENTILES: &[(&str, &str)] =
    &[("urgent p50", "urgent_p50_ns"), ("urgent p90", "urgent_p90_ns"), ("urgent p99", "urgent_p99_ns")];

/// The cells of options that were measured.
fn measured<'a>(view: &'a View, options: &'a [OptionResult]) -> impl Iterator<Item = &'a CellView> {
    options.iter().filter_map(|option| view.cell(&option.id)).filter(|cell| cell.trials > 0)
}

/// The highest percentile that is known of all options that were measured.
pub fn highest_of_all(view: &View, options: &[OptionResult]) -> Option<(&'static str, &'static str)> {
    let is_known = |name| measured(view, options).all(|cell| cell.median(name).is_some());
    measured(view, options).next()?;
    PERCENTILES.iter().rev().copied().find(|(_, name)| is_known(name))
}

/// The option within the margin whose interval of the delay is below those of all others.
pub fn surely_quickest<'a>(view: &'a View, options: &'a [OptionResult]) -> Option<&'a CellId> {
    let (_, name) = highest_of_all(view, options)?;
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
