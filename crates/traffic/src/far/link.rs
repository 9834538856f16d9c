//! The link to an agent: one session there, and ends that are started in it.
//!
//! A line that breaks is taken up again within a moment, and nothing is lost: the session goes on. A link whose session is
//! over is made anew when an end is asked for the next time: what was measured before is in the store.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc::{self, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_wire::{Key, LineError, Receiver, Sender, connect};
use serde_json::Value;
use thiserror::Error;

use crate::far::post::OutgoingPost;
use crate::far::watch::watch;
use crate::far::words::{Ask, REPLIES_MAX, REPLY_MAX, Said, ToAgent, ToHome, VERSION, WELCOME_MAX, Welcome};
use crate::message::{Command, Reply};

/// How long an agent may take to answer, to every step.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a broken line rests between two attempts to take it up again.
const REST: Duration = Duration::from_millis(50);

/// How often a line that breaks before the agent welcomes is tried once more, each time after twice the rest.
const RESETS: u32 = 6;

/// How long a session that was given up may still hold the agent's place.
const LEAVING: Duration = Duration::from_secs(2);

/// Why an agent cannot be used.
#[derive(Debug, Error)]
pub enum FarError {
    /// There is no answer.
    #[error(
        "no agent answers at {0} ({1}): start one there with `bytegauge agent --listen ADDRESS:PORT --key-file FILE`"
    )]
    Silent(SocketAddr, std::io::Error),
    /// The line could not be made.
    #[error("the agent at {0}: {1}")]
    Line(SocketAddr, LineError),
    /// It does not want to.
    #[error("the agent at {0} refuses: {1}")]
    Refused(SocketAddr, String),
    /// A session that knows of no agent.
    #[error("the far host is unknown: give --key-file (and --host again)")]
    NoLink,
}

/// Who an agent says that it is.
#[derive(Clone, Debug, PartialEq)]
pub struct FarFacts {
    /// The version of its program.
    pub program: String,
    /// Its machine, as sessions record one.
    pub machine: Value,
    /// Methods of a relay that it does not have, and why.
    pub missing_relays: BTreeMap<String, String>,
}

/// One session at an agent.
#[derive(Debug)]
pub struct Link {
    agent: SocketAddr,
    key: Key,
    ask: Ask,
    state: Mutex<LinkState>,
}

#[derive(Debug)]
struct LinkState {
    live: Option<Live>,
    ends: u64,
    /// Who the agent said that it is when it was asked last.
    facts: Option<Arc<FarFacts>>,
}

/// A session that stands.
#[derive(Debug)]
struct Live {
    shared: Arc<LinkShared>,
    near: IpAddr,
    listener: Option<JoinHandle<()>>,
}

/// What who speaks in a session and who hears share.
#[derive(Debug)]
struct LinkShared {
    agent: SocketAddr,
    key: Key,
    /// How the session goes on over another line.
    ask: Ask,
    post: Mutex<OutgoingPost<ToAgent>>,
    heard: Mutex<Heard>,
}

/// The reader of an end's replies, and why there is none any more.
#[derive(Debug, Default)]
struct Heard {
    by: Option<(u64, mpsc::SyncSender<Reply>)>,
    used: Option<mpsc::Sender<u64>>,
    lost: Option<String>,
    /// Until when this side waits for the agent, if it has left.
    leaving: Option<Instant>,
    /// Whether the session itself is over.
    over: bool,
}

impl Heard {
    /// Passes a reply of an end on, unless the end was given up.
    ///
    /// # Errors
    /// The end has sent more replies than a trial can have, all of them unread.
    fn takes(&self, end: u64, reply: Reply) -> Result<(), String> {
        let Some((_, outbox)) = self.by.as_ref().filter(|(number, _)| *number == end) else { return Ok(()) };
        match outbox.try_send(reply) {
            // Its reader has gone.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(format!("its end sent {REPLIES_MAX} unexpected replies")),
        }
    }
}

