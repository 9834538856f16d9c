//! A user's program, run once: prepared, started with its server, waited for, rated, and removed with all its descendants.
//!
//! Time runs from before the program's start until the kernel reports its end; its output is read meanwhile, so that a full
//! pipe does not block it. Whatever fails, nothing is left running: this process is a supervisor (`sys::supervisor`).
//!
//! Looks only at a program's exit, its output and the kernel's accounting of it.

mod filtered_sockets;
mod output;
pub(crate) mod process;
pub mod running_service;
mod service_options;

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use bytegauge_model::task::LOOPBACK;
use bytegauge_model::{
    Counted, EndCounts, EndReport, EndRole, Level, Metric, ProgramTask, ReadyWhen, ServerTask, SocketChanges,
    SocketsSeen, TaskReport,
};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::cpu_time::Usage;
use bytegauge_sys::network::{HeldNetwork, NetworkTables};
use bytegauge_sys::supervisor::{Supervisor, Swept};
use bytegauge_sys::{children, listening, process_tree};

use crate::EndError;
use crate::end::ProgramNetworks;
use crate::setup::Setup;
use filtered_sockets::FilteredSockets;
pub use filtered_sockets::default_level;
use output::{AskedNumber, Events, number};
use process::{NamespaceCounts, Program, StartedIn, Waited, first_to_end};

/// How long a program may take to leave after its signal, before it is killed.
const LEAVE: Duration = Duration::from_secs(3);

/// How long descendants that a program leaves behind may take to end by themselves.
pub(crate) const SETTLE: Duration = Duration::from_millis(200);

/// Lines of a server without its sign that are printed.
const PRINTED_MAX: usize = 3;

/// How long a port may stay taken after its server has left.
const RELEASE: Duration = Duration::from_secs(1);

/// Default time limit of one program of a trial, nanoseconds.
const TIMEOUT_NS: u64 = 60_000_000_000;

impl Setup {
    /// How long each program of the trial may take, nanoseconds.
    pub fn run_timeout_ns(&self) -> u64 {
        self.spec.run_timeout().unwrap_or(TIMEOUT_NS)
    }

    /// How long all programs of the trial may take together, nanoseconds; 0 without any.
    pub fn programs_ns(&self) -> u64 {
        let Some(program) = &self.program else { return 0 };
        let parts = 1 + u64::from(program.prepare.is_some()) + u64::from(program.server.is_some());
        let leave_ns = (LEAVE + SETTLE + RELEASE).as_nanos() as u64;
        self.run_timeout_ns().saturating_mul(parts).saturating_add(leave_ns)
    }
}

/// The context of an error if a process cannot become a supervisor.
pub(crate) const SUPERVISING: &str = "supervising programs";

/// Interval between checks whether a server listens.
const ASK_READY: Duration = Duration::from_millis(2);

/// The pause before the next check whether a server listens, after a check that took this long. With many sockets the kernel
/// searches through all of them: the checks take at most a tenth of a CPU, which the starting server needs too.
fn until_asked_again(took: Duration) -> Duration {
    ASK_READY.max(9 * took)
}

/// The answer of a check, and the pause before the next one.
pub(crate) fn ask<T>(question: impl FnOnce() -> T) -> (T, Duration) {
    let asked = Instant::now();
    let answer = question();
    (answer, until_asked_again(asked.elapsed()))
}

