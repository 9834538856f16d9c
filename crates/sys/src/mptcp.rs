//! Whether a connection uses Multipath TCP.
//!
//! A socket of `IPPROTO_MPTCP` falls back to TCP without an error: where the peer, or a middlebox, does not support MPTCP, and
//! also later, after a mapping that does not fit (RFC 8684, section 3.7).

use std::io;
use std::os::fd::BorrowedFd;

use crate::option_calls::{self, Name};

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
    let len = match option_calls::read_bytes(fd, Name(SOL_MPTCP, MPTCP_INFO), &mut info) {
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
    use std::os::fd::AsFd;

    use super::*;
    use crate::tcp_pair::tcp_pair;

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