/// A line that was just made.
struct Met {
    sender: Sender,
    receiver: Receiver,
    near: IpAddr,
    /// What the agent has heard by now.
    heard: u64,
    welcome: Welcome,
}

impl Link {
    /// Begins a session of an expected length, nanoseconds; 0 if unknown.
    ///
    /// # Errors
    /// [`FarError`] with the next step: no answer, another key or version, or the agent is busy.
    pub fn open(agent: SocketAddr, key: &Key, duration_ns: u64) -> Result<Link, FarError> {
        let ask = Ask { program: env!("CARGO_PKG_VERSION").into(), duration_ns, session: None };
        let state = Mutex::new(LinkState { live: None, ends: 0, facts: None });
        let link = Link { agent, key: key.clone(), ask, state };
        link.connect(&mut link.state(), PATIENCE)?;
        Ok(link)
    }

    /// The agent's address.
    pub fn agent(&self) -> SocketAddr {
        self.agent
    }

    /// The address of this host that the agent's host sees; loopback while the link is broken.
    pub fn near(&self) -> IpAddr {
        let loopback = if self.agent.is_ipv6() { [0u16, 0, 0, 0, 0, 0, 0, 1].into() } else { [127, 0, 0, 1].into() };
        self.state().live.as_ref().map_or(loopback, |live| live.near)
    }

    /// Who the agent said that it is, when the link was made.
    pub fn facts(&self) -> Option<Arc<FarFacts>> {
        self.state().facts.clone()
    }

    /// Whether the session stands and the agent answers in it. A broken line is taken up again first, if it can be.
    pub fn answers(&self) -> bool {
        self.used_ns().is_some()
    }

    /// Gives up the session and begins another one, which may take `patience`.
    ///
    /// # Errors
    /// [`FarError`]: no agent answers, the keys or the versions differ, the agent is busy.
    pub fn reopen(&self, patience: Duration) -> Result<(), FarError> {
        let mut state = self.state();
        // The old one is closed before the new one asks for its place.
        state.live = None;
        self.connect(&mut state, patience)
    }

    /// Starts an end there: its number, and where its replies come from.
    ///
    /// # Errors
    /// [`FarError`] if the line broke and cannot be made again.
    pub(crate) fn start(&self) -> Result<(u64, mpsc::Receiver<Reply>), FarError> {
        let mut state = self.state();
        if state.live.as_ref().is_none_or(|live| live.heard().over) {
            // The old one is closed before the new one asks for its place.
            state.live = None;
            self.connect(&mut state, PATIENCE)?;
        }
        state.ends += 1;
        let end = state.ends;
        let (outbox, replies) = mpsc::sync_channel(REPLIES_MAX);
        if let Some(live) = &state.live {
            {
                let mut heard = live.heard();
                (heard.by, heard.lost) = (Some((end, outbox)), None);
            }
            let said = live.say(ToAgent::Start(end));
            said.map_err(|error| FarError::Line(self.agent, error))?;
        }
        Ok((end, replies))
    }

    /// CPU time that the session's ends there have used so far, nanoseconds; `None` if the agent does not say.
    pub fn used_ns(&self) -> Option<u64> {
        let (outbox, used) = mpsc::channel();
        {
            let state = self.state();
            let live = state.live.as_ref()?;
            if live.heard().over {
                return None;
            }
            live.heard().used = Some(outbox);
            live.say(ToAgent::Used).ok()?;
        }
        used.recv_timeout(PATIENCE).ok()
    }

    /// Tells an end something. `false` if the line is over.
    pub(crate) fn tell(&self, end: u64, command: Command) -> bool {
        self.say(ToAgent::Tell(end, Box::new(command)))
    }

    /// Lets an end leave.
    pub(crate) fn finish(&self, end: u64) {
        if let Some(live) = &self.state().live {
            let mut heard = live.heard();
            heard.by = heard.by.take().filter(|(number, _)| *number != end);
        }
        // An end that is gone does not need it.
        let _ = self.say(ToAgent::End(end));
    }

