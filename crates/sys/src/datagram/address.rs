//! The address of a peer in the kernel's format, stored unchanged, so that replies need no conversion.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// The size of the largest address of a datagram: a Unix path (`sockaddr_un`, unix(7)).
const ROOM: usize = 112;

const FAMILY_LEN: usize = size_of::<libc::sa_family_t>();

/// The sender or receiver of a datagram: an IP address and port, a Unix name, or none.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct PeerAddress {
    bytes: [u8; ROOM],
    len: u32,
}

impl PeerAddress {
    /// No address: the peer to which the socket is connected.
    pub const NONE: PeerAddress = PeerAddress { bytes: [0; ROOM], len: 0 };

    /// Whether there is no address. A Unix socket without a name cannot be replied to.
    #[must_use]
    pub fn is_none(&self) -> bool {
        (self.len as usize) <= FAMILY_LEN
    }

    /// The IP address and port, if it is an IP address.
    #[must_use]
    pub fn ip(&self) -> Option<SocketAddr> {
        let bytes = self.bytes();
        let family = libc::c_int::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
        match family {
            libc::AF_INET => {
                let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
                Some(SocketAddrV4::new(Ipv4Addr::from(ip), port).into())
            }
            libc::AF_INET6 => {
                let word =
                    |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_ne_bytes(*word));
                let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
                Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, u32::from_be(word(4)?), word(24)?).into())
            }
            _ => None,
        }
    }

    /// The address as the kernel reads it (`sockaddr`); empty for none.
    #[must_use]
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
        // struct sockaddr_in and sockaddr_in6 (ip(7), ipv6(7)): family and scope in host byte order, port and address
        // in network byte order.
        let mut bytes = Vec::with_capacity(28);
        match address {
            SocketAddr::V4(v4) => {
                bytes.extend((libc::AF_INET as libc::sa_family_t).to_ne_bytes());
                bytes.extend(v4.port().to_be_bytes());
                bytes.extend(v4.ip().octets());
                bytes.extend([0; 8]);
            }
            SocketAddr::V6(v6) => {
                bytes.extend((libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
                bytes.extend(v6.port().to_be_bytes());
                bytes.extend(v6.flowinfo().to_be_bytes());
                bytes.extend(v6.ip().octets());
                bytes.extend(v6.scope_id().to_ne_bytes());
            }
        }
        PeerAddress::of_bytes(&bytes)
    }
}

impl Default for PeerAddress {
    fn default() -> PeerAddress {
        PeerAddress::NONE
    }
}

impl PartialEq for PeerAddress {
    fn eq(&self, other: &PeerAddress) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for PeerAddress {}

impl fmt::Debug for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip() {
            Some(ip) => write!(f, "PeerAddress({ip})"),
            None => write!(f, "PeerAddress({:?})", self.bytes().escape_ascii().to_string()),
        }
    }
}
