//! readv(2) into a buffer in parts, writev(2) from it: shows the cost of scattered memory compared with one buffer.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;

use bytegauge_sys::io as sys_io;

use crate::end_error::EndError;
use crate::relay::copy_method::CopyMethod;
use crate::setup::Setup;

/// Number of parts of the buffer.
const PARTS: usize = 4;

/// A buffer in parts, and the range of its bytes still to be given.
pub(in crate::relay) struct Vectored {
    buffer: Vec<u8>,
    part: usize,
    from: usize,
    to: usize,
}

impl CopyMethod for Vectored {
    fn new(setup: &Setup) -> Result<Vectored, EndError> {
        let part = setup.relay_buffer().div_ceil(PARTS);
        Ok(Vectored { buffer: vec![0; setup.relay_buffer()], part, from: 0, to: 0 })
    }

    fn room(&self) -> usize {
        self.buffer.len()
    }

    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        let mut parts = [(); PARTS].map(|()| IoSliceMut::new(&mut []));
        for (slot, part) in parts.iter_mut().zip(self.buffer.chunks_mut(self.part)) {
            *slot = IoSliceMut::new(part);
        }
        let n = sys_io::read_vectored(from, &mut parts)?;
        (self.from, self.to) = (0, n);
        Ok(n)
    }

    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let within = |bytes: usize| bytes.clamp(self.from, self.to);
        let parts: [IoSlice<'_>; PARTS] = std::array::from_fn(|number| {
            IoSlice::new(&self.buffer[within(number * self.part)..within((number + 1) * self.part)])
        });
        let n = sys_io::write_vectored(to, &parts)?;
        self.from += n;
        Ok(n)
    }

    fn held(&self) -> usize {
        self.to - self.from
    }
}
