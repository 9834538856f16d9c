//! What a trial of calls is set to, beside what every path has: resolved from a cell's levels, sent to both ends.

use std::fmt::Display;
use std::str::FromStr;

use bytegauge_model::{Arrivals, Engine, Level, Levels, Place};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::message::Address;
use crate::place;

/// How long a call may take where the plan does not say, nanoseconds.
pub const TIMEOUT_NS: u64 = 5_000_000_000;

/// The backlog asked for where the plan does not say: the system clamps it at `net.core.somaxconn`.
pub const BACKLOG: u32 = 4096;

/// Largest receive where the plan does not say, bytes.
pub const READ_SIZE: usize = 16 << 10;

/// Datagrams that a system call moves at most where the plan does not say.
pub const BATCH: usize = 64;

/// What is said, how often, and by whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallSetup {
    /// Bytes of a request.
    pub request: usize,
    /// Bytes of a reply. As long as the request, it is an echo: the very bytes received.
    pub response: usize,
    /// Most bytes of one send of a request; absent, it is sent whole.
    pub request_chunk: Option<usize>,
    /// Calls that a flow keeps outstanding.
    pub depth: usize,
    /// Whether every call opens a connection of its own.
    pub connect_per_call: bool,
    /// The server takes its first read for the whole request, replies and closes.
    pub read_once: bool,
    /// Connections that are open beside and say nothing.
    pub idle_flows: usize,
    /// Offered load of all flows, calls per second; absent, the next call begins when the last one ends.
    pub rate: Option<u64>,
    /// How an offered load is spread.
    pub arrivals: Arrivals,
    /// How long a call may take, nanoseconds.
    pub timeout_ns: u64,
    /// Who moves bytes at the server.
    pub server_engine: Engine,
    /// Who moves bytes at the client.
    pub client_engine: Engine,
    /// Datagrams that a system call moves at most, of an engine that moves several.
    pub batch: usize,
    /// Receives that a ring keeps in flight over datagrams.
    pub outstanding: usize,
    /// Threads of the server; an engine with a thread per flow makes its own.
    pub server_threads: usize,
    /// Threads of the client.
    pub client_threads: usize,
    /// Connections that may wait to be accepted.
    pub backlog: u32,
    /// Flows of a second group of clients that loads the same server meanwhile.
    pub competing_flows: usize,
    /// Whether the clients go on after their window until they are told: the second group does.
    pub until_told: bool,
    /// Whether a run under more load has shown that the engines run in their modes: few calls need not show it again.
    #[serde(default)]
    pub modes_are_shown: bool,
    /// Where a server listens that is not ours: then only the clients are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign: Option<Address>,
    /// Whether nothing is known of replies but their length: then only that is checked.
    #[serde(default)]
    pub opaque: bool,
}

impl CallSetup {
    /// Resolves a cell's levels; `None` if they are not those of a call.
    ///
    /// # Errors
    /// [`Fault::Impossible`] for a level of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<Option<CallSetup>, Fault> {
        let number = |name: &str| levels.get(name).number();
        let count = |name: &str| number(name).unwrap_or(1).max(1) as usize;
        let switched = |name: &str| *levels.get(name) == Level::Switch(true);
        let Some(request) = number("request") else { return Ok(None) };
        let both = named(levels, "engine")?;
        let foreign = match named::<Place>(levels, "connect")? {
            Some(at) => Some(place::address(&at)?),
            None => None,
        };
        let response = number("response");
        let datagrams = levels.transport().is_some_and(|transport| transport.is_datagram());
        let plainest = if datagrams { Engine::Plain } else { Engine::Blocking };
        let end = |name| Ok::<_, Fault>(named(levels, name)?.or(both).unwrap_or(plainest));
        Ok(Some(CallSetup {
            request: request as usize,
            response: response.unwrap_or(request) as usize,
            request_chunk: number("request_chunk").map(|bytes| bytes as usize),
            depth: count("depth"),
            connect_per_call: switched("connect_per_call"),
            read_once: switched("read_once"),
            idle_flows: number("idle_flows").unwrap_or(0) as usize,
            rate: number("call_rate"),
            arrivals: named(levels, "arrivals")?.unwrap_or_default(),
            timeout_ns: number("timeout").unwrap_or(TIMEOUT_NS),
            server_engine: end("server_engine")?,
            client_engine: end("client_engine")?,
            batch: number("batch").map_or(BATCH, |n| n.max(1) as usize),
            outstanding: number("outstanding").map_or(BATCH, |n| n.max(1) as usize),
            server_threads: count("server_threads"),
            client_threads: count("client_threads"),
            backlog: number("backlog").map_or(BACKLOG, |n| n.min(i32::MAX as u64) as u32),
            competing_flows: number("competing_flows").unwrap_or(0) as usize,
            until_told: false,
            modes_are_shown: false,
            // Of a stranger who was said to reply with so many bytes, it is not known that he returns ours.
            opaque: foreign.is_some() && response.is_some(),
            foreign,
        }))
    }

    /// Whether a reply is the request itself.
    pub fn echoes(&self) -> bool {
        self.request == self.response && !self.opaque
    }
}

/// A named level; absent, `auto` and `same` are left to somebody else.
fn named<T: FromStr<Err: Display>>(levels: &Levels, name: &str) -> Result<Option<T>, Fault> {
    match levels.get(name).name() {
        None | Some("auto" | "same") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| Fault::Impossible(format!("{name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &[(&str, Level)]) -> CallSetup {
        let mut levels = Levels::default();
        levels.set("request", Level::Number(512));
        for (name, level) in given {
            levels.set(name, level.clone());
        }
        CallSetup::of(&levels).unwrap().unwrap()
    }

    #[test]
    fn what_is_not_said_is_a_plain_echo() {
        let setup = of(&[]);
        assert!(setup.echoes());
        assert_eq!((setup.depth, setup.rate), (1, None));
        assert_eq!(setup.server_engine, Engine::Blocking);
        assert_eq!(CallSetup::of(&Levels::default()).unwrap(), None);
    }

    #[test]
    fn of_a_server_that_is_not_ours_only_an_echo_is_known() {
        let at = || ("connect", Level::Name("127.0.0.1:7".into()));
        let echo = of(&[at(), ("response", Level::Name("same".into()))]);
        assert_eq!(echo.foreign, Some(Address::Ip(([127, 0, 0, 1], 7).into())));
        assert!(echo.echoes() && !echo.opaque);
        let other = of(&[at(), ("response", Level::Number(512))]);
        assert!(!other.echoes() && other.opaque);
        assert!(of(&[("connect", Level::auto())]).foreign.is_none());
    }

    #[test]
    fn levels_are_read_by_kind() {
        let name = |text: &str| Level::Name(text.into());
        let setup = of(&[
            ("response", name("same")),
            ("engine", name("tokio")),
            ("client_engine", name("epoll")),
            ("call_rate", name("max")),
            ("arrivals", name("poisson")),
            ("request_chunk", name("whole")),
        ]);
        assert_eq!(setup.response, 512);
        assert_eq!((setup.server_engine, setup.client_engine.to_string()), (Engine::Tokio, "epoll".into()));
        assert_eq!((setup.rate, setup.arrivals), (None, Arrivals::Poisson));
        assert_eq!(setup.request_chunk, None);
    }
}
