//! The agent: listens, lets connections prove that they hold the key, and gives each caller a session.
//!
//! One thread listens and serves all connections that have proved nothing yet ([`PendingConns`]). A caller that has proved
//! itself gets a thread; there are at most [`CALLERS_MAX`] of them.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::epoll::Events;
use bytegauge_sys::limit;
use bytegauge_wire::Key;
use serde_json::Value;

use crate::astray;
use crate::far::limits::Limits;
use crate::far::log::{Class, Log};
use crate::far::pending::{Caller, PendingConns, PendingOutcome, Wake};
use crate::far::session;
use crate::far::slots::Slots;
use crate::far::standing::Standing;
use crate::fault::Fault;
use crate::relay;
use bytegauge_model::relay::RELAY_METHODS;
use bytegauge_model::{Place, RelayMethod};

/// Callers that have proved themselves, at a time; those that measure are among them.
const CALLERS_MAX: usize = 64;

/// Connections that are accepted, and events that are handled, before others have their turn.
const TURN: usize = 64;

/// How often the agent looks whether it shall stop.
const LOOK_AFTER_NS: u64 = 250_000_000;

/// How often it is said at most that descriptors have run out.
const EXHAUSTED_EVERY: Duration = Duration::from_secs(60);

/// What an agent needs of the program that it is.
#[derive(Clone, Debug)]
pub struct AgentSetup {
    /// The key that callers must have.
    pub key: Key,
    /// What is allowed.
    pub limits: Limits,
    /// This program's own file, run as `PROGRAM end ROLE`.
    pub program: PathBuf,
    /// This machine, as sessions record one. Callers receive it.
    pub machine: fn() -> Value,
    /// Writes a line of the log.
    pub log: fn(&str),
}

/// What all sessions of an agent share.
pub(super) struct AgentState {
    pub(super) setup: AgentSetup,
    pub(super) slots: Arc<Slots>,
    pub(super) standing: Standing,
    /// Where ends listen: at the agent's own port, or 0, at any.
    pub(super) data_port: u16,
    /// Methods of a relay that this machine does not have, and why.
    pub(super) missing_relays: BTreeMap<String, String>,
    pub(super) log: Log,
    pending: PendingConns,
    /// Callers that have proved themselves and are still there.
    callers: AtomicUsize,
    /// Callers so far.
    called: AtomicU64,
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    state: Arc<AgentState>,
}

