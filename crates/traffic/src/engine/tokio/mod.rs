//! The Tokio engine: one single-threaded runtime per thread, a task per connection.
//!
//! Tasks own their flows and wait for Tokio's readiness ([`task`]). The root future here uses the party: it accepts, connects,
//! returns flows, and keeps the time. A dropped task, at its own end or with the runtime, sends its flow back. Times set by
//! flows are met exactly ([`task`]); the limits of their patience by Tokio's timers, which may be a millisecond late.
//!
//! A signal does not wake the root future, so it checks the flags every few milliseconds. The report counts calls that moved
//! bytes, not the calls of Tokio's driver nor attempts without a result.

mod task;

use std::future::{Future, poll_fn};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::io as sys_io;
use socket2::{Domain, SockRef};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep_until};

use crate::EndError;
use crate::engine::flow_state::time_for;
use crate::engine::tokio::task::{FlowTask, TaskRequest, TaskShared};
use crate::engine::{ACCEPT_PAUSE_NS, Station, Stop, errno, is_out_of_descriptors};
use crate::flow::{ConnectionEnd, Doing, Flow, Party};
use crate::meter::Meter;

/// Longest sleep of the root future: a flag does not wake it.
const CHECK_NS: u64 = 5_000_000;

/// A runtime of this thread alone.
pub(crate) fn runtime() -> Result<Runtime, EndError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    built.map_err(EndError::io("starting a Tokio runtime"))
}

pub(super) fn drive<P: Party>(
    party: &mut P,
    station: Station<'_>,
    meter: &mut Meter,
) -> Result<(Stop, EngineReport), EndError> {
    let runtime = runtime()?;
    let calls = meter.tally().call_counter();
    let shared = Arc::new(TaskShared::new(calls, station.buffer_size.max(1), party.opener()));
    let mut root = Root { party, station, meter, shared: &shared, live: 0, report: EngineReport::default() };
    let stopped = runtime.block_on(root.run());
    // Drops every task, and each sends its flow back.
    drop(runtime);
    for request in shared.take_requests() {
        match request {
            TaskRequest::Return(flow, fd) => root.party.left(flow, fd),
            TaskRequest::Connect(flow) => root.party.left(flow, None),
        }
    }
    shared.totals.finish(stopped, root.report)
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
        let listener = self.station.listener.map(Listener::new).transpose();
        let listener = listener.map_err(EndError::io("registering the listener with Tokio"))?;
        let mut accept_from_ns = 0;
        loop {
            if self.station.abort.load(Ordering::Relaxed) {
                return Ok(Stop::Aborted);
            }
            if let Some(fault) = self.shared.totals.take_fault() {
                return Err(fault);
            }
            let now_ns = monotonic_ns();
            if !self.meter.continues(now_ns, self.station.stop_requested) {
                return Ok(Stop::Time);
            }
            self.serve_requests();
            if self.live == 0 && listener.is_none() {
                return Ok(Stop::Done);
            }
            let until_ns = self.meter.next_mark_ns().clamp(now_ns, now_ns + CHECK_NS);
            let open = listener.as_ref().filter(|_| accept_from_ns <= now_ns);
            match self.wait(open, until_ns).await {
                None => {}
                Some(Ok(stream)) => self.add_accepted(stream),
                Some(Err(error)) => {
                    accept_from_ns = now_ns + if is_out_of_descriptors(error)? { ACCEPT_PAUSE_NS } else { 0 };
                }
            }
        }
    }

    /// Sleeps until there is a request or a connection, which it returns, or the time has come.
    async fn wait(&self, listener: Option<&Listener>, until_ns: u64) -> Option<io::Result<Stream>> {
        let mut news = pin!(self.shared.news.notified());
        let mut time = pin!(sleep_until(instant(until_ns)));
        poll_fn(|context| {
            if let Some(Poll::Ready(accepted)) = listener.map(|listener| listener.poll_accept(context)) {
                return Poll::Ready(Some(accepted));
            }
            if news.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            time.as_mut().poll(context).map(|()| None)
        })
        .await
    }

    fn add_accepted(&mut self, stream: Stream) {
        self.report.system_calls += 1;
        self.report.accepted += 1;
        self.report.accepted_at_once = 1;
        if let Some(flow) = self.party.accepted(stream.as_fd(), time_for::<P::Flow>()) {
            self.live += 1;
            self.start(flow, Some(stream), false);
        }
    }

    /// Does what tasks requested.
    fn serve_requests(&mut self) {
        for request in self.shared.take_requests() {
            match request {
                TaskRequest::Return(flow, fd) => {
                    self.live -= 1;
                    self.party.left(flow, fd);
                }
                TaskRequest::Connect(mut flow) => {
                    // socket(2) and connect(2), at the least.
                    self.report.system_calls += 2;
                    match self.party.connect(&mut flow).and_then(Stream::new) {
                        Ok(stream) => self.start(flow, Some(stream), true),
                        Err(error) => {
                            let failed = ConnectionEnd::Failed { doing: Doing::Connecting, errno: errno(&error) };
                            flow.ended(failed, time_for::<P::Flow>());
                            self.start(flow, None, false);
                        }
                    }
                }
            }
        }
    }

    fn start(&self, flow: P::Flow, stream: Option<Stream>, is_connecting: bool) {
        self.shared.totals.most_flows.fetch_max(self.live as u64, Ordering::Relaxed);
        tokio::spawn(FlowTask::new(flow, stream, is_connecting, self.shared).run());
    }
}

// Tokio's own sockets, of either family: the engine measures them as its users have them.

/// A connection that Tokio's driver watches.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The same of a connection of either family.
macro_rules! of_either {
    ($connection:expr, $stream:ident => $value:expr) => {
        match $connection {
            Stream::Tcp($stream) => $value,
            Stream::Unix($stream) => $value,
        }
    };
}

impl Stream {
    /// Registers a connection that does not block.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Stream> {
        match is_unix(fd.as_fd())? {
            true => UnixStream::from_std(fd.into()).map(Stream::Unix),
            false => TcpStream::from_std(fd.into()).map(Stream::Tcp),
        }
    }

    /// The connection alone, which the driver no longer watches.
    pub(crate) fn into_fd(self) -> io::Result<OwnedFd> {
        of_either!(self, stream => stream.into_std().map(OwnedFd::from))
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        of_either!(self, stream => stream.writable().await)
    }

    #[inline]
    pub(crate) fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(self.poll_fill(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    #[inline]
    pub(crate) fn poll_fill(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_either!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }

    #[inline]
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        of_either!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        of_either!(self, stream => stream.as_fd())
    }
}

/// A listener that Tokio's driver watches.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Registers a duplicate of a listener that does not block.
    pub(crate) fn new(listener: BorrowedFd<'_>) -> io::Result<Listener> {
        let fd = listener.try_clone_to_owned()?;
        match is_unix(listener)? {
            true => UnixListener::from_std(fd.into()).map(Listener::Unix),
            false => TcpListener::from_std(fd.into()).map(Listener::Tcp),
        }
    }

    pub(crate) fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        match self {
            Listener::Tcp(listener) => listener.poll_accept(context).map_ok(|(stream, _)| Stream::Tcp(stream)),
            Listener::Unix(listener) => listener.poll_accept(context).map_ok(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

/// Whether it is a Unix socket.
pub(crate) fn is_unix(fd: BorrowedFd<'_>) -> io::Result<bool> {
    SockRef::from(&fd).domain().map(|domain| domain == Domain::UNIX)
}
