//! What to set in each test, and how certain it is.

use bytegauge_model::unit::significant;
use bytegauge_model::{Cost, GroupId, Nanos};
use schemars::JsonSchema;
use serde::Serialize;

use super::Results;
use super::finding_texts::harm_of;
use crate::findings::LOST_MUCH;
use crate::results::{Claim, InvalidReason, OptionResult, OptionStatus, Test, is_avoided, present};
use crate::view::calls::lowest_missed;
use crate::view::numbers::{CellView, ChangeView, HarmKind};
use crate::words::fit::text_width;
use crate::words::interval_rounding::{NOTHING, at_most, percent};
use crate::words::number::time;
use crate::words::{cost_words, phrase};

/// The name of a percentile for people, and that of its estimate.
type Percentile = (&'static str, &'static str);

/// The mean of the delays of urgent messages, which is compared, and their percentiles.
pub const PERCENTILES: &[Percentile] = &[
    ("urgent mean", "urgent_mean_ns"),
    ("urgent p50", "urgent_p50_ns"),
    ("urgent p90", "urgent_p90_ns"),
    ("urgent p99", "urgent_p99_ns"),
];

/// The mean and the percentiles of calls, which are what an option costs where the load is fixed.
const OF_CALLS: &[Percentile] =
    &[("mean time", "total_mean_ns"), ("p50", "total_p50_ns"), ("p90", "total_p90_ns"), ("p99", "total_p99_ns")];

/// The percentile of the pauses between the parts of a reply.
const OF_GAPS: &[Percentile] = &[("gap p99", "gap_p99_ns")];

/// More options than this are counted instead of named.
const NAMED_MAX: usize = 3;

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
    /// Why, or what is open: `at most 5 % slower than the best`, `undecided: 64K to 1M`.
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
        why: match is_open(test) {
            // That these may be the best is in the heading of the table.
            true => format!("undecided: {}", why(results, test, "")),
            false => why(results, test, ""),
        },
    }
}

/// Whether several options may be the best.
fn is_open(test: &Test) -> bool {
    !test.is_decided() && !matches!(test.claim, Claim::Invalid { .. })
}

/// What to set.
pub fn set(results: &Results, test: &Test) -> String {
    let named = test.named();
    match &test.claim {
        Claim::Use { .. } => alternatives(&named),
        Claim::Invalid { .. } => "–".into(),
        _ => {
            let changes = results.tune.iter().filter_map(|tune| tune.changes.as_ref()).flat_map(|all| &all.changes);
            // Where nothing else helps, the program is kept as it is.
            let mut own = changes.filter(|change| test.option(&change.cell).is_some());
            let is_kept = own.any(ChangeView::helps_over_loopback);
            let is_named = |now: &&OptionResult| is_kept || named.iter().any(|option| option.id == now.id);
            if let Some(now) = present(results, &test.options).filter(is_named) {
                return format!("keep {}", now.label);
            }
            match avoided(test).as_slice() {
                // The present value may be one that was far behind.
                [] if test.with(OptionStatus::Dropped).next().is_some() => "–".into(),
                [] => "keep yours".into(),
                [one] => format!("not {}", one.label),
                [one, two] if text_width(&one.label) + text_width(&two.label) <= NAMES_WIDTH_MAX / 2 => {
                    format!("not {} or {}", one.label, two.label)
                }
                [first, others @ ..] => format!("not {}, {} more", first.label, others.len()),
            }
        }
    }
}

/// The options to avoid, the worst first.
pub fn avoided(test: &Test) -> Vec<&OptionResult> {
    let mut all: Vec<&OptionResult> = test.with(OptionStatus::Avoid).collect();
    all.sort_by(|a, b| b.slower_lower.unwrap_or(0.0).total_cmp(&a.slower_lower.unwrap_or(0.0)));
    all
}

/// `256K or 1M`; of many the first and a count.
pub fn alternatives(options: &[&OptionResult]) -> String {
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
                2..=NAMED_MAX if text_width(&names) <= NAMES_WIDTH_MAX => names,
                many => format!("{many} of {}", test.options.len()),
            }
        }
    }
}

