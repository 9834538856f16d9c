//! One session at an agent: a line to whoever measures, and one end at a time, a process that does what it is told.
//!
//! Every state has a deadline: nobody is waited for beyond the trial that runs, or a minute between trials, and never
//! beyond the session's time. However the line ends, the end is ended and the place is free.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::{Bytes, EndReport, EndRole};
use bytegauge_wire::{LineError, Receiver, Sender, accept};

use crate::end::Channel;
use crate::far::agent::{HEARING, Office};
use crate::far::limits::{Between, length_ns, nanos};
use crate::far::slots::Slot;
use crate::far::watch::watch;
use crate::far::words::{Ask, COMMAND_MAX, ToAgent, ToHome, VERSION, Welcome};
use crate::message::{Command, Reply};

/// How long nothing may be said between trials: a report is written, or other cells are measured.
const IDLE: Duration = Duration::from_secs(60);

/// What the words of a session count.
#[derive(Default)]
struct Counted {
    trials: AtomicU64,
    bytes: AtomicU64,
}

/// Hears a caller out, and lets it measure. What it did, for the log.
pub(super) fn carry(office: &Office, number: u64, stream: TcpStream, peer: SocketAddr) -> String {
    match meet(office, number, stream, peer) {
        Ok(did) => did,
        Err(reason) => format!("was turned away: {reason}"),
    }
}

fn meet(office: &Office, number: u64, stream: TcpStream, peer: SocketAddr) -> Result<String, String> {
    let said = |error: LineError| error.to_string();
    watch(&stream).map_err(|fault| fault.to_string())?;
    // What was accepted from a listener that does not block, blocks; whoever wrote the listener may think otherwise.
    stream.set_nonblocking(false).map_err(|error| error.to_string())?;
    let here = stream.local_addr().map_err(|error| error.to_string())?;
    let deadline = Instant::now() + HEARING;
    let (mut sender, mut receiver) = accept(stream, &office.setup.key, VERSION, COMMAND_MAX, deadline).map_err(said)?;
    let ToAgent::Ask(ask) = receiver.receive(Some(deadline)).map_err(said)? else {
        return Err("it did not say what it wants".into());
    };
    let slot = match place(office, number, peer, &ask) {
        Ok(slot) => slot,
        Err(reason) => {
            let _ = sender.send(&ToHome::Refused(reason.clone()));
            sender.part();
            return Err(reason);
        }
    };
    (office.setup.log)(&format!(
        "{peer} measures (bytegauge {}, for up to {})",
        ask.program,
        nanos(lasting(office, &ask))
    ));
    let welcome = Welcome { program: env!("CARGO_PKG_VERSION").into(), machine: (office.setup.machine)() };
    sender.send(&ToHome::Welcome(Box::new(welcome))).map_err(said)?;
    let began = Instant::now();
    let mut session = Session {
        office,
        between: Between { here: here.ip(), peer: peer.ip(), port: office.setup.data_port },
        sender: Arc::new(Mutex::new(sender)),
        counted: Arc::default(),
        until: began + office.setup.limits.duration,
        end: None,
    };
    let over = session.serve(&mut receiver);
    session.end = None;
    let (trials, bytes) = (&session.counted.trials, &session.counted.bytes);
    let did = format!(
        "left after {} and {} trials with {} here ({over})",
        nanos(began.elapsed()),
        trials.load(Ordering::Relaxed),
        Bytes(bytes.load(Ordering::Relaxed))
    );
    // Whoever hears that the line is over finds the place free.
    drop(slot);
    let sender = session.sender.lock().unwrap_or_else(PoisonError::into_inner);
    sender.part();
    Ok(did)
}

/// A place for a session, if it may have one.
fn place(office: &Office, number: u64, peer: SocketAddr, ask: &Ask) -> Result<Slot, String> {
    let wanted = Duration::from_nanos(ask.duration_ns);
    if wanted > office.setup.limits.duration {
        return Err(format!(
            "the agent allows sessions of {} and this one is to take {}: use a smaller --budget, or start the agent with a \
             longer --max-duration",
            nanos(office.setup.limits.duration),
            nanos(wanted)
        ));
    }
    office.slots.take(number, peer.ip(), lasting(office, ask))
}

/// How long a session lasts at most, for others who ask.
fn lasting(office: &Office, ask: &Ask) -> Duration {
    match ask.duration_ns {
        0 => office.setup.limits.duration,
        ns => Duration::from_nanos(ns).min(office.setup.limits.duration),
    }
}

struct Session<'a> {
    office: &'a Office,
    between: Between,
    sender: Arc<Mutex<Sender>>,
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
}

