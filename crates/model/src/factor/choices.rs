//! Rows of the table of factors: choices, and all factors of rings and programs.

use crate::catalog::{Engine, NameError, RcvbufOn, Transport};
use crate::factor::defaults::{both, call, check, each, ring, stream};
use crate::factor::row::{
    BUFFER, CHOICE, CONDITION, CONNECTIONS, DATAGRAMS, Factor, NO_PATH, SIZE_MAX, SOCKET_BUFFER, SOCKETS, THREADS,
    TWO_ENDED,
};
use crate::level::LevelKind;
use crate::place::Place;
use crate::relay::RelayThreads;
use crate::relay_program::relay_name;
use crate::ring::{ENTRIES_MAX, Implementation, Mode, RingFlags, UserData};
use crate::send_from::SendFrom;
use crate::spec::lens;

/// The choices that precede the options of sockets.
pub(super) const CHOICES: &[Factor] = &[
    Factor {
        name: "engine",
        lens: lens!(engine),
        kind: LevelKind::Name(|s| s.parse::<Engine>().map(|e| e.to_string())),
        defaults: stream("blocking").datagrams("plain,mmsg,gso"),
        heading: "engine",
        summary: "How the ends move bytes: blocking, epoll, uring, …",
        details: "stream --help and call --help explain the names",
        ..CHOICE
    },
    // A choice: the given servers are compared. Before the other factors of the server, which have no effect with it.
    Factor {
        name: "connect",
        lens: lens!(connect),
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "server at",
        summary: "External server: HOST:PORT, unix:/path or iperf3://HOST",
        details: "it echoes calls or returns --response bytes; it reads streams; an iperf3 server reads, or with --role reader writes (docs/iperf3.md)",
        fits: SOCKETS,
        ..CHOICE
    },
    // A choice: the author of a relay decides how it copies.
    Factor {
        name: "relay",
        lens: lens!(relay),
        kind: LevelKind::Name(relay_name),
        defaults: both("direct"),
        heading: "relay",
        summary: "How a relay copies: splice, epoll, …, all, or direct",
        details: "stream --help and call --help explain the names; direct: no relay; all: every method; or a program such as haproxy, cmd:WORDS with {listen} and {upstream}, or addr:LISTEN=UPSTREAM for a relay that runs already",
        fits: CONNECTIONS,
        ..CHOICE
    },
    Factor {
        name: "relay_threads",
        lens: lens!(relay_threads),
        kind: LevelKind::Name(|s| s.parse::<RelayThreads>().map(|threads| threads.to_string())),
        defaults: both("direction"),
        heading: "relay threads",
        summary: "Threads of the relay: direction, one or cpus",
        details: "direction: a thread for each direction of each connection; one: a single thread with epoll; cpus: such a thread for each CPU",
        fits: CONNECTIONS,
        ..CHOICE
    },
    Factor {
        name: "relay_buffer",
        lens: lens!(relay_buffer),
        kind: LevelKind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: both("auto"),
        heading: "relay buffer",
        summary: "Bytes of the relay's buffer for each direction",
        details: "auto: 64 KiB; for tokio 8 KiB, its own default",
        fits: CONNECTIONS,
        ..CHOICE
    },
    Factor {
        name: "relay_pipe",
        lens: lens!(relay_pipe),
        kind: SOCKET_BUFFER,
        defaults: both("auto"),
        heading: "relay pipe",
        summary: "Capacity of each pipe of a relay that splices",
        details: "F_SETPIPE_SZ; auto: the kernel's 64 KiB",
        fits: CONNECTIONS,
        ..CHOICE
    },
    Factor {
        name: "server_engine",
        lens: lens!(server_engine),
        kind: LevelKind::Name(calling_engine),
        defaults: call("blocking,epoll,uring,tokio").datagrams("plain,mmsg,uring:plain,uring:multishot"),
        heading: "server",
        summary: "How the server moves bytes: epoll, uring, tokio, …",
        details: "stream --help and call --help explain the names",
        fits: SOCKETS,
        ..CHOICE
    },
    Factor {
        name: "server_threads",
        lens: lens!(server_threads),
        kind: THREADS,
        defaults: call("1"),
        heading: "threads",
        summary: "Threads of the server",
        details: "a blocking server has one for each connection",
        fits: SOCKETS,
        ..CHOICE
    },
    Factor {
        name: "read_size",
        lens: lens!(read_size),
        kind: BUFFER,
        defaults: each("4K..1M", "64K").datagrams("64K"),
        heading: "read",
        summary: "Bytes of one read",
        details: "1 B to 16 MiB; a longer datagram is cut off",
        ..CHOICE
    },
    Factor {
        name: "write_size",
        lens: lens!(write_size),
        kind: BUFFER,
        defaults: stream("16K..1M").datagrams("64,512,1000,4K,16K,60K"),
        heading: "write",
        summary: "Bytes of one write, or of one datagram",
        details: "1 B to 16 MiB; one-ended transports have none",
        fits: TWO_ENDED,
        ..CHOICE
    },
    Factor {
        name: "send_from",
        lens: lens!(send_from),
        kind: LevelKind::Name(|s| s.parse::<SendFrom>().map(|place| place.to_string())),
        defaults: stream("memory"),
        heading: "send from",
        summary: "Where a writer has its bytes: memory, file or sendfile",
        details: "file: pread(2) of a file of 16 MiB in the page cache before each send; sendfile: sendfile(2) of it, engine blocking",
        fits: |transport| transport.is_tcp() || matches!(transport, Transport::Unix | Transport::Pipe),
        ..CHOICE
    },
    Factor {
        name: "batch",
        lens: lens!(batch),
        kind: LevelKind::Count { min: 1, max: 1024, auto: true },
        defaults: both("auto"),
        heading: "batch",
        summary: "Datagrams of one system call of mmsg or gso",
        details: "for gso, segments of one send, at most 64 and 64 KiB together; auto: 64, or what fits",
        fits: DATAGRAMS,
        ..CHOICE
    },
    Factor {
        name: "outstanding",
        lens: lens!(outstanding),
        kind: LevelKind::Count { min: 1, max: 4096, auto: false },
        defaults: both("64"),
        heading: "outstanding",
        summary: "Receives of datagrams that io_uring keeps in flight",
        details: "for multishot, the buffers that it may fill",
        fits: DATAGRAMS,
        ..CHOICE
    },
];

