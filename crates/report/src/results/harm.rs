//! Harm that a rate does not show: stalls, a load that was not carried, and what `view::harm` finds by comparing the
//! options of a test. An option with such harm never counts as best.

use bytegauge_bottleneck::OFFERED_SHARE;

use crate::view::calls::waiting;
use crate::view::numbers::{CellView, HarmKind};
use crate::view::{self, bottleneck_inputs};

/// Shares of failures or cut datagrams below this one are not reported where all options have them.
const NOTICED: f64 = 0.01;

/// From this share of calls that wait for a delayed acknowledgement on, most of the time is waiting.
const DELAYED_MIN: f64 = 0.5;

/// The harm of an option.
pub fn of(cell: &CellView) -> Vec<HarmKind> {
    let failed = cell.call.as_ref().and_then(|call| call.failed_share);
    let found = [
        (cell.stalls, HarmKind::Stalled),
        (cell.behind.is_some(), HarmKind::MissedLoad),
        (share(cell, HarmKind::DelayedAcks) >= Some(DELAYED_MIN), HarmKind::DelayedAcks),
        (failed >= Some(NOTICED), HarmKind::FailedCalls),
        (share(cell, HarmKind::CutDatagrams) >= Some(NOTICED), HarmKind::CutDatagrams),
    ];
    let mut all: Vec<HarmKind> = found.into_iter().filter(|(is_there, _)| *is_there).map(|(_, kind)| kind).collect();
    all.extend(&cell.harmful);
    all.sort_unstable();
    all.dedup();
    all
}

/// The share of an offered load that an option carried, where it left more of it than it may.
pub fn carried_share(cell: &CellView) -> Option<f64> {
    let share = bottleneck_inputs::carried_share(cell.total_rate, cell.estimate.median, &cell.factors);
    share.filter(|share| *share < OFFERED_SHARE)
}

/// Whether users suffer from harm. Copies cost the time that is measured, and loopback always copies: another path may not.
pub fn is_avoided(harm: &[HarmKind]) -> bool {
    harm.iter().any(|kind| *kind != HarmKind::CopiedSends)
}

/// The share of the trials, the load, the calls or the datagrams of an option that harm of this kind affects; `None` where it cannot.
pub fn share(cell: &CellView, kind: HarmKind) -> Option<f64> {
    match kind {
        HarmKind::Stalled => cell.stalled.map(|stalled| stalled.trials as f64 / stalled.of.max(1) as f64),
        HarmKind::MissedLoad => cell.behind,
        HarmKind::DelayedAcks => Some(waiting(cell.call.as_ref()?, &cell.counters)?.slow_share),
        HarmKind::CutDatagrams => {
            cell.datagrams.as_ref().map(|seen| seen.truncated as f64 / seen.arrived.max(1) as f64)
        }
        compared => view::harm::share(&cell.harm, compared),
    }
}
