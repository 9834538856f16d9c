//! Cells and groups: one combination of levels, and the family within which choices are compared.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// A cell's name within its session: `c17`; its twin is `c17t`, its group's harness floor `g3n`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CellId(pub String);

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

/// What a cell is in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CellKind {
    /// A combination that is measured for its own sake.
    #[default]
    Candidate,
    /// The screening leader a second time under another id: what differs between the two is noise.
    Twin,
    /// The null engine: what the harness itself costs.
    Floor,
    /// A path without the relays that are compared: what they could reach at most, never compared.
    Ceiling,
    /// A published loop that measures something else than it seems to: shown beside, never compared.
    Artefact,
}

/// One combination of factor levels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// Its name in the session.
    pub id: CellId,
    /// The group it belongs to.
    pub group: GroupId,
    /// Candidate, twin or floor.
    #[serde(default)]
    pub kind: CellKind,
    /// The cell that a twin repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub twin_of: Option<CellId>,
    /// The level of every factor.
    pub factors: Spec,
}

impl Cell {
    /// Whom a cell stands for: a twin for the cell that it repeats.
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
