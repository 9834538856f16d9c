//! One trial of a ring: rounds until the time is up, and the counts compared.
//!
//! The rate counts completions that were taken. Submissions are counted too: at the end both must agree; the published loop,
//! which takes no completion, counts only submissions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::{EndCounts, EndReport, EngineReport, FlowReport, Implementation, Mode, RingReport};
use bytegauge_sys::uring_nop::{self, Lap, NopRing, Trouble};

use super::null_loop::Idle;
use super::{missing, nop_setup, nop_terms, subject};
use crate::counter::{ThreadCounter, Total};
use crate::end_error::EndError;
use crate::meter::{Meter, Schedule};
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;

/// In the published loop the kernel keeps every completion, some 64 bytes each at 10 million per second: longer trials of it
/// would measure the machine's memory.
const UNDRAINED_MAX_NS: u64 = 20_000_000;

/// Runs one trial in the calling thread: creates the ring, runs it, closes it.
pub(crate) fn carry(setup: &Setup, abort: &AtomicBool) -> (EndReport, Option<EndError>) {
    let ring: Result<Box<dyn NopRing>, _> = match subject(setup.implementation()) {
        None => Ok(Box::new(Idle { batch: setup.submit_batch(), checked: setup.mode() == Mode::Checked })),
        Some(subject) => uring_nop::open(subject, &nop_setup(setup.entries(), setup.ring_flags()), &nop_terms(setup)),
    };
    match ring {
        Ok(ring) => RingLoop::new(setup, ring, abort).carry(),
        Err(lacking) => (EndReport::default(), Some(missing(&lacking))),
    }
}

struct RingLoop<'a> {
    setup: &'a Setup,
    ring: Box<dyn NopRing>,
    abort: &'a AtomicBool,
    rounds: u64,
    /// The ring's counts over its whole life.
    total: Lap,
    overflowed_after_rounds: Option<u64>,
    planted: bool,
}

