//! Percentiles of calls, from the histograms that clients recorded.
//!
//! A percentile p is reported only where at least ten calls are beyond it, n(1 − p) ≥ 10, over all trials of the cell.
//! The interval is a sign interval over trials: each trial's own percentile where the trial holds ten calls beyond
//! it, else that of as many neighbouring trials together as do; an extreme of too few calls is not a percentile.
//!
//! Calls that a trial's window cut count for as long as they were observed ([`Lifetimes`]): a server that lets
//! some clients wait for longer than a trial would look quick otherwise, since it answers the others. A percentile that
//! is longer than trials observe is left out.

use std::collections::BTreeMap;

use bytegauge_model::{CallReport, EncodedHistogram};
use bytegauge_stats::histogram;
use bytegauge_stats::interval::sign_interval;
use bytegauge_stats::lifetimes::{Durations, Lifetimes};

use super::counted_trials::Settled;
use super::document::Estimate;

/// Calls that must be beyond a percentile.
const BEYOND_MIN: f64 = 10.0;

/// Fewer calls than this share without an observed end change no percentile below the last ones.
const OUTLASTING_MIN: f64 = 0.01;

/// A part of a call: how it is read from a report, and the names of its percentiles.
struct CallPart {
    /// Its mean, as others publish it.
    mean: &'static str,
    read: fn(&CallReport) -> Option<TimeDistribution>,
    names: [&'static str; PERCENTILES.len()],
}

/// The percentiles, as shares.
const PERCENTILES: [f64; 5] = [0.5, 0.9, 0.99, 0.999, 0.9999];

const PARTS: &[CallPart] = &[
    CallPart {
        mean: "total_mean_ns",
        read: whole,
        names: ["total_p50_ns", "total_p90_ns", "total_p99_ns", "total_p99_9_ns", "total_p99_99_ns"],
    },
    CallPart {
        mean: "connect_mean_ns",
        read: |report| TimeDistribution::decode(report.connect.as_ref()?),
        names: ["connect_p50_ns", "connect_p90_ns", "connect_p99_ns", "connect_p99_9_ns", "connect_p99_99_ns"],
    },
    CallPart {
        mean: "write_mean_ns",
        read: |report| TimeDistribution::decode(report.write.as_ref()?),
        names: ["write_p50_ns", "write_p90_ns", "write_p99_ns", "write_p99_9_ns", "write_p99_99_ns"],
    },
    CallPart {
        mean: "first_byte_mean_ns",
        read: |report| TimeDistribution::decode(report.first_byte.as_ref()?),
        names: [
            "first_byte_p50_ns",
            "first_byte_p90_ns",
            "first_byte_p99_ns",
            "first_byte_p99_9_ns",
            "first_byte_p99_99_ns",
        ],
    },
];

/// Recorded times with how often each was, nanoseconds. Sparse: a trial holds a few hundred different ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeDistribution {
    seen: Lifetimes,
    /// Calls that were seen whole.
    calls: u64,
}

/// Reads a histogram; `None` where it is damaged.
fn durations(encoded: &EncodedHistogram) -> Option<Durations> {
    histogram::durations(&encoded.0)
}

impl TimeDistribution {
    /// Reads a histogram; `None` where it is damaged.
    pub fn decode(encoded: &EncodedHistogram) -> Option<TimeDistribution> {
        let ended = durations(encoded)?;
        Some(TimeDistribution {
            calls: ended.iter().map(|(_, count)| count).sum(),
            seen: Lifetimes { ended, ..Lifetimes::default() },
        })
    }

