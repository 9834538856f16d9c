//! The end that makes calls: it opens its connections, waits for `Go`, and measures.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{EndRole, Engine, EngineReport, MessageParts, MessageWrites};

use crate::EndError;
use crate::address::Address;
use crate::call::{Client, ClientCounts, Clients, Connector, Terms, Waiting, carry_alone, datagram};
use crate::end::runner::{self, EndResult, ThreadReport, meter, summed};
use crate::end::server::{enough_files, threads};
use crate::end::thread_group::{EndPlan, EndThread, Flags, ThreadResults, ThreadStart};
use crate::engine::{self, Station, Stop};
use crate::message::{Body, Peer};
use crate::meter::Meter;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};

/// Connected clients, if their connections persist.
struct ClientEnd {
    role: EndRole,
    setup: Arc<Setup>,
    /// Absent without a network.
    connector: Option<Arc<Connector>>,
    /// Held to the end: open, and silent.
    idle: Vec<OwnedFd>,
    joined: Vec<OwnedFd>,
    threads: usize,
    gave_up: Arc<AtomicU64>,
}

impl ClientEnd {
    /// Connects.
    fn open(role: EndRole, setup: &Arc<Setup>, address: &Address, body: Body) -> Result<ClientEnd, EndError> {
        tls::fit(setup)?;
        makes_system_calls(setup)?;
        let flows = setup.flows();
        // A task of Tokio that waits for a time has a timer.
        let timers = if setup.client_engine() == Engine::Tokio && setup.waits() { flows } else { 0 };
        enough_files(flows + timers + setup.idle_flows(), 1, body)?;
        let alone = setup.client_engine() == Engine::Null;
        let connector = if alone { None } else { Some(Arc::new(Connector::new(address, setup)?)) };
        let join = |count: usize| -> Result<Vec<OwnedFd>, EndError> {
            connector.iter().flat_map(|connector| (0..count).map(|_| connector.join())).collect()
        };
        let (idle, joined) = (join(setup.idle_flows())?, join(if setup.connect_per_call() { 0 } else { flows })?);
        if let (true, Some(far)) = (setup.transport().is_datagram(), setup.far) {
            datagram::let_in(&joined, &far.ticket)?;
        }
        Ok(ClientEnd {
            role,
            idle,
            joined,
            setup: Arc::clone(setup),
            connector,
            threads: if alone { 1 } else { threads(setup.client_engine(), setup.client_threads()).min(flows.max(1)) },
            gave_up: Arc::default(),
        })
    }
}

/// Refuses settings of the client that its engine does not have.
fn makes_system_calls(setup: &Setup) -> Result<(), EndError> {
    let is_asked = setup.message_writes() != MessageWrites::default() || setup.quickack_again().is_some();
    match setup.client_engine() {
        Engine::Blocking | Engine::Epoll(_) | Engine::Null => Ok(()),
        engine if is_asked => Err(EndError::Missing(format!(
            "--client-engine {engine} has neither --message-writes nor --quickack-again: use blocking or epoll"
        ))),
        _ => Ok(()),
    }
}

/// Runs a trial. `Ok(None)` if it was called off.
pub(super) fn run(
    peer: &mut impl Peer,
    role: EndRole,
    setup: &Arc<Setup>,
    address: &Address,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    let mut end = ClientEnd::open(role, setup, address, body)?;
    let results = runner::run(peer, &end.plan(), |thread, _| end.thread(thread))?;
    Ok(results.map(|results| end.report(results)))
}

impl ClientEnd {
    fn plan(&self) -> EndPlan {
        let Setup { warmup_ns, window_ns, grace_ns, until_stopped, .. } = *self.setup;
        let scheduled_ns = if until_stopped { 0 } else { warmup_ns + window_ns };
        let what = format!("calling over {}", self.setup.transport());
        let cpus = (0..self.threads).map(|thread| self.setup.cpu(self.role, thread)).collect();
        EndPlan {
            waits: self.setup.waits(),
            until_stopped,
            patience_ns: scheduled_ns.saturating_add(self.setup.timeout_ns()).saturating_add(grace_ns),
            ..EndPlan::of(what, self.role.name(), cpus, "--client-threads").within(&self.setup)
        }
    }

    fn thread(&mut self, thread: usize) -> EndThread<ClientReport> {
        let (setup, count) = (&self.setup, self.threads);
        let share = (setup.flows() + count - 1 - thread) / count;
        let joined = self.joined.drain(..share.min(self.joined.len())).collect();
        let clients = ClientThread {
            setup: Arc::clone(setup),
            gave_up: Arc::clone(&self.gave_up),
            waiting: Waiting::new(setup, self.connector.clone(), (count, thread), joined),
            thread,
        };
        Box::new(move |start| clients.carry(start))
    }

