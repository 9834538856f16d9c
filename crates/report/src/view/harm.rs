//! Harm that a rate does not show: clients without an answer, overflows of a listener's queue, time-outs of TCP, failed calls, lost
//! datagrams, and zero-copy sends that were copied.
//!
//! An option with more harm than another one of its test is never recommended for its rate. The options of a test are compared
//! with each other, since harm that all of them have is no reason to choose one. Computes no intervals: the thresholds are
//! shares that a user would notice.

use bytegauge_model::{EndRole, EngineReport, LossShare, Spec, Trial, Workload};
use bytegauge_stats::call_times::{ObservedCalls, observed};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::ratio;

use super::calls::listen_overflows;
use super::counted_trials::Settled;
use super::numbers::{HarmKind, HarmView};

/// A kind of harm, how it is read, and by how much it must exceed the least of the test.
struct HarmRule {
    kind: HarmKind,
    read: fn(&HarmView) -> Option<f64>,
    noticed: f64,
}

const RULES: &[HarmRule] = &[
    HarmRule { kind: HarmKind::StarvedClients, read: |harm| harm.starved_share, noticed: 0.02 },
    HarmRule { kind: HarmKind::ListenOverflows, read: |harm| harm.overflow_share, noticed: 0.001 },
    HarmRule { kind: HarmKind::TimeOuts, read: |harm| harm.timeout_share, noticed: 0.001 },
    HarmRule { kind: HarmKind::FailedCalls, read: |harm| harm.failed_share, noticed: 0.002 },
    HarmRule { kind: HarmKind::LostDatagrams, read: |harm| harm.lost_share, noticed: 0.005 },
    HarmRule { kind: HarmKind::CopiedSends, read: |harm| harm.copied_share, noticed: 0.5 },
];

/// A call is starved when it takes this many times the median, and at least the measured time of a trial. If the times of calls
/// are exponentially distributed, 1.6 % of them (2^-6) take so long, which is less than what counts.
const STARVED_TIMES: u64 = 6;

/// The harm of one option.
pub fn harm(settled: &Settled) -> HarmView {
    let trials = settled.trials.as_slice();
    let calls = trials.iter().filter_map(|trial| trial.client());
    let (begun, failed) = calls.fold((0u64, 0u64), |(begun, failed), report| {
        let errors = report.errors.iter().map(|error| error.count).fold(0, u64::saturating_add);
        (begun.saturating_add(report.begun), failed.saturating_add(errors))
    });
    let observed: Vec<(u64, ObservedCalls)> =
        trials.iter().filter_map(|trial| Some((trial.wall_ns, observed(trial.client()?)?))).collect();
    let engines = || trials.iter().flat_map(|trial| sending_engines(trial));
    let zero_copy: u64 = engines().map(|engine| engine.zero_copy).sum();
    let copied: u64 = engines().map(|engine| engine.zero_copy_copied).sum();
    HarmView {
        starved_share: starved(&settled.cell.factors, &observed),
        overflow_share: listen_overflows(settled).filter(|_| begun > 0).and_then(|times| ratio(times, begun)),
        timeout_share: timeouts(settled),
        failed_share: ratio(failed, begun.max(failed)),
        lost_share: super::counters::datagrams(settled).and_then(|seen| seen.lost_share),
        copied_share: ratio(copied, zero_copy),
        longest_ns: observed.iter().map(|(_, observed)| observed.longest_ns).max(),
    }
}

fn sending_engines(trial: &Trial) -> impl Iterator<Item = &EngineReport> {
    let roles = [EndRole::Source, EndRole::Client, EndRole::Server];
    roles.into_iter().filter_map(|role| trial.end(role)?.engine.as_deref())
}

/// Time-outs of TCP for each call, the median of the trials: the kernel counts those of all connections of this host, and other
/// programs have theirs in some trials only. An emulated link that loses packets causes time-outs by chance.
fn timeouts(settled: &Settled) -> Option<f64> {
    if settled.cell.factors.link_loss().is_some_and(|loss| loss > LossShare(0)) {
        return None;
    }
    let share = |trial: &&Trial| ratio(trial.machine.as_ref()?.timeouts.get()?, trial.client()?.begun);
    median(&settled.trials.iter().filter_map(share).collect::<Vec<f64>>())
}

