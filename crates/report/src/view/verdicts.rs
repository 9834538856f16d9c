//! The answers across profiles: one for each set of conditions that no profile sets.

use std::collections::BTreeMap;

use bytegauge_model::CellId;

use super::answer::{Conditions, Decision, decide, rates};
use super::cells::factors;
use super::compare::{Family, Judged, varied_choices};
use super::document::{Recommendation, VerdictView};
use super::groups::{age_ns, single, unit};
use super::lever::{apart, spread_of_choices};
use super::receive_buffer;
use crate::phrase;
use crate::sentence::{Answer, Placement, Verdict, measured_twice, percent};
use crate::view::scope::Scope;

/// One verdict a family, in the order of the plan.
pub fn verdicts(families: &[Family], conditions: &Conditions, scope: &Scope) -> Vec<VerdictView> {
    families.iter().map(|family| verdict(family, families, conditions, scope)).collect()
}

fn verdict(family: &Family, families: &[Family], conditions: &Conditions, scope: &Scope) -> VerdictView {
    let groups: Vec<&Judged> = family.groups.iter().collect();
    let candidates: Vec<usize> = groups.iter().flat_map(|group| group.candidates.iter().copied()).collect();
    let varied = varied_choices(&candidates, conditions.settled);
    let decision = decide(&groups, family.overall.as_ref(), &varied, true, conditions);
    let (more_blocks, likely_bound) = decision.left();
    let confirmed: Vec<&Judged> = groups.iter().copied().filter(|group| group.is_confirmed()).collect();
    let shown = match decision.answer {
        Answer::Single(_) => groups.iter().filter_map(|group| single(group, conditions)).collect(),
        Answer::Boundary(_) => Vec::new(),
        _ => rates(&confirmed, decision.choice, conditions.cells),
    };
    let nothing = matches!(decision.answer, Answer::Nothing(_) | Answer::Single(_));
    let placement = if nothing { None } else { placement(family, decision.choice, families, conditions, scope.level) };
    let remarks = remarks(&confirmed, &decision, conditions, scope.margin);
    let text = Verdict {
        subject: subject(family, &decision.answer, conditions),
        workload: family.conditions.workload(),
        unit: unit(conditions),
        remarks,
        answer: decision.answer,
        rates: shown,
        margin: scope.margin,
        level: scope.level,
        imported: scope.imported,
        placement,
        environment: environment(family, scope),
        bound: decision.bound,
        seconds: scope.seconds,
        age_ns: ages(&confirmed, conditions),
    }
    .text();
    VerdictView {
        factors: factors(&family.conditions),
        profiles: unique_profiles(&groups),
        groups: groups.iter().map(|group| group.row.group.id.clone()).collect(),
        recommendation: Recommendation {
            choice: choice(&confirmed, decision.choice, &varied, conditions),
            cells: cells(&groups, decision.choice, conditions),
            proven: decision.proven,
            margin: scope.margin,
            bound: decision.bound,
            survives_exchange: decision.survives_exchange,
            more_blocks,
            likely_bound,
            text,
        },
    }
}

/// Every answer about a reader that discards the bytes states that.
fn subject(family: &Family, answer: &Answer, conditions: &Conditions) -> String {
    let subject = phrase::capital(&phrase::subject(&family.conditions));
    let drains = conditions.throw_away(&family.groups.iter().collect::<Vec<_>>());
    match answer {
        Answer::DrainOnly { .. } => subject,
        _ if drains => format!("{subject}, {}", family.conditions.workload().row().idle_worker),
        _ => subject,
    }
}

/// The youngest and the oldest connections of several groups.
fn ages(confirmed: &[&Judged], conditions: &Conditions) -> Option<(u64, u64)> {
    let each = confirmed.iter().filter_map(|group| age_ns(group, conditions));
    each.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)))
}

/// Notes on the choice and its rate: whether it depends on which trials of an A/A pair are used; in calls, whether to set
/// `SO_RCVBUF`, and errors.
fn remarks(confirmed: &[&Judged], decision: &Decision, conditions: &Conditions, margin: f64) -> Vec<String> {
    let choice = decision.choice;
    // It describes results, and a session interrupted before its first analysis has none.
    let shows = confirmed.iter().all(|group| group.standing.proves);
    let buffer = shows.then(|| receive_buffer::remark(confirmed, choice, conditions, margin)).flatten();
    let exchanged = (decision.survives_exchange == Some(false))
        .then(|| "Every block measured one choice twice, and by the second measurement it is not shown.".to_owned());
    exchanged.into_iter().chain(buffer).chain(failures(confirmed, choice, conditions)).collect()
}

