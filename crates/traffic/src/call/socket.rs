//! The sockets of a call: listeners, accepted connections, and clients' connections with their options.
//!
//! Options are set on the requested socket, because that decides whether a buffer size binds: the window scale is fixed in the
//! handshake (tcp(7)). Never moves a byte.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use bytegauge_model::{EndRole, Tls, Transport};
use bytegauge_sys::option::{self, SocketOption};
use bytegauge_sys::{affinity, socket};
use socket2::{SockAddr, Socket};

use crate::address::Address;
use crate::path::Shown;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options::{Moment, for_cpu, set_all, try_set_all, wanted};
use crate::transport::sockets::{self, announced, bind_to, open, sock_addr, unbound, unopenable, unused_name};
use crate::transport::{begin_connecting, connect_in_time, lacking};
use crate::{EndError, agent_callers};

/// Most connections that share one source address: a port is used once towards one peer.
const PER_ADDRESS: usize = 20_000;

/// Number of source addresses used in turn, each with ports of its own.
const ADDRESSES: u32 = 1000;

/// The same with Fast Open. The kernel keeps the cookies of about five pairs of addresses with the same destination
/// (`TCP_METRICS_RECLAIM_DEPTH`, net/ipv4/tcp_metrics.c): with more, each connection would request a new cookie.
const ADDRESSES_WITH_COOKIES: u32 = 3;

/// Opens the server's listeners: one, or one per thread with `SO_REUSEPORT`.
///
/// # Errors
/// [`EndError::Missing`] if the machine lacks the transport or an option.
pub fn listen(setup: &Setup) -> Result<(Vec<OwnedFd>, Address), EndError> {
    can_open_fast(setup)?;
    let longest = setup.request().max(setup.response());
    sockets::fit_read(setup, "message", longest)?;
    of_server(setup, Moment::Listening, |socket, address| {
        sockets::fit_socket(socket, setup, longest)?;
        agent_callers::listen(socket, address, setup.backlog(), setup.shares_port())
            .map_err(|error| unopenable(setup.transport(), error))?;
        socket.set_nonblocking(true).map_err(EndError::io("making a listener not block"))
    })
}

/// A server's sockets, with its options and the address that `bind` gives them: one, or one per thread with `SO_REUSEPORT`.
pub(super) fn of_server(
    setup: &Setup,
    moment: Moment,
    bind: impl Fn(&Socket, &SockAddr) -> Result<(), EndError>,
) -> Result<(Vec<OwnedFd>, Address), EndError> {
    let count = if setup.reuseport() { setup.server_threads() } else { 1 };
    let options = wanted(&setup.spec, (EndRole::Server, moment), setup.transport());
    let mut address = unbound(setup.transport(), &setup.host)?;
    let mut sockets = Vec::with_capacity(count);
    for thread in 0..count {
        let socket = open(setup.transport(), &address)?;
        set_all(&socket, &for_cpu(&options, cpu_of_thread(setup, thread)))?;
        bind(&socket, &address)?;
        // The next socket of the group gets the port of this one.
        address = socket.local_addr().map_err(EndError::io("reading the port"))?;
        sockets.push(socket.into());
    }
    Ok((sockets, announced(&address)?))
}

/// The CPU that a thread of the server is pinned to, or else the one with its number among those that it may use.
fn cpu_of_thread(setup: &Setup, thread: usize) -> usize {
    let of_number = || {
        let allowed = affinity::allowed_cpus().unwrap_or_default();
        allowed.get(thread % allowed.len().max(1)).copied()
    };
    setup.cpu(EndRole::Server, thread).or_else(of_number).unwrap_or(0)
}

/// Whether servers may accept data with the SYN, if requested: listeners accept `TCP_FASTOPEN` anyway.
///
/// # Errors
/// [`EndError::Missing`] if the system forbids it (`net.ipv4.tcp_fastopen`, bit 0x2; ip-sysctl.rst).
fn can_open_fast(setup: &Setup) -> Result<(), EndError> {
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    let allowed = allowed.trim().parse::<u64>().unwrap_or(0);
    if setup.spec.fastopen().is_none() || allowed & 2 != 0 {
        return Ok(());
    }
    Err(EndError::Missing(format!(
        "TCP_FASTOPEN: net.ipv4.tcp_fastopen is {allowed}, which allows it to clients alone: set it to 3 (sysctl -w \
         net.ipv4.tcp_fastopen=3), or leave out --fastopen"
    )))
}

/// Opens connections: a client's, or a relay's to the end behind it.
#[derive(Debug)]
pub struct Connector {
    /// The action, for errors: "connecting to the server".
    doing: &'static str,
    address: SockAddr,
    pub(crate) transport: Transport,
    external: bool,
    options: Vec<SocketOption>,
    /// The only address that a server on another host admits.
    from: Option<SocketAddr>,
    /// Number of source addresses of loopback that are used in turn; 0: the kernel chooses.
    sources: u32,
    /// Whether the kernel encrypts.
    encrypts: bool,
    turn: AtomicU32,
    shown: Option<Shown>,
}

