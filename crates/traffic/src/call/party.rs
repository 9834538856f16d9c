//! One thread's share of the clients, or of the server, and the kernel's facts about some of its connections: options in force, window
//! scales, memory.
//!
//! A few connections represent all: thousands have equal settings, and querying the kernel costs system calls in the trial.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytegauge_model::{EndRole, Engine, FlowReport};
use bytegauge_sys::option::SocketOption;
use bytegauge_sys::socket_memory::drops;

use crate::call::client::{Client, ClientFlow};
use crate::call::client_counts::ClientCounts;
use crate::call::datagram::DatagramFlow;
use crate::call::recorder::{Recorder, Records};
use crate::call::schedule::{Arrival, Offered};
use crate::call::server::ServerFlow;
use crate::call::server_worker::{ServerShared, ServerWorker};
use crate::call::socket::Connector;
use crate::counter::{ThreadCounter, Total};
use crate::flow::{Opener, Party};
use crate::setup::Setup;
use crate::stream::ReaderWork;
use crate::tls::{self, TlsRole};
use crate::transport::options::{self, Moment};
use crate::{EndError, agent_callers};

/// A thread's share of the clients before the start is known.
#[derive(Debug)]
pub struct ClientShare {
    /// The trial.
    pub setup: Arc<Setup>,
    /// Opens connections; absent without a network.
    pub connector: Option<Arc<Connector>>,
    /// The number of threads among which flows are distributed, and the number of this one.
    pub thread: (usize, usize),
    /// The connections of its flows, if these persist.
    pub joined: Vec<OwnedFd>,
}

/// A thread's share of the clients.
#[derive(Debug)]
pub struct Clients {
    share: ClientShare,
    client: Arc<Client>,
    start_ns: u64,
    begun: usize,
    /// Flows that have not begun.
    left: usize,
    records: Records,
    samples: Samples,
    /// Connections of finished flows, kept open so that the server's sockets can be sampled.
    kept: Vec<OwnedFd>,
}

impl Clients {
    /// The clients, from `start_ns` on, in the thread that drives them. They record in `record`, and count completed calls in
    /// `completed`.
    pub fn new(
        mut share: ClientShare,
        client: Arc<Client>,
        mut record: ClientCounts,
        start_ns: u64,
        completed: &Arc<Total<1>>,
    ) -> Clients {
        record.keep(client.open_ns, client.close_ns);
        let (setup, (threads, index)) = (&share.setup, share.thread);
        let left = (setup.flows() + threads - 1 - index) / threads;
        let engine = setup.client_engine();
        // In the null engine each flow has a record of its own: of the two ways to record, it shows the cost of the slower one.
        let records = Records::new(record, engine.has_thread_a_flow() || engine == Engine::Null, completed);
        let samples = Samples::new(setup);
        // Taken from the end.
        share.joined.reverse();
        Clients { share, client, start_ns, begun: 0, left, records, samples, kept: Vec::new() }
    }

    /// The next flow.
    pub fn next_flow(&mut self, joined: bool) -> Option<ClientFlow> {
        self.left = self.left.checked_sub(1)?;
        let (flow, arrival, recorder) = self.next();
        Some(ClientFlow::new(Arc::clone(&self.client), recorder, flow, arrival, joined))
    }

    /// The next flow over datagrams, which sends at most `batch` at once, and its socket. Without a network it has none.
    pub fn next_datagram_flow(&mut self, batch: usize) -> Option<(DatagramFlow, Option<OwnedFd>)> {
        self.left = self.left.checked_sub(1)?;
        let fd = self.share.joined.pop();
        let (flow, arrival, recorder) = self.next();
        Some((DatagramFlow::new(Arc::clone(&self.client), recorder, flow, batch, arrival), fd))
    }

    /// A flow over datagrams is done, or the time is up.
    pub fn take_back(&mut self, flow: DatagramFlow, socket: Option<OwnedFd>) {
        flow.finish(socket.as_ref().and_then(|fd| drops(fd.as_fd()).ok()).unwrap_or(0));
        if let Some(fd) = socket {
            self.keep(fd);
        }
    }

    /// Number, schedule and recorder of the next flow.
    fn next(&mut self) -> (usize, Arrival, Recorder) {
        let ClientShare { setup, thread: (threads, thread), .. } = &self.share;
        let flow = *thread + self.begun * *threads;
        let arrival = match setup.rate() {
            Some(rate) => {
                let offered = Offered { rate, arrivals: setup.arrivals(), flows: setup.flows() };
                Arrival::open(self.start_ns, offered, flow, setup.seed)
            }
            None => Arrival::closed(self.start_ns, setup.think_ns(), flow, setup.flows()),
        };
        let recorder = self.records.recorder();
        self.begun += 1;
        (flow, arrival, recorder)
    }

    /// The trial.
    pub fn setup(&self) -> &Setup {
        &self.share.setup
    }

    /// Begins to connect another socket to the server.
    ///
    /// # Errors
    /// As [`Connector::begin`].
    pub fn begin_socket(&self) -> io::Result<OwnedFd> {
        let connector = self.share.connector.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
        connector.begin()
    }

    /// Samples the socket of a finished flow, and keeps it open.
    fn keep(&mut self, fd: OwnedFd) {
        self.samples.sample(fd.as_fd());
        self.kept.push(fd);
    }

