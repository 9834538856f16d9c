//! When each fact is a finding.

use bytegauge_model::option::{self, BeyondLoopback, OptionRow};
use bytegauge_model::session::NoteKind;
use bytegauge_model::{CellId, ProgramRole, SessionStatus, Spec, Transport};
use bytegauge_stats::block_dependence::MIN_BLOCKS;
use bytegauge_stats::noise_grade::{OTHER_LOAD_DISTURBED_CPUS, STEAL_DISTURBED};

use super::{Fact, Finding, LongTrials, NoiseCause, Severity};
use crate::results::{self, OptionResult, OptionStatus, Test, carried_share, harm_share};
use crate::view::calls::OPEN;
use crate::view::estimate::rate_of_all;
use crate::view::numbers::{
    AdviceView, AuditFinding, CellView, GroupView, HarmKind, SPEEDS_APART, SPEEDS_SHARE, SlowTrials, Verdict, View,
};
use crate::view::tune::has_value;

/// An option of which this share of the trials failed is no safe recommendation.
const FAILED_OFTEN: f64 = 0.1;
/// The cost of the harness is reported from this share of the shortest call on.
const HARNESS_NOTICED: f64 = 0.01;
/// Other programs below this many CPUs are not reported.
const OTHERS_NOTICED: f64 = 0.05;
/// Clients that begin calls later than this share of the reported value are reported.
const LATE_MUCH: f64 = 0.1;
/// Starting a program is a noticeable part of shorter runs, nanoseconds.
const RUN_SHORT_NS: f64 = 20e6;
/// A thread of a server with fewer than this many times its fair share of the calls is not reported.
const UNEVEN: f64 = 1.25;
/// From this share of lost datagrams on, loss is reported even where other options lose as many.
pub const LOST_MUCH: f64 = 0.05;
/// Harm that is reported from this share on where all options have it. From one call in a hundred on, waits for delayed
/// acknowledgements set the 99th percentile.
const SHARED_HARM: [(HarmKind, f64); 3] =
    [(HarmKind::LostDatagrams, LOST_MUCH), (HarmKind::DelayedAcks, 0.01), (HarmKind::CopiedSends, 0.01)];

/// Every finding of a session by itself.
pub fn findings(view: &View, tests: &[Test]) -> Vec<Finding> {
    let mut all: Vec<Finding> =
        view.groups.iter().zip(tests).flat_map(|(group, test)| of_test(view, group, test)).collect();
    all.extend(of_long_trials(view));
    all.extend(session_wide(view));
    all
}

fn warning(fact: Fact) -> Finding {
    Finding::new(fact, Severity::Warning)
}

/// A fact that is a caution in some cases, and a note in others.
fn caution_if(is_caution: bool, fact: Fact) -> Finding {
    Finding::new(fact, if is_caution { Severity::Warning } else { Severity::Note })
}

fn noise(cause: NoiseCause, amount: f64, of: Option<f64>) -> Fact {
    Fact::Noise { cause, amount, of }
}

/// Limitations of the results of one test.
fn of_test(view: &View, group: &GroupView, test: &Test) -> Vec<Finding> {
    let is_analysed = results::is_analysed(view, group);
    let cells: Vec<&CellView> = view.candidates_of(&group.id).collect();
    let mut all: Vec<Finding> = control(view, group, test).filter(|_| is_analysed).into_iter().collect();
    all.extend(without_effect(view, group, &cells));
    all.extend(overloaded(&cells));
    let longer = group.p99_ratios.iter().filter(|ratio| ratio.times_lower > 1.0).map(|ratio| {
        let fact = Fact::LongerTail { times_lower: ratio.times_lower, times_upper: ratio.times_upper };
        warning(fact).of_option(&ratio.other).with_other(Some(&ratio.option))
    });
    all.extend(longer);
    for cell in &cells {
        all.extend(of_option(view, group, test, cell));
    }
    all.extend(named_beyond_loopback(view, group, test));
    // Fewer blocks cannot be tested.
    let is_tested = is_analysed && group.blocks.used >= MIN_BLOCKS;
    if is_tested && group.serial.as_ref().is_some_and(|serial| !serial.independent) {
        all.push(warning(noise(NoiseCause::DependentBlocks, 0.0, None)));
    }
    all.extend(advice(view, group, test));
    all.into_iter().map(|finding| finding.of_test(&group.id)).collect()
}

