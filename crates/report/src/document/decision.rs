//! What to set in each test, how certain it is, and the sentence to quote.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{GroupId, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::Results;
use crate::results::harm;
use crate::results::{Claim, Compares, InvalidReason, OptionResult, OptionStatus, Test};
use crate::view::check::has_value;
use crate::view::knee::lowest_missed;
use crate::view::numbers::{GainView, HarmKind, Verdict, VersusCost, VersusView};
use crate::words::fit::chars;
use crate::words::interval_rounding::{BOUND_MAX, NOTHING, ShareScale, at_least, at_most, percent};
use crate::words::number::{time, times_at_least};
use crate::words::phrase::{self, capital};

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;
/// More places than this of one option are not in the sentence.
const PLACES_MAX: usize = 2;

/// The decision of one test: a row of the first table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decision {
    /// The test.
    pub test: GroupId,
    /// Its name.
    pub name: String,
    /// What to set: `256K or 1M`, `not 4K`, `keep yours`.
    pub set: String,
    /// The rates of the options that it names.
    pub rate: String,
    /// Their unit.
    pub unit: String,
    /// Whether it is certain at the session's level.
    pub is_certain: bool,
    /// Why: `at most 5 % slower than the best`.
    pub why: String,
}

/// The decision of a test.
pub fn decision(results: &Results, test: &Test) -> Decision {
    Decision {
        test: test.id.clone(),
        name: test.name.clone(),
        set: set(results, test),
        rate: rates(results, test),
        unit: if test.unit == "runs/s" { "a run".into() } else { test.rate_scale(results.tests).1.to_owned() },
        is_certain: test.is_decided(),
        why: why(results, test),
    }
}

/// What to set.
fn set(results: &Results, test: &Test) -> String {
    let named = test.named();
    match &test.claim {
        Claim::Use { .. } => alternatives(&named),
        Claim::Invalid { .. } => "–".into(),
        _ => {
            if let Some(now) = present(results, test).filter(|now| named.iter().any(|option| option.id == now.id)) {
                return format!("keep {}", now.label);
            }
            match avoided(test).as_slice() {
                [] => "keep yours".into(),
                [one] => format!("not {}", one.label),
                [one, two] => format!("not {}, {}", one.label, two.label),
                [first, others @ ..] => format!("not {}, +{}", first.label, others.len()),
            }
        }
    }
}

/// The option with the present value of a user's program.
fn present<'a>(results: &Results, test: &'a Test) -> Option<&'a OptionResult> {
    let default = results.check.as_ref()?.default.as_ref()?;
    test.options.iter().find(|option| results.cell(&option.id).is_some_and(|cell| has_value(cell, default)))
}

/// The options to avoid, the worst first.
pub fn avoided(test: &Test) -> Vec<&OptionResult> {
    let mut all: Vec<&OptionResult> = test.with(OptionStatus::Avoid).collect();
    all.sort_by(|a, b| b.slower_lower.unwrap_or(0.0).total_cmp(&a.slower_lower.unwrap_or(0.0)));
    all
}

/// `256K or 1M`; of many the first and a count.
fn alternatives(options: &[&OptionResult]) -> String {
    let labels: Vec<String> = options.iter().map(|option| option.label.clone()).collect();
    match labels.len() {
        0..=NAMED_MAX => phrase::join(&labels, "or"),
        many => format!("{} or {} others", labels[0], many - 1),
    }
}

/// Longer lists of names are counted instead.
const NAMES_WIDTH_MAX: usize = 32;

/// `16K to 1M` where at least three options follow each other in the plan, else their names, else how many of how many.
pub fn listed(test: &Test, options: &[&OptionResult]) -> String {
    let place = |option: &&OptionResult| test.options.iter().position(|other| other.id == option.id).unwrap_or(0);
    let mut places: Vec<usize> = options.iter().map(place).collect();
    places.sort_unstable();
    let follows = places.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let is_one_size = test.varied.len() == 1
        && options.iter().all(|own| own.settings.iter().all(|(_, level)| level.number().is_some()));
    match options {
        [_, _, _, ..] if follows && is_one_size => {
            format!("{} to {}", test.options[places[0]].label, test.options[places[places.len() - 1]].label)
        }
        few => {
            let names = phrase::join(&few.iter().map(|option| option.label.clone()).collect::<Vec<_>>(), "and");
            match few.len() {
                1 => names,
                2..=NAMED_MAX if chars(&names) <= NAMES_WIDTH_MAX => names,
                many => format!("{many} of {}", counted(test.options.len(), "option")),
            }
        }
    }
}

