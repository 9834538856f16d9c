//! The highest rate at which few calls are late, over the probes of all searches together.
//!
//! A search ([`knee`](crate::knee)) judges short windows one at a time, so a pause of the machine in few of them costs it little: the
//! median search can keep a p99 of 2 ms at a rate at which 5 % of all calls take longer. Here the late calls of all probes are
//! added up. The shares are fitted so that they do not fall as the rate rises (isotonic regression, by pooling adjacent violators:
//! Barlow et al., Statistical Inference under Order Restrictions, 1972).
//!
//! Searches choose their next rate by earlier results only, never by those at that rate, so no window is left out because of its
//! result.

use bytegauge_model::{Arrivals, Probe, Slo};

/// The calls at an offered rate, of one probe or several.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RatePool {
    /// The highest offered rate.
    rate: f64,
    /// Calls that were due.
    calls: f64,
    /// Those that took longer than the limit, or had no answer.
    late: f64,
}

impl RatePool {
    fn of(probe: &Probe, slo: &Slo, arrivals: Arrivals) -> Option<RatePool> {
        let unanswered = probe.unanswered(arrivals, slo.limit_ns);
        let [calls, late] = [probe.calls, probe.late].map(|count| count as f64 + unanswered);
        (calls > 0.0).then_some(RatePool { rate: probe.offered? as f64, calls, late })
    }

    fn late_share(&self) -> f64 {
        self.late / self.calls
    }
}

/// The highest probed rate at which the objective holds over the probes of all searches together, calls per second; `None` if
/// there is none.
pub fn overall_rate<'a>(searches: impl Iterator<Item = &'a [Probe]>, slo: &Slo, arrivals: Arrivals) -> Option<f64> {
    highest_kept(searches.flatten().filter_map(|probe| RatePool::of(probe, slo, arrivals)).collect(), 1.0 - slo.share)
}

/// The highest rate at which at most `share` of the calls is late.
fn highest_kept(mut probes: Vec<RatePool>, share: f64) -> Option<f64> {
    probes.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let mut pools: Vec<RatePool> = Vec::new();
    for mut pool in probes {
        while let Some(lower) = pools.pop_if(|lower| lower.rate == pool.rate || lower.late_share() > pool.late_share())
        {
            pool.calls += lower.calls;
            pool.late += lower.late;
        }
        pools.push(pool);
    }
    // The share of an objective is rounded: 1 − 0.99 is a little more than a hundredth.
    pools.iter().rev().find(|pool| pool.late_share() <= share + 1e-9).map(|pool| pool.rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::knee::KneeSearch;
    use crate::quantile::median;
    use crate::rng::seeded;
    use proptest::prelude::*;

    fn probe(rate: f64, calls: f64, late: f64) -> RatePool {
        RatePool { rate, calls, late }
    }

    #[test]
    fn probes_count_calls_without_an_answer() {
        let slo: Slo = "p99=2ms".parse().unwrap();
        let probe = |offered, calls| Probe { offered, calls, window_ns: 1_000_000_000, ..Probe::default() };
        // 20 calls of 10,000 may be on their way, and one may be due at the end.
        let check = |calls: u64, expected| {
            let searches = [vec![probe(None, 90_000), probe(Some(10_000), calls)], vec![probe(Some(5_000), 5_000)]];
            let found = overall_rate(searches.iter().map(Vec::as_slice), &slo, Arrivals::Constant);
            assert_eq!(found, Some(expected), "{calls}");
        };
        check(9_880, 10_000.0);
        check(9_879, 5_000.0);
        assert_eq!(overall_rate([].into_iter(), &slo, Arrivals::Constant), None);
    }

    #[test]
    fn late_calls_of_several_probes_are_added_up() {
        let check = |probes: &[(f64, f64, f64)], expected: Option<f64>| {
            let probes = probes.iter().map(|(rate, calls, late)| probe(*rate, *calls, *late)).collect();
            assert_eq!(highest_kept(probes, 0.01), expected);
        };
        check(&[], None);
        check(&[(5.0, 1000.0, 10.0)], Some(5.0));
        check(&[(5.0, 1000.0, 11.0)], None);
        check(&[(9.0, 100.0, 100.0), (5.0, 100.0, 0.0)], Some(5.0));
        // One bad window of four at the same rate: 5 % of the calls there are late.
        check(&[(3.0, 900.0, 0.0), (5.0, 100.0, 0.0), (5.0, 200.0, 0.0), (5.0, 100.0, 20.0)], Some(3.0));
        // A bad window at a low rate counts for the rates above it that look better.
        check(&[(3.0, 100.0, 2.0), (5.0, 100.0, 1.0), (7.0, 100.0, 0.0)], Some(7.0));
        check(&[(3.0, 100.0, 5.0), (5.0, 100.0, 1.0), (7.0, 100.0, 0.0)], None);
    }

    proptest! {
        /// The fit at a place is the largest of the smallest means of the probes around it.
        #[test]
        fn fit_is_isotonic_regression(counts in prop::collection::vec((1u32..50, 0u32..50), 1..12)) {
            let probes: Vec<RatePool> = counts
                .iter()
                .enumerate()
                .map(|(at, (calls, late))| probe(at as f64, f64::from(*calls), f64::from(late % (calls + 1))))
                .collect();
            let mean = |from: usize, to: usize| {
                let part = &probes[from..=to];
                part.iter().map(|one| one.late).sum::<f64>() / part.iter().map(|one| one.calls).sum::<f64>()
            };
            let least = |from: usize, at: usize| (at..probes.len()).map(|to| mean(from, to)).fold(f64::MAX, f64::min);
            let fitted = |at: usize| (0..=at).map(|from| least(from, at)).fold(0.0, f64::max);
            // No mean of so few calls is this close to the share.
            let share = 0.200_001;
            let expected = (0..probes.len()).rfind(|at| fitted(*at) <= share).map(|at| at as f64);
            prop_assert_eq!(highest_kept(probes.clone(), share), expected);
        }
    }

    /// Searches on a server that is quick up to 700, while a pause falls into one of ten windows and makes `late` of its
    /// calls late: the median search, and the rate over all of them.
    fn searches_with_pauses(late: f64) -> (f64, Option<f64>) {
        let mut random = seeded(11, 0);
        let (mut all, mut knees) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let mut search = KneeSearch::below(1000.0);
            while let Some(rate) = search.next_rate() {
                let is_paused = random.uniform() < 0.1;
                let share = if rate > 700.0 {
                    0.5
                } else if is_paused {
                    late
                } else {
                    0.0
                };
                all.push(probe(rate, 100.0, 100.0 * share));
                search.record(rate, share <= 0.01);
            }
            knees.extend(search.knee());
        }
        (median(&knees).expect("most find a rate"), highest_kept(all, 0.01))
    }

    #[test]
    fn pauses_of_few_windows_count() {
        let (knee, overall) = searches_with_pauses(0.05);
        assert!(knee > 680.0 && overall.is_some_and(|rate| rate > 680.0), "0.5 % are late: {knee} {overall:?}");
        let (knee, overall) = searches_with_pauses(0.3);
        // The few probes of a low rate may all be lucky.
        assert!(knee > 680.0 && overall.is_none_or(|rate| rate < 350.0), "3 % are late: {knee} {overall:?}");
    }
}
