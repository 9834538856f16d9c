//! The ring over real sockets.

mod injected;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::datagram::{Arrived, SlotTarget};
use crate::interrupt::{ThreadHandle, interrupt};
use crate::tests::tcp_pair;

const SMALL: RingSetup = RingSetup { entries: 8, completions: 64, poll_idle_ms: None };

/// Without io_uring there is nothing to test; another test checks the reason.
fn ring(setup: &RingSetup) -> Option<Ring> {
    Ring::open(setup).ok()
}

/// Waits for the next completion; a signal or a late kernel does not matter.
fn next(ring: &mut Ring) -> Completion {
    for _ in 0..1000 {
        if let Some(completion) = ring.reap() {
            return completion;
        }
        ring.wait(1, Some(10_000_000)).unwrap();
    }
    panic!("no completion came");
}

fn received(ring: &mut Ring, completion: Completion) -> Vec<u8> {
    let OpResult::Received { moved, taken } = completion.event else { panic!("{completion:?}") };
    let (mut bytes, mut taken) = (Vec::new(), taken.expect("a buffer of the pool"));
    while let Some(piece) = ring.piece(&mut taken) {
        bytes.extend_from_slice(piece);
    }
    ring.give_back(taken);
    assert_eq!(moved, Ok(bytes.len()));
    bytes
}

#[test]
fn tokens_come_back_and_every_operation_completes_once() {
    let Some(mut ring) = ring(&SMALL) else { return };
    let (socket, _peer) = UnixStream::pair().unwrap();
    // More than the queue holds: the rest is kept back, not lost.
    for token in 0..1000 {
        ring.poll(token, socket.as_fd(), Ready::OUT);
    }
    let mut tokens = Vec::new();
    while ring.in_flight() > 0 {
        let Completion { token, more, event: OpResult::Polled(Ok(_)) } = next(&mut ring) else { panic!("not a poll") };
        assert!(!more);
        tokens.push(token);
    }
    assert_eq!(tokens, (0..1000).collect::<Vec<_>>());
    assert_eq!(ring.counts().completions, 1000);
}

#[test]
fn an_overflow_is_seen_and_loses_nothing() {
    let Some(mut ring) = ring(&RingSetup { entries: 8, completions: 8, poll_idle_ms: None }) else { return };
    let (socket, _peer) = UnixStream::pair().unwrap();
    for round in 0..20 {
        for token in 0..8 {
            ring.poll(round * 8 + token, socket.as_fd(), Ready::OUT);
        }
        ring.wait(0, None).unwrap();
    }
    let mut seen = 0;
    while ring.in_flight() > 0 {
        next(&mut ring);
        seen += 1;
    }
    assert_eq!(seen, 160);
    assert!(ring.counts().overflows > 0);
}

#[test]
fn a_buffer_is_sent_received_and_lent_again() {
    let Some(mut ring) = ring(&SMALL) else { return };
    let (left, right) = UnixStream::pair().unwrap();
    let (out, into) = (ring.new_buffer(100).unwrap(), ring.new_buffer(200).unwrap());
    ring.buffer(out).unwrap().fill(7);
    ring.receive(1, right.as_fd(), into, &(0..200));
    ring.send(2, left.as_fd(), out, &(0..60));
    assert!(ring.buffer(out).is_none() && ring.buffer(into).is_none());
    for _ in 0..2 {
        let completion = next(&mut ring);
        match (completion.token, completion.event) {
            (1, OpResult::Received { moved: Ok(60), taken: None }) | (2, OpResult::Sent(Ok(60))) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(ring.buffer(out).is_some());
    assert_eq!(&ring.buffer(into).unwrap()[..61], [&[7; 60][..], &[0]].concat());
    drop(left);
    ring.receive(3, right.as_fd(), into, &(0..200));
    assert!(matches!(next(&mut ring).event, OpResult::Received { moved: Ok(0), .. }));
}

#[test]
fn multishot_receive_ends_with_an_empty_pool() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::MultishotReceive]).is_ok()) else { return };
    let (mut left, right) = tcp_pair();
    let pool = ring.new_pool(2, 16).unwrap();
    ring.keep_offered(pool, u16::MAX);
    ring.receive_multishot(5, right.as_fd(), pool, false);
    for round in 0..10u8 {
        left.write_all(&[round; 10]).unwrap();
        let completion = next(&mut ring);
        assert!(completion.more);
        assert_eq!(received(&mut ring, completion), [round; 10]);
    }
    // Both buffers are kept: the next bytes find none.
    let mut kept = Vec::new();
    left.write_all(&[1; 100]).unwrap();
    loop {
        match next(&mut ring) {
            Completion { event: OpResult::Received { moved: Ok(16), taken }, .. } => kept.extend(taken),
            Completion {
                more: false, event: OpResult::Received { moved: Err(Errno::NOBUFS), taken: None }, ..
            } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kept.len(), 2);
    kept.into_iter().for_each(|taken| ring.give_back(taken));
    ring.receive_multishot(6, right.as_fd(), pool, false);
    let completion = next(&mut ring);
    assert_eq!((completion.token, received(&mut ring, completion)), (6, vec![1; 16]));
}

