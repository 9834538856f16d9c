//! The link to an agent: one session there, and the ends started in it.
//!
//! If the session is over, because its line broke or the agent ended it, the next request for an end begins a new one; results so
//! far are in the store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_wire::{Key, LineError, Receiver, Sender, connect};
use thiserror::Error;

use crate::protocol::{self, Ask, REPLIES_MAX, REPLY_MAX, ToAgent, ToHome, VERSION, WELCOME_MAX, watch};
use bytegauge_traffic::lock;
use bytegauge_traffic::message::{Command, Reply};
use bytegauge_traffic::{RemoteError, RemoteFacts, RemoteHost};

/// Longest time of an agent to answer each step.
const PATIENCE: Duration = Duration::from_secs(15);

/// Longest time of an agent to answer in a session that runs: its host may be stopped, which no connection shows.
const ANSWER: Duration = Duration::from_secs(3);

/// Pause before another attempt for a line that breaks before the agent's welcome.
const REST: Duration = Duration::from_millis(50);

/// Further attempts, each after twice the pause.
const RESETS: u32 = 6;

/// How long a closed session may still occupy the agent's place.
const LEAVING: Duration = Duration::from_secs(2);

/// Why an agent cannot be used.
#[derive(Debug, Error)]
pub enum FarError {
    /// There is no answer.
    #[error(
        "no agent answers at {0} ({1}): start one there with `bytegauge agent --listen ADDRESS:PORT --key-file FILE`, and check \
         the address, the route to it (ip route get ADDRESS) and its firewall"
    )]
    Silent(SocketAddr, std::io::Error),
    /// The line failed.
    #[error("the agent at {0}: {1}")]
    Line(SocketAddr, LineError),
    /// The agent refuses.
    #[error("the agent at {0} refuses: {1}")]
    Refused(SocketAddr, String),
}

/// One session at an agent.
#[derive(Debug)]
pub struct AgentLink {
    agent: SocketAddr,
    key: Key,
    ask: Ask,
    state: Mutex<LinkState>,
}

#[derive(Debug)]
struct LinkState {
    live: Option<Live>,
    ends: u64,
    /// The agent's last description of itself.
    facts: Option<Arc<RemoteFacts>>,
}

/// A running session.
#[derive(Debug)]
struct Live {
    shared: Arc<LinkShared>,
    near: IpAddr,
    listener: Option<JoinHandle<()>>,
}

/// State shared by the sending and the receiving side of a session.
#[derive(Debug)]
struct LinkShared {
    sender: Mutex<Sender>,
    heard: Mutex<LinkReplies>,
}

/// The channel for an end's replies, and why the session ended.
#[derive(Debug, Default)]
struct LinkReplies {
    by: Option<(u64, mpsc::SyncSender<Reply>)>,
    used: Option<mpsc::Sender<u64>>,
    /// A question was not answered in time, and no message has come since.
    unanswered: bool,
    lost: Option<String>,
    /// Whether the session itself is over.
    over: bool,
}

impl LinkReplies {
    /// Passes a reply of an end on, unless the end was given up.
    ///
    /// # Errors
    /// If more replies are unread than a trial can have.
    fn takes(&self, end: u64, reply: Reply) -> Result<(), String> {
        let Some((_, outbox)) = self.by.as_ref().filter(|(number, _)| *number == end) else { return Ok(()) };
        match outbox.try_send(reply) {
            // Its receiver was dropped.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
            Err(TrySendError::Full(_)) => Err(format!("its end sent {REPLIES_MAX} unexpected replies")),
        }
    }
}

/// A line just established.
struct Met {
    sender: Sender,
    receiver: Receiver,
    near: IpAddr,
    facts: RemoteFacts,
}

impl AgentLink {
    /// Begins a session of an expected length, nanoseconds; 0 if unknown.
    ///
    /// # Errors
    /// [`FarError`] with the next step: no answer, another key or version, or the agent is busy.
    pub fn open(agent: SocketAddr, key: &Key, duration_ns: u64) -> Result<AgentLink, FarError> {
        let ask = Ask { program: env!("CARGO_PKG_VERSION").into(), duration_ns };
        let state = Mutex::new(LinkState { live: None, ends: 0, facts: None });
        let link = AgentLink { agent, key: key.clone(), ask, state };
        link.connect(&mut lock(&link.state), PATIENCE)?;
        Ok(link)
    }

    fn send(&self, word: &ToAgent) -> bool {
        lock(&self.state).live.as_ref().is_some_and(|live| !live.heard().over && live.send(word).is_ok())
    }

    fn connect(&self, state: &mut LinkState, patience: Duration) -> Result<(), FarError> {
        let deadline = Instant::now() + patience;
        let mut met = self.meet(deadline);
        let mut resets = 0;
        // The agent's port may briefly be occupied by an end, or its queue be full.
        while resets < RESETS && matches!(met, Err(FarError::Line(_, LineError::Broken(_)))) {
            std::thread::sleep(REST * (1 << resets));
            resets += 1;
            met = self.meet(deadline);
        }
        let Met { sender, receiver, near, facts } = met?;
        let shared = Arc::new(LinkShared { sender: Mutex::new(sender), heard: Mutex::default() });
        let hears = Arc::clone(&shared);
        let listener = std::thread::Builder::new().name("far-replies".into());
        let listener =
            listener.spawn(move || hears.listen(receiver)).map_err(|error| FarError::Silent(self.agent, error))?;
        state.live = Some(Live { shared, near, listener: Some(listener) });
        state.facts = Some(Arc::new(facts));
        Ok(())
    }

