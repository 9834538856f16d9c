//! The relay between the ends of a path: the levels of the factor `relay`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::catalog::NameError;
use crate::relay::RelayMethod;
use crate::relay_program::{RelayProgram, relay_name};
use crate::running_relay::RunningRelay;

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
    type Err = NameError;

    fn from_str(text: &str) -> Result<RelayChoice, NameError> {
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
