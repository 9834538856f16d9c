//! A TUN device: a network interface whose packets a process reads and writes (Documentation/networking/tuntap.rst).
//!
//! A header precedes each packet ([`Offload`]), so the kernel passes TCP segments in trains, without segmenting them.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::interface::{self, PointToPoint};
use crate::syscall_result;

/// A TUN device. It exists as long as this value.
#[derive(Debug)]
pub struct Tun {
    device: File,
    name: &'static str,
    /// `/proc/net/dev` of the device's network: an open file keeps showing that network, whichever network its reader enters.
    counters: File,
}

impl Tun {
    /// Makes a device in the network that the caller is in, and takes it into service.
    ///
    /// # Errors
    /// Where there is no `/dev/net/tun`, or the caller may not administer the network.
    pub fn make(setup: &PointToPoint) -> io::Result<Tun> {
        let device = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
        let mut request = interface::named(setup.name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the request holds a name that ends; the kernel reads and writes nothing but it.
        syscall_result::of(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) })?;
        let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
        // SAFETY: passes an integer and no memory.
        syscall_result::of(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) })?;
        setup.bring_up()?;
        Ok(Tun { device, name: setup.name, counters: File::open("/proc/self/net/dev")? })
    }

    /// Takes the next packet or train that the network sends, of [`TAKEN_MAX`] bytes at most. Never waits.
    ///
    /// # Errors
    /// `WouldBlock` if there is none.
    pub fn take(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.device).read(buffer)
    }

    /// Gives the network a packet or a train; it is received before this returns.
    ///
    /// # Errors
    /// `EINVAL` if `packet` is no packet, `EIO` where the device was taken out of service.
    pub fn give(&self, packet: &[u8]) -> io::Result<()> {
        (&self.device).write(packet).map(drop)
    }

    /// Packets that were dropped, since the device is there, because those before them were not taken.
    ///
    /// # Errors
    /// If the kernel does not report it.
    pub fn dropped(&mut self) -> io::Result<u64> {
        self.counters.rewind()?;
        let mut text = String::new();
        self.counters.read_to_string(&mut text)?;
        dropped(&text, self.name).ok_or_else(|| io::Error::other(format!("/proc/net/dev does not list {}", self.name)))
    }
}

/// Bytes before each packet (`struct virtio_net_hdr`, include/uapi/linux/virtio_net.h).
pub const PREFIX: usize = 10;

/// The most that is taken at once, bytes: a train is as long as an IP packet may be.
pub const TAKEN_MAX: usize = PREFIX + 65_536;

/// The header of a packet: the work that a network card would still have to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload([u8; PREFIX]);

/// Offsets of its fields: the kind of a train, the length of its headers, and the payload bytes of each segment.
const KIND: usize = 1;
const HEADERS: usize = 2;
const SEGMENT: usize = 4;

/// `VIRTIO_NET_HDR_GSO_NONE`, `VIRTIO_NET_HDR_GSO_TCPV4`: nothing else is left uncut.
const NO_TRAIN: u8 = 0;
const TRAIN: u8 = 1;

impl Offload {
    /// The header at the front of a message; the header of a single packet if the message is too short.
    pub fn of(message: &[u8]) -> Offload {
        Offload(message.first_chunk().copied().unwrap_or_default())
    }

    /// Payload bytes of each segment of a train except the last; `None` for a single packet.
    pub fn segment_bytes(self) -> Option<usize> {
        (self.0[KIND] != NO_TRAIN).then(|| u16::from_ne_bytes([self.0[SEGMENT], self.0[SEGMENT + 1]]).into())
    }

    /// The header for a piece of a train, with `headers` bytes of packet headers: several segments, or a single packet.
    #[must_use]
    pub fn of_piece(mut self, headers: u16, segment: Option<u16>) -> Offload {
        self.0[KIND] = if segment.is_some() { TRAIN } else { NO_TRAIN };
        self.0[HEADERS..SEGMENT].copy_from_slice(&headers.to_ne_bytes());
        self.0[SEGMENT..SEGMENT + 2].copy_from_slice(&segment.unwrap_or_default().to_ne_bytes());
        self
    }

    /// Its bytes, which precede the packet.
    pub fn bytes(&self) -> &[u8; PREFIX] {
        &self.0
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// The packets that an interface did not send, in the text of `/proc/net/dev`: the fourth of what was transmitted (proc(5)).
fn dropped(text: &str, name: &str) -> Option<u64> {
    let counts = |line| str::trim_start(line).strip_prefix(name)?.strip_prefix(':');
    text.lines().find_map(counts)?.split_whitespace().nth(11)?.parse().ok()
}

/// Waits up to `timeout_ns` nanoseconds until a descriptor can be read (ppoll(2)). Returns which of them can.
///
/// # Errors
/// The error of ppoll(2); `Interrupted` by a signal.
pub fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], timeout_ns: Option<u64>) -> io::Result<[bool; N]> {
    let mut polled = fds.map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    let timeout = timeout_ns.map(|ns| libc::timespec {
        tv_sec: (ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (ns % 1_000_000_000) as libc::c_long,
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the kernel reads and writes as many entries as are there, and reads a time that lives until it returns.
    syscall_result::of(unsafe { libc::ppoll(polled.as_mut_ptr(), N as libc::nfds_t, timeout, std::ptr::null()) })?;
    Ok(polled.map(|one| one.revents != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_an_interface_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  far0: \
                    0 0 0 0 0 0 0 0 900 10 0 77 0 0 0 0\n";
        assert_eq!((dropped(text, "far0"), dropped(text, "lo"), dropped(text, "far")), (Some(77), Some(12), None));
        let real = std::fs::read_to_string("/proc/self/net/dev").unwrap();
        assert!(dropped(&real, interface::LOOPBACK).is_some(), "{real}");
    }

    #[test]
    fn a_piece_has_the_header_of_its_kind() {
        let packet = Offload::of(&[]);
        let train = packet.of_piece(52, Some(1448));
        assert_eq!((packet.segment_bytes(), train.segment_bytes()), (None, Some(1448)));
        assert_eq!(Offload::of(train.bytes()), train);
        assert_eq!(train.of_piece(52, None).segment_bytes(), None);
        assert_eq!(train.of_piece(52, None).bytes()[2..4], 52_u16.to_ne_bytes());
    }

    #[test]
    fn readable_returns_ready_ends_within_the_timeout() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(readable([reader.as_fd()], Some(1)).unwrap(), [false]);
        writer.write_all(b"x").unwrap();
        assert_eq!(readable([reader.as_fd(), reader.as_fd()], None).unwrap(), [true, true]);
    }
}