/// Runs a task once. A byte on `stop_requested`, or closing it, stops the task.
///
/// # Errors
/// The error; all started processes have been ended then too.
pub fn run(setup: &Setup, stop_requested: BorrowedFd<'_>) -> Result<EndReport, EndError> {
    // From here on this process outlives its parent, whose end it notices by that of its input.
    let supervisor = Supervisor::begin().map_err(EndError::io(SUPERVISING))?;
    let task = setup.program.as_ref().ok_or_else(|| EndError::Impossible("a trial without a program".into()))?;
    if let Some(changes) = task.changes.as_ref().filter(|changes| changes.service.is_some()) {
        return running_service::run(setup, &task.metric, changes, stop_requested);
    }
    let value = &setup.spec.value().unwrap_or(Level::Absent);
    let bug = |error: bytegauge_model::TextError| EndError::Impossible(error.to_string());
    let changes = task.changes.as_ref();
    let filter = |server: bool| {
        // Settings of the kernel alone need no filter, which costs time.
        let is_filtered = |changes: &&SocketChanges| {
            let is_changed = changes.options().any(|change| changes.is_on(change, server));
            is_changed || changes.watches && changes.on.includes(server)
        };
        let changes = changes.filter(is_filtered)?;
        let options = changes.options_of(value).into_iter().filter(|change| changes.is_on(change, server)).collect();
        Some(FilteredSockets::new(options, changes.watches))
    };
    let host = setup.networks.as_ref().map_or(LOOPBACK, ProgramNetworks::server);
    let run = ProgramRun {
        setup,
        task,
        command_filter: filter(false),
        server_filter: filter(true),
        command: task.command_for(value, host).map_err(bug)?,
        prepare: task.prepare_for(value, host).map_err(bug)?,
        server: task.server_for(value, host).map_err(bug)?,
        supervisor: &supervisor,
        stop_requested,
    };
    let filters = || [&run.command_filter, &run.server_filter].into_iter().flatten();
    let seen = || filters().map(FilteredSockets::seen).reduce(SocketsSeen::plus);
    let is_watched = changes.is_some_and(|changes| changes.watches);
    let before = NamespaceCounts::before(run.tables()).filter(|_| run.command_filter.is_some());
    let mut report = run.all().map_err(|error| match (error, seen().filter(|_| is_watched)) {
        // A program that is too slow to be measured shows why it waits.
        (EndError::Program(reason), Some(seen)) => {
            let waits = seen.waits.diagnoses().into_iter().map(|one| format!(". Until then, {}", one.text));
            EndError::Program(reason + &waits.collect::<String>())
        }
        (error, _) => error,
    })?;
    let only_connects = run.command_filter.as_ref().is_some_and(|filter| filter.seen().only_connects());
    if only_connects && before.is_some_and(|before| before.has_failed_connection() && before.is_unchanged()) {
        let fix = match run.server {
            Some(_) => "let the command connect to the port at which its server listens",
            None => "start its server before, or let bytegauge start it (--start)",
        };
        return Err(EndError::Program(format!("every connection of the command failed: {fix}")));
    }
    filters().try_for_each(FilteredSockets::check)?;
    let of = |filter: &Option<FilteredSockets>| filter.as_ref().map(|filter| Box::new(filter.seen()));
    if let Some(task) = &mut report.task {
        (task.sockets, task.command_sockets) = match &run.server_filter {
            Some(_) if is_watched => (of(&run.server_filter), of(&run.command_filter)),
            _ => (seen().map(Box::new), None),
        };
    }
    Ok(report)
}

/// One run of a program, with its value filled in.
struct ProgramRun<'a> {
    setup: &'a Setup,
    task: &'a ProgramTask,
    command: Vec<String>,
    /// The program that runs before, unmeasured.
    prepare: Option<Vec<String>>,
    /// The server, started before the command and stopped after it.
    server: Option<ServerTask>,
    supervisor: &'a Supervisor,
    command_filter: Option<FilteredSockets>,
    server_filter: Option<FilteredSockets>,
    stop_requested: BorrowedFd<'a>,
}

