//! Networks of this host: interfaces of the caller's network namespace, namespaces of its own and their settings, and TUN devices.
//!
//! Interfaces are asked by ioctl instead of sysfs, whose files show the namespace of the process that mounted it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use rustix::event::{self, PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::clock::timespec;
use crate::{errno, new_file};

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
    // No protocol is `NETLINK_ROUTE`.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    let mut socket = File::from(socket);
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
    errno::of(unsafe { libc::ioctl(socket.as_raw_fd(), code as _, std::ptr::from_mut(request)) }).map(drop)
}

fn socket_address(address: Ipv4Addr) -> libc::sockaddr {
    let mut generic = libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data: [0; 14] };
    // After the port, in network byte order (struct sockaddr_in, ip(7)).
    for (place, byte) in generic.sa_data[2..].iter_mut().zip(address.octets()) {
        *place = byte as libc::c_char;
    }
    generic
}

// Network namespaces without privileges (user_namespaces(7), network_namespaces(7)), and children that enter them
// before they execute a program.
//
// Never changes the namespaces of a process that has other threads: the kernel refuses it.

/// A network namespace, and the user namespace that owns it, where that is not the caller's: access to the second permits entering the first.
#[derive(Debug)]
pub struct HeldNetwork {
    user: Option<File>,
    network: File,
}

/// Moves the calling process into a new network namespace; where its user may not, into a new user namespace with the same user and all
/// capabilities, and there into a new network namespace. In the first case programs can change their user, as servers do.
///
/// # Errors
/// The error of unshare(2) or of writing the maps: `EPERM` or `ENOSPC` where the system forbids user namespaces.
pub fn leave_for_own_network() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    if leave_for_another_network().is_ok() {
        return Ok(());
    }
    // SAFETY: passes flags and no memory.
    errno::of(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET) })?;
    // A group may be mapped only after this (user_namespaces(7)).
    new_file::set("/proc/self/setgroups", "deny")?;
    new_file::set("/proc/self/uid_map", format!("{user} {user} 1"))?;
    new_file::set("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// Moves the calling process into another new network namespace of its user namespace.
///
/// # Errors
/// The error of unshare(2).
pub fn leave_for_another_network() -> io::Result<()> {
    // SAFETY: passes a flag and no memory.
    errno::of(unsafe { libc::unshare(libc::CLONE_NEWNET) }).map(drop)
}

/// Opens the network namespace of the caller. Processes that may access this process can enter it by the descriptor.
///
/// # Errors
/// Without `/proc`.
pub fn own_network() -> io::Result<File> {
    File::open("/proc/self/ns/net")
}

/// Moves the calling thread into a network namespace of its user namespace.
///
/// # Errors
/// The error of setns(2).
pub fn enter_network(network: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// A setting of the caller's network namespace (`/proc/sys/net` shows that of the reader), its words separated by spaces.
///
/// # Errors
/// `NotFound` if the kernel has no such setting, or one for the whole machine alone.
pub fn network_option(name: &str) -> io::Result<String> {
    let text = fs::read_to_string(format!("/proc/sys/{name}"))?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Changes a setting of the caller's network namespace.
///
/// # Errors
/// As for [`network_option`]; where `/proc/sys` is read-only; `InvalidInput` for a value that the kernel refuses.
pub fn set_network_option(name: &str, value: &str) -> io::Result<()> {
    new_file::set(format!("/proc/sys/{name}"), value)
}

/// The settings of the caller's network namespace for TCP, by name, with their values.
pub fn tcp_options() -> Vec<(String, String)> {
    let files = fs::read_dir("/proc/sys/net/ipv4").into_iter().flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok()).filter(|name| name.starts_with("tcp_"));
    let named = |name: String| {
        let name = format!("net/ipv4/{name}");
        network_option(&name).ok().map(|value| (name, value))
    };
    names.filter_map(named).collect()
}

/// The kernel's tables of a network namespace (`/proc/PID/net`): of the calling process, or of another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkTables(Option<u32>);

impl NetworkTables {
    /// Of the calling process.
    pub const fn own() -> NetworkTables {
        NetworkTables(None)
    }

    /// Of the process with this number.
    pub const fn of_process(pid: u32) -> NetworkTables {
        NetworkTables(Some(pid))
    }

    /// The file of a table, such as `tcp`.
    pub fn path(self, table: &str) -> PathBuf {
        match self.0 {
            None => format!("/proc/net/{table}").into(),
            Some(pid) => format!("/proc/{pid}/net/{table}").into(),
        }
    }
}

impl HeldNetwork {
    /// The network namespace that a process of the same user holds as a descriptor, and that process's user namespace if it is another one.
    ///
    /// # Errors
    /// If the process does not exist or belongs to another user.
    pub fn held_by(process: u32, descriptor: i32) -> io::Result<HeldNetwork> {
        let user = File::open(format!("/proc/{process}/ns/user"))?;
        let is_own = user.metadata()?.ino() == fs::metadata("/proc/self/ns/user")?.ino();
        let user = (!is_own).then_some(user);
        Ok(HeldNetwork { user, network: File::open(format!("/proc/{process}/fd/{descriptor}"))? })
    }
}

/// Makes the child that `command` will start run in a network namespace, as the same user.
pub fn run_in(command: &mut Command, network: &Arc<HeldNetwork>) {
    let network = Arc::clone(network);
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The closure makes two bare system calls on
    // descriptors that it keeps open and, on failure, builds an io::Error from a number: no allocation and no lock.
    unsafe {
        command.pre_exec(move || {
            if let Some(user) = &network.user {
                move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
            }
            enter_network(&network.network)
        });
    }
}

// A TUN device: a network interface whose packets a process reads and writes (Documentation/networking/tuntap.rst).
//
// A header precedes each packet ([`Offload`]), so the kernel passes TCP segments in trains, without segmenting them.

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
        let mut request = named(setup.name)?;
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: the request holds a name that ends; the kernel reads and writes nothing but it.
        errno::of(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &mut request) })?;
        let offloads = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
        // SAFETY: passes an integer and no memory.
        errno::of(unsafe { libc::ioctl(device.as_raw_fd(), libc::TUNSETOFFLOAD as _, offloads) })?;
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
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    event::poll(&mut polled, timeout_ns.map(timespec).as_ref())?;
    Ok(polled.map(|one| !one.revents().is_empty()))
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

#[cfg(test)]
mod tun_tests {
    use super::*;

    #[test]
    fn drops_of_an_interface_are_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  far0: \
                    0 0 0 0 0 0 0 0 900 10 0 77 0 0 0 0\n";
        assert_eq!((dropped(text, "far0"), dropped(text, "lo"), dropped(text, "far")), (Some(77), Some(12), None));
        let real = fs::read_to_string("/proc/self/net/dev").unwrap();
        assert!(dropped(&real, LOOPBACK).is_some(), "{real}");
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
