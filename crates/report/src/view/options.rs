//! Options of sockets and pipes, as asked for and as they are in force. Linux changes many requests in silence; here
//! every one is compared with what it should have become.

use std::collections::BTreeMap;

use bytegauge_model::option::{self, OPTIONS, OptionRow};
use bytegauge_model::trial::effective;
use bytegauge_model::{CellKind, EffectiveOptions, EndRole, Level, Spec, Trial, factor};
use serde_json::Value;

use super::numbers::{CellView, OptionView};

/// Every option that was requested, or that an end reports.
pub fn of_cell(levels: &Spec, trials: &[&Trial]) -> BTreeMap<&'static str, OptionView> {
    let source = effective(trials, Trial::source_side);
    let sink = effective(trials, Trial::sink_side);
    let at = |end: Option<&EffectiveOptions>, name: &str| end.map(|end| value(end.get(name))).unwrap_or_default();
    let shown = OPTIONS.iter().map(|row| {
        let view = OptionView {
            requested: value(&levels.get(row.factor)),
            source: at(source, row.factor),
            sink: at(sink, row.factor),
            as_asked: as_asked(row, levels, source, sink),
        };
        (row.factor, view)
    });
    let share = |end: Option<&EffectiveOptions>| end.map(|end| Value::from(end.page_cache_share)).unwrap_or_default();
    let cached = OptionView { source: share(source), sink: share(sink), ..OptionView::default() };
    shown.chain([("page_cache_share", cached)]).filter(|(_, option)| *option != OptionView::default()).collect()
}

/// The options that an end of the cell's workload should have in force, by the end's side: source first, then sink.
fn expected(row: &OptionRow, levels: &Spec) -> Option<(Level, [bool; 2])> {
    let level = option::asked(levels, row)?;
    let ends = levels.workload().path_ends()?;
    let (setters, _) = (row.sites)(levels);
    Some((row.expected(&level), ends.map(|end| setters.contains(&end))))
}

/// Whether a request is in force at every end that made it; `None` without a request, or where it is not known.
fn as_asked(
    row: &OptionRow,
    levels: &Spec,
    source: Option<&EffectiveOptions>,
    sink: Option<&EffectiveOptions>,
) -> Option<bool> {
    let (expected, sets) = expected(row, levels)?;
    let reported = [source, sink].into_iter().zip(sets).filter(|(_, sets)| *sets);
    let reported = reported.filter_map(|(end, _)| Some(end?.get(row.factor)).filter(|level| **level != Level::Absent));
    reported.map(|level| *level == expected).reduce(|one, other| one && other)
}

fn value(level: &Level) -> Value {
    match level {
        Level::Absent => Value::Null,
        level => serde_json::to_value(level).unwrap_or_default(),
    }
}

/// Notes on requests that the kernel changed.
pub fn notes(cells: &[CellView]) -> Vec<String> {
    let mut changed: Vec<String> = Vec::new();
    for cell in cells.iter().filter(|cell| cell.kind == CellKind::Candidate) {
        for (name, view) in cell.counters.options.iter().filter(|(_, view)| view.as_asked == Some(false)) {
            let text = change(name, cell, view);
            changed.extend(text.filter(|text| !changed.contains(text)));
        }
    }
    changed
}

fn change(name: &str, cell: &CellView, view: &OptionView) -> Option<String> {
    let (row, factor) = (option::of_factor(name)?, factor::find(name)?);
    let levels = &cell.factors;
    let (expected, sets) = expected(row, levels)?;
    let shown = |value: &Value| serde_json::from_value(value.clone()).map(|level: Level| factor.kind.show(&level)).ok();
    let differ: Vec<(EndRole, &Value)> = levels
        .workload()
        .path_ends()?
        .into_iter()
        .zip([&view.source, &view.sink])
        .zip(sets)
        .filter(|((_, found), sets)| *sets && !found.is_null() && **found != value(&expected))
        .map(|(end, _)| end)
        .collect();
    let found = differ.iter().map(|(end, found)| Some(format!("{} at the {end}", shown(found)?)));
    let found: Vec<String> = found.collect::<Option<_>>()?;
    let in_force: Level = serde_json::from_value(differ.first()?.1.clone()).ok()?;
    let (asked, why) = (shown(&view.requested)?, row.explained(&expected, &in_force));
    Some(format!("--{} {asked}: {} is {}: {why}", factor.flag(), row.name, found.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(given: &[(&str, &str)]) -> Spec {
        given.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    /// Whether the request is in force as asked, where each end reports these levels.
    fn check(asked: &[(&str, &str)], source: &[(&str, &str)], sink: &[(&str, &str)], expected: Option<bool>) {
        let reported = |found| EffectiveOptions { levels: levels(found).into(), page_cache_share: None };
        let row = option::of_factor(asked[0].0).unwrap();
        let found = as_asked(row, &levels(asked), Some(&reported(source)), Some(&reported(sink)));
        assert_eq!(found, expected, "{asked:?} {source:?} {sink:?}");
    }

    #[test]
    fn requests_are_compared_where_they_were_made() {
        check(&[("sndbuf", "50K")], &[("sndbuf", "100K")], &[("sndbuf", "1K")], Some(true));
        check(&[("sndbuf", "50K")], &[("sndbuf", "60K")], &[], Some(false));
        check(&[("rcvbuf", "50K")], &[("rcvbuf", "1K")], &[("rcvbuf", "100K")], Some(true));
        check(&[("nodelay", "on"), ("request", "512")], &[("nodelay", "on")], &[("nodelay", "off")], Some(false));
        check(&[("nodelay", "on")], &[("nodelay", "on")], &[("nodelay", "off")], Some(true));
        check(&[("busy_poll", "1500ns")], &[], &[("busy_poll", "2us")], Some(true));
    }

    #[test]
    fn options_without_a_request_have_no_note() {
        check(&[("sndbuf", "auto")], &[("sndbuf", "100K")], &[], None);
        check(&[("sndbuf", "50K")], &[], &[("sndbuf", "100K")], None);
    }
}
