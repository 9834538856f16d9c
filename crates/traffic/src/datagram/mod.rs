//! Datagrams: numbered by their sender, and counted by their number where they arrive.
//!
//! The engines for datagrams are separate from those for bytes: a datagram has bounds, may be lost, and is never a part of
//! another. A flow is a pair of sockets and a thread at each end, with every engine; it is
//! dispatched once, and the loops are monomorphic.

mod handshake;
pub mod numbers;
mod ring;
mod sink;
mod source;

pub(crate) use handshake::{TICKET_INTERVAL, send_ticket};
pub(crate) use ring::{Answer, DatagramHandler, ReceiverRing};
pub use source::at_most;
pub(crate) use source::{SourceLoop, cut_size};

use bytegauge_model::{DatagramReport, Engine, EngineReport, UringKind};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::datagram::Inbox;
use bytegauge_sys::socket_memory::drops;
use sink::{MessageReceiver, SinkReader};
use source::{MessageSender, Packer};

use crate::EndError;
use crate::engine::Stop;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::path::Shown;
use crate::setup::Setup;
use crate::stream::ReaderWork;

/// One flow's sender, its memory ready.
pub(crate) struct DatagramSource {
    sender: Box<dyn MessageSender>,
    packer: Packer,
    sent: DatagramReport,
    /// The ticket for another host, shown by the end that connected.
    pub(crate) shown: Option<Shown>,
    /// Whether the sink is on another host.
    is_far: bool,
}

impl DatagramSource {
    /// The sender of flow number `flow`.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize) -> Result<DatagramSource, EndError> {
        let sender: Box<dyn MessageSender> = match setup.engine() {
            Engine::Plain | Engine::Gso => Box::new(source::OneSender::new(setup)),
            Engine::Mmsg => Box::new(source::ManySender::new(setup)),
            Engine::Uring(_) => Box::new(ring::SenderRing::new(setup)?),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| !setup.goes_back(flow));
        let is_far = setup.far.is_some();
        Ok(DatagramSource { sender, packer: Packer::new(setup, flow), sent: DatagramReport::default(), shown, is_far })
    }

    /// Waits until the sink's reader runs. `false` if the sink does not want the stream.
    pub(crate) fn await_reader(&self, run: SourceLoop<'_>) -> bool {
        handshake::await_reader(run, self.shown.as_ref(), self.is_far)
    }

    /// Sends until stopped.
    pub(crate) fn run(&mut self, run: SourceLoop<'_>, pace: Pace, meter: &mut Meter) -> Result<Stop, EndError> {
        let DatagramSource { sender, packer, sent, .. } = self;
        let stopped = sender.run(packer, run, pace, meter, sent);
        sender.finish(run.abort);
        sent.total = packer.sent;
        stopped
    }

    /// Announces the end, until the sink has received it.
    pub(crate) fn part(&self, run: SourceLoop<'_>) {
        handshake::announce(run.fd, self.is_far, run.abort);
    }

    /// Counts of sent datagrams.
    pub(crate) fn report(&self, meter: &Meter) -> DatagramReport {
        let window = meter.window();
        DatagramReport { datagrams: window.datagrams, packets: window.packets, ..self.sent }
    }

    /// Counts of the engine, if it keeps any.
    pub(crate) fn engine(&self) -> Option<EngineReport> {
        self.sender.engine()
    }
}

/// One flow's receiver, its memory ready.
pub(crate) struct Sink<E: ReaderWork> {
    receiver: Box<dyn MessageReceiver<E>>,
    pub(crate) reader: SinkReader<E>,
    /// The ticket for another host, if this end connected.
    pub(crate) shown: Option<Shown>,
}

impl<E: ReaderWork + 'static> Sink<E> {
    /// The receiver of flow number `flow`.
    ///
    /// # Errors
    /// [`EndError::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize, effort: E) -> Result<Sink<E>, EndError> {
        let receiver: Box<dyn MessageReceiver<E>> = match setup.engine() {
            Engine::Plain => Box::new(sink::Single(AlignedBuffer::new(setup.read_size()))),
            Engine::Gso => Box::new(Inbox::new(1, setup.read_size(), false)),
            Engine::Mmsg => Box::new(Inbox::new(setup.call_batch(), setup.read_size(), false)),
            Engine::Uring(mode) => Box::new(ReceiverRing::open(setup, mode.kind == UringKind::Multishot, false)?),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| setup.goes_back(flow));
        Ok(Sink { receiver, reader: SinkReader::new(setup, flow, effort), shown })
    }

    /// Reports to the source that the reader runs.
    pub(crate) fn begin(&self, run: SourceLoop<'_>) {
        match self.shown {
            Some(_) => handshake::begin_until_data(run.fd, run.abort),
            None => handshake::begin(run.fd, self.reader.shown.as_ref(), run.abort),
        }
    }

    /// Receives until the time is up.
    pub(crate) fn run(&mut self, run: SourceLoop<'_>, meter: &mut Meter) -> Result<Stop, EndError> {
        let stopped = self.receiver.run(&mut self.reader, run, meter);
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
        let drained = self.receiver.drain(&mut self.reader, run);
        handshake::answer(run.fd);
        drained
    }

    /// Counts of received datagrams.
    pub(crate) fn report(&self, meter: &Meter, run: SourceLoop<'_>) -> DatagramReport {
        let window = meter.window();
        DatagramReport {
            datagrams: window.datagrams,
            packets: window.packets,
            socket_drops: drops(run.fd).ok(),
            ..self.reader.ledger.counts
        }
    }

    /// Counts of the engine, if it keeps any.
    pub(crate) fn engine(&self) -> Option<EngineReport> {
        self.receiver.engine()
    }
}

fn does_not_carry(engine: Engine) -> EndError {
    EndError::Impossible(format!("engine {engine} does not carry datagrams"))
}
