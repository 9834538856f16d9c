//! Cells and groups: one combination of levels, and the set within which options are compared.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::end::stored_names;
use crate::spec::Spec;

/// A cell's name within its session: `c17`; its A/A control is `c17t`, its group's harness floor `g3n`. Trials of a cell share
/// it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CellId(pub Arc<str>);

/// A group's name within its session: `g3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GroupId(pub String);

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The kind of a cell in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// A combination that is a candidate.
    #[default]
    Candidate,
    /// The screening leader a second time under another id: differences between the two are noise.
    Twin,
    /// The null engine: the cost of the harness itself.
    Floor,
    /// A path without the relays that are compared: their upper limit, never compared.
    Ceiling,
    /// A published loop that measures something other than it seems to: shown, never compared.
    Artefact,
}

stored_names!(CellKind, CELL_KINDS {
    Candidate = "candidate", Twin = "twin", Floor = "floor", Ceiling = "ceiling", Artefact = "artefact",
});

/// One combination of factor levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name in the session.
    pub id: CellId,
    /// The group it belongs to.
    pub group: GroupId,
    /// Candidate, A/A control or floor.
    #[serde(default)]
    pub kind: CellKind,
    /// The cell that an A/A control repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<CellId>,
    /// The level of every factor.
    pub factors: Spec,
}

impl Cell {
    /// The cell that the data belongs to: for an A/A control, the cell that it repeats.
    pub fn subject(&self) -> &CellId {
        self.twin_of.as_ref().unwrap_or(&self.id)
    }
}

/// Cells that are equal in every condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its name in the session.
    pub id: GroupId,
    /// The conditions.
    pub factors: Spec,
}
