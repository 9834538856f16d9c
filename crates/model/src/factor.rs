//! The table of factors: everything that can be varied, with its role, its levels and its help.
//!
//! A factor is declared here and applied in `traffic`; flags, TOML keys, JSON keys, validation and the
//! documentation walk this table. `choice`: the user may set it. `condition`: the environment or the peer sets it; cells
//! that agree in every condition form a group, within which options are compared. A row states in which workloads the
//! factor has a meaning and what its default is there. A flag with two meanings (`--rate` in bytes or in calls) has two
//! rows, distinguished by the workload.
//!
//! The rows are in `conditions` and `choices`; those of options of sockets are made from [`OPTIONS`].

mod choices;
mod conditions;
pub(crate) mod defaults;
pub(crate) mod row;

use crate::factor::choices::{AFTER_OPTIONS, CHOICES};
use crate::factor::conditions::CONDITIONS;
use crate::factor::row::CHOICE;
use crate::level::Level;
use crate::option::OPTIONS;
use crate::spec::{LENSES, Spec};
use crate::workload::{WORKLOADS, Workload};

pub use defaults::Defaults;
pub use row::{Factor, Role, SIZE_MAX};

const BEFORE_OPTIONS: usize = CONDITIONS.len() + CHOICES.len();

/// Every factor, in the order in which they are printed.
pub const FACTORS: &[Factor] = &{
    let mut all = [CHOICE; BEFORE_OPTIONS + OPTIONS.len() + AFTER_OPTIONS.len()];
    let after = BEFORE_OPTIONS + OPTIONS.len();
    let mut at = 0;
    while at < all.len() {
        all[at] = match at {
            _ if at < CONDITIONS.len() => CONDITIONS[at],
            _ if at < BEFORE_OPTIONS => CHOICES[at - CONDITIONS.len()],
            _ if at < after => OPTIONS[at - BEFORE_OPTIONS].as_factor(LENSES[at]),
            _ => AFTER_OPTIONS[at - after],
        };
        at += 1;
    }
    all
};

/// The factors of a workload, in the order of the table.
pub fn of(workload: Workload) -> impl Iterator<Item = &'static Factor> {
    FACTORS.iter().filter(move |factor| factor.is_in(workload))
}

/// The factor of that name; dashes and underscores are the same.
pub fn find(name: &str) -> Option<&'static Factor> {
    let name = name.replace('-', "_");
    FACTORS.iter().find(|factor| factor.name == name)
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

impl Spec {
    /// The workload whose cell or group this is.
    pub fn workload(&self) -> Workload {
        self.stated_workload().unwrap_or_else(|| self.inferred())
    }

    /// The workload of levels that do not state it, such as those of an imported table: the first in which all of them have a
    /// meaning.
    fn inferred(&self) -> Workload {
        let is_in = |workload: &Workload| FACTORS.iter().all(|f| f.is_in(*workload) || !f.lens.is_set(self));
        WORKLOADS.iter().map(|row| row.value).find(is_in).unwrap_or_default()
    }

    /// Factors and levels in the order of the factor table, the absent ones left out.
    pub fn present(&self) -> impl Iterator<Item = (&'static Factor, Level)> {
        FACTORS.iter().map(|f| (f, self.get(f.name))).filter(|(_, level)| *level != Level::Absent)
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
        for profile in crate::catalog::PROFILES {
            for (name, level) in profile.sets {
                let factor = find(name).unwrap();
                assert_eq!(factor.role, Role::Condition);
                assert!(factor.is_in(profile.workload), "{}", profile.name);
                factor.kind.parse(level).unwrap();
            }
        }
    }
}
