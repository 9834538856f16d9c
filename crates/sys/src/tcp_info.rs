//! What TCP knows about one connection: `TCP_INFO`.
//!
//! Two uses: its byte counts are an account of what crossed a connection that is independent of
//! our own counting, and its times tell what limited a sender.
//!
//! The structure has grown with the kernel (struct tcp_info, include/uapi/linux/tcp.h): fields
//! are only ever appended, and the kernel says how many bytes it filled. So it is read as bytes
//! at fixed offsets, and a field that an older kernel does not know is `None` instead of zero.
//!
//! Never touches the connection. Never corrects for the SYN and the FIN, which occupy a sequence
//! number each and are counted as follows (checked by the tests below): `bytes_received` counts
//! the peer's FIN once it has arrived; `bytes_acked` counts the own SYN at the end that
//! connected, and the own FIN at either; `bytes_sent` counts payload only.

use std::io;
use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use crate::sockopt::{self, Name};

/// State of a connection (include/net/tcp_states.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TcpState {
    /// Both directions open.
    Established,
    /// SYN sent, no answer yet.
    SynSent,
    /// SYN answered, no acknowledgement yet.
    SynReceived,
    /// We have sent a FIN that is not acknowledged.
    FinWait1,
    /// Our FIN is acknowledged, the peer's direction is open.
    FinWait2,
    /// Both directions have ended, waiting for stray segments.
    TimeWait,
    /// No connection.
    Closed,
    /// The peer has ended its direction, ours is open.
    CloseWait,
    /// The peer has ended, and our FIN is not acknowledged.
    LastAck,
    /// Listening.
    Listen,
    /// Both ended at the same moment.
    Closing,
    /// A state this program does not know.
    Other(u8),
}

impl From<u8> for TcpState {
    fn from(number: u8) -> Self {
        match number {
            1 => Self::Established,
            2 => Self::SynSent,
            3 => Self::SynReceived,
            4 => Self::FinWait1,
            5 => Self::FinWait2,
            6 => Self::TimeWait,
            7 => Self::Closed,
            8 => Self::CloseWait,
            9 => Self::LastAck,
            10 => Self::Listen,
            11 => Self::Closing,
            other => Self::Other(other),
        }
    }
}

/// A snapshot of one connection. Counts run since the connection was made.
///
/// Each field but the state is `None` if the kernel is too old to know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// The state of the connection.
    pub state: TcpState,
    /// Shift of the windows that the peer announces.
    pub snd_wscale: Option<u8>,
    /// Shift of the windows that we announce.
    pub rcv_wscale: Option<u8>,
    /// Whether `delivery_rate` was limited by the program, not by the path.
    pub delivery_rate_app_limited: Option<bool>,
    /// Largest segment sent now, bytes.
    pub snd_mss: Option<u32>,
    /// Estimate of the size of received segments, bytes.
    pub rcv_mss: Option<u32>,
    /// Segments in flight; of a listener, connections that wait for accept.
    pub unacked: Option<u32>,
    /// Segments believed lost.
    pub lost: Option<u32>,
    /// Path MTU, bytes.
    pub pmtu: Option<u32>,
    /// Current receive window's slow-start threshold, bytes.
    pub rcv_ssthresh: Option<u32>,
    /// Smoothed round-trip time, µs.
    pub rtt_us: Option<u32>,
    /// Variation of the round-trip time, µs.
    pub rtt_var_us: Option<u32>,
    /// Congestion window, segments.
    pub snd_cwnd: Option<u32>,
    /// Largest segment announced to the peer, bytes.
    pub adv_mss: Option<u32>,
    /// Receiver's estimate of the round-trip time, µs; 0 while unknown.
    pub rcv_rtt_us: Option<u32>,
    /// What the receiver's autotuning measured per round trip, bytes.
    pub rcv_space: Option<u32>,
    /// Segments retransmitted.
    pub total_retrans: Option<u32>,
    /// Pacing rate, bytes/s; all ones means unpaced (`None` here).
    pub pacing_rate: Option<u64>,
    /// Bytes that the peer acknowledged; the SYN of an active opener and the FIN included.
    pub bytes_acked: Option<u64>,
    /// Bytes received in order; the FIN included.
    pub bytes_received: Option<u64>,
    /// Segments sent.
    pub segs_out: Option<u32>,
    /// Segments received.
    pub segs_in: Option<u32>,
    /// Bytes written by the program but not yet sent for the first time.
    pub notsent_bytes: Option<u32>,
    /// Least round-trip time seen, µs; `None` also while nothing was measured.
    pub min_rtt_us: Option<u32>,
    /// Segments with data received.
    pub data_segs_in: Option<u32>,
    /// Segments with data sent.
    pub data_segs_out: Option<u32>,
    /// Latest goodput sample, bytes/s.
    pub delivery_rate: Option<u64>,
    /// Time with data outstanding, µs.
    pub busy_time_us: Option<u64>,
    /// Part of it in which the peer's window was the limit, µs.
    pub rwnd_limited_us: Option<u64>,
    /// Part of it in which our send buffer was the limit, µs.
    pub sndbuf_limited_us: Option<u64>,
    /// Segments delivered, retransmissions included. Linux 4.18.
    pub delivered: Option<u32>,
    /// Those of them delivered with a congestion mark. Linux 4.18.
    pub delivered_ce: Option<u32>,
    /// Payload bytes sent, retransmissions included. Linux 4.19.
    pub bytes_sent: Option<u64>,
    /// Payload bytes retransmitted. Linux 4.19.
    pub bytes_retrans: Option<u64>,
    /// Duplicate-SACKs received. Linux 4.19.
    pub dsack_dups: Option<u32>,
    /// Reordering events seen. Linux 4.19.
    pub reord_seen: Option<u32>,
    /// Segments received out of order. Linux 5.4.
    pub rcv_ooopack: Option<u32>,
    /// Window that the peer announced, scaled, bytes. Linux 5.4.
    pub snd_wnd: Option<u32>,
    /// Window that we announced, scaled, bytes. Linux 6.2.
    pub rcv_wnd: Option<u32>,
}

