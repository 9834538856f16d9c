//! The kernel redirects what arrives at one socket to the other one; the relay only watches.
//!
//! A thread a direction arms it, waits for the end of the stream, and passes that on once all bytes have passed by
//! `TCP_INFO` of both sockets. There is no back-pressure: what the far side does not take is queued in the kernel without
//! a bound, so that a direction with more than [`QUEUED_MAX`] of it fails. A connection of which one side has said its end
//! before it could be armed is copied instead (`EOPNOTSUPP`).

use std::io;
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::sockmap::{self, SockMap};
use bytegauge_sys::tcp_info::{TcpInfo, tcp_info};
use bytegauge_sys::{errno, option};

use crate::fault::Fault;
use crate::relay::RelayShared;
use crate::relay::copy_method::Carrying;
use crate::relay::methods::read_write::ReadWrite;
use crate::relay::threads::{self, ThreadWay};

/// Bytes that may be queued between the sockets.
const QUEUED_MAX: u64 = 16 << 20;

/// Bytes that a socket may take at once: where half of its buffer is full, redirection waits for the kernel's next tick.
const SEND_BUFFER: u64 = 16 << 20;

/// Directions for which there is room.
const MOST: u32 = 1 << 17;

/// From one look to the next, while bulk passes; no more than can be queued meanwhile beyond what is allowed.
const LOOK_NS: u64 = 2_000_000;

/// The same while little or nothing does: there may be thousands of directions.
const LOOK_MAX_NS: u64 = 16_000_000;

/// What passes from one look to the next is bulk from here on.
const BULK: u64 = 1 << 20;

/// From one look to the next once the stream has ended.
const LAST_LOOK: Duration = Duration::from_micros(200);

/// What this machine lacks for it, if anything.
pub(in crate::relay) fn lacks() -> Option<String> {
    SockMap::new(1).err().map(|error| reason(&error))
}

fn reason(error: &io::Error) -> String {
    if error.raw_os_error().is_none() {
        let (major, minor) = sockmap::SINCE;
        return format!("sockmap before Linux {major}.{minor} may leave bytes waiting for ever: use another --relay");
    }
    match error.raw_os_error() {
        Some(errno::EPERM) => {
            "sockmap is a BPF program, which needs CAP_BPF and CAP_NET_ADMIN: run as root, or use another \
                               --relay"
                .into()
        }
        _ => format!(
            "this kernel has no sockmap ({error}; CONFIG_BPF_SYSCALL, CONFIG_BPF_STREAM_PARSER): use another --relay"
        ),
    }
}

pub(in crate::relay) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, Fault> {
    let map = SockMap::new(MOST).map_err(|error| Fault::Missing(reason(&error)))?;
    let shared = carrying.shared;
    threads::carry(carrying, &|way| match arm(way, &map) {
        Ok(()) => watch(way, shared),
        Err(error) if error.raw_os_error() == Some(errno::EOPNOTSUPP) => copy(way),
        Err(error) => Err(error),
    })
}

fn arm(way: &ThreadWay<'_>, map: &SockMap) -> io::Result<()> {
    let set = option::set(way.to(), &option::SEND_BUFFER_FORCE.to(SEND_BUFFER));
    set.map_err(|error| io::Error::other(error.to_string()))?;
    map.redirect(way.from(), way.to())
}

/// Copies a direction of which one socket may be in a map, for the other one: who waits for bytes there is woken by anything,
/// and told `EAGAIN` if there are none (net/ipv4/tcp_bpf.c, `tcp_msg_wait_data`). Then nothing is held.
fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    loop {
        match threads::by_hand::<ReadWrite>(way) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && way.passed.taken == way.passed.given => {}
            copied => return copied,
        }
    }
}

/// From the first byte to the end of the stream.
fn watch(way: &mut ThreadWay<'_>, shared: &RelayShared) -> io::Result<()> {
    let (mut share, mut pause_ns, mut has_ended) = (way.share(), LOOK_NS, false);
    loop {
        // Of a connection that nobody needs any more it is counted once more what has passed.
        let is_over = way.is_over();
        match socket::wait(way.from(), Until::PeerShut, pause_ns) {
            Ok(found) => has_ended |= found.is_some(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // Only this thread takes the error of this socket, so that nobody takes a reset for an end.
        let error = socket::take_error(way.from())?;
        // What was given is read first: what comes meanwhile is not due yet.
        let (to, from) = (tcp_info(way.to())?, tcp_info(way.from())?);
        let given = given(&to).max(way.passed.given);
        // The end counts as a byte.
        let taken = from.bytes_received.unwrap_or(0).saturating_sub(has_ended.into()).max(given);
        let (moved, queued) = (given - way.passed.given, taken - given);
        if moved > 0 {
            share.count(moved as usize, moved as usize);
        }
        (way.passed.taken, way.passed.given) = (taken, given);
        match error {
            Some(errno) => return Err(io::Error::from_raw_os_error(errno)),
            None if to.is_closed() => return Err(io::ErrorKind::BrokenPipe.into()),
            None if is_over => return Err(io::ErrorKind::ConnectionAborted.into()),
            None => {}
        }
        if has_ended {
            if queued == 0 {
                return Ok(());
            }
            std::thread::sleep(LAST_LOOK);
        }
        if queued > QUEUED_MAX {
            shared.fails(Fault::Program(format!(
                "sockmap holds no writer up: {queued} bytes had come that the reader did not take, which the kernel keeps in its \
                 memory (more than 16 MiB), so the relay broke off: offer what the reader can take (--rate 20M), or use \
                 another --relay"
            )));
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        pause_ns = if moved >= BULK { LOOK_NS } else { (pause_ns * 2).min(LOOK_MAX_NS) };
    }
}

/// Bytes that a socket was given to send.
fn given(to: &TcpInfo) -> u64 {
    let sent = to.bytes_sent.unwrap_or(0).saturating_sub(to.bytes_retrans.unwrap_or(0));
    sent + u64::from(to.notsent_bytes.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_with_the_next_step() {
        let told = |errno| reason(&io::Error::from_raw_os_error(errno));
        let forbidden = told(errno::EPERM);
        assert!(forbidden.contains("CAP_BPF") && forbidden.contains("run as root"), "{forbidden}");
        let unknown = told(errno::EOPNOTSUPP);
        assert!(unknown.contains("no sockmap") && unknown.contains("another --relay"), "{unknown}");
    }
}
