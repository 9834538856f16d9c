//! Decides the result of a test, in this order: the state of each option by its interval and by what is against it; options without
//! an interval, which were dropped or are harmful; the present value of a program, or else the recommendation, as the option to use;
//! the changes of a program that help over loopback alone; the claim.

use bytegauge_bottleneck::OFFERED_SHARE;
use bytegauge_model::{CellId, Cost, SessionStatus, Spec, Stage};
use bytegauge_stats::decision_rule::{self, ClaimKind, OptionState, state};

use super::{Claim, InvalidReason, OptionResult, OptionStatus, Test};
use crate::view::calls::waiting;
use crate::view::estimate::rate_of_all;
use crate::view::groups::is_control_wide;
use crate::view::numbers::{
    AuditFinding, AuditView, CellOutcome, CellView, ChangeEffect, ChangeView, GroupView, HarmKind, View,
};
use crate::view::tune::has_value;
use crate::view::{self, bottleneck_inputs};
use crate::words::{change_label, option_label, phrase};

/// The results of all tests, in the order of the plan, under these names: a title, and a short name for each.
pub fn tests(view: &View, names: Vec<(String, String)>) -> Vec<Test> {
    view.groups.iter().zip(names).map(|(group, names)| test(view, group, names)).collect()
}

fn test(view: &View, group: &GroupView, (title, name): (String, String)) -> Test {
    let cells: Vec<&CellView> = view.candidates_of(&group.id).collect();
    let mut options: Vec<OptionResult> = cells.iter().map(|cell| option(view, group, cell)).collect();
    settle_dropped(&mut options, is_analysed(view, group), group.compares);
    let used = used(view, group, &options);
    if let Some(at) = used {
        options[at].status = OptionStatus::Use;
    } else if options.iter().any(|option| helps_over_loopback(view, &option.id)) {
        // It speaks against nothing but what is worse than the program as it is.
        let is_worse =
            |option: &OptionResult| change(view, &option.id).is_some_and(|one| one.effect == ChangeEffect::Worse);
        let avoided = options.iter_mut().filter(|one| one.status == OptionStatus::Avoid && one.harm.is_empty());
        avoided.filter(|one| !is_worse(one)).for_each(|option| option.status = OptionStatus::Undecided);
    }
    Test {
        id: group.id.clone(),
        title,
        name,
        environment: group.factors.clone(),
        compares: group.compares,
        unit: cells.first().map_or("bytes/s", |cell| cell.estimate.unit),
        margin: view.plan.margin,
        claim: claim(view, group, &options, used),
        varied: group.varied.clone(),
        control_upper: group.twin_reach,
        blocks: group.blocks.used,
        recommended: used.map(|at| options[at].id.clone()),
        options,
    }
}

/// Options without an interval: dropped where others have one, else undecided. Harm counts where another option has none.
fn settle_dropped(options: &mut [OptionResult], intervals: bool, compares: Cost) {
    // Without a percentile an option made too few calls for one.
    let drops = intervals && matches!(compares, Cost::Time | Cost::Cpu | Cost::Latency);
    let any_interval = drops && options.iter().any(|option| option.slower_upper.is_some());
    let measured = |option: &&OptionResult| option.trials > 0;
    let any_harmless = options.iter().filter(measured).any(|option| !is_avoided(&option.harm));
    for option in options.iter_mut().filter(|option| option.trials > 0 && option.status == OptionStatus::Undecided) {
        // One that stopped later has the reason.
        let is_dropped = any_interval && option.slower_upper.is_none() && option.reason.is_none();
        if any_harmless && is_avoided(&option.harm) {
            option.status = OptionStatus::Avoid;
        } else if is_dropped {
            option.status = OptionStatus::Dropped;
        }
    }
}

/// The option with the present value of a user's program.
pub fn present<'a>(view: &View, options: &'a [OptionResult]) -> Option<&'a OptionResult> {
    let default = view.tune.as_ref()?.default.as_ref()?;
    options.iter().find(|option| view.cell(&option.id).is_some_and(|cell| has_value(cell, default)))
}

