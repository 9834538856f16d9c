//! One connection's task: it awaits Tokio's reads and writes, and tells the flow.
//!
//! Tokio's budget makes a task yield that never has to wait.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::socket;
use tokio::sync::Notify;
use tokio::time::{sleep_until, timeout_at};

use crate::engine::memory::{Kept, Room};
use crate::engine::tokio::instant;
use crate::engine::tokio::stream::Stream;
use crate::engine::{nothing_to_send, plain, unconnected};
use crate::fault::Fault;
use crate::flow::{Doing, End, Flow, Want};
use crate::tally::CallCounter;

/// What a task wants from the root future.
pub(super) enum Mail<F> {
    /// A connection for this flow.
    Connect(F),
    /// Take it back.
    Left(F, Option<OwnedFd>),
}

/// Where tasks and the root future meet.
pub(super) struct TaskShared<F> {
    calls: CallCounter,
    buffer_size: usize,
    system_calls: AtomicU64,
    copied_bytes: AtomicU64,
    buffer_bytes: AtomicU64,
    mail: Mutex<Vec<Mail<F>>>,
    fault: Mutex<Option<Fault>>,
    bell: Notify,
}

impl<F> TaskShared<F> {
    pub(super) fn new(calls: CallCounter, buffer_size: usize) -> TaskShared<F> {
        TaskShared {
            calls,
            buffer_size,
            system_calls: AtomicU64::new(0),
            copied_bytes: AtomicU64::new(0),
            buffer_bytes: AtomicU64::new(0),
            mail: Mutex::new(Vec::new()),
            fault: Mutex::new(None),
            bell: Notify::new(),
        }
    }

    pub(super) fn take_mail(&self) -> Vec<Mail<F>> {
        std::mem::take(&mut lock(&self.mail))
    }

    pub(super) fn take_fault(&self) -> Option<Fault> {
        lock(&self.fault).take()
    }

    pub(super) fn system_calls(&self) -> u64 {
        self.system_calls.load(Ordering::Relaxed)
    }

