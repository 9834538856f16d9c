//! A thread for each direction of each connection, with blocking calls; the relay's own thread accepts and connects.
//!
//! A direction that ends in order shuts down the socket to which it writes. One that fails marks the connection, so that closing
//! it resets both sides, and wakes the other direction by shutting down the *reading* of both sockets, which a peer does not
//! notice (shutdown(2) on TCP: `SHUT_RD` sends no segment).

use std::collections::BTreeMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Scope;
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::socket::{self, Until};

use crate::engine::{ACCEPT_PAUSE_NS, WAIT_MAX_NS, is_out_of_descriptors, reset_when_closed};
use crate::meter::Meter;
use crate::relay::copy_methods::{Carrying, CopyMethod};
use crate::relay::state::{Passage, RelayShared};
use crate::setup::Setup;
use crate::tally::{Share, Tally};
use crate::{EndError, lock};

/// Stack of a thread that carries one direction, bytes: there may be thousands of them.
pub(super) const STACK: usize = 256 << 10;

/// One direction of a connection, as its thread sees it.
pub(super) struct ThreadWay<'a> {
    pub(super) setup: &'a Setup,
    pair: &'a Pair,
    /// 0 is up: from the connecting end.
    number: usize,
    tally: &'a Arc<Tally>,
    abort: &'a AtomicBool,
    /// The bytes received and passed on.
    pub(super) passed: Passage,
}

/// Relays a direction to the end of its stream.
pub(super) type Copy<'a> = dyn Fn(&mut ThreadWay<'_>) -> io::Result<()> + Sync + 'a;

/// The two sockets of a connection: the accepted one, and the one to the other side.
struct Pair {
    legs: [OwnedFd; 2],
    broken: AtomicBool,
    /// Directions that are over.
    passed: Mutex<[Option<Passage>; 2]>,
}

/// Open connections, by number.
type Open = Mutex<BTreeMap<u64, Arc<Pair>>>;

impl ThreadWay<'_> {
    pub(super) fn from(&self) -> BorrowedFd<'_> {
        self.pair.legs[self.number].as_fd()
    }

    /// Whether it leads from the connecting end to the one behind the relay.
    pub(super) fn is_up(&self) -> bool {
        self.number == 0
    }

    pub(super) fn to(&self) -> BorrowedFd<'_> {
        self.pair.legs[1 - self.number].as_fd()
    }

    /// The calling thread's share of the counts within the window.
    pub(super) fn share(&self) -> Share {
        self.tally.share()
    }

    /// Whether to repeat an interrupted call.
    pub(super) fn is_repeated_after(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::Interrupted && !self.abort.load(Ordering::Relaxed)
    }

    /// Wakes the threads of this connection, which has failed.
    pub(super) fn breaks(&self) {
        self.pair.breaks(Shutdown::Read);
    }
}

impl Pair {
    /// Wakes both directions, which then end as failures: by the end of reading, or by that of both if they may wait in a send.
    fn breaks(&self, how: Shutdown) {
        self.broken.store(true, Ordering::Release);
        for leg in &self.legs {
            reset_when_closed(leg.as_fd());
            let _ = sys_io::shutdown(leg.as_fd(), how);
        }
    }
}

/// Accepts and relays connections until it is over.
pub(super) fn carry(carrying: Carrying<'_, '_>, copy: &Copy<'_>) -> Result<EngineReport, EndError> {
    let Carrying { shared, setup, flags, meter } = carrying;
    let (open, tally) = (Open::default(), meter.tally());
    let threads = ThreadShared { shared, setup, copy, tally: &tally, abort: &flags.abort, open: &open };
    std::thread::scope(|scope| {
        let report = accept(scope, &threads, &flags.stop_requested, meter);
        // Clients of calls wait for no more replies; in a stream everything has ended or was aborted.
        shared.closes();
        lock(&open).values().for_each(|pair| pair.breaks(Shutdown::Both));
        report
    })
}

/// State shared by all threads.
#[derive(Clone, Copy)]
struct ThreadShared<'a> {
    shared: &'a RelayShared,
    setup: &'a Setup,
    copy: &'a Copy<'a>,
    tally: &'a Arc<Tally>,
    abort: &'a AtomicBool,
    open: &'a Open,
}