impl Session<'_> {
    /// Does what it is told until the line ends. Why it ended.
    fn serve(&mut self, receiver: &mut Receiver) -> String {
        loop {
            let trial = self.end.as_ref().map_or(Duration::ZERO, |end| end.trial);
            let deadline = self.until.min(Instant::now() + IDLE + trial);
            let told = match receiver.receive(Some(deadline)) {
                Ok(told) => told,
                Err(LineError::Late) => {
                    let reason = match Instant::now() >= self.until {
                        true => format!(
                            "the session's time is up: the agent allows {} (--max-duration)",
                            nanos(self.office.setup.limits.duration)
                        ),
                        false => {
                            format!("nothing was heard for {}: the agent has given the session up", nanos(IDLE + trial))
                        }
                    };
                    let _ = self.say(&ToHome::Refused(reason.clone()));
                    return reason;
                }
                Err(LineError::Broken(error)) if error.kind() == ErrorKind::UnexpectedEof => {
                    return "it hung up".into();
                }
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
            };
            if let Err(error) = done {
                return error.to_string();
            }
        }
    }

    fn say(&self, word: &ToHome) -> Result<(), LineError> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(word)
    }

    fn start(&mut self, number: u64) -> Result<(), LineError> {
        self.end = None;
        // What it will do it is told later.
        let (channel, replies) = match Channel::heard_elsewhere(EndRole::Sink, &self.office.setup.program) {
            Ok(started) => started,
            Err(error) => return self.say(&ToHome::Gone(number, error.to_string())),
        };
        let passing = Passing { number, sender: Arc::clone(&self.sender), counted: Arc::clone(&self.counted) };
        let passing = std::thread::Builder::new().name(format!("end-{number}")).spawn(move || passing.pass(&replies));
        match passing {
            Ok(passing) => {
                self.end = Some(End { number, channel: Some(channel), passing: Some(passing), trial: Duration::ZERO });
                Ok(())
            }
            Err(error) => self.say(&ToHome::Gone(number, format!("no thread can be made there ({error})"))),
        }
    }

    fn tell(&mut self, number: u64, command: Command) -> Result<(), LineError> {
        // An older end's last words come after it was given up.
        if self.end.as_ref().is_none_or(|end| end.number != number) {
            return Ok(());
        }
        let trial = match &command {
            Command::Open(_, setup, _) => Some(Duration::from_nanos(length_ns(setup))),
            _ => None,
        };
        let spent = self.counted.bytes.load(Ordering::Relaxed);
        let admitted = match trial {
            Some(_) if spent >= self.office.setup.limits.bytes => Err(format!(
                "the agent allows {} a session and they are used up: use a smaller --budget, or start it with a larger \
                 --max-bytes",
                Bytes(self.office.setup.limits.bytes)
            )),
            _ => self.office.setup.limits.admitted(command, self.between),
        };
        match admitted {
            Err(reason) => self.say(&ToHome::Heard(number, Box::new(Reply::Skipped(reason)))),
            Ok(command) => {
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

impl Drop for End {
    fn drop(&mut self) {
        self.channel.take();
        if let Some(passing) = self.passing.take() {
            let _ = passing.join();
        }
    }
}

/// Passes an end's words on.
struct Passing {
    number: u64,
    sender: Arc<Mutex<Sender>>,
    counted: Arc<Counted>,
}

impl Passing {
    fn pass(self, replies: &mpsc::Receiver<Reply>) {
        for reply in replies {
            self.count(&reply);
            let heard = ToHome::Heard(self.number, Box::new(reply));
            let sent = self.lock().send(&heard);
            let sent = match sent {
                Err(LineError::TooLong { max }) => self.lock().send(&too_long(self.number, max)),
                other => other,
            };
            if sent.is_err() {
                // Whoever waits for commands learns it, too.
                self.lock().hang_up();
                return;
            }
        }
        let _ = self.lock().send(&ToHome::Gone(self.number, "its process ended there".into()));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sender> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, reply: &Reply) {
        if let Reply::Done(report) | Reply::Failed(_, report) = reply {
            let calls = report.call.as_ref().map_or(0, |_| report.bytes);
            self.counted.bytes.fetch_add(report.total_bytes.max(calls), Ordering::Relaxed);
        }
    }
}

/// What is said instead of a report that is too long.
fn too_long(number: u64, max: usize) -> ToHome {
    let reason =
        format!("the far end's report is longer than {}: use a shorter --duration or fewer --flows", Bytes(max as u64));
    ToHome::Heard(number, Box::new(Reply::Failed(reason, Box::<EndReport>::default())))
}
