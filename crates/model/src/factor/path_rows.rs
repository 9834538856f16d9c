//! Rows of the table of factors: conditions of the path and the program.

macro_rules! with_path_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        /// How the ends are joined.
        transport: Transport = Factor {
            kind: LevelKind::Name(canonical::<Transport>),
            defaults: each("unix,tcp", "tcp,unix"),
            heading: "transport",
            summary: "Path between the ends, or a device or file to read",
            details: "unix, unix-seqpacket, tcp, tcp6, mptcp, vsock, pipe; udp, udp6, unix-dgram carry datagrams; a device such as /dev/zero or any file has one end",
            usual: &["tcp"],
            ..TEST
        },
        // Before all factors that it may turn into conditions: those that the peer of a program sets.
        /// The end that the user's program controls.
        role: ProgramRole = Factor {
            kind: LevelKind::Name(canonical::<ProgramRole>),
            defaults: stream("both"),
            heading: "program",
            summary: "Your program: reader, writer, relay or both",
            details: "settings of its peer become conditions",
            fits: BYTE_PATHS,
            ..TEST
        },
        /// The condition whose levels are compared.
        compare: ComparedCondition = Factor {
            kind: LevelKind::Name(canonical::<ComparedCondition>),
            defaults: both("none"),
            heading: "chosen",
            summary: "Condition to compare: transport, flows, placement, …",
            details: "its levels become options of one test; transport, flows, placement, depth, request-chunk, response-chunk, tls, relay-placement, client-engine, or none",
            fits: TWO_ENDED,
            only_with: &[FactorKey::compare],
            ..TEST
        },
        /// How old a path is when it is measured.
        connection_age: ConnectionAge = Factor {
            kind: LevelKind::Name(canonical::<ConnectionAge>),
            defaults: stream("steady"),
            heading: "connection age",
            summary: "Age of the measured connections: steady or fresh",
            details: "fresh: their first milliseconds; steady: after 50 ms",
            fits: BYTE_PATHS,
            ..TEST
        },
        /// Where the ends run.
        placement: Placement = Factor {
            kind: LevelKind::Name(canonical::<Placement>),
            // The user's program is not pinned.
            defaults: both("cross-core").and_check("unpinned"),
            heading: "placement",
            summary: "CPUs of the ends: cross-core, same-cpu, unpinned, …",
            details: "unpinned, same-cpu, smt-sibling, cross-core, cross-node",
            fits: TWO_ENDED,
            within_test: true,
            ..TEST
        },
        /// Encryption of connections.
        tls: Tls = Factor {
            kind: LevelKind::Name(canonical::<Tls>),
            defaults: both("none"),
            heading: "TLS",
            summary: "Encryption of connections: none, rustls or kernel",
            details: "rustls: by the library, engines blocking and, for calls, epoll; kernel: kTLS over TCP, engines blocking and epoll",
            fits: ENCRYPTED,
            ..TEST
        },
        /// The named set of conditions.
        profile: ProfileName = Factor {
            kind: LevelKind::Name(|s| Ok(s.to_owned())),
            defaults: each("drain,program,parser", "rpc,many-idle"),
            heading: "profile",
            summary: "Named set of conditions: program, drain, parser, rpc, …",
            details: "drain, sum, program, parser, tls of streams; echo, rpc, many-idle, tls-rpc of calls; or one that the plan defines; stream --help and call --help explain them",
            set_at: WORKERS,
            usual: &["program", "rpc"],
            within_test: true,
            ..TEST
        },
        /// Parallel flows.
        flows: u64 = Factor {
            kind: LevelKind::Count { min: 1, max: FLOWS_MAX, auto: false },
            defaults: each("1", "50"),
            heading: "flows",
            summary: "Connections that are busy at the same time",
            ..TEST
        },
    } } };
}
