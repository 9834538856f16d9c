//! The counts of a group of clients: times of calls in histograms, and errors by their class.
//!
//! Threads record into shards of their own, which are added up at the end. A call is recorded when it completes, and only if
//! that is within the window, so that a histogram holds exactly the calls of the rate. The ages of calls cut by an edge of the
//! window are kept: the slowest calls are cut most often, and without them times would look shorter than they are.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::{CallDatagrams, CallError, CallReport, EncodedHistogram, ErrorClass, ErrorPhase};
use bytegauge_sys::errno;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};

/// The longest time in the histograms; longer ones count as this: an hour, nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Times are kept to three significant digits.
const DIGITS: u8 = 3;

/// Digits of ages at an edge of the window, which need less precision.
const DIGITS_OF_AGES: u8 = 2;

/// The times of one call, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Opening the connection, if every call has its own.
    pub connect_ns: Option<u64>,
    /// From the beginning of the request until its last byte is sent.
    pub write_ns: u64,
    /// From the beginning of the call to the first byte of the reply.
    pub first_byte_ns: u64,
    /// From the beginning of the call to the last byte of the reply.
    pub total_ns: u64,
    /// From the time at which the call was due and its flow free, to its beginning.
    pub late_ns: u64,
}

/// One shard of a client's counts.
#[derive(Debug)]
pub struct ClientCounts {
    open_ns: u64,
    close_ns: u64,
    connect: Option<Histogram<u64>>,
    write: Histogram<u64>,
    first_byte: Histogram<u64>,
    total: Histogram<u64>,
    gap: Option<Histogram<u64>>,
    entered: Histogram<u64>,
    left: Histogram<u64>,
    late: Option<Histogram<u64>>,
    errors: BTreeMap<(ErrorClass, ErrorPhase), CallError>,
    counts: FlowCounts,
}

/// Counts that flows add when they leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Calls begun.
    pub begun: u64,
    /// Calls completed.
    pub completed: u64,
    /// Outstanding calls at the end.
    pub unfinished: u64,
    /// Calls that were due within the window and never begun.
    pub overdue: u64,
    /// Counts of datagrams.
    pub datagrams: CallDatagrams,
}

impl ClientCounts {
    /// An empty shard, its memory touched, that keeps no call before its window is known. `waits`: calls have intended times.
    pub fn new(connect_per_call: bool, waits: bool) -> ClientCounts {
        ClientCounts::of(connect_per_call, waits, histogram)
    }

    /// An empty shard of the same trial whose memory grows with the times in it, from 50 KiB to 400 KiB for times up to 100 ms:
    /// for one flow among many.
    pub(super) fn growing(&self) -> ClientCounts {
        let growing = |digits| Histogram::new(digits).expect("constant digits are good digits");
        let mut empty = ClientCounts::of(self.connect.is_some(), self.late.is_some(), growing);
        empty.keep(self.open_ns, self.close_ns);
        empty
    }

    fn of(connect_per_call: bool, waits: bool, histogram: fn(u8) -> Histogram<u64>) -> ClientCounts {
        ClientCounts {
            open_ns: 0,
            close_ns: 0,
            connect: connect_per_call.then(|| histogram(DIGITS)),
            write: histogram(DIGITS),
            first_byte: histogram(DIGITS),
            total: histogram(DIGITS),
            gap: None,
            entered: histogram(DIGITS_OF_AGES),
            left: histogram(DIGITS_OF_AGES),
            late: waits.then(|| histogram(DIGITS_OF_AGES)),
            errors: BTreeMap::new(),
            counts: FlowCounts::default(),
        }
    }

    /// Takes all of it; the rest is empty and of the same trial.
    pub fn take(&mut self) -> ClientCounts {
        let mut empty = ClientCounts::new(self.connect.is_some(), self.late.is_some());
        empty.keep(self.open_ns, self.close_ns);
        std::mem::replace(self, empty)
    }

    /// Keeps calls completed from `open_ns` to `close_ns`.
    pub fn keep(&mut self, open_ns: u64, close_ns: u64) {
        (self.open_ns, self.close_ns) = (open_ns, close_ns);
    }

    /// A call is complete.
    pub fn completed(&mut self, now_ns: u64, times: Times) {
        if now_ns >= self.close_ns {
            return self.ended_late(now_ns.saturating_sub(times.total_ns));
        }
        if now_ns < self.open_ns {
            return;
        }
        self.entered(now_ns.saturating_sub(times.total_ns));
        if let (Some(connect), Some(ns)) = (&mut self.connect, times.connect_ns) {
            enter(connect, ns);
        }
        if let Some(late) = &mut self.late {
            enter(late, times.late_ns);
        }
        enter(&mut self.write, times.write_ns);
        enter(&mut self.first_byte, times.first_byte_ns);
        enter(&mut self.total, times.total_ns);
    }

    /// Two parts of a reply began to arrive this long after each other.
    pub fn gap(&mut self, now_ns: u64, ns: u64) {
        if (self.open_ns..self.close_ns).contains(&now_ns) {
            enter(self.gap.get_or_insert_with(|| histogram(DIGITS)), ns);
        }
    }

