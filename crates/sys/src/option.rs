//! Socket options: what is asked for, and what the kernel made of it.
//!
//! Linux accepts many values only in part. It doubles `SO_SNDBUF` and `SO_RCVBUF` to make room
//! for its own structures and clamps them at `net.core.wmem_max` and `rmem_max` in silence
//! (socket(7)); setting either switches TCP's autotuning of that buffer off (tcp(7)). So a report
//! shows [`effective`] beside the request, read after the connection stands.
//!
//! Sizes here are bytes as the kernel counts them: memory with overhead, not payload.
//! Never corrects a request and never picks a default.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::sockopt::{self, Name};

/// The longest name of a congestion control, its NUL included (`TCP_CA_NAME_MAX`, linux/tcp.h).
const CONGESTION_NAME_MAX: usize = 16;

const SEND_BUFFER: Name = Name(libc::SOL_SOCKET, libc::SO_SNDBUF);
const SEND_BUFFER_FORCE: Name = Name(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE);
const RECEIVE_BUFFER: Name = Name(libc::SOL_SOCKET, libc::SO_RCVBUF);
const RECEIVE_BUFFER_FORCE: Name = Name(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE);
const RECEIVE_LOW_WATER: Name = Name(libc::SOL_SOCKET, libc::SO_RCVLOWAT);
const BUSY_POLL: Name = Name(libc::SOL_SOCKET, libc::SO_BUSY_POLL);
const ZERO_COPY: Name = Name(libc::SOL_SOCKET, libc::SO_ZEROCOPY);
const REUSE_ADDRESS: Name = Name(libc::SOL_SOCKET, libc::SO_REUSEADDR);
const REUSE_PORT: Name = Name(libc::SOL_SOCKET, libc::SO_REUSEPORT);
const LINGER: Name = Name(libc::SOL_SOCKET, libc::SO_LINGER);
const BIND_ADDRESS_NO_PORT: Name = Name(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT);
const RECEIVE_OVERFLOW: Name = Name(libc::SOL_SOCKET, libc::SO_RXQ_OVFL);
const INCOMING_CPU: Name = Name(libc::SOL_SOCKET, libc::SO_INCOMING_CPU);
const NO_DELAY: Name = Name(libc::IPPROTO_TCP, libc::TCP_NODELAY);
const USER_TIMEOUT: Name = Name(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT);
const CORK: Name = Name(libc::IPPROTO_TCP, libc::TCP_CORK);
const QUICK_ACK: Name = Name(libc::IPPROTO_TCP, libc::TCP_QUICKACK);
const CONGESTION: Name = Name(libc::IPPROTO_TCP, libc::TCP_CONGESTION);
const NOT_SENT_LOW_WATER: Name = Name(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
const MAX_SEGMENT: Name = Name(libc::IPPROTO_TCP, libc::TCP_MAXSEG);
const WINDOW_CLAMP: Name = Name(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP);
/// Send segmentation and receive coalescing of UDP (udp(7)).
const UDP_SEGMENT: Name = Name(libc::IPPROTO_UDP, libc::UDP_SEGMENT);
const UDP_COALESCE: Name = Name(libc::IPPROTO_UDP, libc::UDP_GRO);

/// One option and its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SocketOption {
    /// `SO_SNDBUF`, bytes; doubled, then clamped at twice `net.core.wmem_max`.
    SendBuffer(usize),
    /// `SO_SNDBUFFORCE`, bytes; doubled, not clamped. Needs `CAP_NET_ADMIN`.
    SendBufferForce(usize),
    /// `SO_RCVBUF`, bytes; doubled, then clamped at twice `net.core.rmem_max`. The window scale
    /// is settled in the handshake, so on TCP set it before connect or listen (tcp(7)).
    ReceiveBuffer(usize),
    /// `SO_RCVBUFFORCE`, bytes; doubled, not clamped. Needs `CAP_NET_ADMIN`.
    ReceiveBufferForce(usize),
    /// `SO_RCVLOWAT`, bytes that must be queued before a reader wakes; 0 becomes 1. On TCP it is
    /// capped at half the receive buffer, or grows an unset one (net/ipv4/tcp.c,
    /// `tcp_set_rcvlowat`).
    ReceiveLowWater(usize),
    /// `TCP_NODELAY`: send small segments at once.
    NoDelay(bool),
    /// `TCP_CORK`: hold partial segments back, for at most 200 ms.
    Cork(bool),
    /// `TCP_QUICKACK`: acknowledge at once. Not lasting: the kernel may leave the mode again.
    QuickAck(bool),
    /// `TCP_CONGESTION`: the name of a congestion control, see [`available_congestion`].
    Congestion(String),
    /// `TCP_NOTSENT_LOWAT`, unsent bytes above which the socket stops being writable.
    NotSentLowWater(u32),
    /// `TCP_MAXSEG`, bytes; before connect or listen it also bounds what is announced.
    MaxSegment(u32),
    /// `TCP_WINDOW_CLAMP`, bytes: an upper bound of the announced window.
    WindowClamp(u32),
    /// `SO_BUSY_POLL`, µs to poll the device before sleeping. Raising it needs `CAP_NET_ADMIN`.
    BusyPollUs(u32),
    /// `SO_ZEROCOPY`: allow `MSG_ZEROCOPY`, which copies all the same on loopback.
    ZeroCopy(bool),
    /// `SO_REUSEADDR`.
    ReuseAddress(bool),
    /// `SO_REUSEPORT`.
    ReusePort(bool),
    /// `IP_BIND_ADDRESS_NO_PORT`: bind to an address and leave the port to connect, which may take one that
    /// is in use towards another peer (ip(7)).
    BindAddressNoPort(bool),
    /// `TCP_USER_TIMEOUT`, ms that data, or a request to connect, may stay unanswered before the connection
    /// ends in `ETIMEDOUT`; 0 leaves it to the system (tcp(7)).
    UserTimeoutMs(u32),
    /// `SO_LINGER`, seconds that close may wait; `Some(0)` resets the connection on close.
    Linger(Option<u16>),
    /// `SO_RXQ_OVFL`: attach the count of dropped datagrams to each received one.
    ReceiveOverflow(bool),
    /// `UDP_SEGMENT`, bytes: the kernel cuts one send into datagrams of this size (GSO).
    UdpSegment(u16),
    /// `UDP_GRO`: the kernel joins datagrams of one flow into one receive.
    UdpCoalesce(bool),
}

