//! The result of a session in a sentence that one can quote: of one test or several, of a program, of two sides.

use bytegauge_model::Cost;
use bytegauge_model::factor::{self, Factor, HelpSection, Role};
use bytegauge_model::unit::{counted, significant};

use super::Results;
use super::decision::{alternatives, avoided, set, why};
use super::finding_texts::harm_of;
use crate::results::{Claim, InvalidReason, OptionResult, OptionStatus, Test, present};
use crate::view::numbers::difference::of_time;
use crate::view::numbers::{ChangeView, ChangesView, GainView, HarmKind, Verdict, VersusCost, VersusView, promising};
use crate::words::cost_words;
use crate::words::interval_rounding::{BOUND_MAX, ShareScale, at_least, at_most, percent, reversed};
use crate::words::number::{time, times_at_least};
use crate::words::phrase::{self, capital};

/// More places than this of one option are not in the sentence.
const PLACES_MAX: usize = 2;

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

/// Begins what is not certain.
const UNDECIDED: &str = "Undecided: ";

/// What a sentence states of options that are undecided.
const MAY_BE: &str = " may be the best";

/// The sentences of one test.
fn of_test(results: &Results, test: &Test) -> String {
    let named = test.named();
    let why = why(results, test, MAY_BE);
    let first = match &test.claim {
        Claim::Use { .. } => match test.searched().map(|slo| phrase::objective(&slo)) {
            Some(objective) => {
                let rate = kept_rate(results, test, named[0]);
                format!("Use {}: {objective} up to {rate}, {why}.", alternatives(&named))
            }
            None if is_of_loads(test) => format!("{}: {why}.", capital(&alternatives(&named))),
            None => format!("Use {}: {why}.", alternatives(&named)),
        },
        Claim::FreeChoice { .. } if named.len() > 1 => format!("{UNDECIDED}{why}."),
        Claim::FreeChoice { .. } => {
            let label = &named[0].label;
            let rest = why.strip_prefix(label.as_str()).map_or(why.as_str(), |rest| rest.trim_start_matches(", "));
            format!("{label} may be the best: {rest}.")
        }
        Claim::OnlyCertain { .. } => format!("{UNDECIDED}{why}."),
        Claim::Undecided { .. } => format!("{UNDECIDED}{why}; nothing is ruled out."),
        Claim::Invalid { reason: InvalidReason::NothingMeasured } => format!("{}.", capital(&why)),
        Claim::Invalid { .. } => format!("No result: {why}."),
    };
    // What is certain leads, unless there is an option to use.
    match avoided(test).first().map(|worst| is_slower(results, test, worst)) {
        Some(worst) if first.starts_with(UNDECIDED) => format!("{worst}. {first}"),
        Some(worst) => format!("{first} {worst}."),
        None => first,
    }
}

/// Whether its options are loads: nothing that one sets.
fn is_of_loads(test: &Test) -> bool {
    let is_load = |row: &Factor| row.section == HelpSection::Load && row.role == Role::Condition;
    !test.varied.is_empty() && test.varied.iter().all(|name| factor::find(name).is_some_and(is_load))
}

/// The rate at which all calls together keep an objective; the median of the searches where none is known.
fn kept_rate(results: &Results, test: &Test, option: &OptionResult) -> String {
    let knee = results.cell(&option.id).and_then(|cell| cell.call.as_ref()?.knee.as_ref());
    let overall = knee.and_then(|knee| knee.overall_per_second);
    rate_with_unit(results, test, &OptionResult { rate: overall.or(option.rate), ..option.clone() })
}

/// `41 k calls/s`.
fn rate_with_unit(results: &Results, test: &Test, option: &OptionResult) -> String {
    let Some(rate) = option.rate.filter(|rate| *rate > 0.0) else { return "an unknown rate".into() };
    if let Some(of) = time_of_a_run(test) {
        return format!("{}{of} a run", time(1e9 / rate));
    }
    let (divisor, unit) = test.rate_scale(results.tests);
    format!("{} {unit}", significant(rate / divisor, 3))
}

/// What follows the time of a run, where rates are runs.
fn time_of_a_run(test: &Test) -> Option<&'static str> {
    match test.unit {
        "runs/s" => Some(""),
        "runs/CPU s" => Some(" of CPU time"),
        _ => None,
    }
}

/// `4K takes at least 2.1× the time`, or its harm.
fn is_slower(results: &Results, test: &Test, option: &OptionResult) -> String {
    // Lost data is more than lost time. A wait has its time.
    let loses = option.harm.iter().any(|kind| !matches!(kind, HarmKind::DelayedAcks | HarmKind::CopiedSends));
    match option.slower_lower.filter(|lower| *lower > 0.0 && !loses) {
        Some(lower) => format!("{} {}", option.label, takes(test.compares, lower, lower >= 1.0)),
        None => {
            let kind = option.harm.first();
            let others =
                avoided(test).iter().filter(|other| other.id != option.id && other.harm.first() == kind).count();
            let others = if others > 0 { format!(" and {}", counted(others, "other")) } else { String::new() };
            let up_to = if others.is_empty() { "" } else { "up to " };
            format!("Avoid {}{others}: {up_to}{}", option.label, harm_of(results, option))
        }
    }
}

/// `takes at least 36 % longer`, `takes at least 2.1× the time`.
fn takes(compares: Cost, lower: f64, as_times: bool) -> String {
    let words = cost_words(compares);
    match as_times {
        true => words.has_times.replace("{}", &format!("{}×", times_at_least(lower))),
        false => words.has_more.replace("{}", &at_least(lower)),
    }
}

