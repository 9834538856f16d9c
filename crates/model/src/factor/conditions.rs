//! Rows of the table of factors: conditions of streams and calls, which the environment or the peer sets.

use crate::catalog::{Arrivals, Engine, FdTable, Fill, NameError, Placement, Transport, Work};
use crate::emulated::{LinkRate, LossShare};
use crate::factor::defaults::{both, call, each, everywhere, stream};
use crate::factor::row::{
    BUFFER, BYTE_PATHS, BYTE_STREAMS, CONDITION, CONNECTIONS, DATAGRAMS, ENCRYPTED, FLOWS_MAX, Factor, LOAD_FLOWS_MAX,
    PORTS, ROUTED, SIZE_MAX, SOCKETS, TCP, THREADS, TWO_ENDED,
};
use crate::far::Direction;
use crate::level::LevelKind;
use crate::place::Place;
use crate::program::{ComparedCondition, ConnectionAge, ProgramRole};
use crate::relay::RelayPlacement;
use crate::slo::Slo;
use crate::spec::lens;
use crate::tls::Tls;

/// The first conditions; those of a ring and of a program follow the choices.
pub(super) const CONDITIONS: &[Factor] = &[
    Factor {
        name: "transport",
        lens: lens!(transport),
        kind: LevelKind::Name(|s| s.parse::<Transport>().map(|t| t.to_string())),
        defaults: each("unix,tcp", "tcp,unix"),
        heading: "transport",
        summary: "Path between the ends, or a device or file to read",
        details: "unix, unix-seqpacket, tcp, tcp6, mptcp, vsock, pipe; udp, udp6, unix-dgram carry datagrams; a device such as /dev/zero or any file has one end",
        ..CONDITION
    },
    // Before all factors that it may turn into conditions: those that the peer of a program sets.
    Factor {
        name: "role",
        lens: lens!(role),
        kind: LevelKind::Name(|s| s.parse::<ProgramRole>().map(|role| role.to_string())),
        defaults: stream("both"),
        heading: "program",
        summary: "Your program: reader, writer, relay or both",
        details: "settings of its peer become conditions",
        fits: BYTE_PATHS,
        ..CONDITION
    },
    Factor {
        name: "compare",
        lens: lens!(compare),
        kind: LevelKind::Name(|s| s.parse::<ComparedCondition>().map(|chosen| chosen.to_string())),
        defaults: both("none"),
        heading: "chosen",
        summary: "Condition to compare: transport, flows, placement, …",
        details: "its levels become options of one test; transport, flows, placement, depth, fd-table, tls, relay-placement, client-engine, or none",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "connection_age",
        lens: lens!(connection_age),
        kind: LevelKind::Name(|s| s.parse::<ConnectionAge>().map(|age| age.to_string())),
        defaults: stream("steady"),
        heading: "connection age",
        summary: "Age of the measured connections: steady or fresh",
        details: "fresh: their first milliseconds; steady: after 50 ms",
        fits: BYTE_PATHS,
        ..CONDITION
    },
    Factor {
        name: "placement",
        lens: lens!(placement),
        kind: LevelKind::Name(|s| s.parse::<Placement>().map(|p| p.to_string())),
        // The user's program is not pinned.
        defaults: both("cross-core").and_check("unpinned"),
        heading: "placement",
        summary: "CPUs of the ends: cross-core, same-cpu, unpinned, …",
        details: "unpinned, same-cpu, smt-sibling, cross-core, cross-node",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "fd_table",
        lens: lens!(fd_table),
        kind: LevelKind::Name(|s| s.parse::<FdTable>().map(|table| table.to_string())),
        defaults: both("shared"),
        heading: "fd table",
        summary: "Descriptor table of a thread: shared or private",
        details: "shared with other threads, as in Go and Java programs; private, as in single-threaded programs",
        ..CONDITION
    },
    Factor {
        name: "tls",
        lens: lens!(tls),
        kind: LevelKind::Name(|s| s.parse::<Tls>().map(|tls| tls.to_string())),
        defaults: both("none"),
        heading: "TLS",
        summary: "Encryption of connections: none, rustls or kernel",
        details: "rustls: by the library, engines blocking and, for calls, epoll; kernel: kTLS over TCP, engines blocking and epoll",
        fits: ENCRYPTED,
        ..CONDITION
    },
    Factor {
        name: "profile",
        lens: lens!(profile),
        kind: LevelKind::Name(|s| Ok(s.to_owned())),
        defaults: each("drain,program,parser", "rpc,many-idle"),
        heading: "profile",
        summary: "Named set of conditions: program, drain, parser, rpc, …",
        details: "drain, sum, program, parser, tls of streams; echo, rpc, many-idle, tls-rpc of calls; or one that the plan defines; stream --help and call --help explain them",
        ..CONDITION
    },
    Factor {
        name: "flows",
        lens: lens!(flows),
        kind: LevelKind::Count { min: 1, max: FLOWS_MAX, auto: false },
        defaults: each("1", "50"),
        heading: "flows",
        summary: "Connections that are busy at the same time",
        ..CONDITION
    },
    Factor {
        name: "request",
        lens: lens!(request),
        kind: BUFFER,
        defaults: call("512"),
        heading: "request",
        summary: "Bytes of a request",
        details: "1 B to 16 MiB",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "response",
        lens: lens!(response),
        kind: LevelKind::SizeOr { min: 1, max: SIZE_MAX, name: "same" },
        defaults: call("same"),
        heading: "response",
        summary: "Bytes of a response, or same",
        details: "same: the size of the request, which is echoed",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "request_chunk",
        lens: lens!(request_chunk),
        kind: LevelKind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: call("auto"),
        heading: "chunk",
        summary: "Bytes of each write of a request",
        details: "auto: the whole request in one write",
        fits: CONNECTIONS,
        ..CONDITION
    },
    Factor {
        name: "depth",
        lens: lens!(depth),
        kind: LevelKind::Count { min: 1, max: 4096, auto: false },
        defaults: call("1"),
        heading: "depth",
        summary: "Requests in flight on each connection",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "connect_per_call",
        lens: lens!(connect_per_call),
        kind: LevelKind::Switch { auto: false },
        defaults: call("off"),
        heading: "per call",
        summary: "Open a connection for each call",
        details: "connect, send, receive the reply, close",
        fits: CONNECTIONS,
        ..CONDITION
    },
    // A condition: a fault of a server is no option to choose.
    Factor {
        name: "read_once",
        lens: lens!(read_once),
        kind: LevelKind::Switch { auto: false },
        defaults: call("off"),
        heading: "reads once",
        summary: "Reply after the first read, then close",
        details: "a server without a read loop: bytes that arrive later reset the connection",
        fits: CONNECTIONS,
        ..CONDITION
    },
    Factor {
        name: "idle_flows",
        lens: lens!(idle_flows),
        kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "idle",
        summary: "Connections that are open and never call",
        fits: CONNECTIONS,
        ..CONDITION
    },
    Factor {
        name: "work",
        lens: lens!(work),
        kind: LevelKind::Name(|s| s.parse::<Work>().map(|w| w.to_string())),
        defaults: both("none"),
        heading: "work",
        summary: "Work per read or request: none, sum, copy, 0.5ns",
        details: "of the reader per read, of the server per request; 0.5ns: nanoseconds per byte",
        ..CONDITION
    },
    Factor {
        name: "working_set",
        lens: lens!(working_set),
        kind: LevelKind::Size { min: 0, max: 1 << 30, auto: false },
        defaults: both("0"),
        heading: "working set",
        summary: "Bytes of state touched per read or request",
        details: "private memory of each connection, touched by the reader per read, by the server per request",
        ..CONDITION
    },
    Factor {
        name: "writer_work",
        lens: lens!(writer_work),
        kind: LevelKind::Name(|s| s.parse::<Fill>().map(|w| w.to_string())),
        defaults: stream("none"),
        heading: "writer work",
        summary: "Work per write: none, touch, 0.5ns",
        details: "touch: write every byte; 0.5ns: nanoseconds per byte",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "call_work",
        lens: lens!(call_work),
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: stream("0ns"),
        heading: "call work",
        summary: "CPU time of the program itself per read or write (1us)",
        details: "at both ends: programs also wait in poll, keep accounts and allocate between two calls",
        fits: BYTE_STREAMS,
        ..CONDITION
    },
    // Before the rate, which has no effect with it.
    Factor {
        name: "max_loss",
        lens: lens!(max_loss),
        kind: LevelKind::Name(loss_or_none),
        defaults: stream("none"),
        heading: "max loss",
        summary: "Share of datagrams that may be lost: 0.1%, or none",
        details: "searches for the highest rate that keeps it",
        fits: DATAGRAMS,
        ..CONDITION
    },
    Factor {
        name: "rate",
        lens: lens!(rate),
        kind: LevelKind::Rate { word: "max" },
        defaults: stream("max"),
        heading: "rate",
        summary: "Offered load of all connections: bytes/s, or max",
        details: "100M is 100 MiB/s, 100Mbit is 100,000,000 bit/s",
        fits: TWO_ENDED,
        ..CONDITION
    },
    // Before the rate, the arrivals and the pause, which have no effect with it, or only with it.
    Factor {
        name: "slo",
        lens: lens!(slo),
        kind: LevelKind::Name(slo_or_none),
        defaults: call("none"),
        heading: "slo",
        summary: "Latency to keep, such as p99=2ms, or none",
        details: "searches for the highest rate that keeps it; p50, p90, p99, p99.9, p99.99",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "call_rate",
        lens: lens!(call_rate),
        flag: Some("rate"),
        kind: LevelKind::CallRate,
        defaults: call("max"),
        heading: "rate",
        summary: "Offered load of all connections: calls/s, or max",
        details: "20k is 20,000 calls/s; max: the next call waits for the reply",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "arrivals",
        lens: lens!(arrivals),
        kind: LevelKind::Name(|s| s.parse::<Arrivals>().map(|a| a.to_string())),
        defaults: call("constant"),
        heading: "arrivals",
        summary: "Spacing of offered calls: constant or poisson",
        details: "needs --rate or --slo",
        fits: SOCKETS,
        ..CONDITION
    },
    // Before the time between bursts, which has no effect without them.
    Factor {
        name: "burst",
        lens: lens!(burst),
        kind: LevelKind::Count { min: 1, max: 1_000_000, auto: true },
        defaults: stream("auto"),
        heading: "burst",
        summary: "Writes or datagrams of one burst, or auto: no bursts",
        details: "each connection writes them without a pause, then waits for the next burst (--every)",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "every",
        lens: lens!(every),
        kind: LevelKind::Duration { min_ns: 100_000, max_ns: 1_000_000_000, auto: false },
        defaults: stream("10ms"),
        heading: "burst every",
        summary: "Time from one burst to the next, such as 10ms",
        details: "needs --burst; a burst that is late is not skipped",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "think_time",
        lens: lens!(think_time),
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("0ns"),
        heading: "think time",
        summary: "Pause between two writes or calls",
        details: "of the writer, of each client (50us)",
        fits: TWO_ENDED,
        ..CONDITION
    },
    Factor {
        name: "timeout",
        lens: lens!(timeout),
        kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 600_000_000_000, auto: false },
        // Datagrams are not retransmitted: a flow that waits long for a lost one measures its own timeout.
        defaults: call("5s").datagrams("250ms"),
        heading: "timeout",
        summary: "Time after which a call has failed",
        details: "over datagrams, losses are noticed by it",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "competing_flows",
        lens: lens!(competing_flows),
        kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "competing",
        summary: "Connections of a second client process",
        details: "to the same server",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "load_flows",
        lens: lens!(load_flows),
        kind: LevelKind::Count { min: 0, max: LOAD_FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "load",
        summary: "Streams each way on the path of the calls",
        details: "0: the path is idle; 0,8 measures calls on both, the idle and the loaded path",
        fits: TCP,
        ..CONDITION
    },
    // The client measures the server, and a server cannot choose its clients, so the client's engine is a condition.
    // Two engines make two groups; their difference shows what the client adds.
    Factor {
        name: "client_engine",
        lens: lens!(client_engine),
        kind: LevelKind::Name(calling_engine),
        defaults: call("epoll").datagrams("plain"),
        heading: "client",
        summary: "How the client moves bytes: epoll, blocking, …",
        details: "the client measures, so this is a condition, unless --compare client-engine asks for it; stream --help and call --help explain the names",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "client_threads",
        lens: lens!(client_threads),
        kind: THREADS,
        defaults: call("1"),
        heading: "client threads",
        summary: "Threads of the client",
        details: "a blocking client has one for each connection",
        fits: SOCKETS,
        ..CONDITION
    },
    Factor {
        name: "relay_placement",
        lens: lens!(relay_placement),
        kind: LevelKind::Name(|s| s.parse::<RelayPlacement>().map(|place| place.to_string())),
        defaults: both("unpinned"),
        heading: "relay at",
        summary: "CPU of the relay: unpinned, own, client, server, …",
        details: "own: a CPU that neither end uses; follows: the CPU where the data arrives; needs --relay",
        fits: CONNECTIONS,
        ..CONDITION
    },
    Factor {
        name: "relay_host",
        lens: lens!(relay_host),
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "relay host",
        summary: "Agent that runs the relay, HOST:PORT",
        details: "auto: this host; needs --relay and --key-file (docs/far-host.md)",
        fits: TCP,
        ..CONDITION
    },
    Factor {
        name: "host",
        lens: lens!(host),
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "host",
        summary: "Agent that runs one end, HOST:PORT",
        details: "auto: both ends on this host; needs --key-file (docs/far-host.md)",
        fits: PORTS,
        ..CONDITION
    },
    Factor {
        name: "direction",
        lens: lens!(direction),
        kind: LevelKind::Name(|s| s.parse::<Direction>().map(|direction| direction.to_string())),
        defaults: both("to"),
        heading: "direction",
        summary: "Direction to or from --host, or both",
        details: "of bytes or calls; both: of streams",
        fits: PORTS,
        ..CONDITION
    },
    Factor {
        name: "link_delay",
        lens: lens!(link_delay),
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("10ms"),
        heading: "link delay",
        summary: "Round-trip time of an emulated link, such as 10ms",
        details: "docs/emulated-link.md",
        fits: ROUTED,
        ..CONDITION
    },
    Factor {
        name: "link_loss",
        lens: lens!(link_loss),
        kind: LevelKind::Name(|s| s.parse::<LossShare>().map(|loss| loss.to_string())),
        defaults: both("0%"),
        heading: "link loss",
        summary: "Share of packets that an emulated link loses: 0.1%",
        details: "in each direction",
        fits: ROUTED,
        ..CONDITION
    },
    Factor {
        name: "link_rate",
        lens: lens!(link_rate),
        kind: LevelKind::Name(|s| s.parse::<LinkRate>().map(|rate| rate.to_string())),
        defaults: both("1Gbit"),
        heading: "link rate",
        summary: "Bits per second of an emulated link: 100Mbit",
        details: "in each direction",
        fits: ROUTED,
        ..CONDITION
    },
    Factor {
        name: "duration",
        lens: lens!(duration),
        flag: Some("trial-time"),
        kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
        defaults: everywhere("auto"),
        heading: "duration",
        summary: "Measured time of one trial, or auto",
        details: "auto: the design chooses",
        ..CONDITION
    },
];

fn place_or_auto(text: &str) -> Result<String, NameError> {
    if text == "auto" { Ok(text.into()) } else { text.parse::<Place>().map(|place| place.to_string()) }
}

fn slo_or_none(text: &str) -> Result<String, NameError> {
    if text == "none" { Ok(text.into()) } else { text.parse::<Slo>().map(|slo| slo.to_string()) }
}

fn loss_or_none(text: &str) -> Result<String, NameError> {
    if text == "none" { Ok(text.into()) } else { text.parse::<LossShare>().map(|share| share.to_string()) }
}

fn calling_engine(name: &str) -> Result<String, NameError> {
    name.parse::<Engine>().and_then(Engine::for_call).map(|engine| engine.to_string())
}