/// The rates of the options that a claim names, without their unit.
fn rates(results: &Results, test: &Test) -> String {
    let named = match &test.claim {
        Claim::Invalid { .. } => test.options.iter().filter(|option| option.rate.is_some()).collect(),
        _ => test.named(),
    };
    if test.compares == Compares::Cpu {
        return String::new();
    }
    let (divisor, _) = test.rate_scale(results.tests);
    let each = named.iter().filter_map(|option| option.rate);
    let Some((least, most)) = each.clone().reduce(f64::min).zip(each.reduce(f64::max)) else { return "–".into() };
    if test.unit == "runs/s" {
        let [least, most] = [1e9 / most, 1e9 / least].map(time);
        return if least == most { least } else { format!("{least}–{most}") };
    }
    let [least, most] = [least, most].map(|rate| significant(rate / divisor, 2));
    if least == most { least } else { format!("{least}–{most}") }
}

/// Why a decision is certain, or what may still be.
fn why(results: &Results, test: &Test) -> String {
    let named = test.named();
    match &test.claim {
        Claim::Use { .. } if carries_alone(test) => "the only one that carries the offered load".into(),
        Claim::Use { at_most: upper, options } if *upper <= NOTHING && options.len() == 1 => match test.compares {
            Compares::Time => "the fastest".into(),
            Compares::Cpu => "the least CPU time".into(),
        },
        Claim::Use { at_most: upper, .. } => format!("at most {}", than_the_best(test.compares, *upper)),
        Claim::FreeChoice { apart, .. } => match named.as_slice() {
            [_] if *apart <= test.margin => "only a caution is against it".into(),
            [_] => format!("at most {}", than_the_best(test.compares, *apart)),
            _ => format!("{}: at most {} apart", listed(test, &named), at_most(*apart)),
        },
        Claim::OnlyCertain { .. } | Claim::Undecided { .. } => {
            format!("{} may be the best", listed(test, &named))
        }
        Claim::Invalid { reason } => invalid(results, test, *reason),
    }
}

/// `5 % slower than the best`.
fn than_the_best(compares: Compares, share: f64) -> String {
    match compares {
        Compares::Time => format!("{} slower than the best", at_most(share)),
        Compares::Cpu => format!("{} more CPU time than the best", at_most(share)),
    }
}

/// Whether all other options that were measured missed a load.
fn carries_alone(test: &Test) -> bool {
    let others = || test.options.iter().filter(|option| option.trials > 0 && option.status != OptionStatus::Use);
    others().next().is_some() && others().all(|option| option.harm.contains(&HarmKind::MissedLoad))
}

