//! Gathers the findings of a session from settled numbers. The sentences follow in `sentences`.

use std::collections::HashSet;

use bytegauge_model::option::{self, OptionRow};
use bytegauge_model::session::NoteKind;
use bytegauge_model::{CellId, CellKind, SessionStatus, Spec, Stage};
use bytegauge_stats::block_dependence::MIN_BLOCKS;
use bytegauge_stats::noise_grade::{OTHER_LOAD_DISTURBED_CPUS, STEAL_DISTURBED};
use bytegauge_stats::trend::{self, Trend};
use serde_json::{Value, json};

use super::super::document::{Because, CellView, Finding, FindingKind, GainView, GroupView, ModeView, Severity, View};
use super::super::environment::crowd;
use super::super::harm::Least;
use super::super::stolen::NOTICED_P;
use super::super::{lateness, link};
use super::build::found;
use super::run_length::{RUN_SHORT_NS, shortest_run_ns};
use super::valid_for::{self, is_loopback};
use super::{advice, all_trials, copied, effects, harm, long_trials, median_misleads, memory, sentences};

/// Speeds of one option that differ by more than this factor are a caveat: its median has no meaning then.
const SPEEDS_APART: f64 = 1.25;
/// An option of which this share of the trials failed is no safe recommendation.
const FAILED_OFTEN: f64 = 0.1;
/// An average that is off the median by this factor is reported with the recommended option.
const AVERAGE_APART: f64 = 1.25;
/// Other programs below this many CPUs are not reported; the grade decides from where on they are a caveat.
const OTHERS_NOTICED: f64 = 0.05;
/// The cost of the harness is reported from this share of the shortest call on.
const HARNESS_NOTICED: f64 = 0.01;
/// A session that took less than this multiple of its budget kept it.
const OVERRUN: f64 = 1.25;

/// Every finding, the most serious first.
pub fn findings(view: &View) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    all.extend(effects::comparisons(view));
    all.extend(effects::biggest(view));
    all.extend(effects::one_setting(view));
    all.extend(gains(view));
    all.extend(memory::findings(view));
    for group in &view.groups {
        all.extend(of_test(view, group));
    }
    all.extend(long_trials::findings(view));
    if all.iter().all(|finding| finding.kind != FindingKind::CopiedSends) {
        all.extend(copied::sends(view));
    }
    all.extend(copied::receives(view));
    all.extend(session_wide(view));
    all.extend(notes(view));
    worded(view, all)
}

/// With their sentences, the most serious first.
pub fn worded(view: &View, mut all: Vec<Finding>) -> Vec<Finding> {
    for finding in all.iter_mut().filter(|finding| finding.text.is_empty()) {
        finding.text = sentences::sentence(view, finding);
    }
    all.sort_by_key(|finding| finding.severity);
    all
}

/// Limitations of the results of one test.
fn of_test(view: &View, group: &GroupView) -> Vec<Finding> {
    let is_analysed = super::is_analysed(view, group);
    let mut all: Vec<Finding> = control(view, group).filter(|_| is_analysed).into_iter().collect();
    let cells: Vec<&CellView> = view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate).collect();
    all.extend(without_effect(view, group, &cells));
    all.extend(overloaded(group, &cells));
    all.extend(effects::latencies(view, group));
    let (least, lost_least) = (harm::least_of(&cells), harm::least_lost(&cells));
    for cell in &cells {
        all.extend(of_option(group, cell, &least, lost_least));
    }
    all.extend(recommended(view, group));
    let once = |ids: &[CellId], kind| -> Vec<Finding> {
        ids.iter().map(|id| found(kind, Severity::Warning).test(&group.id).option(id)).collect()
    };
    all.extend(once(&group.once_proven, FindingKind::NoLongerBest));
    all.extend(once(&group.once_avoided, FindingKind::NoLongerSlower));
    if let Some(stolen) = group.stolen.as_ref().filter(|stolen| stolen.p <= NOTICED_P) {
        all.push(
            found(FindingKind::UnevenSteal, Severity::Warning)
                .test(&group.id)
                .option(&stolen.most)
                .other(Some(&stolen.least))
                .number("most_share", Some(stolen.most_share))
                .number("least_share", Some(stolen.least_share))
                .number("p", Some(stolen.p)),
        );
    }
    if let Some(look) = group.look.as_ref().filter(|look| look.cut_short) {
        all.push(
            found(FindingKind::FewBlocks, Severity::Note)
                .test(&group.id)
                .number("blocks", Some(look.blocks as f64))
                .number("planned", Some(look.planned as f64)),
        );
    }
    // Fewer blocks cannot be tested.
    let is_tested = is_analysed && group.blocks.used >= MIN_BLOCKS;
    if is_tested && group.serial.as_ref().is_some_and(|serial| !serial.independent) {
        all.push(found(FindingKind::DependentBlocks, Severity::Warning).test(&group.id));
    }
    all.extend(screened(view, group, &cells));
    all
}