fn accept<'s>(
    scope: &'s Scope<'s, '_>,
    threads: &'s ThreadShared<'_>,
    stop_requested: &AtomicBool,
    meter: &mut Meter,
) -> Result<EngineReport, EndError> {
    let (shared, mut report) = (threads.shared, EngineReport::default());
    // A request to stop does not end it by itself.
    let never = AtomicBool::new(false);
    loop {
        let now_ns = monotonic_ns();
        if !meter.continues(now_ns, &never) || threads.abort.load(Ordering::Relaxed) || shared.is_over(stop_requested) {
            return Ok(report);
        }
        let until_ns = meter.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
        if !matches!(socket::wait(shared.listener.as_fd(), Until::Readable, until_ns - now_ns), Ok(Some(_))) {
            continue;
        }
        match socket::accept(shared.listener.as_fd(), false) {
            Ok(fd) => {
                report.accepted += 1;
                report.accepted_at_once = 1;
                threads.start_pair(scope, fd, report.accepted)?;
            }
            Err(error) => {
                if is_out_of_descriptors(error)? {
                    std::thread::sleep(Duration::from_nanos(ACCEPT_PAUSE_NS));
                }
            }
        }
    }
}

impl ThreadShared<'_> {
    /// Connects an accepted connection to the other side, and starts its two threads.
    fn start_pair<'s>(&'s self, scope: &'s Scope<'s, '_>, fd: OwnedFd, number: u64) -> Result<(), EndError> {
        if !self.shared.admits(&fd) {
            return Ok(());
        }
        let joined = self.shared.upstream.prepare_accepted(&fd).and_then(|()| self.shared.upstream.connector.join());
        let upstream = match joined {
            Ok(upstream) => upstream,
            Err(fault) => {
                reset_when_closed(fd.as_fd());
                self.shared.unconnected(fault);
                return Ok(());
            }
        };
        let pair = Arc::new(Pair { legs: [fd, upstream], broken: AtomicBool::new(false), passed: Mutex::default() });
        lock(self.open).insert(number, Arc::clone(&pair));
        for way in 0..2 {
            let its = Arc::clone(&pair);
            let named = std::thread::Builder::new().name(format!("relay-{number}-{way}")).stack_size(STACK);
            if let Err(source) = named.spawn_scoped(scope, move || self.carry(&its, number, way)) {
                pair.breaks(Shutdown::Read);
                let doing = format!("starting a thread for the relay's connection {number}: use fewer --flows");
                return Err(EndError::Io { doing, source });
            }
        }
        Ok(())
    }

    /// Relays one direction from its first byte to its end.
    fn carry(&self, pair: &Pair, number: u64, way: usize) {
        let ThreadShared { shared, setup, copy, tally, abort, open } = *self;
        setup.page_offset().set_for_thread();
        let mut way = ThreadWay { setup, pair, number: way, tally, abort, passed: Passage::default() };
        match copy(&mut way) {
            Ok(()) if !pair.broken.load(Ordering::Acquire) => {
                way.passed.in_order = true;
                // If the peer is gone already, the other direction reports it.
                let _ = sys_io::shutdown(way.to(), Shutdown::Write);
            }
            Ok(()) | Err(_) => pair.breaks(Shutdown::Read),
        }
        let mut over = lock(&pair.passed);
        over[way.number] = Some(way.passed);
        if let [Some(up), Some(down)] = *over {
            let legs = pair.legs.each_ref().map(|leg| Some(leg.as_fd()));
            shared.settle([up, down], pair.broken.load(Ordering::Acquire), legs);
            lock(open).remove(&number);
        }
    }
}

/// Takes and gives by blocking system calls.
pub(super) fn copy_by<H: CopyMethod>(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let mut method = H::new(way.setup).map_err(|fault| io::Error::other(fault.to_string()))?;
    let mut share = way.share();
    copy_loop(way, &mut method, &mut share)
}

/// The loop (`cargo xtask hot-loops`).
#[inline(never)]
fn copy_loop<H: CopyMethod>(way: &mut ThreadWay<'_>, method: &mut H, share: &mut Share) -> io::Result<()> {
    loop {
        match method.take(way.from()) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                share.count(n, method.room());
                way.passed.taken += n as u64;
            }
            Err(error) if way.is_repeated_after(&error) => continue,
            Err(error) => return Err(error),
        }
        while method.held() > 0 {
            let held = method.held();
            match method.give(way.to()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    share.count(n, held);
                    way.passed.given += n as u64;
                }
                Err(error) if way.is_repeated_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
