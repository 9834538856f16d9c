//! Rows of the table of factors: options of sockets and pipes.
//!
//! `option` describes the fields of a kernel's option. Numbers are those of the kernel's headers:
//! `include/uapi/asm-generic/socket.h` (x86, ARM and RISC-V) for `OptionLayer::Socket`, `linux/tcp.h`, `linux/in.h` and
//! `linux/in6.h` for the others.

macro_rules! with_option_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        /// `SO_SNDBUF`, bytes.
        sndbuf: u64 = OPTION {
            kind: SOCKET_BUFFER,
            summary: "SO_SNDBUF in bytes, or auto",
            details: "as requested: the kernel doubles and clamps it",
            fits: SOCKETS,
        } sets socket_option("SO_SNDBUF", 7) {
            switching: Switching::Lasts,
            doubled: true,
            always: true,
            why: "the kernel doubles what is asked for and clamps it at twice net.core.wmem_max: raise that, or ask for less",
            why_more: Some(LEAST_BUFFER),
            beyond_loopback: FIXED_BUFFER,
        },
        /// `SO_RCVBUF`, bytes.
        rcvbuf: u64 = OPTION {
            kind: SOCKET_BUFFER,
            summary: "SO_RCVBUF in bytes, or auto",
            details: "as requested, at the server of calls; auto keeps autotuning on, over UDP it requests 4 MiB",
            fits: SOCKETS,
        } sets socket_option("SO_RCVBUF", 8) {
            switching: Switching::Lasts,
            sites: rcvbuf_sites,
            doubled: true,
            always: true,
            why: "the kernel doubles what is asked for and clamps it at twice net.core.rmem_max: raise that, or ask for less",
            why_more: Some(LEAST_BUFFER),
            beyond_loopback: FIXED_BUFFER,
        },
        /// `SO_RCVLOWAT`, bytes.
        rcvlowat: u64 = OPTION {
            kind: SOCKET_BUFFER,
            defaults: stream("auto"),
            summary: "SO_RCVLOWAT: bytes that wake a blocked reader, or auto",
            fits: CONNECTIONS,
        } sets socket_option("SO_RCVLOWAT", 18) {
            switching: BLOCKS,
            sites: |_| (&[EndRole::Sink], When::Early),
            always: true,
            why: "TCP keeps it within half of a receive buffer that was set: leave --rcvbuf to the system, or ask for less",
        },
        /// `TCP_NODELAY`.
        nodelay: bool = OPTION {
            summary: "TCP_NODELAY: on, off or auto",
            details: "at the writer of a stream, at both ends of calls",
        } sets tcp_option("TCP_NODELAY", 1) {
            switching: Switching::Ends,
            sites: nodelay_sites,
            always: true,
            beyond_loopback: beyond_loopback(is_not_on, "on a network small writes wait a round trip or more without it"),
        },
        /// The ends of calls whose `TCP_NODELAY` is set.
        nodelay_at: CallEnds = OPTION {
            defaults: call("both"),
            summary: "End that sets TCP_NODELAY: both, client or server",
            needs: Some(Needs { with: &[FactorKey::nodelay], when: |spec| spec.nodelay() == Some(true), text: "--nodelay on" }),
        },
        /// TCP congestion control of the writer.
        congestion: KernelName = OPTION {
            kind: LevelKind::Name(|s| Ok(s.to_owned())),
            heading: "cc",
            summary: "TCP congestion control: cubic, bbr, …, or auto",
            details: "at the writer",
        } sets tcp_option("TCP_CONGESTION", 13) {
            switching: Switching::Lasts,
            form: ValueForm::Text,
            always: true,
            why: "a route or a BPF program of the system chooses another",
            beyond_loopback: beyond_loopback(is_set, "loopback has no queue and no loss: on a network another one may be best"),
        },
        /// `SO_LINGER` of accepted connections, seconds.
        linger: u64 = OPTION {
            kind: LevelKind::Count { min: 0, max: 3600, auto: true },
            defaults: call("auto"),
            summary: "SO_LINGER in seconds, or auto (off)",
            details: "of accepted connections; 0 closes with a reset",
        } sets socket_option("SO_LINGER", 13) {
            switching: BLOCKS,
            form: ValueForm::Linger,
            unit: SECONDS,
            sites: |_| (&[EndRole::Server], When::Accepted),
        },
        /// Whether each thread of the server has a listening socket of its own.
        reuseport: bool = OPTION {
            kind: LevelKind::Switch { auto: false },
            defaults: call("off"),
            summary: "SO_REUSEPORT: a listening socket per server thread",
            details: "over UDP, a socket for each thread",
            fits: PORTS,
        } sets socket_option("SO_REUSEPORT", 15) {
            switching: AT_THE_START,
            sites: |_| (&[EndRole::Server], When::Early),
        },
        /// `SO_BUSY_POLL`, nanoseconds.
        busy_poll: u64 = OPTION {
            kind: SHORT_TIME,
            summary: "SO_BUSY_POLL: polling time, such as 50us, or auto (off)",
            details: "the reader polls the device for this time before it sleeps; loopback has none to poll",
            fits: PORTS,
        } sets socket_option("SO_BUSY_POLL", 46) {
            switching: Switching::Ends,
            unit: MICROSECONDS,
            sites: |_| (READERS, When::Early),
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
            why: "the kernel counts whole microseconds",
        },
        /// `TCP_QUICKACK`.
        quickack: bool = OPTION {
            summary: "TCP_QUICKACK: on, off or auto",
            details: "at the reader, set once; TCP may change the mode later",
        } sets tcp_option("TCP_QUICKACK", 12) {
            switching: Switching::Never("the kernel changes it by itself within a moment"),
            sites: |_| (READERS, When::Accepted),
            changes: true,
            why: "it does not last: TCP enters and leaves the mode by itself (tcp(7))",
            beyond_loopback: beyond_loopback(is_not_on, "over loopback an acknowledgement takes no time; on a network writers may wait for it"),
        },
        /// Whether an end of calls sets `TCP_QUICKACK` again after each receive.
        quickack_again: bool = OPTION {
            kind: LevelKind::Switch { auto: false },
            defaults: call("off"),
            summary: "Set TCP_QUICKACK again after each receive",
            details: "at both ends of calls; the kernel leaves the mode by itself (tcp(7))",
            needs: Some(Needs { with: &[FactorKey::quickack, FactorKey::server_engine], when: |spec| spec.quickack().is_some() && serves_by_system_calls(spec), text: "--quickack on or off, and --server-engine blocking or epoll" }),
        },
        /// How a message of several parts is written.
        message_writes: MessageWrites = OPTION {
            defaults: call("separate"),
            heading: "writes",
            summary: "Parts of a message: separate, writev, copy, sendfile, …",
            details: "with --request-chunk, --response-chunk or --response-header; separate: a write(2) each, writev: one writev(2), copy: one buffer, more: MSG_MORE, cork: TCP_CORK, sendfile: the first part by send(2), the rest of a reply by sendfile(2), more-sendfile: both",
            only_with: &[FactorKey::request_chunk, FactorKey::response_chunk, FactorKey::response_header],
            needs: Some(Needs { with: &[FactorKey::server_engine], when: serves_by_system_calls, text: "--server-engine blocking or epoll" }),
        },
        /// `TCP_NOTSENT_LOWAT`, bytes.
        notsent_lowat: u64 = OPTION {
            kind: SOCKET_BUFFER,
            summary: "TCP_NOTSENT_LOWAT: limit of unsent bytes, or auto",
            details: "at the writer: a socket with more unsent bytes is not writable",
        } sets tcp_option("TCP_NOTSENT_LOWAT", 25) {
            switching: Switching::Ends,
        },
        /// `TCP_CORK`.
        cork: bool = OPTION {
            defaults: stream("auto"),
            summary: "TCP_CORK: on, off or auto",
            details: "at the writer: only full segments leave, a partial one waits up to 200 ms",
        } sets tcp_option("TCP_CORK", 3) {
            switching: BLOCKS,
            sites: |_| (&[EndRole::Source], When::Early),
        },
        /// `SO_MAX_PACING_RATE`, bytes per second.
        pacing_rate: u64 = OPTION {
            kind: LevelKind::Rate { word: "auto" },
            heading: "pacing",
            summary: "SO_MAX_PACING_RATE: most bytes per second, or auto",
            details: "at the writer, of each connection; the kernel spreads segments over time",
        } sets socket_option("SO_MAX_PACING_RATE", 47) {
            switching: Switching::Never("the kernel keeps pacing a connection after it is set back"),
            form: ValueForm::Long,
        },
        /// `TCP_RTO_MIN_US`, nanoseconds.
        rto_min: u64 = OPTION {
            kind: SHORT_TIME,
            summary: "TCP_RTO_MIN_US: shortest time before a repeat, or auto",
            details: "at the writer; Linux 6.17 and later, which take 8ms to 200ms",
        } sets tcp_option("TCP_RTO_MIN_US", 45) {
            switching: Switching::Ends,
            unit: MICROSECONDS,
            no_effect: without_loss,
            why: TICKS,
        },
        /// `TCP_RTO_MAX_MS`, nanoseconds.
        rto_max: u64 = OPTION {
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
            summary: "TCP_RTO_MAX_MS: longest time before a repeat, or auto",
            details: "at the writer; Linux 6.15 and later, which take 1s to 120s",
        } sets tcp_option("TCP_RTO_MAX_MS", 44) {
            switching: Switching::Ends,
            unit: MILLISECONDS,
            no_effect: without_loss,
            why: TICKS,
        },
        /// `TCP_DELACK_MAX_US`, nanoseconds.
        delack_max: u64 = OPTION {
            kind: SHORT_TIME,
            summary: "TCP_DELACK_MAX_US: longest delay of an ACK, or auto",
            details: "at the reader; Linux 6.17 and later, which take 40ms to 200ms",
        } sets tcp_option("TCP_DELACK_MAX_US", 46) {
            switching: Switching::Ends,
            unit: MICROSECONDS,
            sites: |_| (READERS, When::Early),
            why: TICKS,
        },
        /// `TCP_TX_DELAY`, nanoseconds.
        tx_delay: u64 = OPTION {
            kind: SHORT_TIME,
            summary: "TCP_TX_DELAY: delay of each packet sent, or auto (none)",
            details: "at the writer; only the fq packet scheduler delays",
        } sets tcp_option("TCP_TX_DELAY", 37) {
            switching: Switching::Never("the kernel keeps pacing a connection after it is set back"),
            unit: MICROSECONDS,
            no_effect: |spec| over_loopback(spec, "only the fq packet scheduler delays packets, and loopback has no scheduler"),
            why: "the kernel counts whole microseconds",
        },
        /// `SO_TXREHASH`.
        txrehash: bool = OPTION {
            summary: "SO_TXREHASH: other path after a timeout: on, off, auto",
            details: "at the writer; Linux 6.0 and later",
        } sets socket_option("SO_TXREHASH", 74) {
            switching: Switching::Ends,
            no_effect: |spec| over_loopback(spec, "loopback is the only path"),
        },
        /// `IP_TOS`, or `IPV6_TCLASS` over IPv6.
        tos: u64 = OPTION {
            kind: LevelKind::Count { min: 0, max: 255, auto: true },
            summary: "IP_TOS: class of the packets sent, or auto",
            details: "at the writer; 4 × DSCP, such as 184 of EF; IPV6_TCLASS over IPv6",
            fits: PORTS,
        } sets socket_option("IP_TOS", 1) {
            switching: Switching::Never("it replaces SO_PRIORITY too, which could not be set back"),
            variant: |setter, transport| ipv6(setter, transport, ("IPV6_TCLASS", OptionLayer::Ipv6, 67, ValueForm::Int)),
            no_effect: |spec| over_loopback(spec, "loopback has one queue for all classes"),
            why: "TCP keeps the two lowest bits, which are of ECN, for itself",
            layer: OptionLayer::Ip,
        },
        /// `SO_PREFER_BUSY_POLL`.
        prefer_busy_poll: bool = OPTION {
            summary: "SO_PREFER_BUSY_POLL: on, off or auto",
            details: "at the reader, with --busy-poll: the device's interrupts stay off while it is polled",
            fits: PORTS,
        } sets socket_option("SO_PREFER_BUSY_POLL", 69) {
            switching: Switching::Ends,
            sites: |_| (READERS, When::Early),
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
        },
        /// `SO_BUSY_POLL_BUDGET`.
        busy_poll_budget: u64 = OPTION {
            kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
            summary: "SO_BUSY_POLL_BUDGET: packets of one poll, or auto (8)",
            details: "at the reader, with --busy-poll; the kernel does not report it",
            fits: PORTS,
        } sets socket_option("SO_BUSY_POLL_BUDGET", 70) {
            switching: Switching::Ends,
            sites: |_| (READERS, When::Early),
            readable: |_| false,
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
        },
        /// `TCP_DEFER_ACCEPT`, seconds.
        defer_accept: u64 = OPTION {
            kind: LevelKind::Count { min: 1, max: 3600, auto: true },
            defaults: call("auto"),
            summary: "TCP_DEFER_ACCEPT in seconds, or auto (off)",
            details: "at the server: a connection can be accepted once it has sent data, or after this time",
        } sets tcp_option("TCP_DEFER_ACCEPT", 9) {
            switching: AT_THE_START,
            unit: SECONDS,
            sites: |_| (&[EndRole::Server], When::Early),
            of_listener: true,
            no_effect: |spec| once_per_flow(spec),
            why: "the kernel rounds up to a moment at which it repeats its part of the handshake: 1, 3, 7, 15, 31 s",
        },
        /// `TCP_FASTOPEN` of the listener, connections; `TCP_FASTOPEN_CONNECT` of the client.
        fastopen: u64 = OPTION {
            kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
            defaults: call("auto"),
            summary: "TCP_FASTOPEN: most waiting connections, or auto (off)",
            details: "at the server; clients set TCP_FASTOPEN_CONNECT, so a request can go with the SYN",
        } sets tcp_option("TCP_FASTOPEN", 23) {
            switching: AT_THE_START,
            variant: |setter, _| (setter == EndRole::Client).then_some(("TCP_FASTOPEN_CONNECT", OptionLayer::Tcp, 30, ValueForm::Flag)),
            sites: |_| (&[EndRole::Client, EndRole::Server], When::Early),
            of_listener: true,
            no_effect: |spec| once_per_flow(spec),
            why: "the kernel clamps it at net.core.somaxconn",
        },
        /// `SO_ZEROCOPY`, with which each send has `MSG_ZEROCOPY`.
        zerocopy: bool = OPTION {
            defaults: stream("auto"),
            summary: "SO_ZEROCOPY and MSG_ZEROCOPY: on, off or auto (off)",
            details: "at the writer, with --engine blocking or epoll; the report has the share of sends that the kernel copied",
            needs: Some(Needs { with: &[FactorKey::engine], when: |spec| matches!(spec.engine(), Some(Engine::Blocking | Engine::Epoll(_))), text: "--engine blocking or epoll (for io_uring there is --engine uring:zc)" }),
        } sets socket_option("SO_ZEROCOPY", 60) {
            switching: IN_ITS_CALLS,
            sites: |_| (&[EndRole::Source], When::Early),
            beyond_loopback: beyond_loopback(is_set, "loopback copies every zero-copy send; a network card may not"),
        },
        /// `TCP_INQ`, or `SO_INQ` over Unix sockets.
        inq: bool = OPTION {
            defaults: stream("auto"),
            summary: "TCP_INQ: report queued bytes: on, off or auto (off)",
            details: "at the reader, with --engine blocking: recvmsg(2) brings the count; SO_INQ over Unix sockets, Linux 6.17 and later",
            // Unix sockets of packets have no such option.
            fits: |transport| transport.is_tcp() || *transport == Transport::Unix,
            needs: Some(Needs { with: &[FactorKey::engine], when: |spec| spec.engine() == Some(Engine::Blocking), text: "--engine blocking" }),
        } sets tcp_option("TCP_INQ", 36) {
            switching: IN_ITS_CALLS,
            variant: |_, transport| (*transport == Transport::Unix).then_some(("SO_INQ", OptionLayer::Socket, 84, ValueForm::Int)),
            sites: |_| (&[EndRole::Sink], When::Accepted),
            // unix(7) sockets have no getsockopt(2) for it.
            readable: Transport::is_tcp,
        },
        /// Whether each listening socket has the CPU of its thread as `SO_INCOMING_CPU`.
        incoming_cpu: bool = OPTION {
            defaults: call("auto"),
            summary: "SO_INCOMING_CPU: socket of the packet's CPU, or auto (off)",
            details: "at the server, with --reuseport: each listening socket has the CPU of its thread",
            fits: PORTS,
            needs: Some(Needs { with: &[FactorKey::reuseport], when: |spec| spec.reuseport() == Some(true), text: "--reuseport on" }),
        } sets socket_option("SO_INCOMING_CPU", 49) {
            switching: AT_THE_START,
            form: ValueForm::Cpu,
            sites: |_| (&[EndRole::Server], When::Early),
            of_listener: true,
        },
        /// Capacity of the pipe, bytes.
        pipe_size: u64 = OPTION {
            kind: SOCKET_BUFFER,
            defaults: stream("auto"),
            heading: "pipe",
            summary: "Capacity of the pipe (F_SETPIPE_SZ), or auto",
            fits: |transport| *transport == Transport::Pipe,
        } sets other_option("F_SETPIPE_SZ") {
            form: ValueForm::Pipe,
            sites: |_| (&[EndRole::Source], When::Early),
            always: true,
            why: "the kernel rounds up to a power of two of pages",
        },
    } } };
}
