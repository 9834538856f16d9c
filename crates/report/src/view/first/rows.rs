//! The rows of what to use: a row a group, one for all readers of a question, and one row for questions that agree.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_model::catalog::PROFILES;
use bytegauge_model::unit::counted;
use bytegauge_model::{CellKind, FACTORS, Level, ProgramRole, SessionStatus, Spec, Stage};
use bytegauge_stats::serial::MIN_BLOCKS;

use super::super::document::{
    AuditView, CellView, ChoiceColumn, GridAxis, GridView, GroupView, StalledView, Standing, UseRow, UseView,
    VerdictView, View,
};
use super::super::relays;
use super::super::stolen::TOLD_P;
use super::{Questions, holds, levels, memory, noise, ties, who};
use crate::phrase::{self, level, rate_unit};
use crate::sentence::{carried, excludes_nothing, percent, same_twice};

/// More rows than this are read no more: then questions with the same answer are one row.
const ROWS_READ: usize = 12;

/// More rows than this are better read as a grid, where they make one.
const ROWS_OF_A_LIST: usize = 6;

/// From this share of failing calls on a choice is not named without them.
const FAILING: f64 = 0.01;

/// Fewer trials give a rate two digits at most.
const TRIALS_MIN: usize = 6;

/// So much above the rate of all trials together, a median tells less than half of it.
const APART: f64 = 0.1;

/// A row and the conditions that it stands for.
struct Draft {
    row: UseRow,
    conditions: Vec<(String, Vec<Level>)>,
}

/// The table.
pub fn to_use(view: &View, questions: &Questions) -> UseView {
    let columns = columns(view);
    let mut drafts: Vec<Draft> =
        view.verdicts.iter().flat_map(|verdict| of_verdict(view, verdict, &columns, questions)).collect();
    let grid = grid(view, &drafts);
    if drafts.len() > ROWS_READ && grid.is_none() {
        for name in &questions.varying {
            drafts = merged(drafts, name);
        }
    }
    let mut rows: Vec<UseRow> = drafts.into_iter().map(|draft| draft.row).collect();
    if is_said_below(&rows) {
        rows.iter_mut().for_each(|row| row.who.clear());
    }
    let memory = memory::told(view, &columns, &rows, |group| shown_in_row(view, group));
    let most = rows.iter().filter_map(|row| row.rate_max.or(row.rate)).fold(0.0, f64::max);
    let base = view.cells.iter().map(|cell| cell.estimate.unit).next().unwrap_or("bytes/s");
    let (rate_divisor, rate_unit) = rate_unit(base, most);
    UseView {
        worker: match view.plan.workload.as_str() {
            "call" => "profile",
            "ring" | "check" => "",
            _ => "reader",
        },
        choices: columns,
        rate_unit,
        rate_divisor,
        cost_unit: view.groups.iter().find_map(cost_unit),
        margin: view.plan.margin,
        level: view.plan.level,
        one: if grid.is_some() { Vec::new() } else { ties::one(view, &rows) },
        memory,
        rows,
        grid,
    }
}

/// Whether all rows have the same single conditions in place of a profile: those say nothing here, and HOLDS names what is
/// not as usual.
fn is_said_below(rows: &[UseRow]) -> bool {
    let is_named = |row: &UseRow| PROFILES.iter().any(|profile| row.profiles.iter().any(|name| name == profile.name));
    rows.windows(2).all(|pair| pair[0].who == pair[1].who) && !rows.iter().any(is_named)
}

