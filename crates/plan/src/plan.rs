//! A resolved plan: everything that is run. It is stored with its session. Module `resolve` makes it.
//!
//! Also facts about its groups.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytegauge_model::{Cell, CellId, Cost, Ends, Group, GroupId, Outcome, ProgramTask, Spec, Versus, Workload};
use serde::{Deserialize, Serialize};

use crate::design::{Design, FINALISTS_MIN, Finalists};

/// Groups whose cells have the same choices, so that one set of finalists is confirmed in all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// All groups.
    pub groups: Vec<GroupId>,
    /// The groups in which every cell is screened; empty when all cells are confirmed.
    pub screened: Vec<GroupId>,
    /// How many cells are confirmed.
    pub finalists: Finalists,
    /// Whether the user named the options, so that all of them are confirmed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub named: bool,
    /// Combinations of options.
    pub choices: usize,
    /// Length of a confirmation trial, nanoseconds, unless a cell's `duration` sets another one.
    pub trial_ns: u64,
}

impl Family {
    /// Cells of a group that reach confirmation.
    pub fn confirmed(&self) -> usize {
        match self.finalists {
            Finalists::All | Finalists::ThatFit => self.choices,
            Finalists::Cap(cap) => cap.min(self.choices),
        }
    }

    /// The fewest of them where the time is short.
    pub fn fewest_confirmed(&self) -> usize {
        match self.finalists {
            Finalists::ThatFit => FINALISTS_MIN.min(self.choices),
            Finalists::All | Finalists::Cap(_) => self.confirmed(),
        }
    }

    /// Whether cells are screened before some of them are confirmed.
    pub fn is_screened(&self) -> bool {
        self.fewest_confirmed() < self.choices
    }
}

/// A resolved plan: everything that will be measured, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan's name.
    pub name: String,
    /// The traffic over the paths.
    #[serde(default)]
    pub workload: Workload,
    /// The user's program, in the workload tune.
    pub task: Option<ProgramTask>,
    /// The two sides of a comparison of two, in such a plan.
    pub versus: Option<Versus>,
    /// The name under which the session is kept for later comparisons.
    pub saved: Option<String>,
    /// The command line, so that the same plan can be repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// What its user wants to compare; `None` for what suits each test.
    pub objective: Option<Cost>,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Time until the first analysis, nanoseconds.
    pub budget_ns: u64,
    /// Requested confirmation blocks until the first analysis, whatever they take.
    pub blocks: Option<u64>,
    /// Number of planned analyses, each after twice the blocks of the one before.
    #[serde(alias = "looks")]
    pub analyses: u64,
    /// Share of the session's time for the long-trial check; 0 for none, as in plans of an older version.
    #[serde(default)]
    pub audit: f64,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether every byte is checked.
    pub verify: bool,
    /// Whether every trial is followed by a pause of its own length, for other programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gentle: bool,
    /// Groups, in the order in which they are reported.
    pub groups: Vec<Group>,
    /// Cells of all groups.
    pub cells: Vec<Cell>,
    /// Artefacts: measured in confirmation and shown, but never compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<Cell>,
    /// Groups by their common options.
    pub families: Vec<Family>,
    /// Cells that cannot be measured here, and why.
    pub skipped: Vec<(CellId, Outcome)>,
    /// Notes on collapsed or refused factors, for the dry run and the report.
    pub notes: Vec<String>,
    /// Lengths and counts.
    pub design: Design,
    /// The session's measurements of its machine; nothing before it begins.
    #[serde(skip)]
    pub seen: SeenPace,
}

/// Input of a forecast that only the machine can supply. Missing values are assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenPace {
    /// Time of the calibration, nanoseconds, once it is over.
    pub calibrated_ns: Option<u64>,
    /// Calls per second in a group.
    pub paces: BTreeMap<GroupId, f64>,
    /// Overhead of a trial of a group in addition to its warm-up and window, nanoseconds.
    pub overheads_ns: BTreeMap<GroupId, u64>,
}

impl Plan {
    /// Adds a note, once.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The time of a trial in the session, as a multiple of its own length: its pause counts.
    pub fn stretch(&self) -> u64 {
        1 + u64::from(self.gentle)
    }

    /// The cells of a group that can be measured.
    pub fn measurable<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Cell> {
        let skipped = |id: &CellId| self.skipped.iter().any(|(cell, _)| cell == id);
        self.cells.iter().filter(move |cell| cell.group == *group && !skipped(&cell.id))
    }

    /// The artefacts of a group.
    pub fn artefacts_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Cell> {
        self.artefacts.iter().filter(move |cell| cell.group == *group)
    }

    /// A group by its name.
    pub fn group(&self, id: &GroupId) -> Option<&Group> {
        self.groups.iter().find(|group| group.id == *id)
    }

    /// The groups that only measure the finalists; the cells of all others are measured at least once.
    pub fn seeing_finalists_alone(&self) -> HashSet<&GroupId> {
        let screening = self.families.iter().filter(|family| family.is_screened());
        screening
            .flat_map(|family| {
                let screened: HashSet<&GroupId> = family.screened.iter().collect();
                family.groups.iter().filter(move |group| !screened.contains(group))
            })
            .collect()
    }
}

// Facts about the groups of a plan, gathered in one walk over its cells. Borrows nothing, so that the plan may change meanwhile.

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
        let facts = |(at, group): (usize, &Group)| (group.id.clone(), GroupFacts { at, ..GroupFacts::default() });
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
