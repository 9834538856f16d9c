//! Crosses levels: every combination of a part's levels, without those that have no effect together.

use std::collections::BTreeMap;

use bytegauge_model::catalog::PROFILES;
use bytegauge_model::factor::{self, Factor, Role};
use bytegauge_model::{FactorKey, Level, Spec, Transport, Workload};

use crate::effective_factors::{deciders, decides, is_moot, joints};
use crate::engines::suits;
use crate::error::PlanError;
use crate::spec::{Part, PlanSpec, SET_BY_PROFILES};
use crate::{external, far};

/// Every combination of the levels of one role's factors, in the order of the table. A factor is absent if it does not
/// fit the transport, where there is one, or has no effect with the other levels.
pub(crate) fn cross(workload: Workload, part: &Part, role: Role, transport: Option<&Transport>) -> Vec<Spec> {
    let mut combinations = vec![Spec::of(workload)];
    let (same, different) = same_first(axes(workload, part, role, transport));
    for (factor, levels) in same.into_iter().chain(different) {
        if let [level] = levels.as_slice() {
            for combination in &mut combinations {
                let level = if is_moot(factor, combination) { Level::Absent } else { level.clone() };
                combination.set_level(factor.key, level);
            }
            continue;
        }
        let mut longer = Vec::with_capacity(combinations.len() * levels.len());
        for mut combination in combinations {
            if is_moot(factor, &combination) {
                combination.set_level(factor.key, Level::Absent);
                longer.push(combination);
                continue;
            }
            let Some((last, others)) = levels.split_last() else { continue };
            for level in others {
                let mut copy = combination.clone();
                copy.set_level(factor.key, level.clone());
                longer.push(copy);
            }
            combination.set_level(factor.key, last.clone());
            longer.push(combination);
        }
        combinations = longer;
    }
    combinations
}

/// A factor and its levels.
type Axis = (&'static Factor, Vec<Level>);

/// The axes whose level is the same in every combination, and the others. The same levels are set once, before the combinations
/// are many; a factor that has an effect only with some levels of another follows that one.
fn same_first(axes: Vec<Axis>) -> (Vec<Axis>, Vec<Axis>) {
    let mut varied: Vec<FactorKey> = Vec::new();
    axes.into_iter().partition(|(factor, levels)| {
        let is_same = levels.len() == 1 && !deciders(factor).iter().any(|key| varied.contains(key));
        if !is_same {
            varied.push(factor.key);
        }
        is_same
    })
}

/// How many combinations [`cross`] makes, without making them; at most `u64::MAX`. More than `enough` are not counted
/// to the end.
///
/// Combinations that agree in every level that decides whether a later factor has an effect are counted together.
pub(crate) fn count(workload: Workload, part: &Part, role: Role, transport: Option<&Transport>, enough: u64) -> u64 {
    let mut counts = BTreeMap::from([(Spec::default(), 1u64)]);
    for (factor, levels) in axes(workload, part, role, transport) {
        let mut longer: BTreeMap<Spec, u64> = BTreeMap::new();
        for (deciding, count) in counts {
            let mut add = |deciding: Spec, count: u64| {
                let sum = longer.entry(deciding).or_default();
                *sum = sum.saturating_add(count);
            };
            if is_moot(factor, &deciding) {
                add(deciding, count);
            } else if decides(factor) {
                for level in &levels {
                    let mut deciding = deciding.clone();
                    deciding.set(factor.name, level.clone());
                    add(deciding, count);
                }
            } else {
                add(deciding, count.saturating_mul(levels.len() as u64));
            }
        }
        counts = longer;
        if counts.len() as u64 > enough {
            break;
        }
    }
    counts.into_values().fold(0, u64::saturating_add)
}

/// The factor with the most levels over any of a part's transports, and how many they are.
pub(crate) fn longest(workload: Workload, part: &Part) -> Option<(&'static Factor, usize)> {
    let all = joints(workload, part).into_iter().flat_map(|joint| {
        [Role::Condition, Role::Choice].into_iter().flat_map(move |role| axes(workload, part, role, joint.as_ref()))
    });
    all.map(|(factor, levels)| (factor, levels.len())).max_by_key(|(_, levels)| *levels)
}

/// The factors of one role and the levels that each has over a transport.
fn axes(workload: Workload, part: &Part, role: Role, transport: Option<&Transport>) -> Vec<Axis> {
    let levels = |factor: &'static Factor| match factor.name {
        "transport" => transport.iter().map(|transport| Level::Name(transport.to_string())).collect(),
        "profile" if sets_by_hand(part) => vec![Level::Absent],
        name if external::is_external(part) && external::belongs_to_own_server(workload, part, name) => {
            vec![Level::Absent]
        }
        _ if !has_level(part, factor) => vec![Level::Absent],
        _ if !factor.applies(workload, transport) => vec![Level::Absent],
        name => {
            let is_unnamed_profile = name == "profile" && !part.levels.contains_key(name);
            let fits = |level: &Level, over: &Transport| match is_unnamed_profile {
                true => means_something(level, over),
                false => suits(factor, level, over),
            };
            let mut levels = part.levels(workload, factor, transport);
            levels.retain(|level| transport.is_none_or(|over| fits(level, over)));
            levels
        }
    };
    factor::of(workload).filter(|factor| part.role_of(factor) == role).map(|factor| (factor, levels(factor))).collect()
}

