//! The counts of one end of a path, and of each of its flows, raw.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::call::{CallReport, EngineReport};
use crate::datagram::DatagramReport;
use crate::level::Level;
use crate::relay::RelayReport;
use crate::relay_program::RelayProgramReport;
use crate::ring::RingReport;
use crate::sums::{OptionalCount, sums};
use crate::task::TaskReport;

/// Most flows of an end, both ways: twice as many as there are ports. More are refused before they take memory: a report may come
/// from another host.
const FLOW_REPORTS_MAX: usize = 2 << 16;

/// The counts that an end and each of its flows have. An [`EndReport`] and a [`FlowReport`] read as their counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndCounts {
    /// Bytes moved in the window.
    pub bytes: u64,
    /// Calls of `read(2)` or `write(2)` (or the engine's counterpart) in the window. In the workload `call`:
    /// requests that were served, or completed. For a ring: completions that were taken.
    pub calls: u64,
    /// Calls in the window that moved less than the buffer held.
    pub short_calls: u64,
    /// Length of the window that all flows share, nanoseconds of the monotonic clock.
    pub window_ns: u64,
    /// CPU time of the threads in the window, in user mode.
    pub user_ns: u64,
    /// CPU time of the threads in the window, in the kernel.
    pub system_ns: u64,
    /// CPU time of the threads in the window by the precise clock (`CLOCK_THREAD_CPUTIME_ID`).
    pub cpu_ns: u64,
    /// Time the threads could have run in the window but waited for a CPU; absent where the kernel does
    /// not report it.
    pub queued_ns: OptionalCount,
    /// Times a thread gave up the CPU voluntarily (it blocked).
    pub voluntary_switches: u64,
    /// Times a thread was preempted.
    pub involuntary_switches: u64,
    /// Bytes moved in the whole life of the flows: warm-up, window and what was drained after it.
    pub total_bytes: u64,
    /// Bytes whose content was compared with the pattern (verify mode).
    pub verified_bytes: u64,
}

impl EndCounts {
    /// CPU time over the window, in CPUs; `None` where CPU time was not recorded.
    pub fn cpus(&self) -> Option<f64> {
        (self.cpu_ns > 0 && self.window_ns > 0).then(|| self.cpu_ns as f64 / self.window_ns as f64)
    }
}

sums!(EndCounts {
    bytes, calls, short_calls, user_ns, system_ns, cpu_ns, queued_ns, voluntary_switches, involuntary_switches, total_bytes,
    verified_bytes,
} max { window_ns });

/// Counts of one end of a path within its measured window, summed over its flows. Parts that few ends have are boxed: a
/// report holds 100,000 trials.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndReport {
    /// The sums of its flows' counts, or its own.
    #[serde(flatten)]
    pub counts: EndCounts,
    /// Each flow.
    #[serde(deserialize_with = "at_most::<FLOW_REPORTS_MAX, _, _>")]
    pub flows: Vec<FlowReport>,
    /// Measurements of the calls, at the end that made them; of urgent messages, at the end that read them.
    pub call: Option<Box<CallReport>>,
    /// Counts of the engine, if it keeps any.
    pub engine: Option<Box<EngineReport>>,
    /// Counts of datagrams, if there were any.
    pub datagrams: Option<Box<DatagramReport>>,
    /// Counts of a ring.
    pub ring: Option<Box<RingReport>>,
    /// Counts of a relay.
    pub relay: Option<Box<RelayReport>>,
    /// Facts about a program that was the relay.
    pub relay_program: Option<Box<RelayProgramReport>>,
    /// The result of the user's program.
    pub task: Option<Box<TaskReport>>,
    /// The results of the iperf3 server that was the other end.
    pub iperf3: Option<Box<Iperf3Report>>,
}

impl EndReport {
    /// CPU time by the precise clock, or by ticks where only those were kept, nanoseconds.
    pub fn cpu_time_ns(&self) -> u64 {
        if self.cpu_ns > 0 { self.cpu_ns } else { self.user_ns.saturating_add(self.system_ns) }
    }

    /// CPU time of the end's own threads within the window, and the window's share of what the kernel's threads
    /// took for its engine, nanoseconds. Those are counted over the end's whole life, so they are shared out by
    /// bytes.
    pub fn cpu_and_kernel_threads_ns(&self) -> u64 {
        let kernel_ns = self.engine.as_ref().and_then(|engine| engine.kernel_threads_ns).unwrap_or(0);
        self.cpu_time_ns().saturating_add((kernel_ns as f64 * self.window_share()) as u64)
    }

