//! The workload `ring`: operations that do nothing, through an io_uring, as fast as possible.
//!
//! There is no path and no other end: one thread creates a ring, runs rounds on it, and closes it before the next measurement.
//! Rounds and rings are defined in `sys::uring_nop`; here they are timed and their counts are compared.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::{
    EndCounts, EndReport, EngineReport, FlowReport, Implementation, Mode, RingFlags, RingReport, UserData,
};
use bytegauge_sys::uring;
use bytegauge_sys::uring::Missing;
use bytegauge_sys::uring_nop::{self, Lap, MissingRing, NopRing, Trouble};

use crate::EndError;
use crate::counter::{ThreadCounter, Total};
use crate::meter::{Meter, Schedule};
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;

/// The work of a ring's loop in a round.
fn nop_terms(setup: &Setup) -> uring_nop::NopTerms {
    let checked = setup.mode() == Mode::Checked;
    uring_nop::NopTerms { batch: setup.submit_batch(), user_data: user_data(setup.user_data()), checked }
}

/// The requirement of a ring with this implementation and set-up that this machine, or this build, lacks, if any, with the next
/// step; checked before a plan is made.
pub fn missing_requirement(implementation: Implementation, flags: RingFlags) -> Option<String> {
    let implementation = subject(implementation)?;
    let terms = uring_nop::NopTerms { batch: 1, user_data: uring_nop::UserData::None, checked: false };
    // In a thread of its own: a ring belongs to the thread that creates it.
    let open = move || uring_nop::open(implementation, &nop_setup(1, flags), &terms).map(drop);
    match std::thread::Builder::new().spawn(open).map(std::thread::JoinHandle::join) {
        Ok(Ok(Err(lacking))) => Some(missing(&lacking)),
        // The first trial reports that no thread can be created.
        _ => None,
    }
}

/// The rings that `sys` makes; none for the loop without one.
fn subject(implementation: Implementation) -> Option<uring_nop::Implementation> {
    Some(match implementation {
        Implementation::Raw => uring_nop::Implementation::Raw,
        Implementation::IoUring => uring_nop::Implementation::Library,
        Implementation::Liburing => uring_nop::Implementation::Liburing,
        Implementation::LiburingUndrained => uring_nop::Implementation::LiburingUndrained,
        Implementation::Null => return None,
    })
}

fn nop_setup(entries: u32, flags: RingFlags) -> uring_nop::NopSetup {
    let RingFlags { single_issuer, coop, sqpoll, no_sqarray, registered } = flags;
    uring_nop::NopSetup { entries, single_issuer, coop, sqpoll, no_sqarray, registered }
}

fn user_data(kind: UserData) -> uring_nop::UserData {
    match kind {
        UserData::None => uring_nop::UserData::None,
        UserData::Unique => uring_nop::UserData::Unique,
        UserData::Boxed => uring_nop::UserData::Boxed,
    }
}

/// A missing requirement, and what else can be used: no engine can replace a ring here.
fn missing(lacking: &MissingRing) -> String {
    let step = match lacking {
        MissingRing::Uring(Missing::NotBuilt) => ": there is no ring to measure here",
        MissingRing::Uring(Missing::LockedMemory { .. }) => ", or use fewer --entries",
        MissingRing::Uring(Missing::Refused { .. }) => ": use another --setup",
        _ => "",
    };
    format!("{lacking}{step}")
}

// The loop without a ring, which measures the harness's own cost.

/// Treats every operation as completed, and does the bookkeeping of the loops with a ring for each: if a batch were added in one
/// step, the compiler would reduce a whole lap to one addition.
pub(super) struct Idle {
    pub(super) batch: u32,
    /// Whether every completion is compared with its submission.
    pub(super) checked: bool,
}

impl NopRing for Idle {
    fn run(&mut self, rounds: u64, _takes: bool) -> Result<Lap, Trouble> {
        let mut lap = Lap::default();
        for _ in 0..rounds {
            let batch = black_box(self.batch);
            lap.submitted += u64::from(batch);
            for slot in 0..batch {
                let user_data = black_box(u64::from(slot));
                let agrees = !self.checked || user_data == u64::from(slot);
                lap.completed = black_box(lap.completed + u64::from(agrees));
            }
            lap.enters += 1;
        }
        lap.checked = if self.checked { lap.completed } else { 0 };
        Ok(lap)
    }

    fn overflowed(&self) -> bool {
        false
    }

    fn take_rest(&mut self, _most: u64) -> Result<u64, Trouble> {
        Ok(0)
    }

    fn plant_fault(&mut self) {}

    fn completion_entries(&self) -> u32 {
        0
    }
}

