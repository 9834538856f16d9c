//! The times of calls, from the histograms that clients recorded: of those that ended, and of those that the window cut.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytegauge_model::{CallReport, EncodedHistogram};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use crate::lifetimes::{Durations, Lifetimes};

/// Calls that must be beyond a percentile.
const BEYOND_MIN: f64 = 10.0;

/// Recorded times with how often each was, nanoseconds. Sparse: a trial holds a few hundred different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeDistribution {
    /// The observed times.
    pub seen: Lifetimes,
    /// Calls that were seen whole.
    calls: u64,
}

impl TimeDistribution {
    /// Reads a histogram; `None` where it is damaged.
    pub fn decode(encoded: &EncodedHistogram) -> Option<TimeDistribution> {
        let ended = durations(&encoded.0)?;
        Some(TimeDistribution {
            calls: ended.iter().map(|(_, count)| count).sum(),
            seen: Lifetimes { ended, ..Lifetimes::default() },
        })
    }

    /// The mean time, nanoseconds; `None` where it depends on calls whose end was not observed.
    pub fn mean(&self) -> Option<f64> {
        self.seen.mean()
    }

    /// The mean of the fastest `share` of the times that were seen whole, nanoseconds; `None` without calls.
    pub fn mean_of_fastest(&self, share: f64) -> Option<f64> {
        let taken = (self.calls as f64 * share).floor();
        let (mut left, mut sum_ns) = (taken, 0.0);
        for (ns, count) in &self.seen.ended {
            let count = (*count as f64).min(left);
            (left, sum_ns) = (left - count, sum_ns + *ns as f64 * count);
        }
        (taken > 0.0).then(|| sum_ns / taken)
    }

    /// Adds another trial's.
    pub fn add(&mut self, other: &TimeDistribution) {
        self.seen.add(&other.seen);
        self.calls += other.calls;
    }

    /// Calls that took so long or longer: how many, their share of all, and their share of the time of all. `None`
    /// without calls.
    pub fn at_least(&self, least_ns: u64) -> Option<(u64, f64, f64)> {
        let (mut all_ns, mut slow_ns, mut slow) = (0.0, 0.0, 0);
        for (ns, count) in &self.seen.ended {
            let time_ns = *ns as f64 * *count as f64;
            all_ns += time_ns;
            if *ns >= least_ns {
                slow_ns += time_ns;
                slow += count;
            }
        }
        (self.calls > 0).then(|| (slow, slow as f64 / self.calls as f64, slow_ns / all_ns.max(1.0)))
    }

    /// The smallest recorded time that a share of the calls does not exceed, nanoseconds; infinite where it is longer than
    /// any that was seen whole.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        self.seen.percentile(share)
    }

    /// Whether enough calls are beyond a percentile to report it.
    pub fn reaches(&self, share: f64) -> bool {
        // 1 - 0.9 is a little less than a tenth.
        self.calls as f64 * (1.0 - share) >= BEYOND_MIN - 1e-6
    }
}

/// The whole calls of a trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedCalls {
    /// The median time of those that ended, nanoseconds.
    pub median_ns: u64,
    /// The longest time, those included that had not ended, nanoseconds.
    pub longest_ns: u64,
    /// Ages of the calls that had not ended when the measured time was over, nanoseconds, with their counts.
    pub left: Durations,
}

/// The whole calls of a client; `None` where it recorded no times.
pub fn observed(report: &CallReport) -> Option<ObservedCalls> {
    let Lifetimes { ended, left, .. } = whole(report)?.seen;
    let half = ended.iter().map(|(_, count)| count).sum::<u64>().div_ceil(2);
    let mut before = 0;
    let median = ended.iter().find(|(_, count)| {
        before += count;
        before >= half
    });
    let last = |durations: &Durations| durations.last().map_or(0, |(ns, _)| *ns);
    Some(ObservedCalls { median_ns: median?.0, longest_ns: last(&ended).max(last(&left)), left })
}

