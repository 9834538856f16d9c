//! The state of each group's blocks.

use std::collections::HashMap;

use bytegauge_model::{BlockRecord, GroupId, Stage};

use super::document::BlocksView;

/// Confirmation blocks of each group: their number, state and duration.
pub struct GroupBlocks(HashMap<GroupId, BlocksView>);

impl GroupBlocks {
    /// Counts the blocks of a session.
    pub fn of(blocks: &[BlockRecord]) -> GroupBlocks {
        let mut sums: HashMap<GroupId, (BlocksView, u64, u64)> = HashMap::new();
        for block in blocks.iter().filter(|block| block.stage == Stage::Confirm) {
            let (view, ns, timed) = sums.entry(block.group.clone()).or_default();
            match block.complete {
                true => view.used += 1,
                false => view.broken += 1,
            }
            if block.complete && block.surroundings.wall_ns > 0 {
                *ns = ns.saturating_add(block.surroundings.wall_ns);
                *timed += 1;
            }
        }
        let mean = |(id, (view, ns, timed)): (GroupId, (BlocksView, u64, u64))| {
            (id, BlocksView { mean_ns: ns.checked_div(timed), ..view })
        };
        GroupBlocks(sums.into_iter().map(mean).collect())
    }

    /// The blocks of a group.
    pub fn of_group(&self, group: &GroupId) -> BlocksView {
        self.0.get(group).cloned().unwrap_or_default()
    }
}
