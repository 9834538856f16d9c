//! The first stage: stored trials become settled numbers. Sorts them and calls `stats`.
//!
//! Deterministic: the same stored trials and seed give the same view. Never measures, never writes, never
//! prints; every renderer takes the [`View`] that is made here.

pub(crate) mod bottleneck_inputs;
pub(crate) mod calls;
mod cells;
pub(crate) mod compare;
mod cost;
mod counted_trials;
pub(crate) mod counters;
pub(crate) mod environment;
pub(crate) mod estimate;
pub(crate) mod groups;
mod input;
mod notes;
pub mod numbers;
pub mod over_time;
mod time;
pub mod tune;
mod versus;

use bytegauge_model::level::LevelKind;
use bytegauge_model::{
    GroupId, Level, ProgramTask, Role, SessionStatus, SocketChanges, Spec, Workload, factor, option,
};
use cells::Context;
use compare::GroupAnalysis;
use cost::Floors;
pub use counted_trials::verifies;
use groups::Conditions;
pub use groups::analysed_groups;
use input::CompareInput;
pub use input::Settings;
pub use numbers::View;
use numbers::{AuditSummary, CellView, FactorView, PlanView, schema};
use serde::de::DeserializeOwned;
pub use time::rfc3339;

use crate::SessionData;

impl View {
    /// Settles the numbers of a stored session.
    pub fn of(session: &SessionData, settings: &Settings) -> View {
        let record = &session.record;
        let status = match record.status {
            SessionStatus::Running if !settings.is_running => SessionStatus::Incomplete,
            status => status,
        };
        let input = CompareInput::of(session, settings);
        let compared = compare::groups(&input);
        let environment = environment::judge(session, twin_reach(&compared));
        let CompareInput { settled, varied, method, .. } = input;
        let (level, margin) = (method.level, method.margin);
        let floors = Floors::of(&settled, level);
        let context = Context { data: session, floors: &floors, varied: &varied, level };
        let cells = cells::cells(&settled, &compared, &context);
        let environment = environment.with_speeds(&cells, margin);
        let elapsed_ns = time::elapsed_ns(session);
        let budget_ns = time::budget_ns(&record.plan);
        let conditions = Conditions {
            cells: &cells,
            settled: &settled,
            resumable: !record.imported,
            margin,
            audit: AuditSummary::of(&compared, &settled, &record.plan, margin),
        };
        let mut groups: Vec<_> =
            compared.iter().map(|group| groups::view(group, &conditions, &session.blocks, settings.fit_max)).collect();
        let asked_of = named_groups(&record.plan);
        groups.iter_mut().for_each(|group| group.asked = asked_of.contains(&group.id));
        let tune = task(session).map(|task| tune::tune(&task, &compared, &conditions));
        if let Some(changes) = tune.as_ref().and_then(|tune| tune.changes.as_ref()) {
            for group in &mut groups {
                group.recommendation.more_blocks = tune::more_blocks(group, changes, &cells);
            }
        }
        View {
            schema_version: schema::VERSION,
            session: record.id,
            status,
            started: rfc3339(record.started_unix_ns),
            elapsed_ns,
            interval_ns: None,
            version: record.version.clone(),
            seed: record.seed,
            plan: PlanView {
                name: record.plan_name.clone(),
                workload: record.workload.clone(),
                margin,
                level,
                budget_ns,
                answered_share: bytegauge_bottleneck::OFFERED_SHARE,
                ends: planned(&record.plan, "ends"),
                is_imported: record.imported,
                audit_share: planned(&record.plan, "audit"),
                asked: planned(&record.plan, "asked").filter(|words: &Vec<String>| !words.is_empty()),
                varied,
                factors: factor_views(&record.workload, &cells),
            },
            tune,
            versus: planned(&record.plan, "versus").map(|two| versus::versus(&two, &compared, &conditions)),
            notes: notes::notes(session, &cells, &groups),
            environment,
            audit: conditions.audit,
            floor: floors.view.clone(),
            cells,
            groups,
        }
    }
}

/// A part of a stored plan, where this version can read it.
fn planned<T: DeserializeOwned>(plan: &serde_json::Value, name: &str) -> Option<T> {
    T::deserialize(plan.get(name)?).ok()
}

