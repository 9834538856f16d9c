//! `tokio::io::copy_bidirectional`: a task per connection, all of them on one thread.
//!
//! By default each direction has a buffer of 8 KiB (tokio/src/io/util/mod.rs, `DEFAULT_BUF_SIZE`).

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::socket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional_with_sizes};
use tokio::time::{sleep, timeout};

use crate::EndError;
use crate::engine::{ACCEPT_PAUSE_NS, Listener, Stream, is_out_of_descriptors, reset_when_closed, runtime};
use crate::relay::copy_methods::Carrying;
use crate::relay::state::{Passage, RelayShared};
use crate::tally::CallCounter;

/// Longest sleep of the loop: a flag does not wake it.
const CHECK_NS: u64 = 5_000_000;

pub(super) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, EndError> {
    let Carrying { shared, setup, flags, meter } = carrying;
    let runtime = runtime()?;
    let (calls, size) = (Arc::new(meter.tally().call_counter()), setup.relay_buffer());
    let mut report = EngineReport::default();
    // A request to stop does not end it by itself.
    let never = AtomicBool::new(false);
    let carried = runtime.block_on(async {
        let listener = Listener::new(shared.listener.as_fd())
            .map_err(EndError::io("registering the relay's listener with Tokio"))?;
        loop {
            let now_ns = monotonic_ns();
            if !meter.continues(now_ns, &never)
                || flags.abort.load(Ordering::Relaxed)
                || shared.is_over(&flags.stop_requested)
            {
                return Ok(());
            }
            let until_ns = meter.next_mark_ns().clamp(now_ns, now_ns + CHECK_NS);
            let accepting = poll_fn(|context| listener.poll_accept(context));
            match timeout(Duration::from_nanos(until_ns - now_ns), accepting).await {
                Err(_) => {}
                Ok(Ok(stream)) => {
                    report.accepted += 1;
                    report.accepted_at_once = 1;
                    if shared.admits(&stream) {
                        tokio::spawn(carry_one(Arc::clone(shared), TokioLeg::new(stream, &calls), size));
                    }
                }
                Ok(Err(error)) => {
                    if is_out_of_descriptors(error)? {
                        sleep(Duration::from_nanos(ACCEPT_PAUSE_NS)).await;
                    }
                }
            }
        }
    });
    shared.closes();
    // Drops every task, and each reports its bytes.
    drop(runtime);
    carried.map(|()| report)
}

async fn carry_one(shared: Arc<RelayShared>, front: TokioLeg, size: usize) {
    let back = match connected(&shared, &front.stream).await {
        Ok(stream) => TokioLeg::new(stream, &front.calls),
        Err(fault) => {
            reset_when_closed(front.fd());
            return shared.unconnected(fault);
        }
    };
    let mut pair = TokioPair { shared, legs: [front, back], in_order: false };
    let [front, back] = &mut pair.legs;
    pair.in_order = copy_bidirectional_with_sizes(front, back, size, size).await.is_ok();
}

async fn connected(shared: &RelayShared, front: &Stream) -> Result<Stream, EndError> {
    shared.upstream.prepare_accepted(front)?;
    let connector = &shared.upstream.connector;
    let stream = connector.begin().and_then(Stream::new).map_err(|error| connector.fault(error))?;
    let connected = stream.writable().await.and_then(|()| socket::take_error(stream.as_fd()));
    connected.map(|()| stream).map_err(|error| connector.fault(error))
}

/// A connection; dropping it, at the end of its task or of the runtime, reports its bytes.
struct TokioPair {
    shared: Arc<RelayShared>,
    legs: [TokioLeg; 2],
    in_order: bool,
}

impl Drop for TokioPair {
    fn drop(&mut self) {
        let [front, back] = &self.legs;
        let in_order = self.in_order;
        if !in_order {
            reset_when_closed(front.fd());
            reset_when_closed(back.fd());
        }
        let up = Passage { taken: front.taken, given: back.given, in_order };
        let down = Passage { taken: back.taken, given: front.given, in_order };
        self.shared.settle([up, down], !in_order, [Some(front.fd()), Some(back.fd())]);
    }
}

/// One socket, and its bytes.
struct TokioLeg {
    stream: Stream,
    calls: Arc<CallCounter>,
    taken: u64,
    given: u64,
}

impl TokioLeg {
    fn new(stream: Stream, calls: &Arc<CallCounter>) -> TokioLeg {
        TokioLeg { stream, calls: Arc::clone(calls), taken: 0, given: 0 }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl AsyncRead for TokioLeg {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (leg, before) = (self.get_mut(), buffer.remaining());
        ready!(leg.stream.poll_fill(context, buffer))?;
        let n = before - buffer.remaining();
        leg.calls.count(n, before);
        leg.taken += n as u64;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TokioLeg {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let leg = self.get_mut();
        let n = ready!(leg.stream.poll_write(context, bytes))?;
        leg.calls.count(n, bytes.len());
        leg.given += n as u64;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket buffers nothing in the process.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // If the peer is gone already, the other direction reports it.
        let _ = bytegauge_sys::io::shutdown(self.fd(), std::net::Shutdown::Write);
        Poll::Ready(Ok(()))
    }
}
