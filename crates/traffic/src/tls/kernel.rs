//! Connections that the kernel encrypts. Both ends set the keys when the connection is made; then any engine moves plain bytes.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use bytegauge_model::Tls;
use bytegauge_sys::errno;
use bytegauge_sys::kernel_tls::{self, KEY_LEN, Keys};

use crate::end_error::EndError;
use crate::setup::Setup;
use crate::tls::TlsRole;

/// The key of what the end that connected sends; of every connection, and no secret.
const OF_CLIENT: [u8; KEY_LEN] = [0x11; KEY_LEN];
/// The key of what the end that accepted sends.
const OF_SERVER: [u8; KEY_LEN] = [0x22; KEY_LEN];

/// Has the kernel encrypt a connection, if the setup requests it.
///
/// # Errors
/// [`EndError::Missing`] if the kernel has no TLS.
pub(crate) fn encrypt(socket: impl AsFd, setup: &Setup, role: TlsRole) -> Result<(), EndError> {
    if setup.tls() == Tls::Kernel { encrypt_now(socket, role) } else { Ok(()) }
}

/// The same, where it was requested.
///
/// # Errors
/// As for [`encrypt`].
pub(crate) fn encrypt_now(socket: impl AsFd, role: TlsRole) -> Result<(), EndError> {
    try_to_encrypt(socket, role).map_err(|error| EndError::Missing(reason(&error)))
}

fn try_to_encrypt(socket: impl AsFd, role: TlsRole) -> io::Result<()> {
    let (send, receive) = match role {
        TlsRole::Client => (OF_CLIENT, OF_SERVER),
        TlsRole::Server => (OF_SERVER, OF_CLIENT),
    };
    kernel_tls::encrypt(socket.as_fd(), &Keys { send, receive })
}

/// Why the kernel cannot encrypt connections here; `None` where it can, or where no connection can be made to try it.
pub(crate) fn missing() -> Option<String> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let socket = TcpStream::connect(listener.local_addr().ok()?).ok()?;
    try_to_encrypt(&socket, TlsRole::Client).err().map(|error| reason(&error))
}

fn reason(error: &io::Error) -> String {
    if kernel_tls::is_missing(error) {
        return "--tls kernel: this kernel has no TLS, or its module is not loaded: run `modprobe tls` as root, or use --tls \
                rustls"
            .into();
    }
    match error.raw_os_error() {
        Some(errno::EINVAL) => {
            "--tls kernel: this kernel has no TLS 1.3 with AES-256-GCM (Linux 5.1 and later): use --tls rustls".into()
        }
        _ => format!("--tls kernel: the kernel refuses it ({error}): use --tls rustls"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_reasons_and_advice() {
        let check = |errno, expected: &str| {
            let reason = reason(&io::Error::from_raw_os_error(errno));
            assert!(reason.contains(expected) && reason.contains("--tls rustls"), "{reason}");
        };
        check(errno::ENOENT, "modprobe tls");
        check(errno::ENOPROTOOPT, "has no TLS");
        check(errno::EINVAL, "Linux 5.1");
        check(errno::EACCES, "refuses it");
    }
}
