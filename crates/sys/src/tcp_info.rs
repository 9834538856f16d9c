//! The kernel's state of one TCP connection: `TCP_INFO`.
//!
//! Two uses: its byte counts are an account of what crossed a connection that is independent of
//! our own counting, and its times tell what limited a sender.
//!
//! The structure has grown with the kernel (struct tcp_info, include/uapi/linux/tcp.h): fields
//! are only ever appended, and the kernel returns how many bytes it filled. So it is read as bytes
//! at fixed offsets, and a field that an older kernel does not have is `None` instead of zero.
//!
//! Never touches the connection. Never corrects for the SYN and the FIN, which occupy a sequence
//! number each and are counted as follows (checked by the tests below): `bytes_received` counts
//! the peer's FIN once it has arrived; `bytes_acked` counts the own SYN at the end that
//! connected, and the own FIN at either; `bytes_sent` counts payload only.

use std::io;
use std::os::fd::BorrowedFd;

use crate::option;

/// A snapshot of one connection. Counts run since the connection was made.
///
/// A field is `None` if the kernel is too old to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpInfo {
    /// The state, as `TCP_ESTABLISHED` (include/net/tcp_states.h).
    pub state: Option<u8>,
    /// Whether data that went with the SYN was accepted (TCP Fast Open, RFC 7413).
    pub syn_data: Option<bool>,
    /// Payload bytes of a full segment that is sent.
    pub snd_mss: Option<u32>,
    /// Segments that were sent and not acknowledged yet.
    pub unacked: Option<u32>,
    /// Time since data was last sent, ms.
    pub last_data_sent_ms: Option<u32>,
    /// Time since the peer last acknowledged anything, a question of keepalive among it, ms.
    pub last_ack_ms: Option<u32>,
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: Option<u32>,
    /// Segments retransmitted.
    pub total_retrans: Option<u32>,
    /// Bytes that the peer acknowledged; the SYN of an active opener and the FIN included.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order; the FIN included.
    pub bytes_received: Option<u64>,
    /// Bytes that were written and not sent yet. Linux 4.6.
    pub notsent_bytes: Option<u32>,
    /// Least round-trip time seen, µs; `None` also while nothing was measured.
    pub min_rtt_us: Option<u32>,
    /// Time with data outstanding, µs.
    pub busy_time_us: Option<u64>,
    /// Part of it in which the peer's window was the limit, µs.
    pub rwnd_limited_us: Option<u64>,
    /// Part of it in which our send buffer was the limit, µs.
    pub sndbuf_limited_us: Option<u64>,
    /// Payload bytes sent, retransmissions included. Linux 4.19.
    pub bytes_sent: Option<u64>,
}

/// Reads `TCP_INFO` of a TCP socket.
///
/// # Errors
///
/// `EOPNOTSUPP` or `ENOPROTOOPT` for a socket that is not TCP, `ENOTSOCK` for a pipe or a file.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // Room for more than any kernel fills today: the rest is cut off, not an error.
    let mut bytes = [0u8; 512];
    let len = option::read_bytes(fd, (libc::IPPROTO_TCP, libc::TCP_INFO), &mut bytes)?;
    Ok(parse(&bytes[..len]))
}

impl TcpInfo {
    /// Whether the connection is no more, by a reset or since both sides have ended it.
    pub fn is_closed(&self) -> bool {
        self.state == Some(TCP_CLOSE)
    }

    /// Whether the socket listens.
    pub fn is_listening(&self) -> bool {
        self.state == Some(TCP_LISTEN)
    }
}

/// `TCP_CLOSE` and `TCP_LISTEN` (include/net/tcp_states.h).
const TCP_CLOSE: u8 = 7;
const TCP_LISTEN: u8 = 10;

/// `TCPI_OPT_SYN_DATA` (linux/tcp.h).
const SYN_DATA: u8 = 32;

