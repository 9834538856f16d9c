//! The kinds and sizes of the engines' system calls: compared engines must not differ in these.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use bytegauge_model::name_tables::EngineEnd;
use bytegauge_model::{Engine, EpollMode, Transport, UringKind, UringMode};
use bytegauge_sys::pipe;
use bytegauge_traffic::engine::{self, FlowMode, FlowStation, Station, drive, message_buffer};
use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};
use bytegauge_traffic::meter::{Meter, Schedule};
use bytegauge_traffic::pace::Pace;

use crate::support::mirror::Mirror;
use crate::support::running::Running;
use crate::support::{Group, file_reads, for_all, listener, plain, plain_call};

/// Receives until the end, or this number of bytes.
#[derive(Debug)]
struct Taker {
    left: usize,
    largest: usize,
    ended: bool,
}

impl Taker {
    fn of(left: usize) -> Taker {
        Taker { left, largest: 0, ended: false }
    }
}

impl Flow for Taker {
    fn want(&mut self, _now_ns: u64) -> Want {
        if self.left == 0 || self.ended { Want::Done } else { Want::Receive }
    }
    fn received(&mut self, bytes: &mut [u8], _now_ns: u64) -> bool {
        self.largest = self.largest.max(bytes.len());
        self.left -= bytes.len();
        self.left > 0
    }
    fn ended(&mut self, _end: ConnectionEnd, _now_ns: u64) {
        self.ended = true;
    }
}

/// The file reads of receiving bytes one by one, from a descriptor that already holds them.
fn reads_of(engine: Engine, fd: OwnedFd, bytes: usize) -> Option<u64> {
    let (abort, stop_requested) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut meter = Meter::start(&Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: true }, 0);
    let before = file_reads()?;
    if engine == Engine::Blocking {
        let (mut flow, mut buffer) = (Taker::of(bytes), [0]);
        let (fd, buffer) = (Some(fd.as_fd()), &mut buffer[..]);
        let slot = FlowStation { fd, buffer, pace: Pace::Free, abort: &abort, stop_requested: &stop_requested };
        engine::run(FlowMode::Usual, &mut flow, slot, &mut meter).unwrap();
    } else {
        let station = Station::new(1, &abort, &stop_requested);
        drive(engine, &mut Group::joined(vec![(Taker::of(bytes), fd)]), station, &mut meter).unwrap();
    }
    assert_eq!(meter.total_bytes(), bytes as u64);
    Some(file_reads()? - before)
}

#[test]
fn engines_without_a_ring_use_socket_calls() {
    const BYTES: usize = 1000;
    for engine in [Engine::Blocking, EpollMode::of(false, false)] {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(&[7; BYTES]).unwrap();
        let Some(reads) = reads_of(engine, far.into(), BYTES) else {
            println!("skipped: no account of calls in /proc/thread-self/io");
            return;
        };
        // The accounting file itself is read, too.
        assert!(reads < 100, "{engine}: {reads} reads of a socket");
        let (out, input) = pipe::anonymous().unwrap();
        bytegauge_sys::io::write(input.as_fd(), &[7; BYTES]).unwrap();
        let reads = reads_of(engine, out, BYTES).unwrap();
        assert!((BYTES as u64..BYTES as u64 + 100).contains(&reads), "{engine}: {reads} reads of a pipe");
    }
}

#[test]
fn receives_have_the_requested_size() {
    const BYTES: usize = 150_000;
    for_all(|engine| {
        for buffer_size in [1000, 16_384, 65_536] {
            let (mut near, far) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            let sent = near.write(&[7; BYTES]).unwrap();
            // All of it is there: only the last receive may be short.
            assert!(sent > 2 * buffer_size, "{sent} B fit");
            if matches!(engine, Engine::Uring(UringMode { kind: UringKind::ZeroCopy, .. })) {
                continue;
            }
            let group = Group::joined(vec![(Taker::of(sent), far.into())]);
            let outcome = Running::start(engine, group, None, buffer_size).finish();
            let largest = outcome.group.left[0].0.largest;
            assert_eq!(largest, buffer_size, "{engine}: {buffer_size} B were asked for");
        }
    });
}

#[test]
fn each_wait_has_the_epoll_calls_of_its_mode() {
    const CALLS: u64 = 300;
    // Besides a wait, a receive and a send for each message.
    for (engine, more) in [("epoll", 0), ("epoll:oneshot", 1), ("epoll:add-del", 2)] {
        let (listener, address) = listener();
        let server =
            Running::start(engine.parse().unwrap(), Group::server(Mirror::default), Some(listener.into()), 4096);
        let mut stream = plain(address);
        (0..CALLS).for_each(|_| plain_call(&mut stream, 0, 60));
        drop(stream);
        let outcome = server.tell();
        let a_call = outcome.report.system_calls as f64 / CALLS as f64;
        // Few more, for the listener and the alarm.
        assert!((3.0 + more as f64..3.9 + more as f64).contains(&a_call), "{engine}: {a_call} calls a message");
    }
}

#[test]
fn bundles_of_messages_keep_small_buffers() {
    for_all(|engine| {
        let bundles = matches!(engine, Engine::Uring(UringMode { kind: UringKind::Bundle, .. }));
        assert_eq!(message_buffer(engine, 65_536), if bundles { 4096 } else { 65_536 });
        assert_eq!(message_buffer(engine, 100), 100);
    });
}

#[test]
fn an_engine_that_suits_pipes_carries_them() {
    const BYTES: usize = 300_000;
    for_all(|engine| {
        if !engine.carries(EngineEnd::Stream, &Transport::Pipe) {
            return;
        }
        let (out, input) = pipe::anonymous().unwrap();
        let writing = std::thread::spawn(move || std::fs::File::from(input).write_all(&[7; BYTES]).unwrap());
        let group = Group::joined(vec![(Taker::of(BYTES + 1), out)]);
        let outcome = Running::start(engine, group, None, 5000).finish();
        writing.join().unwrap();
        let flow = &outcome.group.left[0].0;
        assert_eq!((flow.left, flow.ended), (1, true), "{engine}");
    });
}
