//! The sockets of a program's run, as its calls showed them.
//!
//! Also what their waits point to.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::end::EndRole;
use crate::name_tables::{Transport, names, text_serde};
use crate::unit::{Bytes, TextError};

names! {
    /// The call of a program that opens a socket.
    #[derive(PartialOrd, Ord)]
    Opening, "call that opens a socket", OPENINGS {
        Bind = "bind": "bind(2), which takes datagrams",
        Connect = "connect": "connect(2)",
        Listen = "listen": "listen(2), which takes connections",
    }
}

/// A socket that a program opens: `tcp connect`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenedSocket {
    /// What it carries its bytes over.
    pub transport: Transport,
    /// How it is opened.
    pub call: Opening,
}

impl OpenedSocket {
    /// The end of a connection that it is.
    pub fn setter(&self) -> EndRole {
        if self.call == Opening::Listen { EndRole::Server } else { EndRole::Client }
    }
}

impl fmt::Display for OpenedSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transport, self.call)
    }
}

impl FromStr for OpenedSocket {
    type Err = TextError;

    fn from_str(text: &str) -> Result<OpenedSocket, TextError> {
        let (transport, call) =
            text.split_once(' ').ok_or_else(|| TextError::malformed(text, "a socket of a program"))?;
        Ok(OpenedSocket { transport: transport.parse()?, call: call.parse()? })
    }
}

text_serde!(OpenedSocket);

/// The sockets of a program's run, as its calls showed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketsSeen {
    /// The file name of the executable that opened the last one; empty before.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub executable: String,
    /// Calls of connect(2) and listen(2), and of bind(2) for datagrams, by what they open.
    pub opened: BTreeMap<OpenedSocket, u64>,
    /// Sockets that got the options of the run.
    pub changed: u64,
    /// The first change that did not take effect, and the reason.
    pub ineffective: Option<String>,
    /// Why the connections that a listener accepts do not get an option, which other sockets may have got.
    pub not_inherited: Option<String>,
    /// Rings of io_uring, whose operations on sockets are not seen.
    pub rings: u64,
    /// Calls of programs of another architecture, such as 32-bit ones.
    pub other_architecture: u64,
    /// Options that the program sets itself, by their names; only of a watched run.
    pub own: BTreeMap<String, OwnOption>,
    /// What its connections waited for; only of a watched run.
    pub waits: SocketWaits,
}

/// How a program reads and writes over the socket that carries most of its bytes, as samples of its calls showed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramCalls {
    /// Its name.
    pub program: String,
    /// Its reads.
    pub reads: Option<CallSizes>,
    /// Its writes.
    pub writes: Option<CallSizes>,
    /// Its reads to slow addresses, if most are.
    pub slow_reads: Option<SlowReads>,
}

/// The usual call of a program in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSizes {
    /// Its name.
    pub call: String,
    /// Bytes that it moves: the median; the mean of calls that move many messages.
    pub moved: u64,
    /// Bytes that most calls ask for, where that could be read.
    pub asked: Option<u64>,
    /// Calls to a message of a conversation, on average.
    pub per_message: Option<f64>,
}

/// Reads into buffers to which some CPUs copy slowly: 1 to 31 bytes after a page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowReads {
    /// Their share of the reads.
    pub share: f64,
    /// The most frequent distance from a page, bytes.
    pub offset: u64,
    /// How many times the CPU time of a read to a page one to that distance takes on this CPU.
    pub ratio: f64,
    /// Whether that is more than noise.
    pub matters: bool,
}

/// More calls to a message are reported.
const PER_MESSAGE: f64 = 1.5;

impl fmt::Display for ProgramCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |word: &str, sizes: &CallSizes| {
            let CallSizes { call, moved, asked, per_message } = sizes;
            let asked = asked.filter(|asked| asked != moved).map(|asked| format!(", asks for {}", Bytes(asked)));
            let each = per_message.filter(|each| *each >= PER_MESSAGE).map(|each| format!(", {each:.1} to a message"));
            format!("{word} {} a call ({call}{}{})", Bytes(*moved), asked.unwrap_or_default(), each.unwrap_or_default())
        };
        let sides = [("reads", &self.reads), ("writes", &self.writes)];
        let sides = sides.into_iter().filter_map(|(word, sizes)| Some(side(word, sizes.as_ref()?)));
        write!(f, "{} {}", self.program, sides.collect::<Vec<_>>().join("; "))
    }
}