impl fmt::Display for SocketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SendBuffer(bytes) => write!(f, "SO_SNDBUF={bytes}"),
            Self::SendBufferForce(bytes) => write!(f, "SO_SNDBUFFORCE={bytes}"),
            Self::ReceiveBuffer(bytes) => write!(f, "SO_RCVBUF={bytes}"),
            Self::ReceiveBufferForce(bytes) => write!(f, "SO_RCVBUFFORCE={bytes}"),
            Self::ReceiveLowWater(bytes) => write!(f, "SO_RCVLOWAT={bytes}"),
            Self::NoDelay(on) => write!(f, "TCP_NODELAY={on}"),
            Self::Cork(on) => write!(f, "TCP_CORK={on}"),
            Self::QuickAck(on) => write!(f, "TCP_QUICKACK={on}"),
            Self::Congestion(name) => write!(f, "TCP_CONGESTION={name}"),
            Self::NotSentLowWater(bytes) => write!(f, "TCP_NOTSENT_LOWAT={bytes}"),
            Self::MaxSegment(bytes) => write!(f, "TCP_MAXSEG={bytes}"),
            Self::WindowClamp(bytes) => write!(f, "TCP_WINDOW_CLAMP={bytes}"),
            Self::BusyPollUs(us) => write!(f, "SO_BUSY_POLL={us}us"),
            Self::ZeroCopy(on) => write!(f, "SO_ZEROCOPY={on}"),
            Self::ReuseAddress(on) => write!(f, "SO_REUSEADDR={on}"),
            Self::ReusePort(on) => write!(f, "SO_REUSEPORT={on}"),
            Self::BindAddressNoPort(on) => write!(f, "IP_BIND_ADDRESS_NO_PORT={on}"),
            Self::UserTimeoutMs(ms) => write!(f, "TCP_USER_TIMEOUT={ms}ms"),
            Self::Linger(Some(s)) => write!(f, "SO_LINGER={s}s"),
            Self::Linger(None) => write!(f, "SO_LINGER=off"),
            Self::ReceiveOverflow(on) => write!(f, "SO_RXQ_OVFL={on}"),
            Self::UdpSegment(bytes) => write!(f, "UDP_SEGMENT={bytes}"),
            Self::UdpCoalesce(on) => write!(f, "UDP_GRO={on}"),
        }
    }
}

