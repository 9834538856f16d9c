//! Notes on ends that asked the kernel not to copy (`--zerocopy`, `--engine uring:zc`, `--zerocopy-receive`).

use bytegauge_model::CellKind;

use super::document::CellView;
use super::estimate::{READER_MAPPED, WRITER_COPIED};

/// The sends of writers that asked for no copy and were copied.
pub fn note(cells: &[CellView]) -> Option<String> {
    let (least, most) = shares(cells, WRITER_COPIED)?;
    (most >= 0.01).then(|| {
        let range = percent(least, most);
        format!("the kernel copied {range} of the sends that asked for no copy; over loopback it copies all of them")
    })
}

/// The bytes that readers asked the kernel to map.
pub fn note_on_readers(cells: &[CellView]) -> Option<String> {
    let (least, most) = shares(cells, READER_MAPPED)?;
    let range = percent(least, most);
    let why =
        if most < 0.99 { "; it maps only whole pages that a network card filled, over loopback none" } else { "" };
    Some(format!(
        "the kernel mapped {range} of the bytes of readers with TCP_ZEROCOPY_RECEIVE and copied the others{why}"
    ))
}

/// The least and the greatest median share of the options that have one.
fn shares(cells: &[CellView], name: &str) -> Option<(f64, f64)> {
    let candidates = cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let shares: Vec<f64> = candidates.filter_map(|cell| cell.more.get(name)?.median).collect();
    Some((shares.iter().copied().reduce(f64::min)?, shares.iter().copied().reduce(f64::max)?))
}

fn percent(least: f64, most: f64) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    if percent(least) == percent(most) { percent(most) } else { format!("{} to {}", percent(least), percent(most)) }
}
