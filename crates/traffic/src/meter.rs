//! Counts moved bytes and decides when a window begins and ends, with one clock read per lap.
//!
//! A lap is as many calls as take about 1 ms (less in a short window); how many is learnt lap by lap. So the loop that is
//! measured holds three additions and no clock read. Between laps the meter stores a bin, opens the window with the first
//! lap that ends after the warm-up, and closes it with the first that ends a window's length later. It never allocates
//! after it was made.

#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytegauge_model::{Bin, EndCounts};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::cpu_time::{RunDelay, Usage, process_usage, thread_usage};
use bytegauge_sys::socket_memory::queued_out;

use crate::counter::Total;
use crate::setup::TransferLimit;
use crate::tally::{Phase, Tally};

/// The length that laps aim at, and a tenth of the window if that is shorter.
const LAP_NS: u64 = 1_000_000;

/// The longest lap if flows share their window: if a thread loses its CPU within a lap, it is unknown how much of the lap was
/// before the edge of the window, and there may be as many such threads as flows.
const LAP_SHARED_NS: u64 = 100_000;

/// Shorter laps would read the clock too often to be free.
const LAP_MIN_NS: u64 = 20_000;

/// A lap never holds more calls than this, so that a loop of no work still reads the clock.
const LAP_CALLS_MAX: u64 = 1 << 22;

/// How often the limit is checked if other threads or tasks count.
const CHECK_NS: u64 = 20_000_000;

/// Counters, marks and bins of one flow.
#[derive(Debug, Default)]
pub struct Meter {
    /// What this meter itself has counted.
    own: MeterCounts,
    lap_calls: u64,
    lap_aim_ns: u64,
    bin_aim_ns: u64,
    lap_began_calls: u64,
    start_ns: u64,
    open_at_ns: u64,
    close_at_ns: u64,
    window_ns: u64,
    until_stopped: bool,
    lap_began_ns: u64,
    bin_began_ns: u64,
    bin_began_bytes: u64,
    opened: Option<Mark>,
    closed: Option<Mark>,
    bins: Vec<Bin>,
    run_delay: Option<RunDelay>,
    tally: Option<Arc<Tally>>,
    watched: Option<Arc<Total<1>>>,
    /// Whether marks hold the usage of the whole process, rather than of this thread.
    of_process: bool,
    /// Connections of which only acknowledged bytes count.
    unacknowledged: Vec<OwnedFd>,
    /// Until the start of its schedule is known: that moment, 0 before.
    held: Option<(Arc<AtomicU64>, Schedule)>,
    /// If other flows are counted over the same window ([`Meter::share_window`]).
    shared: Option<MeterShared>,
    /// The limit of the end, and the bytes of this meter that were counted against it.
    tied: Option<(Arc<TransferLimit>, u64)>,
}

/// State from which the edges of a shared window are computed.
#[derive(Clone, Copy, Debug)]
struct MeterShared {
    /// Before the first lap.
    begin: Mark,
    /// The counts at the beginning of the present lap.
    lap: MeterCounts,
}

impl Meter {
    /// A meter whose time starts now, with room for `bins_max` bins (0 for none).
    pub fn start(schedule: &Schedule, bins_max: usize) -> Meter {
        let bins = Vec::with_capacity(bins_max);
        let run_delay = RunDelay::open().ok();
        let start_ns = monotonic_ns();
        let open_at_ns = start_ns + schedule.warmup_ns;
        let close_at_ns = open_at_ns + schedule.window_ns;
        let lap_aim_ns = (schedule.window_ns / 10).clamp(LAP_MIN_NS, LAP_NS);
        let mut meter = Meter {
            lap_calls: 1,
            lap_aim_ns,
            bin_aim_ns: lap_aim_ns,
            start_ns,
            open_at_ns,
            close_at_ns,
            window_ns: schedule.window_ns,
            until_stopped: schedule.until_stopped,
            lap_began_ns: start_ns,
            bin_began_ns: start_ns,
            bins,
            run_delay,
            ..Meter::default()
        };
        if schedule.warmup_ns == 0 {
            meter.opened = Some(meter.mark(start_ns));
        }
        meter
    }

