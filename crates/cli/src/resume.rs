//! `--resume`: which session is gone on with, and whether it is the one that the flags describe.
//!
//! A resumed session goes on with the plan that it was begun with, whatever command names it. A command that asks another
//! plan is refused, and so is a flag that says otherwise: to ignore them would answer another question than the one asked.
//! `run --resume` without a plan goes on with any.

use bytegauge_harness::{Ahead, RunError, Stand};
use bytegauge_model::{Level, SessionId, Workload};
use bytegauge_plan::{Plan, PlanSpec, ready};
use bytegauge_store::{Store, StoreError};
use clap::ArgMatches;

use crate::exit::Failure;
use crate::{args, design_flags, stored};

/// A session that is gone on with.
pub struct Begun {
    /// The session.
    pub id: SessionId,
    /// The plan that it was begun with.
    pub plan: Plan,
    /// The judgement that it goes on with, from 1.
    pub look: u64,
    /// What is measured until then; `None` where its blocks are not fixed yet.
    pub ahead: Option<Ahead>,
}

/// The session to go on with, if that was asked for. `asked` is what the command and its flags alone would give.
pub fn session(matches: &ArgMatches, asked: &Plan) -> Result<Option<Begun>, Failure> {
    if args::text(matches, "resume").is_none() {
        return Ok(None);
    }
    let store = Store::open_existing(&stored::store_path(matches)?)?;
    let id = named(matches, &store, Some(&asked.name))?.ok_or_else(|| none_left(&format!("of plan {}", asked.name)))?;
    let begun = begun(&store, id)?;
    must_fit((&asked.name, asked.workload), &begun)?;
    refuse_another_plan(matches, id, asked, &begun.plan)?;
    Ok(Some(begun))
}

/// The session that a command goes on with which names no factors, or those of the session: of a plan, or of any.
pub fn by_its_own_words(matches: &ArgMatches, asked: Option<(&str, Workload)>) -> Result<Begun, Failure> {
    let store = Store::open_existing(&stored::store_path(matches)?)?;
    let of = asked.map_or_else(|| "of any plan".to_owned(), |(plan, _)| format!("of plan {plan}"));
    let id = named(matches, &store, asked.map(|(plan, _)| plan))?.ok_or_else(|| none_left(&of))?;
    let begun = begun(&store, id)?;
    asked.map_or(Ok(()), |asked| must_fit(asked, &begun))?;
    let Begun { plan, .. } = &begun;
    for (factor, text) in args::factors(matches, plan.workload)? {
        let error = |error| Failure::usage(format!("--{}: {error}", factor.flag()));
        let mut asked: Vec<String> =
            factor.kind.parse_list(&text).map_err(error)?.iter().map(|level| factor.kind.compact(level)).collect();
        let mut levels: Vec<String> =
            levels(plan, factor.name).iter().map(|level| factor.kind.compact(level)).collect();
        asked.sort_unstable();
        levels.sort_unstable();
        if asked != levels {
            return Err(another(id, &factor.flag()));
        }
    }
    let mut design = PlanSpec::named(&plan.name, plan.workload);
    design_flags::apply(&mut design, matches)?;
    let asked = Plan {
        budget_ns: design.budget_ns.unwrap_or(plan.budget_ns),
        seed: design_flags::seed(matches),
        blocks: design.blocks,
        looks: design.looks,
        audit: design.audit,
        margin: design.margin,
        ends: design.ends,
        verify: design.verify,
        gentle: design.gentle,
        ..plan.clone()
    };
    refuse_another_plan(matches, id, &asked, plan)?;
    Ok(begun)
}

fn none_left(which: &str) -> Failure {
    Failure::usage(format!("no session {which} can be resumed: start one without --resume"))
}

