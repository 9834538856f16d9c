//! A server that stands alone, for clients that are not ours: an echo, a sink or a source.
//!
//! It runs on the engines that are measured, and nobody commands it: it serves from the moment it listens until
//! it is stopped, and counts what it moved. Never measures a window: what is to be measured is the client's.

mod datagram;
mod flow;
pub mod iperf3;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytegauge_model::{Engine, Place};
use bytegauge_sys::option;
use bytegauge_sys::{cpu_time, limit};

use crate::end::crew::{Crew, Flags, LARGE_STACK, Left, Post, Roster};
use crate::engine::{self, Station};
use crate::fault::Fault;
use crate::meter::{Meter, Schedule};
use crate::party::Party;
use crate::place;

pub use flow::{ServeFlow, ServeRole};

/// Most bytes of one receive.
const READ_SIZE: usize = 64 << 10;

/// How long the threads may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a server did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections that were accepted.
    pub connections: u64,
    /// Datagrams that came in.
    pub datagrams: u64,
    /// Connections that broke rather than ended, and datagrams that could not be returned.
    pub broken: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// CPU time of the whole process since the server began, nanoseconds.
    pub cpu_ns: u64,
}

/// A server at work.
#[derive(Debug)]
pub struct Server {
    crew: Crew<Result<Served, Fault>>,
    place: Place,
    cpu_before_ns: u64,
}

impl Server {
    /// Listens, and serves in `threads` threads that share the listener; an engine with a thread a connection
    /// makes its own.
    ///
    /// # Errors
    /// [`Fault::Missing`] if the engine does not run here; [`Fault::Io`] if the place cannot be listened on.
    pub fn start(role: ServeRole, engine: Engine, threads: usize, place: &Place) -> Result<Server, Fault> {
        if let Some(reason) = engine::lacks(engine) {
            return Err(Fault::Missing(reason));
        }
        if engine == Engine::Null {
            return Err(Fault::Impossible("engine null moves no bytes and cannot serve: use --engine epoll".into()));
        }
        // As many connections as this user may have; where it cannot be raised, the engine waits for room.
        let _ = limit::raise_open_files();
        let cpu_before_ns = cpu_time::process_usage().total_ns;
        let (listener, place) = place::listen(&place::resolved(place)?)?;
        let listener = Arc::new(listener);
        let threads = if engine.has_thread_a_flow() { 1 } else { threads.max(1) };
        let crew = Crew::start(roster(&place, threads), Flags::default(), |_| {
            let listener = Arc::clone(&listener);
            let guests = AcceptedGuests { role, served: Served::default() };
            let run = move |mut post: Post<_>| {
                post.ready();
                serve(engine, guests, &listener, &post.flags)
            };
            (Vec::new(), run)
        });
        match crew {
            Ok(crew) => Ok(Server { crew, place, cpu_before_ns }),
            Err(fault) => {
                place::clear(&place);
                Err(fault)
            }
        }
    }

    /// Returns every datagram that comes to a place of UDP, in `threads` threads that share the socket.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn echo_datagrams(threads: usize, place: &Place) -> Result<Server, Fault> {
        let cpu_before_ns = cpu_time::process_usage().total_ns;
        let (socket, place) = datagram::bind(&place::resolved(place)?)?;
        let socket = Arc::new(socket);
        let crew = Crew::start(roster(&place, threads.max(1)), Flags::default(), |_| {
            let socket = Arc::clone(&socket);
            let run = move |mut post: Post<_>| {
                post.ready();
                datagram::echo(&socket, &post.flags)
            };
            (Vec::new(), run)
        })?;
        Ok(Server { crew, place, cpu_before_ns })
    }

    /// Where it listens, with the port that it got.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a thread has ended although nobody stopped it: [`stop`](Server::stop) says why.
    pub fn is_failing(&self) -> bool {
        self.crew.any_left()
    }

    /// Ends it: every connection is closed as it is. What it did, and what went wrong.
    pub fn stop(self) -> (Served, Option<Fault>) {
        self.crew.tell();
        let Left { parts, mut fault, .. } = self.crew.finish(PATIENCE, None, || {});
        place::clear(&self.place);
        let mut served = Served::default();
        for part in parts {
            match part {
                Ok(part) => {
                    served.connections += part.connections;
                    served.datagrams += part.datagrams;
                    served.broken += part.broken;
                    served.received_bytes += part.received_bytes;
                    served.sent_bytes += part.sent_bytes;
                }
                Err(reason) => fault = fault.or(Some(reason)),
            }
        }
        served.cpu_ns = cpu_time::process_usage().total_ns.saturating_sub(self.cpu_before_ns);
        (served, fault)
    }
}

fn roster(place: &Place, threads: usize) -> Roster {
    Roster {
        what: format!("serving on {place}"),
        name: "serve",
        cpus: vec![None; threads],
        fewer: "--threads",
        stack: LARGE_STACK,
        own_tables: false,
        waits: false,
    }
}

fn serve(engine: Engine, mut guests: AcceptedGuests, listener: &OwnedFd, flags: &Flags) -> Result<Served, Fault> {
    let forever = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_told: true };
    let mut meter = Meter::start(&forever, 0);
    let buffer_size = engine::message_buffer(engine, READ_SIZE);
    let station = Station { listener: Some(listener.as_fd()), buffer_size, abort: &flags.abort, told: &flags.told };
    engine::drive(engine, &mut guests, station, &mut meter)?;
    Ok(guests.served)
}

/// One thread's connections.
struct AcceptedGuests {
    role: ServeRole,
    served: Served,
}

impl Party for AcceptedGuests {
    type Flow = ServeFlow;

    fn first(&mut self) -> Option<(ServeFlow, Option<OwnedFd>)> {
        None
    }

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ServeFlow> {
        self.served.connections += 1;
        // A part of a message shall not wait for the acknowledgement of the part before it. Unix sockets know no
        // such wait, and refuse.
        let _ = option::set(connection, &option::NO_DELAY.to(true));
        Some(ServeFlow::new(self.role))
    }

    fn connect(&mut self, _flow: &mut ServeFlow) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn left(&mut self, flow: ServeFlow, _connection: Option<OwnedFd>) {
        self.served.received_bytes += flow.received;
        self.served.sent_bytes += flow.sent;
        self.served.broken += u64::from(flow.broke);
    }
}
