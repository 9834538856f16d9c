//! The datagrams of a cell: how many arrived, in how many packets, and where the others were lost.
//!
//! Sums over the trials behind the estimate, of the flows' whole lives: losses in a warm-up count too.

use bytegauge_model::{DatagramReport, Deaths, EndReport, EndRole, Side, Spec, Trial, UdpUse};
use bytegauge_stats::trial_counts::ratio;

use super::counted_trials::Settled;
use super::document::DatagramView;

/// The datagrams of a cell; `None` where no trial counted any at both ends.
pub fn datagrams(settled: &Settled) -> Option<DatagramView> {
    let trials = settled.trials.as_slice();
    let mut sums: Option<(DatagramReport, DatagramReport, Deaths)> = None;
    for trial in trials {
        let counted = |role| trial.end(role)?.datagrams.as_deref();
        let Some((source, sink)) = counted(EndRole::Source).zip(counted(EndRole::Sink)) else { continue };
        let deaths = Deaths::of(source, sink);
        sums = Some(match sums {
            None => (*source, *sink, deaths),
            Some(sum) => (sum.0.plus(source), sum.1.plus(sink), sum.2.plus(&deaths)),
        });
    }
    let (source, sink, deaths) = sums?;
    Some(DatagramView {
        sent: source.total,
        arrived: sink.total,
        lost: deaths.lost,
        lost_share: ratio(deaths.lost, source.total),
        lost_at_socket: deaths.at_socket,
        lost_unknown: deaths.unknown,
        reordered: sink.reordered,
        duplicated: sink.duplicated,
        truncated: sink.truncated,
        cut_bytes: sink.cut_bytes,
        sends_refused: source.refused,
        packets_sent: source.total_packets,
        packets_arrived: sink.total_packets,
        packets_dropped: sink.socket_drops,
        packets_dropped_reported: sink.told_drops,
        datagrams_per_packet: ratio(sink.total, sink.total_packets),
        datagrams_per_receive: per_call(trials, |trial| trial.end(EndRole::Sink)),
        datagrams_per_send: per_call(trials, |trial| trial.end(EndRole::Source)),
        // Where they arrive on another host, it would be this one's that is blamed.
        namespace: namespace(trials).filter(|_| arrives_here(&settled.cell.factors)),
    })
}

fn arrives_here(levels: &Spec) -> bool {
    levels.far().is_none_or(|(_, direction)| direction.far_side() == Side::Source)
}

/// Datagrams of the window that a call moved on average.
fn per_call(trials: &[&Trial], end: fn(&Trial) -> Option<&EndReport>) -> Option<f64> {
    let ends = trials.iter().filter_map(|trial| Some((end(trial)?.calls, end(trial)?.datagrams.as_ref()?.datagrams)));
    let (calls, datagrams) =
        ends.fold((0u64, 0u64), |sum, one| (sum.0.saturating_add(one.0), sum.1.saturating_add(one.1)));
    ratio(datagrams, calls)
}

/// The kernel's counts of UDP meanwhile, of all programs.
pub(super) fn namespace(trials: &[&Trial]) -> Option<UdpUse> {
    let counted = trials.iter().filter_map(|trial| trial.machine.as_ref()?.udp.as_deref().copied());
    counted.reduce(|one, other| one.plus(&other))
}
