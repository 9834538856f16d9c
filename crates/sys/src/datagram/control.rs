//! The control messages of a datagram (cmsg(3)), read and written as plain bytes.

use super::Arrived;

/// Length, level and type of a control message (`struct cmsghdr` on 64-bit Linux).
const HEADER: usize = 16;

/// Room for the requested message, the segment, of 24 bytes.
const ROOM: usize = 32;

/// A buffer for control messages.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control([u8; ROOM]);

impl Control {
    pub(crate) const EMPTY: Control = Control([0; ROOM]);
    pub(crate) const ROOM: usize = ROOM;

    /// A pointer for the kernel to the control messages at `control`.
    pub(crate) fn raw(control: *mut Control) -> *mut libc::c_void {
        // The struct has no other field (`repr(C)`).
        control.cast()
    }

    /// The first `len` bytes, as many as the kernel filled.
    pub(crate) fn filled(&self, len: usize) -> &[u8] {
        &self.0[..len.min(ROOM)]
    }

    /// Requests datagrams of `segment` bytes (`UDP_SEGMENT`). Returns the number of bytes of the messages.
    pub(crate) fn write_segment(&mut self, segment: u16) -> usize {
        let len = HEADER + size_of::<u16>();
        self.0[..8].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&libc::SOL_UDP.to_ne_bytes());
        self.0[12..16].copy_from_slice(&libc::UDP_SEGMENT.to_ne_bytes());
        self.0[16..18].copy_from_slice(&segment.to_ne_bytes());
        len.next_multiple_of(align_of::<libc::cmsghdr>())
    }
}

/// Reads the control messages of a message of `len` bytes that arrived with these flags.
#[inline]
pub(crate) fn read(mut messages: &[u8], len: usize, flags: libc::c_int) -> Arrived {
    let truncated = flags & libc::MSG_TRUNC != 0;
    let mut arrived = Arrived { len, truncated, segment: None };
    while let Some((level, kind, value)) = first(messages) {
        if let (libc::SOL_UDP, libc::UDP_GRO, Some(size)) = (level, kind, word(value)) {
            arrived.segment = Some(size as usize).filter(|size| *size > 0);
        }
        let taken = (HEADER + value.len()).next_multiple_of(align_of::<libc::cmsghdr>());
        messages = messages.get(taken..).unwrap_or(&[]);
    }
    arrived
}

/// Level, type and value of the first message.
#[inline]
pub(crate) fn first(messages: &[u8]) -> Option<(libc::c_int, libc::c_int, &[u8])> {
    let len = usize::from_ne_bytes(*messages.first_chunk()?);
    let level = libc::c_int::from_ne_bytes(*messages.get(8..)?.first_chunk()?);
    let kind = libc::c_int::from_ne_bytes(*messages.get(12..)?.first_chunk()?);
    Some((level, kind, messages.get(HEADER..len)?))
}

/// The value of a message that is an int.
pub(crate) fn word(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(level: libc::c_int, kind: libc::c_int, value: u32) -> Vec<u8> {
        let mut bytes = 20usize.to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn other_messages_are_skipped() {
        let other = message(libc::SOL_SOCKET, libc::SO_MARK, 7);
        let size = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        let expected = Arrived { len: 2500, truncated: false, segment: Some(1000) };
        assert_eq!(read(&[other.clone(), size.clone()].concat(), 2500, 0), expected);
        assert_eq!(read(&[size, other].concat(), 2500, 0), expected);
        assert_eq!(expected.datagrams(), 3);
    }

    #[test]
    fn a_truncated_message_is_left_out() {
        let size = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        for len in 0..20 {
            let arrived = read(&size[..len], 5, libc::MSG_TRUNC);
            assert_eq!(arrived, Arrived { len: 5, truncated: true, segment: None });
        }
    }

    #[test]
    fn a_message_with_a_huge_length_ends() {
        let mut bytes = message(libc::SOL_UDP, libc::UDP_GRO, 1000);
        bytes[..8].copy_from_slice(&usize::MAX.to_ne_bytes());
        assert_eq!(read(&bytes, 1, 0).segment, None);
        bytes[..8].copy_from_slice(&0usize.to_ne_bytes());
        assert_eq!(read(&bytes, 1, 0).segment, None);
    }
}