/// No option carried the offered load.
fn overloaded(group: &GroupView, cells: &[&CellView]) -> Option<Finding> {
    let measured = cells.iter().filter(|cell| cell.trials > 0);
    let carried: Option<Vec<f64>> = measured.map(|cell| harm::carried_share(cell)).collect();
    let most = carried?.into_iter().reduce(f64::max)?;
    Some(found(FindingKind::MissedLoad, Severity::Warning).test(&group.id).number("carried_share", Some(most)))
}

/// Compared options of sockets that cannot have an effect on this path.
fn without_effect(view: &View, group: &GroupView, cells: &[&CellView]) -> Vec<Finding> {
    let specs: Vec<Spec> = cells.iter().filter(|cell| cell.trials > 0).map(|cell| cell.spec()).collect();
    let of_row = |row: &OptionRow| {
        let compared = || specs.iter().filter(|spec| option::asked(spec, row).is_some());
        let why = compared().next().and_then(row.no_effect)?;
        compared().all(|spec| (row.no_effect)(spec).is_some()).then(|| {
            found(FindingKind::NoEffect, Severity::Warning).test(&group.id).name("factor", row.factor).name("why", why)
        })
    };
    let varied = option::OPTIONS.iter().filter(|row| group.varied.iter().any(|name| name == row.factor));
    if view.status == SessionStatus::Imported { Vec::new() } else { varied.filter_map(of_row).collect() }
}

/// The result of the A/A control: one option measured twice in every block.
fn control(view: &View, group: &GroupView) -> Option<Finding> {
    let twin = group.twin.as_ref()?;
    let about = |kind, severity| {
        found(kind, severity)
            .test(&group.id)
            .option(&twin.cell)
            .number("difference", twin.difference)
            .number("lower", twin.lower)
            .number("upper", twin.upper)
            .number("reach", group.twin_reach)
    };
    if twin.alarm {
        // A comparison of two has an interval that is wider by the control's.
        let decided = view.versus.as_ref().filter(|versus| versus.difference.verdict != "open");
        return Some(match decided {
            Some(_) => about(FindingKind::ControlDiffers, Severity::Warning).number("widened", group.twin_reach),
            None => about(FindingKind::ControlDiffers, Severity::Error),
        });
    }
    // The interval of two decides by itself: a wide control is a reason only where it does not.
    let is_open = view.versus.as_ref().is_none_or(|versus| versus.difference.verdict == "open");
    (is_open && super::control_is_wide(view, group, group.recommendation.cell.as_ref()))
        .then(|| about(FindingKind::ControlWide, Severity::Warning).number("margin", Some(view.plan.margin)))
}

