//! The client without a network: the cost of beginning, timing, checking and recording a call.
//!
//! The null engine of calls. It reads the clock where a real engine would and answers every request at once, so that a report
//! can show bytegauge's own share of a call's cost.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use bytegauge_sys::clock::monotonic_ns;

use crate::call::message_bytes::HEAD;
use crate::end_error::EndError;
use crate::engine::{Room, Stop};
use crate::flow::{Flow, Want};
use crate::meter::Meter;

/// Runs one flow until it is done.
pub(crate) fn carry(
    flow: &mut impl Flow,
    response: usize,
    buffer: &mut [u8],
    abort: &AtomicBool,
    meter: &mut Meter,
) -> Result<Stop, EndError> {
    // As in an engine with threads of its own, whose counting is the slower of two ways (`engine::null`).
    let mut share = meter.tally().share_of_meter();
    let never = AtomicBool::new(false);
    let mut now_ns = monotonic_ns();
    let mut head = [0; HEAD];
    let mut room = Room::default();
    let (mut taken, mut given) = (0, 0);
    loop {
        for _ in 0..meter.lap_calls() {
            match flow.want(now_ns) {
                // A request is answered before the next one is sent.
                Want::Receive | Want::ReceiveUntil(_) | Want::Both if taken > 0 => {
                    let n = (response - given).min(buffer.len());
                    if given < HEAD {
                        let part = n.min(HEAD - given);
                        buffer[..part].copy_from_slice(&head[given..given + part]);
                    }
                    given += n;
                    if given == response {
                        taken = 0;
                    }
                    share.count(n, n);
                    now_ns = monotonic_ns();
                    flow.received(black_box(&mut buffer[..n]), now_ns);
                }
                Want::Send | Want::Both => {
                    let bytes = black_box(room.next(flow));
                    let n = bytes.len();
                    if taken < HEAD {
                        let part = n.min(HEAD - taken);
                        head[taken..taken + part].copy_from_slice(&bytes[..part]);
                    }
                    taken += n;
                    given = 0;
                    share.count(n, n);
                    now_ns = monotonic_ns();
                    room.sent(n);
                    flow.sent(n, now_ns);
                }
                Want::Connect => {
                    now_ns = monotonic_ns();
                    flow.connected(now_ns);
                }
                Want::Finish | Want::Close | Want::Reset => {}
                // A time in the future, for which this loop does not wait.
                Want::Receive | Want::ReceiveUntil(_) | Want::Pause(_) => now_ns = monotonic_ns(),
                Want::Done => return Ok(Stop::Done),
            }
        }
        meter.lap(&never);
        if abort.load(Ordering::Relaxed) {
            return Ok(Stop::Aborted);
        }
    }
}