/// The option with the present value of a program (`--now`), where no other one is significantly better: a change needs a reason.
/// `None` where one is better, where none has an interval, and without a present value.
fn present_value<'a>(view: &View, group: &GroupView, options: &'a [OptionResult]) -> Option<&'a OptionResult> {
    let gain = view.tune.as_ref()?.gains.iter().find(|gain| gain.group == group.id)?;
    let own = present(view, options)?;
    let is_open = matches!(own.status, OptionStatus::AsGood | OptionStatus::Undecided);
    let is_beaten = gain.lower.is_some_and(|lower| lower > 0.0);
    (own.slower_upper.is_some_and(f64::is_finite) && is_open && !is_beaten).then_some(own)
}

/// The place of the option to use among those within the margin: the present value of a program, else the recommended one, else the one
/// that can lose least.
fn used(view: &View, group: &GroupView, options: &[OptionResult]) -> Option<usize> {
    let good = || options.iter().enumerate().filter(|(_, option)| option.status == OptionStatus::AsGood);
    let present = present_value(view, group, options);
    let is = |id: Option<&CellId>| good().find(|(_, option)| Some(&option.id) == id).map(|(at, _)| at);
    let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
    if view.changes().is_some() {
        let is_best = |option: &OptionResult| change(view, &option.id).is_some_and(|one| one.is_best);
        // Only one that helps over loopback alone is better.
        let best = options.iter().position(|option| is_best(option) && upper(option).is_finite());
        return best.or_else(|| is(present.map(|option| &option.id)));
    }
    is(present.map(|option| &option.id))
        .or_else(|| is(group.recommendation.cell.as_ref()))
        .or_else(|| good().min_by(|a, b| upper(a.1).total_cmp(&upper(b.1))).map(|(at, _)| at))
}

fn claim(view: &View, group: &GroupView, all: &[OptionResult], used: Option<usize>) -> Claim {
    if let Some(reason) = invalid(view, group, all) {
        return Claim::Invalid { reason };
    }
    let upper = |option: &OptionResult| option.slower_upper.unwrap_or(f64::INFINITY);
    // One that stopped has no interval, and its reason.
    let options = || all.iter().filter(|option| option.reason.is_none() || option.slower_upper.is_some());
    let with = |status: OptionStatus| options().filter(move |option| option.status == status);
    let ids = |found: Vec<&OptionResult>| found.into_iter().map(|option| option.id.clone()).collect::<Vec<_>>();
    if let Some(at) = used {
        let good: Vec<&OptionResult> = [&all[at]].into_iter().chain(with(OptionStatus::AsGood)).collect();
        let at_most = good.iter().map(|option| upper(option)).fold(0.0, f64::max);
        return Claim::Use { at_most, options: ids(good) };
    }
    let state = |option: &OptionResult| match option.status {
        OptionStatus::Avoid => Some((OptionState::Avoid, upper(option))),
        OptionStatus::Undecided => Some((OptionState::Undecided, upper(option))),
        _ => None,
    };
    let states: Vec<(OptionState, f64)> = options().filter_map(state).collect();
    let open = ids(with(OptionStatus::Undecided).collect());
    match decision_rule::claim(&states, view.plan.margin) {
        None | Some(ClaimKind::Use) => Claim::Invalid { reason: InvalidReason::Harmful },
        Some(ClaimKind::FreeChoice(apart)) => Claim::FreeChoice { options: open, apart },
        Some(ClaimKind::OnlyCertain) => Claim::OnlyCertain { options: open },
        Some(ClaimKind::Undecided) => Claim::Undecided { options: open },
    }
}

fn invalid(view: &View, group: &GroupView, options: &[OptionResult]) -> Option<InvalidReason> {
    let measured = options.iter().filter(|option| option.trials > 0);
    let is_external =
        || options.iter().any(|own| own.settings.connect().is_some()) || group.factors.connect().is_some();
    let has_interval = options.iter().any(|option| option.slower_upper.is_some());
    Some(match measured.count() {
        0 => InvalidReason::NothingMeasured,
        1 => InvalidReason::OneOption,
        _ if has_interval => return None,
        _ if group.compares == Cost::Cpu && is_external() => InvalidReason::ExternalServer,
        _ if view.status == SessionStatus::Running => InvalidReason::NotYet,
        _ if view.status == SessionStatus::Incomplete => InvalidReason::Interrupted,
        _ if options.iter().any(|option| option.trials > 0 && option.reason.is_some()) => InvalidReason::TrialsFailed,
        _ => InvalidReason::FewBlocks,
    })
}

