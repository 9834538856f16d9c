//! The end whose relay runs already: it starts and ends nothing. Before and after a trial it looks up the processes that own the
//! relay's sockets, and charges their use within the window, even for other clients. If the owners differ afterwards, their
//! use is unknown, and the trial fails.

use std::io;
use std::os::fd::AsFd;

use bytegauge_model::{RelayProgramReport, RunningRelay};

use crate::address::Address;
use crate::end::peer::Peer;
use crate::end::relay_program::{came_to, through};
use crate::end::runner::EndResult;
use crate::end_error::EndError;
use crate::message::Reply;
use crate::relay::{charged, lacks_running};
use crate::setup::Setup;

/// Runs a trial; one that is called off has no result. `Ok(None)` if the channel was closed.
pub(super) fn run(peer: &mut impl Peer, setup: &Setup, relay: &RunningRelay) -> Result<Option<EndResult>, EndError> {
    if let Some(reason) = lacks_running(relay) {
        return Err(EndError::Program(reason));
    }
    let charged = charged(relay)?;
    if !peer.reply(Reply::Listening(Address::Ip(relay.listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let used = through(peer, setup, io::stdin().as_fd(), || charged.used())?;
    if let Some(reason) = lacks_running(relay) {
        return Err(EndError::Program(format!("the relay ended while it was in use: {reason}")));
    }
    charged.stayed()?;
    let known = RelayProgramReport { charged: Some(charged.text), ..RelayProgramReport::default() };
    Ok(Some(used.map_or_else(EndResult::default, |used| came_to(used, known))))
}
