//! One trial: opens its ends, starts them, collects their counts, and checks them.
//!
//! Every trial follows one script, whatever its workload: only the ends and the measuring end differ. A file per workload
//! checks that the counts agree.

mod call;
mod datagram;
mod fast_open;
mod link;
mod load;
mod relay;
mod ring;
mod stream;
mod task;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{
    ByRole, EndReport, EndReports, EndRole, Engine, Iperf3Report, MachineUse, Outcome, RelayChoice, Side, Trial,
    Workload,
};
use bytegauge_traffic::address::Host;
use bytegauge_traffic::end::ChannelError;
use bytegauge_traffic::{Address, Channel, Command, EndPool, Reply, Setup};

use crate::surroundings::Watch;
use load::PathLoad;

/// How long preparing may take beyond the joints' own time-outs: thousands of threads and their memory.
const PREPARE: Duration = Duration::from_secs(30);

/// A trial longer than this can be interrupted in the middle, nanoseconds.
const LONG_NS: u64 = 1_000_000_000;

/// How often a long trial is checked.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// The result of a trial.
#[derive(Debug)]
pub struct TrialResult {
    /// How it ended.
    pub outcome: Outcome,
    /// Counts of the ends that reported.
    pub ends: EndReports,
    /// Whether the ends can be used again.
    pub ends_are_sound: bool,
    /// Counts of the machine during the trial; absent if no byte was sent, or without a counter.
    pub machine: Option<MachineUse>,
}

impl TrialResult {
    /// The result of a trial without a number.
    pub fn nothing(outcome: Outcome) -> TrialResult {
        TrialResult { outcome, ends: EndReports::default(), ends_are_sound: false, machine: None }
    }

    /// The counts of the end of a role.
    pub fn end(&self, role: EndRole) -> Option<&EndReport> {
        self.ends.get(role)
    }

    /// Bytes at the end that measures and the length of the window that all its flows share; a ring moves none. In a
    /// stream they are the sink's, or the source's if the sink is external; in calls, the client's bytes both ways.
    pub fn throughput(&self) -> (u64, u64) {
        match self.ends.measuring() {
            None => (0, 0),
            Some(end) => match (&end.call, &end.ring) {
                (Some(call), _) => (end.bytes, call.window_ns),
                (None, Some(_)) => (0, end.window_ns),
                (None, None) => (delivered(end), end.window_ns),
            },
        }
    }

    /// The trial with these results, at a place in a session.
    pub fn recorded(self, setup: &Setup, place: Trial) -> Trial {
        let (bytes, wall_ns) = self.throughput();
        Trial {
            bytes,
            calls: self.calls(),
            wall_ns,
            warmup_ns: setup.warmup_ns,
            cpus: cpus(setup),
            outcome: self.outcome,
            ends: self.ends,
            machine: self.machine,
            ..place
        }
    }

    /// Units other than bytes: calls that the client completed, completions that were taken from a ring, runs of
    /// a program.
    pub fn calls(&self) -> u64 {
        let client = self.end(EndRole::Client).and_then(|client| client.call.as_ref()).map(|call| call.calls);
        let alone = || [EndRole::Ring, EndRole::Command].into_iter().find_map(|role| self.end(role));
        client.or_else(|| alone().map(|end| end.calls)).unwrap_or(0)
    }
}

/// Bytes in the window; of datagrams to an iperf3 server its share that arrived, by the server's count over the whole test.
fn delivered(end: &EndReport) -> u64 {
    let share = end.iperf3.as_deref().map_or(1.0, Iperf3Report::delivered_share);
    if share < 1.0 { (end.bytes as f64 * share) as u64 } else { end.bytes }
}

