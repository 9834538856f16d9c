//! Datagrams: numbered by their sender, and counted by their number where they arrive.
//!
//! The engines for datagrams are separate from those for bytes: a datagram has bounds, may be lost, and is never a part of
//! another. A flow is a pair of sockets and a thread at each end, with every engine; it is
//! dispatched once, and the loops are monomorphic.

mod handshake;
pub mod ledger;
pub mod number;
mod ring;
mod sink;
mod source;

use bytegauge_model::{DatagramReport, Engine, EngineReport};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::datagram::Inbox;
use bytegauge_sys::socket_memory::socket_memory;

use crate::engine::Stop;
use crate::fault::Fault;
use crate::meter::Meter;
use crate::pace::Pace;
use crate::planted_fault::PlantedFault;
use crate::setup::Setup;
use crate::stream::Effort;
use crate::ticket::Shown;
use sink::Desk;
use source::{Packer, SentDatagrams};

pub(crate) use handshake::KNOCKS_EVERY;
pub(crate) use source::{Run, at_most, cut_size};

/// One flow's sender, its memory ready.
pub(crate) struct Source {
    postbox: Postboxes,
    packer: Packer,
    sent: SentDatagrams,
    /// The ticket for another host, shown by the end that connected.
    shown: Option<Shown>,
    /// Whether the sink is on another host.
    is_far: bool,
}

enum Postboxes {
    One(source::OneSender),
    Many(source::ManySender),
    Ring(Box<ring::DatagramSends>),
}

impl Source {
    /// The sender of flow number `flow`.
    ///
    /// # Errors
    /// [`Fault::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize) -> Result<Source, Fault> {
        let postbox = match setup.engine() {
            Engine::Plain | Engine::Gso => Postboxes::One(source::OneSender::new(setup)),
            Engine::Mmsg => Postboxes::Many(source::ManySender::new(setup)),
            Engine::Uring(_) => Postboxes::Ring(Box::new(ring::DatagramSends::new(setup)?)),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| !setup.goes_back(flow));
        let is_far = setup.far.is_some();
        Ok(Source { postbox, packer: Packer::new(setup, flow), sent: SentDatagrams::default(), shown, is_far })
    }

    /// Asks a sink on another host to admit the flow.
    pub(crate) fn knock(&self, run: Run<'_>) {
        self.shown.iter().for_each(|shown| handshake::knock(run.fd, shown));
    }

    /// Waits until the sink's reader runs. `false` if the sink does not want the stream.
    pub(crate) fn await_reader(&self, run: Run<'_>) -> bool {
        handshake::await_reader(run, self.shown.as_ref(), self.is_far)
    }

    /// Sends until stopped.
    pub(crate) fn run(&mut self, run: Run<'_>, pace: Pace, meter: &mut Meter) -> Result<Stop, Fault> {
        let Source { postbox, packer, sent, .. } = self;
        let stopped = match postbox {
            Postboxes::One(one) => source::run(one, packer, run, pace, meter, sent),
            Postboxes::Many(many) => source::run(many, packer, run, pace, meter, sent),
            Postboxes::Ring(ring) => {
                let stopped = source::run(&mut **ring, packer, run, pace, meter, sent);
                ring.finish(run.abort);
                stopped
            }
        };
        sent.datagrams = packer.sent();
        stopped
    }

    /// Announces the end, until the sink has received it.
    pub(crate) fn part(&self, run: Run<'_>) {
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
        match &self.postbox {
            Postboxes::Ring(ring) => Some(ring.report()),
            Postboxes::One(_) | Postboxes::Many(_) => None,
        }
    }
}

/// One flow's receiver, its memory ready.
pub(crate) struct Sink<E> {
    mailbox: Mailboxes,
    desk: Desk<E>,
    /// The ticket for another host, if this end connected.
    shown: Option<Shown>,
}

enum Mailboxes {
    Single(sink::Single),
    One(sink::OneReceiver),
    Many(sink::ManyReceiver),
    Outstanding(Box<ring::Outstanding>),
    Multishot(Box<ring::Multishot>),
}