impl ProgramRun<'_> {
    fn all(&self) -> Result<EndReport, EndError> {
        self.prepare()?;
        // Before the server, whose events are counted as well, and after the unmeasured program.
        let events = Events::of(&self.task.metric, self.tables())?;
        let Some(task) = &self.server else {
            let mut report = self.measure(None, &events)?;
            let left = sweep(self.supervisor, Duration::ZERO)?;
            // Their use after the window does not count; that they were there is reported.
            report.task.iter_mut().for_each(|task| task.left_behind = left.processes);
            self.rate_by_cpu(&mut report);
            return Ok(report);
        };
        let mut server = self.start(task)?;
        // Its start is no part of the run, whose time begins now.
        let at_start_ns = process_tree::used().map_or(0, |used| used.cpu_ns);
        let traffic = NamespaceCounts::before(self.tables()).filter(|_| matches!(task.ready, ReadyWhen::Tcp(_)));
        let mut report = self.measure(Some(&mut server), &events).map_err(|error| match (error, &traffic) {
            (EndError::Program(reason), Some(before)) if before.has_failed_connection() => {
                self.unreached(&reason, &task.ready)
            }
            (error, _) => error,
        })?;
        let unreached = traffic.filter(NamespaceCounts::is_unchanged).map(|before| {
            if before.has_failed_connection() {
                return self
                    .unreached("no connection of the command succeeded, so the server had no work", &task.ready);
            }
            let why = "the command opened no TCP connection, so the server had no work";
            self.unreached(&format!("{why} (if it uses no TCP, give --ready regex:RE)"), &task.ready)
        });
        let (mut used, by_force) = stop(server, task.stop, self.stop_requested)?;
        let left = sweep(self.supervisor, SETTLE)?;
        if let Some(task) = &mut report.task {
            used += left.used;
            task.server_cpu_ns = Some(used.total_ns.saturating_sub(at_start_ns));
            task.stopped_by_force = by_force;
            task.left_behind = left.processes;
        }
        self.rate_by_cpu(&mut report);
        released(self.tables(), task)?;
        // A run without its work has a rate as well, which shows nothing about the value.
        unreached.map_or(Ok(report), Err)
    }

    /// The rate by CPU time, which is known when the server has ended as well.
    fn rate_by_cpu(&self, report: &mut EndReport) {
        let own_ns = report.cpu_time_ns();
        if let (Metric::Cpu, Some(task)) = (&self.task.metric, &mut report.task) {
            task.rate = 1e9 / own_ns.saturating_add(task.server_cpu_ns.unwrap_or(0)).max(1) as f64;
        }
    }

    /// The kernel's tables of the server's network.
    fn tables(&self) -> NetworkTables {
        self.setup.networks.as_ref().map_or(NetworkTables::own(), ProgramNetworks::tables)
    }

    /// Where the program, or its server, is started.
    fn network(&self, server: bool) -> Result<Option<HeldNetwork>, EndError> {
        let held = self.setup.networks.as_ref().map(|networks| networks.held(server)).transpose();
        held.map_err(EndError::io("entering the network of a program"))
    }

    /// How long each of the programs may take from now on.
    fn until(&self) -> Instant {
        Instant::now() + Duration::from_nanos(self.setup.run_timeout_ns())
    }

    /// The CPU of the command, or of the server; none if it is not pinned.
    fn cpus(&self, role: EndRole) -> Vec<usize> {
        self.setup.cpu(role, 0).into_iter().collect()
    }

    /// How long the server may take until it is ready, nanoseconds.
    fn ready_ns(&self) -> u64 {
        self.setup.ready_ns.unwrap_or(self.setup.run_timeout_ns())
    }

    fn prepare(&self) -> Result<(), EndError> {
        let Some(words) = &self.prepare else { return Ok(()) };
        let mut program = Program::start("the command to prepare", words, &[], StartedIn::default())?;
        let ended = self.wait(&mut program, None, self.until())?;
        program.must_have_succeeded(&ended)
    }

    /// Waits for a program while its server runs.
    fn wait(&self, program: &mut Program, server: Option<&mut Program>, until: Instant) -> Result<Waited, EndError> {
        let mut programs = vec![program];
        programs.extend(server);
        loop {
            match first_to_end(&mut programs, self.stop_requested, until)? {
                None => {
                    let limit = bytegauge_model::Nanos(self.setup.run_timeout_ns());
                    return Err(EndError::Program(format!(
                        "{} took longer than {limit} and was ended: give it less to do, or more time (--timeout, --time)",
                        programs[0].what
                    )));
                }
                Some((0, at_ns)) => {
                    return programs[0].leave().map(|(status, used)| Waited { status, used, at_ns });
                }
                Some(_) => {
                    let (status, _) = programs[1].leave()?;
                    if !status.success() {
                        let how = programs[1].how(status);
                        return Err(EndError::Program(format!("the server ended while the command ran: it {how}")));
                    }
                    // A server of one client may leave before its client has ended.
                    programs.truncate(1);
                }
            }
        }
    }

    fn start(&self, task: &ServerTask) -> Result<Program, EndError> {
        if let ReadyWhen::Tcp(port) = task.ready
            && listening::at_port(self.tables(), port)
        {
            return Err(EndError::Program(format!(
                "port {port} is taken{} before the server is started: end it, or use another port",
                owner(self.tables(), port)
            )));
        }
        let prints = matches!(task.ready, ReadyWhen::Printed(_));
        let how = StartedIn { looks: prints, filter: self.server_filter.as_ref(), network: self.network(true)? };
        let mut server = Program::start("the server", &task.command, &self.cpus(EndRole::Server), how)?;
        let until = Instant::now() + Duration::from_nanos(self.ready_ns());
        let sign = task.ready.clone();
        loop {
            let (ready, pause) = ask(|| is_ready(self.tables(), &sign, &server));
            if ready? {
                return Ok(server);
            }
            if first_to_end(&mut [&mut server], self.stop_requested, Instant::now() + pause)?.is_some() {
                let (status, _) = server.leave()?;
                let how = server.how(status);
                return Err(EndError::Program(format!("the server ended before it was ready: it {how}")));
            }
            if Instant::now() >= until {
                return Err(self.not_ready(&sign, &server));
            }
        }
    }

    /// The server's sign did not appear in time.
    fn not_ready(&self, sign: &ReadyWhen, server: &Program) -> EndError {
        let limit = bytegauge_model::Nanos(self.ready_ns());
        let ports = listening::ports_of_session(self.tables(), server.pid);
        let longer = if self.ready_ns() < self.setup.run_timeout_ns() { "--time" } else { "--timeout" };
        let advice = ready_advice(&ports, longer);
        let words = match sign {
            ReadyWhen::Printed(_) => server.last_lines(PRINTED_MAX),
            _ => server.last_words(),
        };
        let reason = format!("the server was not ready after {limit} ({sign} did not appear){words}: {advice}");
        let server_ports = ports.into_iter().collect();
        let task = TaskReport { server_not_ready: true, server_ports, ..TaskReport::default() };
        EndError::Unserved(reason, Box::new(task))
    }

    /// No connection of the command reached the server that is ready.
    fn unreached(&self, reason: &str, ready: &ReadyWhen) -> EndError {
        let ReadyWhen::Tcp(port) = ready else { return EndError::Program(reason.to_owned()) };
        let task = TaskReport { server_unreached: true, ..TaskReport::default() };
        EndError::Unserved(format!("{reason}; the server listens at port {port}"), Box::new(task))
    }

    /// The error of a command, and what its server printed last to its error output: often the cause.
    fn with_server(&self, error: EndError, server: Option<&mut Program>) -> EndError {
        let (EndError::Program(reason), Some(server)) = (&error, server) else { return error };
        // It may still be printing.
        let _ = first_to_end(&mut [&mut *server], self.stop_requested, Instant::now() + SETTLE);
        match server.last_error() {
            Some(line) => EndError::Program(format!("{reason}; the server printed “{line}”")),
            None => error,
        }
    }

    fn measure(&self, mut server: Option<&mut Program>, events: &Events) -> Result<EndReport, EndError> {
        let (metric, stop) = (&self.task.metric, self.stop_requested);
        let asked = AskedNumber::before(metric, self.network(true)?, stop)?;
        let how = StartedIn {
            looks: metric.pattern().is_some(),
            filter: self.command_filter.as_ref(),
            network: self.network(false)?,
        };
        let until = self.until();
        let before = events.read()?;
        let began_ns = monotonic_ns();
        let mut program = Program::start("the command", &self.command, &self.cpus(EndRole::Command), how)?;
        let ended = self.wait(&mut program, server.as_deref_mut(), until)?;
        let events = events.since(before)?;
        let window_ns = ended.at_ns.saturating_sub(began_ns).max(1);
        program.must_have_succeeded(&ended).map_err(|error| self.with_server(error, server))?;
        let seconds = window_ns as f64 / 1e9;
        let printed = |pattern: &str| number(pattern, &program.text(), &program.last_lines(1));
        let (rate, bytes) = match (metric, &asked) {
            (_, Some(asked)) => (asked.rate(self.network(true)?, stop)?, 0),
            (Metric::Wall, _) => (1.0 / seconds, 0),
            // The first is known when the server has ended, the other was asked.
            (Metric::Cpu | Metric::Command(..), _) => (0.0, 0),
            (Metric::Bytes(bytes), _) => (*bytes as f64 / seconds, *bytes),
            (Metric::Rate(pattern), _) => (printed(pattern)?, 0),
            (Metric::Time(pattern), _) => (1.0 / printed(pattern)?, 0),
            (Metric::Counter(_), _) => (1e6 / (1.0 + events.unwrap_or(0) as f64), 0),
        };
        let calls = u64::from(metric.counted() != Counted::Printed);
        let task = TaskReport { rate, counted: metric.counted(), events, ..TaskReport::default() };
        let Usage { user_ns, system_ns, total_ns: cpu_ns, voluntary_switches, involuntary_switches, .. } = ended.used;
        let counts = EndCounts {
            bytes,
            calls,
            window_ns,
            total_bytes: bytes,
            user_ns,
            system_ns,
            cpu_ns,
            voluntary_switches,
            involuntary_switches,
            ..EndCounts::default()
        };
        Ok(EndReport { counts, task: Some(Box::new(task)), ..EndReport::default() })
    }
}