/// The rows that vary one choice alone as a grid, where they are many and differ in two numbers; others stay a list.
fn grid(view: &View, drafts: &[Draft]) -> Option<GridView> {
    let one_choice = |draft: &Draft| {
        let groups = view.groups.iter().filter(|group| draft.row.groups.contains(&group.id));
        groups.flat_map(|group| &group.varied).collect::<BTreeSet<_>>().len() == 1
    };
    let of_grid: Vec<usize> = (0..drafts.len()).filter(|&at| one_choice(&drafts[at])).collect();
    let first = drafts.get(*of_grid.first()?).filter(|_| of_grid.len() > ROWS_OF_A_LIST)?;
    let plain = |at: &usize| !drafts[*at].row.one_for_all && drafts[*at].row.who == first.row.who;
    let level =
        |at: usize, name: usize| drafts[at].conditions.get(name).and_then(|(_, levels)| levels.first().cloned());
    let levels = |name: usize| -> BTreeSet<Level> { of_grid.iter().filter_map(|&at| level(at, name)).collect() };
    let varying: Vec<usize> = (0..first.conditions.len()).filter(|&name| levels(name).len() > 1).collect();
    let [a, b] = varying.as_slice() else { return None };
    let numbers = |name: usize| of_grid.iter().all(|&at| level(at, name).is_some_and(|level| level.number().is_some()));
    if !of_grid.iter().all(plain) || !numbers(*a) || !numbers(*b) {
        return None;
    }
    // A screen is longer than wide.
    let (down, across) = if levels(*a).len() < levels(*b).len() { (*b, *a) } else { (*a, *b) };
    let axis = |name: usize| {
        let factor = first.conditions[name].0.clone();
        let levels = levels(name).iter().map(|level| phrase::compact(&factor, level)).collect();
        GridAxis { factor, levels }
    };
    let place = |y: &Level, x: &Level| {
        let is = |at: usize, name: usize, wanted: &Level| level(at, name).as_ref() == Some(wanted);
        of_grid.iter().copied().find(|&at| is(at, down, y) && is(at, across, x))
    };
    let (ys, xs) = (levels(down), levels(across));
    let cells = ys.iter().map(|y| xs.iter().map(|x| place(y, x)).collect()).collect();
    Some(GridView { down: axis(down), across: axis(across), cells })
}

/// The choices that vary in any group.
fn columns(view: &View) -> Vec<ChoiceColumn> {
    let varies = |name: &str| view.groups.iter().any(|group| group.varied.iter().any(|varied| varied == name));
    let choices = FACTORS.iter().filter(|factor| varies(factor.name));
    choices
        .map(|factor| ChoiceColumn {
            factor: factor.name.into(),
            heading: phrase::in_code(factor.name).to_owned(),
            auto: (factor.name == "congestion").then(|| view.environment.congestion().map(str::to_owned)).flatten(),
        })
        .collect()
}

fn cost_unit(group: &GroupView) -> Option<&'static str> {
    match group.cost {
        "cpu_ns_per_byte" => Some("CPU s/GiB"),
        "cpu_ns_per_call" => Some("CPU µs/call"),
        _ => None,
    }
}

fn of_verdict(view: &View, verdict: &VerdictView, columns: &[ChoiceColumn], questions: &Questions) -> Vec<Draft> {
    let groups: Vec<&GroupView> =
        verdict.groups.iter().filter_map(|id| view.groups.iter().find(|g| g.id == *id)).collect();
    let conditions = levels(&verdict.factors);
    let draft = |mut row: UseRow| {
        let conditions: Vec<(String, Vec<Level>)> =
            questions.varying.iter().map(|name| (name.clone(), vec![conditions.get(name).clone()])).collect();
        row.question = questions.of_several(&conditions);
        Draft { row, conditions }
    };
    let rows: Vec<UseRow> = groups.iter().map(|group| of_group(view, group, columns)).collect();
    let Some(together) = for_all(view, verdict, &groups, &rows, columns) else {
        return rows.into_iter().map(draft).collect();
    };
    if rows.iter().all(|row| row.choice == together.choice) {
        let note = rows.iter().filter(|row| row.standing == together.standing).find_map(|row| row.note.clone());
        return vec![draft(UseRow { one_for_all: false, note, ..together })];
    }
    rows.into_iter().chain([together]).map(draft).collect()
}

