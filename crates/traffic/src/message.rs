//! What an end is told and what it answers: plain values, the same for a thread, a process or a far host.
//!
//! An end first says `Hello`: which version of these words it speaks, and where its host can be reached.
//!
//! Every trial goes the same way. `Open` to the end that is connected to, if there is one, which answers `Listening`;
//! `Open` with that address to those that connect; all answer `Ready`, a server as soon as it listens, since it serves
//! from then on. `Go` to all. The end that measures says `Closed` when its windows have; the others are told to `Stop`.
//! All answer `Done`, `Skipped` or `Failed`.
//!
//! A stream's sink measures, or its source where the sink is not ours; of calls the client does. A ring has no path:
//! `OpenRing`, and no other end.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use bytegauge_model::{EndReport, EndRole, Engine, Fill, Level, Levels, Transport, Work, Workload, option};
use serde::{Deserialize, Serialize};

use crate::call::{CallSetup, READ_SIZE};
use crate::fault::Fault;
use crate::place;
use crate::ring::RingSetup;

pub use bytegauge_model::Side;

/// The version of what ends are told and answer. An end of another one is not spoken to.
pub const PROTOCOL: u32 = 1;

/// What an end says before it is told anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The [`PROTOCOL`] that it speaks.
    pub protocol: u32,
    /// Where it can be reached.
    pub host: Host,
}

impl Hello {
    /// What an end of this program says, on this host.
    pub fn ours() -> Hello {
        Hello { protocol: PROTOCOL, host: Host::default() }
    }
}

/// Addresses of the host that an end is on, by which others reach it: loopback, as long as all ends are on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Over IPv4.
    pub v4: Ipv4Addr,
    /// Over IPv6.
    pub v6: Ipv6Addr,
}

impl Default for Host {
    fn default() -> Host {
        Host { v4: Ipv4Addr::LOCALHOST, v6: Ipv6Addr::LOCALHOST }
    }
}

impl Host {
    /// Any port of it, over the family that a transport speaks.
    pub fn any_port(&self, transport: &Transport) -> SocketAddr {
        match transport {
            Transport::Tcp6 | Transport::Udp6 => (self.v6, 0).into(),
            _ => (self.v4, 0).into(),
        }
    }
}

/// Where a sink can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Address {
    /// An abstract Unix socket name.
    Abstract(String),
    /// An IP address and port.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Path(std::path::PathBuf),
    /// IP addresses and ports of datagram sockets, one a flow.
    Ports(Vec<SocketAddr>),
    /// Named pipes, one a flow.
    Fifos(Vec<std::path::PathBuf>),
    /// Nobody writes: the sink reads a device, a file, or nothing at all.
    Alone,
}