    fn report(self, results: ThreadResults<ClientReport>) -> EndResult {
        let (mut kept, mut records) = (self.idle, Vec::new());
        let (results, calls) = results.split(|called| (called.report, (called.kept, called.record)));
        for (connections, record) in calls {
            kept.extend(connections);
            records.extend(record);
        }
        let (mut report, fault) = summed(results);
        report.call = added(records).map(|record| Box::new(record.report()));
        if let (true, Some(call)) = (self.setup.verify, &report.call) {
            report.verified_bytes = call.completed * self.setup.response() as u64;
        }
        let gone = match self.setup.transport().is_datagram() {
            true => "the server's address no longer receives",
            false => "the server no longer accepts connections",
        };
        let all_gave_up = self.gave_up.load(Ordering::Relaxed) == self.setup.flows() as u64;
        let gone = all_gave_up.then(|| EndError::PeerGone(gone.into()));
        EndResult { report, fault: fault.or(gone), kept }
    }
}

/// The records of all threads together.
fn added(records: Vec<ClientCounts>) -> Option<ClientCounts> {
    records.into_iter().reduce(|mut all, record| {
        all.add(&record);
        all
    })
}

/// One thread of clients.
struct ClientThread {
    setup: Arc<Setup>,
    gave_up: Arc<AtomicU64>,
    waiting: Waiting,
    thread: usize,
}

/// The result of one thread of clients.
#[derive(Default)]
struct ClientReport {
    report: ThreadReport,
    record: Option<ClientCounts>,
    /// Open connections: samples of the server's sockets are still to be read, and a server closes only after its client.
    kept: Vec<OwnedFd>,
}

impl ClientThread {
    fn carry(self, mut start: ThreadStart<ClientReport>) -> ClientReport {
        let ClientThread { setup, gave_up, waiting, thread } = self;
        let Some(began_ns) = start.begin() else { return ClientReport::default() };
        let flags = &start.flags;
        let mut meter = meter(&setup, setup.flows(), true, (began_ns, flags));
        let start_ns = meter.start_ns();
        let client = Arc::new(Client {
            terms: Terms::of(&setup),
            depth: if setup.connect_per_call() { 1 } else { setup.depth() },
            parts: setup.request_parts().unwrap_or(MessageParts::WHOLE),
            writes: setup.message_writes(),
            reply_parts: setup.spec.response_parts(),
            quickack_again: setup.quickack_again(),
            connect_per_call: setup.connect_per_call(),
            timeout_ns: setup.timeout_ns(),
            open_ns: start_ns + setup.warmup_ns,
            close_ns: start_ns + setup.warmup_ns + setup.window_ns,
            until_stopped: setup.until_stopped,
            stop_requested: Arc::clone(&flags.stop_requested),
            gave_up,
            shown: setup.shown_by(0),
        });
        let completed = Arc::default();
        let mut party = waiting.begin(client, start_ns, &completed);
        meter.watch(completed);
        // Clients leave by themselves, when their outstanding calls are answered.
        let never = AtomicBool::new(false);
        let driven = match setup.client_engine() {
            Engine::Null => alone(&mut party, &setup, flags, &mut meter),
            _ if setup.transport().is_datagram() => datagram::carry(&mut party, &flags.abort, &mut meter),
            engine => {
                let buffer_size = engine::message_buffer(engine, setup.read_size());
                let tls = tls::by_library(&setup, TlsRole::Client);
                let station = Station { tls, ..Station::new(buffer_size, &flags.abort, &never) };
                engine::drive(engine, &mut party, station, &mut meter)
            }
        };
        meter.close_early();
        let (record, samples, kept) = party.into_parts();
        ClientReport { report: ThreadReport::of_calls(thread, meter, samples, driven), record: Some(record), kept }
    }
}

/// The first flow, without a network.
fn alone(
    party: &mut Clients,
    setup: &Setup,
    flags: &Flags,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let mut buffer = vec![0; setup.read_size().max(8)];
    let response = setup.response();
    let without_flows = || EndError::Impossible("a client without flows".into());
    let stop = if setup.transport().is_datagram() {
        let (mut flow, _) = party.next_datagram_flow(1).ok_or_else(without_flows)?;
        let stop = carry_alone(&mut flow, response, &mut buffer, &flags.abort, meter)?;
        flow.finish(0);
        stop
    } else {
        let mut flow = party.next_flow(!setup.connect_per_call()).ok_or_else(without_flows)?;
        let stop = carry_alone(&mut flow, response, &mut buffer, &flags.abort, meter)?;
        flow.finish();
        stop
    };
    Ok((stop, EngineReport::default()))
}
