//! splice(2) from a socket into a pipe and out of it into the other one; or sendfile(2) into the pipe, which does the
//! same within the kernel (fs/splice.c, `splice_file_to_pipe`).
//!
//! A pipe is filled only when it is empty: a call that would block then means that the socket is empty, never that the
//! pipe is full.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytegauge_sys::{io as sys_io, pipe, splice};

use crate::end_error::EndError;
use crate::relay::copy_method::CopyMethod;
use crate::setup::Setup;

/// A pipe and the number of bytes in it. `BY_SENDFILE` selects the call that fills it.
pub(in crate::relay) struct Splice<const BY_SENDFILE: bool> {
    reader: OwnedFd,
    writer: OwnedFd,
    size: usize,
    held: usize,
}

impl<const BY_SENDFILE: bool> Splice<BY_SENDFILE> {
    /// A pipe of this capacity in bytes, or of the kernel's.
    pub(super) fn with_pipe(size: Option<usize>) -> Result<Self, EndError> {
        let (reader, writer) = pipe::anonymous().map_err(|error| lacking(&error))?;
        let size = match size {
            Some(bytes) => pipe::set_pipe_size(writer.as_fd(), bytes),
            None => pipe::pipe_size(writer.as_fd()),
        };
        // A pipe that does not block leaves it to the sockets whether a call does.
        let size = size.map_err(|error| EndError::Missing(format!("the relay's pipe: {error}")))?;
        for end in [&reader, &writer] {
            sys_io::set_nonblocking(end.as_fd(), false).map_err(EndError::io("preparing the relay's pipe"))?;
        }
        Ok(Splice { reader, writer, size, held: 0 })
    }

    /// Takes at most `most` bytes through the pipe, which is empty.
    pub(super) fn take_up_to(&mut self, from: BorrowedFd<'_>, most: usize) -> io::Result<usize> {
        let n = match BY_SENDFILE {
            true => splice::sendfile(from, self.writer.as_fd(), most)?,
            false => splice::splice(from, self.writer.as_fd(), most, false)?,
        };
        self.held = n;
        Ok(n)
    }
}

impl<const BY_SENDFILE: bool> CopyMethod for Splice<BY_SENDFILE> {
    fn new(setup: &Setup) -> Result<Self, EndError> {
        Splice::with_pipe(setup.relay_pipe())
    }

    fn room(&self) -> usize {
        self.size
    }

    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        self.take_up_to(from, self.size)
    }

    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let n = splice::splice(self.reader.as_fd(), to, self.held, false)?;
        self.held -= n;
        Ok(n)
    }

    fn may_leave_some(&self, _taken: usize) -> bool {
        true
    }

    fn held(&self) -> usize {
        self.held
    }

    fn pipe_size(&self) -> Option<usize> {
        Some(self.size)
    }
}

fn lacking(error: &io::Error) -> EndError {
    EndError::Missing(format!(
        "no pipe could be created for the relay ({error}): raise ulimit -n, use fewer --flows, or another --relay"
    ))
}
