//! How every end runs a trial, whatever its role: its threads wait at the gate for `Go`, and the end waits for them.
//!
//! Each role has a function that opens the end, has it run here by its [`EndPlan`], and sums up what its threads counted. An end
//! that measures replies `Closed` when the windows of all its threads have closed, and continues unmeasured; another one
//! continues until it is stopped or its channel is closed.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::{EndCounts, EndReport, EngineReport, FlowReport};
use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::call::{ClientCounts, Samples};
use crate::end::thread_group::{EndPlan, EndThread, Flags, ThreadGroup, ThreadResults, ThreadStart};
use crate::engine::Stop;
use crate::message::{Command, Peer, Reply};
use crate::meter::{Meter, Schedule};
use crate::setup::{Setup, TransferLimit};

/// The result of an end.
#[derive(Debug, Default)]
pub(super) struct EndResult {
    pub(super) report: EndReport,
    pub(super) fault: Option<EndError>,
    /// Descriptors that stay open until the next command, because the other end still samples its sockets.
    pub(super) kept: Vec<OwnedFd>,
}

/// Runs an end, which is connected and has not begun, from `Ready` to the results of its threads. `thread_of` is asked for each
/// thread in order, once. `Ok(None)` if the end was called off.
pub(super) fn run<T: Send + 'static>(
    peer: &mut impl Peer,
    plan: &EndPlan,
    mut thread_of: impl FnMut(usize, &Flags) -> EndThread<T>,
) -> Result<Option<ThreadResults<T>>, EndError> {
    let limit = plan.bound.map(|bound| Arc::new(TransferLimit::new(bound)));
    let flags = Flags { limit: limit.clone(), ..Flags::default() };
    let group = ThreadGroup::start(plan, flags.clone(), |thread| thread_of(thread, &flags))?;
    let begins = peer.reply(Reply::Ready) && peer.command() == Some(Command::Go);
    if begins {
        limit.iter().for_each(|limit| limit.begin(monotonic_ns()));
        group.gate.open();
    } else {
        group.gate.call_off();
        if !plan.works_before {
            let _ = group.finish(Duration::ZERO, None, || {});
            return Ok(None);
        }
    }
    if begins && plan.works_before {
        // A waiting thread is woken repeatedly, since one signal may come a moment too early.
        for _ in 0..3 {
            group.nudge();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    if plan.until_stopped {
        if begins {
            // `Stop`, or a closed channel: both end it.
            let _ = peer.command();
        }
        group.stop();
    }
    let mut results = group.finish(Duration::from_nanos(plan.patience_ns), plan.windowed.clone(), || {
        if !plan.until_stopped {
            // If the channel is closed, the report is not awaited either.
            let _ = peer.reply(Reply::Closed);
        }
        if plan.windowed.is_some() {
            // `Stop`, as above; the loop that waits for the threads wakes them.
            let _ = peer.command();
            flags.stop_requested.store(true, Ordering::Relaxed);
        }
    });
    results.is_used_up = limit.is_some_and(|limit| limit.is_used_up());
    Ok(Some(results))
}

/// The counts of one thread.
#[derive(Debug, Default)]
pub(super) struct ThreadReport {
    /// Rows of its flows, or its own, by number. The first of them has the counts of the thread's window.
    pub(super) rows: Vec<(usize, FlowReport)>,
    /// Time on a run queue within its window; absent if the kernel does not report it.
    pub(super) queued_ns: Option<u64>,
    pub(super) engine: Option<EngineReport>,
    pub(super) fault: Option<EndError>,
    /// The calls of its clients, or the urgent messages that its flows read.
    pub(super) calls: Option<ClientCounts>,
    /// As in [`EndResult`].
    pub(super) kept: Vec<OwnedFd>,
}

impl ThreadReport {
    /// Rows with the meter's window in the first: flows that share a thread have no counters of their own.
    pub(super) fn of(meter: Meter, mut rows: Vec<(usize, FlowReport)>, engine: Option<EngineReport>) -> ThreadReport {
        rows.sort_by_key(|(number, _)| *number);
        let window = meter.window();
        if let Some((_, first)) = rows.first_mut() {
            let EndCounts { total_bytes, verified_bytes, .. } = first.counts;
            first.counts = EndCounts { total_bytes, verified_bytes, ..window.counts() };
            first.series = meter.into_bins();
        }
        ThreadReport { rows, queued_ns: window.queued_ns, engine, ..ThreadReport::default() }
    }

    /// A thread of calls: one row for the thread with its first sampled connection, and rows of the other samples after those
    /// of all threads.
    pub(super) fn of_calls(
        thread: usize,
        meter: Meter,
        samples: Samples,
        driven: Result<(Stop, EngineReport), EndError>,
    ) -> ThreadReport {
        let (engine, fault) =
            driven.map_or_else(|fault| (EngineReport::default(), Some(fault)), |(_, engine)| (engine, None));
        let calls = meter.window().watched;
        let mut found = samples.found.into_iter();
        let mut own = found.next().unwrap_or_default();
        own.total_bytes = meter.total_bytes();
        let mut part = ThreadReport::of(meter, vec![(thread, own)], Some(engine));
        part.rows.iter_mut().for_each(|(_, row)| row.calls = calls);
        part.rows.extend(found.map(|row| (usize::MAX, row)));
        part.fault = fault;
        part
    }
}

/// The sum of the counts of an end's threads. Earlier faults explain later ones; of several faults the first counts.
pub(super) fn summed(results: ThreadResults<ThreadReport>) -> EndResult {
    let ThreadResults { parts, in_time, fault: late, is_used_up } = results;
    let (mut rows, mut engine, mut queued_ns) = (Vec::with_capacity(parts.len()), None, Some(0));
    let (mut early, mut last, mut kept) = (None, None, Vec::new());
    let mut calls: Option<ClientCounts> = None;
    for (index, part) in parts.into_iter().enumerate() {
        rows.extend(part.rows);
        kept.extend(part.kept);
        match (&mut calls, part.calls) {
            (Some(calls), Some(more)) => calls.add(&more),
            (calls, more) => *calls = calls.take().or(more),
        }
        engine = [engine, part.engine].into_iter().flatten().reduce(|one: EngineReport, other| one.plus(&other));
        queued_ns = queued_ns.zip(part.queued_ns).map(|(sum, more): (u64, u64)| sum + more);
        let found = if index < in_time { &mut early } else { &mut last };
        *found = found.take().or(part.fault);
    }
    rows.sort_by_key(|(number, _)| *number);
    let flows: Vec<FlowReport> = rows.into_iter().map(|(_, row)| row).collect();
    let mut report = EndReport { engine: engine.map(Box::new), ..EndReport::of_flows(flows) };
    report.queued_ns = queued_ns.into();
    report.call = calls.map(|calls| Box::new(calls.report()));
    let used_up = is_used_up.then_some(EndError::UsedUp);
    EndResult { report, fault: used_up.or(early).or(late).or(last), kept }
}

/// A meter for one thread of an end that works before `Go`: its schedule begins with the gate's opening.
pub(super) fn early_meter<T>(setup: &Setup, start: &ThreadStart<T>) -> Meter {
    let schedule = Schedule { warmup_ns: setup.warmup_ns, window_ns: setup.window_ns, until_stopped: true };
    let mut meter = Meter::start(&schedule, 0);
    meter.limit_by(start.flags.limit.clone());
    meter.hold(Arc::clone(&start.gate.opened_ns), &schedule);
    meter
}

/// A meter for one thread of a trial, with room for bins if requested. Its time starts now; with several flows, it started for
/// all of them at `began_ns`.
pub(super) fn meter(setup: &Setup, flows: usize, until_stopped: bool, (began_ns, flags): (u64, &Flags)) -> Meter {
    let Setup { warmup_ns, window_ns, series, .. } = *setup;
    let schedule = Schedule { warmup_ns, window_ns, until_stopped };
    let mut meter = Meter::start(&schedule, schedule.bins_max(series));
    meter.limit_by(flags.limit.clone());
    if flows > 1 {
        meter.share_window(began_ns);
    }
    meter
}
