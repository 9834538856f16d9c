//! A busy or dying thread of an engine must not keep the engine beyond its time.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use bytegauge_model::{Engine, EpollMode};
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_traffic::EndError;
use bytegauge_traffic::engine::{Station, drive};
use bytegauge_traffic::flow::{Flow, Want};
use bytegauge_traffic::meter::{Meter, Schedule};

use crate::support::Group;
use crate::support::running::Running;

/// A flow that sends bytes, each of which takes time.
struct Slow;

impl Flow for Slow {
    fn want(&mut self, _now_ns: u64) -> Want {
        Want::Send
    }
    fn room(&self) -> usize {
        1
    }
    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        room[0] = b'.';
        1
    }
    fn sent(&mut self, _n: usize, _now_ns: u64) {
        let begin_ns = monotonic_ns();
        while monotonic_ns() < begin_ns + 50_000 {}
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        false
    }
}

#[test]
fn round_of_busy_flows_ends_with_the_window() {
    for edge in [false, true] {
        let pairs: Vec<_> = (0..64).map(|_| UnixStream::pair().unwrap()).collect();
        let (near, _far): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
        let flows = near.into_iter().map(|fd| (Slow, OwnedFd::from(fd))).collect();
        let schedule = Schedule { warmup_ns: 0, window_ns: 1_000_000, until_stopped: false };
        let engine = EpollMode::of(edge, false);
        let outcome = Running::start_by(engine, Group::joined(flows), None, 64, schedule).finish();
        // A turn of every flow is 64 × 32 calls; a slow machine makes fewer within the window, not more.
        assert!(outcome.total_bytes < 64 * 32 / 2, "{} calls", outcome.total_bytes);
    }
}

/// A flow with a bug.
struct Buggy;

impl Flow for Buggy {
    fn want(&mut self, _now_ns: u64) -> Want {
        std::panic::resume_unwind(Box::new("planned"))
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        false
    }
}

#[test]
fn death_of_a_blocking_thread_is_a_fault() {
    let (near, _far) = UnixStream::pair().unwrap();
    let (abort, stop_requested) = (AtomicBool::new(false), AtomicBool::new(false));
    // Far longer than the thread needs to start, and over as soon as it died.
    let mut meter = Meter::start(&Schedule { warmup_ns: 0, window_ns: 20_000_000_000, until_stopped: false }, 0);
    let station = Station::new(64, &abort, &stop_requested);
    let mut group = Group::joined(vec![(Buggy, OwnedFd::from(near))]);
    let Err(EndError::Impossible(what)) = drive(Engine::Blocking, &mut group, station, &mut meter) else {
        panic!("it went unnoticed")
    };
    assert!(what.contains("blocking engine died"), "{what}");
}
