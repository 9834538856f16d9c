//! Lines next to a table of streams in both directions: the rate of each direction, and the CPU use of each host.

use bytegauge_model::unit::byte_rate;
use bytegauge_stats::trial_metrics::{FAR_CPUS, FROM, NEAR_CPUS, TO};

use super::cell_text::number;
use super::rows::Rows;
use crate::view::document::CellView;

/// More cells than this are only in JSON.
const CELLS_MAX: usize = 6;

/// The lines; none for one direction.
pub fn lines(rows: &Rows) -> Vec<String> {
    let all: Vec<String> = rows.cells.iter().filter_map(|cell| line(cell)).collect();
    let more = all.len().saturating_sub(CELLS_MAX);
    all.into_iter().take(CELLS_MAX).chain((more > 0).then(|| format!("{more} more: --format json"))).collect()
}

fn line(cell: &CellView) -> Option<String> {
    let (to, from) = (cell.median(TO)?, cell.median(FROM)?);
    let cpus = cell.median(NEAR_CPUS).zip(cell.median(FAR_CPUS));
    let cpus = cpus.map(|(near, far)| {
        format!("; the end that connected used {} CPUs, the other one {}", number(Some(near)), number(Some(far)))
    });
    Some(format!("{}: {} there and {} back{}", cell.label, byte_rate(to), byte_rate(from), cpus.unwrap_or_default()))
}
