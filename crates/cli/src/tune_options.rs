//! `tune` without `{value}`: the values of the session are options of the program's sockets, set from outside.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_emulated_link::start_network;
use bytegauge_model::socket_changes::{AS_IT_IS, parse, parse_sysctl};
use bytegauge_model::sockets_seen::{OpenedSocket, Opening};
use bytegauge_model::{
    ChangedProgram, FactorKey, Level, OptionChange, ProgramChange, ProgramTask, SocketChanges, SocketsSeen, Spec,
    SysctlChange, Transport, Workload,
};
use bytegauge_plan::{Design, FINALISTS_MIN, Plan, PlanSpec};
use bytegauge_sys::environment::MachineEnvironment;
use bytegauge_sys::network::network_option;
use bytegauge_sys::option::available_congestion;
use bytegauge_sys::program_file::find_to_run;
use bytegauge_sys::seccomp;
use bytegauge_traffic::Setup;
use bytegauge_traffic::program::default_level;
use bytegauge_tune::{Kernel, Watched, proposed, watch, without_meaning};
use clap::ArgMatches;

use crate::exit_code::{Failure, INTERRUPTED, failed, usage};
use crate::{args, interrupt, measure, terminal, tune};

/// The bit of a mode that makes a program run as the owner of its file (chmod(2), `S_ISUID`).
const SET_USER_ID: u32 = 0o4000;

/// The least and the largest number of changes that are tried where the watched run proposes them: more than the least if the time
/// of the session has room for them.
const CHANGES_FEWEST: usize = 8;
const CHANGES_MAX: usize = 16;

/// The note of a dry run in which the user names no change.
const DRY_RUN: &str = "note: a first run, which is only watched, decides what is tried. This is the plan for TCP connections; calls \
                       by which the program sets an option itself are left out in turn, too";

