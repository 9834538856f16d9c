//! The parts of an end, whatever its role: its threads, and when it is over.

use std::ops::Range;

use bytegauge_sys::buffer::PageOffset;

use crate::setup::{Bound, Setup};

/// Stack of a thread with one flow: there may be thousands of them.
pub(crate) const SMALL_STACK: usize = 256 << 10;

/// Stack of a thread with an engine of its own.
pub(crate) const LARGE_STACK: usize = 2 << 20;

/// The threads of an end, and when it is over.
#[derive(Clone, Debug, Default)]
pub struct EndPlan {
    /// The task, for the watchdog's message.
    pub(crate) what: String,
    /// The threads' name, followed by a number.
    pub(crate) name: &'static str,
    /// The CPU of each; `None`: not pinned.
    pub(crate) cpus: Vec<Option<usize>>,
    /// The flag that reduces their number.
    pub(crate) fewer: &'static str,
    /// Stack size of each, bytes.
    pub(crate) stack: usize,
    /// Where their buffers begin within a page.
    pub(crate) page_offset: PageOffset,
    /// Whether they, or threads that they start, wait for given times: they are then woken as exactly as the kernel can.
    pub(crate) waits: bool,
    /// Whether they work before `Go`: they are woken by it, and report even if the trial is called off.
    pub(crate) works_before: bool,
    /// Whether the end continues until it is stopped, rather than by its schedule.
    pub(crate) until_stopped: bool,
    /// How long it may take from `Go`, or from the stop, before it counts as stalled, nanoseconds.
    pub(crate) patience_ns: u64,
    /// If only some of its threads follow the schedule, those; the others continue until the end is stopped, after that.
    pub(crate) windowed: Option<Range<usize>>,
    /// Its limits, if its host's owner sets any.
    pub(crate) bound: Option<Bound>,
}

impl EndPlan {
    /// Threads on these CPUs that wait for `Go` and have nothing of their own, without a time limit.
    pub fn of(what: String, name: &'static str, cpus: Vec<Option<usize>>, fewer: &'static str) -> EndPlan {
        EndPlan { what, name, cpus, fewer, stack: LARGE_STACK, patience_ns: u64::MAX, ..EndPlan::default() }
    }

    /// The same with the limits of a setup, and with buffers where it places them.
    pub(crate) fn within(self, setup: &Setup) -> EndPlan {
        EndPlan { page_offset: setup.page_offset(), bound: setup.bound, ..self }
    }
}
