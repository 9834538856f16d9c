//! Tests whether the trials of each cell were measured in one go, one cell after another.
//!
//! In that case, effects of time (a CPU that warmed up, a neighbour that became idle) and effects of the options cannot
//! be separated. Uses only the order, never a result.

use std::collections::{BTreeMap, BTreeSet};

/// One measured row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// Its block; 0 if the table has none.
    pub block: u64,
    /// Index of its group.
    pub group: usize,
    /// Index of its cell.
    pub cell: usize,
}

/// Groups of several cells in which no cell was measured again later. Rows of a block are taken in the order of the
/// table.
pub(super) fn in_one_go(mut visits: Vec<Visit>) -> BTreeSet<usize> {
    visits.sort_by_key(|visit| visit.block);
    let mut orders: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for visit in visits {
        orders.entry(visit.group).or_default().push(visit.cell);
    }
    let serial = |order: &mut Vec<usize>| {
        order.dedup();
        let cells: BTreeSet<usize> = order.iter().copied().collect();
        cells.len() > 1 && cells.len() == order.len()
    };
    orders.into_iter().filter_map(|(group, mut order)| serial(&mut order).then_some(group)).collect()
}

/// The warning for such groups.
pub(super) fn note(groups: &[String]) -> String {
    format!(
        "{}: each option was measured in one go, in the order of the table: a drift of the machine \
         cannot be separated from the choice",
        groups.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of one group, in the order of the table.
    fn check(rows: &[(u64, usize)], expected: bool) {
        let visit = |&(block, cell): &(u64, usize)| Visit { block, group: 3, cell };
        let found = in_one_go(rows.iter().map(visit).collect());
        assert_eq!(found.contains(&3), expected, "{rows:?}");
    }

    #[test]
    fn repeated_cells_separate_drift_from_effects() {
        check(&[(0, 1), (0, 2), (0, 3)], true);
        check(&[(0, 1), (0, 1), (0, 2), (0, 2)], true);
        check(&[(0, 1), (0, 2), (0, 1), (0, 2)], false);
        // Sorted by cell, but the blocks show another order of measurement.
        check(&[(0, 1), (1, 1), (0, 2), (1, 2)], false);
    }

    #[test]
    fn a_single_cell_is_not_compared() {
        check(&[(0, 1), (0, 1)], false);
    }
}
