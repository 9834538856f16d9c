//! The end whose relay is an external program: one that is started for every trial, or that runs already.
//!
//! A started program listens before any end connects, is charged for its own use and that of its descendants within the window, and is
//! ended afterwards with all of them. The use of descendants that have come and gone is charged if their parents waited for them.
//!
//! A relay that runs already is neither started nor ended. Before and after a trial the processes that own its sockets are looked up,
//! and their use within the window is charged, even for other clients. If the owners differ afterwards, their use is unknown, and
//! the trial fails.
//!
//! Counts no bytes: both ends count the bytes on their sides.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{
    EndCounts, EndReport, EndRole, Nanos, RelayPlaces, RelayProgram, RelayProgramReport, RunningRelay,
};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::network::NetworkTables;
use bytegauge_sys::process_tree::{self, TreeUse};
use bytegauge_sys::supervisor::Supervisor;
use bytegauge_sys::{children, listening};

use crate::address::Address;
use crate::end::runner::EndResult;
use crate::message::{Body, Command, Peer, Reply};
use crate::program::process::{Program, ProgramEvent, StartedIn, attend, first_to_end};
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
    let supervisor = Supervisor::begin().map_err(EndError::io(SUPERVISING))?;
    let (listen, upstream) = (listen(setup)?, *upstream);
    let folder = keeper::folder().map_err(EndError::io("making a folder for the relay's files"))?;
    let config = folder.path().join("relay.conf");
    let words = relay::words(program, &RelayPlaces { listen, upstream, folder: folder.path().into(), config })?;
    let version = relay::version(program);
    let cpus: Vec<usize> = setup.cpu(EndRole::Relay, 0).into_iter().collect();
    let mut running = Program::start("the relay", &words, &cpus, StartedIn::reading())?;
    let stdin = io::stdin();
    await_listening(&mut running, listen.port(), setup.grace_ns, stdin.as_fd())?;
    if !peer.reply(Reply::Listening(Address::Ip(listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let read = || process_tree::used().map_err(EndError::io("looking for the processes of a relay"));
    let mut programs = vec![&mut running];
    let used = through(peer, setup, &mut programs, read)?;
    let has_left = programs.is_empty();
    if has_left {
        let (status, _) = running.leave()?;
        if !status.success() {
            return Err(left_early(&running, "while it was in use", status));
        }
    }
    let stopped_by_force = !has_left && stop(running, children::TERM, stdin.as_fd())?.1;
    let left_behind = sweep(&supervisor, SETTLE)?.processes;
    let charged = Some("its process tree".into());
    let known = RelayProgramReport { version, left_behind, stopped_by_force, charged, ..RelayProgramReport::default() };
    // When the trial is called off, a failure to do so is reported: there was none here.
    Ok(Some(used.map_or_else(EndResult::default, |used| came_to(used, known))))
}

/// The result of a relay that counts no bytes, with its use within the window, and the window's length, nanoseconds.
fn came_to((used, window_ns): (TreeUse, u64), known: RelayProgramReport) -> EndResult {
    let TreeUse { processes, cpu_ns, user_ns, system_ns } = used;
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

/// From `Go` until the end is stopped: the use within the window, and the window's length, nanoseconds. `None` if it was called off.
/// A relay that serves a single connection may leave after it: then it is removed from `programs`.
fn through(
    peer: &mut impl Peer,
    setup: &Setup,
    programs: &mut Vec<&mut Program>,
    read: impl Fn() -> Result<TreeUse, EndError>,
) -> Result<Option<(TreeUse, u64)>, EndError> {
    if peer.command() != Some(Command::Go) {
        return Ok(None);
    }
    wait(programs, setup.warmup_ns)?;
    let (before, opened_ns) = (read()?, monotonic_ns());
    wait(programs, setup.window_ns)?;
    let (after, closed_ns) = (read()?, monotonic_ns());
    // Whatever it prints while it passes the last bytes on, for as long as the ends wait for these.
    wait(programs, setup.grace_ns)?;
    // `Stop`, or a closed channel: both end it.
    let _ = peer.command();
    Ok(Some((after.since(&before), closed_ns.saturating_sub(opened_ns).max(1))))
}

/// Waits, unless a command arrives, and reads the output of the program meanwhile.
fn wait(programs: &mut Vec<&mut Program>, ns: u64) -> Result<(), EndError> {
    let (stdin, until) = (io::stdin(), Instant::now() + Duration::from_nanos(ns));
    while Instant::now() < until {
        match attend(programs, stdin.as_fd(), until)? {
            ProgramEvent::Nothing => {}
            ProgramEvent::StopRequested => return Ok(()),
            ProgramEvent::Ended(..) => programs.clear(),
        }
    }
    Ok(())
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
    let charged = relay::charged(running).map_err(EndError::io(relay::READING))?;
    if !peer.reply(Reply::Listening(Address::Ip(running.listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let used = through(peer, setup, &mut Vec::new(), || charged.used())?;
    if let Some(reason) = lacks_running(running) {
        return Err(EndError::Program(format!("the relay ended while it was in use: {reason}")));
    }
    charged.stayed()?;
    let known = RelayProgramReport { charged: Some(charged.text), ..RelayProgramReport::default() };
    Ok(Some(used.map_or_else(EndResult::default, |used| came_to(used, known))))
}