/// The rates of the options that a claim names, without their unit.
fn rates(results: &Results, test: &Test) -> String {
    let named = shown(test);
    if test.compares != Cost::Time {
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

/// The options that a claim names; without one those that were measured.
fn shown(test: &Test) -> Vec<&OptionResult> {
    match &test.claim {
        Claim::Invalid { .. } => test.options.iter().filter(|option| option.rate.is_some()).collect(),
        _ => test.named(),
    }
}

/// Why a decision is certain, or what may still be; and with the options that it names how long urgent messages wait, or how long
/// calls take at a fixed load.
/// `may_be` follows the options of which nothing more is known.
pub fn why(results: &Results, test: &Test, may_be: &str) -> String {
    let named = shown(test);
    let delay = delay(results, test, &named).map_or_else(String::new, |delay| format!("; {delay}"));
    reason(results, test, &named, may_be) + &delay + &lost(results, &named)
}

/// `; 104K: 73 % of the datagrams lost`: the most of the options that are named, where it is much.
fn lost(results: &Results, named: &[&OptionResult]) -> String {
    let share = |option: &&OptionResult| Some((results.cell(&option.id)?.harm.lost_share?, option.label.clone()));
    let most = named.iter().filter_map(share).max_by(|a, b| a.0.total_cmp(&b.0));
    most.filter(|(share, _)| *share >= LOST_MUCH).map_or_else(String::new, |(share, label)| {
        let owner = if named.len() > 1 { format!("{label}: ") } else { String::new() };
        format!("; {owner}{} of the datagrams lost", percent(share))
    })
}

/// `urgent p99 62 ms, 22 ms with 16K`: of the options that are named, and of the one with the shortest delay.
fn delay(results: &Results, test: &Test, named: &[&OptionResult]) -> Option<String> {
    let is_alone = matches!(test.claim, Claim::Invalid { reason: InvalidReason::OneOption });
    // At full load the percentiles of calls are mostly waiting.
    let is_loaded = || test.environment.offers_load() || test.environment.load_flows().is_some_and(|flows| flows > 0);
    let of_calls = match test.compares {
        Cost::GapP99 => OF_GAPS,
        Cost::Time if !(is_alone && is_loaded()) => &[],
        _ => OF_CALLS,
    };
    let options = test.options.iter().filter_map(|option| results.cell(&option.id));
    let measured: Vec<&CellView> = options.filter(|cell| cell.trials > 0).collect();
    // The highest percentile that is known of all options that were measured.
    let is_known = |name| !measured.is_empty() && measured.iter().all(|cell| cell.median(name).is_some());
    let known = |of: &[Percentile]| of.iter().rev().copied().find(|(_, name)| is_known(name));
    let (heading, name) = [PERCENTILES, of_calls].into_iter().find_map(known)?;
    let of = |option: &OptionResult| Some((results.cell(&option.id)?.median(name)?, option.label.clone()));
    let own = || named.iter().filter_map(|option| Some(of(option)?.0));
    let (least, most) = (own().reduce(f64::min)?, own().reduce(f64::max)?);
    let (other, label) = test.options.iter().filter_map(of).min_by(|a, b| a.0.total_cmp(&b.0))?;
    let range = if least < most { format!("{} to {}", time(least), time(most)) } else { time(most) };
    let other = if other < least { format!(", {} with {label}", time(other)) } else { String::new() };
    Some(format!("{heading} {range}{other}"))
}

fn reason(results: &Results, test: &Test, named: &[&OptionResult], may_be: &str) -> String {
    match &test.claim {
        Claim::Use { .. } if carries_alone(test) => "the only one that carries the offered load".into(),
        Claim::Use { at_most: upper, options } if *upper <= NOTHING && options.len() == 1 => {
            cost_words(test.compares).least.into()
        }
        Claim::Use { at_most: upper, .. } => format!("at most {}", than_the_best(test.compares, *upper)),
        Claim::FreeChoice { apart, .. } => match named {
            [one] if *apart <= test.margin => format!("{}, only a caution is against it", one.label),
            [one] => format!("{}, at most {}", one.label, than_the_best(test.compares, *apart)),
            _ => format!("{} within {}", listed(test, named), at_most(*apart)),
        },
        Claim::OnlyCertain { .. } | Claim::Undecided { .. } => {
            format!("{}{may_be}", listed(test, named))
        }
        Claim::Invalid { reason } => invalid(results, test, *reason),
    }
}

/// `5 % slower than the best`.
fn than_the_best(compares: Cost, share: f64) -> String {
    format!("{} {}", at_most(share), cost_words(compares).above)
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
                    let (objective, percentile) = (phrase::objective(&knee.slo), knee.objective.percentile);
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
        InvalidReason::NotYet => "the first analysis is not reached".into(),
        InvalidReason::Interrupted => {
            let analysis = results.group(&test.id).and_then(|group| group.analysis.as_ref());
            let blocks = analysis
                .and_then(|analysis| Some(format!(", after {} of {} blocks", analysis.so_far, analysis.next_blocks?)));
            format!("the session stopped before its first analysis{}", blocks.unwrap_or_default())
        }
        InvalidReason::FewBlocks if matches!(test.compares, Cost::P99 | Cost::GapP99) => {
            "trials are too short for a p99, which takes 100 values in each (--trial-time 2s)".into()
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
            let fastest = test.options.iter().filter(|option| is_avoided(&option.harm));
            let fastest = fastest.max_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
            let harm = fastest.map(|option| format!(": {}, {}", option.label, harm_of(results, option)));
            format!("each option that may be the best is harmful{}", harm.unwrap_or_default())
        }
    }
}
