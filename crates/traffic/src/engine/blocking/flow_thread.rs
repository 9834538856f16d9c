//! One flow's thread: it does what the flow wants, and sleeps in the call for which the flow waits.
//!
//! A distant deadline costs nothing: the socket's own timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`) returns control now and then. Only
//! a near deadline is waited for exactly, with one more call.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

use bytegauge_sys::clock::{self, monotonic_ns, sleep_until_ns};
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::EndError;
use crate::engine::WAIT_MAX_NS;
use crate::engine::blocking::thread_per_flow::WorkerShared;
use crate::engine::flow_state::{FlowState, Outgoing};
use crate::engine::system_calls::{self, Calls, MessagePart};
use crate::flow::{Doing, Flow, Party, Want};
use crate::tally::Share;

/// How long a call waits before a flow that has a deadline is asked again; nearer deadlines are met exactly.
const PATIENCE_NS: u64 = 100_000_000;

pub(super) struct Worker<'h, 'a, P: Party> {
    shared: &'h WorkerShared<'a, P>,
    state: FlowState<P::Flow, OwnedFd>,
    share: Share,
    calls: Calls,
    receive_timeout: bool,
    send_timeout: bool,
}

impl<'h, 'a, P: Party> Worker<'h, 'a, P> {
    /// Carries the flow to its end, in the thread that calls.
    pub(super) fn begin(shared: &'h WorkerShared<'a, P>, flow: P::Flow, fd: Option<OwnedFd>) {
        let (state, share) = (FlowState::new(flow, fd), shared.tally.share());
        let calls = Calls::OfSockets;
        let mut worker = Worker { shared, state, share, calls, receive_timeout: false, send_timeout: false };
        let (handle, fault) = match shared.enter() {
            Ok(handle) => (Some(handle), worker.run().err()),
            Err(source) => (None, Some(EndError::Io { doing: "preparing a thread".into(), source })),
        };
        let Worker { state, share, .. } = worker;
        state.add_up(&shared.totals);
        drop(share);
        shared.leave(handle, state.flow, state.connection, fault);
    }

    /// The loop (`cargo xtask hot-loops`).
    #[inline(never)]
    fn run(&mut self) -> Result<(), EndError> {
        self.state.tick();
        if self.state.connection.is_some() {
            self.calls = Calls::begin(self.shared.tls)?;
        }
        while !self.shared.stop.load(Ordering::Relaxed) {
            let stays = match self.state.next() {
                Want::Receive => self.receive(None)?,
                Want::ReceiveUntil(until_ns) => self.receive(Some(until_ns))?,
                Want::Both => self.send_or_receive()?,
                Want::Done => false,
                Want::Send => self.send(false).map(|()| true)?,
                want => self.act(want).map(|()| true)?,
            };
            if !stays {
                break;
            }
        }
        Ok(())
    }

    /// Does what moves no bytes.
    fn act(&mut self, want: Want) -> Result<(), EndError> {
        match want {
            Want::Pause(until_ns) => {
                self.state.system_calls += 1;
                // Interrupted or not, the flow is called again, and knows its deadline.
                let _ = sleep_until_ns(until_ns);
                self.state.tick();
            }
            Want::Connect => self.connect()?,
            want => self.state.act(want),
        }
        Ok(())
    }

