//! Cells and groups: one combination of levels, and the family within which choices are compared.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::{Engine, Transport};
use crate::emulated::EmulatedLink;
use crate::factor::{self, FACTORS, Role};
use crate::far::Direction;
use crate::level::Level;
use crate::option;
use crate::place::Place;
use crate::program::{Age, Chosen, IAm};
use crate::slo::Slo;
use crate::workload::{WORKLOADS, Workload};

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

/// The level of every factor, by name. A factor that does not apply is [`Level::Absent`].
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Level>", into = "BTreeMap<String, Level>")]
pub struct Levels {
    workload: Option<Workload>,
    /// The levels.
    pub by_name: BTreeMap<String, Level>,
}

/// The name under which the workload is written beside the levels.
const WORKLOAD: &str = "workload";

impl From<BTreeMap<String, Level>> for Levels {
    fn from(mut by_name: BTreeMap<String, Level>) -> Levels {
        let workload = by_name.get(WORKLOAD).and_then(Level::parsed);
        if workload.is_some() {
            by_name.remove(WORKLOAD);
        }
        Levels { workload, by_name }
    }
}

impl<'a> FromIterator<(&'a str, Level)> for Levels {
    fn from_iter<I: IntoIterator<Item = (&'a str, Level)>>(pairs: I) -> Levels {
        Levels::from(pairs.into_iter().map(|(name, level)| (name.to_owned(), level)).collect::<BTreeMap<_, _>>())
    }
}

impl<const N: usize> From<[(&str, Level); N]> for Levels {
    fn from(pairs: [(&str, Level); N]) -> Levels {
        pairs.into_iter().collect()
    }
}

impl From<Levels> for BTreeMap<String, Level> {
    fn from(levels: Levels) -> BTreeMap<String, Level> {
        let Levels { workload, mut by_name } = levels;
        if let Some(workload) = workload {
            by_name.insert(WORKLOAD.into(), Level::Name(workload.to_string()));
        }
        by_name
    }
}

/// What a factor is to a program; one that the product does not know is a condition.
fn role_for((i_am, chosen): (IAm, Chosen), name: &str) -> Role {
    factor::find(name).map_or(Role::Condition, |factor| option::role_of(i_am, chosen, factor))
}

impl Levels {
    /// No level yet, of a workload.
    pub const fn of(workload: Workload) -> Levels {
        Levels { workload: Some(workload), by_name: BTreeMap::new() }
    }

    /// The same levels, said to be of a workload.
    #[must_use]
    pub fn said_of(self, workload: Workload) -> Levels {
        Levels { workload: Some(workload), ..self }
    }

    /// The level of a factor; absent if it was never set.
    pub fn get(&self, name: &str) -> &Level {
        self.by_name.get(name).unwrap_or(&Level::Absent)
    }

    /// Sets a factor's level.
    pub fn set(&mut self, name: &str, level: Level) {
        self.by_name.insert(name.to_owned(), level);
    }

    /// The engine that a factor names: `engine`, `server_engine`, `client_engine`.
    pub fn engine(&self, factor: &str) -> Option<Engine> {
        self.get(factor).parsed()
    }

    /// The transport, which every cell of a path has, and none of a ring.
    pub fn transport(&self) -> Option<Transport> {
        self.get("transport").parsed()
    }

    /// The end that the program controls which is asked about.
    pub fn i_am(&self) -> IAm {
        self.get("i_am").parsed().unwrap_or_default()
    }

    /// The condition whose levels are compared.
    pub fn chosen(&self) -> Chosen {
        self.get("choose").parsed().unwrap_or_default()
    }

    /// How old a path is when it is measured; sessions that did not say measured fresh ones.
    pub fn age(&self) -> Age {
        self.get("age").parsed().unwrap_or(Age::Fresh)
    }

    /// Whether a factor is a choice among these levels, or a condition. A factor of an imported table that the product
    /// does not know is a condition: it separates groups.
    pub fn role_of(&self, name: &str) -> Role {
        role_for((self.i_am(), self.chosen()), name)
    }

    /// The levels of one role only: a group's conditions, or what is chosen within it.
    pub fn of_role(&self, role: Role) -> Levels {
        let asked = (self.i_am(), self.chosen());
        let kept = self.by_name.iter().filter(|(name, _)| role_for(asked, name) == role);
        Levels { by_name: kept.map(|(name, level)| (name.clone(), level.clone())).collect(), workload: self.workload }
    }

