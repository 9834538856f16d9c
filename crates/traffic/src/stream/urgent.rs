//! Urgent messages between the bulk data of a stream (`--urgent`): when the writer sends one, and how the reader knows it.
//!
//! Each message, bulk or urgent, begins with 8 bytes: 0, or the moment at which an urgent one was due. The reader goes from one
//! beginning to the next and reads no other byte. The ends may be two processes, since all processes of a machine share the monotonic
//! clock. A message counts from the moment at which it was due: a writer that waits for room in its send buffer delays it too.

use bytegauge_model::{Engine, SendFrom};
use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::call::{ClientCounts, Times};
use crate::setup::Setup;

/// Bytes of an urgent message.
const URGENT: usize = 64;

/// Bytes of the beginning of each message.
const BEGINNING: usize = 8;

/// The shortest time between two of them.
const EVERY_MIN_NS: u64 = 1_000_000;

/// The most messages that a reader has room for from the start: those of an hour, the longest trial.
const ROOM_MAX: u64 = 3_600_000;

/// From one urgent message to the next, nanoseconds; `None` without any, and in the null engine, which moves no byte.
fn every_ns(setup: &Setup) -> Option<u64> {
    setup.spec.urgent().filter(|_| setup.engine() != Engine::Null).map(|ns| ns.max(EVERY_MIN_NS))
}

/// Refuses settings in which no message can be marked.
pub(crate) fn fit(setup: &Setup) -> Result<(), EndError> {
    let why = match every_ns(setup) {
        None => return Ok(()),
        Some(_) if setup.send_from() == SendFrom::Sendfile => {
            "sendfile(2) sends the bytes of its file: use --send-from file or memory"
        }
        Some(_) if setup.verify => "--verify compares each byte with a pattern: leave it out",
        Some(_) if setup.write_size().is_none_or(|size| size < URGENT) => {
            "the writes are shorter than an urgent message: use a --write-size of 64 or more"
        }
        Some(_) => return Ok(()),
    };
    Err(EndError::Missing(format!("--urgent marks its messages, and {why}")))
}

/// When a writer sends its urgent messages.
#[derive(Debug)]
pub(super) struct UrgentWriter {
    every_ns: u64,
    /// 0 until its first message.
    due_ns: u64,
}

impl UrgentWriter {
    pub(super) fn of(setup: &Setup) -> Option<UrgentWriter> {
        every_ns(setup).map(|every_ns| UrgentWriter { every_ns, due_ns: 0 })
    }

    /// The moment at which the next message was due, if it is an urgent one. Messages that are late follow each other.
    fn next(&mut self, now_ns: u64) -> Option<u64> {
        if self.due_ns == 0 {
            self.due_ns = now_ns + self.every_ns;
        }
        let due_ns = self.due_ns;
        (due_ns <= now_ns).then(|| {
            self.due_ns += self.every_ns;
            due_ns
        })
    }

    /// The beginning of the next message, and its length if it is urgent.
    pub(super) fn begin(&mut self) -> ([u8; BEGINNING], Option<usize>) {
        let due_ns = self.next(monotonic_ns());
        (due_ns.unwrap_or(0).to_ne_bytes(), due_ns.map(|_| URGENT))
    }
}

/// The place of a reader in its messages, and the urgent ones that arrived.
#[derive(Debug)]
pub(crate) struct UrgentReader {
    every_ns: u64,
    bulk: usize,
    beginning: [u8; BEGINNING],
    /// Bytes of the message that have arrived.
    had: usize,
    arrived: Vec<Arrived>,
}

/// When an urgent message was due, and when its last byte was read.
type Arrived = (u64, u64);

impl UrgentReader {
    pub(super) fn of(setup: &Setup) -> Option<UrgentReader> {
        let every_ns = every_ns(setup)?;
        // Room for all of them: a measured loop allocates nothing.
        let most = setup.warmup_ns.saturating_add(setup.window_ns) / every_ns + 64;
        let arrived = Vec::with_capacity(most.min(ROOM_MAX) as usize);
        let bulk = setup.write_size()?.max(URGENT);
        Some(UrgentReader { every_ns, bulk, beginning: [0; BEGINNING], had: 0, arrived })
    }

