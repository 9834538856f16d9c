//! One data connection of a test: a thread that reads or writes until the test ends.
//!
//! Every system call has a time limit, so a peer that neither reads nor writes holds the thread for [`CHECK`].

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::tcp_info;

use super::is_passing;

/// How often a thread that waits looks whether the test is over.
const CHECK: Duration = Duration::from_millis(20);

/// How long the data that a client sent before it stopped is read.
const REST: Duration = Duration::from_millis(500);

/// The largest read, bytes: memory of a connection.
const READ_MAX: usize = 128 << 10;

/// Bytes and datagrams that a connection has moved by now.
#[derive(Debug, Default)]
pub(super) struct StreamCounts {
    pub(super) bytes: AtomicU64,
    pub(super) datagrams: AtomicU64,
    pub(super) lost: AtomicU64,
    /// Nanoseconds.
    pub(super) jitter_ns: AtomicU64,
    pub(super) retransmits: AtomicU64,
}

/// A data connection.
#[derive(Debug)]
pub(super) enum DataSocket {
    Tcp(TcpStream),
    Udp(UdpSocket),
}

/// The work of one thread.
#[derive(Debug)]
pub(super) struct StreamWork {
    pub(super) socket: DataSocket,
    pub(super) counts: Arc<StreamCounts>,
    /// Set when the test is over.
    pub(super) ends: Arc<AtomicBool>,
    pub(super) writes: bool,
    /// Bytes of a write or a datagram, which all connections of a test share, and the length of a read.
    pub(super) block: Arc<[u8]>,
    /// Bytes per second; `None`: as fast as possible.
    pub(super) rate: Option<u64>,
    /// Whether datagrams have counters of eight bytes.
    pub(super) long_counters: bool,
}

impl StreamWork {
    /// Moves data until the test is over or the connection ends.
    pub(super) fn run(self) {
        let began = Instant::now();
        // An error ends this connection only; the control connection reports the test.
        let _ = match (&self.socket, self.writes) {
            (DataSocket::Tcp(socket), false) => self.read_stream(socket, began),
            (DataSocket::Tcp(socket), true) => self.write_stream(socket, began),
            (DataSocket::Udp(socket), false) => self.read_datagrams(socket, began),
            (DataSocket::Udp(socket), true) => self.write_datagrams(socket, began),
        };
    }

    fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }

    fn count(&self, bytes: usize) {
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Sleeps until the bytes so far are due.
    fn pace(&self, began: Instant) {
        let Some(rate) = self.rate else { return };
        let due = self.counts.bytes.load(Ordering::Relaxed) as f64 / rate.max(1) as f64;
        let mut left = Duration::from_secs_f64(due).saturating_sub(began.elapsed());
        while !left.is_zero() && !self.is_over() {
            std::thread::sleep(left.min(CHECK));
            left = Duration::from_secs_f64(due).saturating_sub(began.elapsed());
        }
    }

    fn read_stream(&self, mut socket: &TcpStream, began: Instant) -> io::Result<()> {
        socket.set_read_timeout(Some(CHECK))?;
        let mut buffer = vec![0; self.block.len().min(READ_MAX)];
        while !self.is_over() {
            match socket.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => self.count(n),
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            }
            self.pace(began);
        }
        // The client has stopped: the rest of its data is here, and counts unless a limit held it back. A client that sends on is
        // not waited for.
        socket.set_nonblocking(true)?;
        buffer.resize(READ_MAX, 0);
        let over = Instant::now();
        while let Ok(n) = socket.read(&mut buffer) {
            if n == 0 || over.elapsed() > REST {
                break;
            }
            if self.rate.is_none() {
                self.count(n);
            }
        }
        Ok(())
    }

    fn write_stream(&self, mut socket: &TcpStream, began: Instant) -> io::Result<()> {
        socket.set_write_timeout(Some(CHECK))?;
        while !self.is_over() {
            match socket.write(&self.block) {
                Ok(n) => self.count(n),
                Err(error) if is_passing(&error) => continue,
                Err(error) => return Err(error),
            }
            self.pace(began);
        }
        let sent_again = tcp_info::tcp_info(socket.as_fd()).ok().and_then(|info| info.total_retrans);
        self.counts.retransmits.store(sent_again.unwrap_or(0).into(), Ordering::Relaxed);
        socket.shutdown(Shutdown::Write)
    }

    fn read_datagrams(&self, socket: &UdpSocket, began: Instant) -> io::Result<()> {
        socket.set_read_timeout(Some(CHECK))?;
        let (mut buffer, mut arrivals) = (vec![0; 64 << 10], DatagramArrivals::default());
        let mut over = None;
        loop {
            // The last datagrams may be on their way when the client stops; a client that sends on is not waited for.
            if self.is_over() && over.get_or_insert_with(Instant::now).elapsed() > 2 * CHECK {
                return Ok(());
            }
            let n = match socket.recv(&mut buffer) {
                Ok(n) => n,
                Err(error) if is_passing(&error) && self.is_over() => return Ok(()),
                // A refused datagram of this socket is of no concern to the reader.
                Err(error) if is_passing(&error) || error.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(error) => return Err(error),
            };
            if let Some(datagram) = Stamp::of(&buffer[..n], self.long_counters) {
                arrivals.enter(datagram, began.elapsed());
                self.count(n);
                let counts = &self.counts;
                counts.datagrams.store(arrivals.highest, Ordering::Relaxed);
                counts.lost.store(arrivals.lost(), Ordering::Relaxed);
                counts.jitter_ns.store((arrivals.jitter * 1e9) as u64, Ordering::Relaxed);
            }
        }
    }

    fn write_datagrams(&self, socket: &UdpSocket, began: Instant) -> io::Result<()> {
        socket.set_write_timeout(Some(CHECK))?;
        let (mut buffer, mut number) = (self.block.to_vec(), 0);
        while !self.is_over() {
            number += 1;
            Stamp::now(number).write(&mut buffer, self.long_counters);
            match socket.send(&buffer) {
                Ok(n) => {
                    self.count(n);
                    self.counts.datagrams.store(number, Ordering::Relaxed);
                }
                // It was not sent: its number is free.
                Err(error) if is_passing(&error) || bytegauge_sys::socket::is_exhausted(&error) => number -= 1,
                Err(error) => return Err(error),
            }
            self.pace(began);
        }
        Ok(())
    }
}