/// Harm of one option.
fn of_option(group: &GroupView, cell: &CellView, least: &Least, lost_least: f64) -> Vec<Finding> {
    let about = |kind| found(kind, Severity::Warning).test(&group.id).option(&cell.id);
    let of_kind = |kind| match kind {
        FindingKind::Stalled => {
            let stalled = cell.stalled;
            about(kind)
                .number("trials", stalled.map(|stalled| stalled.trials as f64))
                .number("of", stalled.map(|stalled| stalled.of as f64))
        }
        FindingKind::MissedLoad => about(kind).number("carried_share", cell.behind),
        FindingKind::FailedCalls => {
            about(kind).number("failed_share", cell.call.as_ref().and_then(|call| call.failed_share))
        }
        FindingKind::LostDatagrams => {
            about(kind).number("lost_share", harm::lost_share(cell)).number("least_share", Some(lost_least))
        }
        FindingKind::StarvedClients => about(kind)
            .number("starved_share", cell.harm.starved_share)
            .number("longest_s", cell.harm.longest_ns.map(|ns| ns as f64 / 1e9))
            .number("drain_s", cell.harm.drain_ns.map(|ns| ns as f64 / 1e9)),
        FindingKind::ListenOverflows => about(kind).number("overflow_share", cell.harm.overflow_share),
        FindingKind::TimeOuts => about(kind).number("timeout_share", cell.harm.timeout_share),
        FindingKind::CopiedSends => about(kind).number("copied_share", cell.harm.copied_share),
        _ => about(kind).number("truncated_share", Some(harm::truncated_share(cell))),
    };
    let mut all: Vec<Finding> = harm::of(cell, least).into_iter().map(of_kind).collect();
    // An option that is slower by its median as well is no candidate.
    let may_be_best = cell.above_best_lower.is_none_or(|lower| lower <= 0.0);
    if group.spoken_against.contains(&cell.id) && may_be_best {
        all.push(Finding { severity: Severity::Note, ..about(FindingKind::MeansDisagree) });
    }
    all.extend(super::relays::caveat(cell).filter(|_| cell.trials > 0).map(|_| about(FindingKind::NoBackPressure)));
    let (failed, tried) = (cell.failed_trials as f64, (cell.trials + cell.failed_trials) as f64);
    let severity = if failed >= FAILED_OFTEN * tried && may_be_best { Severity::Warning } else { Severity::Note };
    let some_failed = Finding { severity, ..about(FindingKind::FailedTrials) };
    let some_failed = some_failed.number("trials", Some(failed)).number("of", Some(tried));
    all.extend((failed > 0.0 && cell.trials > 0).then_some(some_failed));
    if let Some(modes) = cell.modes.as_ref().filter(|modes| modes.modes.len() > 1) {
        let rates: Vec<Value> = modes.modes.iter().map(|mode| json!([mode.median, mode.share])).collect();
        let end = |at: Option<&ModeView>| at.map(|mode| mode.median);
        let (slowest, fastest) = (end(modes.modes.first()), end(modes.modes.last()));
        let are_far = slowest.zip(fastest).is_some_and(|(slowest, fastest)| fastest > slowest * SPEEDS_APART);
        let severity = if are_far && may_be_best { Severity::Warning } else { Severity::Note };
        let one = Finding { severity, ..about(FindingKind::SeveralSpeeds) }.name("modes", rates);
        all.push(one.number("slowest", slowest).number("fastest", fastest));
    }
    all
}

/// Limitations of the recommendation of a test.
fn recommended(view: &View, group: &GroupView) -> Vec<Finding> {
    let Some(cell) = group.recommendation.cell.as_ref().and_then(|id| view.cell(id)) else { return Vec::new() };
    let about = |kind| found(kind, Severity::Warning).test(&group.id).option(&cell.id);
    let mut all = Vec::new();
    if let Some(trend) = drift(group, cell) {
        all.push(about(FindingKind::Drift).number("first", Some(trend.first)).number("last", Some(trend.last)));
    }
    let has_modes = cell.modes.as_ref().is_some_and(|modes| modes.modes.len() > 1);
    if let Some((median, average)) = cell.estimate.median.zip(all_trials(cell)).filter(|_| !has_modes) {
        let is_far = average > median * AVERAGE_APART || median > average * AVERAGE_APART;
        let one = about(FindingKind::SeveralSpeeds).number("median", Some(median)).number("average", Some(average));
        all.extend(is_far.then_some(one));
    }
    if let Some(rival) = faster_over_all(view, group, cell) {
        all.push(
            about(FindingKind::SlowTrialsDisagree)
                .other(Some(&rival.id))
                .number("rate", cell.total_rate)
                .number("other_rate", rival.total_rate),
        );
    }
    let compares_congestion = group.varied.iter().any(|name| name == "congestion");
    if compares_congestion && is_loopback(&cell.spec()) && view.status != SessionStatus::Imported {
        all.push(found(FindingKind::CongestionOverLoopback, Severity::Warning).test(&group.id));
    }
    all
}

/// The change of an option's rate during the session.
fn drift(group: &GroupView, cell: &CellView) -> Option<Trend> {
    let rates = group.course.as_ref()?.cells.iter().find(|course| course.cell == cell.id)?;
    trend::drift(&rates.rate.iter().copied().flatten().collect::<Vec<f64>>())
}

