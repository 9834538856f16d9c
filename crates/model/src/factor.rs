//! The table of factors: everything that can be varied, each with one row that declares everything about it.
//!
//! `choice`: the user may set it. `condition`: the environment or the peer sets it; cells that agree in every condition form a
//! group, within which options are compared. A row states in which workloads the factor has a meaning and what its default is
//! there, its flag and help, who sets it, without which levels it has no effect, and the kernel's option that it sets. A flag with two
//! meanings (`--rate` in bytes or in calls) has two rows, distinguished by the workload.
//!
//! A row has the form `/// What it is.` `name: Type = BASE { … },`. The base has the fields that most rows of a section share. The name is
//! the key in stored data and the method of [`Spec`] that reads the value; the type is one of `value`. A row that sets an option of the
//! kernel continues with `sets socket_option("NAME", NUMBER) { … },`. Flags, plan keys, JSON keys, validation and documents walk the table.

#[macro_use]
mod load_rows;
#[macro_use]
mod engine_and_size_rows;
#[macro_use]
mod option_rows;
#[macro_use]
mod ring_rows;
pub(crate) mod row;
mod table;

use crate::end::EndRole;
use crate::named_levels::{ComparedCondition, ProgramRole};
use crate::spec::Spec;
use crate::workload::{WORKLOADS, Workload};

pub use row::{Defaults, Factor, HelpSection, Needs, Role, SECTIONS, SIZE_MAX};
pub use table::{FACTORS, FactorKey, OPTIONS};

/// The factors of a workload, in the order of the table.
pub fn of(workload: Workload) -> impl Iterator<Item = &'static Factor> {
    FACTORS.iter().filter(move |factor| factor.is_in(workload))
}

/// The factor of that name; dashes and underscores are the same.
pub fn find(name: &str) -> Option<&'static Factor> {
    FactorKey::named(&name.replace('-', "_")).map(FactorKey::row)
}

/// Every name that a level of the factor may have, with its description; empty if the levels are numbers.
pub fn listed(name: &str) -> Vec<(&'static str, &'static str)> {
    find(name).map_or_else(Vec::new, |factor| (factor.listed)())
}

/// The factors that a flag, or a key of a plan, sets in a workload: usually one. `engine` means both ends, which in
/// `call` are two factors. Empty for an unknown name.
pub fn named(workload: Workload, flag: &str) -> Vec<&'static Factor> {
    let flag = flag.replace('_', "-");
    let ends: &[&str] = match (workload, flag.as_str()) {
        (Workload::Call, "engine") => &["server-engine", "client-engine"],
        _ => &[&flag],
    };
    of(workload).filter(|factor| ends.contains(&factor.flag().as_str())).collect()
}

/// Another workload in which a flag has a meaning.
pub fn elsewhere(workload: Workload, flag: &str) -> Option<Workload> {
    let others = WORKLOADS.iter().map(|row| row.value).filter(|other| *other != workload);
    others.into_iter().find(|other| !named(*other, flag).is_empty())
}

/// The names that [`named`] accepts in a workload.
pub fn flags(workload: Workload) -> Vec<String> {
    let both_ends = (workload == Workload::Call).then(|| "engine".to_owned());
    of(workload).map(Factor::flag).chain(both_ends).collect()
}

/// The role of a factor for a program: factors of its peer are conditions, except the condition that is compared.
pub fn role_of(role: ProgramRole, chosen: ComparedCondition, factor: &Factor) -> Role {
    let is_the_peers = role != ProgramRole::Both && owner(factor).is_some_and(|owner| owner != role);
    match (is_the_peers, chosen.is(factor.name)) {
        (true, _) => Role::Condition,
        (false, true) => Role::Choice,
        (false, false) => factor.role,
    }
}

/// The end of a stream at which a factor is set, where it is one of them alone.
fn owner(factor: &Factor) -> Option<ProgramRole> {
    let ends = factor.ends(&EMPTY);
    match (ends.contains(&EndRole::Source), ends.contains(&EndRole::Sink)) {
        (true, false) => Some(ProgramRole::Writer),
        (false, true) => Some(ProgramRole::Reader),
        _ => None,
    }
}

static EMPTY: Spec = Spec::of(Workload::Stream);

impl Spec {
    /// The workload whose cell or group this is.
    pub fn workload(&self) -> Workload {
        self.stated_workload().unwrap_or_else(|| self.inferred())
    }

    /// The workload of levels that do not state it, such as those of an imported table: the first in which all of them have a
    /// meaning.
    fn inferred(&self) -> Workload {
        let is_in = |workload: &Workload| self.present().all(|(factor, _)| factor.is_in(*workload));
        WORKLOADS.iter().map(|row| row.value).find(is_in).unwrap_or_default()
    }

