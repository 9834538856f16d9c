//! The analysis of a session between two rounds of blocks: code outside of this crate, which only uses the stored data.

use std::collections::BTreeMap;

use bytegauge_model::{AnalysedGroup, AnalysisProgress, BlockRecord, GroupId, SessionId, SessionStatus, Stage};
use bytegauge_store::{GroupRow, Store, StoreError};

/// Analyses a session by its stored data only.
pub trait SessionAnalysis {
    /// Analyses a session whose blocks were just completed.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn analyse(&mut self, store: &Store, session: SessionId) -> Result<AnalysisProgress, StoreError>;

    /// The recommendations of a session so far, for the long-trial check.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<AnalysedGroup>, StoreError>;
}

// The state of a session between its analyses, from facts that are stored with its groups.

/// Fact of a group: the number of declared analyses.
pub(crate) const LOOKS: &str = "looks";

/// Fact of a group: its blocks until the first analysis.
pub(crate) const BLOCKS: &str = "blocks_fixed";

/// Fact of a group: the analysis that was begun last.
pub(crate) const BEGUN: &str = "look";

/// The state of a session between its analyses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnalysisState {
    /// The analysis that was begun last, from 1; 0 before the first.
    pub begun: u64,
    /// The number of declared analyses.
    pub of: u64,
}

impl AnalysisState {
    /// Reads the facts of a session's groups; `None` if it declared no analyses: it has no confirmation yet, or an older
    /// version measured it.
    #[must_use]
    pub fn of(rows: &[GroupRow]) -> Option<AnalysisState> {
        let most = |name: &str| rows.iter().filter_map(|row| row.number(name)).max();
        Some(AnalysisState { begun: most(BEGUN).unwrap_or(0), of: most(LOOKS)? })
    }

    /// Whether an analysis is left when the last begun one is complete.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.begun < self.of
    }

    /// The analysis with which a resumed session of a status continues: the begun one if it is not complete, else the next.
    /// `None` if none is left.
    #[must_use]
    pub fn look_ahead(state: Option<AnalysisState>, status: SessionStatus) -> Option<u64> {
        match (status, state) {
            (SessionStatus::Complete, Some(state)) if state.has_next() => Some(state.begun + 1),
            (SessionStatus::Complete, _) => None,
            (_, state) => Some(state.map_or(1, |state| state.begun.max(1))),
        }
    }
}

/// The work of a resumed session until its analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The analysis, from 1.
    pub look: u64,
    /// Missing confirmation blocks of a group, at most, and their total after them.
    pub blocks: (u64, u64),
    /// Their time in all groups if blocks take as long as before, nanoseconds; `None` if a group had none.
    pub blocks_ns: Option<u64>,
}

impl Ahead {
    /// From the stored session; `None` if its blocks are not fixed yet.
    #[must_use]
    pub fn of(groups: &[GroupRow], blocks: &[BlockRecord], look: u64) -> Option<Ahead> {
        let doubled = |first: u64| first.saturating_mul(1 << look.saturating_sub(1).min(62));
        let of_group = |(group, first): (GroupId, u64)| {
            let whole = |block: &&BlockRecord| block.group == group && block.stage == Stage::Confirm && block.complete;
            let (sum_ns, seen) = blocks
                .iter()
                .filter(whole)
                .fold((0, 0), |(ns, seen): (u64, u64), block| (ns + block.surroundings.wall_ns, seen + 1));
            let (until, due) = (doubled(first), doubled(first).saturating_sub(seen));
            (due, until, if due == 0 { Some(0) } else { sum_ns.checked_div(seen).map(|each| due.saturating_mul(each)) })
        };
        let ahead: Vec<_> = first_blocks(groups).into_iter().map(of_group).collect();
        let (due, until, _) = ahead.iter().max_by_key(|(due, until, _)| (*due, *until))?;
        Some(Ahead { look, blocks: (*due, *until), blocks_ns: ahead.iter().map(|(.., ns)| *ns).sum() })
    }
}

/// Blocks of every group until its first look, as far as they were fixed.
pub(crate) fn first_blocks(rows: &[GroupRow]) -> BTreeMap<GroupId, u64> {
    rows.iter().filter_map(|row| Some((row.group.id.clone(), row.number(BLOCKS)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::Group;
    use serde_json::{Value, json};

    fn row(facts: Value) -> GroupRow {
        let facts = serde_json::from_value(facts).expect("an object");
        GroupRow { group: Group { id: GroupId("g1".into()), factors: Default::default() }, facts }
    }

    #[test]
    fn the_plan_declares_what_the_statistics_expect() {
        assert_eq!(usize::try_from(bytegauge_plan::LOOKS), Ok(bytegauge_stats::interim::LOOKS));
    }

    #[test]
    fn facts_give_the_state_of_a_session() {
        let check = |facts: Value, expected: Option<(u64, u64, bool)>| {
            let got = AnalysisState::of(&[row(json!({})), row(facts.clone())]);
            assert_eq!(got.map(|state| (state.begun, state.of, state.has_next())), expected, "{facts}");
        };
        check(json!({"blocks_fixed": 40}), None);
        check(json!({"blocks_fixed": 40, "looks": 3}), Some((0, 3, true)));
        check(json!({"looks": 3, "look": 2}), Some((2, 3, true)));
        check(json!({"looks": 3, "look": 3}), Some((3, 3, false)));
    }

    #[test]
    fn a_resumed_session_finishes_the_begun_analysis() {
        use SessionStatus::{Complete, Incomplete, Running};
        let check = |begun: Option<u64>, status, expected| {
            let state = begun.map(|begun| AnalysisState { begun, of: 3 });
            assert_eq!(AnalysisState::look_ahead(state, status), expected, "{begun:?} {status:?}");
        };
        check(None, Incomplete, Some(1));
        check(None, Complete, None);
        check(Some(0), Running, Some(1));
        check(Some(1), Incomplete, Some(1));
        check(Some(1), Complete, Some(2));
        check(Some(2), Incomplete, Some(2));
        check(Some(3), Complete, None);
    }

    #[test]
    fn forecasts_use_the_measured_time() {
        let block = |index, wall_ns, complete| BlockRecord {
            index,
            group: GroupId("g1".into()),
            stage: Stage::Confirm,
            started_unix_ns: 0,
            complete,
            surroundings: bytegauge_model::session::Surroundings { wall_ns, ..Default::default() },
        };
        let rows = [row(json!({"looks": 3, "blocks_fixed": 6}))];
        let blocks = [block(0, 100, true), block(1, 9999, false), block(2, 300, true)];
        let ahead = |look, blocks: &[BlockRecord]| Ahead::of(&rows, blocks, look).map(|of| (of.blocks, of.blocks_ns));
        assert_eq!(ahead(1, &blocks), Some(((4, 6), Some(800))));
        assert_eq!(ahead(2, &blocks), Some(((10, 12), Some(2000))));
        assert_eq!(ahead(1, &[]), Some(((6, 6), None)));
        assert_eq!(Ahead::of(&[row(json!({}))], &blocks, 1), None);
    }
}
