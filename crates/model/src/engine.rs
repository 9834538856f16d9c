//! The table of engines: the code that moves bytes at an end, its modes, and their abilities.
//!
//! Planning, skips, the documents and the tests walk these rows. `traffic` decides whether this machine has the features that an
//! engine needs, and refuses an end that asks an engine for more than it can do.

use std::fmt;
use std::str::FromStr;

use crate::name_tables::{self, Transport, text_serde};
use crate::unit::TextError;

/// The code that moves bytes at an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// A thread per flow, `recv(2)` and `send(2)`; `read(2)` and `write(2)` for files that are no sockets.
    Blocking,
    /// Moves nothing: measures the cost of the harness itself.
    Null,
    /// One thread drives many connections by `epoll(7)`.
    Epoll(EpollMode),
    /// The Tokio runtime, one single-threaded runtime per thread.
    Tokio,
    /// One thread drives many connections, or datagrams, by `io_uring(7)`.
    Uring(UringMode),
    /// Datagrams, one per call: `send(2)` and `recv(2)` for streams, `sendmsg(2)` and `recvmsg(2)` for calls.
    Plain,
    /// Datagrams, many per call: `sendmmsg(2)` and `recvmmsg(2)`.
    Mmsg,
    /// Datagrams that the kernel segments from one send (`UDP_SEGMENT`) and joins into one receive (`UDP_GRO`).
    Gso,
}

/// How an epoll engine asks for readiness, and how it accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EpollMode {
    /// Connections are reported once per change (`EPOLLET`) instead of as long as they are ready.
    pub edge: bool,
    /// Connections are accepted until none is left instead of one per wake-up.
    pub batch: bool,
    /// What an event costs before the next one of its connection.
    pub after_event: AfterEvent,
}

/// What epoll_ctl(2) does after an event of a connection, so that the next one is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AfterEvent {
    /// Nothing: the connection stays registered.
    #[default]
    Nothing,
    /// The event has disarmed it (`EPOLLONESHOT`): a wait arms it again.
    Rearm,
    /// It is removed, and a wait adds it again.
    Replace,
}

impl EpollMode {
    /// A mode whose connections stay registered.
    pub const fn of(edge: bool, batch: bool) -> Engine {
        Engine::Epoll(EpollMode { edge, batch, after_event: AfterEvent::Nothing })
    }

    const fn after(after_event: AfterEvent) -> Engine {
        Engine::Epoll(EpollMode { edge: false, batch: false, after_event })
    }
}

/// The requests of an io_uring engine, and the thread that takes its submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UringMode {
    /// The requests.
    pub kind: UringKind,
    /// Whether a kernel thread takes submissions (`IORING_SETUP_SQPOLL`): it occupies a CPU of its own.
    pub sqpoll: bool,
}

/// The requests of an io_uring engine to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UringKind {
    /// One receive, one send, one accept at a time.
    Plain,
    /// Multishot accepts and receives, into buffers that the kernel picks when data is there.
    Multishot,
    /// As `Multishot`, and each receive takes as many buffers as there is data for.
    Bundle,
    /// As `Multishot`, and sends ask the kernel not to copy.
    ZeroCopy,
}

const fn uring(kind: UringKind) -> Engine {
    Engine::Uring(UringMode { kind, sqpoll: false })
}

const fn sqpoll(kind: UringKind) -> Engine {
    Engine::Uring(UringMode { kind, sqpoll: true })
}

/// The role of an end in its workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineEnd {
    /// Writes or reads a stream.
    Stream,
    /// Calls.
    Client,
    /// Is called.
    Server,
}

/// Whether the kernel gets several datagrams at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// One per call.
    None,
    /// Many per call, each with a buffer of its own.
    Calls,
    /// Many per send, which the kernel segments from one buffer.
    Cuts,
}

