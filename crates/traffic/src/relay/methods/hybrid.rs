//! Copies small messages and splices bulk data.
//!
//! Copying a few KiB costs less than the system calls around a pipe; copying megabytes costs more. Reads tell the two apart:
//! several in a row that fill the buffer are bulk, and a splice of less than a buffer is the end of bulk. The pipe is created
//! when first needed, so idle connections have none.

use std::io;
use std::os::fd::BorrowedFd;

use crate::end_error::EndError;
use crate::relay::copy_method::CopyMethod;
use crate::relay::methods::read_write::ReadWrite;
use crate::relay::methods::splice::Splice;
use crate::setup::Setup;

/// Reads in a row that fill the buffer, from which on a connection counts as bulk.
const FULL_READS: u32 = 3;

/// Both methods, and which of them is in use.
pub(in crate::relay) struct Hybrid {
    pipe_size: Option<usize>,
    copies: ReadWrite,
    splices: Option<Splice<false>>,
    /// Reads in a row that filled the buffer; in bulk at least [`FULL_READS`].
    full: u32,
    /// Whether creating a pipe failed; it then continues to copy.
    is_short_of_pipes: bool,
}

impl Hybrid {
    fn pipe(&mut self) -> Option<&mut Splice<false>> {
        if self.full < FULL_READS || self.is_short_of_pipes {
            return None;
        }
        if self.splices.is_none() {
            self.splices = Splice::with_pipe(self.pipe_size).ok();
            self.is_short_of_pipes = self.splices.is_none();
        }
        self.splices.as_mut()
    }
}

impl CopyMethod for Hybrid {
    fn new(setup: &Setup) -> Result<Hybrid, EndError> {
        let copies = ReadWrite::new(setup)?;
        Ok(Hybrid { pipe_size: setup.relay_pipe(), copies, splices: None, full: 0, is_short_of_pipes: false })
    }

    fn room(&self) -> usize {
        self.copies.room()
    }

    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        let room = self.copies.room();
        let taken = match self.pipe() {
            Some(pipe) => pipe.take(from)?,
            None => self.copies.take(from)?,
        };
        self.full = if taken >= room { self.full.saturating_add(1) } else { 0 };
        Ok(taken)
    }

    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        match &mut self.splices {
            Some(pipe) if pipe.held() > 0 => pipe.give(to),
            _ => self.copies.give(to),
        }
    }

    fn may_leave_some(&self, taken: usize) -> bool {
        // Spliced bytes are in the pipe.
        self.copies.held() == 0 || self.copies.may_leave_some(taken)
    }

    fn held(&self) -> usize {
        self.copies.held() + self.splices.as_ref().map_or(0, CopyMethod::held)
    }

    fn pipe_size(&self) -> Option<usize> {
        self.splices.as_ref().and_then(CopyMethod::pipe_size)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use bytegauge_model::Spec;

    use super::*;

    #[test]
    fn only_a_short_copy_proves_an_empty_socket() {
        const ROOM: usize = 1024;
        let (mut peer, from) = UnixStream::pair().unwrap();
        let (to, mut hears) = UnixStream::pair().unwrap();
        let setup = Setup::unchecked(Spec::from([("relay_buffer", (ROOM as u64).into())]));
        let mut method = Hybrid::new(&setup).unwrap();
        let mut passes = |bytes: &[u8]| {
            peer.write_all(bytes).unwrap();
            let taken = method.take(from.as_fd()).unwrap();
            let leaves = method.may_leave_some(taken);
            while method.held() > 0 {
                method.give(to.as_fd()).unwrap();
            }
            hears.read_exact(&mut vec![0; bytes.len()]).unwrap();
            (taken, leaves, method.pipe_size().is_some())
        };
        assert_eq!(passes(&[1; ROOM - 1]), (ROOM - 1, false, false));
        for _ in 0..FULL_READS {
            assert_eq!(passes(&[1; ROOM]), (ROOM, true, false));
        }
        // By a pipe, which was short: copies again.
        assert_eq!(passes(&[1; ROOM - 1]), (ROOM - 1, true, true));
        assert_eq!(passes(&[1; ROOM - 1]), (ROOM - 1, false, true));
    }
}
