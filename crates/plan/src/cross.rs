//! Crosses levels: every combination of a part's levels, without those that have no effect together.
//!
//! Also the levels of factors that the user did not name.

use bytegauge_model::factor::{self, Factor, Role};
use bytegauge_model::{FactorKey, Level, Spec, Transport, Workload};

use crate::effective_factors::{deciders, is_moot, joints, suits_named};
use crate::engines::suits;
use crate::spec::{self, Part, PlanSpec, SET_BY_PROFILES};
use crate::{PlanError, external, far};

/// More cells than this is a mistake in a range, not an experiment.
pub(crate) const CELLS_MAX: usize = 100_000;

/// Every combination of the levels of one role's factors, in the order of the table; of more than [`CELLS_MAX`] only some. A factor
/// is absent if it does not fit the transport, where there is one, or has no effect with the other levels.
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
        let mut longer = Vec::new();
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
            if longer.len() > CELLS_MAX {
                return longer;
            }
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
        _ => {
            let mut levels = part.levels(workload, factor, transport);
            levels.retain(|level| transport.is_none_or(|over| suits(factor, level, over)));
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
                return PlanError::usage(text);
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

// The levels that a plan measures of factors that the user did not name: one level of every condition, and the default lists of
// options.
//
// Once an option with several levels is named, other lists would hide the comparison that was asked for: sizes and engines
// multiply. Then one level of everything else is measured.

impl Part {
    /// The one of several default levels that is measured where only one is: one with which all that the part names means
    /// something.
    pub(crate) fn usual(&self, factor: &Factor, levels: &[Level]) -> Vec<Level> {
        let usual =
            factor.usual.iter().filter_map(|text| factor.kind.parse(text).ok()).filter(|usual| levels.contains(usual));
        let in_order: Vec<Level> = usual.chain(levels.iter().cloned()).collect();
        let one = in_order.iter().find(|level| suits_named(self, factor, level)).or(in_order.first());
        one.cloned().into_iter().collect()
    }

    /// Whether the part names several levels of an option, so that these are compared and nothing else.
    pub(crate) fn names_options(&self) -> bool {
        self.levels.keys().any(|name| self.names_levels_of_option(name))
    }

    /// Whether a factor is an option of which the part names several levels.
    pub(crate) fn names_levels_of_option(&self, name: &str) -> bool {
        let is_option = |factor: &Factor| self.role_of(factor) == Role::Choice;
        self.levels.get(name).is_some_and(|levels| levels.len() > 1) && factor::find(name).is_some_and(is_option)
    }

    /// Whether only one default level of a factor is measured: each level of a condition is another test, and several tests share the
    /// time.
    pub(crate) fn has_one_of(&self, factor: &Factor) -> bool {
        let is_one = self.one_each || (self.role_of(factor) == Role::Condition && !factor.is_in(Workload::Ring));
        is_one && !self.levels.contains_key(factor.name)
    }
}

impl PlanSpec {
    /// Leaves one level of every factor that was not named.
    pub fn leave_one_level(&mut self) {
        self.parts.iter_mut().for_each(|part| part.one_each = true);
    }
}

/// The sentence that names the factors of which one level is measured; `None` where there are none.
pub(crate) fn note(workload: Workload, part: &Part) -> Option<String> {
    let transport = part.transports(workload).into_iter().next().filter(|_| workload.has_path());
    let left = |factor: &'static Factor| {
        let over = transport.as_ref().filter(|_| factor.name != "transport");
        let applies = over.is_none_or(|over: &Transport| (factor.fits)(over));
        let [one] = &part.levels(workload, factor, over)[..] else { return None };
        let all = spec::defaults(workload, factor, over);
        let is_left =
            applies && part.has_one_of(factor) && all.len() > 1 && !(factor.name == "profile" && sets_by_hand(part));
        is_left.then(|| format!("--{} {}", factor.flag(), factor.kind.compact(one)))
    };
    let left: Vec<String> = factor::of(workload).filter_map(left).collect();
    (!left.is_empty()).then(|| {
        format!("one value is measured of each of these: {}; name several values to compare them", left.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use bytegauge_model::WORKLOADS;
    use proptest::prelude::*;

    use super::*;
    use crate::built_in;
    use crate::file::parse;
    use crate::missing_features::Catalog;
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
            let mut seen = Vec::new();
            levels.retain(|level| {
                let is_new = !seen.contains(level);
                seen.push(level.clone());
                is_new
            });
            levels.truncate((*len).max(1));
            part.levels.insert(factor.name, levels);
        }
        part
    }

    proptest! {
        #[test]
        fn every_combination_is_made_once(
            workload in 0..WORKLOADS.len(),
            given in prop::collection::btree_map(0usize..64, 1usize..4, 0..6),
        ) {
            let workload = WORKLOADS[workload].value;
            let part = part_of(workload, &given);
            for joint in joints(workload, &part).into_iter().take(3) {
                for role in [Role::Condition, Role::Choice] {
                    let crossed = cross(workload, &part, role, joint.as_ref());
                    let distinct: BTreeSet<&Spec> = crossed.iter().collect();
                    prop_assert_eq!(distinct.len(), crossed.len(), "{:?} {:?}", role, part.levels);
                }
            }
        }
    }

    #[test]
    fn no_number_of_levels_is_too_large() {
        for levels in [1, 2, 3, 10, 100, 1000, 1999] {
            let mut part = Part::default();
            for factor in factor::of(Workload::Stream).filter(|factor| factor.name != "transport") {
                part.levels.insert(factor.name, (0..levels as u64).map(Level::Number).collect());
            }
            let crossed = cross(Workload::Stream, &part, Role::Choice, Some(&Transport::Tcp)).len();
            assert!((levels..=CELLS_MAX + levels).contains(&crossed), "{crossed}");
            assert!(levels < 1000 || crossed > CELLS_MAX, "{crossed}");
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

#[cfg(test)]
mod named_levels_tests {
    use bytegauge_model::{FACTORS, WORKLOADS};

    use super::*;
    use crate::{Catalog, Plan, resolve};

    fn spec(line: &str) -> PlanSpec {
        let (workload, flags) = line.split_once(' ').unwrap();
        let workload: Workload = workload.parse().unwrap();
        let mut spec = PlanSpec::named("t", workload);
        let words: Vec<&str> = flags.split_whitespace().collect();
        let flags: Vec<_> = words
            .chunks(2)
            .map(|pair| (factor::named(workload, pair[0].trim_start_matches("--"))[0], pair[1].to_owned()))
            .collect();
        spec.set_all(&flags).unwrap();
        spec.budget_ns = Some(600_000_000_000);
        spec
    }

    fn plan(line: &str) -> Plan {
        resolve(&spec(line), &Catalog::default(), 1).unwrap()
    }

    /// The number of tests, and of options in each of them.
    fn check(line: &str, tests: usize, options: usize) {
        let plan = plan(line);
        assert_eq!((plan.groups.len(), plan.cells.len()), (tests, tests * options), "{line}");
        assert!(plan.families.iter().all(|family| !family.is_screened()), "{line}");
    }

    #[test]
    fn named_options_are_all_that_varies() {
        check("call --transport tcp --connect-per-call on --flows 200 --backlog 128,4096", 1, 2);
        check("call --connect-per-call on --flows 200 --backlog 128,4096", 1, 2);
        check("stream --transport udp --write-size 1452 --rcvbuf 208K,4M", 1, 2);
        check("stream --transport udp --rcvbuf 208K,4M", 1, 2);
        check("call --flows 1 --request 200 --request-chunk 100 --nodelay on,off", 1, 2);
        check("call --flows 128 --request 100 --response 1M --relay read-write,splice", 1, 2);
        check("call --flows 40,400 --request 64 --server-engine epoll,uring", 2, 2);
        check("stream --role reader --read-size 4K,64K", 1, 2);
        check("stream --role reader --link-delay 15ms,91ms --link-rate 40Mbit --rcvbuf 128K,256K,512K", 2, 3);
        check("stream --link-delay 91ms --rcvbuf 128K,256K", 1, 2);
        check("stream --engine uring,uring:zc --write-size 32K", 1, 2);
        check("stream --transport pipe --pipe-size 64K,1M", 1, 2);
        check("call --busy-poll auto,50us --flows 1", 1, 2);
        check("stream --transport udp --write-size 1452 --burst 3000 --every 100ms --rcvbuf 208K,4M", 1, 2);
        check("call --transport udp --server-engine plain,mmsg", 1, 2);
        check("ring --entries 64,128", 1, 2);
        check("stream --role relay --relay-buffer 4K,64K", 1, 2);
        check("call --transport udp --batch 1,64", 1, 2);
    }

    /// A pipe is no size of the peer's calls: a small one would limit every read.
    #[test]
    fn a_reader_has_the_usual_pipe() {
        let plan = plan("stream --transport pipe --role reader --read-size 4K,1M");
        assert!(plan.groups.iter().all(|group| group.factors.pipe_size().is_none()), "{:?}", plan.groups);
    }

    #[test]
    fn more_named_options_than_usual_are_all_confirmed() {
        check("stream --read-size 1K,2K,4K,8K,16K,32K,64K,128K,256K,512K", 1, 10);
    }

    #[test]
    fn transports_are_compared_on_request() {
        check("call --transport tcp,unix --compare transport --flows 10", 1, 2);
        check("stream --transport unix,tcp --compare transport", 1, 2);
        check("call --flows 10 --compare depth --depth 1,8", 1, 2);
        check("call --compare request-chunk --request-chunk 86,auto --request 256", 1, 2);
        check("call --compare response-chunk --response-chunk 86,auto --response 256", 1, 2);
        let parts = spec("call --compare response-chunk --response-chunk 86,auto --response-gap 1ms");
        let error = resolve(&parts, &Catalog::default(), 1).unwrap_err().to_string();
        assert!(error.contains("--response-chunk, the same for all options"), "{error}");
        let error = resolve(&spec("call --transport tcp,udp --compare transport"), &Catalog::default(), 1);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("--timeout: 5s and 250ms") || error.contains("Give it one level"), "{error}");
    }

    #[test]
    fn trial_measures_several_bursts() {
        let line = "stream --transport udp --write-size 1452 --burst 3000 --every 20ms --rcvbuf 208K,4M";
        let (bursts, steady) = (plan(line), plan("stream --transport udp --write-size 1452 --rcvbuf 208K,4M"));
        let round_ns = |plan: &Plan| plan.schedule().confirm_round_ns;
        assert!(round_ns(&bursts) > round_ns(&steady) + 3 * 150_000_000, "{} {}", round_ns(&bursts), round_ns(&steady));
        let error = resolve(&spec("stream --transport udp --every 20ms"), &Catalog::default(), 1).unwrap_err();
        assert!(error.to_string().contains("--every has no effect without --burst N"), "{error}");
    }

    #[test]
    fn plan_lists_factors_with_one_level() {
        let notes = plan("stream --rcvbuf 64K,1M").notes.join("\n");
        let expected = "--transport tcp, --profile program, --read-size 64K, --write-size 64K; name";
        assert!(notes.contains(expected), "{notes}");
    }

    #[test]
    fn each_factor_keeps_one_default_level() {
        for row in WORKLOADS {
            for factor in FACTORS.iter().filter(|factor| factor.is_in(row.value)) {
                for over in [None, Some(Transport::Tcp), Some(Transport::Udp)] {
                    let part = Part { one_each: true, ..Part::default() };
                    let levels = part.levels(row.value, factor, over.as_ref());
                    let all = spec::defaults(row.value, factor, over.as_ref());
                    assert!(levels.len() == 1 && all.contains(&levels[0]), "{} {levels:?}", factor.name);
                }
            }
        }
    }

    #[test]
    fn short_budget_is_refused_with_the_time() {
        let mut spec = spec("stream --role reader --link-delay 15ms,91ms --link-rate 40Mbit --rcvbuf 128K,256K,512K");
        spec.budget_ns = Some(69_000_000_000);
        let refused = resolve(&spec, &Catalog::default(), 1).unwrap_err().to_string();
        assert!(refused.contains("--rcvbuf has 3, --link-delay has 2"), "{refused}");
        let needed = refused.split("--time ").nth(1).unwrap().split('s').next().unwrap();
        spec.budget_ns = Some(needed.parse::<u64>().unwrap() * 1_000_000_000);
        let plan = resolve(&spec, &Catalog::default(), 1).unwrap();
        assert!(plan.schedule().total_ns() <= plan.budget_ns, "{:?}", plan.schedule());
        assert_eq!(Some(plan.budget_ns), spec.budget_ns);
    }
}