/// Whether the first analysis of a test is reached; before it, blocks are counted and not judged: a session may have been stopped because
/// of what they showed.
pub fn is_analysed(view: &View, group: &GroupView) -> bool {
    let unfinished = matches!(view.status, SessionStatus::Incomplete | SessionStatus::Running);
    group.analysis.as_ref().map_or(!unfinished, |analysis| analysis.done > 0)
}

fn option(view: &View, group: &GroupView, cell: &CellView) -> OptionResult {
    let harm = if cell.trials > 0 { harms(cell) } else { Vec::new() };
    let again = group.twin.as_ref().and_then(|twin| twin.exchanged_bound).filter(|_| exchange_fails(group, cell));
    let is_confirmed = cell.stage == Some(Stage::Confirm) && is_analysed(view, group);
    let upper = cell.above_best_upper.filter(|_| is_confirmed).map(|upper| upper.max(again.unwrap_or(0.0)).max(0.0));
    let lower = upper.and(cell.above_best_lower).map(|lower| lower.max(0.0));
    let settings: Spec = group.varied.iter().map(|name| (name.as_str(), cell.level(name))).collect();
    OptionResult {
        id: cell.id.clone(),
        label: label(view, group, cell),
        settings,
        status: match (cell.outcome, upper) {
            (CellOutcome::Failed, _) => OptionStatus::Failed,
            (CellOutcome::Skipped, _) => OptionStatus::Skipped,
            (_, Some(upper)) => {
                let doubted = !harm.is_empty() || is_doubtful(view, group, cell);
                match state(lower.unwrap_or(0.0), upper, doubted, view.plan.margin) {
                    OptionState::Good => OptionStatus::AsGood,
                    OptionState::Undecided => OptionStatus::Undecided,
                    OptionState::Avoid => OptionStatus::Avoid,
                }
            }
            _ => OptionStatus::Undecided,
        },
        rate: rate_of_all(cell, view.plan.margin).or(cell.estimate.median),
        trials: cell.trials,
        slower_lower: lower,
        slower_upper: upper,
        harm,
        reason: cell.reason.clone(),
    }
}

/// The change of a program that an option is.
fn change<'a>(view: &'a View, cell: &CellId) -> Option<&'a ChangeView> {
    view.changes()?.changes.iter().find(|one| one.cell == *cell)
}

/// Whether an option is a change of a program that helps over loopback alone.
fn helps_over_loopback(view: &View, cell: &CellId) -> bool {
    change(view, cell).is_some_and(ChangeView::helps_over_loopback)
}

/// Whether something is against an option whose interval is within the margin.
fn is_doubtful(view: &View, group: &GroupView, cell: &CellView) -> bool {
    exchange_fails(group, cell)
        || control_is_wide(view, group, Some(&cell.id))
        || group.spoken_against.contains(&cell.id)
        || helps_over_loopback(view, &cell.id)
        || contradict(view, group, cell)
}

/// Whether long trials contradict an option: those of its test, or those of the session together.
fn contradict(view: &View, group: &GroupView, cell: &CellView) -> bool {
    let all_lose = view.audit.is_some_and(|all| all.finding == AuditFinding::Contradicts);
    let loses = |audit: &AuditView| audit.choice == cell.id && (audit.finding == AuditFinding::Contradicts || all_lose);
    group.audit.as_ref().is_some_and(loses)
}

/// Whether the recommended option is outside of the margin with the A/A control in the place of the option that it repeats. Its
/// interval reaches as far then.
fn exchange_fails(group: &GroupView, cell: &CellView) -> bool {
    group.recommendation.cell.as_ref() == Some(&cell.id) && group.recommendation.survives_exchange == Some(false)
}

/// Whether the same option measured twice differs by more than the margin: no result is more precise, unless no other option is
/// near `own`.
pub fn control_is_wide(view: &View, group: &GroupView, own: Option<&CellId>) -> bool {
    let is_other = |cell: &&CellView| own.is_some_and(|own| cell.id != *own);
    let others = view.candidates_of(&group.id).filter(is_other).filter(|cell| cell.above_best_upper.is_some());
    let slower: Vec<f64> = others.map(|cell| cell.above_best_lower.unwrap_or(0.0)).collect();
    is_control_wide(group.twin_reach, view.plan.margin, &slower)
}

