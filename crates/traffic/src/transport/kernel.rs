//! The kernel's state of a connection, for a report.

use std::os::fd::BorrowedFd;

use bytegauge_model::{FlowReport, TcpReport};
use bytegauge_sys::{socket_memory, tcp_info};

use crate::setup::Setup;
use crate::transport::options;

/// The kernel's state of a connection now; a flow's counters stay empty.
pub(crate) fn report(fd: BorrowedFd<'_>, setup: &Setup) -> FlowReport {
    let transport = setup.transport();
    let tcp = if transport.is_tcp() { tcp_info::tcp_info(fd).ok() } else { None };
    let memory = if transport.is_socket() { socket_memory::socket_memory(fd).ok() } else { None };
    FlowReport {
        tcp: tcp.as_ref().map(tcp_report).map(Box::new),
        options: options::in_force(fd, transport, &setup.spec).into(),
        socket_memory: memory.as_ref().map(held_bytes),
        ..FlowReport::default()
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
        retransmits: info.total_retrans.map(u64::from),
        busy_us: info.busy_time_us,
        rwnd_limited_us: info.rwnd_limited_us,
        sndbuf_limited_us: info.sndbuf_limited_us,
        delivery_rate: info.delivery_rate,
        min_rtt_us: info.min_rtt_us.map(u64::from),
        snd_wscale: info.snd_wscale,
        rcv_wscale: info.rcv_wscale,
        bytes_sent: info.bytes_sent,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
    }
}
