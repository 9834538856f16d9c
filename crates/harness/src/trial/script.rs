//! The script of a trial: which ends take part, in which order they are opened and started, and how their counts are
//! collected. It is the same for every workload; only the ends and the end that measures differ.
//!
//! Also the last replies of the ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_model::{EndReport, EndRole, Engine, FactorKey, FlowReport, Outcome, RelayChoice, Side, Workload};
use bytegauge_traffic::address::Host;
use bytegauge_traffic::end::{ChannelError, LATE};
use bytegauge_traffic::{Address, Channel, Command, EndPool, Reply, Setup};

use crate::trial::checks;

/// How long preparing may take beyond the joints' own time-outs: thousands of threads and their memory.
const PREPARE: Duration = Duration::from_secs(30);

/// How long a trial waits for the end that measures.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitTimes {
    /// The length of the measurement: a short one is always waited for.
    pub window_ns: u64,
    /// When the end should have replied.
    pub due: Duration,
    /// When it counts as stuck.
    pub patience: Duration,
}

/// A trial longer than this can be interrupted in the middle, nanoseconds.
pub(super) const LONG_NS: u64 = 1_000_000_000;

/// How often a long trial is checked.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// The ends of a trial.
pub(super) struct Script {
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
    pub(super) measures: EndRole,
    /// Whether bytes go both ways at once, so that both ends measure.
    both: bool,
    /// How long a task may take beyond its schedule, nanoseconds.
    pub(super) longer_ns: u64,
}

