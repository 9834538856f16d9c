//! The end that runs a program of the user's: it does so alone, in a process of its own, whose only children are the
//! program and what that started.

use std::io;
use std::os::fd::AsFd;

use crate::end::duty::EndResult;
use crate::end::peer::{Body, Peer};
use crate::fault::Fault;
use crate::message::{Command, Reply};
use crate::setup::Setup;
use crate::task;

/// Runs the program when it is let go. `Ok(None)` when it was called off.
pub(super) fn carry(peer: &mut impl Peer, setup: &Setup, body: Body) -> Result<Option<EndResult>, Fault> {
    if body != Body::Process {
        return Err(Fault::Impossible("a program is run by a process of its own".into()));
    }
    if !peer.reply(Reply::Ready) || peer.command() != Some(Command::Go) {
        return Ok(None);
    }
    // A word meanwhile, or none any more, means that nobody wants the result.
    let report = task::run(setup, io::stdin().as_fd())?;
    Ok(Some(EndResult { report, ..EndResult::default() }))
}
