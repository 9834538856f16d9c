//! Effects across tests: the setting that matters most, and one setting for all tests.

use std::collections::BTreeSet;

use bytegauge_model::{CellId, ComparedCondition, FACTORS, Level};
use bytegauge_stats::recommend::{Candidate, named};
use serde_json::Value;

use super::super::document::{
    CellView, Finding, FindingKind, GroupView, LeverView, OptionRatio, OptionResult, Severity, Test, View,
};
use super::build::found;
use super::{harm, long_trials};
use crate::phrase;

/// A setting that may be slower by this share in some test is not recommended for all.
const SLOWER_MAX: f64 = 0.5;

/// Options of a test up to which each is compared with the fastest; of more only the slowest is.
const COMPARED_EACH: usize = 4;

/// The comparisons that the user asked for: the fastest option against the others, or the levels of what was compared.
pub fn comparisons(view: &View) -> Vec<Finding> {
    // A comparison of two has its own line.
    let tests = if view.versus.is_some() { &[][..] } else { &view.tests[..] };
    tests.iter().flat_map(of_named).collect()
}

fn of_named(test: &Test) -> Vec<Finding> {
    let factors = compared_factors(test);
    if !factors.is_empty() {
        return factors.iter().flat_map(|factor| levels_compared(test, factor)).collect();
    }
    let most = if test.options.len() > COMPARED_EACH { 1 } else { COMPARED_EACH };
    test.comparisons.iter().take(most).map(|ratio| compared(FindingKind::Comparison, test, ratio)).collect()
}

/// The options with a longer p99 than the one with the shortest, at an offered load; the longest first.
pub fn latencies(view: &View, group: &GroupView) -> Vec<Finding> {
    let Some(test) = view.test(&group.id) else { return Vec::new() };
    let longer = group.p99_ratios.iter().filter(|ratio| ratio.times_lower > 1.0);
    longer.map(|ratio| compared(FindingKind::LongerP99, test, ratio)).collect()
}

fn compared(kind: FindingKind, test: &Test, ratio: &OptionRatio) -> Finding {
    found(kind, Severity::Result)
        .test(&test.id)
        .option(&ratio.option)
        .other(Some(&ratio.other))
        .number("times", Some(ratio.times))
        .number("times_lower", Some(ratio.times_lower))
        .number("times_upper", ratio.times_upper)
}

/// The compared factors where options differ in several: the condition of `--compare`, else the factors that are no sizes.
fn compared_factors(test: &Test) -> Vec<&str> {
    if test.varied.len() < 2 || test.comparisons.is_empty() {
        return Vec::new();
    }
    let condition = condition(test);
    let is_it = |name: &&str| condition.map_or(!name.ends_with("_size"), |condition| condition.is(name));
    test.varied.iter().map(String::as_str).filter(is_it).collect()
}

/// The condition that the user compares with `--compare`.
fn condition(test: &Test) -> Option<ComparedCondition> {
    let named = test.environment.get("compare")?.as_str()?;
    named.parse().ok().filter(|condition| *condition != ComparedCondition::None)
}

/// The fastest option against the best one with each other level of a factor, the slowest level first.
fn levels_compared(test: &Test, factor: &str) -> Vec<Finding> {
    let level_of = |id: &CellId| test.options.iter().find(|option| option.id == *id)?.settings.get(factor);
    let Some(own) = test.comparisons.first().and_then(|ratio| level_of(&ratio.option)) else { return Vec::new() };
    let mut best: Vec<(&Value, &OptionRatio)> = Vec::new();
    // The slowest option is the first one.
    for ratio in test.comparisons.iter().rev() {
        let Some(level) = level_of(&ratio.other).filter(|level| *level != own) else { continue };
        if best.iter().all(|(known, _)| *known != level) {
            best.push((level, ratio));
        }
    }
    let one = |(level, ratio): (&Value, &OptionRatio)| {
        let finding = compared(FindingKind::Comparison, test, ratio).name("factor", factor);
        finding.name("level", own.clone()).name("other_level", level.clone())
    };
    best.into_iter().rev().map(one).collect()
}

/// The largest effect: of another setting where one is larger than those of the options of all tests, else of the options.
pub fn biggest(view: &View) -> Vec<Finding> {
    let are_compared = |test: &Test| {
        test.is_compared() && test.options.iter().filter(|option| option.slower_upper.is_some()).count() > 1
    };
    if view.versus.is_some() || view.check.is_some() || !view.tests.iter().any(are_compared) {
        return Vec::new();
    }
    let options = of_options(view);
    let lower = options.numbers.get("slower_lower");
    // The effect of a lever is larger than those of the options of its own test.
    let is_larger = |lever: &LeverView| {
        options.test.as_ref() == Some(&lever.group) || lower.is_none_or(|lower| lever.times_lower - 1.0 > *lower)
    };
    if view.levers.first().is_some_and(is_larger) { of_levers(view) } else { vec![options] }
}

