//! The relay's end between the two sides of a path: it serves from the moment it listens, and is charged for all that its process
//! uses within the window.

use std::sync::Arc;

use bytegauge_model::{EndRole, FlowReport, RelayMethod, Workload};
use bytegauge_sys::proc_stat::MachineSample;

use crate::EndError;
use crate::address::Address;
use crate::end::runner::{self, EndResult, ThreadReport, summed};
use crate::end::server::enough_files;
use crate::end::thread_group::{EndPlan, EndThread, ThreadResults, ThreadStart};
use crate::message::{Body, Peer, Reply};
use crate::meter::{Meter, Schedule};
use crate::relay::{self, RelayShared, Upstream};
use crate::setup::Setup;

/// A listening relay.
struct RelayEnd {
    setup: Arc<Setup>,
    method: RelayMethod,
    threads: usize,
    shared: Arc<RelayShared>,
    /// The machine's counters before the first byte, for a relay on an agent's host: only this process sees the load there.
    host: Option<MachineSample>,
}

impl RelayEnd {
    /// Listens. `Ok(None)` if the channel was closed before its first reply.
    fn open(
        peer: &mut impl Peer,
        setup: &Arc<Setup>,
        upstream: Option<&Address>,
        body: Body,
    ) -> Result<Option<RelayEnd>, EndError> {
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
        let host = setup.far.and_then(|_| MachineSample::read().ok());
        Ok(Some(RelayEnd { setup: Arc::clone(setup), method, threads, shared, host }))
    }
}

/// Runs a trial. `Ok(None)` if the channel was closed before the relay listened.
pub(super) fn run(
    peer: &mut impl Peer,
    setup: &Arc<Setup>,
    upstream: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let Some(end) = RelayEnd::open(peer, setup, upstream, body)? else { return Ok(None) };
    let results = runner::run(peer, &end.plan(), |thread, _| end.thread(thread))?;
    Ok(results.map(|results| end.report(results)))
}

impl RelayEnd {
    fn plan(&self) -> EndPlan {
        let what = format!("passing bytes on by {} over {}", self.method, self.setup.transport());
        // Threads that one of them starts inherit its CPU.
        let cpus = vec![self.setup.cpu(EndRole::Relay, 0); self.threads];
        EndPlan {
            works_before: true,
            until_stopped: true,
            patience_ns: self.setup.grace_ns,
            ..EndPlan::of(what, EndRole::Relay.name(), cpus, "--flows").within(&self.setup)
        }
    }

    /// A thread that accepts, or that does everything.
    fn thread(&self, thread: usize) -> EndThread<ThreadReport> {
        let (setup, shared, others) = (Arc::clone(&self.setup), Arc::clone(&self.shared), self.threads > 1);
        Box::new(move |start| carry(&setup, &shared, (thread, others), start))
    }

    fn report(self, results: ThreadResults<ThreadReport>) -> EndResult {
        self.shared.shuts();
        let (mut report, fault) = summed(results);
        let (mut books, wrong) = self.shared.take_books();
        let host = self.host.and_then(|before| Some(MachineSample::read().ok()?.since(&before)));
        books.host_busy_ns = host.map(|used| used.busy_ns());
        report.total_bytes = books.taken_up + books.given_up + books.taken_down + books.given_down;
        report.relay = Some(Box::new(books));
        EndResult { report, fault: fault.or(wrong), ..EndResult::default() }
    }
}

/// The work of thread number `thread`; with `others` that do the same, it is charged for its own use only.
fn carry(
    setup: &Setup,
    shared: &Arc<RelayShared>,
    (thread, others): (usize, bool),
    mut start: ThreadStart<ThreadReport>,
) -> ThreadReport {
    let schedule = Schedule { warmup_ns: setup.warmup_ns, window_ns: setup.window_ns, until_stopped: true };
    let mut meter = Meter::start(&schedule, 0);
    if !others {
        // With all threads that the method starts.
        meter.charge_process();
    }
    meter.limit_by(start.flags.limit.clone());
    meter.hold(Arc::clone(&start.gate.opened_ns), &schedule);
    start.ready();
    let carried = relay::carry(shared, setup, &start.flags, &mut meter);
    meter.close_early();
    let (engine, fault) = match carried {
        Ok(engine) => (Some(engine), None),
        Err(fault) => (None, Some(fault)),
    };
    ThreadReport { fault, ..ThreadReport::of(meter, vec![(thread, FlowReport::default())], engine) }
}
