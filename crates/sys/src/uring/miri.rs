//! Memory that the kernel reads and writes while the program keeps pointers to it, with the kernel's part played: under Miri,
//! which judges every access by the rules for pointers.

use super::memory::Buffers;
use super::pool::{Pool, PoolId};

/// The kernel writes bytes.
fn write(start: *mut u8, bytes: &[u8]) {
    // SAFETY: lent for as many bytes.
    unsafe { start.copy_from(bytes.as_ptr(), bytes.len()) }
}

/// The kernel reads bytes.
fn read(start: *const u8, len: usize) -> Vec<u8> {
    // SAFETY: lent for as many bytes.
    (0..len).map(|at| unsafe { start.add(at).read() }).collect()
}

#[test]
fn a_buffer_is_filled_and_sent_from() {
    let mut buffers = Buffers::default();
    let id = buffers.add(20).unwrap();
    let other = buffers.add(20).unwrap();
    for round in 0..3 {
        let start = buffers.lend_to_receive(id, &(5..10));
        write(start, &[round; 5]);
        buffers.take_back(id);
        buffers.bytes(id).unwrap()[0] = 9;
        let (whole, part) = (buffers.lend_to_send(id, &(0..10)), buffers.lend_to_send(id, &(5..6)));
        buffers.copy(id, &(5..10), other);
        assert_eq!((read(whole, 10)[9], read(part, 1)), (round, vec![round]));
        buffers.take_back(id);
        buffers.take_back(id);
        assert_eq!(buffers.bytes(other).unwrap()[..5], [round; 5]);
    }
}

#[test]
fn a_pool_is_filled_and_sent_from() {
    let mut pool = Pool::new(4, 8).unwrap();
    pool.keep_offered(2);
    for first in [0, 1, 0, 1] {
        let mut taken = pool.lend(PoolId(0), first, 8);
        let (buffer, start, len) = pool.front(&taken, &(2..8));
        write(start.cast_mut(), b"kernel");
        assert_eq!(pool.piece(&mut taken).unwrap()[2..], *b"kernel");
        pool.hold(buffer);
        let mut room = [0; 3];
        assert_eq!((pool.copy(&taken, &(2..5), &mut room), &room), (3, b"ker"));
        assert_eq!(read(start, len), b"kernel");
        pool.give_back(&taken);
        pool.release(buffer);
    }
}
