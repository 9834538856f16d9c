//! The inputs of relay methods; the trait of methods that read and write by system calls, and these methods; and those that copy a
//! direction in a thread of its own.

use std::io::{self, BufRead, BufReader, BufWriter, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::{io as sys_io, pipe, socket};
use socket2::Socket;

use crate::EndError;
use crate::end::thread_group::Flags;
use crate::engine::is_unix;
use crate::meter::Meter;
use crate::planted_fault::PlantedFault;
use crate::relay::state::RelayShared;
use crate::relay::thread_per_direction::ThreadWay;
use crate::setup::Setup;

/// The parameters of a method.
pub(super) struct Carrying<'a, 'm> {
    pub(super) shared: &'a Arc<RelayShared>,
    pub(super) setup: &'a Setup,
    pub(super) flags: &'a Flags,
    pub(super) meter: &'m mut Meter,
}

/// A method of which every step is a system call: it works with blocking and non-blocking calls.
///
/// One direction of a connection has one. It takes bytes only when it holds none, and gives until it holds none.
pub(super) trait CopyMethod: Sized + Send {
    /// Prepares what a direction needs.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks it.
    fn new(setup: &Setup) -> Result<Self, EndError>;

    /// Most bytes requested by one [`take`](CopyMethod::take): a short read returns fewer.
    fn room(&self) -> usize;

    /// Takes bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The kernel's.
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize>;

    /// Gives bytes that it holds: all or some of them.
    ///
    /// # Errors
    /// The kernel's.
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize>;

    /// Bytes taken and not given yet.
    fn held(&self) -> usize;

    /// Whether the last take, of `taken` bytes, may have left some in the socket. A buffer that was not filled proves that none
    /// are left; a pipe counts fragments, and may be full with a few bytes.
    fn may_leave_some(&self, taken: usize) -> bool {
        taken == self.room()
    }

    /// Capacity of its pipe, if it has one.
    fn pipe_size(&self) -> Option<usize> {
        None
    }
}

/// A buffer, and which of its bytes are still to be given.
///
/// In one part it is filled by recv(2) and sent by send(2), the calls of every method that has none of its own, since read(2) and write(2)
/// of a socket cost 2 to 4 % more of a small message (`engine::system_calls`). In several parts it is filled by readv(2) and sent by
/// writev(2), which shows the cost of scattered memory.
pub(super) struct Buffered<const PARTS: usize> {
    buffer: AlignedBuffer,
    from: usize,
    to: usize,
}

/// One buffer.
pub(super) type ReadWrite = Buffered<1>;

/// A buffer in parts.
pub(super) type Vectored = Buffered<4>;

impl<const PARTS: usize> CopyMethod for Buffered<PARTS> {
    fn new(setup: &Setup) -> Result<Self, EndError> {
        Ok(Buffered { buffer: AlignedBuffer::new(setup.relay_buffer()), from: 0, to: 0 })
    }

    fn room(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    fn take(&mut self, from: BorrowedFd<'_>) -> io::Result<usize> {
        let n = if PARTS == 1 {
            socket::receive(from, &mut self.buffer)?
        } else {
            let part = self.buffer.len().div_ceil(PARTS);
            let mut parts = [(); PARTS].map(|()| IoSliceMut::new(&mut []));
            for (slot, part) in parts.iter_mut().zip(self.buffer.chunks_mut(part)) {
                *slot = IoSliceMut::new(part);
            }
            sys_io::read_vectored(from, &mut parts)?
        };
        (self.from, self.to) = (0, n);
        Ok(n)
    }

    #[inline]
    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let n = if PARTS == 1 {
            socket::send(to, &self.buffer[self.from..self.to])?
        } else {
            let part = self.buffer.len().div_ceil(PARTS);
            let within = |bytes: usize| bytes.clamp(self.from, self.to);
            let parts: [IoSlice<'_>; PARTS] = std::array::from_fn(|number| {
                IoSlice::new(&self.buffer[within(number * part)..within((number + 1) * part)])
            });
            sys_io::write_vectored(to, &parts)?
        };
        self.from += n;
        Ok(n)
    }

    #[inline]
    fn held(&self) -> usize {
        self.to - self.from
    }
}

