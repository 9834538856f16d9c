//! The modes of a cell's trials and their shares.
//!
//! A cell that runs at 4 or at 9 GB/s, depending on where the scheduler puts it, has no typical rate, and a single
//! median hides that. Modes are reported from 20 values on, where the dip test rejects a single one (p < 0.01), or where
//! a gap is wider than the values on each side of it: the dip test does not find a mode of 6 in 26 values. Modes within 2 % of each
//! other are one. The boundary is the best hard split
//! into two Laplace clusters. These use medians and mean absolute deviations, so that one outlier does not become a mode.
//!
//! Never splits off a few outliers: a mode holds at least 5 % of the trials, and at least three.

use crate::dip::{dip, p_value};
use crate::quantile::{quantile, sorted};
use serde::{Deserialize, Serialize};

/// The fewest values that are tested.
pub const MIN_VALUES: usize = 20;
/// The dip test rejects a single mode below this p.
pub const P_REJECT: f64 = 0.01;
const MIN_SHARE: f64 = 0.05;
const MIN_MEMBERS: usize = 3;
/// A mode that only a gap shows holds at least this share of the values.
const SEPARATED_SHARE: f64 = 0.15;
/// Modes are farther apart than this share.
const APART_MIN: f64 = 0.02;
/// The number of successive splits, which limits the number of modes.
const MAX_DEPTH: usize = 2;

/// One mode.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialMode {
    /// The median of its values, in their unit.
    pub centre: f64,
    /// Its share of all values, 0 to 1.
    pub share: f64,
}

/// The modes of `values` in ascending order, if there is more than one; otherwise `None`. `None` with fewer
/// than 20 values.
///
/// # Panics
/// If a value is NaN.
#[must_use]
pub fn modes(values: &[f64]) -> Option<Vec<TrialMode>> {
    let ordered = sorted(values);
    let mut found = Vec::new();
    divide(&ordered, ordered.len(), 0, &mut found);
    (found.len() > 1).then_some(found)
}

/// Splits as long as there is more than one mode.
fn divide(part: &[f64], all: usize, depth: usize, found: &mut Vec<TrialMode>) {
    let several = |cut| is_apart(part, cut) && (is_separated(part, cut) || p_value(dip(part), part.len()) < P_REJECT);
    if part.len() >= MIN_VALUES
        && depth < MAX_DEPTH
        && let Some(cut) = best_cut(part).filter(|cut| several(*cut))
    {
        divide(&part[..cut], all, depth + 1, found);
        divide(&part[cut..], all, depth + 1, found);
    } else if let Some(centre) = quantile(part, 0.5) {
        found.push(TrialMode { centre, share: part.len() as f64 / all as f64 });
    }
}

/// Whether the medians of both sides of a cut differ by more than the last digit that is printed of them.
fn is_apart(part: &[f64], cut: usize) -> bool {
    let (low, high) = part.split_at(cut);
    quantile(low, 0.5).zip(quantile(high, 0.5)).is_some_and(|(low, high)| high - low > APART_MIN * high.abs())
}

/// Whether the gap at a cut is wider than the values on each side of it, of which neither are a few outliers.
fn is_separated(part: &[f64], cut: usize) -> bool {
    let (low, high) = part.split_at(cut);
    let range = |side: &[f64]| side[side.len() - 1] - side[0];
    let minor = low.len().min(high.len()) as f64;
    minor >= SEPARATED_SHARE * part.len() as f64 && high[0] - low[cut - 1] > range(low).max(range(high))
}

/// The position at which to cut ascending values in two, by the classification likelihood of two Laplace clusters.
fn best_cut(part: &[f64]) -> Option<usize> {
    let n = part.len();
    let least = MIN_MEMBERS.max((MIN_SHARE * n as f64).ceil() as usize);
    let mut sums = vec![0.0; n + 1];
    for (i, x) in part.iter().enumerate() {
        sums[i + 1] = sums[i] + (x - part[0]);
    }
    // The floor prevents an infinite likelihood for a cluster of equal values.
    let floor = 1e-6 * (part[n - 1] - part[0]);
    let misfit = |from: usize, to: usize| {
        let members = (to - from) as f64;
        let middle = usize::midpoint(from, to);
        let upper = sums[to] - sums[middle] - (sums[middle] - sums[from]);
        let pivot = if (to - from) % 2 == 1 { part[middle] - part[0] } else { 0.0 };
        let deviation = ((upper - pivot) / members).max(floor);
        members * (deviation.ln() - (members / n as f64).ln())
    };
    let last = n.checked_sub(least)?;
    let cuts = (least..=last).map(|cut| (misfit(0, cut) + misfit(cut, n), cut));
    cuts.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cut)| cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;

    fn sample(parts: &[(usize, f64, f64)], seed: u64) -> Vec<f64> {
        let mut random = seeded(seed, 0);
        let parts = parts.iter().flat_map(|&(n, centre, spread)| std::iter::repeat_n((centre, spread), n));
        parts.map(|(centre, spread)| centre + spread * random.normal()).collect()
    }

    fn check(parts: &[(usize, f64, f64)], expected: Option<&[(f64, f64)]>) {
        let got = modes(&sample(parts, 11));
        match (&got, expected) {
            (None, None) => {}
            (Some(got), Some(expected)) if got.len() == expected.len() => {
                for (mode, (centre, share)) in got.iter().zip(expected) {
                    assert!((mode.centre - centre).abs() < 0.3, "{got:?}");
                    assert!((mode.share - share).abs() < 0.03, "{got:?}");
                }
            }
            _ => panic!("{got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn known_shapes() {
        check(&[(48, 5.0, 0.2)], None);
        check(&[(12, 4.0, 0.1), (7, 9.0, 0.1)], None);
        check(&[(20, 1.6, 0.2), (6, 4.4, 0.2)], Some(&[(1.6, 0.769), (4.4, 0.231)]));
        check(&[(24, 1.6, 0.2), (2, 4.4, 0.2)], None);
        check(&[(34, 4.0, 0.2), (14, 9.0, 0.2)], Some(&[(4.0, 0.708), (9.0, 0.292)]));
        check(&[(170, 4.0, 0.2), (30, 9.0, 0.3)], Some(&[(4.0, 0.85), (9.0, 0.15)]));
        check(&[(45, 5.0, 0.2), (3, 30.0, 5.0)], None);
        // Equal as they are printed.
        check(&[(24, 1.0, 0.0), (24, 1.01, 0.0)], None);
        check(&[(24, 1.0, 1e-4), (24, 1.03, 1e-4)], Some(&[(1.0, 0.5), (1.03, 0.5)]));
        check(&[(60, 2.0, 0.1), (60, 5.0, 0.1), (60, 9.0, 0.1)], Some(&[(2.0, 0.333), (5.0, 0.333), (9.0, 0.333)]));
    }

    #[test]
    fn one_mode_is_rarely_rejected() {
        let wrong = (0..500).filter(|&seed| modes(&sample(&[(48, 5.0, 0.5)], seed)).is_some()).count();
        assert!(wrong <= 8, "{wrong} of 500 unimodal samples were split");
        let skewed = |seed: u64| sample(&[(24, 0.0, 0.4)], seed).into_iter().map(f64::exp).collect::<Vec<_>>();
        let wrong = (0..500).filter(|&seed| modes(&skewed(seed)).is_some()).count();
        assert!(wrong <= 5, "{wrong} of 500 log-normal samples were split");
    }
}
