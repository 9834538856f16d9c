//! A loop over the traits `Read` and `Write` with a buffer on the heap: recv(2) and send(2), which spare a socket the
//! detour of read(2) and write(2) through the file layer.

use std::io::{self, Read, Write};

use socket2::Socket;

use crate::relay::threads::ThreadWay;

/// One direction.
pub(in crate::relay) fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let mut from = Socket::from(way.from().try_clone_to_owned()?);
    let mut to = Socket::from(way.to().try_clone_to_owned()?);
    let mut buffer = vec![0; way.setup.relay_buffer()];
    let mut share = way.share();
    loop {
        let n = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => n,
            Err(error) if way.goes_on_after(&error) => continue,
            Err(error) => return Err(error),
        };
        share.count(n, buffer.len());
        way.passed.taken += n as u64;
        to.write_all(&buffer[..n])?;
        share.count(n, n);
        way.passed.given += n as u64;
    }
}
