//! Engines of connections, pipes and files: they move the bytes at an end. One folder per engine; the null engine is the loop of
//! `blocking` without calls. The engines of datagrams are in `datagram` and `call::datagram`.
//!
//! An engine drives a [`Flow`] whatever its workload and its transport. [`drive`] refuses flows that need an ability which the
//! engine lacks.

mod blocking;
mod epoll;
mod event_loop;
mod flow_state;
mod system_calls;
pub(crate) mod timers;
mod tokio;
mod uring;

pub use blocking::run;
pub(crate) use blocking::{Always, FlowIo, run_on};
pub(crate) use flow_state::UnsentMessage;
pub(crate) use system_calls::reset_when_closed;
pub(crate) use tokio::{Listener, Stream, is_unix, runtime};

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{Engine, EngineReport, UringKind};
use bytegauge_sys::socket::{self, During};

use crate::flow::{ConnectionEnd, Flow, Party};
use crate::meter::Meter;
use crate::pace::Pace;
use crate::stream::SourceFile;
use crate::tls::TlsRole;
use crate::tls::session::Session;
use crate::{EndError, lock};

/// How a flow's loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The flow's time was up, or it was stopped.
    Time,
    /// The connection ended first.
    Ended(ConnectionEnd),
    /// The flow refused what it received.
    Refused,
    /// The watchdog requested it.
    Aborted,
    /// Every flow was returned before the time was up, and no connection can arrive.
    Done,
}

/// The settings and flags of a thread of an engine that drives a party.
#[derive(Clone, Copy, Debug)]
pub struct Station<'a> {
    /// The listening socket, if this end listens; non-blocking. Several threads may share one.
    pub listener: Option<BorrowedFd<'a>>,
    /// Most bytes of one receive.
    pub buffer_size: usize,
    /// Whether sends have `MSG_ZEROCOPY`, if the engine is epoll.
    pub zero_copy: bool,
    /// How a library encrypts connections, if one does: `blocking` and `epoll` can.
    pub tls: Option<TlsRole>,
    /// Set by the watchdog: leave at once. Checked after every interrupted or empty wait.
    pub abort: &'a AtomicBool,
    /// Set to stop an end that has no schedule of its own.
    pub stop_requested: &'a AtomicBool,
}

impl<'a> Station<'a> {
    /// Without a listening socket.
    pub fn new(buffer_size: usize, abort: &'a AtomicBool, stop_requested: &'a AtomicBool) -> Station<'a> {
        Station { listener: None, buffer_size, zero_copy: false, tls: None, abort, stop_requested }
    }
}

/// The settings and flags of the loop of one flow.
#[derive(Debug)]
pub struct FlowStation<'a> {
    /// The connection; absent for the null engine.
    pub fd: Option<BorrowedFd<'a>>,
    /// The receive buffer: as long as one read. Sends have memory of their own.
    pub buffer: &'a mut [u8],
    /// When writes may start.
    pub pace: Pace,
    /// Set by the watchdog, checked when a call was interrupted.
    pub abort: &'a AtomicBool,
    /// Set to stop a flow that has no schedule of its own, checked once per lap.
    pub stop_requested: &'a AtomicBool,
}