    /// Marks read this total too: counts of the workload itself, such as calls that took several sends.
    pub fn watch(&mut self, total: Arc<Total<1>>) {
        self.watched = Some(total);
        self.mark_again();
    }

    /// Marks subtract the bytes of these connections that the peer has not acknowledged: for an end whose peer reports
    /// nothing. Bins and totals remain those of written bytes.
    pub fn subtract_unacknowledged(&mut self, connections: Vec<OwnedFd>) {
        self.unacknowledged = connections;
    }

    /// Counts over the window that all flows share which began at `began_ns`: the same two moments for each of them,
    /// however seldom it gets a CPU. If a lap spans an edge, its share of calls, bytes and usage in the window is
    /// computed from its time. To be called before the first lap.
    ///
    /// A window of a flow's own, from one of its laps to another, is exact for a single flow. With many flows on few CPUs
    /// it holds the moments in which they ran, and their rates add up to more than the machine can do. The same would happen
    /// with whole laps: many flows first run after the window has opened, so that more laps exceed its end than
    /// its begin.
    pub fn share_window(&mut self, began_ns: u64) {
        let open_in_ns = self.open_at_ns - self.start_ns;
        self.start_ns = began_ns;
        self.open_at_ns = began_ns + open_in_ns;
        self.close_at_ns = self.open_at_ns + self.window_ns;
        // A flow that is so late that the window is open already is in it from its first lap on.
        let now_ns = monotonic_ns();
        let begin = self.mark(now_ns);
        self.shared = Some(MeterShared { begin, lap: begin.read });
        self.lap_began_ns = now_ns;
        self.lap_aim_ns = self.lap_aim_ns.min(LAP_SHARED_NS);
        self.opened = (now_ns >= self.open_at_ns).then(|| self.mark(now_ns));
        self.closed = self.opened.filter(|_| now_ns >= self.close_at_ns);
    }

    /// Holds the schedule back until `begins_ns` holds a moment of the monotonic clock: a server serves before
    /// the begin of the measurement is known.
    pub fn hold(&mut self, begins_ns: Arc<AtomicU64>, schedule: &Schedule) {
        self.held = Some((begins_ns, *schedule));
        self.opened = None;
        self.open_at_ns = u64::MAX;
        self.close_at_ns = u64::MAX;
        self.tell_phase();
    }

    /// Starts the schedule if it has begun.
    #[cold]
    fn take_up(&mut self, now_ns: u64) {
        let Some((begins_ns, schedule)) = &self.held else { return };
        let start_ns = begins_ns.load(Ordering::Acquire);
        if start_ns > 0 {
            self.start_ns = start_ns;
            self.open_at_ns = start_ns + schedule.warmup_ns;
            self.window_ns = schedule.window_ns;
            self.close_at_ns = self.open_at_ns + self.window_ns;
            self.bin_began_ns = now_ns;
            self.bin_began_bytes = self.total_bytes();
            self.held = None;
        }
    }

    /// Counts from now on against a limit, if there is one, which ends the loop.
    pub(crate) fn limit_by(&mut self, limit: Option<Arc<TransferLimit>>) {
        let counted = self.total_bytes();
        self.tied = limit.map(|limit| (limit, counted));
    }

    /// Calls until the next clock read.
    #[inline]
    pub fn lap_calls(&self) -> u64 {
        self.lap_calls
    }

    /// Ends the lap after this many of its calls, which then set the length of the next one: if all calls that were due counted, errors
    /// that come at once would make laps longer and longer.
    #[cold]
    pub fn cut_lap(&mut self, calls: u64) {
        self.lap_calls = calls;
    }

    /// Whether this lap's calls were made: a loop that counts here need not count itself.
    #[inline]
    pub fn is_lap_used_up(&self) -> bool {
        self.own.calls - self.lap_began_calls >= self.lap_calls
    }