/// Runs one trial. `None` if `stop` was set in the middle of a long one.
pub fn measure(pool: &mut EndPool, setup: &Setup, stop: &AtomicBool, watch: &mut Watch) -> Option<TrialResult> {
    let script = Script::of(setup);
    let patience = patience(&[setup.warmup_ns, setup.window_ns, setup.grace_ns, script.longer_ns]);
    let link = setup.link();
    if let Err(fault) = pool.joined(setup.far, link, setup.seed) {
        return Some(TrialResult::nothing(fault.outcome()));
    }
    // Where a connection never comes, the other end may still wait for it.
    let opened =
        PathLoad::open(setup, pool, patience).and_then(|load| script.open(setup, pool, patience).map(|()| load));
    let load = match opened {
        Ok(load) => load,
        Err(outcome) => return Some(TrialResult::nothing(outcome)),
    };
    // The cost of starting a program is not part of the trial.
    let before = watch.sample();
    let roles: Vec<EndRole> = load.iter().flat_map(PathLoad::roles).chain(script.roles()).collect();
    let started = roles.into_iter().try_for_each(|role| pool.end(role)?.send(Command::Go));
    if let Err(error) = started {
        return Some(TrialResult::nothing(error.into()));
    }
    // A run of a program may hang however short it is, and its user need not wait for its time-out.
    let window_ns = if script.measures == EndRole::Command { LONG_NS } else { setup.window_ns };
    let mut answers = script.collect(pool, window_ns, patience, stop)?;
    let mut machine = watch.machine_use(before.as_ref());
    let joined = link::checked(pool, link.as_ref(), machine.as_mut());
    script.collect_late(pool, patience, &mut answers);
    let outcome = answers.trouble().or(joined).unwrap_or_else(|| check_counts(setup, &answers));
    let outcome = match answers.served_no_call() {
        true => relay::forwards_elsewhere(setup, outcome),
        false => outcome,
    };
    let (outcome, load_is_sound) = match load {
        Some(load) => load.end(pool, patience, &mut answers, outcome),
        None => (outcome, true),
    };
    let ends_are_sound = load_is_sound && answers.by_role.values().all(|answer| answer.sound);
    let ends = answers.by_role.into_iter().filter_map(|(role, answer)| Some((role, answer.report?))).collect();
    Some(TrialResult { outcome, ends, ends_are_sound, machine })
}

/// The outcome of a trial without trouble at an end.
fn check_counts(setup: &Setup, answers: &Answers) -> Outcome {
    if let Some(reason) = fell_back(answers) {
        return Outcome::Failed(reason);
    }
    if let Some(reason) = fast_open::unused(setup, answers) {
        return Outcome::Failed(reason);
    }
    match setup.workload() {
        Workload::Stream => stream::check_counts(setup, answers),
        Workload::Call => call::check_counts(setup, answers),
        Workload::Ring => ring::check_counts(setup, answers),
        Workload::Check => task::check_counts(answers),
    }
}

/// That a connection of MPTCP carried TCP, at whichever end: another transport was measured than was requested.
fn fell_back(answers: &Answers) -> Option<String> {
    let reports = answers.by_role.iter().filter_map(|(role, answer)| Some((role, answer.report.as_ref()?)));
    for (role, report) in reports {
        let flows = report.flows.iter().filter(|flow| flow.tcp.as_ref().is_some_and(|tcp| tcp.mptcp == Some(false)));
        match flows.count() {
            0 => {}
            count => {
                return Some(format!(
                    "{count} of {} connections of the {role} fell back from MPTCP to TCP: measure with --transport tcp, or see \
                     nstat -az 'MPTcpExt*' for the cause",
                    report.flows.len()
                ));
            }
        }
    }
    None
}

/// The CPU of the first flow of each end that takes part in a trial, where it is pinned.
pub fn cpus(setup: &Setup) -> ByRole<usize> {
    Script::of(setup).roles().filter_map(|role| Some((role, setup.cpu(role, 0)?))).collect()
}

