//! The sockets of a program's run, as its calls showed them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::end::EndRole;
use crate::name_tables::{Transport, names};
use crate::unit::{Bytes, TextError};
use crate::wait_causes::SocketWaits;

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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
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

impl From<OpenedSocket> for String {
    fn from(socket: OpenedSocket) -> String {
        format!("{} {}", socket.transport, socket.call)
    }
}

impl TryFrom<String> for OpenedSocket {
    type Error = TextError;

    fn try_from(text: String) -> Result<OpenedSocket, TextError> {
        let malformed = || TextError::malformed(&text, "a socket of a program");
        let (transport, call) = text.split_once(' ').ok_or_else(malformed)?;
        Ok(OpenedSocket { transport: transport.parse()?, call: call.parse()? })
    }
}

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
    /// How many times the CPU time of a read to a page one to page + 16 takes on this CPU.
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
                ": here a copy to page + 16 takes {ratio:.1}× the CPU time of one to a page. Align the buffer to 64 bytes or more: \
                 posix_memalign, aligned_alloc, Rust's Layout, ByteBuffer.alignedSlice, a slice of a bytearray (docs/buffer-sizes.md)"
            ),
            false => write!(
                f,
                ", as from malloc: on this CPU that costs nothing ({ratio:.1}×), on AMD Zen 3 up to 6× (docs/buffer-sizes.md)"
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
    #[must_use]
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
