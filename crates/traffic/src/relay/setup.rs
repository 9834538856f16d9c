//! Who stands between the ends of a path, and how bytes are passed on.

use bytegauge_model::{Levels, RELAY_BUFFER, RelayMethod, RelayPlacement, RelayProgram, RelayThreads, RunningRelay};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::levels::parsed;

/// What a thread's stack needs that carries one direction: there may be thousands of them.
pub(super) const STACK: usize = 256 << 10;

/// Who stands between the ends of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// A relay of ours.
    Ours(RelaySetup),
    /// A program of somebody else's, started for the trial.
    Program(RelayProgram),
    /// One that runs already, and goes on afterwards.
    Running(RunningRelay),
}

impl Between {
    /// Resolves a cell's levels; `None` where nobody does.
    ///
    /// # Errors
    /// [`Fault::Impossible`] for a level of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<Option<Between>, Fault> {
        let name = levels.get("relay").name();
        if let Some(running) = name.and_then(RunningRelay::of) {
            return Ok(Some(Between::Running(running)));
        }
        match name.and_then(RelayProgram::of) {
            Some(program) => Ok(Some(Between::Program(program))),
            None => Ok(RelaySetup::of(levels)?.map(Between::Ours)),
        }
    }
}

/// How a relay of ours passes bytes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySetup {
    /// The method.
    pub method: RelayMethod,
    /// Its threads, of a method that leaves the choice.
    pub threads: RelayThreads,
    /// Bytes of the buffer of one direction, of a method that has one; absent: as many as suit it.
    pub buffer: Option<usize>,
    /// Whether its threads go where bulk data comes in.
    pub follows: bool,
    /// Capacity to ask for of each pipe, of a method that has them; absent: the system's.
    pub pipe_size: Option<usize>,
}

impl RelaySetup {
    /// A method as it is without a word about it.
    pub fn new(method: RelayMethod) -> RelaySetup {
        RelaySetup { method, threads: RelayThreads::default(), buffer: None, follows: false, pipe_size: None }
    }

    /// Bytes of the buffer of one direction.
    pub(super) fn buffer(&self) -> usize {
        self.buffer.or(self.method.small_buffer()).unwrap_or(RELAY_BUFFER)
    }

    /// Memory that a connection of it may take beside its sockets, bytes: the buffers and pipes of both directions, and the
    /// stacks of its threads.
    pub(crate) fn memory(&self) -> u64 {
        let direction =
            (self.buffer().max(RELAY_BUFFER) as u64).saturating_add(self.pipe_size.unwrap_or(RELAY_BUFFER) as u64);
        direction.saturating_mul(2).saturating_add(self.method.holds(self.threads).threads * STACK as u64)
    }

    /// Resolves a cell's levels; `None` where there is no relay.
    ///
    /// # Errors
    /// [`Fault::Impossible`] for a level of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Levels) -> Result<Option<RelaySetup>, Fault> {
        let method = parsed::<RelayMethod>(levels, "relay")?.filter(|method| *method != RelayMethod::Direct);
        let Some(method) = method else { return Ok(None) };
        let number = |name: &str| levels.get(name).number().map(|bytes| bytes as usize);
        Ok(Some(RelaySetup {
            threads: parsed(levels, "relay_threads")?.unwrap_or_default(),
            buffer: number("relay_buffer"),
            follows: parsed(levels, "relay_placement")? == Some(RelayPlacement::Follows),
            pipe_size: number("relay_pipe"),
            ..RelaySetup::new(method)
        }))
    }
}
