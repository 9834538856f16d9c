//! Two threads with a bounded queue of buffers between them: one reads, the other writes.
//!
//! Shows the cost of a pipe between two loops (waking a thread for every buffer) and its gain (reads run during writes).

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use bytegauge_sys::socket;

use crate::relay::threads::ThreadWay;

/// Number of buffers, which bounds how far the reader may be ahead.
const BUFFERS: usize = 4;

/// One direction: the calling thread reads, another one writes.
pub(in crate::relay) fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let (full, filled) = sync_channel::<(Vec<u8>, usize)>(BUFFERS);
    let (empty, emptied) = sync_channel(BUFFERS);
    for _ in 0..BUFFERS {
        // There is room for all of them.
        let _ = empty.send(vec![0; way.setup.relay_buffer()]);
    }
    let mut taken = 0;
    let way_now: &ThreadWay<'_> = way;
    let (read, written, given) = std::thread::scope(|scope| {
        let writing = std::thread::Builder::new().name("relay-pipe".into()).spawn_scoped(scope, move || {
            let mut given = 0;
            let written = write(way_now, &filled, &empty, &mut given);
            if written.is_err() {
                way_now.breaks();
            }
            (written, given)
        });
        let writing = match writing {
            Ok(writing) => writing,
            Err(error) => return (Err(error), Ok(()), 0),
        };
        let read = read(way_now, &emptied, &full, &mut taken);
        // The writer ends when no more buffers can come.
        drop(full);
        let (written, given) = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (read, written, given)
    });
    (way.passed.taken, way.passed.given) = (taken, given);
    written.and(read)
}

fn read(
    way: &ThreadWay<'_>,
    emptied: &Receiver<Vec<u8>>,
    full: &SyncSender<(Vec<u8>, usize)>,
    taken: &mut u64,
) -> io::Result<()> {
    let mut share = way.share();
    while let Ok(mut buffer) = emptied.recv() {
        let n = loop {
            match socket::receive(way.from(), &mut buffer) {
                Err(error) if way.goes_on_after(&error) => {}
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

fn write(
    way: &ThreadWay<'_>,
    filled: &Receiver<(Vec<u8>, usize)>,
    empty: &SyncSender<Vec<u8>>,
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
                Err(error) if way.goes_on_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
        // The reading side has ended: buffers still queued are written nevertheless.
        let _ = empty.send(buffer);
    }
    Ok(())
}
