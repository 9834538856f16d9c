//! `--resume`: selects the session to continue, and checks that the flags describe it.
//!
//! A resumed session continues with its original plan, whatever command names it. A command for another plan is refused, and
//! so is a flag with another value: if they were ignored, the result would answer another question.
//! `run --resume` without a plan continues any session.

use bytegauge_harness::{AnalysisState, RunError, stored_plan};
use bytegauge_model::{Factor, Level, ProgramTask, SessionId, SessionStatus, Workload};
use bytegauge_plan::{Plan, PlanSpec, built_in};
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::exit_code::{Failure, usage};
use crate::{args, stored};

/// A session to continue.
pub struct Begun {
    /// The session.
    pub id: SessionId,
    /// The plan that it was begun with.
    pub plan: Plan,
    /// The analysis that it continues to, from 1.
    pub analysis: u64,
}

/// The session to continue, if requested. `asked` is the plan of the command and its flags alone.
pub fn session(matches: &ArgMatches, asked: &Plan) -> Result<Option<Begun>, Failure> {
    if args::text(matches, "resume").is_none() {
        return Ok(None);
    }
    let begun = found(matches, Some((&asked.name, asked.workload)))?;
    refuse_another_plan(matches, begun.id, asked, &begun.plan)?;
    refuse_another_design(matches, begun.id, &begun.plan)?;
    Ok(Some(begun))
}

/// The session to continue for a command without factors, or with those of the session: of one plan, or of any.
pub fn by_its_own_words(matches: &ArgMatches, asked: Option<(&str, Workload)>) -> Result<Begun, Failure> {
    let begun = found(matches, asked)?;
    let Begun { id, ref plan, .. } = begun;
    for (factor, text) in args::factors(matches, plan.workload)? {
        let asked = factor.kind.parse_list(&text).map_err(args::wrong(&factor.flag()))?;
        let mut asked: Vec<String> = asked.iter().map(|level| factor.kind.compact(level)).collect();
        let mut levels = levels(plan, factor);
        asked.sort_unstable();
        levels.sort_unstable();
        if asked != levels {
            return Err(another(id, &factor.flag()));
        }
    }
    if let Some(flag) = UNREAD.split(' ').find(|name| args::is_given(matches, name)) {
        return usage(format!(
            "--{flag} is that of session {id}: leave it out to continue, or start a new session without --resume"
        ));
    }
    refuse_another_design(matches, id, plan)?;
    Ok(begun)
}

/// The session that the flags name, which fits the plan of the command if it has one.
fn found(matches: &ArgMatches, asked: Option<(&str, Workload)>) -> Result<Begun, Failure> {
    let store = Store::open_existing(&stored::store_path(matches)?)?;
    let id = named(matches, &store, asked.map(|(plan, _)| plan))?;
    let begun = begun(&store, id, matches)?;
    asked.map_or(Ok(()), |asked| must_fit(asked, &begun))?;
    Ok(begun)
}

/// Flags that are not read without the command, so that they could only be ignored.
const UNREAD: &str = "finalists metric prepare ready stop option sysctl on crossed start now recommendation pid port peer max-harm \
                      a-option b-option a-sysctl b-sysctl";

/// Checks that a session fits the command: a command for a plan continues sessions of that plan; the name of a workload fits
/// every plan of it that is not a named plan.
fn must_fit((name, workload): (&str, Workload), Begun { id, plan, .. }: &Begun) -> Result<(), Failure> {
    let is_unnamed = || plan.versus.is_none() && built_in::find(&plan.name).is_err();
    if name == plan.name || name == workload.row().name && workload == plan.workload && is_unnamed() {
        return Ok(());
    }
    usage(format!(
        "session {id} belongs to the plan {}, but this command is {name}: continue it with `bytegauge run --resume {id}`, or \
         leave out --resume to begin a new session",
        plan.name
    ))
}

/// A session that can be continued: to its next analysis, or with `--until` to its last one.
fn begun(store: &Store, session: SessionId, matches: &ArgMatches) -> Result<Begun, Failure> {
    let record = store.session(session)?;
    if record.imported {
        return usage(format!(
            "session {session} was measured elsewhere and imported: show it with `bytegauge report {session}`, or start a \
             new one"
        ));
    }
    let plan = stored_plan(session, record.plan)?;
    let state = AnalysisState::of(&store.groups(session)?);
    let next = AnalysisState::analysis_ahead(state, record.status)
        .ok_or_else(|| RunError::over(session, state, plan.analyses))?;
    let analysis = if args::text(matches, "until").is_some() { plan.analyses } else { next };
    Ok(Begun { id: session, plan, analysis })
}

