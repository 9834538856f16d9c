//! The Tokio engine: one single-threaded runtime per thread, a task per connection.
//!
//! Tasks own their flows and wait for Tokio's readiness ([`task`]). The root future here uses the party: it accepts, connects,
//! returns flows, and keeps the time. A dropped task, at its own end or with the runtime, sends its flow back. Times set by
//! flows are met exactly ([`task`]); the limits of their patience by Tokio's timers, which may be a millisecond late.
//!
//! A signal does not wake the root future, so it checks the flags every few milliseconds. The report counts calls that moved
//! bytes, not the calls of Tokio's driver nor attempts without a result.

mod stream;
mod task;

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::AsFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::{io as sys_io, socket};
use tokio::time::{Instant, sleep_until};

use crate::end_error::EndError;
pub(crate) use crate::engine::tokio::stream::{Door, Stream};
use crate::engine::tokio::task::{Held, Mail, TaskShared, carry};
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, is_passing};
use crate::flow::{ConnectionEnd, Doing, Flow};
use crate::meter::Meter;
use crate::party::Party;

/// Longest sleep of the root future: a flag does not wake it.
const LOOK_NS: u64 = 5_000_000;

pub(super) fn drive<P: Party>(
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(EndError::io("starting a Tokio runtime"))?;
    let calls = meter.tally().call_counter();
    let shared = Arc::new(TaskShared::new(calls, station.buffer_size.max(1), party.opener()));
    let mut root = Root { party, station, meter, shared: &shared, live: 0, report: EngineReport::default() };
    let stopped = runtime.block_on(root.run());
    // Drops every task, and each sends its flow back.
    drop(runtime);
    root.report.system_calls += shared.system_calls();
    root.report.copied_bytes += shared.copied_bytes();
    root.report.buffer_bytes += shared.buffer_bytes();
    for mail in shared.take_mail() {
        match mail {
            Mail::Left(flow, fd) => root.party.left(flow, fd),
            Mail::Connect(flow) => root.party.left(flow, None),
        }
    }
    match (stopped, shared.take_fault()) {
        (Err(fault), _) | (_, Some(fault)) => Err(fault),
        (Ok(stop), None) => Ok((stop, root.report)),
    }
}

/// A time of the monotonic clock as Tokio's type.
fn instant(at_ns: u64) -> Instant {
    // A day is long enough, and Tokio's timers accept at most two years.
    let left_ns = at_ns.saturating_sub(monotonic_ns()).min(86_400_000_000_000);
    Instant::now() + Duration::from_nanos(left_ns)
}

struct Root<'a, P: Party> {
    party: &'a mut P,
    station: Station<'a>,
    meter: &'a mut Meter,
    shared: &'a Arc<TaskShared<P::Flow>>,
    /// Flows that have not been returned.
    live: usize,
    report: EngineReport,
}

/// Why the root future woke.
enum Woken {
    Mail,
    Accepted(io::Result<Stream>),
    Time,
}

impl<P: Party> Root<'_, P> {
    async fn run(&mut self) -> Result<Stop, EndError> {
        while let Some((flow, fd)) = self.party.first() {
            self.live += 1;
            if let Some(fd) = &fd {
                sys_io::set_nonblocking(fd.as_fd(), true).map_err(EndError::io("preparing a connection"))?;
            }
            let stream =
                fd.map(Stream::new).transpose().map_err(EndError::io("registering a connection with Tokio"))?;
            self.start(flow, stream, false);
        }
        let listener = self.station.listener.map(Door::new).transpose();
        let listener = listener.map_err(EndError::io("registering the listener with Tokio"))?;
        let mut accept_from_ns = 0;
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            if let Some(fault) = self.shared.take_fault() {
                return Err(fault);
            }
            let now_ns = monotonic_ns();
            if !self.meter.goes_on(now_ns, self.station.stop_requested) {
                return Ok(Stop::Time);
            }
            if self.answer() {
                accept_from_ns = 0;
            }
            if self.live == 0 && listener.is_none() {
                return Ok(Stop::Done);
            }
            let until_ns = self.meter.next_mark_ns().clamp(now_ns, now_ns + LOOK_NS);
            let door = listener.as_ref().filter(|_| accept_from_ns <= now_ns);
            match self.wait(door, until_ns).await {
                Woken::Mail | Woken::Time => {}
                Woken::Accepted(Ok(stream)) => self.welcome(stream),
                Woken::Accepted(Err(error)) if socket::is_exhausted(&error) => {
                    accept_from_ns = now_ns + ACCEPT_PAUSE_NS;
                }
                Woken::Accepted(Err(error)) if is_passing(&error) => {}
                Woken::Accepted(Err(source)) => {
                    return Err(EndError::Io { doing: "accepting a connection".into(), source });
                }
            }
        }
    }

    /// Sleeps until there is mail or a connection, or the time has come.
    async fn wait(&self, door: Option<&Door>, until_ns: u64) -> Woken {
        let mut mail = pin!(self.shared.rung());
        let mut time = pin!(sleep_until(instant(until_ns)));
        poll_fn(|context| {
            if let Some(Poll::Ready(accepted)) = door.map(|door| door.poll_accept(context)) {
                return Poll::Ready(Woken::Accepted(accepted));
            }
            if mail.as_mut().poll(context).is_ready() {
                return Poll::Ready(Woken::Mail);
            }
            time.as_mut().poll(context).map(|()| Woken::Time)
        })
        .await
    }

    fn welcome(&mut self, stream: Stream) {
        self.report.system_calls += 1;
        self.report.accepted += 1;
        self.report.accepted_at_once = 1;
        let now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
        if let Some(flow) = self.party.accepted(stream.as_fd(), now_ns) {
            self.live += 1;
            self.start(flow, Some(stream), false);
        }
    }

    /// Does what tasks requested. Returns whether a flow has left.
    fn answer(&mut self) -> bool {
        let mut any_left = false;
        for mail in self.shared.take_mail() {
            match mail {
                Mail::Left(flow, fd) => {
                    any_left = true;
                    self.live -= 1;
                    self.party.left(flow, fd);
                }
                Mail::Connect(mut flow) => {
                    // socket(2) and connect(2), at the least.
                    self.report.system_calls += 2;
                    match self.party.connect(&mut flow).and_then(Stream::new) {
                        Ok(stream) => self.start(flow, Some(stream), true),
                        Err(error) => {
                            let now_ns = if P::Flow::TIMED { monotonic_ns() } else { 0 };
                            let errno = error.raw_os_error().unwrap_or(0);
                            flow.ended(ConnectionEnd::Failed { doing: Doing::Connecting, errno }, now_ns);
                            self.start(flow, None, false);
                        }
                    }
                }
            }
        }
        any_left
    }

    fn start(&self, flow: P::Flow, stream: Option<Stream>, connecting: bool) {
        tokio::spawn(carry(Held::new(flow, stream, Arc::clone(self.shared)), connecting));
    }
}