/// No option carried the offered load.
fn overloaded(cells: &[&CellView]) -> Option<Finding> {
    let measured = cells.iter().filter(|cell| cell.trials > 0);
    let carried: Option<Vec<f64>> = measured.map(|cell| carried_share(cell)).collect();
    let share = carried?.into_iter().reduce(f64::max)?;
    Some(warning(Fact::Harm { harm: HarmKind::MissedLoad, share }))
}

/// Compared options of sockets that cannot have an effect on this path.
fn without_effect(view: &View, group: &GroupView, cells: &[&CellView]) -> Vec<Finding> {
    let specs: Vec<&Spec> = cells.iter().filter(|cell| cell.trials > 0).map(|cell| &cell.factors).collect();
    let of_row = |row: &OptionRow| {
        let compared = || specs.iter().filter(|spec| option::asked(spec, row).is_some());
        let why = compared().next().and_then(|spec| (row.no_effect)(spec))?;
        let everywhere = compared().all(|spec| (row.no_effect)(spec).is_some());
        everywhere.then(|| warning(Fact::NoEffect { factor: row.factor.to_owned(), why: why.to_owned() }))
    };
    let varied = option::OPTIONS.iter().filter(|row| group.varied.iter().any(|name| name == row.factor));
    if view.status == SessionStatus::Imported { Vec::new() } else { varied.filter_map(of_row).collect() }
}

/// The result of the A/A control: one option measured twice in every block.
fn control(view: &View, group: &GroupView, test: &Test) -> Option<Finding> {
    let twin = group.twin.as_ref()?;
    let verdict = view.versus.as_ref().map(|versus| versus.difference.verdict);
    let is_open = verdict.is_none_or(|verdict| verdict == Verdict::Open);
    let widened = group.twin_reach.filter(|reach| twin.alarm && *reach > view.plan.margin);
    if let Some(widened) = widened {
        return Some(warning(Fact::ControlDiffers { widened }).of_option(&twin.cell));
    }
    // The interval of two decides by itself: a wide control is a reason only where it does not.
    let own = test.safest().map(|option| &option.id);
    (is_open && results::control_is_wide(view, group, own))
        .then(|| warning(noise(NoiseCause::Control, group.twin_reach.unwrap_or(0.0), None)).of_option(&twin.cell))
}

/// Harm and unsteady rates of one option.
fn of_option(view: &View, group: &GroupView, test: &Test, cell: &CellView) -> Vec<Finding> {
    let Some(option) = test.option(&cell.id).filter(|option| option.trials > 0) else { return Vec::new() };
    let mut all: Vec<Finding> = option.harm.iter().map(|kind| warning(harmed(*kind, cell))).collect();
    // An option that is surely slower is no candidate: most facts about it are no caution.
    let may_be_best = option.status != OptionStatus::Avoid && option.status != OptionStatus::Dropped;
    // Harm that all options have is no reason to choose one, and still harm.
    let is_shared = |(kind, noticed): &(HarmKind, f64)| {
        !option.harm.contains(kind) && harm_share(cell, *kind).is_some_and(|share| share >= *noticed)
    };
    let shared = SHARED_HARM.into_iter().filter(is_shared);
    all.extend(shared.map(|(kind, _)| caution_if(may_be_best, harmed(kind, cell))));
    if group.spoken_against.contains(&cell.id) && may_be_best {
        all.push(caution_if(false, noise(NoiseCause::MeansDisagree, 0.0, None)));
    }
    let drops = &cell.counters.tcp_drops;
    // A few in a session change no median.
    let are_many = drops.values().sum::<u64>() >= cell.trials as u64;
    all.extend((!drops.is_empty()).then(|| caution_if(are_many, Fact::TcpDrops { counts: drops.clone() })));
    let (failed, tried) = (cell.failed_trials, cell.trials + cell.failed_trials);
    if failed > 0 {
        let is_often = failed as f64 >= FAILED_OFTEN * tried as f64 && may_be_best;
        all.push(caution_if(is_often, Fact::FailedTrials { trials: failed, of: tried, why: cell.failure.clone() }));
    }
    all.extend(speeds(view, cell, may_be_best));
    let workers = cell.call.as_ref().and_then(|call| call.workers);
    let uneven = workers.filter(|workers| workers.most_share >= UNEVEN * workers.fair_share);
    all.extend(uneven.map(|workers| caution_if(may_be_best, Fact::UnevenWorkers { workers })));
    all.into_iter().map(|finding| finding.of_option(&cell.id)).collect()
}

