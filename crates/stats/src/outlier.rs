//! How far one trial may speak: at most three robust spreads from its block.
//!
//! On a shared machine a burst from outside (a neighbour, memory that the host has to find first) slows a trial
//! tenfold. It hits one cell of a block and not the next, whichever they are, so pairing cannot remove it, and a
//! few such trials decide every mean and every standard error. No outlier is dropped: it stays on its side, but
//! its deviation counts at most three spreads (winsorising; Tukey and McLaughlin 1963, Huber's M-estimators at
//! the same bound). Comparisons so speak of the typical trial, as the median rate does. What a cell's own slow
//! trials cost on top is not forgotten: [`crate::group::analyse`] proves nothing that plain means speak against.
//!
//! Never looks at which cell a trial belongs to, and never removes a trial.

use crate::quantile::median;

/// Robust spreads beyond which a deviation counts no further.
pub const SPREADS: f64 = 3.0;

/// The standard deviation of a Gaussian over the median of its absolute deviations.
const GAUSSIAN: f64 = 1.4826;

/// Rows whose deviations are limited.
#[derive(Clone, Debug, PartialEq)]
pub struct Limited {
    /// The rows, in the same order.
    pub rows: Vec<Vec<f64>>,
    /// Trials that were limited for being slow (dear), by column.
    pub slow: Vec<usize>,
    /// Trials that were limited for being fast (cheap), by column.
    pub fast: Vec<usize>,
}

/// Limits ln costs, one row a block, one column a cell: each trial's deviation from what its block and its cell
/// have in common. The spread is that of all paired differences together, so that six blocks suffice for it.
///
/// # Panics
/// If a value is NaN.
#[must_use]
pub fn limit_rows(rows: &[Vec<f64>]) -> Limited {
    let cells = rows.first().map_or(0, Vec::len);
    let mut limited = Limited { rows: rows.to_vec(), slow: vec![0; cells], fast: vec![0; cells] };
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
            limited.fast[i] += usize::from(own < -reach);
            if own.abs() > reach {
                row[i] = middles[i] + common + own.clamp(-reach, reach);
            }
        }
    }
    limited
}

/// Limits single differences, one a block, to three robust spreads around their median.
///
/// # Panics
/// If a value is NaN.
#[must_use]
pub fn limit(values: &[f64]) -> Vec<f64> {
    let Some((middle, spread)) = robust(values).filter(|(_, spread)| *spread > 0.0) else { return values.to_vec() };
    values.iter().map(|value| value.clamp(middle - SPREADS * spread, middle + SPREADS * spread)).collect()
}

/// Median, and the spread by the median absolute deviation.
fn robust(values: &[f64]) -> Option<(f64, f64)> {
    let middle = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    Some((middle, GAUSSIAN * median(&deviations)?))
}

/// Each cell is paired with so many that follow it: all with all up to twice as many cells and one. The median of some
/// thousand differences moves no more, and all pairs of 20,000 cells are 200 million in every block.
const PARTNERS: usize = 32;

/// The spread of a trial, by paired differences: each has √2 times that.
fn spread_of_pairs(rows: &[Vec<f64>], cells: usize) -> Option<f64> {
    let mut deviations = Vec::with_capacity(rows.len() * cells * PARTNERS.min(cells.saturating_sub(1)));
    for i in 0..cells {
        // Around the end: every cell has as many partners as any other, and no pair comes twice.
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
    fn few_cells_are_all_paired_and_many_have_the_spread_that_all_pairs_have() {
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
        // Of twenty thousand cells all pairs would take minutes and gigabytes.
        assert!(spread_of_pairs(&noise(6, 20_000, 5), 20_000).is_some());
    }

    #[test]
    fn a_burst_in_one_trial_counts_three_spreads() {
        let mut rows = noise(40, 5, 1);
        let honest = limit_rows(&rows);
        rows[7][2] += 2.3;
        let limited = limit_rows(&rows);
        assert_eq!(limited.slow[2], honest.slow[2] + 1);
        assert!((limited.rows[7][2] - honest.rows[7][2]).abs() < 0.7, "{:?}", limited.rows[7]);
        assert_eq!(limited.rows[8], honest.rows[8]);
    }

    #[test]
    fn a_burst_over_a_whole_block_changes_nothing() {
        let rows = noise(40, 4, 2);
        let mut moved = rows.clone();
        moved[3].iter_mut().for_each(|value| *value += 2.3);
        let (plain, burst) = (limit_rows(&rows), limit_rows(&moved));
        assert_eq!((plain.slow, plain.fast), (burst.slow, burst.fast));
    }

    #[test]
    fn little_of_gaussian_noise_is_limited() {
        let limited = limit_rows(&noise(2000, 6, 3));
        let share = (limited.slow.iter().sum::<usize>() + limited.fast.iter().sum::<usize>()) as f64 / 12_000.0;
        assert!(share < 0.01, "{share}");
    }

    #[test]
    fn what_has_no_spread_is_left_alone() {
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