impl fmt::Display for SlowReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SlowReads { share, offset, ratio, matters } = self;
        write!(f, "{:.0} % of the reads go to page + {offset}", share * 100.0)?;
        match matters {
            true => write!(
                f,
                ": here a copy to it takes {ratio:.1}× the CPU time of one to a page. Align the buffer to 64 bytes or more: \
                 posix_memalign, aligned_alloc, Rust's Layout, ByteBuffer.alignedSlice, a slice of a bytearray (docs/buffer-sizes.md)"
            ),
            false => write!(
                f,
                ": on this CPU that costs nothing ({ratio:.1}×), on AMD Zen 3 up to 6× (docs/buffer-sizes.md)"
            ),
        }
    }
}

/// An option that a program sets itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnOption {
    /// Its factor, if the table has it.
    pub option: Option<String>,
    /// The last value, as the program passes it: the number, or the name in quotes.
    pub value: String,
    /// Number of calls.
    pub calls: u64,
}

impl SocketsSeen {
    /// The sum of two programs.
    pub fn plus(mut self, other: SocketsSeen) -> SocketsSeen {
        if self.opened.is_empty() {
            self.executable = other.executable;
        } else if self.executable != other.executable && !other.opened.is_empty() {
            self.executable.clear();
        }
        for (kind, count) in other.opened {
            *self.opened.entry(kind).or_default() += count;
        }
        self.changed += other.changed;
        self.ineffective = self.ineffective.or(other.ineffective);
        self.not_inherited = self.not_inherited.or(other.not_inherited);
        self.rings += other.rings;
        self.other_architecture += other.other_architecture;
        self.own.extend(other.own);
        self.waits = self.waits.plus(&other.waits);
        self
    }

    /// Whether the program opened TCP connections, and nothing else.
    pub fn only_connects(&self) -> bool {
        let mut all = self.opened.keys();
        !self.opened.is_empty() && all.all(|socket| socket.transport.is_tcp() && socket.call == Opening::Connect)
    }

    /// Why options reached no socket, and what to do.
    pub fn why_unchanged(&self) -> &'static str {
        match self {
            SocketsSeen { other_architecture: 1.., .. } => {
                "it runs a 32-bit program, whose calls cannot be followed: use a 64-bit build of it"
            }
            SocketsSeen { rings: 1.., .. } => {
                "it opens its sockets by io_uring, whose operations cannot be followed: turn io_uring off in the program"
            }
            _ if self.opened.is_empty() => {
                "it connects no socket and listens on none: give it work that uses the network, or --on the other program"
            }
            _ => "none of its sockets has the option: leave the option out",
        }
    }
}

// What the TCP connections of a running program wait for, from samples of `TCP_INFO`, and what that is consistent with. A wait shows a
// possible cause and proves none: an experiment does (`bytegauge tune`).

/// Samples with a held message, fewer of which are chance.
const HELD_MIN: u64 = 3;

/// The least share of samples or of time that is reported.
const SHARE_MIN: f64 = 0.2;

/// Less time with data under way shows nothing, microseconds.
const BUSY_MIN_US: u64 = 10_000;

/// A fixed receive buffer of this size limits no path within a building, bytes.
const FIXED_MAX: u64 = 1 << 20;

/// Sums over the samples of a program's TCP connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocketWaits {
    /// Samples of a connection with unacknowledged data.
    pub samples: u64,
    /// Of these, samples in which less than a segment waited, and nothing had been sent for 5 ms, with `TCP_NODELAY` off.
    pub held: u64,
    /// Time with unacknowledged data, microseconds.
    pub busy_us: u64,
    /// Of this, time in which the peer's receive window was the limit, microseconds.
    pub window_us: u64,
    /// Of this, time in which the own send buffer was the limit, microseconds.
    pub buffer_us: u64,
    /// The least receive buffer that the program has fixed, bytes as the kernel counts them.
    pub fixed_receive: Option<u64>,
    /// The congestion controls that its connections have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub congestion: BTreeSet<String>,
    /// Whether a connection within this machine was seen.
    pub over_loopback: bool,
    /// Whether one with another machine was seen.
    pub over_network: bool,
}

