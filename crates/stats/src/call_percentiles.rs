//! Percentiles of calls, from the histograms that clients recorded.
//!
//! A percentile p is reported only where at least ten calls are beyond it, n(1 − p) ≥ 10, over all trials of the cell.
//! The interval is a sign interval over trials: each trial's own percentile where the trial holds ten calls beyond
//! it, else that of as many neighbouring trials together as do; an extreme of too few calls is not a percentile.
//!
//! Calls that a trial's window cut count for as long as they were observed ([`Lifetimes`](crate::lifetimes::Lifetimes)): a server that lets
//! some clients wait for longer than a trial would look quick otherwise, since it answers the others. A percentile that
//! is longer than trials observe is left out.

use bytegauge_model::{CallReport, Workload};

use crate::call_times::{TimeDistribution, pools, whole};
use crate::quantile::{MedianEstimate, sign_interval};

/// The name of a number, and its estimate, nanoseconds.
pub type NamedEstimate = (&'static str, MedianEstimate);

/// Fewer calls than this share without an observed end change no percentile below the last ones.
const OUTLASTING_MIN: f64 = 0.01;

/// The p99 of one trial of a hundred calls or more, nanoseconds: it varies much, and alike for all options of a block.
pub fn p99_of_trial(report: &CallReport) -> Option<f64> {
    p99_of_one(whole(report)?)
}

/// The same of the times between two parts of a reply.
pub fn gap_p99_of_trial(report: &CallReport) -> Option<f64> {
    p99_of_one(TimeDistribution::decode(report.gap.as_ref()?)?)
}

/// The mean of one trial, nanoseconds.
pub fn mean_of_trial(report: &CallReport) -> Option<f64> {
    whole(report)?.mean().filter(|ns| ns.is_finite())
}

/// The share of the calls that [`round_trips_per_minute`] is about.
const RESPONSIVE_SHARE: f64 = 0.95;

/// How many calls one after another would end in a minute: by the mean of the fastest 95 %, as "Responsiveness under Working
/// Conditions" (IETF draft-ietf-ippm-responsiveness-08) has it for requests on a connection of their own next to the load.
pub fn round_trips_per_minute(report: &CallReport) -> Option<f64> {
    Some(60e9 / whole(report)?.mean_of_fastest(RESPONSIVE_SHARE)?)
}

fn p99_of_one(times: TimeDistribution) -> Option<f64> {
    Some(times).filter(|times| times.reaches(0.9))?.percentile(0.99).filter(|ns| ns.is_finite())
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

/// A part with its names.
macro_rules! part {
    ($name:literal, $read:expr) => {
        CallPart {
            mean: concat!($name, "_mean_ns"),
            read: $read,
            names: [
                concat!($name, "_p50_ns"),
                concat!($name, "_p90_ns"),
                concat!($name, "_p99_ns"),
                concat!($name, "_p99_9_ns"),
                concat!($name, "_p99_99_ns"),
            ],
        }
    };
}

const PARTS: &[CallPart] = &[
    part!("total", whole),
    part!("connect", |report| TimeDistribution::decode(report.connect.as_ref()?)),
    part!("write", |report| TimeDistribution::decode(report.write.as_ref()?)),
    part!("first_byte", |report| TimeDistribution::decode(report.first_byte.as_ref()?)),
    part!("gap", |report| TimeDistribution::decode(report.gap.as_ref()?)),
    // How late the client began calls: from the time at which a call was due and its connection free, to its beginning.
    part!("late", |report| TimeDistribution::decode(report.late.as_ref()?)),
];

/// Urgent messages of a stream, from the moment when one was due until it was read.
const URGENT: &[CallPart] = &[part!("urgent", whole)];

/// The means and the percentiles with enough calls, from the clients of a cell's trials; in a stream, those of its urgent messages.
pub fn percentiles(workload: Workload, reports: &[&CallReport], level: f64) -> Vec<NamedEstimate> {
    let of_part = |part: &CallPart| {
        let trials: Vec<TimeDistribution> = reports.iter().filter_map(|report| (part.read)(report)).collect();
        let means: Vec<f64> = trials.iter().filter_map(TimeDistribution::mean).collect();
        let mean = settle(&means, level).map(|mean| (part.mean, mean));
        mean.into_iter().chain(in_order(&part.names, &trials, level)).collect::<Vec<_>>()
    };
    let parts = if workload == Workload::Stream { URGENT } else { PARTS };
    parts.iter().flat_map(of_part).collect()
}

/// The calls of all trials together: a trial with a pause of the machine counts with all of its calls, where the median of the
/// trials' percentiles ([`percentiles`]) does not tell how bad the few bad ones are.
pub fn together(reports: &[&CallReport]) -> TimeDistribution {
    let mut all = TimeDistribution::default();
    reports.iter().filter_map(|report| whole(report)).for_each(|times| all.add(&times));
    all
}

/// The p99 of calls, nanoseconds; `None` where it takes more calls, or longer trials.
pub fn p99(calls: &TimeDistribution) -> Option<f64> {
    Some(calls).filter(|calls| calls.reaches(0.99))?.percentile(0.99).filter(|ns| ns.is_finite())
}

/// Which share of the calls takes longer than its trial let be seen, from a hundredth on.
pub fn outlasting(calls: &TimeDistribution) -> Option<f64> {
    let (_, share) = calls.seen.survival().last()?;
    (share >= OUTLASTING_MIN).then_some(share)
}

/// The percentiles with enough calls, each from as many pools as it can have. A median over pools weighs them alike,
/// however many calls each holds: where clients began slowly in some trials, percentiles of different pools may be in
/// the wrong order. Then all come from the pools of the highest, in each of which they are in order, and so are their
/// medians.
fn in_order(names: &[&'static str], trials: &[TimeDistribution], level: f64) -> Vec<NamedEstimate> {
    let named = || PERCENTILES.into_iter().zip(names.iter().copied());
    let own: Vec<(f64, NamedEstimate)> =
        named().filter_map(|(share, name)| Some((share, (name, estimate(share, trials, level)?)))).collect();
    let ordered = own.windows(2).all(|pair| pair[0].1.1.median <= pair[1].1.1.median);
    let Some(highest) = own.last().map(|(share, _)| *share).filter(|_| !ordered) else {
        return own.into_iter().map(|(_, named)| named).collect();
    };
    let pools = pools(highest, trials).unwrap_or_default();
    let reached = named().filter(|(share, _)| *share <= highest);
    reached.filter_map(|(share, name)| Some((name, estimate(share, &pools, level)?))).collect()
}

fn estimate(share: f64, trials: &[TimeDistribution], level: f64) -> Option<MedianEstimate> {
    let pools = pools(share, trials)?;
    settle(&pools.iter().filter_map(|pool| pool.percentile(share)).collect::<Vec<_>>(), level)
}

/// The median of values that may be longer than what was observed; an end that is has no number.
fn settle(values: &[f64], level: f64) -> Option<MedianEstimate> {
    let found = sign_interval(values, level);
    let known = |end: Option<f64>| end.filter(|ns| ns.is_finite());
    known(found.median)?;
    Some(MedianEstimate { lower: known(found.lower), upper: known(found.upper), ..found })
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
        let phrases = |share, trials: &[TimeDistribution]| estimate(share, trials, 0.95).is_some();
        assert!(phrases(0.5, &trials(20)) && !phrases(0.5, &trials(19)));
        assert!(phrases(0.99, &trials(1000)) && !phrases(0.99, &trials(999)));
        assert!(phrases(0.999, &vec![times(1..=1000); 10]) && !phrases(0.999, &vec![times(1..=1000); 9]));
    }

    #[test]
    fn intervals_need_six_pools() {
        let trials: Vec<TimeDistribution> = (0..8).map(|n| times((1..=1000).map(|ns| ns + n))).collect();
        let p99 = estimate(0.99, &trials, 0.95).unwrap();
        assert!(p99.lower.is_some() && p99.upper.is_some());
        // Two thousand calls at a time reach the 99.5th percentile: four pools, and no interval.
        let rare = estimate(0.995, &trials, 0.95).unwrap();
        assert_eq!((rare.lower, rare.upper), (None, None));
    }

    #[test]
    fn percentiles_are_in_order() {
        // Most trials complete a few slow calls, one completes many quick ones.
        let slow = || times((0..30).map(|n| 15_000 + n));
        let trials: Vec<TimeDistribution> =
            (0..5).map(|_| slow()).chain([times((0..40_000).map(|n| 100 + n / 100))]).collect();
        let names = PARTS[0].names;
        let own = |share| estimate(share, &trials, 0.95).unwrap().median;
        assert!(own(0.5) > own(0.99), "the cause");
        let found = in_order(&names, &trials, 0.95);
        assert!(found.len() >= 3 && found.windows(2).all(|pair| pair[0].1.median <= pair[1].1.median), "{found:?}");
    }

    #[test]
    fn calls_that_outlast_a_trial_count() {
        // Half of a thousand clients are answered again and again, the others never.
        let mut trial = times(vec![1_000; 2_000]);
        trial.seen.left = vec![(900_000, 3_000)];
        let phrases = |share, trials: &[TimeDistribution]| estimate(share, trials, 0.95).map(|found| found.median);
        assert_eq!(phrases(0.3, &vec![trial.clone(); 6]), Some(Some(1_000.0)));
        assert_eq!(phrases(0.5, &vec![trial.clone(); 6]), None, "longer than what was seen");
        assert_eq!(
            phrases(0.5, &[times(vec![1_000; 2_000]), times(vec![1_000; 2_000]), trial.clone()]),
            Some(Some(1_000.0))
        );
        // Where most trials show it, it is reported without an upper end.
        let quick = || times(vec![1_000; 2_000]);
        let few = [quick(), quick(), quick(), quick(), trial.clone(), quick()];
        let found = estimate(0.5, &few, 0.95).unwrap();
        assert_eq!((found.median, found.lower.is_some(), found.upper), (Some(1_000.0), true, None));
        assert_eq!(trial.mean(), None);
    }
}
