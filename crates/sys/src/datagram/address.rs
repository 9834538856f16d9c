//! The address of a peer in the kernel's format, stored unchanged, so that replies need no conversion.

use std::net::SocketAddr;
use std::slice;

use rustix::net::SocketAddrAny;

/// The size of the largest address of a datagram: a Unix path (`sockaddr_un`, unix(7)).
const ROOM: usize = 112;

const FAMILY_LEN: usize = size_of::<libc::sa_family_t>();

/// The sender or receiver of a datagram: an IP address and port, a Unix name, or none.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct PeerAddress {
    bytes: [u8; ROOM],
    len: u32,
}

impl PeerAddress {
    /// No address: the peer to which the socket is connected.
    pub const NONE: PeerAddress = PeerAddress { bytes: [0; ROOM], len: 0 };

    /// Whether there is no address. A Unix socket without a name cannot be replied to.
    pub fn is_none(&self) -> bool {
        (self.len as usize) <= FAMILY_LEN
    }

    /// The IP address and port, if it is an IP address.
    pub fn ip(&self) -> Option<SocketAddr> {
        if self.is_none() {
            return None;
        }
        // SAFETY: `len` bytes are initialised, at most those of the largest address, and hold a family.
        let address = unsafe { SocketAddrAny::read(self.bytes.as_ptr().cast(), self.len) };
        address.try_into().ok()
    }

    /// The address as the kernel reads it (`sockaddr`); empty for none.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len as usize]
    }

    /// An address as the kernel wrote it; an address that does not fit becomes none.
    pub(crate) fn of_bytes(bytes: &[u8]) -> PeerAddress {
        let mut address = PeerAddress::NONE;
        if let Some(room) = address.bytes.get_mut(..bytes.len()) {
            room.copy_from_slice(bytes);
            address.len = bytes.len() as u32;
        }
        address
    }

    /// A pointer for the kernel to the address at `address`, with room for at most [`PeerAddress::ROOM`] bytes.
    pub(crate) fn raw(address: *mut PeerAddress) -> *mut libc::c_void {
        // The bytes come first (`repr(C)`).
        address.cast()
    }

    /// The largest length of an address.
    pub(crate) const ROOM: u32 = ROOM as u32;

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Sets the length of the address that the kernel has written here.
    pub(crate) fn set_len(&mut self, len: u32) {
        self.len = len.min(Self::ROOM);
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> PeerAddress {
        let raw = SocketAddrAny::from(address);
        // SAFETY: the address has this many initialised bytes, and lives until they are copied.
        PeerAddress::of_bytes(unsafe { slice::from_raw_parts(raw.as_ptr().cast(), raw.addr_len() as usize) })
    }
}

impl Default for PeerAddress {
    fn default() -> PeerAddress {
        PeerAddress::NONE
    }
}