/// The confirmed option that is faster over all trials, slow ones in full, by more than the margin.
fn faster_over_all<'a>(view: &'a View, group: &'a GroupView, cell: &CellView) -> Option<&'a CellView> {
    let is_slower = |all: &f64| cell.estimate.median.is_some_and(|median| *all < median);
    let all =
        all_trials(cell).filter(|all| median_misleads(cell) && is_slower(all)).filter(|_| !group.compares_cpu())?;
    let others = view.cells_of(&group.id).filter(|other| {
        other.kind == CellKind::Candidate && other.stage == Some(Stage::Confirm) && other.id != cell.id
    });
    let fastest = others.max_by(|a, b| a.total_rate.unwrap_or(0.0).total_cmp(&b.total_rate.unwrap_or(0.0)))?;
    fastest.total_rate.is_some_and(|rate| rate > all * (1.0 + view.plan.margin)).then_some(fastest)
}

/// Levels that the screening showed to be slower, unless the recommended option has them.
fn screened(view: &View, group: &GroupView, cells: &[&CellView]) -> Vec<Finding> {
    let own = group.recommendation.cell.as_ref().and_then(|id| view.cell(id));
    let mut all: Vec<Finding> = Vec::new();
    for avoid in &group.avoid {
        if own.is_some_and(|own| own.factors.get(&avoid.factor) == Some(&avoid.level)) {
            continue;
        }
        all.push(
            found(FindingKind::ScreenedSlower, Severity::Note)
                .test(&group.id)
                .number("slower_lower", Some(avoid.slower_lower))
                .number("slower_upper", avoid.slower_upper)
                .name("factor", avoid.factor.clone())
                .name("level", avoid.level.clone())
                .name("against", avoid.against.clone()),
        );
    }
    let confirmed = cells.iter().filter(|cell| cell.above_best_upper.is_some()).count();
    let screened = group.undecided.len();
    if screened > 0 && confirmed > 0 {
        all.push(
            found(FindingKind::ScreenedOnly, if view.check.is_some() { Severity::Warning } else { Severity::Note })
                .test(&group.id)
                .number("options", Some(screened as f64))
                .number("confirmed", Some(confirmed as f64)),
        );
    }
    all
}

/// Findings about the whole session.
fn session_wide(view: &View) -> Vec<Finding> {
    let warning = |kind| found(kind, Severity::Warning);
    let mut all: Vec<Finding> = Vec::new();
    let candidates = || view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let sum = |of: fn(&CellView) -> usize| candidates().map(of).sum::<usize>() as f64;
    let (hit, trials) = (sum(|cell| cell.stolen_trials), sum(|cell| cell.trials));
    // A machine that the heading calls quiet has no caveat about noise.
    let noise = |kind, is_noticed: bool| found(kind, if is_noticed { Severity::Warning } else { Severity::Note });
    if hit > 0.0 {
        let is_noticed = view.environment.steal_share.is_none_or(|share| share > STEAL_DISTURBED);
        all.push(noise(FindingKind::Steal, is_noticed).number("trials", Some(hit)).number("of", Some(trials)));
    }
    if let Some(us) = view.environment.throttled_us.filter(|us| *us > 0) {
        all.push(warning(FindingKind::Throttled).number("throttled_s", Some(us as f64 / 1e6)));
    }
    if let Some(cpus) = view.environment.foreign_cpus.filter(|cpus| *cpus >= OTHERS_NOTICED) {
        let allowed = view.environment.allowed_cpus().map(|cpus| cpus as f64);
        let is_noticed = cpus > OTHER_LOAD_DISTURBED_CPUS;
        all.push(noise(FindingKind::OtherPrograms, is_noticed).number("cpus", Some(cpus)).number("of_cpus", allowed));
    }
    all.extend(lateness::sentence(&view.cells, true).map(|(cell, phrase)| {
        let test = view.test(&cell.group).filter(|_| view.tests.len() > 1);
        let text = test.map_or_else(|| capital(&phrase), |test| format!("{}: {phrase}", test.name));
        warning(FindingKind::LateClient).test(&cell.group).with_text(text + ".")
    }));
    if let Some(share) = view.floor.share.filter(|share| *share >= HARNESS_NOTICED) {
        all.push(warning(FindingKind::HarnessCost).number("share", Some(share)));
    }
    // A busy machine has a line of its own.
    let is_noisy = view.environment.grade >= Some('C') && crowd(&view.environment).is_none();
    let noise = view.environment.quietness().zip(view.environment.reasons.first()).filter(|_| is_noisy);
    let noisy = warning(FindingKind::NoisyMachine);
    all.extend(noise.map(|(quiet, reason)| noisy.name("quietness", quiet).name("reason", reason.as_str())));
    all.extend(valid_for::unasked_congestion(view));
    all.extend(overrun(view));
    let reduced = view.notes.iter().filter_map(|note| match &note.kind {
        NoteKind::Reduced(kept) => Some(warning(FindingKind::PlanReduced).name("kept", kept.as_str())),
        NoteKind::End | NoteKind::Other => None,
    });
    all.extend(reduced);
    if let Some(check) = &view.check {
        let runs = |count: usize, kind| (count > 0).then(|| warning(kind).number("runs", Some(count as f64)));
        all.extend(runs(check.left_behind, FindingKind::ProcessesLeft));
        all.extend(runs(check.stopped_by_force, FindingKind::ServerKilled));
        let short = shortest_run_ns(view).filter(|ns| *ns < RUN_SHORT_NS && check.includes_start);
        all.extend(short.map(|ns| warning(FindingKind::ShortRuns).number("run_ns", Some(ns))));
    }
    all
}