impl<'a> RingLoop<'a> {
    fn new(setup: &'a Setup, ring: Box<dyn NopRing>, abort: &'a AtomicBool) -> RingLoop<'a> {
        RingLoop { setup, ring, abort, rounds: 0, total: Lap::default(), overflowed_after_rounds: None, planted: false }
    }

    fn is_undrained(&self) -> bool {
        self.setup.implementation() == Implementation::LiburingUndrained
    }

    fn carry(mut self) -> (EndReport, Option<EndError>) {
        // The published loop overflows in its first rounds; a check after each round shows in which.
        let mut trouble = if self.is_undrained() { self.overflow().err() } else { None };
        let submitted = Arc::<Total<1>>::default();
        let mut meter = self.meter(&submitted);
        if trouble.is_none() {
            trouble = self.rounds(&mut meter, &submitted.counter()).err();
        }
        meter.close_early();
        let left = if trouble.is_none() { self.take_rest() } else { Ok(0) };
        let left = left.unwrap_or_else(|fault| {
            trouble = Some(fault);
            0
        });
        let report = self.report(meter, left);
        let fault = trouble.or_else(|| self.miscounted(left));
        (report, fault)
    }

    fn meter(&self, submitted: &Arc<Total<1>>) -> Meter {
        let Setup { mut warmup_ns, mut window_ns, series, .. } = *self.setup;
        if self.is_undrained() {
            (warmup_ns, window_ns) = (warmup_ns.min(UNDRAINED_MAX_NS / 4), window_ns.min(UNDRAINED_MAX_NS));
        }
        let schedule = Schedule { warmup_ns, window_ns, until_stopped: false };
        let mut meter = Meter::start(&schedule, schedule.bins_max(series));
        meter.watch(Arc::clone(submitted));
        meter
    }

    /// The measured loop: a lap of rounds, and one reading of the clock.
    fn rounds(&mut self, meter: &mut Meter, submitted: &ThreadCounter<1>) -> Result<(), EndError> {
        let never = AtomicBool::new(false);
        // Submissions of the rounds before the overflow count in the first lap.
        submitted.add([self.total.submitted]);
        loop {
            let lap = self.lap(meter.lap_calls())?;
            meter.count_many(lap.completed, lap.enters);
            submitted.add([lap.submitted]);
            if !self.is_undrained() && self.ring.overflowed() {
                return Err(EndError::Overflowed { rounds: self.rounds, batch: self.setup.submit_batch() });
            }
            if !meter.lap(&never) {
                return Ok(());
            }
            if self.abort.load(Ordering::Relaxed) {
                // The watchdog reports the delay.
                return Ok(());
            }
        }
    }

    fn lap(&mut self, rounds: u64) -> Result<Lap, EndError> {
        let done = match self.setup.planted() {
            Some(PlantedFault::Untaken { after_rounds }) if self.rounds >= after_rounds => {
                self.ring.only_submit(rounds)
            }
            Some(PlantedFault::WrongUserData { after_rounds }) if self.rounds >= after_rounds => {
                if !std::mem::replace(&mut self.planted, true) {
                    self.ring.plant_fault();
                }
                self.ring.run(rounds)
            }
            _ => self.ring.run(rounds),
        };
        let lap = done.map_err(|trouble| self.failed(trouble))?;
        self.rounds += rounds;
        self.total.submitted += lap.submitted;
        self.total.completed += lap.completed;
        self.total.checked += lap.checked;
        self.total.enters += lap.enters;
        Ok(lap)
    }

    fn failed(&self, trouble: Trouble) -> EndError {
        match trouble {
            Trouble::Refused { errno } => {
                EndError::Io { doing: "running a ring".into(), source: std::io::Error::from_raw_os_error(errno) }
            }
            wrong => {
                EndError::Miscounted(format!("after {} rounds of {}: {wrong}", self.rounds, self.setup.submit_batch()))
            }
        }
    }

    /// Runs the published loop until its queue has overflowed: at most as many rounds as completions fit, and one.
    fn overflow(&mut self) -> Result<(), EndError> {
        for _ in 0..=self.ring.shape().completions {
            self.lap(1)?;
            if self.ring.overflowed() {
                self.overflowed_after_rounds = Some(self.rounds);
                return Ok(());
            }
        }
        Err(EndError::Miscounted("a loop that takes no completion did not overflow".into()))
    }

    /// Takes the remaining completions, so that all submissions are accounted for, and the kernel's memory is returned before
    /// the next measurement.
    fn take_rest(&mut self) -> Result<u64, EndError> {
        let due = self.total.submitted - self.total.completed.min(self.total.submitted);
        if due == 0 {
            return Ok(0);
        }
        self.ring.take_rest(due).map_err(|trouble| self.failed(trouble))
    }

    fn miscounted(&self, left: u64) -> Option<EndError> {
        let Lap { submitted, completed, checked, .. } = self.counted();
        if submitted != completed + left {
            return Some(EndError::Miscounted(format!(
                "{submitted} NOPs were submitted, {} completed",
                completed + left
            )));
        }
        let unchecked = self.setup.mode() == Mode::Checked && checked != completed;
        unchecked.then(|| {
            EndError::Miscounted(format!(
                "mode checked did not run: {checked} of {completed} completions were compared"
            ))
        })
    }

    /// The counts, plus those of a planted fault.
    fn counted(&self) -> Lap {
        let mut counted = self.total;
        if let Some(PlantedFault::Overcount { bytes }) = self.setup.planted() {
            counted.completed += bytes;
        }
        counted
    }

    fn report(&self, meter: Meter, left: u64) -> EndReport {
        let window = meter.window();
        let total = self.counted();
        let shape = self.ring.shape();
        let kernel_threads_ns = if self.setup.ring_flags().sqpoll { uring_nop::helper_cpu_ns() } else { None };
        let ring = RingReport {
            submitted: window.watched,
            total_submitted: total.submitted,
            total_completed: total.completed,
            left,
            checked: total.checked,
            enters: window.calls,
            overflowed_after_rounds: self.overflowed_after_rounds,
            submission_entries: shape.submissions,
            completion_entries: shape.completions,
        };
        let engine = EngineReport {
            system_calls: total.enters,
            completions: total.completed,
            kernel_threads_ns,
            ..EngineReport::default()
        };
        let counts = EndCounts { bytes: 0, calls: window.bytes, short_calls: 0, ..window.counts() };
        let flow = FlowReport { counts, series: meter.into_bins(), ..FlowReport::default() };
        EndReport {
            counts,
            engine: Some(Box::new(engine)),
            ring: Some(Box::new(ring)),
            flows: vec![flow],
            ..EndReport::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{Spec, UserData, Workload};

    use super::*;

    fn terms(implementation: Implementation) -> Setup {
        let mut spec = Spec::of(Workload::Ring);
        (spec.implementation, spec.entries) = (Some(implementation), Some(16));
        (spec.user_data, spec.mode) = (Some(UserData::Unique), Some(Mode::Checked));
        Setup { warmup_ns: 200_000, window_ns: 2_000_000, series: true, ..Setup::of(&spec).unwrap() }
    }

    fn run(terms: &Setup) -> (EndReport, Option<String>) {
        let (report, fault) = carry(terms, &AtomicBool::new(false));
        (report, fault.map(|fault| fault.to_string()))
    }

    /// The fault of a trial with a planted one; none if the machine lacks the ring. On a busy machine a short trial may have
    /// fewer rounds than the fault waits for.
    fn check(terms: &Setup, expected: &str) {
        let windows_ns = [2_000_000, 200_000_000, 5_000_000_000];
        let fault_in = |window_ns| carry(&Setup { window_ns, ..terms.clone() }, &AtomicBool::new(false)).1;
        let Some(fault) = windows_ns.into_iter().find_map(fault_in) else { panic!("nothing was found: {terms:?}") };
        if let EndError::Missing(reason) = &fault {
            eprintln!("SKIPPED: {reason}");
            return;
        }
        assert!(fault.to_string().contains(expected), "{fault}");
    }

    #[test]
    fn completions_are_counted_within_the_window() {
        for implementation in
            [Implementation::Raw, Implementation::IoUring, Implementation::Liburing, Implementation::Null]
        {
            let (report, fault) = run(&terms(implementation));
            if let Some(reason) = &fault {
                eprintln!("SKIPPED: {implementation}: {reason}");
                continue;
            }
            let ring = report.ring.as_deref().unwrap();
            assert!(report.calls > 0 && report.calls <= ring.total_completed, "{ring:?}");
            assert_eq!(ring.total_submitted, ring.total_completed);
            assert_eq!((ring.submitted, ring.left, ring.overflowed_after_rounds), (report.calls, 0, None));
            assert_eq!(ring.checked, ring.total_completed);
            assert!(!report.flows[0].series.is_empty());
        }
    }

    #[test]
    fn the_published_loop_counts_submissions_and_nothing_else() {
        let mut terms = terms(Implementation::LiburingUndrained);
        (terms.spec.mode, terms.spec.user_data) = (Some(Mode::Ceiling), Some(UserData::None));
        let (report, fault) = run(&terms);
        let Some(ring) = &report.ring else {
            eprintln!("SKIPPED: {}", fault.unwrap());
            return;
        };
        assert_eq!(fault, None);
        assert_eq!((report.calls, ring.total_completed, ring.overflowed_after_rounds), (0, 0, Some(3)));
        assert!(ring.submitted > 0);
        assert_eq!(ring.left, ring.total_submitted);
    }

    #[test]
    fn planted_faults_fail_the_trial() {
        for implementation in [Implementation::Raw, Implementation::IoUring, Implementation::Liburing] {
            for user_data in [UserData::None, UserData::Unique, UserData::Boxed] {
                let plant = Some(PlantedFault::WrongUserData { after_rounds: 100 });
                let mut wrong = Setup { plant, ..terms(implementation) };
                wrong.spec.user_data = Some(user_data);
                check(&wrong, "which does not match a submission");
            }
            let untaken = Setup { plant: Some(PlantedFault::Untaken { after_rounds: 100 }), ..terms(implementation) };
            check(&untaken, "the completion queue overflowed");
            let overcount = Setup { plant: Some(PlantedFault::Overcount { bytes: 1 }), ..terms(implementation) };
            check(&overcount, "the counts do not match");
        }
    }
}