/// Reads the fields by their byte offsets in struct tcp_info.
fn parse(bytes: &[u8]) -> TcpInfo {
    let byte = |offset: usize| bytes.get(offset).copied();
    let u32_at = |offset: usize| read_at(bytes, offset).map(u32::from_ne_bytes);
    let u64_at = |offset: usize| read_at(bytes, offset).map(u64::from_ne_bytes);
    TcpInfo {
        state: byte(0),
        syn_data: byte(5).map(|options| options & SYN_DATA != 0),
        snd_mss: u32_at(16),
        unacked: u32_at(24),
        last_data_sent_ms: u32_at(44),
        last_ack_ms: u32_at(56),
        rtt_us: u32_at(68),
        total_retrans: u32_at(100),
        bytes_acked: u64_at(120),
        bytes_received: u64_at(128),
        notsent_bytes: u32_at(144),
        // The running minimum starts at all ones (net/ipv4/tcp.c, `tcp_init_sock`).
        min_rtt_us: u32_at(148).filter(|rtt| *rtt != u32::MAX),
        busy_time_us: u64_at(168),
        rwnd_limited_us: u64_at(176),
        sndbuf_limited_us: u64_at(184),
        bytes_sent: u64_at(200),
    }
}

// Whether a connection uses Multipath TCP.
//
// A socket of `IPPROTO_MPTCP` falls back to TCP without an error: where the peer, or a middlebox, does not support MPTCP, and
// also later, after a mapping that does not fit (RFC 8684, section 3.7).

/// `SOL_MPTCP` (include/linux/socket.h).
const SOL_MPTCP: libc::c_int = 284;

/// `MPTCP_INFO` (linux/mptcp.h), Linux 5.16 and later: `struct mptcp_info`.
const MPTCP_INFO: libc::c_int = 1;

/// The position of `mptcpi_flags` in `struct mptcp_info`: after six bytes, aligned to four.
const FLAGS_AT: usize = 8;

/// The position of `mptcpi_bytes_received`, Linux 6.5 and later.
const BYTES_RECEIVED_AT: usize = 64;

/// `MPTCP_INFO_FLAG_FALLBACK` (linux/mptcp.h).
const FALLBACK: u32 = 1;

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MptcpInfo {
    /// Whether it uses MPTCP. One that fell back has no `MPTCP_INFO`, as a TCP connection, or reports that it fell back.
    pub in_use: bool,
    /// Bytes that were received in order, each once; `TCP_INFO` counts those of one path, repeated ones included.
    pub bytes_received: Option<u64>,
}

/// Reads the state of a connection.
///
/// # Errors
///
/// Errors of the descriptor itself, such as `EBADF` and `ENOTSOCK`.
pub fn mptcp_info(fd: BorrowedFd<'_>) -> io::Result<MptcpInfo> {
    let mut info = [0u8; 128];
    let len = match option::read_bytes(fd, (SOL_MPTCP, MPTCP_INFO), &mut info) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOPROTOOPT)) => 0,
        other => other?,
    };
    let flags = read_at(&info[..len], FLAGS_AT).map(u32::from_ne_bytes);
    Ok(MptcpInfo {
        in_use: flags.is_some_and(|flags| flags & FALLBACK == 0),
        bytes_received: read_at(&info[..len], BYTES_RECEIVED_AT).map(u64::from_ne_bytes),
    })
}

