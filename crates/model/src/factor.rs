//! The table of factors: everything that can be varied, with its role, its levels and its help.
//!
//! A factor is declared here and applied in `traffic`; flags, TOML keys, JSON keys, validation and the
//! documentation walk this table. `choice`: the user may set it. `condition`: the environment or the peer sets it; cells
//! that agree in every condition form a group, within which options are compared. A row states in which workloads the
//! factor has a meaning and what its default is there. A flag with two meanings (`--rate` in bytes or in calls) has two
//! rows, distinguished by the workload.
//!
//! Long because it is one table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::{Arrivals, Engine, FdTable, Fill, NameError, Placement, RcvbufOn, Transport, Work};
use crate::emulated::{LinkLoss, LinkRate};
use crate::far::Direction;
use crate::level::{Level, LevelKind};
use crate::option::OPTIONS;
use crate::place::Place;
use crate::program::{ComparedCondition, ConnectionAge, ProgramRole};
use crate::relay::{RelayPlacement, RelayThreads};
use crate::relay_program::relay_name;
use crate::ring::{ENTRIES_MAX, Implementation, Mode, RingFlags, UserData};
use crate::slo::Slo;
use crate::spec::{LENSES, Lens, Spec, lens};
use crate::workload::{WORKLOADS, Workload};

/// Whether the user may set a factor, or the environment or the peer sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Compared within a group; the recommendation names it.
    Choice,
    /// Defines the group.
    Condition,
}

/// The default list of levels in each workload; where it is `None` the factor has no meaning.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// In `stream`.
    pub stream: Option<&'static str>,
    /// In `call`.
    pub call: Option<&'static str>,
    /// Over datagrams, in those workloads in which the factor has a meaning; `None`: the same.
    pub datagrams: Option<&'static str>,
    /// In `ring`.
    pub ring: Option<&'static str>,
    /// In `check`.
    pub check: Option<&'static str>,
}

const NOWHERE: Defaults = Defaults { stream: None, call: None, datagrams: None, ring: None, check: None };

impl Defaults {
    /// The same, with another list over datagrams.
    const fn datagrams(self, text: &'static str) -> Defaults {
        Defaults { datagrams: Some(text), ..self }
    }

    /// The same, and in `check`.
    const fn and_check(self, text: &'static str) -> Defaults {
        Defaults { check: Some(text), ..self }
    }
}

pub(crate) const fn both(text: &'static str) -> Defaults {
    each(text, text)
}

const fn everywhere(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..both(text) }
}

const fn each(stream: &'static str, call: &'static str) -> Defaults {
    Defaults { stream: Some(stream), call: Some(call), ..NOWHERE }
}

pub(crate) const fn stream(text: &'static str) -> Defaults {
    Defaults { stream: Some(text), ..NOWHERE }
}

pub(crate) const fn call(text: &'static str) -> Defaults {
    Defaults { call: Some(text), ..NOWHERE }
}

const fn ring(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..NOWHERE }
}

const fn check(text: &'static str) -> Defaults {
    Defaults { check: Some(text), ..NOWHERE }
}

/// One thing that can be varied.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The key in JSON (`read_size`), and in TOML unless the flag differs.
    pub name: &'static str,
    /// The field of a spec that holds its level.
    pub lens: Lens,
    /// The flag, where it is not the name with dashes: another row has that name in another workload.
    pub flag: Option<&'static str>,
    /// Choice or condition.
    pub role: Role,
    /// How levels are read, bounded and printed.
    pub kind: LevelKind,
    /// The default list of levels of a plan that does not name the factor.
    pub defaults: Defaults,
    /// A short column heading.
    pub heading: &'static str,
    /// A summary of at most 60 characters.
    pub summary: &'static str,
    /// Details in addition to the summary; may be empty.
    pub details: &'static str,
    /// The transports that it applies to; it is absent for others. Not used in a workload without a path.
    pub fits: fn(&Transport) -> bool,
}

impl Factor {
    /// The summary with the details.
    pub fn description(&self) -> String {
        if self.details.is_empty() { self.summary.to_owned() } else { format!("{}; {}", self.summary, self.details) }
    }

    /// The long flag, without its two dashes: `read-size`.
    pub fn flag(&self) -> String {
        self.flag.unwrap_or(self.name).replace('_', "-")
    }

