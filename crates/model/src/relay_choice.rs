//! The relay between the ends of a path: the levels of the factor `relay`.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name_tables::Transport;
use crate::place::Place;
use crate::relay::RelayMethod;
use crate::relay_program::{RelayProgram, relay_name};
use crate::unit::TextError;

/// The relay between the ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelayChoice {
    /// A method of bytegauge; [`RelayMethod::Direct`] is a path without a relay.
    Method(RelayMethod),
    /// A program that is started for the trial, by its level: a ready one, or a command of the user's.
    Program(Arc<str>),
    /// A program that runs already.
    Running(RunningRelay),
}

impl RelayChoice {
    /// The method, if it is one of bytegauge.
    pub fn method(&self) -> Option<RelayMethod> {
        match self {
            RelayChoice::Method(method) => Some(*method),
            _ => None,
        }
    }

    /// The program that is started.
    pub fn program(&self) -> Option<RelayProgram> {
        match self {
            RelayChoice::Program(name) => RelayProgram::of(name),
            _ => None,
        }
    }

    /// The program that runs already.
    pub fn running(&self) -> Option<&RunningRelay> {
        match self {
            RelayChoice::Running(running) => Some(running),
            _ => None,
        }
    }
}

impl FromStr for RelayChoice {
    type Err = TextError;

    fn from_str(text: &str) -> Result<RelayChoice, TextError> {
        let name = relay_name(text)?;
        if let Ok(method) = name.parse() {
            return Ok(RelayChoice::Method(method));
        }
        Ok(match RunningRelay::of(&name) {
            Some(running) => RelayChoice::Running(running),
            None => RelayChoice::Program(name.into()),
        })
    }
}

impl fmt::Display for RelayChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelayChoice::Method(method) => method.fmt(f),
            RelayChoice::Program(name) => f.pad(name),
            RelayChoice::Running(running) => running.fmt(f),
        }
    }
}

// A relay that runs already: its listening address, its target, and the process that is charged.
//
// It is an external program: bytegauge neither starts nor ends it.

/// Prefix of the name of one.
pub(crate) const RUNNING: &str = "addr:";

/// The expected form.
const EXPECTED: &str = "a relay that runs already: write addr:LISTEN=UPSTREAM, such as addr:127.0.0.1:9000=127.0.0.1:9001, with two different \
     addresses of one family and their ports (where it listens, and what it connects to: our server listens there), and \
     @PID behind them where the owner of its port is not to be charged";

/// A relay that runs already.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RunningRelay {
    /// Where it listens.
    pub listen: SocketAddr,
    /// The address that it connects to: bytegauge's end behind it must listen there.
    pub upstream: SocketAddr,
    /// The process whose tree is charged; absent: the trees of those that hold the listening port.
    pub pid: Option<u32>,
}

impl RunningRelay {
    /// The relay of a level; `None` where it is another one.
    pub fn of(level: &str) -> Option<RunningRelay> {
        level.parse().ok()
    }

    /// The transport that reaches it.
    pub fn transport(&self) -> Transport {
        if self.listen.is_ipv6() { Transport::Tcp6 } else { Transport::Tcp }
    }

    /// The running relays among levels, each once.
    pub fn among<'a>(levels: impl Iterator<Item = &'a str>) -> Vec<RunningRelay> {
        let names: BTreeSet<&str> = levels.collect();
        names.into_iter().filter_map(RunningRelay::of).collect()
    }
}

impl FromStr for RunningRelay {
    type Err = TextError;

    fn from_str(text: &str) -> Result<RunningRelay, TextError> {
        let address = |text: &str| match text.parse() {
            Ok(Place::Ip(address)) if address.port() != 0 && !address.ip().is_unspecified() => Some(address),
            _ => None,
        };
        let parsed = || {
            let (listen, rest) = text.strip_prefix(RUNNING)?.split_once('=')?;
            let (upstream, pid) = match rest.split_once('@') {
                Some((upstream, pid)) => (upstream, Some(pid.parse().ok().filter(|pid: &u32| *pid > 0)?)),
                None => (rest, None),
            };
            let relay = RunningRelay { listen: address(listen)?, upstream: address(upstream)?, pid };
            let fits = relay.listen != relay.upstream && relay.listen.is_ipv6() == relay.upstream.is_ipv6();
            fits.then_some(relay)
        };
        parsed().ok_or_else(|| TextError::malformed(text, EXPECTED))
    }
}

impl fmt::Display for RunningRelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunningRelay { listen, upstream, pid } = self;
        write!(f, "{RUNNING}{listen}={upstream}")?;
        pid.map_or(Ok(()), |pid| write!(f, "@{pid}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: fn(&RelayChoice) -> bool) {
        let choice: RelayChoice = text.parse().unwrap();
        assert!(expected(&choice), "{choice:?}");
        assert_eq!(choice.to_string(), text);
    }

    #[test]
    fn a_relay_is_a_method_or_a_program() {
        check("splice", |choice| choice.method() == Some(RelayMethod::Splice));
        check("haproxy", |choice| choice.program().is_some());
        check("cmd:x {listen} {upstream}", |choice| choice.program().is_some());
        check("addr:127.0.0.1:1=127.0.0.1:2", |choice| choice.running().is_some());
        assert!("splce".parse::<RelayChoice>().is_err());
    }
}

#[cfg(test)]
mod running_relay_tests {
    use super::*;

    #[test]
    fn both_addresses_are_needed_the_host_is_optional() {
        let check = |text: &str, expected: &str| {
            let relay: RunningRelay = text.parse().unwrap();
            assert_eq!((relay.to_string().as_str(), RunningRelay::of(expected)), (expected, Some(relay)));
        };
        check("addr:127.0.0.1:9000=127.0.0.1:9001", "addr:127.0.0.1:9000=127.0.0.1:9001");
        check("addr::9000=:9001@4711", "addr:127.0.0.1:9000=127.0.0.1:9001@4711");
        check("addr:[::1]:9000=[::1]:9001", "addr:[::1]:9000=[::1]:9001");
        assert_eq!(RunningRelay::of("addr:[::1]:1=[::1]:2").unwrap().transport(), Transport::Tcp6);
    }

    #[test]
    fn incomplete_names_are_refused_with_an_example() {
        for bad in [
            "addr:127.0.0.1:9000",
            "addr:127.0.0.1:9000=",
            "addr::9000=:9000",
            "addr::9000=:0",
            "addr::9000=:9001@",
            "addr::9000=:9001@0",
            "addr:localhost:9000=:9001",
            "addr:0.0.0.0:9000=:9001",
            "addr:[::1]:9000=:9001",
            "addr:unix:/a=unix:/b",
        ] {
            let error = bad.parse::<RunningRelay>().unwrap_err().to_string();
            assert!(error.contains("write addr:LISTEN=UPSTREAM, such as addr:127.0.0.1:9000="), "{bad}: {error}");
        }
        assert!(RunningRelay::of("splice").is_none() && RunningRelay::of("cmd:x {listen} {upstream}").is_none());
    }
}
