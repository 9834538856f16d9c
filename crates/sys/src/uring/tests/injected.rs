//! Completions in any order: partial, failed, cancelled and repeated ones are paired with their operations.
//!
//! Operations are queued and never submitted. The test plays the kernel's part.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use proptest::prelude::*;

use crate::uring::*;

/// Larger than the operations of a case, so that none is submitted.
const QUIET: RingSetup = RingSetup { entries: 1024, completions: 1024, poll_idle_ms: None };

/// Bytes of a buffer.
const LEN: usize = 64;

const POOL_BUFFERS: u16 = 8;

/// Flags of a completion (include/uapi/linux/io_uring.h): it names a buffer, more follow, it is a notification.
const BUFFER: u32 = 1 << 0;
const MORE: u32 = 1 << 1;
const NOTIFIES: u32 = 1 << 3;

/// An operation as the test's kernel knows it.
#[derive(Clone, Copy, Debug)]
enum Queued {
    Poll,
    Receive(BufferId),
    Send(BufferId),
    /// Whether its bytes were sent, and only the notification is left.
    ZeroCopy(BufferId, bool),
    Multishot,
    Cancel,
}

struct Kernel {
    /// Dropped by [`Kernel::finish`] alone: with operations in flight it would submit them.
    ring: ManuallyDrop<Ring>,
    socket: UnixStream,
    pool: PoolId,
    buffers: Vec<BufferId>,
    /// Operations in flight by token, in the order in which they were queued.
    queued: BTreeMap<u64, (OpId, Queued)>,
    next_token: u64,
    /// Buffers of the pool that the kernel has taken so far.
    taken: u16,
    held: Vec<Taken>,
}

/// The result of a transfer by a choice: an error, nothing, a part, or all.
fn result(choice: u8) -> i32 {
    match choice % 5 {
        0 => -libc::ECANCELED,
        1 => -libc::ECONNRESET,
        2 => 0,
        3 => 1 + i32::from(choice) % (LEN as i32 - 1),
        _ => LEN as i32,
    }
}

fn moved(result: i32) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

impl Kernel {
    /// `None` without io_uring.
    fn new() -> Option<Kernel> {
        let mut ring = Ring::open(&QUIET).ok()?;
        let pool = ring.new_pool(POOL_BUFFERS, LEN).ok()?;
        ring.keep_offered(pool, POOL_BUFFERS / 2);
        let buffers = (0..3).map(|_| ring.new_buffer(LEN)).collect::<Result<_, _>>().ok()?;
        let (socket, _) = UnixStream::pair().ok()?;
        let (queued, held) = (BTreeMap::new(), Vec::new());
        Some(Kernel { ring: ManuallyDrop::new(ring), socket, pool, buffers, queued, next_token: 0, taken: 0, held })
    }

    fn step(&mut self, what: u8, which: u8, choice: u8) {
        match what % 10 {
            0..=5 => self.queue(what % 10, which),
            6 if !self.held.is_empty() => {
                let taken = self.held.swap_remove(usize::from(which) % self.held.len());
                self.ring.give_back(taken);
            }
            _ => self.complete_one(which, choice),
        }
        assert_eq!(self.ring.in_flight(), self.queued.len());
        for buffer in &self.buffers {
            assert_eq!(self.ring.is_in_use(*buffer), self.users(*buffer) > 0);
        }
    }

    fn users(&self, buffer: BufferId) -> usize {
        let uses = |queued: &Queued| matches!(queued, Queued::Receive(of) | Queued::Send(of) | Queued::ZeroCopy(of, _) if *of == buffer);
        self.queued.values().filter(|(_, queued)| uses(queued)).count()
    }

    fn queue(&mut self, what: u8, which: u8) {
        let (token, buffer) = (self.next_token, self.buffers[usize::from(which) % self.buffers.len()]);
        let receives = |queued: &Queued| matches!(queued, Queued::Receive(of) if *of == buffer);
        let is_written = self.queued.values().any(|(_, queued)| receives(queued));
        let (ring, socket) = (&mut *self.ring, self.socket.as_fd());
        ring.set_zero_copy(what == 3);
        let (op, queued) = match what {
            1 if !ring.is_in_use(buffer) => (ring.receive(token, socket, buffer, &(0..LEN)), Queued::Receive(buffer)),
            2 if !is_written => (ring.send(token, socket, buffer, &(0..LEN)), Queued::Send(buffer)),
            3 if !is_written => (ring.send(token, socket, buffer, &(0..LEN)), Queued::ZeroCopy(buffer, false)),
            4 => (ring.receive_multishot(token, socket, self.pool, false), Queued::Multishot),
            5 if !self.queued.is_empty() => {
                let at = usize::from(which) % self.queued.len();
                let target = self.queued.values().nth(at).map(|(op, _)| *op);
                (ring.cancel(target.expect("one of those in flight")), Queued::Cancel)
            }
            _ => (ring.poll(token, socket, Ready::OUT), Queued::Poll),
        };
        self.next_token += 1;
        self.queued.insert(token, (op, queued));
    }