    /// The default list of levels in a workload; `None` where the factor has no meaning.
    pub fn default_in(&self, workload: Workload) -> Option<&'static str> {
        match workload {
            Workload::Stream => self.defaults.stream,
            Workload::Call => self.defaults.call,
            Workload::Ring => self.defaults.ring,
            Workload::Check => self.defaults.check,
        }
    }

    /// The default list of levels in a workload over a transport, or without one; `None` where the factor has no
    /// meaning.
    pub fn default_over(&self, workload: Workload, transport: Option<&Transport>) -> Option<&'static str> {
        let default = self.default_in(workload)?;
        Some(self.defaults.datagrams.filter(|_| transport.is_some_and(Transport::is_datagram)).unwrap_or(default))
    }

    /// Whether the factor has a meaning in a workload.
    pub fn is_in(&self, workload: Workload) -> bool {
        self.default_in(workload).is_some()
    }

    /// Whether the factor has a meaning in a workload over a transport, or without one.
    pub fn applies(&self, workload: Workload, transport: Option<&Transport>) -> bool {
        self.is_in(workload) && transport.is_none_or(|transport| (self.fits)(transport))
    }
}

/// The largest buffer of one call.
pub const SIZE_MAX: u64 = 16 << 20;

/// No end can have more flows than this: local ports and descriptors have 16 bits.
const FLOWS_MAX: u64 = 65_536;

// Each has a thread for either direction at both ends.
const LOAD_FLOWS_MAX: u64 = 1_024;
const THREADS: LevelKind = LevelKind::Count { min: 1, max: 1024, auto: false };

const EVERYWHERE: fn(&Transport) -> bool = |_| true;
pub(crate) const SOCKETS: fn(&Transport) -> bool = Transport::is_socket;
pub(crate) const CONNECTIONS: fn(&Transport) -> bool = Transport::is_connection;
const DATAGRAMS: fn(&Transport) -> bool = Transport::is_datagram;
pub(crate) const TCP: fn(&Transport) -> bool = Transport::is_tcp;
pub(crate) const PORTS: fn(&Transport) -> bool = |transport| transport.is_tcp() || transport.is_udp();
// An emulated link has IPv4 addresses.
const ROUTED: fn(&Transport) -> bool =
    |transport| matches!(transport, Transport::Tcp | Transport::Mptcp | Transport::Udp);
const TWO_ENDED: fn(&Transport) -> bool = Transport::two_ended;
const BYTE_PATHS: fn(&Transport) -> bool = |transport| transport.two_ended() && !transport.is_datagram();
const BYTE_STREAMS: fn(&Transport) -> bool = |transport| !transport.is_datagram();
const NO_PATH: fn(&Transport) -> bool = |_| false;
const BUFFER: LevelKind = LevelKind::Size { min: 1, max: SIZE_MAX, auto: false };
pub(crate) const SOCKET_BUFFER: LevelKind = LevelKind::Size { min: 1, max: 1 << 30, auto: true };

/// Every factor, in the order in which they are printed.
pub const FACTORS: &[Factor] = &{
    let mut all = [BEFORE_OPTIONS[0]; BEFORE_OPTIONS.len() + OPTIONS.len() + AFTER_OPTIONS.len()];
    let mut at = 0;
    while at < all.len() {
        let (option, after) = (at.wrapping_sub(BEFORE_OPTIONS.len()), BEFORE_OPTIONS.len() + OPTIONS.len());
        all[at] = match at {
            _ if at < BEFORE_OPTIONS.len() => BEFORE_OPTIONS[at],
            _ if at < after => OPTIONS[option].as_factor(LENSES[at]),
            _ => AFTER_OPTIONS[at - after],
        };
        at += 1;
    }
    all
};