fn of_group(view: &View, group: &GroupView, columns: &[ChoiceColumn]) -> UseRow {
    let own = &group.recommendation;
    let named = own.cell.as_ref().and_then(|id| view.cell(id));
    let mut times = None;
    let (standing, cell, note) = match named {
        None => unnamed(view, group),
        Some(cell) => {
            let believed = standing(view, group, cell, own.proven, own.bound, own.survives_exchange);
            times = self::times(&believed, own.bound);
            let (standing, note) = with_caveat(cell, believed);
            let is_bounded = matches!(standing, Standing::Proven | Standing::Open);
            let unset = if is_bounded { ties::unset(view, group, cell) } else { None };
            let notes = note.into_iter().chain(of_loopback(view, group, cell)).chain(unset);
            let note = notes.collect::<Vec<_>>().join("; ");
            (standing, Some(cell), Some(note).filter(|note| !note.is_empty()))
        }
    };
    let row = UseRow {
        question: String::new(),
        groups: vec![group.id.clone()],
        profiles: vec![phrase::profile_name(&levels(&group.factors))],
        who: who(group),
        one_for_all: false,
        standing,
        varied: columns.iter().map(|column| column.factor.clone()).filter(|name| group.varied.contains(name)).collect(),
        choice: BTreeMap::new(),
        shown: Vec::new(),
        code: Vec::new(),
        peer_code: Vec::new(),
        rate: None,
        rate_max: None,
        rate_all: None,
        rough: false,
        moves: false,
        cost: None,
        p99_ns: None,
        // What a twin contradicts bounds nothing; what long trials contradict holds for the others.
        within: own.bound.filter(|_| {
            let contradicted = cell.is_some_and(|cell| is_contradicted(view, group, cell));
            matches!(standing, Standing::Proven | Standing::Open) || contradicted
        }),
        times,
        ties: Vec::new(),
        tied: None,
        note,
    };
    let row = cell.map_or(row.clone(), |cell| filled(view, row, &[cell], columns));
    // Of a proven choice too: a smaller one may be as good, and be shown to be with more blocks.
    match cell.filter(|_| matches!(standing, Standing::Proven | Standing::Open) || row.times.is_some()) {
        Some(cell) => ties::fill(view, group, cell, row),
        None => row,
    }
}

/// What the cells behind a row say.
fn filled(view: &View, row: UseRow, cells: &[&CellView], columns: &[ChoiceColumn]) -> UseRow {
    let Some(first) = cells.first() else { return row };
    let levels = levels(&first.factors);
    let varied: Vec<&ChoiceColumn> =
        columns.iter().filter(|column| levels.get(&column.factor) != Level::Absent).collect();
    let (peers, own): (Vec<_>, Vec<_>) = varied.iter().partition(|column| is_peers(&levels, &column.factor));
    let code = |columns: Vec<&&ChoiceColumn>| -> Vec<String> {
        columns.iter().filter_map(|column| in_code(&column.factor, &levels, first)).collect()
    };
    let most = |of: &dyn Fn(&CellView) -> Option<f64>| cells.iter().filter_map(|cell| of(cell)).reduce(f64::max);
    let rates: Vec<f64> = cells.iter().filter_map(|cell| cell.estimate.median).collect();
    let slowest = rates.iter().copied().reduce(f64::min);
    UseRow {
        choice: varied.iter().filter_map(|c| Some((c.factor.clone(), first.factors.get(&c.factor)?.clone()))).collect(),
        shown: columns.iter().map(|column| shown(&levels, &column.factor)).collect(),
        code: code(own),
        peer_code: code(peers),
        rate: slowest,
        rate_max: rates.iter().copied().reduce(f64::max).filter(|_| rates.len() > 1),
        rate_all: cells.iter().filter_map(|cell| all_trials(cell)).reduce(f64::min),
        rough: cells.iter().any(|cell| cell.trials < TRIALS_MIN || cell.stage != Some(Stage::Confirm)),
        moves: cells.iter().any(|cell| moves(view, cell)),
        cost: most(&cost),
        p99_ns: most(&|cell| cell.median("total_p99_ns")),
        ..row
    }
}