/// The factors that follow the options of sockets.
pub(super) const AFTER_OPTIONS: &[Factor] = &[
    Factor {
        name: "rcvbuf_on",
        lens: lens!(rcvbuf_on),
        kind: LevelKind::Name(|s| s.parse::<RcvbufOn>().map(|on| on.to_string())),
        defaults: call("listener"),
        heading: "SO_RCVBUF on",
        summary: "Socket with SO_RCVBUF: listener, accepted or client",
        details: "listener: accepted sockets inherit it, and the window scale is fixed by it",
        fits: CONNECTIONS,
        ..CHOICE
    },
    Factor {
        name: "backlog",
        lens: lens!(backlog),
        kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
        defaults: call("auto"),
        heading: "backlog",
        summary: "Connections that may wait for accept, or auto",
        details: "listen(2); auto: the largest that the system allows",
        fits: CONNECTIONS,
        ..CHOICE
    },
    // Requirements of a program on its ring are conditions: whether it must find out which operation completed, and whether it
    // reads completions at all. The size of the ring, its flags and the code that drives it are choices.
    Factor {
        name: "mode",
        lens: lens!(mode),
        kind: LevelKind::Name(|s| s.parse::<Mode>().map(|mode| mode.to_string())),
        defaults: ring("ceiling,checked"),
        heading: "mode",
        summary: "Loop of the ring: ceiling or checked",
        details: "ceiling: counts completions only; checked: fills whole entries and compares every completion",
        fits: NO_PATH,
        ..CONDITION
    },
    Factor {
        name: "user_data",
        lens: lens!(user_data),
        kind: LevelKind::Name(|s| s.parse::<UserData>().map(|data| data.to_string())),
        defaults: ring("none"),
        heading: "user data",
        summary: "User data of operations: none, unique or boxed",
        details: "unique: a number; boxed: an object on the heap",
        fits: NO_PATH,
        ..CONDITION
    },
    Factor {
        name: "entries",
        lens: lens!(entries),
        kind: LevelKind::PowerOfTwo { max: ENTRIES_MAX },
        defaults: ring("1,64..4096"),
        heading: "entries",
        summary: "Submission entries of the ring, a power of two",
        details: "completion entries are twice as many",
        fits: NO_PATH,
        ..CHOICE
    },
    Factor {
        name: "submit_batch",
        lens: lens!(submit_batch),
        kind: LevelKind::Count { min: 1, max: ENTRIES_MAX, auto: true },
        defaults: ring("auto"),
        heading: "batch",
        summary: "Operations of one submission, or auto",
        details: "at most --entries; auto: as many as --entries",
        fits: NO_PATH,
        ..CHOICE
    },
    Factor {
        name: "implementation",
        lens: lens!(implementation),
        kind: LevelKind::Name(|s| s.parse::<Implementation>().map(|name| name.to_string())),
        defaults: ring("raw,io-uring,liburing"),
        heading: "ring",
        summary: "Code that drives the ring: raw, io-uring, liburing",
        details: "liburing-undrained is never compared (docs/factors.md)",
        fits: NO_PATH,
        ..CHOICE
    },
    Factor {
        name: "setup",
        lens: lens!(setup),
        kind: LevelKind::Name(|s| s.parse::<RingFlags>().map(|setup| setup.to_string())),
        defaults: ring("default,single-issuer"),
        heading: "set-up",
        summary: "Set-up flags of the ring",
        details: "default, single-issuer, coop, sqpoll, no-sqarray, registered, or several joined by +",
        fits: NO_PATH,
        ..CHOICE
    },
    Factor {
        name: "run_timeout",
        lens: lens!(run_timeout),
        flag: Some("timeout"),
        kind: LevelKind::Duration { min_ns: 10_000_000, max_ns: 3_600_000_000_000, auto: false },
        defaults: check("60s"),
        heading: "timeout",
        summary: "Time after which a run has failed",
        details: "it is ended with all processes that it started",
        fits: NO_PATH,
        ..CONDITION
    },
    Factor {
        name: "value",
        lens: lens!(value),
        flag: Some("values"),
        kind: LevelKind::Value,
        defaults: check("4K..1M"),
        heading: "value",
        summary: "Values for {value}: sizes, numbers or words",
        details: "4K is passed on as 4096",
        fits: NO_PATH,
        ..CHOICE
    },
];

fn place_or_auto(text: &str) -> Result<String, NameError> {
    if text == "auto" { Ok(text.into()) } else { text.parse::<Place>().map(|place| place.to_string()) }
}

fn calling_engine(name: &str) -> Result<String, NameError> {
    name.parse::<Engine>().and_then(Engine::for_call).map(|engine| engine.to_string())
}
