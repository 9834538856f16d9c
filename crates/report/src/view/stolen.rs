//! Whether CPU steal was distributed unevenly among confirmed cells.

use std::collections::BTreeMap;

use bytegauge_stats::cpu_steal::{Uneven, uneven};

use super::compare::GroupAnalysis;
use super::counted_trials::{Blocks, Settled};
use super::document::StolenView;

/// Up to this p-value a dependence of steal on the cell is reported.
pub const NOTICED_P: f64 = 0.01;

/// How unevenly steal was distributed among the trials of a group's confirmed cells; `None` if it does not differ, or was not
/// counted.
pub fn stolen(judged: &GroupAnalysis, settled: &[Settled], blocks: &Blocks, seed: u64) -> Option<StolenView> {
    let cells = &judged.cells;
    let mut hits: BTreeMap<u64, Vec<Option<bool>>> = BTreeMap::new();
    for (place, &at) in cells.iter().enumerate() {
        for trial in settled[at].confirmed.iter().filter(|trial| blocks.is_whole(trial.block)) {
            hits.entry(trial.block).or_insert_with(|| vec![None; cells.len()])[place] =
                trial.machine.as_ref().map(|machine| machine.steal_ns > 0);
        }
    }
    let complete: Vec<Vec<bool>> = hits.into_values().filter_map(|row| row.into_iter().collect()).collect();
    let Uneven { most, most_share, least, least_share, p_value, blocks } = uneven(&complete, seed)?;
    let id = |place: usize| settled[cells[place]].cell.id.clone();
    Some(StolenView { most: id(most), most_share, least: id(least), least_share, p: p_value, trials: blocks })
}