    /// The place of a server that is not ours, which is called instead.
    pub fn foreign(&self) -> Option<Place> {
        self.get("connect").name().filter(|name| *name != "auto").and_then(|name| name.parse().ok())
    }

    /// Whether bytes go both ways at once.
    pub fn goes_both_ways(&self) -> bool {
        self.get("direction").parsed() == Some(Direction::Both)
    }

    /// The place of the far host's agent, where one end runs, and the direction; `None` where both ends are here.
    pub fn far(&self) -> Option<(Place, Direction)> {
        let place = self.get("host").name().filter(|name| *name != "auto")?.parse().ok()?;
        Some((place, self.get("direction").parsed().unwrap_or_default()))
    }

    /// The place of the agent on whose host relays stand, where that is not this one.
    pub fn relay_host(&self) -> Option<Place> {
        self.get("relay_host").name().filter(|name| *name != "auto")?.parse().ok()
    }

    /// The emulated link between the two ends; `None` where they are joined as they are.
    pub fn emulated_link(&self) -> Option<EmulatedLink> {
        let named = |name: &str| self.get(name).name();
        Some(EmulatedLink {
            delay_ns: self.get("link_delay").number()?,
            loss: named("link_loss")?.parse().ok()?,
            rate: named("link_rate")?.parse().ok()?,
        })
    }

    /// Whether somebody who takes part is on another host, whose CPUs are none of this one's.
    pub fn spans_hosts(&self) -> bool {
        self.far().is_some() || self.relay_host().is_some()
    }

    /// The workload whose cell or group this is.
    pub fn workload(&self) -> Workload {
        self.workload.unwrap_or_else(|| self.inferred())
    }

    /// The workload of levels that do not say it, as an imported table's: the first in which all of them mean something.
    fn inferred(&self) -> Workload {
        let mean_something = |workload: &Workload| self.present().all(|(factor, _)| factor.is_in(*workload));
        WORKLOADS.iter().map(|row| row.value).find(mean_something).unwrap_or_default()
    }

    /// Whether a load below the maximum is offered. Then every choice reaches the same rate, and what is
    /// compared is the CPU time that it takes.
    pub fn offers_load(&self) -> bool {
        self.offered_rate().is_some() || self.get("think").number().is_some_and(|ns| ns > 0)
    }

    /// The load that is offered, in bytes or calls per second; `None` where it is as much as goes.
    pub fn offered_rate(&self) -> Option<u64> {
        self.get("rate").number().or_else(|| self.get("call_rate").number())
    }

    /// The latency objective whose knee is searched for.
    pub fn slo(&self) -> Option<Slo> {
        self.get("slo").parsed()
    }

    /// Names and levels in the order of the factor table, the absent ones left out.
    pub fn present(&self) -> impl Iterator<Item = (&'static factor::Factor, &Level)> {
        FACTORS.iter().map(|f| (f, self.get(f.name))).filter(|(_, level)| **level != Level::Absent)
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
    pub factors: Levels,
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
    pub factors: Levels,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workload_is_written_beside_the_levels() {
        let mut levels = Levels::of(Workload::Call);
        levels.set("depth", Level::Number(2));
        let text = serde_json::to_string(&levels).unwrap();
        assert_eq!(text, r#"{"depth":2,"workload":"call"}"#);
        let read: Levels = serde_json::from_str(&text).unwrap();
        assert_eq!((read.workload(), &read), (Workload::Call, &levels));
        assert_eq!(read.of_role(Role::Choice).workload(), Workload::Call);
    }

    #[test]
    fn the_workload_of_levels_that_do_not_say_it_is_seen_from_them() {
        let of = |text: &str| serde_json::from_str::<Levels>(text).unwrap();
        assert_eq!(of(r#"{"read_size":4096}"#).workload(), Workload::Stream);
        assert_eq!(of(r#"{"request":512}"#).workload(), Workload::Call);
        assert_eq!(of(r#"{"mode":"checked"}"#).workload(), Workload::Ring);
        assert_eq!(of(r#"{"request":512}"#).said_of(Workload::Call), of(r#"{"request":512,"workload":"call"}"#));
    }
}
