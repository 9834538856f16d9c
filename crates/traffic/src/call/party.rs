//! One thread's share of the clients, or of the server.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use bytegauge_model::option::Setter;
use bytegauge_sys::option::SocketOption;

use crate::astray;
use crate::call::arrival::{Arrival, Offered};
use crate::call::client::{Client, ClientFlow};
use crate::call::datagram::DatagramFlow;
use crate::call::record::Record;
use crate::call::sample::Samples;
use crate::call::server::{Desk, ServerFlow};
use crate::call::setup::CallSetup;
use crate::call::socket::Connector;
use crate::fault::Fault;
use crate::party::Party;
use crate::setup::Setup;
use crate::transport::options::{self, Moment};

/// A thread's share of the clients before anybody knows when it begins: connections and memory.
#[derive(Debug)]
pub struct Waiting {
    setup: Arc<Setup<CallSetup>>,
    connector: Option<Arc<Connector>>,
    /// Threads that the flows are dealt to in turn, and which of them this is.
    thread: (usize, usize),
    joined: Vec<OwnedFd>,
    /// Flows that have not begun.
    left: usize,
    /// Where flows record; several, so that the threads of an engine with a thread a flow seldom meet.
    shards: Vec<Arc<Mutex<Record>>>,
}

/// A thread's share of the clients.
#[derive(Debug)]
pub struct Clients {
    waiting: Waiting,
    client: Arc<Client>,
    start_ns: u64,
    begun: usize,
    samples: Samples,
    /// Connections whose flows are done: a server that is looked at while they are open has something to show.
    kept: Vec<OwnedFd>,
}

impl Waiting {
    /// The clients of thread `thread.1` of `thread.0`, with their connections where these persist.
    pub fn new(
        setup: &Arc<Setup<CallSetup>>,
        connector: Option<Arc<Connector>>,
        thread: (usize, usize),
        joined: Vec<OwnedFd>,
        shards: usize,
    ) -> Waiting {
        let (call, (threads, index)) = (&setup.task, thread);
        let flows = (call.path.flows + threads - 1 - index) / threads;
        let shard = |_| Arc::new(Mutex::new(Record::new(call.connect_per_call, call.waits())));
        Waiting {
            setup: Arc::clone(setup),
            connector,
            thread,
            joined,
            left: flows,
            shards: (0..shards.clamp(1, flows.max(1))).map(shard).collect(),
        }
    }

    /// The clients, from `start_ns` on.
    pub fn begin(mut self, client: Arc<Client>, start_ns: u64) -> Clients {
        for shard in &self.shards {
            shard.lock().unwrap_or_else(PoisonError::into_inner).keep(client.open_ns, client.close_ns);
        }
        // Taken from the end.
        self.joined.reverse();
        let samples = Samples::new(&self.setup);
        Clients { waiting: self, client, start_ns, begun: 0, samples, kept: Vec::new() }
    }
}

impl Clients {
    /// The next flow.
    pub fn next_flow(&mut self, joined: bool) -> Option<ClientFlow> {
        self.waiting.left = self.waiting.left.checked_sub(1)?;
        let (flow, arrival, shard) = self.next();
        Some(ClientFlow::new(Arc::clone(&self.client), shard, flow, arrival, joined))
    }

    /// The next flow over datagrams, and its socket, if it has one.
    pub fn next_datagram_flow(&mut self) -> (DatagramFlow, Option<OwnedFd>) {
        let fd = self.waiting.joined.pop();
        let (flow, arrival, shard) = self.next();
        (DatagramFlow::new(Arc::clone(&self.client), shard, flow, arrival), fd)
    }

    /// Flows that have a socket and have not begun.
    pub fn joined(&self) -> usize {
        self.waiting.joined.len()
    }

