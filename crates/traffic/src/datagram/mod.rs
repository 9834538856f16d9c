//! Datagrams: numbered by their sender, and counted by their number where they arrive.
//!
//! The engines for datagrams are separate from those for bytes: a datagram has bounds, may be lost, and is never a part of
//! another. A flow is a pair of sockets and a thread at each end, with every engine; it is
//! dispatched once, and the loops are monomorphic.

mod handshake;
pub mod number;
pub mod received_numbers;
mod ring;
mod sink;
mod source;

use bytegauge_model::{DatagramReport, Engine, EngineReport};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::datagram::Inbox;
use bytegauge_sys::socket_memory::socket_memory;

use crate::end_error::EndError;
use crate::engine::Stop;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::ReaderWork;
use crate::ticket::Shown;
use sink::SinkReader;
use source::{Packer, SentDatagrams};

pub(crate) use handshake::KNOCKS_EVERY;
pub use source::at_most;
pub(crate) use source::{SourceLoop, cut_size};

/// One flow's sender, its memory ready.
pub(crate) struct DatagramSource {
    sender: SourceSender,
    packer: Packer,
    sent: SentDatagrams,
    /// The ticket for another host, shown by the end that connected.
    shown: Option<Shown>,
    /// Whether the sink is on another host.
    is_far: bool,
}

enum SourceSender {
    One(source::OneSender),
    Many(source::ManySender),
    Ring(Box<ring::DatagramSends>),
}

impl DatagramSource {
    /// The sender of flow number `flow`.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize) -> Result<DatagramSource, EndError> {
        let sender = match setup.engine() {
            Engine::Plain | Engine::Gso => SourceSender::One(source::OneSender::new(setup)),
            Engine::Mmsg => SourceSender::Many(source::ManySender::new(setup)),
            Engine::Uring(_) => SourceSender::Ring(Box::new(ring::DatagramSends::new(setup)?)),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| !setup.goes_back(flow));
        let is_far = setup.far.is_some();
        Ok(DatagramSource { sender, packer: Packer::new(setup, flow), sent: SentDatagrams::default(), shown, is_far })
    }

    /// Asks a sink on another host to admit the flow.
    pub(crate) fn knock(&self, run: SourceLoop<'_>) {
        self.shown.iter().for_each(|shown| handshake::knock(run.fd, shown));
    }

    /// Waits until the sink's reader runs. `false` if the sink does not want the stream.
    pub(crate) fn await_reader(&self, run: SourceLoop<'_>) -> bool {
        handshake::await_reader(run, self.shown.as_ref(), self.is_far)
    }

    /// Sends until stopped.
    pub(crate) fn run(&mut self, run: SourceLoop<'_>, pace: Pace, meter: &mut Meter) -> Result<Stop, EndError> {
        let DatagramSource { sender, packer, sent, .. } = self;
        let stopped = match sender {
            SourceSender::One(one) => source::run(one, packer, run, pace, meter, sent),
            SourceSender::Many(many) => source::run(many, packer, run, pace, meter, sent),
            SourceSender::Ring(ring) => {
                let stopped = source::run(&mut **ring, packer, run, pace, meter, sent);
                ring.finish(run.abort);
                stopped
            }
        };
        sent.datagrams = packer.sent();
        stopped
    }

    /// Announces the end, until the sink has received it.
    pub(crate) fn part(&self, run: SourceLoop<'_>) {
        handshake::announce(run.fd, self.is_far, run.abort);
    }

    /// Counts of sent datagrams.
    pub(crate) fn report(&self, meter: &Meter) -> DatagramReport {
        let window = meter.window();
        DatagramReport {
            datagrams: window.datagrams,
            packets: window.packets,
            total: self.sent.datagrams,
            total_packets: self.sent.packets,
            refused: self.sent.refused,
            ..DatagramReport::default()
        }
    }

    /// Counts of the engine, if it keeps any.
    pub(crate) fn engine(&self) -> Option<EngineReport> {
        match &self.sender {
            SourceSender::Ring(ring) => Some(ring.report()),
            SourceSender::One(_) | SourceSender::Many(_) => None,
        }
    }
}

/// One flow's receiver, its memory ready.
pub(crate) struct Sink<E> {
    receiver: SinkReceiver,
    sink: SinkReader<E>,
    /// The ticket for another host, if this end connected.
    shown: Option<Shown>,
}

enum SinkReceiver {
    Single(sink::Single),
    One(sink::OneReceiver),
    Many(sink::ManyReceiver),
    Outstanding(Box<ring::Outstanding>),
    Multishot(Box<ring::Multishot>),
}

