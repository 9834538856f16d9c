//! The end that makes calls: it opens its connections, waits for `Go`, and measures.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{EndRole, Engine, EngineReport, MessageParts, MessageWrites};

use crate::EndError;
use crate::address::Address;
use crate::call::{Client, ClientCounts, ClientShare, Clients, Connector, Terms, carry_alone, datagram};
use crate::end::runner::{self, EndResult, ThreadReport, meter, summed};
use crate::end::server::{enough_files, threads};
use crate::end::thread_group::{EndPlan, Flags, ThreadStart};
use crate::engine::{self, Station, Stop};
use crate::message::{Body, Peer};
use crate::meter::Meter;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};

/// Runs a trial. `Ok(None)` if it was called off.
pub(super) fn run(
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