/// Reads `TCP_INFO` of a TCP socket.
///
/// # Errors
///
/// `EOPNOTSUPP` or `ENOPROTOOPT` for a socket that is not TCP, `ENOTSOCK` for a pipe or a file.
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // Room for more than any kernel fills today: the rest is cut off, not an error.
    let mut bytes = [0u8; 512];
    let len = sockopt::read_bytes(fd, Name(libc::IPPROTO_TCP, libc::TCP_INFO), &mut bytes)?;
    Ok(parse(&bytes[..len]))
}

/// Byte offsets in struct tcp_info, in its order.
mod offset {
    pub(super) const STATE: usize = 0;
    pub(super) const WSCALES: usize = 6;
    pub(super) const FLAGS: usize = 7;
    pub(super) const SND_MSS: usize = 16;
    pub(super) const RCV_MSS: usize = 20;
    pub(super) const UNACKED: usize = 24;
    pub(super) const LOST: usize = 32;
    pub(super) const PMTU: usize = 60;
    pub(super) const RCV_SSTHRESH: usize = 64;
    pub(super) const RTT: usize = 68;
    pub(super) const RTTVAR: usize = 72;
    pub(super) const SND_CWND: usize = 80;
    pub(super) const ADVMSS: usize = 84;
    pub(super) const RCV_RTT: usize = 92;
    pub(super) const RCV_SPACE: usize = 96;
    pub(super) const TOTAL_RETRANS: usize = 100;
    pub(super) const PACING_RATE: usize = 104;
    pub(super) const BYTES_ACKED: usize = 120;
    pub(super) const BYTES_RECEIVED: usize = 128;
    pub(super) const SEGS_OUT: usize = 136;
    pub(super) const SEGS_IN: usize = 140;
    pub(super) const NOTSENT_BYTES: usize = 144;
    pub(super) const MIN_RTT: usize = 148;
    pub(super) const DATA_SEGS_IN: usize = 152;
    pub(super) const DATA_SEGS_OUT: usize = 156;
    pub(super) const DELIVERY_RATE: usize = 160;
    pub(super) const BUSY_TIME: usize = 168;
    pub(super) const RWND_LIMITED: usize = 176;
    pub(super) const SNDBUF_LIMITED: usize = 184;
    pub(super) const DELIVERED: usize = 192;
    pub(super) const DELIVERED_CE: usize = 196;
    pub(super) const BYTES_SENT: usize = 200;
    pub(super) const BYTES_RETRANS: usize = 208;
    pub(super) const DSACK_DUPS: usize = 216;
    pub(super) const REORD_SEEN: usize = 220;
    pub(super) const RCV_OOOPACK: usize = 224;
    pub(super) const SND_WND: usize = 228;
    pub(super) const RCV_WND: usize = 232;
}

