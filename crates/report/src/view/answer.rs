//! Decides the result of a set of groups: proven, bounded, open, or none, with the reason.
//!
//! The statistics are done already; these are the rules for the use of their results. Only evidence of the groups themselves
//! prevents an answer: disturbances of the machine are reported separately.

use bytegauge_model::Nanos;
use bytegauge_model::unit::significant;
use bytegauge_stats::group::Method;
use bytegauge_stats::recommend::{OptionRecommendation, RecommendReason};

use super::audit::{Together, withdrawal};
use super::compare::{Judged, moves_nothing};
use super::document::CellView;
use super::knee::planned;
use super::settled::{Blocks, Settled};
use crate::phrase;
use crate::sentence::{
    Answer, Outlook, Rate, carried, excludes_nothing, likely_bound, moved_nothing, percent, same_twice,
};

/// From this share of failed calls on a choice is not named without them.
const FAILING: f64 = 0.01;

/// The input of decisions, in addition to the statistics.
pub struct Conditions<'a> {
    /// The cells, as they will be printed; in the order of the settled ones.
    pub cells: &'a [CellView],
    /// The same cells with their trials.
    pub settled: &'a [Settled<'a>],
    /// The blocks they were measured in.
    pub blocks: &'a Blocks<'a>,
    /// The session was interrupted.
    pub unfinished: bool,
    /// It is running, so that new blocks await an analysis.
    pub running: bool,
    /// It was measured here, and can continue here.
    pub resumable: bool,
    /// The progress of confirmation by rounds.
    pub rounds: Rounds,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// When the session began, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// The results of long trials for all groups together.
    pub audit: Option<Together>,
}

impl Conditions<'_> {
    /// Whether the readers of all these groups discard the bytes; a reader that compares them does not.
    pub fn throw_away(&self, groups: &[&Judged]) -> bool {
        let verifies = |at: &usize| self.cells[*at].counters.verified_bytes.is_some();
        groups
            .iter()
            .all(|group| phrase::throws_away(&group.row.group.factors) && !group.candidates.iter().any(verifies))
    }
}

/// Confirmation by rounds: a secondary group has a block in some of the rounds only.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Their number: the blocks of the group that had most.
    most: usize,
    /// Their number as fixed before the first of them, if known.
    planned: Option<u64>,
}

impl Rounds {
    /// For all groups of a session.
    pub fn of<'a>(groups: impl Iterator<Item = &'a Judged<'a>>) -> Rounds {
        let (mut most, mut planned) = (0, None);
        for group in groups {
            // A secondary group reports fewer.
            planned = planned.max(group.row.number("blocks_fixed"));
            most = most.max(group.blocks_done);
        }
        Rounds { most, planned }
    }
}

/// A decision.
pub struct Decision {
    /// As text.
    pub answer: Answer,
    /// Index of the named choice.
    pub choice: Option<usize>,
    /// Whether the choice is proven for use, not for draining alone.
    pub proven: bool,
    /// It is at most this much slower than the best confirmed, as a share.
    pub bound: Option<f64>,
    /// Whether the result holds with the A/A controls in their cells' places.
    pub survives_exchange: Option<bool>,
    /// The likely gain of more blocks, if it is open.
    pub outlook: Outlook,
}

impl Decision {
    /// Blocks of the remaining analyses, and the likely bound after them; `None` if they bring nothing.
    pub fn left(&self) -> (Option<u64>, Option<f64>) {
        match self.outlook {
            Outlook::Left { blocks, bound } => (Some(blocks), bound),
            Outlook::Nothing | Outlook::Elsewhere | Outlook::Hopeless => (None, None),
        }
    }

    fn nothing(why: impl Into<String>) -> Decision {
        Decision::unjudged(Answer::Nothing(why.into()), None)
    }

    /// An answer without a comparison.
    fn unjudged(answer: Answer, choice: Option<usize>) -> Decision {
        Decision { answer, choice, proven: false, bound: None, survives_exchange: None, outlook: Outlook::Nothing }
    }
}