impl<E: Effort> Sink<E> {
    /// The receiver of flow number `flow`.
    ///
    /// # Errors
    /// [`Fault::Missing`] if this machine lacks what the engine needs.
    pub(crate) fn prepare(setup: &Setup, flow: usize, effort: E) -> Result<Sink<E>, Fault> {
        let mailbox = match setup.engine() {
            Engine::Plain => Mailboxes::Single(sink::Single(AlignedBuffer::new(setup.read_size()))),
            Engine::Gso => Mailboxes::One(sink::OneReceiver(Inbox::new(1, setup.read_size(), false))),
            Engine::Mmsg => Mailboxes::Many(sink::ManyReceiver::new(setup)),
            Engine::Uring(mode) if source::goes_on(mode.kind) => {
                Mailboxes::Multishot(Box::new(ring::Multishot::new(setup)?))
            }
            Engine::Uring(_) => Mailboxes::Outstanding(Box::new(ring::Outstanding::new(setup)?)),
            engine => return Err(does_not_carry(engine)),
        };
        let shown = setup.shown_by(flow).filter(|_| setup.goes_back(flow));
        Ok(Sink { mailbox, desk: Desk::new(setup, flow, effort), shown })
    }

    /// Asks a source on another host to admit the flow.
    pub(crate) fn knock(&self, run: Run<'_>) {
        self.shown.iter().for_each(|shown| handshake::knock(run.fd, shown));
    }

    /// Reports to the source that the reader runs.
    pub(crate) fn begin(&self, run: Run<'_>) {
        match self.shown {
            Some(_) => handshake::begin_until_heard(run.fd, run.abort),
            None => handshake::begin(run.fd, self.desk.shown(), run.abort),
        }
    }

    /// Receives until the time is up.
    pub(crate) fn run(&mut self, run: Run<'_>, meter: &mut Meter) -> Result<Stop, Fault> {
        let desk = &mut self.desk;
        let stopped = match &mut self.mailbox {
            Mailboxes::Single(mailbox) => sink::run(mailbox, desk, run, meter),
            Mailboxes::One(mailbox) => sink::run(mailbox, desk, run, meter),
            Mailboxes::Many(mailbox) => sink::run(mailbox, desk, run, meter),
            Mailboxes::Outstanding(mailbox) => sink::run(&mut **mailbox, desk, run, meter),
            Mailboxes::Multishot(mailbox) => sink::run(&mut **mailbox, desk, run, meter),
        };
        if matches!(stopped, Ok(Stop::Ended(_))) {
            handshake::answer(run.fd);
        }
        stopped
    }

    /// Receives datagrams that are still under way, and answers the source's announced end.
    ///
    /// # Errors
    /// [`Fault::Io`] if receiving fails.
    pub(crate) fn drain(&mut self, run: Run<'_>) -> Result<(), Fault> {
        let desk = &mut self.desk;
        let drained = match &mut self.mailbox {
            Mailboxes::Single(mailbox) => sink::drain(mailbox, desk, run),
            Mailboxes::One(mailbox) => sink::drain(mailbox, desk, run),
            Mailboxes::Many(mailbox) => sink::drain(mailbox, desk, run),
            Mailboxes::Outstanding(mailbox) => sink::drain(&mut **mailbox, desk, run),
            Mailboxes::Multishot(mailbox) => sink::drain(&mut **mailbox, desk, run),
        };
        handshake::answer(run.fd);
        drained
    }

    /// Counts of received datagrams.
    pub(crate) fn report(&self, meter: &Meter, run: Run<'_>) -> DatagramReport {
        let (window, desk) = (meter.window(), &self.desk);
        DatagramReport {
            datagrams: window.datagrams,
            packets: window.packets,
            total: desk.total,
            total_packets: desk.packets,
            missing: desk.ledger().missing(),
            reordered: desk.ledger().reordered(),
            duplicated: desk.ledger().duplicated(),
            truncated: desk.truncated,
            cut_bytes: desk.cut_bytes,
            socket_drops: socket_memory(run.fd).ok().map(|memory| memory.drops.into()),
            ..DatagramReport::default()
        }
    }

    /// Counts of the engine, if it keeps any.
    pub(crate) fn engine(&self) -> Option<EngineReport> {
        match &self.mailbox {
            Mailboxes::Outstanding(ring) => Some(ring.report()),
            Mailboxes::Multishot(ring) => Some(ring.report()),
            Mailboxes::Single(_) | Mailboxes::One(_) | Mailboxes::Many(_) => None,
        }
    }

    /// Bytes kept, in the flow's whole life.
    pub(crate) fn total_bytes(&self) -> u64 {
        self.desk.bytes
    }

    /// Bytes compared with the pattern.
    pub(crate) fn verified_bytes(&self) -> u64 {
        self.desk.verified_bytes()
    }

    /// The planted end, if it was reached.
    pub(crate) fn planted_end(&self) -> Option<PlantedFault> {
        self.desk.planted_end()
    }

    /// The error in the bytes, if any.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.desk.fault()
    }
}

fn does_not_carry(engine: Engine) -> Fault {
    Fault::Impossible(format!("engine {engine} does not carry datagrams"))
}