/// The option that is surely slower by most, in any test; where none is, the one that surely uses the most CPU time.
fn of_options(view: &View) -> Finding {
    let slower = view.tests.iter().flat_map(|test| test.avoid.iter().map(move |one| (test, one)));
    let slower = slower.filter_map(|(test, one)| Some((test, one, one.option.as_ref()?)));
    let finding = found(FindingKind::BiggestEffect, Severity::Result);
    if let Some((test, one, option)) =
        slower.filter(|(_, one, _)| one.harm.is_none()).max_by(|a, b| a.1.lower.total_cmp(&b.1.lower))
    {
        let finding = finding.test(&test.id).option(option);
        return finding.number("slower_lower", Some(one.lower)).number("slower_upper", Some(one.upper));
    }
    let options = view.tests.iter().flat_map(|test| test.options.iter().map(move |option| (test, option)));
    let beyond = |(test, option): &(&Test, &OptionResult)| option.more_cpu_lower.filter(|lower| *lower > test.margin);
    let costly = options.filter_map(|one| Some((beyond(&one)?, one))).max_by(|a, b| a.0.total_cmp(&b.0));
    match costly {
        None => finding,
        Some((lower, (test, option))) => finding
            .test(&test.id)
            .option(&option.id)
            .number("more_cpu_lower", Some(lower))
            .number("more_cpu_upper", option.more_cpu_upper),
    }
}

/// Settings whose effect is larger than that of the options, the largest first, each factor once.
fn of_levers(view: &View) -> Vec<Finding> {
    let mut reported: Vec<&str> = Vec::new();
    let mut all = Vec::new();
    for lever in &view.levers {
        if reported.contains(&lever.factor.as_str()) {
            continue;
        }
        reported.push(&lever.factor);
        let within = view.groups.iter().any(|group| group.id == lever.group && group.varied.contains(&lever.factor));
        // Options of one test have their intervals in the table; a second interval would contradict it.
        let [lower, upper] = if within { [None, None] } else { [Some(lever.times_lower), lever.times_upper] };
        let slow = best_with_slower(view, lever, within);
        all.push(
            found(FindingKind::BiggestEffect, Severity::Result)
                .test(&lever.group)
                .option(&lever.cell)
                .other(slow.map(|slow| &slow.id).filter(|_| within))
                .number("times_lower", lower)
                .number("times_upper", upper)
                .number("rate", view.cell(&lever.cell).and_then(|cell| cell.estimate.median))
                .number("other_rate", slow.and_then(|slow| slow.estimate.median))
                .name("factor", lever.factor.clone())
                .name("level", lever.to.clone())
                .name("other_level", lever.from.clone()),
        );
    }
    all
}

/// The confirmed option with the highest rate, of those with the slower level.
fn best_with_slower<'a>(view: &'a View, lever: &'a LeverView, within: bool) -> Option<&'a CellView> {
    let cells = view.cells_of(&lever.group).filter(|cell| cell.above_best_upper.is_some());
    let has = cells.filter(|cell| !within || cell.factors.get(&lever.factor) == Some(&lever.from));
    let rated = has.filter_map(|cell| Some((cell.estimate.median?, cell)));
    rated.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cell)| cell)
}

/// For each setting that several tests vary: the level whose largest upper end over them is the smallest.
pub fn one_setting(view: &View) -> Vec<Finding> {
    FACTORS.iter().filter_map(|factor| of_factor(view, factor.name)).collect()
}

