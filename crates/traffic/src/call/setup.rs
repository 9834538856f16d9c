//! What a trial of calls is set to, beside what every path has: resolved from a cell's levels, sent to both ends.

use bytegauge_model::{Arrivals, Engine, Spec};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::path::PathSetup;

/// How long a call may take where the plan does not say, nanoseconds.
pub const TIMEOUT_NS: u64 = 5_000_000_000;

/// The backlog asked for where the plan does not say: the system clamps it at `net.core.somaxconn`.
pub const BACKLOG: u32 = 4096;

/// Largest receive where the plan does not say, bytes.
pub const READ_SIZE: usize = 16 << 10;

/// Datagrams that a system call moves at most where the plan does not say.
pub const BATCH: usize = 64;

/// What is said over a path, how often, and by whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSetup {
    /// The path.
    pub path: PathSetup,
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
    /// Whether nothing is known of replies but their length: then only that is checked.
    #[serde(default)]
    pub opaque: bool,
}

impl CallSetup {
    /// Whether clients wait for intended moments: an offered rate, or a pause between calls.
    pub fn waits(&self) -> bool {
        self.rate.is_some() || self.path.think_ns > 0
    }

    /// Resolves a cell's levels.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Spec) -> Result<CallSetup, Fault> {
        let count = |count: Option<u64>| count.unwrap_or(1).max(1) as usize;
        let request = levels.request().ok_or_else(|| Fault::Impossible("a cell without request".into()))?;
        let mut path = PathSetup::of(levels, levels.read_size().map_or(READ_SIZE, |bytes| bytes as usize))?;
        let response = levels.response();
        let plainest = if path.transport.is_datagram() { Engine::Plain } else { Engine::Blocking };
        let end = |engine: Option<Engine>| engine.or(levels.engine()).unwrap_or(plainest);
        let client_engine = end(levels.client_engine());
        // The harness's own loop calls nobody.
        path.far = path.far.filter(|_| client_engine != Engine::Null);
        Ok(CallSetup {
            request: request as usize,
            response: response.unwrap_or(request) as usize,
            request_chunk: levels.request_chunk().map(|bytes| bytes as usize),
            depth: count(levels.depth()),
            connect_per_call: levels.connect_per_call() == Some(true),
            read_once: levels.read_once() == Some(true),
            idle_flows: levels.idle_flows().unwrap_or(0) as usize,
            rate: levels.call_rate(),
            arrivals: levels.arrivals().unwrap_or_default(),
            timeout_ns: levels.timeout().unwrap_or(TIMEOUT_NS),
            server_engine: end(levels.server_engine()),
            client_engine,
            batch: levels.batch().map_or(BATCH, |n| n.max(1) as usize),
            outstanding: levels.outstanding().map_or(BATCH, |n| n.max(1) as usize),
            server_threads: count(levels.server_threads()),
            client_threads: count(levels.client_threads()),
            backlog: levels.backlog().map_or(BACKLOG, |n| n.min(i32::MAX as u64) as u32),
            competing_flows: levels.competing_flows().unwrap_or(0) as usize,
            until_told: false,
            modes_are_shown: false,
            // Of a stranger who was said to reply with so many bytes, it is not known that he returns ours.
            opaque: path.foreign.is_some() && response.is_some(),
            path,
        })
    }

    /// Whether both ends take part: no null engine, and no server that is not ours.
    pub fn has_two_ends(&self) -> bool {
        self.client_engine != Engine::Null && self.path.foreign.is_none()
    }

    /// Whether a reply is the request itself.
    pub fn echoes(&self) -> bool {
        self.request == self.response && !self.opaque
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::Level;

    use super::*;
    use crate::address::Address;

    fn of(given: &[(&str, Level)]) -> CallSetup {
        let mut levels = Spec::from([("transport", "tcp".into()), ("request", 512.into())]);
        for (name, level) in given {
            levels.set(name, level.clone());
        }
        CallSetup::of(&levels).unwrap()
    }

    #[test]
    fn what_is_not_said_is_a_plain_echo() {
        let setup = of(&[]);
        assert!(setup.echoes());
        assert_eq!((setup.depth, setup.rate), (1, None));
        assert_eq!(setup.server_engine, Engine::Blocking);
    }

    #[test]
    fn of_a_server_that_is_not_ours_only_an_echo_is_known() {
        let at = || ("connect", Level::Name("127.0.0.1:7".into()));
        let echo = of(&[at(), ("response", Level::Name("same".into()))]);
        assert_eq!(echo.path.foreign, Some(Address::Ip(([127, 0, 0, 1], 7).into())));
        assert!(echo.echoes() && !echo.opaque);
        let other = of(&[at(), ("response", Level::Number(512))]);
        assert!(!other.echoes() && other.opaque);
        assert!(of(&[("connect", Level::auto())]).path.foreign.is_none());
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
