//! The table of options of sockets and pipes: one row for each, and nothing elsewhere.
//!
//! A row declares the field of [`Spec`](crate::Spec), the factor with its flag and help, the kernel's option with its unit,
//! and who sets it. Three places need different parts of a row, so the table is a macro that passes its rows on: to `spec`,
//! which makes the fields, and to `option`, which makes `OPTIONS`; `factor` takes its factors from there. The names in
//! a row are those of `option`.
//!
//! Numbers are those of the kernel's headers: `include/uapi/asm-generic/socket.h` (x86, ARM and RISC-V) for `Layer::Socket`,
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
            layer: Layer::Tcp,
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
            layer: Layer::Tcp,
            number: 13,
            form: Form::Text,
            kind: Kind::Name(|s| Ok(s.to_owned())),
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
            form: Form::Linger,
            suffix: "s",
            kind: Kind::Count { min: 0, max: 3600, auto: true },
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
            kind: Kind::Switch { auto: false },
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
            kind: Kind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true },
            heading: "busy poll",
            summary: "SO_BUSY_POLL: polling time, such as 50us, or auto (off)",
            details: "the reader polls the device for this time before it sleeps; loopback has none to poll",
            example: "50us",
            fits: PORTS,
            sites: |_| (READERS, When::Early),
            why: "the kernel counts whole microseconds",
            ..USUAL
        },
        /// `TCP_QUICKACK`.
        quickack: OrAuto<bool> = OptionRow {
            name: "TCP_QUICKACK",
            layer: Layer::Tcp,
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
            layer: Layer::Tcp,
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
            layer: Layer::Tcp,
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
        /// Capacity of the pipe, bytes.
        pipe_size: OrAuto<u64> = OptionRow {
            name: "F_SETPIPE_SZ",
            form: Form::Pipe,
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
