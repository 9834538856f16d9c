//! Options to avoid: surely worse than the best one, or harmful.

use bytegauge_model::Level;

use super::super::document::{AvoidView, Avoided, GroupView, OptionResult, OptionStatus, Test, View};
use super::{harm, level_label, outcome};

/// The slower options, the slowest first, then the harmful ones, then levels that only the screening measured.
pub fn of(view: &View, group: &GroupView, test: &Test) -> Vec<Avoided> {
    // The same option measured twice differs by as much.
    let least = test.margin.max(test.control_upper.unwrap_or(0.0));
    let is_other = |option: &&OptionResult| test.recommended.as_ref() != Some(&option.id);
    let others = || test.options.iter().filter(is_other);
    let slower_by = |option: &OptionResult| option.slower_lower.filter(|lower| is_slower(option) && *lower > least);
    let mut slower: Vec<Avoided> = others()
        .filter_map(|option| {
            let upper = option.slower_upper.unwrap_or(f64::INFINITY);
            Some(Avoided { lower: slower_by(option)?, upper, ..named(option) })
        })
        .collect();
    let levels = screened(view, group, test).filter(|avoid| avoid.slower_lower > least);
    let mut levels: Vec<Avoided> = levels
        .map(|avoid| Avoided {
            option: None,
            label: label(group, avoid),
            lower: avoid.slower_lower,
            upper: avoid.slower_upper.unwrap_or(f64::INFINITY),
            harm: None,
            is_screened: true,
        })
        .collect();
    slower.sort_by(|a, b| b.lower.total_cmp(&a.lower));
    levels.sort_by(|a, b| b.lower.total_cmp(&a.lower));
    let harmful = harmful(test).into_iter().filter(|option| is_other(option) && slower_by(option).is_none());
    slower.extend(harmful.map(|option| Avoided { harm: Some(outcome::harmed(option)), ..named(option) }));
    slower.extend(levels);
    slower
}

fn is_slower(option: &OptionResult) -> bool {
    option.status == OptionStatus::Slower
}

fn named(option: &OptionResult) -> Avoided {
    let (lower, upper) = (0.0, 0.0);
    Avoided {
        option: Some(option.id.clone()),
        label: option.label.clone(),
        lower,
        upper,
        harm: None,
        is_screened: false,
    }
}

/// The confirmed options with harm, or all where none is confirmed; none where all have it.
fn harmful(test: &Test) -> Vec<&OptionResult> {
    let is_confirmed =
        |option: &&OptionResult| !test.is_compared() || option.slower_upper.is_some() || option.missed_load();
    let measured = test.options.iter().filter(|option| option.trials > 0).filter(is_confirmed);
    let (harmful, others): (Vec<_>, Vec<_>) = measured.partition(|option| harm::is_avoided(&option.harm));
    if others.is_empty() { Vec::new() } else { harmful }
}

/// The levels that the screening showed to be significantly slower, unless the recommended option has them.
fn screened<'a>(view: &View, group: &'a GroupView, test: &Test) -> impl Iterator<Item = &'a AvoidView> {
    let own = test.recommended.as_ref().and_then(|id| view.cell(id));
    group.avoid.iter().filter(move |avoid| own.is_some_and(|own| own.factors.get(&avoid.factor) != Some(&avoid.level)))
}

/// `4K`, or `read 4K` of options that differ in several factors.
fn label(group: &GroupView, avoid: &AvoidView) -> String {
    let level: Level = serde_json::from_value(avoid.level.clone()).unwrap_or(Level::Absent);
    level_label(&group.varied, &group.spec(), &avoid.factor, &level)
}
