//! One session at an agent: a line to its caller, and one end at a time, a process that takes commands.
//!
//! Every state has a deadline: that of the trial, or a minute between trials, and never more than the session's time. If the
//! caller closes the line, it has left or died. A line that breaks otherwise may be re-established for a moment, while the
//! trial continues and its replies are kept. However a session ends, its end is ended and its place is freed.

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
use bytegauge_traffic::path::Ticket;
use bytegauge_traffic::{RemoteFacts, agent_callers, lock};
use bytegauge_wire::{LineError, Receiver, Sender};

use crate::agent::AgentState;
use crate::limits::{Between, Limits, nanos};
use crate::log::Class;
use crate::outbox::{OutgoingPost, watch};
use crate::protocol::{Ask, COMMAND_MAX, NumberedMessage, ToAgent, ToHome, Welcome, program};
use crate::session_counts::{AgentCounts, EndCommands, counted};
use crate::session_slots::{AgentSlot, ControlLine, HostOutbox, RegisteredSession};
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
    let NumberedMessage(_, heard, ToAgent::Ask(ask)) = first else {
        return Err("it did not ask for a session".into());
    };
    if let Some(ticket) = ask.session {
        let line = Box::new(ControlLine { sender, receiver, heard });
        let Err(mut line) = state.registry.take_up(ticket, peer.ip(), line) else {
            return Ok("continues its session over a new line".into());
        };
        return Err(refuse(&mut line.sender, "the session to continue has ended here".into()));
    }
    let ticket = Ticket::fresh().map_err(|fault| fault.to_string())?;
    let slot = match slot(state, number, peer, &ask) {
        Ok(slot) => slot,
        Err(reason) => return Err(refuse(&mut sender, reason)),
    };
    let begins = format!("measures (bytegauge {}, for up to {})", program(&ask.program), nanos(lasting(state, &ask)));
    state.log.enter(Class::Session, peer, &begins);
    sender.send(&NumberedMessage(0, 0, welcome(state, ticket))).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let until = began + state.setup.limits.duration;
    let outbox: HostOutbox = Arc::new(Mutex::new(OutgoingPost::new(sender).until(until)));
    let mut session = AgentSession {
        state,
        between: Between { here: here.ip().to_canonical(), peer: peer.ip().to_canonical(), port: state.data_port },
        ticket,
        registered: state.registry.enter(ticket, peer.ip(), &outbox),
        outbox,
        counted: Arc::default(),
        until,
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
    let AgentSession { outbox, registered, .. } = session;
    drop(registered);
    // When the caller sees the line end, the place is free.
    drop(slot);
    if let Some(line) = lock(&outbox).line() {
        line.part();
    }
    Ok(did)
}

/// Refuses a caller with a reason, and returns the reason.
fn refuse(sender: &mut Sender, reason: String) -> String {
    let _ = sender.send(&NumberedMessage(0, 0, ToHome::Refused(reason.clone())));
    sender.part();
    reason
}

/// The first message of a session, or of another line of it.
fn welcome(state: &AgentState, session: Ticket) -> ToHome {
    let facts = RemoteFacts {
        program: env!("CARGO_PKG_VERSION").into(),
        machine: (state.setup.machine)(),
        missing_relays: state.missing_relays.clone(),
    };
    ToHome::Welcome(Box::new(Welcome { facts, session }))
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
    ticket: Ticket,
    registered: RegisteredSession<'a>,
    outbox: HostOutbox,
    counted: Arc<AgentCounts>,
    until: Instant,
    end: Option<RunningEnd>,
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
            let deadline = self.until.min(Instant::now() + IDLE + trial);
            let message = match receiver.receive(COMMAND_MAX, Some(deadline)) {
                Ok(NumberedMessage(number, heard, message)) => match lock(&self.outbox).hear(number, heard) {
                    Ok(true) => message,
                    Ok(false) => continue,
                    Err(error) => return error.to_string(),
                },
                Err(LineError::Late) => {
                    let reason = match Instant::now() >= self.until {
                        true => format!(
                            "the session's time is up: the agent allows {} (--max-duration)",
                            nanos(self.state.setup.limits.duration)
                        ),
                        false => {
                            format!("no message arrived for {}: the agent has ended the session", nanos(IDLE + trial))
                        }
                    };
                    let _ = self.send(ToHome::Refused(reason.clone()));
                    return reason;
                }
                // The kernel also closes the line properly if the process died. A line that we broke off looks the same.
                Err(LineError::Broken(error))
                    if error.kind() == ErrorKind::UnexpectedEof && lock(&self.outbox).is_up() =>
                {
                    return "the caller closed the connection".into();
                }
                Err(LineError::Broken(error)) => match self.other_line() {
                    Some(other) => {
                        receiver = other;
                        continue;
                    }
                    None => return format!("the connection broke ({error}) and was not re-established"),
                },
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
                ToAgent::Used => self.send(ToHome::Used(self.used_ns())),
            };
            if let Err(error) = done {
                return error.to_string();
            }
        }
    }

    /// Waits a moment for the caller's new line; messages kept meanwhile are sent on it.
    fn other_line(&mut self) -> Option<Receiver> {
        let kept_until = {
            let mut outbox = lock(&self.outbox);
            outbox.break_off();
            outbox.kept_until()
        };
        let until = self.until.min(kept_until);
        loop {
            let mut line = self.registered.lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
            // If there are several lines, the newest is alive.
            line = self.registered.lines.try_iter().last().unwrap_or(line);
            let mut outbox = lock(&self.outbox);
            let welcome = welcome(self.state, self.ticket);
            if line.sender.send(&NumberedMessage(0, outbox.heard(), welcome)).is_ok() {
                outbox.take_up(line.sender, line.heard);
                return Some(line.receiver);
            }
        }
    }

    fn send(&self, word: ToHome) -> Result<(), LineError> {
        lock(&self.outbox).send(word, |max| ToHome::Refused(format!("a message of more than {max} bytes")))
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
                Err(error) => return self.send(ToHome::Gone(number, error.to_string())),
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
            Err(error) => self.send(ToHome::Gone(number, format!("no thread can be created there ({error})"))),
        }
    }

    fn tell(&mut self, number: u64, command: Command) -> Result<(), LineError> {
        // Commands for an older end may arrive after it was given up.
        let Some(end) = self.end.as_mut().filter(|end| end.number == number) else { return Ok(()) };
        let limits = &self.state.setup.limits;
        match end.commands.take(command, (limits, self.between), &self.counted)? {
            Err(reason) => self.send(ToHome::Heard(number, Box::new(Reply::Skipped(reason)))),
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

/// Passes an end's replies on.
fn pass(number: u64, replies: mpsc::Receiver<Reply>, outbox: &HostOutbox, counts: &AgentCounts, limits: &Limits) {
    let too_long = |max| too_long(number, max);
    for reply in replies {
        let heard = ToHome::Heard(number, Box::new(counted(reply, counts, limits)));
        if lock(outbox).send(heard, too_long).is_err() {
            break;
        }
    }
    counts.settles(None);
    // Not needed by a caller that is gone.
    let _ = lock(outbox).send(ToHome::Gone(number, "its process ended there".into()), too_long);
}

/// The reply instead of a report that is too long.
fn too_long(number: u64, max: usize) -> ToHome {
    let reason = format!(
        "the far end's report is longer than {}: use a shorter --trial-time or fewer --flows",
        Bytes(max as u64)
    );
    ToHome::Heard(number, Box::new(Reply::Failed(reason, Box::<EndReport>::default())))
}