/// A fault or a slowdown planted on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plant {
    /// The path flips one bit of the byte at this offset of flow 0; a server, of the first byte of a reply.
    Corrupt {
        /// Offset in the stream.
        offset: u64,
    },
    /// The sink goes away after so many bytes; as a process, it dies.
    Die {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink stops reading after so many bytes but keeps its socket.
    Stall {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The sink loses count: it reports bytes that never arrived.
    Overcount {
        /// Bytes reported too many.
        bytes: u64,
    },
    /// A server stands still once after so many bytes of requests.
    Nap {
        /// Bytes received before.
        after_bytes: u64,
        /// For how long, nanoseconds.
        ns: u64,
    },
    /// A server sends half a reply after so many bytes of requests, and closes.
    ShortReply {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// A server sends a byte too many after so many bytes of requests.
    LongReply {
        /// Bytes received before.
        after_bytes: u64,
    },
    /// The path loses one datagram in so many; of calls, one reply.
    Lose {
        /// How many.
        every: u64,
    },
    /// The path lets one datagram in so many overtake another; of calls, a reply the one before it.
    Swap {
        /// How many.
        every: u64,
    },
    /// The path delivers one datagram in so many twice; of calls, a reply.
    Repeat {
        /// How many.
        every: u64,
    },
    /// A server holds one in so many replies back.
    Late {
        /// How many.
        every: u64,
        /// For how long, nanoseconds; then it goes out with the next reply.
        ns: u64,
    },
    /// A ring stops taking completions after so many rounds.
    Untaken {
        /// Rounds before.
        after_rounds: u64,
    },
    /// A ring expects other user data than it submits after so many rounds.
    WrongUserData {
        /// Rounds before.
        after_rounds: u64,
    },
    /// The reader spins after each read, by the clock.
    Spin {
        /// Nanoseconds a read.
        ns: f64,
    },
    /// The reader spins in every other block: a path with two modes.
    Modes {
        /// Nanoseconds a read.
        ns: f64,
    },
    /// The reader spins for so long from its first read on: what comes first pays the warm-up.
    Cold {
        /// Nanoseconds before it runs at its own speed.
        ns: u64,
    },
}

impl Plant {
    /// Whether the source carries it out: what a path does to datagrams, it does before they leave.
    pub fn is_of_source(&self) -> bool {
        matches!(self, Plant::Corrupt { .. } | Plant::Lose { .. } | Plant::Swap { .. } | Plant::Repeat { .. })
    }
}

/// Everything both ends need to know of one trial's path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSetup {
    /// How the ends are joined.
    pub transport: Transport,
    /// Parallel flows.
    pub flows: usize,
    /// Who moves bytes.
    pub engine: Engine,
    /// Buffer of a read, bytes.
    pub read_size: usize,
    /// Buffer of a write, bytes; absent for one-ended sources.
    pub write_size: Option<usize>,
    /// Datagrams that are handed to the kernel at once; absent: as many as suit the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Receives of datagrams that a ring keeps in flight.
    #[serde(default)]
    pub outstanding: usize,
    /// Work per read.
    pub work: Work,
    /// Private state touched per read, bytes.
    pub walk: usize,
    /// Work per write.
    pub fill: Fill,
    /// Offered load of all flows, bytes per second.
    pub rate: Option<u64>,
    /// Pause between two writes, nanoseconds.
    pub think_ns: u64,
    /// The options to request, by their factors ([`option::OPTIONS`]).
    pub options: Levels,
    /// Whether every byte is compared with the pattern.
    pub verify: bool,
    /// Seed of the pattern.
    pub seed: u64,
    /// Warm-up before the window, nanoseconds.
    pub warmup_ns: u64,
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// Whether bins are kept.
    pub series: bool,
    /// The CPUs of each end's flows, cyclically; an end without any is left to the scheduler.
    pub cpus: BTreeMap<EndRole, Vec<usize>>,
    /// How long past its schedule an end may take before the watchdog ends it, nanoseconds.
    pub grace_ns: u64,
    /// The host of the end that this is sent to: where it binds its sockets.
    #[serde(default)]
    pub host: Host,
    /// Where a server listens that is not ours and reads this stream. A call's is in its own setup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<Address>,
    /// What is called, where the workload is `call`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallSetup>,
    /// A planted fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plant: Option<Plant>,
}

/// How long an end may be late before it counts as stalled.
pub const GRACE_NS: u64 = 5_000_000_000;

/// Receives that a ring keeps in flight where no level says.
const OUTSTANDING: usize = 64;

impl PathSetup {
    /// Resolves a cell's levels. What the trial adds (warm-up, window, CPUs, seed) keeps neutral values.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<PathSetup, Fault> {
        let transport =
            levels.transport().ok_or_else(|| Fault::Impossible("a cell without a known transport".into()))?;
        let number = |name: &str| levels.get(name).number();
        let required = |name: &str| number(name).ok_or_else(|| Fault::Impossible(format!("a cell without {name}")));
        let call = CallSetup::of(levels)?;
        let streams = call.is_none();
        let read_size = match number("read_size") {
            Some(bytes) => bytes as usize,
            // Where another's server reads, of ours only the harness's own loop does: as much as is written.
            None if streams && *levels.get("connect") != Level::Absent => required("write_size")? as usize,
            None if streams => required("read_size")? as usize,
            None => READ_SIZE,
        };
        Ok(PathSetup {
            flows: number("flows").unwrap_or(1) as usize,
            engine: match &call {
                Some(call) => call.client_engine,
                None => parsed(levels, "engine")?.unwrap_or(Engine::Blocking),
            },
            read_size,
            write_size: if streams && transport.two_ended() { Some(required("write_size")? as usize) } else { None },
            batch: number("batch").map(|datagrams| datagrams as usize),
            outstanding: number("outstanding").map_or(OUTSTANDING, |receives| receives as usize),
            work: parsed(levels, "work")?.unwrap_or_default(),
            walk: number("walk").unwrap_or(0) as usize,
            fill: parsed(levels, "fill")?.unwrap_or_default(),
            rate: number("rate"),
            think_ns: number("think").unwrap_or(0),
            options: option::requested(levels),
            transport,
            verify: false,
            seed: 0,
            warmup_ns: 0,
            window_ns: 0,
            series: false,
            cpus: BTreeMap::new(),
            grace_ns: GRACE_NS,
            host: Host::default(),
            reader: match levels.foreign() {
                Some(at) if call.is_none() => Some(place::address(&at)?),
                _ => None,
            },
            call,
            plant: None,
        })
    }

    /// What is said over the path.
    pub fn workload(&self) -> Workload {
        if self.call.is_some() { Workload::Call } else { Workload::Stream }
    }

    /// Whether both ends take part. The null engine moves nothing, and a server that is not ours takes no
    /// commands: the end that measures is alone.
    pub fn has_two_ends(&self) -> bool {
        self.transport.two_ended() && self.engine != Engine::Null && self.foreign().is_none()
    }

    /// Where a server listens that is not ours, if it is such a one that is called, or that reads.
    pub fn foreign(&self) -> Option<&Address> {
        match &self.call {
            Some(call) => call.foreign.as_ref(),
            None => self.reader.as_ref().filter(|_| self.engine != Engine::Null),
        }
    }

    /// The CPU that a flow is pinned to at one of its ends.
    pub fn cpu(&self, role: EndRole, flow: usize) -> Option<usize> {
        let cpus = self.cpus.get(&role)?;
        cpus.get(flow % cpus.len().max(1)).copied()
    }
}

