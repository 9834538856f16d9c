//! One flow between its calls, the same for every engine: the next action ([`step`]), and the memory of its messages.
//!
//! Engines read and write. This file decides how a flow may continue after the end of its stream, and shuts or closes its connection.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;

use bytegauge_model::{MessageParts, MessageWrites};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::clock::monotonic_ns;
use bytegauge_sys::socket::{self, During};

use crate::EndError;
use crate::engine::system_calls::{self, MessagePart};
use crate::engine::{WorkerTotals, errno, nothing_to_send, unconnected};
use crate::flow::{ConnectionEnd, Doing, Flow, Want};

/// The next step of an engine for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowStep {
    /// Close the connection first.
    pub(super) closes: bool,
    /// Then report the end of the stream to the flow once more, instead of what it wants.
    pub(super) is_over: bool,
    /// Then do this, and call the flow again unless it is done.
    pub(super) want: Want,
}

/// The next step for a flow of type `F` that wants this, where `eof` is set once its peer sends no more and the flow knows.
///
/// After the end of the stream a connection stays open only for what the flow still sends. A flow of a pair may also pause, since
/// its partner may bring it bytes to send, and takes its connection along when it is done. A reset needs the connection.
#[inline]
pub(super) fn step<F: Flow>(want: Want, eof: bool) -> FlowStep {
    let stays = match want {
        Want::Send | Want::Both | Want::Finish | Want::Reset => true,
        Want::Pause(_) | Want::Done => F::PAIRED,
        Want::Receive | Want::ReceiveUntil(_) | Want::Connect | Want::Close => false,
    };
    FlowStep {
        closes: eof && !stays || matches!(want, Want::Connect | Want::Close),
        is_over: eof && matches!(want, Want::Receive | Want::ReceiveUntil(_)),
        want: if eof && want == Want::Both { Want::Send } else { want },
    }
}

/// The time of an event, for flows that ask for it.
#[inline]
pub(super) fn time_for<F: Flow>() -> u64 {
    if F::TIMED { monotonic_ns() } else { 0 }
}

/// A flow with a thread or a task of its own, its connection, and the memory of its messages.
pub(super) struct FlowState<F, C> {
    pub(super) flow: F,
    pub(super) connection: Option<C>,
    /// The party has opened a connection for this flow.
    pub(super) has_connected: bool,
    pub(super) system_calls: u64,
    kept: KeptBytes,
    unsent: UnsentMessage,
    /// The peer sends no more, and the flow knows.
    eof: bool,
    /// When the last event happened, for flows that ask for it.
    now_ns: u64,
}

/// Bytes to send.
pub(super) struct Outgoing<'a, C> {
    pub(super) connection: &'a mut C,
    pub(super) bytes: &'a [u8],
    /// The number of kept bytes before them, if they are sent back.
    pub(super) dropped: Option<usize>,
    /// How they are sent, if not by one send.
    pub(super) part: Option<MessagePart<'a>>,
}

impl<F: Flow, C: AsFd> FlowState<F, C> {
    pub(super) fn new(flow: F, connection: Option<C>) -> FlowState<F, C> {
        let (kept, unsent) = (KeptBytes::default(), UnsentMessage::default());
        FlowState { flow, connection, has_connected: false, system_calls: 0, kept, unsent, eof: false, now_ns: 0 }
    }

    /// The flow leaves: adds its calls, its memory, and the bytes that had to be moved to make room, to the report.
    pub(super) fn add_up(&self, totals: &WorkerTotals) {
        totals.system_calls.fetch_add(self.system_calls, Ordering::Relaxed);
        totals.copied_bytes.fetch_add(self.kept.copied, Ordering::Relaxed);
        totals.flow_bytes.fetch_max((self.kept.len() + self.unsent.len()) as u64, Ordering::Relaxed);
    }

