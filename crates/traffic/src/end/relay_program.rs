//! The end whose relay is an external program: one that is started for every trial, or that runs already.
//!
//! A started program listens before any end connects, is charged for its own use and that of its descendants within the window, and is
//! ended afterwards with all of them. Its process tree is charged, whose clocks are exact, or its control group if that shows that processes
//! have come and gone, which are in no tree any more.
//!
//! A relay that runs already is neither started nor ended. Before and after a trial the processes that own its sockets are looked up,
//! and their use within the window is charged, even for other clients. If the owners differ afterwards, their use is unknown, and
//! the trial fails.
//!
//! Counts no bytes: both ends count the bytes on their sides.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytegauge_model::{
    EndCounts, EndReport, EndRole, Nanos, RelayPlaces, RelayProgram, RelayProgramReport, RunningRelay,
};
use bytegauge_sys::clock::{kernel_tick_ns, monotonic_ns};
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::process_tree::{self, TreeUse};
use bytegauge_sys::supervisor::{ControlGroup, Supervisor};
use bytegauge_sys::{children, listening};

use crate::address::Address;
use crate::end::runner::EndResult;
use crate::message::{Body, Command, Peer, Reply};
use crate::program::process::{Program, ProgramEvent, attend, first_to_end};
use crate::program::{SETTLE, SUPERVISING, ask, stop, sweep};
use crate::relay::{self, lacks_running};
use crate::setup::Setup;
use crate::{EndError, keeper};

/// Ports to try, below those that the kernel assigns to connecting sockets (`ip_local_port_range`), so that none is taken between
/// the check and the program's start.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Runs a trial; one that is called off has no result. `Ok(None)` if the channel was closed.
pub(super) fn run(
    peer: &mut impl Peer,
    setup: &Setup,
    program: &RelayProgram,
    upstream: Option<&Address>,
    body: Body,
) -> Result<Option<EndResult>, EndError> {
    if body != Body::Process {
        return Err(EndError::Impossible("a program that relays needs an end that is a process".into()));
    }
    let Some(Address::Ip(upstream)) = upstream else {
        return Err(EndError::Missing(format!("{} is connected to over TCP: use --transport tcp", program.name)));
    };
    // Declared before the supervisor, so that the group is empty when it is removed.
    let group = ControlGroup::make().ok();
    let supervisor = Supervisor::begin().map_err(EndError::io(SUPERVISING))?;
    relayed(peer, setup, program, (listen(setup)?, *upstream), (&supervisor, group.as_ref()))
}

