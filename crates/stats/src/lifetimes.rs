//! How long things last of which a window cuts some: they had begun before it opened, or went on after it closed.
//!
//! The longest are cut most often, so that the ones seen whole look shorter than all. The product-limit estimator (Kaplan
//! and Meier, *Nonparametric estimation from incomplete observations*, 1958), with late entry of what had begun before,
//! lets each count for as long as it was seen. It takes for granted that how long something lasts has nothing to do with
//! when the window opens and closes.

/// Durations in any unit with how many there are of each, ascending, each once.
pub type Durations = Vec<(u64, u64)>;

/// What was seen through a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// How long those lasted that ended within it.
    pub ended: Durations,
    /// How old those were when it opened, that had begun before.
    pub entered: Durations,
    /// How old those were when it closed, that had not ended.
    pub left: Durations,
}

impl Lifetimes {
    /// Adds what was seen through another window.
    pub fn add(&mut self, other: &Lifetimes) {
        let pairs =
            [(&mut self.ended, &other.ended), (&mut self.entered, &other.entered), (&mut self.left, &other.left)];
        for (ours, theirs) in pairs {
            *ours = merged(std::mem::take(ours), theirs);
        }
    }

    /// Each duration at which something ended, ascending, with the share of all that last longer.
    pub fn lasting(&self) -> impl Iterator<Item = (u64, f64)> {
        let total = |durations: &Durations| durations.iter().map(|(_, count)| count).sum::<u64>();
        let (mut entered, mut left) = (self.entered.iter().peekable(), self.left.iter().peekable());
        // At this age, of those that were not older when the window opened.
        let mut there = (total(&self.ended) + total(&self.left)).saturating_sub(total(&self.entered));
        let mut to_end = total(&self.ended);
        let mut share = 1.0;
        self.ended.iter().map(move |&(duration, count)| {
            while let Some((_, count)) = entered.next_if(|(age, _)| *age < duration) {
                there += count;
            }
            while let Some((_, count)) = left.next_if(|(age, _)| *age < duration) {
                there = there.saturating_sub(*count);
            }
            to_end -= count;
            // Where few are young, all that are there may end at once; the older ones that are still to end did not.
            let among = there.max(count + u64::from(to_end > 0));
            share *= 1.0 - count as f64 / among as f64;
            there = there.saturating_sub(count);
            (duration, share)
        })
    }

    /// The shortest duration that a share of all does not exceed; infinite where it is longer than any that ended, `None`
    /// where none did.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        if self.ended.is_empty() {
            return None;
        }
        // Products round.
        let reached = self.lasting().find(|(_, lasting)| *lasting <= 1.0 - share + 1e-9);
        Some(reached.map_or(f64::INFINITY, |(duration, _)| duration as f64))
    }

    /// The mean, where all but a hundredth of them are known to end: the rest is taken to last as long as the longest.
    pub fn mean(&self) -> Option<f64> {
        let (mut sum, mut before, mut longest) = (0.0, 1.0, 0.0);
        for (duration, lasting) in self.lasting() {
            longest = duration as f64;
            sum += (before - lasting) * longest;
            before = lasting;
        }
        (!self.ended.is_empty() && before <= 0.01).then_some(sum + before * longest)
    }
}

fn merged(ours: Durations, theirs: &Durations) -> Durations {
    let mut all = Durations::with_capacity(ours.len().max(theirs.len()));
    let mut own = ours.into_iter().peekable();
    for &(duration, count) in theirs {
        while let Some(before) = own.next_if(|own| own.0 < duration) {
            all.push(before);
        }
        let same = own.next_if(|own| own.0 == duration).map_or(0, |own| own.1);
        all.push((duration, same + count));
    }
    all.extend(own);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_cut_is_a_plain_share() {
        let seen = Lifetimes { ended: vec![(1, 5), (2, 3), (9, 2)], ..Lifetimes::default() };
        let shares: Vec<(u64, f64)> =
            seen.lasting().map(|(at, share)| (at, (share * 1000.0).round() / 1000.0)).collect();
        assert_eq!(shares, [(1, 0.5), (2, 0.2), (9, 0.0)]);
        assert_eq!(
            (seen.percentile(0.5), seen.percentile(0.8), seen.percentile(0.81)),
            (Some(1.0), Some(2.0), Some(9.0))
        );
        assert!((seen.mean().unwrap() - 2.9).abs() < 1e-9);
        assert_eq!((Lifetimes::default().percentile(0.5), Lifetimes::default().mean()), (None, None));
    }

    #[test]
    fn what_goes_on_counts_for_as_long_as_it_was_seen() {
        // Ten quick ones, and thirty that nobody saw the end of.
        let mut seen = Lifetimes { ended: vec![(1, 10)], left: vec![(100, 30)], ..Lifetimes::default() };
        assert_eq!((seen.percentile(0.25), seen.percentile(0.26), seen.mean()), (Some(1.0), Some(f64::INFINITY), None));
        // Cut at once they tell nothing.
        seen.left = vec![(0, 30)];
        assert_eq!((seen.percentile(0.99), seen.mean()), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn what_came_late_says_nothing_of_its_youth() {
        // Two that began within it, one quick; eight that were old already.
        let seen = Lifetimes { ended: vec![(1, 1), (10, 9)], entered: vec![(5, 8)], ..Lifetimes::default() };
        assert_eq!(seen.lasting().collect::<Vec<_>>(), [(1, 0.5), (10, 0.0)]);
        // All that were young ended: of the others it is not said that they never were.
        let seen = Lifetimes { ended: vec![(1, 1), (10, 9)], entered: vec![(5, 9)], ..Lifetimes::default() };
        assert_eq!(seen.percentile(0.9), Some(10.0));
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!((twice.ended, twice.entered), (vec![(1, 2), (10, 18)], vec![(5, 18)]));
    }
}