impl Connector {
    /// The connector towards a server.
    ///
    /// # Errors
    /// [`EndError::Impossible`] if the address does not fit the transport.
    pub fn new(address: &Address, setup: &Setup) -> Result<Connector, EndError> {
        let v4 = matches!(address, Address::Ip(ip) if ip.is_ipv4() && ip.ip().is_loopback());
        let mut options = wanted(&setup.spec, (EndRole::Client, Moment::Own), setup.transport());
        // MPTCP has no such option (net/mptcp/sockopt.c).
        if setup.transport().is_tcp() && *setup.transport() != Transport::Mptcp {
            // Limits waits that no flow can see: a connection attempt, or a send, without an answer.
            options.push(option::USER_TIMEOUT.to(setup.timeout_ns().div_ceil(1_000_000)));
        }
        let are_many = setup.connect_per_call() || setup.flows() + setup.idle_flows() > PER_ADDRESS;
        Ok(Connector {
            sources: match setup.spec.fastopen() {
                _ if !v4 || !are_many || setup.far.is_some() => 0,
                Some(_) => ADDRESSES_WITH_COOKIES,
                None => ADDRESSES,
            },
            encrypts: setup.tls() == Tls::Kernel,
            // A server need not know which flow connects. Datagrams are admitted elsewhere.
            shown: setup.shown_by(0).filter(|_| !setup.transport().is_datagram()),
            ..Connector::plain("connecting to the server", address, setup, options, setup.bound_to())?
        })
    }

    /// A connector to an address from this host's address, with these options and without anything else.
    ///
    /// # Errors
    /// As [`new`](Connector::new).
    pub(crate) fn plain(
        doing: &'static str,
        address: &Address,
        setup: &Setup,
        options: Vec<SocketOption>,
        from: Option<SocketAddr>,
    ) -> Result<Connector, EndError> {
        Ok(Connector {
            doing,
            address: sock_addr(address)?,
            transport: setup.transport().clone(),
            external: setup.is_external(),
            options,
            from,
            sources: 0,
            encrypts: false,
            turn: AtomicU32::new(0),
            shown: None,
        })
    }

    /// Opens one connection, which blocks, and waits for it, for a while.
    ///
    /// # Errors
    /// [`EndError::Missing`] if there is no descriptor or an option is refused.
    pub fn join(&self) -> Result<OwnedFd, EndError> {
        let socket = sockets::socket(&self.transport, &self.address)
            .map_err(|error| lacking(&self.transport, &error).map_or_else(|| self.fault(error), EndError::Missing))?;
        set_all(&socket, &self.options)?;
        self.bind(&socket)
            .and_then(|()| connect_in_time(&socket, &self.address, self.external))
            .and_then(|()| self.shown.map_or(Ok(()), |shown| (&socket).write_all(&shown)))
            .map_err(|error| self.fault(error))?;
        if self.encrypts {
            tls::encrypt_now(&socket, TlsRole::Client)?;
        }
        Ok(socket.into())
    }

    /// Begins to open one connection.
    ///
    /// # Errors
    /// The kernel's error, `EINPROGRESS` excepted.
    pub fn begin(&self) -> io::Result<OwnedFd> {
        let socket = sockets::socket(&self.transport, &self.address)?;
        try_set_all(socket.as_fd(), &self.options).map_err(|error| error.source)?;
        self.bind(&socket)?;
        begin_connecting(socket, &self.address)
    }

    /// The next source address, all of which are this host's own on `lo`, or the name that a Unix socket needs to get
    /// answers.
    fn bind(&self, socket: &Socket) -> io::Result<()> {
        if self.transport == Transport::UnixDatagram {
            return socket.bind(&unused_name().map_err(io::Error::other)?);
        }
        if let Some(from) = self.from {
            // A socket of datagrams has its port before it connects.
            return if self.transport.is_datagram() { socket.bind(&from.into()) } else { bind_to(socket, Some(from)) };
        }
        if self.sources == 0 {
            return Ok(());
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.sources;
        let source = Ipv4Addr::new(127, 1, (turn / 250) as u8, (turn % 250 + 1) as u8);
        option::set(socket.as_fd(), &option::BIND_ADDRESS_NO_PORT.to(true)).map_err(|error| error.source)?;
        socket.bind(&SocketAddr::from((source, 0)).into())
    }

    /// The fault of a connection that could not be opened.
    pub(crate) fn fault(&self, error: io::Error) -> EndError {
        if socket::is_exhausted(&error) {
            return EndError::Missing(format!(
                "no descriptor or memory is left for another connection ({error}): raise ulimit -n or use fewer --flows"
            ));
        }
        EndError::Io { doing: format!("{} by {}", self.doing, self.transport), source: error }
    }
}