#[test]
fn a_bundle_takes_many_buffers_in_order() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::Bundles]).is_ok()) else { return };
    let (mut left, right) = tcp_pair();
    let into = ring.new_pool(64, 4).unwrap();
    ring.keep_offered(into, u16::MAX);
    let sent: Vec<u8> = (0..70).collect();
    left.write_all(&sent).unwrap();
    ring.receive_multishot(2, right.as_fd(), into, true);
    let (mut bytes, mut most) = (Vec::new(), 0);
    while bytes.len() < 70 {
        let completion = next(&mut ring);
        if let OpResult::Received { taken: Some(taken), .. } = &completion.event {
            most = most.max(taken.buffers());
        }
        bytes.extend(received(&mut ring, completion));
    }
    assert_eq!(bytes, sent);
    assert!(most > 1);
}

#[test]
fn zero_copy_keeps_the_buffer_until_notified() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::ZeroCopySend]).is_ok()) else { return };
    let (left, mut right) = tcp_pair();
    let out = ring.new_buffer(5000).unwrap();
    ring.set_zero_copy(true);
    ring.send(1, left.as_fd(), out, &(0..5000));
    let sent = next(&mut ring);
    assert!(sent.more && matches!(sent.event, OpResult::Sent(Ok(5000))), "{sent:?}");
    assert!(ring.buffer(out).is_none());
    right.read_exact(&mut [0; 5000]).unwrap();
    // Over loopback the kernel always copies.
    let released = next(&mut ring);
    assert!(!released.more && matches!(released.event, OpResult::Released { copied: true }), "{released:?}");
    assert!(ring.buffer(out).is_some());
}

#[test]
fn connections_are_accepted_on_and_on() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::MultishotAccept]).is_ok()) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let op = ring.accept(9, listener.as_fd(), true);
    for _ in 0..3 {
        let mut client = TcpStream::connect(address).unwrap();
        let completion = next(&mut ring);
        assert!(completion.more);
        let OpResult::Accepted(Ok(connection)) = completion.event else { panic!("{completion:?}") };
        ring.close(4, connection);
        assert!(matches!(next(&mut ring), Completion { token: 4, event: OpResult::Closed(Ok(())), .. }));
        assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    }
    ring.cancel(op);
    let mut ended = 0;
    while ring.in_flight() > 0 {
        let cancelled = OpResult::Accepted(Err(Errno::CANCELED));
        ended += usize::from(format!("{:?}", next(&mut ring).event) == format!("{cancelled:?}"));
    }
    assert_eq!(ended, 1);
    ring.accept(1, listener.as_fd(), false);
    let _client = TcpStream::connect(address).unwrap();
    assert!(matches!(next(&mut ring), Completion { more: false, event: OpResult::Accepted(Ok(_)), .. }));
}

#[test]
fn a_writable_socket_ends_a_wait() {
    let Some(mut ring) = ring(&SMALL) else { return };
    assert_eq!(ring.wait(1, Some(1_000_000)).unwrap(), Wait::TimedOut);
    let (left, _right) = UnixStream::pair().unwrap();
    ring.poll(3, left.as_fd(), Ready::OUT);
    let Completion { token: 3, event: OpResult::Polled(Ok(ready)), .. } = next(&mut ring) else { panic!("not a poll") };
    assert!(ready.intersects(Ready::OUT));
}