impl Agent {
    /// Listens at a place.
    ///
    /// # Errors
    /// [`Fault::Missing`] with the next step if it cannot listen there.
    pub fn listen(place: &Place, setup: AgentSetup) -> Result<Agent, Fault> {
        if !matches!(place, Place::Ip(_)) {
            return Err(Fault::Missing(format!("an agent listens on TCP, not at {place}: give ADDRESS:PORT")));
        }
        // With several sessions a connection could not be assigned to one before it is made.
        let mut shares_port = setup.limits.sessions == 1;
        let (listener, _) = crate::place::listen_when(place, |socket| {
            if shares_port && let Err(fault) = astray::give_way(socket) {
                (setup.log)(&format!("data connections go to ports of their own: this one cannot be shared ({fault})"));
                shares_port = false;
            }
        })?;
        let listener: TcpListener = listener.into();
        let port = listener.local_addr().map_err(Fault::io("reading the agent's port"))?.port();
        // An unknown number of descriptors counts as a small one.
        let open_files = limit::raise_open_files().or_else(|_| limit::open_files()).map_or(0, |limit| limit.soft);
        let pending = PendingConns::new(&listener, setup.key.clone(), open_files);
        let state = AgentState {
            slots: Slots::new(setup.limits.sessions),
            standing: Standing::default(),
            data_port: if shares_port { port } else { 0 },
            missing_relays: missing_relays(),
            log: Log::new(setup.log),
            pending: pending.map_err(Fault::io("watching the agent's port"))?,
            callers: AtomicUsize::new(0),
            called: AtomicU64::new(0),
            setup,
        };
        Ok(Agent { listener, state: Arc::new(state) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn place(&self) -> Result<SocketAddr, Fault> {
        self.listener.local_addr().map_err(Fault::io("reading the agent's port"))
    }

    /// Serves until `stop` is set. Sessions that go on are left to the end of the process.
    pub fn serve(&self, stop: &AtomicBool) {
        let AgentState { pending, log, .. } = &*self.state;
        let mut events = Events::with_room(TURN);
        let (mut looked, mut exhausted) = (Instant::now(), None);
        while !stop.load(Ordering::Relaxed) {
            for wake in pending.wait(&mut events, LOOK_AFTER_NS) {
                match wake {
                    Wake::Listener => self.accept(&mut exhausted),
                    Wake::Pending(number) => self.state.settle(pending.serve(number)),
                }
            }
            let now = Instant::now();
            if now.saturating_duration_since(looked) >= Duration::from_nanos(LOOK_AFTER_NS) {
                looked = now;
                self.state.settle(pending.expire(now));
                log.look(now);
            }
        }
        log.finish(Instant::now());
    }

    /// Accepts connections that came, a few at a time. `exhausted`: when the log was last told that descriptors ran out.
    fn accept(&self, exhausted: &mut Option<Instant>) {
        for _ in 0..TURN {
            match self.listener.accept() {
                Ok((stream, peer)) => self.state.hear(stream, peer, &[]),
                Err(error) if bytegauge_sys::socket::is_exhausted(&error) => {
                    if exhausted.is_none_or(|told| told.elapsed() >= EXHAUSTED_EVERY) {
                        *exhausted = Some(Instant::now());
                        self.state.log.own(&format!("no caller can be heard ({error}): raise ulimit -n"));
                    }
                    match self.state.pending.crowd_out() {
                        Some(outcome) => self.state.settle([outcome]),
                        None => std::thread::sleep(Duration::from_nanos(LOOK_AFTER_NS)),
                    }
                    return;
                }
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
                Err(_) => return,
            }
        }
    }
}

fn missing_relays() -> BTreeMap<String, String> {
    let lacks = |method: RelayMethod| match method.needs_privileges() {
        true => Some(format!("no agent runs {method}, which needs privileges")),
        false => relay::lacks(method),
    };
    RELAY_METHODS.iter().filter_map(|row| Some((row.name.to_owned(), lacks(row.value)?))).collect()
}

impl AgentState {
    /// Takes a connection in, of whose first bytes an end has read `said` already.
    pub(super) fn hear(self: &Arc<AgentState>, stream: TcpStream, peer: SocketAddr, said: &[u8]) {
        self.settle(self.pending.add(stream, peer, said));
    }

    fn settle(self: &Arc<AgentState>, outcomes: impl IntoIterator<Item = PendingOutcome>) {
        for outcome in outcomes {
            match outcome {
                PendingOutcome::Proven(caller) => self.admit(caller),
                PendingOutcome::Refused(peer, why) => self.log.enter(Class::Unproven, peer, &why),
            }
        }
    }

    /// Gives a caller a thread.
    fn admit(self: &Arc<AgentState>, caller: Caller) {
        let peer = caller.peer;
        let Some(place) = CallerPlace::take(self) else {
            self.log.enter(Class::Refused, peer, &format!("was sent away: {CALLERS_MAX} callers are being heard"));
            return;
        };
        let thread = std::thread::Builder::new().name(format!("caller-{}", place.number));
        if let Err(error) = thread.spawn(move || session::serve(&place, caller)) {
            self.log.enter(Class::Refused, peer, &format!("was sent away: no thread can be made ({error})"));
        }
    }
}

/// The place of a caller that has proved itself, until it is dropped, however its thread ends.
pub(super) struct CallerPlace {
    pub(super) state: Arc<AgentState>,
    pub(super) number: u64,
}

impl CallerPlace {
    /// `None` if all places are taken.
    fn take(state: &Arc<AgentState>) -> Option<CallerPlace> {
        let number = state.called.fetch_add(1, Ordering::Relaxed);
        let place = CallerPlace { state: Arc::clone(state), number };
        // Counted first: the place gives it back where it was one too many.
        (state.callers.fetch_add(1, Ordering::Relaxed) < CALLERS_MAX).then_some(place)
    }
}

impl Drop for CallerPlace {
    fn drop(&mut self) {
        self.state.callers.fetch_sub(1, Ordering::Relaxed);
    }
}
