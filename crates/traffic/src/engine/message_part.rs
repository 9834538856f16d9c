//! Sends one part of a message as the program would: with a list, with `MSG_MORE`, or between `TCP_CORK` on and off.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use bytegauge_model::MessageWrites;
use bytegauge_sys::{option, socket};

/// Most parts of one sendmsg(2); the rest of a longer message goes by the next one.
const LISTED: usize = 64;

/// A part of a message, and how it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessagePart {
    pub(super) writes: MessageWrites,
    /// Bytes of a part.
    pub(super) chunk: usize,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

impl MessagePart {
    /// Sends, blocking or not as the descriptor; `at_once` never waits.
    pub(super) fn send(self, fd: BorrowedFd<'_>, bytes: &[u8], at_once: bool) -> io::Result<usize> {
        if self.writes == MessageWrites::Writev {
            let mut slices = [IoSlice::new(&[]); LISTED];
            let listed = bytes.chunks(self.chunk).zip(&mut slices).map(|(part, slice)| *slice = IoSlice::new(part));
            let listed = listed.count();
            return socket::send_vectored(fd, &slices[..listed], at_once);
        }
        let corks = self.writes == MessageWrites::Cork;
        if corks && self.is_first {
            set_cork(fd, true)?;
        }
        let more = self.writes == MessageWrites::More && !self.is_last;
        let sent = socket::send_part(fd, bytes, more, at_once)?;
        if corks && self.is_last && sent == bytes.len() {
            set_cork(fd, false)?;
        }
        Ok(sent)
    }

    /// System calls in addition to the send.
    pub(super) fn more_calls(self) -> u64 {
        if self.writes == MessageWrites::Cork { u64::from(self.is_first) + u64::from(self.is_last) } else { 0 }
    }
}

fn set_cork(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    option::set(fd, &option::CORK.to(on)).map_err(io::Error::other)
}
