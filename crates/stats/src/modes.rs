//! The modes of a cell's trials and their shares.
//!
//! A cell that runs at 4 or at 9 GB/s, depending on where the scheduler puts it, has no typical rate, and a single
//! median hides that. Modes are reported from 20 values on, where the dip test rejects a single one (p < 0.01), or where
//! a gap is wider than the values on each side of it: the dip test does not find a mode of 6 in 26 values. Modes within 2 % of each
//! other are one. The boundary is the best hard split
//! into two Laplace clusters. These use medians and mean absolute deviations, so that one outlier does not become a mode.
//!
//! Never splits off a few outliers: a mode holds at least 5 % of the trials, and at least three.

use schemars::JsonSchema;
use serde::Serialize;

use crate::quantile::{quantile, sorted};

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

/// One mode of rates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "ModeView")]
pub struct TrialMode {
    /// Its median, bytes per second.
    pub median: f64,
    /// Its share of the trials.
    pub share: f64,
}

/// The modes of `values` in ascending order, if there is more than one; otherwise `None`. `None` with fewer
/// than 20 values.
///
/// # Panics
/// If a value is NaN.
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
    } else if let Some(median) = quantile(part, 0.5) {
        found.push(TrialMode { median, share: part.len() as f64 / all as f64 });
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

// Hartigan's dip test: is one mode enough?
//
// The dip is the least possible largest distance between the empirical distribution and any
// unimodal one (J. A. and P. M. Hartigan 1985, Annals of Statistics 13). A unimodal distribution
// function is convex up to its mode and concave after it; the search narrows the interval that can
// hold the mode, between the greatest convex minorant (through the lower corners of the steps) and
// the least concave majorant (through the upper corners).
//
// Significance is measured against the uniform distribution, the least favourable unimodal one. The table can be
// reproduced with `null_dips` of the tests.
//
// Never locates the modes; [`crate::modes`] does that.

/// The dip of `values`: between 1/(2n) and 1/4, 0 for fewer than two values or when all are equal.
///
/// # Panics
/// If a value is NaN.
pub fn dip(values: &[f64]) -> f64 {
    dip_of_sorted(&sorted(values))
}

/// The chance that `n` values from a uniform distribution have at least this dip. Interpolated between the tabled 0.001
/// and 0.5; smaller chances are returned as 0.001, larger ones as 1.
pub fn p_value(dip: f64, n: usize) -> f64 {
    if n < TABLE_N[0] {
        return 1.0;
    }
    let scaled = dip * (n as f64).sqrt();
    let quantiles = null_quantiles(n);
    if scaled < quantiles[0] {
        return 1.0;
    }
    let Some(above) = quantiles.iter().position(|&q| q > scaled) else {
        return TABLE_P[TABLE_P.len() - 1];
    };
    let share = (scaled - quantiles[above - 1]) / (quantiles[above] - quantiles[above - 1]);
    let (p0, p1) = (TABLE_P[above - 1].ln(), TABLE_P[above].ln());
    (p0 + share * (p1 - p0)).exp()
}

/// Quantiles of √n·dip at the levels of `TABLE_P`; linear in ln n between the tabled n.
fn null_quantiles(n: usize) -> [f64; TABLE_P.len()] {
    let last = TABLE_N.len() - 1;
    if n >= TABLE_N[last] {
        return TABLE[last];
    }
    let above = TABLE_N.iter().position(|&tabled| tabled > n).unwrap_or(last).max(1);
    let (low, high) = (TABLE_N[above - 1] as f64, TABLE_N[above] as f64);
    let share = ((n as f64).ln() - low.ln()) / (high.ln() - low.ln());
    std::array::from_fn(|i| TABLE[above - 1][i] + share * (TABLE[above][i] - TABLE[above - 1][i]))
}

const TABLE_P: [f64; 9] = [0.5, 0.25, 0.1, 0.05, 0.025, 0.01, 0.005, 0.0025, 0.001];
const TABLE_N: [usize; 9] = [10, 20, 30, 50, 100, 200, 500, 1000, 3000];
/// √n·dip of uniform values: `null_dips(n, 200_000, 1)` (the last three rows 50,000 runs).
const TABLE: [[f64; 9]; 9] = [
    [0.3091, 0.3614, 0.4130, 0.4417, 0.4680, 0.5054, 0.5284, 0.5494, 0.5744],
    [0.3283, 0.3812, 0.4349, 0.4704, 0.5019, 0.5408, 0.5673, 0.5921, 0.6220],
    [0.3369, 0.3910, 0.4472, 0.4843, 0.5175, 0.5573, 0.5845, 0.6104, 0.6388],
    [0.3457, 0.4009, 0.4590, 0.4973, 0.5316, 0.5729, 0.6033, 0.6298, 0.6621],
    [0.3546, 0.4112, 0.4713, 0.5110, 0.5470, 0.5911, 0.6222, 0.6506, 0.6828],
    [0.3618, 0.4192, 0.4800, 0.5206, 0.5578, 0.6027, 0.6339, 0.6633, 0.7030],
    [0.3684, 0.4266, 0.4890, 0.5300, 0.5665, 0.6113, 0.6434, 0.6720, 0.7053],
    [0.3717, 0.4317, 0.4936, 0.5353, 0.5742, 0.6215, 0.6539, 0.6827, 0.7199],
    [0.3752, 0.4352, 0.4987, 0.5412, 0.5786, 0.6236, 0.6606, 0.6862, 0.7246],
];

/// The dip of ascending values.
fn dip_of_sorted(x: &[f64]) -> f64 {
    let n = x.len();
    if n < 2 || x[0] == x[n - 1] {
        return 0.0;
    }
    // All heights are in steps of 1/n; half of one step is the least possible dip.
    let mut dip: f64 = 1.0;
    let (mut low, mut high) = (0, n - 1);
    loop {
        let minorant = hull(x, low, high, Hull::Lower);
        let majorant = hull(x, low, high, Hull::Upper);
        let (widest, new_low, new_high) = widest_gap(x, &minorant, &majorant);
        if widest <= dip {
            break;
        }
        // To the left of the modal interval F must follow the convex side, to the right of it the concave one.
        let left = minorant.iter().position(|&k| k == new_low).unwrap_or(0);
        let right = majorant.iter().position(|&k| k == new_high).unwrap_or(0);
        dip = dip.max(misfit(x, &minorant[..=left], Hull::Lower)).max(misfit(x, &majorant[right..], Hull::Upper));
        if (new_low, new_high) == (low, high) {
            break;
        }
        (low, high) = (new_low, new_high);
    }
    dip / (2.0 * n as f64)
}

#[derive(Clone, Copy, PartialEq)]
enum Hull {
    /// Greatest convex minorant, through the lower corners (xᵢ, i).
    Lower,
    /// Least concave majorant, through the upper corners (xᵢ, i + 1).
    Upper,
}

/// The knots of the convex or concave hull of the points (xᵢ, i), low ≤ i ≤ high.
fn hull(x: &[f64], low: usize, high: usize, side: Hull) -> Vec<usize> {
    let mut knots: Vec<usize> = Vec::new();
    for i in low..=high {
        while let [.., a, b] = knots[..] {
            let turn = (x[b] - x[a]) * (i - a) as f64 - (x[i] - x[a]) * (b - a) as f64;
            let keeps = if side == Hull::Lower { turn > 0.0 } else { turn < 0.0 };
            if keeps {
                break;
            }
            knots.pop();
        }
        knots.push(i);
    }
    knots
}

/// The largest distance between majorant and minorant, with the knot of the minorant at or left of
/// it and the knot of the majorant at or right of it.
fn widest_gap(x: &[f64], minorant: &[usize], majorant: &[usize]) -> (f64, usize, usize) {
    let mut widest = (f64::NEG_INFINITY, minorant[0], majorant[majorant.len() - 1]);
    for (knots, other, is_lower) in [(minorant, majorant, true), (majorant, minorant, false)] {
        let mut segment = 0;
        for &knot in knots {
            while segment + 2 < other.len() && other[segment + 1] <= knot {
                segment += 1;
            }
            let (at, line) = (knot as f64, height(x, other, segment, knot));
            let gap = 1.0 + if is_lower { line - at } else { at - line };
            if gap > widest.0 {
                widest = match is_lower {
                    true => (gap, knot, other.iter().copied().find(|&k| k >= knot).unwrap_or(knot)),
                    false => (gap, other.iter().rev().copied().find(|&k| k <= knot).unwrap_or(knot), knot),
                };
            }
        }
    }
    widest
}

/// The largest distance between F and its hull over the given knots.
fn misfit(x: &[f64], knots: &[usize], side: Hull) -> f64 {
    let mut largest: f64 = 0.0;
    for segment in 0..knots.len().saturating_sub(1) {
        for i in knots[segment]..=knots[segment + 1] {
            let line = height(x, knots, segment, i);
            let gap = if side == Hull::Lower { i as f64 - line } else { line - i as f64 };
            largest = largest.max(gap + 1.0);
        }
    }
    largest
}

/// The height of a hull's segment at point `i`, in steps.
fn height(x: &[f64], knots: &[usize], segment: usize, i: usize) -> f64 {
    let a = knots[segment];
    let b = knots[(segment + 1).min(knots.len() - 1)];
    let width = x[b] - x[a];
    if width > 0.0 { a as f64 + (b - a) as f64 * (x[i] - x[a]) / width } else { i as f64 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::rng::seeded;

    use super::*;

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
                    assert!((mode.median - centre).abs() < 0.3, "{got:?}");
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

    fn check_dip(values: &[f64], expected: f64) {
        let got = dip(values);
        assert!((got - expected).abs() < 1e-9, "{values:?}: {got} is not {expected}");
    }

    #[test]
    fn known_dips() {
        check_dip(&[], 0.0);
        check_dip(&[1.0, 1.0, 1.0], 0.0);
        check_dip(&[1.0, 2.0, 3.0, 4.0], 0.125);
        check_dip(&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 0.25);
    }

    #[test]
    fn p_values_fall_as_the_dip_grows() {
        let p: Vec<f64> = (1..60).map(|i| p_value(f64::from(i) * 0.004, 48)).collect();
        assert!(p.windows(2).all(|pair| pair[0] >= pair[1]), "{p:?}");
        assert_eq!((p[0], p[58]), (1.0, 0.001));
    }

    /// The dips of `runs` samples of `n` uniform values, ascending. The table was made from these.
    fn null_dips(n: usize, runs: usize, seed: u64) -> Vec<f64> {
        let mut random = seeded(seed, n as u64);
        let mut dips: Vec<f64> =
            (0..runs).map(|_| dip(&(0..n).map(|_| random.uniform()).collect::<Vec<_>>())).collect();
        dips.sort_unstable_by(f64::total_cmp);
        dips
    }

    #[test]
    fn table_agrees_with_a_simulation() {
        let n = 50;
        let dips = null_dips(n, 4000, 2);
        let above = |p: f64| {
            let row = TABLE_N.iter().position(|&tabled| tabled == n).unwrap();
            let column = TABLE_P.iter().position(|&level| level == p).unwrap();
            let limit = TABLE[row][column] / (n as f64).sqrt();
            dips.iter().filter(|&&dip| dip > limit).count() as f64 / dips.len() as f64
        };
        assert!((above(0.1) - 0.1).abs() < 0.02 && (above(0.01) - 0.01).abs() < 0.006);
    }

    proptest! {
        #[test]
        fn dip_ignores_scale_shift_and_direction(
            values in prop::collection::vec(-1000_i32..1000, 2..60)
        ) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            let mirrored: Vec<f64> = values.iter().map(|x| 7.0 - 2.0 * x).collect();
            prop_assert!((dip(&values) - dip(&mirrored)).abs() < 1e-9);
        }

        #[test]
        fn dip_is_within_its_bounds(values in prop::collection::vec(0.0_f64..1.0, 2..80)) {
            let got = dip(&values);
            prop_assert!(got <= 0.25 && got >= 0.5 / values.len() as f64 - 1e-12);
        }
    }
}