/// The factors that precede the options.
const BEFORE_OPTIONS: &[Factor] = &[
    Factor {
        name: "transport",
        lens: lens!(transport),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Transport>().map(|t| t.to_string())),
        defaults: each("unix,tcp", "tcp,unix"),
        heading: "transport",
        summary: "Path between the ends, or a device or file to read",
        details: "unix, unix-seqpacket, tcp, tcp6, mptcp, vsock, pipe; udp, udp6, unix-dgram carry datagrams; a device such as /dev/zero or any file has one end",
        fits: EVERYWHERE,
    },
    // Before all factors that it may turn into conditions: those that the peer of a program sets.
    Factor {
        name: "role",
        lens: lens!(role),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<ProgramRole>().map(|role| role.to_string())),
        defaults: stream("both"),
        heading: "program",
        summary: "Your program: reader, writer, relay or both",
        details: "settings of its peer become conditions",
        fits: BYTE_PATHS,
    },
    Factor {
        name: "compare",
        lens: lens!(compare),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<ComparedCondition>().map(|chosen| chosen.to_string())),
        defaults: both("none"),
        heading: "chosen",
        summary: "Condition to compare: transport, flows, placement, …",
        details: "its levels become options of one test; transport, flows, placement, depth, fd-table, relay-placement, or none",
        fits: TWO_ENDED,
    },
    Factor {
        name: "connection_age",
        lens: lens!(connection_age),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<ConnectionAge>().map(|age| age.to_string())),
        defaults: stream("steady"),
        heading: "connection age",
        summary: "Age of the measured connections: steady or fresh",
        details: "fresh: their first milliseconds; steady: after 50 ms",
        fits: BYTE_PATHS,
    },
    Factor {
        name: "placement",
        lens: lens!(placement),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Placement>().map(|p| p.to_string())),
        // The user's program is not pinned.
        defaults: both("cross-core").and_check("unpinned"),
        heading: "placement",
        summary: "CPUs of the ends: cross-core, same-cpu, unpinned, …",
        details: "unpinned, same-cpu, smt-sibling, cross-core, cross-node",
        fits: TWO_ENDED,
    },
    Factor {
        name: "fd_table",
        lens: lens!(fd_table),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<FdTable>().map(|table| table.to_string())),
        defaults: both("shared"),
        heading: "fd table",
        summary: "Descriptor table of a thread: shared or private",
        details: "shared with other threads, as in Go and Java programs; private, as in single-threaded programs",
        fits: EVERYWHERE,
    },
    Factor {
        name: "profile",
        lens: lens!(profile),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| Ok(s.to_owned())),
        defaults: each("drain,program,parser", "rpc,many-idle"),
        heading: "profile",
        summary: "Named set of conditions: program, drain, parser, rpc, …",
        details: "drain, sum, program, parser of streams; echo, rpc, many-idle of calls; or one that the plan defines",
        fits: EVERYWHERE,
    },
    Factor {
        name: "flows",
        lens: lens!(flows),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 1, max: FLOWS_MAX, auto: false },
        defaults: each("1", "50"),
        heading: "flows",
        summary: "Connections that are busy at the same time",
        details: "",
        fits: EVERYWHERE,
    },
    Factor {
        name: "request",
        lens: lens!(request),
        flag: None,
        role: Role::Condition,
        kind: BUFFER,
        defaults: call("512"),
        heading: "request",
        summary: "Bytes of a request",
        details: "1 B to 16 MiB",
        fits: SOCKETS,
    },
    Factor {
        name: "response",
        lens: lens!(response),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::SizeOr { min: 1, max: SIZE_MAX, name: "same" },
        defaults: call("same"),
        heading: "response",
        summary: "Bytes of a response, or same",
        details: "same: the size of the request, which is echoed",
        fits: SOCKETS,
    },
    Factor {
        name: "request_chunk",
        lens: lens!(request_chunk),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: call("auto"),
        heading: "chunk",
        summary: "Bytes of each write of a request",
        details: "auto: the whole request in one write",
        fits: CONNECTIONS,
    },
    Factor {
        name: "depth",
        lens: lens!(depth),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 1, max: 4096, auto: false },
        defaults: call("1"),
        heading: "depth",
        summary: "Requests in flight on each connection",
        details: "",
        fits: SOCKETS,
    },
    Factor {
        name: "connect_per_call",
        lens: lens!(connect_per_call),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Switch { auto: false },
        defaults: call("off"),
        heading: "per call",
        summary: "Open a connection for each call",
        details: "connect, send, receive the reply, close",
        fits: CONNECTIONS,
    },
    // A condition: a fault of a server is no option to choose.
    Factor {
        name: "read_once",
        lens: lens!(read_once),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Switch { auto: false },
        defaults: call("off"),
        heading: "reads once",
        summary: "Reply after the first read, then close",
        details: "a server without a read loop: bytes that arrive later reset the connection",
        fits: CONNECTIONS,
    },
    Factor {
        name: "idle_flows",
        lens: lens!(idle_flows),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "idle",
        summary: "Connections that are open and never call",
        details: "",
        fits: CONNECTIONS,
    },
    Factor {
        name: "work",
        lens: lens!(work),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Work>().map(|w| w.to_string())),
        defaults: both("none"),
        heading: "work",
        summary: "Work per read or request: none, sum, copy, 0.5ns",
        details: "of the reader per read, of the server per request; 0.5ns: nanoseconds per byte",
        fits: EVERYWHERE,
    },
    Factor {
        name: "working_set",
        lens: lens!(working_set),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Size { min: 0, max: 1 << 30, auto: false },
        defaults: both("0"),
        heading: "working set",
        summary: "Bytes of state touched per read or request",
        details: "private memory of each connection, touched by the reader per read, by the server per request",
        fits: EVERYWHERE,
    },
    Factor {
        name: "writer_work",
        lens: lens!(writer_work),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Fill>().map(|w| w.to_string())),
        defaults: stream("none"),
        heading: "writer work",
        summary: "Work per write: none, touch, 0.5ns",
        details: "touch: write every byte; 0.5ns: nanoseconds per byte",
        fits: TWO_ENDED,
    },
    Factor {
        name: "call_work",
        lens: lens!(call_work),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: stream("0ns"),
        heading: "call work",
        summary: "CPU time of the program itself per read or write (1us)",
        details: "at both ends: programs also wait in poll, keep accounts and allocate between two calls",
        fits: BYTE_STREAMS,
    },
    Factor {
        name: "rate",
        lens: lens!(rate),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Rate { word: "max" },
        defaults: stream("max"),
        heading: "rate",
        summary: "Offered load of all connections: bytes/s, or max",
        details: "100M is 100 MiB/s, 100Mbit is 100,000,000 bit/s",
        fits: TWO_ENDED,
    },
    // Before the rate, the arrivals and the pause, which have no effect with it, or only with it.
    Factor {
        name: "slo",
        lens: lens!(slo),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(slo_or_none),
        defaults: call("none"),
        heading: "slo",
        summary: "Latency to keep, such as p99=2ms, or none",
        details: "searches for the highest rate that keeps it; p50, p90, p99, p99.9, p99.99",
        fits: SOCKETS,
    },
    Factor {
        name: "call_rate",
        lens: lens!(call_rate),
        flag: Some("rate"),
        role: Role::Condition,
        kind: LevelKind::CallRate,
        defaults: call("max"),
        heading: "rate",
        summary: "Offered load of all connections: calls/s, or max",
        details: "20k is 20,000 calls/s; max: the next call waits for the reply",
        fits: SOCKETS,
    },
    Factor {
        name: "arrivals",
        lens: lens!(arrivals),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Arrivals>().map(|a| a.to_string())),
        defaults: call("constant"),
        heading: "arrivals",
        summary: "Spacing of offered calls: constant or poisson",
        details: "needs --rate or --slo",
        fits: SOCKETS,
    },
    // Before the time between bursts, which has no effect without them.
    Factor {
        name: "burst",
        lens: lens!(burst),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 1, max: 1_000_000, auto: true },
        defaults: stream("auto"),
        heading: "burst",
        summary: "Writes or datagrams of one burst, or auto: no bursts",
        details: "each connection writes them without a pause, then waits for the next burst (--every)",
        fits: TWO_ENDED,
    },
    Factor {
        name: "every",
        lens: lens!(every),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 100_000, max_ns: 1_000_000_000, auto: false },
        defaults: stream("10ms"),
        heading: "burst every",
        summary: "Time from one burst to the next, such as 10ms",
        details: "needs --burst; a burst that is late is not skipped",
        fits: TWO_ENDED,
    },
    Factor {
        name: "think_time",
        lens: lens!(think_time),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("0ns"),
        heading: "think time",
        summary: "Pause between two writes or calls",
        details: "of the writer, of each client (50us)",
        fits: TWO_ENDED,
    },
    Factor {
        name: "timeout",
        lens: lens!(timeout),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 600_000_000_000, auto: false },
        // Datagrams are not retransmitted: a flow that waits long for a lost one measures its own timeout.
        defaults: call("5s").datagrams("250ms"),
        heading: "timeout",
        summary: "Time after which a call has failed",
        details: "over datagrams, losses are noticed by it",
        fits: SOCKETS,
    },
    Factor {
        name: "competing_flows",
        lens: lens!(competing_flows),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "competing",
        summary: "Connections of a second client process",
        details: "to the same server",
        fits: SOCKETS,
    },
    Factor {
        name: "load_flows",
        lens: lens!(load_flows),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Count { min: 0, max: LOAD_FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "load",
        summary: "Streams each way on the path of the calls",
        details: "0: the path is idle; 0,8 measures calls on both, the idle and the loaded path",
        fits: TCP,
    },
    // The client measures the server, and a server cannot choose its clients, so the client's engine is a condition.
    // Two engines make two groups; their difference shows what the client adds.
    Factor {
        name: "client_engine",
        lens: lens!(client_engine),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(calling_engine),
        defaults: call("epoll").datagrams("plain"),
        heading: "client",
        summary: "How the client moves bytes: epoll, blocking, …",
        details: "the client measures, so this is a condition; docs/factors.md lists the engines",
        fits: SOCKETS,
    },
    Factor {
        name: "client_threads",
        lens: lens!(client_threads),
        flag: None,
        role: Role::Condition,
        kind: THREADS,
        defaults: call("1"),
        heading: "client threads",
        summary: "Threads of the client",
        details: "a blocking client has one for each connection",
        fits: SOCKETS,
    },
    Factor {
        name: "relay_placement",
        lens: lens!(relay_placement),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<RelayPlacement>().map(|place| place.to_string())),
        defaults: both("unpinned"),
        heading: "relay at",
        summary: "CPU of the relay: unpinned, own, client, server, …",
        details: "own: a CPU that neither end uses; follows: the CPU where the data arrives; needs --relay",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_host",
        lens: lens!(relay_host),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "relay host",
        summary: "Agent that runs the relay, HOST:PORT",
        details: "auto: this host; needs --relay and --key-file (docs/far-host.md)",
        fits: TCP,
    },
    Factor {
        name: "host",
        lens: lens!(host),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "host",
        summary: "Agent that runs one end, HOST:PORT",
        details: "auto: both ends on this host; needs --key-file (docs/far-host.md)",
        fits: PORTS,
    },
    Factor {
        name: "direction",
        lens: lens!(direction),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Direction>().map(|direction| direction.to_string())),
        defaults: both("to"),
        heading: "direction",
        summary: "Direction to or from --host, or both",
        details: "of bytes or calls; both: of streams",
        fits: PORTS,
    },
    Factor {
        name: "link_delay",
        lens: lens!(link_delay),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("10ms"),
        heading: "link delay",
        summary: "Round-trip time of an emulated link, such as 10ms",
        details: "docs/emulated-link.md",
        fits: ROUTED,
    },
    Factor {
        name: "link_loss",
        lens: lens!(link_loss),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<LinkLoss>().map(|loss| loss.to_string())),
        defaults: both("0%"),
        heading: "link loss",
        summary: "Share of packets that an emulated link loses: 0.1%",
        details: "in each direction",
        fits: ROUTED,
    },
    Factor {
        name: "link_rate",
        lens: lens!(link_rate),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<LinkRate>().map(|rate| rate.to_string())),
        defaults: both("1Gbit"),
        heading: "link rate",
        summary: "Bits per second of an emulated link: 100Mbit",
        details: "in each direction",
        fits: ROUTED,
    },
    Factor {
        name: "duration",
        lens: lens!(duration),
        flag: Some("trial-time"),
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
        defaults: everywhere("auto"),
        heading: "duration",
        summary: "Measured time of one trial, or auto",
        details: "auto: the design chooses",
        fits: EVERYWHERE,
    },
    Factor {
        name: "engine",
        lens: lens!(engine),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(|s| s.parse::<Engine>().map(|e| e.to_string())),
        defaults: stream("blocking").datagrams("plain,mmsg,gso"),
        heading: "engine",
        summary: "How the ends move bytes: blocking, epoll, uring, …",
        details: "docs/factors.md lists the engines",
        fits: EVERYWHERE,
    },
    // A choice: the given servers are compared. Before the other factors of the server, which have no effect with it.
    Factor {
        name: "connect",
        lens: lens!(connect),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "server at",
        summary: "External server: HOST:PORT, unix:/path or iperf3://HOST",
        details: "it echoes calls or returns --response bytes; it reads streams; an iperf3 server reads, or with --role reader writes (docs/iperf3.md)",
        fits: SOCKETS,
    },
    // A choice: the author of a relay decides how it copies.
    Factor {
        name: "relay",
        lens: lens!(relay),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(relay_name),
        defaults: both("direct"),
        heading: "relay",
        summary: "How a relay copies: splice, epoll, …, all, or direct",
        details: "docs/relays.md lists the methods; direct: no relay; all: every method; or a program such as haproxy, cmd:WORDS with {listen} and {upstream}, or addr:LISTEN=UPSTREAM for a relay that runs already",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_threads",
        lens: lens!(relay_threads),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(|s| s.parse::<RelayThreads>().map(|threads| threads.to_string())),
        defaults: both("direction"),
        heading: "relay threads",
        summary: "Threads of the relay: direction, one or cpus",
        details: "direction: a thread for each direction of each connection; one: a single thread with epoll; cpus: such a thread for each CPU",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_buffer",
        lens: lens!(relay_buffer),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: both("auto"),
        heading: "relay buffer",
        summary: "Bytes of the relay's buffer for each direction",
        details: "auto: 64 KiB; for tokio 8 KiB, its own default",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_pipe",
        lens: lens!(relay_pipe),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: both("auto"),
        heading: "relay pipe",
        summary: "Capacity of each pipe of a relay that splices",
        details: "F_SETPIPE_SZ; auto: the kernel's 64 KiB",
        fits: CONNECTIONS,
    },
    Factor {
        name: "server_engine",
        lens: lens!(server_engine),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(calling_engine),
        defaults: call("blocking,epoll,uring,tokio").datagrams("plain,mmsg,uring:plain,uring:multishot"),
        heading: "server",
        summary: "How the server moves bytes: epoll, uring, tokio, …",
        details: "docs/factors.md lists the engines",
        fits: SOCKETS,
    },
    Factor {
        name: "server_threads",
        lens: lens!(server_threads),
        flag: None,
        role: Role::Choice,
        kind: THREADS,
        defaults: call("1"),
        heading: "threads",
        summary: "Threads of the server",
        details: "a blocking server has one for each connection",
        fits: SOCKETS,
    },
    Factor {
        name: "read_size",
        lens: lens!(read_size),
        flag: None,
        role: Role::Choice,
        kind: BUFFER,
        defaults: each("4K..1M", "64K").datagrams("64K"),
        heading: "read",
        summary: "Bytes of one read",
        details: "1 B to 16 MiB; a longer datagram is cut off",
        fits: EVERYWHERE,
    },
    Factor {
        name: "write_size",
        lens: lens!(write_size),
        flag: None,
        role: Role::Choice,
        kind: BUFFER,
        defaults: stream("16K..1M").datagrams("64,512,1000,4K,16K,60K"),
        heading: "write",
        summary: "Bytes of one write, or of one datagram",
        details: "1 B to 16 MiB; one-ended transports have none",
        fits: TWO_ENDED,
    },
    Factor {
        name: "batch",
        lens: lens!(batch),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Count { min: 1, max: 1024, auto: true },
        defaults: both("auto"),
        heading: "batch",
        summary: "Datagrams of one system call of mmsg or gso",
        details: "for gso, segments of one send, at most 64 and 64 KiB together; auto: 64, or what fits",
        fits: DATAGRAMS,
    },
    Factor {
        name: "outstanding",
        lens: lens!(outstanding),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Count { min: 1, max: 4096, auto: false },
        defaults: both("64"),
        heading: "outstanding",
        summary: "Receives of datagrams that io_uring keeps in flight",
        details: "for multishot, the buffers that it may fill",
        fits: DATAGRAMS,
    },
];

