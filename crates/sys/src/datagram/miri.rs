//! Tests for Miri, whose rules for pointers are stricter than observed behaviour: the program reads what the kernel
//! writes through stored pointers, and sends what it writes itself.

use std::os::fd::BorrowedFd;

use super::*;

/// A descriptor that no call uses under Miri.
fn fd() -> BorrowedFd<'static> {
    // SAFETY: standard input is open as long as the process is, and no call uses it.
    unsafe { BorrowedFd::borrow_raw(0) }
}

#[test]
fn an_inbox_is_filled_again_and_again() {
    for sources in [false, true] {
        for slots in [1, 3] {
            let mut inbox = Inbox::new(slots, 100, sources);
            for _ in 0..3 {
                assert_eq!(inbox.receive(fd()).unwrap(), slots);
                for slot in 0..slots {
                    assert_eq!(inbox.arrived(slot).len, 10);
                    assert_eq!(inbox.bytes(slot), b"a datagram");
                    inbox.bytes(slot).fill(7);
                    assert_eq!(inbox.source(slot).is_none(), !sources);
                }
                assert_eq!(inbox.send_back(fd(), 0, slots).unwrap(), slots);
                assert_eq!(inbox.filled(), slots);
            }
            let moved = Box::new(inbox);
            assert_eq!(moved.slots(), slots);
        }
    }
}

#[test]
fn an_outbox_is_written_and_sent_repeatedly() {
    let mut outbox = Outbox::new(2, 50);
    let peer = PeerAddress::from(std::net::SocketAddr::from(([127, 0, 0, 1], 9)));
    for len in [50, 3] {
        for slot in 0..2 {
            outbox.bytes(slot).fill(3);
            outbox.set(slot, SlotTarget { len, peer: Some(&peer) });
            outbox.bytes(slot)[0] = 4;
        }
        assert_eq!(outbox.send(fd(), 1, 2).unwrap(), 1);
        assert_eq!(outbox.send(fd(), 0, 2).unwrap(), 2);
        outbox.set(0, SlotTarget { len, ..SlotTarget::default() });
        assert_eq!(outbox.send(fd(), 0, 2).unwrap(), 2);
    }
}
