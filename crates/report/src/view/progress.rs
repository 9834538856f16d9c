//! How far a session has come at a look: which questions are settled, and whose answers are to be audited.

use bytegauge_model::Cell;
use bytegauge_stats::group::Method;
use bytegauge_stats::looks;

use super::audit::{Subject, subjects};
use super::compare::{Family, Judged, Scene, families};
use super::group_blocks::GroupBlocks;
use super::looks::Looks;
use super::settled::{Blocks, Settled};
use super::versus::Compared;
use super::{Settings, method, plan_varied, settled, two};
use crate::SessionData;

/// What a look has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Groups in which choices are compared.
    pub groups: usize,
    /// Those of which more blocks would be of no use: something is proven, or nothing ever will be.
    pub settled: usize,
}

impl Progress {
    /// Judges a session by the last look that its groups completed.
    #[must_use]
    pub fn of(session: &SessionData, settings: &Settings) -> Progress {
        compared(session, settings, |families, all, method| {
            let mut progress = Progress { groups: 0, settled: 0 };
            if let Some(two) = two(session) {
                let judged: Vec<&Judged> = families.iter().flat_map(|family| &family.groups).collect();
                let settled = Compared::of(&two, &judged, all, method.margin).is_settled();
                return Progress { groups: 1, settled: usize::from(settled) };
            }
            let compares = |group: &&Judged| group.verdict.present.len() > 1;
            for group in families.iter().flat_map(|family| &family.groups).filter(compares) {
                let method = Method { level: group.standing.level, ..*method };
                progress.groups += 1;
                if looks::settled(std::slice::from_ref(&group.verdict), &method) {
                    progress.settled += 1;
                }
            }
            progress
        })
    }
}

impl Subject {
    /// Whose answers a session gives so far, and whom they should be compared with in long trials.
    #[must_use]
    pub fn all_of(session: &SessionData, settings: &Settings) -> Vec<Subject> {
        compared(session, settings, |families, settled, _| subjects(families, settled))
    }
}

/// What follows from the comparison of a session so far.
pub fn compared<T>(
    session: &SessionData,
    settings: &Settings,
    then: impl FnOnce(&[Family], &[Settled], &Method) -> T,
) -> T {
    let cells: Vec<Cell> = session.cells.iter().map(|row| row.cell.clone()).collect();
    let (method, varied) = (method(session, settings), plan_varied(&cells));
    let group_blocks = GroupBlocks::of(&session.blocks);
    let looks = Looks::of(&session.groups, session.record.status, method.level);
    let blocks = Blocks::of(&session.blocks, |group| looks.judged(&session.groups, &group_blocks, group));
    let settled = settled(session, &cells, &blocks);
    let scene = Scene {
        settled: &settled,
        blocks: &blocks,
        group_blocks: &group_blocks,
        varied: &varied,
        method: &method,
        looks: &looks,
    };
    then(&families(session, &scene), &settled, &method)
}
