//! One flow's thread: it does what the flow wants, and sleeps in the call for which the flow waits.
//!
//! A distant deadline costs nothing: the socket's own timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`) returns control now and then. Only
//! a near deadline is waited for exactly, with one more call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_sys::clock::{monotonic_ns, sleep_until_ns};
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::timer;

use crate::end_error::EndError;
use crate::engine::blocking::thread_per_flow::WorkerShared;
use crate::engine::memory::{KeptBytes, Room};
use crate::engine::system_calls::Calls;
use crate::engine::{WAIT_MAX_NS, nothing_to_send, system_calls, unconnected};
use crate::flow::{ConnectionEnd, Doing, Flow, Want};
use crate::party::Party;
use crate::tally::Share;

/// How long a call waits before a flow that has a deadline is asked again; nearer deadlines are met exactly.
const PATIENCE_NS: u64 = 100_000_000;

pub(super) struct Worker<'h, 'a, P: Party> {
    shared: &'h WorkerShared<'a, P>,
    flow: P::Flow,
    fd: Option<OwnedFd>,
    kept: KeptBytes,
    room: Room,
    share: Share,
    system_calls: u64,
    calls: Calls,
    eof: bool,
    /// The party has opened a connection for this flow.
    has_connected: bool,
    receive_timeout: bool,
    send_timeout: bool,
    now_ns: u64,
}

impl<'h, 'a, P: Party> Worker<'h, 'a, P> {
    /// Carries the flow to its end, in the thread that calls.
    pub(super) fn begin(shared: &'h WorkerShared<'a, P>, flow: P::Flow, fd: Option<OwnedFd>) {
        let mut worker = Worker {
            shared,
            flow,
            fd,
            kept: KeptBytes::within(&shared.footprint),
            room: Room::within(&shared.footprint),
            share: shared.tally.share(),
            system_calls: 0,
            calls: Calls::OfSockets,
            eof: false,
            has_connected: false,
            receive_timeout: false,
            send_timeout: false,
            now_ns: 0,
        };
        let (handle, fault) = match shared.enter() {
            Ok(handle) => (Some(handle), worker.run().err()),
            Err(source) => (None, Some(EndError::Io { doing: "preparing a thread".into(), source })),
        };
        let Worker { flow, fd, share, system_calls, kept, .. } = worker;
        shared.system_calls.fetch_add(system_calls, Ordering::Relaxed);
        shared.copied_bytes.fetch_add(kept.copied, Ordering::Relaxed);
        drop(share);
        shared.leave(handle, flow, fd, fault);
    }