    /// One call moved `moved` of the `asked` bytes.
    #[inline]
    pub fn count(&mut self, moved: usize, asked: usize) {
        self.own.bytes += moved as u64;
        self.own.calls += 1;
        self.own.short_calls += u64::from(moved < asked);
    }

    /// The call just counted moved `datagrams`, which the kernel held in `packets`.
    #[inline]
    pub fn note(&mut self, datagrams: u64, packets: u64) {
        self.own.datagrams += datagrams;
        self.own.packets += packets;
    }

    /// A lap's calls, counted by the caller: `moved` units in `calls` calls.
    #[inline]
    pub fn count_many(&mut self, moved: u64, calls: u64) {
        self.own.bytes += moved;
        self.own.calls += calls;
    }

    /// Marks hold the usage of the whole process: for an end in a process of its own, whatever threads it runs.
    pub fn charge_process(&mut self) {
        self.of_process = true;
        self.mark_again();
    }

    /// A window that is open began with another mark.
    fn mark_again(&mut self) {
        self.opened = self.opened.map(|_| self.mark(self.start_ns));
    }

    /// The counters for threads or tasks that work for this meter. Their counts are in every mark from now on, and
    /// their CPU time is in the window once they have ended.
    pub fn tally(&mut self) -> Arc<Tally> {
        let tally = Arc::clone(self.tally.get_or_insert_default());
        tally.enter(self.phase());
        tally
    }

    /// Ends a lap. `false` when the flow's time is up, or it was stopped.
    pub fn lap(&mut self, stop_requested: &AtomicBool) -> bool {
        let now_ns = monotonic_ns();
        let lap_ns = now_ns - self.lap_began_ns;
        self.learn(lap_ns);
        self.lap_began_ns = now_ns;
        self.lap_began_calls = self.own.calls;
        if self.held.is_some() {
            self.take_up(now_ns);
        }
        self.bin(now_ns);
        let phase = self.phase();
        let opens = self.opened.is_none() && now_ns >= self.open_at_ns;
        if opens {
            self.opened = Some(self.mark_of_edge(self.open_at_ns, now_ns));
            if self.shared.is_none() {
                // A thread that got the CPU late gets the whole window all the same: the short rest of it would be a
                // call or two, made at the speed of a thread that was just scheduled.
                self.close_at_ns = self.close_at_ns.max(now_ns.saturating_add(self.window_ns));
            }
        }
        // A call longer than the whole window still gets one: it closes a lap after it opened.
        if self.closed.is_none() && now_ns >= self.close_at_ns && (self.shared.is_some() || !opens) {
            self.closed = Some(self.mark_of_edge(self.close_at_ns, now_ns));
        }
        if let Some(shared) = self.shared {
            self.shared = Some(MeterShared { lap: self.counts(now_ns), ..shared });
        }
        if phase != self.phase() {
            self.tell_phase();
        }
        let continues =
            if self.until_stopped { !stop_requested.load(Ordering::Relaxed) } else { self.closed.is_none() };
        continues && self.within_limit(now_ns)
    }

    /// Whether the end may continue within its host's limits.
    fn within_limit(&mut self, now_ns: u64) -> bool {
        let total = self.total_bytes();
        let Some((limit, counted)) = &mut self.tied else { return true };
        let more = total - std::mem::replace(counted, total);
        limit.allows(more, now_ns)
    }

    /// The flow ended before its time was up: the window closes here.
    pub fn close_early(&mut self) {
        if self.opened.is_some() && self.closed.is_none() {
            self.closed = Some(self.mark_of_edge(self.close_at_ns, monotonic_ns()));
            self.tell_phase();
        }
    }

    /// Ends a lap if one is due: its calls were made, a mark is reached, or the loop was stopped. `false` when the
    /// flow's time is up.
    #[inline]
    pub fn continues(&mut self, now_ns: u64, stop_requested: &AtomicBool) -> bool {
        let is_due = self.is_lap_used_up() || now_ns >= self.next_mark_ns() || stop_requested.load(Ordering::Relaxed);
        !is_due || self.lap(stop_requested)
    }

