//! `stream`, `call`, `ring` and `run`: from flags or a plan to a session, and its report.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bytegauge_flamegraph::Flames;
use bytegauge_harness::stages::{Observer, Silent};
use bytegauge_harness::{Ended, Run, RunOptions, SessionAnalysis, machine_probe};
use bytegauge_model::unit::counted;
use bytegauge_model::{
    AnalysedGroup, AnalysisProgress, CellId, Factor, Nanos, ProgramTask, SessionId, Workload, factor,
};
use bytegauge_plan::{Catalog, EMULATED, Plan, PlanSpec, built_in, emulated, file, resolve};
use bytegauge_report::{Report, SessionData, Settings, analysed_groups, progress};
use bytegauge_store::{Store, StoreError};
use bytegauge_sys::input;
use bytegauge_traffic::keeper::Leftovers;
use bytegauge_traffic::{PLANTED_FAULTS, PlantedFault, StartNetwork};
use clap::ArgMatches;

use crate::exit_code::{self, DONE, Failure, HOST_LOST, INTERRUPTED, usage};
use crate::progress::{Display, JsonLines};
use crate::{agent, args, dry_run, history, interrupt, page, resume, stored, terminal, tune_service_flags};

/// `bytegauge stream`, `bytegauge call`, …
pub fn workload(workload: Workload, matches: &ArgMatches) -> Result<u8, Failure> {
    measure(PlanSpec::named(workload.row().name, workload), matches)
}

/// `bytegauge run PLAN`.
pub fn run(matches: &ArgMatches) -> Result<u8, Failure> {
    let Some(plan) = matches.get_one::<OsString>("plan") else {
        return go_on(matches, None);
    };
    if args::text(matches, "only").is_some() {
        return usage("--only names plans of `bytegauge run survey`: leave it out");
    }
    let name = &*plan.to_string_lossy();
    let is_file = name.ends_with(".toml") || name.contains('/');
    let spec = if is_file {
        let text = input::PLAN
            .read(Path::new(plan))
            .map_err(|error| Failure::usage(format!("the plan {name} cannot be read: {error}: check its path")))?;
        file::parse(name, &text)?
    } else {
        built_in::find(name)?
    };
    measure(spec, matches)
}

/// The plan of the user's program with these values.
pub fn with_values(
    mut spec: PlanSpec,
    task: ProgramTask,
    values: &str,
    seed: u64,
    matches: &ArgMatches,
) -> Result<Plan, Failure> {
    spec.task = Some(task);
    let mut given = args::factors(matches, Workload::Tune)?;
    // The values of a program were determined with its present one.
    given.retain(|(factor, _)| factor.name != "value");
    given.push((factor::named(Workload::Tune, "values")[0], values.to_owned()));
    resolved(spec, &given, seed, matches)
}

