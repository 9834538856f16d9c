//! The begin and the end of a stream of datagrams, by control datagrams without bytes of the stream.
//!
//! The stream begins when the sink reports that its reader runs: datagrams of a fast sender to a reader that has no CPU yet
//! would be lost, and would count as losses of the path. It ends when the source announces its end, repeatedly
//! until the sink has answered: either message may be lost to a full buffer. Earlier datagrams arrive before it.
//!
//! Between two hosts the source sends the trial's ticket repeatedly until then: each message may be lost there, too.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::datagram::source::SourceLoop;
use crate::path::{SHOWN, Shown};

/// The sink's message that its reader runs. Its answer to the announced end is empty.
const BEGUN: &[u8] = &[1];

/// How long the source waits for an answer before it announces its end again.
const AGAIN_NS: u64 = 2_000_000;

/// How often the source checks whether to stop while it waits for the sink to begin, and sends its ticket.
const CHECK_NS: u64 = 20_000_000;

/// The same.
pub(crate) const TICKET_INTERVAL: Duration = Duration::from_nanos(CHECK_NS);

/// Bytes of the longest message that a socket gives, joined or not.
const JOINED_MAX: usize = 64 << 10;

/// How long a source announces its end to another host: the sink may have received it and closed, without an answer.
const FAREWELL: Duration = Duration::from_secs(3);

/// Sends the ticket. The receiver waits for it, or has admitted the flow already.
pub(crate) fn send_ticket(fd: BorrowedFd<'_>, shown: &Shown) {
    // It is sent again soon; a closed sink shows at the first send.
    let _ = socket::send_now(fd, shown);
}

/// Reports that the reader runs, again after each ticket, until something else arrives.
pub(crate) fn begin(fd: BorrowedFd<'_>, shown: Option<&Shown>, abort: &AtomicBool) {
    // Nothing has been sent yet, so there is room; a closed source shows when nothing arrives.
    let _ = socket::send_now(fd, BEGUN);
    let Some(shown) = shown else { return };
    // The kernel may have joined several of them.
    let mut received = vec![0; JOINED_MAX];
    while !abort.load(Ordering::Relaxed) {
        if !matches!(socket::wait(fd, Until::Readable, CHECK_NS), Ok(Some(_))) {
            continue;
        }
        // Data is left to the reader, together with tickets that are joined to it.
        let are_tickets = |received: &[u8]| !received.is_empty() && received.chunks(SHOWN).all(|part| part == shown);
        if !socket::peek(fd, &mut received).is_ok_and(|len| are_tickets(&received[..len])) {
            return;
        }
        let _ = socket::receive(fd, &mut received);
        let _ = socket::send_now(fd, BEGUN);
    }
}

/// Reports that the reader runs until the source's first datagram arrives: a source without tickets does not confirm the report.
pub(crate) fn begin_until_data(fd: BorrowedFd<'_>, abort: &AtomicBool) {
    while !abort.load(Ordering::Relaxed) {
        // A closed source shows when nothing arrives.
        let _ = socket::send_now(fd, BEGUN);
        if matches!(socket::wait(fd, Until::Readable, CHECK_NS), Ok(Some(_))) {
            match socket::peek(fd, &mut [0; 1]) {
                Ok(_) => return,
                // The peer did not exist a moment ago.
                Err(_) => std::thread::sleep(TICKET_INTERVAL),
            }
        }
    }
}

/// Waits until the reader runs. `false` if the sink does not want the stream.
pub(crate) fn await_reader(run: SourceLoop<'_>, shown: Option<&Shown>, is_far: bool) -> bool {
    let SourceLoop { fd, abort, stop_requested, limit } = run;
    let within_limit = || limit.is_none_or(|limit| limit.allows(0, monotonic_ns()));
    while !abort.load(Ordering::Relaxed) && within_limit() {
        // A thread that got the CPU late may have an answer all the same.
        let is_stopped = stop_requested.load(Ordering::Relaxed);
        shown.iter().filter(|_| !is_stopped).for_each(|shown| send_ticket(fd, shown));
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, if is_stopped { 0 } else { CHECK_NS }) {
            match sys_io::read(fd, &mut [0; 2]) {
                // A missing peer gives no information about the reader: another host only gets the next ticket, in its time.
                Err(_) if is_far => std::thread::sleep(TICKET_INTERVAL),
                // A reader that connected has sent its ticket, more than once.
                Ok(received) if is_far && received != BEGUN.len() => continue,
                // Earlier messages are not the answer to the announced end; an error shows again at the first send.
                _ => return true,
            }
        }
        if is_stopped {
            break;
        }
    }
    false
}

/// Announces the end until the sink has received it, is closed, or the watchdog ends this.
pub(crate) fn announce(fd: BorrowedFd<'_>, is_far: bool, abort: &AtomicBool) {
    let began = Instant::now();
    while !(abort.load(Ordering::Relaxed) || is_far && began.elapsed() > FAREWELL) {
        // A full queue will have room. But a sink may have answered and closed since the last check: then a Unix socket
        // discards the answer with this error (`unix_dgram_disconnected`, net/unix/af_unix.c), and reports nothing more.
        if socket::send_now(fd, &[]).is_err_and(|error| is_gone(&error)) {
            return;
        }
        if let Ok(Some(_)) = socket::wait(fd, Until::Readable, AGAIN_NS) {
            match sys_io::read(fd, &mut [0; 1]) {
                // An admitted source that went on sending tickets has received more than one report that the reader runs.
                Ok(1) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // An answer, or the error of a datagram to a closed socket.
                _ => return,
            }
        }
    }
}

/// Answers that the end was received.
pub(crate) fn answer(fd: BorrowedFd<'_>) {
    // A source that does not receive it announces its end again, to a socket that is closed by then, and learns it so.
    let _ = socket::send_now(fd, &[]);
}

