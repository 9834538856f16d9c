//! The window of a meter: its schedule, the counts at its edges, and the result.

use bytegauge_model::EndCounts;
use bytegauge_sys::cpu_time::Usage;

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
pub(super) struct MeterCounts {
    pub(super) at_ns: u64,
    pub(super) bytes: u64,
    pub(super) calls: u64,
    pub(super) short_calls: u64,
    pub(super) datagrams: u64,
    pub(super) packets: u64,
    pub(super) watched: u64,
}

impl MeterCounts {
    /// The counts at `at_ns`, between this moment and a later one, if the calls between them were made one
    /// after another at equal distances: whole calls only, so that calls and bytes agree.
    pub(super) fn towards(&self, later: &MeterCounts, at_ns: u64) -> MeterCounts {
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
pub(super) struct Mark {
    /// Counts before the edge.
    pub(super) edge: MeterCounts,
    /// When and after how many calls the rest was read.
    pub(super) read: MeterCounts,
    pub(super) usage: Usage,
    pub(super) queued_ns: Option<u64>,
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
    /// Datagrams moved ([`Meter::note`](super::Meter::note)).
    pub datagrams: u64,
    /// Packets that held them.
    pub packets: u64,
    /// CPU time and switches of the thread, and of the threads that worked for it ([`Meter::tally`](super::Meter::tally)).
    pub usage: Usage,
    /// How long it waited for a CPU, nanoseconds; absent if other threads worked for it.
    pub queued_ns: Option<u64>,
    /// The increase of the watched count ([`Meter::watch`](super::Meter::watch)).
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
