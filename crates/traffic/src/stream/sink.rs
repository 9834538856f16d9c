//! The reading end of a stream: does its work on every read, and in verify mode checks every byte.

use std::hint::black_box;

use bytegauge_model::Work;
use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::flow::{Flow, Want};
use crate::pace::{spin_by_clock_ns, spin_ns};
use crate::pattern::{Mismatch, Pattern};
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::pattern;
use crate::stream::urgent::UrgentReader;

/// Additional time of a read during the planted cold start, nanoseconds.
const COLD_NS: f64 = 50_000.0;

/// One flow's reader.
#[derive(Debug)]
pub struct SinkFlow {
    flow: usize,
    seed: u64,
    /// Whether it has more to do with a read than to check it.
    is_busy: bool,
    work: Option<ReaderWork>,
    call_work_ns: u64,
    verify: Option<Pattern>,
    plant: Option<PlantedFault>,
    offset: u64,
    mismatch: Option<Mismatch>,
    /// The planted end that was reached, if any.
    pub planted_end: Option<PlantedFault>,
    /// When the planted cold start is over.
    warm_ns: Option<u64>,
    /// The urgent messages, if it reads any.
    pub(crate) urgent: Option<Box<UrgentReader>>,
}

impl SinkFlow {
    /// The reader of flow number `flow`.
    pub fn new(setup: &Setup, flow: usize) -> SinkFlow {
        let (work, urgent) = (ReaderWork::of(setup), UrgentReader::of(setup).map(Box::new));
        SinkFlow {
            flow,
            seed: setup.seed,
            is_busy: work.is_some() || urgent.is_some() || setup.call_work_ns() > 0,
            work,
            call_work_ns: setup.call_work_ns(),
            verify: pattern(setup, flow),
            plant: setup
                .planted()
                .filter(|plant| !matches!(plant, PlantedFault::Corrupt(_) | PlantedFault::Overcount(_))),
            offset: 0,
            mismatch: None,
            planted_end: None,
            warm_ns: None,
            urgent,
        }
    }

    /// Takes bytes that arrive after the window: they are checked but cost no work.
    pub fn received_late(&mut self, bytes: &[u8]) -> bool {
        self.find_urgent(bytes);
        self.check(bytes)
    }

    #[inline(never)]
    fn work_on(&mut self, bytes: &[u8]) {
        self.find_urgent(bytes);
        if let Some(work) = &mut self.work {
            work.on_bytes(bytes);
            work.on_whole();
        }
        if self.call_work_ns > 0 {
            spin_ns(self.call_work_ns as f64);
        }
    }

    fn find_urgent(&mut self, bytes: &[u8]) {
        if let Some(urgent) = &mut self.urgent {
            urgent.received(bytes, monotonic_ns);
        }
    }

    /// Bytes compared with the pattern.
    pub fn verified_bytes(&self) -> u64 {
        if self.verify.is_some() { self.offset } else { 0 }
    }

    /// The fault in the bytes, if any.
    pub fn fault(&self) -> Option<EndError> {
        Some(EndError::Corrupt(self.flow, self.mismatch?))
    }

    fn check(&mut self, bytes: &[u8]) -> bool {
        if let Some(pattern) = &self.verify {
            self.mismatch = pattern.check(self.offset, bytes).err();
        }
        self.offset += bytes.len() as u64;
        self.mismatch.is_none()
    }

    #[cold]
    fn planted(&mut self, plant: PlantedFault) -> bool {
        match plant {
            PlantedFault::Spin(ns) => spin_by_clock_ns(ns),
            // Trials of one block share a seed, and its lowest bit changes from block to block.
            PlantedFault::Modes(ns) if self.seed.is_multiple_of(2) => spin_by_clock_ns(ns),
            PlantedFault::Cold(ns) => {
                let warm_ns = *self.warm_ns.get_or_insert_with(|| monotonic_ns() + ns);
                if monotonic_ns() < warm_ns {
                    spin_by_clock_ns(COLD_NS);
                }
            }
            PlantedFault::Die(after_bytes) | PlantedFault::Stall(after_bytes) if self.offset >= after_bytes => {
                self.planted_end = Some(plant);
                return false;
            }
            _ => {}
        }
        true
    }
}

impl Flow for SinkFlow {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        Want::Receive
    }

    // The loop of the null engine, by which all others are judged, has little else.
    #[inline(always)]
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        if self.is_busy {
            self.work_on(bytes);
        }
        if let Some(plant) = PlantedFault::enabled(self.plant)
            && !self.planted(plant)
        {
            return false;
        }
        self.check(bytes)
    }
}

