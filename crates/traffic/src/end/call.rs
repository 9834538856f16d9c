//! The two ends of a path on which calls are made: a server that serves from the moment it listens, and a
//! client that opens its connections, waits for `Go`, and measures.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytegauge_model::{CallDatagrams, CallReport, EndReport, Engine, EngineReport, FlowReport};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::limit;

use crate::call::datagram;
use crate::call::{
    CallSetup, Client, Clients, Connector, Desk, Record, Samples, Servers, Terms, Waiting, carry_alone, listen,
};
use crate::count::Count;
use crate::end::crew::{Crew, Flags, Left};
use crate::end::flows::{Body, meter, sum};
use crate::end::gate::Gate;
use crate::end::serve::Peer;
use crate::engine::{self, Station, Stop};
use crate::fault::Fault;
use crate::message::{Address, Command, PathSetup, Reply, Side};
use crate::meter::{Meter, Schedule};
use crate::spin;

/// Shards of the record where an engine has a thread a flow.
const SHARDS: usize = 8;

/// Descriptors that an end needs beside its connections.
const OTHER_FILES: u64 = 64;

/// What one thread of an end counted.
struct Part {
    report: FlowReport,
    engine: EngineReport,
    samples: Samples,
    records: Vec<Arc<Mutex<Record>>>,
    /// Of a server over datagrams.
    seen: Option<CallDatagrams>,
    kept: Vec<OwnedFd>,
    fault: Option<Fault>,
}

/// Serves calls until told. `Ok(None)` when nobody listened to its first word.
pub(super) fn serve(
    peer: &mut impl Peer,
    setup: &Arc<PathSetup>,
    call: &Arc<CallSetup>,
    body: Body,
) -> Result<Option<(EndReport, Option<Fault>)>, Fault> {
    spin::prepare();
    enough_files(setup, call, Side::Sink, body)?;
    let is_datagram = setup.transport.is_datagram();
    let (listeners, address) = if is_datagram { datagram::bind(setup, call)? } else { listen(setup, call)? };
    if !peer.reply(Reply::Listening(address)) {
        return Ok(None);
    }
    let (flags, begins_ns) = (Flags::default(), Arc::new(AtomicU64::new(0)));
    let desks: Vec<Arc<Desk>> = (0..threads(call.server_engine, call.server_threads))
        .map(|_| Arc::new(Desk::new(setup, call, body, Arc::clone(&flags.abort))))
        .collect();
    // Held by the threads alone: a server that dies listens no more.
    let listeners: Vec<Arc<OwnedFd>> = listeners.into_iter().map(Arc::new).collect();
    let crew = Crew::start(
        format!("serving calls over {}", setup.transport),
        desks.len(),
        flags.clone(),
        |thread| setup.cpu(Side::Sink, thread),
        |thread| {
            let (setup, call, desk) = (Arc::clone(setup), Arc::clone(call), Arc::clone(&desks[thread]));
            let (listener, flags) = (Arc::clone(&listeners[thread % listeners.len()]), flags.clone());
            let begins_ns = Arc::clone(&begins_ns);
            // Of sockets that threads share the first of them tells.
            let is_first = thread < listeners.len();
            move || serve_thread(&setup, &call, &desk, (&listener, is_first), &flags, begins_ns)
        },
    )?;
    drop(listeners);
    if peer.reply(Reply::Ready) && peer.command() == Some(Command::Go) {
        begins_ns.store(monotonic_ns(), Ordering::Release);
        // A thread that waits learns it when it is woken, and one signal may come a moment too early.
        for _ in 0..3 {
            crew.nudge();
            std::thread::sleep(Duration::from_micros(200));
        }
        // `Stop`, or nobody is left to say it: both end the serving.
        let _ = peer.command();
    }
    // Called off before `Go` it answers as well: why no client could connect may be its own fault.
    crew.tell();
    let Left { parts, mut fault } = crew.finish(Duration::from_nanos(setup.grace_ns));
    if fault.is_none() && flags.abort.load(Ordering::Relaxed) {
        // A planted death that the engine survived, because tasks die alone.
        fault = Some(Fault::Impossible("a thread died in the middle of serving calls".into()));
    }
    fault = fault.or_else(|| desks.iter().find_map(|desk| desk.take_fault()));
    let served = desks.iter().map(|desk| desk.served().value()).sum();
    let begun = desks.iter().map(|desk| desk.begun()).sum();
    let verified_bytes = desks.iter().map(|desk| desk.verified_bytes()).sum();
    let datagrams = parts.iter().filter_map(|part| part.seen).reduce(|ours, theirs| ours.plus(&theirs));
    let (mut report, part_fault) = summed(parts);
    report.verified_bytes = verified_bytes;
    report.call = Some(CallReport {
        calls: report.calls,
        begun,
        completed: served,
        window_ns: report.window_ns,
        datagrams,
        ..CallReport::default()
    });
    Ok(Some((report, fault.or(part_fault))))
}

