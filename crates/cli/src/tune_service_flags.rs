//! `tune --pid`: options are switched on the sockets of a program that runs already.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use bytegauge_model::option::OptionRow;
use bytegauge_model::option::Switching;
use bytegauge_model::socket_changes::AS_IT_IS;
use bytegauge_model::unit::counted;
use bytegauge_model::{Level, Metric, OptionChange, ProgramTask, RunningService, SocketChanges};
use bytegauge_observe::{ObserveError, refused};
use bytegauge_plan::design::BUDGET_NS;
use bytegauge_plan::{Plan, PlanSpec};
use bytegauge_sys::owner::start_ticks;
use bytegauge_sys::process_tree;
use bytegauge_traffic::program::running_service::{ServiceLock, ServiceSocket, ServiceSockets};
use bytegauge_traffic::wait_sampler::is_within_machine;
use clap::ArgMatches;

use crate::exit_code::{DONE, Failure, usage};
use crate::{args, measure, terminal, tune_options};

/// More connections are changed only on request.
const CONNECTIONS_MAX: usize = 2000;

/// The time of a switch, microseconds: of a duplicate of a descriptor, and of setting an option on it.
const SWITCH_US: usize = 100;

/// Default of `--max-harm`.
const MAX_HARM: &str = "10%";

/// A session has up to this number of trials, whose length is between these times, nanoseconds.
const TRIALS: u64 = 60;
const TRIAL_NS: [u64; 2] = [200_000_000, 2_000_000_000];

/// How long the last trial of a killed session may take to set its options back.
const EARLIER: Duration = Duration::from_secs(10);

/// Sockets that are listed.
const LISTED_MAX: usize = 20;

/// Switches options of a running program, and measures it with each of them and as it is.
pub fn tune(spec: PlanSpec, pid: u32, matches: &ArgMatches) -> Result<u8, Failure> {
    let mut changes = changes(matches)?;
    // Wrong flags are reported before the program is looked at.
    args::apply_design(&mut spec.clone(), matches)?;
    let metric = metric(matches)?;
    measure::check_output(matches)?;
    let mut service = service(pid, matches)?;
    let rows: Vec<&OptionRow> = changes.iter().flatten().map(OptionChange::row).collect();
    let found = found(&service, &rows)?;
    service.connections = found.connections;
    service.is_local = found.local == found.connections;
    if found.connections == 0 {
        return Err(found.nothing_to_change(&service));
    }
    let connections = found.connections;
    let is_so = |change: &OptionChange| {
        let levels = found.levels.get(change.row().factor);
        levels.is_some_and(|levels| levels.iter().all(|level| change.is_in_force(level)))
    };
    let add = |task: &mut SocketChanges, set: Vec<OptionChange>| task.add(set.into_iter().map(Into::into).collect());
    let in_force = changes.extract_if(.., |set| set.iter().all(is_so));
    let mut none = SocketChanges::default();
    let not_tried = in_force.map(|set| format!("{}: all have it already", add(&mut none, set))).collect();
    if changes.is_empty() {
        let (all, listed) = (counted(connections, "connection"), found.listed.join("\n"));
        return usage(format!("--option names what {all} of {service} have already: name another value\n{listed}"));
    }
    if connections > CONNECTIONS_MAX && !matches.get_flag("yes") {
        let ms = connections * SWITCH_US / 1000;
        return usage(format!(
            "{service} has {connections} connections, and a switch of all takes about {ms} ms: add --yes to change them, or --peer to change fewer"
        ));
    }
    let mut task = SocketChanges { service: Some(service.clone()), not_tried, ..SocketChanges::default() };
    let names: Vec<String> = changes.into_iter().map(|set| add(&mut task, set)).collect();
    if matches.get_flag("dry-run") {
        let head = format!("{service}: {}", counted(connections, "connection"));
        let tries = format!("would try, and set back after each trial: {}", names.join(", "));
        let lines = [head.as_str()].into_iter().chain(found.listed.iter().map(String::as_str)).chain([tries.as_str()]);
        let lines = lines.chain(task.not_tried.iter().map(String::as_str));
        terminal::print(&terminal::fitted(lines, terminal::width().max(terminal::COLUMNS)));
        return Ok(DONE);
    }
    let task = ProgramTask {
        changes: Some(task),
        default: Some(Level::Name(AS_IT_IS.into())),
        ..ProgramTask::of(vec![service.name], metric)
    };
    let values = [AS_IT_IS.to_owned()].into_iter().chain(names).collect::<Vec<_>>().join(",");
    measure::planned(measure::with_values(spec, task, &values, args::seed(matches), matches)?, matches)
}