    /// Number, schedule and shard of the next flow.
    fn next(&mut self) -> (usize, Arrival, Arc<Mutex<Record>>) {
        let Waiting { setup, thread: (threads, thread), shards, .. } = &self.waiting;
        let call = &setup.task;
        let flow = *thread + self.begun * *threads;
        let arrival = match call.rate {
            Some(rate) => {
                let offered = Offered { rate, arrivals: call.arrivals, flows: call.path.flows };
                Arrival::open(self.start_ns, offered, flow, setup.seed)
            }
            None => Arrival::closed(self.start_ns, call.path.think_ns),
        };
        let shard = Arc::clone(&shards[self.begun % shards.len()]);
        self.begun += 1;
        (flow, arrival, shard)
    }

    /// What is called.
    pub fn call(&self) -> &CallSetup {
        &self.waiting.setup.task
    }

    /// Another socket towards the server.
    ///
    /// # Errors
    /// As [`Connector::join`].
    pub fn join(&self) -> Result<OwnedFd, Fault> {
        match &self.waiting.connector {
            Some(connector) => connector.join(),
            None => Err(Fault::Impossible("a client without a server has no sockets".into())),
        }
    }

    /// Looks at a socket whose flow is done, and keeps it open.
    pub fn keep(&mut self, fd: OwnedFd) {
        self.samples.look(fd.as_fd());
        self.kept.push(fd);
    }

    /// What the thread's flows recorded, what the kernel says of some connections, and all that are still open.
    pub fn into_parts(self) -> (Vec<Arc<Mutex<Record>>>, Samples, Vec<OwnedFd>) {
        (self.waiting.shards, self.samples, self.kept)
    }
}

impl Party for Clients {
    type Flow = ClientFlow;

    fn first(&mut self) -> Option<(ClientFlow, Option<OwnedFd>)> {
        let fd = self.waiting.joined.pop();
        self.next_flow(fd.is_some()).map(|flow| (flow, fd))
    }

    fn accepted(&mut self, _connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ClientFlow> {
        None
    }

    fn connect(&mut self, _flow: &mut ClientFlow) -> io::Result<OwnedFd> {
        let connector = self.waiting.connector.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        let fd = connector.begin()?;
        if self.client.connect_per_call {
            // The engine closes these; on loopback they are mostly established by now.
            self.samples.look(fd.as_fd());
        }
        Ok(fd)
    }

    fn left(&mut self, flow: ClientFlow, connection: Option<OwnedFd>) {
        if let Some(fd) = connection {
            self.keep(fd);
        }
        flow.hand_in();
    }
}

/// A thread's share of the server.
#[derive(Debug)]
pub struct Servers {
    /// What each accepted connection is given.
    options: Vec<SocketOption>,
    connect_per_call: bool,
    /// Whether callers of an agent come here too.
    shares_port: bool,
    desk: Arc<Desk>,
    samples: Samples,
    refused: Option<Fault>,
}

impl Servers {
    /// A thread that accepts.
    pub fn new(setup: &Arc<Setup<CallSetup>>, desk: Arc<Desk>) -> Servers {
        let CallSetup { path, connect_per_call, .. } = &setup.task;
        Servers {
            options: options::wanted(&path.options, (Setter::Server, Moment::Accepted), &path.transport),
            connect_per_call: *connect_per_call,
            shares_port: path.shares_port(),
            desk,
            samples: Samples::new(setup),
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
        if let Err(error) = options::try_set_all(connection, &self.options) {
            self.refused.get_or_insert(Fault::Missing(error.to_string()));
            return None;
        }
        let flow = ServerFlow::new(Arc::clone(&self.desk), connection)?;
        if self.connect_per_call {
            self.samples.look(connection);
        }
        Some(flow)
    }

    fn connect(&mut self, _flow: &mut ServerFlow) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn left(&mut self, flow: ServerFlow, connection: Option<OwnedFd>) {
        match (connection, flow.astray()) {
            (Some(fd), None) => self.samples.look(fd.as_fd()),
            (Some(fd), Some(said)) if self.shares_port => astray::pass_on(&fd, said),
            _ => {}
        }
    }
}