/// A pipe and the number of bytes in it: splice(2) from a socket into the pipe and out of it into the other one. `BY_SENDFILE`: sendfile(2)
/// into the pipe, which does the same within the kernel (fs/splice.c, `splice_file_to_pipe`).
///
/// It is filled only when it is empty: a call that would block then means that the socket is empty, never that the pipe is full.
pub(super) struct Splice<const BY_SENDFILE: bool> {
    reader: OwnedFd,
    writer: OwnedFd,
    size: usize,
    held: usize,
}

impl<const BY_SENDFILE: bool> Splice<BY_SENDFILE> {
    /// A pipe of this capacity in bytes, or of the kernel's.
    fn with_pipe(size: Option<usize>) -> Result<Self, EndError> {
        let (reader, writer) = pipe::anonymous().map_err(|error| lacking(&error))?;
        let size = match size {
            Some(bytes) => pipe::set_pipe_size(writer.as_fd(), bytes),
            None => pipe::pipe_size(writer.as_fd()),
        };
        let size = size.map_err(|error| EndError::Missing(format!("the relay's pipe: {error}")))?;
        Ok(Splice { reader, writer, size, held: 0 })
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
        self.held = match BY_SENDFILE {
            true => pipe::sendfile(from, self.writer.as_fd(), self.size)?,
            false => pipe::splice(from, self.writer.as_fd(), self.size, false)?,
        };
        Ok(self.held)
    }

    fn give(&mut self, to: BorrowedFd<'_>) -> io::Result<usize> {
        let n = pipe::splice(self.reader.as_fd(), to, self.held, false)?;
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

/// Reads in a row that fill the buffer, from which on a connection counts as bulk.
const FULL_READS: u32 = 3;

/// Copies of small messages, and splices of bulk data.
///
/// Copying a few KiB costs less than the system calls around a pipe; copying megabytes costs more. Reads distinguish the two: several
/// in a row that fill the buffer are bulk, and a splice of less than a buffer is the end of bulk. The pipe is created when it is first
/// needed, so idle connections have none.
pub(super) struct Hybrid {
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

// Methods that copy a direction in a thread of its own, by calls that no other way of threading makes.

/// `std::io::copy`, as a program would write it.
///
/// On Linux it is specialised: copy_file_range(2) between files, sendfile(2) from a file, splice(2) where one side is a
/// pipe. Between two sockets none of these apply, and it is a loop of recv(2) and send(2) with a buffer of 8 KiB on the
/// stack (library/std/src/sys/io/kernel_copy, `Copier::copy`; library/std/src/io/copy.rs, `generic_copy`). A wrapper that
/// counted what passes would be another type, for which nothing is specialised: so nothing is counted before the end.
pub(super) fn std_copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let copied = if is_unix(way.from())? {
        io::copy(&mut UnixStream::from(own(way.from())?), &mut UnixStream::from(own(way.to())?))
    } else {
        io::copy(&mut TcpStream::from(own(way.from())?), &mut TcpStream::from(own(way.to())?))
    }?;
    (way.passed.taken, way.passed.given) = (copied, copied);
    Ok(())
}

/// A descriptor of its own for the type that the standard library has for it.
fn own(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    fd.try_clone_to_owned()
}

/// A loop over the traits `Read` and `Write` with a buffer on the heap: recv(2) and send(2), which spare a socket the
/// detour of read(2) and write(2) through the file layer.
///
/// With a planted fault it damages the bytes and reports success, to test that the harness detects it.
pub(super) fn copy_buffer(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let mut from = Socket::from(way.from().try_clone_to_owned()?);
    let mut to = Socket::from(way.to().try_clone_to_owned()?);
    let mut buffer = AlignedBuffer::new(way.setup.relay_buffer());
    let mut share = way.share();
    // In an echo the same byte passes twice, and a bit flipped twice is unchanged.
    let plant = way.setup.planted().filter(|_| way.is_up());
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if way.is_repeated_after(&error) => continue,
            Err(error) => return Err(error),
        };
        share.count(n, buffer.len());
        let passed = way.passed.taken..way.passed.taken + n as u64;
        way.passed.taken = passed.end;
        let mut bytes = &mut buffer[..n];
        match plant {
            Some(PlantedFault::RelayLoses(offset)) if passed.contains(&offset) => bytes = &mut bytes[1..],
            Some(PlantedFault::RelayCorrupts(offset)) if passed.contains(&offset) => {
                bytes[(offset - passed.start) as usize] ^= 1;
            }
            _ => {}
        }
        to.write_all(bytes)?;
        share.count(n, n);
        way.passed.given += n as u64;
    }
}