/// The name of a side, where two are compared.
fn side_of(view: &View, cell: &CellView) -> Option<&'static str> {
    let versus = view.versus.as_ref()?;
    [("A", &versus.a), ("B", &versus.b)].into_iter().find(|(_, side)| side.cell == cell.id).map(|(name, _)| name)
}

/// The name of an option: of a side where two are compared, of what it changes in a program, or of the levels that differ.
fn label(view: &View, group: &GroupView, cell: &CellView) -> String {
    if let Some(side) = side_of(view, cell) {
        return side.to_owned();
    }
    if let (Some(changes), Some(value)) = (view.socket_changes(), cell.level("value").name()) {
        return change_label(changes, value);
    }
    let own = option_label(&group.varied, &cell.factors);
    match (own.is_empty(), cell.label.is_empty()) {
        (false, _) => own,
        _ if cell.factors.has_relay() => {
            format!("relay {}", phrase::compact("relay", &cell.level("relay")))
        }
        (true, false) => cell.label.clone(),
        (true, true) => "the only option".into(),
    }
}

/// Whether a test has its answer: the option to use; of changes of a program whether each makes a difference.
pub fn is_answered(view: &View, test: &Test) -> bool {
    match view.changes() {
        Some(changes) => {
            let own = changes.changes.iter().filter(|change| test.option(&change.cell).is_some());
            test.is_compared() && !own.into_iter().any(ChangeView::is_open)
        }
        None => test.is_decided(),
    }
}

// Harm that a rate does not show: stalls, a load that was not carried, and what `view::counters` finds by comparing the
// options of a test. An option with such harm never counts as best.

/// Shares of failures or cut datagrams below this one are not reported where all options have them.
const NOTICED: f64 = 0.01;

/// From this share of calls that wait for a delayed acknowledgement on, most of the time is waiting.
const DELAYED_MIN: f64 = 0.5;

/// The harm of an option.
fn harms(cell: &CellView) -> Vec<HarmKind> {
    let failed = cell.call.as_ref().and_then(|call| call.failed_share);
    let found = [
        cell.stalls.then_some(HarmKind::Stalled),
        cell.behind.map(|_| HarmKind::MissedLoad),
        (harm_share(cell, HarmKind::DelayedAcks) >= Some(DELAYED_MIN)).then_some(HarmKind::DelayedAcks),
        (failed >= Some(NOTICED)).then_some(HarmKind::FailedCalls),
        (harm_share(cell, HarmKind::CutDatagrams) >= Some(NOTICED)).then_some(HarmKind::CutDatagrams),
    ];
    let mut all: Vec<HarmKind> = found.into_iter().flatten().collect();
    all.extend(&cell.harmful);
    all.sort_unstable();
    all.dedup();
    all
}

/// The share of an offered load that an option carried, where it left more of it than it may.
pub fn carried_share(cell: &CellView) -> Option<f64> {
    let share = bottleneck_inputs::carried_share(cell.total_rate, cell.estimate.median, &cell.factors);
    share.filter(|share| *share < OFFERED_SHARE)
}

/// Whether users suffer from harm. Copies cost the time that is measured, and loopback always copies: another path may not.
pub fn is_avoided(harm: &[HarmKind]) -> bool {
    harm.iter().any(|kind| *kind != HarmKind::CopiedSends)
}

/// The share of the trials, the load, the calls or the datagrams of an option that harm of this kind affects; `None` where it cannot.
pub fn harm_share(cell: &CellView, kind: HarmKind) -> Option<f64> {
    match kind {
        HarmKind::Stalled => cell.stalled.map(|stalled| stalled.trials as f64 / stalled.of.max(1) as f64),
        HarmKind::MissedLoad => cell.behind,
        HarmKind::DelayedAcks => Some(waiting(cell.call.as_ref()?, &cell.counters)?.slow_share),
        HarmKind::CutDatagrams => {
            cell.datagrams.as_ref().map(|seen| seen.truncated as f64 / seen.arrived.max(1) as f64)
        }
        compared => view::counters::compared_share(&cell.harm, compared),
    }
}
