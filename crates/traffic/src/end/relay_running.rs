//! The end whose relay runs already: nothing is started, and nothing ended. It is looked for before a trial and after it, and
//! whoever is its owner is charged for what it uses within the window, whomever it serves meanwhile. Where the owners are
//! others afterwards, what they used is not known, and the trial fails.

use std::io;
use std::os::fd::AsFd;

use bytegauge_model::{RelayProgramReport, RunningRelay};

use crate::address::Address;
use crate::end::duty::EndResult;
use crate::end::peer::Peer;
use crate::end::relay_program::{came_to, through};
use crate::fault::Fault;
use crate::message::Reply;
use crate::relay::{charged, lacks_running};
use crate::setup::Setup;

/// Carries a trial; one that is called off came to nothing. `Ok(None)` when nobody listens.
pub(super) fn carry(peer: &mut impl Peer, setup: &Setup, relay: &RunningRelay) -> Result<Option<EndResult>, Fault> {
    if let Some(reason) = lacks_running(relay) {
        return Err(Fault::Program(reason));
    }
    let charged = charged(relay)?;
    if !peer.reply(Reply::Listening(Address::Ip(relay.listen))) || !peer.reply(Reply::Ready) {
        return Ok(None);
    }
    let used = through(peer, setup, io::stdin().as_fd(), || charged.used())?;
    if let Some(reason) = lacks_running(relay) {
        return Err(Fault::Program(format!("the relay ended while it was in use: {reason}")));
    }
    charged.stayed()?;
    let known = RelayProgramReport { charged: Some(charged.text), ..RelayProgramReport::default() };
    Ok(Some(used.map_or_else(EndResult::default, |used| came_to(used, known))))
}