/// How a program does it; a congestion control that is left alone by its name, since another machine may have another one.
fn in_code(factor: &str, levels: &Spec, cell: &CellView) -> Option<String> {
    let code = phrase::code(factor, levels)?;
    let found = cell.counters.options.get(factor).and_then(|option| option.source.as_str());
    Some(match found.filter(|_| levels.get(factor).is_auto()) {
        Some(name) => format!("{code} (here {name})"),
        None => code,
    })
}

/// The rate of all confirmed trials together, slow ones in full, where it is far below the median one.
pub fn all_trials(cell: &CellView) -> Option<f64> {
    let enough = cell.trials >= TRIALS_MIN && cell.stage == Some(Stage::Confirm);
    let (all, median) = cell.total_rate.zip(cell.estimate.median).filter(|_| enough)?;
    (median > all * (1.0 + APART)).then_some(all)
}

/// Whether the program's peer chooses it. Who sends decides about congestion control.
fn is_peers(levels: &Spec, factor: &str) -> bool {
    matches!(
        (levels.role(), factor),
        (Some(ProgramRole::Reader), "write_size" | "congestion") | (Some(ProgramRole::Writer), "read_size")
    )
}

/// A level for people; in brackets where the program's peer chooses it.
fn shown(levels: &Spec, factor: &str) -> String {
    let peers = is_peers(levels, factor);
    match levels.get(factor) {
        Level::Absent => "–".into(),
        // What a peer takes by itself is no news.
        value if peers && value.is_auto() => "–".into(),
        value if peers => format!("({})", level(factor, &value)),
        value => level(factor, &value),
    }
}

fn cost(cell: &CellView) -> Option<f64> {
    match cell.call {
        None => cell.cpu.ends_s_per_gib,
        Some(_) => cell.median("server_cpu_ns_per_call").map(|ns| ns / 1e3),
    }
}

/// With what must be known of a choice however fast it is.
fn with_caveat(cell: &CellView, (standing, note): (Standing, Option<String>)) -> (Standing, Option<String>) {
    let caveat = relays::caveat(cell).map(|_| "no back-pressure: RELAYS".to_owned());
    let notes: Vec<String> = note.into_iter().chain(caveat).collect();
    (standing, (!notes.is_empty()).then(|| notes.join("; ")))
}

/// Whether no one rate stands for the choice: what is printed beside it is a middle that it may never have had.
fn moves(view: &View, cell: &CellView) -> bool {
    let speeds = cell.modes.as_ref().map_or(0, |modes| modes.modes.len());
    let group = view.groups.iter().find(|group| group.id == cell.group);
    speeds > 1 || group.and_then(|group| noise::drifted(view, group)).is_some_and(|(drifted, _)| drifted.id == cell.id)
}

/// That a congestion control was chosen where nothing is lost and nothing is far.
fn of_loopback(view: &View, group: &GroupView, cell: &CellView) -> Option<String> {
    let levels = levels(&cell.factors);
    let is_chosen = group.varied.iter().any(|name| name == "congestion") && !is_peers(&levels, "congestion");
    let is_set = levels.congestion.is_some() && view.status != SessionStatus::Imported;
    (is_chosen && is_set && holds::is_loopback(&levels))
        .then(|| "cc judged on loopback: a network may differ".to_owned())
}

