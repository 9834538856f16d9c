//! How every end runs a trial, whatever its task: its threads wait at the gate for `Go`, and the end waits for them.
//!
//! The task of an end is its [`Duty`]: to write or read a stream, to make or serve calls, to run a ring. An end that measures
//! replies `Closed` when the windows of all its threads have closed, and continues unmeasured; another one continues until it
//! is stopped or its channel is closed.

use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::{EndReport, Engine, EngineReport, FlowReport, Level, Side};
use bytegauge_sys::clock::monotonic_ns;

use crate::call::Samples;
use crate::end::crew::{Crew, Flags, Left, Post, Roster};
use crate::end::peer::Peer;
use crate::fault::Fault;
use crate::live_bytes;
use crate::message::{Command, Reply};
use crate::meter::{Meter, Schedule};
use crate::plant::Plant;
use crate::setup::Setup;
use crate::transfer_limit::{Bound, TransferLimit};

/// An end's task: everything is connected, nothing has begun.
pub(super) trait Duty {
    /// The work of each of its threads.
    type Hand: Hand;

    /// Whether its threads work before `Go`: they are woken by it, and report even if the trial is called off.
    const WORKS_BEFORE: bool = false;

    /// The threads that it needs.
    fn roster(&self) -> Roster;

    /// A thread's share. Requested in order, once each.
    fn hand(&mut self, thread: usize, flags: &Flags) -> Self::Hand;

    /// When it is over.
    fn lasting(&self) -> Lasting;

    /// Its limits, if its host's owner sets any.
    fn bound(&self) -> Option<Bound> {
        None
    }

    /// The counts of all threads together.
    fn report(self, left: Left<<Self::Hand as Hand>::Part>) -> EndResult;
}

/// One thread's share of a duty.
pub(super) trait Hand: Send + 'static {
    /// Its counts.
    type Part: Send + 'static;

    /// The descriptors that it owns, and those that it shares with other threads. It uses no others that were opened
    /// before.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Prepares memory, waits at the gate unless it works before, runs, and drains.
    fn carry(self, post: Post<Self::Part>) -> Self::Part;
}

/// When an end is over.
#[derive(Clone, Debug)]
pub(super) struct Lasting {
    /// Whether it continues until it is stopped, rather than by its schedule.
    pub(super) until_stopped: bool,
    /// How long it may take from `Go`, or from the stop, before it counts as stalled, nanoseconds.
    pub(super) patience_ns: u64,
    /// If only some of its threads follow the schedule, those; the others continue until the end is stopped, after that.
    pub(super) windowed: Option<Range<usize>>,
}

/// The result of an end.
#[derive(Debug, Default)]
pub(super) struct EndResult {
    pub(super) report: EndReport,
    pub(super) fault: Option<Fault>,
    /// Descriptors that stay open until the next command, because the other end still samples its sockets.
    pub(super) kept: Vec<OwnedFd>,
}

