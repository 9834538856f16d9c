//! TLS on a connection: by the library rustls (`session`), or by the kernel (`kernel`).
//!
//! It measures the work of encryption and protects nothing: the certificate and its key are public, and no peer is verified.

pub(crate) mod kernel;
pub(crate) mod session;

use bytegauge_model::{Engine, Tls, Transport, Workload};

use crate::end_error::EndError;
use crate::setup::Setup;

/// The end of a connection in the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsRole {
    /// It connected.
    Client,
    /// It accepted.
    Server,
}

/// Why the kernel cannot encrypt connections here; `None` where it can, or where no connection can be made to try it.
pub fn lacks_kernel() -> Option<String> {
    kernel::missing()
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
        _ if [setup.spec.zerocopy(), setup.spec.zerocopy_receive(), setup.spec.inq()].contains(&Some(true)) => {
            Some("encrypted bytes are copied: leave out --zerocopy, --zerocopy-receive and --inq, or --tls".into())
        }
        _ if setup.is_with_iperf3() => Some("iperf3 has no TLS: use --tls none".into()),
        Tls::Rustls if !calls && setup.goes_both_ways() && !setup.has_sockets_each_way() => {
            Some("--tls rustls does not encrypt both directions of one stream: use --direction to or from".into())
        }
        _ => engines(setup, calls).into_iter().find(|engine| !fits(tls, *engine, calls)).map(|engine| {
            let fitting = if calls || tls == Tls::Kernel { "blocking or epoll" } else { "blocking" };
            format!("engine {engine} does not work with --tls {tls}: use {fitting}")
        }),
    }
}

fn engines(setup: &Setup, calls: bool) -> Vec<Engine> {
    if calls { vec![setup.server_engine(), setup.client_engine()] } else { vec![setup.engine()] }
}

/// The null engine moves nothing, so it encrypts nothing.
fn fits(tls: Tls, engine: Engine, calls: bool) -> bool {
    engine == Engine::Null || if calls { tls.fits_call(engine) } else { tls.fits_stream(engine) }
}