/// How far a choice is to be believed, and what stands against it.
fn standing(
    view: &View,
    group: &GroupView,
    cell: &CellView,
    proven: bool,
    bound: Option<f64>,
    survives_exchange: Option<bool>,
) -> (Standing, Option<String>) {
    let alarm = group.twin.as_ref().filter(|twin| twin.alarm);
    let failing = cell.call.as_ref().and_then(|call| call.failed_share).filter(|share| *share >= FAILING);
    let doubtful = |note: String| (Standing::Doubtful, Some(note));
    if let Some(alarmed) = alarm {
        let apart = alarmed.difference.map_or("different".to_owned(), same_twice);
        // What was measured twice need not be what is named.
        let what = view.cell(&alarmed.cell).filter(|measured| measured.id != cell.id);
        let what = what.map_or_else(|| "the same twice".to_owned(), |other| format!("{} twice", other.label));
        return doubtful(format!("{what}: {apart}"));
    }
    if let Some(share) = failing {
        return doubtful(format!("{} of its calls fail", percent(share)));
    }
    if is_contradicted(view, group, cell) {
        // Long connections are another question where fresh ones were asked about.
        return match proven {
            true => (Standing::Proven, Some("not for long connections: AUDIT".into())),
            false => doubtful("not in long trials: AUDIT".into()),
        };
    }
    match (proven, bound) {
        (true, _) if survives_exchange == Some(false) => (Standing::Proven, Some("not by its repeat: NOISE".into())),
        (true, _) if for_others(view, group, cell).is_some() => {
            (Standing::Proven, Some("all trials against: NOISE".into()))
        }
        (true, _) => (Standing::Proven, lossy(cell)),
        (false, Some(_)) if let Some(StalledView { trials, of }) = cell.stalled => {
            (Standing::Open, Some(format!("{trials} of {of} moved nothing")))
        }
        (false, Some(_)) if let Some(share) = cell.behind => doubtful(carried(share)),
        (false, Some(bound)) if excludes_nothing(bound) => (Standing::Doubtful, None),
        (false, Some(_)) if group.spoken_against.contains(&cell.id) => {
            (Standing::Open, Some("slow trials against".into()))
        }
        (false, Some(_)) if group.stolen.as_ref().is_some_and(|stolen| stolen.p <= TOLD_P) => {
            (Standing::Open, Some("see NOISE".into()))
        }
        (false, Some(_)) => (Standing::Open, lossy(cell)),
        (false, None) => doubtful(why_unjudged(group, view.status)),
    }
}

