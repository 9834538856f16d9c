//! The sockets of a program's run, as its calls showed them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::catalog::{NameError, Transport, names};
use crate::end::EndRole;
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
    type Error = NameError;

    fn try_from(text: String) -> Result<OpenedSocket, NameError> {
        let malformed = || NameError::Malformed(text.clone(), "a socket of a program");
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ineffective: Option<String>,
    /// Why the connections that a listener accepts do not get an option, which other sockets may have got.
    #[serde(skip_serializing_if = "Option::is_none")]
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
