//! The table of factors: everything that can be varied, with its role, its levels and its help.
//!
//! A factor is declared here and applied in `traffic`; flags, TOML keys, JSON keys, validation and the
//! documentation walk this table. `choice`: the user may set it. `condition`: life imposes it; cells that
//! agree in every condition form a group, within which choices are compared. A row says in which workloads it
//! has a meaning and what its default is there; where one flag means two things (`--rate` in bytes or in calls)
//! there are two rows, told apart by the workload.
//!
//! Long because it is one table.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::{Arrivals, Engine, FdTable, Fill, NameError, Placement, RcvbufOn, Transport, Work};
use crate::emulated::{LinkLoss, LinkRate};
use crate::far::Direction;
use crate::level::{Kind, Level};
use crate::place::Place;
use crate::program::{ComparedCondition, ConnectionAge, ProgramRole};
use crate::relay::{RelayPlacement, RelayThreads};
use crate::relay_program::relay_name;
use crate::ring::{ENTRIES_MAX, Implementation, Mode, RingFlags, UserData};
use crate::slo::Slo;
use crate::spec::{Lens, Spec, lens};
use crate::workload::{WORKLOADS, Workload};

/// Whether the user may set a factor, or life imposes it.
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

const fn both(text: &'static str) -> Defaults {
    each(text, text)
}

const fn everywhere(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..both(text) }
}

const fn each(stream: &'static str, call: &'static str) -> Defaults {
    Defaults { stream: Some(stream), call: Some(call), ..NOWHERE }
}

const fn stream(text: &'static str) -> Defaults {
    Defaults { stream: Some(text), ..NOWHERE }
}

const fn call(text: &'static str) -> Defaults {
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
    pub kind: Kind,
    /// The default list of levels of a plan that does not name the factor.
    pub defaults: Defaults,
    /// A short column heading.
    pub heading: &'static str,
    /// One line of help.
    pub summary: &'static str,
    /// The transports it makes sense for; elsewhere it is absent. Of a workload without a path nothing is asked.
    pub fits: fn(&Transport) -> bool,
}

