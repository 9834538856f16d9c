//! The memory of engines' sends: composed once per message, sent back from where it was received, and not copied.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;

use bytegauge_sys::option;
use bytegauge_traffic::engine::{self, FlowMode, FlowStation};
use bytegauge_traffic::flow::{ConnectionEnd, Flow, Want};
use bytegauge_traffic::meter::{Meter, Schedule};
use bytegauge_traffic::pace::Pace;
use proptest::prelude::*;

use crate::support::mirror::Mirror;
use crate::support::running::Running;
use crate::support::{Group, expect, for_all, for_all_over_unix, listener, message, plain, plain_call, small_parts};

/// Sends numbered messages, and counts how often it is called for one.
#[derive(Debug)]
struct Numbered {
    size: usize,
    messages: u64,
    composed: u64,
    sent: usize,
    ended: bool,
}

impl Numbered {
    fn of(messages: u64, size: usize) -> Numbered {
        Numbered { size, messages, composed: 0, sent: 0, ended: false }
    }

    fn bytes(number: u64, size: usize) -> Vec<u8> {
        vec![number as u8; size]
    }
}

impl Flow for Numbered {
    fn want(&mut self, _now_ns: u64) -> Want {
        if self.ended || self.sent == self.size * self.messages as usize { Want::Done } else { Want::Send }
    }
    fn room(&self) -> usize {
        self.size
    }
    fn compose(&mut self, room: &mut [u8], _is_new: bool) -> usize {
        assert_eq!(room.len(), self.size);
        room.fill(self.composed as u8);
        self.composed += 1;
        self.size
    }
    fn sent(&mut self, n: usize, _now_ns: u64) {
        self.sent += n;
    }
    fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
        false
    }
    fn ended(&mut self, _end: ConnectionEnd, _now_ns: u64) {
        self.ended = true;
    }
}

#[test]
fn every_message_is_composed_once() {
    for_all_over_unix(|engine| {
        // More than the socket accepts at once, and much less: parts, full sockets, many in one bundle.
        for (messages, size) in [(20, 300_000), (2000, 100)] {
            let (near, mut far) = UnixStream::pair().unwrap();
            option::set(near.as_fd(), &option::SEND_BUFFER.to(16_384)).unwrap();
            let group = Group::joined(vec![(Numbered::of(messages, size), OwnedFd::from(near))]);
            let running = Running::start(engine, group, None, 64);
            for number in 0..messages {
                let mut bytes = vec![0; size];
                far.read_exact(&mut bytes).unwrap();
                assert!(bytes == Numbered::bytes(number, size), "{engine}: message {number}");
            }
            let outcome = running.finish();
            assert_eq!(outcome.group.left[0].0.composed, messages, "{engine}");
            assert_eq!((outcome.total_bytes, outcome.report.copied_bytes), (messages * size as u64, 0), "{engine}");
        }
    });
}

/// Messages of a short and of a long run.
const FEW: u64 = 100;
const MANY: u64 = 6100;

/// Most allocations of a long run in addition to those of a short one: fewer than one per four messages, so none is made per
/// message or per system call. It is not 0, since an engine that starts looks through the threads of the process, and other
/// tests start and end theirs.
const ALLOCATIONS_MORE_MAX: u64 = (MANY - FEW) / 4;

#[test]
fn a_writer_allocates_nothing_per_message() {
    for_all_over_unix(|engine| {
        let allocations = |messages: u64| {
            let (near, mut far) = UnixStream::pair().unwrap();
            option::set(near.as_fd(), &option::SEND_BUFFER.to(16_384)).unwrap();
            let running =
                Running::start(engine, Group::joined(vec![(Numbered::of(messages, 4096), near.into())]), None, 64);
            let mut bytes = vec![0; 4096 * messages as usize];
            far.read_exact(&mut bytes).unwrap();
            running.finish().allocations
        };
        let (few, many) = (allocations(FEW), allocations(MANY));
        assert!(many <= few + ALLOCATIONS_MORE_MAX, "{engine}: {few} allocations, then {many}");
    });
}

#[test]
fn a_server_allocates_nothing_per_call() {
    for_all(|engine| {
        let allocations = |calls: u64| {
            let (listener, address) = listener();
            let server = Running::start(engine, Group::server(Mirror::default), Some(listener.into()), 16_384);
            let mut stream = plain(address);
            (0..calls).for_each(|_| plain_call(&mut stream, 0, 500));
            drop(stream);
            server.tell().allocations
        };
        let (few, many) = (allocations(FEW), allocations(MANY));
        assert!(many <= few + ALLOCATIONS_MORE_MAX, "{engine}: {few} allocations, then {many}");
    });
}

