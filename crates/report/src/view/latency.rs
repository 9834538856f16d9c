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

use bytegauge_model::CallReport;
use bytegauge_stats::call_times::{TimeDistribution, pools, whole};
use bytegauge_stats::interval::sign_interval;
use bytegauge_stats::lifetimes::Lifetimes;

use super::counted_trials::Settled;
use super::document::Estimate;

/// Fewer calls than this share without an observed end change no percentile below the last ones.
const OUTLASTING_MIN: f64 = 0.01;

/// The p99 of one trial of a hundred calls or more: it varies much, and alike for all options of a block.
pub fn p99_of_trial(report: &CallReport) -> Option<f64> {
    whole(report).filter(|times| times.reaches(0.9))?.percentile(0.99).filter(|ns| ns.is_finite())
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD as BASE64;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::{Serializer, V2Serializer};

    use bytegauge_model::EncodedHistogram;

    fn times(values: impl IntoIterator<Item = u64>) -> TimeDistribution {
        let mut histogram: Histogram<u64> = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.into_iter().for_each(|value| histogram.record(value).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&histogram, &mut bytes).unwrap();
        TimeDistribution::decode(&EncodedHistogram(BASE64.encode(bytes))).unwrap()
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
        trial.seen.left = vec![(900_000, 3_000)];
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
}
