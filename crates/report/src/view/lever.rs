//! The effect of other settings: groups that differ in one condition only, each at its best choice, and choices that are no
//! sizes, within their group.
//!
//! A user who compares sizes should first learn that another setting has a larger effect. Groups have no blocks in common, but
//! they alternate, so their blocks are compared round by round; rounds are correlated, so adjacent ones are merged before an
//! interval is computed. The best choice of either group is known from the same trials: a slight optimism on both sides.

use bytegauge_model::{Level, Role, Spec, Transport};
use bytegauge_stats::interval::{ROUND_MEANS, batched_interval};
use bytegauge_stats::outlier::limit;
use serde_json::to_value;

use super::compare::GroupAnalysis;
use super::document::LeverView;
use super::groups::id_of;
use super::recommendation::Conditions;

/// Conditions that a user could change for the same work.
const LEVERS: &[&str] = &["placement", "transport", "write_size", "read_size"];

/// How much slower one group is than another at their best choices, in ln of cost.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Apart {
    /// Lower end of the interval.
    lower: f64,
    /// Upper end.
    upper: f64,
}

impl Apart {
    /// Their smallest distance, whichever is the slower one.
    fn least(self) -> f64 {
        self.lower.max(-self.upper).max(0.0)
    }
}

/// Compares two groups at a choice each, round by round; `None` with too few rounds.
fn apart(a: (&GroupAnalysis, usize), b: (&GroupAnalysis, usize), level: f64) -> Option<Apart> {
    let costs = |(group, choice): (&GroupAnalysis, usize)| -> Vec<f64> {
        group.input.blocks.iter().filter_map(|block| block.cost.get(choice).copied().flatten()).collect()
    };
    let (a, b) = (costs(a), costs(b));
    let rounds = a.len().min(b.len());
    // A secondary group has fewer blocks, spread over the same time.
    let at = |costs: &[f64], round: usize| costs[round * costs.len() / rounds];
    let differences: Vec<f64> = (0..rounds).map(|round| (at(&a, round) / at(&b, round)).ln()).collect();
    let (lower, upper) = batched_interval(&limit(&differences), ROUND_MEANS, level)?;
    (lower.is_finite() && upper.is_finite()).then_some(Apart { lower, upper })
}

/// How far the confirmed choices of a group are apart, in ln of cost.
fn spread_of_choices(group: &GroupAnalysis) -> f64 {
    group.verdict.excess.iter().flatten().copied().fold(0.0, f64::max)
}

/// Every lever with a significantly larger effect than the choices of its group, the largest first.
pub fn levers(groups: &[GroupAnalysis], conditions: &Conditions) -> Vec<LeverView> {
    let groups: Vec<&GroupAnalysis> = groups.iter().filter(|group| choice_of(group).is_some()).collect();
    let pairs: Vec<(&str, &GroupAnalysis, &GroupAnalysis)> = groups
        .iter()
        .enumerate()
        .flat_map(|(at, a)| groups[at + 1..].iter().map(move |b| (*a, *b)))
        .filter_map(|(a, b)| Some((only_difference(a, b)?, a, b)))
        .collect();
    let level = 1.0 - (1.0 - conditions.level) / pairs.len().max(1) as f64;
    let mut found: Vec<LeverView> = pairs
        .into_iter()
        .filter_map(|(factor, a, b)| {
            let apart = apart((a, choice_of(a)?), (b, choice_of(b)?), level)?;
            let (slow, fast, times) = match apart.lower > 0.0 {
                true => (a, b, (apart.lower, apart.upper)),
                false => (b, a, (-apart.upper, -apart.lower)),
            };
            let beats = apart.least() > spread_of_choices(slow).max(conditions.margin.ln_1p());
            beats.then(|| lever(factor, slow, fast, times, conditions)).flatten()
        })
        .collect();
    found.extend(groups.iter().filter_map(|group| within(group, conditions)));
    found.sort_by(|a, b| b.times_lower.total_cmp(&a.times_lower));
    found
}

