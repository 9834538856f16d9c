//! The workload `stream`: bulk, one way. A source that always sends, a sink that always receives.

mod sink;
mod source;
pub(crate) mod urgent;

pub(crate) use sink::ReaderWork;
pub use sink::SinkFlow;
pub(crate) use source::pattern;
pub use source::{SourceFile, SourceFlow, memory as file_memory};

use std::os::fd::OwnedFd;

use crate::flow::{ConnectionEnd, Flow, Party, Want};
use crate::pace::Pace;

// A stream's flows as one thread's share of an end, for engines that carry many connections in one thread.
//
// A wrapper does what the blocking loop does around a flow, such as pacing and recording its end: the engine does
// neither.

/// A flow of a stream, its bytes and its end.
#[derive(Debug)]
pub struct Carried<F, const PACED: bool> {
    /// The flow itself.
    pub flow: F,
    /// Its number.
    pub index: usize,
    /// Bytes moved.
    pub bytes: u64,
    /// How its connection ended, if it did.
    pub ended: Option<ConnectionEnd>,
    /// Whether it rejected received bytes.
    pub refused: bool,
    pace: Pace,
    start_ns: u64,
    last_ns: u64,
}

impl<F: Flow, const PACED: bool> Carried<F, PACED> {
    /// Flow number `index`; a pace is kept only if `PACED`.
    pub fn new(flow: F, index: usize, pace: Pace) -> Carried<F, PACED> {
        Carried { flow, index, bytes: 0, ended: None, refused: false, pace, start_ns: 0, last_ns: 0 }
    }
}

impl<F: Flow, const PACED: bool> Flow for Carried<F, PACED> {
    const TIMED: bool = PACED;

    #[inline]
    fn want(&mut self, now_ns: u64) -> Want {
        if self.ended.is_some() || self.refused {
            return Want::Done;
        }
        if PACED {
            if self.start_ns == 0 {
                self.start_ns = now_ns;
            }
            let due_ns = self.pace.due_ns(self.start_ns, self.bytes, self.last_ns);
            if now_ns < due_ns {
                return Want::Pause(due_ns);
            }
        }
        self.flow.want(now_ns)
    }

    fn room(&self) -> usize {
        self.flow.room()
    }

    #[inline]
    fn compose(&mut self, room: &mut [u8], is_new: bool) -> usize {
        self.flow.compose(room, is_new)
    }

    #[inline]
    fn sent(&mut self, n: usize, now_ns: u64) {
        self.bytes += n as u64;
        self.last_ns = now_ns;
        self.flow.sent(n, now_ns);
    }

    #[inline]
    fn received(&mut self, bytes: &mut [u8], now_ns: u64) -> bool {
        self.bytes += bytes.len() as u64;
        self.refused = !self.flow.received(bytes, now_ns);
        !self.refused
    }

    fn ended(&mut self, end: ConnectionEnd, _now_ns: u64) {
        self.ended = Some(end);
    }
}

/// All flows of one end, with their connections.
#[derive(Debug)]
pub struct Streams<F, G> {
    waiting: Vec<(F, OwnedFd)>,
    left: Vec<(F, Option<OwnedFd>)>,
    on_left: G,
}

impl<F, G: FnMut(&F, Option<&OwnedFd>)> Streams<F, G> {
    /// Connected flows. `on_left` gets each flow at once when the engine returns it, while the others may still be
    /// running.
    pub fn new(flows: Vec<(F, OwnedFd)>, on_left: G) -> Streams<F, G> {
        Streams { left: Vec::with_capacity(flows.len()), waiting: flows, on_left }
    }

    /// The flows that the engine returned.
    pub fn into_left(self) -> Vec<(F, Option<OwnedFd>)> {
        self.left
    }
}

impl<F: Flow + Send + 'static, G: FnMut(&F, Option<&OwnedFd>) + Send> Party for Streams<F, G> {
    type Flow = F;

    fn first(&mut self) -> Option<(F, Option<OwnedFd>)> {
        self.waiting.pop().map(|(flow, fd)| (flow, Some(fd)))
    }

    fn left(&mut self, flow: F, connection: Option<OwnedFd>) {
        (self.on_left)(&flow, connection.as_ref());
        self.left.push((flow, connection));
    }
}
