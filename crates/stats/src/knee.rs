//! Searches for a knee: the highest rate that is still carried, where a higher rate is harder to carry.
//!
//! Bisects between the highest carried rate and the lowest missed one. A rate counts as missed only after two misses:
//! otherwise one hiccup of the machine at a low rate would exclude all higher rates. Only the miss that would end the
//! search is repeated, so an undisturbed search needs one extra probe.
//!
//! Generic over the load and the criterion; draws no random number.

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantile::median;
    use crate::rng::{RandomStream, seeded};
    use proptest::prelude::*;

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
}
