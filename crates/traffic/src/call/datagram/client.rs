//! The client's end over datagrams: one thread, an epoll(7) over the connected sockets of its flows.
//!
//! One datagram per system call, or as many as a batch holds if a flow has several calls to send or several replies to receive.
//! Never blocks in a send: room in a queue (of a Unix socket, the server's) is waited for together with all other events, and
//! its call times out like any other.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::datagram::{Inbox, Outbox, is_too_long};
use bytegauge_sys::epoll::{Epoll, Events, Ready};
use bytegauge_sys::timer;

use crate::call::datagram::flow::{DatagramFlow, Due};
use crate::call::datagram::socket::dropped_at;
use crate::call::party::Clients;
use crate::engine::timers::Timers;
use crate::engine::{Stop, WAIT_MAX_NS};
use crate::fault::Fault;
use crate::meter::Meter;
use crate::ticket::LEN;

/// Events taken at one wake-up.
const EVENTS_MAX: usize = 256;

struct ClientLoop<'a> {
    clients: &'a mut Clients,
    slots: Vec<ClientSlot>,
    live: usize,
    epoll: Epoll,
    timers: Timers,
    /// Requests of one flow while they are sent: none stays here, so all flows share it.
    outbox: Outbox,
    inbox: Inbox,
    /// The ticket by which a server on another host has admitted its clients, which may arrive more than once.
    answered: Option<[u8; LEN]>,
    meter: &'a mut Meter,
    report: EngineReport,
}

struct ClientSlot {
    /// Absent once it is done.
    flow: Option<DatagramFlow>,
    fd: Option<OwnedFd>,
    /// Whether it is woken when there is room to send.
    waits_for_room: bool,
}

/// Drives a thread's flows until every one of them is done. A call moves at most `batch` datagrams.
pub(crate) fn carry(
    clients: &mut Clients,
    batch: usize,
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let (request, response) = (clients.setup().request(), clients.setup().response());
    let answered = clients.setup().far.map(|far| far.ticket.answer());
    let mut slots = Vec::with_capacity(clients.joined());
    while clients.joined() > 0 {
        let (flow, fd) = clients.next_datagram_flow();
        slots.push(ClientSlot { flow: Some(flow), fd, waits_for_room: false });
    }
    let mut client = ClientLoop {
        clients,
        live: slots.len(),
        slots,
        epoll: Epoll::new().map_err(Fault::io("opening an epoll descriptor"))?,
        timers: Timers::default(),
        outbox: Outbox::new(batch, request),
        // One byte more than a reply, so that a longer one is detected.
        inbox: Inbox::new(batch, response + 1, false),
        answered,
        meter,
        report: EngineReport::default(),
    };
    let stopped = client.begin().and_then(|()| client.run(abort));
    client.give_back();
    stopped.map(|stop| (stop, client.report))
}

