//! Results that an iperf3 server counted itself, next to the rates that were measured here.
//!
//! Numbers of a whole test: they include the warm-up, and are no numbers of the window alone.

use bytegauge_model::unit::{byte_rate, significant};
use bytegauge_model::{CellKind, EndRole, Iperf3Report, Trial};
use bytegauge_stats::trial_metrics::TrialMetric;

use super::numbers::CellView;

const RATE: &str = "iperf3_server_bytes_per_second";
const CPU: &str = "iperf3_server_cpu_percent";
const RETRANSMITS: &str = "iperf3_server_retransmits";
const LOST: &str = "iperf3_server_lost_share";
const JITTER: &str = "iperf3_server_jitter_ns";

/// The server's numbers, by trial.
pub(super) const METRICS: &[TrialMetric] = &[
    TrialMetric { name: RATE, unit: "bytes/s", of: |trial| per_second(server(trial)?) },
    TrialMetric { name: CPU, unit: "%", of: |trial| Some(server(trial)?.cpu_percent) },
    TrialMetric {
        name: RETRANSMITS,
        unit: "segments",
        of: |trial| server(trial)?.retransmits.map(|count| count as f64),
    },
    TrialMetric { name: LOST, unit: "share", of: |trial| lost_share(server(trial)?) },
    TrialMetric { name: JITTER, unit: "ns", of: |trial| server(trial)?.jitter_ns.map(|ns| ns as f64) },
];

fn server(trial: &Trial) -> Option<&Iperf3Report> {
    [EndRole::Source, EndRole::Sink].into_iter().find_map(|role| trial.end(role)?.iperf3.as_deref())
}

fn per_second(report: &Iperf3Report) -> Option<f64> {
    (report.duration_ns > 0).then(|| report.bytes as f64 / (report.duration_ns as f64 / 1e9))
}

fn lost_share(report: &Iperf3Report) -> Option<f64> {
    report.lost.is_some().then(|| 1.0 - report.delivered_share())
}

/// Sentences with the server's numbers, and the reason why rates over UDP to it are estimates.
pub(super) fn notes(cells: &[CellView]) -> Vec<String> {
    let candidates = || cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let span = |name: &str, shown: &dyn Fn(f64) -> String| {
        let medians = || candidates().filter_map(|cell| cell.more.get(name)?.median);
        let (least, most) = (shown(medians().reduce(f64::min)?), shown(medians().reduce(f64::max)?));
        Some(if least == most { least } else { format!("{least} to {most}") })
    };
    let Some(rate) = span(RATE, &byte_rate) else { return Vec::new() };
    let parts = [
        span(CPU, &|percent| significant(percent, 2)).map(|percent| format!("{percent} % of a CPU")),
        span(RETRANSMITS, &|count| significant(count, 2)).map(|count| format!("{count} segments sent again per test")),
        span(LOST, &|share| significant(share * 100.0, 2)).map(|percent| format!("{percent} % of datagrams lost")),
        span(JITTER, &|ns| significant(ns / 1e3, 2)).map(|micros| format!("jitter of {micros} µs")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let mut notes = vec![format!("the iperf3 server counted {rate} over whole tests: {}", parts.join(", "))];
    if candidates().any(|cell| cell.more.get(LOST).is_some_and(|lost| lost.median.is_some())) {
        notes.push(
            "rates of datagrams to an iperf3 server are estimates: the server reports its loss for the whole test, and bytes sent \
             in the window count with that share"
                .into(),
        );
    }
    notes
}
