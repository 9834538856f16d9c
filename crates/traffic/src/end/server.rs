//! The end that serves calls: from the moment it listens until it is stopped.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::{CallDatagrams, CallReport, EffectiveOptions, EndRole, Engine};
use bytegauge_sys::resource_limit;
use bytegauge_sys::socket_memory::drops;

use crate::call::datagram::{self, Admissions};
use crate::call::{Samples, ServerShared, Servers, listen, reply_file};
use crate::end::runner::{self, EndResult, ThreadReport, summed};
use crate::end::thread_group::{EndPlan, EndThread, Flags, ThreadResults, ThreadStart};
use crate::engine::{self, Station};
use crate::message::{Body, Peer, Reply};
use crate::meter::{Meter, Schedule};
use crate::path::SHOWN;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options;
use crate::{EndError, agent_callers};

/// Descriptors that an end needs in addition to its connections.
const OTHER_FILES: u64 = 64;

/// A listening server.
struct ServerEnd {
    setup: Arc<Setup>,
    body: Body,
    /// Held only by the threads once they run: a server that dies stops listening.
    listeners: Vec<Arc<OwnedFd>>,
    /// The options in force on the first listening socket, of those that connections do not inherit.
    of_listener: EffectiveOptions,
    /// The admitted senders of datagrams, if the clients are on another host.
    admitted: Option<Arc<Admissions>>,
    /// A reply, where a part of it is sent from a file.
    reply: Option<Arc<File>>,
    /// One for each thread of the end.
    shared: Vec<Arc<ServerShared>>,
    abort: Arc<AtomicBool>,
}

impl ServerEnd {
    /// Listens. `Ok(None)` if the channel was closed before its first reply.
    fn open(peer: &mut impl Peer, setup: &Arc<Setup>, body: Body) -> Result<Option<ServerEnd>, EndError> {
        tls::fit(setup)?;
        let reply = reply_file(setup)?;
        let mut admitted = None;
        let (listeners, address) = if setup.transport().is_datagram() {
            admitted = Admissions::of(setup);
            if admitted.is_some() && setup.read_size() < SHOWN {
                return Err(EndError::Missing(format!(
                    "the ticket of a client on another host has {SHOWN} B: use a --read-size of {SHOWN} or more"
                )));
            }
            // One socket, or one per thread, for all clients.
            datagram::bind(setup)?
        } else {
            // A connection from another host has two descriptors until it has sent its ticket.
            let each = if setup.far.is_some() { 2 } else { 1 };
            enough_files(setup.flows() + setup.idle_flows() + setup.competing_flows(), each, body)?;
            listen(setup)?
        };
        let of_listener =
            listeners.first().map(|listener| options::of_listener(listener.as_fd(), setup.transport(), &setup.spec));
        if !peer.reply(Reply::Listening(address)) {
            return Ok(None);
        }
        Ok(Some(ServerEnd {
            setup: Arc::clone(setup),
            body,
            listeners: listeners.into_iter().map(Arc::new).collect(),
            of_listener: of_listener.unwrap_or_default(),
            admitted,
            reply,
            shared: Vec::new(),
            abort: Arc::default(),
        }))
    }
}

/// Runs a trial. `Ok(None)` if the channel was closed before the server listened.
pub(super) fn run(peer: &mut impl Peer, setup: &Arc<Setup>, body: Body) -> Result<Option<EndResult>, EndError> {
    let Some(mut end) = ServerEnd::open(peer, setup, body)? else { return Ok(None) };
    let plan = end.plan();
    let results = runner::run(peer, &plan, |thread, flags| end.thread(thread, flags))?;
    Ok(results.map(|results| end.report(results)))
}

impl ServerEnd {
    fn plan(&self) -> EndPlan {
        let threads = threads(self.setup.server_engine(), self.setup.server_threads());
        let what = format!("serving calls over {}", self.setup.transport());
        let cpus = (0..threads).map(|thread| self.setup.cpu(EndRole::Server, thread)).collect();
        EndPlan {
            works_before: true,
            until_stopped: true,
            patience_ns: self.setup.grace_ns,
            ..EndPlan::of(what, EndRole::Server.name(), cpus, "--server-threads").within(&self.setup)
        }
    }

    fn thread(&mut self, thread: usize, flags: &Flags) -> EndThread<ServerReport> {
        self.abort = Arc::clone(&flags.abort);
        let shared = Arc::new(ServerShared::new(&self.setup, self.body, Arc::clone(&flags.abort), self.reply.clone()));
        self.shared.push(Arc::clone(&shared));
        let server = ServerThread {
            setup: Arc::clone(&self.setup),
            shared,
            admitted: self.admitted.clone(),
            thread,
            // If threads share a socket, the first of them reports it.
            tells_of_it: thread < self.listeners.len(),
            listener: Arc::clone(&self.listeners[thread % self.listeners.len()]),
        };
        if thread + 1 == threads(self.setup.server_engine(), self.setup.server_threads()) {
            self.listeners.clear();
        }
        Box::new(move |start| server.carry(start))
    }