/// The abilities of an engine: its ends by transport, and its modes.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// Over TCP.
    pub tcp: &'static [EngineEnd],
    /// Over Unix stream sockets.
    pub unix: &'static [EngineEnd],
    /// Over Unix sockets of packets.
    pub packets: &'static [EngineEnd],
    /// Over vsock.
    pub vsock: &'static [EngineEnd],
    /// Over pipes.
    pub pipes: &'static [EngineEnd],
    /// On devices and files.
    pub sources: &'static [EngineEnd],
    /// Over UDP.
    pub udp: &'static [EngineEnd],
    /// Over Unix datagram sockets.
    pub unix_datagrams: &'static [EngineEnd],
    /// Whether a thread carries one flow, so there are as many threads as flows; otherwise threads share connections. A stream of
    /// datagrams has a thread per flow with any engine.
    pub thread_per_flow: bool,
    /// Whether `--batch` has an effect on it.
    pub batches: Batches,
    /// Whether it keeps several receives of datagrams in flight (`--outstanding`).
    pub outstanding: bool,
}

/// One engine in one mode.
#[derive(Clone, Copy, Debug)]
pub struct EngineRow {
    /// The engine.
    pub value: Engine,
    /// The name in flags, plans, tables and documents.
    pub name: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// Its abilities.
    pub can: Abilities,
}

const fn row(value: Engine, name: &'static str, summary: &'static str, can: Abilities) -> EngineRow {
    EngineRow { value, name, summary, can }
}

const STREAM: &[EngineEnd] = &[EngineEnd::Stream];
const SERVER_TOO: &[EngineEnd] = &[EngineEnd::Stream, EngineEnd::Server];
const CALL_ENDS: &[EngineEnd] = &[EngineEnd::Client, EngineEnd::Server];
const ALL: &[EngineEnd] = &[EngineEnd::Stream, EngineEnd::Client, EngineEnd::Server];

const NOTHING: Abilities = Abilities {
    tcp: &[],
    unix: &[],
    packets: &[],
    vsock: &[],
    pipes: &[],
    sources: &[],
    udp: &[],
    unix_datagrams: &[],
    thread_per_flow: false,
    batches: Batches::None,
    outstanding: false,
};

/// A thread for each connection.
const BLOCKING: Abilities = Abilities {
    tcp: ALL,
    unix: ALL,
    packets: ALL,
    vsock: ALL,
    pipes: STREAM,
    sources: STREAM,
    thread_per_flow: true,
    ..NOTHING
};

/// Streams over everything.
const ANY_STREAM: Abilities = Abilities {
    tcp: STREAM,
    unix: STREAM,
    packets: STREAM,
    vsock: STREAM,
    pipes: STREAM,
    sources: STREAM,
    udp: STREAM,
    unix_datagrams: STREAM,
    ..NOTHING
};

/// Many connections per thread, and sockets only.
const CONNECTIONS: Abilities = Abilities { tcp: ALL, unix: ALL, ..NOTHING };

/// The same for calls alone.
const CALLS: Abilities = Abilities { tcp: CALL_ENDS, unix: CALL_ENDS, ..NOTHING };

/// Descriptors with readiness: files and devices are always ready, and epoll_ctl(2) refuses them.
const READINESS: Abilities = Abilities { pipes: STREAM, packets: ALL, vsock: ALL, ..CONNECTIONS };

/// Unix sockets take no zero-copy sends.
const ZERO_COPY: Abilities = Abilities { unix: &[], ..CONNECTIONS };

/// A ring serves one socket of datagrams, while the clients of calls are many.
const RING: Abilities = Abilities { udp: SERVER_TOO, unix_datagrams: SERVER_TOO, outstanding: true, ..CONNECTIONS };

const DATAGRAMS: Abilities = Abilities { udp: ALL, unix_datagrams: ALL, ..NOTHING };

