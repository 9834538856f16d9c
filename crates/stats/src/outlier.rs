//! Limits outliers: a trial's deviation counts at most three robust standard deviations.
//!
//! On a shared machine an external burst (a neighbour, memory that the host must find first) slows a trial tenfold. It
//! hits one cell of a block and not the next, at random, so pairing cannot remove it, and a few such trials would
//! dominate every mean and every standard error. No outlier is dropped. It keeps its side, but its deviation counts at
//! most three standard deviations (winsorising; Tukey and McLaughlin 1963, Huber's M-estimators at the same bound). So
//! comparisons describe the typical trial, as the median rate does. Slow trials of a cell still matter:
//! [`crate::group::analyse`] makes no claim that plain means contradict.
//!
//! Never uses the cell that a trial belongs to, and never removes a trial.

use crate::quantile::median;

/// Robust standard deviations at which a deviation is limited.
pub const SPREADS: f64 = 3.0;

/// The standard deviation of a Gaussian over its median absolute deviation.
const GAUSSIAN: f64 = 1.4826;

/// Rows whose deviations are limited.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// The rows, in the same order.
    pub rows: Vec<Vec<f64>>,
    /// Trials limited because they were slow, by column.
    pub slow: Vec<usize>,
}

/// Limits ln costs, one row per block, one column per cell: each trial's deviation from the common level of its block
/// and its cell. The spread is that of all paired differences together, so that six blocks suffice.
///
/// # Panics
/// If a value is NaN.
pub fn limit_rows(rows: &[Vec<f64>]) -> Limited {
    let cells = rows.first().map_or(0, Vec::len);
    let mut limited = Limited { rows: rows.to_vec(), slow: vec![0; cells] };
    let Some(reach) = spread_of_pairs(rows, cells).map(|spread| SPREADS * spread).filter(|reach| *reach > 0.0) else {
        return limited;
    };
    let middles: Vec<f64> = (0..cells).filter_map(|i| median(&column(rows, |row| row[i]))).collect();
    for row in &mut limited.rows {
        let deviations: Vec<f64> = row.iter().zip(&middles).map(|(value, middle)| value - middle).collect();
        let Some(common) = median(&deviations) else { continue };
        for (i, deviation) in deviations.iter().enumerate() {
            let own = deviation - common;
            limited.slow[i] += usize::from(own > reach);
            if own.abs() > reach {
                row[i] = middles[i] + common + own.clamp(-reach, reach);
            }
        }
    }
    limited
}

/// Limits single differences, one per block, to three robust standard deviations around their median.
///
/// # Panics
/// If a value is NaN.
pub fn limit(values: &[f64]) -> Vec<f64> {
    let Some((middle, spread)) = robust(values).filter(|(_, spread)| *spread > 0.0) else { return values.to_vec() };
    values.iter().map(|value| value.clamp(middle - SPREADS * spread, middle + SPREADS * spread)).collect()
}

/// The median, and the standard deviation estimated from the median absolute deviation.
fn robust(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some((middle, GAUSSIAN * median(&deviations)?))
}

/// Number of following cells with which each cell is paired; all pairs up to 65 cells. The median of some thousand
/// differences is stable, while all pairs of 20,000 cells are 200 million per block.
const PARTNERS: usize = 32;

/// The standard deviation of a trial; that of a paired difference is √2 times larger.
fn spread_of_pairs(rows: &[Vec<f64>], cells: usize) -> Option<f64> {
    let mut deviations = Vec::with_capacity(rows.len() * cells * PARTNERS.min(cells.saturating_sub(1)));
    for i in 0..cells {
        // Indices wrap around: every cell has the same number of partners, and no pair occurs twice.
        for step in 1..=PARTNERS.min(cells / 2) {
            let j = (i + step) % cells;
            if 2 * step == cells && j < i {
                continue;
            }
            let differences = column(rows, |row| row[i] - row[j]);
            let middle = median(&differences)?;
            deviations.extend(differences.iter().map(|difference| (difference - middle).abs()));
        }
    }
    Some(GAUSSIAN * median(&deviations)? / std::f64::consts::SQRT_2)
}

