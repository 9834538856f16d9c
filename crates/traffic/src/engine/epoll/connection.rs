//! What the epoll engine does with one connection: as much as its flow wants and the socket allows.
//!
//! A send is tried at once and waited for only when the socket is full. A receive that left room in the buffer
//! has emptied the socket, and the next one waits for an event; edge-triggered, that holds as long as no event
//! has announced the end of the stream, which may have come before that receive and is not announced again
//! (epoll(7), questions and answers).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::epoll::Ready;
use bytegauge_sys::{io as sys_io, socket};

use crate::engine::epoll::Loop;
use crate::engine::unconnected;
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::party::Party;

/// Calls that one connection may make before others have their turn.
const TURN_CALLS: usize = 32;

/// What a slot's next event would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    /// Nothing: it is being worked on, or has had its turn.
    No,
    Readable,
    Writable,
    Either,
    Connected,
    Moment,
}

/// What follows from a step.
enum Then {
    /// The flow is asked again.
    Ask,
    /// An event or a moment is waited for, or the flow has left.
    Rest,
}

/// One flow and its connection.
pub(super) struct Slot<F> {
    flow: Option<F>,
    fd: Option<OwnedFd>,
    /// Counts connections, so that an event of an older one is told apart.
    generation: u32,
    /// What epoll was last asked for; `None` while the descriptor is not registered.
    asked: Option<Ready>,
    waits: Waits,
    /// Whether a receive may bring something.
    readable: bool,
    /// Whether a send may be taken.
    writable: bool,
    /// An event has said that the stream ends, so receiving goes on until it does.
    ending: bool,
    /// The peer has shut down its writing side, and the flow knows.
    eof: bool,
    /// Whether send(2) and recv(2) go; it is a pipe or a file if not.
    socket: bool,
    /// Whether it stands in the queue of those that go on.
    pub(super) queued: bool,
}

impl<F> Slot<F> {
    fn empty() -> Slot<F> {
        Slot {
            flow: None,
            fd: None,
            generation: 0,
            asked: None,
            waits: Waits::No,
            readable: false,
            writable: true,
            ending: false,
            eof: false,
            socket: true,
            queued: false,
        }
    }

    fn attach(&mut self, fd: Option<OwnedFd>) {
        self.generation = self.generation.wrapping_add(1) & (u32::MAX >> 1);
        self.fd = fd;
        self.asked = None;
        self.readable = false;
        self.writable = true;
        self.ending = false;
        self.eof = false;
        self.socket = true;
    }
}

/// write(2), in the form that costs a socket less: read(2) and write(2) go through the file layer, which takes 2 to
/// 4 % of a call on loopback.
#[inline]
fn write(socket: &mut bool, fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    if *socket {
        match socket::send(fd.as_fd(), bytes) {
            Err(error) if socket::is_no_socket(&error) => *socket = false,
            done => return done,
        }
    }
    sys_io::write(fd.as_fd(), bytes)
}

/// read(2), likewise.
#[inline]
fn read(socket: &mut bool, fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    if *socket {
        match socket::receive(fd.as_fd(), buffer) {
            Err(error) if socket::is_no_socket(&error) => *socket = false,
            done => return done,
        }
    }
    sys_io::read(fd.as_fd(), buffer)
}