    /// The records of the thread's flows, the kernel's facts about some connections, and all open connections.
    pub fn into_parts(self) -> (ClientCounts, Samples, Vec<OwnedFd>) {
        (self.records.into_record(), self.samples, self.kept)
    }
}

impl Party for Clients {
    type Flow = ClientFlow;

    fn first(&mut self) -> Option<(ClientFlow, Option<OwnedFd>)> {
        let fd = self.share.joined.pop();
        self.next_flow(fd.is_some()).map(|flow| (flow, fd))
    }

    fn connect(&mut self, _flow: &mut ClientFlow) -> io::Result<OwnedFd> {
        let fd = self.begin_socket()?;
        if self.client.connect_per_call {
            // The engine closes these; on loopback most are established by now.
            self.samples.sample(fd.as_fd());
        }
        Ok(fd)
    }

    fn opener(&self) -> Option<Opener> {
        let connector = Arc::clone(self.share.connector.as_ref()?);
        Some(Arc::new(move || connector.begin()))
    }

    fn left(&mut self, flow: ClientFlow, connection: Option<OwnedFd>) {
        if let Some(fd) = connection {
            self.keep(fd);
        }
        flow.finish();
    }
}

/// A thread's share of the server.
#[derive(Debug)]
pub struct Servers {
    /// The state given to each accepted connection.
    options: Vec<SocketOption>,
    shared: Arc<ServerShared>,
    /// The counts of this thread's connections; absent if each has a thread of its own.
    served: Option<Arc<ThreadCounter<1>>>,
    /// The work of closed connections.
    idle_work: Vec<ReaderWork>,
    samples: Samples,
    refused: Option<EndError>,
}

impl Servers {
    /// A thread that accepts.
    pub fn new(shared: &Arc<ServerShared>) -> Servers {
        let setup = shared.setup();
        Servers {
            options: options::wanted(&setup.spec, (EndRole::Server, Moment::Accepted), setup.transport()),
            served: (!setup.server_engine().has_thread_a_flow()).then(|| Arc::new(shared.watched().counter())),
            shared: Arc::clone(shared),
            idle_work: Vec::new(),
            samples: Samples::new(setup),
            refused: None,
        }
    }

    fn worker(&mut self) -> ServerWorker {
        let served = self.served.clone().unwrap_or_else(|| Arc::new(self.shared.watched().counter()));
        // A client on another host has to send its ticket before memory is allocated for it (`ServerWorker::opens`).
        let work = match &self.shared.unadmitted {
            Some(_) => None,
            None => self.idle_work.pop().or_else(|| ReaderWork::of(self.shared.setup())),
        };
        ServerWorker::new(&self.shared, served, work)
    }

    /// The kernel's facts about some connections, and the fault in one of their options.
    pub fn into_parts(self) -> (Samples, Option<EndError>) {
        (self.samples, self.refused)
    }
}

impl Party for Servers {
    type Flow = ServerFlow;

    fn accepted(&mut self, connection: BorrowedFd<'_>, _now_ns: u64) -> Option<ServerFlow> {
        let set = options::set_all(connection, &self.options);
        if let Err(fault) = set.and_then(|()| tls::encrypt(connection, self.shared.setup(), TlsRole::Server)) {
            self.refused.get_or_insert(fault);
            return None;
        }
        let flow = ServerFlow::new(self.worker(), connection)?;
        if self.shared.connect_per_call {
            self.samples.sample(connection);
        }
        Some(flow)
    }

    fn left(&mut self, mut flow: ServerFlow, connection: Option<OwnedFd>) {
        if self.shared.unadmitted.is_none() {
            self.idle_work.extend(flow.worker.work.take());
        }
        match (connection, flow.unclaimed()) {
            (Some(fd), None) => self.samples.sample(fd.as_fd()),
            (Some(fd), Some(received)) if self.shared.setup().shares_port() => agent_callers::pass_on(&fd, received),
            _ => {}
        }
    }
}

/// Connections to sample per thread.
const SAMPLES: usize = 4;

/// The sampled connections of one thread.
#[derive(Debug)]
pub struct Samples {
    setup: Arc<Setup>,
    pub(crate) found: Vec<FlowReport>,
    /// Whether none of them was opened with data, and one is wanted: the first connections request their cookies.
    wants_syn_data: bool,
}

impl Samples {
    /// No sample yet.
    pub fn new(setup: &Arc<Setup>) -> Samples {
        let wants_syn_data = setup.spec.fastopen().is_some();
        Samples { setup: Arc::clone(setup), found: Vec::with_capacity(SAMPLES), wants_syn_data }
    }

    /// Samples a connection, if more are needed.
    pub fn sample(&mut self, fd: BorrowedFd<'_>) {
        if self.found.len() >= SAMPLES && !self.wants_syn_data {
            return;
        }
        let report = options::report(fd, &self.setup);
        let has_syn_data = report.tcp.as_ref().is_some_and(|tcp| tcp.syn_data == Some(true));
        if self.found.len() >= SAMPLES && has_syn_data {
            self.found.pop();
        }
        self.wants_syn_data &= !has_syn_data;
        if self.found.len() < SAMPLES {
            self.found.push(report);
        }
    }
}
