//! One connection's task: it awaits Tokio's reads and writes, and reports them to the flow.
//!
//! Tokio's budget makes a task yield even if it never has to wait. A task keeps its flow and its memory from connection to
//! connection.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytegauge_sys::alarm::Alarm;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::socket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout_at};

use crate::end_error::EndError;
use crate::engine::memory::{Footprint, KeptBytes, Room};
use crate::engine::tokio::instant;
use crate::engine::tokio::stream::Stream;
use crate::engine::{nothing_to_send, system_calls, unconnected};
use crate::flow::{ConnectionEnd, Doing, Flow, Want};
use crate::party::Opener;
use crate::tally::CallCounter;

/// Times within this limit are waited for exactly, by a timer of the kernel: Tokio's end up to a millisecond late. Later times
/// are mostly never reached, and setting a timer is a system call.
const NEAR_NS: u64 = 250_000_000;

/// How much earlier than a distant time its flow is called again.
const EARLY_NS: u64 = NEAR_NS / 2;

/// A task's request to the root future.
pub(super) enum Mail<F> {
    /// A connection for this flow.
    Connect(F),
    /// Return it to the party.
    Left(F, Option<OwnedFd>),
}

/// State shared by tasks and the root future.
pub(super) struct TaskShared<F> {
    calls: CallCounter,
    buffer_size: usize,
    system_calls: AtomicU64,
    copied_bytes: AtomicU64,
    footprint: Arc<Footprint>,
    /// Opens connections without the party.
    opener: Option<Opener>,
    mail: Mutex<Vec<Mail<F>>>,
    fault: Mutex<Option<EndError>>,
    bell: Notify,
}

impl<F> TaskShared<F> {
    pub(super) fn new(calls: CallCounter, buffer_size: usize, opener: Option<Opener>) -> TaskShared<F> {
        TaskShared {
            calls,
            buffer_size,
            system_calls: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            footprint: Arc::default(),
            opener,
            mail: Mutex::new(Vec::new()),
            fault: Mutex::new(None),
            bell: Notify::new(),
        }
    }

    pub(super) fn take_mail(&self) -> Vec<Mail<F>> {
        std::mem::take(&mut lock(&self.mail))
    }

    pub(super) fn take_fault(&self) -> Option<EndError> {
        lock(&self.fault).take()
    }

    pub(super) fn system_calls(&self) -> u64 {
        self.system_calls.load(Ordering::Relaxed)
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    /// The largest memory of connections at one time, bytes.
    pub(super) fn buffer_bytes(&self) -> u64 {
        self.footprint.most()
    }

    /// Resolves when there is mail.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn post(&self, mail: Mail<F>) {
        lock(&self.mail).push(mail);
        self.bell.notify_one();
    }