impl<P: Party> Loop<'_, P> {
    /// Gives a flow a slot.
    pub(super) fn take_in(&mut self, flow: P::Flow, fd: Option<OwnedFd>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::empty());
            self.timers.grow(self.slots.len());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.flow = Some(flow);
        slot.attach(fd);
        self.live += 1;
        index
    }

    /// Gives a slot's flow back to its party, with its connection.
    pub(super) fn leave(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(flow) = slot.flow.take() else { return };
        let fd = slot.fd.take();
        if let (Some(fd), Some(_)) = (&fd, slot.asked.take()) {
            self.report.system_calls += 1;
            // A socket that leaves the engine stays open: it has to be taken out of the set by hand.
            let _ = self.epoll.remove(fd.as_fd());
        }
        slot.attach(None);
        slot.waits = Waits::No;
        self.timers.clear(index);
        self.free.push(index);
        self.live -= 1;
        self.party.left(flow, fd);
        // The party has closed the connection, or will.
        self.on_closed();
    }

    /// Lets a slot go on in the next round.
    pub(super) fn go_on_later(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.waits = Waits::No;
        if !std::mem::replace(&mut slot.queued, true) {
            self.again.push_back(index);
        }
    }

    /// The time of an event, for flows that ask for it.
    #[inline]
    pub(super) fn tick(&mut self) -> u64 {
        self.now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
        self.now_ns
    }

    /// The token of a slot's present connection.
    fn token(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    pub(super) fn on_event(&mut self, token: u64, ready: Ready) -> Result<(), Fault> {
        let index = token as u32;
        // An event fetched together with the one that closed its connection.
        if self.token(index) != token {
            return Ok(());
        }
        let slot = &mut self.slots[index as usize];
        let gone = ready.any(Ready::HANG_UP | Ready::ERROR);
        let (readable, writable) = (gone || ready.any(Ready::READ | Ready::PEER_SHUT), gone || ready.any(Ready::WRITE));
        slot.readable |= readable;
        slot.writable |= writable;
        slot.ending |= gone || ready.any(Ready::PEER_SHUT);
        if slot.queued {
            return Ok(());
        }
        let expected = match slot.waits {
            Waits::Readable => readable,
            Waits::Writable => writable,
            Waits::Either => readable || writable,
            Waits::Connected if writable => return self.on_connected(index),
            Waits::Connected => false,
            Waits::Moment | Waits::No => return self.hush(index, gone),
        };
        if !expected {
            return Ok(());
        }
        self.timers.clear(index);
        // The clock was read since the wait ended: what the flow asks before it receives may be that old.
        self.advance(index, self.now_ns)
    }

    /// Stops level-triggered events that nobody waits for: they would come again and again.
    fn hush(&mut self, index: u32, gone: bool) -> Result<(), Fault> {
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let (false, Some(fd)) = (self.mode.edge, &slot.fd) else { return Ok(()) };
        self.report.system_calls += 1;
        if gone {
            // Cannot be left out of a registration (epoll_ctl(2)).
            slot.asked = None;
            self.epoll.remove(fd.as_fd())
        } else {
            slot.asked = Some(Ready::NONE);
            self.epoll.modify(fd.as_fd(), Ready::NONE, token)
        }
        .map_err(Fault::io("leaving a connection alone"))
    }

    /// A moment that the flow named, or the end of its patience with a connection attempt.
    pub(super) fn on_deadline(&mut self, index: u32, now_ns: u64) -> Result<(), Fault> {
        let now_ns = if P::Flow::TIMED { now_ns } else { 0 };
        match self.slots[index as usize].waits {
            Waits::Connected => {
                self.fail(index, Doing::Connecting, socket::TIMED_OUT, now_ns);
                self.advance(index, now_ns)
            }
            Waits::No => Ok(()),
            _ => self.advance(index, now_ns),
        }
    }

    fn on_connected(&mut self, index: u32) -> Result<(), Fault> {
        self.timers.clear(index);
        let now_ns = self.tick();
        let slot = &mut self.slots[index as usize];
        self.report.system_calls += 1;
        let errno = match slot.fd.as_ref().map(|fd| socket::take_error(fd.as_fd())) {
            Some(Ok(errno)) => errno,
            Some(Err(error)) => error.raw_os_error(),
            None => None,
        };
        match (errno, &mut slot.flow) {
            (Some(errno), _) => self.fail(index, Doing::Connecting, errno, now_ns),
            (None, Some(flow)) => flow.connected(now_ns),
            (None, None) => {}
        }
        self.advance(index, now_ns)
    }

    /// Does what the flow wants until it has to wait, or has had its turn.
    pub(super) fn advance(&mut self, index: u32, mut now_ns: u64) -> Result<(), Fault> {
        if self.slots[index as usize].queued {
            return Ok(());
        }
        self.slots[index as usize].waits = Waits::No;
        for _ in 0..TURN_CALLS {
            let slot = &mut self.slots[index as usize];
            let Some(flow) = &mut slot.flow else { return Ok(()) };
            let want = flow.want(now_ns);
            if slot.eof && !matches!(want, Want::Send | Want::Both) {
                let receives = matches!(want, Want::Receive | Want::ReceiveUntil(_));
                self.close(index);
                if receives {
                    self.end(index, End::Eof, now_ns);
                    continue;
                }
            }
            let then = match want {
                Want::Send => self.send(index, &mut now_ns)?,
                Want::Receive => self.receive(index, &mut now_ns)?,
                Want::ReceiveUntil(at_ns) => {
                    let then = self.receive(index, &mut now_ns)?;
                    if matches!(then, Then::Rest) && self.slots[index as usize].waits == Waits::Readable {
                        self.timers.set(index, at_ns);
                    }
                    then
                }
                Want::Both => self.send_or_receive(index, &mut now_ns)?,
                Want::Pause(at_ns) => {
                    self.slots[index as usize].waits = Waits::Moment;
                    self.timers.set(index, at_ns);
                    Then::Rest
                }
                Want::Connect => self.connect(index, now_ns)?,
                Want::Close => {
                    self.close(index);
                    Then::Ask
                }
                Want::Done => {
                    self.leave(index);
                    Then::Rest
                }
            };
            if matches!(then, Then::Rest) {
                return Ok(());
            }
        }
        self.go_on_later(index);
        Ok(())
    }

    fn send(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        if !slot.writable {
            return self.rest(index, Waits::Writable);
        }
        let bytes = flow.outgoing();
        let asked = bytes.len();
        self.report.system_calls += 1;
        match write(&mut slot.socket, fd, bytes) {
            Ok(n) => {
                self.meter.count(n, asked);
                self.now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
                *now_ns = self.now_ns;
                flow.sent(n, *now_ns);
                Ok(Then::Ask)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.writable = false;
                self.rest(index, Waits::Writable)
            }
            Err(error) => {
                *now_ns = self.tick();
                self.fail(index, Doing::Sending, error.raw_os_error().unwrap_or(0), *now_ns);
                Ok(Then::Ask)
            }
        }
    }

    fn receive(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &mut self.slots[index as usize];
        let (Some(flow), Some(fd)) = (&mut slot.flow, &slot.fd) else { return Err(unconnected()) };
        if !slot.readable {
            return self.rest(index, Waits::Readable);
        }
        let asked = self.buffer.len();
        self.report.system_calls += 1;
        match read(&mut slot.socket, fd, &mut self.buffer) {
            Ok(0) => {
                slot.eof = true;
                *now_ns = self.tick();
                self.end(index, End::Eof, *now_ns);
                Ok(Then::Ask)
            }
            Ok(n) => {
                self.meter.count(n, asked);
                slot.readable = n == asked || slot.ending;
                self.now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
                *now_ns = self.now_ns;
                if !flow.received(&mut self.buffer[..n], *now_ns) {
                    self.leave(index);
                    return Ok(Then::Rest);
                }
                Ok(Then::Ask)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                slot.readable = false;
                self.rest(index, Waits::Readable)
            }
            Err(error) => {
                *now_ns = self.tick();
                self.fail(index, Doing::Receiving, error.raw_os_error().unwrap_or(0), *now_ns);
                Ok(Then::Ask)
            }
        }
    }

    /// Receives if there is something, or else sends if there is room, or else waits for either.
    fn send_or_receive(&mut self, index: u32, now_ns: &mut u64) -> Result<Then, Fault> {
        let slot = &self.slots[index as usize];
        if slot.eof {
            return self.send(index, now_ns);
        }
        if slot.asked.is_none_or(|asked| !asked.any(Ready::READ)) {
            // Or a peer that takes everything would never be listened to.
            self.ask_for(index, Ready::READ)?;
        }
        let slot = &self.slots[index as usize];
        let mut then = Then::Rest;
        if slot.readable {
            then = self.receive(index, now_ns)?;
        } else if slot.writable {
            then = self.send(index, now_ns)?;
        }
        let slot = &self.slots[index as usize];
        if matches!(then, Then::Ask) || slot.flow.is_none() {
            return Ok(then);
        }
        if slot.readable || slot.writable { Ok(Then::Ask) } else { self.rest(index, Waits::Either) }
    }

    fn connect(&mut self, index: u32, now_ns: u64) -> Result<Then, Fault> {
        self.close(index);
        let slot = &mut self.slots[index as usize];
        let Some(flow) = &mut slot.flow else { return Ok(Then::Rest) };
        // socket(2) and connect(2), at the least.
        self.report.system_calls += 2;
        match self.party.connect(flow) {
            Ok(fd) => {
                slot.attach(Some(fd));
                slot.writable = false;
                self.rest(index, Waits::Connected)
            }
            Err(error) => {
                self.fail(index, Doing::Connecting, error.raw_os_error().unwrap_or(0), now_ns);
                Ok(Then::Ask)
            }
        }
    }

    /// Waits for an event; asks epoll for it unless it does that already.
    fn rest(&mut self, index: u32, waits: Waits) -> Result<Then, Fault> {
        let slot = &mut self.slots[index as usize];
        slot.waits = waits;
        let wanted = match waits {
            Waits::No | Waits::Moment => return Ok(Then::Rest),
            Waits::Readable => Ready::READ,
            Waits::Writable | Waits::Connected => Ready::WRITE,
            Waits::Either => Ready::READ | Ready::WRITE,
        };
        let patience_ns = slot.flow.as_ref().map_or(u64::MAX, Flow::patience_ns);
        if waits != Waits::Readable && patience_ns < u64::MAX {
            self.timers.set(index, patience_ns);
        }
        if slot.asked != Some(wanted) {
            self.ask_for(index, wanted)?;
        }
        Ok(Then::Rest)
    }

    fn ask_for(&mut self, index: u32, wanted: Ready) -> Result<(), Fault> {
        let token = self.token(index);
        let slot = &mut self.slots[index as usize];
        let Some(fd) = &slot.fd else { return Ok(()) };
        // Edges are asked for once and for all.
        let everything = Ready::READ | Ready::WRITE | Ready::PEER_SHUT | Ready::EDGE;
        let wanted = if self.mode.edge { everything } else { wanted };
        if slot.asked == Some(wanted) {
            return Ok(());
        }
        self.report.system_calls += 1;
        match slot.asked.replace(wanted) {
            None => self.epoll.add(fd.as_fd(), wanted, token),
            Some(_) => self.epoll.modify(fd.as_fd(), wanted, token),
        }
        .map_err(Fault::io("waiting for a connection"))
    }

    fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.fd.is_some() {
            slot.attach(None);
            self.report.system_calls += 1;
            self.on_closed();
        }
    }

    fn fail(&mut self, index: u32, doing: Doing, errno: i32, now_ns: u64) {
        self.close(index);
        self.end(index, End::Failed { doing, errno }, now_ns);
    }

    fn end(&mut self, index: u32, end: End, now_ns: u64) {
        if let Some(flow) = &mut self.slots[index as usize].flow {
            flow.ended(end, now_ns);
        }
    }
}