/// The share of the clients whose call lasted through a whole trial. Where the plan fixes the rate, a client may have no call.
fn starved(levels: &Spec, trials: &[(u64, ObservedCalls)]) -> Option<f64> {
    let closed = levels.workload() == Workload::Call && levels.offered_rate().is_none() && levels.slo().is_none();
    let clients = levels.flows().unwrap_or(1).saturating_mul(levels.depth().unwrap_or(1));
    if !closed || trials.is_empty() {
        return None;
    }
    let share = |(wall_ns, observed): &(u64, ObservedCalls)| {
        let least_ns = (*wall_ns).max(observed.median_ns.saturating_mul(STARVED_TIMES));
        let starved: u64 = observed.left.iter().filter(|(age_ns, _)| *age_ns >= least_ns).map(|(_, count)| count).sum();
        (starved as f64 / clients.max(1) as f64).min(1.0)
    };
    Some(trials.iter().map(share).sum::<f64>() / trials.len() as f64)
}

/// The number of parts of the trials that must all show a kind of harm.
const PARTS: usize = 3;

/// The kinds of harm of each option of a test in which it exceeds another one: in all trials, and in each third of them. What happens
/// in one moment of a busy machine is no property of an option.
pub fn lasting(options: &[&Settled]) -> Vec<Vec<HarmKind>> {
    let found = |part: usize, parts: usize| {
        found(&options.iter().map(|settled| harm(&settled.part(part, parts))).collect::<Vec<_>>())
    };
    let mut kinds = found(0, 1);
    for seen in (0..PARTS).map(|part| found(part, PARTS)) {
        kinds.iter_mut().zip(seen).for_each(|(kinds, seen)| kinds.retain(|kind| seen.contains(kind)));
    }
    kinds
}

/// The harm of a kind that is compared between options.
pub fn share(harm: &HarmView, kind: HarmKind) -> Option<f64> {
    (RULES.iter().find(|rule| rule.kind == kind)?.read)(harm)
}

/// The kinds of harm of which each option has noticeably more than another one. An option for which something was not counted has none
/// of it.
fn found(options: &[HarmView]) -> Vec<Vec<HarmKind>> {
    let least = |rule: &HarmRule| options.iter().map(|harm| (rule.read)(harm).unwrap_or(0.0)).reduce(f64::min);
    let bounds: Vec<f64> = RULES.iter().map(|rule| least(rule).unwrap_or(0.0) + rule.noticed).collect();
    let of = |own: &HarmView| {
        let exceeds = |(rule, bound): &(&HarmRule, &f64)| (rule.read)(own).is_some_and(|share| share >= **bound);
        RULES.iter().zip(&bounds).filter(exceeds).map(|(rule, _)| rule.kind).collect()
    };
    options.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &[HarmView], expected: &[&[HarmKind]]) {
        assert_eq!(found(options), expected);
    }

    #[test]
    fn harm_counts_where_options_differ() {
        let lost = |share| HarmView { lost_share: Some(share), ..HarmView::default() };
        check(&[lost(0.016), lost(0.0)], &[&[HarmKind::LostDatagrams], &[]]);
        check(&[lost(0.93), lost(0.929)], &[&[], &[]]);
        let starved = |share, overflows| HarmView {
            starved_share: Some(share),
            overflow_share: Some(overflows),
            ..HarmView::default()
        };
        let both = [HarmKind::StarvedClients, HarmKind::ListenOverflows];
        check(&[starved(0.3, 0.004), starved(0.0, 0.0)], &[&both, &[]]);
        check(&[starved(0.01, 0.0004), starved(0.0, 0.0)], &[&[], &[]]);
    }

    #[test]
    fn copied_sends_count_as_harm() {
        let copied = HarmView { copied_share: Some(0.99), ..HarmView::default() };
        check(&[copied, HarmView::default()], &[&[HarmKind::CopiedSends], &[]]);
        check(&[copied, copied], &[&[], &[]]);
    }

    #[test]
    fn client_without_an_answer_is_starved() {
        let mut levels = Spec::of(Workload::Call);
        levels.set("flows", bytegauge_model::Level::Number(200));
        let trial = |left: Vec<(u64, u64)>, median_ns| {
            (100_000_000, ObservedCalls { median_ns, longest_ns: 130_000_000, left })
        };
        let check = |trials: &[(u64, ObservedCalls)], expected| assert_eq!(starved(&levels, trials), expected);
        check(&[trial(vec![(4_000_000, 129), (120_000_000, 71)], 4_000_000)], Some(71.0 / 200.0));
        check(&[trial(vec![(4_000_000, 200)], 4_000_000), trial(vec![(120_000_000, 20)], 4_000_000)], Some(0.05));
        // Calls that usually take as long as a trial show nothing.
        check(&[trial(vec![(120_000_000, 71)], 90_000_000)], Some(0.0));
        check(&[], None);
        levels.set("call_rate", bytegauge_model::Level::Number(1000));
        assert_eq!(starved(&levels, &[trial(vec![(120_000_000, 71)], 4_000_000)]), None);
    }
}
