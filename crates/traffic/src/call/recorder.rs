//! How a flow of a client records its calls: without a lock, whatever engine carries it.
//!
//! Flows that share their thread share its [`Record`], which that thread owns. A flow with a thread of its own keeps
//! its last calls and enters them together: a record for each of hundreds of threads would take a megabyte each.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use fragile::Fragile;

use crate::call::record::{Record, Times};
use crate::counter::{ThreadCounter, Total};

/// Calls that a flow keeps before it enters them: 3 KiB, and one lock in 64 calls.
const KEPT: usize = 64;

/// The records of one end's thread, or of the threads that its engine starts.
#[derive(Debug)]
pub(super) enum Records {
    /// Of flows that share the calling thread, with their counter.
    OfThread(Arc<OfThread>),
    /// Of flows with threads of their own, dealt in turn.
    Dealt(Vec<Arc<Mutex<Record>>>, Arc<Total<1>>),
}

/// What flows of one thread share. `Fragile`, a check of the thread, takes the place of a lock: flows have to be
/// `Send`, since some engines start threads for them.
type OfThread = Fragile<(RefCell<Record>, ThreadCounter<1>)>;

/// Where one flow records.
#[derive(Debug)]
pub struct Recorder(Kind);

#[derive(Debug)]
enum Kind {
    OfThread(Arc<OfThread>),
    OfFlow { kept: Vec<(u64, Times)>, record: Arc<Mutex<Record>>, completed: ThreadCounter<1> },
}

impl Records {
    /// For flows that share the calling thread and record in the only one of these, or for flows with threads of their
    /// own. Calls that complete are counted in `completed`.
    pub(super) fn new(mut records: Vec<Record>, thread_a_flow: bool, completed: &Arc<Total<1>>) -> Records {
        match records.pop() {
            Some(record) if !thread_a_flow => {
                Records::OfThread(Arc::new(Fragile::new((RefCell::new(record), completed.counter()))))
            }
            last => {
                let shared = records.into_iter().chain(last).map(|record| Arc::new(Mutex::new(record)));
                Records::Dealt(shared.collect(), Arc::clone(completed))
            }
        }
    }

    /// For flow number `flow` of these.
    pub(super) fn recorder(&self, flow: usize) -> Recorder {
        Recorder(match self {
            Records::OfThread(record) => Kind::OfThread(Arc::clone(record)),
            Records::Dealt(records, completed) => Kind::OfFlow {
                kept: Vec::with_capacity(KEPT),
                record: Arc::clone(&records[flow % records.len()]),
                completed: completed.counter(),
            },
        })
    }

    /// What all flows recorded that were handed in.
    pub(super) fn into_records(self) -> Vec<Record> {
        match self {
            Records::OfThread(record) => vec![record.get().0.borrow_mut().take()],
            Records::Dealt(records, _) => {
                records.iter().map(|record| record.lock().unwrap_or_else(PoisonError::into_inner).take()).collect()
            }
        }
    }
}

impl Recorder {
    /// A call is complete.
    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, times: Times) {
        match &mut self.0 {
            Kind::OfThread(shared) => {
                let (record, completed) = shared.get();
                completed.add([1]);
                record.borrow_mut().completed(now_ns, times);
            }
            Kind::OfFlow { kept, record, completed } => {
                completed.add([1]);
                kept.push((now_ns, times));
                if kept.len() == KEPT {
                    enter(kept, record);
                }
            }
        }
    }

    /// Enters anything else, after the calls that are kept.
    #[cold]
    pub(super) fn with<R>(&mut self, what: impl FnOnce(&mut Record) -> R) -> R {
        match &mut self.0 {
            Kind::OfThread(shared) => what(&mut shared.get().0.borrow_mut()),
            Kind::OfFlow { kept, record, .. } => {
                enter(kept, record);
                what(&mut record.lock().unwrap_or_else(PoisonError::into_inner))
            }
        }
    }
}

#[cold]
#[inline(never)]
fn enter(kept: &mut Vec<(u64, Times)>, record: &Mutex<Record>) {
    let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
    kept.drain(..).for_each(|(now_ns, times)| record.completed(now_ns, times));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::record::Counts;

    fn record() -> Record {
        let mut record = Record::new(false, false);
        record.keep(0, u64::MAX);
        record
    }

    /// Calls that three flows recorded, and those that were counted.
    fn recorded(thread_a_flow: bool, calls: u64) -> (u64, u64) {
        let total = Arc::default();
        let records = Records::new(vec![record()], thread_a_flow, &total);
        for flow in 0..3 {
            let mut recorder = records.recorder(flow);
            for call in 0..calls {
                recorder.completed(
                    call,
                    Times { connect_ns: None, write_ns: 1, first_byte_ns: 1, total_ns: 1, late_ns: 0 },
                );
            }
            recorder.with(|record| record.hand_in(Counts::default()));
        }
        (records.into_records().iter().map(|record| record.report().calls).sum(), total.sums()[0])
    }

    #[test]
    fn no_call_stays_in_a_flow() {
        for calls in [0, 1, KEPT as u64, KEPT as u64 + 1, 3 * KEPT as u64] {
            assert_eq!(recorded(false, calls), (3 * calls, 3 * calls));
            assert_eq!(recorded(true, calls), (3 * calls, 3 * calls));
        }
    }
}
