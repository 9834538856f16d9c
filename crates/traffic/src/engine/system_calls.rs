//! System calls of engines without a ring: send(2) and recv(2) for sockets, write(2) and read(2) for other descriptors.
//!
//! All engines that make system calls use these, so that none differs by the kind of call: read(2) and write(2) on a socket go
//! through the file layer, which costs 2 to 4 % of a small call on loopback.

use std::io::{self, IoSlice};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;

use bytegauge_model::{EngineReport, MessageParts, MessageWrites};
use bytegauge_sys::zero_copy::{self, ReturnedSends};
use bytegauge_sys::{errno, io as sys_io, option, pipe, socket};

use crate::EndError;
use crate::engine::flow_state::UnsentMessage;
use crate::flow::Flow;
use crate::tls::TlsRole;
use crate::tls::session::Session;

/// The calls of a descriptor.
#[derive(Debug, Default)]
pub(super) enum Calls {
    /// send(2) and recv(2): nearly every descriptor is a socket, and another one fails at the first call.
    #[default]
    OfSockets,
    /// write(2) and read(2), of pipes and files.
    OfFiles,
    /// send(2) and recv(2) of encrypted records.
    Encrypted(Box<Session>),
}

impl Calls {
    /// Those of a new connection.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if the library refuses to begin.
    pub(super) fn begin(tls: Option<TlsRole>) -> Result<Calls, EndError> {
        tls.map_or(Ok(Calls::OfSockets), |role| Ok(Calls::Encrypted(Box::new(Session::new(role)?))))
    }

    /// Whether bytes may be left that no event announces.
    #[inline]
    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Calls::Encrypted(_))
    }

    /// Whether a receive returns bytes that were decrypted already.
    pub(super) fn holds_bytes(&mut self) -> bool {
        match self {
            Calls::Encrypted(session) => session.holds_bytes(),
            Calls::OfSockets | Calls::OfFiles => false,
        }
    }

    /// The number of system calls of the last send or receive beyond the first.
    #[inline]
    pub(super) fn more_calls(&mut self) -> u64 {
        match self {
            Calls::Encrypted(session) => session.more_calls(),
            Calls::OfSockets | Calls::OfFiles => 0,
        }
    }

    /// Sends, blocking or not as the descriptor.
    #[inline]
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Calls::OfSockets => match socket::send(fd, bytes) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            },
            Calls::OfFiles => {}
            Calls::Encrypted(session) => return session.send(fd, bytes, false),
        }
        sys_io::write(fd, bytes)
    }

    /// Sends without waiting for room.
    pub(super) fn send_now(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Calls::Encrypted(session) => session.send(fd, bytes, true),
            Calls::OfSockets | Calls::OfFiles => socket::send_now(fd, bytes),
        }
    }

    /// Receives, blocking or not as the descriptor.
    #[inline]
    pub(super) fn receive(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Calls::OfSockets => match socket::receive(fd, buffer) {
                Err(error) if socket::is_no_socket(&error) => *self = Calls::OfFiles,
                done => return done,
            },
            Calls::OfFiles => {}
            Calls::Encrypted(session) => return session.receive(fd, buffer),
        }
        sys_io::read(fd, buffer)
    }
}

/// Sets `TCP_QUICKACK` again, where a flow does so after each receive. Returns the number of system calls.
#[inline]
pub(super) fn ack_quickly(fd: BorrowedFd<'_>, again: Option<bool>) -> u64 {
    let Some(on) = again else { return 0 };
    // It cannot fail on a TCP socket, and is a hint.
    let _ = option::set(fd, &option::QUICK_ACK.to(on));
    1
}

/// Ends the sending direction ([`Want::Finish`](crate::flow::Want::Finish)).
pub(super) fn finish(fd: BorrowedFd<'_>) -> io::Result<()> {
    sys_io::shutdown(fd, Shutdown::Write)
}

/// Makes the next close of a connection report a failure to its peer ([`Want::Reset`](crate::flow::Want::Reset)): with a
/// linger time of 0 seconds, closing resets a TCP connection (socket(7)). A descriptor without resets, such as a pipe, is just
/// closed.
pub(crate) fn reset_when_closed(fd: BorrowedFd<'_>) {
    let _ = option::set(fd, &option::LINGER.to(0));
}

// Sends of one connection with `MSG_ZEROCOPY`: from two memories by turns, each used again when the kernel returned it.
//
// While the kernel holds one message the next is composed in the other memory, as io_uring's `zc` does. A program that waits
// for every notification at once would have one message in flight. Never waits.

/// A memory, and the sends from it.
#[derive(Default)]
struct Memory {
    unsent: UnsentMessage,
    /// The numbers of the sends since a message was last begun there.
    first: u64,
    count: u64,
    /// Sends among them that the kernel has not returned.
    held: u64,
}

impl Memory {
    /// Sends with these numbers were returned.
    fn returned(&mut self, from: u64, to: u64) {
        let common = to.min(self.first + self.count).saturating_sub(from.max(self.first));
        self.held = self.held.saturating_sub(common);
    }
}

/// The sends of one connection.
#[derive(Default)]
pub(super) struct ZeroCopySends {
    memories: [Memory; 2],
    at: usize,
    /// Sends with `MSG_ZEROCOPY`: the next one has this number.
    sends: u64,
    /// Those that the kernel copied after all.
    copied: u64,
    /// Other system calls.
    pub(super) calls: u64,
}