fn serve_thread(
    setup: &Arc<PathSetup>,
    call: &Arc<CallSetup>,
    desk: &Arc<Desk>,
    (listener, tells_of_it): (&Arc<OwnedFd>, bool),
    flags: &Flags,
    begins_ns: Arc<AtomicU64>,
) -> Part {
    let schedule = schedule(setup);
    let mut meter = Meter::start(&schedule, 0);
    meter.watch(desk.served().watched());
    meter.hold(begins_ns, &schedule);
    if setup.transport.is_datagram() {
        let flags = (&*flags.told, &*flags.abort);
        let (served, mut seen) = datagram::serve(call, desk, listener.as_fd(), setup.read_size, flags, &mut meter);
        meter.close_early();
        let mut samples = Samples::new(setup);
        if tells_of_it {
            seen.dropped = datagram::dropped_at(listener.as_fd());
            samples.look(listener.as_fd());
        }
        return Part { seen: Some(seen), ..part(meter, served, samples, Vec::new(), None) };
    }
    let mut party = Servers::new(setup, call, Arc::clone(desk));
    let station = Station {
        listener: Some(listener.as_fd()),
        buffer_size: engine::message_buffer(call.server_engine, setup.read_size),
        abort: &flags.abort,
        told: &flags.told,
    };
    let driven = engine::drive(call.server_engine, &mut party, station, &mut meter);
    meter.close_early();
    let (samples, refused) = party.into_parts();
    part(meter, driven, samples, Vec::new(), refused)
}

