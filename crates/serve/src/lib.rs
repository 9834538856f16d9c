//! A server without a trial, for external clients: an echo, a sink or a source.
//!
//! It runs on the measured engines, without commands: it serves from the moment it listens until it is stopped, and counts the
//! bytes that it moved. It has no window: the client measures.

#![forbid(unsafe_code)]

mod flow;

pub use flow::{ServeFlow, ServeRole};

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bytegauge_model::{Engine, Place};
use bytegauge_sys::{cpu_time, option, resource_limit};
use bytegauge_traffic::end::thread_group::{EndPlan, Flags, ThreadGroup, ThreadResults, ThreadStart};
use bytegauge_traffic::engine::{self, Station};
use bytegauge_traffic::flow::Party;
use bytegauge_traffic::meter::{Meter, Schedule};
use bytegauge_traffic::{EndError, address};

/// Most bytes of one receive.
const READ_SIZE: usize = 64 << 10;

/// How long the threads may take to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Accepted connections.
    pub connections: u64,
    /// Received datagrams.
    pub datagrams: u64,
    /// Connections that failed rather than ended, and datagrams that could not be returned.
    pub broken: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// CPU time of the whole process since the server began, nanoseconds.
    pub cpu_ns: u64,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    group: ThreadGroup<Result<Served, EndError>>,
    place: Place,
    cpu_before_ns: u64,
}

impl Server {
    /// Listens, and serves in `threads` threads that share the listener; an engine with a thread per connection starts its
    /// own.
    ///
    /// # Errors
    /// [`EndError::Missing`] if the engine does not run here; [`EndError::Io`] if the place cannot be listened on.
    pub fn start(role: ServeRole, engine: Engine, threads: usize, place: &Place) -> Result<Server, EndError> {
        if let Some(reason) = engine::missing_requirement(engine) {
            return Err(EndError::Missing(reason));
        }
        if engine == Engine::Null {
            return Err(EndError::Impossible("engine null moves no bytes and cannot serve: use --engine epoll".into()));
        }
        // As many connections as this user may have; if the limit cannot be raised, the engine waits for room.
        resource_limit::raise_open_files();
        let cpu_before_ns = cpu_time::process_usage().total_ns;
        let (listener, place) = address::listen(&address::resolved(place)?)?;
        let listener = Arc::new(listener);
        let threads = if engine.has_thread_a_flow() { 1 } else { threads.max(1) };
        let group = ThreadGroup::start(&plan(&place, threads), Flags::default(), |_| {
            let listener = Arc::clone(&listener);
            let clients = ServedClients { role, served: Served::default() };
            Box::new(move |mut start: ThreadStart<_>| {
                start.ready();
                serve(engine, clients, &listener, &start.flags)
            })
        });
        match group {
            Ok(group) => Ok(Server { group, place, cpu_before_ns }),
            Err(fault) => {
                address::clear(&place);
                Err(fault)
            }
        }
    }

    /// Returns every datagram that arrives at a UDP place, in `threads` threads that share the socket.
    ///
    /// # Errors
    /// As for [`Server::start`].
    pub fn echo_datagrams(threads: usize, place: &Place) -> Result<Server, EndError> {
        let cpu_before_ns = cpu_time::process_usage().total_ns;
        let (socket, place) = flow::bind(&address::resolved(place)?)?;
        let socket = Arc::new(socket);
        let group = ThreadGroup::start(&plan(&place, threads.max(1)), Flags::default(), |_| {
            let socket = Arc::clone(&socket);
            Box::new(move |mut start: ThreadStart<_>| {
                start.ready();
                flow::echo(&socket, &start.flags)
            })
        })?;
        Ok(Server { group, place, cpu_before_ns })
    }

    /// The place where it listens, with its port.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Whether a thread has ended without being stopped: [`stop`](Server::stop) returns the reason.
    pub fn is_failing(&self) -> bool {
        self.group.any_left()
    }

    /// Stops it and closes every connection. Returns its counts, and the fault if there was one.
    pub fn stop(self) -> (Served, Option<EndError>) {
        self.group.stop();
        let ThreadResults { parts, mut fault, .. } = self.group.finish(PATIENCE, None, || {});
        address::clear(&self.place);
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

fn plan(place: &Place, threads: usize) -> EndPlan {
    EndPlan::of(format!("serving on {place}"), "serve", vec![None; threads], "--threads")
}

fn serve(engine: Engine, mut clients: ServedClients, listener: &OwnedFd, flags: &Flags) -> Result<Served, EndError> {
    let forever = Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: true };
    let mut meter = Meter::start(&forever, 0);
    let buffer_size = engine::message_buffer(engine, READ_SIZE);
    let station =
        Station { listener: Some(listener.as_fd()), ..Station::new(buffer_size, &flags.abort, &flags.stop_requested) };
    engine::drive(engine, &mut clients, station, &mut meter)?;
    Ok(clients.served)
}

/// One thread's connections.
struct ServedClients {
    role: ServeRole,
    served: Served,
}

impl Party for ServedClients {
    type Flow = ServeFlow;

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ServeFlow> {
        self.served.connections += 1;
        // A part of a message must not wait for the acknowledgement of the part before it. Unix sockets have no such
        // delay, and refuse the option.
        let _ = option::set(connection, &option::NO_DELAY.to(true));
        Some(ServeFlow::new(self.role))
    }

    fn left(&mut self, flow: ServeFlow, _connection: Option<OwnedFd>) {
        self.served.received_bytes += flow.received;
        self.served.sent_bytes += flow.sent;
        self.served.broken += u64::from(flow.broke);
    }
}