fn parse(bytes: &[u8]) -> TcpInfo {
    let byte = |offset: usize| bytes.get(offset).copied();
    let u32_at = |offset: usize| Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?));
    let u64_at = |offset: usize| Some(u64::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?));
    let wscales = byte(offset::WSCALES).map(nibbles);
    TcpInfo {
        state: byte(offset::STATE).unwrap_or(0).into(),
        snd_wscale: wscales.map(|(first, _)| first),
        rcv_wscale: wscales.map(|(_, second)| second),
        delivery_rate_app_limited: byte(offset::FLAGS).map(first_bit),
        snd_mss: u32_at(offset::SND_MSS),
        rcv_mss: u32_at(offset::RCV_MSS),
        unacked: u32_at(offset::UNACKED),
        lost: u32_at(offset::LOST),
        pmtu: u32_at(offset::PMTU),
        rcv_ssthresh: u32_at(offset::RCV_SSTHRESH),
        rtt_us: u32_at(offset::RTT),
        rtt_var_us: u32_at(offset::RTTVAR),
        snd_cwnd: u32_at(offset::SND_CWND),
        adv_mss: u32_at(offset::ADVMSS),
        rcv_rtt_us: u32_at(offset::RCV_RTT),
        rcv_space: u32_at(offset::RCV_SPACE),
        total_retrans: u32_at(offset::TOTAL_RETRANS),
        pacing_rate: u64_at(offset::PACING_RATE).filter(|rate| *rate != u64::MAX),
        bytes_acked: u64_at(offset::BYTES_ACKED),
        bytes_received: u64_at(offset::BYTES_RECEIVED),
        segs_out: u32_at(offset::SEGS_OUT),
        segs_in: u32_at(offset::SEGS_IN),
        notsent_bytes: u32_at(offset::NOTSENT_BYTES),
        // The running minimum starts at all ones (net/ipv4/tcp.c, `tcp_init_sock`).
        min_rtt_us: u32_at(offset::MIN_RTT).filter(|rtt| *rtt != u32::MAX),
        data_segs_in: u32_at(offset::DATA_SEGS_IN),
        data_segs_out: u32_at(offset::DATA_SEGS_OUT),
        delivery_rate: u64_at(offset::DELIVERY_RATE),
        busy_time_us: u64_at(offset::BUSY_TIME),
        rwnd_limited_us: u64_at(offset::RWND_LIMITED),
        sndbuf_limited_us: u64_at(offset::SNDBUF_LIMITED),
        delivered: u32_at(offset::DELIVERED),
        delivered_ce: u32_at(offset::DELIVERED_CE),
        bytes_sent: u64_at(offset::BYTES_SENT),
        bytes_retrans: u64_at(offset::BYTES_RETRANS),
        dsack_dups: u32_at(offset::DSACK_DUPS),
        reord_seen: u32_at(offset::REORD_SEEN),
        rcv_ooopack: u32_at(offset::RCV_OOOPACK),
        snd_wnd: u32_at(offset::SND_WND),
        rcv_wnd: u32_at(offset::RCV_WND),
    }
}

/// Two bit fields of four bits in their declared order: C compilers for Linux fill a byte from
/// its low end on little-endian machines and from its high end on big-endian ones.
fn nibbles(byte: u8) -> (u8, u8) {
    if cfg!(target_endian = "little") { (byte & 0xF, byte >> 4) } else { (byte >> 4, byte & 0xF) }
}