    /// Whether a factor, by its name, is a choice or a condition here. An unknown factor of an imported table is a condition:
    /// it separates groups.
    pub fn role_of(&self, name: &str) -> Role {
        let (role, chosen) = (self.role().unwrap_or_default(), self.compare().unwrap_or_default());
        FactorKey::named(name).map_or(Role::Condition, |key| role_of(role, chosen, key.row()))
    }

    /// The levels of one role only: a group's conditions, or its choices.
    pub fn of_role(&self, role: Role) -> Spec {
        let mut kept = self.clone();
        kept.retain(|name| self.role_of(name) == role);
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_workload_is_inferred() {
        let of = |text: &str| serde_json::from_str::<Spec>(text).unwrap();
        assert_eq!(of(r#"{"read_size":4096}"#).workload(), Workload::Stream);
        assert_eq!(of(r#"{"request":512}"#).workload(), Workload::Call);
        assert_eq!(of(r#"{"mode":"checked"}"#).workload(), Workload::Ring);
        assert_eq!(of(r#"{"request":512}"#).with_workload(Workload::Call), of(r#"{"request":512,"workload":"call"}"#));
    }

    #[test]
    fn the_table_is_sound() {
        assert!(SECTIONS.iter().enumerate().all(|(index, (section, _))| *section as usize == index));
        for (index, factor) in FACTORS.iter().enumerate() {
            assert!(FACTORS[..index].iter().all(|f| f.name != factor.name), "{} occurs twice", factor.name);
            assert!((1..=60).contains(&factor.summary.chars().count()), "{}", factor.name);
            assert!(!factor.summary.ends_with('.') && !factor.details.ends_with('.'), "{}", factor.name);
            let defaults: Vec<_> = WORKLOADS.iter().filter_map(|row| factor.default_in(row.value)).collect();
            assert!(!defaults.is_empty(), "{} is in no workload", factor.name);
            for default in defaults.into_iter().chain(factor.defaults.datagrams) {
                factor.kind.parse_list(default).unwrap_or_else(|e| panic!("{}: {e}", factor.name));
            }
        }
    }

    #[test]
    fn a_flag_means_one_thing_in_a_workload() {
        for workload in WORKLOADS.iter().map(|row| row.value) {
            for factor in of(workload) {
                let named = named(workload, &factor.flag());
                assert!(named.len() == 1 && named[0].name == factor.name, "--{} in {workload}", factor.flag());
            }
        }
        let names = |workload, flag| named(workload, flag).iter().map(|factor| factor.name).collect::<Vec<_>>();
        assert_eq!(names(Workload::Stream, "rate"), ["rate"]);
        assert_eq!(names(Workload::Call, "rate"), ["call_rate"]);
        assert_eq!(names(Workload::Call, "engine"), ["client_engine", "server_engine"]);
        assert!(names(Workload::Call, "write_size").is_empty());
    }

    #[test]
    fn an_engine_that_moves_nothing_answers_no_call() {
        let error = find("server_engine").unwrap().kind.parse("null").unwrap_err().to_string();
        assert!(error.contains("`null` does not carry the workload call"), "{error}");
    }

    #[test]
    fn profiles_set_known_conditions() {
        for profile in crate::name_tables::PROFILES {
            for (name, level) in profile.sets {
                let factor = find(name).unwrap();
                assert_eq!(factor.role, Role::Condition);
                assert!(factor.is_in(profile.workload), "{}", profile.name);
                factor.kind.parse(level).unwrap();
            }
        }
    }

    fn check_role(role: ProgramRole, factor: &str, expected: Role) {
        let factor = find(factor).unwrap();
        assert_eq!(role_of(role, ComparedCondition::None, factor), expected, "{role} {}", factor.name);
    }

    #[test]
    fn what_the_peer_decides_is_a_condition() {
        check_role(ProgramRole::Reader, "read_size", Role::Choice);
        check_role(ProgramRole::Reader, "write_size", Role::Condition);
        check_role(ProgramRole::Reader, "congestion", Role::Condition);
        check_role(ProgramRole::Reader, "rcvlowat", Role::Choice);
        check_role(ProgramRole::Writer, "write_size", Role::Choice);
        check_role(ProgramRole::Writer, "read_size", Role::Condition);
        check_role(ProgramRole::Writer, "rcvbuf", Role::Condition);
        check_role(ProgramRole::Writer, "sndbuf", Role::Choice);
        check_role(ProgramRole::Relay, "read_size", Role::Condition);
        check_role(ProgramRole::Relay, "write_size", Role::Condition);
        check_role(ProgramRole::Relay, "relay_buffer", Role::Choice);
        check_role(ProgramRole::Both, "write_size", Role::Choice);
        check_role(ProgramRole::Reader, "transport", Role::Condition);
        check_role(ProgramRole::Reader, "engine", Role::Choice);
    }
}