/// The engines.
pub const ENGINES: &[EngineRow] = &[
    row(Engine::Blocking, "blocking", "a thread for each connection, recv(2) and send(2)", BLOCKING),
    // No user has it for calls, since a server would never answer. The harness measures its own cost of calls with it.
    row(Engine::Null, "null", "moves nothing: measures the harness itself", ANY_STREAM),
    row(EpollMode::of(false, false), "epoll", "epoll(7), level-triggered, one accept per wake-up", READINESS),
    row(EpollMode::of(false, true), "epoll:batch", "epoll(7), level-triggered, accepts until none is left", READINESS),
    row(EpollMode::of(true, false), "epoll:edge", "epoll(7), edge-triggered connections", READINESS),
    row(
        EpollMode::of(true, true),
        "epoll:edge:batch",
        "epoll(7), edge-triggered, accepts until none is left",
        READINESS,
    ),
    row(
        EpollMode::after(AfterEvent::Rearm),
        "epoll:oneshot",
        "epoll(7), EPOLLONESHOT: an epoll_ctl(2) more per wait, to arm it again",
        CALLS,
    ),
    row(
        EpollMode::after(AfterEvent::Replace),
        "epoll:add-del",
        "epoll(7), two epoll_ctl(2) more per wait: removes and adds the connection",
        CALLS,
    ),
    row(Engine::Tokio, "tokio", "the Tokio runtime, a single-threaded one per thread", CONNECTIONS),
    row(uring(UringKind::Plain), "uring:plain", "io_uring(7), one receive and one send at a time", RING),
    row(uring(UringKind::Multishot), "uring:multishot", "io_uring(7), multishot accepts and receives", RING),
    row(uring(UringKind::Bundle), "uring:bundle", "io_uring(7), multishot, many buffers per receive", CONNECTIONS),
    row(uring(UringKind::ZeroCopy), "uring:zc", "io_uring(7), multishot receives, zero-copy sends", ZERO_COPY),
    row(
        sqpoll(UringKind::Plain),
        "uring:plain:sqpoll",
        "io_uring(7), one receive and one send at a time; a kernel thread submits",
        CONNECTIONS,
    ),
    row(
        sqpoll(UringKind::Multishot),
        "uring:multishot:sqpoll",
        "io_uring(7), multishot accepts and receives, provided buffers; a kernel thread submits",
        CONNECTIONS,
    ),
    row(
        sqpoll(UringKind::Bundle),
        "uring:bundle:sqpoll",
        "io_uring(7), multishot, many buffers per receive; a kernel thread submits",
        CONNECTIONS,
    ),
    row(
        sqpoll(UringKind::ZeroCopy),
        "uring:zc:sqpoll",
        "refused: after a kill a kernel thread could run for ever; use `uring:zc`",
        ZERO_COPY,
    ),
    row(Engine::Plain, "plain", "datagrams, one per system call", DATAGRAMS),
    row(
        Engine::Mmsg,
        "mmsg",
        "datagrams, --batch per call: sendmmsg(2), recvmmsg(2)",
        Abilities { batches: Batches::Calls, ..DATAGRAMS },
    ),
    // The segments of one send go to one peer, while replies go to many.
    row(
        Engine::Gso,
        "gso",
        "streams over UDP: --batch datagrams per send (UDP_SEGMENT)",
        Abilities { udp: STREAM, batches: Batches::Cuts, ..NOTHING },
    ),
];

impl Engine {
    /// The engine's row.
    ///
    /// # Panics
    /// If a variant has no row, which a test rules out.
    pub fn row(self) -> &'static EngineRow {
        ENGINES.iter().find(|row| row.value == self).expect("every engine has a row")
    }

    /// Its abilities.
    pub fn can(self) -> &'static Abilities {
        &self.row().can
    }

    /// Whether it can be an end over a transport.
    pub fn carries(self, end: EngineEnd, transport: &Transport) -> bool {
        self.over(transport).contains(&end)
    }

    /// Whether it can be any end over a transport.
    pub fn suits(self, transport: &Transport) -> bool {
        !self.over(transport).is_empty()
    }

    fn over(self, transport: &Transport) -> &'static [EngineEnd] {
        let can = self.can();
        match transport {
            // Sockets of MPTCP refuse MSG_ZEROCOPY, and receive into one buffer at a time (net/mptcp/protocol.c).
            Transport::Mptcp
                if matches!(self, Engine::Uring(UringMode { kind: UringKind::ZeroCopy | UringKind::Bundle, .. })) =>
            {
                &[]
            }
            Transport::Tcp | Transport::Tcp6 | Transport::Mptcp => can.tcp,
            Transport::Unix => can.unix,
            // An event of an edge announces several packets, and a read takes one.
            Transport::UnixSeqpacket if matches!(self, Engine::Epoll(EpollMode { edge: true, .. })) => &[],
            Transport::UnixSeqpacket => can.packets,
            Transport::Vsock => can.vsock,
            Transport::Pipe => can.pipes,
            Transport::Source(_) => can.sources,
            Transport::Udp | Transport::Udp6 => can.udp,
            Transport::UnixDatagram => can.unix_datagrams,
        }
    }

    /// Whether a thread carries one flow.
    pub fn has_thread_a_flow(self) -> bool {
        self.can().thread_per_flow
    }

    /// Whether the engine carries the workload `call` over anything.
    pub fn calls(self) -> bool {
        let can = self.can();
        [can.tcp, can.unix, can.udp, can.unix_datagrams].iter().any(|ends| ends.contains(&EngineEnd::Server))
    }

    /// This engine, if it carries the workload `call`.
    ///
    /// # Errors
    /// Naming those that do.
    pub fn for_call(self) -> Result<Engine, TextError> {
        if self.calls() {
            return Ok(self);
        }
        let fitting: Vec<_> = ENGINES.iter().filter(|row| row.value.calls()).map(|row| row.name).collect();
        let fitting = fitting.join(", ");
        Err(TextError(format!("engine `{self}` does not carry the workload call: use one of {fitting}")))
    }
}