fn harmed(kind: HarmKind, cell: &CellView) -> Fact {
    Fact::Harm { harm: kind, share: harm_share(cell, kind).unwrap_or(0.0) }
}

/// The share of the trials that ran slower than the others, or an average that is far from the median.
fn speeds(view: &View, cell: &CellView, may_be_best: bool) -> Option<Finding> {
    if let Some(SlowTrials { share: slow_share, least: times_least, most: times_most }) = cell.slow_trials() {
        let fact = Fact::SeveralSpeeds { slow_share, times_least, times_most };
        let matters = slow_share > SPEEDS_SHARE && may_be_best;
        return Some(caution_if(matters, fact));
    }
    let (median, all) = cell.estimate.median.zip(rate_of_all(cell, view.plan.margin))?;
    let is_far = median > all * SPEEDS_APART && may_be_best;
    let times = median / all;
    is_far.then(|| warning(Fact::SeveralSpeeds { slow_share: 0.0, times_least: times, times_most: times }))
}

/// Settings of which loopback shows little, where options were compared that have one.
fn named_beyond_loopback(view: &View, group: &GroupView, test: &Test) -> Vec<Finding> {
    // Without a difference over loopback there may be one on a network.
    let compared = || test.options.iter().filter(|own| own.slower_upper.is_some() || own.status == OptionStatus::Avoid);
    let is_concerned = |name: &&String| {
        let concerns = beyond_loopback(&group.factors, name).map(|known| known.concerns);
        concerns.is_some_and(|concerns| compared().any(|option| concerns(&option.settings.get(name))))
    };
    let factors = group.varied.iter().filter(is_concerned).filter(|_| view.status != SessionStatus::Imported);
    // An undecided test that is about it alone is read as "no difference".
    let is_read = test.used().is_some() || group.varied.len() == 1;
    factors.map(|factor| caution_if(is_read, Fact::BeyondLoopback { factor: factor.clone() })).collect()
}

/// Whether the loopback interface was used in place of a network.
pub fn is_loopback(spec: &Spec) -> bool {
    // A condition that only an import has tells where it was measured, which was not the loopback interface of this machine.
    spec.is_over_loopback() && spec.iter().all(|(name, _)| bytegauge_model::factor::find(name).is_some())
}

/// How the recommendations of an earlier session did in a user's program.
fn advice(view: &View, group: &GroupView, test: &Test) -> Vec<Finding> {
    let all = view.tune.iter().flat_map(|tune| &tune.advice).filter(|advice| advice.group == group.id);
    let of = |advice: &AdviceView| {
        let is_own = |option: &&OptionResult| view.cell(&option.id).is_some_and(|cell| has_value(cell, &advice.value));
        let option = test.options.iter().find(is_own)?;
        // The better one of two shows nothing about the best of all.
        let is_alone = test.options.iter().filter(|option| option.slower_upper.is_some()).count() <= 2;
        let held = match option.status {
            OptionStatus::Use | OptionStatus::AsGood if !is_alone => Some(true),
            OptionStatus::Avoid => Some(false),
            _ => None,
        };
        let (lower, upper) = (option.slower_lower, option.slower_upper);
        let fact = Fact::Advice { session: advice.session, test: advice.question.clone(), held, lower, upper };
        Some(warning(fact).of_option(&option.id))
    };
    all.filter_map(of).collect()
}