    /// These bytes arrived.
    pub(super) fn received(&mut self, mut bytes: &[u8], clock: impl Fn() -> u64) {
        while !bytes.is_empty() {
            let begun = BEGINNING.saturating_sub(self.had).min(bytes.len());
            self.beginning[self.had.min(BEGINNING)..][..begun].copy_from_slice(&bytes[..begun]);
            self.had += begun;
            bytes = &bytes[begun..];
            if self.had < BEGINNING {
                return;
            }
            let due_ns = u64::from_ne_bytes(self.beginning);
            let len = if due_ns == 0 { self.bulk } else { URGENT };
            let more = (len - self.had).min(bytes.len());
            self.had += more;
            bytes = &bytes[more..];
            if self.had == len {
                self.had = 0;
                if due_ns > 0 {
                    self.arrived.push((due_ns, clock()));
                }
            }
        }
    }

    /// Adds the messages of a window to counts, from when it opened until it closed. Those that were due in it and never arrived have
    /// their age at its end.
    pub(crate) fn add_to(&self, (open_ns, close_ns): (u64, u64), counts: &mut ClientCounts) {
        counts.keep(open_ns, close_ns);
        for (due_ns, now_ns) in &self.arrived {
            let ns = now_ns.saturating_sub(*due_ns);
            counts.completed(
                *now_ns,
                Times { connect_ns: None, write_ns: ns, first_byte_ns: ns, total_ns: ns, late_ns: 0 },
            );
        }
        let last_ns = self.arrived.last().map_or(0, |(due_ns, _)| *due_ns).max(open_ns);
        let missing = (last_ns..close_ns).step_by(self.every_ns as usize).skip(1);
        missing.for_each(|due_ns| counts.ended_late(due_ns));
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{FactorKey, Spec};

    use super::*;
    use crate::call::DecodedHistogram;

    const MS: u64 = 1_000_000;

    fn setup() -> Setup {
        let spec = [("transport", "tcp".into()), ("read_size", 64.into()), ("write_size", 100.into())];
        let mut setup = Setup::of(&Spec::from(spec)).unwrap();
        setup.spec.put(FactorKey::urgent, 10 * MS);
        setup
    }

    #[test]
    fn messages_are_known_however_they_are_cut() {
        let mut writer = UrgentWriter::of(&setup()).unwrap();
        let mut bytes = Vec::new();
        for now_ns in [5, 14, 15, 16, 47, 47, 47, 47, 48] {
            let due_ns = writer.next(now_ns * MS);
            bytes.extend(due_ns.unwrap_or(0).to_ne_bytes());
            bytes.resize(bytes.len() + if due_ns.is_some() { URGENT } else { 100 } - BEGINNING, 7);
        }
        for size in [1, 3, 8, 63, 64, 65, 100, 1000] {
            let mut reader = UrgentReader::of(&setup()).unwrap();
            bytes.chunks(size).for_each(|part| reader.received(part, || 60));
            assert_eq!(reader.arrived, [15, 25, 35, 45].map(|due| (due * MS, 60)), "{size}");
            assert_eq!(reader.had, 0, "{size}");
        }
    }

    #[test]
    fn messages_that_never_arrive_have_their_age() {
        let arrived = vec![(95, 99), (105, 130)];
        let reader = UrgentReader { every_ns: 10, arrived, ..UrgentReader::of(&setup()).unwrap() };
        let mut counts = ClientCounts::new(false, false);
        reader.add_to((100, 142), &mut counts);
        let report = counts.report();
        let left = report.left.as_ref().and_then(DecodedHistogram::decode).unwrap();
        // Due at 115, 125 and 135.
        assert_eq!((report.calls, left.count(), left.longer_than(20)), (1, 3, 1));
    }

    #[test]
    fn settings_without_marks_are_refused() {
        let check = |change: fn(&mut Setup), part: &str| {
            let mut setup = setup();
            change(&mut setup);
            let found = fit(&setup).map_err(|error| error.to_string());
            assert!(found.as_ref().err().is_some_and(|text| text.contains(part)), "{found:?}");
        };
        assert!(fit(&setup()).is_ok());
        check(|setup| setup.verify = true, "leave it out");
        check(|setup| setup.spec.put(FactorKey::send_from, SendFrom::Sendfile), "--send-from file");
        check(|setup| setup.spec.put(FactorKey::write_size, 63), "--write-size of 64");
    }
}