    /// Counts a call of the one thread that all tasks share.
    fn called(&self) {
        self.system_calls.store(self.system_calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A flow in a task: it goes back to the root future however the task ends.
pub(super) struct Held<F> {
    flow: Option<F>,
    stream: Option<Stream>,
    kept: KeptBytes,
    room: Room,
    eof: bool,
    /// The party has opened a connection for this flow.
    has_connected: bool,
    /// Ends a wait at a time, once the flow has set one that is near.
    alarm: Option<AsyncFd<Alarm>>,
    shared: Arc<TaskShared<F>>,
}

impl<F> Held<F> {
    pub(super) fn new(flow: F, stream: Option<Stream>, shared: Arc<TaskShared<F>>) -> Held<F> {
        let (kept, room) = (KeptBytes::within(&shared.footprint), Room::within(&shared.footprint));
        Held { flow: Some(flow), stream, kept, room, eof: false, has_connected: false, alarm: None, shared }
    }
}

impl<F> Drop for Held<F> {
    fn drop(&mut self) {
        self.shared.copied_bytes.fetch_add(self.kept.copied, Ordering::Relaxed);
        if let Some(flow) = self.flow.take() {
            // A connection that cannot be taken back is closed.
            let fd = self.stream.take().and_then(|stream| stream.into_fd().ok());
            self.shared.post(Mail::Left(flow, fd));
        }
    }
}

/// Drives a flow until it leaves or wants another connection.
pub(super) async fn carry<F: Flow>(mut held: Held<F>, connecting: bool) {
    if let Err(fault) = held.run(connecting).await {
        *lock(&held.shared.fault) = Some(fault);
        held.shared.bell.notify_one();
    }
}

/// The time of an event, for flows that need it.
#[inline]
fn tick<F: Flow>() -> u64 {
    if F::TIMED { monotonic_ns() } else { 0 }
}

impl<F: Flow> Held<F> {
    async fn run(&mut self, connecting: bool) -> Result<(), EndError> {
        if connecting {
            self.has_connected = true;
            self.settle().await;
        }
        let mut now_ns = tick::<F>();
        loop {
            let Some(flow) = &mut self.flow else { return Ok(()) };
            let want = flow.want(now_ns);
            if self.eof && !matches!(want, Want::Send | Want::Both | Want::Finish) {
                self.close();
                if matches!(want, Want::Receive | Want::ReceiveUntil(_)) {
                    self.end(ConnectionEnd::Eof, now_ns);
                    continue;
                }
            }
            let goes_on = match want {
                Want::Send => self.send(&mut now_ns).await?,
                Want::Receive => self.receive(&mut now_ns).await?,
                Want::ReceiveUntil(at_ns) => self.receive_until(at_ns, &mut now_ns).await?,
                Want::Both => self.send_or_receive(&mut now_ns).await?,
                Want::Pause(at_ns) => {
                    self.pause(at_ns).await?;
                    self.asked_again(&mut now_ns)
                }
                Want::Connect => self.connect(&mut now_ns).await,
                Want::Finish => self.finish(now_ns),
                Want::Reset => {
                    if let Some(stream) = &self.stream {
                        self.shared.called();
                        system_calls::reset_when_closed(stream.as_fd());
                    }
                    self.close();
                    true
                }
                Want::Close => {
                    self.close();
                    true
                }
                Want::Done => false,
            };
            if !goes_on {
                return Ok(());
            }
        }
    }

    fn finish(&mut self, now_ns: u64) -> bool {
        if let Some(stream) = &self.stream {
            self.shared.called();
            if let Err(error) = system_calls::finish(stream.as_fd()) {
                self.fail(Doing::Sending, error.raw_os_error().unwrap_or(0), now_ns);
            }
        }
        true
    }

    /// A time has come, which the flow may need to know.
    fn asked_again(&self, now_ns: &mut u64) -> bool {
        *now_ns = tick::<F>();
        true
    }

    /// Opens another connection. `false`: the party is to open it, and the flow leaves this task.
    async fn connect(&mut self, now_ns: &mut u64) -> bool {
        self.close();
        let opener = self.shared.opener.as_ref().filter(|_| self.has_connected);
        let Some(opened) = opener.map(|open| open().and_then(Stream::new)) else {
            self.flow.take().into_iter().for_each(|flow| self.shared.post(Mail::Connect(flow)));
            return false;
        };
        // socket(2) and connect(2), at the least.
        self.shared.called();
        self.shared.called();
        match opened {
            Ok(stream) => {
                self.stream = Some(stream);
                self.settle().await;
                *now_ns = tick::<F>();
            }
            Err(error) => {
                *now_ns = tick::<F>();
                self.fail(Doing::Connecting, error.raw_os_error().unwrap_or(0), *now_ns);
            }
        }
        true
    }

    /// Waits for a time.
    async fn pause(&mut self, at_ns: u64) -> Result<(), EndError> {
        // A timer of Tokio's may end a millisecond late.
        if at_ns.saturating_sub(monotonic_ns()) >= NEAR_NS {
            sleep_until(instant(at_ns - EARLY_NS)).await;
            return Ok(());
        }
        let alarm = self.set_alarm(at_ns)?;
        poll_fn(|context| poll_alarm(alarm, context)).await;
        Ok(())
    }

    /// Receives, or returns at a time.
    async fn receive_until(&mut self, at_ns: u64, now_ns: &mut u64) -> Result<bool, EndError> {
        if at_ns.saturating_sub(monotonic_ns()) >= NEAR_NS {
            return match timeout_at(instant(at_ns - EARLY_NS), self.receive(now_ns)).await {
                Ok(goes_on) => goes_on,
                Err(_) => Ok(self.asked_again(now_ns)),
            };
        }
        self.set_alarm(at_ns)?;
        let Held { stream: Some(stream), kept, alarm: Some(alarm), shared, .. } = self else {
            return Err(unconnected());
        };
        let buffer = kept.room(shared.buffer_size);
        let received = poll_fn(|context| {
            if let Poll::Ready(received) = stream.poll_read(context, buffer) {
                return Poll::Ready(Some(received));
            }
            poll_alarm(alarm, context).map(|()| None)
        });
        match received.await {
            Some(received) => Ok(self.received(received, now_ns)),
            None => Ok(self.asked_again(now_ns)),
        }
    }

    /// Sets the alarm, which is created when first needed.
    fn set_alarm(&mut self, at_ns: u64) -> Result<&AsyncFd<Alarm>, EndError> {
        let alarm = match self.alarm.take() {
            Some(alarm) => alarm,
            None => Alarm::new().and_then(registered).map_err(EndError::io("making a timer"))?,
        };
        self.shared.called();
        alarm.get_ref().set(at_ns).map_err(EndError::io("setting a timer"))?;
        Ok(self.alarm.insert(alarm))
    }

    /// Waits for a connection attempt to end.
    async fn settle(&mut self) {
        let (Some(flow), Some(stream)) = (&mut self.flow, &self.stream) else { return };
        let patience_ns = flow.patience_ns();
        let ready = if patience_ns == u64::MAX {
            stream.writable().await
        } else {
            let late = Err(io::Error::from_raw_os_error(socket::TIMED_OUT));
            timeout_at(instant(patience_ns), stream.writable()).await.unwrap_or(late)
        };
        let errno = ready.and_then(|()| {
            self.shared.called();
            socket::take_error(stream.as_fd())
        });
        match errno.unwrap_or_else(|error| Some(error.raw_os_error().unwrap_or(0))) {
            None => flow.connected(tick::<F>()),
            Some(errno) => self.fail(Doing::Connecting, errno, tick::<F>()),
        }
    }

    async fn send(&mut self, now_ns: &mut u64) -> Result<bool, EndError> {
        let Held { flow: Some(flow), stream: Some(stream), kept, room, .. } = self else { return Err(unconnected()) };
        let patience_ns = flow.patience_ns();
        let next = next(flow, kept, room)?;
        let sending = poll_fn(|context| stream.poll_write(context, next.bytes).map(|sent| (sent, next.bytes.len())));
        let (sent, asked) = if patience_ns == u64::MAX {
            sending.await
        } else {
            match timeout_at(instant(patience_ns), sending).await {
                Ok(sent) => sent,
                Err(_) => return Ok(self.asked_again(now_ns)),
            }
        };
        let dropped = next.dropped;
        Ok(self.sent(sent, (asked, dropped), now_ns))
    }

    async fn receive(&mut self, now_ns: &mut u64) -> Result<bool, EndError> {
        let Some(stream) = &mut self.stream else { return Err(unconnected()) };
        let buffer = self.kept.room(self.shared.buffer_size);
        let received = poll_fn(|context| stream.poll_read(context, buffer)).await;
        Ok(self.received(received, now_ns))
    }

    async fn send_or_receive(&mut self, now_ns: &mut u64) -> Result<bool, EndError> {
        if self.eof {
            return self.send(now_ns).await;
        }
        let Held { flow: Some(flow), stream: Some(stream), kept, room, shared, .. } = self else {
            return Err(unconnected());
        };
        if flow.echoes() {
            return Err(EndError::Impossible("a flow that echoes wants to send and receive at once".into()));
        }
        let patience_ns = flow.patience_ns();
        let bytes = room.next(flow);
        let buffer = kept.room(shared.buffer_size);
        let either = poll_fn(|context| {
            if let Poll::Ready(received) = stream.poll_read(context, buffer) {
                return Poll::Ready(Moved::In(received));
            }
            stream.poll_write(context, bytes).map(|sent| Moved::Out(sent, bytes.len()))
        });
        Ok(match timeout_at(instant(patience_ns), either).await {
            Ok(Moved::In(received)) => self.received(received, now_ns),
            Ok(Moved::Out(sent, asked)) => self.sent(sent, (asked, None), now_ns),
            Err(_) => self.asked_again(now_ns),
        })
    }

    /// Handles a send of `asked` bytes, of the kept ones from `dropped` on.
    fn sent(&mut self, sent: io::Result<usize>, (asked, dropped): (usize, Option<usize>), now_ns: &mut u64) -> bool {
        self.shared.called();
        *now_ns = tick::<F>();
        match (sent, &mut self.flow) {
            (Ok(n), Some(flow)) => {
                self.shared.calls.count(n, asked);
                match dropped {
                    Some(dropped) => self.kept.drop_first(dropped + n),
                    None => self.room.sent(n),
                }
                flow.sent(n, *now_ns);
            }
            (Ok(_), None) => {}
            (Err(error), _) => self.fail(Doing::Sending, error.raw_os_error().unwrap_or(0), *now_ns),
        }
        true
    }

    /// Handles a receive. `false`: the flow leaves.
    fn received(&mut self, received: io::Result<usize>, now_ns: &mut u64) -> bool {
        self.shared.called();
        *now_ns = tick::<F>();
        match (received, &mut self.flow) {
            (Ok(0), _) => {
                self.eof = true;
                self.end(ConnectionEnd::Eof, *now_ns);
            }
            (Ok(n), Some(flow)) => {
                self.shared.calls.count(n, self.shared.buffer_size);
                return flow.received(self.kept.received(n, flow.echoes()), *now_ns);
            }
            (Ok(_), None) => {}
            (Err(error), _) => self.fail(Doing::Receiving, error.raw_os_error().unwrap_or(0), *now_ns),
        }
        true
    }

    fn fail(&mut self, doing: Doing, errno: i32, now_ns: u64) {
        self.close();
        self.end(ConnectionEnd::Failed { doing, errno }, now_ns);
    }

    fn end(&mut self, end: ConnectionEnd, now_ns: u64) {
        if let Some(flow) = &mut self.flow {
            flow.ended(end, now_ns);
        }
    }

    fn close(&mut self) {
        if self.stream.take().is_some() {
            self.shared.called();
        }
        self.eof = false;
        self.kept.forget();
        self.room.forget();
    }
}

/// Has Tokio's driver watch an alarm.
#[expect(
    deprecated,
    reason = "its replacement has callers promise that the descriptor stays open, and an alarm keeps its own"
)]
fn registered(alarm: Alarm) -> io::Result<AsyncFd<Alarm>> {
    AsyncFd::with_interest(alarm, Interest::READABLE)
}

/// Whether an alarm has expired, which is then cleared.
fn poll_alarm(alarm: &AsyncFd<Alarm>, context: &mut Context<'_>) -> Poll<()> {
    // An error would repeat at once; the flow is called, and sets the alarm again.
    alarm.poll_read_ready(context).map(|ready| ready.into_iter().for_each(|mut ready| ready.clear_ready()))
}

/// The bytes to send next.
struct Next<'a> {
    bytes: &'a [u8],
    /// The number of kept bytes before those that are sent back, if they are.
    dropped: Option<usize>,
}

fn next<'a, F: Flow>(flow: &mut F, kept: &'a KeptBytes, room: &'a mut Room) -> Result<Next<'a>, EndError> {
    let back = flow.returns();
    let next = if back.is_empty() || room.holds() {
        Next { bytes: room.next(flow), dropped: None }
    } else {
        Next { bytes: kept.part(&back), dropped: Some(back.start) }
    };
    if next.bytes.is_empty() { Err(nothing_to_send()) } else { Ok(next) }
}

/// The first event.
enum Moved {
    /// A receive.
    In(io::Result<usize>),
    /// A send of at most this number of bytes.
    Out(io::Result<usize>, usize),
}