    /// An event happened, or a time was reached.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now_ns = time_for::<F>();
    }

    /// The connection.
    ///
    /// # Errors
    /// [`EndError::Impossible`] without one.
    #[inline]
    pub(super) fn fd(&self) -> Result<BorrowedFd<'_>, EndError> {
        self.connection.as_ref().map(C::as_fd).ok_or_else(unconnected)
    }

    /// Asks the flow for its next action. The connection is closed first where that action needs none.
    #[inline]
    pub(super) fn next(&mut self) -> Want {
        loop {
            let step = step::<F>(self.flow.want(self.now_ns), self.eof);
            if step.closes {
                self.close();
            }
            if !step.is_over {
                return step.want;
            }
            self.flow.ended(ConnectionEnd::Eof, self.now_ns);
        }
    }

    /// Does what neither moves bytes nor waits.
    pub(super) fn act(&mut self, want: Want) {
        let Some(connection) = &self.connection else { return };
        match want {
            Want::Finish => {
                self.system_calls += 1;
                if let Err(error) = system_calls::finish(connection.as_fd()) {
                    self.fail(Doing::Sending, &error);
                }
            }
            Want::Reset => {
                self.system_calls += 1;
                system_calls::reset_when_closed(connection.as_fd());
                self.close();
            }
            _ => {}
        }
    }

    /// The next bytes to send: the rest of a message, received bytes that go back, or the next message.
    #[inline]
    pub(super) fn outgoing(&mut self) -> Result<Outgoing<'_, C>, EndError> {
        let Some(connection) = &mut self.connection else { return Err(unconnected()) };
        let back = self.flow.returns();
        let returns = !back.is_empty() && !self.unsent.holds();
        let (bytes, part) = if returns { (self.kept.part(&back), None) } else { self.unsent.next_part(&mut self.flow) };
        if bytes.is_empty() {
            return Err(nothing_to_send());
        }
        Ok(Outgoing { connection, bytes, dropped: returns.then_some(back.start), part })
    }

    /// A send of the outgoing bytes is over. `count` gets the number of bytes that it took.
    #[inline]
    pub(super) fn sent(&mut self, sent: io::Result<usize>, dropped: Option<usize>, count: impl FnOnce(usize)) {
        self.tick();
        match sent {
            Ok(n) => {
                count(n);
                match dropped {
                    Some(dropped) => self.kept.drop_first(dropped + n),
                    None => self.unsent.sent(n),
                }
                self.flow.sent(n, self.now_ns);
            }
            Err(error) => self.failed_to_move(Doing::Sending, &error),
        }
    }

    /// Where the next receive of at most `most` bytes goes.
    #[inline]
    pub(super) fn incoming(&mut self, most: usize) -> Result<(&mut C, &mut [u8]), EndError> {
        let Some(connection) = &mut self.connection else { return Err(unconnected()) };
        Ok((connection, self.kept.room(most)))
    }

    /// Both: the next bytes to send, and the buffer of the next receive.
    pub(super) fn outgoing_and_incoming(&mut self, most: usize) -> Result<(&mut C, &[u8], &mut [u8]), EndError> {
        if self.flow.echoes() {
            return Err(EndError::Impossible("a flow that echoes wants to send and receive at once".into()));
        }
        let Some(connection) = &mut self.connection else { return Err(unconnected()) };
        Ok((connection, self.unsent.next(&mut self.flow), self.kept.room(most)))
    }

    /// A receive is over. `count` gets the number of bytes that it brought, if any. `false`: the flow leaves.
    #[inline]
    pub(super) fn received(&mut self, received: io::Result<usize>, count: impl FnOnce(usize)) -> bool {
        self.tick();
        match received {
            Ok(0) => {
                self.eof = true;
                self.flow.ended(ConnectionEnd::Eof, self.now_ns);
            }
            Ok(n) => {
                count(n);
                let bytes = self.kept.received(n, self.flow.echoes());
                return self.flow.received(bytes, self.now_ns);
            }
            Err(error) => self.failed_to_move(Doing::Receiving, &error),
        }
        true
    }

    pub(super) fn connected(&mut self) {
        self.flow.connected(self.now_ns);
    }

    /// After a timeout or an interruption the flow is only asked again.
    fn failed_to_move(&mut self, doing: Doing, error: &io::Error) {
        if !socket::is_transient(error, During::Transfer) {
            self.fail(doing, error);
        }
    }

    /// A call failed: closes the connection, and reports it to the flow.
    pub(super) fn fail(&mut self, doing: Doing, error: &io::Error) {
        self.close();
        self.flow.ended(ConnectionEnd::Failed { doing, errno: errno(error) }, self.now_ns);
    }

    /// Closes the connection: no bytes of it are sent or kept.
    #[inline(never)]
    fn close(&mut self) {
        self.system_calls += u64::from(self.connection.take().is_some());
        self.eof = false;
        self.kept.forget();
        self.unsent.forget();
    }
}

