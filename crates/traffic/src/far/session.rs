//! One session at an agent: a line to its caller, and one end at a time, a process that takes commands.
//!
//! Every state has a deadline: the trial that runs, or a minute between trials, and never more than the session's time. A caller that hangs up has left, or died; a line that breaks otherwise may be taken up again
//! for a moment, while the trial goes on and what it gives is kept. However a session ends, the end is ended and the place
//! is free.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::{Bytes, EndReport, EndRole};
use bytegauge_sys::process::cpu_time_ns;
use bytegauge_wire::{LineError, Receiver, Sender};

use crate::astray;
use crate::end::Channel;
use crate::far::agent::{AgentState, CallerPlace};
use crate::far::counted::Counted;
use crate::far::limits::{Between, length_ns, nanos};
use crate::far::log::Class;
use crate::far::pending::Caller;
use crate::far::post::OutgoingPost;
use crate::far::slots::Slot;
use crate::far::standing::{AgentStand, HostOutbox, Line};
use crate::far::watch::watch;
use crate::far::words::{Ask, COMMAND_MAX, COMMANDS_MAX, Said, ToAgent, ToHome, Welcome, program};
use crate::message::{Command, Reply};
use crate::ticket::Ticket;

/// How long nothing may be said between trials: a report is written, or other cells are measured.
const IDLE: Duration = Duration::from_secs(60);

/// Gives a caller what it asks for, and logs what became of it.
pub(super) fn serve(place: &CallerPlace, caller: Caller) {
    let (log, peer) = (&place.state.log, caller.peer);
    match meet(place, caller) {
        Ok(did) => log.enter(Class::Session, peer, &did),
        Err(reason) => log.enter(Class::Refused, peer, &format!("was turned away: {reason}")),
    }
}

/// What a caller did, or why it got nothing.
fn meet(place: &CallerPlace, caller: Caller) -> Result<String, String> {
    let Caller { stream, peer, proven, until } = caller;
    let state = &place.state;
    watch(&stream).map_err(|fault| fault.to_string())?;
    let here = stream.local_addr().map_err(|error| error.to_string())?;
    let (mut sender, mut receiver) = proven.line(stream).map_err(|error| error.to_string())?;
    let first = receiver.receive(COMMAND_MAX, Some(until)).map_err(|error| error.to_string())?;
    let Said(_, heard, ToAgent::Ask(ask)) = first else {
        return Err("it did not say what it wants".into());
    };
    if let Some(ticket) = ask.session {
        let line = Box::new(Line { sender, receiver, heard });
        let Err(mut line) = state.standing.take_up(ticket, peer.ip(), line) else {
            return Ok("goes on with its session, whose line broke".into());
        };
        return Err(refuse(&mut line.sender, "the session whose line broke is over here".into()));
    }
    let ticket = Ticket::fresh().map_err(|fault| fault.to_string())?;
    let slot = match slot(place, peer, &ask) {
        Ok(slot) => slot,
        Err(reason) => return Err(refuse(&mut sender, reason)),
    };
    let begins = format!("measures (bytegauge {}, for up to {})", program(&ask.program), nanos(lasting(state, &ask)));
    state.log.enter(Class::Session, peer, &begins);
    sender.send(&Said(0, 0, welcome(state, ticket))).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let until = began + state.setup.limits.duration;
    let outbox: HostOutbox = Arc::new(Mutex::new(OutgoingPost::new(sender).until(until)));
    let mut session = Session {
        state,
        between: Between { here: here.ip().to_canonical(), peer: peer.ip().to_canonical(), port: state.data_port },
        ticket,
        stand: state.standing.enter(ticket, peer.ip(), &outbox),
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
    let Session { outbox, stand, .. } = session;
    drop(stand);
    // A caller that sees the end of the line finds the place free.
    drop(slot);
    if let Some(line) = lock(&outbox).line() {
        line.part();
    }
    Ok(did)
}

/// Tells a caller why it gets no session, and returns the reason.
fn refuse(sender: &mut Sender, reason: String) -> String {
    let _ = sender.send(&Said(0, 0, ToHome::Refused(reason.clone())));
    sender.part();
    reason
}

/// What a session, or another line of it, begins with.
fn welcome(state: &AgentState, session: Ticket) -> ToHome {
    let machine = (state.setup.machine)();
    let missing_relays = state.missing_relays.clone();
    ToHome::Welcome(Box::new(Welcome { program: env!("CARGO_PKG_VERSION").into(), machine, missing_relays, session }))
}

/// A place for a session, if it may have one.
fn slot(CallerPlace { state, number }: &CallerPlace, peer: SocketAddr, ask: &Ask) -> Result<Slot, String> {
    let wanted = Duration::from_nanos(ask.duration_ns);
    if wanted > state.setup.limits.duration {
        return Err(format!(
            "the agent allows sessions of {} and this one is to take {}: use a smaller --time, or start the agent with a \
             longer --max-duration",
            nanos(state.setup.limits.duration),
            nanos(wanted)
        ));
    }
    state.slots.take(*number, peer.ip(), lasting(state, ask))
}

/// How long a session lasts at most, for others who ask.
fn lasting(state: &AgentState, ask: &Ask) -> Duration {
    match ask.duration_ns {
        0 => state.setup.limits.duration,
        ns => Duration::from_nanos(ns).min(state.setup.limits.duration),
    }
}

struct Session<'a> {
    state: &'a Arc<AgentState>,
    between: Between,
    ticket: Ticket,
    stand: AgentStand<'a>,
    outbox: HostOutbox,
    counted: Arc<Counted>,
    until: Instant,
    end: Option<End>,
}

