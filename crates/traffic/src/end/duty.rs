//! How every end carries a trial, whatever it does: its threads wait at the gate for `Go`, and are waited for.
//!
//! What an end does is its [`Duty`]: to write or read a stream, to make calls or serve them, to run a ring. Whoever
//! measures says `Closed` when the windows of all its threads have closed, and goes on with what is not measured; whoever
//! does not goes on until it is told to stop, or until nobody is left to say it.

use std::ops::Range;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytegauge_model::{EndReport, EngineReport, FlowReport, Side};
use bytegauge_sys::clock::monotonic_ns;

use crate::call::Samples;
use crate::end::crew::{Crew, Flags, Left, Post, Roster};
use crate::end::peer::Peer;
use crate::fault::Fault;
use crate::leash::{Bound, Leash};
use crate::live_bytes;
use crate::message::{Command, Reply};
use crate::meter::{Meter, Schedule};
use crate::plant::Plant;
use crate::setup::Setup;

/// What an end does: everything is joined, nothing has begun.
pub(super) trait Duty {
    /// What each of its threads does.
    type Hand: Hand;

    /// Whether its threads work before `Go`: they are woken by it, and report although they are called off.
    const WORKS_BEFORE: bool = false;

    /// Who is needed.
    fn roster(&self) -> Roster;

    /// A thread's share. They are asked for in order, each once.
    fn hand(&mut self, thread: usize, flags: &Flags) -> Self::Hand;

    /// When it is over.
    fn lasting(&self) -> Lasting;

    /// How far it may go, where its host's owner bounds it.
    fn bound(&self) -> Option<Bound> {
        None
    }

    /// What all threads counted together.
    fn report(self, left: Left<<Self::Hand as Hand>::Part>) -> EndResult;
}

/// One thread's share of a duty.
pub(super) trait Hand: Send + 'static {
    /// What it counted.
    type Part: Send + 'static;

    /// The descriptors that it owns, and those that it shares with the hands of other threads. It uses no others that were
    /// opened before.
    fn descriptors(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Prepares memory, waits at the gate unless it works before, carries, and drains.
    fn carry(self, post: Post<Self::Part>) -> Self::Part;
}

/// When an end is over.
#[derive(Clone, Debug)]
pub(super) struct Lasting {
    /// It goes on until it is told, rather than by its schedule.
    pub(super) until_told: bool,
    /// How long it may take from `Go`, or from when it was told, before it counts as stalled, nanoseconds.
    pub(super) patience_ns: u64,
    /// Where only some of its threads go by the schedule, those: the others go on until the end is told, after that.
    pub(super) windowed: Option<Range<usize>>,
}

/// What an end came to.
#[derive(Debug, Default)]
pub(super) struct EndResult {
    pub(super) report: EndReport,
    pub(super) fault: Option<Fault>,
    /// What stays open until the next command: the other end is still to be looked at.
    pub(super) kept: Vec<OwnedFd>,
}

/// Carries a duty from `Ready` to its report. `Ok(None)` when it was called off.
pub(super) fn carry<D: Duty>(peer: &mut impl Peer, mut duty: D) -> Result<Option<EndResult>, Fault> {
    let leash = duty.bound().map(|bound| Arc::new(Leash::new(bound)));
    let flags = Flags { leash: leash.clone(), ..Flags::default() };
    let lasting = duty.lasting();
    let crew = Crew::start(duty.roster(), flags.clone(), |thread| {
        let hand = duty.hand(thread, &flags);
        (hand.descriptors(), move |post| hand.carry(post))
    })?;
    let begins = peer.reply(Reply::Ready) && peer.command() == Some(Command::Go);
    if begins {
        leash.iter().for_each(|leash| leash.begin(monotonic_ns()));
        crew.begin();
    } else {
        crew.call_off();
        if !D::WORKS_BEFORE {
            let _ = crew.finish(Duration::ZERO, None, || {});
            return Ok(None);
        }
    }
    if begins && D::WORKS_BEFORE {
        // A thread that waits learns it when it is woken, and one signal may come a moment too early.
        for _ in 0..3 {
            crew.nudge();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    if lasting.until_told {
        if begins {
            // `Stop`, or nobody is left to say it: both end it.
            let _ = peer.command();
        }
        crew.tell();
    }
    let others_go_on = lasting.windowed.is_some();
    let left = crew.finish(Duration::from_nanos(lasting.patience_ns), lasting.windowed, || {
        if !lasting.until_told {
            // If nobody hears it, nobody waits for the report either.
            let _ = peer.reply(Reply::Closed);
        }
        if others_go_on {
            // `Stop`, as above; who waits for the threads wakes them.
            let _ = peer.command();
            flags.told.store(true, Ordering::Relaxed);
        }
    });
    let mut ended = duty.report(left);
    if leash.is_some_and(|leash| leash.is_used_up()) {
        // Whatever else is wrong follows from it.
        ended.fault = Some(Fault::UsedUp);
    }
    Ok(Some(ended))
}

/// What one thread counted.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Rows of its flows, or its own, by number. The first of them has what the thread's window held.
    pub(super) rows: Vec<(usize, FlowReport)>,
    /// Time on a run queue within its window; absent where the kernel does not say.
    pub(super) queued_ns: Option<u64>,
    pub(super) engine: Option<EngineReport>,
    pub(super) fault: Option<Fault>,
}

impl Part {
    /// Rows of which the meter's window stands with the first: flows that share a thread have no counters of their own.
    pub(super) fn of(meter: Meter, mut rows: Vec<(usize, FlowReport)>, engine: Option<EngineReport>) -> Part {
        rows.sort_by_key(|(number, _)| *number);
        let window = meter.window();
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

    /// A thread of calls: one row for the thread with the first of the connections that were looked at, and the others'
    /// after those of all threads.
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

/// What an end's threads counted, summed up. What was wrong in time explains what was late; of several faults the first
/// counts.
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
    let report = EndReport { engine, queued_ns, ..EndReport::of_flows(flows) };
    (report, early.or(late).or(last))
}

/// A sink that loses count on purpose.
pub(super) fn overcount(report: &mut EndReport, plant: Option<Plant>, side: Side) {
    if let (Some(Plant::Overcount { bytes }), Side::Sink) = (plant, side) {
        report.total_bytes += bytes;
        report.datagrams.iter_mut().for_each(|datagrams| datagrams.total += bytes);
    }
}

/// A meter for one thread of a trial, with room for bins where they are kept. Its time starts now; where there are
/// other flows, it started for all of them at `began_ns`.
pub(super) fn meter(setup: &Setup, flows: usize, until_told: bool, (began_ns, flags): (u64, &Flags)) -> Meter {
    let Setup { warmup_ns, window_ns, series, .. } = *setup;
    let schedule = Schedule { warmup_ns, window_ns, until_told };
    let mut meter = Meter::start(&schedule, schedule.bins_max(series));
    meter.tie(flags.leash.clone());
    if !until_told {
        // The end that measures: its bytes count once.
        meter.show_live(live_bytes::place());
    }
    if flows > 1 {
        meter.share_window(began_ns);
    }
    meter
}
