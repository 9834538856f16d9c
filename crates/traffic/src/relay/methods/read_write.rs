//! recv(2) into one buffer, send(2) out of it: the calls that every method makes which has no call of its own, since
//! read(2) and write(2) of a socket cost 2 to 4 % more of a small message (`engine::blocking`).

use std::io;
use std::os::fd::BorrowedFd;

use bytegauge_sys::socket;

use crate::end_error::EndError;
use crate::relay::copy_method::CopyMethod;
use crate::setup::Setup;

/// A buffer, and which part of it is still to be given.
pub(in crate::relay) struct ReadWrite {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl CopyMethod for ReadWrite {
    fn new(setup: &Setup) -> Result<ReadWrite, EndError> {
        Ok(ReadWrite { buffer: vec![0; setup.relay_buffer()], from: 0, to: 0 })
    }

    fn room(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        let n = socket::receive(from, &mut self.buffer)?;
        (self.from, self.to) = (0, n);
        Ok(n)
    }

    #[inline]
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let n = socket::send(to, &self.buffer[self.from..self.to])?;
        self.from += n;
        Ok(n)
    }

    #[inline]
    fn held(&self) -> usize {
        self.to - self.from
    }
}
