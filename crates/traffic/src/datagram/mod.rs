//! Datagrams: numbered by their sender, and counted by their number where they arrive.
//!
//! The engines for datagrams are separate from those for bytes: a datagram has bounds, may be lost, and is never a part of
//! another. A flow is a pair of sockets and a thread at each end, with every engine; it is
//! dispatched once, and the loops are monomorphic.

pub(crate) mod handshake;
pub mod numbers;
mod ring;
mod sink;
mod source;

pub(crate) use ring::{Answer, DatagramHandler, ReceiverRing};
pub(crate) use sink::{MessageReceiver, SinkReader};
pub use source::at_most;
pub(crate) use source::{MessageSender, Packer, SourceLoop, cut_size};

use bytegauge_model::{Engine, UringKind};
use bytegauge_sys::buffer::AlignedBuffer;
use bytegauge_sys::datagram::Inbox;

use crate::EndError;
use crate::setup::Setup;

/// How a flow's datagrams are sent.
///
/// # Errors
/// [`EndError::Missing`] if this machine lacks what the engine needs.
pub(crate) fn sender(setup: &Setup) -> Result<Box<dyn MessageSender>, EndError> {
    Ok(match setup.engine() {
        Engine::Plain | Engine::Gso => Box::new(source::OneSender::new(setup)),
        Engine::Mmsg => Box::new(source::ManySender::new(setup)),
        Engine::Uring(_) => Box::new(ring::SenderRing::new(setup)?),
        engine => return Err(does_not_carry(engine)),
    })
}

/// How they are received.
///
/// # Errors
/// As for [`sender`].
pub(crate) fn receiver(setup: &Setup) -> Result<Box<dyn MessageReceiver>, EndError> {
    Ok(match setup.engine() {
        Engine::Plain => Box::new(sink::Single(AlignedBuffer::new(setup.read_size()))),
        Engine::Gso => Box::new(Inbox::new(1, setup.read_size(), false)),
        Engine::Mmsg => Box::new(Inbox::new(setup.call_batch(), setup.read_size(), false)),
        Engine::Uring(mode) => Box::new(ReceiverRing::open(setup, mode.kind == UringKind::Multishot, false)?),
        engine => return Err(does_not_carry(engine)),
    })
}

fn does_not_carry(engine: Engine) -> EndError {
    EndError::Impossible(format!("engine {engine} does not carry datagrams"))
}