    /// Ends a lap whose calls were made, between two clock reads: a round over many busy connections takes longer
    /// than a window's marks may wait. `false` when the flow's time is up.
    #[inline]
    pub fn continues_within_round(&mut self, stop_requested: &AtomicBool) -> bool {
        !self.is_lap_used_up() || self.lap(stop_requested)
    }

    /// The next moment at which [`lap`](Meter::lap) has something to do (open or close the window, end a bin),
    /// nanoseconds of the monotonic clock; `u64::MAX` if only a stop can end the loop. An engine that waits
    /// never waits longer.
    pub fn next_mark_ns(&self) -> u64 {
        match (&self.tied, &self.tally) {
            // Counts of other threads end no lap of this thread.
            (Some(_), Some(_)) => self.mark_ns().min(self.lap_began_ns + CHECK_NS),
            _ => self.mark_ns(),
        }
    }

    fn mark_ns(&self) -> u64 {
        if let Some((begins_ns, _)) = &self.held {
            // Once it is known, the next lap starts the schedule.
            return if begins_ns.load(Ordering::Relaxed) == 0 { u64::MAX } else { 0 };
        }
        let mark_ns = match (&self.opened, &self.closed) {
            (None, _) => self.open_at_ns,
            (Some(_), None) => self.close_at_ns,
            (Some(_), Some(_)) if self.until_stopped => return u64::MAX,
            // A flow that begins after the end of a shared window has nothing to wait for: the next lap is its last.
            (Some(_), Some(_)) => return self.close_at_ns,
        };
        if self.bins.len() < self.bins.capacity() { mark_ns.min(self.bin_began_ns + self.bin_aim_ns) } else { mark_ns }
    }

    /// When the loop began, nanoseconds of the monotonic clock.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Bytes since the loop began.
    pub fn total_bytes(&self) -> u64 {
        self.own.bytes + self.tally.as_ref().map_or(0, |tally| tally.sums()[0])
    }

    /// The counts of the window. Empty unless it opened and closed.
    pub fn window(&self) -> Window {
        let (Some(opened), Some(closed)) = (&self.opened, &self.closed) else { return Window::default() };
        let (from, to) = (&opened.edge, &closed.edge);
        let calls = to.calls.saturating_sub(from.calls);
        let shared = self.shared.is_some();
        let mut usage = self.usage(opened, closed, calls);
        let mut queued_ns =
            closed.queued_ns.zip(opened.queued_ns).map(|(later, earlier)| later.saturating_sub(earlier));
        if self.of_process {
            queued_ns = None;
        } else if let Some(tally) = self.tally.as_ref().filter(|tally| tally.has_threads()) {
            usage += tally.usage();
            // The waiting time of the other threads is unknown, and that of this one alone is not representative.
            queued_ns = None;
        }
        // A shared window is as long as planned, or ended with the flow.
        let shared_ns = || self.close_at_ns.min(to.at_ns).saturating_sub(self.open_at_ns);
        Window {
            ns: if shared { shared_ns() } else { to.at_ns - from.at_ns },
            // If the peer acknowledges late, the count may seem constant, but it never decreases.
            bytes: to.bytes.saturating_sub(from.bytes),
            calls,
            short_calls: to.short_calls.saturating_sub(from.short_calls),
            datagrams: to.datagrams.saturating_sub(from.datagrams),
            packets: to.packets.saturating_sub(from.packets),
            usage,
            queued_ns,
            watched: to.watched.saturating_sub(from.watched),
        }
    }

    /// When the window opened and when it closed; `None` unless it did both.
    pub(crate) fn edges_ns(&self) -> Option<(u64, u64)> {
        Some((self.opened.as_ref()?.edge.at_ns, self.closed.as_ref()?.edge.at_ns))
    }

