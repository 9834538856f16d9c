//! The blocking engine as a writer with `MSG_ZEROCOPY`: two memories by turns, each used again when the kernel returned it.
//!
//! While the kernel holds one message the next is composed in the other memory, as io_uring's `zc` does. A program that waits
//! for every notification at once would have one message in flight.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::zero_copy::{self, ReturnedSends};

use crate::engine::memory::Room;
use crate::engine::{FlowStation, Stop};
use crate::fault::Fault;
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;

/// No wait for a notification is longer before the flags are looked at.
const WAIT_MS: i32 = 50;

/// A memory, and the sends from it.
#[derive(Default)]
struct Memory {
    room: Room,
    /// The numbers of the sends since a message was last begun there.
    first: u64,
    count: u64,
    /// Sends among them that the kernel has not returned.
    held: u64,
}

impl Memory {
    /// Sends with these numbers were returned.
    fn returned(&mut self, from: u64, to: u64) {
        let common = to.min(self.first + self.count).saturating_sub(from.max(self.first));
        self.held = self.held.saturating_sub(common);
    }
}

struct ZeroCopyWriter<'a> {
    fd: BorrowedFd<'a>,
    memories: [Memory; 2],
    at: usize,
    /// Sends with `MSG_ZEROCOPY`: the next one has this number.
    sends: u64,
    copied: u64,
    calls: u64,
}

impl ZeroCopyWriter<'_> {
    /// Takes the notifications that came.
    fn reap(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            self.calls += 1;
            let Some(found) = zero_copy::completion(self.fd)? else { return Ok(any) };
            any = true;
            self.complete(found);
        }
    }

    fn complete(&mut self, found: ReturnedSends) {
        // The kernel's numbers have 32 bits: the send is as many before the next one as they show.
        let before = u64::from((self.sends as u32).wrapping_sub(found.first));
        let from = self.sends.saturating_sub(before);
        let to = from + found.count();
        self.copied += if found.copied { found.count() } else { 0 };
        self.memories.iter_mut().for_each(|memory| memory.returned(from, to));
    }

    /// Goes over to the other memory, once the kernel holds nothing of it.
    fn switch(&mut self) -> io::Result<()> {
        let next = 1 - self.at;
        while self.memories[next].held > 0 {
            if !self.reap()? {
                self.calls += 1;
                zero_copy::wait(self.fd, WAIT_MS)?;
            }
        }
        self.at = next;
        let memory = &mut self.memories[next];
        (memory.first, memory.count) = (self.sends, 0);
        Ok(())
    }

    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        if !self.memories[self.at].room.holds() {
            self.switch()?;
        }
        let memory = &mut self.memories[self.at];
        let bytes = memory.room.next(flow);
        let asked = bytes.len();
        match zero_copy::send(self.fd, bytes) {
            Ok(n) => {
                (memory.count, memory.held, self.sends) = (memory.count + 1, memory.held + 1, self.sends + 1);
                meter.count(n, asked);
                memory.room.sent(n);
                flow.sent(n, 0);
                Ok(None)
            }
            // Too many notifications wait.
            Err(error) if zero_copy::is_full(&error) => {
                if !self.reap()? {
                    zero_copy::wait(self.fd, WAIT_MS)?;
                }
                Ok(None)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Ok(Some(Stop::Ended(ConnectionEnd::Closed)))
            }
            Err(error) => Err(error),
        }
    }
}

/// Writes until the flow's time is up.
///
/// # Errors
/// [`Fault::Io`] when a call failed for another reason than the connection's end, [`Fault::Impossible`] for a flow that reads.
#[inline(never)]
pub(in crate::engine) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: &FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), Fault> {
    let FlowStation { pace, abort, stop_requested, .. } = slot;
    let mut writer = ZeroCopyWriter { fd, memories: Default::default(), at: 0, sends: 0, copied: 0, calls: 0 };
    let paced = !pace.is_free();
    let stop = 'time: loop {
        for _ in 0..meter.lap_calls() {
            let want = flow.want(0);
            if !matches!(want, Want::Send) {
                return Err(Fault::Impossible(format!("a writer without copies never wants {want:?}")));
            }
            match writer.send(flow, meter) {
                Ok(None) => {}
                Ok(Some(stop)) => break 'time stop,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        break 'time Stop::Aborted;
                    }
                    // A peer that takes nothing returns nothing: the clock is looked at all the same.
                    break;
                }
                Err(source) => return Err(Fault::Io { doing: "moving bytes without copies".into(), source }),
            }
            if paced {
                pace.wait(meter.start_ns(), meter.total_bytes(), stop_requested);
                break;
            }
        }
        if !meter.lap(stop_requested) {
            break Stop::Time;
        }
    };
    // The last notifications that came; memory that the kernel still holds stays its own until it lets go.
    let _ = writer.reap();
    let report = EngineReport {
        system_calls: writer.sends + writer.calls,
        zero_copy: writer.sends,
        zero_copy_copied: writer.copied,
        ..EngineReport::default()
    };
    Ok((stop, report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_free_when_all_sends_returned() {
        let mut memory = Memory { first: 5, count: 3, held: 3, ..Memory::default() };
        memory.returned(0, 5);
        assert_eq!(memory.held, 3);
        memory.returned(4, 6);
        assert_eq!(memory.held, 2);
        memory.returned(6, 9);
        assert_eq!(memory.held, 0);
    }
}