fn invalid(results: &Results, test: &Test, reason: InvalidReason) -> String {
    match reason {
        InvalidReason::NothingMeasured => {
            let missed = lowest_missed(results.cells_of(&test.id));
            match (missed, test.options.iter().find_map(|option| option.reason.clone())) {
                (Some((ns, knee)), _) => {
                    let (objective, percentile) = (phrase::objective(&knee.slo), knee.percentile);
                    format!("no option kept {objective} (lowest {percentile}: {})", Nanos(ns))
                }
                (None, Some(reason)) => format!("nothing was measured: {}", reason.trim_end_matches('.')),
                (None, None) => "nothing was measured".into(),
            }
        }
        InvalidReason::OneOption => {
            let only = test.options.iter().find(|option| option.trials > 0);
            let only = only.map_or_else(String::new, |only| format!("{} only: ", only.label));
            format!("{only}nothing to compare it with")
        }
        InvalidReason::ControlDiffers => "the same option, measured twice, differs significantly".into(),
        InvalidReason::NotYet => "the first analysis is not reached".into(),
        InvalidReason::Interrupted => {
            let look = results.group(&test.id).and_then(|group| group.look.as_ref());
            let blocks = look.and_then(|look| Some(format!(", after {} of {} blocks", look.so_far, look.next_blocks?)));
            let over = results.plan.budget_ns.filter(|given_ns| results.elapsed_ns >= Some(*given_ns));
            let over = over.map(|given_ns| format!(", when its {} were over", Nanos(given_ns)));
            let [blocks, over] = [blocks, over].map(Option::unwrap_or_default);
            format!("the session stopped before its first analysis{blocks}{over}")
        }
        InvalidReason::FewBlocks => "too few trials for an interval".into(),
        InvalidReason::TrialsFailed => {
            let stopped = test.options.iter().filter(|option| option.trials > 0 && option.reason.is_some());
            let stopped: Vec<String> = stopped.map(|option| option.label.clone()).collect();
            format!("measuring stopped for {}, whose trials kept failing", phrase::join(&stopped, "and"))
        }
        InvalidReason::ExternalServer => {
            "a fixed rate compares CPU time, and that of an external server is not visible (leave out --rate)".into()
        }
        InvalidReason::Harmful => {
            let fastest = test.options.iter().filter(|option| harm::is_avoided(&option.harm));
            let fastest = fastest.max_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
            let harm = fastest.map(|option| format!(": {}, {}", option.label, harmed(results, option)));
            format!("each option that may be the best is harmful{}", harm.unwrap_or_default())
        }
    }
}

/// The result of a session in a sentence that one can quote.
pub fn sentence(results: &Results) -> String {
    if let Some(versus) = &results.versus {
        return of_two(results, versus);
    }
    match results.tests {
        [] => "Nothing was planned.".into(),
        [test] => of_program(results, test).unwrap_or_else(|| of_test(results, test)),
        tests => of_tests(results, tests),
    }
}

/// The sentences of one test.
fn of_test(results: &Results, test: &Test) -> String {
    let named = test.named();
    let why = why(results, test);
    let first = match &test.claim {
        Claim::Use { .. } => match test.searched().map(|slo| phrase::objective(&slo)) {
            Some(objective) => {
                let rate = kept_rate(results, test, named[0]);
                format!("Use {}: {objective} up to {rate}, {why}.", alternatives(&named))
            }
            None => format!("Use {}: {why}.", alternatives(&named)),
        },
        Claim::FreeChoice { .. } if named.len() > 1 => {
            let names = listed(test, &named);
            format!("{names} may be the best, {}.", why.trim_start_matches(&format!("{names}: ")))
        }
        Claim::FreeChoice { .. } => format!("{} may be the best: {why}.", named[0].label),
        Claim::OnlyCertain { .. } => format!("Undecided: {why}."),
        Claim::Undecided { .. } => format!("Undecided: {why}; nothing is ruled out."),
        Claim::Invalid { reason: InvalidReason::NothingMeasured } => format!("{}.", capital(&why)),
        Claim::Invalid { .. } => format!("No result: {why}."),
    };
    match avoided(test).first().map(|worst| is_slower(results, test, worst)) {
        Some(worst) => format!("{first} {worst}."),
        None => first,
    }
}

/// The rate at which all calls together keep an objective; the median of the searches where none is known.
fn kept_rate(results: &Results, test: &Test, option: &OptionResult) -> String {
    let knee = results.cell(&option.id).and_then(|cell| cell.call.as_ref()?.knee.as_ref());
    let overall = knee.and_then(|knee| knee.overall_per_second);
    rate_with_unit(results, test, &OptionResult { rate: overall.or(option.rate), ..option.clone() })
}

/// `41 k calls/s`.
pub fn rate_with_unit(results: &Results, test: &Test, option: &OptionResult) -> String {
    let Some(rate) = option.rate.filter(|rate| *rate > 0.0) else { return "an unknown rate".into() };
    if test.unit == "runs/s" {
        return format!("{} a run", time(1e9 / rate));
    }
    let (divisor, unit) = test.rate_scale(results.tests);
    format!("{} {unit}", significant(rate / divisor, 3))
}