/// The ends of a trial.
struct Script {
    /// The end that is opened first: the one that others connect to, or one that is alone.
    first: Option<EndRole>,
    /// Where the others connect to, if no end of bytegauge listens.
    elsewhere: Option<Address>,
    /// Whether there is a relay: it connects to the first end, and the others to it.
    relayed: bool,
    /// Whether the relay is an external program, started for the trial or not.
    relay_is_program: bool,
    /// Those that connect, in the order in which they are opened and started.
    others: Vec<(EndRole, Setup)>,
    measures: EndRole,
    /// Whether bytes go both ways at once, so that both ends measure.
    both: bool,
    /// How long a task may take beyond its schedule, nanoseconds.
    longer_ns: u64,
}

impl Script {
    fn of(setup: &Setup) -> Script {
        let script = match setup.workload() {
            Workload::Stream => stream::script(setup),
            Workload::Call => call::script(setup),
            Workload::Ring => Script::alone(EndRole::Ring),
            Workload::Check => Script { longer_ns: setup.programs_ns(), ..Script::alone(EndRole::Command) },
        };
        let relay = setup.relay();
        let relay_is_program = relay.is_some_and(|relay| relay.method().is_none());
        // A single end without a peer has nothing to relay.
        let joins = !script.others.is_empty() && script.elsewhere != Some(Address::Alone);
        Script { relayed: relay.is_some() && joins, relay_is_program, ..script }
    }

    /// An end without a peer.
    fn alone(role: EndRole) -> Script {
        let others = Vec::new();
        let (relayed, relay_is_program) = (false, false);
        let (elsewhere, both) = (None, false);
        Script { first: Some(role), elsewhere, relayed, relay_is_program, others, measures: role, both, longer_ns: 0 }
    }

    /// All ends, in the order in which they are started: in calls the server's schedule begins first, and the measured
    /// client's last.
    fn roles(&self) -> impl Iterator<Item = EndRole> {
        let others = self.others.iter().map(|(role, _)| *role);
        self.first.into_iter().chain(self.relay()).chain(others)
    }

    /// The relay, if there is one.
    fn relay(&self) -> Option<EndRole> {
        self.relayed.then_some(EndRole::Relay)
    }

    /// Prepares all ends up to the moment before the first byte.
    fn open(&self, setup: &Setup, pool: &mut EndPool, patience: Duration) -> Result<(), Outcome> {
        let mut address = self.elsewhere.clone();
        let mut prepares = None;
        if let Some(role) = self.first {
            let end = pool.end(role)?;
            prepare(end, role, setup, None)?;
            match end.reply(PREPARE)? {
                // It accepts no connection.
                Reply::Ready => {}
                Reply::Listening(listens) => {
                    address = Some(listens);
                    // A server serves from now on; a sink takes its connections first.
                    if role == EndRole::Server {
                        ready(end)?;
                    } else {
                        prepares = Some(role);
                    }
                }
                other => return Err(stopped(other)),
            }
        }
        if let Some(role) = self.relay() {
            let end = pool.end(role)?;
            prepare(end, role, setup, address.take())?;
            address = Some(listening(end)?);
            // It serves from now on, too.
            ready(end)?;
        }
        for (role, setup) in &self.others {
            let opened = connect(pool.end(*role)?, *role, setup, address.clone());
            opened.map_err(|outcome| self.explained(pool, patience, outcome))?;
        }
        let prepared = prepares.map_or(Ok(()), |role| ready(pool.end(role)?));
        prepared.map_err(|outcome| relay::forwards_elsewhere(setup, self.explained(pool, patience, outcome)))
    }

    /// Adds the reason why no connection can be made, or none arrives, if the relay or the server has it.
    fn explained(&self, pool: &mut EndPool, patience: Duration, outcome: Outcome) -> Outcome {
        let server = self.first.filter(|role| *role == EndRole::Server);
        let mut answers =
            self.relay().into_iter().chain(server).map(|role| LastReply::of(stop_end(pool, role, patience)));
        answers.find_map(|answer| answer.trouble).unwrap_or(outcome)
    }

