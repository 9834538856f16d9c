//! Network interfaces of the caller's network namespace.
//!
//! Asked by ioctl, not read from sysfs, whose files show the namespace of whoever mounted it.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use crate::outcome;

/// The name of the loopback interface.
pub const LOOPBACK: &str = "lo";

/// The largest packet that an interface takes, bytes with its IP header (`SIOCGIFMTU`, netdevice(7)).
///
/// # Errors
///
/// `ENODEV` without such an interface, `EINVAL` for a name that none can have.
pub fn mtu(name: &str) -> io::Result<u64> {
    // SAFETY: a struct of integers, arrays and a union of them, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays the end of the name.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    // Any socket will do.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the request holds a name that ends, and the kernel writes one int into its union.
    outcome::of(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &mut request) })?;
    // SAFETY: the kernel has filled this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u64::try_from(mtu).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_one_and_strangers_have_none() {
        assert!(mtu(LOOPBACK).unwrap() >= 68);
        assert_eq!(mtu("no-such-device").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        for name in ["", "a-name-that-is-too-long"] {
            assert_eq!(mtu(name).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }
}
