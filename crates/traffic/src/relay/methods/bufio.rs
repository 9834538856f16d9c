//! `BufReader` into `BufWriter`, flushed when nothing more is there to be read.
//!
//! A read that fills the buffer passes the writer's by; a smaller one is copied into it first, and written when it is
//! flushed.

use std::io::{self, BufRead, BufReader, BufWriter, Write};

use socket2::Socket;

use crate::relay::threads::ThreadWay;

/// One direction.
pub(in crate::relay) fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
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
            Err(error) if way.goes_on_after(&error) => continue,
            Err(error) => return Err(error),
        };
        from.consume(n);
        to.flush()?;
        share.count(n, n);
        way.passed.given += n as u64;
    }
}