/// `BufReader` into `BufWriter`, flushed when nothing more is there to be read.
///
/// A read that fills the buffer passes the writer's by; a smaller one is copied into it first, and written when it is
/// flushed.
pub(super) fn bufio(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let size = way.setup.relay_buffer();
    let mut from = BufReader::with_capacity(size, Socket::from(way.from().try_clone_to_owned()?));
    let mut to = BufWriter::with_capacity(size, Socket::from(way.to().try_clone_to_owned()?));
    let mut share = way.share();
    loop {
        let n = match from.fill_buf() {
            Ok([]) => return Ok(()),
            Ok(bytes) => {
                share.count(bytes.len(), size);
                way.passed.taken += bytes.len() as u64;
                to.write_all(bytes)?;
                bytes.len()
            }
            Err(error) if way.is_repeated_after(&error) => continue,
            Err(error) => return Err(error),
        };
        from.consume(n);
        to.flush()?;
        share.count(n, n);
        way.passed.given += n as u64;
    }
}

/// Number of buffers, which bounds how far the reader may be ahead.
const PIPE_BUFFERS: usize = 4;

/// Two threads with a bounded queue of buffers between them: one reads, the other writes.
///
/// Shows the cost of a pipe between two loops (waking a thread for every buffer) and its gain (reads run during writes).
pub(super) fn pipe(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let (full, filled) = sync_channel::<(AlignedBuffer, usize)>(PIPE_BUFFERS);
    let (empty, emptied) = sync_channel(PIPE_BUFFERS);
    for _ in 0..PIPE_BUFFERS {
        // There is room for all of them.
        let _ = empty.send(AlignedBuffer::new(way.setup.relay_buffer()));
    }
    let mut taken = 0;
    let way_now: &ThreadWay<'_> = way;
    let (read, written, given) = std::thread::scope(|scope| {
        let writing = std::thread::Builder::new().name("relay-pipe".into()).spawn_scoped(scope, move || {
            let mut given = 0;
            let written = pipe_write(way_now, &filled, &empty, &mut given);
            if written.is_err() {
                way_now.breaks();
            }
            (written, given)
        });
        let writing = match writing {
            Ok(writing) => writing,
            Err(error) => return (Err(error), Ok(()), 0),
        };
        let read = pipe_read(way_now, &emptied, &full, &mut taken);
        // The writer ends when no more buffers can come.
        drop(full);
        let (written, given) = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (read, written, given)
    });
    (way.passed.taken, way.passed.given) = (taken, given);
    written.and(read)
}

fn pipe_read(
    way: &ThreadWay<'_>,
    emptied: &Receiver<AlignedBuffer>,
    full: &SyncSender<(AlignedBuffer, usize)>,
    taken: &mut u64,
) -> io::Result<()> {
    let mut share = way.share();
    while let Ok(mut buffer) = emptied.recv() {
        let n = loop {
            match socket::receive(way.from(), &mut buffer) {
                Err(error) if way.is_repeated_after(&error) => {}
                done => break done?,
            }
        };
        share.count(n, buffer.len());
        *taken += n as u64;
        if n == 0 || full.send((buffer, n)).is_err() {
            break;
        }
    }
    Ok(())
}

fn pipe_write(
    way: &ThreadWay<'_>,
    filled: &Receiver<(AlignedBuffer, usize)>,
    empty: &SyncSender<AlignedBuffer>,
    given: &mut u64,
) -> io::Result<()> {
    let mut share = way.share();
    while let Ok((buffer, len)) = filled.recv() {
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            match socket::send(way.to(), rest) {
                Ok(n) => {
                    share.count(n, rest.len());
                    *given += n as u64;
                    rest = &rest[n..];
                }
                Err(error) if way.is_repeated_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // The reading side has ended: buffers still queued are written nevertheless.
        let _ = empty.send(buffer);
    }
    Ok(())
}

#[cfg(test)]
mod hybrid_tests {
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