    /// Receives once. `false`: the flow leaves.
    fn receive(&mut self, until_ns: Option<u64>) -> Result<bool, EndError> {
        // The socket need not be readable for bytes that were decrypted already.
        if let Some(until_ns) = until_ns.filter(|_| !self.calls.holds_bytes()) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            if left_ns < PATIENCE_NS {
                self.state.system_calls += 1;
                let first_ns = clock::first_wait_ns(left_ns);
                if !matches!(socket::wait(self.state.fd()?, Until::Readable, first_ns), Ok(Some(_))) {
                    self.state.tick();
                    return Ok(true);
                }
            } else if !self.receive_timeout {
                self.state.system_calls += 1;
                let set = socket::set_receive_timeout(self.state.fd()?, PATIENCE_NS);
                set.map_err(EndError::io("setting SO_RCVTIMEO"))?;
                self.receive_timeout = true;
            }
        }
        let asked = self.shared.buffer_size;
        let (fd, buffer) = self.state.incoming(asked)?;
        let received = self.calls.receive(fd.as_fd(), buffer);
        let acknowledged = system_calls::ack_quickly(self.state.fd()?, self.state.flow.quickack_again());
        self.state.system_calls += 1 + self.calls.more_calls() + acknowledged;
        Ok(self.state.received(received, |n| self.share.count(n, asked)))
    }

    /// Sends once; `at_once` where room was seen, and nothing is waited for.
    fn send(&mut self, at_once: bool) -> Result<(), EndError> {
        if !at_once && !self.send_timeout && self.state.flow.patience_ns() < u64::MAX {
            self.state.system_calls += 1;
            let set = socket::set_send_timeout(self.state.fd()?, PATIENCE_NS);
            set.map_err(EndError::io("setting SO_SNDTIMEO"))?;
            self.send_timeout = true;
        }
        let Outgoing { connection: fd, bytes, dropped, part } = self.state.outgoing()?;
        let (asked, more_calls) = (bytes.len(), part.map_or(0, MessagePart::more_calls));
        let sent = match part {
            Some(part) => part.send(fd.as_fd(), bytes, at_once),
            None if at_once => self.calls.send_now(fd.as_fd(), bytes),
            None => self.calls.send(fd.as_fd(), bytes),
        };
        self.state.system_calls += 1 + more_calls + self.calls.more_calls();
        self.state.sent(sent, dropped, |n| self.share.count(n, asked));
        Ok(())
    }

    fn send_or_receive(&mut self) -> Result<bool, EndError> {
        if self.calls.holds_bytes() {
            return self.receive(None);
        }
        let left_ns = self.state.flow.patience_ns().saturating_sub(monotonic_ns()).min(PATIENCE_NS);
        self.state.system_calls += 1;
        match socket::wait(self.state.fd()?, Until::Either, left_ns) {
            Ok(Some(true)) => return self.receive(None),
            Ok(Some(false)) => self.send(true)?,
            Ok(None) | Err(_) => self.state.tick(),
        }
        Ok(true)
    }

    #[inline(never)]
    fn connect(&mut self) -> Result<(), EndError> {
        self.state.system_calls += 2;
        let connecting = match &self.shared.opener {
            Some(open) if self.state.has_connected => open(),
            _ => self.shared.party().connect(&mut self.state.flow),
        };
        self.state.has_connected = true;
        let connected = connecting.and_then(|fd| self.await_connection(fd));
        self.state.tick();
        match connected {
            Ok(Some(fd)) => {
                self.state.connection = Some(fd);
                self.calls = Calls::begin(self.shared.tls)?;
                (self.receive_timeout, self.send_timeout) = (false, false);
                self.state.connected();
            }
            Ok(None) => {}
            Err(error) => self.state.fail(Doing::Connecting, &error),
        }
        Ok(())
    }

    /// Waits for a connection attempt to end. `None`: the engine has to stop.
    fn await_connection(&mut self, fd: OwnedFd) -> io::Result<Option<OwnedFd>> {
        let until_ns = self.state.flow.patience_ns();
        while !self.shared.stop.load(Ordering::Relaxed) {
            let left_ns = until_ns.saturating_sub(monotonic_ns());
            self.state.system_calls += 1;
            match socket::wait(fd.as_fd(), Until::Writable, left_ns.min(WAIT_MAX_NS)) {
                Ok(Some(_)) => {
                    // SO_ERROR, and O_NONBLOCK read and cleared.
                    self.state.system_calls += 3;
                    socket::take_error(fd.as_fd())?;
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
}
