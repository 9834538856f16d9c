//! Flows that wake each other: a relay of two connections on every engine whose flows can.
//!
//! Plain clients and servers of the standard library are at both ends.

use std::io::{ErrorKind, Read};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use bytegauge_model::Engine;
use bytegauge_sys::option::SocketOption;
use bytegauge_traffic::EndError;
use bytegauge_traffic::engine::{Station, Stop, can_pair, drive};
use bytegauge_traffic::flow::{Flow, Want};
use bytegauge_traffic::meter::{Meter, Schedule};

use crate::support::relay::{HELD_MAX, Relay};
use crate::support::relayed::{
    a_reset_comes_through, all_comes_back_at_the_end, all_comes_through_after_a_pause, blocking_listener,
    calls_come_back, echo, replies_at_the_end, server,
};
use crate::support::running::{Outcome, Running};
use crate::support::{Group, engines, for_all, listener, no_listener, plain, small_parts};

/// Most bytes of one receive.
const BUFFER: usize = 4096;

fn for_all_that_pair(check: impl Fn(Engine)) {
    for engine in engines().into_iter().filter(|engine| can_pair(*engine)) {
        println!("engine {engine}");
        check(engine);
    }
}

/// A relay in front of an address, and its own.
fn relay(engine: Engine, to: SocketAddr, options: &[SocketOption]) -> (Running<Relay>, SocketAddr) {
    let (listener, address) = listener();
    let mut group = Group::server(Relay::front).with(options);
    group.pair = Box::new(Relay::back);
    group.connect_to = Some(to);
    (Running::start(engine, group, Some(listener.into()), BUFFER), address)
}

fn passed(outcome: &Outcome<Relay>) -> usize {
    // Both sides share a count.
    outcome.group.flows().map(|flow| flow.joint.lock().unwrap().passed).sum::<usize>() / 2
}

#[test]
fn all_bytes_are_relayed() {
    for_all_that_pair(|engine| {
        let connections = 20;
        let (to, serving) = server(connections, echo);
        let (running, address) = relay(engine, to, &[]);
        let bytes = calls_come_back(address, connections, [1, 100, 5000, 400_000]);
        serving.join().unwrap();
        let outcome = running.tell();
        assert_eq!(outcome.stop, Stop::Time);
        assert_eq!(passed(&outcome), 2 * bytes);
        assert_eq!(outcome.total_bytes as usize, 2 * passed(&outcome));
    });
}

#[test]
fn end_of_stream_is_relayed_in_both_directions() {
    for_all_that_pair(|engine| {
        let (to, serving) = server(3, replies_at_the_end);
        let (running, address) = relay(engine, to, &small_parts());
        all_comes_back_at_the_end(address);
        serving.join().unwrap();
        let outcome = running.tell();
        for (flow, _) in &outcome.group.left {
            assert_eq!(flow.ends.len(), 1, "{:?}", flow.ends);
        }
    });
}

#[test]
fn a_reset_is_passed_on_as_a_reset() {
    for_all_that_pair(|engine| {
        for breaks in ["client", "server"] {
            let (behind, to) = blocking_listener();
            let (running, address) = relay(engine, to, &[]);
            a_reset_comes_through(address, &behind, breaks);
            let outcome = running.tell();
            assert_eq!(outcome.group.left.len(), 2);
            assert!(outcome.group.left.iter().all(|(_, fd)| fd.is_none()), "both are closed");
        }
    });
}

#[test]
fn who_cannot_be_passed_on_is_reset() {
    for_all_that_pair(|engine| {
        let (_reserved, to) = no_listener();
        let (running, address) = relay(engine, to, &[]);
        let error = plain(address).read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        running.tell();
    });
}

#[test]
fn back_pressure_loses_no_bytes() {
    for_all_that_pair(|engine| {
        let held_up = || {
            let (behind, to) = blocking_listener();
            let (running, address) = relay(engine, to, &small_parts());
            // Far more than sockets and relay hold.
            all_comes_through_after_a_pause(address, &behind, 10_000);
            let outcome = running.tell();
            let most = outcome.group.flows().map(|flow| flow.joint.lock().unwrap().held_most).max().unwrap();
            assert!(most < HELD_MAX + BUFFER, "{most} B were held");
            most >= HELD_MAX
        };
        // A client that a busy machine keeps from running looks like one that is blocked.
        assert!((0..5).any(|_| held_up()), "{engine}");
    });
}

/// A flow that wakes its partner at every event.
#[derive(Debug)]
struct Restless(usize);

impl Flow for Restless {
    const PAIRED: bool = true;

    fn want(&mut self, _now_ns: u64) -> Want {
        self.0 += 1;
        Want::Pause(u64::MAX)
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        false
    }
    fn wakes(&mut self) -> bool {
        true
    }
}

#[test]
fn flows_that_wake_each_other_block_no_other() {
    for_all_that_pair(|engine| {
        // A busy machine may keep the engine from a short window.
        assert!([20_000_000, 200_000_000, 5_000_000_000].into_iter().any(|ns| both_are_woken(engine, ns)), "{engine}");
    });
}

/// Whether two flows that wake each other for this time were both called more than once; they must block no other flow.
fn both_are_woken(engine: Engine, window_ns: u64) -> bool {
    let (_near, far) = UnixStream::pair().unwrap();
    let mut group = Group::joined(vec![(Restless(0), OwnedFd::from(far))]);
    group.pair = Box::new(|_| Some(Restless(0)));
    let schedule = Schedule { warmup_ns: 0, window_ns, until_stopped: false };
    let outcome = Running::start_by(engine, group, None, 64, schedule).finish();
    assert_eq!((outcome.stop, outcome.group.left.len()), (Stop::Time, 2));
    outcome.group.flows().all(|flow| flow.0 > 1)
}

#[test]
fn engines_without_wake_ups_refuse_pairs() {
    for_all(|engine| {
        if can_pair(engine) {
            return;
        }
        let (abort, stop_requested) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut meter = Meter::start(&Schedule { warmup_ns: 0, window_ns: 1, until_stopped: false }, 0);
        let station = Station::new(64, &abort, &stop_requested);
        let mut group = Group::joined(Vec::<(Relay, OwnedFd)>::new());
        match drive(engine, &mut group, station, &mut meter) {
            Err(EndError::Impossible(what)) => assert!(what.contains("use epoll or uring"), "{what}"),
            other => panic!("{engine}: {other:?}"),
        }
    });
}