/// What a rate of datagrams that came does not tell: how many did not come, or not whole.
fn lossy(cell: &CellView) -> Option<String> {
    let seen = cell.datagrams.as_ref()?;
    let told = |share: f64, what: &str| (share >= FAILING).then(|| format!("{} {what}", percent(share)));
    let cut = seen.truncated as f64 / seen.arrived.max(1) as f64;
    let said = [told(seen.lost_share.unwrap_or(0.0), "lost"), told(cut, "cut by its reads")];
    let said: Vec<String> = said.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// How many times the best's time a choice may take that leads and of which nothing is shown: [`standing`] says no more of it.
fn times((standing, note): &(Standing, Option<String>), bound: Option<f64>) -> Option<f64> {
    bound.filter(|_| *standing == Standing::Doubtful && note.is_none()).map(|bound| 1.0 + bound)
}

/// The confirmed rival for which all trials together speak, slow ones in full, where they do not speak for the choice: by
/// more than the margin, which nothing shows and nothing refutes.
pub fn for_others<'a>(view: &'a View, group: &'a GroupView, cell: &CellView) -> Option<&'a CellView> {
    let all = all_trials(cell).filter(|_| !group.cost.starts_with("cpu_"))?;
    let rivals = view.cells_of(&group.id).filter(|other| {
        other.kind == CellKind::Candidate && other.stage == Some(Stage::Confirm) && other.id != cell.id
    });
    let most = rivals.max_by(|a, b| a.total_rate.unwrap_or(0.0).total_cmp(&b.total_rate.unwrap_or(0.0)))?;
    most.total_rate.is_some_and(|rate| rate > all * (1.0 + view.plan.margin)).then_some(most)
}

/// Whether long trials contradict a choice: its group's own, or those of the session together.
fn is_contradicted(view: &View, group: &GroupView, cell: &CellView) -> bool {
    let all_lose = view.audit.is_some_and(|all| all.finding == "contradicts");
    let loses = |audit: &AuditView| audit.choice == cell.id && (audit.finding == "contradicts" || all_lose);
    group.audit.as_ref().is_some_and(loses)
}

fn why_unjudged(group: &GroupView, status: SessionStatus) -> String {
    let blocks = group.blocks.used;
    let (is_running, is_imported) = (status == SessionStatus::Running, status == SessionStatus::Imported);
    match (&group.look, &group.serial) {
        (Some(look), _) if look.done == 0 && is_running => match look.next_blocks {
            Some(due) => format!("running: {} of {due} blocks so far", look.so_far),
            None => format!("running: {} so far", counted(look.so_far, "block")),
        },
        _ if is_running => "running: not judged yet".into(),
        (Some(look), _) if look.done == 0 => match look.next_blocks {
            Some(due) => format!("cut off after {} of {due} blocks", look.so_far),
            None => format!("{} so far: too few", counted(look.so_far, "block")),
        },
        // A table that somebody published knows of no blocks.
        _ if is_imported && blocks == 1 => "one trial of each: too few".into(),
        _ if blocks < MIN_BLOCKS => format!("{} alone: too few", counted(blocks, "block")),
        (_, Some(serial)) if !serial.independent => "no bound: neighbouring blocks depend on each other".into(),
        _ => "cut off: not judged".into(),
    }
}

/// The choice that the row of a group shows: the one that is named, else what [`unnamed`] has.
pub fn shown_in_row<'a>(view: &'a View, group: &'a GroupView) -> Option<&'a CellView> {
    let named = group.recommendation.cell.as_ref().and_then(|id| view.cell(id));
    named.or_else(|| unnamed(view, group).1)
}

/// A group of which no choice is named: one cell alone, looks that nothing confirms, or nothing.
fn unnamed<'a>(view: &'a View, group: &'a GroupView) -> (Standing, Option<&'a CellView>, Option<String>) {
    let candidates = || view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate);
    let rate = |cell: &&CellView| cell.estimate.median.unwrap_or(0.0);
    let fastest = candidates().filter(|cell| rate(cell) > 0.0).max_by(|a, b| rate(a).total_cmp(&rate(b)));
    match fastest {
        Some(cell) if candidates().count() == 1 => (Standing::Alone, Some(cell), None),
        Some(cell) if candidates().filter(|other| other.trials > 0).count() == 1 => {
            let lacks = |outcome: &str| candidates().any(|other| other.outcome == outcome);
            let why = if lacks("failed") { "failed" } else { "was skipped" };
            (Standing::Alone, Some(cell), Some(format!("nothing to compare: what else was asked {why}")))
        }
        Some(cell) => (Standing::Doubtful, Some(cell), Some("not confirmed: may be luck".into())),
        None => {
            let reason = candidates().find_map(|cell| cell.reason.clone());
            (Standing::Nothing, None, Some(reason.unwrap_or_else(|| "nothing was measured".into())))
        }
    }
}

/// The choice over all profiles; `None` where there is one profile, or no such choice.
fn for_all(
    view: &View,
    verdict: &VerdictView,
    groups: &[&GroupView],
    rows: &[UseRow],
    columns: &[ChoiceColumn],
) -> Option<UseRow> {
    let own = &verdict.recommendation;
    let cells: Vec<&CellView> = own.cells.values().filter_map(|id| view.cell(id)).collect();
    if groups.len() < 2 || cells.len() < groups.len() {
        return None;
    }
    // Where nothing is bounded over all of them, those say why that have no bound by themselves.
    let lacks = |group: &GroupView| own.bound.is_none() && group.recommendation.bound.is_none();
    let any_lacks = groups.iter().any(|group| lacks(group));
    let of_groups = groups.iter().filter(|group| !any_lacks || lacks(group));
    let of_groups = of_groups.filter_map(|group| Some((*group, *cells.iter().find(|cell| cell.group == group.id)?)));
    let each = of_groups.map(|(group, cell)| {
        let believed = standing(view, group, cell, own.proven, own.bound, own.survives_exchange);
        (times(&believed, own.bound), with_caveat(cell, believed))
    });
    // The worst of its groups decides; `Standing` orders so.
    let (times, (standing, note)) = each.max_by_key(|(_, (standing, note))| (*standing, note.is_some()))?;
    let led = groups.iter().zip(rows).filter_map(|(group, row)| {
        let cell = cells.iter().find(|cell| cell.group == group.id)?;
        cell.estimate.median.zip(row.rate).is_some_and(|(one, own)| one > own).then_some(row.standing)
    });
    let note = note.into_iter().chain(higher_median(led)).collect::<Vec<_>>();
    let note = (!note.is_empty()).then(|| note.join("; "));
    let row = UseRow {
        groups: groups.iter().map(|group| group.id.clone()).collect(),
        profiles: verdict.profiles.clone(),
        who: "any".into(),
        one_for_all: true,
        standing,
        within: own.bound.filter(|_| matches!(standing, Standing::Proven | Standing::Open)),
        times,
        ties: Vec::new(),
        tied: None,
        note,
        ..rows.first()?.clone()
    };
    Some(filled(view, row, &cells, columns))
}