fn column(rows: &[Vec<f64>], read: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    rows.iter().map(|row| read(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;
    use proptest::prelude::*;

    fn noise(blocks: usize, cells: usize, seed: u64) -> Vec<Vec<f64>> {
        let mut random = seeded(seed, 0);
        (0..blocks).map(|_| (0..cells).map(|_| 0.1 * random.normal()).collect()).collect()
    }

    #[test]
    fn sampled_pairs_have_the_spread_of_all() {
        let all = |rows: &[Vec<f64>], cells: usize| {
            let mut deviations = Vec::new();
            for (i, j) in (0..cells).flat_map(|i| (i + 1..cells).map(move |j| (i, j))) {
                let differences = column(rows, |row| row[i] - row[j]);
                let middle = median(&differences).unwrap();
                deviations.extend(differences.iter().map(|difference| (difference - middle).abs()));
            }
            GAUSSIAN * median(&deviations).unwrap() / std::f64::consts::SQRT_2
        };
        for cells in [2, 3, 4, 5, 64, 65] {
            let rows = noise(7, cells, 3);
            assert_eq!(spread_of_pairs(&rows, cells), Some(all(&rows, cells)), "{cells}");
        }
        let rows = noise(7, 300, 4);
        let (some, all) = (spread_of_pairs(&rows, 300).unwrap(), all(&rows, 300));
        assert!((some / all - 1.0).abs() < 0.02, "{some} {all}");
        // For twenty thousand cells all pairs would take minutes and gigabytes.
        assert!(spread_of_pairs(&noise(6, 20_000, 5), 20_000).is_some());
    }

    #[test]
    fn a_burst_in_one_trial_counts_three_spreads() {
        let mut rows = noise(40, 5, 1);
        let unchanged = limit_rows(&rows);
        rows[7][2] += 2.3;
        let limited = limit_rows(&rows);
        assert_eq!(limited.slow[2], unchanged.slow[2] + 1);
        assert!((limited.rows[7][2] - unchanged.rows[7][2]).abs() < 0.7, "{:?}", limited.rows[7]);
        assert_eq!(limited.rows[8], unchanged.rows[8]);
    }

    #[test]
    fn a_burst_over_a_whole_block_changes_nothing() {
        let rows = noise(40, 4, 2);
        let mut moved = rows.clone();
        moved[3].iter_mut().for_each(|value| *value += 2.3);
        let (plain, burst) = (limit_rows(&rows), limit_rows(&moved));
        assert_eq!(plain.slow, burst.slow);
    }

    #[test]
    fn little_of_gaussian_noise_is_limited() {
        let limited = limit_rows(&noise(2000, 6, 3));
        let share = limited.slow.iter().sum::<usize>() as f64 / 12_000.0;
        assert!(share < 0.005, "{share}");
    }

    #[test]
    fn values_without_spread_are_unchanged() {
        assert_eq!(limit(&[1.0, 1.0, 1.0, 9.0]), [1.0, 1.0, 1.0, 9.0]);
        assert_eq!(limit_rows(&[vec![1.0], vec![5.0]]).rows, [[1.0], [5.0]]);
        assert_eq!(limit_rows(&[]).rows, Vec::<Vec<f64>>::new());
    }

    proptest! {
        #[test]
        fn order_and_sides_are_kept(values in prop::collection::vec(-10.0_f64..10.0, 1..50), shift in -5.0_f64..5.0) {
            let limited = limit(&values);
            for (a, b) in values.iter().zip(&limited) {
                for (c, d) in values.iter().zip(&limited) {
                    prop_assert!(a > c || b <= d);
                }
            }
            let moved: Vec<f64> = values.iter().map(|value| value + shift).collect();
            for (a, b) in limit(&moved).iter().zip(&limited) {
                prop_assert!((a - b - shift).abs() < 1e-9);
            }
        }
    }
}