    /// Completes any operation in flight, and checks that the ring reports that one.
    fn complete_one(&mut self, which: u8, choice: u8) {
        let Some((token, (op, queued))) = self.queued.iter().nth(usize::from(which) % self.queued.len().max(1)) else {
            return;
        };
        let (token, op, queued, result) = (*token, *op, *queued, result(choice));
        let goes_on = match queued {
            Queued::Poll => {
                self.check(op, (0, 0), token, |event| matches!(event, OpResult::Polled(Ok(found)) if found.is_empty()));
                None
            }
            Queued::Cancel => {
                // It reports no token.
                self.check(
                    op,
                    (result.min(0), 0),
                    0,
                    |event| matches!(event, OpResult::Cancelled(found) if *found == moved(result.min(0)).map(drop)),
                );
                None
            }
            Queued::Receive(_) => {
                self.check(op, (result, 0), token, |event| {
                    matches!(event, OpResult::Received { moved: found, taken: None } if *found == moved(result))
                });
                None
            }
            Queued::Send(_) => {
                self.check(op, (result, 0), token, |event| is_sent(event, result));
                None
            }
            Queued::ZeroCopy(_, true) => {
                self.check(op, (0, NOTIFIES), token, |event| matches!(event, OpResult::Released { copied: false }));
                None
            }
            Queued::ZeroCopy(buffer, false) => {
                let goes_on = result >= 0;
                let flags = if goes_on { MORE } else { 0 };
                self.check(op, (result, flags), token, |event| is_sent(event, result));
                goes_on.then_some(Queued::ZeroCopy(buffer, true))
            }
            Queued::Multishot => self.receive_once(op, token, result),
        };
        match goes_on {
            Some(queued) => self.queued.insert(token, (op, queued)),
            None => self.queued.remove(&token),
        };
    }

    fn receive_once(&mut self, op: OpId, token: u64, result: i32) -> Option<Queued> {
        let (buffer, offered) = self.ring.pool(self.pool).next_offered(self.taken);
        if result <= 0 || offered == 0 {
            let result = if result > 0 { -libc::ENOBUFS } else { result };
            self.check(
                op,
                (result, 0),
                token,
                |event| matches!(event, OpResult::Received { moved: found, taken: None } if *found == moved(result)),
            );
            return None;
        }
        let completion = self.ring.complete(op, result, BUFFER | MORE | u32::from(buffer) << 16);
        assert!(completion.token == token && completion.more, "{completion:?}");
        let OpResult::Received { moved: Ok(moved), taken: Some(taken) } = completion.event else {
            panic!("{:?}", completion.event)
        };
        assert_eq!((moved, taken.left(), taken.buffers()), (result as usize, result as usize, 1));
        self.taken = self.taken.wrapping_add(1);
        self.held.push(taken);
        Some(Queued::Multishot)
    }

    fn check(&mut self, op: OpId, (result, flags): (i32, u32), token: u64, fits: impl Fn(&OpResult) -> bool) {
        let completion = self.ring.complete(op, result, flags);
        assert_eq!((completion.token, completion.more), (token, flags & MORE != 0));
        assert!(fits(&completion.event), "{completion:?} of {result}");
    }

    /// Completes all, and returns everything.
    fn finish(mut self) {
        while !self.queued.is_empty() {
            self.step(9, 0, 0);
        }
        self.held.drain(..).for_each(|taken| self.ring.give_back(taken));
        let (_, offered) = self.ring.pool(self.pool).next_offered(self.taken);
        assert_eq!(self.ring.idle_buffers(self.pool) + usize::from(offered), usize::from(POOL_BUFFERS));
        assert!(self.buffers.iter().all(|buffer| !self.ring.is_in_use(*buffer)));
        drop(ManuallyDrop::into_inner(self.ring));
    }
}

fn is_sent(event: &OpResult, result: i32) -> bool {
    matches!(event, OpResult::Sent(found) if *found == moved(result))
}

proptest! {
    #[test]
    fn completions_in_any_order_find_their_operations(
        steps in prop::collection::vec((any::<u8>(), any::<u8>(), any::<u8>()), 0..400)
    ) {
        let Some(mut kernel) = Kernel::new() else { return Ok(()) };
        for (what, which, choice) in steps {
            kernel.step(what, which, choice);
        }
        kernel.finish();
    }
}

#[test]
fn completion_of_an_ended_operation_is_noticed() {
    let Some(mut kernel) = Kernel::new() else { return };
    let first = kernel.ring.poll(1, kernel.socket.as_fd(), Ready::OUT);
    let _ = kernel.ring.complete(first, 0, 0);
    // The same place of the table.
    let second = kernel.ring.poll(2, kernel.socket.as_fd(), Ready::OUT);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kernel.ring.complete(first, 0, 0).token));
    assert!(again.is_err());
    assert_eq!(kernel.ring.complete(second, 0, 0).token, 2);
    kernel.finish();
}