/// Watches the program once, then measures it with each change and as it is.
pub fn tune(spec: PlanSpec, matches: &ArgMatches) -> Result<u8, Failure> {
    let mut task = tune::task_of(matches, None, None)?;
    for words in task.commands() {
        tune::must_be_there(words)?;
        must_be_changeable(words)?;
    }
    let sysctls = sysctls(matches, "sysctl")?;
    let mut tried: Vec<Vec<ProgramChange>> = options(matches, "option")?.into_iter().chain(sysctls.clone()).collect();
    let given_on = args::parsed::<ChangedProgram>(matches, "on")?;
    let on = given_on.unwrap_or(match task.server {
        None => ChangedProgram::Client,
        Some(_) if tried.is_empty() => ChangedProgram::Both,
        Some(_) => ChangedProgram::Server,
    });
    if on != ChangedProgram::Client && task.server.is_none() {
        return usage(format!("--on {on} needs a server: add --start and --ready"));
    }
    // The program as it is alone: wrong flags are reported before it runs.
    let unchanged = ProgramTask { changes: Some(SocketChanges::default()), ..task.clone() };
    let plan = measure::with_values(spec.clone(), unchanged, AS_IT_IS, 0, matches)?;
    measure::check_output(matches)?;
    let is_dry = matches.get_flag("dry-run");
    let mut run_ns = 0;
    let mut changes = SocketChanges { on, sysctls: present(&sysctls, "sysctl")?, ..SocketChanges::default() };
    if !is_dry {
        measure::remove_leftovers(matches.get_flag("quiet"));
        let stop = interrupt::stop_on_signals()?;
        let watched = first_run(&task, &changes, (given_on, &sysctls), &plan, &stop);
        if stop.load(Ordering::Relaxed) {
            terminal::note("interrupted in the first run of the program: nothing was measured");
            return Ok(INTERRUPTED);
        }
        let watched = watched?;
        run_ns = watched.whole_ns;
        changes.as_it_is_ns = Some(watched.run_ns);
        if given_on.is_none() && !tried.is_empty() && watched.only_the_client_waits() {
            (changes.on, changes.watched) = (ChangedProgram::Client, watched.client);
        } else {
            changes.watched = Some(watched.seen);
            changes.watched_client = watched.client.filter(|_| on == ChangedProgram::Both);
        }
        changes.calls = watched.calls;
        let needs_sockets = tried.is_empty() || tried.iter().flatten().any(|change| change.option().is_some());
        if needs_sockets && changes.seen().all(|(_, seen)| seen.opened.is_empty()) {
            let all = changes.seen().fold(SocketsSeen::default(), |all, (_, seen)| all.plus(seen.clone()));
            return failed(format!("no socket of the program can be changed: {}", all.why_unchanged()));
        }
    } else if tried.is_empty() {
        // A dry run starts nothing: the sockets are not known.
        let opened = [(OpenedSocket { transport: Transport::Tcp, call: Opening::Connect }, 1)].into();
        let seen = SocketsSeen { opened, ..SocketsSeen::default() };
        changes.watched_client = (on == ChangedProgram::Both).then(|| seen.clone());
        changes.watched = Some(seen);
        terminal::note(terminal::fitted([DRY_RUN], terminal::COLUMNS).trim_end());
    }
    if tried.is_empty() {
        let fits = |changes: &usize| run_ns.saturating_mul(first_runs(*changes)) <= plan.budget_ns;
        let most = (CHANGES_FEWEST..=CHANGES_MAX).rev().find(fits).unwrap_or(CHANGES_FEWEST);
        let (list, not_tried) = proposed(&changes, &kernel(), most);
        tried.push(list.into_iter().map(ProgramChange::from).collect());
        (changes.not_tried, changes.are_proposed) = (not_tried, true);
    }
    changes.watched_ns = Some(run_ns).filter(|ns| *ns > 0);
    changes.are_proposed |= plan.is_long_run(run_ns);
    if !is_dry {
        let reasons = |change: &ProgramChange| {
            let change = change.option()?;
            without_meaning(change, &changes.seen_of(change), default_level(change.row()))
        };
        let without: Vec<String> = tried.iter().flatten().filter_map(reasons).collect();
        tried.iter_mut().for_each(|list| list.retain(|change| reasons(change).is_none()));
        tried.retain(|list| !list.is_empty());
        changes.not_tried.extend(without);
        if tried.iter().flatten().any(|change| change.option().is_some()) {
            changes.filter_ns = seccomp::cost_ns().ok();
        }
    }
    let sets = sets(matches, &tried);
    if sets.is_empty() {
        let why = changes.not_tried.join("; ");
        return usage(format!("nothing is left to try: {why}: name other values with --option or --sysctl"));
    }
    let names: Vec<String> =
        [AS_IT_IS.to_owned()].into_iter().chain(sets.into_iter().map(|set| changes.add(set))).collect();
    task.changes = Some(changes);
    task.default = Some(Level::Name(AS_IT_IS.into()));
    let plan = measure::with_values(spec, task, &names.join(","), args::seed(matches), matches)?;
    measure::planned(plan, matches)
}

/// The watched run: of both programs where the user names none.
fn first_run(
    task: &ProgramTask,
    changes: &SocketChanges,
    (on, sysctls): (Option<ChangedProgram>, &[Vec<ProgramChange>]),
    plan: &Plan,
    stop: &AtomicBool,
) -> Result<Watched, Failure> {
    let own = measure::own_program()?;
    let both = if task.server.is_some() { ChangedProgram::Both } else { ChangedProgram::Client };
    let mut settings = SocketChanges { on: on.unwrap_or(both), ..changes.clone() };
    sysctls.iter().flatten().for_each(|change| drop(settings.add(vec![change.clone()])));
    let mut run = plan.cells.first().map_or_else(|| Spec::of(Workload::Tune), |cell| cell.factors.clone());
    if plan.blocks.is_none() {
        let timeout_ns = Setup::of_program(&run, task).run_timeout_ns();
        run.put(FactorKey::run_timeout, timeout_ns.min(plan.budget_ns));
    }
    let is_alone = !settings.sysctls.is_empty() || run.emulated_link().is_some();
    let alone = if is_alone { " (it runs in a network of its own, which reaches no other host)" } else { "" };
    watch(task, &settings, &run, plan.ready_ns(u64::MAX), plan.budget_ns, (&own, start_network), stop).map_err(
        |error| Failure::failed(format!("the first run of the program, which is only watched, failed: {error}{alone}")),
    )
}