// One trial of a ring: rounds until the time is up, and the counts compared.
//
// The rate counts completions that were taken. Submissions are counted too: at the end both must agree; the published loop,
// which takes no completion, counts only submissions.

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
        Ok(ring) => {
            let (total, overflowed_after_rounds) = (Lap::default(), None);
            RingLoop { setup, ring, abort, rounds: 0, total, overflowed_after_rounds, planted: false }.carry()
        }
        Err(lacking) => (EndReport::default(), Some(EndError::Missing(missing(&lacking)))),
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

impl RingLoop<'_> {
    fn is_undrained(&self) -> bool {
        self.setup.implementation() == Implementation::LiburingUndrained
    }

    fn carry(mut self) -> (EndReport, Option<EndError>) {
        // The published loop overflows in its first rounds; a check after each round shows in which.
        let begun = if self.is_undrained() { self.overflow() } else { Ok(()) };
        let submitted = Arc::<Total<1>>::default();
        let mut meter = self.meter(&submitted);
        let carried = begun.and_then(|()| self.rounds(&mut meter, &submitted.counter()));
        meter.close_early();
        let left = carried.and_then(|()| self.take_rest());
        let report = self.report(meter, *left.as_ref().unwrap_or(&0));
        (report, left.map_or_else(Some, |left| self.miscounted(left)))
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
                return Err(EndError::Overflowed(self.rounds, self.setup.submit_batch()));
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
        let mut takes = true;
        match self.setup.planted() {
            Some(PlantedFault::Untaken(after_rounds)) => takes = self.rounds < after_rounds,
            Some(PlantedFault::WrongUserData(after_rounds))
                if self.rounds >= after_rounds && !std::mem::replace(&mut self.planted, true) =>
            {
                self.ring.plant_fault();
            }
            _ => {}
        }
        let lap = self.ring.run(rounds, takes).map_err(|trouble| self.failed(trouble))?;
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
        for _ in 0..=self.ring.completion_entries() {
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
        if let Some(PlantedFault::Overcount(bytes)) = self.setup.planted() {
            counted.completed += bytes;
        }
        counted
    }

    fn report(&self, meter: Meter, left: u64) -> EndReport {
        let window = meter.window();
        let total = self.counted();
        let kernel_threads_ns = if self.setup.ring_flags().sqpoll { uring::helper_cpu_ns() } else { None };
        let ring = RingReport {
            submitted: window.watched,
            total_submitted: total.submitted,
            total_completed: total.completed,
            left,
            checked: total.checked,
            enters: window.calls,
            overflowed_after_rounds: self.overflowed_after_rounds,
            completion_entries: self.ring.completion_entries(),
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
    use super::*;

    #[test]
    fn operations_are_counted_and_compared_as_with_rings() {
        let lap = |checked| Idle { batch: 8, checked }.run(100, true).expect("nothing can fail");
        let expected = |checked| Lap { submitted: 800, completed: 800, enters: 100, checked };
        assert_eq!(lap(false), expected(0));
        assert_eq!(lap(true), expected(800));
    }
}

#[cfg(test)]
mod trial_tests {
    use bytegauge_model::{FactorKey, Spec, UserData, Workload};

    use super::*;

    #[test]
    fn missing_rings_have_their_own_next_step() {
        let check = |lacking: Missing, expected: &str| {
            let text = missing(&lacking.into());
            assert!(text.contains(expected) && !text.contains("--engine"), "{text}");
        };
        check(Missing::SwitchedOff(2), "run `sysctl kernel.io_uring_disabled=0` as root");
        check(Missing::NotBuilt, "no ring to measure");
        check(Missing::Filtered, "a container or sandbox filters it");
        check(Missing::LockedMemory { doing: "making an io_uring", limit_kib: 64 }, "use fewer --entries");
        check(Missing::NoDescriptor, "ulimit -n");
        check(Missing::Refused { doing: "making an io_uring", errno: 22 }, "use another --setup");
    }

    fn terms(implementation: Implementation) -> Setup {
        let mut spec = Spec::of(Workload::Ring);
        spec.put(FactorKey::implementation, implementation);
        spec.put(FactorKey::entries, 16);
        spec.put(FactorKey::user_data, UserData::Unique);
        spec.put(FactorKey::mode, Mode::Checked);
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
        terms.spec.put(FactorKey::mode, Mode::Ceiling);
        terms.spec.put(FactorKey::user_data, UserData::None);
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
                let plant = Some(PlantedFault::WrongUserData(100));
                let mut wrong = Setup { plant, ..terms(implementation) };
                wrong.spec.put(FactorKey::user_data, user_data);
                check(&wrong, "which does not match a submission");
            }
            let untaken = Setup { plant: Some(PlantedFault::Untaken(100)), ..terms(implementation) };
            check(&untaken, "the completion queue overflowed");
            let overcount = Setup { plant: Some(PlantedFault::Overcount(1)), ..terms(implementation) };
            check(&overcount, "the counts do not match");
        }
    }
}
