//! Estimates durations from a time window that cuts some of them: they began before it opened or ended after it closed.
//!
//! Long durations are cut most often, so the complete ones look shorter than all. The product-limit estimator (Kaplan
//! and Meier, *Nonparametric estimation from incomplete observations*, 1958), with late entry for those that began
//! before, counts each duration for the time it was observed. It assumes that durations do not depend on when the
//! window opens and closes.

/// Durations in any unit with their counts; ascending, each duration once.
pub type Durations = Vec<(u64, u64)>;

/// The observations of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lifetimes {
    /// Durations that ended within it.
    pub ended: Durations,
    /// Ages, when it opened, of those that had begun before.
    pub entered: Durations,
    /// Ages, when it closed, of those that had not ended.
    pub left: Durations,
}

impl Lifetimes {
    /// Adds the observations of another window.
    pub fn add(&mut self, other: &Lifetimes) {
        let pairs =
            [(&mut self.ended, &other.ended), (&mut self.entered, &other.entered), (&mut self.left, &other.left)];
        for (ours, theirs) in pairs {
            *ours = merged(std::mem::take(ours), theirs);
        }
    }

    /// Each duration at which something ended, ascending, with the share of all that last longer.
    pub fn survival(&self) -> impl Iterator<Item = (u64, f64)> {
        let total = |durations: &Durations| durations.iter().map(|(_, count)| count).sum::<u64>();
        let (mut entered, mut left) = (self.entered.iter().peekable(), self.left.iter().peekable());
        // The number at risk at this age: those that were not older when the window opened.
        let mut at_risk = (total(&self.ended) + total(&self.left)).saturating_sub(total(&self.entered));
        let mut to_end = total(&self.ended);
        let mut share = 1.0;
        self.ended.iter().map(move |&(duration, count)| {
            while let Some((_, count)) = entered.next_if(|(age, _)| *age < duration) {
                at_risk += count;
            }
            while let Some((_, count)) = left.next_if(|(age, _)| *age < duration) {
                at_risk = at_risk.saturating_sub(*count);
            }
            to_end -= count;
            // Where few are young, all at risk may end at once; the older ones that end later did not end at this age.
            let among = at_risk.max(count + u64::from(to_end > 0));
            share *= 1.0 - count as f64 / among as f64;
            at_risk = at_risk.saturating_sub(count);
            (duration, share)
        })
    }

    /// The shortest duration that a share of all does not exceed. Infinite if it is longer than any that ended; `None`
    /// if none ended.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        if self.ended.is_empty() {
            return None;
        }
        // Tolerates the rounding of the products.
        let reached = self.survival().find(|(_, survival)| *survival <= 1.0 - share + 1e-9);
        Some(reached.map_or(f64::INFINITY, |(duration, _)| duration as f64))
    }

    /// The mean, if at least 99 % are known to end; the rest counts as the longest duration.
    pub fn mean(&self) -> Option<f64> {
        let (mut sum, mut before, mut longest) = (0.0, 1.0, 0.0);
        for (duration, survival) in self.survival() {
            longest = duration as f64;
            sum += (before - survival) * longest;
            before = survival;
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
    fn uncut_durations_give_plain_shares() {
        let seen = Lifetimes { ended: vec![(1, 5), (2, 3), (9, 2)], ..Lifetimes::default() };
        let shares: Vec<(u64, f64)> =
            seen.survival().map(|(at, share)| (at, (share * 1000.0).round() / 1000.0)).collect();
        assert_eq!(shares, [(1, 0.5), (2, 0.2), (9, 0.0)]);
        assert_eq!(
            (seen.percentile(0.5), seen.percentile(0.8), seen.percentile(0.81)),
            (Some(1.0), Some(2.0), Some(9.0))
        );
        assert!((seen.mean().unwrap() - 2.9).abs() < 1e-9);
        assert_eq!((Lifetimes::default().percentile(0.5), Lifetimes::default().mean()), (None, None));
    }

    #[test]
    fn unfinished_durations_count_while_observed() {
        // Ten short ones, and thirty that had not ended when the window closed.
        let mut seen = Lifetimes { ended: vec![(1, 10)], left: vec![(100, 30)], ..Lifetimes::default() };
        assert_eq!((seen.percentile(0.25), seen.percentile(0.26), seen.mean()), (Some(1.0), Some(f64::INFINITY), None));
        // Ones that are cut at age 0 contribute nothing.
        seen.left = vec![(0, 30)];
        assert_eq!((seen.percentile(0.99), seen.mean()), (Some(1.0), Some(1.0)));
    }

    #[test]
    fn late_entries_do_not_count_before_entry() {
        // Two that began within the window, one of them short; eight that were already old.
        let seen = Lifetimes { ended: vec![(1, 1), (10, 9)], entered: vec![(5, 8)], ..Lifetimes::default() };
        assert_eq!(seen.survival().collect::<Vec<_>>(), [(1, 0.5), (10, 0.0)]);
        // All young ones ended, but the older ones survived that age.
        let seen = Lifetimes { ended: vec![(1, 1), (10, 9)], entered: vec![(5, 9)], ..Lifetimes::default() };
        assert_eq!(seen.percentile(0.9), Some(10.0));
        let mut twice = seen.clone();
        twice.add(&seen);
        assert_eq!((twice.ended, twice.entered), (vec![(1, 2), (10, 18)], vec![(5, 18)]));
    }
}
