//! Calls over datagrams: a request is one datagram, its reply another, and either may be lost.
//!
//! Engines of connections move byte streams; here message boundaries and senders matter. So the client makes the calls of its
//! flows itself, and the server waits in a receive: on the loop of the blocking engine, or with io_uring on its own. Measurements and reports are the same: schedule,
//! record, classes of errors.

mod flow;
mod server;
mod socket;

pub use flow::DatagramFlow;
pub use socket::bind;
pub(crate) use socket::{Admissions, let_in};

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bytegauge_model::{CallDatagrams, Engine, EngineReport, EpollMode, UringKind};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::datagram::{Inbox, Outbox, is_too_long};
use bytegauge_sys::socket::{During, is_transient};

use crate::EndError;
use crate::call::datagram::server::DatagramResponder;
use crate::call::party::Clients;
use crate::call::server_worker::ServerShared;
use crate::end::thread_group::Flags;
use crate::engine::{self, Station, Stop};
use crate::flow::{CallResult, Doing, Flow, Party};
use crate::meter::Meter;
use crate::path::LEN;
use crate::setup::Setup;

/// Serves requests at a bound socket until it is stopped; with a list, only those of admitted senders. Returns this thread's counts,
/// however it ended.
pub(crate) fn serve(
    setup: &Setup,
    shared: &Arc<ServerShared>,
    admitted: Option<&Arc<Admissions>>,
    fd: BorrowedFd<'_>,
    flags: &Flags,
    meter: &mut Meter,
) -> (Result<(Stop, EngineReport), EndError>, CallDatagrams) {
    let read_size = setup.read_size();
    let mut responder = DatagramResponder::new(shared, admitted);
    let served = match setup.server_engine() {
        Engine::Plain => server::serve(&mut responder, fd, read_size, 1, flags, meter),
        Engine::Mmsg => server::serve(&mut responder, fd, read_size, setup.call_batch(), flags, meter),
        Engine::Uring(mode) => {
            server::serve_by_ring(&mut responder, fd, setup, mode.kind != UringKind::Plain, flags, meter)
        }
        other => Err(unfit(other)),
    };
    (served, responder.seen)
}

fn unfit(engine: Engine) -> EndError {
    EndError::Impossible(format!("engine {engine} makes no calls over datagrams: past planning, that is a bug"))
}

// The client's end over datagrams: the calls of a thread's flows, which the event loop of `epoll` drives.
//
// One datagram per system call, or as many as a batch holds if a flow has several calls to send or several replies to receive.
// Never blocks in a send: room in a queue (of a Unix socket, the server's) is waited for together with all other events, and
// its call times out like any other.

/// Level-triggered: a datagram that no call waits for is still received.
const ENGINE: Engine = EpollMode::of(false, false);

/// The clients of a thread, and memory for what they send and receive.
struct DatagramClients<'a> {
    clients: &'a mut Clients,
    /// Requests of one flow while they are sent: none stays here, so all flows share it.
    outbox: Outbox,
    inbox: Inbox,
    /// The ticket by which a server on another host has admitted its clients, which may arrive more than once.
    answered: Option<[u8; LEN]>,
    /// Why no request can be sent, if that is so.
    unsendable: Option<EndError>,
    report: EngineReport,
}

/// Drives a thread's clients until all of their flows are done.
pub(crate) fn carry(
    clients: &mut Clients,
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let setup = clients.setup();
    let batch = match setup.client_engine() {
        Engine::Plain => 1,
        // There are never more at once.
        Engine::Mmsg => setup.call_batch().min(setup.depth()).max(2),
        other => return Err(unfit(other)),
    };
    let mut party = DatagramClients {
        outbox: Outbox::new(batch, setup.request()),
        // One byte more than a reply, so that a longer one is detected.
        inbox: Inbox::new(batch, setup.response() + 1, false),
        answered: setup.far.map(|far| far.ticket.answer()),
        clients,
        unsendable: None,
        report: EngineReport::default(),
    };
    let never = AtomicBool::new(false);
    let (stop, driven) = engine::drive(ENGINE, &mut party, Station::new(0, abort, &never), meter)?;
    let DatagramClients { unsendable, report: EngineReport { received_at_once, sent_at_once, .. }, .. } = party;
    match unsendable {
        Some(fault) => Err(fault),
        None => Ok((stop, EngineReport { received_at_once, sent_at_once, buffer_bytes: 0, ..driven })),
    }
}

impl DatagramClients<'_> {
    /// Hands the received datagrams to a flow.
    fn deliver(&mut self, flow: &mut DatagramFlow, count: usize, meter: &mut Meter, now_ns: u64) {
        self.report.received_at_once = self.report.received_at_once.max(count as u64);
        for slot in 0..count {
            let arrived = self.inbox.arrived(slot);
            let datagram = self.inbox.bytes(slot);
            // As much of it as fits.
            if self.answered.is_some_and(|answered| arrived.len == LEN && answered.starts_with(datagram)) {
                continue;
            }
            meter.count(datagram.len(), datagram.len());
            flow.received(datagram, now_ns);
        }
    }
}

impl Party for DatagramClients<'_> {
    type Flow = DatagramFlow;

    const CALLS: bool = true;

    fn first(&mut self) -> Option<(DatagramFlow, Option<OwnedFd>)> {
        self.clients.next_datagram_flow(self.outbox.slots())
    }

    /// Another socket; replies that still arrive for the old one are lost.
    fn connect(&mut self, _flow: &mut DatagramFlow) -> io::Result<OwnedFd> {
        self.clients.begin_socket()
    }

    /// Receives replies, or sends the calls that have begun, as many as a batch holds.
    #[inline]
    fn transfer(
        &mut self,
        doing: Doing,
        flow: &mut DatagramFlow,
        socket: BorrowedFd<'_>,
        meter: &mut Meter,
        now_ns: &mut u64,
    ) -> io::Result<CallResult> {
        let is_sending = doing == Doing::Sending;
        let moved = if is_sending {
            let count = flow.unsent().min(self.outbox.slots());
            for slot in 0..count {
                flow.write(slot, self.outbox.bytes(slot));
            }
            self.outbox.send(socket, 0, count)
        } else {
            self.inbox.receive(socket)
        };
        *now_ns = monotonic_ns();
        let is_ready = match moved {
            Err(error) if is_transient(&error, During::Transfer) => return Err(error),
            Ok(sent) if is_sending => {
                self.report.sent_at_once = self.report.sent_at_once.max(sent as u64);
                for slot in 0..sent {
                    let len = self.outbox.bytes(slot).len();
                    meter.count(len, len);
                    flow.sent(len, *now_ns);
                }
                true
            }
            Ok(count) => {
                self.deliver(flow, count, meter, *now_ns);
                // If no other reply is due, another receive would find none.
                count == self.inbox.slots() && flow.waits()
            }
            Err(error) => {
                // Also the network's about an earlier request, such as that there is no listener (udp(7)).
                flow.failed(error.raw_os_error().unwrap_or_default(), *now_ns);
                if is_sending && is_too_long(&error) {
                    flow.give_up_all();
                    let doing = "sending a request that is longer than a datagram may be here: use a smaller --request, or of \
                                 unix-dgram a larger --sndbuf";
                    self.unsendable = Some(EndError::io(doing)(error));
                }
                is_sending
            }
        };
        Ok(CallResult::Some { is_ready })
    }

    fn left(&mut self, flow: DatagramFlow, connection: Option<OwnedFd>) {
        self.clients.take_back(flow, connection);
    }
}
