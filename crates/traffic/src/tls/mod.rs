//! TLS on a connection: by the library rustls (`session`), or by the kernel.
//!
//! It measures the work of encryption and protects nothing: the certificate and its key are public, and no peer is verified.

pub(crate) mod session;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use bytegauge_model::{Engine, MessageWrites, Tls, Transport, Workload};
use bytegauge_sys::errno;
use bytegauge_sys::kernel_tls::{self, KEY_LEN, Keys};

use crate::EndError;
use crate::setup::Setup;

/// The end of a connection in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsRole {
    /// It connected.
    Client,
    /// It accepted.
    Server,
}

/// The role of an end whose connections a library encrypts, or nothing if none does.
pub(crate) fn by_library(setup: &Setup, role: TlsRole) -> Option<TlsRole> {
    (setup.tls() == Tls::Rustls).then_some(role)
}

/// Refuses connections that cannot be encrypted as requested.
///
/// # Errors
/// [`EndError::Missing`], with the setting to change.
pub(crate) fn fit(setup: &Setup) -> Result<(), EndError> {
    unfit(setup).map_or(Ok(()), |reason| Err(EndError::Missing(reason)))
}

fn unfit(setup: &Setup) -> Option<String> {
    let (tls, transport) = (setup.tls(), setup.transport());
    let calls = setup.workload() == Workload::Call;
    let engines = if calls { vec![setup.server_engine(), setup.client_engine()] } else { vec![setup.engine()] };
    let is_stream_socket = transport.is_tcp() || *transport == Transport::Unix;
    match tls {
        Tls::None => None,
        _ if !is_stream_socket => Some(format!("--tls {tls} needs a stream socket, not {transport}: use tcp or unix")),
        Tls::Kernel if !matches!(transport, Transport::Tcp | Transport::Tcp6) => {
            Some(format!("the kernel encrypts TCP alone, not {transport}: use --transport tcp or --tls rustls"))
        }
        Tls::Kernel if setup.is_external() => Some("--tls kernel has no handshake: leave out --connect".into()),
        Tls::Kernel if setup.connect_per_call() => {
            Some("--tls kernel has no handshake: use --tls rustls with --connect-per-call".into())
        }
        _ if calls && setup.far.is_some() => {
            Some(format!("calls between two hosts are not encrypted: use --tls none, or stream with --tls {tls}"))
        }
        _ if [setup.spec.zerocopy(), setup.spec.inq()].contains(&Some(true)) => {
            Some("encrypted bytes are copied: leave out --zerocopy and --inq, or --tls".into())
        }
        _ if !matches!(setup.message_writes(), MessageWrites::Separate | MessageWrites::Copy) => Some(format!(
            "encrypted messages are not written by --message-writes {}: use separate or copy, or --tls none",
            setup.message_writes()
        )),
        _ if setup.is_with_iperf3() => Some("iperf3 has no TLS: use --tls none".into()),
        Tls::Rustls if !calls && setup.goes_both_ways() && !setup.has_sockets_each_way() => {
            Some("--tls rustls does not encrypt both directions of one stream: use --direction to or from".into())
        }
        _ => engines.into_iter().find(|engine| !fits(tls, *engine, calls)).map(|engine| {
            let fitting = if calls || tls == Tls::Kernel { "blocking or epoll" } else { "blocking" };
            format!("engine {engine} does not work with --tls {tls}: use {fitting}")
        }),
    }
}

/// The null engine moves nothing, so it encrypts nothing.
fn fits(tls: Tls, engine: Engine, calls: bool) -> bool {
    engine == Engine::Null || if calls { tls.fits_call(engine) } else { tls.fits_stream(engine) }
}

// Connections that the kernel encrypts. Both ends set the keys when the connection is made; then any engine moves plain bytes.

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
pub fn lacks_kernel() -> Option<String> {
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
