//! Choices that a session does not tell apart, and the one that fits a program with a single constant.
//!
//! Which cells may be the best was settled by the statistics; here it is only said. Nothing is called equal: not told
//! apart is not the same.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::{CellKind, FACTORS, Level};
use bytegauge_stats::recommend::{Candidate, named};
use serde_json::Value;

use super::super::document::{CellView, GroupView, UseRow, View};
use super::resource;
use crate::outward::at_most;
use crate::phrase;
use crate::sentence::is_nothing;

/// Levels that are listed one by one; of more only the number is said.
const LISTED: usize = 2;

/// The same of names where there is one question, whose row has the room.
const NAMED: usize = 3;

/// A level that may take half as much time again is no advice for a constant.
const BOUND_TOLD: f64 = 0.5;

/// A row with the choices of its group that may be the best as well.
pub fn fill(view: &View, group: &GroupView, named: &CellView, row: UseRow) -> UseRow {
    let cells: Vec<&CellView> =
        group.best_set.iter().filter(|id| **id != named.id).filter_map(|id| view.cell(id)).collect();
    let choice = |cell: &CellView| -> BTreeMap<String, Value> {
        let of = |name: &String| Some((name.clone(), cell.factors.get(name)?.clone()));
        group.varied.iter().filter_map(of).collect()
    };
    let tied = match (cells.len(), group.varied.as_slice()) {
        (0, _) => None,
        (_, [factor]) => Some(range(view, group, named, factor, &cells)),
        (1, factors) => Some(short(factors, cells[0])),
        (many, _) => Some(others(view, group, many)),
    };
    UseRow { ties: cells.into_iter().map(choice).collect(), tied, ..row }
}

/// Which options that a choice sets may as well be left to the system, where there is no room for the names of the ties:
/// `SO_RCVBUF auto: not told apart`.
pub fn unset(view: &View, group: &GroupView, named: &CellView) -> Option<String> {
    let tied: Vec<&CellView> = group.best_set.iter().filter_map(|id| view.cell(id)).collect();
    // A row that asks for one choice, or has one tie, names it.
    if group.varied.len() < 2 || tied.len() <= 2 {
        return None;
    }
    let is_set = |factor: &&String| !matches!(named.level(factor), Level::Absent) && !named.level(factor).is_auto();
    let may_be_auto = |factor: &&String| tied.iter().any(|cell| cell.level(factor).is_auto());
    let names: Vec<&str> = group
        .varied
        .iter()
        .filter(|factor| is_set(factor) && may_be_auto(factor))
        .map(|factor| phrase::in_code(factor))
        .collect();
    (!names.is_empty()).then(|| format!("{} auto: not told apart", names.join(", ")))
}

/// `64K/cubic`.
fn short(factors: &[String], cell: &CellView) -> String {
    let each = factors.iter().map(|factor| (factor, cell.level(factor))).filter(|(_, level)| *level != Level::Absent);
    each.map(|(factor, level)| phrase::compact(factor, &level)).collect::<Vec<_>>().join("/")
}

/// `64K–1M, auto`, or `any 4K–1M` with the named one among them, where nothing that was measured between the sizes has left; else one by one.
fn range(view: &View, group: &GroupView, named: &CellView, factor: &str, tied: &[&CellView]) -> String {
    let own = named.level(factor);
    let kept: BTreeSet<Level> = tied.iter().map(|cell| cell.level(factor)).collect();
    let show = |level: &Level| phrase::compact(factor, level);
    // What has no number, as what the system chooses, lies between no two.
    let (sizes, names): (Vec<&Level>, Vec<&Level>) = kept.iter().partition(|level| level.number().is_some());
    if let [first, .., last] = sizes[..] {
        let measured = candidates(view, group).map(|cell| cell.level(factor)).filter(|level| level.number().is_some());
        let mut between = measured.filter(|level| level >= first && level <= last);
        if between.all(|level| kept.contains(&level) || level == own) {
            // Then the row names one of what was asked and tells nothing of it.
            let all = if kept.len() + 1 == candidates(view, group).count() { phrase::ANY } else { "" };
            let range = format!("{all}{}–{}", show(first), show(last));
            return [range].into_iter().chain(names.into_iter().map(show)).collect::<Vec<_>>().join(", ");
        }
    }
    let is_alone = view.groups.len() == 1;
    let listed = if is_alone { NAMED } else { LISTED };
    // The name of a single one that is left is as short as a word for it.
    let listed = if is_alone && kept.len() == listed + 1 { kept.len() } else { listed };
    let shown = kept.iter().take(listed).map(show).collect::<Vec<_>>().join(", ");
    match kept.len() {
        many if many <= listed => shown,
        // Names lie in no range, and of one question alone they are the answer.
        many if is_alone && names.len() == many => format!("{shown}, {} others", many - listed),
        many => others(view, group, many),
    }
}

