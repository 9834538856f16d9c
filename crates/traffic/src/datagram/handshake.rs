//! How a stream of datagrams begins and ends, by datagrams that hold none of its bytes.
//!
//! It begins when the sink says that its reader runs: what a fast sender sent to a reader that had not got its CPU yet
//! would be lost, and would be taken for the path's loss. It ends when the source says that there is no more, again and
//! again until the sink has answered: either may be lost to a full buffer. What was sent before arrives before it.
//!
//! Between two hosts the source knocks until then, showing the trial's ticket: each of these words may be lost there, too.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::datagram::source::Run;
use crate::ticket::{SHOWN, Shown};

/// What the sink says when its reader runs; what it answers to a farewell is empty.
const BEGUN: &[u8] = &[1];

/// How long the source waits for an answer before it says again that there is no more.
const AGAIN_NS: u64 = 2_000_000;

/// How often the source looks whether it is still wanted while it waits for the sink to begin, and knocks.
const LOOK_NS: u64 = 20_000_000;

/// The same.
pub(crate) const KNOCKS_EVERY: Duration = Duration::from_nanos(LOOK_NS);

/// Bytes of the longest message that a socket gives, joined or not.
const JOINED_MAX: usize = 64 << 10;

/// How long a source says farewell to another host: nobody may tell it that the sink has heard it and gone.
const FAREWELL: Duration = Duration::from_secs(3);

/// Shows the ticket; whoever hears it is at the door, or was let in already.
pub(super) fn knock(fd: BorrowedFd<'_>, shown: &Shown) {
    // It is shown again soon; a sink that is gone shows at the first send.
    let _ = socket::send_now(fd, shown);
}

/// Says that the reader runs: to whoever goes on knocking, again, until something else comes.
pub(super) fn begin(fd: BorrowedFd<'_>, shown: Option<&Shown>, abort: &AtomicBool) {
    // Nothing has been sent yet, so there is room; a source that is gone shows when nothing comes.
    let _ = socket::send_now(fd, BEGUN);
    let Some(shown) = shown else { return };
    // The kernel may have joined several of them.
    let mut said = vec![0; JOINED_MAX];
    while !abort.load(Ordering::Relaxed) {
        if !matches!(socket::wait(fd, Until::Readable, LOOK_NS), Ok(Some(_))) {
            continue;
        }
        // What was sent is left to the reader, and what is joined to it.
        let are_knocks = |said: &[u8]| !said.is_empty() && said.chunks(SHOWN).all(|part| part == shown);
        if !socket::peek(fd, &mut said).is_ok_and(|len| are_knocks(&said[..len])) {
            return;
        }
        let _ = socket::receive(fd, &mut said);
        let _ = socket::send_now(fd, BEGUN);
    }
}

/// Says that the reader runs until the source's first datagram has come: of one that does not knock nobody knows what it has heard.
pub(super) fn begin_until_heard(fd: BorrowedFd<'_>, abort: &AtomicBool) {
    while !abort.load(Ordering::Relaxed) {
        // One that is gone shows when nothing comes.
        let _ = socket::send_now(fd, BEGUN);
        if matches!(socket::wait(fd, Until::Readable, LOOK_NS), Ok(Some(_))) {
            match socket::peek(fd, &mut [0; 1]) {
                Ok(_) => return,
                // Nobody was there a moment ago.
                Err(_) => std::thread::sleep(KNOCKS_EVERY),
            }
        }
    }
}

/// Waits until the reader runs. `false`: nobody wants what would be sent.
pub(super) fn await_reader(run: Run<'_>, shown: Option<&Shown>, is_far: bool) -> bool {
    let Run { fd, abort, told, leash } = run;
    let is_let = || leash.is_none_or(|leash| leash.lets(0, monotonic_ns()));
    while !abort.load(Ordering::Relaxed) && is_let() {
        // Who got the CPU so late may have been answered all the same.
        let is_told = told.load(Ordering::Relaxed);
        shown.iter().filter(|_| !is_told).for_each(|shown| knock(fd, shown));
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, if is_told { 0 } else { LOOK_NS }) {
            match sys_io::read(fd, &mut [0; 2]) {
                // That nobody was there says nothing of who reads: another host is sent no more than the next knock, in its time.
                Err(_) if is_far => std::thread::sleep(KNOCKS_EVERY),
                // A reader that connected has knocked, and more than once.
                Ok(said) if is_far && said != BEGUN.len() => continue,
                // What was said is not the answer to a farewell; an error shows again at the first send.
                _ => return true,
            }
        }
        if is_told {
            break;
        }
    }
    false
}