/// Makes calls. `Ok(None)` when it was called off. Connections that are open at the end are left in `kept`: the
/// server is still to be looked at, and it closes nothing that is not closed here.
pub(super) fn call(
    peer: &mut impl Peer,
    kept: &mut Vec<OwnedFd>,
    setup: &Arc<PathSetup>,
    call: &Arc<CallSetup>,
    address: &Address,
    body: Body,
) -> Result<Option<(EndReport, Option<Fault>)>, Fault> {
    enough_files(setup, call, Side::Source, body)?;
    let alone = call.client_engine == Engine::Null;
    let connector = if alone { None } else { Some(Arc::new(Connector::new(address, setup, call)?)) };
    let join = |count: usize| -> Result<Vec<OwnedFd>, Fault> {
        connector.iter().flat_map(|connector| (0..count).map(|_| connector.join())).collect()
    };
    // Held to the end: open, and silent.
    let idle = join(call.idle_flows)?;
    let mut joined = join(if call.connect_per_call { 0 } else { setup.flows })?;
    let count = if alone { 1 } else { threads(call.client_engine, call.client_threads).min(setup.flows.max(1)) };
    let flags = Flags::default();
    let (gate, gave_up) = (Arc::new(Gate::new()), Arc::new(AtomicU64::new(0)));
    let shards = if call.client_engine.has_thread_a_flow() { SHARDS } else { 1 };
    let crew = Crew::start(
        format!("calling over {}", setup.transport),
        count,
        flags.clone(),
        |thread| setup.cpu(Side::Source, thread),
        |thread| {
            let share = (setup.flows + count - 1 - thread) / count;
            let mine = joined.drain(..share.min(joined.len())).collect();
            let waiting = Waiting::new(setup, call, connector.clone(), (count, thread), mine, shards);
            let caller = Caller {
                setup: Arc::clone(setup),
                call: Arc::clone(call),
                gate: Arc::clone(&gate),
                flags: flags.clone(),
                gave_up: Arc::clone(&gave_up),
            };
            move || caller.run(waiting)
        },
    );
    let crew = match crew {
        Ok(crew) => crew,
        Err(fault) => {
            gate.call_off();
            return Err(fault);
        }
    };
    let begun = peer.reply(Reply::Ready) && peer.command() == Some(Command::Go);
    if !begun {
        gate.call_off();
        crew.abandon();
        let _ = crew.finish(Duration::ZERO);
        return Ok(None);
    }
    gate.open();
    let lasting_ns = if call.until_told {
        // `Stop`, or nobody is left to say it: both end the calling.
        let _ = peer.command();
        crew.tell();
        0
    } else {
        setup.warmup_ns + setup.window_ns
    };
    let patience_ns = lasting_ns.saturating_add(call.timeout_ns).saturating_add(setup.grace_ns);
    let Left { parts, fault } = crew.finish(Duration::from_nanos(patience_ns));
    let mut parts = parts;
    kept.extend(idle);
    kept.extend(parts.iter_mut().flat_map(|part| part.kept.drain(..)));
    let record = added(&parts);
    let (mut report, part_fault) = summed(parts);
    report.call = record.map(|record| record.report());
    if let (true, Some(call)) = (setup.verify, &report.call) {
        report.verified_bytes = call.completed * setup.call.as_ref().map_or(0, |call| call.response as u64);
    }
    let gone = match setup.transport.is_datagram() {
        true => "nobody receives at the server's address any more",
        false => "the server takes no connection any more",
    };
    let gone = (gave_up.load(Ordering::Relaxed) == setup.flows as u64).then(|| Fault::PeerGone(gone.into()));
    if !call.until_told {
        // If nobody hears it, nobody waits for the report either.
        let _ = peer.reply(Reply::Closed);
    }
    Ok(Some((report, fault.or(part_fault).or(gone))))
}

/// What a client's thread needs beside its flows.
struct Caller {
    setup: Arc<PathSetup>,
    call: Arc<CallSetup>,
    gate: Arc<Gate>,
    flags: Flags,
    gave_up: Arc<AtomicU64>,
}

impl Caller {
    fn run(self, waiting: Waiting) -> Part {
        let Caller { setup, call, gate, flags, gave_up } = self;
        let Some(began_ns) = gate.wait() else { return Part::none(&setup) };
        let mut meter = meter(&setup, true, began_ns);
        let start_ns = meter.start_ns();
        let client = Arc::new(Client {
            terms: Terms::of(&setup, &call),
            depth: if call.connect_per_call { 1 } else { call.depth },
            chunk: call.request_chunk.unwrap_or(call.request).max(1),
            connect_per_call: call.connect_per_call,
            timeout_ns: call.timeout_ns,
            open_ns: start_ns + setup.warmup_ns,
            close_ns: start_ns + setup.warmup_ns + setup.window_ns,
            until_told: call.until_told,
            told: Arc::clone(&flags.told),
            tally: Count::new(call.client_engine.has_thread_a_flow()),
            gave_up,
        });
        meter.watch(client.tally.watched());
        let mut party = waiting.begin(client, start_ns);
        // Clients leave by themselves, when what they have in flight is answered.
        let never = AtomicBool::new(false);
        let is_datagram = setup.transport.is_datagram();
        let driven = if is_datagram && call.client_engine == Engine::Null {
            datagram::carry_alone(&mut party, &flags.abort, &mut meter)
        } else if is_datagram {
            datagram::carry(&mut party, &flags.abort, &mut meter)
        } else if call.client_engine == Engine::Null {
            alone(&mut party, &setup, &call, &flags, &mut meter)
        } else {
            let buffer_size = engine::message_buffer(call.client_engine, setup.read_size);
            let station = Station { listener: None, buffer_size, abort: &flags.abort, told: &never };
            engine::drive(call.client_engine, &mut party, station, &mut meter)
        };
        meter.close_early();
        let (records, samples, kept) = party.into_parts();
        Part { kept, ..part(meter, driven, samples, records, None) }
    }
}

