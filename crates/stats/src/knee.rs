//! Searches for a knee: the highest rate that is still carried, where a higher rate is harder to carry.
//!
//! Bisects between the highest carried rate and the lowest missed one. A rate counts as missed only after two misses:
//! otherwise one hiccup of the machine at a low rate would exclude all higher rates. Only the miss that would end the
//! search is repeated, so an undisturbed search needs one extra probe.
//!
//! Generic over the load and the criterion; draws no random number.

use bytegauge_model::{Arrivals, Probe, Slo};

/// The search ends when the remaining interval is at most this share of the result: well below the margin of 5 %.
const RESOLUTION: f64 = 0.02;

/// Rates below this share of the ceiling are not searched.
const LOWEST_SHARE: f64 = 1.0 / 32.0;

/// The number of misses after which a rate counts as missed.
const MISSES: u32 = 2;

/// The most probes. A search that was disturbed too often returns the result it has.
const PROBES_MAX: u32 = 24;

/// A search in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeSearch {
    ceiling: f64,
    /// The highest rate that was carried.
    kept: Option<f64>,
    /// Missed rates above the carried one, the lowest last, with their number of misses. The first entry is the
    /// ceiling, which counts as missed until it is probed.
    missed: Vec<(f64, u32)>,
    probes: u32,
}

impl KneeSearch {
    /// Starts a search below `ceiling`, the highest possible rate.
    pub fn below(ceiling: f64) -> KneeSearch {
        KneeSearch { ceiling, kept: None, missed: vec![(ceiling, 0)], probes: 0 }
    }

    /// The next rate to probe; `None` when the search is over.
    pub fn next_rate(&self) -> Option<f64> {
        let (missed, times) = *self.missed.last()?;
        if self.probes >= PROBES_MAX || !(self.ceiling > 0.0 && self.ceiling.is_finite()) {
            return None;
        }
        let kept = self.kept.unwrap_or(0.0);
        // Without a carried rate, bisecting towards 0 never converges.
        let is_open =
            if self.kept.is_some() { missed - kept > RESOLUTION * missed } else { self.is_above_lowest(missed) };
        match is_open {
            true => Some((kept + missed) / 2.0),
            false => (times < MISSES).then_some(missed),
        }
    }

    /// Records the result of a probe at [`next_rate`](KneeSearch::next_rate).
    pub fn record(&mut self, rate: f64, kept: bool) {
        self.probes += 1;
        if kept {
            self.kept = Some(rate);
            self.missed.retain(|(missed, _)| *missed > rate);
            return;
        }
        match self.missed.last_mut() {
            Some((missed, times)) if *missed == rate => *times += 1,
            _ => self.missed.push((rate, 1)),
        }
    }

    /// The highest rate that was carried; `None` if none was.
    pub fn knee(&self) -> Option<f64> {
        self.kept
    }

    fn is_above_lowest(&self, rate: f64) -> bool {
        rate > self.ceiling * LOWEST_SHARE * 1.001
    }
}

// The highest rate at which few calls are late, over the probes of all searches together.
//
// A search ([`knee`](crate::knee)) judges short windows one at a time, so a pause of the machine in few of them costs it little: the
// median search can keep a p99 of 2 ms at a rate at which 5 % of all calls take longer. Here the late calls of all probes are
// added up. The shares are fitted so that they do not fall as the rate rises (isotonic regression, by pooling adjacent violators:
// Barlow et al., Statistical Inference under Order Restrictions, 1972).
//
// Searches choose their next rate by earlier results only, never by those at that rate, so no window is left out because of its
// result.

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
    use proptest::prelude::*;

    use crate::knee::KneeSearch;
    use crate::quantile::median;
    use crate::rng::{RandomStream, seeded};

    use super::*;

    /// Searches below `ceiling`; `keeps` decides which rates are carried.
    fn search(ceiling: f64, mut keeps: impl FnMut(f64) -> bool) -> KneeSearch {
        let mut search = KneeSearch::below(ceiling);
        while let Some(rate) = search.next_rate() {
            let kept = keeps(rate);
            search.record(rate, kept);
        }
        search
    }

    #[test]
    fn the_extremes_are_found() {
        assert_eq!(search(1000.0, |_| true).knee(), Some(1000.0));
        let none = search(1000.0, |_| false);
        assert_eq!((none.knee(), none.probes), (None, 6));
        assert_eq!(search(0.0, |_| true).knee(), None);
        assert_eq!(search(f64::NAN, |_| true).knee(), None);
    }

    #[test]
    fn a_single_miss_is_repeated() {
        let mut disturbed = 0;
        let found = search(1000.0, |rate| {
            let hiccup = rate == 500.0 && disturbed == 0;
            disturbed += u32::from(hiccup);
            rate <= 900.0 && !hiccup
        });
        assert_eq!(disturbed, 1);
        assert!((882.0..=900.0).contains(&found.knee().unwrap()), "{found:?}");
    }

    proptest! {
        #[test]
        fn a_sharp_knee_is_found_from_below(ceiling in 1.0f64..1e7, share in 0.04f64..1.0) {
            let truth = ceiling * share;
            let found = search(ceiling, |rate| rate <= truth);
            let knee = found.knee().unwrap();
            prop_assert!(knee <= truth && knee >= truth * (1.0 - RESOLUTION) - 1e-9, "{} of {}", knee, truth);
            prop_assert!(found.probes <= 15, "{} probes", found.probes);
        }

        #[test]
        fn search_ends_for_any_results(answers in prop::collection::vec(any::<bool>(), 100)) {
            let mut answers = answers.into_iter();
            let found = search(1e5, |_| answers.next().unwrap());
            prop_assert!(found.probes <= PROBES_MAX);
        }
    }

    /// Results of searches in which probes are missed at random with the given share. The knee is as wide as that of
    /// real servers: from nine carried of ten to one of ten within about 9 %.
    fn found_with_hiccups(share: f64, accepts_first_miss: bool) -> Vec<f64> {
        let mut random = seeded(7, 0);
        let keeps = |random: &mut RandomStream, rate: f64| {
            let chance = 1.0 / (1.0 + ((rate - 700.0) / 14.0).exp());
            random.uniform() < chance * (1.0 - share)
        };
        let one = |random: &mut RandomStream| {
            let mut search = KneeSearch::below(1000.0);
            while let Some(rate) = search.next_rate() {
                let kept = keeps(random, rate);
                search.record(rate, kept);
                if accepts_first_miss && !kept {
                    search.record(rate, false);
                }
            }
            search.knee().unwrap_or(0.0)
        };
        (0..4000).map(|_| one(&mut random)).collect()
    }

    fn far_off(found: &[f64]) -> f64 {
        found.iter().filter(|knee| **knee < 630.0).count() as f64 / found.len() as f64
    }

    #[test]
    fn the_median_search_is_right() {
        for share in [0.0, 0.05, 0.1] {
            let middle = median(&found_with_hiccups(share, false)).unwrap();
            assert!((680.0..=715.0).contains(&middle), "{middle} with {share} missed at random");
        }
    }

    #[test]
    fn hiccups_do_not_exclude_higher_rates() {
        let (twice, once) = (found_with_hiccups(0.05, false), found_with_hiccups(0.05, true));
        assert!(far_off(&twice) < 0.02, "{}", far_off(&twice));
        // The negative control: a search that accepts the first miss.
        assert!(far_off(&once) > 0.04, "{}", far_off(&once));
    }

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
