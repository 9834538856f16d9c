//! The interval series of a flow: its bytes in bins that follow one another.

use serde::{Deserialize, Serialize};

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
    fn series_of_any_length_take_bounded_memory() {
        let bin = |ns| Bin { ns, bytes: 1 };
        for bins in [vec![bin(1 << 63)], vec![bin(5), bin(u64::MAX - 5), bin(7)]] {
            assert_eq!(Bin::by_interval(&bins, 1_000_000).len() as u64, INTERVALS_MAX);
            assert_eq!(Bin::by_interval(&bins, 1 << 62).len(), if bins.len() == 1 { 2 } else { 3 });
        }
    }
}
