//! A group's confirmed trials in the order of measurement, few enough points to be drawn. Describes, compares nothing.

use std::collections::BTreeMap;

use bytegauge_model::Trial;
use bytegauge_stats::quantile::median;

use super::counted_trials::{Blocks, Settled};
use super::document::{CourseCell, CourseView};

/// A picture does not show more points than this.
const POINTS_MAX: usize = 120;

/// The course of some cells of one group; `None` where none of them was confirmed. A block that broke off is left out, as
/// in every estimate: it counts for nothing. Where none was finished there is still something to show.
pub fn course(cells: &[&Settled], blocks: &Blocks, started_unix_ns: u64) -> Option<CourseView> {
    let finished = cells.iter().flat_map(|cell| &cell.confirmed).any(|trial| blocks.is_whole(trial.block));
    let counts = |trial: &&&Trial| !finished || blocks.is_whole(trial.block);
    let mut began: BTreeMap<u64, u64> = BTreeMap::new();
    for trial in cells.iter().flat_map(|cell| &cell.confirmed).filter(counts) {
        let at = began.entry(trial.block).or_insert(u64::MAX);
        *at = trial.started_unix_ns.min(*at);
    }
    if began.is_empty() {
        return None;
    }
    let began: Vec<(u64, u64)> = began.into_iter().collect();
    let blocks_per_point = began.len().div_ceil(POINTS_MAX);
    let points: Vec<&[(u64, u64)]> = began.chunks(blocks_per_point).collect();
    let place = |block: u64| began.partition_point(|(index, _)| *index < block) / blocks_per_point;
    let cell = |settled: &&Settled| {
        let mut rates = vec![Vec::new(); points.len()];
        let rated = |trial: &&Trial| Some((place(trial.block), trial.rate()?));
        settled.confirmed.iter().filter(counts).filter_map(rated).for_each(|(at, rate)| rates[at].push(rate));
        CourseCell { cell: settled.cell.id.clone(), rate: rates.iter().map(|rates| median(rates)).collect() }
    };
    let steal = |point: &&[(u64, u64)]| {
        let shares: Vec<f64> = point.iter().filter_map(|(block, _)| blocks.steal_share(*block)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    };
    Some(CourseView {
        blocks_per_point,
        block: points.iter().map(|point| point[0].0).collect(),
        at_ns: points.iter().map(|point| point[0].1.saturating_sub(started_unix_ns)).collect(),
        steal_share: points.iter().map(steal).collect(),
        cells: cells.iter().filter(|cell| !cell.confirmed.is_empty()).map(cell).collect(),
    })
}
