//! The blocking engine as a writer with `MSG_ZEROCOPY`: two memories by turns, each used again when the kernel returned it.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use bytegauge_model::EngineReport;
use bytegauge_sys::zero_copy;

use crate::end_error::EndError;
use crate::engine::zero_copy::{ZeroCopySend, ZeroCopySends};
use crate::engine::{FlowStation, Stop};
use crate::flow::{ConnectionEnd, Flow, Want};
use crate::meter::Meter;

/// No wait for a notification is longer before the flags are looked at.
const WAIT_MS: i32 = 50;

/// Sends, and waits for the kernel where it has to.
fn send<F: Flow>(
    sends: &mut ZeroCopySends,
    fd: BorrowedFd<'_>,
    flow: &mut F,
    meter: &mut Meter,
) -> io::Result<Option<Stop>> {
    match sends.send(fd, flow) {
        Ok(ZeroCopySend::Sent { moved, asked }) => {
            meter.count(moved, asked);
            flow.sent(moved, 0);
            Ok(None)
        }
        Ok(ZeroCopySend::Held) => {
            sends.calls += 1;
            zero_copy::wait(fd, WAIT_MS)?;
            Ok(None)
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
            Ok(Some(Stop::Ended(ConnectionEnd::Closed)))
        }
        Err(error) => Err(error),
    }
}

/// Writes until the flow's time is up.
///
/// # Errors
/// [`EndError::Io`] when a call failed for another reason than the connection's end, [`EndError::Impossible`] for a flow that reads.
#[inline(never)]
pub(in crate::engine) fn run<F: Flow>(
    flow: &mut F,
    fd: BorrowedFd<'_>,
    slot: &FlowStation<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let FlowStation { pace, abort, stop_requested, .. } = slot;
    let mut sends = ZeroCopySends::default();
    let paced = !pace.is_free();
    let stop = 'time: loop {
        for _ in 0..meter.lap_calls() {
            let want = flow.want(0);
            if !matches!(want, Want::Send) {
                return Err(EndError::Impossible(format!("a writer without copies never wants {want:?}")));
            }
            match send(&mut sends, fd, flow, meter) {
                Ok(None) => {}
                Ok(Some(stop)) => break 'time stop,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if abort.load(Ordering::Relaxed) {
                        break 'time Stop::Aborted;
                    }
                    // A peer that takes nothing returns nothing: the clock is looked at all the same.
                    break;
                }
                Err(source) => return Err(EndError::Io { doing: "moving bytes without copies".into(), source }),
            }
            if paced {
                pace.wait(meter.start_ns(), meter.total_bytes(), stop_requested);
                break;
            }
        }
        if !meter.lap(stop_requested) {
            break Stop::Time;
        }
    };
    // The last notifications that came; memory that the kernel still holds stays its own until it lets go.
    let _ = sends.reap(fd);
    let report = EngineReport {
        system_calls: sends.system_calls(),
        zero_copy: sends.sends(),
        zero_copy_copied: sends.copied,
        ..EngineReport::default()
    };
    Ok((stop, report))
}