/// `4K takes at least 2.1× the time`, or its harm.
fn is_slower(results: &Results, test: &Test, option: &OptionResult) -> String {
    match option.slower_lower.filter(|lower| *lower > 0.0) {
        Some(lower) => format!("{} {}", option.label, takes(test.compares, lower, lower >= 1.0)),
        None => format!("Avoid {}: {}", option.label, harmed(results, option)),
    }
}

/// `takes at least 36 % longer`, `takes at least 2.1× the time`.
fn takes(compares: Compares, lower: f64, as_times: bool) -> String {
    match (compares, as_times) {
        (Compares::Time, true) => format!("takes at least {}× the time", times_at_least(lower)),
        (Compares::Time, false) => format!("takes at least {} longer", at_least(lower)),
        (Compares::Cpu, true) => format!("uses at least {}× the CPU time", times_at_least(lower)),
        (Compares::Cpu, false) => format!("uses at least {} more CPU time", at_least(lower)),
    }
}

/// The first harm of an option: `71.6 % of the datagrams lost`.
pub fn harmed(results: &Results, option: &OptionResult) -> String {
    let Some(cell) = results.cell(&option.id) else { return "harmful".into() };
    let of = |share: Option<f64>, text: &str| match share {
        Some(share) => format!("{} of the {text}", percent(share)),
        None => text.to_owned(),
    };
    match option.harm.first() {
        Some(HarmKind::LostDatagrams) => of(cell.harm.lost_share, "datagrams lost"),
        Some(HarmKind::FailedCalls) => of(cell.harm.failed_share, "calls failed"),
        Some(HarmKind::StarvedClients) => of(cell.harm.starved_share, "clients without an answer"),
        Some(HarmKind::ListenOverflows) => "listener's queue full".into(),
        Some(HarmKind::TimeOuts) => "time-outs of TCP".into(),
        Some(HarmKind::MissedLoad) => of(harm::carried_share(cell), "offered load carried"),
        Some(HarmKind::Stalled) => "trials without data".into(),
        Some(HarmKind::CutDatagrams) => "datagrams cut off".into(),
        Some(HarmKind::CopiedSends) | None => "harmful".into(),
    }
}

/// The strongest statement about several tests: the option that is surely slower in most of them, by most.
fn of_tests(results: &Results, tests: &[Test]) -> String {
    let mut known: Vec<(&str, Vec<(f64, &Test)>)> = Vec::new();
    for test in tests {
        for option in test.with(OptionStatus::Avoid) {
            let Some(lower) = option.slower_lower.filter(|lower| *lower > test.margin) else { continue };
            match known.iter_mut().find(|(label, _)| *label == option.label) {
                Some((_, places)) => places.push((lower, test)),
                None => known.push((&option.label, vec![(lower, test)])),
            }
        }
    }
    let worst = |places: &[(f64, &Test)]| places.iter().map(|(lower, _)| *lower).fold(0.0, f64::max);
    let most = known.into_iter().max_by(|a, b| a.1.len().cmp(&b.1.len()).then(worst(&a.1).total_cmp(&worst(&b.1))));
    if let Some((label, mut places)) = most {
        places.sort_by(|a, b| b.0.total_cmp(&a.0));
        let as_times = worst(&places) >= 1.0;
        let amount = |lower: f64| if as_times { format!("{}×", times_at_least(lower)) } else { at_least(lower) };
        let (first, test) = places[0];
        let rest =
            places.iter().take(PLACES_MAX).skip(1).map(|(lower, test)| format!(", {} ({})", amount(*lower), test.name));
        let rest: String = rest.collect();
        return format!("{label} {} ({}){rest}.", takes(test.compares, first, as_times), test.name);
    }
    if let Some(test) = tests.iter().find(|test| test.is_decided()) {
        return format!("{}: use {}, {}.", capital(&test.name), set(results, test), why(results, test));
    }
    match tests.iter().any(Test::is_compared) {
        true => "Nothing is certain yet: in each test several options may be the best.".into(),
        false => format!("No result. {}: {}.", capital(&tests[0].name), why(results, &tests[0])),
    }
}