/// The end that runs.
struct End {
    number: u64,
    // Dropped first: the process leaves, or is killed, and its words end.
    channel: Option<Channel>,
    passing: Option<JoinHandle<()>>,
    /// How long its trial may take.
    trial: Duration,
    /// Commands since it was opened last.
    commands: usize,
    counted: Arc<Counted>,
}

impl Session<'_> {
    /// Executes commands until the session ends. Returns why it ended.
    fn serve(&mut self, mut receiver: Receiver) -> String {
        loop {
            let trial = self.end.as_ref().map_or(Duration::ZERO, |end| end.trial);
            let deadline = self.until.min(Instant::now() + IDLE + trial);
            let told = match receiver.receive(COMMAND_MAX, Some(deadline)) {
                Ok(Said(number, heard, told)) => match lock(&self.outbox).hear(number, heard) {
                    Ok(true) => told,
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
                            format!("nothing was heard for {}: the agent has given the session up", nanos(IDLE + trial))
                        }
                    };
                    let _ = self.say(ToHome::Refused(reason.clone()));
                    return reason;
                }
                // A kernel says goodbye for a process that died, too. What we broke off ourselves looks the same.
                Err(LineError::Broken(error))
                    if error.kind() == ErrorKind::UnexpectedEof && lock(&self.outbox).stands() =>
                {
                    return "it hung up".into();
                }
                Err(LineError::Broken(error)) => match self.other_line() {
                    Some(other) => {
                        receiver = other;
                        continue;
                    }
                    None => return format!("its line broke ({error}), and it did not come back"),
                },
                Err(error) => return error.to_string(),
            };
            let done = match told {
                ToAgent::Ask(_) => return "it asked twice".into(),
                ToAgent::Start(number) => self.start(number),
                ToAgent::Tell(number, command) => self.tell(number, *command),
                ToAgent::End(number) => {
                    self.end = self.end.take().filter(|end| end.number != number);
                    Ok(())
                }
                ToAgent::Used => self.say(ToHome::Used(self.used_ns())),
            };
            if let Err(error) = done {
                return error.to_string();
            }
        }
    }

    /// Waits until the caller is back with another line, for a moment: what was said meanwhile is said on it.
    fn other_line(&mut self) -> Option<Receiver> {
        let kept_until = {
            let mut outbox = lock(&self.outbox);
            outbox.break_off();
            outbox.kept_until()
        };
        let until = self.until.min(kept_until);
        loop {
            let mut line = self.stand.lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok()?;
            // Of several the last one is alive.
            line = self.stand.lines.try_iter().last().unwrap_or(line);
            let mut outbox = lock(&self.outbox);
            let welcome = welcome(self.state, self.ticket);
            if line.sender.send(&Said(0, outbox.heard(), welcome)).is_ok() {
                outbox.take_up(line.sender, line.heard);
                return Some(line.receiver);
            }
        }
    }

    fn say(&self, word: ToHome) -> Result<(), LineError> {
        lock(&self.outbox).say(word, |max| ToHome::Refused(format!("a word of more than {max} bytes")))
    }

    /// CPU time of the session's ends, the one that runs among them, nanoseconds.
    fn used_ns(&self) -> u64 {
        self.counted.cpu_ns.load(Ordering::Relaxed) + self.end.as_ref().map_or(0, End::cpu_ns)
    }

    fn start(&mut self, number: u64) -> Result<(), LineError> {
        self.end = None;
        // Its role comes with the command that opens it.
        let (channel, replies, passed_on) = match Channel::heard_elsewhere(EndRole::Sink, &self.state.setup.program) {
            Ok(started) => started,
            Err(error) => return self.say(ToHome::Gone(number, error.to_string())),
        };
        if let Some(over) = passed_on {
            let state = Arc::clone(self.state);
            // Without this thread callers are not served while a trial's end has the port; they call again.
            let _ = std::thread::Builder::new().name(format!("handoff-{number}")).spawn(move || {
                while let Some((stream, said)) = astray::next(&over) {
                    if let Ok(peer) = stream.peer_addr() {
                        state.hear(stream, peer, &said);
                    }
                }
            });
        }
        let counted = Arc::clone(&self.counted);
        let state = Arc::clone(self.state);
        let passing = Passing { number, state, outbox: Arc::clone(&self.outbox), counted: Arc::clone(&counted) };
        let passing = std::thread::Builder::new().name(format!("end-{number}")).spawn(move || passing.pass(&replies));
        match passing {
            Ok(passing) => {
                let (channel, passing) = (Some(channel), Some(passing));
                self.end = Some(End { number, channel, passing, trial: Duration::ZERO, commands: 0, counted });
                Ok(())
            }
            Err(error) => self.say(ToHome::Gone(number, format!("no thread can be made there ({error})"))),
        }
    }

    fn tell(&mut self, number: u64, command: Command) -> Result<(), LineError> {
        // An older end's last words come after it was given up.
        let Some(end) = self.end.as_mut().filter(|end| end.number == number) else { return Ok(()) };
        match command {
            // What it may still move was allowed once; allowed again before it has reported, it would be moved twice.
            Command::Open(..) if self.counted.is_open() => {
                return Err(LineError::Garbled("an end is opened before it has reported"));
            }
            Command::Open(..) => end.commands = 0,
            // Fewer than its input holds, so that writing them never blocks.
            _ if end.commands >= COMMANDS_MAX => return Err(LineError::Garbled("too many commands for a trial")),
            _ => end.commands += 1,
        }
        let trial = match &command {
            Command::Open(_, setup, _) => Some(Duration::from_nanos(length_ns(setup))),
            _ => None,
        };
        match self.state.setup.limits.admitted(command, self.between, self.counted.spent()) {
            Err(reason) => self.say(ToHome::Heard(number, Box::new(Reply::Skipped(reason)))),
            Ok(command) => {
                match &command {
                    // A server and a relay serve before anybody says `Go`.
                    Command::Open(role, setup, _) => {
                        setup.bound.iter().for_each(|bound| {
                            self.counted.opens(*bound, matches!(role, EndRole::Server | EndRole::Relay));
                        });
                    }
                    Command::Go => self.counted.goes(),
                    Command::Stop | Command::Quit => {}
                }
                if let Some(end) = &mut self.end {
                    end.trial = trial.unwrap_or(end.trial);
                    self.counted.trials.fetch_add(u64::from(trial.is_some()), Ordering::Relaxed);
                    // An end that is gone has its last words passed on.
                    let _ = end.channel.as_mut().map(|channel| channel.send(command));
                }
                Ok(())
            }
        }
    }
}