    /// The usage of the calls of the window.
    fn usage(&self, opened: &Mark, closed: &Mark, calls: u64) -> Usage {
        let Some(shared) = &self.shared else { return closed.usage.since(&opened.usage) };
        // The CPU time was read when laps ended: a call is charged the mean of the time between. If a thread lost its CPU within a
        // lap, hardly any calls are between, and the time between is that of these calls and of the marks themselves; so a call
        // is charged its mean over the whole time.
        let between = |from: &Mark| closed.read.calls.saturating_sub(from.read.calls);
        let from = if 2 * between(opened) >= calls { opened } else { &shared.begin };
        closed.usage.since(&from.usage).times(calls as f64 / between(from).max(1) as f64)
    }

    /// The bins, in order, warm-up included.
    pub fn into_bins(self) -> Vec<Bin> {
        self.bins
    }

    /// Keeps a bin once it is as long as a lap should be: a paced writer's laps are single calls.
    fn bin(&mut self, now_ns: u64) {
        let ns = now_ns - self.bin_began_ns;
        if ns >= self.bin_aim_ns / 2
            && self.held.is_none()
            && self.bins.len() < self.bins.capacity()
            && self.closed.is_none()
        {
            let bytes = self.total_bytes();
            self.bins.push(Bin { ns, bytes: bytes - self.bin_began_bytes });
            self.bin_began_ns = now_ns;
            self.bin_began_bytes = bytes;
        }
    }

    fn phase(&self) -> Phase {
        match (&self.opened, &self.closed) {
            (None, _) => Phase::Before,
            (Some(_), None) => Phase::Within,
            (Some(_), Some(_)) => Phase::After,
        }
    }

    fn tell_phase(&self) {
        if let Some(tally) = &self.tally {
            tally.enter(self.phase());
        }
    }

    fn counts(&self, at_ns: u64) -> MeterCounts {
        let [bytes, calls, short_calls] = self.tally.as_ref().map_or([0; 3], |tally| tally.sums());
        MeterCounts {
            at_ns,
            bytes: self.own.bytes + bytes,
            calls: self.own.calls + calls,
            short_calls: self.own.short_calls + short_calls,
            watched: self.watched.as_ref().map_or(0, |total| total.sums()[0]),
            ..self.own
        }
    }

    /// A mark of this moment.
    fn mark(&self, now_ns: u64) -> Mark {
        let read = self.counts(now_ns);
        let waiting = |fd: &OwnedFd| queued_out(fd.as_fd()).map_or(0, |bytes| bytes as u64);
        let waiting: u64 = self.unacknowledged.iter().map(waiting).sum();
        Mark {
            edge: MeterCounts { bytes: read.bytes.saturating_sub(waiting), ..read },
            read,
            usage: if self.of_process { process_usage() } else { thread_usage() },
            queued_ns: self.run_delay.as_ref().and_then(RunDelay::ns),
        }
    }

    /// A mark of the lap that ends now; for a shared window, with the counts before its edge.
    fn mark_of_edge(&self, edge_ns: u64, now_ns: u64) -> Mark {
        let mark = self.mark(now_ns);
        let Some(shared) = &self.shared else { return mark };
        // Unacknowledged bytes may exceed those of a lap, so they are subtracted last.
        let waiting = mark.read.bytes - mark.edge.bytes;
        let edge = shared.lap.towards(&mark.read, edge_ns);
        Mark { edge: MeterCounts { bytes: edge.bytes.saturating_sub(waiting), ..edge }, ..mark }
    }

    /// Aims the next lap at its length: at most doubling, so that one fast lap of cached data cannot make the
    /// next one overshoot the window.
    fn learn(&mut self, lap_ns: u64) {
        let aimed = self.lap_calls.saturating_mul(self.lap_aim_ns) / lap_ns.max(1);
        self.lap_calls = aimed.clamp(1, (self.lap_calls * 2).min(LAP_CALLS_MAX));
    }
}

