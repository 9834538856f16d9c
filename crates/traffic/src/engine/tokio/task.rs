//! One connection's task: it awaits Tokio's reads and writes, and reports them to the flow.
//!
//! Tokio's budget makes a task yield even if it never has to wait. A task keeps its flow and its memory from connection to
//! connection.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytegauge_sys::clock::{self, monotonic_ns};
use bytegauge_sys::socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout_at};

use crate::engine::WorkerTotals;
use crate::engine::flow_state::{FlowState, Outgoing};
use crate::engine::tokio::{Stream, instant};
use crate::flow::{Doing, Flow, Opener, Want};
use crate::tally::CallCounter;
use crate::{EndError, lock};

/// Times within this limit are waited for exactly, by a timer of the kernel: Tokio's end up to a millisecond late. Later times
/// are mostly never reached, and setting a timer is a system call.
const NEAR_NS: u64 = 250_000_000;

/// How much earlier than a distant time its flow is called again.
const EARLY_NS: u64 = NEAR_NS / 2;

/// A task's request to the root future.
pub(super) enum TaskRequest<F> {
    /// A connection for this flow.
    Connect(F),
    /// Return it to the party.
    Return(F, Option<OwnedFd>),
}

/// State shared by tasks and the root future.
pub(super) struct TaskShared<F> {
    calls: CallCounter,
    buffer_size: usize,
    pub(super) totals: WorkerTotals,
    /// Opens connections without the party.
    opener: Option<Opener>,
    requests: Mutex<Vec<TaskRequest<F>>>,
    /// Notified of requests and faults.
    pub(super) news: Notify,
}

impl<F> TaskShared<F> {
    pub(super) fn new(calls: CallCounter, buffer_size: usize, opener: Option<Opener>) -> TaskShared<F> {
        TaskShared {
            calls,
            buffer_size,
            totals: WorkerTotals::default(),
            opener,
            requests: Mutex::new(Vec::new()),
            news: Notify::new(),
        }
    }

    pub(super) fn take_requests(&self) -> Vec<TaskRequest<F>> {
        std::mem::take(&mut lock(&self.requests))
    }

    fn post(&self, request: TaskRequest<F>) {
        lock(&self.requests).push(request);
        self.news.notify_one();
    }
}

/// A flow's task: the flow goes back to the root future however the task ends.
pub(super) struct FlowTask<F: Flow>(Option<TaskConnection<F>>);

/// A flow and its connection.
struct TaskConnection<F: Flow> {
    state: FlowState<F, Stream>,
    /// Ends a wait at a time, once the flow has set one that is near.
    alarm: Option<AsyncFd<OwnedFd>>,
    shared: Arc<TaskShared<F>>,
}

impl<F: Flow> FlowTask<F> {
    /// `is_connecting`: the party has begun to connect the stream.
    pub(super) fn new(
        flow: F,
        stream: Option<Stream>,
        is_connecting: bool,
        shared: &Arc<TaskShared<F>>,
    ) -> FlowTask<F> {
        let mut state = FlowState::new(flow, stream);
        state.has_connected = is_connecting;
        FlowTask(Some(TaskConnection { state, alarm: None, shared: Arc::clone(shared) }))
    }

    /// Drives the flow until it leaves or needs another connection.
    pub(super) async fn run(mut self) {
        let Some(connection) = &mut self.0 else { return };
        match connection.run().await {
            Ok(true) => {}
            Ok(false) => {
                self.0.take().into_iter().for_each(|connection| connection.post(|flow, _| TaskRequest::Connect(flow)));
            }
            Err(fault) => {
                connection.shared.totals.fail(fault);
                connection.shared.news.notify_one();
            }
        }
    }
}

impl<F: Flow> Drop for FlowTask<F> {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|connection| connection.post(TaskRequest::Return));
    }
}

impl<F: Flow> TaskConnection<F> {
    /// Leaves the task with a request.
    fn post(self, request: impl FnOnce(F, Option<OwnedFd>) -> TaskRequest<F>) {
        let TaskConnection { state, shared, .. } = self;
        state.add_up(&shared.totals);
        // A connection that cannot be taken back is closed.
        let fd = state.connection.and_then(|stream| stream.into_fd().ok());
        shared.post(request(state.flow, fd));
    }

    /// Drives the flow until it is done, or refused what it received. `false`: the party has to open a connection.
    async fn run(&mut self) -> Result<bool, EndError> {
        if self.state.has_connected {
            self.await_connection().await;
        }
        self.state.tick();
        loop {
            let stays = match self.state.next() {
                Want::Receive => self.receive(None).await?,
                Want::ReceiveUntil(until_ns) => self.receive(Some(until_ns)).await?,
                Want::Both => self.send_or_receive().await?,
                Want::Done => false,
                Want::Connect if !self.connect().await => return Ok(false),
                Want::Send => self.send().await.map(|()| true)?,
                Want::Pause(until_ns) => self.pause(until_ns).await.map(|()| true)?,
                want => {
                    self.state.act(want);
                    true
                }
            };
            if !stays {
                return Ok(true);
            }
        }
    }

    /// Opens another connection. `false`: the party has to open it.
    async fn connect(&mut self) -> bool {
        let opener = self.shared.opener.as_ref().filter(|_| self.state.has_connected);
        let Some(opened) = opener.map(|open| open().and_then(Stream::new)) else { return false };
        // socket(2) and connect(2), at the least.
        self.state.system_calls += 2;
        match opened {
            Ok(stream) => {
                self.state.connection = Some(stream);
                self.await_connection().await;
            }
            Err(error) => {
                self.state.tick();
                self.state.fail(Doing::Connecting, &error);
            }
        }
        true
    }

