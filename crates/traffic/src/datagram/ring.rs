//! Datagrams by io_uring: receives of messages, many in flight or one multishot receive, and sends of messages, many per
//! system call.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_model::EngineReport;
use bytegauge_sys::datagram::SlotTarget;
use bytegauge_sys::uring::{
    Completion, Errno, Feature, MESSAGE_ROOM, MessageId, OpResult, PoolId, Ring, RingSetup, Wait,
};

use crate::datagram::sink::{MessageReceiver, SinkReader, SinkState};
use crate::datagram::source::{BatchResult, MessageSender, Packer, at_once};
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::stream::ReaderWork;

/// The longest wait: a signal between the check of the flags and the wait is lost.
const WAIT_MAX_NS: u64 = 50_000_000;

/// The common part of the engines of rings.
struct DatagramRing {
    ring: Ring,
    report: EngineReport,
}

impl DatagramRing {
    fn open(setup: &Setup) -> Result<DatagramRing, EndError> {
        let entries = setup.outstanding().next_power_of_two().clamp(8, 4096) as u32;
        let ring = Ring::open(&RingSetup { entries, completions: 4 * entries, poll_idle_ms: None })?;
        Ok(DatagramRing { ring, report: EngineReport::default() })
    }

    /// Submits, and waits for a completion.
    fn wait(&mut self) -> io::Result<()> {
        self.report.wakeups += 1;
        match self.ring.wait(1, Some(WAIT_MAX_NS))? {
            Wait::Ready => Ok(()),
            Wait::TimedOut | Wait::Interrupted => Err(io::ErrorKind::Interrupted.into()),
        }
    }

    fn report(&self) -> EngineReport {
        let counts = self.ring.counts();
        EngineReport { system_calls: counts.system_calls, completions: counts.completions, ..self.report }
    }
}

/// Whether a completion is not this engine's own: of a cancelled operation.
fn is_nothing(errno: Errno) -> bool {
    errno == Errno::CANCELLED || errno == Errno::INTERRUPTED
}

/// Sends of messages, as many in flight as the plan keeps outstanding.
pub(super) struct DatagramSends {
    engine: DatagramRing,
    messages: Vec<MessageId>,
    /// Messages without content.
    idle: Vec<usize>,
    /// Messages with datagrams that the kernel refused.
    refused: Vec<usize>,
}

impl DatagramSends {
    pub(super) fn new(setup: &Setup) -> Result<DatagramSends, EndError> {
        let mut engine = DatagramRing::open(setup)?;
        let count = at_once(setup);
        let size = setup.write_size().unwrap_or(1);
        let messages = (0..count).map(|_| engine.ring.new_message(size)).collect::<Result<Vec<MessageId>, _>>()?;
        Ok(DatagramSends { engine, messages, idle: (0..count).rev().collect(), refused: Vec::with_capacity(count) })
    }

    pub(super) fn report(&self) -> EngineReport {
        self.engine.report()
    }

    /// Waits for sends in flight: they leave before anything that is sent otherwise.
    pub(super) fn finish(&mut self, abort: &AtomicBool) {
        while self.engine.ring.in_flight() > 0 && !abort.load(Ordering::Relaxed) {
            // Interrupted or late: the flag decides.
            let _ = self.engine.wait();
            while self.engine.ring.reap().is_some() {}
        }
    }

    fn queue(&mut self, fd: BorrowedFd<'_>, index: usize, len: usize) {
        self.engine.ring.send_message(
            index as u64,
            fd,
            self.messages[index],
            SlotTarget { len, ..SlotTarget::default() },
        );
    }
}

impl MessageSender for DatagramSends {
    fn send(&mut self, fd: BorrowedFd<'_>, packer: &mut Packer) -> io::Result<BatchResult> {
        let size = packer.size();
        while let Some(index) = self.refused.pop() {
            self.queue(fd, index, size);
        }
        while let Some(index) = self.idle.pop() {
            if let Some(bytes) = self.engine.ring.message(self.messages[index]) {
                let end = packer.pack(bytes);
                // Sends in flight will be completed, or tried again: the ring keeps nothing back.
                packer.settle(end);
            }
            self.queue(fd, index, size);
        }
        self.engine.wait()?;
        let mut moved = BatchResult { full: true, ..BatchResult::default() };
        let mut refused = None;
        while let Some(Completion { token, event, .. }) = self.engine.ring.reap() {
            let OpResult::Sent { moved: sent, .. } = event else { continue };
            match sent {
                Ok(bytes) => {
                    moved.bytes += bytes;
                    moved.datagrams += 1;
                    moved.packets += 1;
                    self.idle.push(token as usize);
                }
                Err(errno) => {
                    self.refused.push(token as usize);
                    refused = Some(errno).filter(|errno| !is_nothing(*errno)).or(refused);
                }
            }
        }
        match refused {
            Some(errno) if moved.datagrams == 0 => Err(errno.into()),
            _ => Ok(moved),
        }
    }
}

