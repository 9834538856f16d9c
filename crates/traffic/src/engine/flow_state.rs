//! One flow between its calls, the same for every engine: the next action ([`step`]), and the memory of its messages.
//!
//! Engines do I/O only. This file decides how a flow may continue after the end of its stream.

use std::io;
use std::sync::atomic::Ordering;

use bytegauge_sys::clock::monotonic_ns;

use crate::EndError;
use crate::engine::system_calls::MessagePart;
use crate::engine::unsent::{KeptBytes, UnsentMessage};
use crate::engine::{WorkerTotals, errno, nothing_to_send};
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

/// A flow with a thread or a task of its own, and the memory of its messages.
pub(super) struct FlowState<F> {
    pub(super) flow: F,
    kept: KeptBytes,
    unsent: UnsentMessage,
    /// The peer sends no more, and the flow knows.
    eof: bool,
    /// The party has opened a connection for this flow.
    pub(super) has_connected: bool,
    /// When the last event happened, for flows that ask for it.
    now_ns: u64,
}

/// Bytes to send.
pub(super) struct Outgoing<'a> {
    pub(super) bytes: &'a [u8],
    /// The number of kept bytes before them, if they are sent back.
    pub(super) dropped: Option<usize>,
    /// How they are sent, if not by one send.
    pub(super) part: Option<MessagePart<'a>>,
}

impl<F: Flow> FlowState<F> {
    pub(super) fn new(flow: F) -> FlowState<F> {
        let (kept, unsent) = (KeptBytes::default(), UnsentMessage::default());
        FlowState { flow, kept, unsent, eof: false, has_connected: false, now_ns: 0 }
    }

    /// The flow leaves: adds its memory, and the bytes that had to be moved to make room, to the report.
    pub(super) fn add_up(&self, totals: &WorkerTotals) {
        totals.copied_bytes.fetch_add(self.kept.copied, Ordering::Relaxed);
        totals.flow_bytes.fetch_max((self.kept.len() + self.unsent.len()) as u64, Ordering::Relaxed);
    }

    /// An event happened, or a time was reached.
    #[inline]
    pub(super) fn tick(&mut self) {
        self.now_ns = time_for::<F>();
    }

    /// Asks the flow for its next action.
    #[inline]
    pub(super) fn step(&mut self) -> FlowStep {
        step::<F>(self.flow.want(self.now_ns), self.eof)
    }

    /// The next bytes to send: the rest of a message, received bytes that go back, or the next message.
    #[inline]
    pub(super) fn outgoing(&mut self) -> Result<Outgoing<'_>, EndError> {
        let back = self.flow.returns();
        let returns = !back.is_empty() && !self.unsent.holds();
        let (bytes, part) = if returns { (self.kept.part(&back), None) } else { self.unsent.next_part(&mut self.flow) };
        if bytes.is_empty() {
            return Err(nothing_to_send());
        }
        Ok(Outgoing { bytes, dropped: returns.then_some(back.start), part })
    }

    /// `n` of the outgoing bytes were sent.
    #[inline]
    pub(super) fn sent(&mut self, n: usize, dropped: Option<usize>) {
        match dropped {
            Some(dropped) => self.kept.drop_first(dropped + n),
            None => self.unsent.sent(n),
        }
        self.flow.sent(n, self.now_ns);
    }

    /// Where the next receive of at most `most` bytes goes.
    #[inline]
    pub(super) fn buffer(&mut self, most: usize) -> &mut [u8] {
        self.kept.room(most)
    }

    /// Both: the next bytes to send, and the buffer of the next receive.
    pub(super) fn outgoing_and_buffer(&mut self, most: usize) -> Result<(&[u8], &mut [u8]), EndError> {
        if self.flow.echoes() {
            return Err(EndError::Impossible("a flow that echoes wants to send and receive at once".into()));
        }
        Ok((self.unsent.next(&mut self.flow), self.kept.room(most)))
    }

    /// `n` bytes were received in the buffer; 0 at the end of the stream. `false`: the flow leaves.
    #[inline]
    pub(super) fn received(&mut self, n: usize) -> bool {
        if n == 0 {
            self.eof = true;
            self.report_eof();
            return true;
        }
        let bytes = self.kept.received(n, self.flow.echoes());
        self.flow.received(bytes, self.now_ns)
    }

    pub(super) fn connected(&mut self) {
        self.flow.connected(self.now_ns);
    }

    pub(super) fn report_eof(&mut self) {
        self.flow.ended(ConnectionEnd::Eof, self.now_ns);
    }

    /// A call failed, and the connection is closed.
    pub(super) fn failed(&mut self, doing: Doing, error: &io::Error) {
        self.flow.ended(ConnectionEnd::Failed { doing, errno: errno(error) }, self.now_ns);
    }

    /// The connection was closed: no bytes of it are sent or kept.
    pub(super) fn forget(&mut self) {
        self.eof = false;
        self.kept.forget();
        self.unsent.forget();
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