/// An option that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{option}: {source}: {}", next_step(.option, .source))]
pub struct OptionError {
    /// What was asked for.
    pub option: SocketOption,
    /// What the kernel answered.
    pub source: io::Error,
}

impl From<OptionError> for io::Error {
    fn from(error: OptionError) -> Self {
        Self::new(error.source.kind(), error.to_string())
    }
}

fn next_step(option: &SocketOption, error: &io::Error) -> &'static str {
    match (option, error.raw_os_error()) {
        (SocketOption::Congestion(_), Some(libc::ENOENT)) => {
            "choose one of net.ipv4.tcp_available_congestion_control, or load its kernel module"
        }
        (SocketOption::Congestion(_), Some(libc::EPERM)) => {
            "choose one of net.ipv4.tcp_allowed_congestion_control, or run as root"
        }
        (_, Some(libc::EPERM)) => "give the program CAP_NET_ADMIN, or leave the option out",
        (_, Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP | libc::ENOTSOCK)) => {
            "this transport or kernel lacks the option: leave it out"
        }
        _ => "choose another value, or leave the option out",
    }
}

/// Sets one option.
///
/// # Errors
///
/// [`OptionError`], whose message names the next step. A value that the kernel clamps is *not* an
/// error: read [`effective`].
pub fn set(fd: BorrowedFd<'_>, option: &SocketOption) -> Result<(), OptionError> {
    set_raw(fd, option).map_err(|source| OptionError { option: option.clone(), source })
}

fn set_raw(fd: BorrowedFd<'_>, option: &SocketOption) -> io::Result<()> {
    let int = |name, value: usize| sockopt::write_int(fd, name, saturated(value));
    let flag = |name, on: bool| sockopt::write_int(fd, name, on.into());
    match option {
        SocketOption::SendBuffer(bytes) => int(SEND_BUFFER, *bytes),
        SocketOption::SendBufferForce(bytes) => int(SEND_BUFFER_FORCE, *bytes),
        SocketOption::ReceiveBuffer(bytes) => int(RECEIVE_BUFFER, *bytes),
        SocketOption::ReceiveBufferForce(bytes) => int(RECEIVE_BUFFER_FORCE, *bytes),
        SocketOption::ReceiveLowWater(bytes) => int(RECEIVE_LOW_WATER, *bytes),
        SocketOption::NoDelay(on) => flag(NO_DELAY, *on),
        SocketOption::Cork(on) => flag(CORK, *on),
        SocketOption::QuickAck(on) => flag(QUICK_ACK, *on),
        SocketOption::Congestion(name) => sockopt::write_bytes(fd, CONGESTION, name.as_bytes()),
        SocketOption::NotSentLowWater(bytes) => int(NOT_SENT_LOW_WATER, *bytes as usize),
        SocketOption::MaxSegment(bytes) => int(MAX_SEGMENT, *bytes as usize),
        SocketOption::WindowClamp(bytes) => int(WINDOW_CLAMP, *bytes as usize),
        SocketOption::BusyPollUs(us) => int(BUSY_POLL, *us as usize),
        SocketOption::ZeroCopy(on) => flag(ZERO_COPY, *on),
        SocketOption::ReuseAddress(on) => flag(REUSE_ADDRESS, *on),
        SocketOption::ReusePort(on) => flag(REUSE_PORT, *on),
        SocketOption::BindAddressNoPort(on) => flag(BIND_ADDRESS_NO_PORT, *on),
        SocketOption::UserTimeoutMs(ms) => int(USER_TIMEOUT, *ms as usize),
        SocketOption::Linger(seconds) => set_linger(fd, *seconds),
        SocketOption::ReceiveOverflow(on) => flag(RECEIVE_OVERFLOW, *on),
        SocketOption::UdpSegment(bytes) => int(UDP_SEGMENT, usize::from(*bytes)),
        SocketOption::UdpCoalesce(on) => flag(UDP_COALESCE, *on),
    }
}

/// The kernel takes an int. What lies beyond one is beyond every buffer, and clamped anyway.
fn saturated(value: usize) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX)
}

fn set_linger(fd: BorrowedFd<'_>, seconds: Option<u16>) -> io::Result<()> {
    // struct linger is two ints: on or off, and the seconds (socket(7)).
    let on = libc::c_int::from(seconds.is_some()).to_ne_bytes();
    let seconds = libc::c_int::from(seconds.unwrap_or(0)).to_ne_bytes();
    sockopt::write_bytes(fd, LINGER, &[on, seconds].concat())
}