fn relayed(
    peer: &mut impl Peer,
    setup: &Setup,
    program: &RelayProgram,
    (listen, upstream): (SocketAddr, SocketAddr),
    (supervisor, group): (&Supervisor, Option<&ControlGroup>),
) -> Result<Option<EndResult>, EndError> {
    let folder = keeper::folder().map_err(EndError::io("making a folder for the relay's files"))?;
    let config = folder.path().join("relay.conf");
    let words = relay::words(program, &RelayPlaces { listen, upstream, folder: folder.path().into(), config })?;
    let version = relay::version(program);
    let cpus: Vec<usize> = setup.cpu(EndRole::Relay, 0).into_iter().collect();
    let start = || Program::start("the relay", &words, &cpus, true);
    let (started, is_apart) = group.map_or_else(|| (start(), false), |group| group.within(start));
    let (mut running, group) = (started?, group.filter(|_| is_apart));
    let stdin = io::stdin();
    await_listening(&mut running, listen.port(), setup.grace_ns, stdin.as_fd())?;
    if !peer.reply(Reply::Listening(Address::Ip(listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let (used, has_left) = while_running(&mut running, || through(peer, setup, stdin.as_fd(), || reading(group)))?;
    let stopped_by_force = !has_left && stop(running, children::TERM, stdin.as_fd())?.1;
    let left = sweep(supervisor, SETTLE)?;
    // When the trial is called off, a failure to do so is reported: there was none here.
    let Some((used, by)) = used.map(use_between) else { return Ok(Some(EndResult::default())) };
    let (left_behind, charged) = (left.processes, Some(by));
    let known = RelayProgramReport { version, left_behind, stopped_by_force, charged, ..RelayProgramReport::default() };
    Ok(Some(came_to(used, known)))
}

/// The result of a relay that counts no bytes.
pub(super) fn came_to(([before, after], window_ns): Used<TreeUse>, known: RelayProgramReport) -> EndResult {
    let TreeUse { processes, cpu_ns, user_ns, system_ns } = after.since(&before);
    let relay_program = Some(Box::new(RelayProgramReport { processes, ..known }));
    let counts = EndCounts { window_ns, cpu_ns, user_ns, system_ns, ..EndCounts::default() };
    let report = EndReport { counts, relay_program, ..EndReport::default() };
    EndResult { report, ..EndResult::default() }
}

/// A free port.
fn listen(setup: &Setup) -> Result<SocketAddr, EndError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let mut address = setup.host.any_port(setup.transport());
    let ports = u32::from(PORTS.end - PORTS.start);
    for _ in 0..ports {
        // Other processes at the same time begin elsewhere.
        let step = std::process::id().wrapping_mul(97) + u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        address.set_port(PORTS.start + (step % ports) as u16);
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    Err(EndError::Missing(format!("no port of {} to {} is free for a relay", PORTS.start, PORTS.end)))
}

/// Waits until the program listens, without connecting, since it would connect to the other side at once.
fn await_listening(
    running: &mut Program,
    port: u16,
    patience_ns: u64,
    stop_requested: BorrowedFd<'_>,
) -> Result<(), EndError> {
    let until = Instant::now() + Duration::from_nanos(patience_ns);
    loop {
        let (listens, pause) = ask(|| listening::at_port(NetworkTables::own(), port));
        if listens {
            return Ok(());
        }
        if first_to_end(&mut [running], stop_requested, Instant::now() + pause)?.is_some() {
            let (status, _) = running.leave()?;
            return Err(left_early(running, "before it listened", status));
        }
        if Instant::now() >= until {
            return Err(EndError::Program(format!(
                "the relay did not listen on port {port} after {}{}: is that the {{listen}} of its command?",
                Nanos(patience_ns),
                running.last_words()
            )));
        }
    }
}

fn left_early(running: &Program, when: &str, status: ExitStatus) -> EndError {
    EndError::Program(format!("the relay ended {when}: it {}", running.how(status)))
}

/// Runs `carry` while the program runs, and reads the program's output meanwhile. Returns whether it has left: a relay that
/// serves a single connection may leave after it.
fn while_running<T>(running: &mut Program, carry: impl FnOnce() -> Result<T, EndError>) -> Result<(T, bool), EndError> {
    let (stop_requested, request_stop) = io::pipe().map_err(EndError::io("making a pipe"))?;
    let (carried, left) = thread::scope(|scope| {
        let watch = || {
            loop {
                match attend(&mut [&mut *running], stop_requested.as_fd(), Instant::now() + Duration::from_secs(1)) {
                    Ok(ProgramEvent::Nothing) => {}
                    Ok(ProgramEvent::StopRequested) => return Ok(false),
                    Ok(ProgramEvent::Ended(..)) => return Ok(true),
                    Err(fault) => return Err(fault),
                }
            }
        };
        let watcher = thread::Builder::new().name("relay-watch".into()).spawn_scoped(scope, watch)?;
        let carried = carry();
        drop(request_stop);
        Ok((carried, watcher.join()))
    })
    .map_err(EndError::io("starting a thread"))?;
    match left {
        Ok(Ok(true)) => match running.leave()? {
            (status, _) if status.success() => Ok((carried?, true)),
            (status, _) => Err(left_early(running, "while it was in use", status)),
        },
        Ok(Ok(false)) => Ok((carried?, false)),
        Ok(Err(fault)) => Err(fault),
        Err(_) => Err(EndError::Impossible("the thread that watched a relay panicked".into())),
    }
}

/// From `Go` until the end is stopped: the readings at the opening and at the closing of the window. `None` if it was called off.
pub(super) fn through<T>(
    peer: &mut impl Peer,
    setup: &Setup,
    stop_requested: BorrowedFd<'_>,
    read: impl Fn() -> Result<T, EndError>,
) -> Result<Option<Used<T>>, EndError> {
    if peer.command() != Some(Command::Go) {
        return Ok(None);
    }
    wait(setup.warmup_ns, stop_requested)?;
    let (before, opened_ns) = (read()?, monotonic_ns());
    wait(setup.window_ns, stop_requested)?;
    let (after, closed_ns) = (read()?, monotonic_ns());
    // `Stop`, or a closed channel: both end it.
    let _ = peer.command();
    Ok(Some(([before, after], closed_ns.saturating_sub(opened_ns).max(1))))
}

/// Waits, unless a command arrives.
fn wait(ns: u64, stop_requested: BorrowedFd<'_>) -> Result<(), EndError> {
    let until = Instant::now() + Duration::from_nanos(ns);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || children::wait_any(&[stop_requested], left).map_err(EndError::io("waiting"))? == [true] {
            return Ok(());
        }
    }
}

/// The readings before and after a window, and the window's length, nanoseconds.
pub(super) type Used<T> = ([T; 2], u64);

/// The resources used until a moment.
pub(super) struct Reading {
    tree: TreeUse,
    /// Absent without a group.
    group: Option<TreeUse>,
}

/// Reads both.
pub(super) fn reading(group: Option<&ControlGroup>) -> Result<Reading, EndError> {
    let tree = process_tree::used().map_err(EndError::io("looking for the processes of a relay"))?;
    Ok(Reading { tree, group: group.and_then(|group| group.used().ok()) })
}

/// The use between two readings, and its source.
fn use_between(between: Used<Reading>) -> (Used<TreeUse>, String) {
    let ([before, after], window_ns) = between;
    let (charged, by) = settled(&before, &after, window_ns, kernel_tick_ns());
    ((charged, window_ns), by.to_owned())
}

/// A group that is ahead of the tree by more than the kernel's own delay has seen processes that the tree has not. Each thread
/// running at a group's reading is up to a tick behind; the number of such threads follows from the use within the window,
/// however many CPUs there are.
fn settled(before: &Reading, after: &Reading, window_ns: u64, tick_ns: u64) -> ([TreeUse; 2], &'static str) {
    let tree = || [before.tree, after.tree];
    let Some((earlier, later)) = before.group.zip(after.group) else { return (tree(), "its process tree") };
    let by_tree = after.tree.since(&before.tree).cpu_ns;
    let by_group = later.since(&earlier).cpu_ns;
    let delay_ns = by_group.div_ceil(window_ns.max(1)) * tick_ns;
    match by_group > by_tree + delay_ns {
        true => ([earlier, later], "its control group, since processes came and went"),
        false => (tree(), "its process tree, which its control group confirms"),
    }
}

/// Runs a trial; one that is called off has no result. `Ok(None)` if the channel was closed.
pub(super) fn run_running(
    peer: &mut impl Peer,
    setup: &Setup,
    running: &RunningRelay,
) -> Result<Option<EndResult>, EndError> {
    if let Some(reason) = lacks_running(running) {
        return Err(EndError::Program(reason));
    }
    let charged = relay::charged(running)?;
    if !peer.reply(Reply::Listening(Address::Ip(running.listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let used = through(peer, setup, io::stdin().as_fd(), || charged.used())?;
    if let Some(reason) = lacks_running(running) {
        return Err(EndError::Program(format!("the relay ended while it was in use: {reason}")));
    }
    charged.stayed()?;
    let known = RelayProgramReport { charged: Some(charged.text), ..RelayProgramReport::default() };
    Ok(Some(used.map_or_else(EndResult::default, |used| came_to(used, known))))
}

#[cfg(test)]
mod relay_charge_tests {
    use super::*;

    fn reading(tree_ns: u64, group_ns: Option<u64>) -> Reading {
        let of = |cpu_ns| TreeUse { processes: 1, cpu_ns, user_ns: 0, system_ns: cpu_ns };
        Reading { tree: of(tree_ns), group: group_ns.map(of) }
    }

    #[test]
    fn use_of_short_processes_is_charged() {
        let check = |before: Reading, after: Reading, expected: u64, how: &str| {
            let ([earlier, later], by) = settled(&before, &after, 100, 8);
            assert_eq!((later.since(&earlier).cpu_ns, by.starts_with(how)), (expected, true), "{by}");
        };
        check(reading(10, None), reading(60, None), 50, "its process tree");
        // Within the kernel's delay.
        check(reading(10, Some(100)), reading(60, Some(158)), 50, "its process tree, which");
        check(reading(10, Some(100)), reading(60, Some(120)), 50, "its process tree, which");
        check(reading(10, Some(100)), reading(60, Some(170)), 70, "its control group");
        check(reading(60, Some(100)), reading(0, Some(170)), 70, "its control group");
        // Each of several threads may be late.
        check(reading(0, Some(0)), reading(250, Some(274)), 250, "its process tree, which");
        check(reading(0, Some(0)), reading(250, Some(275)), 275, "its control group");
        // A group that can no longer be read.
        check(reading(10, Some(100)), reading(60, None), 50, "its process tree");
    }

    /// However many CPUs the machine has: short processes used as much as two ticks of one of them.
    #[test]
    fn use_is_charged_on_large_machines() {
        let used_ns = 2 * kernel_tick_ns();
        let (([earlier, later], _), by) = use_between(([reading(0, Some(0)), reading(0, Some(used_ns))], 25 * used_ns));
        assert_eq!(later.since(&earlier).cpu_ns, used_ns, "{by}");
    }
}
