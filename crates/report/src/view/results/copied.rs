//! Findings on ends that asked the kernel not to copy (`--zerocopy`, `--engine uring:zc`, `--zerocopy-receive`), and were copied for.

use bytegauge_model::CellKind;
use bytegauge_stats::trial_metrics::READER_MAPPED;

use super::super::document::{CellView, Finding, FindingKind, Severity, View};
use super::build::found;
use super::valid_for::is_group_over_loopback;

/// A smaller share of copies is not reported.
const NOTICED: f64 = 0.01;

/// The sends of all options that asked for no copy and were copied. Where only some options have them, each has a finding of
/// its own.
pub fn sends(view: &View) -> Option<Finding> {
    let (least, most) = shares(view, |cell| cell.harm.copied_share)?;
    let text = format!("The kernel copied {} of the zero-copy sends{}.", percent(least, most), loopback(view));
    (most >= NOTICED).then(|| about(FindingKind::CopiedSends, most, text))
}

/// The bytes that readers asked the kernel to map and that it copied.
pub fn receives(view: &View) -> Option<Finding> {
    let (least, most) = shares(view, |cell| Some(1.0 - cell.more.get(READER_MAPPED)?.median?))?;
    let range = percent(least, most);
    let text =
        format!("The kernel copied {range} of the bytes that TCP_ZEROCOPY_RECEIVE asked it to map{}.", loopback(view));
    (most >= NOTICED).then(|| about(FindingKind::CopiedReceives, most, text))
}

fn about(kind: FindingKind, share: f64, text: String) -> Finding {
    found(kind, Severity::Warning).number("copied_share", Some(share)).with_text(text)
}

fn loopback(view: &View) -> &'static str {
    let is_loopback = view.groups.iter().any(is_group_over_loopback);
    if is_loopback { ", as always over loopback; a network card may differ" } else { "" }
}

/// The least and the greatest share of the options that have one.
fn shares(view: &View, share: impl Fn(&CellView) -> Option<f64>) -> Option<(f64, f64)> {
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let shares: Vec<f64> = candidates.filter_map(share).collect();
    Some((shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?))
}

fn percent(least: f64, most: f64) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if percent(least) == percent(most) { percent(most) } else { format!("{} to {}", percent(least), percent(most)) }
}
