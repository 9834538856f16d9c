//! The cost of the harness itself: the null engine's time per call, relative to the cheapest real call.
//!
//! The floor is measured in the same blocks as everything else; it never competes.

use std::collections::HashMap;

use bytegauge_model::spec::derived::lanes;
use bytegauge_model::{CellKind, EndCounts, GroupId, Trial, Workload};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{ratio, sink_sums, source_sums};
use bytegauge_stats::trial_metrics::ns_of_threads;

use super::bottleneck_inputs::call_ns;
use super::counted_trials::Settled;
use super::estimate::throughput;
use super::levels::moves_nothing;
use super::numbers::FloorView;

/// The floor of each group, and of the session.
pub struct Floors {
    /// Nanoseconds a null call takes, by group.
    by_group: HashMap<GroupId, f64>,
    /// For the report.
    pub view: FloorView,
}

/// A null call takes at least this time, nanoseconds: less is not resolved by the clock.
const LEAST_NS: f64 = 0.02;

impl Floors {
    /// Reads the floor cells.
    pub fn of(settled: &[Settled], level: f64) -> Floors {
        let mut all = Vec::new();
        let mut by_group = HashMap::new();
        for floor in settled.iter().filter(|settled| settled.cell.kind == CellKind::Floor) {
            // In calls it is one thread, whatever the client has.
            let lanes = if floor.workload() == Workload::Call { 1 } else { lanes(&floor.cell.factors) };
            let ends = floor.measured.iter().filter_map(|trial| trial.ends.measuring());
            let each = ends.filter_map(|end| ns_of_threads(end, lanes));
            // Less than a tenth of a cycle: counted many at a time, so that it is no time of one call.
            let calls: Vec<f64> = each.filter(|ns| *ns >= LEAST_NS).collect();
            by_group.extend(median(&calls).map(|ns| (floor.cell.group.clone(), ns)));
            all.extend(calls);
        }
        let real: Vec<(&Settled, f64)> = settled
            .iter()
            .filter(|settled| settled.cell.kind == CellKind::Candidate && !moves_nothing(&settled.cell.factors))
            .filter_map(|settled| Some((settled, shortest_call_ns(settled, level)?)))
            .collect();
        let fastest = real.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        // The cost of a call contains the floor: a larger floor was off its CPU, and is ignored.
        let of_group = |group: &GroupId| {
            real.iter().filter(|(settled, _)| settled.cell.group == *group).map(|(_, ns)| *ns).reduce(f64::min)
        };
        by_group.retain(|group, floor| of_group(group).is_none_or(|ns| *floor <= ns));
        let ns_per_call = median(&all).filter(|floor| fastest.is_none_or(|(_, ns)| *floor <= ns));
        let view = FloorView {
            ns_per_call,
            trials: all.len(),
            fastest_cell: fastest.as_ref().map(|(settled, _)| settled.cell.id.clone()),
            fastest_ns_per_call: fastest.as_ref().map(|(_, ns)| *ns),
            share: ns_per_call.zip(fastest).map(|(floor, (_, ns))| floor / ns),
        };
        Floors { by_group, view }
    }

    /// The floor of a group: its own, or else the session's.
    pub fn of_group(&self, group: &GroupId) -> Option<f64> {
        self.by_group.get(group).copied().or(self.view.ns_per_call)
    }
}

/// The shorter of the two ends' calls, wall time of a thread: the number of calls follows from the cell's rate, so that it is
/// consistent with it.
fn shortest_call_ns(settled: &Settled, level: f64) -> Option<f64> {
    let (workload, lanes) = (settled.workload(), lanes(&settled.cell.factors));
    let by_rate = || throughput(settled, level).median.filter(|rate| *rate > 0.0).map(|rate| lanes as f64 * 1e9 / rate);
    let is_lossy = settled.cell.factors.transport().is_some_and(bytegauge_model::Transport::is_datagram);
    match workload {
        Workload::Call | Workload::Ring => return by_rate(),
        Workload::Stream if !is_lossy => {
            let a_byte = by_rate()?;
            let ends = [source_sums(&settled.trials), sink_sums(&settled.trials)];
            let bytes = ends.into_iter().flatten().filter_map(|end| ratio(end.bytes, end.calls));
            return bytes.filter(|bytes| *bytes > 0.0).map(|bytes| bytes * a_byte).reduce(f64::min);
        }
        // Runs of a program have their own time; lost datagrams make the rate unusable for the sender's calls.
        _ => {}
    }
    let of_ends = |sums: fn(&[&Trial]) -> Option<EndCounts>| {
        let each = settled.trials.iter().filter_map(|trial| call_ns(&sums(&[trial])?, lanes));
        median(&each.collect::<Vec<_>>())
    };
    [of_ends(source_sums), of_ends(sink_sums)].into_iter().flatten().reduce(f64::min)
}
