//! Methods that copy a direction in a thread of its own, by calls that no other way of threading makes.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::socket;
use socket2::Socket;

use crate::engine::is_unix;
use crate::planted_fault::PlantedFault;
use crate::relay::thread_per_direction::ThreadWay;

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
fn own(fd: BorrowedFd<'_>) -> io::Result<std::os::fd::OwnedFd> {
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