/// Decides about `groups` (of one family) by the recommendation over those of them that are confirmed.
/// `drain_blocks`: a result for a reader that discards the bytes is no result here.
pub fn decide(
    groups: &[&Judged],
    recommendation: Option<&OptionRecommendation>,
    varied: &[String],
    drain_blocks: bool,
    conditions: &Conditions,
) -> Decision {
    let confirmed: Vec<&Judged> = groups.iter().copied().filter(|group| group.is_confirmed()).collect();
    if let Some(decision) = too_little(groups, &confirmed, varied, conditions) {
        return decision;
    }
    let Some(recommendation) = recommendation else { return Decision::nothing("nothing was confirmed") };
    let levels = |choice: Option<usize>| {
        let at = confirmed.iter().find_map(|group| group.cell(choice))?;
        Some(&conditions.settled[at].cell.factors)
    };
    let Some(named) = levels(recommendation.cell) else {
        return Decision::nothing("no choice was confirmed in every profile");
    };
    let failing = failing(&confirmed, recommendation.cell, conditions);
    let choice = format!("{}{failing}", phrase::choice(named, varied));
    if confirmed.iter().any(|group| !group.standing.proves) {
        // Its own, as in its row: another group may have more.
        let Rounds { most, planned } = Rounds::of(confirmed.iter().copied());
        let (blocks, planned) = (most as u64, planned.or(conditions.rounds.planned));
        let answer = match conditions.running {
            true => Answer::Running { choice, blocks, planned },
            false => Answer::Interrupted { choice, blocks, planned, goes_on: conditions.resumable },
        };
        return Decision::unjudged(answer, recommendation.cell);
    }
    let drains = conditions.throw_away(&confirmed);
    let bound = recommendation.worst_upper.map(f64::exp_m1).filter(|bound| bound.is_finite());
    let outlook = outlook(&confirmed, recommendation, bound, conditions);
    let withdrawn = withdrawal(&confirmed, recommendation.cell, conditions).filter(|_| recommendation.proven);
    let proven = recommendation.proven && withdrawn.is_none();
    let answer = match proven {
        true if drains => Answer::DrainOnly { choice, proven: true },
        true => Answer::Proven { choice, smaller: smaller(&confirmed, recommendation.cell, conditions) },
        false => match boundary(&confirmed, recommendation, varied, conditions) {
            Some(parts) => Answer::Boundary(parts),
            None => {
                let why = withdrawn.or_else(|| why_open(&confirmed, recommendation, conditions));
                Answer::NotProven { best: choice, why, outlook: outlook.clone() }
            }
        },
    };
    Decision {
        answer,
        choice: recommendation.cell,
        proven: proven && !(drains && drain_blocks),
        bound,
        survives_exchange: survives_exchange(&confirmed, recommendation, conditions.margin).filter(|_| proven),
        outlook: if recommendation.proven { Outlook::Nothing } else { outlook },
    }
}

/// Too few cells to compare, or none that counts.
fn too_little(
    groups: &[&Judged],
    confirmed: &[&Judged],
    varied: &[String],
    conditions: &Conditions,
) -> Option<Decision> {
    let candidates = || groups.iter().flat_map(|group| group.candidates.iter().copied());
    let real: Vec<usize> = candidates().filter(|&at| !moves_nothing(&conditions.settled[at].cell.factors)).collect();
    if real.is_empty() {
        let why = if candidates().next().is_some() { "its engine moves nothing" } else { "it has no cells" };
        return Some(Decision::nothing(why));
    }
    let most = groups.iter().map(|group| group.candidates.len()).max().unwrap_or(0);
    let alone = confirmed.iter().all(|group| group.verdict.present.len() == 1) && !confirmed.is_empty();
    if most == 1 || alone {
        let shown =
            if alone { confirmed.iter().find_map(|group| group.cells.iter().flatten().next()) } else { real.first() };
        let cell = &conditions.settled[*shown?];
        return Some(if cell.trials.is_empty() {
            Decision::nothing(never_measured(&real, conditions))
        } else {
            Decision::unjudged(Answer::Single(phrase::choice(&cell.cell.factors, varied)), None)
        });
    }
    let unseen = |at: &usize| {
        let levels = &conditions.settled[*at].cell.factors;
        levels.connect().is_some() && levels.offers_load()
    };
    if confirmed.is_empty()
        && real.iter().all(unseen)
        && real.iter().any(|&at| !conditions.settled[at].trials.is_empty())
    {
        return Some(Decision::nothing(
            "under an offered load it is the server's CPU time that is compared, and a server that is not ours does not \
             show it: compare the percentiles below, or leave out --rate and --think-time",
        ));
    }
    if confirmed.is_empty() {
        let fastest = real
            .iter()
            .filter_map(|&at| Some((conditions.cells[at].estimate.median?, &conditions.settled[at].cell.factors)))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        return Some(Decision::nothing(match fastest {
            None => never_measured(&real, conditions),
            Some((_, levels)) => format!(
                "nothing was confirmed; the fastest of those screened was to {}, which may be luck ({})",
                phrase::choice(levels, varied),
                if conditions.running {
                    "the session goes on"
                } else if conditions.unfinished && conditions.resumable {
                    "go on with --resume"
                } else {
                    "a longer --time leaves time to confirm"
                }
            ),
        }));
    }
    None
}