/// `3 others`; `any of 5 others` where nothing that was measured is told apart.
fn others(view: &View, group: &GroupView, many: usize) -> String {
    match many + 1 == candidates(view, group).count() {
        true => format!("{}of {many} others", phrase::ANY),
        false => format!("{many} others"),
    }
}

fn candidates<'a>(view: &'a View, group: &'a GroupView) -> impl Iterator<Item = &'a CellView> {
    let compared = |cell: &&CellView| cell.kind == CellKind::Candidate && cell.trials > 0;
    view.cells_of(&group.id).filter(compared)
}

/// For every choice that several questions ask for: the level that none of them speaks against, with the largest of the
/// bounds that it has there.
pub fn one(view: &View, rows: &[UseRow]) -> Vec<String> {
    // A row for all that ask for it says it already, with its bound.
    let is_told = |name: &str| {
        let asked = || view.groups.iter().filter(|group| group.varied.iter().any(|varied| varied == name));
        rows.iter().any(|row| row.one_for_all && asked().all(|group| row.groups.contains(&group.id)))
    };
    FACTORS.iter().filter(|factor| !is_told(factor.name)).filter_map(|factor| of_factor(view, factor.name)).collect()
}

fn of_factor(view: &View, factor: &str) -> Option<String> {
    let asked: Vec<&GroupView> =
        view.groups.iter().filter(|group| group.varied.iter().any(|varied| varied == factor)).collect();
    // A group in which nothing is bounded speaks against nothing, and what long trials contradict is no advice.
    let contradicts = |group: &GroupView| group.audit.as_ref().is_some_and(|audit| audit.finding == "contradicts");
    let doubtful = |group: &&GroupView| {
        let alarm = group.twin.as_ref().is_some_and(|twin| twin.alarm);
        alarm || contradicts(group) || group.recommendation.bound.is_none()
    };
    if asked.len() < 2 || asked.iter().any(doubtful) || view.audit.is_some_and(|all| all.finding == "contradicts") {
        return None;
    }
    let mut shared: Option<BTreeSet<Level>> = None;
    for group in &asked {
        let levels: BTreeSet<Level> =
            candidates(view, group).filter(|cell| is_good(view, group, cell)).map(|cell| cell.level(factor)).collect();
        shared = Some(shared.map_or(levels.clone(), |shared| &shared & &levels));
    }
    let worst = |level: &Level| {
        let least = |group: &&GroupView| {
            let of_level =
                candidates(view, group).filter(|cell| cell.level(factor) == *level && is_good(view, group, cell));
            of_level.filter_map(|cell| cell.above_best_upper).reduce(f64::min)
        };
        let bounds: Option<Vec<f64>> = asked.iter().map(least).collect();
        bounds?.into_iter().reduce(f64::max)
    };
    let told = |level: Level| Some((worst(&level).filter(|bound| *bound < BOUND_TOLD)?, level));
    let mut bounded: Vec<(f64, Level)> = shared?.into_iter().filter_map(told).collect();
    // Of constants it is the bound that counts.
    bounded.sort_by(|a, b| b.1.is_auto().cmp(&a.1.is_auto()).then(a.0.total_cmp(&b.0)));
    let candidate = |(bound, level): &(f64, Level)| Candidate {
        is_default: level.is_auto(),
        proven: *bound <= view.plan.margin,
        may_be_best: true,
        bound: Some(bound.ln_1p()),
    };
    let candidates: Vec<Candidate> = bounded.iter().map(candidate).collect();
    let closest = (0..bounded.len()).min_by(|&a, &b| bounded[a].0.total_cmp(&bounded[b].0));
    let (bound, level) = bounded.swap_remove(named(&candidates, closest)?);
    let is_named = |group: &&GroupView| {
        let cell = group.recommendation.cell.as_ref().and_then(|id| view.cell(id));
        cell.is_some_and(|cell| cell.level(factor) == level)
    };
    // What every row says by itself needs no line.
    (!asked.iter().all(is_named)).then(|| {
        let more = match is_nothing(bound) {
            true => String::new(),
            false => format!("at most {} more {} each, ", at_most(bound), resource(view)),
        };
        let names: Vec<&str> = asked.iter().map(|group| group.id.0.as_str()).collect();
        let of = match names.len() == view.groups.len() {
            true => "for all questions".to_owned(),
            false => names.join(", "),
        };
        // Beside others that are told so, this bound is of whatever goes with it best.
        let alone = if asked.iter().any(|group| group.varied.len() > 1) { "by itself " } else { "" };
        let (name, level) = (phrase::in_code(factor), phrase::level(factor, &level));
        format!("{of}: {name} {level} ({alone}{more}nowhere shown worse)")
    })
}

/// May be the best of its group, or is shown to be within the margin of it; and slow trials do not speak against it.
fn is_good(view: &View, group: &GroupView, cell: &CellView) -> bool {
    let within = || cell.above_best_upper.is_some_and(|bound| bound <= view.plan.margin);
    !group.spoken_against.contains(&cell.id) && (group.best_set.contains(&cell.id) || within())
}