/// The factors that follow the options.
const AFTER_OPTIONS: &[Factor] = &[
    Factor {
        name: "rcvbuf_on",
        lens: lens!(rcvbuf_on),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(|s| s.parse::<RcvbufOn>().map(|on| on.to_string())),
        defaults: call("listener"),
        heading: "SO_RCVBUF on",
        summary: "Socket with SO_RCVBUF: listener, accepted or client",
        details: "listener: accepted sockets inherit it, and the window scale is fixed by it",
        fits: CONNECTIONS,
    },
    Factor {
        name: "backlog",
        lens: lens!(backlog),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
        defaults: call("auto"),
        heading: "backlog",
        summary: "Connections that may wait for accept, or auto",
        details: "listen(2); auto: the largest that the system allows",
        fits: CONNECTIONS,
    },
    // Requirements of a program on its ring are conditions: whether it must find out which operation completed, and whether it
    // reads completions at all. The size of the ring, its flags and the code that drives it are choices.
    Factor {
        name: "mode",
        lens: lens!(mode),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<Mode>().map(|mode| mode.to_string())),
        defaults: ring("ceiling,checked"),
        heading: "mode",
        summary: "Loop of the ring: ceiling or checked",
        details: "ceiling: counts completions only; checked: fills whole entries and compares every completion",
        fits: NO_PATH,
    },
    Factor {
        name: "user_data",
        lens: lens!(user_data),
        flag: None,
        role: Role::Condition,
        kind: LevelKind::Name(|s| s.parse::<UserData>().map(|data| data.to_string())),
        defaults: ring("none"),
        heading: "user data",
        summary: "User data of operations: none, unique or boxed",
        details: "unique: a number; boxed: an object on the heap",
        fits: NO_PATH,
    },
    Factor {
        name: "entries",
        lens: lens!(entries),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::PowerOfTwo { max: ENTRIES_MAX },
        defaults: ring("1,64..4096"),
        heading: "entries",
        summary: "Submission entries of the ring, a power of two",
        details: "completion entries are twice as many",
        fits: NO_PATH,
    },
    Factor {
        name: "submit_batch",
        lens: lens!(submit_batch),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Count { min: 1, max: ENTRIES_MAX, auto: true },
        defaults: ring("auto"),
        heading: "batch",
        summary: "Operations of one submission, or auto",
        details: "at most --entries; auto: as many as --entries",
        fits: NO_PATH,
    },
    Factor {
        name: "implementation",
        lens: lens!(implementation),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(|s| s.parse::<Implementation>().map(|name| name.to_string())),
        defaults: ring("raw,io-uring,liburing"),
        heading: "ring",
        summary: "Code that drives the ring: raw, io-uring, liburing",
        details: "liburing-undrained is never compared (docs/factors.md)",
        fits: NO_PATH,
    },
    Factor {
        name: "setup",
        lens: lens!(setup),
        flag: None,
        role: Role::Choice,
        kind: LevelKind::Name(|s| s.parse::<RingFlags>().map(|setup| setup.to_string())),
        defaults: ring("default,single-issuer"),
        heading: "set-up",
        summary: "Set-up flags of the ring",
        details: "default, single-issuer, coop, sqpoll, no-sqarray, registered, or several joined by +",
        fits: NO_PATH,
    },
    Factor {
        name: "run_timeout",
        lens: lens!(run_timeout),
        flag: Some("timeout"),
        role: Role::Condition,
        kind: LevelKind::Duration { min_ns: 10_000_000, max_ns: 3_600_000_000_000, auto: false },
        defaults: check("60s"),
        heading: "timeout",
        summary: "Time after which a run has failed",
        details: "it is ended with all processes that it started",
        fits: NO_PATH,
    },
    Factor {
        name: "value",
        lens: lens!(value),
        flag: Some("values"),
        role: Role::Choice,
        kind: LevelKind::Value,
        defaults: check("4K..1M"),
        heading: "value",
        summary: "Values for {value}: sizes, numbers or words",
        details: "4K is passed on as 4096",
        fits: NO_PATH,
    },
];

