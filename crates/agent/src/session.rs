//! One session at an agent: a line to its caller, and one end at a time, a process that takes commands.
//!
//! Every state has a deadline: that of the trial, or a minute between trials, and never more than the session's time. If the
//! line ends, the caller has left or died, or the path broke. However a session ends, its end is ended and its place is freed.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::{Bytes, EndReport, EndRole};
use bytegauge_sys::process::cpu_time_ns;
use bytegauge_traffic::end::Channel;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::{RemoteFacts, agent_callers, lock};
use bytegauge_wire::{LineError, Receiver, Sender};

use crate::agent::{AgentSlot, AgentState};
use crate::limits::{Between, Limits, nanos};
use crate::log::Class;
use crate::protocol::{self, Ask, COMMAND_MAX, ToAgent, ToHome, program, watch};
use crate::session_counts::{AgentCounts, EndCommands, counted};
use crate::unproven::ProvenCaller;

/// Longest silence between trials, in which the caller writes a report or measures other cells.
const IDLE: Duration = Duration::from_secs(60);

/// Serves a caller's request, and logs the result.
pub(super) fn serve(state: &Arc<AgentState>, number: u64, caller: ProvenCaller) {
    let (log, peer) = (&state.log, caller.peer);
    match meet(state, number, caller) {
        Ok(did) => log.enter(Class::Session, peer, &did),
        Err(reason) => log.enter(Class::Refused, peer, &format!("was refused: {reason}")),
    }
}

/// The log line of a caller's session, or the reason of a refusal.
fn meet(state: &Arc<AgentState>, number: u64, caller: ProvenCaller) -> Result<String, String> {
    let (peer, until) = (caller.peer, caller.until);
    watch(&caller.stream).map_err(|fault| fault.to_string())?;
    let here = caller.near().map_err(|error| error.to_string())?;
    let (mut sender, mut receiver) = caller.line().map_err(|error| error.to_string())?;
    let first = receiver.receive(COMMAND_MAX, Some(until)).map_err(|error| error.to_string())?;
    let ToAgent::Ask(ask) = first else { return Err("it did not ask for a session".into()) };
    let slot = match slot(state, number, peer, &ask) {
        Ok(slot) => slot,
        Err(reason) => return Err(refuse(&mut sender, reason)),
    };
    let begins = format!("measures (bytegauge {}, for up to {})", program(&ask.program), nanos(lasting(state, &ask)));
    state.log.enter(Class::Session, peer, &begins);
    sender.send(&welcome(state)).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let until = began + state.setup.limits.duration;
    let mut session = AgentSession {
        state,
        between: Between { here: here.ip().to_canonical(), peer: peer.ip().to_canonical(), port: state.data_port },
        outbox: Arc::new(HostOutbox { sender: Mutex::new(sender), until }),
        counted: Arc::default(),
        end: None,
    };
    let over = session.serve(receiver);
    session.end = None;
    let did = format!(
        "left after {} and {} trials with {} here ({over})",
        nanos(began.elapsed()),
        session.counted.trials.load(Ordering::Relaxed),
        Bytes(session.counted.spent().bytes)
    );
    // When the caller sees the line end, the place is free.
    drop(slot);
    lock(&session.outbox.sender).part();
    Ok(did)
}

/// Refuses a caller with a reason, and returns the reason.
fn refuse(sender: &mut Sender, reason: String) -> String {
    let _ = sender.send(&ToHome::Refused(reason.clone()));
    sender.part();
    reason
}

/// The first message of a session.
fn welcome(state: &AgentState) -> ToHome {
    ToHome::Welcome(Box::new(RemoteFacts {
        program: env!("CARGO_PKG_VERSION").into(),
        machine: (state.setup.machine)(),
        missing_relays: state.missing_relays.clone(),
    }))
}

/// A place for a session, if one is free.
fn slot(state: &AgentState, number: u64, peer: SocketAddr, ask: &Ask) -> Result<AgentSlot, String> {
    let wanted = Duration::from_nanos(ask.duration_ns);
    if wanted > state.setup.limits.duration {
        return Err(format!(
            "the agent allows sessions of {} and this one is to take {}: use a smaller --time, or start the agent with a \
             longer --max-duration",
            nanos(state.setup.limits.duration),
            nanos(wanted)
        ));
    }
    state.slots.take(number, peer.ip(), lasting(state, ask))
}

/// The longest time of a session, shown to other callers.
fn lasting(state: &AgentState, ask: &Ask) -> Duration {
    match ask.duration_ns {
        0 => state.setup.limits.duration,
        ns => Duration::from_nanos(ns).min(state.setup.limits.duration),
    }
}

struct AgentSession<'a> {
    state: &'a Arc<AgentState>,
    between: Between,
    outbox: Arc<HostOutbox>,
    counted: Arc<AgentCounts>,
    end: Option<RunningEnd>,
}

/// An agent's messages in a session, from any thread, until the session's time is up.
struct HostOutbox {
    sender: Mutex<Sender>,
    until: Instant,
}

impl HostOutbox {
    fn send(&self, word: &ToHome) -> Result<(), LineError> {
        protocol::send(&mut lock(&self.sender), word, Some(self.until))
    }
}

/// The running end.
struct RunningEnd {
    number: u64,
    // Dropped first: the process leaves or is killed, and its replies end.
    channel: Option<Channel>,
    passing: Option<JoinHandle<()>>,
    commands: EndCommands,
    counted: Arc<AgentCounts>,
}