/// A possible cause of waiting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The observation, and what it is consistent with.
    pub text: String,
    /// The change that tests it, as `--option` takes it; without one the other end has to be changed.
    pub option: Option<&'static str>,
}

impl SocketWaits {
    /// The sums of two programs.
    pub fn plus(self, other: &SocketWaits) -> SocketWaits {
        SocketWaits {
            samples: self.samples + other.samples,
            held: self.held + other.held,
            busy_us: self.busy_us + other.busy_us,
            window_us: self.window_us + other.window_us,
            buffer_us: self.buffer_us + other.buffer_us,
            fixed_receive: [self.fixed_receive, other.fixed_receive].into_iter().flatten().min(),
            congestion: &self.congestion | &other.congestion,
            over_loopback: self.over_loopback || other.over_loopback,
            over_network: self.over_network || other.over_network,
        }
    }

    /// The possible causes; none if nothing was noticeable.
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        let mut found = Vec::new();
        let held = self.held as f64 / self.samples.max(1) as f64;
        if self.held >= HELD_MIN && held >= SHARE_MIN {
            found.push(Diagnosis {
                text: format!(
                    "part of a message waits for an acknowledgement in {:.0} % of the samples: consistent with Nagle's algorithm \
                     and a delayed acknowledgement, about 40 ms a message",
                    held * 100.0
                ),
                option: Some("nodelay=on"),
            });
        }
        let share = |us: u64| us as f64 / self.busy_us.max(1) as f64;
        let is_limit = |us: u64| self.busy_us >= BUSY_MIN_US && share(us) >= SHARE_MIN;
        if is_limit(self.buffer_us) {
            found.push(Diagnosis {
                text: format!(
                    "the send buffer limits sending for {:.0} % of its time: consistent with a small SO_SNDBUF",
                    share(self.buffer_us) * 100.0
                ),
                option: Some("sndbuf=unset,4M"),
            });
        }
        if is_limit(self.window_us) {
            found.push(Diagnosis {
                text: format!(
                    "the peer's receive window limits sending for {:.0} % of its time: consistent with a small SO_RCVBUF of the \
                     peer, or a peer that reads slowly",
                    share(self.window_us) * 100.0
                ),
                option: None,
            });
        }
        if let Some(bytes) = self.fixed_receive.filter(|bytes| *bytes < FIXED_MAX) {
            found.push(Diagnosis {
                text: format!(
                    "it has fixed the receive buffer at {} (SO_RCVBUF), which turns autotuning off: consistent with a limit of \
                     about that per round trip",
                    Bytes(bytes)
                ),
                option: Some("rcvbuf=unset"),
            });
        }
        found
    }
}

#[cfg(test)]
mod wait_tests {
    use super::*;

    #[test]
    fn waits_lead_to_options() {
        let check = |waits: SocketWaits, expected: &[Option<&str>]| {
            assert_eq!(waits.diagnoses().iter().map(|one| one.option).collect::<Vec<_>>(), expected, "{waits:?}");
        };
        let waits = SocketWaits { samples: 10, busy_us: 100_000, ..SocketWaits::default() };
        check(waits.clone(), &[]);
        check(SocketWaits { held: 8, ..waits.clone() }, &[Some("nodelay=on")]);
        check(SocketWaits { held: 2, ..waits.clone() }, &[]);
        check(SocketWaits { buffer_us: 50_000, ..waits.clone() }, &[Some("sndbuf=unset,4M")]);
        check(SocketWaits { window_us: 50_000, ..waits.clone() }, &[None]);
        check(SocketWaits { window_us: 5_000, busy_us: 9_000, ..waits.clone() }, &[]);
        check(SocketWaits { fixed_receive: Some(8192), ..waits.clone() }, &[Some("rcvbuf=unset")]);
        check(SocketWaits { fixed_receive: Some(4 << 20), ..waits }, &[]);
    }
}