/// Runs a duty from `Ready` to its report. `Ok(None)` if it was called off.
pub(super) fn carry<D: Duty>(peer: &mut impl Peer, mut duty: D) -> Result<Option<EndResult>, Fault> {
    let limit = duty.bound().map(|bound| Arc::new(TransferLimit::new(bound)));
    let flags = Flags { limit: limit.clone(), ..Flags::default() };
    let lasting = duty.lasting();
    let crew = Crew::start(duty.roster(), flags.clone(), |thread| {
        let hand = duty.hand(thread, &flags);
        (hand.descriptors(), move |post| hand.carry(post))
    })?;
    let begins = peer.reply(Reply::Ready) && peer.command() == Some(Command::Go);
    if begins {
        limit.iter().for_each(|limit| limit.begin(monotonic_ns()));
        crew.begin();
    } else {
        crew.call_off();
        if !D::WORKS_BEFORE {
            let _ = crew.finish(Duration::ZERO, None, || {});
            return Ok(None);
        }
    }
    if begins && D::WORKS_BEFORE {
        // A waiting thread is woken repeatedly, since one signal may come a moment too early.
        for _ in 0..3 {
            crew.nudge();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    if lasting.until_stopped {
        if begins {
            // `Stop`, or a closed channel: both end it.
            let _ = peer.command();
        }
        crew.stop();
    }
    let others_go_on = lasting.windowed.is_some();
    let left = crew.finish(Duration::from_nanos(lasting.patience_ns), lasting.windowed, || {
        if !lasting.until_stopped {
            // If the channel is closed, the report is not awaited either.
            let _ = peer.reply(Reply::Closed);
        }
        if others_go_on {
            // `Stop`, as above; the loop that waits for the threads wakes them.
            let _ = peer.command();
            flags.stop_requested.store(true, Ordering::Relaxed);
        }
    });
    let mut ended = duty.report(left);
    if limit.is_some_and(|limit| limit.is_used_up()) {
        // Other faults follow from it.
        ended.fault = Some(Fault::UsedUp);
    }
    Ok(Some(ended))
}

/// The counts of one thread.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Rows of its flows, or its own, by number. The first of them has the counts of the thread's window.
    pub(super) rows: Vec<(usize, FlowReport)>,
    /// Time on a run queue within its window; absent if the kernel does not report it.
    pub(super) queued_ns: Option<u64>,
    pub(super) engine: Option<EngineReport>,
    pub(super) fault: Option<Fault>,
}

impl Part {
    /// Rows with the meter's window in the first: flows that share a thread have no counters of their own.
    pub(super) fn of(meter: Meter, mut rows: Vec<(usize, FlowReport)>, engine: Option<EngineReport>) -> Part {
        rows.sort_by_key(|(number, _)| *number);
        let window = meter.window();
        if let Some(ns) = engine.and_then(|engine| engine.epoll_busy_poll_ns) {
            for (_, row) in &mut rows {
                Arc::make_mut(&mut row.options).levels.insert("epoll_busy_poll".into(), Level::Number(ns));
            }
        }
        if let Some((_, first)) = rows.first_mut() {
            let kept = std::mem::take(first);
            let FlowReport {
                total_bytes, verified_bytes, tcp, options, socket_memory, queued_bytes, datagrams, ..
            } = kept;
            *first = FlowReport {
                total_bytes,
                verified_bytes,
                tcp,
                options,
                socket_memory,
                queued_bytes,
                datagrams,
                series: meter.into_bins(),
                ..window.report()
            };
        }
        Part { rows, queued_ns: window.queued_ns, engine, fault: None }
    }

    /// A thread of calls: one row for the thread with its first sampled connection, and rows of the other samples after those
    /// of all threads.
    pub(super) fn of_calls(thread: usize, meter: Meter, samples: Samples, engine: EngineReport) -> Part {
        let calls = meter.window().watched;
        let mut found = samples.into_reports().into_iter();
        let own = FlowReport { total_bytes: meter.total_bytes(), ..found.next().unwrap_or_default() };
        let mut part = Part::of(meter, vec![(thread, own)], Some(engine));
        part.rows.iter_mut().for_each(|(_, row)| row.calls = calls);
        part.rows.extend(found.map(|row| (usize::MAX, row)));
        part
    }

    pub(super) fn failed(fault: Fault) -> Part {
        Part { fault: Some(fault), ..Part::default() }
    }
}

/// The sum of the counts of an end's threads. Earlier faults explain later ones; of several faults the first counts.
pub(super) fn summed(left: Left<Part>) -> (EndReport, Option<Fault>) {
    let Left { parts, in_time, fault: late, .. } = left;
    let (mut rows, mut engine, mut queued_ns) = (Vec::with_capacity(parts.len()), None, Some(0));
    let (mut early, mut last) = (None, None);
    for (index, part) in parts.into_iter().enumerate() {
        rows.extend(part.rows);
        engine = [engine, part.engine].into_iter().flatten().reduce(|one: EngineReport, other| one.plus(&other));
        queued_ns = queued_ns.zip(part.queued_ns).map(|(sum, more): (u64, u64)| sum + more);
        let found = if index < in_time { &mut early } else { &mut last };
        *found = found.take().or(part.fault);
    }
    rows.sort_by_key(|(number, _)| *number);
    let flows: Vec<FlowReport> = rows.into_iter().map(|(_, row)| row).collect();
    let report = EndReport { engine: engine.map(Box::new), queued_ns, ..EndReport::of_flows(flows) };
    (report, early.or(late).or(last))
}

/// A planted fault: a sink that counts wrongly.
pub(super) fn overcount(report: &mut EndReport, plant: Option<Plant>, side: Side) {
    if let (Some(Plant::Overcount { bytes }), Side::Sink) = (plant, side) {
        report.total_bytes += bytes;
        report.datagrams.iter_mut().for_each(|datagrams| datagrams.total += bytes);
    }
}

/// A meter for one thread of a trial, with room for bins if requested. Its time starts now; with several flows, it started for
/// all of them at `began_ns`.
pub(super) fn meter(setup: &Setup, flows: usize, until_stopped: bool, (began_ns, flags): (u64, &Flags)) -> Meter {
    let Setup { warmup_ns, window_ns, series, .. } = *setup;
    let schedule = Schedule { warmup_ns, window_ns, until_stopped };
    let mut meter = Meter::start(&schedule, schedule.bins_max(series));
    meter.tie(flags.limit.clone());
    if !until_stopped && setup.engine() != Engine::Null {
        // The end that measures: its bytes count once. The harness's own loop moves none.
        meter.show_live(live_bytes::place());
    }
    if flows > 1 {
        meter.share_window(began_ns);
    }
    meter
}
