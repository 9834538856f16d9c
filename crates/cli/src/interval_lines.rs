//! `--interval` while a stream is measured: a line for each interval, as iperf3 prints them, in place of the live display.
//!
//! Its thread wakes once an interval and reads the counts that meters store anyway. Bytes of warm-ups count as well.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytegauge_model::unit::{about_bytes, byte_rate};
use bytegauge_model::{Ends, Nanos, Workload};
use bytegauge_plan::Plan;
use bytegauge_traffic::counter;

use crate::terminal;

/// A listing that is printed until it is dropped.
pub struct Listing {
    /// Dropped to end the thread.
    ends: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listing {
    /// Starts a listing of a session. `None`: its ends do not count in this process, or no thread can be had.
    pub fn start(interval: Nanos, plan: &Plan) -> Option<Listing> {
        if plan.workload != Workload::Stream || plan.ends != Ends::Threads {
            terminal::note(
                "note: --interval lists intervals while a stream runs with --ends threads; here they follow at the end",
            );
            return None;
        }
        counter::switch_on();
        let (ends, ended) = mpsc::channel::<()>();
        let list = move || {
            terminal::note("interval                transfer         rate");
            let (began, mut last) = (Instant::now(), (Duration::ZERO, counter::total()));
            for count in 1.. {
                let due = Duration::from_nanos(interval.0.saturating_mul(count));
                match ended.recv_timeout(due.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
                let now = (began.elapsed(), counter::total());
                terminal::note(&line(last, now));
                last = now;
            }
        };
        let thread = std::thread::Builder::new().name("listing".into()).spawn(list).ok()?;
        Some(Listing { ends: Some(ends), thread: Some(thread) })
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        self.ends = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed why.
            let _ = thread.join();
        }
    }
}

/// The line of an interval between two moments with their bytes.
fn line((from, before): (Duration, u64), (to, after): (Duration, u64)) -> String {
    let bytes = after.saturating_sub(before);
    let rate = byte_rate(bytes as f64 / (to - from).as_secs_f64().max(1e-9));
    let (from, to, moved) = (from.as_secs_f64(), to.as_secs_f64(), about_bytes(bytes));
    format!("{from:>8.2}-{to:<8.2} s   {moved:>10}   {rate:>12}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_interval_bytes_and_rate() {
        let text = line((Duration::from_secs(1), 5), (Duration::from_secs(3), 5 + (2 << 30)));
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), ["1.00-3.00", "s", "2", "GiB", "1", "GiB/s"], "{text}");
    }
}
