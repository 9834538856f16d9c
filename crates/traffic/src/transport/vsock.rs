//! Stream sockets of virtual machines (vsock(7)), over the loopback of this machine, which needs the module `vsock_loopback`.

use std::io;
use std::os::fd::OwnedFd;

use bytegauge_model::{Side, Transport};
use bytegauge_sys::errno;
use socket2::{Domain, SockAddr, Socket, Type};

use crate::address::Address;
use crate::end_error::EndError;
use crate::setup::Setup;
use crate::transport::options::Moment;
use crate::transport::unix::accept_all;
use crate::transport::{Joint, Listening, connect_in_time, set_options};

/// `VMADDR_CID_LOCAL` and `VMADDR_PORT_ANY` (linux/vm_sockets.h).
const LOCAL: u32 = 1;
const ANY_PORT: u32 = u32::MAX;

/// The joint of `vsock`.
pub struct VsockJoint;

struct VsockListening {
    socket: Socket,
    address: Address,
}

impl Joint for VsockJoint {
    fn listen(&self, setup: &Setup) -> Result<Box<dyn Listening>, EndError> {
        let socket = opened().map_err(|error| missing_fault(&error))?;
        set_options(&socket, Moment::Listening, Side::Sink, setup)?;
        socket.bind(&any_port()).map_err(|error| missing_fault(&error))?;
        socket.listen(setup.joined().min(4096) as i32).map_err(EndError::io("listening on a vsock socket"))?;
        let bound = socket.local_addr().map_err(EndError::io("reading the port"))?;
        let address =
            announced(&bound).ok_or_else(|| EndError::Impossible("a vsock socket without an address".into()))?;
        Ok(Box::new(VsockListening { socket, address }))
    }

    fn connect(&self, address: &Address, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        let Address::Vsock { cid, port } = address else {
            return Err(EndError::Impossible(format!("a vsock socket cannot connect to {address:?}")));
        };
        let address = SockAddr::vsock(*cid, *port);
        (0..setup.joined())
            .map(|_| {
                let socket = opened().map_err(|error| missing_fault(&error))?;
                set_options(&socket, Moment::Own, Side::Source, setup)?;
                connect_in_time(&socket, &address, setup.is_external())
                    .map_err(EndError::io("connecting a vsock socket"))?;
                Ok(socket.into())
            })
            .collect()
    }
}

impl Listening for VsockListening {
    fn address(&self) -> Address {
        self.address.clone()
    }

    fn accept(&mut self, setup: &Setup) -> Result<Vec<OwnedFd>, EndError> {
        accept_all(&self.socket, setup)
    }
}

/// An address of this machine's loopback whose port the kernel chooses.
pub(crate) fn any_port() -> SockAddr {
    SockAddr::vsock(LOCAL, ANY_PORT)
}

/// A bound address as sent to the other end.
pub(crate) fn announced(address: &SockAddr) -> Option<Address> {
    address.as_vsock_address().map(|(cid, port)| Address::Vsock { cid, port })
}

/// The reason why this machine has no loopback of vsock; `None` where it has.
pub(super) fn missing() -> Option<String> {
    opened().and_then(|socket| socket.bind(&any_port())).err().map(|error| missing_requirement(&error))
}

fn opened() -> io::Result<Socket> {
    Socket::new(Domain::VSOCK, Type::STREAM, None)
}

/// The fault of a socket that could not be opened or bound.
pub(crate) fn missing_fault(error: &io::Error) -> EndError {
    EndError::Missing(missing_requirement(error))
}

/// Explains why a socket has no loopback address (net/vmw_vsock/af_vsock.c, `vsock_find_cid`).
fn missing_requirement(error: &io::Error) -> String {
    let leave = format!("leave out --transport {}", Transport::Vsock);
    match error.raw_os_error() {
        Some(errno::EADDRNOTAVAIL) => {
            format!("vsock: the kernel has no loopback of vsock: modprobe vsock_loopback, or {leave}")
        }
        _ => format!("vsock: this kernel has no vsock ({error}): modprobe vsock vsock_loopback, or {leave}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_module_is_named() {
        let reason = |errno| missing_requirement(&io::Error::from_raw_os_error(errno));
        assert!(reason(errno::EADDRNOTAVAIL).contains("modprobe vsock_loopback, or leave out"));
        assert!(reason(errno::EAFNOSUPPORT).contains("this kernel has no vsock"));
        assert_eq!(missing().is_none(), VsockJoint.listen(&Setup::unchecked(Default::default())).is_ok());
    }
}