    /// The mean time, nanoseconds; `None` where it depends on calls whose end was not observed.
    pub fn mean(&self) -> Option<f64> {
        self.seen.mean()
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

/// The percentiles of a cell with enough calls.
pub fn estimates(settled: &Settled, level: f64) -> BTreeMap<&'static str, Estimate> {
    let reports = || settled.trials.iter().filter_map(|trial| trial.client());
    let mut all = BTreeMap::new();
    for part in PARTS {
        let trials: Vec<TimeDistribution> = reports().filter_map(part.read).collect();
        let means: Vec<f64> = trials.iter().filter_map(TimeDistribution::mean).collect();
        all.extend(settle(part.mean, &means, settled.is_confirmed(), level).map(|mean| (part.mean, mean)));
        let found = in_order(&part.names, &trials, settled.is_confirmed(), level);
        all.extend(found.into_iter().map(|estimate| (estimate.metric, estimate)));
    }
    all
}

/// Which share of the calls takes longer than its trial let be seen, from a hundredth on.
pub fn outlasting(settled: &Settled) -> Option<f64> {
    let mut all = Lifetimes::default();
    settled.trials.iter().filter_map(|trial| whole(trial.client()?)).for_each(|times| all.add(&times.seen));
    let (_, share) = all.survival().last()?;
    (share >= OUTLASTING_MIN).then_some(share)
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
fn whole(report: &CallReport) -> Option<TimeDistribution> {
    let seen = |edge: &Option<EncodedHistogram>| edge.as_ref().and_then(durations).unwrap_or_default();
    let mut times = TimeDistribution::decode(report.total.as_ref()?)?;
    (times.seen.entered, times.seen.left) = (seen(&report.entered), seen(&report.left));
    Some(times)
}

/// The percentiles with enough calls, each from as many pools as it can have. A median over pools weighs them alike,
/// however many calls each holds: where clients began slowly in some trials, percentiles of different pools may be in
/// the wrong order. Then all come from the pools of the highest, in each of which they are in order, and so are their
/// medians.
fn in_order(names: &[&'static str], trials: &[TimeDistribution], confirmed: bool, level: f64) -> Vec<Estimate> {
    let named = || PERCENTILES.into_iter().zip(names.iter().copied());
    let own: Vec<(f64, Estimate)> =
        named().filter_map(|(share, name)| Some((share, estimate(name, share, trials, confirmed, level)?))).collect();
    let ordered = own.windows(2).all(|pair| pair[0].1.median <= pair[1].1.median);
    let Some(highest) = own.last().map(|(share, _)| *share).filter(|_| !ordered) else {
        return own.into_iter().map(|(_, estimate)| estimate).collect();
    };
    let pools = pools(highest, trials).unwrap_or_default();
    named()
        .filter(|(share, _)| *share <= highest)
        .filter_map(|(share, name)| estimate(name, share, &pools, confirmed, level))
        .collect()
}

fn estimate(
    name: &'static str,
    share: f64,
    trials: &[TimeDistribution],
    confirmed: bool,
    level: f64,
) -> Option<Estimate> {
    let pools = pools(share, trials)?;
    let values: Vec<f64> = pools.iter().filter_map(|pool| pool.percentile(share)).collect();
    settle(name, &values, confirmed, level)
}

fn settle(name: &'static str, values: &[f64], confirmed: bool, level: f64) -> Option<Estimate> {
    let found = sign_interval(values, level);
    let phrases = |end: Option<f64>| end.filter(|ns| confirmed && ns.is_finite());
    Some(Estimate {
        metric: name,
        unit: "ns",
        median: Some(found.median.filter(|ns| ns.is_finite())?),
        lower: phrases(found.lower),
        upper: phrases(found.upper),
    })
}

/// Neighbouring trials together until each pool reaches the percentile; a rest that does not goes to the last.
/// `None` where all trials together do not reach it.
fn pools(share: f64, trials: &[TimeDistribution]) -> Option<Vec<TimeDistribution>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

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
    fn a_percentile_needs_ten_calls_beyond_it() {
        let trials = |calls: u64| vec![times(1..=calls)];
        let phrases = |share, trials: &[TimeDistribution]| estimate("x", share, trials, true, 0.95).is_some();
        assert!(phrases(0.5, &trials(20)) && !phrases(0.5, &trials(19)));
        assert!(phrases(0.99, &trials(1000)) && !phrases(0.99, &trials(999)));
        assert!(phrases(0.999, &vec![times(1..=1000); 10]) && !phrases(0.999, &vec![times(1..=1000); 9]));
    }

    #[test]
    fn slow_calls_are_counted_and_weighed() {
        let (slow, share, time_share) = times([1, 1, 8]).at_least(8).unwrap();
        assert_eq!((slow, share, time_share), (1, 1.0 / 3.0, 0.8));
        assert_eq!(TimeDistribution::default().at_least(8), None);
    }

    #[test]
    fn intervals_need_six_pools() {
        let trials: Vec<TimeDistribution> = (0..8).map(|n| times((1..=1000).map(|ns| ns + n))).collect();
        let p99 = estimate("x", 0.99, &trials, true, 0.95).unwrap();
        assert!(p99.lower.is_some() && p99.upper.is_some());
        // Two thousand calls at a time reach the 99.5th percentile: four pools, and no interval.
        let rare = estimate("x", 0.995, &trials, true, 0.95).unwrap();
        assert_eq!((rare.lower, rare.upper), (None, None));
        assert_eq!(estimate("x", 0.99, &trials, false, 0.95).unwrap().lower, None);
    }

    #[test]
    fn percentiles_are_in_order() {
        // Most trials complete a few slow calls, one completes many quick ones.
        let slow = || times((0..30).map(|n| 15_000 + n));
        let trials: Vec<TimeDistribution> =
            (0..5).map(|_| slow()).chain([times((0..40_000).map(|n| 100 + n / 100))]).collect();
        let names = PARTS[0].names;
        let own = |share| estimate("x", share, &trials, true, 0.95).unwrap().median;
        assert!(own(0.5) > own(0.99), "the cause");
        let found = in_order(&names, &trials, true, 0.95);
        assert!(found.len() >= 3 && found.windows(2).all(|pair| pair[0].median <= pair[1].median), "{found:?}");
    }

    #[test]
    fn calls_that_outlast_a_trial_count() {
        // Half of a thousand clients are answered again and again, the others never.
        let mut trial = times(vec![1_000; 2_000]);
        trial.seen.left = durations(&encoded(&[900_000; 3_000])).unwrap();
        let phrases =
            |share, trials: &[TimeDistribution]| estimate("x", share, trials, true, 0.95).map(|found| found.median);
        assert_eq!(phrases(0.3, &vec![trial.clone(); 6]), Some(Some(1_000.0)));
        assert_eq!(phrases(0.5, &vec![trial.clone(); 6]), None, "longer than what was seen");
        assert_eq!(
            phrases(0.5, &[times(vec![1_000; 2_000]), times(vec![1_000; 2_000]), trial.clone()]),
            Some(Some(1_000.0))
        );
        // Where most trials show it, it is reported without an upper end.
        let quick = || times(vec![1_000; 2_000]);
        let few = [quick(), quick(), quick(), quick(), trial.clone(), quick()];
        let found = estimate("x", 0.5, &few, true, 0.95).unwrap();
        assert_eq!((found.median, found.lower.is_some(), found.upper), (Some(1_000.0), true, None));
        assert_eq!(trial.mean(), None);
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
}
