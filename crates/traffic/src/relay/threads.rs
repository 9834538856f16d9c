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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::io as sys_io;
use bytegauge_sys::option;
use bytegauge_sys::socket::{self, Until};

use crate::end_error::EndError;
use crate::engine::{ACCEPT_PAUSE_NS, WAIT_MAX_NS, is_passing};
use crate::meter::Meter;
use crate::relay::copy_method::{Carrying, CopyMethod};
use crate::relay::follow::Follower;
use crate::relay::state::{Passage, RelayShared};
use crate::setup::Setup;
use crate::tally::{Share, Tally};

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
    pub(super) fn goes_on_after(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::Interrupted && !self.abort.load(Ordering::Relaxed)
    }

    /// Whether the connection is to end: it has failed, or the relay was stopped.
    pub(super) fn is_over(&self) -> bool {
        self.pair.broken.load(Ordering::Acquire) || self.abort.load(Ordering::Relaxed)
    }

    /// Wakes the threads of this connection, which has failed.
    pub(super) fn breaks(&self) {
        self.pair.breaks();
    }
}

impl Pair {
    fn breaks(&self) {
        self.broken.store(true, Ordering::Release);
        for leg in &self.legs {
            // A socket without resets, such as a Unix socket, is just closed.
            let _ = option::set(leg.as_fd(), &option::LINGER.to(0));
            let _ = sys_io::shutdown(leg.as_fd(), Shutdown::Read);
        }
    }

    /// Ends both directions, even while they wait.
    fn ends(&self) {
        self.broken.store(true, Ordering::Release);
        for leg in &self.legs {
            let _ = option::set(leg.as_fd(), &option::LINGER.to(0));
            let _ = sys_io::shutdown(leg.as_fd(), Shutdown::Both);
        }
    }
}

/// Accepts and relays connections until it is over.
pub(super) fn carry(carrying: Carrying<'_, '_>, copy: &Copy<'_>) -> Result<EngineReport, EndError> {
    let Carrying { shared, setup, cues, meter } = carrying;
    let (open, tally) = (Open::default(), meter.tally());
    let threads = ThreadShared { shared, setup, copy, tally: &tally, abort: cues.abort, open: &open };
    std::thread::scope(|scope| {
        let report = accept(scope, &threads, cues.stop_requested, meter);
        // Clients of calls wait for no more replies; in a stream everything has ended or was aborted.
        shared.closes();
        lock(&open).values().for_each(|pair| pair.ends());
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
        if !meter.goes_on(now_ns, &never) || threads.abort.load(Ordering::Relaxed) || shared.is_over(stop_requested) {
            return Ok(report);
        }
        let until_ns = meter.next_mark_ns().clamp(now_ns, now_ns + WAIT_MAX_NS);
        if !matches!(socket::wait(shared.listener(), Until::Readable, until_ns - now_ns), Ok(Some(_))) {
            continue;
        }
        match socket::accept(shared.listener(), false) {
            Ok(fd) => {
                report.accepted += 1;
                report.accepted_at_once = 1;
                threads.welcome(scope, fd, report.accepted)?;
            }
            Err(error) if socket::is_exhausted(&error) => std::thread::sleep(Duration::from_nanos(ACCEPT_PAUSE_NS)),
            Err(error) if is_passing(&error) => {}
            Err(source) => return Err(EndError::Io { doing: "accepting a connection for the relay".into(), source }),
        }
    }
}

impl ThreadShared<'_> {
    /// Connects an accepted connection to the other side, and starts its two threads.
    fn welcome<'s>(&'s self, scope: &'s Scope<'s, '_>, fd: OwnedFd, number: u64) -> Result<(), EndError> {
        if !self.shared.admits(&fd) {
            return Ok(());
        }
        let joined = self.shared.upstream.welcome(&fd).and_then(|()| self.shared.upstream.join());
        let upstream = match joined {
            Ok(upstream) => upstream,
            Err(fault) => {
                let _ = option::set(fd.as_fd(), &option::LINGER.to(0));
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
                pair.breaks();
                let doing = format!("starting a thread for the relay's connection {number}: use fewer --flows");
                return Err(EndError::Io { doing, source });
            }
        }
        Ok(())
    }

    /// Relays one direction from its first byte to its end.
    fn carry(&self, pair: &Pair, number: u64, way: usize) {
        let ThreadShared { shared, setup, copy, tally, abort, open } = *self;
        let mut way = ThreadWay { setup, pair, number: way, tally, abort, passed: Passage::default() };
        match copy(&mut way) {
            Ok(()) if !pair.broken.load(Ordering::Acquire) => {
                way.passed.in_order = true;
                // If the peer is gone already, the other direction reports it.
                let _ = sys_io::shutdown(way.to(), Shutdown::Write);
            }
            Ok(()) | Err(_) => pair.breaks(),
        }
        let mut over = lock(&pair.passed);
        over[way.number] = Some(way.passed);
        if let [Some(up), Some(down)] = *over {
            shared.settle(
                [up, down],
                pair.broken.load(Ordering::Acquire),
                [0, 1].map(|leg: usize| Some(pair.legs[leg].as_fd())),
            );
            lock(open).remove(&number);
        }
    }
}

/// Takes and gives by blocking system calls.
pub(super) fn by_hand<H: CopyMethod>(way: &mut ThreadWay<'_>) -> io::Result<()> {
    let mut method = H::new(way.setup).map_err(|fault| io::Error::other(fault.to_string()))?;
    let mut share = way.share();
    let mut follower = way.setup.relay_follows().then(Follower::default);
    pass_on(way, &mut method, &mut share, follower.as_mut())
}

/// The loop (`cargo xtask hot-loops`).
#[inline(never)]
fn pass_on<H: CopyMethod>(
    way: &mut ThreadWay<'_>,
    method: &mut H,
    share: &mut Share,
    mut follower: Option<&mut Follower>,
) -> io::Result<()> {
    loop {
        match method.take(way.from()) {
            Ok(0) => return Ok(()),
            Ok(n) => {
                if let Some(follower) = &mut follower {
                    follower.took(way.from(), n);
                }
                share.count(n, method.room());
                way.passed.taken += n as u64;
            }
            Err(error) if way.goes_on_after(&error) => continue,
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
                Err(error) if way.goes_on_after(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