#[test]
fn stream_thread_composes_each_message_once() {
    // A non-blocking descriptor, so that a write accepts only a part.
    let (near, mut far) = UnixStream::pair().unwrap();
    let (abort, stop_requested) = (AtomicBool::new(false), AtomicBool::new(false));
    option::set(near.as_fd(), &option::SEND_BUFFER.to(16_384)).unwrap();
    near.set_nonblocking(true).unwrap();
    let mut flow = Numbered::of(u64::MAX >> 32, 300_000);
    let mut meter = Meter::start(&Schedule { warmup_ns: 0, window_ns: u64::MAX / 4, until_stopped: true }, 0);
    let slot = FlowStation {
        fd: Some(near.as_fd()),
        buffer: &mut [],
        pace: Pace::Free,
        abort: &abort,
        stop_requested: &stop_requested,
    };
    // It ends when the socket is full, in the middle of the first message.
    engine::run(FlowMode::Usual, &mut flow, slot, &mut meter).unwrap_err();
    assert!(flow.sent > 0 && flow.sent < 300_000 && flow.composed == 1, "{flow:?}");
    let mut bytes = vec![1; flow.sent];
    far.read_exact(&mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
}

#[test]
fn an_echo_within_a_read_is_not_copied() {
    for_all(|engine| {
        let (listener, address) = listener();
        let server = Running::start(engine, Group::server(Mirror::default), Some(listener.into()), 16_384);
        let mut streams: Vec<_> = (0..20).map(|_| plain(address)).collect();
        for len in [0, 60, 508, 10_236] {
            // Repeatedly, since an engine may use other memory the second time.
            for _ in 0..20 {
                streams.iter_mut().enumerate().for_each(|(flow, stream)| plain_call(stream, flow, len));
            }
        }
        drop(streams);
        let outcome = server.tell();
        assert_eq!(outcome.report.copied_bytes, 0, "{engine}");
        assert_eq!(outcome.group.flows().map(|flow| flow.served).sum::<u64>(), 20 * 20 * 4);
    });
}

#[test]
fn an_echo_of_any_pieces_comes_back_whole() {
    for_all(|engine| {
        for (buffer_size, skip) in [(1, 3), (7, 0), (512, 9), (65_536, 2)] {
            let (listener, address) = listener();
            let welcome = move || Mirror::skipping(skip);
            let group = Group::server(welcome).with(&small_parts());
            let server = Running::start(engine, group, Some(listener.into()), buffer_size);
            let most = (buffer_size * 50).min(20_000);
            let lengths = prop::collection::vec(0..most, 1..5);
            let pieces = prop::collection::vec(1usize..3000, 1..20);
            let mut runner = prop::test_runner::TestRunner::new(ProptestConfig::with_cases(6));
            runner
                .run(&(lengths, pieces), |(lengths, pieces)| {
                    let mut stream = plain(address);
                    // Several messages at once: an echo does not wait for the next one.
                    let expected = lengths.iter().flat_map(|len| message(*len, *len)).collect::<Vec<_>>();
                    let sent = [vec![0xff; skip], expected.clone()].concat();
                    let mut writer = stream.try_clone().unwrap();
                    let writing = std::thread::spawn(move || {
                        let mut rest = &sent[..];
                        for piece in pieces.into_iter().cycle() {
                            let (now, later) = rest.split_at(piece.min(rest.len()));
                            writer.write_all(now).unwrap();
                            rest = later;
                            if rest.is_empty() {
                                break;
                            }
                        }
                        writer.shutdown(Shutdown::Write).unwrap();
                    });
                    expect(&mut stream, &expected);
                    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "and then the end");
                    writing.join().unwrap();
                    Ok(())
                })
                .unwrap();
            server.tell();
        }
    });
}

#[test]
fn blocked_connection_delays_no_other_echo() {
    for_all(|engine| {
        let (listener, address) = listener();
        let group = Group::server(Mirror::default).with(&small_parts());
        let server = Running::start(engine, group, Some(listener.into()), 1 << 20);
        // More of them than a pool of receives has buffers, each with more in flight than its sockets hold.
        let mut stuck: Vec<_> = (0..40).map(|_| plain(address)).collect();
        for stream in &mut stuck {
            stream.set_nonblocking(true).unwrap();
            let bytes = message(1, 10_000).repeat(40);
            let mut sent = 0;
            while let Ok(n) = stream.write(&bytes[sent..]) {
                sent += n;
                if sent == bytes.len() {
                    sent = 0;
                }
            }
        }
        let mut other = plain(address);
        (0..50).for_each(|_| plain_call(&mut other, 2, 8000));
        drop(stuck);
        server.abort();
    });
}
