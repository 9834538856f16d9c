//! A resolved plan: what is run, stored with its session, and asked by everybody. How it comes about is `resolve`'s.

use std::collections::{BTreeMap, HashSet};

use bytegauge_model::{Cell, CellId, Ends, Group, GroupId, Outcome, ProgramTask, Versus, Workload, renamed};
use serde::{Deserialize, Deserializer, Serialize};

use crate::design::{Design, Finalists};

/// Groups whose cells have the same choices, so that one set of finalists is confirmed in all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Family {
    /// All groups.
    pub groups: Vec<GroupId>,
    /// The groups in which every cell is screened; empty when all cells are confirmed.
    pub screened: Vec<GroupId>,
    /// The groups that are confirmed on the side, in fewer blocks.
    pub aside: Vec<GroupId>,
    /// How many cells are confirmed.
    pub finalists: Finalists,
    /// Combinations of choices.
    pub choices: usize,
    /// Length of a confirmation trial, nanoseconds, unless a cell's `duration` says otherwise.
    pub trial_ns: u64,
}

impl Family {
    /// Cells of a group that reach confirmation.
    pub fn confirmed(&self) -> usize {
        match self.finalists {
            Finalists::All => self.choices,
            Finalists::Cap(cap) => cap.min(self.choices),
        }
    }

    /// Whether cells are screened before some of them are confirmed.
    pub fn is_screened(&self) -> bool {
        self.confirmed() < self.choices
    }
}

/// A resolved plan: everything that will be measured, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan's name.
    pub name: String,
    /// What is said over the paths.
    #[serde(default)]
    pub workload: Workload,
    /// The user's program, where it is one that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ProgramTask>,
    /// The two that are compared with each other, where nothing else is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versus: Option<Versus>,
    /// The name under which the session is kept, to be compared with later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<String>,
    /// The words that it was asked by, so that the same can be asked again.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "present_command")]
    pub asked: Vec<String>,
    /// Seed of every random choice.
    pub seed: u64,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// Time until the first look, nanoseconds.
    pub budget_ns: u64,
    /// Confirmation blocks until the first look that were asked for, whatever they take.
    pub blocks: Option<u64>,
    /// Moments at which the session may be judged, each after twice the blocks of the one before.
    pub looks: u64,
    /// Share of the session's time in which its answer is audited; 0 for none, as in plans of an older version.
    #[serde(default)]
    pub audit: f64,
    /// Threads or processes.
    pub ends: Ends,
    /// Whether every byte is checked.
    pub verify: bool,
    /// Whether every trial is followed by a rest of its own length, for the sake of other programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gentle: bool,
    /// Groups, in the order in which they are reported.
    pub groups: Vec<Group>,
    /// Cells of all groups.
    pub cells: Vec<Cell>,
    /// What is shown beside them in confirmation and never compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artefacts: Vec<Cell>,
    /// Groups by what they have in common.
    pub families: Vec<Family>,
    /// Cells that cannot be measured here, and why.
    pub skipped: Vec<(CellId, Outcome)>,
    /// What was collapsed or refused, for the dry run and the report.
    pub notes: Vec<String>,
    /// Lengths and counts.
    pub design: Design,
    /// What a session has seen of its machine; nothing before it begins.
    #[serde(skip)]
    pub seen: SeenPace,
}

/// The words of a command, which an earlier version may have stored with options of that version.
fn present_command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Vec::deserialize(deserializer).map(renamed::command)
}

/// What goes into a forecast and only a machine can tell. What was not seen is assumed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SeenPace {
    /// What calibration took, nanoseconds, once it is over.
    pub calibrated_ns: Option<u64>,
    /// Calls per second in a group.
    pub paces: BTreeMap<GroupId, f64>,
    /// What a trial of a group costs besides its warm-up and window, nanoseconds.
    pub overheads_ns: BTreeMap<GroupId, u64>,
}

impl Plan {
    /// Says something once, however often it comes up.
    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// What a trial takes of the session's time, in times its own length: its rest counts.
    pub fn stretch(&self) -> u64 {
        1 + u64::from(self.gentle)
    }

    /// The cells of a group that can be measured.
    pub fn measurable<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Cell> {
        let skipped = |id: &CellId| self.skipped.iter().any(|(cell, _)| cell == id);
        self.cells.iter().filter(move |cell| cell.group == *group && !skipped(&cell.id))
    }

    /// What is shown beside the cells of a group.
    pub fn artefacts_of<'a>(&'a self, group: &'a GroupId) -> impl Iterator<Item = &'a Cell> {
        self.artefacts.iter().filter(move |cell| cell.group == *group)
    }

    /// A group by its name.
    pub fn group(&self, id: &GroupId) -> Option<&Group> {
        self.groups.iter().find(|group| group.id == *id)
    }

    /// The groups that see the finalists alone; the cells of all others are measured at least once.
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
