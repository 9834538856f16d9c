//! One end of a connection that rustls encrypts, with the sizes that its programs have: it reads at most 4 KiB per call while it
//! fills a record, and sends records of at most 16 KiB, up to 64 KiB of text in one writev(2).
//!
//! A send that found no room has taken its bytes, as SSL_write(3) of OpenSSL has: the caller repeats it with the same bytes, and
//! gets their number when all have left. So an engine waits for room as it does without TLS, and no record is left behind.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, LazyLock};

use bytegauge_sys::socket::{self, Until};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, Connection, DigitallySignedStruct, ServerConfig, ServerConnection, SignatureScheme,
};

use crate::EndError;
use crate::tls::TlsRole;

/// The certificate of every server, of its own making; and its key, which is no secret.
const CERTIFICATE: &[u8] = include_bytes!("certificate.der");
const KEY: &[u8] = include_bytes!("key.der");

/// How long a handshake before a window waits for the peer's next message.
const HANDSHAKE_NS: u64 = 5_000_000_000;

/// How long the answer to a handshake's message may wait for room in an empty socket.
const REPLY_NS: u64 = 1_000_000_000;

/// Most bytes that a send takes, the library's own limit.
const TAKEN_MAX: usize = 64 << 10;

/// One end of an encrypted connection.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    /// Before the end of the handshake. A client sends nothing of its first request until then, so all of it is taken: its flow
    /// has to receive for the handshake to go on.
    is_new: bool,
    /// Bytes that were taken but not reported to the caller, since not all of their records have left.
    taken: usize,
    /// System calls since the handshake.
    pub(crate) calls: u64,
}

impl Session {
    /// A new one, before its handshake: the first calls make it.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if rustls refuses its configuration.
    pub(crate) fn new(role: TlsRole) -> Result<Session, EndError> {
        let impossible = |error: &rustls::Error| EndError::Impossible(format!("rustls: {error}"));
        let configs = CONFIGS.as_ref().map_err(impossible)?;
        let connection = match role {
            TlsRole::Client => {
                let name = ServerName::from(std::net::IpAddr::from([127, 0, 0, 1]));
                ClientConnection::new(Arc::clone(&configs.client), name).map(Connection::from)
            }
            TlsRole::Server => ServerConnection::new(Arc::clone(&configs.server)).map(Connection::from),
        };
        let mut connection = connection.map_err(|error| impossible(&error))?;
        connection.set_buffer_limit(None);
        Ok(Session { connection, is_new: true, taken: 0, calls: 0 })
    }

    /// A session over a connection that blocks, after its handshake.
    ///
    /// # Errors
    /// [`EndError::PeerGone`] if the peer does not answer in time, or does not use TLS.
    pub(crate) fn begin(fd: BorrowedFd<'_>, role: TlsRole) -> Result<Session, EndError> {
        let mut session = Session::new(role)?;
        socket::set_receive_timeout(fd, HANDSHAKE_NS).map_err(EndError::io("limiting a handshake"))?;
        session.handshake(fd).map_err(|error| EndError::PeerGone(format!("no TLS handshake: {error}")))?;
        socket::set_receive_timeout(fd, 0).map_err(EndError::io("limiting a handshake"))?;
        session.calls = 0;
        Ok(session)
    }

    fn handshake(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        while self.connection.is_handshaking() || self.connection.wants_write() {
            let step =
                if self.connection.wants_write() { self.flush(fd, false) } else { self.take_records(fd).map(drop) };
            match step {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                step => step?,
            }
        }
        Ok(())
    }

    /// Receives decrypted bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// The kernel's, and `InvalidData` if the peer breaks the protocol.
    #[inline(never)]
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A stream that ended without notice: the counts of both ends show whether anything is missing.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            self.take_records(fd)?;
        }
    }

    /// Whether a receive returns bytes without a system call.
    pub(crate) fn holds_bytes(&mut self) -> bool {
        self.connection.process_new_packets().is_ok_and(|state| state.plaintext_bytes_to_read() > 0)
    }

    /// Encrypts and sends some of the bytes, and returns their number.
    ///
    /// # Errors
    /// The kernel's; after `WouldBlock` and `Interrupted` the call has to be repeated with the same bytes.
    #[inline(never)]
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, bytes: &[u8], at_once: bool) -> io::Result<usize> {
        if self.is_new && !self.connection.is_handshaking() {
            self.is_new = false;
            self.connection.set_buffer_limit(Some(TAKEN_MAX));
        }
        if self.taken == 0 {
            self.taken = self.connection.writer().write(bytes)?;
        }
        self.flush(fd, at_once)?;
        Ok(std::mem::take(&mut self.taken))
    }

    /// The number of system calls since the last call of this, of which the caller has counted one itself.
    pub(crate) fn more_calls(&mut self) -> u64 {
        std::mem::take(&mut self.calls).saturating_sub(1)
    }

    /// Reads once from the socket, and answers what belongs to the handshake.
    fn take_records(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let read = self.connection.read_tls(&mut Wire { fd, at_once: false, calls: &mut self.calls })?;
        self.connection.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if read == 0 && self.connection.is_handshaking() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while self.connection.wants_write() {
            match self.flush(fd, false) {
                // The peer waits for this, and the flow does not ask for room.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if socket::wait(fd, Until::Writable, REPLY_NS)?.is_none() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                flushed => flushed?,
            }
        }
        Ok(())
    }

    fn flush(&mut self, fd: BorrowedFd<'_>, at_once: bool) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(&mut Wire { fd, at_once, calls: &mut self.calls })?;
        }
        Ok(())
    }
}

/// The socket under a session.
struct Wire<'a> {
    fd: BorrowedFd<'a>,
    /// Never waits for room.
    at_once: bool,
    calls: &'a mut u64,
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        *self.calls += 1;
        socket::receive(self.fd, buffer)
    }
}

impl Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        *self.calls += 1;
        socket::send_vectored(self.fd, slices, self.at_once)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Configs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

static CONFIGS: LazyLock<Result<Configs, rustls::Error>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (certificate, key) = (CertificateDer::from(CERTIFICATE), PrivatePkcs8KeyDer::from(KEY));
    let mut server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())?;
    // A client that only writes would never read them, and its close would reset the connection.
    server.send_tls13_tickets = 0;
    let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        .with_no_client_auth();
    // Every connection makes a whole handshake.
    client.resumption = rustls::client::Resumption::disabled();
    Ok(Configs { client: Arc::new(client), server: Arc::new(server) })
});

/// Accepts every certificate, and checks signatures as programs do.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
