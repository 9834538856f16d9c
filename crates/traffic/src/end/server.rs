//! The end that serves calls: from the moment it listens until it is stopped.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use bytegauge_model::{CallReport, EndRole, Engine};
use bytegauge_sys::resource_limit;
use bytegauge_sys::socket_memory::drops;

use crate::call::datagram::{self, Admissions};
use crate::call::{Samples, ServerShared, Servers, listen, reply_file};
use crate::end::runner::{self, EndResult, ThreadReport, early_meter, summed};
use crate::end::thread_group::{EndPlan, Flags, ThreadStart};
use crate::engine::{self, Station};
use crate::message::{Body, Peer, Reply};
use crate::path::SHOWN;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options;
use crate::{EndError, agent_callers};

/// Descriptors that an end needs in addition to its connections.
const OTHER_FILES: u64 = 64;

/// Runs a trial. `Ok(None)` if it was called off, or the channel was closed before the server listened.
pub(super) fn run(peer: &mut impl Peer, setup: &Arc<Setup>, body: Body) -> Result<Option<EndResult>, EndError> {
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
    let (driven, samples) = if setup.transport().is_datagram() {
        let (served, mut seen) = datagram::serve(setup, shared, admitted, listener, &start.flags, &mut meter);
        meter.close_early();
        let mut samples = Samples::new(setup);
        if reports_socket {
            seen.dropped = datagram::dropped_at(listener);
            samples.sample(listener);
        }
        shared.has_seen(Some(seen), None);
        (served, samples)
    } else {
        let mut party = Servers::new(shared);
        let Flags { abort, stop_requested, .. } = &start.flags;
        let buffer_size = engine::message_buffer(setup.server_engine(), setup.read_size());
        let station = Station {
            listener: Some(listener),
            epoll_busy_poll_ns: setup.spec.epoll_busy_poll(),
            tls: tls::by_library(setup, TlsRole::Server),
            min_wait_ns: setup.spec.min_wait(),
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
        (driven.and_then(|driven| refused.map_or(Ok(driven), Err)), samples)
    };
    ThreadReport::of_calls(thread, meter, samples, driven)
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
