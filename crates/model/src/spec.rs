//! One combination of factor levels, typed: it is planned, stored, sent to the ends and reported.
//!
//! Text becomes a [`Spec`] once. Code then reads values by the methods that the rows of the table of factors declare; only
//! parsers and importers look a factor up by its name. A spec may hold the conditions of a group alone, so every factor may be
//! missing. Its stored form is a map from names to levels.

pub mod derived;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use serde::{Deserialize, Serialize};

use crate::factor::{FACTORS, Factor, FactorKey};
use crate::level::{Level, LevelKind};
use crate::value::{FactorValue, TypedLevel};
use crate::workload::Workload;

/// The level of every factor; a factor that does not apply has none.
///
/// A factor without a level is stored as `null`, unlike factors that the spec does not mention. Both mean the same, so two specs
/// that differ in this alone are equal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(from = "BTreeMap<String, Level>", into = "BTreeMap<String, Level>")]
pub struct Spec {
    workload: Option<Workload>,
    /// In the order of the table. A combination has about 30 of 90 factors, and a plan up to 100,000 combinations.
    values: Vec<(FactorKey, TypedLevel)>,
    /// Levels of columns that only an imported table has.
    pub other: BTreeMap<String, Level>,
}

/// The name under which the workload is stored next to the levels.
const WORKLOAD: &str = "workload";

impl From<BTreeMap<String, Level>> for Spec {
    fn from(by_name: BTreeMap<String, Level>) -> Spec {
        let mut spec = Spec::default();
        for (name, level) in by_name {
            match level.parsed().filter(|_| name == WORKLOAD) {
                Some(workload) => spec.workload = Some(workload),
                None if is_void(&name, &level) => {}
                None => spec.set(present_name(&name), level),
            }
        }
        spec
    }
}

impl<'a> FromIterator<(&'a str, Level)> for Spec {
    fn from_iter<I: IntoIterator<Item = (&'a str, Level)>>(pairs: I) -> Spec {
        Spec::from(pairs.into_iter().map(|(name, level)| (name.to_owned(), level)).collect::<BTreeMap<_, _>>())
    }
}

impl<const N: usize> From<[(&str, Level); N]> for Spec {
    fn from(pairs: [(&str, Level); N]) -> Spec {
        pairs.into_iter().collect()
    }
}

impl From<Spec> for BTreeMap<String, Level> {
    fn from(spec: Spec) -> BTreeMap<String, Level> {
        let mut map: BTreeMap<String, Level> = spec.iter().map(|(name, level)| (name.to_owned(), level)).collect();
        if let Some(workload) = spec.workload {
            map.insert(WORKLOAD.into(), Level::Name(workload.to_string()));
        }
        map
    }
}

/// In the order of the stored maps.
impl Ord for Spec {
    fn cmp(&self, other: &Spec) -> Ordering {
        let levels = |spec: &'_ Spec| -> Vec<(String, Level)> {
            let set = spec.iter().filter(|(_, level)| *level != Level::Absent);
            set.map(|(name, level)| (name.to_owned(), level)).collect()
        };
        (self.workload, levels(self)).cmp(&(other.workload, levels(other)))
    }
}

impl PartialOrd for Spec {
    fn partial_cmp(&self, other: &Spec) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Spec) -> bool {
        self.workload == other.workload && self.other == other.other && self.set_values().eq(other.set_values())
    }
}

impl Eq for Spec {}

impl Hash for Spec {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.workload.hash(state);
        self.other.hash(state);
        self.set_values().for_each(|value| value.hash(state));
    }
}

impl Spec {
    /// No level yet, of a workload.
    pub const fn of(workload: Workload) -> Spec {
        Spec { workload: Some(workload), values: Vec::new(), other: BTreeMap::new() }
    }

    /// The same levels, with their workload stated.
    pub fn with_workload(self, workload: Workload) -> Spec {
        Spec { workload: Some(workload), ..self }
    }

    /// The workload, where the spec states it.
    pub(crate) fn stated_workload(&self) -> Option<Workload> {
        self.workload
    }

    /// Whether this version has all its factors and names. A session with others is shown, and not continued.
    pub fn is_known(&self) -> bool {
        let has_name = |(key, value): &(FactorKey, TypedLevel)| match (value, &key.row().kind) {
            (TypedLevel::Text(name), LevelKind::Name(read)) => read(name).is_ok(),
            _ => true,
        };
        self.other.values().all(|level| *level == Level::Absent) && self.values.iter().all(has_name)
    }

