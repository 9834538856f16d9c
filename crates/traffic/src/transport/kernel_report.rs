//! The kernel's state of a connection, for a report.

use std::os::fd::BorrowedFd;

use bytegauge_model::{FlowReport, TcpReport, Transport};
use bytegauge_sys::{socket_memory, tcp_info};

use crate::setup::Setup;
use crate::transport::options;

/// The kernel's state of a connection now; a flow's counters stay empty.
pub(crate) fn report(fd: BorrowedFd<'_>, setup: &Setup) -> FlowReport {
    let transport = setup.transport();
    let tcp = if transport.is_tcp() { tcp_info::tcp_info(fd).ok() } else { None };
    let memory = if transport.is_socket() { socket_memory::socket_memory(fd).ok() } else { None };
    FlowReport {
        tcp: tcp.as_ref().map(|info| {
            Box::new(TcpReport {
                mptcp: uses_mptcp(fd, transport),
                syn_data: info.syn_data.filter(|_| setup.spec.fastopen().is_some()),
                ..tcp_report(info)
            })
        }),
        options: options::in_force(fd, transport, &setup.spec).into(),
        socket_memory: memory.as_ref().map(held_bytes).into(),
        ..FlowReport::default()
    }
}

/// Whether a connection of MPTCP uses it; `None` of other transports.
fn uses_mptcp(fd: BorrowedFd<'_>, transport: &Transport) -> Option<bool> {
    (*transport == Transport::Mptcp).then(|| tcp_info::mptcp_info(fd).is_ok_and(|info| info.in_use))
}

/// Bytes that the kernel received on a connection of TCP or MPTCP; `None` where it does not count them.
pub(crate) fn bytes_received(fd: BorrowedFd<'_>, transport: &Transport) -> Option<u64> {
    match transport {
        Transport::Mptcp => tcp_info::mptcp_info(fd).ok()?.bytes_received,
        _ => tcp_info::tcp_info(fd).ok()?.bytes_received,
    }
}

/// Memory that the kernel holds for a socket: queued both ways, and reserved but not yet used
/// (net/core/sock.c, `sk_get_meminfo`).
fn held_bytes(memory: &socket_memory::SocketMemory) -> u64 {
    let ahead = memory.fwd_alloc.max(0) as u64;
    u64::from(memory.rmem_alloc) + u64::from(memory.wmem_queued) + ahead
}

/// The fields of `TCP_INFO` that a report holds.
fn tcp_report(info: &tcp_info::TcpInfo) -> TcpReport {
    TcpReport {
        retransmits: info.total_retrans.map(u64::from).into(),
        busy_us: info.busy_time_us.into(),
        rwnd_limited_us: info.rwnd_limited_us.into(),
        sndbuf_limited_us: info.sndbuf_limited_us.into(),
        delivery_rate: info.delivery_rate.into(),
        min_rtt_us: info.min_rtt_us.map(u64::from).into(),
        snd_wscale: info.snd_wscale,
        rcv_wscale: info.rcv_wscale,
        bytes_sent: info.bytes_sent.into(),
        bytes_acked: info.bytes_acked.into(),
        bytes_received: info.bytes_received.into(),
        mptcp: None,
        syn_data: None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};
    use std::os::fd::AsFd;

    use bytegauge_model::Spec;
    use socket2::{Domain, Protocol, Socket, Type};

    use super::*;
    use crate::transport::missing;

    /// Whether a client of MPTCP uses it towards a listener of a protocol.
    fn uses_mptcp_towards(listener: Option<Protocol>) -> Option<bool> {
        let open = |protocol| Socket::new(Domain::IPV4, Type::STREAM, protocol).unwrap();
        let (listener, client) = (open(listener), open(Some(Protocol::MPTCP)));
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(1).unwrap();
        client.connect(&listener.local_addr().unwrap()).unwrap();
        let _server = listener.accept().unwrap();
        let setup = Setup::unchecked(Spec::from([("transport", "mptcp".into())]));
        report(client.as_fd(), &setup).tcp.unwrap().mptcp
    }

    #[test]
    fn a_fallback_to_tcp_is_reported() {
        if missing(&Transport::Mptcp).is_some() {
            return;
        }
        assert_eq!(uses_mptcp_towards(Some(Protocol::MPTCP)), Some(true));
        assert_eq!(uses_mptcp_towards(None), Some(false));
    }
}