    /// Waits for the counts of the ends: those that do not measure get the command to stop. `None` if `stop` was set.
    fn collect(&self, pool: &mut EndPool, window_ns: u64, patience: Duration, stop: &AtomicBool) -> Option<Answers> {
        let first = match pool.end(self.measures) {
            Ok(end) => reply_or_stop(end, patience, window_ns, stop)?,
            Err(error) => Err(error),
        };
        if self.both {
            return Some(self.collect_both(pool, patience, first));
        }
        let closed = matches!(first, Ok(Reply::Closed));
        let mut answers = BTreeMap::new();
        // Whatever it replies, it needs no more data. Connecting ends stop first, so that a relay forwards everything and a
        // server misses nothing.
        let relay = self.relay().filter(|_| !self.relay_is_program);
        let others = self.others.iter().map(|(role, _)| *role).chain(relay).chain(self.first);
        for role in others.filter(|role| *role != self.measures) {
            answers.insert(role, LastReply::of(stop_end(pool, role, patience)));
        }
        let last = if closed { pool.end(self.measures).and_then(|end| end.reply(patience)) } else { first };
        answers.insert(self.measures, LastReply::of(last));
        Some(Answers { by_role: answers })
    }

    /// The same for a relay that is a program: it ends at once, whatever it still holds. By now no end waits for it.
    fn collect_late(&self, pool: &mut EndPool, patience: Duration, answers: &mut Answers) {
        let relay = self.relay().filter(|_| self.relay_is_program);
        answers.by_role.extend(relay.map(|role| (role, LastReply::of(stop_end(pool, role, patience)))));
    }

    /// The same if both ends measure: none gets the command to stop before all have measured, since each reads what the other writes.
    fn collect_both(&self, pool: &mut EndPool, patience: Duration, first: Result<Reply, ChannelError>) -> Answers {
        let others = self.others.iter().map(|(role, _)| *role);
        let mut replies = vec![(self.measures, first)];
        for role in others {
            replies.push((role, pool.end(role).and_then(|end| end.reply(patience))));
        }
        for (role, _) in &replies {
            // An end that has died needs no command.
            let _ = pool.end(*role).and_then(|end| end.send(Command::Stop));
        }
        let last = replies.into_iter().map(|(role, reply)| {
            let reply = match reply {
                Ok(Reply::Closed) => pool.end(role).and_then(|end| end.reply(patience)),
                other => other,
            };
            (role, LastReply::of(reply))
        });
        let mut answers = Answers { by_role: last.collect() };
        stream::crossed(&mut answers);
        answers
    }
}

/// Commands an end to prepare, on its host. The configuration of a running relay determines where the end behind it listens.
fn prepare(end: &mut Channel, role: EndRole, setup: &Setup, address: Option<Address>) -> Result<(), ChannelError> {
    let mut setup = setup.clone();
    setup.host = match setup.relay().and_then(RelayChoice::running) {
        Some(relay) if role.is_connected_to() => Host::listening_at(relay.upstream),
        _ => end.host(),
    };
    end.send(Command::Open(role, Box::new(setup), address))
}

fn connect(end: &mut Channel, role: EndRole, setup: &Setup, address: Option<Address>) -> Result<(), Outcome> {
    prepare(end, role, setup, address)?;
    ready(end)
}

fn stop_end(pool: &mut EndPool, role: EndRole, patience: Duration) -> Result<Reply, ChannelError> {
    let end = pool.end(role)?;
    end.send(Command::Stop)?;
    end.reply(patience)
}

/// How long an end may take before it counts as stuck. Its own watchdog expires first.
fn patience(parts_ns: &[u64]) -> Duration {
    let ns = parts_ns.iter().fold(0, |sum: u64, part| sum.saturating_add(*part));
    Duration::from_nanos(ns) + Duration::from_secs(5)
}

fn ready(end: &mut Channel) -> Result<(), Outcome> {
    match end.reply(PREPARE)? {
        Reply::Ready => Ok(()),
        other => Err(stopped(other)),
    }
}

fn listening(end: &mut Channel) -> Result<Address, Outcome> {
    match end.reply(PREPARE)? {
        Reply::Listening(address) => Ok(address),
        other => Err(stopped(other)),
    }
}