impl FromStr for Engine {
    type Err = TextError;

    fn from_str(name: &str) -> Result<Self, TextError> {
        // A short name stands for the usual mode.
        let wanted = if name == "uring" { "uring:multishot" } else { name };
        name_tables::find("engine", ENGINES.iter().map(|row| (row.name, row.value)), wanted)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.row().name)
    }
}

text_serde!(Engine);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_round_trip() {
        for row in ENGINES {
            assert_eq!(row.name.parse::<Engine>().unwrap().to_string(), row.name);
            assert_eq!(serde_json::to_string(&row.value).unwrap(), format!("{:?}", row.name));
        }
        let error = "blockng".parse::<Engine>().unwrap_err().to_string();
        assert!(error.contains("did you mean `blocking`?"), "{error}");
    }

    #[test]
    fn every_mode_has_a_row() {
        let modes = [false, true];
        for (edge, batch) in modes.into_iter().flat_map(|edge| modes.map(|batch| (edge, batch))) {
            assert!(EpollMode::of(edge, batch).to_string().starts_with("epoll"));
        }
        for after in [AfterEvent::Rearm, AfterEvent::Replace] {
            assert!(EpollMode::after(after).to_string().starts_with("epoll"));
        }
        for kind in [UringKind::Plain, UringKind::Multishot, UringKind::Bundle, UringKind::ZeroCopy] {
            assert!([uring(kind), sqpoll(kind)].iter().all(|engine| engine.to_string().starts_with("uring")));
        }
    }

    #[test]
    fn a_short_name_stands_for_the_usual_mode() {
        assert_eq!("uring".parse::<Engine>().unwrap().to_string(), "uring:multishot");
    }

    #[test]
    fn engines_without_calls_are_refused_with_alternatives() {
        let error = "null".parse::<Engine>().and_then(Engine::for_call).unwrap_err().to_string();
        assert!(error.starts_with("engine `null` does not carry the workload call: use one of blocking"), "{error}");
    }

    #[test]
    fn engines_suit_bytes_or_datagrams_sockets_or_more() {
        let suiting = |transport: &str| {
            let transport: Transport = transport.parse().unwrap();
            let rows = ENGINES.iter().filter(|row| row.value.suits(&transport));
            rows.map(|row| row.name).collect::<Vec<_>>().join(",")
        };
        assert_eq!(suiting("udp"), "null,uring:plain,uring:multishot,plain,mmsg,gso");
        assert_eq!(suiting("unix-dgram"), "null,uring:plain,uring:multishot,plain,mmsg");
        let bytes = suiting("tcp");
        assert!(bytes.starts_with("blocking,null,epoll") && !bytes.contains("mmsg"), "{bytes}");
        assert!(suiting("tcp").contains("uring:zc") && !suiting("unix").contains("uring:zc"));
        assert_eq!(suiting("pipe"), "blocking,null,epoll,epoll:batch,epoll:edge,epoll:edge:batch");
        assert_eq!(suiting("/dev/zero"), "blocking,null");
    }
}
