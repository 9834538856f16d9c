//! The agent: listens, verifies that callers hold the key, and gives each caller a session.
//!
//! One thread listens and serves all unproven connections ([`ProvenListener`]). A proven caller gets a thread; there are at
//! most [`CALLERS_MAX`] of them.
//!
//! Also the places for sessions that run at once: one by default, since two disturb each other.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytegauge_model::relay::RELAY_METHODS;
use bytegauge_model::{Nanos, Place};
use bytegauge_traffic::{EndError, agent_callers, lock, relay};
use bytegauge_wire::Key;
use serde_json::Value;

use crate::limits::Limits;
use crate::log::{Class, Log};
use crate::protocol::VERSION;
use crate::session;
use crate::unproven::{ListenerEvent, PendingOutcome, ProvenCaller, ProvenListener};

/// Most proven callers at a time, measuring ones included.
const CALLERS_MAX: usize = 64;

/// Least interval between log lines about exhausted descriptors.
const EXHAUSTED_EVERY: Duration = Duration::from_secs(60);

/// The settings and functions that the agent's program provides.
#[derive(Clone, Debug)]
pub struct AgentSetup {
    /// The key that callers must have.
    pub key: Key,
    /// Its limits.
    pub limits: Limits,
    /// This program's own file, run as `PROGRAM end ROLE`.
    pub program: PathBuf,
    /// This machine, as sessions record one. Callers receive it.
    pub machine: fn() -> Value,
    /// Writes a line of the log.
    pub log: fn(&str),
}

/// State shared by all sessions of an agent.
pub(super) struct AgentState {
    pub(super) setup: AgentSetup,
    pub(super) slots: Arc<Slots>,
    /// The port at which ends listen: the agent's own, or 0 for any.
    pub(super) data_port: u16,
    /// Relay methods that this machine lacks, with the reason.
    pub(super) missing_relays: BTreeMap<String, String>,
    pub(super) log: Log,
    listener: ProvenListener,
    /// Each proven caller that is connected holds one more reference.
    callers: Arc<()>,
    /// Callers so far.
    called: AtomicU64,
}

/// An agent that listens.
pub struct Agent {
    state: Arc<AgentState>,
}

