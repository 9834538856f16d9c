//! Options of sockets and pipes: requested and effective values.
//!
//! Linux accepts many values only in part. It doubles `SO_SNDBUF` and `SO_RCVBUF` to make room for its own structures
//! and silently clamps them at `net.core.wmem_max` and `rmem_max` (socket(7)). Setting either turns off TCP's
//! autotuning of that buffer (tcp(7)). So a report shows both the request and the value from [`read`] after connecting.
//!
//! Sizes are bytes as the kernel counts them: memory with overhead, not payload. Never corrects a request and never
//! selects a default.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{fmt, fs, io};

use crate::{errno, pipe};

/// The longest name of a congestion control, its NUL included (`TCP_CA_NAME_MAX`, linux/tcp.h).
const CONGESTION_NAME_MAX: usize = 16;

/// An option of the kernel: its location, and the form of its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelOption {
    /// The kernel's name for it.
    pub name: &'static str,
    /// Its level and its number there, as setsockopt(2) takes them; both 0 for a pipe.
    pub place: Place,
    /// The form of its value.
    pub form: Form,
    /// The unit after the number.
    pub suffix: &'static str,
}

/// Where a socket option is: its level and its number there.
pub type Place = (libc::c_int, libc::c_int);

/// The form in which the kernel takes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A number, as an int.
    Int,
    /// A number of 64 bits, as an unsigned long.
    Long,
    /// On or off, as an int.
    Flag,
    /// A name of at most `CONGESTION_NAME_MAX` bytes.
    Text,
    /// `struct linger`.
    Linger,
    /// A pipe's option, set by fcntl(2).
    Pipe,
    /// The number of a CPU, as an int; read as whether there is one, since -1 means none.
    Cpu,
}

const fn int(level: libc::c_int, number: libc::c_int, name: &'static str) -> KernelOption {
    KernelOption { name, place: (level, number), form: Form::Int, suffix: "" }
}

const fn flag(level: libc::c_int, number: libc::c_int, name: &'static str) -> KernelOption {
    KernelOption { form: Form::Flag, ..int(level, number, name) }
}