impl ZeroCopySends {
    /// Takes the notifications that came.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn reap(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let mut any = false;
        loop {
            self.calls += 1;
            let Some(found) = zero_copy::completion(fd)? else { return Ok(any) };
            any = true;
            self.complete(found);
        }
    }

    fn complete(&mut self, found: ReturnedSends) {
        // The kernel's numbers have 32 bits: the send is as many before the next one as they show.
        let before = u64::from((self.sends as u32).wrapping_sub(found.first));
        let from = self.sends.saturating_sub(before);
        let to = from + found.count();
        self.copied += if found.copied { found.count() } else { 0 };
        self.memories.iter_mut().for_each(|memory| memory.returned(from, to));
    }

    /// Sends a part of the flow's message, from memory that the kernel does not hold, without notifying the flow: how many bytes
    /// the socket took, and how many were offered to it. `None`: the kernel holds both memories, or too many notifications wait.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn send<F: Flow>(&mut self, fd: BorrowedFd<'_>, flow: &mut F) -> io::Result<Option<(usize, usize)>> {
        if !self.memories[self.at].unsent.holds() && !self.switch(fd)? {
            return Ok(None);
        }
        loop {
            let memory = &mut self.memories[self.at];
            let bytes = memory.unsent.next(flow);
            let asked = bytes.len();
            match zero_copy::send(fd, bytes) {
                Ok(moved) => {
                    (memory.count, memory.held, self.sends) = (memory.count + 1, memory.held + 1, self.sends + 1);
                    memory.unsent.sent(moved);
                    return Ok(Some((moved, asked)));
                }
                Err(error) if error.raw_os_error() == Some(errno::ENOBUFS) => {
                    if !self.reap(fd)? {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Goes over to the other memory, if the kernel holds nothing of it.
    fn switch(&mut self, fd: BorrowedFd<'_>) -> io::Result<bool> {
        let next = 1 - self.at;
        if self.memories[next].held > 0 {
            self.reap(fd)?;
            if self.memories[next].held > 0 {
                return Ok(false);
            }
        }
        self.at = next;
        let memory = &mut self.memories[next];
        (memory.first, memory.count) = (self.sends, 0);
        Ok(true)
    }

    /// Adds the sends of a connection that ends, or leaves the engine, to the counts, with the last notifications that came. Memory
    /// that the kernel still holds is abandoned when this is dropped. Called once.
    pub(super) fn finish(&mut self, fd: BorrowedFd<'_>, report: &mut EngineReport) {
        let _ = self.reap(fd);
        report.system_calls += self.sends + self.calls;
        report.zero_copy += self.sends;
        report.zero_copy_copied += self.copied;
    }

    /// Bytes of its memories.
    pub(super) fn len(&self) -> usize {
        self.memories.iter().map(|memory| memory.unsent.len()).sum()
    }
}

impl Drop for ZeroCopySends {
    fn drop(&mut self) {
        // The next owner of this memory must not change what the kernel still sends.
        self.memories.iter_mut().filter(|memory| memory.held > 0).for_each(|memory| memory.unsent.abandon());
    }
}

// Sends one part of a message as the program would: with a list, with `MSG_MORE`, between `TCP_CORK` on and off, or from a file.

/// Most parts of one sendmsg(2); the rest of a longer message goes by the next one.
const LISTED: usize = 64;

/// A part of a message, and how it is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessagePart<'a> {
    pub(super) writes: MessageWrites,
    /// All parts of the message.
    pub(super) parts: MessageParts,
    /// The position in the message.
    pub(super) at: usize,
    pub(super) is_last: bool,
    /// The file that has the same bytes at the same position.
    pub(super) file: Option<BorrowedFd<'a>>,
}

impl MessagePart<'_> {
    /// Sends, blocking or not as the descriptor; `at_once` never waits, except from a file: servers, which have one, do not ask for it.
    pub(super) fn send(self, fd: BorrowedFd<'_>, bytes: &[u8], at_once: bool) -> io::Result<usize> {
        if self.writes == MessageWrites::Writev {
            let mut slices = [IoSlice::new(&[]); LISTED];
            let (mut at, mut rest, mut listed) = (self.at, bytes, 0);
            while !rest.is_empty() && listed < LISTED {
                let (part, behind) = rest.split_at(rest.len().min(self.parts.end_of(at) - at));
                slices[listed] = IoSlice::new(part);
                (at, rest, listed) = (at + part.len(), behind, listed + 1);
            }
            return socket::send_vectored(fd, &slices[..listed], at_once);
        }
        if let Some(file) = self.file {
            return pipe::send_file(file, self.at as u64, fd, bytes.len());
        }
        let corks = self.writes == MessageWrites::Cork;
        if corks && self.at == 0 {
            set_cork(fd, true)?;
        }
        let more = matches!(self.writes, MessageWrites::More | MessageWrites::MoreSendfile) && !self.is_last;
        let sent = socket::send_part(fd, bytes, more, at_once)?;
        if corks && self.is_last && sent == bytes.len() {
            set_cork(fd, false)?;
        }
        Ok(sent)
    }

    /// System calls in addition to the send.
    pub(super) fn more_calls(self) -> u64 {
        if self.writes == MessageWrites::Cork { u64::from(self.at == 0) + u64::from(self.is_last) } else { 0 }
    }
}

fn set_cork(fd: BorrowedFd<'_>, on: bool) -> io::Result<()> {
    option::set(fd, &option::CORK.to(on)).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_free_when_all_sends_returned() {
        let mut memory = Memory { first: 5, count: 3, held: 3, ..Memory::default() };
        memory.returned(0, 5);
        assert_eq!(memory.held, 3);
        memory.returned(4, 6);
        assert_eq!(memory.held, 2);
        memory.returned(6, 9);
        assert_eq!(memory.held, 0);
    }
}