/// Findings about the whole session.
fn session_wide(view: &View) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    let candidates = || view.candidates();
    let sum = |of: fn(&CellView) -> usize| candidates().map(of).sum::<usize>() as f64;
    let (hit, trials) = (sum(|cell| cell.stolen_trials), sum(|cell| cell.trials));
    let others = view.environment.foreign_cpus.filter(|cpus| *cpus >= OTHERS_NOTICED);
    let is_busy = others.is_some_and(|cpus| cpus > OTHER_LOAD_DISTURBED_CPUS);
    if let Some(cpus) = others {
        let allowed = view.environment.allowed_cpus().map(|cpus| cpus as f64);
        all.push(caution_if(is_busy, noise(NoiseCause::OtherPrograms, cpus, allowed)));
    }
    if hit > 0.0 {
        // One cause is enough for the screen: the one that a user can end.
        let is_noticed = !is_busy && view.environment.steal_share.is_none_or(|share| share > STEAL_DISTURBED);
        all.push(caution_if(is_noticed, noise(NoiseCause::Steal, hit, Some(trials))));
    }
    if let Some(us) = view.environment.throttled_us.filter(|us| *us > 0) {
        all.push(warning(noise(NoiseCause::Throttled, us as f64 / 1e6, None)));
    }
    let late = candidates().filter_map(|cell| Some((cell, late(cell)?)));
    let latest = late.max_by(|(_, a), (_, b)| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    all.extend(latest.map(|(cell, (late_ns, of_ns))| {
        let fact = noise(NoiseCause::LateClients, late_ns, Some(of_ns));
        warning(fact).of_test(&cell.group).of_option(&cell.id)
    }));
    if let Some(share) = view.floor.share.filter(|share| *share >= HARNESS_NOTICED) {
        all.push(warning(noise(NoiseCause::Harness, share, None)));
    }
    all.extend(view.notes.iter().filter_map(|stored| match &stored.kind {
        NoteKind::Reduced(kept) => Some(warning(Fact::Reduced { kept: kept.clone() })),
        NoteKind::End | NoteKind::Other => None,
    }));
    if let Some(tune) = &view.tune {
        let runs = |runs: usize, killed| (runs > 0).then(|| warning(Fact::ProcessesLeft { runs, killed }));
        all.extend(runs(tune.left_behind, false));
        all.extend(runs(tune.stopped_by_force, true));
        let runs_ns = || candidates().filter_map(|cell| cell.median("ns_per_run"));
        // Next to a long run, the start of a short one hides nothing.
        let all_short = tune.includes_start && runs_ns().all(|ns| ns < RUN_SHORT_NS);
        let short = runs_ns().reduce(f64::min).filter(|_| all_short);
        all.extend(short.map(|run_ns| warning(Fact::ShortRuns { run_ns })));
    }
    all
}

/// How late clients began calls, and the value that this distorts: the latency of an open loop at the same percentile, or the pause of
/// a closed one; nanoseconds. `None` where it is little of that value.
fn late(cell: &CellView) -> Option<(f64, f64)> {
    let is_open = cell.call.as_ref()?.timing == OPEN;
    let pause_ns = cell.factors.think_time().map(|ns| ns as f64).filter(|_| !is_open);
    let at = [("late_p50_ns", "total_p50_ns"), ("late_p99_ns", "total_p99_ns")];
    let known = at.into_iter().filter_map(|(late, total)| {
        let of_ns = if is_open { cell.median(total)? } else { pause_ns? };
        Some((cell.median(late)?, of_ns)).filter(|(late_ns, of_ns)| *late_ns > LATE_MUCH * of_ns)
    });
    known.max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
}

/// Whether a size is that of the other end, which is not the user's program.
pub fn is_peers_size(conditions: &Spec, factor: &str) -> bool {
    matches!(
        (conditions.role(), factor),
        (Some(ProgramRole::Reader), "write_size") | (Some(ProgramRole::Writer), "read_size")
    )
}

/// What a setting does beyond loopback, where TCP over the loopback interface was used in place of a network.
pub fn beyond_loopback(spec: &Spec, factor: &str) -> Option<BeyondLoopback> {
    let over_tcp = spec.transport().is_some_and(Transport::is_tcp) && is_loopback(spec);
    option::of_factor(factor).filter(|_| over_tcp)?.beyond_loopback
}

// The results of the long-trial check.

