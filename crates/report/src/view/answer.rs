//! Decides what may be said about a set of groups: proven, bounded, open, or nothing, and why.
//!
//! The statistics have judged already; here stand the rules about when their judgement may be used at all. Only the
//! evidence of the groups themselves forbids an answer: how quiet the machine was is told beside it.

use bytegauge_model::Nanos;
use bytegauge_model::unit::significant;
use bytegauge_stats::group::Method;
use bytegauge_stats::recommend::{Reason, Recommendation};

use super::audit::{Together, withdrawal};
use super::compare::{Judged, moves_nothing};
use super::document::CellView;
use super::knee::planned;
use super::settled::{Blocks, Settled};
use crate::phrase;
use crate::sentence::{Answer, GoesOn, Rate, Settle, percent, same_twice};

/// From this share of failing calls on a choice is not named without them.
const FAILING: f64 = 0.01;

/// What decides beside the statistics.
pub struct Conditions<'a> {
    /// The cells, as they will be printed; in the order of the settled ones.
    pub cells: &'a [CellView],
    /// The same cells with their trials.
    pub settled: &'a [Settled<'a>],
    /// The blocks they were measured in.
    pub blocks: &'a Blocks<'a>,
    /// The session was cut off.
    pub unfinished: bool,
    /// It goes on just now: what was not judged yet is due.
    pub running: bool,
    /// It was measured here, and may go on here.
    pub resumable: bool,
    /// The time that the session was given or took, seconds.
    pub budget_s: Option<f64>,
    /// How confirmation went round by round.
    pub rounds: Rounds,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// When the session began, nanoseconds of Unix time.
    pub started_unix_ns: u64,
    /// What long trials show of all groups together.
    pub audit: Option<Together>,
}

/// Confirmation, round by round: a group on the side has a block in some of the rounds only.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// How many there were: the blocks of the group that had most.
    most: usize,
    /// How many were fixed before the first of them, where that is known.
    planned: Option<u64>,
    /// Time of one, seconds.
    each_s: f64,
}

impl Rounds {
    /// Of all groups of a session.
    pub fn of<'a>(groups: impl Iterator<Item = &'a Judged<'a>>) -> Rounds {
        let (mut most, mut planned, mut total_s) = (0, None, 0.0);
        for group in groups {
            // One on the side says fewer.
            planned = planned.max(group.row.number("blocks_fixed"));
            most = most.max(group.blocks_done);
            total_s += group.block_ns.unwrap_or(0) as f64 * group.blocks_done as f64 / 1e9;
        }
        Rounds { most, planned, each_s: total_s / most.max(1) as f64 }
    }

    /// Time in which a group that has had `done` blocks gets `more`, seconds; `None` if it had none.
    fn seconds_for(&self, more: u64, done: usize) -> Option<f64> {
        (done > 0).then(|| more as f64 * self.most as f64 / done as f64 * self.each_s)
    }
}

/// A decision.
pub struct Decision {
    /// In words.
    pub answer: Answer,
    /// Index of the choice that it names.
    pub choice: Option<usize>,
    /// Whether the choice is proven for use, not for draining alone.
    pub proven: bool,
    /// So much dearer than the best confirmed it is at most, as a share.
    pub bound: Option<f64>,
    /// Whether what is proven holds with the twins in their cells' places.
    pub survives_exchange: Option<bool>,
    /// What would settle it, if it is open.
    pub settle: Option<Settle>,
}

impl Decision {
    fn nothing(why: impl Into<String>) -> Decision {
        Decision::unjudged(Answer::Nothing(why.into()), None)
    }

    /// An answer that rests on no comparison.
    fn unjudged(answer: Answer, choice: Option<usize>) -> Decision {
        Decision { answer, choice, proven: false, bound: None, survives_exchange: None, settle: None }
    }
}