fn of_factor(view: &View, factor: &str) -> Option<Finding> {
    let tests: Vec<&Test> =
        view.tests.iter().filter(|test| test.varied.iter().any(|varied| varied == factor)).collect();
    if tests.len() < 2 || !tests.iter().all(|test| test.is_compared()) || contradicted(view, &tests) {
        return None;
    }
    let levels: BTreeSet<Level> = tests[0].options.iter().map(|option| level(&option.settings, factor)).collect();
    let worst = |level: &Level| {
        tests.iter().try_fold(0.0, |most: f64, test| Some(most.max(largest_loss(test, factor, level)?)))
    };
    let known =
        levels.into_iter().filter_map(|level| Some((worst(&level).filter(|upper| *upper < SLOWER_MAX)?, level)));
    let mut known: Vec<(f64, Level)> = known.collect();
    let finding = found(FindingKind::OneSetting, Severity::Result)
        .number("tests", Some(tests.len() as f64))
        .name("factor", factor)
        .name("all_tests", tests.len() == view.tests.len());
    let Some(at) = recommended(&known, view.plan.margin) else {
        return factor.ends_with("_size").then(|| finding.number("slower_max", Some(SLOWER_MAX)));
    };
    let (upper, level) = known.swap_remove(at);
    let with: Vec<_> = tests.iter().filter_map(|test| Some((others_of(test, factor, &level)?, &test.name))).collect();
    let finding = finding.number("slower_upper", Some(upper)).name("level", serde_json::to_value(&level).ok()?);
    Some(finding.name("with", serde_json::to_value(with).ok()?))
}

/// The other settings of the option that has the smallest upper end with this level: `cubic`.
fn others_of(test: &Test, factor: &str, wanted: &Level) -> Option<String> {
    let others = || test.varied.iter().filter(|name| *name != factor);
    others().next()?;
    let best = closest_with(test, factor, wanted)?;
    let shown = others().map(|name| phrase::compact(name, &level(&best.settings, name)));
    Some(shown.collect::<Vec<_>>().join(" + "))
}

/// Selects a level by the rule of one test, from the largest share by which each may be slower.
fn recommended(levels: &[(f64, Level)], margin: f64) -> Option<usize> {
    let by_bound = |a: &usize, b: &usize| levels[*a].0.total_cmp(&levels[*b].0);
    let mut cheapest_first: Vec<usize> = (0..levels.len()).collect();
    let is_default = |at: usize| levels[at].1.is_auto();
    cheapest_first.sort_by(|a, b| is_default(*b).cmp(&is_default(*a)).then(by_bound(a, b)));
    let closest = (0..levels.len()).min_by(by_bound)?;
    let closest = cheapest_first.iter().position(|at| *at == closest);
    let candidate = |at: &usize| Candidate {
        is_default: is_default(*at),
        proven: levels[*at].0 <= margin,
        may_be_best: true,
        bound: Some(levels[*at].0.ln_1p()),
    };
    let candidates: Vec<Candidate> = cheapest_first.iter().map(candidate).collect();
    named(&candidates, closest).map(|place| cheapest_first[place])
}

fn contradicted(view: &View, tests: &[&Test]) -> bool {
    let mut recommended = tests.iter().filter_map(|test| {
        let group = view.group(&test.id)?;
        Some((group, view.cell(test.recommended.as_ref()?)?))
    });
    recommended.any(|(group, cell)| long_trials::contradict(view, group, cell))
}

/// The smallest upper end that an option with this level has, where one is not harmful.
fn largest_loss(test: &Test, factor: &str, wanted: &Level) -> Option<f64> {
    closest_with(test, factor, wanted)?.slower_upper
}

/// The option with this level that has the smallest upper end and is not harmful.
fn closest_with<'a>(test: &'a Test, factor: &str, wanted: &Level) -> Option<&'a OptionResult> {
    let with = test.options.iter().filter(|option| level(&option.settings, factor) == *wanted);
    let good = with.filter(|option| option.slower_upper.is_some() && !harm::is_avoided(&option.harm));
    good.min_by(|a, b| a.slower_upper.unwrap_or(f64::INFINITY).total_cmp(&b.slower_upper.unwrap_or(f64::INFINITY)))
}

fn level(settings: &super::super::document::Factors, factor: &str) -> Level {
    settings.get(factor).cloned().and_then(|value: Value| serde_json::from_value(value).ok()).unwrap_or(Level::Absent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_tests_follow_the_rule_of_one() {
        let check = |levels: &[(f64, Level)], expected: &Level| {
            let at = recommended(levels, 0.05).unwrap();
            assert_eq!(&levels[at].1, expected, "{levels:?}");
        };
        let (auto, small, large) = (Level::auto(), Level::Number(4096), Level::Number(1 << 20));
        let of = |upper: f64, level: &Level| (upper, level.clone());
        // The default, where it is significantly good enough or close to the least bound.
        check(&[of(0.01, &large), of(0.04, &auto), of(0.001, &small)], &auto);
        check(&[of(0.1, &large), of(0.14, &auto)], &auto);
        check(&[of(0.1, &large), of(0.2, &auto)], &large);
        // A level that is significantly good enough comes before one that only may be.
        check(&[of(0.04, &large), of(0.055, &auto)], &large);
        assert_eq!(recommended(&[], 0.05), None);
    }
}