fn choice_of(group: &GroupAnalysis) -> Option<usize> {
    group.alone.cell.or_else(|| group.verdict.leader()).filter(|_| group.is_confirmed() && group.standing.proves)
}

/// The one condition in which two groups differ, if a user could change it.
fn only_difference(a: &GroupAnalysis, b: &GroupAnalysis) -> Option<&'static str> {
    let (one, other) = (&a.row.group.factors, &b.row.group.factors);
    let names = one.iter().chain(other.iter()).map(|(name, _)| name);
    let mut differing: Vec<&str> = names.filter(|name| one.get(name) != other.get(name)).collect();
    differing.sort_unstable();
    differing.dedup();
    // Factors that exist over one transport only differ along with it.
    if differing.contains(&"transport") {
        differing.retain(|name| {
            *name == "transport" || (one.get(name) != Level::Absent && other.get(name) != Level::Absent)
        });
    }
    let [only] = differing[..] else { return None };
    // A device or file is no substitute for another source of bytes.
    let is_source = |spec: &Spec| matches!(spec.transport(), Some(Transport::Source(_)));
    if only == "transport" && (is_source(one) || is_source(other)) {
        return None;
    }
    LEVERS.iter().find(|name| **name == only).copied()
}

fn lever(
    factor: &str,
    slow: &GroupAnalysis,
    fast: &GroupAnalysis,
    (lower, upper): (f64, f64),
    conditions: &Conditions,
) -> Option<LeverView> {
    let level = |group: &GroupAnalysis| to_value(group.row.group.factors.get(factor)).ok();
    Some(LeverView {
        factor: factor.to_owned(),
        from: level(slow)?,
        to: level(fast)?,
        group: slow.row.group.id.clone(),
        times_lower: lower.exp(),
        times_upper: Some(upper.exp()),
        cell: id_of(fast, choice_of(fast), conditions)?,
    })
}

/// A choice that is no size, against its other levels among the confirmed choices, by the group's own blocks. Without another
/// compared factor its effect cannot be larger.
fn within(group: &GroupAnalysis, conditions: &Conditions) -> Option<LeverView> {
    let chosen = choice_of(group)?;
    let levels_of = |choice: usize| Some(&conditions.settled[group.cell(Some(choice))?].cell.factors);
    let own = levels_of(chosen)?;
    let compared = || group.varied.iter().filter(|name| own.role_of(name) == Role::Choice);
    let others = compared().filter(|name| !name.ends_with("_size") && compared().any(|other| other != *name));
    let found = others.filter_map(|factor| {
        // A choice without a level, such as the threads of some relays, is determined by another factor.
        let has = |choice: &usize| levels_of(*choice).is_some_and(|levels| levels.get(factor) != Level::Absent);
        let same =
            |choice: &usize| levels_of(*choice).is_some_and(|levels: &Spec| levels.get(factor) == own.get(factor));
        let (with, without): (Vec<usize>, Vec<usize>) = group.verdict.present.iter().copied().partition(same);
        let excess = |choice: &usize| group.verdict.excess[*choice].unwrap_or(f64::INFINITY);
        let spread = with.iter().map(excess).fold(conditions.margin.ln_1p(), f64::max);
        let rival = without
            .into_iter()
            .filter(|rival| has(rival) && has(&chosen))
            .min_by(|a, b| excess(a).total_cmp(&excess(b)))?;
        let pair = group.verdict.pair(rival, chosen)?;
        let reach = pair.critical * pair.error;
        (pair.mean - reach > spread).then_some(())?;
        Some(LeverView {
            factor: factor.clone(),
            from: to_value(levels_of(rival)?.get(factor)).ok()?,
            to: to_value(own.get(factor)).ok()?,
            group: group.row.group.id.clone(),
            times_lower: (pair.mean - reach).exp(),
            times_upper: Some((pair.mean + reach).exp()).filter(|times| times.is_finite()),
            cell: id_of(group, Some(chosen), conditions)?,
        })
    });
    found.max_by(|a, b| a.times_lower.total_cmp(&b.times_lower))
}
