//! Tests of datagrams over loopback and Unix sockets, with the kernel's control messages.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;

use super::*;
use crate::network::NetworkTables;
use crate::option;
use crate::snmp::KernelCounts;

fn udp() -> (UdpSocket, UdpSocket) {
    let (left, right) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    left.connect(right.local_addr().unwrap()).unwrap();
    (left, right)
}

/// Fills each slot with its number and sends all of them.
fn send_numbered(fd: &impl AsFd, slots: usize, len: usize) -> Outbox {
    let mut outbox = Outbox::new(slots, len);
    for slot in 0..slots {
        outbox.bytes(slot).fill(slot as u8);
    }
    assert_eq!(outbox.send(fd.as_fd(), 0, slots).unwrap(), slots);
    outbox
}

#[test]
fn a_batch_arrives_in_order_and_whole() {
    let check = |left: &dyn AsFd, right: &dyn AsFd| {
        send_numbered(&left.as_fd(), 5, 700);
        let mut inbox = Inbox::new(8, 1000, false);
        // The sender has finished, so one receive takes all of them.
        assert_eq!(inbox.receive(right.as_fd()).unwrap(), 5);
        for slot in 0..5 {
            assert_eq!(inbox.arrived(slot), Arrived { len: 700, ..Arrived::default() });
            assert_eq!(inbox.arrived(slot).datagrams(), 1);
            assert_eq!(inbox.bytes(slot), [slot as u8; 700]);
            assert!(inbox.source(slot).is_none());
        }
    };
    let (left, right) = udp();
    check(&left, &right);
    let (left, right) = UnixDatagram::pair().unwrap();
    check(&left, &right);
}

#[test]
fn single_and_empty_messages_arrive() {
    let (left, right) = udp();
    let mut outbox = Outbox::new(1, 9);
    outbox.bytes(0).copy_from_slice(b"datagrams");
    assert_eq!(outbox.send(left.as_fd(), 0, 1).unwrap(), 1);
    outbox.set(0, SlotTarget { len: 0, ..SlotTarget::default() });
    assert_eq!(outbox.send(left.as_fd(), 0, 1).unwrap(), 1);
    let mut inbox = Inbox::new(1, 100, false);
    inbox.receive(right.as_fd()).unwrap();
    assert_eq!((inbox.filled(), &*inbox.bytes(0)), (1, &b"datagrams"[..]));
    inbox.receive(right.as_fd()).unwrap();
    assert_eq!((inbox.filled(), inbox.arrived(0).len), (1, 0));
}

#[test]
fn a_short_slot_reports_the_full_length() {
    let (left, right) = udp();
    send_numbered(&left, 2, 700);
    let mut inbox = Inbox::new(2, 500, false);
    assert_eq!(inbox.receive(right.as_fd()).unwrap(), 2);
    assert_eq!(inbox.arrived(1), Arrived { len: 700, truncated: true, ..Arrived::default() });
    assert_eq!(inbox.bytes(1), [1; 500]);
}

#[test]
fn answers_go_back_to_each_sender() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let clients: Vec<UdpSocket> = (0..3)
        .map(|number| {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(&[number], server.local_addr().unwrap()).unwrap();
            client
        })
        .collect();
    let (mut inbox, mut outbox) = (Inbox::new(8, 10, true), Outbox::new(8, 10));
    assert_eq!(inbox.receive(server.as_fd()).unwrap(), 3);
    for (slot, client) in clients.iter().enumerate() {
        let source = inbox.source(slot);
        assert_eq!(source.ip(), Some(client.local_addr().unwrap()));
        outbox.bytes(slot)[0] = inbox.bytes(slot)[0] + 10;
        outbox.set(slot, SlotTarget { len: 1, peer: Some(&source) });
    }
    assert_eq!(outbox.send(server.as_fd(), 0, 3).unwrap(), 3);
    for (number, client) in clients.iter().enumerate() {
        let mut answer = [0; 4];
        assert_eq!(client.recv(&mut answer).unwrap(), 1);
        assert_eq!(usize::from(answer[0]), number + 10);
    }
}