    fn report(self, results: ThreadResults<ServerReport>) -> EndResult {
        let listen_drops = results.parts.iter().filter_map(|served| served.listen_drops).reduce(u64::saturating_add);
        let (results, seen) = results.split(|served| (served.report, served.seen));
        let (mut report, fault) = summed(results);
        // A planted death that the engine survived, because tasks die alone.
        let died = || {
            let died = self.abort.load(Ordering::Relaxed);
            died.then(|| EndError::Impossible("a thread died in the middle of serving calls".into()))
        };
        let fault = fault.or_else(died).or_else(|| self.shared.iter().find_map(|shared| shared.take_fault()));
        for flow in &mut report.flows {
            Arc::make_mut(&mut flow.options).levels.extend(self.of_listener.levels.clone());
        }
        report.verified_bytes = self.shared.iter().map(|shared| shared.verified_bytes()).sum();
        report.call = Some(Box::new(CallReport {
            calls: report.calls,
            begun: self.shared.iter().map(|shared| shared.begun()).sum(),
            completed: self.shared.iter().map(|shared| shared.served()).sum(),
            window_ns: report.window_ns,
            datagrams: seen.into_iter().flatten().reduce(|ours, theirs| ours.plus(&theirs)),
            listen_drops,
            ..CallReport::default()
        }));
        EndResult { report, fault, ..EndResult::default() }
    }
}

/// One thread of a server.
struct ServerThread {
    setup: Arc<Setup>,
    shared: Arc<ServerShared>,
    admitted: Option<Arc<Admissions>>,
    listener: Arc<OwnedFd>,
    tells_of_it: bool,
    thread: usize,
}

/// The results of one thread.
struct ServerReport {
    report: ThreadReport,
    /// Over datagrams.
    seen: Option<CallDatagrams>,
    /// Over TCP, connections for which its listener had no room.
    listen_drops: Option<u64>,
}

impl ServerThread {
    fn carry(self, mut start: ThreadStart<ServerReport>) -> ServerReport {
        let ServerThread { setup, shared, admitted, listener, tells_of_it, thread } = self;
        let schedule = Schedule { warmup_ns: setup.warmup_ns, window_ns: setup.window_ns, until_stopped: true };
        let mut meter = Meter::start(&schedule, 0);
        meter.limit_by(start.flags.limit.clone());
        meter.watch(shared.watched());
        meter.hold(Arc::clone(&start.gate.opened_ns), &schedule);
        start.ready();
        let Flags { abort, stop_requested, .. } = &start.flags;
        let mut listen_drops = None;
        let (driven, refused, samples, seen) = if setup.transport().is_datagram() {
            let (served, mut seen) =
                datagram::serve(&setup, &shared, admitted.as_ref(), listener.as_fd(), &start.flags, &mut meter);
            meter.close_early();
            let mut samples = Samples::new(&setup);
            if tells_of_it {
                seen.dropped = datagram::dropped_at(listener.as_fd());
                samples.sample(listener.as_fd());
            }
            (served, None, samples, Some(seen))
        } else {
            let mut party = Servers::new(&setup, shared);
            let station = Station {
                listener: Some(listener.as_fd()),
                buffer_size: engine::message_buffer(setup.server_engine(), setup.read_size()),
                epoll_busy_poll_ns: setup.spec.epoll_busy_poll(),
                zero_copy: false,
                tls: tls::by_library(&setup, TlsRole::Server),
                min_wait_ns: setup.spec.min_wait(),
                abort,
                stop_requested,
            };
            let driven = engine::drive(setup.server_engine(), &mut party, station, &mut meter);
            meter.close_early();
            if tells_of_it && setup.transport().is_tcp() {
                listen_drops = drops(listener.as_fd()).ok();
            }
            if setup.shares_port() {
                agent_callers::pass_on_rest(listener.as_fd());
            }
            let (samples, refused) = party.into_parts();
            (driven, refused, samples, None)
        };
        let mut report = ThreadReport::of_calls(thread, meter, samples, driven);
        report.fault = report.fault.or(refused);
        ServerReport { report, seen, listen_drops }
    }
}

/// An engine with a thread per flow starts its own threads.
pub(super) fn threads(engine: Engine, asked: usize) -> usize {
    if engine.has_thread_a_flow() { 1 } else { asked.max(1) }
}

/// Raises the limit of open files and checks that it is enough for `connections` connections with `each` descriptors: running
/// out in the middle would look like an error of the path.
pub(super) fn enough_files(connections: usize, each: u64, body: Body) -> Result<(), EndError> {
    let ends = if body == Body::Thread { 2 } else { 1 };
    let needed = connections as u64 * each * ends + OTHER_FILES;
    let most = resource_limit::raise_open_files().soft;
    if needed > most {
        return Err(EndError::Missing(format!(
            "{connections} connections need {needed} open files and the limit is {most}: raise ulimit -n or use fewer --flows"
        )));
    }
    Ok(())
}
