//! Unix sockets of streams or packets under an abstract name, so that no file is left behind and two processes can meet.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use socket2::{Domain, SockAddr, Socket};

use crate::address::Address;
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::tls::{self, TlsRole};
use crate::transport::options::Moment;
use crate::transport::{
    JOIN_TIMEOUT, Joint, Listening, connect_in_time, kind_of, seqpacket, set_options, uninterrupted,
};
use bytegauge_model::Side;

/// The joint of `unix` and `unix-seqpacket`.
pub struct UnixJoint;

struct UnixListening {
    socket: Socket,
    name: String,
}

impl Joint for UnixJoint {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = format!("bytegauge-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let socket = opened(setup)?;
        set_options(&socket, Moment::Listening, Side::Sink, setup)?;
        seqpacket::fit_reads(setup)?;
        socket.bind(&abstract_address(&name)?).map_err(EndError::io("binding a Unix socket"))?;
        socket.listen(setup.joined().min(4096) as i32).map_err(EndError::io("listening on a Unix socket"))?;
        Ok(Box::new(UnixListening { socket, name }))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let address = match address {
            Address::Abstract(name) => abstract_address(name)?,
            Address::Path(path) => SockAddr::unix(path).map_err(EndError::io("naming a Unix socket"))?,
            other => return Err(EndError::Impossible(format!("a Unix socket cannot connect to {other:?}"))),
        };
        (0..setup.joined())
            .map(|_| {
                let socket = opened(setup)?;
                set_options(&socket, Moment::Own, Side::Source, setup)?;
                seqpacket::fit_socket(&socket, setup, setup.write_size().unwrap_or_default())?;
                connect_in_time(&socket, &address, setup.is_external())
                    .map_err(EndError::io("connecting a Unix socket"))?;
                Ok(socket.into())
            })
            .collect()
    }
}

impl Listening for UnixListening {
    fn address(&self) -> Address {
        Address::Abstract(self.name.clone())
    }

    fn accept(&mut self, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        accept_all(&self.socket, setup)
    }
}

fn opened(setup: &Setup) -> Result<Socket, EndError> {
    Socket::new(Domain::UNIX, kind_of(setup.transport()), None).map_err(EndError::io("making a Unix socket"))
}

/// An abstract name starts with a zero byte (unix(7)).
fn abstract_address(name: &str) -> Result<SockAddr, EndError> {
    SockAddr::unix(format!("\0{name}")).map_err(EndError::io("naming a Unix socket"))
}

/// Accepts one connection per flow from a listening stream socket.
pub(super) fn accept_all(listener: &Socket, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
    // SO_RCVTIMEO bounds accept(2) too (socket(7)); a TCP connection inherits it and has to lose it.
    listener.set_read_timeout(Some(JOIN_TIMEOUT)).map_err(EndError::io("bounding accept"))?;
    (0..setup.joined())
        .map(|_| {
            let (socket, _) =
                uninterrupted(|| listener.accept()).map_err(EndError::io("waiting for the source to connect"))?;
            socket.set_read_timeout(None).map_err(EndError::io("unbounding a read"))?;
            set_options(&socket, Moment::Accepted, Side::Sink, setup)?;
            tls::kernel::encrypt(&socket, setup, TlsRole::Server)?;
            Ok(socket.into())
        })
        .collect()
}
