//! What a run tells while it goes on. Events come between trials, never within one.

use bytegauge_model::{BlockRecord, Cell, SessionId, Stage, Trial};
use bytegauge_store::Store;

use crate::judge::Judgement;

/// Something that happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The session exists in the store.
    Began {
        /// Its number.
        session: SessionId,
        /// Whether it goes on where it was interrupted.
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
        /// What was measured.
        trial: &'a Trial,
        /// Time since the run began, nanoseconds.
        elapsed_ns: u64,
        /// Expected time until its end, or until that of the look, nanoseconds.
        left_ns: u64,
        /// What the looks after it take, which come where something stays open, nanoseconds.
        further_ns: u64,
    },
    /// A look is complete, and the session was judged.
    Look {
        /// Its number, from 1.
        look: u64,
        /// How many there are at most.
        of: u64,
        /// What it showed.
        judgement: Judgement,
        /// Time that the next one would take, nanoseconds.
        next_ns: u64,
    },
    /// Something worth a line: a cell left its group, the number of blocks was fixed.
    Note(String),
}

/// Somebody who watches.
pub trait Observer {
    /// Hears of an event. No trial runs meanwhile, so it may draw; it should be quick all the same.
    fn hear(&mut self, event: &Event<'_>);
}

/// Nobody watches.
pub struct Silent;

impl Observer for Silent {
    fn hear(&mut self, _event: &Event<'_>) {}
}
