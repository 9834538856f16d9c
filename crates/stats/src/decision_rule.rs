//! The rule by which intervals become the result of a test.
//!
//! Every option has an interval of its distance from the best option, L to U, as a share of the time of the best. The margin
//! x sorts options into three states:
//!
//! - U ≤ x: certainly good enough, [`OptionState::Good`], unless something other than its cost is against it.
//! - L > x: certainly slower than the best by more than the margin, [`OptionState::Avoid`].
//! - Neither: [`OptionState::Undecided`].
//!
//! The states together make the claim, the tightest statement that holds at the confidence of the intervals. An interval needs
//! no separate allowance for noise: it contains it. Never writes a sentence.

/// A free choice may cost at most this many margins: 25 % for a margin of 5 %. A larger bound does not help to choose.
const FREE_CHOICE_MARGINS: f64 = 5.0;

/// The state of one compared option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionState {
    /// Certainly within the margin of the best.
    Good,
    /// Its interval contains the margin, or something contradicts its result.
    Undecided,
    /// Certainly slower than the best by more than the margin.
    Avoid,
}

/// The state of an option with the interval `lower` to `upper`. `doubted`: something contradicts that it is good.
pub fn state(lower: f64, upper: f64, doubted: bool, margin: f64) -> OptionState {
    if upper <= margin && !doubted {
        OptionState::Good
    } else if lower > margin {
        OptionState::Avoid
    } else {
        OptionState::Undecided
    }
}

/// The kind of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ClaimKind {
    /// Some options are good: one of them is to be used.
    Use,
    /// Each undecided option may be the best, and none is slower than the best by more than this share.
    FreeChoice(f64),
    /// Intervals are wide; it is only certain that the options to avoid are slower.
    OnlyCertain,
    /// No option is excluded, and the largest upper end is too far to help.
    Undecided,
}

/// The claim about options with these states and upper ends. `None` where every option is to avoid, which harm alone can cause.
pub fn claim(options: &[(OptionState, f64)], margin: f64) -> Option<ClaimKind> {
    let is = |state: OptionState| options.iter().filter(move |option| option.0 == state);
    if is(OptionState::Good).next().is_some() {
        return Some(ClaimKind::Use);
    }
    let apart = is(OptionState::Undecided).map(|option| option.1).reduce(f64::max)?;
    Some(match apart {
        apart if apart <= FREE_CHOICE_MARGINS * margin => ClaimKind::FreeChoice(apart),
        _ if is(OptionState::Avoid).next().is_some() => ClaimKind::OnlyCertain,
        _ => ClaimKind::Undecided,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(intervals: &[(f64, f64)], expected: Option<ClaimKind>) {
        let states: Vec<(OptionState, f64)> =
            intervals.iter().map(|&(lower, upper)| (state(lower, upper, false, 0.05), upper)).collect();
        assert_eq!(claim(&states, 0.05), expected, "{states:?}");
    }

    #[test]
    fn the_tightest_statement_is_claimed() {
        check(&[(0.3, 0.5), (0.0, 0.04)], Some(ClaimKind::Use));
        check(&[(0.3, 0.5), (0.0, 0.06), (0.01, 0.2)], Some(ClaimKind::FreeChoice(0.2)));
        check(&[(0.3, 0.5), (0.0, 0.06), (0.01, 0.3)], Some(ClaimKind::OnlyCertain));
        check(&[(0.0, 0.06), (0.01, 0.3)], Some(ClaimKind::Undecided));
        check(&[(0.3, 0.5)], None);
    }

    #[test]
    fn a_doubted_option_is_not_good() {
        assert_eq!(state(0.0, 0.01, true, 0.05), OptionState::Undecided);
        assert_eq!(state(0.06, 0.1, true, 0.05), OptionState::Avoid);
    }
}