/// What is in force on a socket. `None` where an option does not apply or is unknown here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveOptions {
    /// `SO_SNDBUF`, bytes, after doubling and clamping.
    pub sndbuf: Option<usize>,
    /// `SO_RCVBUF`, bytes, after doubling and clamping; grows while TCP tunes it.
    pub rcvbuf: Option<usize>,
    /// `SO_RCVLOWAT`, bytes.
    pub rcvlowat: Option<usize>,
    /// `TCP_NODELAY`.
    pub nodelay: Option<bool>,
    /// `TCP_CORK`.
    pub cork: Option<bool>,
    /// `TCP_QUICKACK`, at this moment.
    pub quickack: Option<bool>,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// `TCP_NOTSENT_LOWAT`, bytes; 0 means the sysctl's value rules.
    pub notsent_lowat: Option<u32>,
    /// `TCP_MAXSEG`, bytes.
    pub max_segment: Option<u32>,
    /// `TCP_WINDOW_CLAMP`, bytes.
    pub window_clamp: Option<u32>,
    /// `SO_BUSY_POLL`, µs.
    pub busy_poll_us: Option<u32>,
    /// `SO_ZEROCOPY`.
    pub zerocopy: Option<bool>,
    /// `UDP_SEGMENT`, bytes; 0 means off.
    pub udp_segment: Option<u32>,
    /// `UDP_GRO`.
    pub udp_coalesce: Option<bool>,
}

/// Reads every option that applies to the descriptor. For a pipe or a file all are `None`.
#[must_use]
pub fn effective(fd: BorrowedFd<'_>) -> EffectiveOptions {
    let int = |name| sockopt::read_int(fd, name).ok();
    let size = |name| int(name).and_then(|value| usize::try_from(value).ok());
    let count = |name| int(name).and_then(|value| u32::try_from(value).ok());
    let flag = |name| int(name).map(|value| value != 0);
    EffectiveOptions {
        sndbuf: size(SEND_BUFFER),
        rcvbuf: size(RECEIVE_BUFFER),
        rcvlowat: size(RECEIVE_LOW_WATER),
        nodelay: flag(NO_DELAY),
        cork: flag(CORK),
        quickack: flag(QUICK_ACK),
        congestion: congestion(fd).ok(),
        notsent_lowat: count(NOT_SENT_LOW_WATER),
        max_segment: count(MAX_SEGMENT),
        window_clamp: count(WINDOW_CLAMP),
        busy_poll_us: count(BUSY_POLL),
        zerocopy: flag(ZERO_COPY),
        udp_segment: count(UDP_SEGMENT),
        udp_coalesce: flag(UDP_COALESCE),
    }
}