// The work of a reader on the bytes of each read, and of a server on those of a request: a reader that discards bytes measures only
// the kernel.

/// Bytes of a cache line on the machines this runs on.
const LINE: usize = 64;

/// The work of one flow or connection, its memory touched.
#[derive(Debug)]
pub(crate) struct ReaderWork {
    bytes: ByteWork,
    /// Private state of which one byte of every cache line is read and written, once per read or request.
    walked: Vec<u8>,
}

/// The work on bytes.
#[derive(Debug)]
enum ByteWork {
    None,
    /// Sums every byte.
    Sum(u64),
    /// Copies every byte to memory of its own.
    Copy(Vec<u8>),
    /// Spins for this number of nanoseconds per byte.
    SpinPerByte(f64),
    /// Spins for this number of nanoseconds after each read, by the clock.
    SpinPerRead(f64),
    /// Waits until the work of another connection runs as well.
    #[cfg(test)]
    Meet(std::sync::Arc<std::sync::Barrier>),
}

impl ReaderWork {
    /// Whether a trial requires work.
    pub(crate) fn is_asked_for(setup: &Setup) -> bool {
        setup.work() != Work::None || setup.working_set() > 0 || setup.slowdown_ns.is_some()
    }

    /// Bytes of its memory.
    pub(crate) fn memory(setup: &Setup) -> u64 {
        let copy = if setup.work() == Work::Copy { setup.read_size() as u64 } else { 0 };
        copy.saturating_add(setup.working_set() as u64)
    }

    /// The work of a trial; `None` if it requires none.
    pub(crate) fn of(setup: &Setup) -> Option<ReaderWork> {
        let bytes = match (setup.slowdown_ns, setup.work()) {
            (Some(ns), _) => ByteWork::SpinPerRead(ns),
            (None, Work::None) => ByteWork::None,
            (None, Work::Sum) => ByteWork::Sum(0),
            (None, Work::Copy) => ByteWork::Copy(vec![1; setup.read_size()]),
            (None, Work::NsPerByte(ns)) => ByteWork::SpinPerByte(ns),
        };
        ReaderWork::is_asked_for(setup).then(|| ReaderWork { bytes, walked: vec![1; setup.working_set()] })
    }

    /// Work that ends only while the work of another connection runs.
    #[cfg(test)]
    pub(crate) fn meeting(barrier: std::sync::Arc<std::sync::Barrier>) -> ReaderWork {
        ReaderWork { bytes: ByteWork::Meet(barrier), walked: Vec::new() }
    }

    /// Works on bytes.
    #[inline]
    pub(crate) fn on_bytes(&mut self, bytes: &[u8]) {
        match &mut self.bytes {
            ByteWork::None => {}
            ByteWork::Sum(total) => {
                let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
                *total = black_box(total.wrapping_add(sum));
            }
            ByteWork::Copy(memory) => {
                memory[..bytes.len()].copy_from_slice(bytes);
                black_box(memory);
            }
            ByteWork::SpinPerByte(ns) => spin_ns(*ns * bytes.len() as f64),
            ByteWork::SpinPerRead(ns) => spin_by_clock_ns(*ns),
            #[cfg(test)]
            ByteWork::Meet(barrier) => drop(barrier.wait()),
        }
    }

    /// Works on a read, or on a request that is complete.
    #[inline]
    pub(crate) fn on_whole(&mut self) {
        for byte in self.walked.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut self.walked);
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{FactorKey, Spec};

    use super::*;
    use crate::stream::source::SourceFlow;

    /// Least time of four calls of an end, nanoseconds.
    fn quickest_ns(mut call: impl FnMut()) -> u64 {
        let timed = (0..4).map(|_| {
            let begin_ns = monotonic_ns();
            call();
            monotonic_ns() - begin_ns
        });
        timed.min().unwrap()
    }

    #[test]
    fn both_ends_spend_their_time_per_call() {
        let spec = [("transport", "tcp".into()), ("read_size", 4.into()), ("write_size", 4.into())];
        let mut setup = Setup::of(&Spec::from(spec)).unwrap();
        setup.spec.put(FactorKey::call_work, 20_000_000);
        let (mut sink, mut source) = (SinkFlow::new(&setup, 0), SourceFlow::new(&setup, 0, 4));
        let read_ns = quickest_ns(|| assert!(sink.received(&mut [1; 4], 0)));
        let write_ns = quickest_ns(|| assert_eq!(source.compose(&mut [0; 4], false), 4));
        // The step of work was timed at another speed of the CPU, but not at ten times this one.
        assert!(read_ns > 2_000_000 && write_ns > 2_000_000, "{read_ns} {write_ns}");
    }
}
