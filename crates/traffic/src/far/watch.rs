//! Keepalive: a peer that is gone without a word is missed by the kernel.

use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Duration;

use bytegauge_sys::option;

use crate::fault::Fault;

/// How long a session whose line broke waits to be taken up again. With the time until a silent peer is missed less than
/// 10 s, after which both sides are free.
pub(super) const TAKING_UP: Duration = Duration::from_millis(4500);

/// Sees that a peer whose host or network dies is missed: when nothing came for 2 s the kernel asks every second whether
/// it is there, and gives up after 5 s (tcp(7)). Nothing of ours ticks meanwhile.
pub(super) fn watch(stream: &TcpStream) -> Result<(), Fault> {
    let watched = [
        option::KEEP_ALIVE.to(true),
        option::KEEP_IDLE.to(2),
        option::KEEP_INTERVAL.to(1),
        option::KEEP_COUNT.to(3),
        option::USER_TIMEOUT.to(5_000),
    ];
    watched
        .iter()
        .try_for_each(|wanted| option::set(stream.as_fd(), wanted))
        .map_err(|error| Fault::Missing(error.to_string()))
}