impl ClientLoop<'_> {
    fn begin(&mut self) -> Result<(), Fault> {
        self.timers.grow(self.slots.len());
        for index in 0..self.slots.len() {
            self.register(index)?;
            // Takes turns with all other work, so that the first flows do not wait for the last ones' requests.
            self.timers.set(index as u32, 0);
        }
        Ok(())
    }

    fn run(&mut self, abort: &AtomicBool) -> Result<Stop, Fault> {
        let never = AtomicBool::new(false);
        let mut events = Events::with_room(EVENTS_MAX);
        while self.live > 0 {
            if abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            let mut now_ns = monotonic_ns();
            if !self.meter.goes_on(now_ns, &never) {
                return Ok(Stop::Time);
            }
            for _ in 0..self.live {
                let Some(index) = self.timers.take_due(now_ns) else { break };
                self.advance(index as usize, now_ns)?;
                if !self.meter.goes_on_within_a_round(&never) {
                    return Ok(Stop::Time);
                }
                now_ns = monotonic_ns();
            }
            let due_ns = self.timers.earliest_ns();
            let due_ns = if due_ns > now_ns { now_ns + timer::first_wait_ns(due_ns - now_ns) } else { now_ns };
            let until_ns = self.meter.next_mark_ns().min(due_ns);
            let until_ns = until_ns.clamp(now_ns, now_ns + WAIT_MAX_NS);
            self.report.system_calls += 1;
            match self.epoll.wait(&mut events, until_ns - now_ns) {
                Ok(0) => {}
                Ok(count) => {
                    self.report.wakeups += 1;
                    for event in 0..count {
                        let (index, ready) = events.at(event);
                        self.on_event(index as usize, ready)?;
                        if !self.meter.goes_on_within_a_round(&never) {
                            return Ok(Stop::Time);
                        }
                    }
                }
                // A flag is to be checked.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Fault::Io { doing: "waiting in epoll".into(), source }),
            }
        }
        Ok(Stop::Done)
    }

    fn on_event(&mut self, index: usize, ready: Ready) -> Result<(), Fault> {
        let mut now_ns = monotonic_ns();
        if ready.any(Ready::READ | Ready::ERROR | Ready::HANG_UP) {
            now_ns = self.receive(index, now_ns)?;
        }
        self.advance(index, now_ns)
    }

    /// Receives the available replies. Returns the time.
    fn receive(&mut self, index: usize, mut now_ns: u64) -> Result<u64, Fault> {
        let ClientSlot { flow: Some(flow), fd: Some(fd), .. } = &mut self.slots[index] else { return Ok(now_ns) };
        loop {
            self.report.system_calls += 1;
            let received = match self.inbox.slots() {
                1 => self.inbox.receive_one(fd.as_fd()),
                _ => self.inbox.receive(fd.as_fd()).map(drop),
            };
            match received {
                Ok(()) => {}
                Err(error) if is_passing(&error) => return Ok(now_ns),
                Err(error) => {
                    // The network's error about an earlier request, such as that there is no listener (udp(7)).
                    flow.failed(error.raw_os_error().unwrap_or_default(), now_ns);
                    return Ok(now_ns);
                }
            }
            now_ns = monotonic_ns();
            let count = self.inbox.filled();
            self.report.received_at_once = self.report.received_at_once.max(count as u64);
            for slot in 0..count {
                let arrived = self.inbox.arrived(slot);
                let datagram = &*self.inbox.bytes(slot);
                // As much of it as fits.
                if self.answered.is_some_and(|answered| arrived.len == LEN && answered.starts_with(datagram)) {
                    continue;
                }
                self.meter.count(datagram.len(), datagram.len());
                flow.received(datagram, now_ns);
            }
            // No other reply is due, or was there: another receive would find none.
            if !flow.waits() || count < self.inbox.slots() {
                return Ok(now_ns);
            }
        }
    }

    /// Does all that a flow wants now.
    fn advance(&mut self, index: usize, mut now_ns: u64) -> Result<(), Fault> {
        loop {
            let Some(flow) = &mut self.slots[index].flow else { return Ok(()) };
            match flow.due(now_ns) {
                Due::Begin => {
                    flow.begin(now_ns);
                    if flow.unsent() < self.outbox.slots() {
                        continue;
                    }
                }
                Due::Send => {}
                Due::At(at_ns) => {
                    self.timers.set(index as u32, at_ns);
                    return Ok(());
                }
                Due::Reopen => {
                    self.reopen(index)?;
                    continue;
                }
                Due::Over => {
                    self.leave(index);
                    return Ok(());
                }
            }
            match self.send(index, now_ns)? {
                Some(sent_ns) => now_ns = sent_ns,
                None => return self.wait_for_room(index, now_ns),
            }
        }
    }

    /// Sends the calls that have begun, as many as a batch holds. Returns the time; `None` if there is no room.
    fn send(&mut self, index: usize, now_ns: u64) -> Result<Option<u64>, Fault> {
        let ClientSlot { flow: Some(flow), fd: Some(fd), .. } = &mut self.slots[index] else { return Ok(Some(now_ns)) };
        let count = flow.unsent().min(self.outbox.slots());
        for slot in 0..count {
            flow.write(slot, self.outbox.bytes(slot));
        }
        self.report.system_calls += 1;
        let sent = match count {
            1 => self.outbox.send_one(fd.as_fd(), 0).map(|_| 1),
            _ => self.outbox.send(fd.as_fd(), 0, count),
        };
        let now_ns = monotonic_ns();
        match sent {
            Ok(sent) => {
                self.report.sent_at_once = self.report.sent_at_once.max(sent as u64);
                for slot in 0..sent {
                    let len = self.outbox.bytes(slot).len();
                    self.meter.count(len, len);
                    flow.sent(now_ns);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) if is_too_long(&source) => {
                let doing = "sending a request that is longer than a datagram may be here: use a smaller --request, or of \
                             unix-dgram a larger --sndbuf";
                return Err(Fault::Io { doing: doing.into(), source });
            }
            Err(error) => flow.failed(error.raw_os_error().unwrap_or_default(), now_ns),
        }
        if self.slots[index].waits_for_room {
            self.tell_of(index, Ready::READ)?;
        }
        Ok(Some(now_ns))
    }

    fn wait_for_room(&mut self, index: usize, now_ns: u64) -> Result<(), Fault> {
        if let Some(flow) = &self.slots[index].flow {
            self.timers.set(index as u32, flow.patience_ns(now_ns));
        }
        if self.slots[index].waits_for_room { Ok(()) } else { self.tell_of(index, Ready::READ | Ready::WRITE) }
    }

    fn tell_of(&mut self, index: usize, ready: Ready) -> Result<(), Fault> {
        let slot = &mut self.slots[index];
        slot.waits_for_room = ready.any(Ready::WRITE);
        let Some(fd) = &slot.fd else { return Ok(()) };
        self.report.system_calls += 1;
        self.epoll.modify(fd.as_fd(), ready, index as u64).map_err(Fault::io("waiting for room to send"))
    }

    fn register(&mut self, index: usize) -> Result<(), Fault> {
        let Some(fd) = &self.slots[index].fd else { return Ok(()) };
        self.report.system_calls += 1;
        self.epoll.add(fd.as_fd(), Ready::READ, index as u64).map_err(Fault::io("waiting for replies"))
    }

    /// Gives a flow another socket; replies that still arrive for the old one are lost.
    fn reopen(&mut self, index: usize) -> Result<(), Fault> {
        let fd = self.clients.join()?;
        let slot = &mut self.slots[index];
        slot.fd = Some(fd);
        slot.waits_for_room = false;
        if let Some(flow) = &mut slot.flow {
            flow.reopened();
        }
        self.register(index)
    }

    fn leave(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let Some(flow) = slot.flow.take() else { return };
        let dropped = slot.fd.as_ref().map_or(0, |fd| dropped_at(fd.as_fd()));
        flow.hand_in(dropped);
        self.live -= 1;
        self.timers.clear(index as u32);
        if let Some(fd) = slot.fd.take() {
            // It stays open, and replies that still arrive must wake no thread.
            let _ = self.epoll.remove(fd.as_fd());
            self.clients.keep(fd);
        }
    }

    fn give_back(&mut self) {
        for index in 0..self.slots.len() {
            self.leave(index);
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