/// One finding for each test that was checked, and one for those that were not.
fn of_long_trials(view: &View) -> Vec<Finding> {
    let window_s = view.audit.map_or(0.0, |all| all.window_ns as f64 / 1e9);
    let fact = |result, lower, upper| Fact::LongTrials { result, window_s, lower, upper };
    let of_test = |group: &GroupView| {
        let audit = group.audit.as_ref()?;
        let better = audit.rivals.iter().find(|rival| audit.better.as_ref() == Some(&rival.cell));
        let (result, severity) = match audit.finding {
            AuditFinding::Contradicts => (LongTrials::Contradict, Severity::Error),
            AuditFinding::Holds => (LongTrials::Confirm, Severity::Note),
            AuditFinding::Open => (LongTrials::Open, Severity::Note),
        };
        let (lower, upper) = better.map_or((None, audit.bound), |rival| (rival.slower_lower, rival.slower_upper));
        let finding = Finding::new(fact(result, lower, upper), severity).of_test(&group.id).of_option(&audit.choice);
        Some(finding.with_other(audit.better.as_ref()))
    };
    let mut all: Vec<Finding> = view.groups.iter().filter_map(of_test).collect();
    // Each test alone decides nothing, and all of them together do.
    let none_alone = all.iter().all(|finding| finding.severity != Severity::Error);
    if view.audit.is_some_and(|all| all.finding == AuditFinding::Contradicts && none_alone) {
        all.push(Finding::new(fact(LongTrials::ContradictTogether, None, None), Severity::Error));
    }
    let missing = missing(view);
    if let Some(first) = missing.first() {
        let one = Finding::new(fact(LongTrials::Missing, None, None), Severity::Note);
        all.push(if missing.len() == view.groups.len() { one } else { one.of_test(&first.id) });
    }
    all
}

/// Longer trials of confirmation need no check, nanoseconds.
const LONG_NS: u64 = 250_000_000;

/// Whether a group has long trials, or has them planned where there is time.
pub fn is_checked(group: &GroupView) -> bool {
    group.audit.is_some() || is_short(group)
}

/// Whether its trials are so short that longer ones may have another result. A search for a rate lasts as long as it needs.
fn is_short(group: &GroupView) -> bool {
    !group.factors.searches_rate() && group.age_ns.is_some_and(|(_, to)| to < LONG_NS)
}

/// Groups whose options were compared in short trials only.
fn missing(view: &View) -> Vec<&GroupView> {
    let measured = |group: &GroupView| view.candidates_of(&group.id).filter(|cell| cell.trials > 0).count();
    let missing = |group: &&GroupView| group.audit.is_none() && is_short(group) && measured(group) > 1;
    view.groups.iter().filter(missing).collect()
}

// The recommendations of an earlier session of the same plan that the present one does not repeat.
//
// Two sessions contradict each other where their intervals of a recommended option have no value in common. Otherwise one of them is
// only wider, and both are possible. Never pools the trials of two sessions.

/// A finding for each test in which the session before recommended another option; the contradicted ones first.
pub fn of_earlier(now: (&View, &[Test]), before: (&View, &[Test])) -> Vec<Finding> {
    if [now.0, before.0].iter().any(|view| view.versus.is_some()) {
        return Vec::new();
    }
    let tests = now.1.iter().filter(|test| test.is_compared());
    let mut all: Vec<Finding> = tests.filter_map(|test| not_repeated(now.0, test, before)).collect();
    all.sort_by_key(|finding| !matches!(finding.fact, Fact::Earlier { contradicts: true, .. }));
    all
}

fn not_repeated(view: &View, test: &Test, (before, tests): (&View, &[Test])) -> Option<Finding> {
    let is_same = |other: &&Test| other.environment == test.environment && other.compares == test.compares;
    let earlier = tests.iter().filter(|other| other.is_compared()).find(is_same)?;
    let used_there = earlier.used()?;
    let option = same_option(before, &used_there.id, view, test)?;
    let used = test.used();
    let used_before = used.and_then(|own| same_option(view, &own.id, before, earlier));
    let is_above = |one: &OptionResult, other: &OptionResult| {
        let lower = one.slower_lower.filter(|lower| *lower > test.margin);
        lower.zip(other.slower_upper).is_some_and(|(lower, upper)| lower > upper)
    };
    let contradicts =
        is_above(option, used_there) || used_before.zip(used).is_some_and(|(there, here)| is_above(there, here));
    let is_repeated = matches!(option.status, OptionStatus::Use | OptionStatus::AsGood);
    let fact = Fact::Earlier {
        session: before.session.0,
        contradicts,
        lower: option.slower_lower,
        upper: option.slower_upper,
    };
    let finding = Finding::new(fact, Severity::Warning).of_test(&test.id).of_option(&option.id);
    (!is_repeated).then(|| finding.with_other(used.map(|own| &own.id)))
}

/// The option of a test of another session that has the settings of `cell`.
fn same_option<'a>(from: &View, cell: &CellId, in_: &View, test: &'a Test) -> Option<&'a OptionResult> {
    let wanted = &from.cell(cell)?.factors;
    let mut cells = in_.candidates_of(&test.id);
    test.option(&cells.find(|cell| cell.factors == *wanted)?.id)
}
