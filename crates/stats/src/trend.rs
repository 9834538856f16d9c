//! Tests whether a series rose or fell. Never explains why, and corrects nothing.

use crate::quantile::median;

/// The fewest values that can have a trend: three thirds of three.
const MIN: usize = 9;

/// The start and the end of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Median of the first third.
    pub first: f64,
    /// Median of the last third.
    pub last: f64,
    /// Rising pairs minus falling pairs, in standard deviations expected by chance, without its sign (Mann and
    /// Kendall's test; Kendall, *Rank Correlation Methods*, 1975). Exceeds 2.58 in one of a hundred series without a
    /// trend.
    pub z: f64,
}

/// The trend of values in time order. `None` for fewer than nine.
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    if n < MIN {
        return None;
    }
    let pairs = values.iter().enumerate().flat_map(|(at, one)| values[at + 1..].iter().map(move |other| (one, other)));
    let s: f64 = pairs
        .map(|(one, other)| {
            if other > one {
                1.0
            } else if other < one {
                -1.0
            } else {
                0.0
            }
        })
        .sum();
    let size = n as f64;
    let variance = size * (size - 1.0) * (2.0 * size + 5.0) / 18.0;
    // Minus one as continuity correction.
    let z = (s.abs() - 1.0).max(0.0) / variance.sqrt();
    Some(Trend { first: median(&values[..n / 3])?, last: median(&values[n - n / 3..])?, z })
}

/// Standard deviations beyond which a trend is significant: exceeded in one of a hundred series without a trend.
const Z_SIGNIFICANT: f64 = 2.58;
/// The smallest ratio of end and start that counts as a change.
const RATIO_LEAST: f64 = 1.25;

/// The trend of positive values in time order, if it is significant and changes them by a quarter or more.
#[must_use]
pub fn drift(values: &[f64]) -> Option<Trend> {
    let found = trend(values).filter(|trend| trend.z > Z_SIGNIFICANT)?;
    ((found.last / found.first).max(found.first / found.last) >= RATIO_LEAST).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;

    #[test]
    fn a_fall_is_found_and_noise_rarely() {
        let falling: Vec<f64> = (0..12).map(|at| 100.0 / f64::from(at + 1)).collect();
        let found = trend(&falling).unwrap();
        assert!(found.z > 2.58 && found.first > 4.0 * found.last, "{found:?}");
        assert_eq!(drift(&falling), Some(found));
        let hardly: Vec<f64> = (0..12).map(|at| 100.0 + f64::from(at)).collect();
        assert!(trend(&hardly).unwrap().z > 2.58 && drift(&hardly).is_none());
        let mut random = seeded(3, 7);
        let taken = (0..2000).filter(|_| {
            let noise: Vec<f64> = (0..20).map(|_| random.normal()).collect();
            trend(&noise).unwrap().z > 2.58
        });
        let taken = taken.count();
        // One in a hundred is expected, of 2,000.
        assert!((6..=40).contains(&taken), "{taken}");
    }

    #[test]
    fn few_values_and_equal_ones_have_no_trend() {
        assert_eq!(trend(&[1.0; 8]), None);
        assert_eq!(trend(&[1.0; 9]).unwrap().z, 0.0);
    }
}
