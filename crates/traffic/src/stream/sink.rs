//! The reading end of a stream: does its work on every read, and in verify mode checks every byte.

use std::hint::black_box;

use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::flow::{Flow, Want};
use crate::pace::{spin_by_clock_ns, spin_ns};
use crate::pattern::{Mismatch, Pattern};
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::pattern;
use crate::stream::urgent::{UrgentMessages, UrgentReader};

/// Additional time of a read during the planted cold start, nanoseconds.
const COLD_NS: f64 = 50_000.0;

/// The receive buffer of a thread that has one flow: as long as one read. Engines that carry many flows in a thread have
/// memory of their own (`engine::unsent`, and the buffers of a ring).
pub(crate) fn receive_buffer(setup: &Setup) -> AlignedBuffer {
    AlignedBuffer::new(setup.read_size())
}

/// One flow's reader.
#[derive(Debug)]
pub struct SinkFlow<E> {
    flow: usize,
    seed: u64,
    effort: E,
    walk: Option<Walk>,
    call_work_ns: u64,
    verify: Option<Pattern>,
    plant: Option<PlantedFault>,
    offset: u64,
    mismatch: Option<Mismatch>,
    /// The planted end that was reached, if any.
    pub planted_end: Option<PlantedFault>,
    /// When the planted cold start is over.
    warm_ns: Option<u64>,
    urgent: Option<Box<UrgentReader>>,
}

impl<E: ReaderWork> SinkFlow<E> {
    /// The reader of flow number `flow`.
    pub fn new(setup: &Setup, flow: usize, effort: E) -> SinkFlow<E> {
        let walk = setup.working_set();
        SinkFlow {
            flow,
            seed: setup.seed,
            effort,
            walk: (walk > 0).then(|| Walk::new(walk)),
            call_work_ns: setup.call_work_ns(),
            verify: pattern(setup, flow),
            plant: setup
                .planted()
                .filter(|plant| !matches!(plant, PlantedFault::Corrupt { .. } | PlantedFault::Overcount { .. })),
            offset: 0,
            mismatch: None,
            planted_end: None,
            warm_ns: None,
            urgent: UrgentReader::of(setup).map(Box::new),
        }
    }

    /// Takes bytes that arrive after the window: they are checked but cost no work.
    pub fn received_late(&mut self, bytes: &[u8]) -> bool {
        self.find_urgent(bytes);
        self.check(bytes)
    }

    /// The urgent messages of a window, from when it opened until it closed.
    pub(crate) fn into_urgent(self, window_ns: (u64, u64)) -> Option<UrgentMessages> {
        self.urgent.map(|urgent| urgent.into_messages(window_ns))
    }

    #[cold]
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
        let Mismatch { offset, expected, found } = self.mismatch?;
        Some(EndError::Corrupt { flow: self.flow, offset, expected, found })
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
            PlantedFault::Spin { ns } => spin_by_clock_ns(ns),
            // Trials of one block share a seed, and its lowest bit changes from block to block.
            PlantedFault::Modes { ns } if self.seed.is_multiple_of(2) => spin_by_clock_ns(ns),
            PlantedFault::Cold { ns } => {
                let warm_ns = *self.warm_ns.get_or_insert_with(|| monotonic_ns() + ns);
                if monotonic_ns() < warm_ns {
                    spin_by_clock_ns(COLD_NS);
                }
            }
            PlantedFault::Die { after_bytes } | PlantedFault::Stall { after_bytes } if self.offset >= after_bytes => {
                self.planted_end = Some(plant);
                return false;
            }
            _ => {}
        }
        true
    }
}

impl<E: ReaderWork> Flow for SinkFlow<E> {
    #[inline]
    fn want(&mut self, _now_ns: u64) -> Want {
        Want::Receive
    }

    // The loop of the null engine, by which all others are judged, has little else.
    #[inline(always)]
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.received_in_place(bytes)
    }

    #[inline(always)]
    fn received_in_place(&mut self, bytes: &[u8]) -> bool {
        if self.urgent.is_some() {
            self.find_urgent(bytes);
        }
        self.effort.spend(bytes);
        if let Some(walk) = &mut self.walk {
            walk.walk();
        }
        if self.call_work_ns > 0 {
            spin_ns(self.call_work_ns as f64);
        }
        if let Some(plant) = PlantedFault::enabled(self.plant)
            && !self.planted(plant)
        {
            return false;
        }
        self.check(bytes)
    }
}

// The work of a reader on the bytes of each read.
//
// A reader that discards bytes measures only the kernel; these types represent readers with work. Each is a type of its own, so
// that the loop around it is compiled for it.

/// Work done with the bytes of one read.
pub trait ReaderWork: Send {
    /// Does the work.
    fn spend(&mut self, bytes: &[u8]);
}

/// Discards the bytes.
#[derive(Debug)]
pub struct Discard;

impl ReaderWork for Discard {
    #[inline]
    fn spend(&mut self, _bytes: &[u8]) {}
}

/// Sums every byte.
#[derive(Debug, Default)]
pub struct Sum(u64);

impl ReaderWork for Sum {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        self.0 = black_box(self.0.wrapping_add(sum));
    }
}

/// Copies every byte to memory of its own.
#[derive(Debug)]
pub struct CopyOut(Vec<u8>);

impl CopyOut {
    /// Room for reads of up to `size` bytes, already touched.
    pub fn new(size: usize) -> CopyOut {
        CopyOut(vec![1; size])
    }
}

impl ReaderWork for CopyOut {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        self.0[..bytes.len()].copy_from_slice(bytes);
        black_box(&mut self.0);
    }
}

/// Spins for this number of nanoseconds per byte.
#[derive(Debug)]
pub struct SpinPerByte(pub f64);

impl ReaderWork for SpinPerByte {
    #[inline]
    fn spend(&mut self, bytes: &[u8]) {
        spin_ns(self.0 * bytes.len() as f64);
    }
}

/// Spins for this number of nanoseconds after each read, by the clock.
#[derive(Debug)]
pub struct SpinPerRead(pub f64);

impl ReaderWork for SpinPerRead {
    #[inline]
    fn spend(&mut self, _bytes: &[u8]) {
        spin_by_clock_ns(self.0);
    }
}

/// Private state that is walked once per read: one byte of every cache line is read and written.
#[derive(Debug)]
pub struct Walk(Vec<u8>);

/// Bytes of a cache line on the machines this runs on.
const LINE: usize = 64;

impl Walk {
    /// State of `size` bytes, already touched.
    pub fn new(size: usize) -> Walk {
        Walk(vec![1; size])
    }

    /// Touches all of it.
    #[inline]
    pub fn walk(&mut self) {
        for byte in self.0.iter_mut().step_by(LINE) {
            *byte = byte.wrapping_add(1);
        }
        black_box(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{FactorKey, Spec};

    use super::*;
    use crate::stream::sink::Discard;
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
        let (mut sink, mut source) = (SinkFlow::new(&setup, 0, Discard), SourceFlow::new(&setup, 0, 4));
        let read_ns = quickest_ns(|| assert!(sink.received(&mut [1; 4], 0)));
        let write_ns = quickest_ns(|| assert_eq!(source.compose(&mut [0; 4], false), 4));
        // The step of work was timed at another speed of the CPU, but not at ten times this one.
        assert!(read_ns > 2_000_000 && write_ns > 2_000_000, "{read_ns} {write_ns}");
    }
}
