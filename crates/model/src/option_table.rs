//! The table of options of sockets and pipes: one row declares everything about an option.
//!
//! A row declares the field of [`Spec`](crate::Spec), the factor with its flag and help, the kernel's option with its unit,
//! and the ends that set it. Three places need different parts of a row, so the table is a macro that passes its rows on: to `spec`,
//! which makes the fields, and to `option`, which makes `OPTIONS`; `factor` takes its factors from there. The names in
//! a row are those of `option`.
//!
//! Numbers are those of the kernel's headers: `include/uapi/asm-generic/socket.h` (x86, ARM and RISC-V) for `OptionLayer::Socket`,
//! `linux/tcp.h`, `linux/in.h` and `linux/in6.h` for the others.
//!
//! Long because it is one table.

/// Calls a macro with everything in the first braces, the rows, and everything in the second braces.
macro_rules! with_options {
    ($receiver:ident { $($before:tt)* } { $($after:tt)* }) => { $receiver! {
        $($before)*
        /// `SO_SNDBUF`, bytes.
        sndbuf: OrAuto<u64> = OptionRow {
            name: "SO_SNDBUF",
            number: 7,
            kind: SOCKET_BUFFER,
            heading: "sndbuf",
            summary: "SO_SNDBUF in bytes, or auto",
            details: "as requested: the kernel doubles and clamps it",
            fits: SOCKETS,
            doubled: true,
            always: true,
            why: "the kernel doubles what is asked for and clamps it at twice net.core.wmem_max: raise that, or ask for less",
            why_more: Some(LEAST_BUFFER),
            ..USUAL
        },
        /// `SO_RCVBUF`, bytes.
        rcvbuf: OrAuto<u64> = OptionRow {
            name: "SO_RCVBUF",
            number: 8,
            kind: SOCKET_BUFFER,
            heading: "rcvbuf",
            summary: "SO_RCVBUF in bytes, or auto",
            details: "as requested, at the server of calls; auto keeps autotuning on, over UDP it requests 4 MiB",
            fits: SOCKETS,
            sites: rcvbuf_sites,
            doubled: true,
            always: true,
            why: "the kernel doubles what is asked for and clamps it at twice net.core.rmem_max: raise that, or ask for less",
            why_more: Some(LEAST_BUFFER),
            ..USUAL
        },
        /// `SO_RCVLOWAT`, bytes.
        rcvlowat: OrAuto<u64> = OptionRow {
            name: "SO_RCVLOWAT",
            number: 18,
            kind: SOCKET_BUFFER,
            defaults: stream("auto"),
            heading: "rcvlowat",
            summary: "SO_RCVLOWAT: bytes that wake a blocked reader, or auto",
            fits: CONNECTIONS,
            sites: |_| (&[Setter::Sink], When::Early),
            always: true,
            why: "TCP keeps it within half of a receive buffer that was set: leave --rcvbuf to the system, or ask for less",
            ..USUAL
        },
        /// `TCP_NODELAY`.
        nodelay: OrAuto<bool> = OptionRow {
            name: "TCP_NODELAY",
            layer: OptionLayer::Tcp,
            number: 1,
            kind: SWITCH,
            heading: "nodelay",
            summary: "TCP_NODELAY: on, off or auto",
            details: "at the writer of a stream, at both ends of calls",
            example: "off",
            always: true,
            ..USUAL
        },
        /// TCP congestion control of the writer.
        congestion: OrAuto<Arc<str>> = OptionRow {
            name: "TCP_CONGESTION",
            layer: OptionLayer::Tcp,
            number: 13,
            form: ValueForm::Text,
            kind: LevelKind::Name(|s| Ok(s.to_owned())),
            heading: "cc",
            summary: "TCP congestion control: cubic, bbr, …, or auto",
            details: "at the writer",
            // Built into every kernel and allowed for every user.
            example: "reno",
            always: true,
            why: "a route or a BPF program of the system chooses another",
            ..USUAL
        },
        /// `SO_LINGER` of accepted connections, seconds.
        linger: OrAuto<u64> = OptionRow {
            name: "SO_LINGER",
            number: 13,
            form: ValueForm::Linger,
            suffix: "s",
            kind: LevelKind::Count { min: 0, max: 3600, auto: true },
            defaults: call("auto"),
            heading: "linger",
            summary: "SO_LINGER in seconds, or auto (off)",
            details: "of accepted connections; 0 closes with a reset",
            example: "1",
            sites: |_| (&[Setter::Server], When::Accepted),
            ..USUAL
        },
        /// Whether each thread of the server has a listening socket of its own.
        reuseport: bool = OptionRow {
            name: "SO_REUSEPORT",
            number: 15,
            kind: LevelKind::Switch { auto: false },
            defaults: call("off"),
            heading: "reuseport",
            summary: "SO_REUSEPORT: a listening socket per server thread",
            details: "over UDP, a socket for each thread",
            example: "on",
            fits: PORTS,
            sites: |_| (&[Setter::Server], When::Early),
            ..USUAL
        },
        /// `SO_BUSY_POLL`, nanoseconds.
        busy_poll: OrAuto<u64> = OptionRow {
            name: "SO_BUSY_POLL",
            number: 46,
            suffix: "us",
            unit: 1000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "busy poll",
            summary: "SO_BUSY_POLL: polling time, such as 50us, or auto (off)",
            details: "the reader polls the device for this time before it sleeps; loopback has none to poll",
            example: "50us",
            fits: PORTS,
            sites: |_| (READERS, When::Early),
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
            why: "the kernel counts whole microseconds",
            ..USUAL
        },
        /// `TCP_QUICKACK`.
        quickack: OrAuto<bool> = OptionRow {
            name: "TCP_QUICKACK",
            layer: OptionLayer::Tcp,
            number: 12,
            kind: SWITCH,
            heading: "quickack",
            summary: "TCP_QUICKACK: on, off or auto",
            details: "at the reader, set once; TCP may change the mode later",
            example: "off",
            sites: |_| (READERS, When::Accepted),
            changes: true,
            why: "it does not last: TCP enters and leaves the mode by itself (tcp(7))",
            ..USUAL
        },
        /// `TCP_NOTSENT_LOWAT`, bytes.
        notsent_lowat: OrAuto<u64> = OptionRow {
            name: "TCP_NOTSENT_LOWAT",
            layer: OptionLayer::Tcp,
            number: 25,
            kind: SOCKET_BUFFER,
            heading: "notsent lowat",
            summary: "TCP_NOTSENT_LOWAT: limit of unsent bytes, or auto",
            details: "at the writer: a socket with more unsent bytes is not writable",
            ..USUAL
        },
        /// `TCP_CORK`.
        cork: OrAuto<bool> = OptionRow {
            name: "TCP_CORK",
            layer: OptionLayer::Tcp,
            number: 3,
            kind: SWITCH,
            defaults: stream("auto"),
            heading: "cork",
            summary: "TCP_CORK: on, off or auto",
            details: "at the writer: only full segments leave, a partial one waits up to 200 ms",
            example: "off",
            sites: |_| (&[Setter::Source], When::Early),
            ..USUAL
        },
        /// `SO_MAX_PACING_RATE`, bytes per second.
        pacing_rate: OrAuto<u64> = OptionRow {
            name: "SO_MAX_PACING_RATE",
            number: 47,
            form: ValueForm::Long,
            kind: LevelKind::Rate { word: "auto" },
            heading: "pacing",
            summary: "SO_MAX_PACING_RATE: most bytes per second, or auto",
            details: "at the writer, of each connection; the kernel spreads segments over time",
            example: "1Gbit",
            ..USUAL
        },
        /// `TCP_RTO_MIN_US`, nanoseconds.
        rto_min: OrAuto<u64> = OptionRow {
            name: "TCP_RTO_MIN_US",
            layer: OptionLayer::Tcp,
            number: 45,
            suffix: "us",
            unit: 1_000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "rto min",
            summary: "TCP_RTO_MIN_US: shortest time before a repeat, or auto",
            details: "at the writer; Linux 6.17 and later, which take 8ms to 200ms",
            example: "40ms",
            no_effect: without_loss,
            why: TICKS,
            ..USUAL
        },
        /// `TCP_RTO_MAX_MS`, nanoseconds.
        rto_max: OrAuto<u64> = OptionRow {
            name: "TCP_RTO_MAX_MS",
            layer: OptionLayer::Tcp,
            number: 44,
            suffix: "ms",
            unit: 1_000_000,
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
            heading: "rto max",
            summary: "TCP_RTO_MAX_MS: longest time before a repeat, or auto",
            details: "at the writer; Linux 6.15 and later, which take 1s to 120s",
            example: "5s",
            no_effect: without_loss,
            why: TICKS,
            ..USUAL
        },
        /// `TCP_DELACK_MAX_US`, nanoseconds.
        delack_max: OrAuto<u64> = OptionRow {
            name: "TCP_DELACK_MAX_US",
            layer: OptionLayer::Tcp,
            number: 46,
            suffix: "us",
            unit: 1_000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "delack max",
            summary: "TCP_DELACK_MAX_US: longest delay of an ACK, or auto",
            details: "at the reader; Linux 6.17 and later, which take 40ms to 200ms",
            example: "40ms",
            sites: |_| (READERS, When::Early),
            why: TICKS,
            ..USUAL
        },
        /// `TCP_TX_DELAY`, nanoseconds.
        tx_delay: OrAuto<u64> = OptionRow {
            name: "TCP_TX_DELAY",
            layer: OptionLayer::Tcp,
            number: 37,
            suffix: "us",
            unit: 1_000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "tx delay",
            summary: "TCP_TX_DELAY: delay of each packet sent, or auto (none)",
            details: "at the writer; only the fq packet scheduler delays",
            example: "1ms",
            no_effect: |spec| over_loopback(spec, "only the fq packet scheduler delays packets, and loopback has no scheduler"),
            why: "the kernel counts whole microseconds",
            ..USUAL
        },
        /// `SO_TXREHASH`.
        txrehash: OrAuto<bool> = OptionRow {
            name: "SO_TXREHASH",
            number: 74,
            kind: SWITCH,
            heading: "txrehash",
            summary: "SO_TXREHASH: other path after a timeout: on, off, auto",
            details: "at the writer; Linux 6.0 and later",
            example: "off",
            no_effect: |spec| over_loopback(spec, "loopback is the only path"),
            ..USUAL
        },
        /// `IP_TOS`, or `IPV6_TCLASS` over IPv6.
        tos: OrAuto<u64> = OptionRow {
            name: "IP_TOS",
            layer: OptionLayer::Ip,
            number: 1,
            variant: |setter, transport| ipv6(setter, transport, ("IPV6_TCLASS", OptionLayer::Ipv6, 67, ValueForm::Int)),
            kind: LevelKind::Count { min: 0, max: 255, auto: true },
            heading: "tos",
            summary: "IP_TOS: class of the packets sent, or auto",
            details: "at the writer; 4 × DSCP, such as 184 of EF; IPV6_TCLASS over IPv6",
            example: "184",
            fits: PORTS,
            no_effect: |spec| over_loopback(spec, "loopback has one queue for all classes"),
            why: "TCP keeps the two lowest bits, which are of ECN, for itself",
            ..USUAL
        },
        /// `SO_PREFER_BUSY_POLL`.
        prefer_busy_poll: OrAuto<bool> = OptionRow {
            name: "SO_PREFER_BUSY_POLL",
            number: 69,
            kind: SWITCH,
            heading: "prefer busy poll",
            summary: "SO_PREFER_BUSY_POLL: on, off or auto",
            details: "at the reader, with --busy-poll: the device's interrupts stay off while it is polled",
            example: "off",
            fits: PORTS,
            sites: |_| (READERS, When::Early),
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
            ..USUAL
        },
        /// `SO_BUSY_POLL_BUDGET`.
        busy_poll_budget: OrAuto<u64> = OptionRow {
            name: "SO_BUSY_POLL_BUDGET",
            number: 70,
            kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
            heading: "busy poll budget",
            summary: "SO_BUSY_POLL_BUDGET: packets of one poll, or auto (8)",
            details: "at the reader, with --busy-poll; the kernel does not report it",
            example: "4",
            fits: PORTS,
            sites: |_| (READERS, When::Early),
            readable: |_| false,
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
            ..USUAL
        },
        /// `TCP_DEFER_ACCEPT`, seconds.
        defer_accept: OrAuto<u64> = OptionRow {
            name: "TCP_DEFER_ACCEPT",
            layer: OptionLayer::Tcp,
            number: 9,
            suffix: "s",
            kind: LevelKind::Count { min: 1, max: 3600, auto: true },
            defaults: call("auto"),
            heading: "defer accept",
            summary: "TCP_DEFER_ACCEPT in seconds, or auto (off)",
            details: "at the server: a connection can be accepted once it has sent data, or after this time",
            example: "1",
            sites: |_| (&[Setter::Server], When::Early),
            of_listener: true,
            no_effect: |spec| once_per_flow(spec),
            why: "the kernel rounds up to a moment at which it repeats its part of the handshake: 1, 3, 7, 15, 31 s",
            ..USUAL
        },
        /// `TCP_FASTOPEN` of the listener, connections; `TCP_FASTOPEN_CONNECT` of the client.
        fastopen: OrAuto<u64> = OptionRow {
            name: "TCP_FASTOPEN",
            layer: OptionLayer::Tcp,
            number: 23,
            variant: |setter, _| (setter == Setter::Client).then_some(("TCP_FASTOPEN_CONNECT", OptionLayer::Tcp, 30, ValueForm::Flag)),
            kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
            defaults: call("auto"),
            heading: "fastopen",
            summary: "TCP_FASTOPEN: most waiting connections, or auto (off)",
            details: "at the server; clients set TCP_FASTOPEN_CONNECT, so a request can go with the SYN",
            example: "256",
            sites: |_| (&[Setter::Client, Setter::Server], When::Early),
            of_listener: true,
            no_effect: |spec| once_per_flow(spec),
            why: "the kernel clamps it at net.core.somaxconn",
            ..USUAL
        },
        /// `SO_ZEROCOPY`, with which each send has `MSG_ZEROCOPY`.
        zerocopy: OrAuto<bool> = OptionRow {
            name: "SO_ZEROCOPY",
            number: 60,
            kind: SWITCH,
            defaults: stream("auto"),
            heading: "zerocopy",
            summary: "SO_ZEROCOPY and MSG_ZEROCOPY: on, off or auto (off)",
            details: "at the writer, with --engine blocking or epoll; the report has the share of sends that the kernel copied",
            example: "on",
            sites: |_| (&[Setter::Source], When::Early),
            ..USUAL
        },
        /// Whether a reader asks the kernel to map its pages (`TCP_ZEROCOPY_RECEIVE`).
        zerocopy_receive: OrAuto<bool> = OptionRow {
            name: "TCP_ZEROCOPY_RECEIVE",
            form: ValueForm::Engine,
            kind: SWITCH,
            defaults: stream("auto"),
            heading: "zerocopy receive",
            summary: "TCP_ZEROCOPY_RECEIVE: on, off or auto (off)",
            details: "at the reader, with --engine blocking; the report has the share of bytes that the kernel mapped",
            example: "on",
            fits: |transport| matches!(transport, Transport::Tcp | Transport::Tcp6),
            sites: |_| (&[Setter::Sink], When::Early),
            no_effect: |spec| over_loopback(spec, "the kernel maps only pages that a network card filled, and copies the rest"),
            ..USUAL
        },
        /// `TCP_INQ`, or `SO_INQ` over Unix sockets.
        inq: OrAuto<bool> = OptionRow {
            name: "TCP_INQ",
            layer: OptionLayer::Tcp,
            number: 36,
            variant: |_, transport| (*transport == Transport::Unix).then_some(("SO_INQ", OptionLayer::Socket, 84, ValueForm::Int)),
            kind: SWITCH,
            defaults: stream("auto"),
            heading: "inq",
            summary: "TCP_INQ: report queued bytes: on, off or auto (off)",
            details: "at the reader, with --engine blocking: recvmsg(2) brings the count; SO_INQ over Unix sockets, Linux 6.17 and later",
            example: "on",
            // Unix sockets of packets have no such option.
            fits: |transport| transport.is_tcp() || *transport == Transport::Unix,
            sites: |_| (&[Setter::Sink], When::Accepted),
            // unix(7) sockets have no getsockopt(2) for it.
            readable: Transport::is_tcp,
            ..USUAL
        },
        /// Whether each listening socket has the CPU of its thread as `SO_INCOMING_CPU`.
        incoming_cpu: OrAuto<bool> = OptionRow {
            name: "SO_INCOMING_CPU",
            number: 49,
            form: ValueForm::Cpu,
            defaults: call("auto"),
            heading: "incoming cpu",
            summary: "SO_INCOMING_CPU: socket of the packet's CPU, or auto (off)",
            details: "at the server, with --reuseport: each listening socket has the CPU of its thread",
            example: "on",
            fits: PORTS,
            sites: |_| (&[Setter::Server], When::Early),
            of_listener: true,
            ..USUAL
        },
        /// `EPIOCSPARAMS`, nanoseconds.
        epoll_busy_poll: OrAuto<u64> = OptionRow {
            name: "EPIOCSPARAMS",
            form: ValueForm::Engine,
            suffix: "us",
            unit: 1000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "epoll busy poll",
            summary: "EPIOCSPARAMS: polling time of epoll, or auto (off)",
            details: "epoll_wait(2) of the reader or the server polls the device for this time; Linux 6.9 and later",
            example: "50us",
            sites: |_| (&[Setter::Sink, Setter::Server], When::Early),
            no_effect: |spec| over_loopback(spec, NO_QUEUE),
            why: "the kernel counts whole microseconds",
            ..USUAL
        },
        /// `min_wait_usec` of io_uring, nanoseconds.
        min_wait: OrAuto<u64> = OptionRow {
            name: "min_wait_usec",
            form: ValueForm::Engine,
            suffix: "us",
            unit: 1000,
            kind: LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "min wait",
            summary: "min_wait_usec of io_uring: batching time, or auto (off)",
            details: "the reader or the server waits this long for a completion of each connection; Linux 6.12 and later",
            example: "20us",
            fits: CONNECTIONS,
            sites: |_| (&[Setter::Sink, Setter::Server], When::Early),
            no_effect: with_one_connection,
            why: "the kernel counts whole microseconds",
            ..USUAL
        },
        /// Capacity of the pipe, bytes.
        pipe_size: OrAuto<u64> = OptionRow {
            name: "F_SETPIPE_SZ",
            form: ValueForm::Pipe,
            kind: SOCKET_BUFFER,
            defaults: stream("auto"),
            heading: "pipe",
            summary: "Capacity of the pipe (F_SETPIPE_SZ), or auto",
            fits: Transport::is_pipe,
            sites: |_| (&[Setter::Source], When::Early),
            always: true,
            why: "the kernel rounds up to a power of two of pages",
            ..USUAL
        },
        $($after)*
    } };
}
