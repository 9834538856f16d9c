//! Counts the calls of a client's flow without a lock, in any engine; and reads recorded times back.
//!
//! Flows that share their thread share its [`ClientCounts`], which that thread owns. A flow with a thread of its own has a record of
//! its own, which grows with its times, and adds it to the common record when it leaves. It adds its calls in batches: a call
//! then touches half a cache line instead of one line in each histogram, and a batch finds the lines of its histograms in the cache
//! after its first calls. Hundreds of flows share a cache, so without this each call would wait for memory several times.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::EncodedHistogram;
use fragile::Fragile;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::call::client_counts::{ClientCounts, Times};
use crate::counter::{ThreadCounter, Total};
use crate::lock;

/// Calls that a flow keeps before it adds them: 16 KiB.
const KEPT: usize = 512;

/// The record of one end's thread, or of the threads that its engine starts.
#[derive(Debug)]
pub(super) enum Records {
    /// For flows that share the calling thread, with their counter.
    OfThread(Arc<OfThread>),
    /// For flows with threads of their own.
    OfFlows(Arc<OfFlows>),
}

/// State shared by flows of one thread. `Fragile`, a check of the thread, replaces a lock: flows have to be `Send`, since
/// some engines start threads for them.
pub(crate) type OfThread = Fragile<(RefCell<ClientCounts>, ThreadCounter<1>)>;

/// State shared by flows with threads of their own: used when one of them begins and when it leaves.
#[derive(Debug)]
pub(crate) struct OfFlows {
    /// The records of flows that have left.
    left: Mutex<ClientCounts>,
    completed: Arc<Total<1>>,
}

/// One flow's recorder.
#[derive(Debug)]
pub(crate) enum Recorder {
    OfThread(Arc<OfThread>),
    OfFlow(Box<OfFlow>),
}

/// The record of a flow with a thread of its own.
#[derive(Debug)]
pub(crate) struct OfFlow {
    kept: Vec<KeptCall>,
    record: ClientCounts,
    completed: ThreadCounter<1>,
    all: Arc<OfFlows>,
}

/// A completed call in 32 bytes: its times are below 4.3 s.
#[derive(Clone, Copy, Debug)]
struct KeptCall {
    now_ns: u64,
    /// `u32::MAX`: the call opened no connection.
    connect_ns: u32,
    write_ns: u32,
    first_byte_ns: u32,
    total_ns: u32,
    late_ns: u32,
}

impl KeptCall {
    /// `None` if a time is too long.
    #[inline]
    fn new(now_ns: u64, times: &Times) -> Option<KeptCall> {
        let Times { connect_ns, write_ns, first_byte_ns, total_ns, late_ns } = *times;
        let longest_ns = connect_ns.unwrap_or(0).max(write_ns).max(first_byte_ns).max(total_ns).max(late_ns);
        (longest_ns < u64::from(u32::MAX)).then_some(KeptCall {
            now_ns,
            connect_ns: connect_ns.map_or(u32::MAX, |ns| ns as u32),
            write_ns: write_ns as u32,
            first_byte_ns: first_byte_ns as u32,
            total_ns: total_ns as u32,
            late_ns: late_ns as u32,
        })
    }

    fn times(self) -> Times {
        Times {
            connect_ns: (self.connect_ns != u32::MAX).then_some(self.connect_ns.into()),
            write_ns: self.write_ns.into(),
            first_byte_ns: self.first_byte_ns.into(),
            total_ns: self.total_ns.into(),
            late_ns: self.late_ns.into(),
        }
    }
}

impl Records {
    /// For flows that share the calling thread and record in this one, or for flows with threads of their own. Calls that
    /// complete are counted in `completed`.
    pub(super) fn new(record: ClientCounts, thread_a_flow: bool, completed: &Arc<Total<1>>) -> Records {
        match thread_a_flow {
            false => Records::OfThread(Arc::new(Fragile::new((RefCell::new(record), completed.counter())))),
            true => Records::OfFlows(Arc::new(OfFlows { left: Mutex::new(record), completed: Arc::clone(completed) })),
        }
    }

    /// For another flow.
    pub(super) fn recorder(&self) -> Recorder {
        match self {
            Records::OfThread(record) => Recorder::OfThread(Arc::clone(record)),
            Records::OfFlows(all) => Recorder::OfFlow(Box::new(OfFlow {
                kept: Vec::with_capacity(KEPT),
                record: all.left().growing(),
                completed: all.completed.counter(),
                all: Arc::clone(all),
            })),
        }
    }

    /// The records of all flows that have left.
    pub(super) fn into_record(self) -> ClientCounts {
        match self {
            Records::OfThread(record) => record.get().0.borrow_mut().take(),
            Records::OfFlows(all) => all.left().take(),
        }
    }
}

impl OfFlows {
    fn left(&self) -> MutexGuard<'_, ClientCounts> {
        lock(&self.left)
    }
}

impl Recorder {
    /// A call is complete.
    #[inline]
    pub(super) fn completed(&mut self, now_ns: u64, times: Times) {
        match self {
            Recorder::OfThread(shared) => {
                let (record, completed) = shared.get();
                completed.add([1]);
                record.borrow_mut().completed(now_ns, times);
            }
            Recorder::OfFlow(own) => {
                own.completed.add([1]);
                match KeptCall::new(now_ns, &times) {
                    Some(call) => own.kept.push(call),
                    None => own.record.completed(now_ns, times),
                }
                if own.kept.len() == KEPT {
                    own.enter();
                }
            }
        }
    }