impl End {
    fn cpu_ns(&self) -> u64 {
        let process = self.channel.as_ref().and_then(Channel::process_id);
        process.and_then(|id| cpu_time_ns(id).ok()).unwrap_or(0)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // What it uses to leave is not seen.
        self.counted.cpu_ns.fetch_add(self.cpu_ns(), Ordering::Relaxed);
        self.channel.take();
        if let Some(passing) = self.passing.take() {
            let _ = passing.join();
        }
    }
}

/// Passes an end's words on.
struct Passing {
    number: u64,
    state: Arc<AgentState>,
    outbox: HostOutbox,
    counted: Arc<Counted>,
}

impl Passing {
    fn pass(self, replies: &mpsc::Receiver<Reply>) {
        let too_long = |max| too_long(self.number, max);
        for reply in replies {
            let heard = ToHome::Heard(self.number, Box::new(self.counted(reply)));
            if lock(&self.outbox).say(heard, too_long).is_err() {
                break;
            }
        }
        self.counted.settles(None);
        let gone = ToHome::Gone(self.number, "its process ended there".into());
        // A caller that is gone does not need it.
        let _ = lock(&self.outbox).say(gone, too_long);
    }

    /// What is passed on of a reply that was counted: of an end that moved as much as it may, why that is enough.
    fn counted(&self, reply: Reply) -> Reply {
        match &reply {
            Reply::Done(report) | Reply::Failed(_, report) => {
                let calls = report.call.as_ref().map_or(0, |_| report.bytes);
                self.counted.settles(Some(report.total_bytes.max(calls)));
            }
            Reply::Skipped(_) => self.counted.settles(None),
            Reply::Hello(_) | Reply::Listening(_) | Reply::Ready | Reply::Closed => {}
        }
        let (limits, spent) = (&self.state.setup.limits, self.counted.spent());
        match reply {
            Reply::Failed(..) if spent.bytes >= limits.bytes => Reply::Skipped(limits.used_up(spent)),
            reply => reply,
        }
    }
}

/// What is said instead of a report that is too long.
fn too_long(number: u64, max: usize) -> ToHome {
    let reason = format!(
        "the far end's report is longer than {}: use a shorter --trial-time or fewer --flows",
        Bytes(max as u64)
    );
    ToHome::Heard(number, Box::new(Reply::Failed(reason, Box::<EndReport>::default())))
}

fn lock(outbox: &HostOutbox) -> MutexGuard<'_, OutgoingPost<ToHome>> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}