#[test]
fn a_signal_ends_a_wait() {
    let (sender, receiver) = mpsc::channel();
    let waiter = thread::spawn(move || {
        sender.send(ThreadHandle::current().unwrap()).unwrap();
        let mut ring = ring(&SMALL)?;
        loop {
            match ring.wait(1, None).unwrap() {
                Wait::Interrupted => return Some(()),
                Wait::TimedOut => panic!("no time was given"),
                Wait::Ready => assert!(ring.reap().is_none()),
            }
        }
    });
    let handle = receiver.recv().unwrap();
    while !waiter.is_finished() {
        interrupt(&handle).unwrap();
        thread::sleep(Duration::from_millis(1));
    }
    waiter.join().unwrap();
}

#[test]
fn dropping_a_ring_cancels_its_operations() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::MultishotReceive]).is_ok()) else { return };
    let (left, right) = UnixStream::pair().unwrap();
    let (into, pool) = (ring.new_buffer(100).unwrap(), ring.new_pool(4, 100).unwrap());
    ring.keep_offered(pool, u16::MAX);
    ring.receive(1, left.as_fd(), into, &(0..100));
    ring.receive_multishot(2, right.as_fd(), pool, false);
    ring.wait(0, None).unwrap();
    assert_eq!(ring.in_flight(), 2);
    assert!(ring.settle());
    ring.receive(3, left.as_fd(), into, &(0..100));
    drop(ring);
    // The socket is the program's alone again: its end is seen at once.
    drop(OwnedFd::from(left));
    assert_eq!((&right).read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn received_bytes_are_sent_without_a_copy() {
    let Some(mut ring) = ring(&SMALL).filter(|_| probe(&[Feature::ZeroCopySend]).is_ok()) else {
        return;
    };
    let (mut left, right) = tcp_pair();
    let pool = ring.new_pool(2, 16).unwrap();
    ring.keep_offered(pool, u16::MAX);
    ring.receive_multishot(1, right.as_fd(), pool, false);
    for round in 0..6 {
        left.write_all(&[round; 10]).unwrap();
        let taken = loop {
            // Before it, the notification of a zero-copy send.
            if let OpResult::Received { taken: Some(taken), .. } = next(&mut ring).event {
                break taken;
            }
        };
        let part = 2..9;
        ring.set_zero_copy(round % 2 == 1);
        assert_eq!(ring.send_taken(2, right.as_fd(), &taken, &part).1, 7);
        // It stays until it is sent.
        ring.give_back(taken);
        loop {
            if let OpResult::Sent(moved) = next(&mut ring).event {
                assert_eq!(moved, Ok(7));
                break;
            }
        }
        let mut bytes = [0; 7];
        left.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [round; 7]);
    }
}

#[test]
fn a_submission_thread_reports_its_cpu_time() {
    let Some(mut ring) = ring(&RingSetup { poll_idle_ms: Some(50), ..SMALL }) else { return };
    let (socket, _peer) = UnixStream::pair().unwrap();
    for token in 0..100 {
        ring.poll(token, socket.as_fd(), Ready::OUT);
    }
    while ring.in_flight() > 0 {
        next(&mut ring);
    }
    assert!(helper_cpu_ns().is_none_or(|ns| ns > 0));
}

fn udp_pair() -> (std::net::UdpSocket, std::net::UdpSocket) {
    let bind = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let (left, right) = (bind(), bind());
    left.connect(right.local_addr().unwrap()).unwrap();
    right.connect(left.local_addr().unwrap()).unwrap();
    (left, right)
}

