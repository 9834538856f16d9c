//! A listener for other services than an agent whose callers have the agent's key, such as rank 0 of a mesh.
//!
//! Connections without a proof are kept as an agent keeps them ([`crate::unproven`]): without a thread, for a limited
//! time, and so that a host that opens many loses its own first.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::epoll::Events;
use bytegauge_sys::process;
use bytegauge_traffic::end_error::EndError;
use bytegauge_wire::{Key, LineError, Proven, Receiver, Sender};

use crate::unproven::{Caller, PendingConns, PendingOutcome, TURN, Wake};

/// How often the listener checks whether to stop.
const LOOK_AFTER: Duration = Duration::from_millis(250);

/// A listener whose connections have to prove that they hold the key.
pub struct ProvenListener {
    listener: TcpListener,
    pending: PendingConns,
}

/// A connection that has proved that its peer holds the key and is alive.
pub struct ProvenCaller {
    stream: TcpStream,
    proven: Box<Proven>,
    /// The address of the peer.
    pub peer: SocketAddr,
    /// When its first message must have been received.
    pub until: Instant,
}

impl ProvenListener {
    /// Takes over a listener. `version`: that of the callers' messages.
    ///
    /// # Errors
    /// [`EndError::Io`] if the kernel refuses to watch it.
    pub fn new(listener: TcpListener, key: Key, version: u16) -> Result<ProvenListener, EndError> {
        listener.set_nonblocking(true).map_err(EndError::io("making a listener not block"))?;
        // If the number of descriptors is unknown, a small one is assumed.
        let open_files = process::raise_open_files().or_else(|_| process::open_files()).map_or(0, |limit| limit.soft);
        let pending =
            PendingConns::new(&listener, (key, version), open_files).map_err(EndError::io("watching a port"))?;
        Ok(ProvenListener { listener, pending })
    }

    /// Passes callers on until `stop` is set.
    pub fn serve(&self, stop: &AtomicBool, mut admit: impl FnMut(ProvenCaller)) {
        let mut events = Events::with_room(TURN);
        let mut looked = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let mut outcomes: Vec<PendingOutcome> = Vec::new();
            for wake in self.pending.wait(&mut events, LOOK_AFTER.as_nanos() as u64) {
                match wake {
                    Wake::Listener => {
                        let (news, exhausted) = self.pending.accept(&self.listener);
                        if exhausted.is_some() && news.is_empty() {
                            std::thread::sleep(LOOK_AFTER);
                        }
                        outcomes.extend(news);
                    }
                    Wake::Pending(number) => outcomes.extend(self.pending.serve(number)),
                }
            }
            let now = Instant::now();
            if now.saturating_duration_since(looked) >= LOOK_AFTER {
                looked = now;
                self.pending.expire(now);
            }
            for outcome in outcomes {
                if let PendingOutcome::Proven(Caller { stream, peer, proven, until }) = outcome {
                    admit(ProvenCaller { stream, proven, peer, until });
                }
            }
        }
    }
}

impl ProvenCaller {
    /// The address of this host that the peer reached.
    ///
    /// # Errors
    /// If the connection is gone.
    pub fn near(&self) -> std::io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// The line to the caller.
    ///
    /// # Errors
    /// [`LineError::Broken`] if the connection is gone.
    pub fn line(self) -> Result<(Sender, Receiver), LineError> {
        self.proven.line(self.stream)
    }
}
