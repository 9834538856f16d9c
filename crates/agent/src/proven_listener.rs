//! A listener whose callers have the key: that of an agent, and those of other services, such as rank 0 of a mesh.
//!
//! One thread serves all connections without a proof ([`crate::unproven`]): without a thread of their own, for a limited
//! time, and so that a host that opens many loses its own first.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::epoll::Events;
use bytegauge_sys::resource_limit::raise_open_files;
use bytegauge_traffic::EndError;
use bytegauge_wire::Key;

use crate::unproven::{PendingConns, PendingOutcome, ProvenCaller, TURN, Wake};

/// How often the listener checks whether to stop.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// A listener whose connections have to prove that they hold the key.
pub struct ProvenListener {
    listener: TcpListener,
    pending: PendingConns,
}

/// Something that a listener reports to its owner.
pub(super) enum ListenerEvent {
    /// A connection no longer waits.
    Settled(PendingOutcome),
    /// No connection can be accepted, for this reason: descriptors ran out.
    Exhausted(io::Error),
    /// Some time has passed.
    Passed(Instant),
}

impl ProvenListener {
    /// Takes over a listener. `version`: that of the callers' messages.
    ///
    /// # Errors
    /// [`EndError::Io`] if the kernel refuses to watch it.
    pub fn new(listener: TcpListener, key: Key, version: u16) -> Result<ProvenListener, EndError> {
        listener.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
        let open_files = raise_open_files().soft;
        let pending =
            PendingConns::new(&listener, (key, version), open_files).map_err(EndError::io("watching a port"))?;
        Ok(ProvenListener { listener, pending })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn place(&self) -> Result<SocketAddr, EndError> {
        self.listener.local_addr().map_err(EndError::io("reading a listener's port"))
    }

    /// Passes callers on until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, mut admit: impl FnMut(ProvenCaller)) {
        self.run(stop, |event| {
            if let ListenerEvent::Settled(PendingOutcome::Proven(caller)) = event {
                admit(caller);
            }
        });
    }

    /// Passes all events on until `stop` is set.
    pub(super) fn run(&self, stop: &AtomicBool, mut handle: impl FnMut(ListenerEvent)) {
        let mut events = Events::with_room(TURN);
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            for wake in self.pending.wait(&mut events, LOOK_AFTER.as_nanos() as u64) {
                match wake {
                    Wake::Listener => self.accept(&mut handle),
                    Wake::Pending(number) => {
                        self.pending.serve(number).map(ListenerEvent::Settled).into_iter().for_each(&mut handle);
                    }
                }
            }
            let now = Instant::now();
            if now.saturating_duration_since(looked) >= LOOK_AFTER {
                looked = now;
                self.pending.expire(now).into_iter().map(ListenerEvent::Settled).for_each(&mut handle);
                handle(ListenerEvent::Passed(now));
            }
        }
    }

    /// Accepts waiting connections, a few at a time.
    fn accept(&self, handle: &mut impl FnMut(ListenerEvent)) {
        let (outcomes, exhausted) = self.pending.accept(&self.listener);
        let must_rest = exhausted.is_some() && outcomes.is_empty();
        exhausted.map(ListenerEvent::Exhausted).into_iter().for_each(&mut *handle);
        outcomes.into_iter().map(ListenerEvent::Settled).for_each(handle);
        if must_rest {
            std::thread::sleep(LOOK_AFTER);
        }
    }

    /// Adds a connection of which an end has already read `received`. The outcomes: its own, and that of a connection removed
    /// to make room.
    pub(super) fn add(&self, stream: TcpStream, peer: SocketAddr, received: &[u8]) -> Vec<PendingOutcome> {
        self.pending.add(stream, peer, received)
    }
}