    /// Establishes a line before a deadline, asks to begin a session, and takes the agent's welcome.
    fn meet(&self, deadline: Instant) -> Result<Met, FarError> {
        let agent = self.agent;
        let silent = |error| FarError::Silent(agent, error);
        let line = |error| FarError::Line(agent, error);
        // A timeout of 0 would mean none.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&agent, left).map_err(silent)?;
        let near = stream.local_addr().map_err(silent)?.ip();
        watch(&stream).map_err(|fault| silent(std::io::Error::other(fault.to_string())))?;
        let (mut sender, mut receiver) = connect(stream, &self.key, VERSION, deadline).map_err(line)?;
        sender.send(&ToAgent::Ask(self.ask.clone())).map_err(line)?;
        let word = receiver.receive::<ToHome>(WELCOME_MAX, Some(deadline)).map_err(line)?;
        match word.within_caps().map_err(line)? {
            ToHome::Welcome(facts) => Ok(Met { sender, receiver, near, facts: *facts }),
            ToHome::Refused(reason) => Err(FarError::Refused(agent, reason)),
            _ => Err(line(LineError::Garbled("an agent that does not welcome"))),
        }
    }
}

impl RemoteHost for AgentLink {
    fn agent(&self) -> SocketAddr {
        self.agent
    }

    fn near(&self) -> IpAddr {
        let loopback = if self.agent.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        lock(&self.state).live.as_ref().map_or(loopback, |live| live.near)
    }

    fn facts(&self) -> Option<Arc<RemoteFacts>> {
        lock(&self.state).facts.clone()
    }

    fn reopen(&self, patience: Duration) -> Result<(), RemoteError> {
        let mut state = lock(&self.state);
        // Close the old session first, to free its place.
        state.live = None;
        Ok(self.connect(&mut state, patience)?)
    }

    fn start(&self) -> Result<(u64, mpsc::Receiver<Reply>), RemoteError> {
        let mut state = lock(&self.state);
        if state.live.as_ref().is_none_or(|live| live.heard().over) {
            // Close the old session first, to free its place.
            state.live = None;
            self.connect(&mut state, ANSWER)?;
        }
        state.ends += 1;
        let end = state.ends;
        let (outbox, replies) = mpsc::sync_channel(REPLIES_MAX);
        if let Some(live) = &state.live {
            {
                let mut heard = live.heard();
                (heard.by, heard.lost) = (Some((end, outbox)), None);
            }
            let sent = live.send(&ToAgent::Start(end));
            sent.map_err(|error| FarError::Line(self.agent, error))?;
        }
        Ok((end, replies))
    }

    fn used_ns(&self) -> Option<u64> {
        let (outbox, used) = mpsc::channel();
        let shared = {
            let state = lock(&self.state);
            let live = state.live.as_ref()?;
            if live.heard().over || live.heard().unanswered {
                return None;
            }
            live.heard().used = Some(outbox);
            live.send(&ToAgent::Used).ok()?;
            Arc::clone(&live.shared)
        };
        let answer = used.recv_timeout(ANSWER);
        if let Err(RecvTimeoutError::Timeout) = answer {
            let mut heard = lock(&shared.heard);
            heard.unanswered = true;
            heard.lost.get_or_insert_with(|| format!("it has not answered for {} s", ANSWER.as_secs()));
        }
        answer.ok()
    }

    fn tell(&self, end: u64, command: Command) -> bool {
        self.send(&ToAgent::Tell(end, Box::new(command)))
    }

    fn finish(&self, end: u64) {
        if let Some(live) = &lock(&self.state).live {
            let mut heard = live.heard();
            heard.by = heard.by.take().filter(|(number, _)| *number != end);
        }
        // Not needed by an end that is gone.
        let _ = self.send(&ToAgent::End(end));
    }

    fn lost(&self) -> String {
        let state = lock(&self.state);
        let lost = state.live.as_ref().and_then(|live| live.heard().lost.clone());
        lost.unwrap_or_else(|| "the connection to its agent broke".into())
    }
}

impl Live {
    fn heard(&self) -> MutexGuard<'_, LinkReplies> {
        lock(&self.shared.heard)
    }

    fn send(&self, word: &ToAgent) -> Result<(), LineError> {
        protocol::send(&mut lock(&self.shared.sender), word, None)
    }
}

/// Lets the agent end the session first, so that its place is free for the next one.
impl Drop for Live {
    fn drop(&mut self) {
        let deadline = {
            let mut heard = self.heard();
            heard.by = None;
            // A stopped agent ends nothing.
            Instant::now() + if heard.unanswered { Duration::ZERO } else { LEAVING }
        };
        lock(&self.shared.sender).end();
        let Some(listener) = self.listener.take() else { return };
        while !listener.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        lock(&self.shared.sender).hang_up();
        let _ = listener.join();
    }
}

impl LinkShared {
    /// Receives from the agent until the session is over.
    fn listen(&self, mut receiver: Receiver) {
        let why = loop {
            let word = match receiver.receive::<ToHome>(REPLY_MAX, None).and_then(ToHome::within_caps) {
                Ok(word) => word,
                Err(error) => break error.to_string(),
            };
            lock(&self.heard).unanswered = false;
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
        lock(&self.sender).hang_up();
        let mut heard = lock(&self.heard);
        heard.lost = Some(why);
        (heard.by, heard.used, heard.over) = (None, None, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unread_replies_are_bounded() {
        let (outbox, replies) = mpsc::sync_channel(REPLIES_MAX);
        let heard = LinkReplies { by: Some((1, outbox)), ..LinkReplies::default() };
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