// The memory of one connection in engines without a ring, and where the rest of a partial write is kept: in the buffer in which
// its flow composed the message ([`UnsentMessage`]), or where bytes that go back were received ([`KeptBytes`]).

/// The buffer in which a flow composes its messages, and the part of the current one that is not sent yet. Allocated for the
/// first one.
#[derive(Default)]
pub(crate) struct UnsentMessage {
    bytes: AlignedBuffer,
    /// Whether it holds bytes of this flow.
    is_used: bool,
    /// The unsent part of the current message.
    message: Range<usize>,
}

impl UnsentMessage {
    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Gives up memory from which the kernel may still send.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) {
        std::mem::take(&mut self.bytes).abandon();
    }

    /// Whether a message is partly sent.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.message.is_empty()
    }

    /// The next bytes to send: of the current message, or of the next one. Empty if the flow composes none.
    #[inline]
    pub(crate) fn next<F: Flow>(&mut self, flow: &mut F) -> &[u8] {
        self.next_part(flow).0
    }

    /// The same, and how they are sent, where that differs from one send.
    #[inline]
    pub(super) fn next_part<'f, F: Flow>(&mut self, flow: &'f mut F) -> (&[u8], Option<MessagePart<'f>>) {
        if self.message.is_empty() {
            self.compose(flow);
        }
        let parts = flow.parts();
        let part = first_part(&self.message, parts);
        let writes = flow.writes();
        if writes == MessageWrites::Separate || self.message.end <= parts.first {
            return (&self.bytes[part], None);
        }
        let (at, is_last) = (part.start, part.end == self.message.end);
        let file = flow.file().filter(|_| at >= parts.first);
        let bytes = if writes == MessageWrites::Writev || file.is_some() { self.message.clone() } else { part };
        (&self.bytes[bytes], Some(MessagePart { writes, parts, at, is_last, file }))
    }

    #[inline]
    fn compose<F: Flow>(&mut self, flow: &mut F) {
        let len = flow.room();
        if self.bytes.len() < len {
            (self.bytes, self.is_used) = (AlignedBuffer::new(len), false);
        }
        let is_new = !std::mem::replace(&mut self.is_used, true);
        self.message = 0..flow.compose(&mut self.bytes[..len], is_new);
    }

    /// `n` bytes were sent.
    #[inline]
    pub(crate) fn sent(&mut self, n: usize) {
        self.message.start += n;
    }

    /// The connection was replaced.
    pub(super) fn forget(&mut self) {
        self.message = 0..0;
    }

    /// The flow was replaced.
    pub(super) fn renew_flow(&mut self) {
        self.forget();
        self.is_used = false;
    }
}

/// The rest of the part at which a message begins, which one send takes.
#[inline]
pub(super) fn first_part(message: &Range<usize>, parts: MessageParts) -> Range<usize> {
    let end = if message.end <= parts.first { message.end } else { message.end.min(parts.end_of(message.start)) };
    message.start..end
}

/// Received bytes, in order, until their flow has sent them back.
#[derive(Default)]
pub(super) struct KeptBytes {
    bytes: AlignedBuffer,
    range: Range<usize>,
    /// Bytes that had to be moved to make room.
    pub(super) copied: u64,
}

