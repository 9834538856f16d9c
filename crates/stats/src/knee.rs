//! The search for a knee: the highest rate at which something that gets worse with the rate is still kept.
//!
//! Halves between the highest rate that was kept and the lowest that was lost, and believes a loss only when it has
//! seen it twice: one hiccup of the machine at a low rate would else shut off everything above it. Only the loss that
//! ends the search is looked at again, so a search that was not disturbed pays for one more probe and no other.
//! Knows nothing of what is offered or kept, and draws no random number.

/// The rates left between are at most this share of the answer: well below the margin of 5 % within which choices are
/// told apart.
const RESOLUTION: f64 = 0.02;

/// Below this share of the ceiling nothing is looked for.
const LOWEST_SHARE: f64 = 1.0 / 32.0;

/// How often a rate must be lost to be believed lost.
const LOSSES: u32 = 2;

/// More probes are not made: a search that was disturbed so often that they do not suffice says what it has.
const PROBES_MAX: u32 = 24;

/// A search in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Search {
    ceiling: f64,
    /// The highest rate that was kept.
    kept: Option<f64>,
    /// Rates that were lost, above what was kept, the lowest last, and how often; the first is the ceiling, which
    /// counts as lost until it is looked at.
    lost: Vec<(f64, u32)>,
    probes: u32,
}

impl Search {
    /// Below the highest rate that is possible at all.
    pub fn below(ceiling: f64) -> Search {
        Search { ceiling, kept: None, lost: vec![(ceiling, 0)], probes: 0 }
    }

    /// The rate to look at next; `None` when the search is over.
    pub fn next_rate(&self) -> Option<f64> {
        let (lost, times) = *self.lost.last()?;
        if self.probes >= PROBES_MAX || !(self.ceiling > 0.0 && self.ceiling.is_finite()) {
            return None;
        }
        let kept = self.kept.unwrap_or(0.0);
        // Without anything kept the halves come no closer to each other.
        let is_open = if self.kept.is_some() { lost - kept > RESOLUTION * lost } else { self.is_above_lowest(lost) };
        match is_open {
            true => Some((kept + lost) / 2.0),
            false => (times < LOSSES).then_some(lost),
        }
    }

    /// What came of a probe at [`next_rate`](Search::next_rate).
    pub fn told(&mut self, rate: f64, kept: bool) {
        self.probes += 1;
        if kept {
            self.kept = Some(rate);
            self.lost.retain(|(lost, _)| *lost > rate);
            return;
        }
        match self.lost.last_mut() {
            Some((lost, times)) if *lost == rate => *times += 1,
            _ => self.lost.push((rate, 1)),
        }
    }

    /// The highest rate that was kept; `None` if none was.
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
    use crate::rng::{Stream, seeded};
    use proptest::prelude::*;

    /// Searches below `ceiling` and hands every rate to `keeps`.
    fn search(ceiling: f64, mut keeps: impl FnMut(f64) -> bool) -> Search {
        let mut search = Search::below(ceiling);
        while let Some(rate) = search.next_rate() {
            let kept = keeps(rate);
            search.told(rate, kept);
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
    fn a_single_loss_is_not_believed() {
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
        fn it_ends_whatever_it_is_told(answers in prop::collection::vec(any::<bool>(), 100)) {
            let mut answers = answers.into_iter();
            let found = search(1e5, |_| answers.next().unwrap());
            prop_assert!(found.probes <= PROBES_MAX);
        }
    }

    /// Searches of a machine whose probes are lost at random with the given share whatever the rate, and whose knee is
    /// as wide as that of real servers: from nine kept of ten to one of ten within some 9 %.
    fn found_with_hiccups(share: f64, believes_at_once: bool) -> Vec<f64> {
        let mut random = seeded(7, 0);
        let keeps = |random: &mut Stream, rate: f64| {
            let chance = 1.0 / (1.0 + ((rate - 700.0) / 14.0).exp());
            random.uniform() < chance * (1.0 - share)
        };
        let one = |random: &mut Stream| {
            let mut search = Search::below(1000.0);
            while let Some(rate) = search.next_rate() {
                let kept = keeps(random, rate);
                search.told(rate, kept);
                if believes_at_once && !kept {
                    search.told(rate, false);
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
            assert!((680.0..=715.0).contains(&middle), "{middle} with {share} lost at random");
        }
    }

    #[test]
    fn hiccups_do_not_shut_off_what_lies_above_them() {
        let (twice, once) = (found_with_hiccups(0.05, false), found_with_hiccups(0.05, true));
        assert!(far_off(&twice) < 0.02, "{}", far_off(&twice));
        // The negative control: a search that believes the first loss.
        assert!(far_off(&once) > 0.04, "{}", far_off(&once));
    }
}