/// Says that there is no more, until the sink has heard it, is gone, or the watchdog ends this.
pub(super) fn say(fd: BorrowedFd<'_>, is_far: bool, abort: &AtomicBool) {
    let began = Instant::now();
    while !(abort.load(Ordering::Relaxed) || is_far && began.elapsed() > FAREWELL) {
        // A full queue will have room. But a sink may have answered and gone since the last look: then a Unix socket
        // throws the answer away with this error (`unix_dgram_disconnected`, net/unix/af_unix.c), and says no more.
        if socket::send_now(fd, &[]).is_err_and(|error| is_gone(&error)) {
            return;
        }
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, AGAIN_NS) {
            match sys_io::read(fd, &mut [0; 1]) {
                // Who was let in and went on knocking has heard more than once that the reader runs.
                Ok(1) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An answer, or the error that a datagram to nobody has brought back.
                _ => return,
            }
        }
    }
}

/// Answers that it was heard.
pub(super) fn answer(fd: BorrowedFd<'_>) {
    // Whoever does not hear it says again that there is no more, to a socket that is closed by then, and learns it so.
    let _ = socket::send_now(fd, &[]);
}

/// Whether a failed send says that nobody has the other socket any more.
pub(super) fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, NotConnected};
    matches!(error.kind(), ConnectionRefused | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::leash::{Bound, Leash};
    use crate::ticket::Ticket;

    /// Far longer than any machine stands still: whoever waits so long waits for ever.
    const FOR_EVER: Duration = Duration::from_secs(60);

    /// Does something that has to end before the watchdog ends it.
    fn ends(what: impl FnOnce(&AtomicBool)) {
        let abort = &AtomicBool::new(false);
        let (done, waits) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let returned = waits.recv_timeout(FOR_EVER).is_ok();
                abort.store(!returned, Ordering::Relaxed);
            });
            what(abort);
            let _ = done.send(());
        });
        assert!(!abort.load(Ordering::Relaxed), "it went on until the watchdog ended it");
    }

    /// Two sockets that are connected to each other.
    fn joined() -> (UdpSocket, UdpSocket) {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }

    #[test]
    fn a_sink_that_answered_and_went_between_two_looks_was_heard() {
        let (source, sink) = UnixDatagram::pair().unwrap();
        answer(sink.as_fd());
        drop(sink);
        ends(|abort| say(source.as_fd(), false, abort));
    }

    #[test]
    fn who_knocks_again_hears_again_that_the_reader_runs_and_what_was_sent_is_left_to_it() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(3);
        // Of the first answers all may have been lost.
        (0..3).for_each(|_| knock(source.as_fd(), &shown));
        source.send(b"the first one").unwrap();
        ends(|abort| begin(sink.as_fd(), Some(&shown), abort));
        let mut heard = [0; 64];
        assert_eq!(sink.recv(&mut heard).unwrap(), 13);
        assert_eq!(&heard[..13], b"the first one");
        source.set_nonblocking(true).unwrap();
        let said: Vec<usize> = std::iter::from_fn(|| source.recv(&mut heard).ok()).collect();
        assert_eq!(said, [BEGUN.len(); 4]);
    }

    #[test]
    fn what_was_said_before_is_not_taken_for_the_answer_to_a_farewell() {
        let (source, sink) = joined();
        (0..3).for_each(|_| begin(sink.as_fd(), None, &AtomicBool::new(false)));
        let heard = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(sink.recv(&mut [0; 8]).unwrap(), 0);
                heard.store(true, Ordering::SeqCst);
                answer(sink.as_fd());
            });
            ends(|abort| say(source.as_fd(), false, abort));
            assert!(heard.load(Ordering::SeqCst));
        });
    }

    #[test]
    fn a_farewell_to_another_host_ends_although_nobody_answers() {
        let (source, _sink) = joined();
        ends(|abort| say(source.as_fd(), true, abort));
    }

    #[test]
    fn a_source_knocks_until_it_is_let_in() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut said = [0; SHOWN];
                // The first two are lost.
                for _ in 0..3 {
                    assert_eq!((sink.recv(&mut said).unwrap(), said), (SHOWN, shown));
                }
                sink.send(BEGUN).unwrap();
            });
            ends(|abort| {
                let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(false), leash: None };
                assert!(await_reader(run, Some(&shown), true));
            });
        });
    }

    #[test]
    fn a_sink_that_connected_says_that_it_reads_until_it_is_heard_and_its_knocks_are_not_taken_for_it() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(4);
        (0..3).for_each(|_| knock(sink.as_fd(), &shown));
        std::thread::scope(|scope| {
            scope.spawn(|| ends(|abort| begin_until_heard(sink.as_fd(), abort)));
            // Of what it says the first is lost.
            let mut said = [0; SHOWN];
            while source.recv(&mut said).unwrap() != BEGUN.len() {}
            ends(|abort| {
                let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(false), leash: None };
                assert!(await_reader(run, None, true));
            });
            source.send(b"the first one").unwrap();
        });
        let mut heard = [0; 64];
        assert_eq!(sink.recv(&mut heard).unwrap(), 13);
    }

    #[test]
    fn knocks_alone_say_nothing_of_who_reads() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(4);
        for says in [false, true] {
            (0..3).for_each(|_| knock(sink.as_fd(), &shown));
            if says {
                sink.send(BEGUN).unwrap();
            }
            ends(|abort| {
                let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(true), leash: None };
                assert_eq!(await_reader(run, None, true), says);
            });
        }
    }

    #[test]
    fn a_source_that_is_told_to_stop_knocks_no_more_and_hears_only_what_was_said_before() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        sink.set_nonblocking(true).unwrap();
        for says in [false, true] {
            if says {
                sink.send(BEGUN).unwrap();
            }
            ends(|abort| {
                let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(true), leash: None };
                assert_eq!(await_reader(run, Some(&shown), true), says);
            });
            assert!(sink.recv(&mut [0; SHOWN]).is_err());
        }
    }

    #[test]
    fn a_host_where_nobody_listens_has_not_said_that_it_reads() {
        let (source, sink) = joined();
        drop(sink);
        let shown = Ticket::fresh().unwrap().shown_by(0);
        // Loopback says at once that nobody is there.
        assert!(source.send(&shown).is_ok());
        ends(|abort| {
            let leash = Leash::new(Bound { bytes: u64::MAX, lasts_ns: 100_000_000 });
            leash.begin(monotonic_ns());
            let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(false), leash: Some(&leash) };
            assert!(!await_reader(run, Some(&shown), true));
        });
    }

    #[test]
    fn a_source_that_nobody_lets_in_knocks_no_longer_than_its_host_allows() {
        let (source, _sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        let leash = Leash::new(Bound { bytes: u64::MAX, lasts_ns: 1_000_000 });
        leash.begin(monotonic_ns());
        ends(|abort| {
            let run = Run { fd: source.as_fd(), abort, told: &AtomicBool::new(false), leash: Some(&leash) };
            assert!(!await_reader(run, Some(&shown), true));
        });
    }

    #[test]
    fn knocks_that_the_kernel_joined_are_answered_and_what_is_joined_to_data_is_left() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(3);
        // What a socket that joins gives of two knocks, and of a knock and data of its length.
        source.send(&[shown, shown].concat()).unwrap();
        source.send(&[shown, [7; SHOWN]].concat()).unwrap();
        ends(|abort| begin(sink.as_fd(), Some(&shown), abort));
        let mut heard = [0; 200];
        assert_eq!(sink.recv(&mut heard).unwrap(), 2 * SHOWN);
        assert_eq!(heard[SHOWN..2 * SHOWN], [7; SHOWN]);
        source.set_nonblocking(true).unwrap();
        assert_eq!(std::iter::from_fn(|| source.recv(&mut heard).ok()).count(), 2);
    }
}