/// The strongest statement about several tests: the option that is surely slower in most of them, by most.
fn of_tests(results: &Results, tests: &[Test]) -> String {
    let avoided = tests.iter().flat_map(|test| test.with(OptionStatus::Avoid).map(move |option| (option, test)));
    let known = phrase::grouped(avoided.filter_map(|(option, test)| {
        let lower = option.slower_lower.filter(|lower| *lower > test.margin)?;
        Some((&option.label, (lower, test)))
    }));
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
        return format!("{}: use {}, {}.", capital(&test.name), set(results, test), why(results, test, MAY_BE));
    }
    match tests.iter().any(Test::is_compared) {
        true => "Nothing is certain yet: in each test several options may be the best.".into(),
        false => format!("No result. {}: {}.", capital(&tests[0].name), why(results, &tests[0], MAY_BE)),
    }
}

/// The gain of a program over its present value.
fn of_program(results: &Results, test: &Test) -> Option<String> {
    let tune = results.tune.as_ref()?;
    if let Some(changes) = &tune.changes {
        return of_changes(results, changes, test);
    }
    let gain: &GainView = tune.gains.iter().find(|gain| gain.group == test.id)?;
    let (lower, upper) = (gain.lower?, gain.upper?);
    let now = present(results, &test.options)?;
    let own = test.option(gain.cell.as_ref()?)?;
    let used = test.used();
    if own.id == now.id || lower <= 0.0 {
        // Another value than the recommended one may be faster, or be used.
        let is_kept = used.is_none_or(|used| used.id == now.id) && now.slower_lower.is_none_or(|lower| lower <= 0.0);
        let bound = match now.slower_upper.unwrap_or(f64::INFINITY) {
            upper if upper < BOUND_MAX => format!(", and none by more than {}", at_most(upper)),
            _ => String::new(),
        };
        return is_kept.then(|| format!("Keep {}: no value is surely faster{bound}.", now.label));
    }
    let gain = gain_of(results, test, [own, now], (lower, upper));
    let (own, now, is_best) = (&own.label, &now.label, used.is_some_and(|used| used.id == own.id));
    Some(match is_best {
        true => format!("Use {own}, not {now}: {gain}"),
        false => format!("{own} is faster than {now}: {gain} Another value may be faster still."),
    })
}

/// `a run takes 220 ms instead of 1.08 s. That is 3.16 to 7.33 times as fast, with 95 % confidence.`
fn gain_of(results: &Results, test: &Test, options: [&OptionResult; 2], (lower, upper): (f64, f64)) -> String {
    let [then, before] =
        options.map(|option| rate_with_unit(results, test, option).trim_end_matches(" a run").to_owned());
    let verb = if time_of_a_run(test).is_some() { "a run takes" } else { "it reaches" };
    let (range, level) = (times_range(lower, upper), percent(results.plan.level));
    format!("{verb} {then} instead of {before}. That is {range} times as fast, with {level} confidence.")
}

/// The same for a program whose options were changed; `None` where no change has an interval.
fn of_changes(results: &Results, changes: &ChangesView, test: &Test) -> Option<String> {
    let own = || changes.changes.iter().filter(|change| test.option(&change.cell).is_some());
    own().find(|change| change.upper.is_some())?;
    let now = present(results, &test.options)?;
    let Some(best) = own().find(|change| change.is_best) else {
        if let Some(open) = promising(own()).and_then(|open| test.option(&open.cell)) {
            return Some(format!("Undecided: {} may help, but runs differ too much to be certain.", open.label));
        }
        let why = match own().any(ChangeView::helps_over_loopback) {
            true => "what helps was only shown over loopback",
            false => "no change is shown to help",
        };
        return Some(format!("Keep the program {}: {why}.", now.label));
    };
    let (option, share, lower, upper) = (test.option(&best.cell)?, best.change?, best.lower?, best.upper?);
    let removes = changes.task.as_ref().is_some_and(|task| task.only_removes(&best.value));
    let first = format!("{} {}", if removes { "Run it" } else { "Use" }, option.label);
    if changes.cost != VersusCost::Time {
        let scale = ShareScale::of([share, lower, upper]);
        let (range, level) = (scale.signed_interval(lower, upper), percent(results.plan.level));
        return Some(format!("{first}: {} {} ({range}, {level}).", changes.cost.noun(), scale.signed(share)));
    }
    let gain = gain_of(results, test, [option, now], (reversed(upper), reversed(lower)));
    Some(format!("{first}: {gain}"))
}

/// `4.98 to 5.45`: how many times as fast.
fn times_range(lower: f64, upper: f64) -> String {
    ShareScale { multiples: true }.interval(lower, upper).replace('×', "").replace('–', " to ")
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
    let what = cost.noun();
    let verb = match cost {
        VersusCost::Time => "takes",
        VersusCost::CpuTime => "uses",
        _ => "has",
    };
    if scale.multiples {
        return format!("B {verb} {} the {what} of A", scale.interval(lower, upper));
    }
    if cost == VersusCost::Time && ShareScale::of([-upper]).multiples {
        return format!("B is {} times as fast as A", times_range(-upper, -lower));
    }
    let less = |share: f64| -reversed(share);
    let range = match (lower > 0.0, upper < 0.0) {
        (true, _) => scale.interval(lower, upper).replace('–', " to "),
        (_, true) => format!("{} less {what}", scale.interval(less(-upper), less(-lower)).replace('–', " to ")),
        _ => scale.signed_interval(of_time(lower), upper).replacen(" %", "", 1),
    };
    match cost {
        _ if upper < 0.0 => format!("B {verb} {range} than A"),
        VersusCost::Time => format!("B takes {range} longer than A"),
        _ => format!("B {verb} {range} more {what} than A"),
    }
}
