//! Options that only the screening measured, and that were slower there. They have no intervals.

use std::collections::BTreeSet;

use bytegauge_model::{CellKind, Level};

use super::super::document::{AvoidView, CellView, GroupView, OptionResult, View};
use super::level_label;

/// An option below this share of the recommended one's rate is far behind.
const FAR: f64 = 0.75;

/// The levels that the screening showed to be significantly slower, unless the recommended option has them: `4K`, or `read 4K`
/// of options that differ in several factors.
pub fn slower(view: &View, group: &GroupView, recommended: Option<&OptionResult>) -> Vec<String> {
    let own = recommended.and_then(|option| view.cell(&option.id));
    let is_other = |avoid: &&AvoidView| own.is_some_and(|own| own.factors.get(&avoid.factor) != Some(&avoid.level));
    let label = |avoid: &AvoidView| {
        let level: Level = serde_json::from_value(avoid.level.clone()).unwrap_or(Level::Absent);
        level_label(&group.varied, &avoid.factor, &level)
    };
    group.avoid.iter().filter(is_other).map(label).collect()
}

/// The options far behind the recommended one that were not confirmed: by a level where all options with it are (`bbr`), else by
/// their labels.
pub fn far_behind(
    view: &View,
    group: &GroupView,
    options: &[OptionResult],
    recommended: Option<&OptionResult>,
) -> Vec<String> {
    let of_time = recommended.filter(|_| !group.cost.starts_with("cpu_"));
    let Some(fast) = of_time.and_then(|option| option.rate) else { return Vec::new() };
    let known = slower(view, group, recommended);
    let is_far =
        |option: &OptionResult| option.slower_upper.is_none() && option.rate.is_some_and(|rate| rate < FAR * fast);
    let measured: Vec<(&OptionResult, &CellView)> = options
        .iter()
        .filter(|option| option.rate.is_some())
        .filter_map(|own| Some((own, view.cell(&own.id)?)))
        .collect();
    let mut left: Vec<(&OptionResult, &CellView)> = measured.iter().copied().filter(|(own, _)| is_far(own)).collect();
    let mut labels: Vec<String> = Vec::new();
    for factor in group.varied.iter().filter(|_| group.varied.len() > 1) {
        let levels: BTreeSet<Level> = left.iter().map(|(_, cell)| cell.level(factor)).collect();
        for level in levels.into_iter().filter(|level| *level != Level::Absent) {
            let has = |cell: &CellView| cell.kind == CellKind::Candidate && cell.level(factor) == level;
            if measured.iter().filter(|(_, cell)| has(cell)).all(|(own, _)| is_far(own)) {
                labels.push(level_label(&group.varied, factor, &level));
                left.retain(|(_, cell)| !has(cell));
            }
        }
    }
    labels.extend(left.iter().map(|(own, _)| own.label.clone()));
    labels.retain(|label| !known.contains(label));
    labels
}