/// The bytes of a field; `None` where the kernel's structure ends before it.
fn read_at<const N: usize>(info: &[u8], at: usize) -> Option<[u8; N]> {
    info.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::net::{Shutdown, TcpStream};
    use std::os::fd::AsFd;

    use super::*;
    use crate::io::{read, shutdown, write};
    use crate::tests::tcp_pair;

    fn drain(stream: &TcpStream, mut bytes: usize) {
        let mut buffer = vec![0u8; 64 << 10];
        while bytes > 0 {
            let count = read(stream.as_fd(), &mut buffer).unwrap();
            assert_ne!(count, 0, "ended early");
            bytes -= count;
        }
    }

    /// Asks until the condition holds, since an acknowledgement may be on its way.
    fn until(stream: &TcpStream, holds: impl Fn(&TcpInfo) -> bool) -> TcpInfo {
        loop {
            let info = tcp_info(stream.as_fd()).unwrap();
            if holds(&info) {
                return info;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn offsets_agree_with_libc() {
        let check = |at: usize, field: fn(&TcpInfo) -> Option<u32>| {
            let mut bytes = [0; 248];
            bytes[at..at + 4].copy_from_slice(&7u32.to_ne_bytes());
            assert_eq!(field(&parse(&bytes)), Some(7), "{at}");
        };
        check(offset_of!(libc::tcp_info, tcpi_snd_mss), |info| info.snd_mss);
        check(offset_of!(libc::tcp_info, tcpi_unacked), |info| info.unacked);
        check(offset_of!(libc::tcp_info, tcpi_last_data_sent), |info| info.last_data_sent_ms);
        check(offset_of!(libc::tcp_info, tcpi_last_ack_recv), |info| info.last_ack_ms);
        check(offset_of!(libc::tcp_info, tcpi_rtt), |info| info.rtt_us);
        check(offset_of!(libc::tcp_info, tcpi_total_retrans), |info| info.total_retrans);
    }

    #[test]
    fn a_short_answer_leaves_newer_fields_out() {
        let info = parse(&[1; 104]);
        assert_eq!(info.total_retrans, Some(0x0101_0101));
        assert_eq!(info.bytes_received, None);
        assert_eq!(parse(&[]).total_retrans, None);
    }

    #[test]
    fn all_ones_mean_not_measured() {
        let info = parse(&[0xFF; 248]);
        assert_eq!(info.min_rtt_us, None);
    }

    #[test]
    fn byte_counts_match_what_was_sent() {
        const SENT: usize = 1 << 20;
        let (client, server) = tcp_pair();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bytes = vec![3u8; SENT];
                let mut sent = 0;
                while sent < SENT {
                    sent += write(client.as_fd(), &bytes[sent..]).unwrap();
                }
            });
            drain(&server, SENT);
        });

        let payload = Some(SENT as u64);
        // The end that connected counts the SYN among the acknowledged bytes.
        let info = until(&client, |info| info.bytes_acked == Some(SENT as u64 + 1));
        let retransmitted = info.total_retrans.unwrap();
        assert!(info.bytes_sent == payload || retransmitted > 0, "{info:?}");
        assert!(info.min_rtt_us.is_some());
        let received = tcp_info(server.as_fd()).unwrap();
        assert_eq!(received.bytes_received, payload);

        // A FIN occupies one sequence number and is counted as a byte received.
        shutdown(client.as_fd(), Shutdown::Write).unwrap();
        assert_eq!(read(server.as_fd(), &mut [0u8; 1]).unwrap(), 0);
        let received = tcp_info(server.as_fd()).unwrap();
        assert_eq!(received.bytes_received, Some(SENT as u64 + 1));
        until(&client, |info| info.bytes_acked == Some(SENT as u64 + 2));
    }

    #[test]
    fn accepting_end_does_not_count_its_syn() {
        let (client, server) = tcp_pair();
        assert_eq!(write(server.as_fd(), b"12345").unwrap(), 5);
        drain(&client, 5);
        let info = until(&server, |info| info.bytes_acked == Some(5));
        assert_eq!(info.bytes_sent, Some(5));
        assert_eq!(tcp_info(client.as_fd()).unwrap().bytes_received, Some(5));
    }

    #[test]
    fn other_descriptors_have_none() {
        let (left, _right) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(left.as_fd()).is_err());
        let (reader, _writer) = crate::pipe::anonymous().unwrap();
        let error = tcp_info(reader.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}

#[cfg(test)]
mod mptcp_tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::tests::tcp_pair;

    #[test]
    fn a_tcp_connection_does_not_use_it() {
        let (client, server) = tcp_pair();
        assert_eq!(mptcp_info(client.as_fd()).unwrap(), MptcpInfo::default());
        assert_eq!(mptcp_info(server.as_fd()).unwrap(), MptcpInfo::default());
    }

    #[test]
    fn a_file_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(mptcp_info(file.as_fd()).unwrap_err().raw_os_error(), Some(libc::ENOTSOCK));
    }
}