    /// Waits for a connection attempt to end.
    async fn await_connection(&mut self) {
        let Some(stream) = &self.state.connection else { return };
        let patience_ns = self.state.flow.patience_ns();
        let ready = if patience_ns == u64::MAX {
            stream.writable().await
        } else {
            let late = Err(io::Error::from_raw_os_error(socket::TIMED_OUT));
            timeout_at(instant(patience_ns), stream.writable()).await.unwrap_or(late)
        };
        let connected = ready.and_then(|()| {
            self.state.system_calls += 1;
            socket::take_error(stream.as_fd())
        });
        self.state.tick();
        match connected {
            Ok(()) => self.state.connected(),
            Err(error) => self.state.fail(Doing::Connecting, &error),
        }
    }

    /// Waits for a time.
    async fn pause(&mut self, until_ns: u64) -> Result<(), EndError> {
        // A timer of Tokio's may end a millisecond late.
        if until_ns.saturating_sub(monotonic_ns()) >= NEAR_NS {
            sleep_until(instant(until_ns - EARLY_NS)).await;
        } else {
            let alarm = self.set_alarm(until_ns)?;
            poll_fn(|context| poll_alarm(alarm, context)).await;
        }
        self.state.tick();
        Ok(())
    }

    /// Sets the alarm, which is created when first needed.
    fn set_alarm(&mut self, at_ns: u64) -> Result<&AsyncFd<OwnedFd>, EndError> {
        let alarm = match self.alarm.take() {
            Some(alarm) => alarm,
            None => clock::alarm().and_then(registered).map_err(EndError::io("making a timer"))?,
        };
        self.state.system_calls += 1;
        clock::set_alarm(alarm.get_ref().as_fd(), at_ns).map_err(EndError::io("setting a timer"))?;
        Ok(self.alarm.insert(alarm))
    }

    async fn send(&mut self) -> Result<(), EndError> {
        let patience_ns = self.state.flow.patience_ns();
        let Outgoing { connection: stream, bytes, dropped, .. } = self.state.outgoing()?;
        let asked = bytes.len();
        let sending = poll_fn(|context| stream.poll_write(context, bytes));
        let sent = match patience_ns {
            u64::MAX => Some(sending.await),
            _ => timeout_at(instant(patience_ns), sending).await.ok(),
        };
        self.sent(sent, asked, dropped);
        Ok(())
    }

    /// Receives once, or returns at a time. `false`: the flow leaves.
    async fn receive(&mut self, until_ns: Option<u64>) -> Result<bool, EndError> {
        let is_near = |at_ns: &u64| at_ns.saturating_sub(monotonic_ns()) < NEAR_NS;
        let near_ns = until_ns.filter(is_near);
        near_ns.map_or(Ok(()), |at_ns| self.set_alarm(at_ns).map(|_| ()))?;
        let (stream, buffer) = self.state.incoming(self.shared.buffer_size)?;
        let alarm = self.alarm.as_ref().filter(|_| near_ns.is_some());
        let receiving = poll_fn(|context| match (stream.poll_read(context, buffer), alarm) {
            (Poll::Ready(received), _) => Poll::Ready(Some(received)),
            (Poll::Pending, Some(alarm)) => poll_alarm(alarm, context).map(|()| None),
            (Poll::Pending, None) => Poll::Pending,
        });
        let received = match until_ns {
            Some(at_ns) if near_ns.is_none() => timeout_at(instant(at_ns - EARLY_NS), receiving).await.unwrap_or(None),
            _ => receiving.await,
        };
        Ok(self.received(received))
    }

    async fn send_or_receive(&mut self) -> Result<bool, EndError> {
        let patience_ns = self.state.flow.patience_ns();
        let (stream, bytes, buffer) = self.state.outgoing_and_incoming(self.shared.buffer_size)?;
        let asked = bytes.len();
        let either = poll_fn(|context| match stream.poll_read(context, buffer) {
            Poll::Ready(received) => Poll::Ready(Moved::In(received)),
            Poll::Pending => stream.poll_write(context, bytes).map(Moved::Out),
        });
        match timeout_at(instant(patience_ns), either).await {
            Ok(Moved::In(received)) => return Ok(self.received(Some(received))),
            Ok(Moved::Out(sent)) => self.sent(Some(sent), asked, None),
            Err(_) => self.state.tick(),
        }
        Ok(true)
    }

    /// Handles a send of `asked` bytes, of the kept ones from `dropped` on; `None` if the flow's patience ended first.
    fn sent(&mut self, sent: Option<io::Result<usize>>, asked: usize, dropped: Option<usize>) {
        let Some(sent) = sent else { return self.state.tick() };
        self.state.system_calls += 1;
        self.state.sent(sent, dropped, |n| self.shared.calls.count(n, asked));
    }

    /// Handles a receive; `None` if a time was reached first. `false`: the flow leaves.
    fn received(&mut self, received: Option<io::Result<usize>>) -> bool {
        let Some(received) = received else {
            self.state.tick();
            return true;
        };
        self.state.system_calls += 1;
        self.state.received(received, |n| self.shared.calls.count(n, self.shared.buffer_size))
    }
}

/// Has Tokio's driver watch an alarm.
#[expect(
    deprecated,
    reason = "its replacement has callers promise that the descriptor stays open, and an alarm keeps its own"
)]
fn registered(alarm: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(alarm, Interest::READABLE)
}

/// Whether an alarm has expired, which is then cleared.
fn poll_alarm(alarm: &AsyncFd<OwnedFd>, context: &mut Context<'_>) -> Poll<()> {
    // An error would repeat at once; the flow is called, and sets the alarm again.
    alarm.poll_read_ready(context).map(|ready| ready.into_iter().for_each(|mut ready| ready.clear_ready()))
}

/// The first event.
enum Moved {
    In(io::Result<usize>),
    Out(io::Result<usize>),
}