    /// Why an end is no longer heard.
    pub fn lost(&self) -> String {
        let state = self.state();
        let lost = state.live.as_ref().and_then(|live| live.heard().lost.clone());
        lost.unwrap_or_else(|| "the connection to its agent broke".into())
    }

    fn say(&self, word: ToAgent) -> bool {
        self.state().live.as_ref().is_some_and(|live| !live.heard().over && live.say(word).is_ok())
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, state: &mut LinkState, patience: Duration) -> Result<(), FarError> {
        let (live, facts) = self.meet(patience)?;
        (state.live, state.facts) = (Some(live), Some(Arc::new(facts)));
        Ok(())
    }

    fn meet(&self, patience: Duration) -> Result<(Live, FarFacts), FarError> {
        let deadline = Instant::now() + patience;
        let mut met = meet(self.agent, &self.key, (&self.ask, 0), deadline);
        for reset in 0..RESETS {
            // An end may have left the agent's port in the very moment when we came, or too many came at once.
            if !matches!(met, Err(FarError::Line(_, LineError::Broken(_)))) {
                break;
            }
            std::thread::sleep(REST * (1 << reset));
            met = meet(self.agent, &self.key, (&self.ask, 0), deadline);
        }
        let Met { sender, receiver, near, welcome, .. } = met?;
        let Welcome { program, machine, missing_relays, session } = welcome;
        let shared = Arc::new(LinkShared {
            agent: self.agent,
            key: self.key.clone(),
            ask: Ask { session: Some(session), ..self.ask.clone() },
            post: Mutex::new(OutgoingPost::new(sender)),
            heard: Mutex::default(),
        });
        let hears = Arc::clone(&shared);
        let listener = std::thread::Builder::new().name("far-replies".into());
        let listener =
            listener.spawn(move || hears.listen(receiver)).map_err(|error| FarError::Silent(self.agent, error))?;
        Ok((Live { shared, near, listener: Some(listener) }, FarFacts { program, machine, missing_relays }))
    }
}

/// Makes a line, until a deadline, asks for a session (or to go on with one), and takes the agent's welcome.
fn meet(agent: SocketAddr, key: &Key, (ask, heard): (&Ask, u64), deadline: Instant) -> Result<Met, FarError> {
    let silent = |error| FarError::Silent(agent, error);
    let line = |error| FarError::Line(agent, error);
    // None at all is no time to wait for.
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&agent, left).map_err(silent)?;
    let near = stream.local_addr().map_err(silent)?.ip();
    watch(&stream).map_err(|fault| silent(std::io::Error::other(fault.to_string())))?;
    let (mut sender, mut receiver) = connect(stream, key, VERSION, deadline).map_err(line)?;
    sender.send(&Said(0, heard, ToAgent::Ask(ask.clone()))).map_err(line)?;
    let Said(_, heard, word) = receiver.receive::<Said<ToHome>>(WELCOME_MAX, Some(deadline)).map_err(line)?;
    match word.within_caps().map_err(line)? {
        ToHome::Welcome(welcome) => Ok(Met { sender, receiver, near, heard, welcome: *welcome }),
        ToHome::Refused(reason) => Err(FarError::Refused(agent, reason)),
        _ => Err(line(LineError::Garbled("an agent that does not welcome"))),
    }
}

impl Live {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.shared.heard)
    }

    fn say(&self, word: ToAgent) -> Result<(), LineError> {
        // A command that is too long is none: the agent hears nothing, and the end is given up.
        lock(&self.shared.post).say(word, |_| ToAgent::End(0))
    }
}

/// Lets the agent end the session first, so that the next one finds its place free.
impl Drop for Live {
    fn drop(&mut self) {
        let deadline = Instant::now() + LEAVING;
        {
            let mut heard = self.heard();
            (heard.by, heard.leaving) = (None, Some(deadline));
        }
        lock(&self.shared.post).end();
        let Some(listener) = self.listener.take() else { return };
        while !listener.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        lock(&self.shared.post).break_off();
        let _ = listener.join();
    }
}

