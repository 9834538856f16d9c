//! read(2) into one buffer, write(2) out of it.

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_sys::io as sys_io;

use crate::fault::Fault;
use crate::relay::hands::Hands;
use crate::relay::setup::RelaySetup;

/// A buffer, and which part of it is still to be given.
pub(in crate::relay) struct ReadWrite {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl Hands for ReadWrite {
    fn new(setup: &RelaySetup) -> Result<ReadWrite, Fault> {
        Ok(ReadWrite { buffer: vec![0; setup.buffer()], from: 0, to: 0 })
    }

    fn room(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        let n = sys_io::read(from, &mut self.buffer)?;
        (self.from, self.to) = (0, n);
        Ok(n)
    }

    #[inline]
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let n = sys_io::write(to, &self.buffer[self.from..self.to])?;
        self.from += n;
        Ok(n)
    }

    #[inline]
    fn held(&self) -> usize {
        self.to - self.from
    }
}