    /// A call that began at `began_ns` ended, in any way, after the window had closed.
    pub fn ended_late(&mut self, began_ns: u64) {
        if began_ns < self.close_ns {
            enter(&mut self.left, self.close_ns - began_ns);
            self.entered(began_ns);
        }
    }

    /// A call that began at `began_ns` failed.
    pub fn failed(&mut self, now_ns: u64, began_ns: u64) {
        if now_ns >= self.close_ns {
            self.ended_late(began_ns);
        }
    }

    fn entered(&mut self, began_ns: u64) {
        if began_ns < self.open_ns {
            enter(&mut self.entered, self.open_ns - began_ns);
        }
    }

    /// An error occurred.
    pub fn trouble(&mut self, more: CallError) {
        self.errors.entry((more.class, more.phase)).and_modify(|error| error.add(&more)).or_insert(more);
    }

    /// A flow leaves.
    pub fn add_counts(&mut self, counts: FlowCounts) {
        self.counts.begun += counts.begun;
        self.counts.completed += counts.completed;
        self.counts.unfinished += counts.unfinished;
        self.counts.overdue += counts.overdue;
        self.counts.datagrams = self.counts.datagrams.plus(&counts.datagrams);
    }

    /// Adds another shard of the same trial.
    pub fn add(&mut self, other: &ClientCounts) {
        let pairs = [
            (&mut self.write, &other.write),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.total, &other.total),
            (&mut self.entered, &other.entered),
            (&mut self.left, &other.left),
        ];
        let optional = [(self.connect.as_mut(), other.connect.as_ref()), (self.late.as_mut(), other.late.as_ref())];
        for (ours, theirs) in pairs.into_iter().chain(optional.into_iter().filter_map(|(a, b)| a.zip(b))) {
            // Digits are constants, and every time is within the bounds of a fixed shard.
            ours.add(theirs).expect("every time fits");
        }
        if let Some(theirs) = &other.gap {
            self.gap.get_or_insert_with(|| histogram(DIGITS)).add(theirs).expect("every time fits");
        }
        other.errors.values().for_each(|error| self.trouble(*error));
        self.add_counts(other.counts);
    }

    /// The report of all shards.
    pub fn report(&self) -> CallReport {
        let FlowCounts { begun, completed, unfinished, overdue, datagrams } = self.counts;
        CallReport {
            calls: self.total.len(),
            begun,
            completed,
            unfinished,
            overdue,
            window_ns: self.close_ns - self.open_ns,
            connect: self.connect.as_ref().map(encoded),
            write: Some(encoded(&self.write)),
            first_byte: Some(encoded(&self.first_byte)),
            total: Some(encoded(&self.total)),
            gap: self.gap.as_ref().map(encoded),
            left: Some(encoded(&self.left)),
            entered: Some(encoded(&self.entered)),
            late: self.late.as_ref().map(encoded),
            errors: self.errors.values().copied().collect(),
            search: Vec::new(),
            datagrams: (datagrams != CallDatagrams::default()).then_some(datagrams),
            listen_drops: None,
        }
    }
}

/// Adds a time, within the bounds of a histogram that does not grow.
fn enter(histogram: &mut Histogram<u64>, ns: u64) {
    histogram.record(ns.clamp(1, LONGEST_NS)).expect("every time is within the bounds, or the histogram grows");
}

fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, digits).expect("constant bounds are good bounds")
}

fn encoded(histogram: &Histogram<u64>) -> EncodedHistogram {
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(histogram, &mut bytes).expect("a vector takes every histogram");
    EncodedHistogram(BASE64.encode(bytes))
}

const CLASSES: &[(i32, ErrorClass)] = &[
    (errno::EPIPE, ErrorClass::Reset),
    (errno::ECONNRESET, ErrorClass::Reset),
    (errno::ECONNABORTED, ErrorClass::Reset),
    (errno::ECONNREFUSED, ErrorClass::Refused),
    // A Unix socket whose name has been removed.
    (errno::ENOENT, ErrorClass::Refused),
    (errno::ETIMEDOUT, ErrorClass::TimedOut),
    (errno::EADDRNOTAVAIL, ErrorClass::NoPort),
    (errno::EADDRINUSE, ErrorClass::NoPort),
    (errno::EMFILE, ErrorClass::NoDescriptor),
    (errno::ENFILE, ErrorClass::NoDescriptor),
    (errno::ENETUNREACH, ErrorClass::Unreachable),
    (errno::EHOSTUNREACH, ErrorClass::Unreachable),
];

/// The class of a failed attempt to connect. Only a non-blocking Unix socket gets `EAGAIN`, if the backlog is full.
pub fn class_of_connect(errno: i32) -> ErrorClass {
    if errno == errno::EAGAIN { ErrorClass::BacklogFull } else { class_of(errno) }
}