/// Decides about `groups` (of one family) by the recommendation over those of them that are confirmed.
/// `drain_blocks`: a proof for a reader that throws the bytes away is no proof here.
pub fn decide(
    groups: &[&Judged],
    recommendation: Option<&Recommendation>,
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
        let Rounds { most, planned, .. } = conditions.rounds;
        let blocks = most as u64;
        let answer = match conditions.running {
            true => Answer::Running { choice, blocks, planned },
            false => Answer::Interrupted { choice, blocks, planned, goes_on: conditions.resumable },
        };
        return Decision::unjudged(answer, recommendation.cell);
    }
    let drains = confirmed.iter().all(|group| phrase::throws_away(&group.row.group.factors));
    let settle = settle(&confirmed, recommendation, conditions);
    let withdrawn = withdrawal(&confirmed, recommendation.cell, conditions).filter(|_| recommendation.proven);
    let proven = recommendation.proven && withdrawn.is_none();
    let answer = match proven {
        true if drains => Answer::DrainOnly { choice, proven: true },
        true => Answer::Proven { choice, smaller: smaller(&confirmed, recommendation.cell, conditions) },
        false => match boundary(&confirmed, recommendation, varied, conditions) {
            Some(parts) => Answer::Boundary(parts),
            None => {
                let why = withdrawn.or_else(|| why_open(&confirmed, recommendation));
                Answer::NotProven { best: choice, why, settle: settle.clone() }
            }
        },
    };
    Decision {
        answer,
        choice: recommendation.cell,
        proven: proven && !(drains && drain_blocks),
        bound: recommendation.worst_upper.map(f64::exp_m1).filter(|bound| bound.is_finite()),
        survives_exchange: survives_exchange(&confirmed, recommendation, conditions.margin).filter(|_| proven),
        settle: settle.filter(|_| !recommendation.proven),
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
        levels.foreign().is_some() && levels.offers_load()
    };
    if confirmed.is_empty()
        && real.iter().all(unseen)
        && real.iter().any(|&at| !conditions.settled[at].trials.is_empty())
    {
        return Some(Decision::nothing(
            "under an offered load it is the server's CPU time that is compared, and a server that is not ours does not \
             show it: compare the percentiles below, or leave out --rate and --think",
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
                    "a longer --budget leaves time to confirm"
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

/// What the choice has against it, as part of its name: calls that fail are no service, however fast the others are.
fn failing(confirmed: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> String {
    let cells = confirmed.iter().filter_map(|group| Some(&conditions.cells[group.cell(choice)?]));
    let worst = cells.filter_map(|cell| cell.call.as_ref()?.failed_share).reduce(f64::max);
    let worst = worst.filter(|share| *share >= FAILING);
    worst.map_or_else(String::new, |share| format!(", where {} of the calls fail", percent(share)))
}

/// Whether what is proven of a choice holds in every profile with the twin in its cell's place; `None` where nothing
/// is proven, or no profile has a twin.
fn survives_exchange(confirmed: &[&Judged], recommendation: &Recommendation, margin: f64) -> Option<bool> {
    let cell = recommendation.cell.filter(|_| recommendation.proven)?;
    let method = Method { margin, ..Method::default() };
    let each = confirmed.iter().filter_map(|group| group.verdict.survives_exchange(cell, &method));
    each.reduce(|all, one| all && one)
}

/// Whether anything smaller than the recommended cell was measured; `None` where sizes say nothing.
fn smaller(confirmed: &[&Judged], choice: Option<usize>, conditions: &Conditions) -> Option<bool> {
    let mut any = false;
    for group in confirmed {
        let own = conditions.cells[group.cell(choice)?].footprint?;
        let measured = group.candidates.iter().map(|&at| &conditions.cells[at]).filter(|cell| cell.trials > 0);
        any |= measured.filter_map(|cell| cell.footprint).any(|footprint| footprint < own);
    }
    Some(any)
}

/// Where every profile has a proven choice of its own, neighbouring profiles with the same one joined.
fn boundary(
    confirmed: &[&Judged],
    recommendation: &Recommendation,
    varied: &[String],
    conditions: &Conditions,
) -> Option<Vec<(Vec<String>, String)>> {
    if recommendation.reason != Reason::NotProven || confirmed.len() < 2 {
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

fn why_open(confirmed: &[&Judged], recommendation: &Recommendation) -> Option<String> {
    match recommendation.reason {
        Reason::Inconclusive { profile } => confirmed.get(profile)?.verdict.inconclusive.map(|why| why.to_string()),
        Reason::TwinAlarm { profile } => {
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
            let against = confirmed.iter().any(|group| group.verdict.spoken_against.contains(&cell));
            against.then(|| "plain means, in which its slow trials count in full, speak against it".to_owned())
        }
    }
}

fn settle(confirmed: &[&Judged], recommendation: &Recommendation, conditions: &Conditions) -> Option<Settle> {
    let needed = recommendation.blocks_more_needed? as u64;
    let blocks = confirmed.iter().map(|group| group.standing.until_judged(needed)).max().unwrap_or(needed);
    // A longer session gives every group more blocks, one on the side fewer than the others.
    let fewest = confirmed.iter().map(|group| group.blocks_done).min().unwrap_or(0);
    let all = conditions.rounds.seconds_for(blocks, fewest).filter(|_| conditions.resumable);
    Some(Settle {
        blocks,
        session_s: all,
        budget_s: conditions.budget_s.zip(all).map(|(budget, more)| budget + more),
        goes_on: match conditions.resumable {
            false => GoesOn::Elsewhere,
            true if confirmed.iter().all(|group| group.standing.has_room_for(needed)) => GoesOn::ByLooks,
            true => GoesOn::No,
        },
    })
}

/// The rate of a choice in each of the groups that confirmed it.
pub fn rates(groups: &[&Judged], choice: Option<usize>, cells: &[CellView]) -> Vec<Rate> {
    let shown = groups.iter().filter_map(|group| rate(group, group.cell(choice)?, cells));
    shown.collect()
}

/// What is compared under an offered load, in words.
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
    let beside: Vec<String> = there.into_iter().chain(planned(cell)).collect();
    let beside = if beside.is_empty() { String::new() } else { format!(" ({})", beside.join("; ")) };
    Some(format!("{} kept within {} in half of the searches{beside}", knee.percentile, Nanos(knee.limit_ns)))
}