/// The gain of a program over its present value.
fn of_program(results: &Results, test: &Test) -> Option<String> {
    let check = results.check.as_ref()?;
    let gain: &GainView = check.gains.iter().find(|gain| gain.group == test.id)?;
    let (lower, upper) = (gain.lower?, gain.upper?);
    let now = present(results, test)?;
    let own = test.option(gain.cell.as_ref()?)?;
    if own.id == now.id || lower <= 0.0 {
        let bound = match upper.max(0.0) {
            upper if upper < BOUND_MAX => format!(", and none by more than {}", at_most(upper)),
            _ => String::new(),
        };
        return Some(format!("Keep {}: no value is surely faster{bound}.", now.label));
    }
    let [then, before] = [own, now].map(|option| amount(results, test, option));
    let verb = if test.unit == "runs/s" { "a run takes" } else { "it reaches" };
    let range = times_range(lower, upper);
    let level = percent(results.plan.level);
    let (own, now, is_best) = (&own.label, &now.label, test.is_decided());
    let gain = format!("{then} instead of {before}. That is {range} times as fast, with {level} confidence.");
    Some(match is_best {
        true => format!("Use {own}, not {now}: {verb} {gain}"),
        false => format!("{own} is faster than {now}: {verb} {gain} Another value may be faster still."),
    })
}

/// `4.98 to 5.45`: how many times as fast.
fn times_range(lower: f64, upper: f64) -> String {
    ShareScale { multiples: true }.interval(lower, upper).replace('×', "").replace('–', " to ")
}

fn amount(results: &Results, test: &Test, option: &OptionResult) -> String {
    rate_with_unit(results, test, option).trim_end_matches(" a run").to_owned()
}

/// `SLOWER  B takes 63 to 77 % longer than A (pairs, 95 %); 2 % is allowed.`
fn of_two(results: &Results, versus: &VersusView) -> String {
    for (name, side) in [("A", &versus.a), ("B", &versus.b)] {
        if side.trials == 0 {
            let why = side.reason.clone().unwrap_or_else(|| "the session ended before".into());
            return format!("NOT COMPARED  {name} was not measured: {}.", why.trim_end_matches('.'));
        }
    }
    let word = match versus.difference.verdict {
        Verdict::Worse => "SLOWER",
        Verdict::Better => "FASTER",
        Verdict::Equivalent => "NOT SLOWER",
        Verdict::Open => "UNDECIDED",
    };
    let sure = format!("(pairs, {}); {} is allowed", percent(results.plan.level), percent(versus.margin));
    let why = versus.why_open.as_ref().map_or_else(String::new, |why| format!(" But {why}."));
    match versus.difference.lower.zip(versus.difference.upper) {
        Some((lower, upper)) => format!("{word}  {} {sure}.{why}", longer(versus.cost, lower, upper)),
        None => format!("{word}  {}.", versus.why_open.as_deref().unwrap_or("no block is complete")),
    }
}

/// `B takes 63 to 77 % longer than A`, or `39 to 43 % less time than A`. A difference is a share of the time of the faster one.
fn longer(cost: VersusCost, lower: f64, upper: f64) -> String {
    let scale = ShareScale::of([lower]);
    let (verb, what) = match cost {
        VersusCost::Time => ("takes", "time"),
        VersusCost::CpuTime => ("uses", "CPU time"),
        VersusCost::Events => ("has", "events"),
    };
    if scale.multiples {
        return format!("B {verb} {} the {what} of A", scale.interval(lower, upper));
    }
    if cost == VersusCost::Time && ShareScale::of([-upper]).multiples {
        return format!("B is {} times as fast as A", times_range(-upper, -lower));
    }
    let less = |share: f64| share / (1.0 + share);
    let range = match (lower > 0.0, upper < 0.0) {
        (true, _) => scale.interval(lower, upper).replace('–', " to "),
        (_, true) => format!("{} less {what}", scale.interval(less(-upper), less(-lower)).replace('–', " to ")),
        _ => scale.signed_interval(lower, upper).replacen(" %", "", 1),
    };
    match cost {
        _ if upper < 0.0 => format!("B {verb} {range} than A"),
        VersusCost::Time => format!("B takes {range} longer than A"),
        _ => format!("B {verb} {range} more {what} than A"),
    }
}
