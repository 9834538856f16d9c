//! The blocking engine as a reader that has the kernel map its pages (`TCP_ZEROCOPY_RECEIVE`) and copies the rest with recv(2).

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_model::EngineReport;
use bytegauge_sys::errno;
use bytegauge_sys::mapped_receive::{MappedReceive, MappedReceiver};
use bytegauge_sys::socket::{self, Until};

use crate::end_error::EndError;
use crate::engine::blocking::{FlowIo, run_on};
use crate::engine::{FlowStation, Stop, WAIT_MAX_NS};
use crate::flow::{ConnectionEnd, Flow};
use crate::meter::Meter;

struct MappedIo<'a> {
    fd: BorrowedFd<'a>,
    receiver: MappedReceiver,
    /// Bytes to copy before pages can be mapped again.
    to_copy: usize,
    /// Whether the last call found nothing, and then the connection became readable.
    has_waited: bool,
    /// Whether the kernel refused the first mapping.
    is_refused: bool,
    report: EngineReport,
}

impl FlowIo for MappedIo<'_> {
    /// Maps or copies the next bytes; waits for some where there are none.
    fn receive<F: Flow>(&mut self, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        if self.to_copy > 0 {
            let most = self.to_copy.min(buffer.len());
            return self.copy(flow, &mut buffer[..most], meter);
        }
        self.report.system_calls += 1;
        self.report.mapping_calls += 1;
        let has_waited = std::mem::take(&mut self.has_waited);
        let MappedReceive { mapped, to_copy } = match self.receiver.receive(self.fd) {
            Err(error) if error.raw_os_error() == Some(errno::EIO) => return Ok(Some(Stop::Ended(ConnectionEnd::Eof))),
            found => found.inspect_err(|_| self.is_refused = self.report.mapping_calls == 1)?,
        };
        self.to_copy = to_copy;
        self.report.mapped_bytes += mapped as u64;
        if mapped > 0 {
            meter.count(mapped, buffer.len());
            return Ok((!flow.received_in_place(self.receiver.bytes())).then_some(Stop::Refused));
        }
        if to_copy == 0 && has_waited {
            // A connection that ended is readable too: recv(2) shows why.
            self.to_copy = buffer.len();
        } else if to_copy == 0 {
            self.report.system_calls += 1;
            match socket::wait(self.fd, Until::Readable, WAIT_MAX_NS)? {
                Some(_) => self.has_waited = true,
                None => return Err(io::ErrorKind::Interrupted.into()),
            }
        }
        Ok(None)
    }
}

impl MappedIo<'_> {
    fn copy<F: Flow>(&mut self, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        self.report.system_calls += 1;
        match socket::receive(self.fd, buffer)? {
            0 => Ok(Some(Stop::Ended(ConnectionEnd::Eof))),
            n => {
                self.to_copy = self.to_copy.saturating_sub(n);
                meter.count(n, buffer.len());
                Ok((!flow.received(&mut buffer[..n], 0)).then_some(Stop::Refused))
            }
        }
    }
}

/// Reads until the flow's time is up.
pub(super) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let refused = |error: &dyn std::fmt::Display| {
        EndError::Missing(format!("TCP_ZEROCOPY_RECEIVE: {error}: it needs Linux 4.18: leave out --zerocopy-receive"))
    };
    let receiver = MappedReceiver::new(fd, slot.buffer.len()).map_err(|error| refused(&error))?;
    let report = EngineReport::default();
    let mut io = MappedIo { fd, receiver, to_copy: 0, has_waited: false, is_refused: false, report };
    match run_on(&mut io, flow, slot, meter) {
        Err(EndError::Io { source, .. }) if io.is_refused => Err(refused(&source)),
        stopped => Ok((stopped?, Some(io.report))),
    }
}