impl Agent {
    /// Listens at a place.
    ///
    /// # Errors
    /// [`EndError::Missing`] with the next step if it cannot listen there.
    pub fn listen(place: &Place, setup: AgentSetup) -> Result<Agent, EndError> {
        if !matches!(place, Place::Ip(_)) {
            return Err(EndError::Missing(format!("an agent listens on TCP, not at {place}: give ADDRESS:PORT")));
        }
        // With several sessions, a new connection could not be assigned to one of them.
        let mut shares_port = setup.limits.sessions == 1;
        let (listener, _) = bytegauge_traffic::address::listen_when(place, |socket| {
            if shares_port && let Err(fault) = agent_callers::give_way(socket) {
                (setup.log)(&format!("data connections go to ports of their own: this one cannot be shared ({fault})"));
                shares_port = false;
            }
        })?;
        let listener = ProvenListener::new(listener.into(), setup.key.clone(), VERSION)?;
        let port = listener.place()?.port();
        let state = AgentState {
            slots: Slots::new(setup.limits.sessions),
            data_port: if shares_port { port } else { 0 },
            missing_relays: missing_relays(),
            log: Log::new(setup.log),
            listener,
            callers: Arc::new(()),
            called: AtomicU64::new(0),
            setup,
        };
        Ok(Agent { state: Arc::new(state) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn place(&self) -> Result<SocketAddr, EndError> {
        self.state.listener.place()
    }

    /// Serves until `stop` is set. Running sessions end with the process.
    pub fn serve(&self, stop: &AtomicBool) {
        let AgentState { listener, log, .. } = &*self.state;
        // When a lack of descriptors was last logged.
        let mut exhausted: Option<Instant> = None;
        listener.run(stop, |event| match event {
            ListenerEvent::Settled(outcome) => self.state.settle(outcome),
            ListenerEvent::Exhausted(error) => {
                if exhausted.is_none_or(|logged| logged.elapsed() >= EXHAUSTED_EVERY) {
                    exhausted = Some(Instant::now());
                    log.own(&format!("no connection can be accepted ({error}): raise ulimit -n"));
                }
            }
            ListenerEvent::Passed(now) => log.look(now),
        });
        log.finish(Instant::now());
    }
}

fn missing_relays() -> BTreeMap<String, String> {
    RELAY_METHODS.iter().filter_map(|row| Some((row.name.to_owned(), relay::missing_requirement(row.value)?))).collect()
}

impl AgentState {
    /// Adds a connection whose first bytes, `received`, an end has already read.
    pub(super) fn hear(self: &Arc<AgentState>, stream: TcpStream, peer: SocketAddr, received: &[u8]) {
        self.listener.add(stream, peer, received).into_iter().for_each(|outcome| self.settle(outcome));
    }

    fn settle(self: &Arc<AgentState>, outcome: PendingOutcome) {
        match outcome {
            PendingOutcome::Proven(caller) => self.admit(caller),
            PendingOutcome::Refused(peer, why) => self.log.enter(Class::Unproven, peer, &why),
        }
    }

    /// Gives a caller a thread.
    fn admit(self: &Arc<AgentState>, caller: ProvenCaller) {
        let peer = caller.peer;
        let number = self.called.fetch_add(1, Ordering::Relaxed);
        // A thread holds its place, however it ends.
        let place = Arc::clone(&self.callers);
        if Arc::strong_count(&place) > CALLERS_MAX + 1 {
            self.log.enter(Class::Refused, peer, &format!("was refused: {CALLERS_MAX} callers are connected"));
            return;
        }
        let state = Arc::clone(self);
        let thread = std::thread::Builder::new().name(format!("caller-{number}"));
        let serve = move || {
            session::serve(&state, number, caller);
            drop(place);
        };
        if let Err(error) = thread.spawn(serve) {
            self.log.enter(Class::Refused, peer, &format!("was refused: no thread can be created ({error})"));
        }
    }
}

// Limits the sessions that run at once.

/// How long a caller waits for a place before it is refused: a session killed a moment ago occupies its place until its end
/// has ended.
const LEAVING: Duration = Duration::from_secs(3);

/// The places of an agent.
#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    taken: Mutex<Vec<Holder>>,
    left: Condvar,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    peer: IpAddr,
    until: Instant,
}

/// A place; dropping it frees it.
#[derive(Debug)]
pub(super) struct AgentSlot {
    number: u64,
    slots: Arc<Slots>,
}

impl Slots {
    pub(super) fn new(max: usize) -> Arc<Slots> {
        Arc::new(Slots { max, taken: Mutex::default(), left: Condvar::new() })
    }

    /// Takes a place for this long, and waits a moment for one to become free.
    ///
    /// # Errors
    /// The session that occupies the place, and for how long.
    pub(super) fn take(self: &Arc<Slots>, number: u64, peer: IpAddr, lasts: Duration) -> Result<AgentSlot, String> {
        self.take_within(LEAVING, (number, peer, lasts))
    }

    fn take_within(
        self: &Arc<Slots>,
        patience: Duration,
        (number, peer, lasts): (u64, IpAddr, Duration),
    ) -> Result<AgentSlot, String> {
        let taken = lock(&self.taken);
        let is_full = |taken: &mut Vec<Holder>| taken.len() >= self.max;
        let waited = self.left.wait_timeout_while(taken, patience, is_full);
        let (mut taken, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if taken.len() < self.max {
            taken.push(Holder { number, peer, until: now + lasts });
            return Ok(AgentSlot { number, slots: Arc::clone(self) });
        }
        let soonest = taken.iter().min_by_key(|holder| holder.until);
        Err(soonest.map_or_else(
            || "the agent allows no session".into(),
            |holder| {
                // In whole seconds: it is an estimate.
                let left = holder.until.saturating_duration_since(now).as_secs() + 1;
                format!(
                    "the agent is busy until {} from now, with a session of {}: two would disturb each other; try again \
                     then, or start the agent with --max-sessions 2",
                    Nanos(left * 1_000_000_000),
                    holder.peer
                )
            },
        ))
    }
}

impl Drop for AgentSlot {
    fn drop(&mut self) {
        let mut taken = lock(&self.slots.taken);
        taken.retain(|holder| holder.number != self.number);
        self.slots.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7));

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn place_is_exclusive_and_freed() {
        let slots = Slots::new(1);
        let first = slots.take(1, PEER, MINUTE).unwrap();
        let busy = slots.take_within(Duration::ZERO, (2, PEER, MINUTE)).unwrap_err();
        assert!(busy.contains("busy until") && busy.contains("192.0.2.7"), "{busy}");
        drop(first);
        let _second = slots.take(3, PEER, MINUTE).unwrap();
        assert!(Slots::new(0).take_within(Duration::ZERO, (4, PEER, MINUTE)).is_err());
    }

    #[test]
    fn next_caller_waits_for_a_leaving_one() {
        let slots = Slots::new(1);
        let first = slots.take(1, PEER, MINUTE).unwrap();
        let comes = {
            let slots = Arc::clone(&slots);
            std::thread::spawn(move || slots.take_within(MINUTE, (2, PEER, MINUTE)).is_ok())
        };
        drop(first);
        assert!(comes.join().unwrap());
    }
}