/// Failed calls at the choice, with the main cause.
fn failures(confirmed: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> Option<String> {
    let cells = confirmed.iter().filter_map(|group| Some(&conditions.cells[group.cell(choice)?]));
    let calls: Vec<_> = cells.filter_map(|cell| cell.call.as_ref()).filter(|call| call.failed > 0).collect();
    let worst = calls.iter().max_by(|a, b| a.failed_share.unwrap_or(0.0).total_cmp(&b.failed_share.unwrap_or(0.0)))?;
    let first = worst.errors.first()?;
    Some(format!(
        "At this choice {} of the calls failed, most by {} ({}): {}.",
        percent(worst.failed_share?),
        first.class,
        first.phase,
        first.explanation
    ))
}

/// The profiles by name; those of an import may share one.
fn unique_profiles(groups: &[&Judged]) -> Vec<String> {
    let shared = |group: &Judged| groups.iter().filter(|other| other.profile == group.profile).count() > 1;
    let name = |group: &&Judged| match shared(group) {
        true => format!("{} ({})", group.profile, group.row.group.id),
        false => group.profile.clone(),
    };
    groups.iter().map(name).collect()
}

fn choice(
    confirmed: &[&Judged],
    choice: Option<usize>,
    varied: &[String],
    conditions: &Conditions,
) -> BTreeMap<String, serde_json::Value> {
    let Some(at) = confirmed.iter().find_map(|group| group.cell(choice)) else { return BTreeMap::new() };
    let all = factors(&conditions.settled[at].cell.factors);
    all.into_iter().filter(|(name, _)| varied.contains(name)).collect()
}

fn cells(groups: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> BTreeMap<String, CellId> {
    let named = unique_profiles(groups).into_iter().zip(groups);
    named.filter_map(|(name, group)| Some((name, conditions.cells[group.cell(choice)?].id.clone()))).collect()
}

fn environment(family: &Family, scope: &Scope) -> Option<String> {
    let grade = scope.grade?;
    let steal = scope.steal_share.map(|share| format!("steal {}", percent_or_zero(share)));
    let twin = twin_reach(family).map(measured_twice);
    let parts = [Some(format!("machine {grade} of A to D")), steal, twin];
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn percent_or_zero(share: f64) -> String {
    if share < 0.0005 { "0 %".into() } else { percent(share) }
}

/// The largest reach of the A/A controls of a family's groups, as a share.
fn twin_reach(family: &Family) -> Option<f64> {
    family.groups.iter().filter_map(Judged::twin_reach).reduce(f64::max)
}

/// The fastest other placement that was confirmed under the same profile, if it is significantly different.
fn placement(
    family: &Family,
    choice: Option<usize>,
    families: &[Family],
    conditions: &Conditions,
    level: f64,
) -> Option<Placement> {
    let rest = |family: &Family| {
        let mut rest = family.conditions.clone();
        rest.placement = None;
        rest
    };
    let others = families
        .iter()
        .filter(|other| other.conditions.placement() != family.conditions.placement() && rest(other) == rest(family));
    let remarks = others.filter_map(|other| remark(family, choice, other, conditions, level));
    remarks.max_by(|a, b| a.per_second.total_cmp(&b.per_second))
}

fn remark(
    family: &Family,
    choice: Option<usize>,
    other: &Family,
    conditions: &Conditions,
    level: f64,
) -> Option<Placement> {
    let phrase = phrase::placement(&other.conditions)?.to_owned();
    let rate = |at: usize| conditions.cells[at].estimate.median;
    family.groups.iter().find_map(|group| {
        let twin = other.groups.iter().find(|there| there.profile == group.profile && there.is_confirmed())?;
        let leader = twin.verdict.leader()?;
        let per_second = rate(twin.cell(Some(leader))?)?;
        let apart = apart((group, choice.filter(|_| group.cell(choice).is_some())?), (twin, leader), level)?;
        apart.differs().then(|| Placement {
            phrase: phrase.clone(),
            per_second,
            faster: apart.lower > 0.0,
            beats: (apart.least() > spread_of_choices(group)).then(|| group.compared()),
        })
    })
}