/// The first declared bit field of one bit, by the same rule.
fn first_bit(byte: u8) -> bool {
    let mask = if cfg!(target_endian = "little") { 0x01 } else { 0x80 };
    byte & mask != 0
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;
    use crate::io::{read, shutdown, write};

    /// (the end that connected, the end that accepted)
    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    fn drain(stream: &TcpStream, mut bytes: usize) {
        let mut buffer = vec![0u8; 64 << 10];
        while bytes > 0 {
            let count = read(stream.as_fd(), &mut buffer).unwrap();
            assert_ne!(count, 0, "ended early");
            bytes -= count;
        }
    }

    /// Asks until the condition holds, since an acknowledgement may be on its way.
    fn until(stream: &TcpStream, holds: impl Fn(&TcpInfo) -> bool) -> TcpInfo {
        loop {
            let info = tcp_info(stream.as_fd()).unwrap();
            if holds(&info) {
                return info;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn offsets_agree_with_libc_where_it_knows_the_field() {
        assert_eq!(offset::STATE, offset_of!(libc::tcp_info, tcpi_state));
        assert_eq!(offset::SND_MSS, offset_of!(libc::tcp_info, tcpi_snd_mss));
        assert_eq!(offset::RCV_MSS, offset_of!(libc::tcp_info, tcpi_rcv_mss));
        assert_eq!(offset::UNACKED, offset_of!(libc::tcp_info, tcpi_unacked));
        assert_eq!(offset::LOST, offset_of!(libc::tcp_info, tcpi_lost));
        assert_eq!(offset::PMTU, offset_of!(libc::tcp_info, tcpi_pmtu));
        assert_eq!(offset::RTT, offset_of!(libc::tcp_info, tcpi_rtt));
        assert_eq!(offset::RCV_RTT, offset_of!(libc::tcp_info, tcpi_rcv_rtt));
        assert_eq!(offset::RCV_SSTHRESH, offset_of!(libc::tcp_info, tcpi_rcv_ssthresh));
        assert_eq!(offset::RCV_SPACE, offset_of!(libc::tcp_info, tcpi_rcv_space));
        assert_eq!(offset::TOTAL_RETRANS, offset_of!(libc::tcp_info, tcpi_total_retrans));
    }

    #[test]
    fn a_short_answer_leaves_newer_fields_out() {
        let mut bytes = [1u8; 104];
        bytes[offset::WSCALES] = if cfg!(target_endian = "little") { 0x72 } else { 0x27 };
        let info = parse(&bytes);
        assert_eq!(info.state, TcpState::Established);
        assert_eq!((info.snd_wscale, info.rcv_wscale), (Some(2), Some(7)));
        assert_eq!(info.total_retrans, Some(0x0101_0101));
        assert_eq!(info.pacing_rate, None);
        assert_eq!(info.bytes_received, None);
        assert_eq!(parse(&[]).rtt_us, None);
    }

    #[test]
    fn all_ones_mean_not_measured() {
        let info = parse(&[0xFF; 248]);
        assert_eq!(info.min_rtt_us, None);
        assert_eq!(info.pacing_rate, None);
        assert_eq!(info.state, TcpState::Other(255));
    }

    #[test]
    fn byte_counts_match_what_was_sent() {
        const SENT: usize = 1 << 20;
        let (client, server) = connected();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let bytes = vec![3u8; SENT];
                let mut sent = 0;
                while sent < SENT {
                    sent += write(client.as_fd(), &bytes[sent..]).unwrap();
                }
            });
            drain(&server, SENT);
        });

        let payload = Some(SENT as u64);
        let info = until(&client, |info| info.unacked == Some(0));
        assert_eq!(info.state, TcpState::Established);
        assert_eq!(info.bytes_sent.zip(info.bytes_retrans).map(|(a, b)| a - b), payload);
        assert_eq!(info.notsent_bytes, Some(0));
        assert!(info.rtt_us > Some(0) && info.min_rtt_us.is_some());
        assert!(info.snd_mss > Some(0) && info.snd_cwnd > Some(0));
        assert!(info.data_segs_out > Some(0));
        // The end that connected counts the SYN among the acknowledged bytes.
        assert_eq!(info.bytes_acked, Some(SENT as u64 + 1));
        let received = tcp_info(server.as_fd()).unwrap();
        assert_eq!(received.bytes_received, payload);

        // A FIN occupies one sequence number and is counted as a byte received.
        shutdown(client.as_fd(), Shutdown::Write).unwrap();
        assert_eq!(read(server.as_fd(), &mut [0u8; 1]).unwrap(), 0);
        let received = tcp_info(server.as_fd()).unwrap();
        assert_eq!(received.bytes_received, Some(SENT as u64 + 1));
        assert_eq!(received.state, TcpState::CloseWait);
        let info = until(&client, |info| info.state == TcpState::FinWait2);
        assert_eq!(info.bytes_acked, Some(SENT as u64 + 2));
    }

    #[test]
    fn the_end_that_accepted_does_not_count_its_syn() {
        let (client, server) = connected();
        assert_eq!(write(server.as_fd(), b"12345").unwrap(), 5);
        drain(&client, 5);
        let info = until(&server, |info| info.unacked == Some(0));
        assert_eq!(info.bytes_acked, Some(5));
        assert_eq!(info.bytes_sent, Some(5));
        assert_eq!(tcp_info(client.as_fd()).unwrap().bytes_received, Some(5));
    }

    #[test]
    fn other_descriptors_have_none() {
        let (left, _right) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(left.as_fd()).is_err());
        let (reader, _writer) = crate::pipe::anonymous().unwrap();
        let error = tcp_info(reader.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    }
}
