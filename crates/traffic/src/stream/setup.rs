//! What a trial of a stream is set to, beside its path: resolved from a cell's levels, sent to both ends.

use bytegauge_model::{Engine, Fill, Spec};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::pace::Pace;
use crate::path::PathSetup;

/// Receives that a ring keeps in flight where no level says.
const OUTSTANDING: usize = 64;

/// How bytes go one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamSetup {
    /// The path.
    pub path: PathSetup,
    /// Who moves bytes.
    pub engine: Engine,
    /// Buffer of a write, bytes; absent for one-ended sources.
    pub write_size: Option<usize>,
    /// Datagrams that are handed to the kernel at once; absent: as many as suit the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<usize>,
    /// Receives of datagrams that a ring keeps in flight.
    pub outstanding: usize,
    /// Work per write.
    pub fill: Fill,
    /// Offered load of all flows, bytes per second; of both ways, each.
    pub rate: Option<u64>,
    /// Whether bytes go both ways at once: each end writes and reads every connection, or has as many flows of datagrams
    /// once more for what comes back.
    #[serde(default)]
    pub both: bool,
}

impl StreamSetup {
    /// When each of its flows may write.
    pub(crate) fn pace(&self) -> Pace {
        Pace::of(self.rate, self.path.flows, self.path.think_ns)
    }

    /// Resolves a cell's levels.
    ///
    /// # Errors
    /// [`Fault::Impossible`] if a level is missing or of the wrong kind: past planning, that is a bug.
    pub fn of(levels: &Spec) -> Result<StreamSetup, Fault> {
        let missing = |name: &str| Fault::Impossible(format!("a cell without {name}"));
        let write_size = || levels.write_size().map(|bytes| bytes as usize).ok_or_else(|| missing("write_size"));
        let read_size = match levels.read_size() {
            Some(bytes) => bytes as usize,
            // Where another's server reads, of ours only the harness's own loop does: as much as is written.
            None if levels.connect.is_some() => write_size()?,
            None => return Err(missing("read_size")),
        };
        let mut path = PathSetup::of(levels, read_size)?;
        let engine = levels.engine().unwrap_or(Engine::Blocking);
        // The harness's own loop connects to nobody.
        path.foreign = path.foreign.filter(|_| engine != Engine::Null);
        path.far = path.far.filter(|_| engine != Engine::Null);
        let two_ended = path.transport.two_ended();
        Ok(StreamSetup {
            engine,
            write_size: if two_ended { Some(write_size()?) } else { None },
            batch: levels.batch().map(|n| n as usize),
            outstanding: levels.outstanding().map_or(OUTSTANDING, |n| n as usize),
            fill: levels.writer_work().unwrap_or_default(),
            rate: levels.rate(),
            both: levels.goes_both_ways() && engine != Engine::Null,
            path,
        })
    }

    /// Whether both ends take part. The null engine moves nothing, and a server that is not ours takes no commands: the
    /// end that measures is alone.
    pub fn has_two_ends(&self) -> bool {
        self.path.transport.two_ended() && self.engine != Engine::Null && self.path.foreign.is_none()
    }

    /// Flows of both ways, which one window holds.
    pub(crate) fn flows_of_all_ways(&self) -> usize {
        self.path.flows.saturating_mul(if self.both { 2 } else { 1 })
    }

    /// Whether what goes back has sockets of its own. The words in which the ends of a flow of datagrams agree on when it begins
    /// and ends go over its socket the other way, where nothing else may.
    pub(crate) fn has_sockets_each_way(&self) -> bool {
        self.both && self.path.transport.is_datagram()
    }

    /// The path with all sockets that are joined: those of what goes back are the last.
    pub(crate) fn joined(&self) -> PathSetup {
        let flows = if self.has_sockets_each_way() { self.flows_of_all_ways() } else { self.path.flows };
        PathSetup { flows, ..self.path.clone() }
    }

    /// Whether a flow of datagrams is one of those that go back: who connected reads it.
    pub(crate) fn goes_back(&self, flow: usize) -> bool {
        self.has_sockets_each_way() && flow >= self.path.flows
    }
}