#[test]
fn received_messages_are_sent_back_in_place() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let clients: Vec<UdpSocket> = (0..4)
        .map(|number| {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.connect(server.local_addr().unwrap()).unwrap();
            client.send(&vec![number; 5 + usize::from(number)]).unwrap();
            client
        })
        .collect();
    // The last one is cut off, and only the received part is sent back.
    let mut inbox = Inbox::new(3, 6, true);
    assert_eq!(inbox.receive(server.as_fd()).unwrap(), 3);
    assert_eq!(inbox.send_back(server.as_fd(), 0, 3).unwrap(), 3);
    assert_eq!(inbox.receive(server.as_fd()).unwrap(), 1);
    assert_eq!(inbox.arrived(0), Arrived { len: 8, truncated: true, ..Arrived::default() });
    assert_eq!(inbox.send_back(server.as_fd(), 0, 1).unwrap(), 1);
    for (number, client) in clients.iter().enumerate() {
        let mut answer = [9; 20];
        assert_eq!(client.recv(&mut answer).unwrap(), (5 + number).min(6));
        assert!(answer[..5].iter().all(|byte| usize::from(*byte) == number));
    }
}

#[test]
fn sends_are_segmented_and_receives_joined() {
    let (left, right) = udp();
    option::set(right.as_fd(), &option::UDP_COALESCE.to(true)).unwrap();
    let mut outbox = Outbox::new(1, 2500);
    outbox.bytes(0).fill(7);
    option::set(left.as_fd(), &option::UDP_SEGMENT.to(1000)).unwrap();
    assert_eq!(outbox.send(left.as_fd(), 0, 1).unwrap(), 1);
    let mut inbox = Inbox::new(1, 65_535, false);
    inbox.receive(right.as_fd()).unwrap();
    let arrived = inbox.arrived(0);
    // On loopback the packet is not cut, so that one receive gets all of it.
    assert_eq!((arrived.len, arrived.segment, arrived.datagrams()), (2500, Some(1000), 3));
    assert_eq!(inbox.bytes(0), [7; 2500]);
}

#[test]
fn without_gro_each_datagram_arrives_alone() {
    let (left, right) = udp();
    let mut outbox = Outbox::new(1, 2500);
    option::set(left.as_fd(), &option::UDP_SEGMENT.to(1000)).unwrap();
    outbox.send(left.as_fd(), 0, 1).unwrap();
    let mut inbox = Inbox::new(8, 2000, false);
    assert_eq!(inbox.receive(right.as_fd()).unwrap(), 3);
    let lens = [0, 1, 2].map(|slot| inbox.arrived(slot).len);
    assert_eq!(lens, [1000, 1000, 500]);
}

#[test]
fn drops_of_a_full_socket_are_reported() {
    let (left, right) = udp();
    option::set(right.as_fd(), &option::RECEIVE_BUFFER.to(1)).unwrap();
    let before = KernelCounts::read(NetworkTables::own()).unwrap();
    for _ in 0..200 {
        left.send(&[0; 1000]).unwrap();
    }
    let dropped = crate::socket_memory::drops(right.as_fd()).unwrap();
    assert!(dropped > 0 && dropped < 200, "{dropped}");
    let after = KernelCounts::read(NetworkTables::own()).unwrap();
    assert!(after.gained(&before, "Udp", "RcvbufErrors") >= Some(dropped));
    let mut inbox = Inbox::new(200, 1000, false);
    let kept = inbox.receive(right.as_fd()).unwrap();
    assert_eq!(kept + dropped as usize, 200);
}

#[test]
fn more_than_a_datagram_holds_is_refused() {
    // A packet has 65,535 bytes, of which IPv4 takes 20 and UDP 8 (RFC 791, RFC 768).
    const UDP4_PAYLOAD_MAX: usize = 65_507;
    let (left, _right) = udp();
    let mut outbox = Outbox::new(1, UDP4_PAYLOAD_MAX + 1);
    assert_eq!(outbox.send(left.as_fd(), 0, 1).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
    outbox.set(0, SlotTarget { len: UDP4_PAYLOAD_MAX, ..SlotTarget::default() });
    assert_eq!(outbox.send(left.as_fd(), 0, 1).unwrap(), 1);
}

#[test]
fn addresses_survive_the_kernels_form() {
    for text in ["127.0.0.1:1", "192.0.2.7:65535", "[::1]:5", "[2001:db8::7%3]:9"] {
        let address = text.parse().unwrap();
        assert_eq!(PeerAddress::from(address).ip(), Some(address), "{text}");
    }
    assert!(PeerAddress::NONE.is_none() && PeerAddress::NONE.ip().is_none());
}
