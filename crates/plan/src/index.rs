//! Facts about the groups of a plan, gathered in one walk over its cells. Borrows nothing, so that the plan may change meanwhile.

use std::collections::{HashMap, HashSet};

use bytegauge_model::{CellId, GroupId, Spec, Workload};

use crate::plan::Plan;

/// A plan by its groups.
pub(crate) struct Index(HashMap<GroupId, GroupFacts>);

/// Facts about a group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupFacts {
    /// Its position in the plan's groups.
    at: usize,
    /// Whether any of its cells can be measured.
    is_live: bool,
    /// The first length of trials that its measurable cells state, nanoseconds.
    pub(crate) duration_ns: Option<u64>,
    /// Artefacts that are measured with it.
    pub(crate) artefacts: u64,
}

/// The levels of a group that the plan does not have.
static NO_LEVELS: Spec = Spec::of(Workload::Stream);

impl Index {
    pub(crate) fn of(plan: &Plan) -> Index {
        let skipped: HashSet<&CellId> = plan.skipped.iter().map(|(id, _)| id).collect();
        let facts = |(at, group): (usize, &bytegauge_model::Group)| {
            (group.id.clone(), GroupFacts { at, ..GroupFacts::default() })
        };
        let mut groups: HashMap<GroupId, GroupFacts> = plan.groups.iter().enumerate().map(facts).collect();
        for cell in plan.cells.iter().filter(|cell| !skipped.contains(&cell.id)) {
            if let Some(group) = groups.get_mut(&cell.group) {
                group.is_live = true;
                group.duration_ns = group.duration_ns.or_else(|| cell.factors.duration());
            }
        }
        for artefact in &plan.artefacts {
            if let Some(group) = groups.get_mut(&artefact.group) {
                group.artefacts += 1;
            }
        }
        Index(groups)
    }

    /// The facts about a group.
    pub(crate) fn get(&self, group: &GroupId) -> GroupFacts {
        self.0.get(group).copied().unwrap_or_default()
    }

    /// The conditions of a group.
    pub(crate) fn conditions<'a>(&self, plan: &'a Plan, group: &GroupId) -> &'a Spec {
        let found = self.0.get(group).and_then(|facts| plan.groups.get(facts.at));
        found.map_or(&NO_LEVELS, |group| &group.factors)
    }

    /// Whether any of its cells can be measured.
    pub(crate) fn is_live(&self, group: &GroupId) -> bool {
        self.get(group).is_live
    }
}
