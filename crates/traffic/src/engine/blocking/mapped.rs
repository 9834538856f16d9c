//! The blocking engine as a reader that has the kernel map its pages (`TCP_ZEROCOPY_RECEIVE`) and copies the rest with recv(2).

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::mapped_receive::{MappedReceive, MappedReceiver};
use bytegauge_sys::socket::{self, Until};

use crate::end_error::EndError;
use crate::engine::{FlowStation, Stop};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;

/// No wait for bytes is longer before the flags are looked at.
const WAIT_NS: u64 = 50_000_000;

struct MappedReader<'a> {
    fd: BorrowedFd<'a>,
    receiver: MappedReceiver,
    /// Bytes to copy before pages can be mapped again.
    to_copy: usize,
    report: EngineReport,
}

impl MappedReader<'_> {
    /// Maps or copies the next bytes; waits for some where there are none.
    fn receive<F: Flow>(&mut self, flow: &mut F, buffer: &mut [u8], meter: &mut Meter) -> io::Result<Option<Stop>> {
        if self.to_copy > 0 {
            let most = self.to_copy.min(buffer.len());
            return self.copy(flow, &mut buffer[..most], meter);
        }
        self.report.system_calls += 1;
        self.report.mapping_calls += 1;
        match self.receiver.receive(self.fd) {
            Ok(MappedReceive { mapped: 0, to_copy: 0 }) => {
                self.report.system_calls += 1;
                // At the end of the stream a receive shows it.
                match socket::wait(self.fd, Until::Readable, WAIT_NS)? {
                    Some(_) => self.to_copy = buffer.len(),
                    None => return Err(io::ErrorKind::Interrupted.into()),
                }
                Ok(None)
            }
            Ok(MappedReceive { mapped, to_copy }) => {
                self.to_copy = to_copy;
                self.report.mapped_bytes += mapped as u64;
                if mapped == 0 {
                    return Ok(None);
                }
                meter.count(mapped, buffer.len());
                Ok((!flow.received_in_place(self.receiver.bytes())).then_some(Stop::Refused))
            }
            Err(error) => Err(error),
        }
    }

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
///
/// # Errors
/// [`EndError::Missing`] if the kernel cannot map what this socket receives, [`EndError::Io`] when a call failed for another reason than
/// the connection's end, [`EndError::Impossible`] for a flow that writes.
#[inline(never)]
pub(in crate::engine) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let FlowStation { buffer, pace: _, abort, stop_requested, .. } = slot;
    let receiver = MappedReceiver::new(fd, buffer.len()).map_err(|error| {
        EndError::Missing(format!("TCP_ZEROCOPY_RECEIVE: {error}: it needs Linux 4.18: leave out --zerocopy-receive"))
    })?;
    let mut reader = MappedReader { fd, receiver, to_copy: 0, report: EngineReport::default() };
    let stop = 'time: loop {
        for _ in 0..meter.lap_calls() {
            let want = flow.want(0);
            if !matches!(want, Want::Receive) {
                return Err(EndError::Impossible(format!("a reader that maps never wants {want:?}")));
            }
            match reader.receive(flow, buffer, meter) {
                Ok(None) => {}
                Ok(Some(stop)) => break 'time stop,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        break 'time Stop::Aborted;
                    }
                    // A peer that sends nothing brings nothing: the clock is looked at all the same.
                    break;
                }
                Err(source) => return Err(EndError::Io { doing: "moving bytes by mapping them".into(), source }),
            }
        }
        if !meter.lap(stop_requested) {
            break Stop::Time;
        }
    };
    Ok((stop, reader.report))
}
