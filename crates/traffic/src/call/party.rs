//! One thread's share of the clients, or of the server, and the kernel's facts about some of its connections: options in force, window
//! scales, memory.
//!
//! A few connections represent all: thousands have equal settings, and querying the kernel costs system calls in the trial.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytegauge_model::{EndRole, Engine, FlowReport};
use bytegauge_sys::option::SocketOption;

use crate::call::client::{Client, ClientFlow};
use crate::call::client_counts::ClientCounts;
use crate::call::datagram::{DatagramFlow, dropped_at};
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

/// A thread's share of the clients before the start is known: connections and memory.
#[derive(Debug)]
pub struct Waiting {
    setup: Arc<Setup>,
    connector: Option<Arc<Connector>>,
    /// The number of threads among which flows are distributed, and the number of this one.
    thread: (usize, usize),
    joined: Vec<OwnedFd>,
    /// Flows that have not begun.
    left: usize,
    /// Where flows record.
    record: ClientCounts,
}

/// A thread's share of the clients.
#[derive(Debug)]
pub struct Clients {
    waiting: Waiting,
    client: Arc<Client>,
    start_ns: u64,
    begun: usize,
    records: Records,
    samples: Samples,
    /// Connections of finished flows, kept open so that the server's sockets can be sampled.
    kept: Vec<OwnedFd>,
}

impl Waiting {
    /// The clients of thread `thread.1` of `thread.0`, with their connections if these persist.
    pub fn new(
        setup: &Arc<Setup>,
        connector: Option<Arc<Connector>>,
        thread: (usize, usize),
        joined: Vec<OwnedFd>,
    ) -> Waiting {
        let (threads, index) = thread;
        let flows = (setup.flows() + threads - 1 - index) / threads;
        Waiting {
            setup: Arc::clone(setup),
            connector,
            thread,
            joined,
            left: flows,
            record: ClientCounts::new(setup.connect_per_call(), setup.waits()),
        }
    }

    /// The clients, from `start_ns` on, in the thread that drives them. They count completed calls in `completed`.
    pub fn begin(mut self, client: Arc<Client>, start_ns: u64, completed: &Arc<Total<1>>) -> Clients {
        let mut record = self.record.take();
        record.keep(client.open_ns, client.close_ns);
        let records = Records::new(record, records_by_flow(self.setup.client_engine()), completed);
        // Taken from the end.
        self.joined.reverse();
        let samples = Samples::new(&self.setup);
        Clients { waiting: self, client, start_ns, begun: 0, records, samples, kept: Vec::new() }
    }
}

/// Whether each flow has a record of its own. In the null engine each has: of the two ways to record, it shows the cost of the
/// slower one.
fn records_by_flow(engine: Engine) -> bool {
    engine.has_thread_a_flow() || engine == Engine::Null
}

impl Clients {
    /// The next flow.
    pub fn next_flow(&mut self, joined: bool) -> Option<ClientFlow> {
        self.waiting.left = self.waiting.left.checked_sub(1)?;
        let (flow, arrival, recorder) = self.next();
        Some(ClientFlow::new(Arc::clone(&self.client), recorder, flow, arrival, joined))
    }

    /// The next flow over datagrams, which sends at most `batch` at once, and its socket. Without a network it has none.
    pub fn next_datagram_flow(&mut self, batch: usize) -> Option<(DatagramFlow, Option<OwnedFd>)> {
        self.waiting.left = self.waiting.left.checked_sub(1)?;
        let fd = self.waiting.joined.pop();
        let (flow, arrival, recorder) = self.next();
        Some((DatagramFlow::new(Arc::clone(&self.client), recorder, flow, batch, arrival), fd))
    }

    /// A flow over datagrams is done, or the time is up.
    pub fn take_back(&mut self, flow: DatagramFlow, socket: Option<OwnedFd>) {
        flow.finish(socket.as_ref().map_or(0, |fd| dropped_at(fd.as_fd())));
        if let Some(fd) = socket {
            self.keep(fd);
        }
    }

    /// Number, schedule and recorder of the next flow.
    fn next(&mut self) -> (usize, Arrival, Recorder) {
        let Waiting { setup, thread: (threads, thread), .. } = &self.waiting;
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
        &self.waiting.setup
    }

    /// Begins to connect another socket to the server.
    ///
    /// # Errors
    /// As [`Connector::begin`].
    pub fn begin_socket(&self) -> io::Result<OwnedFd> {
        let connector = self.waiting.connector.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected))?;
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
        let fd = self.waiting.joined.pop();
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
        let connector = Arc::clone(self.waiting.connector.as_ref()?);
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
    setup: Arc<Setup>,
    /// The state given to each accepted connection.
    options: Vec<SocketOption>,
    connect_per_call: bool,
    /// Whether callers of an agent connect here too.
    shares_port: bool,
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
    pub fn new(setup: &Arc<Setup>, shared: Arc<ServerShared>) -> Servers {
        Servers {
            setup: Arc::clone(setup),
            options: options::wanted(&setup.spec, (EndRole::Server, Moment::Accepted), setup.transport()),
            connect_per_call: setup.connect_per_call(),
            shares_port: setup.shares_port(),
            served: (!setup.server_engine().has_thread_a_flow()).then(|| Arc::new(shared.watched().counter())),
            shared,
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
            None => self.idle_work.pop().or_else(|| ReaderWork::of(&self.setup)),
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
        if let Err(error) = options::try_set_all(connection, &self.options) {
            self.refused.get_or_insert(EndError::Missing(error.to_string()));
            return None;
        }
        if let Err(fault) = tls::encrypt(connection, &self.setup, TlsRole::Server) {
            self.refused.get_or_insert(fault);
            return None;
        }
        let flow = ServerFlow::new(self.worker(), connection)?;
        if self.connect_per_call {
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
            (Some(fd), Some(received)) if self.shares_port => agent_callers::pass_on(&fd, received),
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
    found: Vec<FlowReport>,
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

    /// The samples.
    pub fn into_reports(self) -> Vec<FlowReport> {
        self.found
    }
}
