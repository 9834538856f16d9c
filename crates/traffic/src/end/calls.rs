//! The two ends of calls. The one that serves does so from the moment it listens until it is stopped; the one that makes calls opens its
//! connections, waits for `Go`, and measures.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{CallReport, EndRole, Engine, EngineReport, MessageParts, MessageWrites};
use bytegauge_sys::resource_limit;
use bytegauge_sys::socket_memory::drops;

use crate::address::Address;
use crate::call::datagram::{self, Admissions};
use crate::call::{
    Client, ClientCounts, ClientShare, Clients, Connector, Samples, ServerShared, Servers, Terms, carry_alone, listen,
    reply_file,
};
use crate::end::runner::{self, EndResult, ThreadReport, early_meter, meter, summed};
use crate::end::thread_group::{EndPlan, Flags, ThreadStart};
use crate::engine::{self, Station, Stop};
use crate::message::{Body, Peer, Reply};
use crate::meter::Meter;
use crate::path::SHOWN;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options;
use crate::{EndError, agent_callers};

/// Descriptors that an end needs in addition to its connections.
const OTHER_FILES: u64 = 64;

/// Runs a trial. `Ok(None)` if it was called off, or the channel was closed before the server listened.
pub(super) fn run_server(peer: &mut impl Peer, setup: &Arc<Setup>, body: Body) -> Result<Option<EndResult>, EndError> {
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
    // The options in force on the first listening socket, of those that connections do not inherit.
    let of_listener =
        listeners.first().map(|listener| options::of_listener(listener.as_fd(), setup.transport(), &setup.spec));
    if !peer.reply(Reply::Listening(address)) {
        return Ok(None);
    }
    let threads = threads(setup.server_engine(), setup.server_threads());
    let what = format!("serving calls over {}", setup.transport());
    let cpus = (0..threads).map(|thread| setup.cpu(EndRole::Server, thread)).collect();
    let plan = EndPlan {
        works_before: true,
        until_stopped: true,
        patience_ns: setup.grace_ns,
        ..EndPlan::of(what, EndRole::Server.name(), cpus, "--server-threads").within(setup)
    };
    // Held only by the threads once they run: a server that dies stops listening.
    let mut listeners: Vec<Arc<OwnedFd>> = listeners.into_iter().map(Arc::new).collect();
    let mut all: Vec<Arc<ServerShared>> = Vec::new();
    let results = runner::run(peer, &plan, |thread, flags| {
        let shared = Arc::new(ServerShared::new(setup, body, Arc::clone(&flags.abort), reply.clone()));
        all.push(Arc::clone(&shared));
        let (admitted, listener) = (admitted.clone(), Arc::clone(&listeners[thread % listeners.len()]));
        // If threads share a socket, the first of them reports it.
        let place = (thread, thread < listeners.len());
        if thread + 1 == threads {
            listeners.clear();
        }
        Box::new(move |start| serve(&shared, admitted.as_ref(), &listener, place, start))
    })?;
    let Some(results) = results else { return Ok(None) };
    let EndResult { mut report, fault, kept } = summed(results);
    let fault = fault.or_else(|| all.iter().find_map(|shared| shared.take_fault()));
    for flow in &mut report.flows {
        Arc::make_mut(&mut flow.options).levels.extend(of_listener.iter().flat_map(|options| options.levels.clone()));
    }
    let mut call = CallReport { calls: report.calls, window_ns: report.window_ns, ..CallReport::default() };
    for shared in &all {
        let ended = shared.ended();
        report.verified_bytes += ended.verified_bytes;
        call.begun += ended.begun;
        call.completed += shared.served();
        call.datagrams = [call.datagrams, ended.datagrams].into_iter().flatten().reduce(|one, more| one.plus(&more));
        call.listen_drops = [call.listen_drops, ended.listen_drops].into_iter().flatten().reduce(u64::saturating_add);
    }
    report.call = Some(Box::new(call));
    Ok(Some(EndResult { report, fault, kept }))
}