/// The session took far longer than its budget until its first interim analysis.
fn overrun(view: &View) -> Option<Finding> {
    let is_first =
        |group: &GroupView| group.look.as_ref().is_none_or(|look| look.done + usize::from(look.so_far > 0) <= 1);
    let has_bound = !view.plan.states_blocks && view.status != SessionStatus::Imported;
    let (took_ns, given_ns) = view.elapsed_ns.zip(view.plan.budget_ns)?;
    let is_over = has_bound && view.groups.iter().all(is_first) && took_ns as f64 > OVERRUN * given_ns as f64;
    is_over.then(|| {
        found(FindingKind::Overrun, Severity::Note)
            .number("took_s", Some(took_ns as f64 / 1e9))
            .number("given_s", Some(given_ns as f64 / 1e9))
    })
}

/// Relays, links and the scope of the results: each settled with its numbers by its own module.
fn notes(view: &View) -> Vec<Finding> {
    let note = |kind, text: String| found(kind, Severity::Note).with_text(text + ".");
    let mut all: Vec<Finding> = Vec::new();
    for group in &view.groups {
        let of_group = |kind, lines: Vec<String>| -> Vec<Finding> {
            let test = view.test(&group.id).filter(|_| view.tests.len() > 1);
            let place = test.map_or_else(String::new, |test| format!("{}: ", test.name));
            lines.into_iter().map(|line| note(kind, format!("{place}{line}")).test(&group.id)).collect()
        };
        all.extend(of_group(FindingKind::Relay, super::relays::lines(view, group)));
        all.extend(of_group(FindingKind::Link, link::lines(group)));
    }
    all.extend(super::relays::held(view).map(|line| note(FindingKind::Relay, line)));
    all.extend(link::of_path(view).map(|line| note(FindingKind::Link, line)));
    all.extend(valid_for::lines(view).into_iter().map(|line| note(FindingKind::ValidFor, line)));
    let mut seen: HashSet<String> = HashSet::new();
    all.retain(|finding| finding.test.is_some() || seen.insert(finding.text.clone()));
    all
}

/// How a program compares with its present setting, and how advice did there.
fn gains(view: &View) -> Vec<Finding> {
    let Some(check) = &view.check else { return Vec::new() };
    // The result itself names a kept value.
    let is_kept = |gain: &&GainView| view.test(&gain.group).is_some_and(|test| test.because == Some(Because::Present));
    let gains = check.gains.iter().filter(|gain| !is_kept(gain)).map(|gain| {
        found(FindingKind::Gain, Severity::Result)
            .test(&gain.group)
            .other(gain.cell.as_ref())
            .number("faster", gain.gain)
            .number("faster_lower", gain.lower)
            .number("faster_upper", gain.upper)
            .name("default", gain.default.clone())
            .with_text(capital(&gain.text) + ".")
    });
    let advice = check.advice.iter().map(|advice| {
        found(FindingKind::Advice, Severity::Result)
            .test(&advice.group)
            .name("value", advice.value.clone())
            .name("held", advice.held)
            .number("predicted_times", advice.predicted)
            .number("observed_times", advice.observed)
            .with_text(format!("Earlier recommendation: {}.", advice::text(view, check, advice)))
    });
    gains.chain(advice).collect()
}

/// With a capital letter at the start.
fn capital(text: &str) -> String {
    crate::phrase::capital(text)
}