impl Script {
    pub(super) fn of(setup: &Setup) -> Script {
        let script = match setup.workload() {
            Workload::Stream => stream_ends(setup),
            Workload::Call => call_ends(setup),
            Workload::Ring => Script::alone(EndRole::Ring),
            Workload::Tune => Script { longer_ns: setup.programs_ns(), ..Script::alone(EndRole::Command) },
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
    pub(super) fn roles(&self) -> impl Iterator<Item = EndRole> {
        let others = self.others.iter().map(|(role, _)| *role);
        self.first.into_iter().chain(self.relay()).chain(others)
    }

    /// The relay, if there is one.
    fn relay(&self) -> Option<EndRole> {
        self.relayed.then_some(EndRole::Relay)
    }

    /// Prepares all ends up to the moment before the first byte.
    pub(super) fn open(&self, setup: &Setup, pool: &mut EndPool, patience: Duration) -> Result<(), Outcome> {
        let mut address = self.elsewhere.clone();
        let mut prepares = None;
        let listening = self.first.into_iter().chain(self.relay()).map(|role| (role, setup, false));
        let connecting = self.others.iter().map(|(role, setup)| (*role, setup, true));
        for (role, setup, connects) in listening.chain(connecting) {
            let end = pool.end(role)?;
            let mut setup = setup.clone();
            // The configuration of a running relay determines where the end behind it listens.
            setup.host = match setup.relay().and_then(RelayChoice::running) {
                Some(relay) if role.is_connected_to() => Host::listening_at(relay.upstream),
                _ => end.host,
            };
            let sent = end.send(Command::Open(role, Box::new(setup), address.clone()));
            let opened = match sent.and_then(|()| end.reply_due(LATE, PREPARE)) {
                Ok(Reply::Ready) => Ok(()),
                Ok(Reply::Listening(listens)) => {
                    address = Some(listens);
                    if role == EndRole::Sink {
                        // It takes its connections first.
                        prepares = Some(role);
                        Ok(())
                    } else {
                        // A server and a relay serve from now on.
                        ready(end)
                    }
                }
                Ok(other) => Err(stopped(other)),
                Err(error) => Err(error.into()),
            };
            opened.map_err(|outcome| if connects { self.explained(pool, patience, outcome) } else { outcome })?;
        }
        let prepared = prepares.map_or(Ok(()), |role| ready(pool.end(role)?));
        prepared.map_err(|outcome| checks::forwards_elsewhere(setup, self.explained(pool, patience, outcome)))
    }

    /// Adds the reason why no connection can be made, or none arrives, if the relay or the server has it.
    fn explained(&self, pool: &mut EndPool, patience: Duration, outcome: Outcome) -> Outcome {
        let server = self.first.filter(|role| *role == EndRole::Server);
        let mut answers =
            self.relay().into_iter().chain(server).map(|role| LastReply::of(stop_end(pool, role, patience)));
        answers.find_map(|answer| answer.trouble).unwrap_or(outcome)
    }

    /// Waits for the counts of the ends: those that do not measure get the command to stop. `None` if `stop` was set.
    pub(super) fn collect(&self, pool: &mut EndPool, times: WaitTimes, stop: &AtomicBool) -> Option<Answers> {
        let patience = times.patience;
        let first = match pool.end(self.measures) {
            Ok(end) => reply_or_stop(end, times, stop)?,
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
        let last = if closed { pool.end(self.measures).and_then(|end| end.reply_due(LATE, patience)) } else { first };
        answers.insert(self.measures, LastReply::of(last));
        Some(Answers { by_role: answers })
    }

    /// The same for a relay that is a program: it ends at once, whatever it still holds. By now no end waits for it.
    pub(super) fn collect_late(&self, pool: &mut EndPool, patience: Duration, answers: &mut Answers) {
        let relay = self.relay().filter(|_| self.relay_is_program);
        answers.by_role.extend(relay.map(|role| (role, LastReply::of(stop_end(pool, role, patience)))));
    }

    /// The same if both ends measure: none gets the command to stop before all have measured, since each reads what the other writes.
    fn collect_both(&self, pool: &mut EndPool, patience: Duration, first: Result<Reply, ChannelError>) -> Answers {
        let others = self.others.iter().map(|(role, _)| *role);
        let mut replies = vec![(self.measures, first)];
        for role in others {
            replies.push((role, pool.end(role).and_then(|end| end.reply_due(LATE, patience))));
        }
        for (role, _) in &replies {
            // An end that has died needs no command.
            let _ = pool.end(*role).and_then(|end| end.send(Command::Stop));
        }
        let last = replies.into_iter().map(|(role, reply)| {
            let reply = match reply {
                Ok(Reply::Closed) => pool.end(role).and_then(|end| end.reply_due(LATE, patience)),
                other => other,
            };
            (role, LastReply::of(reply))
        });
        let mut answers = Answers { by_role: last.collect() };
        crossed(&mut answers);
        answers
    }
}

/// A writer and a reader, or a single one of them.
fn stream_ends(setup: &Setup) -> Script {
    let source = || vec![(EndRole::Source, setup.clone())];
    match setup.external() {
        None if setup.has_two_ends() => {
            Script { others: source(), both: setup.goes_both_ways(), ..Script::alone(EndRole::Sink) }
        }
        None => Script::alone(EndRole::Sink),
        there => {
            let role = if setup.iperf3_writes() { EndRole::Sink } else { EndRole::Source };
            let others = vec![(role, setup.clone())];
            Script { first: None, elsewhere: there, others, ..Script::alone(role) }
        }
    }
}

/// Clients and their server, and competing clients, if there are any.
fn call_ends(setup: &Setup) -> Script {
    let both = setup.has_two_ends();
    let competitors = competitors(setup).map(|competitors| (EndRole::Competitor, competitors));
    Script {
        first: both.then_some(EndRole::Server),
        // Clients without a server of bytegauge are alone.
        elsewhere: setup.external().or((!both).then_some(Address::Alone)),
        others: competitors.into_iter().chain([(EndRole::Client, setup.clone())]).collect(),
        longer_ns: setup.timeout_ns(),
        ..Script::alone(EndRole::Client)
    }
}

/// The setup of the competing clients: the same as of the measured ones, except their number, and without an end.
fn competitors(setup: &Setup) -> Option<Setup> {
    if setup.competing_flows() == 0 || setup.client_engine() == Engine::Null {
        return None;
    }
    // Another seed: their random arrivals are not to come at the same moments.
    let mut competitors = Setup { seed: !setup.seed, series: false, until_stopped: true, ..setup.clone() };
    competitors.spec.set_level(FactorKey::flows, setup.spec.level(FactorKey::competing_flows));
    competitors.spec.clear(FactorKey::competing_flows);
    competitors.spec.clear(FactorKey::idle_flows);
    Some(competitors)
}

fn stop_end(pool: &mut EndPool, role: EndRole, patience: Duration) -> Result<Reply, ChannelError> {
    let end = pool.end(role)?;
    end.send(Command::Stop)?;
    end.reply_due(LATE, patience)
}

fn ready(end: &mut Channel) -> Result<(), Outcome> {
    match end.reply_due(LATE, PREPARE)? {
        Reply::Ready => Ok(()),
        other => Err(stopped(other)),
    }
}

/// Waits for the end that measures. A short trial is always waited for; a long one is checked periodically, so that
/// an interrupt does not take minutes. `None` if the user wants to stop.
fn reply_or_stop(end: &mut Channel, times: WaitTimes, stop: &AtomicBool) -> Option<Result<Reply, ChannelError>> {
    let WaitTimes { window_ns, due, patience } = times;
    if window_ns < LONG_NS {
        return Some(end.reply_due(due, patience));
    }
    let (began, mut is_late) = (Instant::now(), false);
    loop {
        let reply = end.reply(LOOK_AFTER.min(patience.saturating_sub(began.elapsed())));
        match reply {
            Err(ChannelError::Silent(_)) if stop.load(Ordering::Relaxed) => return None,
            Err(ChannelError::Silent(_)) if !is_late && began.elapsed() >= due => {
                is_late = true;
                if let Some(gone) = end.unanswered() {
                    return Some(Err(gone));
                }
            }
            Err(ChannelError::Silent(_)) if began.elapsed() < patience => {}
            reply => return Some(reply),
        }
    }
}

// The last replies of the ends of a trial: their counts, or why they have none.

/// The last reply of one end.
pub(super) struct LastReply {
    pub(super) report: Option<EndReport>,
    pub(super) trouble: Option<Outcome>,
    /// The end is alive and waits for the next trial.
    pub(super) sound: bool,
    /// The end itself has died, which explains all other replies.
    pub(super) gone: bool,
}

impl LastReply {
    pub(super) fn of(reply: Result<Reply, ChannelError>) -> LastReply {
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
pub(super) struct Answers {
    pub(super) by_role: BTreeMap<EndRole, LastReply>,
}

impl Answers {
    /// The counts of the end of a role.
    pub(super) fn report(&self, role: EndRole) -> Option<&EndReport> {
        self.by_role.get(&role)?.report.as_ref()
    }

    /// Whether a server of bytegauge saw no call at all.
    pub(super) fn served_no_call(&self) -> bool {
        let server = self.report(EndRole::Server).and_then(|server| server.call.as_ref());
        server.is_some_and(|server| server.begun == 0)
    }

    /// The main trouble: first an end that died, then an end that lacks a feature, since the others then only
    /// see their peer close, then a relay, then the end that reads or that measures calls, then the others.
    pub(super) fn trouble(&self) -> Option<Outcome> {
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

/// Why a trial stops after a reply.
pub(super) fn stopped(reply: Reply) -> Outcome {
    match reply {
        Reply::Skipped(reason) => Outcome::Skipped(reason),
        Reply::Failed(reason, _) => Outcome::Failed(reason),
        // Only its name: a report is long, and may come from another host.
        other => Outcome::Failed(format!("an end replied `{}` at the wrong time", other.name())),
    }
}

/// Merges both directions of a stream: bytes written at either end are counted with the source from here on, and bytes read
/// with the sink, so that every count has its usual meaning. The flows of the reverse direction are behind the others.
pub(super) fn crossed(answers: &mut Answers) {
    let report = |role| answers.report(role).cloned();
    let (Some(source), Some(sink)) = (report(EndRole::Source), report(EndRole::Sink)) else { return };
    let ([of_source, of_sink], flows) = ([source.engine, sink.engine], [source.flows, sink.flows]);
    let [(wrote, read_back), (read, wrote_back)] =
        flows.map(|flows| flows.into_iter().partition::<Vec<FlowReport>, _>(|flow| !flow.back));
    let of = |flows: Vec<FlowReport>, more, engine| {
        let mut report = EndReport { engine, ..EndReport::of_flows([flows, more].concat()) };
        report.queued_ns = queued_ns(&report.flows).into();
        report
    };
    let crossed = [(EndRole::Source, of(wrote, wrote_back, of_source)), (EndRole::Sink, of(read, read_back, of_sink))];
    for (role, report) in crossed {
        if let Some(answer) = answers.by_role.get_mut(&role) {
            answer.report = Some(report);
        }
    }
}

/// How long the threads of these flows waited for a CPU. Each thread reports it with its first flow; absent if one is missing.
fn queued_ns(flows: &[FlowReport]) -> Option<u64> {
    flows.iter().filter(|flow| flow.window_ns > 0).map(|flow| flow.queued_ns.get()).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytegauge_model::EndCounts;

    use super::*;

    #[test]
    fn directions_are_merged_by_writer_and_reader() {
        // A thread reports with its first flow.
        let of = |back, counts| FlowReport { back, counts, ..FlowReport::default() };
        let flow = |back, bytes, queued_ns: Option<u64>| {
            of(back, EndCounts { bytes, window_ns: 10, queued_ns: queued_ns.into(), ..EndCounts::default() })
        };
        let other = |back| of(back, EndCounts { bytes: 1, ..EndCounts::default() });
        let of_both = |sinks_wait: Option<u64>| {
            let source = [flow(false, 100, Some(1)), other(false), flow(true, 200, Some(20))];
            let sink = [flow(false, 300, sinks_wait), other(false), flow(true, 400, Some(4000))];
            let answer = |flows: &[FlowReport]| {
                let report = Some(EndReport::of_flows(flows.to_vec()));
                LastReply { report, trouble: None, sound: true, gone: false }
            };
            let by_role = BTreeMap::from([(EndRole::Source, answer(&source)), (EndRole::Sink, answer(&sink))]);
            let mut answers = Answers { by_role };
            crossed(&mut answers);
            [EndRole::Source, EndRole::Sink].map(|role| {
                let report = answers.report(role).unwrap();
                (report.bytes, report.queued_ns.get())
            })
        };
        assert_eq!(of_both(Some(300)), [(501, Some(4001)), (501, Some(320))]);
        // The waiting time of one thread is unknown.
        assert_eq!(of_both(None), [(501, Some(4001)), (501, None)]);
    }

    #[test]
    fn untimely_report_is_no_reason() {
        let report = EndReport { flows: vec![FlowReport::default(); 100], ..EndReport::default() };
        let reason = stopped(Reply::Done(Box::new(report)));
        assert_eq!(reason, Outcome::Failed("an end replied `done` at the wrong time".into()));
    }

    #[test]
    fn a_relay_explains_errors_of_its_neighbours() {
        let failed = |reason: &str| LastReply {
            report: None,
            trouble: Some(Outcome::Failed(reason.into())),
            sound: true,
            gone: false,
        };
        let check = |answers: Vec<(EndRole, LastReply)>, expected: &str| {
            let answers = Answers { by_role: answers.into_iter().collect() };
            assert_eq!(answers.trouble(), Some(Outcome::Failed(expected.into())));
        };
        let reset = || (EndRole::Sink, failed("connection reset"));
        check(
            vec![reset(), (EndRole::Relay, failed("more than 16 MiB")), (EndRole::Source, failed("broken pipe"))],
            "more than 16 MiB",
        );
        check(vec![reset(), (EndRole::Source, failed("broken pipe"))], "connection reset");
        let gone = LastReply { gone: true, ..failed("the source died") };
        check(vec![reset(), (EndRole::Relay, failed("more than 16 MiB")), (EndRole::Source, gone)], "the source died");
    }
}