/// Stops a program by a signal: its use, and whether it had to be killed.
pub(crate) fn stop(
    mut program: Program,
    signal: i32,
    stop_requested: BorrowedFd<'_>,
) -> Result<(Usage, bool), EndError> {
    if program.left.is_none() {
        children::signal_group(program.pid, signal);
    }
    let mut until = Instant::now() + LEAVE;
    let mut by_force = false;
    while first_to_end(&mut [&mut program], stop_requested, until)?.is_none() {
        by_force = true;
        until = Instant::now() + LEAVE;
        children::signal_group(program.pid, children::KILL);
    }
    program.leave().map(|(_, used)| (used, by_force))
}

fn is_ready(tables: NetworkTables, sign: &ReadyWhen, server: &Program) -> Result<bool, EndError> {
    Ok(match sign {
        ReadyWhen::Tcp(port) => listening::at_port(tables, *port),
        ReadyWhen::Unix(path) => listening::at_path(tables, path),
        ReadyWhen::Printed(pattern) => output::pattern(pattern)?.is_match(&server.text()),
    })
}

/// How to correct a sign that did not appear: by the ports at which the server does listen.
fn ready_advice(ports: &BTreeSet<u16>, longer: &str) -> String {
    let ports: Vec<u16> = ports.iter().copied().collect();
    match ports[..] {
        [] => format!("check --ready, or give more {longer}"),
        [port] => format!("it listens at port {port}: use --ready tcp:{port}"),
        _ => {
            let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
            format!("it listens at the ports {}: use one of them in --ready tcp:PORT", ports.join(", "))
        }
    }
}