/// Parses a named level; absent and `auto` are `None`.
pub(crate) fn parsed<T: std::str::FromStr>(levels: &Levels, name: &str) -> Result<Option<T>, Fault>
where
    T::Err: std::fmt::Display,
{
    match levels.get(name).name() {
        None | Some("auto" | "max") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error: T::Err| Fault::Impossible(error.to_string())),
    }
}

/// What an end is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Command {
    /// Prepare an end of a path; those that connect are told where.
    Open(EndRole, Box<PathSetup>, Option<Address>),
    /// Prepare a ring, which has no other end.
    OpenRing(Box<RingSetup>),
    /// Begin.
    Go,
    /// The end that measures has what it wanted: send, or serve, no more.
    Stop,
    /// No more paths: the end may leave.
    Quit,
}

/// What an end answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The first word of an end, to nothing.
    Hello(Hello),
    /// The sink can be reached here.
    Listening(Address),
    /// All flows are joined, pinned, and wait for `Go`.
    Ready,
    /// The sink's windows have closed; it drains what is on its way.
    Closed,
    /// The trial went as it should.
    Done(Box<EndReport>),
    /// This machine cannot do it.
    Skipped(String),
    /// It went wrong; what was counted until then.
    Failed(String, Box<EndReport>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels() -> Levels {
        let mut levels = Levels::default();
        levels.set("transport", Level::Name("tcp".into()));
        levels.set("read_size", Level::Number(4096));
        levels.set("write_size", Level::Number(65536));
        levels.set("work", Level::Name("0.5ns".into()));
        levels.set("rate", Level::Name("max".into()));
        levels.set("congestion", Level::auto());
        levels
    }

    #[test]
    fn a_cell_resolves_and_survives_the_wire() {
        let setup = PathSetup::of(&levels()).unwrap();
        assert_eq!((setup.read_size, setup.write_size, setup.rate), (4096, Some(65536), None));
        assert_eq!(setup.work, Work::NsPerByte(0.5));
        assert_eq!(setup.options, Levels::default());
        let command = Command::Open(EndRole::Sink, Box::new(setup), Some(Address::Alone));
        let text = serde_json::to_string(&command).unwrap();
        assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
    }

    #[test]
    fn a_missing_level_is_named() {
        let mut levels = levels();
        levels.set("read_size", Level::Absent);
        assert_eq!(PathSetup::of(&levels).unwrap_err().to_string(), "a cell without read_size");
    }

    #[test]
    fn flows_take_cpus_cyclically() {
        let mut setup = PathSetup::of(&levels()).unwrap();
        assert_eq!(setup.cpu(EndRole::Sink, 3), None);
        setup.cpus = BTreeMap::from([(EndRole::Source, vec![0, 2]), (EndRole::Sink, vec![1, 3])]);
        assert_eq!((setup.cpu(EndRole::Source, 3), setup.cpu(EndRole::Sink, 4)), (Some(2), Some(1)));
    }
}
