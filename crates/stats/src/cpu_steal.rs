//! Tests whether the hypervisor stole CPU time from some cells more than from others.
//!
//! If steal hits the cells of a block equally, it is noise. If a cell causes it (it wakes an idle CPU, or works in
//! longer bursts), it is part of what the cell costs here, and explains a difference of two cells. Under the hypothesis
//! that no cell causes it, hits may be exchanged within a block. The statistic is the sum of the squared numbers of
//! hits of the cells (Cochran's Q up to constants; Cochran 1950), compared with that of random exchanges.
//!
//! Never removes a trial: the result is descriptive.

use crate::rng::seeded;
use serde::{Deserialize, Serialize};

/// Random exchanges.
const EXCHANGES: usize = 1999;

/// How unevenly steal hit the cells of a group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Uneven {
    /// The cell that was hit most often.
    pub most: usize,
    /// Share of its trials that were hit.
    pub most_share: f64,
    /// The cell that was hit least often.
    pub least: usize,
    /// Share of its trials that were hit.
    pub least_share: f64,
    /// p-value of "steal hits all cells equally".
    pub p_value: f64,
    /// Number of blocks.
    pub blocks: usize,
}

/// Tests which trials were hit: one row per block, one column per cell. `None` for fewer than two cells, or if every
/// block was hit in all of its trials or in none: then there is no evidence about the cells.
///
/// # Panics
/// If the rows differ in length.
#[must_use]
pub fn uneven(hits: &[Vec<bool>], seed: u64) -> Option<Uneven> {
    let cells = hits.first()?.len();
    assert!(hits.iter().all(|row| row.len() == cells), "blocks differ in their number of cells");
    let sums: Vec<usize> = (0..cells).map(|cell| hits.iter().filter(|row| row[cell]).count()).collect();
    let each: Vec<usize> = hits.iter().map(|row| row.iter().filter(|hit| **hit).count()).collect();
    let informative: Vec<usize> = each.iter().copied().filter(|&count| count > 0 && count < cells).collect();
    if cells < 2 || informative.is_empty() {
        return None;
    }
    // Blocks in which every trial was hit add the same number to each cell, for any exchange.
    let full = each.iter().filter(|&&count| count == cells).count();
    let seen = square(&sums);
    let mut random = seeded(seed, 0x57ea1);
    let mut order: Vec<usize> = (0..cells).collect();
    let mut drawn = vec![0; cells];
    let mut reached = 1;
    for _ in 0..EXCHANGES {
        drawn.fill(full);
        for &count in &informative {
            for place in 0..count {
                order.swap(place, place + random.below(cells - place));
                drawn[order[place]] += 1;
            }
        }
        reached += usize::from(square(&drawn) >= seen);
    }
    let most = (0..cells).rev().max_by_key(|&cell| sums[cell])?;
    let least = (0..cells).min_by_key(|&cell| sums[cell])?;
    let share = |cell: usize| sums[cell] as f64 / hits.len() as f64;
    Some(Uneven {
        most,
        most_share: share(most),
        least,
        least_share: share(least),
        p_value: reached as f64 / (EXCHANGES + 1) as f64,
        blocks: hits.len(),
    })
}

fn square(sums: &[usize]) -> usize {
    sums.iter().map(|sum| sum * sum).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(shares: &[f64], blocks: usize, seed: u64) -> Vec<Vec<bool>> {
        let mut random = seeded(seed, 0);
        (0..blocks).map(|_| shares.iter().map(|share| random.uniform() < *share).collect()).collect()
    }

    #[test]
    fn a_cell_that_causes_steal_is_found() {
        // A measured case: 27 of 58 trials of one cell, 13 of 58 of its rival.
        let hits: Vec<Vec<bool>> = (0..58).map(|block| vec![(27..40).contains(&block), block < 27]).collect();
        let got = uneven(&hits, 1).unwrap();
        assert_eq!((got.most, got.least, got.blocks), (1, 0, 58));
        // Agrees with the sign test: 13 or fewer of 40, two-sided.
        assert!((got.p_value - 0.0385).abs() < 0.015, "{got:?}");
        assert!((got.most_share - 27.0 / 58.0).abs() < 1e-12 && (got.least_share - 13.0 / 58.0).abs() < 1e-12);
    }

    #[test]
    fn blocks_hit_equally_give_no_result() {
        assert_eq!(uneven(&[], 1), None);
        assert_eq!(uneven(&[vec![true], vec![false]], 1), None);
        assert_eq!(uneven(&[vec![true; 3], vec![false; 3]], 1), None);
    }

    #[test]
    fn completely_hit_blocks_change_nothing() {
        let few = world(&[0.2, 0.4, 0.2], 40, 2);
        let mut more = few.clone();
        more.extend(vec![vec![true; 3]; 40]);
        assert_eq!(uneven(&few, 1).unwrap().p_value, uneven(&more, 1).unwrap().p_value);
    }
}