/// How long whole calls took, those included that the window cut.
pub fn whole(report: &CallReport) -> Option<TimeDistribution> {
    let seen = |edge: &Option<EncodedHistogram>| edge.as_ref().and_then(|edge| durations(&edge.0)).unwrap_or_default();
    let mut times = TimeDistribution::decode(report.total.as_ref()?)?;
    (times.seen.entered, times.seen.left) = (seen(&report.entered), seen(&report.left));
    Some(times)
}

/// Neighbouring trials together until each pool reaches the percentile; a rest that does not goes to the last.
/// `None` where all trials together do not reach it.
pub fn pools(share: f64, trials: &[TimeDistribution]) -> Option<Vec<TimeDistribution>> {
    let mut pools: Vec<TimeDistribution> = Vec::new();
    let mut open = TimeDistribution::default();
    for trial in trials {
        open.add(trial);
        if open.reaches(share) {
            pools.push(std::mem::take(&mut open));
        }
    }
    pools.last_mut()?.add(&open);
    Some(pools)
}

// Reads recorded durations: an HdrHistogram V2 as base64, as clients store the times of their calls.

/// The durations of a histogram; `None` if it is damaged.
pub fn durations(encoded: &str) -> Option<Durations> {
    let bytes = BASE64.decode(encoded).ok()?;
    let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).ok()?;
    Some(histogram.iter_recorded().map(|step| (step.value_iterated_to(), step.count_at_value())).collect())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    use super::*;

    fn encoded(values: &[u64]) -> EncodedHistogram {
        let mut histogram: Histogram<u64> = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        EncodedHistogram(BASE64.encode(bytes))
    }

    fn times(values: impl IntoIterator<Item = u64>) -> TimeDistribution {
        TimeDistribution::decode(&encoded(&values.into_iter().collect::<Vec<_>>())).unwrap()
    }

    #[test]
    fn slow_calls_are_counted_and_weighed() {
        let (slow, share, time_share) = times([1, 1, 8]).at_least(8).unwrap();
        assert_eq!((slow, share, time_share), (1, 1.0 / 3.0, 0.8));
        assert_eq!(TimeDistribution::default().at_least(8), None);
    }

    #[test]
    fn the_slowest_calls_are_trimmed() {
        // 19 of 20 calls: the last one, and nothing of the others.
        let mean = times((0..19).map(|_| 100).chain([1_000_000])).mean_of_fastest(0.95);
        assert_eq!(mean, Some(100.0));
        assert_eq!(times([10, 20]).mean_of_fastest(0.99), Some(10.0), "whole calls");
        assert_eq!(
            (times([10]).mean_of_fastest(0.95), TimeDistribution::default().mean_of_fastest(0.95)),
            (None, None)
        );
    }

    #[test]
    fn damaged_histograms_are_left_out() {
        for text in ["", "HISTFAAA", "no base64!", "AAAA"] {
            assert_eq!(TimeDistribution::decode(&EncodedHistogram(text.into())), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_a_sort(mut values in prop::collection::vec(1u64..10_000_000, 1..300), share in 0.01f64..0.999) {
            let found = times(values.clone()).percentile(share).unwrap() as u64;
            values.sort_unstable();
            let at = ((share * values.len() as f64).ceil() as usize).max(1) - 1;
            // Three significant digits, rounded up.
            prop_assert!(found >= values[at] && found as f64 <= values[at] as f64 * 1.001 + 1.0);
        }

        #[test]
        fn merging_is_adding(one in prop::collection::vec(1u64..1_000_000, 1..100), two in prop::collection::vec(1u64..1_000_000, 1..100)) {
            let mut merged = times(one.clone());
            merged.add(&times(two.clone()));
            prop_assert_eq!(merged, times(one.into_iter().chain(two)));
        }
    }

    #[test]
    fn durations_are_read_back() {
        let mut histogram = Histogram::<u64>::new(3).unwrap();
        for (ns, count) in [(7, 2), (900, 1)] {
            histogram.record_n(ns, count).unwrap();
        }
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        assert_eq!(durations(&BASE64.encode(bytes)), Some(vec![(7, 2), (900, 1)]));
    }

    #[test]
    fn damaged_text_has_no_durations() {
        assert_eq!([durations(""), durations("?"), durations("AAAA")], [None, None, None]);
    }
}