/// The plan of a spec with these factors, and the design of the flags.
pub fn resolved(
    mut spec: PlanSpec,
    given: &[(&'static Factor, String)],
    seed: u64,
    matches: &ArgMatches,
) -> Result<Plan, Failure> {
    spec.set_all(given)?;
    args::apply_design(&mut spec, matches)?;
    args::look_up_hosts(&mut spec)?;
    Ok(resolve(&spec, &catalog(&spec), seed)?)
}

fn measure(spec: PlanSpec, matches: &ArgMatches) -> Result<u8, Failure> {
    let given = args::factors(matches, spec.workload)?;
    // The session has all factors that a plan requires of its user.
    if given.is_empty() && args::text(matches, "resume").is_some() {
        return go_on(matches, Some((&spec.name, spec.workload)));
    }
    planned(resolved(spec, &given, args::seed(matches), matches)?, matches)
}

/// Measures a plan, or continues a session of it, as the flags of its command require, and prints the result.
pub fn planned(mut plan: Plan, matches: &ArgMatches) -> Result<u8, Failure> {
    if let Some(begun) = resume::session(matches, &plan)? {
        return carried_out(begun.plan.clone(), Some(&begun), matches);
    }
    plan.saved = history::save_as(matches)?;
    plan.asked = args::asked(std::env::args_os().skip(1));
    carried_out(plan, None, matches)
}

/// Continues a session without its own words: of one plan, or of any.
pub fn go_on(matches: &ArgMatches, asked: Option<(&str, Workload)>) -> Result<u8, Failure> {
    let begun = resume::by_its_own_words(matches, asked)?;
    carried_out(begun.plan.clone(), Some(&begun), matches)
}

/// The flame graphs that were asked for, if any.
fn flames(matches: &ArgMatches, plan: &Plan, program: &Path) -> Result<Option<Flames>, Failure> {
    let Ok(Some(folder)) = matches.try_get_one::<PathBuf>("flamegraph") else { return Ok(None) };
    bytegauge_flamegraph::check(plan).map_err(Failure::usage)?;
    if matches.get_flag("dry-run") {
        return Ok(None);
    }
    Flames::in_folder(folder, program, terminal::note).map_err(Failure::usage)
}

/// Checks the flags of the time and of the output that do not depend on a plan.
pub fn check_output(matches: &ArgMatches) -> Result<(), Failure> {
    args::time_ns(matches, "max-time")?;
    stored::settings(matches)?;
    stored::interval(matches).map(drop)
}

fn carried_out(mut plan: Plan, begun: Option<&resume::Begun>, matches: &ArgMatches) -> Result<u8, Failure> {
    // Errors in flags are reported now, not after a minute of measuring.
    let mut options = options(matches, &plan)?;
    // A dry run contacts no other host.
    let key = if matches.get_flag("dry-run") { None } else { agent::key(&plan, matches)? };
    check_output(matches)?;
    stored::check_group(matches, "the plan", plan.groups.iter().map(|group| &group.id))?;
    plan.objective = stored::settings(matches)?.objective.or(plan.objective);
    stored::check_objective(matches, "the plan", plan.groups.iter().map(|group| &group.factors))?;
    let flames = flames(matches, &plan, &options.program)?;
    if matches.get_flag("dry-run") {
        match (args::text(matches, "format"), begun) {
            (Some("json"), _) => terminal::print_json(&serde_json::json!(plan)),
            (_, Some(begun)) => terminal::print(&dry_run::resumed(begun)),
            _ => terminal::print(&dry_run::full(&plan, options.until_proven)),
        }
        return Ok(DONE);
    }
    args::reach_servers(&plan)?;
    let _service = tune_service_flags::held(&plan)?;
    if let Some(key) = &key {
        options.links = agent::links(&plan, key, agent::lasts_ns(&plan, &options))?;
        agent::skip_missing(&mut plan, &options.links)?;
    }
    let path = stored::store_path(matches)?;
    let mut store = Store::open(&path)?;
    let before = history::against(matches, &store)?;
    let resumed = begun.map(|begun| begun.id);
    let talks = talks(matches);
    if talks && resumed.is_none() {
        terminal::note(dry_run::summary(&plan).trim_end());
    }
    let stop = interrupt::stop_on_signals()?;
    let observer: Box<dyn Observer> = match talks {
        true => Box::new(Display::new()),
        false if matches.get_flag("json-stream") => Box::new(JsonLines),
        false => Box::new(Silent),
    };
    remove_leftovers(!talks);
    let sampled = flames.as_ref().map(|_| plan.clone());
    let (session, ended) = execute(plan, resumed, &mut store, options, &stop, observer)?;
    let view = stored::view(&store, session, matches)?;
    if let (Some(flames), Some(plan), Ended::Complete) = (&flames, &sampled, &ended) {
        flames.draw(plan, &view, matches.get_flag("quiet"), &stop);
    }
    report(&view, &ended, &store, &path, before, matches)
}

/// Whether progress and notes are printed.
pub fn talks(matches: &ArgMatches) -> bool {
    !matches.get_flag("quiet") && !matches.get_flag("json-stream")
}

/// Shows a session as the flags ask for, compared with the sessions `before` it, and gives its exit code.
fn report(
    view: &Report,
    ended: &Ended,
    store: &Store,
    path: &Path,
    before: Option<Vec<SessionId>>,
    matches: &ArgMatches,
) -> Result<u8, Failure> {
    let (as_lines, talks) = (matches.get_flag("json-stream"), talks(matches));
    let cut_short = match ended {
        Ended::Interrupted => Some((INTERRUPTED, "interrupted")),
        Ended::HostLost(reason) => Some((HOST_LOST, reason.as_str())),
        Ended::Complete | Ended::OutOfTime => None,
    };
    // A failed session shows its reasons.
    let before = before.filter(|_| cut_short.is_none() && exit_code::verdict_code(view, false) == DONE);
    // In a comparison with earlier sessions, the result of this session alone is not requested.
    let is_comparison = before.is_some() && matches!(args::text(matches, "format"), Some("text" | "json") | None);
    if as_lines {
        terminal::print_json_line(&serde_json::json!({"event": "report", "report": view}));
    } else if !is_comparison {
        stored::show(view, matches, path)?;
    }
    // The screen shows it if it is printed.
    let shown = matches!(args::text(matches, "format"), Some("text") | None) && !as_lines;
    let keep_page = || {
        if talks && !matches.get_flag("no-page") {
            page::keep(std::slice::from_ref(view), path);
        }
    };
    if let Some((code, why)) = cut_short {
        terminal::note(&format!(
            "{why}: everything measured is kept; continue with: {}",
            stored::continuation(view, path)
        ));
        keep_page();
        return Ok(code);
    }
    if let Some(before) = before {
        let code = history::tell(store, &before, &[view.session], matches)?;
        keep_page();
        return Ok(code);
    }
    if talks && !shown {
        terminal::note(&format!("next: {}", stored::next(view, path)));
    }
    keep_page();
    // `ab` is a gate: a result that is not known passes only on request.
    let strict = match matches.try_get_one::<String>("undecided") {
        Ok(Some(word)) => word == "fail",
        _ => matches.get_flag("strict"),
    };
    Ok(exit_code::code_of(view, strict))
}

/// Runs the session with an observer, until done or interrupted.
pub fn execute(
    plan: Plan,
    resumed: Option<SessionId>,
    store: &mut Store,
    options: RunOptions,
    stop: &AtomicBool,
    mut observer: Box<dyn Observer>,
) -> Result<(SessionId, Ended), Failure> {
    let run = match resumed {
        Some(session) => Run::resume(session, store, options, &mut *observer, stop)?,
        None => Run::begin(plan, store, options, &mut *observer, stop)?,
    };
    Ok((run.session(), run.execute(&mut ByReport)?))
}

/// The file of this program, which ends that are processes run once more.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::failed(format!("this program's own file is unknown ({error}): mount /proc")))
}

fn options(matches: &ArgMatches, plan: &Plan) -> Result<RunOptions, Failure> {
    let until_proven = args::text(matches, "until").is_some();
    if until_proven && plan.analyses == 1 {
        return usage("--until: with --analyses 1 there is no further analysis: leave one of them out");
    }
    Ok(RunOptions {
        program: own_program()?,
        // Without the feature the command line has no such option.
        plant: if PLANTED_FAULTS { args::text(matches, "plant").map(plant).transpose()? } else { None },
        grace_ns: args::parsed::<Nanos>(matches, "grace")?.map(|grace| grace.0),
        until_proven,
        until_max_ns: args::time_ns(matches, "max-time")?,
        links: Vec::new(),
        start_network: Some(bytegauge_emulated_link::start_network as StartNetwork),
        host_wait_ns: args::parsed::<Nanos>(matches, "host-wait")?.map(|wait| wait.0),
    })
}

/// The faults that can be planted, and the number of each.
pub const FAULTS: &str = "corrupt:OFFSET, die:BYTES, stall:BYTES, overcount:BYTES, lose:EVERY, swap:EVERY, \
                          repeat:EVERY, spin:NS, modes:NS, cold:NS, untaken:ROUNDS, wrong-user-data:ROUNDS, \
                          relay-loses:OFFSET, relay-corrupts:OFFSET";

/// `die:1000`, or `c3@spin:20` for one cell.
fn plant(text: &str) -> Result<(Option<CellId>, PlantedFault), Failure> {
    let (cell, fault) = match text.split_once('@') {
        Some((cell, fault)) => (Some(CellId(cell.into())), fault),
        None => (None, text),
    };
    let bad = || Failure::usage(format!("--plant: `{text}` is no fault: {FAULTS}"));
    let (name, number) = fault.split_once(':').ok_or_else(bad)?;
    let number: serde_json::Number = number.parse().ok().filter(|_| !number.starts_with('-')).ok_or_else(bad)?;
    Ok((cell, serde_json::from_value(serde_json::json!({ name: number })).map_err(|_| bad())?))
}

// Interim analyses as users get them: computed by the report.

/// Analyses a session as its report does.
struct ByReport;

impl SessionAnalysis for ByReport {
    fn analyse(&mut self, store: &Store, session: SessionId) -> Result<AnalysisProgress, StoreError> {
        Ok(progress(&SessionData::load(store, session)?, &Settings::default()))
    }

    fn subjects(&mut self, store: &Store, session: SessionId) -> Result<Vec<AnalysedGroup>, StoreError> {
        Ok(analysed_groups(&SessionData::load(store, session)?, &Settings::default()))
    }
}

// The capabilities of this machine that a plan needs: those that the harness probes, and that of emulating a link, which only the
// program itself knows.

/// Probes what the spec needs. Raises the soft limit of open files as a side effect.
pub fn catalog(spec: &PlanSpec) -> Catalog {
    let mut catalog = machine_probe::catalog(spec);
    if emulated::is_wanted(spec) {
        // This program emulates the link in another process; without its file the ends report that.
        let program = std::env::current_exe().ok();
        let lacking = program.and_then(|program| bytegauge_emulated_link::missing_requirement(&program));
        catalog.note_missing("link", EMULATED, lacking);
    }
    catalog
}

// Programs and files that a killed bytegauge left behind: the next start ends and removes them.

/// Removes them, with a note unless `quiet`.
pub fn remove_leftovers(quiet: bool) {
    let Leftovers { processes, folders } = Leftovers::remove();
    if processes + folders > 0 && !quiet {
        let programs = if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
        let folders = counted(folders as usize, "folder");
        terminal::note(&format!("note: ended {programs} and removed {folders} that a killed bytegauge left behind"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plants() {
        assert_eq!(plant("die:1000").unwrap(), (None, PlantedFault::Die(1000)));
        assert_eq!(plant("c3@spin:2.5").unwrap(), (Some(CellId("c3".into())), PlantedFault::Spin(2.5)));
        assert!(plant("rot:1").is_err() && plant("die:-1").is_err() && plant("die:NaN").is_err());
    }

    #[test]
    fn document_lists_every_input_limit() {
        let document = include_str!("../../../docs/input-limits.md");
        let files = input::INPUT_LIMITS.map(|limit| (limit.what, limit.max_bytes));
        let others = [
            ("imported file or standard input of `report import`", bytegauge_import::IMPORT_MAX),
            ("key file", bytegauge_wire::KEY_FILE_MAX),
        ];
        for (what, max_bytes) in files.into_iter().chain(others) {
            let row = format!("| {what} | {} |", bytegauge_model::Bytes(max_bytes));
            assert!(document.contains(&row), "no row {row}");
        }
    }
}
