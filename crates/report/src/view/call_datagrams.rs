//! The datagrams of calls: which were lost and where. Only replies are rated; the datagrams sent for them only explain losses.

use bytegauge_model::{CallDatagrams, EndRole, Trial};
use bytegauge_stats::quantile::median;

use super::counted_trials::Settled;
use super::counters::namespace;
use super::numbers::CallDatagramView;

/// The datagrams of a cell; `None` if its calls had connections.
pub fn datagrams(settled: &Settled) -> Option<CallDatagramView> {
    let trials = &settled.trials;
    let of_client = |trial: &Trial| trial.client()?.datagrams;
    let of_server = |trial: &Trial| trial.end(EndRole::Server)?.call.as_ref()?.datagrams;
    let of_rival = |trial: &Trial| trial.end(EndRole::Competitor)?.call.as_ref()?.datagrams;
    let sum = |of: &dyn Fn(&Trial) -> Option<CallDatagrams>| {
        trials.iter().filter_map(|trial| of(trial)).reduce(|a, b| a.plus(&b))
    };
    let client = [sum(&of_client), sum(&of_rival)].into_iter().flatten().reduce(|a, b| a.plus(&b))?;
    let server = sum(&of_server);
    let response = settled.cell.factors.response().or_else(|| settled.cell.factors.request());
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates);
    Some(CallDatagramView {
        reply_bytes_per_second: rate.zip(response).map(|(rate, bytes)| rate * bytes as f64),
        requests_sent: client.sent,
        requests_dropped: server.map(|server| server.dropped),
        requests_truncated: server.map(|server| server.truncated),
        requests_lost_elsewhere: server.map(|server| lost(client.sent, server.received, server.dropped)),
        replies_unsent: server.map(|server| server.unsent),
        replies_dropped: client.dropped,
        replies_lost_elsewhere: server.map(|server| lost(server.sent, client.received, client.dropped)),
        late: client.late,
        duplicated: client.duplicated,
        overtaken: client.overtaken,
        strange: client.strange,
        namespace: namespace(trials),
    })
}

/// Datagrams that were sent, did not arrive, and are in no count of drops.
fn lost(sent: u64, came: u64, dropped: u64) -> u64 {
    sent.saturating_sub(came).saturating_sub(dropped)
}