fn place_or_auto(text: &str) -> Result<String, NameError> {
    if text == "auto" { Ok(text.into()) } else { text.parse::<Place>().map(|place| place.to_string()) }
}

fn slo_or_none(text: &str) -> Result<String, NameError> {
    if text == "none" { Ok(text.into()) } else { text.parse::<Slo>().map(|slo| slo.to_string()) }
}

fn calling_engine(name: &str) -> Result<String, NameError> {
    name.parse::<Engine>().and_then(Engine::for_call).map(|engine| engine.to_string())
}

/// The factors of a workload, in the order of the table.
pub fn of(workload: Workload) -> impl Iterator<Item = &'static Factor> {
    FACTORS.iter().filter(move |factor| factor.is_in(workload))
}

/// The factor of that name; dashes and underscores are the same.
pub fn find(name: &str) -> Option<&'static Factor> {
    let name = name.replace('-', "_");
    FACTORS.iter().find(|factor| factor.name == name)
}

/// The factors that a flag, or a key of a plan, sets in a workload: usually one. `engine` means both ends, which in
/// `call` are two factors. Empty for an unknown name.
pub fn named(workload: Workload, flag: &str) -> Vec<&'static Factor> {
    let flag = flag.replace('_', "-");
    let ends: &[&str] = match (workload, flag.as_str()) {
        (Workload::Call, "engine") => &["server-engine", "client-engine"],
        _ => &[&flag],
    };
    of(workload).filter(|factor| ends.contains(&factor.flag().as_str())).collect()
}

