//! The relay's end between the two sides of a path: it serves from the moment it listens, and is charged for all that its process
//! uses within the window.

use std::sync::Arc;

use bytegauge_model::{EndRole, FlowReport, Workload};
use bytegauge_sys::proc_stat::MachineSample;

use crate::EndError;
use crate::address::Address;
use crate::end::calls::enough_files;
use crate::end::runner::{self, EndResult, ThreadReport, early_meter, summed};
use crate::end::thread_group::{EndPlan, ThreadStart};
use crate::message::{Body, Peer, Reply};
use crate::relay::{self, RelayShared, Upstream};
use crate::setup::Setup;

/// Runs a trial. `Ok(None)` if it was called off, or the channel was closed before the relay listened.
pub(super) fn run(
    peer: &mut impl Peer,
    setup: &Arc<Setup>,
    upstream: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let impossible = |what: &str| EndError::Impossible(format!("a relay was opened without {what}"));
    let method = setup.relay_method().ok_or_else(|| impossible("a method"))?;
    // In a stream every connection ends when its writer has sent all; in calls, clients keep theirs.
    let (further, expected) = match setup.workload() {
        Workload::Call => (setup.idle_flows() + setup.competing_flows(), None),
        _ => (0, Some(setup.flows())),
    };
    let upstream = Upstream::new(upstream.ok_or_else(|| impossible("an address"))?, setup)?;
    enough_files(setup.flows() + further, method.holds(setup.relay_threads()).descriptors, body)?;
    let threads = relay::threads_of(setup)?;
    let (listener, address) = relay::listen(setup)?;
    if !peer.reply(Reply::Listening(address)) {
        return Ok(None);
    }
    let shared = Arc::new(RelayShared::new(listener, upstream, expected).on(setup, setup.flows() + further));
    // The machine's counters before the first byte, for a relay on an agent's host: only this process sees the load there.
    let host = setup.far.and_then(|_| MachineSample::read().ok());
    let what = format!("passing bytes on by {method} over {}", setup.transport());
    // Threads that one of them starts inherit its CPU.
    let cpus = vec![setup.cpu(EndRole::Relay, 0); threads];
    let plan = EndPlan {
        works_before: true,
        until_stopped: true,
        patience_ns: setup.grace_ns,
        ..EndPlan::of(what, EndRole::Relay.name(), cpus, "--flows").within(setup)
    };
    let results = runner::run(peer, &plan, |thread, _| {
        let (setup, shared) = (Arc::clone(setup), Arc::clone(&shared));
        Box::new(move |start| carry(&setup, &shared, (thread, threads > 1), start))
    })?;
    let Some(results) = results else { return Ok(None) };
    shared.shuts();
    let EndResult { mut report, fault, kept } = summed(results);
    let (mut books, wrong) = shared.take_books();
    let host = host.and_then(|before| Some(MachineSample::read().ok()?.since(&before)));
    books.host_busy_ns = host.map(|used| used.busy_ns());
    report.total_bytes = books.taken_up + books.given_up + books.taken_down + books.given_down;
    report.relay = Some(Box::new(books));
    Ok(Some(EndResult { report, fault: fault.or(wrong), kept }))
}

/// The work of thread number `thread`, which accepts or does everything; with `others` that do the same, it is charged for its own use
/// only.
fn carry(
    setup: &Setup,
    shared: &Arc<RelayShared>,
    (thread, others): (usize, bool),
    mut start: ThreadStart<ThreadReport>,
) -> ThreadReport {
    let mut meter = early_meter(setup, &start);
    if !others {
        // With all threads that the method starts.
        meter.charge_process();
    }
    start.ready();
    let carried = relay::carry(shared, setup, &start.flags, &mut meter);
    meter.close_early();
    let (engine, fault) = carried.map_or_else(|fault| (None, Some(fault)), |engine| (Some(engine), None));
    ThreadReport { fault, ..ThreadReport::of(meter, vec![(thread, FlowReport::default())], engine) }
}
