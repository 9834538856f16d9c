//! Who stands between the ends of a path, and how bytes are passed on.

use bytegauge_model::{
    RELAY_BUFFER, RelayChoice, RelayMethod, RelayPlacement, RelayProgram, RelayThreads, RunningRelay, Spec,
};
use serde::{Deserialize, Serialize};

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
    /// What a cell sets; `None` where the ends are joined directly.
    pub fn of(levels: &Spec) -> Option<Between> {
        let relay = levels.relay()?;
        match relay {
            RelayChoice::Method(RelayMethod::Direct) => None,
            RelayChoice::Method(method) => Some(Between::Ours(RelaySetup::of(levels, *method))),
            RelayChoice::Program(_) => relay.program().map(Between::Program),
            RelayChoice::Running(running) => Some(Between::Running(running.clone())),
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

    /// A method as a cell sets it.
    pub fn of(levels: &Spec, method: RelayMethod) -> RelaySetup {
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as usize);
        RelaySetup {
            threads: levels.relay_threads().unwrap_or_default(),
            buffer: bytes(levels.relay_buffer()),
            follows: levels.relay_placement() == Some(RelayPlacement::Follows),
            pipe_size: bytes(levels.relay_pipe()),
            ..RelaySetup::new(method)
        }
    }
}
