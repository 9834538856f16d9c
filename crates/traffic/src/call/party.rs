//! One thread's share of the clients, or of the server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use crate::call::arrival::{Arrival, Offered};
use crate::call::client::{Client, ClientFlow};
use crate::call::record::Record;
use crate::call::sample::Samples;
use crate::call::server::{Desk, ServerFlow};
use crate::call::setup::CallSetup;
use crate::call::socket::{self, Connector};
use crate::fault::Fault;
use crate::message::PathSetup;
use crate::party::Party;

/// A thread's share of the clients.
#[derive(Debug)]
pub struct Clients {
    setup: Arc<PathSetup>,
    call: Arc<CallSetup>,
    client: Arc<Client>,
    connector: Option<Arc<Connector>>,
    /// Threads that the flows are dealt to in turn, and which of them this is.
    thread: (usize, usize),
    begun: usize,
    joined: std::vec::IntoIter<OwnedFd>,
    start_ns: u64,
    /// Where flows record; several, so that the threads of an engine with a thread a flow seldom meet.
    shards: Vec<Arc<Mutex<Record>>>,
    samples: Samples,
    /// Connections whose flows are done: a server that is looked at while they are open has something to show.
    kept: Vec<OwnedFd>,
}

impl Clients {
    /// The clients of thread `thread.1` of `thread.0`, with their connections where these persist.
    pub fn new(
        setup: &Arc<PathSetup>,
        call: &Arc<CallSetup>,
        client: Arc<Client>,
        connector: Option<Arc<Connector>>,
        thread: (usize, usize),
        joined: Vec<OwnedFd>,
        shards: usize,
        start_ns: u64,
    ) -> Clients {
        let shard = |_| Arc::new(Mutex::new(Record::new(client.open_ns, client.close_ns, client.connect_per_call)));
        Clients {
            setup: Arc::clone(setup),
            call: Arc::clone(call),
            shards: (0..shards.max(1)).map(shard).collect(),
            client,
            connector,
            thread,
            begun: 0,
            joined: joined.into_iter(),
            start_ns,
            samples: Samples::new(&setup.transport),
            kept: Vec::new(),
        }
    }

    /// The next flow, without a connection.
    pub fn next_flow(&mut self, joined: bool) -> Option<ClientFlow> {
        let (threads, thread) = self.thread;
        let flow = thread + self.begun * threads;
        if flow >= self.setup.flows {
            return None;
        }
        let arrival = match self.call.rate {
            Some(rate) => {
                let offered = Offered { rate, arrivals: self.call.arrivals, flows: self.setup.flows };
                Arrival::open(self.start_ns, offered, flow, self.setup.seed)
            }
            None => Arrival::closed(self.start_ns, self.setup.think_ns),
        };
        let shard = Arc::clone(&self.shards[self.begun % self.shards.len()]);
        self.begun += 1;
        Some(ClientFlow::new(Arc::clone(&self.client), shard, flow, arrival, joined))
    }

    /// What the thread's flows recorded, what the kernel says of some connections, and all that are still open.
    pub fn into_parts(self) -> (Vec<Arc<Mutex<Record>>>, Samples, Vec<OwnedFd>) {
        (self.shards, self.samples, self.kept)
    }
}

impl Party for Clients {
    type Flow = ClientFlow;

    fn first(&mut self) -> Option<(ClientFlow, Option<OwnedFd>)> {
        let fd = self.joined.next();
        self.next_flow(fd.is_some()).map(|flow| (flow, fd))
    }

    fn accepted(&mut self, _connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ClientFlow> {
        None
    }

    fn connect(&mut self, _flow: &mut ClientFlow) -> io::Result<OwnedFd> {
        let connector = self.connector.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let fd = connector.begin()?;
        if self.call.connect_per_call {
            // The engine closes these; on loopback they are mostly established by now.
            self.samples.look(fd.as_fd());
        }
        Ok(fd)
    }

    fn left(&mut self, flow: ClientFlow, connection: Option<OwnedFd>) {
        if let Some(fd) = connection {
            self.samples.look(fd.as_fd());
            self.kept.push(fd);
        }
        flow.hand_in();
    }
}

/// A thread's share of the server.
#[derive(Debug)]
pub struct Servers {
    setup: Arc<PathSetup>,
    call: Arc<CallSetup>,
    desk: Arc<Desk>,
    samples: Samples,
    refused: Option<Fault>,
}

impl Servers {
    /// A thread that accepts.
    pub fn new(setup: &Arc<PathSetup>, call: &Arc<CallSetup>, desk: Arc<Desk>) -> Servers {
        Servers {
            setup: Arc::clone(setup),
            call: Arc::clone(call),
            desk,
            samples: Samples::new(&setup.transport),
            refused: None,
        }
    }

    /// What the kernel says of some connections, and what was wrong with one of their options.
    pub fn into_parts(self) -> (Samples, Option<Fault>) {
        (self.samples, self.refused)
    }
}

impl Party for Servers {
    type Flow = ServerFlow;

    fn first(&mut self) -> Option<(ServerFlow, Option<OwnedFd>)> {
        None
    }

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ServerFlow> {
        if let Err(error) = socket::dress_accepted(connection, &self.setup, &self.call) {
            self.refused.get_or_insert(Fault::Missing(error.to_string()));
            return None;
        }
        if self.call.connect_per_call {
            self.samples.look(connection);
        }
        Some(ServerFlow::new(Arc::clone(&self.desk)))
    }

    fn connect(&mut self, _flow: &mut ServerFlow) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn left(&mut self, _flow: ServerFlow, connection: Option<OwnedFd>) {
        if let Some(fd) = connection {
            self.samples.look(fd.as_fd());
        }
    }
}
