//! Moves a thread to the CPU where its data arrives: for bulk data, reading there is faster since the bytes are in its cache.
//!
//! `SO_INCOMING_CPU` (socket(7)) is the CPU on which the last segment of a connection was processed. Read once in many
//! calls, its cost is not measurable. Small messages are no reason to move.

use std::os::fd::BorrowedFd;

use bytegauge_sys::affinity;
use bytegauge_sys::option::{self, Value};

/// Calls between two checks.
const CALLS: u32 = 64;

/// Average bytes per call from which a flow counts as bulk.
const BULK: usize = 32 << 10;

/// The thread's CPU, and the bytes it has taken since the last check.
#[derive(Debug, Default)]
pub(super) struct Follower {
    calls: u32,
    bytes: usize,
    at: Option<usize>,
}

impl Follower {
    /// Bytes were taken from a socket: moves the thread to its CPU, if due.
    #[inline]
    pub(super) fn took(&mut self, from: BorrowedFd<'_>, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes;
        if self.calls == CALLS {
            self.look(from);
        }
    }

    #[cold]
    fn look(&mut self, from: BorrowedFd<'_>) {
        let is_bulk = self.bytes >= BULK * CALLS as usize;
        (self.calls, self.bytes) = (0, 0);
        let Ok(Value::Number(cpu)) = option::read(from, option::INCOMING_CPU) else { return };
        let Some(cpu) = usize::try_from(cpu).ok().filter(|cpu| is_bulk && self.at != Some(*cpu)) else { return };
        // A CPU that the process may not use is ignored.
        if affinity::pin_thread(&[cpu]).is_ok() {
            self.at = Some(cpu);
        }
    }

    /// The CPU to which it has moved.
    #[cfg(test)]
    fn at(&self) -> Option<usize> {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    /// The CPU to which a thread moved after calls of `bytes` bytes each, and the allowed CPUs.
    fn goes(bytes: usize) -> (Option<usize>, Vec<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        std::thread::spawn(move || {
            let mut follower = Follower::default();
            (0..CALLS).for_each(|_| follower.took(server.as_fd(), bytes));
            (follower.at(), affinity::allowed_cpus().unwrap())
        })
        .join()
        .unwrap()
    }

    #[test]
    fn bulk_is_followed_and_messages_are_not() {
        let all = affinity::allowed_cpus().unwrap();
        let (at, allowed) = goes(BULK);
        assert_eq!(allowed, [at.expect("the segment was processed somewhere")]);
        assert_eq!(goes(BULK - 1), (None, all));
    }
}