    /// Records anything else, after the calls that are kept.
    #[cold]
    pub(super) fn with<R>(&mut self, what: impl FnOnce(&mut ClientCounts) -> R) -> R {
        match self {
            Recorder::OfThread(shared) => what(&mut shared.get().0.borrow_mut()),
            Recorder::OfFlow(own) => {
                own.enter();
                what(&mut own.record)
            }
        }
    }
}

impl OfFlow {
    #[cold]
    #[inline(never)]
    fn enter(&mut self) {
        self.kept.drain(..).for_each(|call| self.record.completed(call.now_ns, call.times()));
    }
}

/// The flow leaves: nothing is measured any more.
impl Drop for OfFlow {
    fn drop(&mut self) {
        self.enter();
        self.all.left().add(&self.record);
    }
}

/// A histogram of times.
#[derive(Clone, Debug)]
pub struct DecodedHistogram(Histogram<u64>);

impl DecodedHistogram {
    /// Reads what [`ClientCounts::report`](super::ClientCounts::report) wrote; `None` if it is damaged.
    pub fn decode(encoded: &EncodedHistogram) -> Option<DecodedHistogram> {
        let bytes = BASE64.decode(&encoded.0).ok()?;
        Deserializer::new().deserialize(&mut bytes.as_slice()).ok().map(DecodedHistogram)
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The number of times above a limit, to the three digits that are kept.
    pub fn longer_than(&self, limit_ns: u64) -> u64 {
        self.0.len() - self.0.count_between(0, limit_ns)
    }

    /// The quantile of the times for a share, nanoseconds.
    pub fn at(&self, share: f64) -> u64 {
        self.0.value_at_quantile(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::client_counts::FlowCounts;

    fn record() -> ClientCounts {
        let mut record = ClientCounts::new(false, false);
        record.keep(0, u64::MAX);
        record
    }

    const TIMES: Times = Times { connect_ns: None, write_ns: 1, first_byte_ns: 1, total_ns: 1, late_ns: 0 };

    /// Calls that three flows recorded, and those that were counted.
    fn recorded(thread_a_flow: bool, calls: u64) -> (u64, u64) {
        let total = Arc::default();
        let records = Records::new(record(), thread_a_flow, &total);
        for _ in 0..3 {
            let mut recorder = records.recorder();
            (0..calls).for_each(|call| recorder.completed(call, TIMES));
            recorder.with(|record| record.add_counts(FlowCounts::default()));
        }
        (records.into_record().report().calls, total.sums()[0])
    }

    #[test]
    fn no_call_stays_in_a_flow() {
        for calls in [0, 1, KEPT as u64, KEPT as u64 + 1, 3 * KEPT as u64] {
            assert_eq!(recorded(false, calls), (3 * calls, 3 * calls));
            assert_eq!(recorded(true, calls), (3 * calls, 3 * calls));
        }
    }

    #[test]
    fn kept_call_has_times_below_four_seconds() {
        let times =
            Times { connect_ns: Some(0), write_ns: 1, first_byte_ns: 2, total_ns: u32::MAX as u64 - 1, late_ns: 4 };
        for times in [times, Times { connect_ns: None, ..times }, TIMES] {
            let kept = KeptCall::new(9, &times).unwrap();
            assert_eq!((kept.now_ns, format!("{:?}", kept.times())), (9, format!("{times:?}")));
        }
        assert!(KeptCall::new(9, &Times { total_ns: u32::MAX.into(), ..times }).is_none());
        assert!(KeptCall::new(9, &Times { connect_ns: Some(1 << 40), ..times }).is_none());
    }

    /// The test hangs if a flow waits for shared state.
    #[test]
    fn flow_of_its_own_thread_takes_no_lock() {
        let records = Records::new(record(), true, &Arc::default());
        let mut recorder = records.recorder();
        let Records::OfFlows(all) = &records else { panic!() };
        let held = all.left();
        (0..3 * KEPT as u64).for_each(|call| recorder.completed(call, TIMES));
        recorder.with(|record| record.ended_late(0));
        drop(held);
        drop(recorder);
        assert_eq!(records.into_record().report().calls, 3 * KEPT as u64);
    }
}

#[cfg(test)]
mod decoded_histogram_tests {
    use super::*;
    use crate::call::client_counts::{ClientCounts, Times};

    #[test]
    fn what_was_recorded_is_read() {
        let mut record = ClientCounts::new(false, false);
        record.keep(0, 10);
        for total_ns in [1_000; 90].into_iter().chain([50_000; 10]) {
            record.completed(5, Times { connect_ns: None, write_ns: 1, first_byte_ns: 1, total_ns, late_ns: 0 });
        }
        let recorded = DecodedHistogram::decode(record.report().total.as_ref().unwrap()).unwrap();
        assert_eq!((recorded.count(), recorded.longer_than(2_000), recorded.longer_than(50_000)), (100, 10, 0));
        assert!((1_000..1_002).contains(&recorded.at(0.9)) && recorded.at(0.91) >= 50_000);
        assert!(DecodedHistogram::decode(&EncodedHistogram("no base64!".into())).is_none());
    }
}