    /// Share of the end's whole life that is in its window, by bytes moved.
    pub fn window_share(&self) -> f64 {
        if self.total_bytes > self.bytes { self.bytes as f64 / self.total_bytes as f64 } else { 1.0 }
    }

    pub(crate) fn cpu_ns_per_byte(&self) -> Option<f64> {
        (self.bytes > 0 && self.cpu_time_ns() > 0).then(|| self.cpu_time_ns() as f64 / self.bytes as f64)
    }
}

impl EndReport {
    /// The sum of flows: each of them, and their sums over the longest of their windows. Counts that only an end has
    /// are left out.
    pub fn of_flows(flows: Vec<FlowReport>) -> EndReport {
        // Threads report how long they waited, flows do not.
        let counts = flows.iter().fold(EndCounts::default(), |sum, flow| sum.plus(&flow.counts));
        EndReport {
            counts: EndCounts { queued_ns: OptionalCount::NONE, ..counts },
            datagrams: flows
                .iter()
                .filter_map(|flow| flow.datagrams.as_deref().copied())
                .reduce(|one, other| one.plus(&other))
                .map(Box::new),
            flows,
            ..EndReport::default()
        }
    }
}

/// Lets a report be read as its counts.
macro_rules! reads_as_counts {
    ($type:ty) => {
        impl Deref for $type {
            type Target = EndCounts;

            fn deref(&self) -> &EndCounts {
                &self.counts
            }
        }

        impl DerefMut for $type {
            fn deref_mut(&mut self) -> &mut EndCounts {
                &mut self.counts
            }
        }
    };
}

reads_as_counts!(EndReport);
reads_as_counts!(FlowReport);

/// Counts of one flow of one end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowReport {
    /// Its counts.
    #[serde(flatten)]
    pub counts: EndCounts,
    /// `TCP_INFO` at the end of the flow's loop: counts of the connection's whole life.
    pub tcp: Option<Box<TcpReport>>,
    /// Options as the kernel set them.
    pub options: Arc<EffectiveOptions>,
    /// Counts of datagrams, if there were any.
    pub datagrams: Option<Box<DatagramReport>>,
    /// Whether its bytes went back, to the end that had connected, in both directions at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
    /// Bins of about 1 ms over warm-up and window, in long enough trials and in calibration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Bin>,
}

/// The fields of `TCP_INFO` that name a limit (include/uapi/linux/tcp.h); absent where the kernel is older.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TcpReport {
    /// Segments retransmitted over the connection's life.
    pub retransmits: OptionalCount,
    /// Time with data outstanding, µs.
    pub busy_us: OptionalCount,
    /// Part of it in which the receiver's window was the limit, µs.
    pub rwnd_limited_us: OptionalCount,
    /// Part of it in which the send buffer was the limit, µs.
    pub sndbuf_limited_us: OptionalCount,
    /// Smallest round-trip time seen, µs.
    pub min_rtt_us: OptionalCount,
    /// Bytes sent, retransmissions included.
    pub bytes_sent: OptionalCount,
    /// Bytes acknowledged by the peer.
    pub bytes_acked: OptionalCount,
    /// Bytes received.
    pub bytes_received: OptionalCount,
    /// Whether a connection of MPTCP used it, and not TCP as a fallback.
    pub mptcp: Option<bool>,
    /// Whether data that went with the SYN was accepted; only where Fast Open was requested.
    pub syn_data: Option<bool>,
}

/// Options as `getsockopt(2)` and `fcntl(2)` report them, not as requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EffectiveOptions {
    /// By the factor that sets it, in the units of its levels: `sndbuf` is twice the requested size, or limited.
    #[serde(flatten)]
    pub levels: BTreeMap<String, Level>,
    /// Share of a file source that the page cache held when the trial began, 0 to 1.
    pub page_cache_share: Option<f64>,
}

impl EffectiveOptions {
    /// The value in force of a factor's option; absent if it is unknown.
    pub fn get(&self, factor: &str) -> &Level {
        self.levels.get(factor).unwrap_or(&Level::Absent)
    }
}

// Lists of bounded length from other hosts: a short text must not become a list that fills memory.

/// Reads a list of at most `MAX` elements. The first one beyond them is refused before it takes memory.
///
/// # Errors
/// Those of the elements, and one with the limit for a longer list.
pub fn at_most<'de, const MAX: usize, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(BoundedList::<MAX, T>(PhantomData))
}

struct BoundedList<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for BoundedList<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} elements")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = from.next_element()? {
            if list.len() == MAX {
                return Err(A::Error::invalid_length(MAX + 1, &self));
            }
            list.push(element);
        }
        Ok(list)
    }
}

// Results of an iperf3 server that was the other end of a trial.

