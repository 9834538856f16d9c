//! A note on writers that asked the kernel not to copy (`--zerocopy`, `--engine uring:zc`).

use bytegauge_model::CellKind;

use super::document::CellView;
use super::estimate::WRITER_COPIED;

/// The sends of writers that asked for no copy and were copied.
pub fn note(cells: &[CellView]) -> Option<String> {
    let candidates = cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let shares: Vec<f64> = candidates.filter_map(|cell| cell.more.get(WRITER_COPIED)?.median).collect();
    let (least, most) = (shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?);
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let range = if percent(least) == percent(most) {
        percent(most)
    } else {
        format!("{} to {}", percent(least), percent(most))
    };
    (most >= 0.01).then(|| {
        format!("the kernel copied {range} of the sends that asked for no copy; over loopback it copies all of them")
    })
}