impl<E: ReaderWork> Sink<E> {
    /// The receiver of flow number `flow`.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize, effort: E) -> Result<Sink<E>, EndError> {
        let receiver = match setup.engine() {
            Engine::Plain => SinkReceiver::Single(sink::Single(AlignedBuffer::new(setup.read_size()))),
            Engine::Gso => SinkReceiver::One(sink::OneReceiver(Inbox::new(1, setup.read_size(), false))),
            Engine::Mmsg => SinkReceiver::Many(sink::ManyReceiver::new(setup)),
            Engine::Uring(mode) if source::goes_on(mode.kind) => {
                SinkReceiver::Multishot(Box::new(ring::Multishot::new(setup)?))
            }
            Engine::Uring(_) => SinkReceiver::Outstanding(Box::new(ring::Outstanding::new(setup)?)),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| setup.goes_back(flow));
        Ok(Sink { receiver, sink: SinkReader::new(setup, flow, effort), shown })
    }

    /// Asks a source on another host to admit the flow.
    pub(crate) fn knock(&self, run: SourceLoop<'_>) {
        self.shown.iter().for_each(|shown| handshake::knock(run.fd, shown));
    }

    /// Reports to the source that the reader runs.
    pub(crate) fn begin(&self, run: SourceLoop<'_>) {
        match self.shown {
            Some(_) => handshake::begin_until_heard(run.fd, run.abort),
            None => handshake::begin(run.fd, self.sink.shown(), run.abort),
        }
    }

    /// Receives until the time is up.
    pub(crate) fn run(&mut self, run: SourceLoop<'_>, meter: &mut Meter) -> Result<Stop, EndError> {
        let sink = &mut self.sink;
        let stopped = match &mut self.receiver {
            SinkReceiver::Single(receiver) => sink::run(receiver, sink, run, meter),
            SinkReceiver::One(receiver) => sink::run(receiver, sink, run, meter),
            SinkReceiver::Many(receiver) => sink::run(receiver, sink, run, meter),
            SinkReceiver::Outstanding(receiver) => sink::run(&mut **receiver, sink, run, meter),
            SinkReceiver::Multishot(receiver) => sink::run(&mut **receiver, sink, run, meter),
        };
        if matches!(stopped, Ok(Stop::Ended(_))) {
            handshake::answer(run.fd);
        }
        stopped
    }

    /// Receives datagrams that are still under way, and answers the source's announced end.
    ///
    /// # Errors
    /// [`EndError::Io`] if receiving fails.
    pub(crate) fn drain(&mut self, run: SourceLoop<'_>) -> Result<(), EndError> {
        let sink = &mut self.sink;
        let drained = match &mut self.receiver {
            SinkReceiver::Single(receiver) => sink::drain(receiver, sink, run),
            SinkReceiver::One(receiver) => sink::drain(receiver, sink, run),
            SinkReceiver::Many(receiver) => sink::drain(receiver, sink, run),
            SinkReceiver::Outstanding(receiver) => sink::drain(&mut **receiver, sink, run),
            SinkReceiver::Multishot(receiver) => sink::drain(&mut **receiver, sink, run),
        };
        handshake::answer(run.fd);
        drained
    }

    /// Counts of received datagrams.
    pub(crate) fn report(&self, meter: &Meter, run: SourceLoop<'_>) -> DatagramReport {
        let (window, sink) = (meter.window(), &self.sink);
        DatagramReport {
            datagrams: window.datagrams,
            packets: window.packets,
            total: sink.total,
            total_packets: sink.packets,
            missing: sink.ledger().missing(),
            reordered: sink.ledger().reordered(),
            duplicated: sink.ledger().duplicated(),
            truncated: sink.truncated,
            cut_bytes: sink.cut_bytes,
            socket_drops: socket_memory(run.fd).ok().map(|memory| memory.drops.into()),
            ..DatagramReport::default()
        }
    }

    /// Counts of the engine, if it keeps any.
    pub(crate) fn engine(&self) -> Option<EngineReport> {
        match &self.receiver {
            SinkReceiver::Outstanding(ring) => Some(ring.report()),
            SinkReceiver::Multishot(ring) => Some(ring.report()),
            SinkReceiver::Single(_) | SinkReceiver::One(_) | SinkReceiver::Many(_) => None,
        }
    }

    /// Bytes kept, in the flow's whole life.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.sink.bytes
    }

    /// Bytes compared with the pattern.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.sink.verified_bytes()
    }

    /// The planted end, if it was reached.
    pub(crate) fn planted_end(&self) -> Option<PlantedFault> {
        self.sink.planted_end()
    }

    /// The error in the bytes, if any.
    pub(crate) fn fault(&self) -> Option<EndError> {
        self.sink.fault()
    }
}

fn does_not_carry(engine: Engine) -> EndError {
    EndError::Impossible(format!("engine {engine} does not carry datagrams"))
}
