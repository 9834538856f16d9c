//! Events of a run in progress. They come while nothing is measured: between trials, or before a program's server is ready.

use bytegauge_model::{AnalysisProgress, BlockRecord, Cell, ReadyWhen, SessionId, Stage, Trial};
use bytegauge_store::Store;

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The session exists in the store.
    Began {
        /// Its number.
        session: SessionId,
        /// Whether it continues an interrupted session.
        resumed: bool,
    },
    /// A stage begins.
    Stage {
        /// Which.
        stage: Stage,
        /// Trials it is going to take, if nothing breaks.
        trials: u64,
        /// Blocks of these trials.
        blocks: u64,
        /// The session, whose cells of this stage are in the store.
        session: SessionId,
        /// The store.
        store: &'a Store,
    },
    /// A block is in the store.
    Block(&'a BlockRecord),
    /// A trial is in the store.
    Trial {
        /// Its cell.
        cell: &'a Cell,
        /// The result.
        trial: &'a Trial,
        /// Time since the run began, nanoseconds.
        elapsed_ns: u64,
        /// Expected time until the end of the session, or of the analysis, nanoseconds.
        left_ns: u64,
        /// Expected time of later analyses, which follow if tests are inconclusive, nanoseconds.
        further_ns: u64,
    },
    /// The server of a program is not ready yet, reported every second; then that it is.
    Waiting {
        /// Its sign.
        ready: &'a ReadyWhen,
        /// The time until its run fails, nanoseconds; 0: it is ready.
        left_ns: u64,
    },
    /// An analysis is complete.
    Analysed {
        /// Its number, from 1.
        look: u64,
        /// The planned number.
        of: u64,
        /// Its result.
        progress: AnalysisProgress,
        /// Time that the next one would take, nanoseconds.
        next_ns: u64,
    },
    /// Something worth a line: a cell left its group, the number of blocks was fixed.
    Note(String),
}

/// A receiver of events.
pub trait Observer {
    /// Receives an event. Nothing is measured meanwhile, so it may draw; it should be quick all the same.
    fn hear(&mut self, event: &Event<'_>);
}

/// Ignores all events.
pub struct Silent;

impl Observer for Silent {
    fn hear(&mut self, _event: &Event<'_>) {}
}
