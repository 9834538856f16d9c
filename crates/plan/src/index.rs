//! A plan by its groups. Made once for thousands of groups, since a lookup by group would walk all cells each time.

use std::collections::{HashMap, HashSet};

use bytegauge_model::{Cell, CellId, GroupId, Spec, Workload};

use crate::plan::Plan;

/// A plan by its groups.
pub(crate) struct Index<'a> {
    pub(crate) conditions: HashMap<&'a GroupId, &'a Spec>,
    /// Those that can be measured.
    pub(crate) cells: HashMap<&'a GroupId, Vec<&'a Cell>>,
    pub(crate) artefacts: HashMap<&'a GroupId, u64>,
}

/// The levels of a group that the plan does not have.
pub(crate) static NO_LEVELS: Spec = Spec::of(Workload::Stream);

impl Index<'_> {
    pub(crate) fn of(plan: &Plan) -> Index<'_> {
        let skipped: HashSet<&CellId> = plan.skipped.iter().map(|(id, _)| id).collect();
        let conditions = plan.groups.iter().map(|group| (&group.id, &group.factors)).collect();
        let mut index = Index { conditions, cells: HashMap::new(), artefacts: HashMap::new() };
        for cell in plan.cells.iter().filter(|cell| !skipped.contains(&cell.id)) {
            index.cells.entry(&cell.group).or_default().push(cell);
        }
        for artefact in &plan.artefacts {
            *index.artefacts.entry(&artefact.group).or_default() += 1;
        }
        index
    }

    /// Whether any of its cells can be measured.
    pub(crate) fn is_live(&self, group: &GroupId) -> bool {
        self.cells.contains_key(group)
    }
}
