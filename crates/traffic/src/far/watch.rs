//! Keepalive: a peer that is gone without a word is missed by the kernel.

use std::net::TcpStream;
use std::os::fd::AsFd;

use bytegauge_sys::option;

use crate::fault::Fault;

/// Sees that a peer whose host or network dies is missed within ten seconds: the kernel asks every 2 s whether it is
/// there, and gives up after 8 s (tcp(7)). Nothing of ours ticks meanwhile.
pub(super) fn watch(stream: &TcpStream) -> Result<(), Fault> {
    let watched = [
        option::KEEP_ALIVE.to(true),
        option::KEEP_IDLE.to(2),
        option::KEEP_INTERVAL.to(2),
        option::KEEP_COUNT.to(3),
        option::USER_TIMEOUT.to(8_000),
    ];
    watched
        .iter()
        .try_for_each(|wanted| option::set(stream.as_fd(), wanted))
        .map_err(|error| Fault::Missing(error.to_string()))
}
