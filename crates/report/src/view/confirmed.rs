//! The confirmed results of a session, for comparisons of several sessions.

use bytegauge_model::{CellId, CellKind, Cost, GroupId, Role, Spec};
use bytegauge_stats::group::GroupVerdict;
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_metrics::cost_ns;

use super::compare::{self, GroupAnalysis};
use super::estimate::throughput;
use super::input::CompareInput;
use super::input::Settings;
use super::levels::matching;
use crate::SessionData;

/// A group of a session, with the cells that were compared.
pub struct SessionGroup {
    /// The group.
    pub id: GroupId,
    /// Its conditions.
    pub conditions: Spec,
    /// Whether a significant result of it counts as proven.
    pub proves: bool,
    /// The compared cells.
    pub cells: Vec<ConfirmedCell>,
    /// Its comparison, with the cells in the same order.
    pub verdict: GroupVerdict,
}

/// A compared cell.
pub struct ConfirmedCell {
    /// The cell.
    pub id: CellId,
    /// Its choices.
    pub choices: Spec,
    /// The memory that it takes, bytes, where its choices state one.
    pub footprint_bytes: Option<f64>,
    /// It stalls, harms its users, or does not carry a load that others carry.
    pub unfit: bool,
}

impl SessionGroup {
    /// The groups of a session.
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<SessionGroup> {
        let input = CompareInput::of(session, settings);
        compare::groups(session, &input).into_iter().map(|group| of_group(group, &input)).collect()
    }
}

fn of_group(group: GroupAnalysis, input: &CompareInput) -> SessionGroup {
    let cells = group.cells.iter().zip(&group.input.cells).map(|(&at, cell)| {
        let settled = &input.settled[at];
        ConfirmedCell {
            id: settled.cell.id.clone(),
            choices: matching(&settled.cell.factors, Some(Role::Choice)),
            footprint_bytes: cell.footprint_bytes,
            unfit: cell.unfit,
        }
    });
    SessionGroup {
        id: group.row.group.id.clone(),
        conditions: matching(&group.row.group.factors, None),
        proves: group.standing.proves,
        cells: cells.collect(),
        verdict: group.verdict,
    }
}

/// The rate of a confirmed cell: the median that the report shows, so that no two screens order two cells of a session
/// differently.
pub struct ConfirmedRate {
    /// Its levels.
    pub levels: Spec,
    /// ln of its cost: the time of its work, or the CPU time under an offered load.
    pub ln_cost: f64,
    /// Its rate, per second.
    pub rate: Option<f64>,
}

impl ConfirmedRate {
    /// The confirmed cells of a session.
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<ConfirmedRate> {
        let input = CompareInput::of(session, settings);
        let confirmed =
            input.settled.iter().filter(|cell| cell.cell.kind == CellKind::Candidate && cell.is_confirmed());
        let each = confirmed.filter_map(|cell| {
            let rate = throughput(cell, input.method.level).median;
            let factors = &cell.cell.factors;
            let of_trials = |cost| cell.trials.iter().filter_map(move |trial| cost_ns(trial, cost, factors));
            let cost = match factors.cost(input.objective) {
                Cost::Time => rate.map(|rate| 1.0 / rate),
                other => median(&of_trials(other).collect::<Vec<_>>()),
            };
            let ln_cost = cost?.ln();
            ln_cost.is_finite().then(|| ConfirmedRate { levels: matching(&cell.cell.factors, None), ln_cost, rate })
        });
        each.collect()
    }
}