/// The runs until a first result: a screening, and blocks of its finalists, the program as it is and the control.
fn first_runs(changes: usize) -> u64 {
    let Design { blocks_min, screen_blocks, .. } = Design::of(Workload::Tune);
    screen_blocks * (changes as u64 + 1) + blocks_min * (FINALISTS_MIN as u64 + 2)
}

/// Refuses a program that a filter cannot follow, before it is started.
pub fn must_be_changeable(words: &[String]) -> Result<(), Failure> {
    let Some(path) = words.first().and_then(|program| find_to_run(program)) else { return Ok(()) };
    let mut head = [0; 5];
    let is_read = File::open(&path).and_then(|mut file| file.read_exact(&mut head)).is_ok();
    // ELFCLASS32 (elf(5)).
    if is_read && head == *b"\x7fELF\x01" {
        return usage(format!(
            "{} is a 32-bit program, whose calls cannot be followed: use a 64-bit build of it",
            path.display()
        ));
    }
    // The folder of this process belongs to its effective user (proc(5)).
    let own = fs::metadata("/proc/self").map(|own| own.uid()).ok();
    let is_of_another_user = |file: Metadata| file.mode() & SET_USER_ID != 0 && Some(file.uid()) != own;
    if fs::metadata(&path).is_ok_and(is_of_another_user) {
        return usage(format!(
            "{} runs as the owner of its file (set-user-id), which the kernel forbids under a filter: run bytegauge as that user, or \
             tune a copy without that bit",
            path.display()
        ));
    }
    Ok(())
}

/// The changes of each flag of that name, such as `--option`.
pub fn named(matches: &ArgMatches, flag: &str) -> Result<Vec<Vec<OptionChange>>, Failure> {
    args::texts(matches, flag).map(parse).collect::<Result<_, _>>().map_err(args::wrong(flag))
}

/// The same, as changes of a program.
pub fn options(matches: &ArgMatches, flag: &str) -> Result<Vec<Vec<ProgramChange>>, Failure> {
    Ok(named(matches, flag)?.into_iter().map(|list| list.into_iter().map(ProgramChange::from).collect()).collect())
}

/// The changes of each flag that sets kernel settings, such as `--sysctl`.
pub fn sysctls(matches: &ArgMatches, flag: &str) -> Result<Vec<Vec<ProgramChange>>, Failure> {
    let given: Result<Vec<_>, _> = args::texts(matches, flag).map(parse_sysctl).collect();
    let sets = given.map_err(args::wrong(flag))?.into_iter();
    Ok(sets.map(|set| set.into_iter().map(ProgramChange::Sysctl).collect()).collect())
}

/// The values that this machine has of settings of the kernel.
pub fn present(changes: &[Vec<ProgramChange>], flag: &str) -> Result<BTreeMap<String, String>, Failure> {
    let read = |change: &SysctlChange| {
        let name = change.sysctl.clone();
        let value = network_option(&SysctlChange::file(&name)).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "is none of this kernel, which may be older or lack the module".to_owned(),
                _ => format!("cannot be read ({error})"),
            };
            Failure::usage(format!("--{flag}: {name} {why}: sysctl -a lists all names"))
        })?;
        Ok((name, value))
    };
    changes.iter().flatten().filter_map(ProgramChange::sysctl).map(read).collect()
}

/// The sets of changes to try: each change alone, or with `--crossed` every combination of one change of each list.
pub fn sets<T: Clone>(matches: &ArgMatches, lists: &[Vec<T>]) -> Vec<Vec<T>> {
    if !matches.get_flag("crossed") {
        return lists.concat().into_iter().map(|one| vec![one]).collect();
    }
    lists.iter().fold(vec![Vec::new()], |sets, list| {
        let with = |set: &Vec<T>| {
            list.iter().map(|one| [set.as_slice(), std::slice::from_ref(one)].concat()).collect::<Vec<_>>()
        };
        sets.iter().flat_map(with).collect()
    })
}

/// The settings of this machine that limit what can be tried.
fn kernel() -> Kernel {
    let network = MachineEnvironment::read().network;
    Kernel {
        rmem_max: network.rmem_max_bytes,
        wmem_max: network.wmem_max_bytes,
        congestion: available_congestion().unwrap_or_default(),
        default_congestion: network.congestion_control,
    }
}
