//! The kernel forwards the bytes of one socket to the other; the relay only watches.
//!
//! A thread per direction enables this, waits for the end of the stream, and passes the end on once `TCP_INFO` of both sockets
//! shows that all bytes have passed. There is no back-pressure: bytes that the far side does not read are queued in the kernel
//! without a limit, so a direction with more than [`QUEUED_MAX`] of them fails. A connection of which one side has ended
//! before it could be enabled is copied instead (`EOPNOTSUPP`).

use std::io;
use std::time::Duration;

use bytegauge_model::EngineReport;
use bytegauge_sys::socket::{self, Until};
use bytegauge_sys::sockmap::{self, SockMap};
use bytegauge_sys::tcp_info::{TcpInfo, tcp_info};
use bytegauge_sys::{errno, option};

use crate::EndError;
use crate::relay::RelayShared;
use crate::relay::copy_methods::{Carrying, ReadWrite};
use crate::relay::thread_per_direction::{self, ThreadWay};

/// Most bytes queued between the sockets.
const QUEUED_MAX: u64 = 16 << 20;

/// Most bytes that a socket may accept at once: if half of its buffer is full, forwarding waits for the kernel's next tick.
const SEND_BUFFER: u64 = 16 << 20;

/// Number of directions for which there is room.
const MOST: u32 = 1 << 17;

/// Interval between checks during bulk; no more can be queued in it beyond the limit.
const CHECK_NS: u64 = 2_000_000;

/// The same without bulk: there may be thousands of directions.
const CHECK_MAX_NS: u64 = 16_000_000;

/// Bytes per interval that count as bulk.
const BULK: u64 = 1 << 20;

/// Interval between checks once the stream has ended.
const LAST_CHECK: Duration = Duration::from_micros(200);

/// The reason why this machine cannot run it, if any.
pub(super) fn missing_requirement() -> Option<String> {
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

pub(super) fn carry(carrying: Carrying<'_, '_>) -> Result<EngineReport, EndError> {
    let map = SockMap::new(MOST).map_err(|error| EndError::Missing(reason(&error)))?;
    let shared = carrying.shared;
    thread_per_direction::carry(carrying, &|way| match arm(way, &map) {
        Ok(()) => watch(way, shared),
        Err(error) if error.raw_os_error() == Some(errno::EOPNOTSUPP) => copy(way),
        Err(error) => Err(error),
    })
}

fn arm(way: &ThreadWay<'_>, map: &SockMap) -> io::Result<()> {
    option::set(way.to(), &option::SEND_BUFFER_FORCE.to(SEND_BUFFER))?;
    map.redirect(way.from(), way.to())
}

/// Copies a direction one of whose sockets may be in a map because of the other direction: a thread that waits for bytes there
/// wakes for any reason, with `EAGAIN` if there are none (net/ipv4/tcp_bpf.c, `tcp_msg_wait_data`). No bytes are held then.
fn copy(way: &mut ThreadWay<'_>) -> io::Result<()> {
    loop {
        match thread_per_direction::copy_by::<ReadWrite>(way) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && way.passed.taken == way.passed.given => {}
            copied => return copied,
        }
    }
}

/// Watches from the first byte to the end of the stream.
fn watch(way: &mut ThreadWay<'_>, shared: &RelayShared) -> io::Result<()> {
    let (mut share, mut pause_ns, mut has_ended) = (way.share(), CHECK_NS, false);
    loop {
        // When the relay stops, the bytes that have passed are counted once more.
        let is_over = way.is_over();
        match socket::wait(way.from(), Until::PeerShut, pause_ns) {
            Ok(found) => has_ended |= found.is_some(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        // Only this thread reads this socket's error, so that no other one mistakes a reset for an end.
        let error = socket::take_error(way.from()).err();
        // The given bytes are read first: bytes that arrive meanwhile are not due yet.
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
            Some(error) => return Err(error),
            None if to.is_closed() => return Err(io::ErrorKind::BrokenPipe.into()),
            None if is_over => return Err(io::ErrorKind::ConnectionAborted.into()),
            None => {}
        }
        if has_ended {
            if queued == 0 {
                return Ok(());
            }
            std::thread::sleep(LAST_CHECK);
        }
        if queued > QUEUED_MAX {
            shared.fails(EndError::Program(format!(
                "sockmap has no back-pressure: the reader did not take {queued} bytes, which the kernel keeps in its \
                 memory (more than 16 MiB), so the relay broke off: offer what the reader can take (--rate 20M), or use \
                 another --relay"
            )));
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        pause_ns = if moved >= BULK { CHECK_NS } else { (pause_ns * 2).min(CHECK_MAX_NS) };
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
    fn missing_features_are_reported_with_the_next_step() {
        let missing = |errno| reason(&io::Error::from_raw_os_error(errno));
        let forbidden = missing(errno::EPERM);
        assert!(forbidden.contains("CAP_BPF") && forbidden.contains("run as root"), "{forbidden}");
        let unknown = missing(errno::EOPNOTSUPP);
        assert!(unknown.contains("no sockmap") && unknown.contains("another --relay"), "{unknown}");
    }
}
