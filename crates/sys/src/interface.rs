//! Network interfaces of the caller's network namespace.
//!
//! Uses ioctl instead of sysfs, whose files show the namespace of the process that mounted it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::syscall_result;

/// The name of the loopback interface.
pub const LOOPBACK: &str = "lo";

/// The largest packet of an interface, bytes with its IP header (`SIOCGIFMTU`, netdevice(7)).
///
/// # Errors
///
/// `ENODEV` if the interface does not exist, `EINVAL` for an invalid name.
pub fn mtu(name: &str) -> io::Result<u64> {
    let mut request = named(name)?;
    ask(libc::SIOCGIFMTU as _, &mut request)?;
    // SAFETY: the kernel has filled this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u64::try_from(mtu).unwrap_or(0))
}

/// Settings of a point-to-point interface that a process creates.
#[derive(Clone, Copy, Debug)]
pub struct PointToPoint {
    /// Its name.
    pub name: &'static str,
    /// Its address.
    pub address: Ipv4Addr,
    /// The only address that it reaches.
    pub peer: Ipv4Addr,
    /// The largest packet, bytes with its IP header.
    pub mtu: u64,
    /// Packets that it queues, in the kernel's queue and in the device's queue each.
    pub queue_packets: u32,
}

impl PointToPoint {
    /// Sets the addresses and brings the interface and the loopback up.
    ///
    /// # Errors
    ///
    /// `EPERM` without permission to administer the network.
    pub fn bring_up(&self) -> io::Result<()> {
        let set = |code: libc::c_ulong, fill: &dyn Fn(&mut libc::ifreq)| {
            let mut request = named(self.name)?;
            fill(&mut request);
            ask(code, &mut request)
        };
        set(libc::SIOCSIFMTU as _, &|of| of.ifr_ifru.ifru_mtu = self.mtu as libc::c_int)?;
        // The queue must be set before the interface is up, which creates it.
        set_queue(self.name, self.queue_packets)?;
        set(libc::SIOCSIFADDR as _, &|of| of.ifr_ifru.ifru_addr = socket_address(self.address))?;
        set(libc::SIOCSIFDSTADDR as _, &|of| of.ifr_ifru.ifru_dstaddr = socket_address(self.peer))?;
        for name in [LOOPBACK, self.name] {
            let mut request = named(name)?;
            request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
            ask(libc::SIOCSIFFLAGS as _, &mut request)?;
        }
        Ok(())
    }
}

/// Sets the number of packets that an interface queues (`IFLA_TXQLEN`, rtnetlink(7)). The equivalent ioctl needs root
/// on the machine; this needs only permission to administer the network namespace.
fn set_queue(name: &str, packets: u32) -> io::Result<()> {
    // struct ifinfomsg without a type, an index or flags: the interface is found by its name.
    let mut message = vec![0; 16];
    for (attribute, value) in
        [(libc::IFLA_IFNAME, [name.as_bytes(), b"\0"].concat()), (libc::IFLA_TXQLEN, packets.to_ne_bytes().to_vec())]
    {
        message.extend((4 + value.len() as u16).to_ne_bytes());
        message.extend(attribute.to_ne_bytes());
        message.extend(value);
        message.resize(message.len().next_multiple_of(4), 0);
    }
    // struct nlmsghdr: the total length, the type, a request for acknowledgement, and an unused sequence number and
    // port.
    let mut asked = (16 + message.len() as u32).to_ne_bytes().to_vec();
    asked.extend(libc::RTM_SETLINK.to_ne_bytes());
    asked.extend(((libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16).to_ne_bytes());
    asked.extend([0; 8]);
    asked.extend(message);
    // SAFETY: passes integers and no memory.
    let socket = syscall_result::of(unsafe {
        libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE)
    })?;
    // SAFETY: the descriptor is new, and no other code has it.
    let mut socket = File::from(unsafe { OwnedFd::from_raw_fd(socket) });
    socket.write_all(&asked)?;
    // A header and the negated errno (struct nlmsgerr), 0 on success; then the request.
    let mut answer = [0; 256];
    let length = socket.read(&mut answer)?;
    let errno = answer[..length].get(16..20).and_then(|bytes| Some(-i32::from_ne_bytes(bytes.try_into().ok()?)));
    match errno {
        Some(0) => Ok(()),
        Some(errno) => Err(io::Error::from_raw_os_error(errno)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A request about an interface.
pub(crate) fn named(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: a struct of integers, arrays and a union of them, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays the NUL at the end of the name.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    Ok(request)
}

fn ask(code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // Any socket can be used.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    // SAFETY: the request contains a NUL-terminated name, and the kernel reads and writes nothing else.
    syscall_result::of(unsafe { libc::ioctl(socket.as_raw_fd(), code as _, std::ptr::from_mut(request)) }).map(drop)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut generic = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    // After the port, in network byte order (struct sockaddr_in, ip(7)).
    for (place, byte) in generic.sa_data[2..].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    generic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_an_mtu_and_unknown_names_none() {
        assert!(mtu(LOOPBACK).unwrap() >= 68);
        assert_eq!(mtu("no-such-device").unwrap_err().raw_os_error(), Some(libc::ENODEV));
        for name in ["", "a-name-that-is-too-long"] {
            assert_eq!(mtu(name).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        }
    }
}