/// The session that `--resume` names: by its number, or as the latest of a plan, or of all, that can be continued.
fn named(matches: &ArgMatches, store: &Store, plan: Option<&str>) -> Result<SessionId, Failure> {
    if let Some(number) = args::text(matches, "resume").filter(|text| *text != "latest") {
        let wrong =
            |_| Failure::usage(format!("--resume: `{number}` is no session number: see `bytegauge report list`"));
        return number.parse().map(SessionId).map_err(wrong);
    }
    latest(store, plan)?.ok_or_else(|| {
        let which = plan.map_or_else(|| "of any plan".to_owned(), |plan| format!("of plan {plan}"));
        Failure::usage(format!("no session {which} can be resumed: start one without --resume"))
    })
}

/// The newest session that was interrupted or has an analysis left.
fn latest(store: &Store, plan: Option<&str>) -> Result<Option<SessionId>, StoreError> {
    let asked = |name: &str| plan.is_none_or(|plan| plan == name);
    for summary in store.sessions()?.iter().filter(|summary| !summary.imported && asked(&summary.plan_name)) {
        let state = AnalysisState::of(&store.groups(summary.id)?);
        // A session that was killed still counts as running.
        let is_free = summary.status != SessionStatus::Running || !store.is_owned(summary.id);
        if is_free && AnalysisState::analysis_ahead(state, summary.status).is_some() {
            return Ok(Some(summary.id));
        }
    }
    Ok(None)
}

fn another(session: SessionId, flag: &str) -> Failure {
    Failure::usage(format!(
        "session {session} was begun with another --{flag}: leave it out to continue, or start a new session without --resume"
    ))
}

/// Checks that every given factor, and the program if it is given, is that of the session.
fn refuse_another_plan(matches: &ArgMatches, session: SessionId, asked: &Plan, begun: &Plan) -> Result<(), Failure> {
    let of_task = ["command", "load", "start", "ready", "stop", "metric", "prepare"];
    let parts =
        |task: &ProgramTask| (task.command.clone(), task.server.clone(), task.metric.to_string(), task.prepare.clone());
    if let Some(task) = asked.task.as_ref().filter(|_| of_task.into_iter().any(|name| args::is_given(matches, name)))
        && begun.task.as_ref().is_some_and(|begun| parts(begun) != parts(task))
    {
        return usage(format!(
            "session {session} was begun with another command, or measures something else of it: leave that out to continue, or start \
             a new session without --resume"
        ));
    }
    let factors = args::factors(matches, asked.workload)?;
    match factors.into_iter().find(|(factor, _)| levels(asked, factor) != levels(begun, factor)) {
        None => Ok(()),
        Some((factor, _)) => Err(another(session, &factor.flag())),
    }
}

/// Checks that every given flag of the design has the value of the session.
fn refuse_another_design(matches: &ArgMatches, session: SessionId, begun: &Plan) -> Result<(), Failure> {
    let mut asked = PlanSpec::named(&begun.name, begun.workload);
    args::apply_design(&mut asked, matches)?;
    let is_same = [
        ("time", asked.budget_ns == Some(begun.budget_ns)),
        ("blocks", asked.blocks == begun.blocks),
        ("analyses", asked.analyses == begun.analyses),
        ("long-trials", asked.audit == begun.audit),
        ("margin", asked.margin == begun.margin),
        ("ends", asked.ends == begun.ends),
        ("verify", asked.verify == begun.verify),
        ("half-load", asked.gentle == begun.gentle),
        ("seed", args::seed(matches) == begun.seed),
    ];
    match is_same.into_iter().find(|(name, is_same)| args::is_given(matches, name) && !is_same) {
        None => Ok(()),
        Some((flag, _)) => Err(another(session, flag)),
    }
}

/// The levels that a factor has in a plan, in the order of its cells, as its flag takes them.
fn levels(plan: &Plan, factor: &Factor) -> Vec<String> {
    let mut levels = Vec::new();
    for level in plan.cells.iter().map(|cell| cell.factors.get(factor.name)).filter(|level| *level != Level::Absent) {
        let level = factor.kind.compact(&level);
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