impl Factor {
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

/// More flows than this no end can have: their local ports and descriptors are numbered in 16 bits.
const FLOWS_MAX: u64 = 65_536;
const THREADS: Kind = Kind::Count { min: 1, max: 1024, auto: false };

const EVERYWHERE: fn(&Transport) -> bool = |_| true;
const SOCKETS: fn(&Transport) -> bool = Transport::is_socket;
const CONNECTIONS: fn(&Transport) -> bool = Transport::is_connection;
const DATAGRAMS: fn(&Transport) -> bool = Transport::is_datagram;
const TCP: fn(&Transport) -> bool = Transport::is_tcp;
const PORTS: fn(&Transport) -> bool = |transport| transport.is_tcp() || transport.is_udp();
// An emulated link has IPv4 addresses.
const ROUTED: fn(&Transport) -> bool = |transport| matches!(transport, Transport::Tcp | Transport::Udp);
const TWO_ENDED: fn(&Transport) -> bool = Transport::two_ended;
const BYTE_PATHS: fn(&Transport) -> bool = |transport| transport.two_ended() && !transport.is_datagram();
const NO_PATH: fn(&Transport) -> bool = |_| false;
const BUFFER: Kind = Kind::Size { min: 1, max: SIZE_MAX, auto: false };
const SOCKET_BUFFER: Kind = Kind::Size { min: 1, max: 1 << 30, auto: true };

/// Every factor, in the order in which they are printed.
pub const FACTORS: &[Factor] = &[
    Factor {
        name: "transport",
        lens: lens!(transport),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Transport>().map(|t| t.to_string())),
        defaults: each("unix,tcp", "tcp,unix"),
        heading: "transport",
        summary: "how the ends are joined: unix, tcp, tcp6, pipe, udp, udp6, unix-dgram, or a source such as /dev/zero or any file",
        fits: EVERYWHERE,
    },
    // Before all that it may make a condition of: what the peer of a program decides.
    Factor {
        name: "role",
        lens: lens!(role),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<ProgramRole>().map(|role| role.to_string())),
        defaults: stream("both"),
        heading: "program",
        summary: "what your program controls, reader, writer, relay or both ends: what its peers decide is then a condition",
        fits: BYTE_PATHS,
    },
    Factor {
        name: "compare",
        lens: lens!(compare),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<ComparedCondition>().map(|chosen| chosen.to_string())),
        defaults: both("none"),
        heading: "chosen",
        summary: "compare the levels of a condition as choices, flows or placement: how many connections are enough?",
        fits: TWO_ENDED,
    },
    Factor {
        name: "connection_age",
        lens: lens!(connection_age),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<ConnectionAge>().map(|age| age.to_string())),
        defaults: stream("steady"),
        heading: "connection age",
        summary: "how old a connection is when it is measured: fresh (its first milliseconds) or steady",
        fits: BYTE_PATHS,
    },
    Factor {
        name: "placement",
        lens: lens!(placement),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Placement>().map(|p| p.to_string())),
        // A program of the user's runs where it runs.
        defaults: both("cross-core").and_check("unpinned"),
        heading: "placement",
        summary: "where the ends run: unpinned, same-cpu, smt-sibling, cross-core, cross-node",
        fits: TWO_ENDED,
    },
    Factor {
        name: "fd_table",
        lens: lens!(fd_table),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<FdTable>().map(|table| table.to_string())),
        defaults: both("shared"),
        heading: "fd table",
        summary: "descriptor table of a measured thread: shared with other threads, or private as in single-threaded programs",
        fits: EVERYWHERE,
    },
    Factor {
        name: "profile",
        lens: lens!(profile),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| Ok(s.to_owned())),
        defaults: each("drain,sum,parser", "rpc,many-idle"),
        heading: "profile",
        summary: "named sets of conditions: drain, sum, parser (stream); echo, rpc, many-idle (call); or the plan's own",
        fits: EVERYWHERE,
    },
    Factor {
        name: "flows",
        lens: lens!(flows),
        flag: None,
        role: Role::Condition,
        kind: Kind::Count { min: 1, max: FLOWS_MAX, auto: false },
        defaults: each("1", "50"),
        heading: "flows",
        summary: "parallel flows: connections that are busy at the same time",
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
        summary: "bytes of a request, 1 B to 16 MiB",
        fits: SOCKETS,
    },
    Factor {
        name: "response",
        lens: lens!(response),
        flag: None,
        role: Role::Condition,
        kind: Kind::SizeOr { min: 1, max: SIZE_MAX, name: "same" },
        defaults: call("same"),
        heading: "response",
        summary: "bytes of a response, or same: the request's size, which is echoed",
        fits: SOCKETS,
    },
    Factor {
        name: "request_chunk",
        lens: lens!(request_chunk),
        flag: None,
        role: Role::Condition,
        kind: Kind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: call("auto"),
        heading: "chunk",
        summary: "a request is written in pieces of so many bytes; auto: in one write",
        fits: CONNECTIONS,
    },
    Factor {
        name: "depth",
        lens: lens!(depth),
        flag: None,
        role: Role::Condition,
        kind: Kind::Count { min: 1, max: 4096, auto: false },
        defaults: call("1"),
        heading: "depth",
        summary: "requests outstanding per flow",
        fits: SOCKETS,
    },
    Factor {
        name: "connect_per_call",
        lens: lens!(connect_per_call),
        flag: None,
        role: Role::Condition,
        kind: Kind::Switch { auto: false },
        defaults: call("off"),
        heading: "per call",
        summary: "every call has a connection of its own: connect, send, reply, close",
        fits: CONNECTIONS,
    },
    // A condition: it is what a server does wrong, and nobody chooses it.
    Factor {
        name: "read_once",
        lens: lens!(read_once),
        flag: None,
        role: Role::Condition,
        kind: Kind::Switch { auto: false },
        defaults: call("off"),
        heading: "reads once",
        summary: "the server takes its first read for the whole request, replies and closes, as a program without a loop \
                  does: what comes later resets the connection",
        fits: CONNECTIONS,
    },
    Factor {
        name: "idle_flows",
        lens: lens!(idle_flows),
        flag: None,
        role: Role::Condition,
        kind: Kind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "idle",
        summary: "connections that the server holds and that never call",
        fits: CONNECTIONS,
    },
    Factor {
        name: "work",
        lens: lens!(work),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Work>().map(|w| w.to_string())),
        defaults: both("none"),
        heading: "work",
        summary: "what the reader does per read, the server per request: none, sum, copy, or nanoseconds per byte (0.5ns)",
        fits: EVERYWHERE,
    },
    Factor {
        name: "working_set",
        lens: lens!(working_set),
        flag: None,
        role: Role::Condition,
        kind: Kind::Size { min: 0, max: 1 << 30, auto: false },
        defaults: both("0"),
        heading: "working set",
        summary: "bytes of state of each flow that its reader touches per read, its server per request",
        fits: EVERYWHERE,
    },
    Factor {
        name: "writer_work",
        lens: lens!(writer_work),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Fill>().map(|w| w.to_string())),
        defaults: stream("none"),
        heading: "writer work",
        summary: "what the writer does per write: none, touch (every byte), or nanoseconds per byte",
        fits: TWO_ENDED,
    },
    Factor {
        name: "rate",
        lens: lens!(rate),
        flag: None,
        role: Role::Condition,
        kind: Kind::Rate,
        defaults: stream("max"),
        heading: "rate",
        summary: "offered load of all flows together, bytes per second (100M), or max",
        fits: TWO_ENDED,
    },
    // Before the rate, the arrivals and the pause, which mean nothing beside it or only beside it.
    Factor {
        name: "slo",
        lens: lens!(slo),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(slo_or_none),
        defaults: call("none"),
        heading: "slo",
        summary: "search for the highest offered rate that keeps a latency, such as p99=2ms (p50, p90, p99, p99.9, p99.99)",
        fits: SOCKETS,
    },
    Factor {
        name: "call_rate",
        lens: lens!(call_rate),
        flag: Some("rate"),
        role: Role::Condition,
        kind: Kind::CallRate,
        defaults: call("max"),
        heading: "rate",
        summary: "offered load of all flows together, calls per second (20k), or max: the next call waits for the reply",
        fits: SOCKETS,
    },
    Factor {
        name: "arrivals",
        lens: lens!(arrivals),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Arrivals>().map(|a| a.to_string())),
        defaults: call("constant"),
        heading: "arrivals",
        summary: "how offered calls are spread: constant, poisson; needs --rate or --slo",
        fits: SOCKETS,
    },
    Factor {
        name: "think_time",
        lens: lens!(think_time),
        flag: None,
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("0ns"),
        heading: "think time",
        summary: "pause of the writer between two writes, of a client between two calls (50us)",
        fits: TWO_ENDED,
    },
    Factor {
        name: "timeout",
        lens: lens!(timeout),
        flag: None,
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 1_000_000, max_ns: 600_000_000_000, auto: false },
        // Nobody sends a datagram again: a flow that waits long for one that was lost measures its own patience.
        defaults: call("5s").datagrams("250ms"),
        heading: "timeout",
        summary: "a call that takes longer has failed; over datagrams that is how a loss is noticed",
        fits: SOCKETS,
    },
    Factor {
        name: "competing_flows",
        lens: lens!(competing_flows),
        flag: None,
        role: Role::Condition,
        kind: Kind::Count { min: 0, max: FLOWS_MAX, auto: false },
        defaults: call("0"),
        heading: "competing",
        summary: "flows of a second group of clients, in a process of its own, against the same server",
        fits: SOCKETS,
    },
    // The client is the instrument that measures the server: with another instrument another thing is measured, and
    // nobody who asks for a server's settings can choose his clients. So it is a condition; two instruments make two
    // groups, and how they differ shows what the instrument adds.
    Factor {
        name: "client_engine",
        lens: lens!(client_engine),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(calling_engine),
        defaults: call("epoll").datagrams("plain"),
        heading: "client",
        summary: "who moves bytes at the client, which measures (docs/factors.md lists the engines)",
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
        summary: "threads of the client; a blocking one has a thread per flow",
        fits: SOCKETS,
    },
    Factor {
        name: "relay_placement",
        lens: lens!(relay_placement),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<RelayPlacement>().map(|place| place.to_string())),
        defaults: both("unpinned"),
        heading: "relay at",
        summary: "where the relay runs: unpinned, own (a CPU that neither end has), client, server, follows (the data); needs --relay",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_host",
        lens: lens!(relay_host),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "relay host",
        summary: "HOST:PORT of an agent on whose host the relays stand (docs/far-host.md), or auto: they are here; needs --relay and --key-file",
        fits: TCP,
    },
    Factor {
        name: "host",
        lens: lens!(host),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "host",
        summary: "HOST:PORT of an agent on another host, where one end runs (docs/far-host.md), or auto: both ends are here; needs --key-file",
        fits: PORTS,
    },
    Factor {
        name: "direction",
        lens: lens!(direction),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Direction>().map(|direction| direction.to_string())),
        defaults: both("to"),
        heading: "direction",
        summary: "to or from the far host bytes go, or calls are made, which needs --host; of a stream both at once",
        fits: PORTS,
    },
    Factor {
        name: "link_delay",
        lens: lens!(link_delay),
        flag: None,
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
        defaults: both("10ms"),
        heading: "link delay",
        summary: "round trip of an emulated link between the ends (docs/emulated-link.md), such as 0.1ms,1ms,10ms",
        fits: ROUTED,
    },
    Factor {
        name: "link_loss",
        lens: lens!(link_loss),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<LinkLoss>().map(|loss| loss.to_string())),
        defaults: both("0%"),
        heading: "link loss",
        summary: "share of the packets that an emulated link loses in each direction: 0%, 0.1%, 1%",
        fits: ROUTED,
    },
    Factor {
        name: "link_rate",
        lens: lens!(link_rate),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<LinkRate>().map(|rate| rate.to_string())),
        defaults: both("1Gbit"),
        heading: "link rate",
        summary: "bits per second that an emulated link carries in each direction: 100Mbit, 1Gbit",
        fits: ROUTED,
    },
    Factor {
        name: "duration",
        lens: lens!(duration),
        flag: Some("trial-time"),
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
        defaults: everywhere("auto"),
        heading: "duration",
        summary: "measured time of one trial (100ms), or auto: the design chooses",
        fits: EVERYWHERE,
    },
    Factor {
        name: "engine",
        lens: lens!(engine),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<Engine>().map(|e| e.to_string())),
        defaults: stream("blocking").datagrams("plain,mmsg,gso"),
        heading: "engine",
        summary: "who moves bytes at both ends (docs/factors.md lists the engines)",
        fits: EVERYWHERE,
    },
    // A choice: whose servers are given are compared. Before the others of the server, which mean nothing beside it.
    Factor {
        name: "connect",
        lens: lens!(connect),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(place_or_auto),
        defaults: both("auto"),
        heading: "server at",
        summary: "a server that is not ours: HOST:PORT or unix:/path; called, it echoes or sends --response bytes; of a stream, it reads",
        fits: SOCKETS,
    },
    // Whoever writes a relay chooses how it passes bytes on.
    Factor {
        name: "relay",
        lens: lens!(relay),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(relay_name),
        defaults: both("direct"),
        heading: "relay",
        summary: "how a relay between the ends passes bytes on (docs/relays.md lists the methods), a program such as haproxy, cmd:WORDS with {listen} and {upstream}, or addr:LISTEN=UPSTREAM, which runs already; all: every method; direct: there is none",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_threads",
        lens: lens!(relay_threads),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<RelayThreads>().map(|threads| threads.to_string())),
        defaults: both("direction"),
        heading: "relay threads",
        summary: "direction: a thread for each direction of each connection; one: one thread for all, on epoll; cpus: such a thread for each CPU",
        fits: CONNECTIONS,
    },
    Factor {
        name: "relay_buffer",
        lens: lens!(relay_buffer),
        flag: None,
        role: Role::Choice,
        kind: Kind::Size { min: 1, max: SIZE_MAX, auto: true },
        defaults: both("auto"),
        heading: "relay buffer",
        summary: "bytes of the buffer of each direction of a relay, or auto: 64 KiB, of tokio its own 8 KiB",
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
        summary: "capacity of each pipe that a relay splices through (F_SETPIPE_SZ), or auto: the system's 64 KiB",
        fits: CONNECTIONS,
    },
    Factor {
        name: "server_engine",
        lens: lens!(server_engine),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(calling_engine),
        defaults: call("blocking,epoll,uring,tokio").datagrams("plain,mmsg,uring:plain,uring:multishot"),
        heading: "server",
        summary: "who moves bytes at the server (docs/factors.md lists the engines)",
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
        summary: "threads of the server; a blocking one has a thread per flow",
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
        summary: "most bytes of one receive, 1 B to 16 MiB; a datagram that is longer is cut off",
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
        summary: "buffer of one write call, 1 B to 16 MiB; over datagrams the size of each; absent for one-ended sources",
        fits: TWO_ENDED,
    },
    Factor {
        name: "batch",
        lens: lens!(batch),
        flag: None,
        role: Role::Choice,
        kind: Kind::Count { min: 1, max: 1024, auto: true },
        defaults: both("auto"),
        heading: "batch",
        summary: "datagrams a call of mmsg, or segments a send of gso (as many as 64 KiB hold, at most 64); auto: 64, or what fits",
        fits: DATAGRAMS,
    },
    Factor {
        name: "outstanding",
        lens: lens!(outstanding),
        flag: None,
        role: Role::Choice,
        kind: Kind::Count { min: 1, max: 4096, auto: false },
        defaults: both("64"),
        heading: "outstanding",
        summary: "receives that an io_uring keeps in flight over datagrams; of multishot, the buffers it may fill",
        fits: DATAGRAMS,
    },
    Factor {
        name: "sndbuf",
        lens: lens!(sndbuf),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: both("auto"),
        heading: "sndbuf",
        summary: "SO_SNDBUF as requested (the kernel doubles and clamps it), or auto",
        fits: SOCKETS,
    },
    Factor {
        name: "rcvbuf",
        lens: lens!(rcvbuf),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: both("auto"),
        heading: "rcvbuf",
        summary: "SO_RCVBUF as requested (of a call's server); auto leaves autotuning on, and over UDP asks for 4 MiB",
        fits: SOCKETS,
    },
    Factor {
        name: "rcvbuf_on",
        lens: lens!(rcvbuf_on),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<RcvbufOn>().map(|on| on.to_string())),
        defaults: call("listener"),
        heading: "SO_RCVBUF on",
        summary: "whose SO_RCVBUF is set: listener (inherited, fixes the window scale), accepted, client",
        fits: CONNECTIONS,
    },
    Factor {
        name: "rcvlowat",
        lens: lens!(rcvlowat),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: stream("auto"),
        heading: "rcvlowat",
        summary: "SO_RCVLOWAT: how many bytes a blocked reader waits for",
        fits: CONNECTIONS,
    },
    Factor {
        name: "nodelay",
        lens: lens!(nodelay),
        flag: None,
        role: Role::Choice,
        kind: Kind::Switch { auto: true },
        defaults: both("auto"),
        heading: "nodelay",
        summary: "TCP_NODELAY at the writer, at both ends of a call: on, off, auto",
        fits: TCP,
    },
    Factor {
        name: "congestion",
        lens: lens!(congestion),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| Ok(s.to_owned())),
        defaults: both("auto"),
        heading: "cc",
        summary: "TCP congestion control at whoever writes (cubic, bbr, …), or auto",
        fits: TCP,
    },
    Factor {
        name: "linger",
        lens: lens!(linger),
        flag: None,
        role: Role::Choice,
        kind: Kind::Count { min: 0, max: 3600, auto: true },
        defaults: call("auto"),
        heading: "linger",
        summary: "SO_LINGER of accepted connections, seconds; 0 closes by a reset, auto leaves it off",
        fits: TCP,
    },
    Factor {
        name: "backlog",
        lens: lens!(backlog),
        flag: None,
        role: Role::Choice,
        kind: Kind::Count { min: 1, max: 65_535, auto: true },
        defaults: call("auto"),
        heading: "backlog",
        summary: "connections that may wait to be accepted (listen(2)), or auto: the system's most",
        fits: CONNECTIONS,
    },
    Factor {
        name: "reuseport",
        lens: lens!(reuseport),
        flag: None,
        role: Role::Choice,
        kind: Kind::Switch { auto: false },
        defaults: call("off"),
        heading: "reuseport",
        summary: "a listening socket for each thread of the server (SO_REUSEPORT); of UDP, a socket",
        fits: PORTS,
    },
    Factor {
        name: "busy_poll",
        lens: lens!(busy_poll),
        flag: None,
        role: Role::Choice,
        kind: Kind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
        defaults: both("auto"),
        heading: "busy poll",
        summary: "SO_BUSY_POLL: whoever reads polls the device so long before sleeping (not loopback's), or auto: off",
        fits: PORTS,
    },
    Factor {
        name: "quickack",
        lens: lens!(quickack),
        flag: None,
        role: Role::Choice,
        kind: Kind::Switch { auto: true },
        defaults: both("auto"),
        heading: "quickack",
        summary: "TCP_QUICKACK at whoever reads, set once: acknowledge at once (on) or later (off), until TCP thinks better; auto",
        fits: TCP,
    },
    Factor {
        name: "notsent_lowat",
        lens: lens!(notsent_lowat),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: both("auto"),
        heading: "notsent lowat",
        summary: "TCP_NOTSENT_LOWAT at whoever writes: bytes not yet sent above which a socket is not writable, or auto",
        fits: TCP,
    },
    Factor {
        name: "cork",
        lens: lens!(cork),
        flag: None,
        role: Role::Choice,
        kind: Kind::Switch { auto: true },
        defaults: stream("auto"),
        heading: "cork",
        summary: "TCP_CORK at the writer: full segments only, a part of one waits up to 200 ms: on, off, auto",
        fits: TCP,
    },
    Factor {
        name: "pipe_size",
        lens: lens!(pipe_size),
        flag: None,
        role: Role::Choice,
        kind: SOCKET_BUFFER,
        defaults: stream("auto"),
        heading: "pipe",
        summary: "capacity of the pipe (F_SETPIPE_SZ), or auto",
        fits: Transport::is_pipe,
    },
    // What a program needs of its ring is a condition: whether it must know which operation completed, and whether it
    // looks at all. How large the ring is, how it is made and who drives it can be chosen.
    Factor {
        name: "mode",
        lens: lens!(mode),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<Mode>().map(|mode| mode.to_string())),
        defaults: ring("ceiling,checked"),
        heading: "mode",
        summary: "ceiling: as little as goes, every completion counted; checked: whole entries, every completion compared",
        fits: NO_PATH,
    },
    Factor {
        name: "user_data",
        lens: lens!(user_data),
        flag: None,
        role: Role::Condition,
        kind: Kind::Name(|s| s.parse::<UserData>().map(|data| data.to_string())),
        defaults: ring("none"),
        heading: "user data",
        summary: "what goes out with each operation: none, unique (a number), boxed (an object on the heap)",
        fits: NO_PATH,
    },
    Factor {
        name: "entries",
        lens: lens!(entries),
        flag: None,
        role: Role::Choice,
        kind: Kind::PowerOfTwo { max: ENTRIES_MAX },
        defaults: ring("1,64..4096"),
        heading: "entries",
        summary: "submissions that fit the ring, a power of two; completions are twice as many",
        fits: NO_PATH,
    },
    Factor {
        name: "submit_batch",
        lens: lens!(submit_batch),
        flag: None,
        role: Role::Choice,
        kind: Kind::Count { min: 1, max: ENTRIES_MAX, auto: true },
        defaults: ring("auto"),
        heading: "batch",
        summary: "operations of one submission, at most the entries; auto: as many as there are entries",
        fits: NO_PATH,
    },
    Factor {
        name: "implementation",
        lens: lens!(implementation),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<Implementation>().map(|name| name.to_string())),
        defaults: ring("raw,io-uring,liburing"),
        heading: "ring",
        summary: "who drives the ring: raw, io-uring, liburing; liburing-undrained is shown beside (docs/factors.md)",
        fits: NO_PATH,
    },
    Factor {
        name: "setup",
        lens: lens!(setup),
        flag: None,
        role: Role::Choice,
        kind: Kind::Name(|s| s.parse::<RingFlags>().map(|setup| setup.to_string())),
        defaults: ring("default,single-issuer"),
        heading: "set-up",
        summary: "default, single-issuer, coop, sqpoll, no-sqarray, registered, or several joined by +",
        fits: NO_PATH,
    },
    Factor {
        name: "run_timeout",
        lens: lens!(run_timeout),
        flag: Some("timeout"),
        role: Role::Condition,
        kind: Kind::Duration { min_ns: 10_000_000, max_ns: 3_600_000_000_000, auto: false },
        defaults: check("60s"),
        heading: "timeout",
        summary: "a run that takes longer has failed, and is ended with all that it started",
        fits: NO_PATH,
    },
    Factor {
        name: "value",
        lens: lens!(value),
        flag: Some("values"),
        role: Role::Choice,
        kind: Kind::Value,
        defaults: check("4K..1M"),
        heading: "value",
        summary: "what goes in the place of {value}: sizes (4K is passed on as 4096), numbers, or words",
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

/// What a flag, or a key of a plan, sets in a workload: usually one factor. `engine` means both ends, which in
/// `call` are two factors; empty where nothing is called so.
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

/// The names that [`named`] understands in a workload.
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
    fn the_workload_of_levels_that_do_not_state_it_is_inferred() {
        let of = |text: &str| serde_json::from_str::<Spec>(text).unwrap();
        assert_eq!(of(r#"{"read_size":4096}"#).workload(), Workload::Stream);
        assert_eq!(of(r#"{"request":512}"#).workload(), Workload::Call);
        assert_eq!(of(r#"{"mode":"checked"}"#).workload(), Workload::Ring);
        assert_eq!(of(r#"{"request":512}"#).said_of(Workload::Call), of(r#"{"request":512,"workload":"call"}"#));
    }

    #[test]
    fn the_table_is_sound() {
        for (index, factor) in FACTORS.iter().enumerate() {
            assert!(FACTORS[..index].iter().all(|f| f.name != factor.name), "{} stands twice", factor.name);
            assert!(!factor.summary.is_empty());
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
