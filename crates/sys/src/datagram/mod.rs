//! Datagrams: packets of known bounds, one or many a call, with what the kernel says beside them.
//!
//! [`Outbox`] and [`Inbox`] hold everything a call needs (bytes, addresses, control messages), made
//! once and used again and again: no call allocates. One slot is one message for the kernel; with
//! send segmentation (`UDP_SEGMENT`) it is cut into many datagrams, with receive coalescing
//! (`UDP_GRO`) it was joined from many (udp(7)).
//!
//! Signals and full queues are handed back; nothing is retried and nothing is waited for but what
//! the descriptor's own mode waits for.

mod address;
mod calls;
pub(crate) mod control;
mod inbox;
mod outbox;
mod slots;

#[cfg(all(test, miri))]
mod miri;
#[cfg(test)]
mod tests;

pub use address::PeerAddress;
pub use inbox::Inbox;
pub use outbox::{Outbox, To};

pub(crate) use control::Control;

/// Most payload of one UDP datagram over IPv4: 65,535 bytes of packet less 20 of IP and 8 of UDP
/// header (RFC 791, RFC 768).
pub const UDP4_PAYLOAD_MAX: usize = 65_507;

/// Most payload of one UDP datagram over IPv6, whose payload length leaves out its own header
/// (RFC 8200) but not UDP's 8 bytes.
pub const UDP6_PAYLOAD_MAX: usize = 65_527;

/// Most datagrams that one send may be cut into (`UDP_MAX_SEGMENTS`, include/linux/udp.h, until
/// Linux 6.9 raised it to 128).
pub const SEGMENTS_MAX: usize = 64;

/// From the end of one slot to the beginning of the next. Slots that lay a power of two apart would fall into the
/// same few sets of the caches when small messages touch only their fronts; seventeen lines spread them.
const STAGGER: usize = 17 * 64;

/// What the kernel said of one message that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Bytes it had, those that were cut off included.
    pub len: usize,
    /// Whether the slot was too short, so that its end is gone (`MSG_TRUNC`).
    pub truncated: bool,
    /// The length of each datagram that it was joined from, the last one perhaps shorter (`UDP_GRO`);
    /// `None`: it is one datagram.
    pub segment: Option<usize>,
    /// Packets that the socket had dropped for lack of room when this one was queued, counted from
    /// its making (`SO_RXQ_OVFL`); `None` where the option is off, or nothing was dropped yet.
    pub dropped: Option<u32>,
}

impl Arrived {
    /// How many datagrams it was joined from.
    #[inline]
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.segment.map_or(1, |segment| self.len.div_ceil(segment.max(1)).max(1))
    }
}

/// Whether an error says that a datagram was more than the protocol, the interface or the socket's buffer holds
/// (`EMSGSIZE`).
#[must_use]
pub fn is_too_long(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// A header for one message: an address or none, one place for its bytes, and control messages.
pub(crate) fn header(
    name: *mut libc::c_void,
    name_len: u32,
    place: *mut libc::iovec,
    control: *mut libc::c_void,
    control_len: usize,
) -> libc::mmsghdr {
    // SAFETY: every field is an integer or a pointer, for which zero is a value. The C library's struct has padding
    // on some targets, so it cannot be written as a literal.
    let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
    header.msg_hdr.msg_name = name;
    header.msg_hdr.msg_namelen = name_len;
    header.msg_hdr.msg_iov = place;
    header.msg_hdr.msg_iovlen = 1;
    header.msg_hdr.msg_control = control;
    header.msg_hdr.msg_controllen = control_len as _;
    header
}

/// Bytes of control messages that the kernel wrote.
#[allow(clippy::unnecessary_cast, reason = "musl counts them in 32 bits, glibc in a machine word")]
pub(crate) fn control_len(header: &libc::msghdr) -> usize {
    header.msg_controllen as usize
}