/// A command that asks a plan goes on with sessions of that plan; the name of a workload stands for every plan of it that has
/// no name to run it by.
fn must_fit((name, workload): (&str, Workload), Begun { id, plan, .. }: &Begun) -> Result<(), Failure> {
    let is_unnamed = || plan.versus.is_none() && ready::find(&plan.name).is_err();
    if name == plan.name || name == workload.row().name && workload == plan.workload && is_unnamed() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "session {id} is of the plan {}, and this command asks {name}: go on with it by `bytegauge run --resume {id}`, or \
         leave out --resume to begin a new session",
        plan.name
    )))
}

/// A session that can be gone on with.
fn begun(store: &Store, session: SessionId) -> Result<Begun, Failure> {
    let record = store.session(session)?;
    if store.sessions()?.iter().any(|summary| summary.id == session && summary.imported) {
        return Err(Failure::usage(format!(
            "session {session} was measured elsewhere and imported: see it with `bytegauge report {session}`, or start a \
             new one"
        )));
    }
    let groups = store.groups(session)?;
    let Ok(plan) = serde_json::from_value::<Plan>(record.plan) else { return Err(RunError::OldPlan(session).into()) };
    let look =
        Stand::look_ahead(Stand::of(&groups), record.status).ok_or(RunError::Over { session, looks: plan.looks })?;
    let ahead = Ahead::of(&groups, &store.blocks(session)?, look);
    Ok(Begun { id: session, plan, look, ahead })
}

/// The session that `--resume` names, where it does: by its number, or as the latest of a plan, or of all, that can be gone
/// on with.
pub fn named(matches: &ArgMatches, store: &Store, plan: Option<&str>) -> Result<Option<SessionId>, Failure> {
    match args::text(matches, "resume") {
        None => Ok(None),
        Some("latest") => Ok(latest(store, plan)?),
        Some(number) => match number.parse() {
            Ok(number) => Ok(Some(SessionId(number))),
            Err(_) => {
                Err(Failure::usage(format!("--resume: `{number}` is no session number: see `bytegauge sessions`")))
            }
        },
    }
}

/// The newest session that was interrupted or has a look left.
fn latest(store: &Store, plan: Option<&str>) -> Result<Option<SessionId>, StoreError> {
    let asked = |name: &str| plan.is_none_or(|plan| plan == name);
    for summary in store.sessions()?.iter().filter(|summary| !summary.imported && asked(&summary.plan_name)) {
        let stand = Stand::of(&store.groups(summary.id)?);
        if Stand::look_ahead(stand, summary.status).is_some() {
            return Ok(Some(summary.id));
        }
    }
    Ok(None)
}

fn another(session: SessionId, flag: &str) -> Failure {
    Failure::usage(format!(
        "session {session} was begun with another --{flag}: leave it out to go on, or start a new session without --resume"
    ))
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
        ("time", asked.budget_ns.to_string(), begun.budget_ns.to_string()),
        ("blocks", format!("{:?}", asked.blocks), format!("{:?}", begun.blocks)),
        ("analyses", asked.looks.to_string(), begun.looks.to_string()),
        ("long-trials", asked.audit.to_string(), begun.audit.to_string()),
        ("margin", asked.margin.to_string(), begun.margin.to_string()),
        ("ends", asked.ends.to_string(), begun.ends.to_string()),
        ("verify", asked.verify.to_string(), begun.verify.to_string()),
        ("half-load", asked.gentle.to_string(), begun.gentle.to_string()),
        ("seed", asked.seed.to_string(), begun.seed.to_string()),
    ];
    let design = design.into_iter().filter(|(name, ..)| given(name)).map(|(name, a, b)| (name.to_owned(), a, b));
    match factors.chain(design).find(|(_, asked, begun)| asked != begun) {
        None => Ok(()),
        Some((flag, ..)) => Err(another(session, &flag)),
    }
}

/// The levels that a factor has in a plan, in the order of its cells.
fn levels(plan: &Plan, name: &str) -> Vec<Level> {
    let mut levels = Vec::new();
    for level in plan.cells.iter().map(|cell| cell.factors.get(name)).filter(|level| *level != Level::Absent) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels
}
