//! The end that runs a user's program, in a process of its own, whose only children are the program and its descendants.

use std::io;
use std::os::fd::AsFd;

use crate::end::peer::{Body, Peer};
use crate::end::runner::EndResult;
use crate::end_error::EndError;
use crate::message::{Command, Reply};
use crate::setup::Setup;
use crate::task;

/// Runs the program after `Go`. `Ok(None)` if the trial was called off.
pub(super) fn run(peer: &mut impl Peer, setup: &Setup, body: Body) -> Result<Option<EndResult>, EndError> {
    if body != Body::Process {
        return Err(EndError::Impossible("a program is run by a process of its own".into()));
    }
    if !peer.reply(Reply::Ready) || peer.command() != Some(Command::Go) {
        return Ok(None);
    }
    // A command meanwhile, or a closed channel, means that the result is not wanted.
    let report = task::run(setup, io::stdin().as_fd(), &mut |left_ns| {
        // A closed channel stops the run by itself.
        peer.reply(Reply::Waiting(left_ns));
    })?;
    Ok(Some(EndResult { report, ..EndResult::default() }))
}