/// How a thread moves the bytes of its only flow.
#[derive(Debug)]
pub enum FlowMode<'s> {
    /// Not at all: the null engine.
    Nothing,
    /// By recv(2) and send(2), or read(2) and write(2) where the descriptor is no socket.
    Usual,
    /// By read(2), from the beginning again at the end: a file as an endless source.
    Endless,
    /// By recvmsg(2), from a socket with `TCP_INQ` or `SO_INQ`, and send(2).
    QueuedCounts,
    /// Sends have `MSG_ZEROCOPY`; the flow only sends.
    ZeroCopy,
    /// By sendfile(2); the flow only sends.
    SendFile(&'s SourceFile),
    /// In encrypted records.
    Encrypted(&'s mut Session),
}

/// Drives one thread's share of an end until the time is up, the end is stopped, or every flow is done.
///
/// Takes all flows that the party begins with, does what each wants, and returns every one of them. No wait is longer than
/// to the meter's next mark or the earliest deadline of a flow.
///
/// # Errors
/// [`EndError::Missing`] if this machine lacks a requirement of the engine, [`EndError::Io`] if the engine's own calls failed,
/// [`EndError::Impossible`] if it cannot drive such flows ([`can_pair`]). Errors of a connection go to its flow
/// ([`crate::flow::Flow::ended`]).
pub fn drive<P: Party>(
    engine: Engine,
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    if P::Flow::PAIRED && !can_pair(engine) {
        return Err(EndError::Impossible(format!(
            "flows of engine {engine} cannot wake each other: use epoll or uring"
        )));
    }
    if P::Flow::FORWARDS && !matches!(engine, Engine::Uring(_)) {
        return Err(EndError::Impossible(format!("engine {engine} keeps nothing for another flow: use uring")));
    }
    if P::CALLS && !matches!(engine, Engine::Epoll(_)) {
        return Err(EndError::Impossible(format!("engine {engine} makes its own calls: use epoll")));
    }
    match engine {
        Engine::Epoll(mode) => epoll::drive(mode, party, station, meter),
        Engine::Uring(mode) => uring::drive(mode, party, station, meter),
        Engine::Blocking => blocking::drive(party, station, meter),
        Engine::Tokio => tokio::drive(party, station, meter),
        Engine::Null => Err(EndError::Impossible("the null engine moves nothing, so it drives no party".into())),
        Engine::Plain | Engine::Mmsg | Engine::Gso => {
            Err(EndError::Impossible(format!("engine {engine} carries datagrams, not connections")))
        }
    }
}

/// Most bytes of one receive of messages by default: `usual`, unless the engine's mode needs a smaller one.
pub fn message_buffer(engine: Engine, usual: usize) -> usize {
    match engine {
        Engine::Uring(mode) if mode.kind == UringKind::Bundle => usual.min(uring::BUNDLE_BUFFER_SIZE),
        _ => usual,
    }
}

/// Whether an engine drives flows in pairs, of which one may have the other called again: engines whose flows share a thread
/// and a driver.
pub fn can_pair(engine: Engine) -> bool {
    matches!(engine, Engine::Epoll(_) | Engine::Uring(_))
}

/// The requirement of an engine that this machine lacks, if any, with the next step; checked before a plan is made.
pub fn missing_requirement(engine: Engine) -> Option<String> {
    match engine {
        Engine::Uring(mode) => uring::missing_requirement(mode),
        Engine::Blocking
        | Engine::Null
        | Engine::Epoll(_)
        | Engine::Tokio
        | Engine::Plain
        | Engine::Mmsg
        | Engine::Gso => None,
    }
}

/// The part of the mode that the report does not prove, if any: a requested mode that did not run fails its cell.
///
/// How connections are accepted is not checked: a server that accepts until none is left (`epoll:batch`) makes one accept too
/// many at every wake-up, whether one or many had arrived, and differs by that from one that accepts one. The number that
/// arrive at once depends on the load; the report shows it ([`EngineReport::accepted_at_once`]).
pub fn unproven(engine: Engine, report: &EngineReport) -> Option<String> {
    match engine {
        Engine::Uring(mode) => uring::unproven(mode, report),
        Engine::Mmsg => unbatched(report),
        Engine::Blocking | Engine::Null | Engine::Epoll(_) | Engine::Tokio => None,
        // A cut shows in the datagrams that a stream counts, not in the engine's counters.
        Engine::Plain | Engine::Gso => None,
    }
}

/// Whether an end of calls has moved datagrams, but never two of them by one system call. An end that moved nothing fails for
/// other reasons than its mode.
fn unbatched(report: &EngineReport) -> Option<String> {
    (report.received_at_once.max(report.sent_at_once) == 1).then(|| {
        "no call moved more than one datagram: let several wait at once, with more --flows or a larger --depth, or use plain"
            .into()
    })
}

/// What the threads or tasks of an engine add to its report, and their first fault.
#[derive(Debug, Default)]
struct WorkerTotals {
    system_calls: AtomicU64,
    copied_bytes: AtomicU64,
    /// The most flows at once, and the largest memory of one of them, bytes.
    most_flows: AtomicU64,
    flow_bytes: AtomicU64,
    fault: Mutex<Option<EndError>>,
}

impl WorkerTotals {
    fn fail(&self, fault: EndError) {
        lock(&self.fault).get_or_insert(fault);
    }

    fn take_fault(&self) -> Option<EndError> {
        lock(&self.fault).take()
    }

    /// The result of the engine, once all workers have ended.
    fn finish(&self, stop: Result<Stop, EndError>, mut report: EngineReport) -> Result<(Stop, EngineReport), EndError> {
        report.system_calls += self.system_calls.load(Ordering::Relaxed);
        report.copied_bytes += self.copied_bytes.load(Ordering::Relaxed);
        report.buffer_bytes += self.most_flows.load(Ordering::Relaxed) * self.flow_bytes.load(Ordering::Relaxed);
        self.take_fault().map_or(Ok((stop?, report)), Err)
    }
}

/// Longest wait: a signal between the check of the flags and the wait is lost.
pub(crate) const WAIT_MAX_NS: u64 = 50_000_000;

/// How long an end without free descriptors ignores its listener.
pub(crate) const ACCEPT_PAUSE_NS: u64 = 10_000_000;

/// Most connections that a batch accepts before open ones have their turn.
const ACCEPTS_MAX: u64 = 1024;

/// The error number of a failed call.
fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(0)
}

/// Whether a failed accept means that descriptors ran out, so that trying again at once would only spin. Otherwise there was
/// nothing to accept.
///
/// # Errors
/// That of the listener itself.
pub(crate) fn is_out_of_descriptors(source: io::Error) -> Result<bool, EndError> {
    let is_exhausted = socket::is_exhausted(&source);
    if is_exhausted || socket::is_transient(&source, During::Accept) {
        return Ok(is_exhausted);
    }
    Err(EndError::Io { doing: "accepting a connection".into(), source })
}

/// The fault of a flow that wants to send but composes nothing.
#[cold]
fn nothing_to_send() -> EndError {
    EndError::Impossible("a flow wants to send nothing".into())
}

/// The fault of a flow that sends or receives without a connection.
fn unconnected() -> EndError {
    EndError::Impossible("a flow wants to send or receive without a connection".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(engine: &str, received_at_once: u64, sent_at_once: u64, expected: bool) {
        let report = EngineReport { received_at_once, sent_at_once, accepted_at_once: 1, ..EngineReport::default() };
        let missing = unproven(engine.parse().unwrap(), &report);
        assert_eq!(missing.is_some(), expected, "{engine}: {missing:?}");
    }

    #[test]
    fn one_call_with_two_datagrams_proves_batching() {
        check("mmsg", 1, 1, true);
        check("mmsg", 2, 1, false);
        check("mmsg", 1, 2, false);
        check("mmsg", 0, 0, false);
        check("plain", 1, 1, false);
    }

    #[test]
    fn accepts_of_single_connections_disprove_nothing() {
        check("epoll:batch", 0, 0, false);
    }
}