/// The work of thread number `thread`; `reports_socket`: no earlier one has the same socket.
fn serve(
    shared: &Arc<ServerShared>,
    admitted: Option<&Arc<Admissions>>,
    listener: &OwnedFd,
    (thread, reports_socket): (usize, bool),
    mut start: ThreadStart<ThreadReport>,
) -> ThreadReport {
    let (setup, listener) = (shared.setup(), listener.as_fd());
    let mut meter = early_meter(setup, &start);
    meter.watch(shared.watched());
    start.ready();
    let (driven, samples, refused) = if setup.transport().is_datagram() {
        let (served, mut seen) = datagram::serve(setup, shared, admitted, listener, &start.flags, &mut meter);
        meter.close_early();
        let mut samples = Samples::new(setup);
        if reports_socket {
            seen.dropped = drops(listener).unwrap_or(0);
            samples.sample(listener);
        }
        shared.has_seen(Some(seen), None);
        (served, samples, None)
    } else {
        let mut party = Servers::new(shared);
        let Flags { abort, stop_requested, .. } = &start.flags;
        let buffer_size = engine::message_buffer(setup.server_engine(), setup.read_size());
        let station = Station {
            listener: Some(listener),
            tls: tls::by_library(setup, TlsRole::Server),
            ..Station::new(buffer_size, abort, stop_requested)
        };
        let driven = engine::drive(setup.server_engine(), &mut party, station, &mut meter);
        meter.close_early();
        if reports_socket && setup.transport().is_tcp() {
            shared.has_seen(None, drops(listener).ok());
        }
        if setup.shares_port() {
            agent_callers::pass_on_rest(listener);
        }
        let (samples, refused) = party.into_parts();
        (driven, samples, refused)
    };
    let mut report = ThreadReport::of_calls(thread, meter, samples, driven);
    report.fault = report.fault.or(refused);
    report
}

/// An engine with a thread per flow starts its own threads.
fn threads(engine: Engine, asked: usize) -> usize {
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

/// Runs a trial. `Ok(None)` if it was called off.
pub(super) fn run_client(
    peer: &mut impl Peer,
    role: EndRole,
    setup: &Arc<Setup>,
    address: &Address,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    tls::fit(setup)?;
    makes_system_calls(setup)?;
    let flows = setup.flows();
    // A task of Tokio that waits for a time has a timer.
    let timers = if setup.client_engine() == Engine::Tokio && setup.waits() { flows } else { 0 };
    enough_files(flows + timers + setup.idle_flows(), 1, body)?;
    let alone = setup.client_engine() == Engine::Null;
    // Absent without a network.
    let connector = if alone { None } else { Some(Arc::new(Connector::new(address, setup)?)) };
    let join = |count: usize| -> Result<Vec<OwnedFd>, EndError> {
        connector.iter().flat_map(|connector| (0..count).map(|_| connector.join())).collect()
    };
    // Those of idle flows are held to the end: open, and silent.
    let (idle, mut joined) = (join(setup.idle_flows())?, join(if setup.connect_per_call() { 0 } else { flows })?);
    if let (true, Some(far)) = (setup.transport().is_datagram(), setup.far) {
        datagram::let_in(&joined, &far.ticket)?;
    }
    let count = if alone { 1 } else { threads(setup.client_engine(), setup.client_threads()).min(flows.max(1)) };
    let scheduled_ns = if setup.until_stopped { 0 } else { setup.warmup_ns + setup.window_ns };
    let what = format!("calling over {}", setup.transport());
    let cpus = (0..count).map(|thread| setup.cpu(role, thread)).collect();
    let plan = EndPlan {
        waits: setup.waits(),
        until_stopped: setup.until_stopped,
        patience_ns: scheduled_ns.saturating_add(setup.timeout_ns()).saturating_add(setup.grace_ns),
        ..EndPlan::of(what, role.name(), cpus, "--client-threads").within(setup)
    };
    let gave_up = Arc::new(AtomicU64::new(0));
    let results = runner::run(peer, &plan, |thread, _| {
        let of_thread = (flows + count - 1 - thread) / count;
        let joined = joined.drain(..of_thread.min(joined.len())).collect();
        let (setup, connector, gave_up) = (Arc::clone(setup), connector.clone(), Arc::clone(&gave_up));
        let share = ClientShare { setup, connector, thread: (count, thread), joined };
        Box::new(move |start| carry(share, gave_up, start))
    })?;
    let Some(results) = results else { return Ok(None) };
    let EndResult { mut report, fault, mut kept } = summed(results);
    kept.extend(idle);
    if let (true, Some(call)) = (setup.verify, &report.call) {
        report.verified_bytes = call.completed * setup.response() as u64;
    }
    let gone = match setup.transport().is_datagram() {
        true => "the server's address no longer receives",
        false => "the server no longer accepts connections",
    };
    let all_gave_up = gave_up.load(Ordering::Relaxed) == flows as u64;
    let gone = all_gave_up.then(|| EndError::PeerGone(gone.into()));
    Ok(Some(EndResult { report, fault: fault.or(gone), kept }))
}

/// The work of one thread. Its connections stay open: samples of the server's sockets are still to be read, and a server closes only
/// after its client.
fn carry(share: ClientShare, gave_up: Arc<AtomicU64>, mut start: ThreadStart<ThreadReport>) -> ThreadReport {
    let (setup, (_, thread)) = (Arc::clone(&share.setup), share.thread);
    let record = ClientCounts::new(setup.connect_per_call(), setup.waits());
    let Some(began_ns) = start.begin() else { return ThreadReport::default() };
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
    let mut party = Clients::new(share, client, record, start_ns, &completed);
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
    ThreadReport { calls: Some(record), kept, ..ThreadReport::of_calls(thread, meter, samples, driven) }
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