/// Receives of messages, with a number of them in flight.
pub(super) struct Outstanding {
    engine: DatagramRing,
    messages: Vec<MessageId>,
    begun: bool,
}

impl Outstanding {
    pub(super) fn new(setup: &Setup) -> Result<Outstanding, EndError> {
        let mut engine = DatagramRing::open(setup)?;
        let messages = (0..setup.outstanding()).map(|_| engine.ring.new_message(setup.read_size()));
        let messages = messages.collect::<Result<Vec<MessageId>, _>>()?;
        Ok(Outstanding { engine, messages, begun: false })
    }

    pub(super) fn report(&self) -> EngineReport {
        self.engine.report()
    }
}

impl MessageReceiver for Outstanding {
    fn receive<E: ReaderWork>(
        &mut self,
        fd: BorrowedFd<'_>,
        sink: &mut SinkReader<E>,
    ) -> io::Result<(BatchResult, SinkState)> {
        if !std::mem::replace(&mut self.begun, true) {
            for (index, message) in self.messages.iter().enumerate() {
                self.engine.ring.receive_message(index as u64, fd, *message);
            }
        }
        self.engine.wait()?;
        let mut moved = BatchResult { full: true, ..BatchResult::default() };
        let mut goes = self.take_completions(fd, sink, &mut moved)?;
        if goes == SinkState::Ended {
            // Completions may arrive in another order than the datagrams: earlier datagrams may follow the announced end.
            self.engine.ring.wait(0, None)?;
            if self.take_completions(fd, sink, &mut moved)? == SinkState::Refused {
                goes = SinkState::Refused;
            }
        }
        Ok((moved, goes))
    }
}

impl Outstanding {
    /// Takes all completions that are there, and receives again.
    fn take_completions<E: ReaderWork>(
        &mut self,
        fd: BorrowedFd<'_>,
        sink: &mut SinkReader<E>,
        moved: &mut BatchResult,
    ) -> io::Result<SinkState> {
        let mut goes = SinkState::On;
        while let Some(Completion { token, event, .. }) = self.engine.ring.reap() {
            let OpResult::Received { moved: received, .. } = event else { continue };
            let message = self.messages[token as usize];
            match received {
                Ok(len) if goes != SinkState::Refused => {
                    let arrived = self.engine.ring.arrived(message, len);
                    if let Some(bytes) = self.engine.ring.message(message) {
                        let kept = len.min(bytes.len());
                        let taken = sink.take(&mut bytes[..kept], arrived, moved);
                        goes = if taken == SinkState::On { goes } else { taken };
                    }
                }
                Ok(_) => {}
                Err(errno) if is_nothing(errno) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.engine.ring.receive_message(token, fd, message);
        }
        Ok(goes)
    }
}

/// One multishot receive, into the buffers of a pool.
pub(super) struct Multishot {
    engine: DatagramRing,
    pool: PoolId,
    is_armed: bool,
}

impl Multishot {
    pub(super) fn new(setup: &Setup) -> Result<Multishot, EndError> {
        let mut engine = DatagramRing::open(setup)?;
        engine.ring.require(Feature::MultishotReceive)?;
        let buffers = setup.outstanding().min(1 << 15) as u16;
        let pool = engine.ring.new_pool(buffers, setup.read_size() + MESSAGE_ROOM)?;
        engine.ring.offer_all(pool);
        Ok(Multishot { engine, pool, is_armed: false })
    }

    pub(super) fn report(&self) -> EngineReport {
        self.engine.report()
    }
}

impl MessageReceiver for Multishot {
    fn receive<E: ReaderWork>(
        &mut self,
        fd: BorrowedFd<'_>,
        sink: &mut SinkReader<E>,
    ) -> io::Result<(BatchResult, SinkState)> {
        if !std::mem::replace(&mut self.is_armed, true) {
            self.engine.ring.receive_messages(0, fd, self.pool);
        }
        self.engine.wait()?;
        let mut moved = BatchResult { full: true, ..BatchResult::default() };
        let mut goes = SinkState::On;
        while let Some(Completion { more, event, .. }) = self.engine.ring.reap() {
            let OpResult::Received { moved: received, taken } = event else { continue };
            self.is_armed &= more;
            self.engine.report.multishot += u64::from(more);
            if let Some(mut taken) = taken {
                if let (SinkState::On, Some(parcel)) = (goes, self.engine.ring.parcel(&mut taken)) {
                    goes = sink.take(parcel.bytes, parcel.arrived, &mut moved);
                }
                self.engine.ring.give_back(taken);
            }
            match received {
                Err(Errno::NO_BUFFER) => self.engine.report.out_of_buffers += 1,
                Err(errno) if !is_nothing(errno) => return Err(errno.into()),
                Ok(_) | Err(_) => {}
            }
        }
        Ok((moved, goes))
    }
}