/// The port must be free for the next trial.
fn released(tables: NetworkTables, task: &ServerTask) -> Result<(), EndError> {
    let ReadyWhen::Tcp(port) = task.ready else { return Ok(()) };
    let until = Instant::now() + RELEASE;
    loop {
        let (taken, pause) = ask(|| listening::at_port(tables, port));
        if !taken {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(EndError::Program(format!(
                "port {port} stays taken{} after the server has left: end it, or make the server release it",
                owner(tables, port)
            )));
        }
        std::thread::sleep(pause);
    }
}

/// The process that has a port: " by pid 7 (nginx)", or nothing.
pub(crate) fn owner(tables: NetworkTables, port: u16) -> String {
    listening::owner_of_port(tables, port).map_or_else(String::new, |(pid, name)| format!(" by pid {pid} ({name})"))
}

/// Ends all descendants that programs left behind, after a time in which they may end by themselves.
pub(crate) fn sweep(supervisor: &Supervisor, grace: Duration) -> Result<Swept, EndError> {
    supervisor.sweep(grace).map_err(EndError::io("ending what programs left behind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_server_takes_little_cpu() {
        assert_eq!(until_asked_again(Duration::ZERO), ASK_READY);
        assert_eq!(until_asked_again(Duration::from_millis(40)), Duration::from_millis(360));
    }
}