    pub(super) fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn buffer_bytes(&self) -> u64 {
        self.buffer_bytes.load(Ordering::Relaxed)
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

/// A flow that a task carries: it goes back to the root future however the task ends.
pub(super) struct Held<F> {
    flow: Option<F>,
    stream: Option<Stream>,
    kept: Kept,
    room: Room,
    eof: bool,
    shared: Arc<TaskShared<F>>,
}

impl<F> Held<F> {
    pub(super) fn new(flow: F, stream: Option<Stream>, shared: Arc<TaskShared<F>>) -> Held<F> {
        Held { flow: Some(flow), stream, kept: Kept::default(), room: Room::default(), eof: false, shared }
    }
}

impl<F> Drop for Held<F> {
    fn drop(&mut self) {
        self.shared.copied_bytes.fetch_add(self.kept.copied, Ordering::Relaxed);
        self.shared.buffer_bytes.fetch_add((self.kept.len() + self.room.len()) as u64, Ordering::Relaxed);
        if let Some(flow) = self.flow.take() {
            // A connection that cannot be had back is closed.
            let fd = self.stream.take().and_then(|stream| stream.into_fd().ok());
            self.shared.post(Mail::Left(flow, fd));
        }
    }
}

/// Carries a flow until it leaves or wants another connection.
pub(super) async fn carry<F: Flow>(mut held: Held<F>, connecting: bool) {
    if let Err(fault) = held.run(connecting).await {
        *lock(&held.shared.fault) = Some(fault);
        held.shared.bell.notify_one();
    }
}

/// The time of an event, for flows that ask for it.
#[inline]
fn tick<F: Flow>() -> u64 {
    if F::TIMED { monotonic_ns() } else { 0 }
}

impl<F: Flow> Held<F> {
    async fn run(&mut self, connecting: bool) -> Result<(), Fault> {
        if connecting {
            self.settle().await;
        }
        let mut now_ns = tick::<F>();
        loop {
            let Some(flow) = &mut self.flow else { return Ok(()) };
            let want = flow.want(now_ns);
            if self.eof && !matches!(want, Want::Send | Want::Both | Want::Finish) {
                self.close();
                if matches!(want, Want::Receive | Want::ReceiveUntil(_)) {
                    self.end(End::Eof, now_ns);
                    continue;
                }
            }
            let goes_on = match want {
                Want::Send => self.send(&mut now_ns).await?,
                Want::Receive => self.receive(&mut now_ns).await?,
                Want::ReceiveUntil(at_ns) => match timeout_at(instant(at_ns), self.receive(&mut now_ns)).await {
                    Ok(goes_on) => goes_on?,
                    Err(_) => self.asked_again(&mut now_ns),
                },
                Want::Both => self.send_or_receive(&mut now_ns).await?,
                Want::Pause(at_ns) => {
                    sleep_until(instant(at_ns)).await;
                    self.asked_again(&mut now_ns)
                }
                Want::Connect => {
                    self.close();
                    if let Some(flow) = self.flow.take() {
                        self.shared.post(Mail::Connect(flow));
                    }
                    false
                }
                Want::Finish => self.finish(now_ns),
                Want::Reset => {
                    if let Some(stream) = &self.stream {
                        self.shared.called();
                        plain::reset_when_closed(stream.as_fd());
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
            if let Err(error) = plain::finish(stream.as_fd()) {
                self.fail(Doing::Sending, error.raw_os_error().unwrap_or(0), now_ns);
            }
        }
        true
    }

    /// A moment has come, and the flow will want to know it.
    fn asked_again(&self, now_ns: &mut u64) -> bool {
        *now_ns = tick::<F>();
        true
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

    async fn send(&mut self, now_ns: &mut u64) -> Result<bool, Fault> {
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

    async fn receive(&mut self, now_ns: &mut u64) -> Result<bool, Fault> {
        let Some(stream) = &mut self.stream else { return Err(unconnected()) };
        let buffer = self.kept.room(self.shared.buffer_size);
        let received = poll_fn(|context| stream.poll_read(context, buffer)).await;
        Ok(self.received(received, now_ns))
    }

    async fn send_or_receive(&mut self, now_ns: &mut u64) -> Result<bool, Fault> {
        if self.eof {
            return self.send(now_ns).await;
        }
        let Held { flow: Some(flow), stream: Some(stream), kept, room, shared, .. } = self else {
            return Err(unconnected());
        };
        if flow.echoes() {
            return Err(Fault::Impossible("a flow that echoes wants to send and receive at once".into()));
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

    /// What follows from a send of `asked` bytes, of those that are kept from place `dropped` on.
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

    /// What follows from a receive. `false`: the flow leaves.
    fn received(&mut self, received: io::Result<usize>, now_ns: &mut u64) -> bool {
        self.shared.called();
        *now_ns = tick::<F>();
        match (received, &mut self.flow) {
            (Ok(0), _) => {
                self.eof = true;
                self.end(End::Eof, *now_ns);
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
        self.end(End::Failed { doing, errno }, now_ns);
    }

    fn end(&mut self, end: End, now_ns: u64) {
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

/// What is sent next.
struct Next<'a> {
    bytes: &'a [u8],
    /// Of bytes that are sent back: how many of those that are kept come before them.
    dropped: Option<usize>,
}

fn next<'a, F: Flow>(flow: &mut F, kept: &'a Kept, room: &'a mut Room) -> Result<Next<'a>, Fault> {
    let back = flow.returns();
    let next = if back.is_empty() || room.holds() {
        Next { bytes: room.next(flow), dropped: None }
    } else {
        Next { bytes: kept.part(&back), dropped: Some(back.start) }
    };
    if next.bytes.is_empty() { Err(nothing_to_send()) } else { Ok(next) }
}

/// What came first.
enum Moved {
    /// A receive.
    In(io::Result<usize>),
    /// A send of so many bytes at most.
    Out(io::Result<usize>, usize),
}