fn never_measured(cells: &[usize], conditions: &Conditions) -> String {
    let reason = cells.iter().find_map(|&at| conditions.cells[at].reason.clone());
    reason.map_or_else(|| "nothing was measured".into(), |reason| format!("nothing was measured ({reason})"))
}

/// Objections to the choice, as part of its name: failing calls are no service, however fast the others are.
fn failing(confirmed: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> String {
    let cells = confirmed.iter().filter_map(|group| Some(&conditions.cells[group.cell(choice)?]));
    let worst = cells.filter_map(|cell| cell.call.as_ref()?.failed_share).reduce(f64::max);
    let worst = worst.filter(|share| *share >= FAILING);
    worst.map_or_else(String::new, |share| format!(", where {} of the calls fail", percent(share)))
}

/// Whether the result for a choice holds in every profile with the A/A control in its cell's place; `None` without a result, or
/// without a control.
fn survives_exchange(confirmed: &[&Judged], recommendation: &OptionRecommendation, margin: f64) -> Option<bool> {
    let cell = recommendation.cell.filter(|_| recommendation.proven)?;
    let method = Method { margin, ..Method::default() };
    let each = confirmed.iter().filter_map(|group| group.verdict.survives_exchange(cell, &method));
    each.reduce(|all, one| all && one)
}

/// Whether anything smaller than the recommended cell was measured; `None` if sizes do not matter, or were not the reason for
/// the choice.
fn smaller(confirmed: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> Option<bool> {
    let mut any = false;
    for group in confirmed {
        let is_default = choice.is_some_and(|choice| group.input.cells[choice].is_default);
        let own = conditions.cells[group.cell(choice)?].footprint.filter(|_| !is_default)?;
        let measured = group.candidates.iter().map(|&at| &conditions.cells[at]).filter(|cell| cell.trials > 0);
        any |= measured.filter_map(|cell| cell.footprint).any(|footprint| footprint < own);
    }
    Some(any)
}

/// If every profile has a proven choice of its own: adjacent profiles with the same one joined.
fn boundary(
    confirmed: &[&Judged],
    recommendation: &OptionRecommendation,
    varied: &[String],
    conditions: &Conditions,
) -> Option<Vec<(Vec<String>, String)>> {
    if recommendation.reason != RecommendReason::NotProven || confirmed.len() < 2 {
        return None;
    }
    let mut parts: Vec<(Vec<String>, String)> = Vec::new();
    for (group, own) in confirmed.iter().zip(&recommendation.boundary) {
        if withdrawal(&[group], *own, conditions).is_some() {
            return None;
        }
        let at = confirmed.iter().find_map(|group| group.cell(*own))?;
        let choice = phrase::choice(&conditions.settled[at].cell.factors, varied);
        match parts.last_mut() {
            Some((profiles, last)) if *last == choice => profiles.push(group.profile.clone()),
            _ => parts.push((vec![group.profile.clone()], choice)),
        }
    }
    (parts.len() > 1).then_some(parts)
}

fn why_open(confirmed: &[&Judged], recommendation: &OptionRecommendation, conditions: &Conditions) -> Option<String> {
    match recommendation.reason {
        RecommendReason::Inconclusive { profile } => {
            confirmed.get(profile)?.verdict.inconclusive.map(|why| why.to_string())
        }
        RecommendReason::TwinAlarm { profile } => {
            let group = confirmed.get(profile)?;
            Some(format!(
                "twin alarm: the same cell measured twice in every block of {} was {}, more than chance allows, so \
                 something other than the settings decides there",
                group.row.group.id,
                same_twice(group.verdict.twin?.difference.exp_m1())
            ))
        }
        _ => {
            let cell = recommendation.cell?;
            let stalled = confirmed.iter().filter_map(|group| Some(&conditions.settled[group.cell(Some(cell))?]));
            if let Some(stalled) = stalled.filter(|settled| settled.stalled > 0).max_by_key(|settled| settled.stalled) {
                return Some(moved_nothing(stalled.stalled, stalled.tried));
            }
            if let Some(share) = confirmed.iter().filter_map(|group| group.behind(cell)).reduce(f64::min) {
                return Some(format!("it {}, which others carry", carried(share)));
            }
            let against = confirmed.iter().any(|group| group.verdict.contradicted.contains(&cell));
            against.then(|| "plain means, in which its slow trials count in full, contradict it".to_owned())
        }
    }
}

/// The likely effect of more blocks on the bound of a recommendation.
fn outlook(
    confirmed: &[&Judged],
    recommendation: &OptionRecommendation,
    bound: Option<f64>,
    conditions: &Conditions,
) -> Outlook {
    if recommendation.blocks_more_needed.is_none() {
        return Outlook::Hopeless;
    }
    if !conditions.resumable {
        return Outlook::Elsewhere;
    }
    let looks = confirmed.iter().filter_map(|group| group.standing.view.as_ref());
    // Groups that are analysed together are limited by the one that gains least.
    let left = looks.filter_map(|look| Some((look, look.left_until()? as f64)));
    let least =
        left.max_by(|(a, a_last), (b, b_last)| (a.blocks as f64 / a_last).total_cmp(&(b.blocks as f64 / b_last)));
    let Some((look, last)) = least else { return Outlook::Nothing };
    let bound = bound.filter(|bound| !excludes_nothing(*bound) && look.blocks > 0);
    Outlook::Left {
        blocks: (last as u64).saturating_sub((look.blocks + look.so_far) as u64),
        bound: bound.map(|bound| likely_bound(bound, look.blocks as f64, last)),
    }
}

/// The rate of a choice in each of the groups that confirmed it.
pub fn rates(groups: &[&Judged], choice: Option<usize>, cells: &[CellView]) -> Vec<Rate> {
    let shown = groups.iter().filter_map(|group| rate(group, group.cell(choice)?, cells));
    shown.collect()
}

/// The compared quantity under an offered load, as text.
fn cpu(cell: &CellView) -> Option<String> {
    match &cell.call {
        None => cell.cpu.ends_s_per_gib.map(|seconds| format!("{} CPU s/GiB", significant(seconds, 3))),
        Some(_) => {
            let ns = cell.median("server_cpu_ns_per_call")?;
            Some(format!("{} µs of the server's CPU a call", significant(ns / 1e3, 3)))
        }
    }
}

/// The rate of one cell of a group.
pub fn rate(group: &Judged, at: usize, cells: &[CellView]) -> Option<Rate> {
    let cell = &cells[at];
    Some(Rate {
        profile: group.profile.clone(),
        per_second: cell.estimate.median?,
        interval: cell.estimate.lower.zip(cell.estimate.upper),
        cpu: if group.offered { cpu(cell) } else { None },
        latency: latency(cell),
    })
}

/// The objective that half of the searches kept at the rate, and the rate to plan with; else the 99th percentile.
fn latency(cell: &CellView) -> Option<String> {
    let Some(knee) = cell.call.as_ref().and_then(|call| call.knee.as_ref()) else {
        return cell.median("total_p99_ns").map(|ns| format!("p99 {}", Nanos(ns as u64)));
    };
    let there = knee.at_knee_ns.map(|ns| format!("{} there", Nanos(ns as u64)));
    let notes: Vec<String> = there.into_iter().chain(planned(cell)).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join("; ")) };
    Some(format!("{} kept within {} in half of the searches{notes}", knee.percentile, Nanos(knee.limit_ns)))
}