impl KeptBytes {
    /// Bytes of memory.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are any bytes.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        !self.range.is_empty()
    }

    /// Where the next receive of `most` bytes goes: after the kept bytes.
    #[inline]
    pub(super) fn room(&mut self, most: usize) -> &mut [u8] {
        if self.range.is_empty() {
            self.range = 0..0;
        }
        if self.bytes.len() < self.range.end + most {
            self.make_room(most);
        }
        &mut self.bytes[self.range.end..][..most]
    }

    #[cold]
    fn make_room(&mut self, most: usize) {
        if self.range.is_empty() {
            // Touched page by page, as data arrives.
            self.bytes = AlignedBuffer::untouched(most);
            return;
        }
        self.copied += self.range.len() as u64;
        self.bytes.copy_within(self.range.clone(), 0);
        self.range = 0..self.range.len();
        if self.bytes.len() < self.range.end + most {
            let mut longer = AlignedBuffer::untouched(self.range.end + most);
            longer[..self.range.end].copy_from_slice(&self.bytes[..self.range.end]);
            self.bytes = longer;
        }
    }

    /// `n` bytes were received there for the flow; with `stay`, they are kept for an echo.
    #[inline]
    pub(super) fn received(&mut self, n: usize, stay: bool) -> &mut [u8] {
        let begin = self.range.end;
        if stay {
            self.range.end += n;
        }
        &mut self.bytes[begin..][..n]
    }

    /// Copies bytes that were received elsewhere.
    #[cold]
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.copied += bytes.len() as u64;
        self.room(bytes.len()).copy_from_slice(bytes);
        self.range.end += bytes.len();
    }

    /// The bytes that a flow sends back, counted from the first kept one.
    #[inline]
    pub(super) fn part(&self, part: &Range<usize>) -> &[u8] {
        &self.bytes[self.range.clone()][part.clone()]
    }

    /// The first `n` bytes are no longer needed.
    #[inline]
    pub(super) fn drop_first(&mut self, n: usize) {
        self.range.start += n;
    }

    /// The connection was replaced.
    pub(super) fn forget(&mut self) {
        self.range = 0..0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Single;
    struct Half;

    impl Flow for Single {
        fn want(&mut self, _now_ns: u64) -> Want {
            Want::Done
        }

        fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
            true
        }
    }

    impl Flow for Half {
        const PAIRED: bool = true;

        fn want(&mut self, _now_ns: u64) -> Want {
            Want::Done
        }

        fn received(&mut self, _bytes: &mut [u8], _now_ns: u64) -> bool {
            true
        }
    }

    #[test]
    fn open_connection_stays_until_closed_or_replaced() {
        for want in [Want::Send, Want::Both, Want::Receive, Want::Pause(7), Want::Finish, Want::Reset, Want::Done] {
            assert_eq!(step::<Single>(want, false), FlowStep { closes: false, is_over: false, want });
        }
        for want in [Want::Close, Want::Connect] {
            assert_eq!(step::<Single>(want, false), FlowStep { closes: true, is_over: false, want });
        }
    }

    #[test]
    fn only_sending_survives_the_end_of_stream() {
        let goes_on = |want| FlowStep { closes: false, is_over: false, want };
        assert_eq!([step::<Single>(Want::Send, true), step::<Single>(Want::Both, true)], [goes_on(Want::Send); 2]);
        assert_eq!(step::<Single>(Want::Reset, true), goes_on(Want::Reset));
        for want in [Want::Receive, Want::ReceiveUntil(7)] {
            let over = FlowStep { closes: true, is_over: true, want };
            assert_eq!([step::<Single>(want, true), step::<Half>(want, true)], [over; 2]);
        }
        for want in [Want::Done, Want::Pause(7)] {
            assert_eq!(step::<Single>(want, true), FlowStep { closes: true, is_over: false, want });
            assert_eq!(step::<Half>(want, true), goes_on(want));
        }
    }
}