/// The first flow on no network at all.
fn alone(
    party: &mut Clients,
    setup: &PathSetup,
    call: &CallSetup,
    flags: &Flags,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let mut buffer = vec![0; setup.read_size.max(8)];
    let Some(mut flow) = party.next_flow(!call.connect_per_call) else {
        return Err(Fault::Impossible("a client without flows".into()));
    };
    let stop = carry_alone(&mut flow, call.response, &mut buffer, &flags.abort, meter)?;
    flow.hand_in();
    Ok((stop, EngineReport::default()))
}

/// An engine with a thread a flow makes its own threads.
fn threads(engine: Engine, asked: usize) -> usize {
    if engine.has_thread_a_flow() { 1 } else { asked.max(1) }
}

fn schedule(setup: &PathSetup) -> Schedule {
    Schedule { warmup_ns: setup.warmup_ns, window_ns: setup.window_ns, until_told: true }
}

/// Raises the limit of open files and sees that it will do: to run out in the middle would look like an error
/// of the path.
fn enough_files(setup: &PathSetup, call: &CallSetup, side: Side, body: Body) -> Result<(), Fault> {
    if side == Side::Sink && setup.transport.is_datagram() {
        // One socket, or one a thread, whoever calls.
        return Ok(());
    }
    let ours = (setup.flows + call.idle_flows + if side == Side::Sink { call.competing_flows } else { 0 }) as u64;
    let ends = if body == Body::Thread { 2 } else { 1 };
    let needed = ours * ends + OTHER_FILES;
    let Ok(limit) = limit::raise_open_files() else { return Ok(()) };
    if needed > limit.soft {
        return Err(Fault::Missing(format!(
            "{ours} connections need {needed} open files and the limit is {}: raise ulimit -n or use fewer --flows",
            limit.soft
        )));
    }
    Ok(())
}

impl Part {
    /// A thread that never began.
    fn none(setup: &Arc<PathSetup>) -> Part {
        Part {
            report: FlowReport::default(),
            engine: EngineReport::default(),
            samples: Samples::new(setup),
            records: Vec::new(),
            seen: None,
            kept: Vec::new(),
            fault: None,
        }
    }
}

fn part(
    meter: Meter,
    driven: Result<(Stop, EngineReport), Fault>,
    samples: Samples,
    records: Vec<Arc<Mutex<Record>>>,
    refused: Option<Fault>,
) -> Part {
    let window = meter.window();
    let report = FlowReport {
        calls: window.watched,
        total_bytes: meter.total_bytes(),
        series: meter.into_bins(),
        ..window.report()
    };
    let (engine, fault) = match driven {
        Ok((_, engine)) => (engine, refused),
        Err(fault) => (EngineReport::default(), Some(fault)),
    };
    Part { report, engine, samples, records, seen: None, kept: Vec::new(), fault }
}

/// All shards of all threads.
fn added(parts: &[Part]) -> Option<Record> {
    let mut shards = parts.iter().flat_map(|part| &part.records);
    let first = shards.next()?;
    let mut all = first.lock().unwrap_or_else(PoisonError::into_inner).emptied();
    for shard in std::iter::once(first).chain(shards) {
        all.add(&shard.lock().unwrap_or_else(PoisonError::into_inner));
    }
    Some(all)
}

/// The end's report: its threads summed up, the first sampled connection of each in its thread's row.
fn summed(parts: Vec<Part>) -> (EndReport, Option<Fault>) {
    let (mut threads, mut others) = (Vec::new(), Vec::new());
    let (mut engine, mut fault) = (EngineReport::default(), None);
    for part in parts {
        let mut samples = part.samples.into_reports().into_iter();
        threads.push(match samples.next() {
            Some(FlowReport { tcp, options, socket_memory, queued_bytes, .. }) => {
                FlowReport { tcp, options, socket_memory, queued_bytes, ..part.report }
            }
            None => part.report,
        });
        others.extend(samples);
        engine = engine.plus(&part.engine);
        fault = fault.or(part.fault);
    }
    let mut report = sum(threads);
    report.flows.extend(others);
    report.engine = Some(engine);
    (report, fault)
}