/// `SO_SNDBUF`, bytes; doubled, then clamped at twice `net.core.wmem_max`.
pub const SEND_BUFFER: KernelOption = int(libc::SOL_SOCKET, libc::SO_SNDBUF, "SO_SNDBUF");
/// `SO_RCVBUF`, bytes; doubled, then clamped at twice `net.core.rmem_max`. The window scale
/// is settled in the handshake, so on TCP set it before connect or listen (tcp(7)).
pub const RECEIVE_BUFFER: KernelOption = int(libc::SOL_SOCKET, libc::SO_RCVBUF, "SO_RCVBUF");
/// `SO_SNDBUFFORCE`, bytes; doubled, not clamped. Needs `CAP_NET_ADMIN`.
pub const SEND_BUFFER_FORCE: KernelOption = int(libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, "SO_SNDBUFFORCE");
/// `SO_RCVBUFFORCE`, bytes; doubled, not clamped. Needs `CAP_NET_ADMIN`.
pub const RECEIVE_BUFFER_FORCE: KernelOption = int(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, "SO_RCVBUFFORCE");
/// `SO_REUSEPORT`.
pub const REUSE_PORT: KernelOption = flag(libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT");
/// `SO_LINGER`, seconds that close may wait; 0 resets the connection on close, off closes it in the background.
pub const LINGER: KernelOption =
    KernelOption { form: Form::Linger, suffix: "s", ..int(libc::SOL_SOCKET, libc::SO_LINGER, "SO_LINGER") };
/// `IP_BIND_ADDRESS_NO_PORT`: bind to an address without a port. connect then selects a port, possibly one that is in
/// use towards another peer (ip(7)).
pub const BIND_ADDRESS_NO_PORT: KernelOption =
    flag(libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT");
/// `TCP_NODELAY`: send small segments at once.
pub const NO_DELAY: KernelOption = flag(libc::IPPROTO_TCP, libc::TCP_NODELAY, "TCP_NODELAY");
/// `TCP_CORK`: send full segments only, until it is off again.
pub const CORK: KernelOption = flag(libc::IPPROTO_TCP, libc::TCP_CORK, "TCP_CORK");
/// `TCP_QUICKACK`: acknowledge at once, until the kernel changes the mode.
pub const QUICK_ACK: KernelOption = flag(libc::IPPROTO_TCP, libc::TCP_QUICKACK, "TCP_QUICKACK");
/// `TCP_USER_TIMEOUT`, ms that data, or a connection request, may stay unacknowledged before the connection fails with
/// `ETIMEDOUT`; 0 uses the system's default (tcp(7)).
pub const USER_TIMEOUT: KernelOption =
    KernelOption { suffix: "ms", ..int(libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT") };
/// `TCP_DEFER_ACCEPT`, seconds. A connection can be accepted when its first bytes arrive, or after this time without
/// any (tcp(7)).
pub const DEFER_ACCEPT: KernelOption =
    KernelOption { suffix: "s", ..int(libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT") };
/// `TCP_CONGESTION`: the name of a congestion control, see [`available_congestion`].
pub const CONGESTION: KernelOption =
    KernelOption { form: Form::Text, ..int(libc::IPPROTO_TCP, libc::TCP_CONGESTION, "TCP_CONGESTION") };
/// `UDP_SEGMENT`, bytes: the kernel cuts one send into datagrams of this size (udp(7)).
pub const UDP_SEGMENT: KernelOption = int(libc::IPPROTO_UDP, libc::UDP_SEGMENT, "UDP_SEGMENT");
/// `UDP_GRO`: the kernel joins datagrams of one flow into one receive (udp(7)).
pub const UDP_COALESCE: KernelOption = flag(libc::IPPROTO_UDP, libc::UDP_GRO, "UDP_GRO");
/// `F_SETPIPE_SZ`, bytes that a pipe holds; rounded up to a power of two of pages (fcntl(2)).
pub const PIPE_SIZE: KernelOption = KernelOption { form: Form::Pipe, ..int(0, 0, "F_SETPIPE_SZ") };

impl KernelOption {
    /// The option with a value.
    pub fn to(self, value: impl Into<Value>) -> SocketOption {
        SocketOption { known: self, value: value.into() }
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// In the kernel's units.
    Number(u64),
    /// On or off.
    Switch(bool),
    /// A name.
    Text(String),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<bool> for Value {
    fn from(on: bool) -> Value {
        Value::Switch(on)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// An option and its requested value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketOption {
    /// The option.
    pub known: KernelOption,
    /// The value.
    pub value: Value,
}

impl fmt::Display for SocketOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelOption { name, suffix, .. } = self.known;
        match &self.value {
            Value::Number(number) => write!(f, "{name}={number}{suffix}"),
            Value::Switch(on) => write!(f, "{name}={on}"),
            Value::Text(text) => write!(f, "{name}={text}"),
        }
    }
}

/// An option that the kernel refused.
#[derive(Debug, thiserror::Error)]
#[error("{option}: {source}: {}", next_step(.option, .source))]
pub struct OptionError {
    /// The request.
    pub option: SocketOption,
    /// The kernel's error.
    pub source: io::Error,
}

impl From<OptionError> for io::Error {
    fn from(error: OptionError) -> Self {
        Self::new(error.source.kind(), error.to_string())
    }
}

fn next_step(option: &SocketOption, error: &io::Error) -> &'static str {
    match (option.known, error.raw_os_error()) {
        (CONGESTION, Some(libc::ENOENT)) => {
            "choose one of net.ipv4.tcp_available_congestion_control, or load its kernel module"
        }
        (CONGESTION, Some(libc::EPERM)) => "choose one of net.ipv4.tcp_allowed_congestion_control, or run as root",
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
/// [`OptionError`], whose message contains the next step. A value that the kernel clamps is *not* an error: [`read`] it
/// back.
pub fn set(fd: BorrowedFd<'_>, option: &SocketOption) -> Result<(), OptionError> {
    set_raw(fd, option).map_err(|source| OptionError { option: option.clone(), source })
}

fn set_raw(fd: BorrowedFd<'_>, option: &SocketOption) -> io::Result<()> {
    let KernelOption { place, form, .. } = option.known;
    match (form, &option.value) {
        (Form::Int | Form::Cpu, Value::Number(number)) => write_int(fd, place, saturated(*number)),
        (Form::Long, Value::Number(number)) => write_bytes(fd, place, &number.to_ne_bytes()),
        (Form::Flag, Value::Number(number)) => write_int(fd, place, (*number != 0).into()),
        (Form::Flag, Value::Switch(on)) => write_int(fd, place, (*on).into()),
        (Form::Text, Value::Text(text)) => write_bytes(fd, place, text.as_bytes()),
        (Form::Linger, Value::Number(seconds)) => set_linger(fd, place, Some(saturated(*seconds))),
        (Form::Linger, Value::Switch(false)) => set_linger(fd, place, None),
        (Form::Pipe, Value::Number(bytes)) => {
            pipe::set_pipe_size(fd, usize::try_from(*bytes).unwrap_or(usize::MAX)).map(drop)
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "the option takes no such value")),
    }
}

/// The kernel takes an int. A larger value exceeds every buffer and would be clamped anyway.
fn saturated(value: u64) -> libc::c_int {
    libc::c_int::try_from(value).unwrap_or(libc::c_int::MAX)
}

fn set_linger(fd: BorrowedFd<'_>, place: Place, seconds: Option<libc::c_int>) -> io::Result<()> {
    // struct linger is two ints: on or off, and the seconds (socket(7)).
    let on = libc::c_int::from(seconds.is_some()).to_ne_bytes();
    let seconds = seconds.unwrap_or(0).to_ne_bytes();
    write_bytes(fd, place, &[on, seconds].concat())
}

/// The effective value on a socket or a pipe, in the kernel's units; for `SO_LINGER` the seconds, or off.
///
/// # Errors
///
/// `ENOPROTOOPT`, `EOPNOTSUPP` or `ENOTSOCK` where the descriptor has no such option.
pub fn read(fd: BorrowedFd<'_>, known: KernelOption) -> io::Result<Value> {
    let whole = |value: libc::c_int| Value::Number(u64::try_from(value).unwrap_or(0));
    match known.form {
        Form::Int => read_int(fd, known.place).map(whole),
        Form::Long => read_array(fd, known.place).map(|bytes| Value::Number(u64::from_ne_bytes(bytes))),
        Form::Flag => read_int(fd, known.place).map(|value| Value::Switch(value != 0)),
        Form::Cpu => read_int(fd, known.place).map(|cpu| Value::Switch(cpu >= 0)),
        Form::Text => read_text(fd, known.place).map(Value::Text),
        Form::Linger => read_linger(fd, known.place).map(|seconds| seconds.map_or(Value::Switch(false), whole)),
        Form::Pipe => pipe::pipe_size(fd).map(|bytes| Value::Number(bytes as u64)),
    }
}

fn read_text(fd: BorrowedFd<'_>, place: Place) -> io::Result<String> {
    let mut name = [0u8; CONGESTION_NAME_MAX];
    let len = read_bytes(fd, place, &mut name)?;
    let name = &name[..len];
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(len);
    Ok(String::from_utf8_lossy(&name[..end]).into_owned())
}

fn read_linger(fd: BorrowedFd<'_>, place: Place) -> io::Result<Option<libc::c_int>> {
    let [a, b, c, d, seconds @ ..]: [u8; 2 * size_of::<libc::c_int>()] = read_array(fd, place)?;
    Ok((libc::c_int::from_ne_bytes([a, b, c, d]) != 0).then_some(libc::c_int::from_ne_bytes(seconds)))
}

/// The congestion controls that are loaded (`net.ipv4.tcp_available_congestion_control`). For another one the kernel
/// tries to load its module, if the caller is privileged.
///
/// # Errors
///
/// The file's error; it is missing where procfs is hidden.
pub fn available_congestion() -> io::Result<Vec<String>> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

// The two system calls under every socket option.
//
// Never interprets a value: [`crate::option`], [`crate::tcp_info`] and [`crate::socket_memory`]
// know what they mean.

/// Fills the front of `value` and returns how many bytes the kernel wrote.
pub(crate) fn read_bytes(fd: BorrowedFd<'_>, place: Place, value: &mut [u8]) -> io::Result<usize> {
    let mut len = value.len() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes at `value`, which is borrowed exclusively,
    // and the number written to `len`.
    errno::of(unsafe { libc::getsockopt(fd.as_raw_fd(), place.0, place.1, value.as_mut_ptr().cast(), &mut len) })?;
    Ok(len as usize)
}

/// Passes `value` to the kernel as it is.
pub(crate) fn write_bytes(fd: BorrowedFd<'_>, place: Place, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel only reads `value.len()` bytes of `value`.
    errno::of(unsafe {
        libc::setsockopt(fd.as_raw_fd(), place.0, place.1, value.as_ptr().cast(), value.len() as libc::socklen_t)
    })
    .map(drop)
}

/// Reads an option of `N` bytes.
pub(crate) fn read_array<const N: usize>(fd: BorrowedFd<'_>, place: Place) -> io::Result<[u8; N]> {
    let mut value = [0; N];
    let len = read_bytes(fd, place, &mut value)?;
    if len == N { Ok(value) } else { Err(io::Error::from_raw_os_error(libc::EINVAL)) }
}

/// Reads an option that is an `int`.
pub(crate) fn read_int(fd: BorrowedFd<'_>, place: Place) -> io::Result<libc::c_int> {
    read_array(fd, place).map(libc::c_int::from_ne_bytes)
}

/// Writes an option that is an `int`.
pub(crate) fn write_int(fd: BorrowedFd<'_>, place: Place, value: libc::c_int) -> io::Result<()> {
    write_bytes(fd, place, &value.to_ne_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::tests::tcp_pair;

    fn check(option: &SocketOption, expected: impl Into<Value>) {
        let (client, _server) = tcp_pair();
        set(client.as_fd(), option).unwrap();
        assert_eq!(read(client.as_fd(), option.known).unwrap(), expected.into(), "{option}");
    }

    #[test]
    fn options_set_on_tcp_are_read_back() {
        check(&NO_DELAY.to(true), true);
        check(&NO_DELAY.to(false), false);
        check(&REUSE_PORT.to(true), true);
        check(&USER_TIMEOUT.to(1234), 1234);
        check(&LINGER.to(7), 7);
        check(&LINGER.to(false), false);
        // Reno is built into every kernel and allowed for every user.
        check(&CONGESTION.to("reno"), "reno");
    }

    #[test]
    fn buffers_are_doubled() {
        check(&SEND_BUFFER.to(50_000), 100_000);
        check(&RECEIVE_BUFFER.to(50_000), 100_000);
    }

    #[test]
    fn buffers_are_clamped_and_that_is_no_error() {
        let (client, _server) = tcp_pair();
        set(client.as_fd(), &RECEIVE_BUFFER.to(u64::MAX)).unwrap();
        let Value::Number(bytes) = read(client.as_fd(), RECEIVE_BUFFER).unwrap() else { panic!("no number") };
        assert!(bytes < 1 << 31, "{bytes}");
    }

    #[test]
    fn a_value_of_another_kind_is_refused() {
        let (client, _server) = tcp_pair();
        let error = set(client.as_fd(), &NO_DELAY.to("yes")).unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn the_congestion_control_is_one_that_is_available() {
        let (client, _server) = tcp_pair();
        let Value::Text(name) = read(client.as_fd(), CONGESTION).unwrap() else { panic!("no name") };
        assert!(available_congestion().unwrap().contains(&name), "{name}");
    }

    #[test]
    fn an_unknown_congestion_control_names_the_next_step() {
        let (client, _server) = tcp_pair();
        let error = set(client.as_fd(), &CONGESTION.to("no-such-thing")).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT));
        let text = error.to_string();
        assert!(text.starts_with("TCP_CONGESTION=no-such-thing: "), "{text}");
        assert!(text.contains("tcp_available_congestion_control"), "{text}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_linger_of_zero_resets() {
        let (client, server) = tcp_pair();
        set(client.as_fd(), &LINGER.to(0)).unwrap();
        drop(client);
        let error = crate::io::read(server.as_fd(), &mut [0u8; 1]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    #[test]
    fn udp_has_udps_options_only() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        set(socket.as_fd(), &UDP_SEGMENT.to(1000)).unwrap();
        set(socket.as_fd(), &UDP_COALESCE.to(true)).unwrap();
        assert_eq!(read(socket.as_fd(), UDP_SEGMENT).unwrap(), Value::Number(1000));
        assert_eq!(read(socket.as_fd(), UDP_COALESCE).unwrap(), Value::Switch(true));
        assert!(read(socket.as_fd(), NO_DELAY).is_err() && read(socket.as_fd(), CONGESTION).is_err());
        assert!(set(socket.as_fd(), &NO_DELAY.to(true)).is_err());
    }

    #[test]
    fn unix_sockets_have_buffers_only() {
        let (left, _right) = UnixStream::pair().unwrap();
        assert!(read(left.as_fd(), SEND_BUFFER).is_ok() && read(left.as_fd(), RECEIVE_BUFFER).is_ok());
        assert!(read(left.as_fd(), NO_DELAY).is_err() && read(left.as_fd(), UDP_SEGMENT).is_err());
    }

    #[test]
    fn a_pipe_has_its_size_only() {
        let (reader, writer) = pipe::anonymous().unwrap();
        set(writer.as_fd(), &PIPE_SIZE.to(1 << 17)).unwrap();
        assert_eq!(read(reader.as_fd(), PIPE_SIZE).unwrap(), Value::Number(1 << 17));
        let error = set(reader.as_fd(), &SEND_BUFFER.to(1)).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOTSOCK));
        assert!(read(reader.as_fd(), SEND_BUFFER).is_err());
    }
}
