//! Datagrams: packets with boundaries, one or many per call, with the kernel's control messages.
//!
//! [`Outbox`] and [`Inbox`] hold everything that a call needs (bytes, addresses, control messages), created once and
//! reused: no call allocates. One slot is one message for the kernel. With send segmentation (`UDP_SEGMENT`) it is cut
//! into many datagrams; with receive coalescing (`UDP_GRO`) it was joined from many (udp(7)).
//!
//! Signals and full queues are returned as errors. Nothing is retried, and only the descriptor's own mode determines
//! whether a call waits.

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
pub use outbox::{Outbox, SlotTarget};

pub(crate) use control::Control;

/// The most datagrams into which one send may be cut (`UDP_MAX_SEGMENTS`, include/linux/udp.h; 128 since Linux 6.9).
pub const SEGMENTS_MAX: usize = 64;

/// The distance between slots. Slots at a distance of a power of two would map to the same few cache sets when small
/// messages touch only their fronts; seventeen lines spread them.
const STAGGER: usize = 17 * 64;

/// The kernel's report on one message that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrived {
    /// Its length in bytes, including a part that was cut off.
    pub len: usize,
    /// Whether the slot was too short, so that its end is gone (`MSG_TRUNC`).
    pub truncated: bool,
    /// The length of each datagram from which it was joined, the last one possibly shorter (`UDP_GRO`); `None`: it is
    /// one datagram.
    pub segment: Option<usize>,
}

impl Arrived {
    /// Number of datagrams from which it was joined.
    #[inline]
    #[must_use]
    pub fn datagrams(&self) -> usize {
        self.segment.map_or(1, |segment| self.len.div_ceil(segment.max(1)).max(1))
    }
}

/// Whether an error means that a datagram exceeds the protocol, the interface or the socket's buffer (`EMSGSIZE`).
#[must_use]
pub fn is_too_long(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(libc::EMSGSIZE)
}

/// A header for one message: an address or none, a pointer to its bytes, and control messages.
pub(crate) fn header(
    name: *mut libc::c_void,
    name_len: u32,
    place: *mut libc::iovec,
    control: *mut libc::c_void,
    control_len: usize,
) -> libc::mmsghdr {
    // SAFETY: every field is an integer or a pointer, for which zero is a valid value. The C library's struct has
    // padding on some targets, so it cannot be written as a literal.
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
