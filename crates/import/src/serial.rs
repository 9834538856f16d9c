//! Tests whether the trials of each cell were measured in one go, one cell after another.
//!
//! In that case, effects of time (a CPU that warmed up, a neighbour that became idle) and effects of the options cannot
//! be separated. Uses only the order, never a result.

use std::collections::{BTreeMap, BTreeSet};

/// One measured row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    /// Its start, Unix nanoseconds; 0 if the table has none.
    pub started_unix_ns: u64,
    /// Its block; 0 if the table has none.
    pub block: u64,
    /// Index of its group.
    pub group: usize,
    /// Index of its cell.
    pub cell: usize,
}

/// Groups of several cells in which no cell was measured again later. Rows without a time are taken in the order of the
/// table, as in published tables.
pub(super) fn in_one_go(mut visits: Vec<Visit>) -> BTreeSet<usize> {
    visits.sort_by_key(|visit| (visit.started_unix_ns, visit.block));
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
        let visit = |&(block, cell): &(u64, usize)| Visit { started_unix_ns: 0, block, group: 3, cell };
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

    #[test]
    fn the_time_decides_if_known() {
        let visit = |started_unix_ns, cell| Visit { started_unix_ns, block: 0, group: 0, cell };
        assert!(in_one_go(vec![visit(1, 0), visit(3, 0), visit(2, 1), visit(4, 1)]).is_empty());
        assert_eq!(in_one_go(vec![visit(1, 0), visit(3, 1), visit(2, 0), visit(4, 1)]), BTreeSet::from([0]));
    }
}