/// The front of a datagram: when it was sent, and its number from 1.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    sent_seconds: f64,
    number: u64,
}

impl Stamp {
    fn now(number: u64) -> Stamp {
        Stamp { sent_seconds: monotonic_ns() as f64 / 1e9, number }
    }

    fn of(datagram: &[u8], long: bool) -> Option<Stamp> {
        let word = |at: usize| datagram.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
        let (seconds, us, first) = (word(0)?, word(4)?, word(8)?);
        let number = if long { u64::from(first) << 32 | u64::from(word(12)?) } else { first.into() };
        Some(Stamp { sent_seconds: f64::from(seconds) + f64::from(us) / 1e6, number })
    }

    fn write(self, datagram: &mut [u8], long: bool) {
        let seconds = self.sent_seconds as u32;
        let us = ((self.sent_seconds - f64::from(seconds)) * 1e6) as u32;
        let number =
            if long { self.number.to_be_bytes().to_vec() } else { (self.number as u32).to_be_bytes().to_vec() };
        let front = [&seconds.to_be_bytes()[..], &us.to_be_bytes()[..], &number].concat();
        if let Some(place) = datagram.get_mut(..front.len()) {
            place.copy_from_slice(&front);
        }
    }
}

/// Datagrams by their numbers.
#[derive(Debug, Default)]
struct DatagramArrivals {
    highest: u64,
    came: u64,
    /// Seconds between sending and arrival, by two clocks that need not agree.
    transit: Option<f64>,
    jitter: f64,
}

impl DatagramArrivals {
    fn enter(&mut self, datagram: Stamp, arrived: Duration) {
        self.highest = self.highest.max(datagram.number);
        self.came += 1;
        let transit = arrived.as_secs_f64() - datagram.sent_seconds;
        if let Some(before) = self.transit.replace(transit) {
            // RFC 3550, section 6.4.1.
            self.jitter += ((transit - before).abs() - self.jitter) / 16.0;
        }
    }

    /// Datagrams below the highest number that have not arrived; repeated ones hide as many.
    fn lost(&self) -> u64 {
        self.highest.saturating_sub(self.came)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stamps_survive_the_way(number in 1u64..u64::from(u32::MAX), seconds in 0u32..2_000_000, long: bool) {
            let stamp = Stamp { sent_seconds: seconds.into(), number };
            let mut datagram = vec![0; 20];
            stamp.write(&mut datagram, long);
            prop_assert_eq!(Stamp::of(&datagram, long), Some(stamp));
            prop_assert_eq!(Stamp::of(&datagram[..11], long), None);
        }

        #[test]
        fn gaps_are_losses_in_any_order(lost in prop::collection::btree_set(1u64..100, 0..50), turn: prop::sample::Index) {
            let mut numbers: Vec<u64> = (1..=100).filter(|number| !lost.contains(number)).collect();
            let middle = turn.index(numbers.len());
            numbers.rotate_left(middle);
            let mut arrivals = DatagramArrivals::default();
            for number in numbers {
                arrivals.enter(Stamp { sent_seconds: 0.0, number }, Duration::ZERO);
            }
            prop_assert_eq!(arrivals.lost(), lost.len() as u64);
        }
    }

    #[test]
    fn client_that_sends_on_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap();
        // Much more than the time to read the rest can take.
        let client = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(place).unwrap();
            let block = vec![1; 1 << 20];
            while stream.write_all(&block).is_ok() {}
        });
        let (socket, ends) = (listener.accept().unwrap().0, Arc::new(AtomicBool::new(true)));
        socket.peek(&mut [0]).unwrap();
        let work = StreamWork {
            socket: DataSocket::Tcp(socket),
            counts: Arc::default(),
            ends,
            writes: false,
            block: vec![0].into(),
            rate: None,
            long_counters: false,
        };
        work.run();
        client.join().unwrap();
    }

    #[test]
    fn jitter_grows_with_differences_of_transit() {
        let mut arrivals = DatagramArrivals::default();
        for (number, arrived_ms) in [(1, 0), (2, 16), (3, 16)] {
            arrivals.enter(Stamp { sent_seconds: 0.0, number }, Duration::from_millis(arrived_ms));
        }
        // 16 ms / 16 after the second datagram, less a sixteenth after the third.
        assert!((arrivals.jitter - 0.001 * 15.0 / 16.0).abs() < 1e-9, "{}", arrivals.jitter);
    }
}