/// Another workload in which a flag has a meaning.
pub fn elsewhere(workload: Workload, flag: &str) -> Option<Workload> {
    let others = WORKLOADS.iter().map(|row| row.value).filter(|other| *other != workload);
    others.into_iter().find(|other| !named(*other, flag).is_empty())
}

/// The names that [`named`] accepts in a workload.
pub fn flags(workload: Workload) -> Vec<String> {
    let both_ends = (workload == Workload::Call).then(|| "engine".to_owned());
    of(workload).map(Factor::flag).chain(both_ends).collect()
}

impl Spec {
    /// The workload whose cell or group this is.
    pub fn workload(&self) -> Workload {
        self.stated_workload().unwrap_or_else(|| self.inferred())
    }

    /// The workload of levels that do not state it, such as those of an imported table: the first in which all of them have a
    /// meaning.
    fn inferred(&self) -> Workload {
        let is_in = |workload: &Workload| FACTORS.iter().all(|f| f.is_in(*workload) || !f.lens.is_set(self));
        WORKLOADS.iter().map(|row| row.value).find(is_in).unwrap_or_default()
    }

    /// Factors and levels in the order of the factor table, the absent ones left out.
    pub fn present(&self) -> impl Iterator<Item = (&'static Factor, Level)> {
        FACTORS.iter().map(|f| (f, self.get(f.name))).filter(|(_, level)| *level != Level::Absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_workload_is_inferred() {
        let of = |text: &str| serde_json::from_str::<Spec>(text).unwrap();
        assert_eq!(of(r#"{"read_size":4096}"#).workload(), Workload::Stream);
        assert_eq!(of(r#"{"request":512}"#).workload(), Workload::Call);
        assert_eq!(of(r#"{"mode":"checked"}"#).workload(), Workload::Ring);
        assert_eq!(of(r#"{"request":512}"#).with_workload(Workload::Call), of(r#"{"request":512,"workload":"call"}"#));
    }

    #[test]
    fn the_table_is_sound() {
        for (index, factor) in FACTORS.iter().enumerate() {
            assert!(FACTORS[..index].iter().all(|f| f.name != factor.name), "{} occurs twice", factor.name);
            assert!((1..=60).contains(&factor.summary.chars().count()), "{}", factor.name);
            assert!(!factor.summary.ends_with('.') && !factor.details.ends_with('.'), "{}", factor.name);
            let defaults: Vec<_> = WORKLOADS.iter().filter_map(|row| factor.default_in(row.value)).collect();
            assert!(!defaults.is_empty(), "{} is in no workload", factor.name);
            for default in defaults.into_iter().chain(factor.defaults.datagrams) {
                factor.kind.parse_list(default).unwrap_or_else(|e| panic!("{}: {e}", factor.name));
            }
        }
    }

    #[test]
    fn a_flag_means_one_thing_in_a_workload() {
        for workload in WORKLOADS.iter().map(|row| row.value) {
            for factor in of(workload) {
                let named = named(workload, &factor.flag());
                assert!(named.len() == 1 && named[0].name == factor.name, "--{} in {workload}", factor.flag());
            }
        }
        let names = |workload, flag| named(workload, flag).iter().map(|factor| factor.name).collect::<Vec<_>>();
        assert_eq!(names(Workload::Stream, "rate"), ["rate"]);
        assert_eq!(names(Workload::Call, "rate"), ["call_rate"]);
        assert_eq!(names(Workload::Call, "engine"), ["client_engine", "server_engine"]);
        assert!(names(Workload::Call, "write_size").is_empty());
    }

    #[test]
    fn an_engine_that_moves_nothing_answers_no_call() {
        let error = find("server_engine").unwrap().kind.parse("null").unwrap_err().to_string();
        assert!(error.contains("`null` does not carry the workload call"), "{error}");
    }

    #[test]
    fn profiles_set_known_conditions() {
        for profile in crate::catalog::PROFILES {
            for (name, level) in profile.sets {
                let factor = find(name).unwrap();
                assert_eq!(factor.role, Role::Condition);
                assert!(factor.is_in(profile.workload), "{}", profile.name);
                factor.kind.parse(level).unwrap();
            }
        }
    }
}