/// Keeps other sessions from changing the program of a plan.
///
/// # Errors
/// If another session changes it.
pub fn held(plan: &Plan) -> Result<Option<ServiceLock>, Failure> {
    let changes = plan.task.as_ref().and_then(|task| task.changes.as_ref());
    let Some(service) = changes.and_then(|changes| changes.service.as_ref()) else { return Ok(None) };
    let taken = |error: io::Error| {
        Failure::usage(format!(
            "{service} is locked ({error}): two sessions would disturb each other; wait for the end of the other one, \
             or end it (ss -xlp | grep bytegauge-tune-{})",
            service.pid
        ))
    };
    let held = ServiceLock::of_session(service.pid).map_err(taken)?;
    let began = Instant::now();
    // A session that was killed sets its options back first.
    while let Err(error) = ServiceLock::of_trial(service.pid) {
        if began.elapsed() >= EARLIER {
            return Err(taken(error));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(Some(held))
}

/// The sets of changes to try. The present level needs no name: it is the reference.
fn changes(matches: &ArgMatches) -> Result<Vec<Vec<OptionChange>>, Failure> {
    let mut lists = tune_options::named(matches, "option")?;
    for change in lists.iter().flatten() {
        if let Switching::Never(why) = change.row().switching {
            return usage(format!(
                "--option {change}: {} is not switched on a running program, since {why}: let bytegauge start it (tune -- COMMAND)",
                change.row().name
            ));
        }
    }
    // As it is, a running program is measured in any case.
    lists.iter_mut().for_each(|list| list.retain(|change| change.level.is_some()));
    lists.retain(|list| !list.is_empty());
    if lists.is_empty() {
        return usage(
            "--pid needs a value to compare with the present one, which auto and unset mean for a running program: name it, such as \
             --option nodelay=on or --option notsent-lowat=128K",
        );
    }
    Ok(tune_options::sets(matches, &lists))
}

fn metric(matches: &ArgMatches) -> Result<Metric, Failure> {
    match args::parsed::<Metric>(matches, "metric")? {
        None => Ok(Metric::Cpu),
        Some(metric @ (Metric::Cpu | Metric::Wall | Metric::Counter(_) | Metric::Command(..))) => Ok(metric),
        Some(other) => usage(format!(
            "--metric {other}: bytegauge does not read what a running program prints: use cpu (CPU time for 1 GiB), wall (time for 1 GiB), \
             counter:NAME (events for 1 GiB), prom:URL#NAME (a counter of its Prometheus exporter), or cmd:, cmd-time: or cmd-total: with a command that asks it"
        )),
    }
}

/// The program that the flags name.
fn service(pid: u32, matches: &ArgMatches) -> Result<RunningService, Failure> {
    let gone = || Failure::usage(ObserveError::NoProcess(pid));
    let port = matches.get_one::<u16>("port").copied();
    let peer = matches.get_one::<IpAddr>("peer").map(IpAddr::to_canonical);
    let trial_ns = args::time_ns(matches, "time")?.unwrap_or(BUDGET_NS) / TRIALS;
    Ok(RunningService {
        pid,
        start_ticks: start_ticks(pid).ok_or_else(gone)?,
        name: process_tree::name(pid).ok_or_else(gone)?,
        port,
        peer,
        connections: 0,
        is_local: false,
        trial_ns: trial_ns.clamp(TRIAL_NS[0], TRIAL_NS[1]),
        max_harm: args::share("max-harm", args::text(matches, "max-harm").unwrap_or(MAX_HARM), 0.001..=10.0)?,
    })
}

/// The connections that a session would change.
#[derive(Default)]
struct Found {
    connections: usize,
    /// Those of them that are within this machine.
    local: usize,
    is_listening: bool,
    listed: Vec<String>,
    /// The present levels of each option.
    levels: BTreeMap<&'static str, BTreeSet<Level>>,
    /// Ports of all its sockets of TCP, where none was found.
    ports: BTreeSet<u16>,
}

impl Found {
    fn nothing_to_change(&self, service: &RunningService) -> Failure {
        let ports: Vec<String> = self.ports.iter().map(u16::to_string).collect();
        let next = match (self.is_listening, ports.is_empty()) {
            (true, _) => "tune it while clients are connected".to_owned(),
            (false, true) => "it has no TCP sockets; name the process that has them".to_owned(),
            (false, false) => format!("its TCP sockets have the local ports {}", ports.join(", ")),
        };
        Failure::usage(format!("there is no open connection of {service}: {next}"))
    }
}

/// The selected connections, with the present values of the options.
fn found(service: &RunningService, rows: &[&OptionRow]) -> Result<Found, Failure> {
    let mut found = Found::default();
    each(service, &mut |socket| {
        if socket.info.is_listening() {
            found.is_listening = true;
            return;
        }
        found.connections += 1;
        found.local += usize::from(socket.peer.is_some_and(|peer| is_within_machine(socket.local, peer)));
        let level = |row: &&OptionRow| {
            let level = socket.level(row)?;
            let text = format!("{} {}", row.factor.replace('_', "-"), row.kind.show(&level));
            found.levels.entry(row.factor).or_default().insert(level);
            Some(text)
        };
        let levels: Vec<String> = rows.iter().filter_map(level).collect();
        let peer = socket.peer.map_or_else(String::new, |peer| format!(" to {peer}"));
        found.listed.push(format!("  {}{peer}: {}", socket.local, levels.join(", ")));
    })?;
    let more = found.listed.len().saturating_sub(LISTED_MAX);
    found.listed.truncate(LISTED_MAX);
    found.listed.extend((more > 0).then(|| format!("  and {more} more")));
    if found.connections == 0 {
        let any = RunningService { port: None, peer: None, ..service.clone() };
        each(&any, &mut |socket| {
            found.ports.insert(socket.local.port());
        })?;
    }
    Ok(found)
}

fn each(service: &RunningService, look: &mut dyn FnMut(&ServiceSocket<'_>)) -> Result<(), Failure> {
    let pid = service.pid;
    let looked = ServiceSockets::open(service).and_then(|mut sockets| sockets.each(look));
    looked.map_err(|error| match refused(pid, error) {
        ObserveError::System { source, .. } => {
            Failure::failed(format!("the sockets of process {pid} cannot be read: {source}: try again"))
        }
        known => Failure::usage(known),
    })
}