#[test]
fn several_waiting_receives_get_their_messages() {
    let Some(mut ring) = ring(&SMALL) else { return };
    let (left, right) = udp_pair();
    let messages: Vec<_> = (0..4).map(|_| ring.new_message(100).unwrap()).collect();
    for (token, message) in messages.iter().enumerate() {
        ring.receive_message(token as u64, right.as_fd(), *message);
        assert!(ring.message(*message).is_none());
    }
    ring.wait(0, None).unwrap();
    let outgoing = ring.new_message(300).unwrap();
    for (number, len) in [50, 100, 300, 0].into_iter().enumerate() {
        ring.message(outgoing).unwrap().fill(number as u8);
        ring.send_message(9, left.as_fd(), outgoing, SlotTarget { len, ..SlotTarget::default() });
        let mut filled = None;
        for _ in 0..2 {
            match next(&mut ring) {
                Completion { token: 9, event: OpResult::Sent(sent), .. } => assert_eq!(sent, Ok(len)),
                Completion { token, event: OpResult::Received { moved: received, taken: None }, .. } => {
                    assert_eq!(received, Ok(len));
                    // Which of those that wait is filled first is the kernel's choice.
                    filled = Some(messages[token as usize]);
                }
                other => panic!("{other:?}"),
            }
        }
        let message = filled.expect("a receive that completed");
        let (arrived, source) = ring.arrived(message, len);
        assert_eq!(arrived, Arrived { len, truncated: len > 100, ..Arrived::default() });
        assert_eq!(source.ip(), Some(left.local_addr().unwrap()));
        let kept = len.min(100);
        assert!(ring.message(message).unwrap()[..kept].iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn multishot_messages_report_joined_and_truncated() {
    let Some(mut ring) = ring(&SMALL) else { return };
    if ring.require(Feature::MultishotReceive).is_err() {
        return;
    }
    let (left, right) = udp_pair();
    crate::option::set(right.as_fd(), &crate::option::UDP_COALESCE.to(true)).unwrap();
    let pool = ring.new_pool(4, 300 + MESSAGE_ROOM).unwrap();
    ring.keep_offered(pool, u16::MAX);
    ring.receive_messages(5, right.as_fd(), pool);
    ring.wait(0, None).unwrap();
    let outgoing = ring.new_message(500).unwrap();
    for (len, segment) in [(200, None), (300, Some(100_u64)), (500, None)] {
        ring.message(outgoing).unwrap().fill(3);
        crate::option::set(left.as_fd(), &crate::option::UDP_SEGMENT.to(segment.unwrap_or(0))).unwrap();
        ring.send_message(9, left.as_fd(), outgoing, SlotTarget { len, peer: None });
        for _ in 0..2 {
            let completion = next(&mut ring);
            let Completion { token: 5, more: true, event: OpResult::Received { taken: Some(mut taken), .. } } =
                completion
            else {
                assert_eq!(completion.token, 9);
                continue;
            };
            let parcel = ring.parcel(&mut taken).unwrap();
            let expected = Arrived { len, truncated: len > 300, segment: segment.map(|bytes| bytes as usize) };
            assert_eq!(parcel.arrived, expected);
            assert_eq!(parcel.bytes, vec![3; len.min(300)]);
            assert_eq!(parcel.source.ip(), Some(left.local_addr().unwrap()));
            ring.give_back(taken);
        }
    }
}

#[test]
fn a_datagram_is_sent_without_a_copy() {
    let Some(mut ring) = ring(&SMALL) else { return };
    if ring.require(Feature::MultishotReceive).is_err() {
        return;
    }
    let (left, right) = udp_pair();
    let pool = ring.new_pool(2, 300 + MESSAGE_ROOM).unwrap();
    ring.keep_offered(pool, u16::MAX);
    ring.receive_messages(5, right.as_fd(), pool);
    let message = ring.new_message(0).unwrap();
    for round in 0..6 {
        left.send(&[round; 20]).unwrap();
        let Completion { event: OpResult::Received { taken: Some(mut taken), .. }, .. } = next(&mut ring) else {
            panic!("a datagram was sent")
        };
        let parcel = ring.parcel(&mut taken).unwrap();
        let (len, source) = (parcel.bytes.len(), parcel.source);
        ring.send_parcel(7, right.as_fd(), message, (&taken, len), &source);
        // It stays until it is sent.
        ring.give_back(taken);
        assert!(matches!(next(&mut ring), Completion { token: 7, event: OpResult::Sent(Ok(20)), .. }));
        let mut bytes = [0; 30];
        assert_eq!(left.recv(&mut bytes).unwrap(), 20);
        assert_eq!(bytes[..20], [round; 20]);
    }
}