/// Whether a factor has levels in the cells of a part: it always has them, or the part names a factor that brings it.
fn has_level(part: &Part, factor: &Factor) -> bool {
    let brings = |key: &FactorKey| part.levels.contains_key(key.row().name);
    let is_free = factor.only_with.is_empty() || factor.only_with.iter().any(brings);
    is_free || (factor.key == FactorKey::direction && far::has_direction_here(part))
}

/// Whether a default profile has an effect over a transport: datagrams have no idle connections.
fn means_something(profile: &Level, transport: &Transport) -> bool {
    let row = PROFILES.iter().find(|row| Some(row.name) == profile.name());
    let fits = |name: &str| factor::find(name).is_none_or(|factor| (factor.fits)(transport));
    !transport.is_datagram()
        || row
            .is_none_or(|row| row.sets.iter().all(|(name, level)| *level == "0" || *name == "call_work" || fits(name)))
}

/// Whether the part sets a factor that profiles set, so that no profile applies.
fn sets_by_hand(part: &Part) -> bool {
    !part.levels.contains_key("profile") && SET_BY_PROFILES.iter().any(|name| part.levels.contains_key(name))
}

/// Replaces a profile's name by its name and the levels it sets.
pub(crate) fn apply_profile(spec: &PlanSpec, part: &Part, mut conditions: Spec) -> Result<Spec, PlanError> {
    let Some(name) = conditions.profile().map(str::to_owned) else { return Ok(conditions) };
    for (factor, level) in spec.profile(&name)? {
        match part.levels.contains_key(factor) {
            true if SET_BY_PROFILES.contains(&factor) => {
                let flag = factor.replace('_', "-");
                let text = format!("--{flag} is set by the profiles already: leave out --profile or --{flag}");
                return Err(PlanError::Usage(text));
            }
            // Named with the profile or without: the user's level holds.
            true => continue,
            false => {}
        }
        // Levels that do not apply here stay absent (a device has no writer to fill).
        if conditions.get(factor) != Level::Absent {
            conditions.set(factor, level);
        }
    }
    Ok(conditions)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytegauge_model::WORKLOADS;
    use proptest::prelude::*;

    use super::*;
    use crate::built_in;
    use crate::capabilities::Catalog;
    use crate::file::parse;
    use crate::resolve::{plan_of_flags, resolve};

    /// A part that names factors by index, each with as many of its default levels over a transport, so that those
    /// on which others depend are among them.
    fn part_of(workload: Workload, given: &BTreeMap<usize, usize>) -> Part {
        let factors: Vec<_> =
            factor::of(workload).filter(|factor| !matches!(factor.name, "connect" | "host" | "relay_host")).collect();
        let mut part = Part::default();
        for (index, len) in given {
            let factor = factors[index % factors.len()];
            let mut levels: Vec<Level> = ["auto", "none", "max", "on", "off", "1", "2", "4K", "1ms", "p99=2ms"]
                .iter()
                .filter_map(|text| factor.kind.parse(text).ok())
                .chain(factor.kind.parse_list(factor.default_in(workload).unwrap_or_default()).unwrap_or_default())
                .chain(["epoll", "mmsg"].iter().filter_map(|text| factor.kind.parse(text).ok()))
                .collect();
            levels.dedup();
            levels.truncate((*len).max(1));
            part.levels.insert(factor.name, levels);
        }
        part
    }

    proptest! {
        #[test]
        fn the_count_equals_the_combinations(
            workload in 0..WORKLOADS.len(),
            given in prop::collection::btree_map(0usize..64, 1usize..4, 0..6),
        ) {
            let workload = WORKLOADS[workload].value;
            let part = part_of(workload, &given);
            for joint in joints(workload, &part).into_iter().take(3) {
                for role in [Role::Condition, Role::Choice] {
                    let counted = count(workload, &part, role, joint.as_ref(), 20_000);
                    prop_assume!(counted <= 20_000);
                    let crossed = cross(workload, &part, role, joint.as_ref());
                    prop_assert_eq!(counted, crossed.len() as u64, "{:?} {:?}", role, part.levels);
                }
            }
        }

        #[test]
        fn no_number_of_levels_overflows(levels in 1usize..2000) {
            let mut part = Part::default();
            for factor in factor::of(Workload::Stream).filter(|factor| factor.name != "transport" && !decides(factor)) {
                part.levels.insert(factor.name, (0..levels as u64).map(Level::Number).collect());
            }
            let counted = count(Workload::Stream, &part, Role::Choice, Some(&Transport::Tcp), 50_000);
            prop_assert!(counted >= levels as u64);
            prop_assert!(levels < 1000 || counted == u64::MAX, "{}", counted);
        }
    }

    #[test]
    fn a_condition_may_be_compared() {
        let of = |also: &str| {
            let text = "workload = \"stream\"\ntransport = \"tcp\"\nplacement = \"cross-core\"\nprofile = \"sum\"\n\
                        read-size = \"64K\"\nwrite-size = \"64K\"\nflows = \"1,2,4\"\n";
            resolve(&parse("t", &format!("{text}{also}")).unwrap(), &Catalog::default(), 1).unwrap()
        };
        let (apart, together) = (of(""), of("compare = \"flows\""));
        assert_eq!((apart.groups.len(), apart.cells.len()), (3, 3));
        assert_eq!((together.groups.len(), together.cells.len()), (1, 3));
        assert!(together.cells.iter().all(|cell| cell.factors.role_of("flows") == Role::Choice));
        let both = of("compare = \"flows,none\"");
        assert_eq!((both.groups.len(), both.cells.len()), (4, 6));
        let far = built_in::find("remote-tcp").unwrap();
        let error = resolve(&far, &Catalog::default(), 1).unwrap_err().to_string();
        assert!(error.starts_with("the plan remote-tcp needs --host: "), "{error}");
    }

    #[test]
    fn named_work_replaces_that_of_a_profile() {
        let check = |flags: &[(&str, &str)], expected: [Option<&str>; 4]| {
            let plan = plan_of_flags(Workload::Stream, flags).unwrap();
            let found = ["work", "writer_work", "call_work", "profile"].map(|name| plan.groups[0].factors.get(name));
            let expected = expected.map(|text| text.map_or(Level::Absent, |text| Level::Name(text.into())));
            assert_eq!(found.map(|level| level.to_string()), expected.map(|level| level.to_string()), "{flags:?}");
        };
        let sizes = [("transport", "tcp"), ("read_size", "4K,64K")];
        let with = |more: &[(&'static str, &'static str)]| [&sizes[..], more].concat();
        check(&with(&[]), [Some("none"), Some("none"), Some("1000"), Some("program")]);
        check(&with(&[("call_work", "3us")]), [Some("none"), Some("none"), Some("3000"), Some("program")]);
        check(&with(&[("writer_work", "touch")]), [Some("none"), Some("touch"), Some("1000"), Some("program")]);
        check(&with(&[("work", "copy")]), [Some("copy"), Some("none"), Some("0"), None]);
        check(&[("transport", "udp"), ("batch", "1,8")], [Some("none"), Some("none"), None, Some("program")]);
    }
}