/// Whether a failed send means that the other socket is closed.
pub(crate) fn is_gone(error: &io::Error) -> bool {
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
    use crate::path::Ticket;
    use crate::setup::{Bound, TransferLimit};

    /// Far longer than any stall of a machine: a wait of this length never ends.
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
        assert!(!abort.load(Ordering::Relaxed), "the watchdog had to end it");
    }

    /// Two sockets that are connected to each other.
    fn joined() -> (UdpSocket, UdpSocket) {
        let (one, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        one.connect(other.local_addr().unwrap()).unwrap();
        other.connect(one.local_addr().unwrap()).unwrap();
        (one, other)
    }

    #[test]
    fn a_closed_sink_has_answered_before() {
        let (source, sink) = UnixDatagram::pair().unwrap();
        answer(sink.as_fd());
        drop(sink);
        ends(|abort| announce(source.as_fd(), false, abort));
    }

    #[test]
    fn repeated_tickets_get_repeated_reports() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(3);
        // All of the first reports may have been lost.
        (0..3).for_each(|_| send_ticket(source.as_fd(), &shown));
        source.send(b"the first one").unwrap();
        ends(|abort| begin(sink.as_fd(), Some(&shown), abort));
        let mut heard = [0; 64];
        assert_eq!(sink.recv(&mut heard).unwrap(), 13);
        assert_eq!(&heard[..13], b"the first one");
        source.set_nonblocking(true).unwrap();
        let received: Vec<usize> = std::iter::from_fn(|| source.recv(&mut heard).ok()).collect();
        assert_eq!(received, [BEGUN.len(); 4]);
    }

    #[test]
    fn earlier_messages_do_not_answer_the_end() {
        let (source, sink) = joined();
        (0..3).for_each(|_| begin(sink.as_fd(), None, &AtomicBool::new(false)));
        let heard = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(sink.recv(&mut [0; 8]).unwrap(), 0);
                heard.store(true, Ordering::SeqCst);
                answer(sink.as_fd());
            });
            ends(|abort| announce(source.as_fd(), false, abort));
            assert!(heard.load(Ordering::SeqCst));
        });
    }

    #[test]
    fn an_unanswered_end_stops_after_a_time() {
        let (source, _sink) = joined();
        ends(|abort| announce(source.as_fd(), true, abort));
    }

    #[test]
    fn a_source_sends_tickets_until_admitted() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut received = [0; SHOWN];
                // The first two are lost.
                for _ in 0..3 {
                    assert_eq!((sink.recv(&mut received).unwrap(), received), (SHOWN, shown));
                }
                sink.send(BEGUN).unwrap();
            });
            ends(|abort| {
                let run =
                    SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(false), limit: None };
                assert!(await_reader(run, Some(&shown), true));
            });
        });
    }

    #[test]
    fn a_connected_sink_reports_until_received() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(4);
        (0..3).for_each(|_| send_ticket(sink.as_fd(), &shown));
        std::thread::scope(|scope| {
            scope.spawn(|| ends(|abort| begin_until_data(sink.as_fd(), abort)));
            // The first report is lost.
            let mut received = [0; SHOWN];
            while source.recv(&mut received).unwrap() != BEGUN.len() {}
            ends(|abort| {
                let run =
                    SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(false), limit: None };
                assert!(await_reader(run, None, true));
            });
            source.send(b"the first one").unwrap();
        });
        let mut heard = [0; 64];
        assert_eq!(sink.recv(&mut heard).unwrap(), 13);
    }

    #[test]
    fn tickets_alone_are_no_report() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(4);
        for answers in [false, true] {
            (0..3).for_each(|_| send_ticket(sink.as_fd(), &shown));
            if answers {
                sink.send(BEGUN).unwrap();
            }
            ends(|abort| {
                let run = SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(true), limit: None };
                assert_eq!(await_reader(run, None, true), answers);
            });
        }
    }

    #[test]
    fn a_stopped_source_sends_no_more_tickets() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        sink.set_nonblocking(true).unwrap();
        for answers in [false, true] {
            if answers {
                sink.send(BEGUN).unwrap();
            }
            ends(|abort| {
                let run = SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(true), limit: None };
                assert_eq!(await_reader(run, Some(&shown), true), answers);
            });
            assert!(sink.recv(&mut [0; SHOWN]).is_err());
        }
    }

    #[test]
    fn a_host_without_listener_is_no_reader() {
        let (source, sink) = joined();
        drop(sink);
        let shown = Ticket::fresh().unwrap().shown_by(0);
        // Loopback reports at once that there is no listener.
        assert!(source.send(&shown).is_ok());
        ends(|abort| {
            let limit = TransferLimit::new(Bound { bytes: u64::MAX, lasts_ns: 100_000_000 });
            limit.begin(monotonic_ns());
            let run =
                SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(false), limit: Some(&limit) };
            assert!(!await_reader(run, Some(&shown), true));
        });
    }

    #[test]
    fn tickets_stop_at_the_time_limit() {
        let (source, _sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(0);
        let limit = TransferLimit::new(Bound { bytes: u64::MAX, lasts_ns: 1_000_000 });
        limit.begin(monotonic_ns());
        ends(|abort| {
            let run =
                SourceLoop { fd: source.as_fd(), abort, stop_requested: &AtomicBool::new(false), limit: Some(&limit) };
            assert!(!await_reader(run, Some(&shown), true));
        });
    }

    #[test]
    fn joined_tickets_are_answered() {
        let (source, sink) = joined();
        let shown = Ticket::fresh().unwrap().shown_by(3);
        // A joining socket returns two tickets in one message, and a ticket with data of its length.
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
