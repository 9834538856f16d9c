//! The link to an agent: one session there, and ends that are started in it.
//!
//! A link that broke is made anew when an end is asked for the next time: what was measured before is in the store.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_wire::{Key, LineError, Receiver, Sender, connect};
use serde_json::Value;
use thiserror::Error;

use crate::far::watch::watch;
use crate::far::words::{Ask, REPLY_MAX, ToAgent, ToHome, VERSION, Welcome};
use crate::message::{Command, Reply};

/// How long an agent may take to answer, to every step.
const PATIENCE: Duration = Duration::from_secs(15);

/// How long a session that was given up may still hold the agent's place.
const LEAVING: Duration = Duration::from_secs(2);

/// Why an agent cannot be used.
#[derive(Debug, Error)]
pub enum FarError {
    /// Nobody answers there.
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
    #[error("nobody said how the far host is reached: give --key-file (and --host again)")]
    NoLink,
}

/// Who an agent says that it is.
#[derive(Clone, Debug, PartialEq)]
pub struct FarFacts {
    /// The version of its program.
    pub program: String,
    /// Its machine, as sessions record one.
    pub machine: Value,
}

/// One session at an agent.
#[derive(Debug)]
pub struct Link {
    agent: SocketAddr,
    key: Key,
    ask: Ask,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    live: Option<Live>,
    ends: u64,
    /// Who the agent said that it is when it was asked last.
    facts: Option<FarFacts>,
}

/// A line that stands.
#[derive(Debug)]
struct Live {
    sender: Sender,
    near: IpAddr,
    heard: Arc<Mutex<Heard>>,
    listener: Option<JoinHandle<()>>,
}

/// Who hears what an end says, and why nobody does any more.
#[derive(Debug, Default)]
struct Heard {
    by: Option<(u64, mpsc::Sender<Reply>)>,
    lost: Option<String>,
    /// Whether the line itself is over.
    over: bool,
}

impl Link {
    /// Begins a session that is expected to take so long, nanoseconds; 0 where nobody knows.
    ///
    /// # Errors
    /// [`FarError`] with the next step: nobody answers, the keys or the versions differ, the agent is busy.
    pub fn open(agent: SocketAddr, key: &Key, duration_ns: u64) -> Result<Link, FarError> {
        let ask = Ask { program: env!("CARGO_PKG_VERSION").into(), duration_ns };
        let state = Mutex::new(State { live: None, ends: 0, facts: None });
        let link = Link { agent, key: key.clone(), ask, state };
        link.connect(&mut link.state())?;
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
    pub fn facts(&self) -> Option<FarFacts> {
        self.state().facts.clone()
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
            self.connect(&mut state)?;
        }
        state.ends += 1;
        let end = state.ends;
        let (outbox, replies) = mpsc::channel();
        if let Some(live) = &mut state.live {
            live.heard().by = Some((end, outbox));
            live.heard().lost = None;
            let sent = live.sender.send(&ToAgent::Start(end));
            sent.map_err(|error| FarError::Line(self.agent, error))?;
        }
        Ok((end, replies))
    }

    /// Tells an end something. `false` if the line is over.
    pub(crate) fn tell(&self, end: u64, command: Command) -> bool {
        self.say(&ToAgent::Tell(end, Box::new(command)))
    }

    /// Lets an end leave.
    pub(crate) fn finish(&self, end: u64) {
        if let Some(live) = &self.state().live {
            let mut heard = live.heard();
            heard.by = heard.by.take().filter(|(number, _)| *number != end);
        }
        // Whoever is gone need not be told.
        let _ = self.say(&ToAgent::End(end));
    }

    /// Why an end is no longer heard.
    pub(crate) fn lost(&self) -> String {
        let state = self.state();
        let lost = state.live.as_ref().and_then(|live| live.heard().lost.clone());
        lost.unwrap_or_else(|| "the connection to its agent broke".into())
    }

    fn say(&self, word: &ToAgent) -> bool {
        self.state().live.as_mut().is_some_and(|live| !live.heard().over && live.sender.send(word).is_ok())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, state: &mut State) -> Result<(), FarError> {
        let (live, facts) = self.meet()?;
        (state.live, state.facts) = (Some(live), Some(facts));
        Ok(())
    }

    fn meet(&self) -> Result<(Live, FarFacts), FarError> {
        let silent = |error| FarError::Silent(self.agent, error);
        let line = |error| FarError::Line(self.agent, error);
        let stream = TcpStream::connect_timeout(&self.agent, PATIENCE).map_err(silent)?;
        let near = stream.local_addr().map_err(silent)?.ip();
        watch(&stream).map_err(|fault| silent(std::io::Error::other(fault.to_string())))?;
        let deadline = Instant::now() + PATIENCE;
        let (mut sender, mut receiver) = connect(stream, &self.key, VERSION, REPLY_MAX, deadline).map_err(line)?;
        sender.send(&ToAgent::Ask(self.ask.clone())).map_err(line)?;
        let Welcome { program, machine } = match receiver.receive(Some(deadline)).map_err(line)? {
            ToHome::Welcome(welcome) => *welcome,
            ToHome::Refused(reason) => return Err(FarError::Refused(self.agent, reason)),
            _ => return Err(line(LineError::Garbled("an agent that does not welcome"))),
        };
        let heard = Arc::new(Mutex::new(Heard::default()));
        let hears = Arc::clone(&heard);
        let listener = std::thread::Builder::new().name("far-replies".into());
        let listener = listener.spawn(move || listen(&mut receiver, &hears)).map_err(silent)?;
        Ok((Live { sender, near, heard, listener: Some(listener) }, FarFacts { program, machine }))
    }
}

impl Live {
    fn heard(&self) -> MutexGuard<'_, Heard> {
        lock(&self.heard)
    }
}

/// Lets the agent end the session first, so that the next one finds its place free.
impl Drop for Live {
    fn drop(&mut self) {
        self.heard().by = None;
        self.sender.end();
        let Some(listener) = self.listener.take() else { return };
        let deadline = Instant::now() + LEAVING;
        while !listener.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sender.hang_up();
        let _ = listener.join();
    }
}

/// Hears the agent until the line is over.
fn listen(receiver: &mut Receiver, heard: &Mutex<Heard>) {
    let why = loop {
        match receiver.receive(None) {
            Ok(ToHome::Heard(end, reply)) => {
                let heard = lock(heard);
                // Of an end that was given up nobody wants to hear.
                if let Some((_, outbox)) = heard.by.as_ref().filter(|(number, _)| *number == end) {
                    let _ = outbox.send(*reply);
                }
            }
            Ok(ToHome::Gone(end, how)) => {
                let mut heard = lock(heard);
                if heard.by.as_ref().is_some_and(|(number, _)| *number == end) {
                    heard.lost = Some(how);
                    heard.by = None;
                }
            }
            Ok(ToHome::Refused(reason)) => break reason,
            Ok(ToHome::Welcome(_)) => break "it welcomes twice".into(),
            Err(error) => break error.to_string(),
        }
    };
    let mut heard = lock(heard);
    heard.lost = Some(why);
    heard.by = None;
    heard.over = true;
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
