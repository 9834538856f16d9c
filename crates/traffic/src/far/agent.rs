//! The agent: listens, hears callers out within a deadline, and gives each that has the key a session.
//!
//! A caller costs a thread and a few hundred bytes until it has shown that it has the key, for at most
//! [`HEARING`]; there are never more than [`CALLERS_MAX`] of them. Who comes when there are so many takes the seat of whoever has
//! been heard longest without showing it: strangers who say nothing lock nobody out.

use std::collections::BTreeMap;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytegauge_sys::socket::{Until, wait};
use bytegauge_wire::Key;
use serde_json::Value;

use crate::astray;
use crate::far::limits::Limits;
use crate::far::refused::Refused;
use crate::far::session::{self, Parted};
use crate::far::slots::Slots;
use crate::far::standing::Standing;
use crate::fault::Fault;
use crate::relay;
use bytegauge_model::relay::RELAY_METHODS;
use bytegauge_model::{Place, RelayMethod};

/// How long a caller may take to show that it has the key and to say what it wants.
pub(super) const HEARING: Duration = Duration::from_secs(10);

/// Callers at a time, those that measure among them.
const CALLERS_MAX: usize = 64;

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
    /// This machine, as sessions record one: told to whoever measures.
    pub machine: fn() -> Value,
    /// Who is told of who measured what.
    pub log: fn(&str),
}

/// What all sessions of an agent share.
pub(super) struct Office {
    pub(super) setup: AgentSetup,
    pub(super) slots: Arc<Slots>,
    pub(super) standing: Standing,
    /// Where ends listen: at the agent's own port, or 0, at any.
    pub(super) data_port: u16,
    /// Methods of a relay that this machine does not have, and why.
    pub(super) missing_relays: BTreeMap<String, String>,
    /// Who is heard or measures.
    callers: AtomicUsize,
    /// Of them who has not shown the key yet, by number: who came first stands first.
    strangers: Mutex<BTreeMap<u64, TcpStream>>,
    /// Who ever called.
    called: AtomicU64,
    /// Callers without the key, as far as the log tells of them.
    refused: Mutex<Refused>,
}

/// An agent that listens.
pub struct Agent {
    listener: TcpListener,
    office: Arc<Office>,
}

impl Agent {
    /// Listens at a place.
    ///
    /// # Errors
    /// [`Fault::Missing`] with the next step where nobody can listen there.
    pub fn listen(place: &Place, setup: AgentSetup) -> Result<Agent, Fault> {
        if !matches!(place, Place::Ip(_)) {
            return Err(Fault::Missing(format!("an agent listens on TCP, not at {place}: give ADDRESS:PORT")));
        }
        // Of several at a time nobody could say whose a connection is before it is made.
        let mut shares_port = setup.limits.sessions == 1;
        let (listener, _) = crate::place::listen_when(place, |socket| {
            if shares_port && let Err(fault) = astray::give_way(socket) {
                (setup.log)(&format!("data connections go to ports of their own: this one cannot be shared ({fault})"));
                shares_port = false;
            }
        })?;
        let listener: TcpListener = listener.into();
        let port = listener.local_addr().map_err(Fault::io("reading the agent's port"))?.port();
        let office = Office {
            slots: Slots::new(setup.limits.sessions),
            standing: Standing::default(),
            data_port: if shares_port { port } else { 0 },
            missing_relays: missing_relays(),
            callers: AtomicUsize::new(0),
            strangers: Mutex::default(),
            called: AtomicU64::new(0),
            refused: Mutex::default(),
            setup,
        };
        Ok(Agent { listener, office: Arc::new(office) })
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
        // Descriptors that run out do so for every caller anew.
        let mut told_of_none: Option<Instant> = None;
        while !stop.load(Ordering::Relaxed) {
            let comes = matches!(wait(self.listener.as_fd(), Until::Readable, LOOK_AFTER_NS), Ok(Some(_)));
            self.office.tell_of_refused(|refused| refused.look(Instant::now()));
            if !comes {
                continue;
            }
            let (stream, peer) = match self.listener.accept() {
                Ok(caller) => caller,
                Err(error) if bytegauge_sys::socket::is_exhausted(&error) => {
                    if told_of_none.is_none_or(|told| told.elapsed() >= EXHAUSTED_EVERY) {
                        told_of_none = Some(Instant::now());
                        (self.office.setup.log)(&format!("no caller can be heard ({error}): raise ulimit -n"));
                    }
                    std::thread::sleep(Duration::from_nanos(LOOK_AFTER_NS));
                    continue;
                }
                // It left meanwhile.
                Err(_) => continue,
            };
            self.office.hear(stream, peer, Vec::new());
        }
        self.office.tell_of_refused(|refused| refused.rest(Instant::now()));
    }
}

