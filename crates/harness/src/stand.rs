//! Where a session stands between its looks, by the facts that its groups keep.

use std::collections::BTreeMap;

use bytegauge_model::GroupId;
use bytegauge_store::GroupRow;

/// Fact of a group: how many looks were declared.
pub(crate) const LOOKS: &str = "looks";

/// Fact of a group: its blocks until the first look.
pub(crate) const BLOCKS: &str = "blocks_fixed";

/// Fact of a group: the look that was begun last.
pub(crate) const BEGUN: &str = "look";

/// Where a session stands between its looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The look that was begun last, from 1; 0 before the first.
    pub begun: u64,
    /// How many were declared.
    pub of: u64,
}

impl Stand {
    /// Reads the facts of a session's groups; `None` where it declared no looks: it confirmed nothing yet, or an older
    /// version measured it.
    #[must_use]
    pub fn of(rows: &[GroupRow]) -> Option<Stand> {
        let most = |name: &str| rows.iter().filter_map(|row| row.number(name)).max();
        Some(Stand { begun: most(BEGUN).unwrap_or(0), of: most(LOOKS)? })
    }

    /// Whether a look is left when the last one that was begun is complete.
    #[must_use]
    pub fn has_next(&self) -> bool {
        self.begun < self.of
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
        assert_eq!(usize::try_from(bytegauge_plan::LOOKS), Ok(bytegauge_stats::looks::LOOKS));
    }

    #[test]
    fn facts_say_where_a_session_stands() {
        let check = |facts: Value, expected: Option<(u64, u64, bool)>| {
            let got = Stand::of(&[row(json!({})), row(facts.clone())]);
            assert_eq!(got.map(|stand| (stand.begun, stand.of, stand.has_next())), expected, "{facts}");
        };
        check(json!({"blocks_fixed": 40}), None);
        check(json!({"blocks_fixed": 40, "looks": 3}), Some((0, 3, true)));
        check(json!({"looks": 3, "look": 2}), Some((2, 3, true)));
        check(json!({"looks": 3, "look": 3}), Some((3, 3, false)));
    }
}