/// Why a trial stops after a reply.
fn stopped(reply: Reply) -> Outcome {
    match reply {
        Reply::Skipped(reason) => Outcome::Skipped(reason),
        Reply::Failed(reason, _) => Outcome::Failed(reason),
        // Only its name: a report is long, and may come from another host.
        other => Outcome::Failed(format!("an end replied `{}` at the wrong time", other.name())),
    }
}

/// Waits for the end that measures. A short trial is always waited for; a long one is checked periodically, so that
/// an interrupt does not take minutes. `None` if the user wants to stop.
fn reply_or_stop(
    end: &mut Channel,
    patience: Duration,
    window_ns: u64,
    stop: &AtomicBool,
) -> Option<Result<Reply, ChannelError>> {
    if window_ns < LONG_NS {
        return Some(end.reply(patience));
    }
    let deadline = Instant::now() + patience;
    loop {
        let reply = end.reply(LOOK_AFTER.min(deadline.saturating_duration_since(Instant::now())));
        match reply {
            Err(ChannelError::Silent(_)) if stop.load(Ordering::Relaxed) => return None,
            Err(ChannelError::Silent(_)) if Instant::now() < deadline => {}
            reply => return Some(reply),
        }
    }
}

/// The last reply of one end.
struct LastReply {
    report: Option<EndReport>,
    trouble: Option<Outcome>,
    /// The end is alive and waits for the next trial.
    sound: bool,
    /// The end itself has died, which explains all other replies.
    gone: bool,
}

impl LastReply {
    fn of(reply: Result<Reply, ChannelError>) -> LastReply {
        let answer = |report, trouble| LastReply { report, trouble, sound: true, gone: false };
        match reply {
            Ok(Reply::Done(report)) => answer(Some(*report), None),
            Ok(Reply::Failed(reason, report)) => answer(Some(*report), Some(Outcome::Failed(reason))),
            Ok(skipped @ Reply::Skipped(_)) => answer(None, Some(stopped(skipped))),
            Ok(other) => LastReply { sound: false, ..answer(None, Some(stopped(other))) },
            Err(error) => LastReply { sound: false, gone: true, ..answer(None, Some(error.into())) },
        }
    }
}

/// The last replies of all ends.
struct Answers {
    by_role: BTreeMap<EndRole, LastReply>,
}

impl Answers {
    /// The counts of the end of a role.
    fn report(&self, role: EndRole) -> Option<&EndReport> {
        self.by_role.get(&role)?.report.as_ref()
    }

    /// Whether a server of bytegauge saw no call at all.
    fn served_no_call(&self) -> bool {
        let server = self.report(EndRole::Server).and_then(|server| server.call.as_ref());
        server.is_some_and(|server| server.begun == 0)
    }

    /// The main trouble: first an end that died, then an end that lacks a feature, since the others then only
    /// see their peer close, then a relay, then the end that reads or that measures calls, then the others.
    fn trouble(&self) -> Option<Outcome> {
        let mut answers: Vec<(&EndRole, &LastReply)> = self.by_role.iter().collect();
        let explains = |role: &EndRole| {
            matches!(role, EndRole::Client | EndRole::Sink | EndRole::Ring | EndRole::Relay | EndRole::Command)
        };
        // The relay's own error, or why its program ended: its neighbours only see that their connections break.
        answers.sort_by_key(|(role, answer)| {
            (
                !answer.gone,
                !matches!(answer.trouble, Some(Outcome::Skipped(_))),
                **role != EndRole::Relay,
                !explains(role),
                role.side() == Side::Source,
            )
        });
        answers.iter().find_map(|(_, answer)| answer.trouble.clone())
    }
}

/// A requested mode that did not run fails the trial.
fn not_in_mode(engine: Engine, reason: &str) -> Outcome {
    Outcome::Failed(format!("engine {engine} did not run in its mode: {reason}"))
}

#[cfg(test)]
mod tests;