    /// The value of a factor as its row's type. `None` where it is absent, and where a word is in place of a value.
    pub(crate) fn read<T: FactorValue>(&self, key: FactorKey) -> Option<T::Read<'_>> {
        T::read(self.value_of(key)?)
    }

    fn value_of(&self, key: FactorKey) -> Option<&TypedLevel> {
        self.place(key).ok().map(|at| &self.values[at].1)
    }

    fn place(&self, key: FactorKey) -> Result<usize, usize> {
        self.values.binary_search_by_key(&key, |(key, _)| *key)
    }

    fn set_values(&self) -> impl Iterator<Item = &(FactorKey, TypedLevel)> {
        self.values.iter().filter(|(_, value)| *value != TypedLevel::Absent)
    }

    /// The level of a factor.
    pub fn level(&self, key: FactorKey) -> Level {
        self.value_of(key).map_or(Level::Absent, Level::from)
    }

    /// The level of a factor, by its name: for code that walks factors, parses or imports.
    pub fn get(&self, name: &str) -> Level {
        match FactorKey::named(name) {
            Some(key) => self.level(key),
            None => self.other.get(name).cloned().unwrap_or(Level::Absent),
        }
    }

    /// Sets the value of a factor.
    pub fn put(&mut self, key: FactorKey, value: impl Into<TypedLevel>) {
        match self.place(key) {
            Ok(at) => self.values[at].1 = value.into(),
            Err(at) => self.values.insert(at, (key, value.into())),
        }
    }

    /// Sets the level of a factor. A name that the factor does not have is kept as it is, and is no value.
    pub fn set_level(&mut self, key: FactorKey, level: Level) {
        let value = match level {
            Level::Absent => TypedLevel::Absent,
            Level::Switch(on) => TypedLevel::Switch(on),
            Level::Number(number) => TypedLevel::Number(number),
            Level::Name(name) => (key.row().typed)(&name).unwrap_or_else(|| TypedLevel::Text(name.into())),
        };
        self.put(key, value);
    }

    /// The same, by the factor's name. Levels of other names are kept, too.
    pub fn set(&mut self, name: &str, level: Level) {
        match FactorKey::named(name) {
            Some(key) => self.set_level(key, level),
            None => drop(self.other.insert(name.to_owned(), level)),
        }
    }

    /// Removes a factor.
    pub fn clear(&mut self, key: FactorKey) {
        self.values.retain(|(own, _)| *own != key);
    }

    /// Names and levels in the order of the names, factors that are stated to be absent included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Level)> {
        let mut stated: BTreeMap<&str, Level> =
            self.other.iter().map(|(name, level)| (name.as_str(), level.clone())).collect();
        stated.extend(self.values.iter().map(|(key, value)| (key.row().name, Level::from(value))));
        stated.into_iter()
    }

    /// Factors and levels in the order of the factor table, the absent ones left out.
    pub fn present(&self) -> impl Iterator<Item = (&'static Factor, Level)> {
        self.set_values().map(|(key, value)| (key.row(), Level::from(value)))
    }

    /// Whether it states a level of the factor, or that it is absent.
    pub fn states(&self, name: &str) -> bool {
        FactorKey::named(name).is_some_and(|key| self.place(key).is_ok()) || self.other.contains_key(name)
    }

    /// Removes the statements that factors are absent: they are not stored any more.
    pub fn drop_absent(&mut self) {
        self.values.retain(|(_, value)| *value != TypedLevel::Absent);
        self.other.retain(|_, level| *level != Level::Absent);
    }

    /// Removes the factors that `keep` rejects, by their names.
    pub fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.values.retain(|(key, _)| keep(key.row().name));
        self.other.retain(|name, _| keep(name));
    }

    /// Sets the levels that another spec states.
    pub fn extend(&mut self, other: &Spec) {
        self.values.reserve(other.values.len());
        other.values.iter().for_each(|(key, value)| self.put(*key, value.clone()));
        self.other.extend(other.other.iter().map(|(name, level)| (name.clone(), level.clone())));
    }
}

impl FactorKey {
    /// The row of the factor.
    pub fn row(self) -> &'static Factor {
        &FACTORS[self as usize]
    }
}

// Factors that earlier versions stored under another name, or that are gone.
//
// Stores and exported tables of earlier versions are read with it. Nothing is ever written under an old name.

/// Factors as keys of stored data and headings of tables: the old name, the present one.
const OLD_NAMES: &[(&str, &str)] = &[
    ("i_am", "role"),
    ("choose", "compare"),
    ("age", "connection_age"),
    ("walk", "working_set"),
    ("fill", "writer_work"),
    ("think", "think_time"),
];

/// Factors that are gone, each with the level at which trials are as without it.
const GONE: &[(&str, &str)] =
    &[("fd_table", "shared"), ("zerocopy_receive", "auto"), ("epoll_busy_poll", "auto"), ("min_wait", "auto")];

/// Whether a stored level has no meaning now.
fn is_void(name: &str, level: &Level) -> bool {
    GONE.iter().any(|(gone, usual)| *gone == name && (*level == Level::Absent || level.name() == Some(usual)))
}

/// The present name of a factor that is stored under this name; the name itself, where it was not renamed.
fn present_name(name: &str) -> &str {
    OLD_NAMES.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod old_names_tests {
    use super::*;
    use crate::factor::find;

    #[test]
    fn old_names_lead_to_factors() {
        for (old, new) in OLD_NAMES {
            assert!(find(old).is_none() && find(new).is_some(), "{old}");
            assert_eq!(present_name(old), *new);
        }
        assert_eq!(present_name("flows"), "flows");
    }
}
