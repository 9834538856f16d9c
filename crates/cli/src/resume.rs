//! `--resume`: which session is gone on with, and whether it is the one that the flags describe.
//!
//! A resumed session goes on with the plan that it was begun with. A flag that says otherwise is refused:
//! to ignore it would answer another question than the one asked.

use bytegauge_harness::{RunError, Stand};
use bytegauge_model::{Level, SessionId, SessionStatus};
use bytegauge_plan::Plan;
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::args;
use crate::exit::Failure;

/// The session to go on with, if that was asked for. `plan` is what the flags alone would give.
pub fn session(matches: &ArgMatches, store: &Store, plan: &Plan) -> Result<Option<SessionId>, Failure> {
    let Some(text) = args::text(matches, "resume") else { return Ok(None) };
    let session = match text {
        "latest" => latest(store, &plan.name)?.ok_or_else(|| {
            Failure::usage(format!(
                "no session of plan {} is interrupted or has a judgement left: start one without --resume",
                plan.name
            ))
        })?,
        number => number.parse().map(SessionId).map_err(|_| {
            Failure::usage(format!("--resume: `{number}` is no session number: see `bytegauge sessions`"))
        })?,
    };
    let record = store.session(session)?;
    if store.sessions()?.iter().any(|summary| summary.id == session && summary.imported) {
        return Err(Failure::usage(format!(
            "session {session} was measured elsewhere and imported: see it with `bytegauge report {session}`, or start a \
             new one"
        )));
    }
    let stand = Stand::of(&store.groups(session)?);
    match serde_json::from_value::<Plan>(record.plan) {
        Err(_) => return Err(RunError::OldPlan(session).into()),
        Ok(begun) if record.status == SessionStatus::Complete && !stand.is_some_and(|stand| stand.has_next()) => {
            return Err(RunError::Over { session, looks: begun.looks }.into());
        }
        Ok(begun) => refuse_another_plan(matches, session, plan, &begun)?,
    }
    Ok(Some(session))
}

/// The session that `--resume` names, where it does.
pub fn named(matches: &ArgMatches, store: &Store, plan: &str) -> Result<Option<SessionId>, StoreError> {
    match args::text(matches, "resume") {
        None => Ok(None),
        Some("latest") => latest(store, plan),
        Some(number) => Ok(number.parse().ok().map(SessionId)),
    }
}

/// The newest session of a plan that was interrupted or has a look left.
fn latest(store: &Store, plan: &str) -> Result<Option<SessionId>, StoreError> {
    for summary in store.sessions()?.iter().filter(|summary| !summary.imported && summary.plan_name == plan) {
        let stand = Stand::of(&store.groups(summary.id)?);
        if summary.status != SessionStatus::Complete || stand.is_some_and(|stand| stand.has_next()) {
            return Ok(Some(summary.id));
        }
    }
    Ok(None)
}

/// Every flag that was given must say what the session was begun with.
fn refuse_another_plan(matches: &ArgMatches, session: SessionId, asked: &Plan, begun: &Plan) -> Result<(), Failure> {
    let given = |name: &str| {
        matches!(matches.try_contains_id(name), Ok(true))
            && matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine)
    };
    let factors = args::factors(matches, asked.workload)?.into_iter().map(|(factor, _)| {
        let levels =
            |plan| levels(plan, factor.name).iter().map(|level| factor.kind.compact(level)).collect::<Vec<_>>();
        (factor.flag(), levels(asked).join(","), levels(begun).join(","))
    });
    if let Some(task) = asked.task.as_ref().filter(|_| given("command") || given("load") || given("start"))
        && begun.task.as_ref().is_some_and(|begun| begun.command != task.command || begun.server != task.server)
    {
        return Err(Failure::usage(format!(
            "session {session} was begun with another command: leave it out to go on, or start a new session without \
             --resume"
        )));
    }
    let design = [
        ("budget", asked.budget_ns.to_string(), begun.budget_ns.to_string()),
        ("blocks", format!("{:?}", asked.blocks), format!("{:?}", begun.blocks)),
        ("looks", asked.looks.to_string(), begun.looks.to_string()),
        ("audit", asked.audit.to_string(), begun.audit.to_string()),
        ("margin", asked.margin.to_string(), begun.margin.to_string()),
        ("ends", asked.ends.to_string(), begun.ends.to_string()),
        ("verify", asked.verify.to_string(), begun.verify.to_string()),
        ("gentle", asked.gentle.to_string(), begun.gentle.to_string()),
        ("seed", asked.seed.to_string(), begun.seed.to_string()),
    ];
    let design = design.into_iter().filter(|(name, ..)| given(name)).map(|(name, a, b)| (name.to_owned(), a, b));
    match factors.chain(design).find(|(_, asked, begun)| asked != begun) {
        None => Ok(()),
        Some((flag, ..)) => Err(Failure::usage(format!(
            "session {session} was begun with another --{flag}: leave it out to go on, or start a new session without --resume"
        ))),
    }
}

/// The levels that a factor has in a plan, in the order of its cells.
fn levels<'a>(plan: &'a Plan, name: &str) -> Vec<&'a Level> {
    let mut levels = Vec::new();
    for level in plan.cells.iter().map(|cell| cell.factors.get(name)).filter(|level| **level != Level::Absent) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