/// The class of an error number.
pub fn class_of(errno: i32) -> ErrorClass {
    CLASSES.iter().find(|(number, _)| *number == errno).map_or(ErrorClass::Other(errno), |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::Deserializer;

    use super::*;

    fn decoded(histogram: &EncodedHistogram) -> Histogram<u64> {
        Deserializer::new().deserialize(&mut BASE64.decode(&histogram.0).unwrap().as_slice()).unwrap()
    }

    fn times(total_ns: u64) -> Times {
        Times { connect_ns: None, write_ns: 1, first_byte_ns: total_ns / 2, total_ns, late_ns: total_ns / 10 }
    }

    #[test]
    fn shards_record_the_window_and_add_up() {
        let mut record = ClientCounts::new(false, true);
        record.keep(100, 200);
        for now_ns in [99, 100, 199, 200] {
            record.completed(now_ns, times(5_000));
        }
        let mut other = ClientCounts::new(false, true);
        other.keep(100, 200);
        other.completed(150, times(90_000));
        other.add_counts(FlowCounts { begun: 7, completed: 5, unfinished: 2, overdue: 1, ..FlowCounts::default() });
        record.add(&other);
        let report = record.report();
        assert_eq!((report.calls, report.begun, report.unfinished, report.overdue), (3, 7, 2, 1));
        let total = decoded(report.total.as_ref().unwrap());
        assert_eq!(total.len(), 3);
        assert!(total.equivalent(total.max(), 90_000) && total.equivalent(total.min(), 5_000));
        let late = decoded(report.late.as_ref().unwrap());
        assert!(late.len() == 3 && late.equivalent(late.max(), 9_000), "{late:?}");
        assert_eq!(report.connect, None);
    }

    #[test]
    fn growing_shard_adds_up_as_any_other() {
        let mut all = ClientCounts::new(true, true);
        all.keep(0, u64::MAX);
        let (mut fixed, mut growing) = (ClientCounts::new(true, true), all.growing());
        fixed.keep(0, u64::MAX);
        for total_ns in [1, 999, 1_000_000, 5_000_000_000, u64::MAX / 2] {
            let times = Times { connect_ns: Some(total_ns), ..times(total_ns) };
            fixed.completed(u64::MAX - 1, times);
            growing.completed(u64::MAX - 1, times);
        }
        all.add(&growing);
        assert_eq!(all.report(), fixed.report());
    }

    #[test]
    fn calls_cut_by_an_edge_have_their_age() {
        let mut record = ClientCounts::new(false, true);
        record.keep(100_000, 200_000);
        // Begun before the window, and ended before it, in it, and after it.
        record.completed(99_999, times(50_000));
        record.completed(120_000, times(50_000));
        record.completed(300_000, times(250_000));
        // Begun within it, ended after it; begun after it; failed after it and within it; never ended.
        record.completed(210_000, times(20_000));
        record.completed(260_000, times(20_000));
        record.failed(210_000, 195_000);
        record.failed(150_000, 140_000);
        record.ended_late(199_000);
        let report = record.report();
        let ages = |kept: &Option<EncodedHistogram>| -> Vec<u64> {
            let ages = decoded(kept.as_ref().unwrap());
            ages.iter_recorded()
                .flat_map(|step| vec![step.value_iterated_to() / 1000; step.count_at_value() as usize])
                .collect()
        };
        assert_eq!((ages(&report.entered), ages(&report.left)), (vec![30, 50], vec![1, 5, 10, 150]));
        assert_eq!(report.calls, 1);
    }

    #[test]
    fn troubles_of_one_kind_are_one_row() {
        let mut record = ClientCounts::new(true, false);
        let trouble = CallError {
            class: ErrorClass::Reset,
            phase: ErrorPhase::Reply,
            count: 1,
            request_bytes_lost: 10,
            reply_bytes_missing: 3,
        };
        record.trouble(trouble);
        record.trouble(trouble);
        record.trouble(CallError { phase: ErrorPhase::Write, ..trouble });
        let report = record.report();
        assert_eq!(report.errors.len(), 2);
        let reply = report.errors.iter().find(|error| error.phase == ErrorPhase::Reply).unwrap();
        assert_eq!((reply.count, reply.request_bytes_lost, reply.reply_bytes_missing), (2, 20, 6));
        assert!(report.connect.is_some() && report.late.is_none());
    }
}

#[cfg(test)]
mod classify_tests {
    use super::*;

    #[test]
    fn what_has_no_class_keeps_its_number() {
        assert_eq!(class_of(errno::EAFNOSUPPORT), ErrorClass::Other(errno::EAFNOSUPPORT));
    }

    #[test]
    fn full_backlog_differs_from_no_listener() {
        assert_eq!(class_of_connect(errno::EAGAIN), ErrorClass::BacklogFull);
        assert_eq!([errno::ENOENT, errno::ECONNREFUSED].map(class_of_connect), [ErrorClass::Refused; 2]);
        assert_eq!(class_of(errno::EAGAIN), ErrorClass::Other(errno::EAGAIN));
    }
}