fn congestion(fd: BorrowedFd<'_>) -> io::Result<String> {
    let mut name = [0u8; CONGESTION_NAME_MAX];
    let len = sockopt::read_bytes(fd, CONGESTION, &mut name)?;
    let name = &name[..len];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(len);
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

/// The CPU on which the kernel last received for this socket (`SO_INCOMING_CPU`, socket(7)).
/// `None` while nothing has arrived.
///
/// # Errors
///
/// `ENOTSOCK` for a pipe or a file.
pub fn incoming_cpu(fd: BorrowedFd<'_>) -> io::Result<Option<usize>> {
    // The field starts as −1.
    sockopt::read_int(fd, INCOMING_CPU).map(|cpu| usize::try_from(cpu).ok())
}

/// The congestion controls that are loaded (`net.ipv4.tcp_available_congestion_control`).
/// Naming another one makes the kernel try to load its module, if the caller is privileged.
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn available_congestion() -> io::Result<Vec<String>> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The congestion control of new sockets (`net.ipv4.tcp_congestion_control`).
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn default_congestion() -> io::Result<String> {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn check(option: &SocketOption, expected: impl Fn(&EffectiveOptions) -> bool) {
        let (client, _server) = connected();
        set(client.as_fd(), option).unwrap();
        let effective = effective(client.as_fd());
        assert!(expected(&effective), "{option}: {effective:?}");
    }

    #[test]
    fn what_is_set_on_tcp_is_read_back() {
        check(&SocketOption::NoDelay(true), |e| e.nodelay == Some(true));
        check(&SocketOption::NoDelay(false), |e| e.nodelay == Some(false));
        check(&SocketOption::Cork(true), |e| e.cork == Some(true));
        check(&SocketOption::QuickAck(false), |e| e.quickack == Some(false));
        check(&SocketOption::NotSentLowWater(9000), |e| e.notsent_lowat == Some(9000));
        check(&SocketOption::ReceiveLowWater(4096), |e| e.rcvlowat == Some(4096));
        check(&SocketOption::ZeroCopy(true), |e| e.zerocopy == Some(true));
        check(&SocketOption::ReuseAddress(true), |_| true);
        check(&SocketOption::ReusePort(true), |_| true);
        check(&SocketOption::WindowClamp(65_536), |e| e.window_clamp.is_some());
        check(&SocketOption::BusyPollUs(0), |e| e.busy_poll_us == Some(0));
    }

    #[test]
    fn buffers_are_doubled() {
        check(&SocketOption::SendBuffer(50_000), |e| e.sndbuf == Some(100_000));
        check(&SocketOption::ReceiveBuffer(50_000), |e| e.rcvbuf == Some(100_000));
    }

    #[test]
    fn buffers_are_clamped_and_that_is_no_error() {
        check(&SocketOption::ReceiveBuffer(usize::MAX), |e| e.rcvbuf.is_some_and(|bytes| bytes < 1 << 31));
    }

    #[test]
    fn low_water_of_zero_becomes_one() {
        check(&SocketOption::ReceiveLowWater(0), |e| e.rcvlowat == Some(1));
    }

    #[test]
    fn congestion_control_is_read_and_set() {
        assert!(available_congestion().unwrap().contains(&default_congestion().unwrap()));
        let (client, _server) = connected();
        let default = default_congestion().unwrap();
        assert_eq!(effective(client.as_fd()).congestion, Some(default.clone()));
        // Reno is built into every kernel and allowed to everyone.
        check(&SocketOption::Congestion("reno".to_owned()), |e| e.congestion.as_deref() == Some("reno"));
    }

    #[test]
    fn an_unknown_congestion_control_names_the_next_step() {
        let (client, _server) = connected();
        let option = SocketOption::Congestion("no-such-thing".to_owned());
        let error = set(client.as_fd(), &option).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT));
        let text = error.to_string();
        assert!(text.starts_with("TCP_CONGESTION=no-such-thing: "), "{text}");
        assert!(text.contains("tcp_available_congestion_control"), "{text}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_linger_of_zero_resets() {
        let (client, server) = connected();
        set(client.as_fd(), &SocketOption::Linger(Some(0))).unwrap();
        drop(client);
        let error = crate::io::read(server.as_fd(), &mut [0u8; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn udp_has_udps_options_only() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set(socket.as_fd(), &SocketOption::UdpSegment(1000)).unwrap();
        set(socket.as_fd(), &SocketOption::UdpCoalesce(true)).unwrap();
        set(socket.as_fd(), &SocketOption::ReceiveOverflow(true)).unwrap();
        let effective = effective(socket.as_fd());
        assert_eq!(effective.udp_segment, Some(1000));
        assert_eq!(effective.udp_coalesce, Some(true));
        assert_eq!(effective.nodelay, None);
        assert_eq!(effective.congestion, None);
        assert!(set(socket.as_fd(), &SocketOption::NoDelay(true)).is_err());
    }

    #[test]
    fn unix_sockets_have_buffers_only() {
        let (left, _right) = UnixStream::pair().unwrap();
        let effective = effective(left.as_fd());
        assert!(effective.sndbuf.is_some() && effective.rcvbuf.is_some());
        assert_eq!(effective.nodelay, None);
        assert_eq!(effective.udp_segment, None);
    }

    #[test]
    fn a_pipe_has_none() {
        let (reader, _writer) = crate::pipe::anonymous().unwrap();
        assert_eq!(effective(reader.as_fd()), EffectiveOptions::default());
        let error = set(reader.as_fd(), &SocketOption::SendBuffer(1)).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOTSOCK));
    }

    #[test]
    fn a_connection_that_received_knows_its_cpu() {
        let (client, server) = connected();
        crate::io::write(client.as_fd(), b"x").unwrap();
        crate::io::read(server.as_fd(), &mut [0u8; 1]).unwrap();
        assert!(incoming_cpu(server.as_fd()).unwrap().is_some());
    }
}
