//! Quantiles of plain numbers.
//!
//! Quantiles interpolate linearly between order statistics (type 7 of Hyndman and Fan 1996, the
//! usual default of statistical software), so that a reader can check them elsewhere.
//!
//! Panics on NaN, which has no order.

/// The middle of `values` in any order; the mean of the two middle ones when their count is even.
/// `None` when there are none. Unit: that of the values.
///
/// # Panics
/// If a value is NaN.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    assert!(values.iter().all(|x| !x.is_nan()), "NaN has no place in an order");
    let middle = values.len().checked_sub(1)? / 2;
    // Selection instead of sorting: callers pass millions of differences.
    let mut values = values.to_vec();
    let (_, below, rest) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let below = *below;
    // Interpolates like [`quantile`], so that both agree to the last bit.
    let above = if rest.len() > middle { rest.iter().copied().min_by(f64::total_cmp)? } else { below };
    Some(below + 0.5 * (above - below))
}

/// The `q`-quantile of ascending values, `q` in 0..=1. `None` when there are none. Unit: that of
/// the values.
///
/// # Panics
/// If `q` is outside 0..=1.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    assert!((0.0..=1.0).contains(&q), "a quantile must be in 0..=1, got {q}");
    let last = sorted.len().checked_sub(1)?;
    let position = q * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    if share == 0.0 {
        // The next value does not matter here, even if it is infinite.
        return Some(sorted[below]);
    }
    Some(sorted[below] + share * (sorted[above] - sorted[below]))
}

/// The values in ascending order.
///
/// # Panics
/// If a value is NaN.
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    assert!(values.iter().all(|x| !x.is_nan()), "NaN has no place in an order");
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(values: &[f64], q: f64, expected: Option<f64>) {
        assert_eq!(quantile(&sorted(values), q), expected, "{values:?} at {q}");
    }

    proptest! {
        #[test]
        fn the_median_is_the_middle_quantile(values in prop::collection::vec(-1e9..1e9f64, 0..60)) {
            prop_assert_eq!(median(&values), quantile(&sorted(&values), 0.5));
        }
    }

    #[test]
    fn quantiles_agree_with_numpy() {
        check(&[], 0.5, None);
        check(&[3.0], 0.9, Some(3.0));
        check(&[4.0, 1.0, 3.0, 2.0], 0.5, Some(2.5));
        check(&[4.0, 1.0, 3.0, 2.0], 0.25, Some(1.75));
        check(&[5.0, 1.0, 9.0], 1.0, Some(9.0));
    }

    proptest! {
        #[test]
        fn half_the_values_are_on_either_side(values in prop::collection::vec(-1e9_f64..1e9, 1..60)) {
            let middle = median(&values).unwrap();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|&&x| x <= middle).count() >= half);
            prop_assert!(values.iter().filter(|&&x| x >= middle).count() >= half);
        }

        #[test]
        fn a_higher_quantile_is_no_lower(
            values in prop::collection::vec(-1e9_f64..1e9, 1..60), a in 0.0..1.0, b in 0.0..1.0
        ) {
            let ordered = sorted(&values);
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(quantile(&ordered, low) <= quantile(&ordered, high));
        }
    }
}