fn missing_relays() -> BTreeMap<String, String> {
    let lacks = |method: RelayMethod| match method.needs_privileges() {
        true => Some(format!("no agent runs {method}, which needs privileges")),
        false => relay::lacks(method),
    };
    RELAY_METHODS.iter().filter_map(|row| Some((row.name.to_owned(), lacks(row.value)?))).collect()
}

impl Office {
    /// Gives a caller a thread. Some of its first words were read already.
    pub(super) fn hear(self: &Arc<Office>, stream: TcpStream, peer: SocketAddr, said: Vec<u8>) {
        let number = self.called.fetch_add(1, Ordering::Relaxed);
        let Some(seat) = Seat::taken(self, number, &stream) else {
            self.refuse(peer, &format!("was sent away: {CALLERS_MAX} callers are being heard"));
            return;
        };
        let started =
            std::thread::Builder::new().name(format!("caller-{number}")).spawn(move || {
                match session::carry(&seat, (stream, &said), peer) {
                    Parted::Known(did) => (seat.office.setup.log)(&format!("{peer} {did}")),
                    Parted::Stranger(why) => seat.office.refuse(peer, &why),
                }
            });
        if let Err(error) = started {
            self.refuse(peer, &format!("was sent away: no thread can be made ({error})"));
        }
    }

    /// Tells of a caller who has not shown the key, if it is one of the first of a minute.
    fn refuse(&self, peer: SocketAddr, why: &str) {
        self.tell_of_refused(|refused| refused.enter(Instant::now(), peer, why));
    }

    fn tell_of_refused<L: IntoIterator<Item = String>>(&self, lines: impl FnOnce(&mut Refused) -> L) {
        let due = lines(&mut self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        due.into_iter().for_each(|line| (self.setup.log)(&line));
    }

    fn strangers(&self) -> MutexGuard<'_, BTreeMap<u64, TcpStream>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the callers that are heard, until it is dropped, however its thread ends.
pub(super) struct Seat {
    pub(super) office: Arc<Office>,
    pub(super) number: u64,
}

impl Seat {
    /// A seat for a stranger. `None` if all are taken by callers who have shown the key.
    fn taken(office: &Arc<Office>, number: u64, stream: &TcpStream) -> Option<Seat> {
        // Without a copy of its connection nobody could send it away.
        let copy = stream.try_clone().ok()?;
        let seat = Seat { office: Arc::clone(office), number };
        let is_full = office.callers.fetch_add(1, Ordering::Relaxed) >= CALLERS_MAX;
        let mut strangers = office.strangers();
        if is_full {
            let (_, first) = strangers.pop_first()?;
            // Its thread hears that nothing more comes, and leaves.
            let _ = first.shutdown(Shutdown::Both);
        }
        strangers.insert(number, copy);
        drop(strangers);
        Some(seat)
    }

    /// It has shown the key: nobody takes its seat any more.
    pub(super) fn is_known(&self) {
        self.office.strangers().remove(&self.number);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.is_known();
        self.office.callers.fetch_sub(1, Ordering::Relaxed);
    }
}
