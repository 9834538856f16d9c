//! The emulated link of a group: its settings and its measured properties, as numbers and as text.

use bytegauge_model::unit::{about_bytes, byte_rate, significant};
use bytegauge_model::{CellKind, EndReport, LinkUse, Nanos, Spec, Trial};
use bytegauge_stats::quantile::median;

use super::numbers::{CellView, GroupView, LinkView, View};

/// The counts of a group's trials for their link; `None` without a link, or without counts.
pub fn view(conditions: &Spec, trials: &[&Trial]) -> Option<LinkView> {
    conditions.emulated_link()?;
    let machines = || trials.iter().filter_map(|trial| trial.machine.as_ref());
    let used = machines()
        .filter_map(|machine| machine.link.as_deref().copied())
        .reduce(|one, other: LinkUse| one.plus(&other))?;
    let both = used.both();
    let wall_ns: u64 = machines().map(|machine| machine.wall_ns).sum();
    let trips: Vec<f64> = trials.iter().filter_map(|trial| Some(round_trip_us(trial)? as f64)).collect();
    Some(LinkView {
        round_trip_ns: median(&trips).map(|us| (us * 1e3) as u64),
        late_ns: used.late_ns(),
        passed: both.passed,
        lost: both.lost,
        queue_drops: both.queue_drops,
        cpus: (wall_ns > 0).then(|| used.cpu_ns as f64 / wall_ns as f64),
    })
}

/// The smallest round trip that any connection saw from either end.
fn round_trip_us(trial: &Trial) -> Option<u64> {
    let ends = [trial.source_side(), trial.sink_side()].into_iter().flatten();
    ends.flat_map(|end: &EndReport| &end.flows).filter_map(|flow| flow.tcp.as_ref()?.min_rtt_us.get()).min()
}

/// Shorter round trips are those of a cable, over which any buffer is large enough, µs.
const FAR_US: u64 = 500;

/// Delay × rate of the path to another host, as measured: its shortest round trip, and the highest rate over it.
pub fn of_path(view: &View) -> Option<String> {
    let goes_far = |cell: &&CellView| {
        cell.kind == CellKind::Candidate && cell.estimate.unit == "bytes/s" && cell.factors.host().is_some()
    };
    let far = || view.cells.iter().filter(goes_far);
    let trip_us = far().filter_map(|cell| cell.counters.min_rtt_us).min().filter(|us| *us >= FAR_US)?;
    let rate = far().filter_map(|cell| cell.estimate.median).reduce(f64::max)?;
    Some(format!(
        "delay × rate of the path, as measured, is {} ({} × {})",
        about_bytes((rate * trip_us as f64 / 1e6) as u64),
        Nanos(trip_us * 1000),
        byte_rate(rate)
    ))
}

/// The line of a group; none without a link.
pub fn line(group: &GroupView) -> Option<String> {
    let (asked, link) = (group.factors.emulated_link()?, group.link.as_ref()?);
    let share = |packets: u64| {
        let all = link.passed + link.lost + link.queue_drops;
        format!("{} %", significant(packets as f64 / all.max(1) as f64 * 100.0, 2))
    };
    let trip = link.round_trip_ns.map_or_else(
        || format!("round trips {} longer", Nanos(link.late_ns)),
        |ns| format!("shortest round trips of {}", Nanos(ns)),
    );
    let cpus = link.cpus.map_or_else(String::new, |cpus| format!("; its process took {} CPUs", significant(cpus, 2)));
    Some(format!(
        "emulated link of {asked}: delay × rate is {}; measured: {trip}, of {} packets {} lost and {} dropped by the full queue ({}){cpus}",
        about_bytes(asked.product_bytes()),
        link.passed + link.lost + link.queue_drops,
        share(link.lost),
        share(link.queue_drops),
        about_bytes(asked.queue_bytes()),
    ))
}