impl AgentSession<'_> {
    /// Executes commands until the session ends. Returns why it ended.
    fn serve(&mut self, mut receiver: Receiver) -> String {
        loop {
            let trial = self.end.as_ref().map_or(Duration::ZERO, |end| end.commands.trial());
            let deadline = self.outbox.until.min(Instant::now() + IDLE + trial);
            let message = match receiver.receive(COMMAND_MAX, Some(deadline)) {
                Ok(message) => message,
                Err(LineError::Late) => {
                    let reason = match Instant::now() >= self.outbox.until {
                        true => format!(
                            "the session's time is up: the agent allows {} (--max-duration)",
                            nanos(self.state.setup.limits.duration)
                        ),
                        false => {
                            format!("no message arrived for {}: the agent has ended the session", nanos(IDLE + trial))
                        }
                    };
                    let _ = self.outbox.send(&ToHome::Refused(reason.clone()));
                    return reason;
                }
                // The kernel also closes the line properly if the process died.
                Err(LineError::Broken(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return "the caller closed the connection".into();
                }
                Err(error) => return error.to_string(),
            };
            let done = match message {
                ToAgent::Ask(_) => return "it asked twice".into(),
                ToAgent::Start(number) => self.start(number),
                ToAgent::Tell(number, command) => self.tell(number, *command),
                ToAgent::End(number) => {
                    self.end = self.end.take().filter(|end| end.number != number);
                    Ok(())
                }
                ToAgent::Used => self.outbox.send(&ToHome::Used(self.used_ns())),
            };
            if let Err(error) = done {
                return error.to_string();
            }
        }
    }

    /// CPU time of the session's ends, including the running one, nanoseconds.
    fn used_ns(&self) -> u64 {
        self.counted.cpu_ns.load(Ordering::Relaxed) + self.end.as_ref().map_or(0, RunningEnd::cpu_ns)
    }

    fn start(&mut self, number: u64) -> Result<(), LineError> {
        self.end = None;
        // Its role comes with the command that opens it.
        let (channel, replies, passed_on) =
            match Channel::with_replies_elsewhere(EndRole::Sink, &self.state.setup.program) {
                Ok(started) => started,
                Err(error) => return self.outbox.send(&ToHome::Gone(number, error.to_string())),
            };
        if let Some(over) = passed_on {
            let state = Arc::clone(self.state);
            // Without this thread, callers are not served while an end has the port; they try again.
            let _ = std::thread::Builder::new().name(format!("handoff-{number}")).spawn(move || {
                while let Some((stream, received)) = agent_callers::next(&over) {
                    if let Ok(peer) = stream.peer_addr() {
                        state.hear(stream, peer, &received);
                    }
                }
            });
        }
        let counted = Arc::clone(&self.counted);
        let (outbox, own, state) = (Arc::clone(&self.outbox), Arc::clone(&counted), Arc::clone(self.state));
        let pass = move || pass(number, replies, &outbox, &own, &state.setup.limits);
        match std::thread::Builder::new().name(format!("end-{number}")).spawn(pass) {
            Ok(passing) => {
                let (channel, passing) = (Some(channel), Some(passing));
                self.end = Some(RunningEnd { number, channel, passing, commands: EndCommands::default(), counted });
                Ok(())
            }
            Err(error) => self.outbox.send(&ToHome::Gone(number, format!("no thread can be created there ({error})"))),
        }
    }

    fn tell(&mut self, number: u64, command: Command) -> Result<(), LineError> {
        // Commands for an older end may arrive after it was given up.
        let Some(end) = self.end.as_mut().filter(|end| end.number == number) else { return Ok(()) };
        let limits = &self.state.setup.limits;
        match end.commands.take(command, (limits, self.between), &self.counted)? {
            Err(reason) => self.outbox.send(&ToHome::Heard(number, Box::new(Reply::Skipped(reason)))),
            Ok(command) => {
                // The last replies of an end that is gone are still passed on.
                let _ = end.channel.as_mut().map(|channel| channel.send(command));
                Ok(())
            }
        }
    }
}

impl RunningEnd {
    fn cpu_ns(&self) -> u64 {
        let process = self.channel.as_ref().and_then(Channel::process_id);
        process.and_then(|id| cpu_time_ns(id).ok()).unwrap_or(0)
    }
}

impl Drop for RunningEnd {
    fn drop(&mut self) {
        // CPU time that it uses to leave is not seen.
        self.counted.cpu_ns.fetch_add(self.cpu_ns(), Ordering::Relaxed);
        self.channel.take();
        if let Some(passing) = self.passing.take() {
            let _ = passing.join();
        }
    }
}

/// Passes an end's replies on. A report that is too long is replaced by the reason.
fn pass(number: u64, replies: mpsc::Receiver<Reply>, outbox: &HostOutbox, counts: &AgentCounts, limits: &Limits) {
    for reply in replies {
        let heard = |reply| ToHome::Heard(number, Box::new(reply));
        let sent = match outbox.send(&heard(counted(reply, counts, limits))) {
            Err(LineError::TooLong { max }) => {
                let reason = format!(
                    "the far end's report is longer than {}: use a shorter --trial-time or fewer --flows",
                    Bytes(max as u64)
                );
                outbox.send(&heard(Reply::Failed(reason, Box::<EndReport>::default())))
            }
            sent => sent,
        };
        if sent.is_err() {
            break;
        }
    }
    counts.settles(None);
    // Not needed by a caller that is gone.
    let _ = outbox.send(&ToHome::Gone(number, "its process ended there".into()));
}