// The window of a meter: its schedule, the counts at its edges, and the result.

/// Bins are kept for at most this many laps.
const BINS_MAX: u64 = 200_000;

/// A bin is at least half a lap long, and a lap at most a millisecond.
const BIN_NS_MIN: u64 = 500_000;

/// When a flow's window opens and closes, relative to the start of its loop, and what ends the loop.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Warm-up before the window, nanoseconds.
    pub warmup_ns: u64,
    /// Length of the window, nanoseconds.
    pub window_ns: u64,
    /// Whether the loop continues after its window until it is stopped: a writer feeds its reader as
    /// long as the reader measures, however late it got the CPU.
    pub until_stopped: bool,
}

/// Counts up to one moment.
#[derive(Clone, Copy, Debug, Default)]
struct MeterCounts {
    at_ns: u64,
    bytes: u64,
    calls: u64,
    short_calls: u64,
    datagrams: u64,
    packets: u64,
    watched: u64,
}

impl MeterCounts {
    /// The counts at `at_ns`, between this moment and a later one, if the calls between them were made one
    /// after another at equal distances: whole calls only, so that calls and bytes agree.
    fn towards(&self, later: &MeterCounts, at_ns: u64) -> MeterCounts {
        let share = at_ns.saturating_sub(self.at_ns) as f64 / later.at_ns.saturating_sub(self.at_ns).max(1) as f64;
        let calls = later.calls.saturating_sub(self.calls);
        let share = if calls == 0 { share } else { (calls as f64 * share).round() / calls as f64 }.min(1.0);
        let part = |from: u64, to: u64| from + (to.saturating_sub(from) as f64 * share).round() as u64;
        MeterCounts {
            at_ns: at_ns.clamp(self.at_ns, later.at_ns),
            bytes: part(self.bytes, later.bytes),
            calls: part(self.calls, later.calls),
            short_calls: part(self.short_calls, later.short_calls),
            datagrams: part(self.datagrams, later.datagrams),
            packets: part(self.packets, later.packets),
            watched: part(self.watched, later.watched),
        }
    }
}

/// The state at the end of the lap in which a window opened or closed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Counts before the edge.
    edge: MeterCounts,
    /// When and after how many calls the rest was read.
    read: MeterCounts,
    usage: Usage,
    queued_ns: Option<u64>,
}

impl Schedule {
    /// Room for the bins of warm-up and window, if they are kept.
    pub fn bins_max(&self, series: bool) -> usize {
        let lasting_ns = self.warmup_ns + self.window_ns;
        if series { (lasting_ns / BIN_NS_MIN + 64).min(BINS_MAX) as usize } else { 0 }
    }
}

/// The counts of a window.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Length, nanoseconds; 0 if it never opened.
    pub ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Calls made.
    pub calls: u64,
    /// Calls that moved less than asked.
    pub short_calls: u64,
    /// Datagrams moved ([`Meter::note`](Meter::note)).
    pub datagrams: u64,
    /// Packets that held them.
    pub packets: u64,
    /// CPU time and switches of the thread, and of the threads that worked for it ([`Meter::tally`](Meter::tally)).
    pub usage: Usage,
    /// How long it waited for a CPU, nanoseconds; absent if other threads worked for it.
    pub queued_ns: Option<u64>,
    /// The increase of the watched count ([`Meter::watch`](Meter::watch)).
    pub watched: u64,
}

impl Window {
    /// The counts of a flow or an end in the window only.
    pub fn counts(&self) -> EndCounts {
        EndCounts {
            bytes: self.bytes,
            calls: self.calls,
            short_calls: self.short_calls,
            window_ns: self.ns,
            user_ns: self.usage.user_ns,
            system_ns: self.usage.system_ns,
            cpu_ns: self.usage.total_ns,
            queued_ns: self.queued_ns.into(),
            voluntary_switches: self.usage.voluntary_switches,
            involuntary_switches: self.usage.involuntary_switches,
            ..EndCounts::default()
        }
    }
}