/// The groups of which the user named the options.
fn named_groups(plan: &serde_json::Value) -> Vec<GroupId> {
    let families = plan.get("families").and_then(|families| families.as_array()).into_iter().flatten();
    let named = families.filter(|family| family.get("named").and_then(serde_json::Value::as_bool) == Some(true));
    let groups = named.filter_map(|family| family.get("groups")?.as_array()).flatten();
    groups.filter_map(|group| Some(GroupId(group.as_str()?.to_owned()))).collect()
}

/// The program that was checked, where one was.
fn task(session: &SessionData) -> Option<ProgramTask> {
    let task: ProgramTask = planned(&session.record.plan, "task")?;
    // Another version may know further options.
    let is_known =
        |changes: &SocketChanges| changes.options().all(|change| option::of_factor(&change.option).is_some());
    Some(task).filter(|task| task.changes.as_ref().is_none_or(is_known))
}

/// The factors of a workload, and the meanings of their named levels in these cells.
fn factor_views(workload: &str, cells: &[CellView]) -> Vec<FactorView> {
    let occurs = |factor: &str, name: &str| {
        let levels = cells.iter().map(|cell| cell.factors.get(factor));
        // Several set-ups of a ring are one level.
        levels
            .filter_map(|level| level.name().map(str::to_owned))
            .any(|level| level.split('+').any(|part| part == name))
    };
    let unit = |kind: LevelKind| match kind {
        LevelKind::Size { .. } => Some("bytes"),
        // Whatever a program takes.
        LevelKind::Value => None,
        LevelKind::Duration { .. } => Some("ns"),
        LevelKind::Rate { .. } => Some("bytes/s"),
        LevelKind::CallRate => Some("calls/s"),
        LevelKind::Count { .. } | LevelKind::PowerOfTwo { .. } | LevelKind::Switch { .. } | LevelKind::Name(_) => None,
    };
    // An import with an unknown workload is a stream.
    factor::of(workload.parse::<Workload>().unwrap_or_default())
        .map(|factor| FactorView {
            name: factor.name,
            heading: crate::phrase::in_code(factor.name),
            summary: factor.summary,
            role: factor.role,
            unit: unit(factor.kind),
            names: factor::listed(factor.name).into_iter().filter(|(name, _)| occurs(factor.name, name)).collect(),
        })
        .collect()
}

/// The largest difference that an A/A control may have, as a share.
fn twin_reach(groups: &[GroupAnalysis]) -> Option<f64> {
    groups.iter().filter_map(GroupAnalysis::twin_reach).reduce(f64::max)
}

// By which levels cells are matched, and which of them vary.

/// Whether the cell's engine moves no bytes, or its ring is none.
pub fn moves_nothing(levels: &Spec) -> bool {
    ["engine", "server_engine", "client_engine", "implementation"]
        .iter()
        .any(|engine| levels.get(engine).name() == Some("null"))
}

/// The levels by which cells and groups of different sessions are matched: all, or those of a role. Older sessions do not state
/// their workload.
pub fn matching(levels: &Spec, role: Option<Role>) -> Spec {
    let of_role = role.map_or_else(|| levels.clone(), |role| levels.of_role(role));
    let mut matching = of_role.with_workload(levels.workload());
    matching.drop_absent();
    matching
}

/// Factors that have more than one level among the cells of which they are counted, in the order of the factor table.
/// Where a factor does not exist it has no level: a device compared with sockets varies no socket option.
pub fn varied(levels: &[&Spec], counts: impl Fn(&Spec, &str) -> bool) -> Vec<String> {
    let varies = |name: &str| {
        let counted = levels.iter().filter(|levels| counts(levels, name)).map(|levels| levels.get(name));
        let mut present = counted.filter(|level| *level != Level::Absent);
        present.next().is_some_and(|first| present.any(|other| other != first))
    };
    bytegauge_model::FACTORS.iter().filter(|factor| varies(factor.name)).map(|factor| factor.name.to_owned()).collect()
}

/// Whether a choice leaves everything that varies to the system.
pub fn is_default(levels: &Spec, varied: &[String]) -> bool {
    !varied.is_empty() && varied.iter().all(|factor| levels.get(factor).is_auto())
}
