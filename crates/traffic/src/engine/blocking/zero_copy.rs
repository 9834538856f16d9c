//! The blocking engine as a writer with `MSG_ZEROCOPY`: two memories by turns, each used again when the kernel returned it.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_model::EngineReport;
use bytegauge_sys::zero_copy;

use crate::end_error::EndError;
use crate::engine::blocking::{FlowIo, run_on};
use crate::engine::zero_copy::{ZeroCopySend, ZeroCopySends};
use crate::engine::{FlowStation, Stop, WAIT_MAX_NS};
use crate::flow::Flow;
use crate::meter::Meter;

/// The longest wait for a notification, milliseconds.
const WAIT_MS: i32 = (WAIT_MAX_NS / 1_000_000) as i32;

struct ZeroCopyIo<'a> {
    fd: BorrowedFd<'a>,
    sends: ZeroCopySends,
}

impl FlowIo for ZeroCopyIo<'_> {
    /// Sends, and waits for the kernel where it has to.
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        match self.sends.send(self.fd, flow)? {
            ZeroCopySend::Sent { moved, asked } => {
                meter.count(moved, asked);
                flow.sent(moved, 0);
            }
            ZeroCopySend::Held => {
                self.sends.calls += 1;
                zero_copy::wait(self.fd, WAIT_MS)?;
            }
        }
        Ok(None)
    }
}

/// Writes until the flow's time is up.
pub(super) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let mut io = ZeroCopyIo { fd, sends: ZeroCopySends::default() };
    let stop = run_on(&mut io, flow, slot, meter)?;
    let mut sends = io.sends;
    // The last notifications that came; memory that the kernel still holds is abandoned.
    let _ = sends.reap(fd);
    let report = EngineReport {
        system_calls: sends.system_calls(),
        zero_copy: sends.sends(),
        zero_copy_copied: sends.copied,
        ..EngineReport::default()
    };
    Ok((stop, Some(report)))
}