impl LinkShared {
    /// Hears the agent until the session is over.
    fn listen(&self, mut receiver: Receiver) {
        let why = loop {
            let word = match receiver.receive::<Said<ToHome>>(REPLY_MAX, None) {
                Ok(Said(number, heard, word)) => {
                    let is_new = lock(&self.post).hear(number, heard);
                    match is_new.and_then(|is_new| Ok(is_new.then_some(word.within_caps()?))) {
                        Ok(Some(word)) => word,
                        Ok(None) => continue,
                        Err(error) => break error.to_string(),
                    }
                }
                // The agent has ended the session, as it was asked to.
                Err(LineError::Broken(error))
                    if error.kind() == ErrorKind::UnexpectedEof && self.leaving().is_some() =>
                {
                    break error.to_string();
                }
                Err(error @ LineError::Broken(_)) => match self.taken_up() {
                    Some(other) => {
                        receiver = other;
                        continue;
                    }
                    None => break error.to_string(),
                },
                Err(error) => break error.to_string(),
            };
            match word {
                ToHome::Heard(end, reply) => {
                    if let Err(why) = lock(&self.heard).takes(end, *reply) {
                        break why;
                    }
                }
                ToHome::Gone(end, how) => {
                    let mut heard = lock(&self.heard);
                    if heard.by.as_ref().is_some_and(|(number, _)| *number == end) {
                        heard.lost = Some(how);
                        heard.by = None;
                    }
                }
                ToHome::Used(ns) => {
                    if let Some(outbox) = lock(&self.heard).used.take() {
                        let _ = outbox.send(ns);
                    }
                }
                ToHome::Refused(reason) => break reason,
                ToHome::Welcome(_) => break "it welcomes twice".into(),
            }
        };
        lock(&self.post).break_off();
        let mut heard = lock(&self.heard);
        heard.lost = Some(why);
        (heard.by, heard.used, heard.over) = (None, None, true);
    }

    /// Until when the agent is waited for, by who leaves.
    fn leaving(&self) -> Option<Instant> {
        lock(&self.heard).leaving
    }

    /// Goes on with the session over another line, which is tried for as long as the agent keeps the session. Who leaves says so on
    /// it: otherwise the agent would wait for them, and turn the next caller away.
    fn taken_up(&self) -> Option<Receiver> {
        let kept_until = {
            let mut post = lock(&self.post);
            post.break_off();
            post.kept_until()
        };
        loop {
            let until = self.leaving().map_or(kept_until, |leaving| leaving.min(kept_until));
            let heard = lock(&self.post).heard();
            if Instant::now() >= until {
                return None;
            }
            match meet(self.agent, &self.key, (&self.ask, heard), until) {
                Ok(Met { sender, receiver, heard, .. }) => {
                    let mut post = lock(&self.post);
                    // Who leaves breaks off what stands then, and nothing that comes later.
                    if Instant::now() >= until {
                        return None;
                    }
                    post.take_up(sender, heard);
                    drop(post);
                    if self.leaving().is_some() {
                        lock(&self.post).end();
                    }
                    return Some(receiver);
                }
                // It does not know the session any more, or it is gone.
                Err(FarError::Refused(..)) => return None,
                Err(FarError::Silent(_, error)) if error.kind() == ErrorKind::ConnectionRefused => return None,
                Err(_) => std::thread::sleep(REST),
            }
        }
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_that_nobody_reads_are_bounded() {
        let (outbox, replies) = mpsc::sync_channel(REPLIES_MAX);
        let heard = Heard { by: Some((1, outbox)), ..Heard::default() };
        for _ in 0..REPLIES_MAX {
            heard.takes(1, Reply::Ready).unwrap();
            heard.takes(2, Reply::Ready).unwrap();
        }
        assert!(heard.takes(1, Reply::Ready).is_err());
        assert_eq!(replies.try_iter().count(), REPLIES_MAX);
        heard.takes(1, Reply::Ready).unwrap();
        drop(replies);
        heard.takes(1, Reply::Ready).unwrap();
    }
}