/// The results that the server reported after the test, summed over its data connections. They include the warm-up, and the
/// time between the start of the test and the first byte.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Iperf3Report {
    /// Bytes that the server read, or wrote.
    pub bytes: u64,
    /// The longest duration of a data connection, nanoseconds.
    pub duration_ns: u64,
    /// CPU time of the server's process over the test, percent of one CPU.
    pub cpu_percent: f64,
    /// Segments that the server sent again; absent where it did not write or does not count them.
    pub retransmits: Option<u64>,
    /// The congestion control of the server's connections.
    pub congestion: Option<String>,
    /// Datagrams that the server sent, or at a server that read the highest number that came; absent over TCP.
    pub datagrams: Option<u64>,
    /// Datagrams that the server misses, where it read.
    pub lost: Option<u64>,
    /// The largest jitter of a data connection (RFC 3550), where the server read datagrams, nanoseconds.
    pub jitter_ns: Option<u64>,
}

impl Iperf3Report {
    /// The share of the datagrams that arrived at a server that read; 1 where nothing is known to be lost.
    pub fn delivered_share(&self) -> f64 {
        match (self.datagrams, self.lost) {
            (Some(datagrams), Some(lost)) if datagrams > 0 => datagrams.saturating_sub(lost) as f64 / datagrams as f64,
            _ => 1.0,
        }
    }
}

// The interval series of a flow: its bytes in bins that follow one another.

/// One bin of a flow's interval series. The bytes of a ring are completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Length, nanoseconds.
    pub ns: u64,
    /// Bytes moved.
    pub bytes: u64,
}

/// Most intervals of a series: those of an hour, the longest trial, in milliseconds, and some more.
const INTERVALS_MAX: u64 = 1 << 22;

impl Bin {
    /// The bytes of bins that follow one another in every whole interval of `interval_ns` from the first one's begin; those
    /// of a bin are spread evenly over the intervals that it touches. An interval is a nanosecond at least. Bins come from other
    /// hosts and from files too, and may claim any length: intervals beyond those of the longest trial are left out.
    pub fn by_interval(bins: &[Bin], interval_ns: u64) -> Vec<f64> {
        let interval_ns = interval_ns.max(1);
        let total_ns = bins.iter().map(|bin| bin.ns).fold(0, u64::saturating_add);
        let count = (total_ns / interval_ns).min(INTERVALS_MAX);
        let mut bytes = vec![0.0; count as usize];
        // The rest is no whole interval.
        let all_ns = count * interval_ns;
        let mut from_ns: u64 = 0;
        for bin in bins {
            let end_ns = from_ns.saturating_add(bin.ns).min(all_ns);
            while from_ns < end_ns {
                let at = from_ns / interval_ns;
                let to_ns = end_ns.min((at + 1) * interval_ns);
                if let Some(interval) = bytes.get_mut(at as usize) {
                    *interval += bin.bytes as f64 * (to_ns - from_ns) as f64 / bin.ns as f64;
                }
                from_ns = to_ns;
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_have_a_bounded_number_of_flows() {
        let read = |count: usize| {
            let text = format!(r#"{{"flows":[{}]}}"#, vec!["{}"; count].join(","));
            serde_json::from_str::<EndReport>(&text).map(|report| report.flows.len())
        };
        assert_eq!(read(FLOW_REPORTS_MAX).unwrap(), 131_072);
        assert!(read(FLOW_REPORTS_MAX + 1).unwrap_err().to_string().contains("at most 131072"));
    }
}

#[cfg(test)]
mod bounded_tests {
    use serde_json::Deserializer;

    use super::*;

    #[test]
    fn longer_lists_are_refused_with_the_limit() {
        let read = |text: &str| at_most::<2, u8, _>(&mut Deserializer::from_str(text));
        assert_eq!(read("[]").unwrap(), Vec::<u8>::new());
        assert_eq!(read("[1,2]").unwrap(), [1, 2]);
        assert!(read("[1,2,3]").unwrap_err().to_string().contains("at most 2 elements"));
        assert!(read("7").is_err());
    }
}

#[cfg(test)]
mod series_tests {
    use super::*;

    #[test]
    fn series_of_any_length_take_bounded_memory() {
        let bin = |ns| Bin { ns, bytes: 1 };
        for bins in [vec![bin(1 << 63)], vec![bin(5), bin(u64::MAX - 5), bin(7)]] {
            assert_eq!(Bin::by_interval(&bins, 1_000_000).len() as u64, INTERVALS_MAX);
            assert_eq!(Bin::by_interval(&bins, 1 << 62).len(), if bins.len() == 1 { 2 } else { 3 });
        }
    }
}