/// Why the row of a single question does not have the choice for all, whose median there is the higher one: choices are
/// compared within blocks, where the order may be another, and of those that are shown to do the cheapest is named.
fn higher_median(standings: impl Iterator<Item = Standing>) -> Option<String> {
    let why = |standing| match standing {
        Standing::Proven => "its median is higher than above; the row's is proven and cheaper",
        _ => "its median is higher than above, but not block by block",
    };
    standings.max().map(|standing| why(standing).to_owned())
}

/// Rows that agree in all but their level of one condition, as one row.
fn merged(drafts: Vec<Draft>, name: &str) -> Vec<Draft> {
    let mut kept: Vec<Draft> = Vec::new();
    // How many times the best's a row may take is its own where there is no answer yet.
    fn said(row: &UseRow) -> (bool, Option<&String>) {
        (row.times.is_some(), row.note.as_ref())
    }
    for draft in drafts {
        let others = |draft: &Draft| {
            let others = draft.conditions.iter().filter(|(factor, _)| factor != name).cloned();
            others.collect::<Vec<_>>()
        };
        let same = |kept: &&mut Draft| {
            let (a, b) = (&kept.row, &draft.row);
            others(kept) == others(&draft)
                && (&a.choice, &a.who, a.standing, a.one_for_all, said(a))
                    == (&b.choice, &b.who, b.standing, b.one_for_all, said(b))
                && a.standing != Standing::Nothing
        };
        match kept.iter_mut().find(same) {
            None => kept.push(draft),
            Some(into) => join(into, draft, name),
        }
    }
    kept
}

fn join(into: &mut Draft, draft: Draft, name: &str) {
    for (factor, levels) in &mut into.conditions {
        let more = draft.conditions.iter().filter(|(other, _)| *factor == name && other == name);
        levels.extend(more.flat_map(|(_, levels)| levels.clone()));
        levels.sort();
        levels.dedup();
    }
    let (a, b) = (&mut into.row, draft.row);
    let reduce = |a: Option<f64>, b: Option<f64>, f: fn(f64, f64) -> f64| a.zip(b).map(|(a, b)| f(a, b)).or(a).or(b);
    a.rate_max = reduce(a.rate_max.or(a.rate), b.rate_max.or(b.rate), f64::max);
    a.rate = reduce(a.rate, b.rate, f64::min);
    a.rate_all = reduce(a.rate_all, b.rate_all, f64::min);
    a.within = a.within.zip(b.within).map(|(a, b)| a.max(b));
    if b.times > a.times {
        a.note = b.note;
    }
    a.times = reduce(a.times, b.times, f64::max);
    a.cost = reduce(a.cost, b.cost, f64::max);
    a.p99_ns = reduce(a.p99_ns, b.p99_ns, f64::max);
    a.rough |= b.rough;
    a.moves |= b.moves;
    if a.ties != b.ties {
        (a.ties, a.tied) = (Vec::new(), None);
    }
    a.groups.extend(b.groups);
    a.question = phrase::brief_of_several(&into.conditions);
}
