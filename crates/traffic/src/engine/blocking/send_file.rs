//! The blocking engine as a writer by sendfile(2): the kernel takes the bytes from the page cache, and the program touches none.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_model::EngineReport;
use bytegauge_sys::splice;

use crate::end_error::EndError;
use crate::engine::blocking::{FlowIo, run_on};
use crate::engine::{FlowStation, Stop};
use crate::flow::Flow;
use crate::meter::Meter;
use crate::stream::SourceFile;

/// The message that is sent, and the place in the stream.
struct SendFileIo<'a> {
    fd: BorrowedFd<'a>,
    file: &'a SourceFile,
    offset: u64,
    /// Bytes of the message that have not left.
    left: usize,
    calls: u64,
}

impl FlowIo for SendFileIo<'_> {
    fn send<F: Flow>(&mut self, flow: &mut F, meter: &mut Meter) -> io::Result<Option<Stop>> {
        if self.left == 0 {
            flow.begin_in_place();
            self.left = flow.room();
        }
        let (at, to_end) = self.file.position(self.offset);
        let asked = self.left.min(to_end);
        self.calls += 1;
        let moved = splice::send_file(self.file.fd(), at, self.fd, asked)?;
        self.left -= moved;
        self.offset += moved as u64;
        meter.count(moved, asked);
        flow.sent(moved, 0);
        Ok(None)
    }
}

/// Writes until the flow's time is up.
pub(super) fn run<F: Flow>(
    flow: &mut F,
    file: &SourceFile,
    fd: BorrowedFd<'_>,
    slot: FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, Option<EngineReport>), EndError> {
    let mut io = SendFileIo { fd, file, offset: 0, left: 0, calls: 0 };
    let stop = run_on(&mut io, flow, slot, meter)?;
    Ok((stop, Some(EngineReport { system_calls: io.calls, ..EngineReport::default() })))
}