    /// The loop (`cargo xtask hot-loops`).
    #[inline(never)]
    fn run(&mut self) -> Result<(), EndError> {
        self.tick();
        if self.fd.is_some() {
            self.calls = Calls::begin(self.shared.tls)?;
        }
        while !self.shared.stop.load(Ordering::Relaxed) {
            let want = self.flow.want(self.now_ns);
            if self.eof && !matches!(want, Want::Send | Want::Both | Want::Finish) {
                self.close();
                if matches!(want, Want::Receive | Want::ReceiveUntil(_)) {
                    self.flow.ended(ConnectionEnd::Eof, self.now_ns);
                    continue;
                }
            }
            let goes_on = match want {
                Want::Send => self.send(false)?,
                Want::Receive => self.receive(None)?,
                Want::ReceiveUntil(at_ns) => self.receive(Some(at_ns))?,
                Want::Both => self.send_or_receive()?,
                Want::Pause(at_ns) => self.pause(at_ns),
                Want::Connect => self.connect()?,
                Want::Finish => self.finish(),
                Want::Reset => {
                    self.reset();
                    true
                }
                Want::Close => {
                    self.close();
                    true
                }
                Want::Done => false,
            };
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    /// The time of an event, for flows that ask for it.
    #[inline]
    fn tick(&mut self) {
        if P::Flow::TIMED {
            self.now_ns = monotonic_ns();
        }
    }

    fn pause(&mut self, at_ns: u64) -> bool {
        self.system_calls += 1;
        // Interrupted or not, the flow is called again, and knows its deadline.
        let _ = sleep_until_ns(at_ns);
        self.tick();
        true
    }

    fn receive(&mut self, until_ns: Option<u64>) -> Result<bool, EndError> {
        let Some(fd) = &self.fd else { return Err(unconnected()) };
        // The socket need not be readable for bytes that were decrypted already.
        if let Some(until_ns) = until_ns.filter(|_| !self.calls.holds_bytes()) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns < PATIENCE_NS {
                self.system_calls += 1;
                let first_ns = timer::first_wait_ns(left_ns);
                if !matches!(socket::wait(fd.as_fd(), Until::Readable, first_ns), Ok(Some(_))) {
                    self.tick();
                    return Ok(true);
                }
            } else if !self.receive_timeout {
                self.system_calls += 1;
                socket::set_receive_timeout(fd.as_fd(), PATIENCE_NS).map_err(EndError::io("setting SO_RCVTIMEO"))?;
                self.receive_timeout = true;
            }
        }
        let asked = self.shared.buffer_size;
        self.system_calls += 1;
        let received = self.calls.receive(fd.as_fd(), self.kept.room(asked));
        self.system_calls += self.calls.more_calls();
        self.tick();
        match received {
            Ok(0) => {
                self.eof = true;
                self.flow.ended(ConnectionEnd::Eof, self.now_ns);
            }
            Ok(n) => {
                self.share.count(n, asked);
                let bytes = self.kept.received(n, self.flow.echoes());
                return Ok(self.flow.received(bytes, self.now_ns));
            }
            Err(error) => self.judge(Doing::Receiving, &error),
        }
        Ok(true)
    }

    /// `at_once`: room was seen, and nothing is waited for.
    fn send(&mut self, at_once: bool) -> Result<bool, EndError> {
        let Some(fd) = &self.fd else { return Err(unconnected()) };
        if !at_once && !self.send_timeout && self.flow.patience_ns() < u64::MAX {
            self.system_calls += 1;
            socket::set_send_timeout(fd.as_fd(), PATIENCE_NS).map_err(EndError::io("setting SO_SNDTIMEO"))?;
            self.send_timeout = true;
        }
        let back = self.flow.returns();
        let returns = !back.is_empty() && !self.room.holds();
        let bytes = if returns { self.kept.part(&back) } else { self.room.next(&mut self.flow) };
        let asked = bytes.len();
        if asked == 0 {
            return Err(nothing_to_send());
        }
        self.system_calls += 1;
        let sent = if at_once { self.calls.send_now(fd.as_fd(), bytes) } else { self.calls.send(fd.as_fd(), bytes) };
        self.system_calls += self.calls.more_calls();
        self.tick();
        match sent {
            Ok(n) => {
                self.share.count(n, asked);
                if returns {
                    self.kept.drop_first(back.start + n);
                } else {
                    self.room.sent(n);
                }
                self.flow.sent(n, self.now_ns);
            }
            Err(error) => self.judge(Doing::Sending, &error),
        }
        Ok(true)
    }

    fn send_or_receive(&mut self) -> Result<bool, EndError> {
        let Some(fd) = &self.fd else { return Err(unconnected()) };
        if self.eof {
            return self.send(false);
        }
        if self.calls.holds_bytes() {
            return self.receive(None);
        }
        let left_ns = self.flow.patience_ns().saturating_sub(monotonic_ns()).min(PATIENCE_NS);
        self.system_calls += 1;
        match socket::wait(fd.as_fd(), Until::Either, left_ns) {
            Ok(Some(found)) if found.readable => self.receive(None),
            Ok(Some(_)) => self.send(true),
            Ok(None) | Err(_) => {
                self.tick();
                Ok(true)
            }
        }
    }

    #[inline(never)]
    fn connect(&mut self) -> Result<bool, EndError> {
        self.close();
        self.system_calls += 2;
        let connecting = match &self.shared.opener {
            Some(open) if self.has_connected => open(),
            _ => self.shared.party().connect(&mut self.flow),
        };
        self.has_connected = true;
        match connecting.and_then(|fd| self.settle(fd)) {
            Ok(Some(fd)) => {
                self.fd = Some(fd);
                self.calls = Calls::begin(self.shared.tls)?;
                self.tick();
                self.flow.connected(self.now_ns);
            }
            Ok(None) => {}
            Err(error) => {
                self.tick();
                self.fail(Doing::Connecting, &error);
            }
        }
        Ok(true)
    }

    /// Waits for a connection attempt to end. `None`: the engine has to stop.
    fn settle(&mut self, fd: OwnedFd) -> io::Result<Option<OwnedFd>> {
        let until_ns = self.flow.patience_ns();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            self.system_calls += 1;
            match socket::wait(fd.as_fd(), Until::Writable, left_ns.min(WAIT_MAX_NS)) {
                Ok(Some(_)) => {
                    // SO_ERROR, and O_NONBLOCK read and cleared.
                    self.system_calls += 3;
                    if let Some(errno) = socket::take_error(fd.as_fd())? {
                        return Err(io::Error::from_raw_os_error(errno));
                    }
                    sys_io::set_nonblocking(fd.as_fd(), false)?;
                    return Ok(Some(fd));
                }
                Ok(None) if left_ns == 0 => return Err(io::Error::from_raw_os_error(socket::TIMED_OUT)),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// A timeout and an interruption only mean that the flow is asked again.
    fn judge(&mut self, doing: Doing, error: &io::Error) {
        if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
            self.fail(doing, error);
        }
    }

    fn fail(&mut self, doing: Doing, error: &io::Error) {
        self.close();
        self.flow.ended(ConnectionEnd::Failed { doing, errno: error.raw_os_error().unwrap_or(0) }, self.now_ns);
    }

    fn finish(&mut self) -> bool {
        if let Some(fd) = &self.fd {
            self.system_calls += 1;
            if let Err(error) = system_calls::finish(fd.as_fd()) {
                self.fail(Doing::Sending, &error);
            }
        }
        true
    }

    fn reset(&mut self) {
        if let Some(fd) = &self.fd {
            self.system_calls += 1;
            system_calls::reset_when_closed(fd.as_fd());
        }
        self.close();
    }

    #[inline(never)]
    fn close(&mut self) {
        if self.fd.take().is_some() {
            self.system_calls += 1;
            self.shared.on_closed();
        }
        (self.eof, self.receive_timeout, self.send_timeout) = (false, false, false);
        self.calls = Calls::OfSockets;
        self.kept.forget();
        self.room.forget();
    }
}
