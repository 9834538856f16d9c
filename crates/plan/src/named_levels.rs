//! The levels that a plan measures of factors that the user did not name: one level of every condition, and the default lists of
//! options.
//!
//! Once an option with several levels is named, other lists would hide the comparison that was asked for: sizes and engines
//! multiply. Then one level of everything else is measured. `also` adds a list again.

use bytegauge_model::factor::{self, Role};
use bytegauge_model::{Factor, Level, Transport, Workload};

use crate::effective_factors::suits_named;
use crate::error::PlanError;
use crate::spec::{Part, PlanSpec};

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
        is_one && !self.levels.contains_key(factor.name) && !self.also.contains(&factor.name)
    }
}

impl PlanSpec {
    /// Leaves one level of every factor that was not named.
    pub fn leave_one_level(&mut self) {
        self.parts.iter_mut().for_each(|part| part.one_each = true);
    }

    /// Adds the default lists of these factors, given by their flags.
    ///
    /// # Errors
    /// When the workload has no such factor, or its default is a single level.
    pub fn add_lists(&mut self, names: &str) -> Result<(), PlanError> {
        let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
        for name in names {
            let factors = factor::named(self.workload, name);
            if factors.is_empty() {
                let flags = factor::flags(self.workload);
                let hint = bytegauge_model::suggest::hint(name, flags.iter().map(String::as_str));
                return Err(PlanError::UnknownKey { place: "--also".into(), name: name.into(), hint });
            }
            for factor in factors {
                let has_list = |part: &Part| {
                    let transports = part.transports(self.workload).into_iter().map(Some).chain([None]);
                    let all = |over: Option<Transport>| part.defaults(self.workload, factor, over.as_ref());
                    transports.into_iter().any(|over| all(over).len() > 1)
                };
                if !self.parts.iter().any(has_list) {
                    let flag = factor.flag();
                    return Err(PlanError::Usage(format!(
                        "--also {flag}: its default is a single level. Name the levels to measure: --{flag} LIST"
                    )));
                }
                self.parts.iter_mut().for_each(|part| part.also.push(factor.name));
            }
        }
        Ok(())
    }
}

/// The sentence that names the factors of which one level is measured; `None` where there are none.
pub(crate) fn note(workload: Workload, part: &Part) -> Option<String> {
    let transport = part.transports(workload).into_iter().next().filter(|_| workload.has_path());
    let left = |factor: &'static Factor| {
        let over = transport.as_ref().filter(|_| factor.name != "transport");
        let applies = over.is_none_or(|over: &Transport| (factor.fits)(over));
        let [one] = &part.levels(workload, factor, over)[..] else { return None };
        let all = part.defaults(workload, factor, over);
        let is_left = applies && part.has_one_of(factor) && all.len() > 1 && is_measured(part, factor.name);
        is_left.then(|| format!("--{} {}", factor.flag(), factor.kind.compact(one)))
    };
    let left: Vec<String> = factor::of(workload).filter_map(left).collect();
    (!left.is_empty()).then(|| {
        format!("one value is measured of each of these: {}; --also NAME adds the default list of one", left.join(", "))
    })
}

/// Whether a profile applies: levels of the factors that it sets replace it.
fn is_measured(part: &Part, name: &str) -> bool {
    name != "profile" || !crate::spec::SET_BY_PROFILES.iter().any(|set| part.levels.contains_key(set))
}

#[cfg(test)]
mod tests {
    use bytegauge_model::{FACTORS, WORKLOADS};

    use super::*;
    use crate::{Catalog, Plan, resolve};

    fn spec(line: &str, also: &str) -> PlanSpec {
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
        spec.add_lists(also).unwrap();
        spec
    }

    fn plan(line: &str, also: &str) -> Plan {
        resolve(&spec(line, also), &Catalog::default(), 1).unwrap()
    }

    /// The number of tests, and of options in each of them.
    fn check(line: &str, tests: usize, options: usize) {
        let plan = plan(line, "");
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
        let parts = spec("call --compare response-chunk --response-chunk 86,auto --response-gap 1ms", "");
        let error = resolve(&parts, &Catalog::default(), 1).unwrap_err().to_string();
        assert!(error.contains("--response-chunk, the same for all options"), "{error}");
        let error = resolve(&spec("call --transport tcp,udp --compare transport", ""), &Catalog::default(), 1);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("--timeout: 5s and 250ms") || error.contains("Give it one level"), "{error}");
    }

    #[test]
    fn trial_measures_several_bursts() {
        let line = "stream --transport udp --write-size 1452 --burst 3000 --every 20ms --rcvbuf 208K,4M";
        let (bursts, steady) = (plan(line, ""), plan("stream --transport udp --write-size 1452 --rcvbuf 208K,4M", ""));
        let round_ns = |plan: &Plan| plan.schedule().confirm_round_ns;
        assert!(round_ns(&bursts) > round_ns(&steady) + 3 * 150_000_000, "{} {}", round_ns(&bursts), round_ns(&steady));
        let error = resolve(&spec("stream --transport udp --every 20ms", ""), &Catalog::default(), 1).unwrap_err();
        assert!(error.to_string().contains("--every has no effect without --burst N"), "{error}");
    }

    #[test]
    fn lists_are_added_again_by_name() {
        let groups = |also: &str| plan("stream --role reader --read-size 4K,64K", also).groups.len();
        assert_eq!((groups("profile"), groups("transport,write-size")), (3, 6));
        let refused = |also: &str| spec("stream --read-size 4K,64K", "").add_lists(also).unwrap_err().to_string();
        assert!(refused("flows").contains("its default is a single level"), "{}", refused("flows"));
        assert!(refused("flow").contains("flows"), "{}", refused("flow"));
    }

    #[test]
    fn plan_lists_factors_with_one_level() {
        let notes = plan("stream --rcvbuf 64K,1M", "").notes.join("\n");
        let expected = "--transport tcp, --profile program, --read-size 64K, --write-size 64K; --also NAME";
        assert!(notes.contains(expected), "{notes}");
    }

    #[test]
    fn each_factor_keeps_one_default_level() {
        for row in WORKLOADS {
            for factor in FACTORS.iter().filter(|factor| factor.is_in(row.value)) {
                for over in [None, Some(Transport::Tcp), Some(Transport::Udp)] {
                    let part = Part { one_each: true, ..Part::default() };
                    let levels = part.levels(row.value, factor, over.as_ref());
                    let all = part.defaults(row.value, factor, over.as_ref());
                    assert!(levels.len() == 1 && all.contains(&levels[0]), "{} {levels:?}", factor.name);
                }
            }
        }
    }

    #[test]
    fn short_budget_is_refused_with_the_time() {
        let mut spec =
            spec("stream --role reader --link-delay 15ms,91ms --link-rate 40Mbit --rcvbuf 128K,256K,512K", "");
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
