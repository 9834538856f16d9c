//! Rows of the table of factors: conditions of the path and the program, the client, the CPUs of a relay, other hosts, links, and the
//! length of trials.

macro_rules! with_host_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        // The client measures the server, and a server cannot choose its clients, so the client's engine is a condition.
        // Two engines make two groups; their difference shows what the client adds.
        /// The engine of the client.
        client_engine: Engine = Factor {
            role: Role::Condition,
            kind: LevelKind::Name(calling_engine),
            defaults: call("epoll").datagrams("plain"),
            heading: "client",
            summary: "How the client moves bytes: epoll, blocking, …",
            details: "the client measures, so this is a condition, unless --compare client-engine asks for it; stream --help and call --help explain the names",
            fits: SOCKETS,
            engine_of: Some(EngineEnd::Client),
            ..ENGINES
        },
        /// Threads of the client.
        client_threads: u64 = Factor {
            role: Role::Condition,
            kind: THREADS,
            defaults: call("1"),
            summary: "Threads of the client",
            details: "a blocking client has one for each connection",
            fits: SOCKETS,
            needs: Some(Needs { with: &[FactorKey::client_engine], when: |spec| shares_threads(spec.client_engine()), text: "another --client-engine" }),
            ..ENGINES
        },
        /// Where the relay runs.
        relay_placement: RelayPlacement = Factor {
            role: Role::Condition,
            defaults: both("unpinned"),
            heading: "relay at",
            summary: "CPU of the relay: unpinned, own, client, server, …",
            details: "own: a CPU that neither end uses; follows: the CPU where the data arrives; needs --relay",
            ..RELAYS
        },
        /// The agent on whose host the relays run, if that is not this one.
        relay_host: Place = Factor {
            role: Role::Condition,
            kind: LevelKind::Name(or_word::<Place>),
            defaults: both("auto"),
            summary: "Agent that runs the relay, HOST:PORT",
            details: "auto: this host; needs --relay and --key-file (docs/far-host.md)",
            fits: TCP,
            only_with: &[FactorKey::relay_host],
            ..RELAYS
        },
        /// The agent on whose host one end runs, if that is not this one.
        host: Place = Factor {
            kind: LevelKind::Name(or_word::<Place>),
            defaults: both("auto"),
            summary: "Agent that runs one end, HOST:PORT",
            details: "auto: both ends on this host; needs --key-file (docs/far-host.md)",
            fits: PORTS,
            only_with: &[FactorKey::host],
            ..HOSTS
        },
        /// Direction of bytes or calls between two hosts.
        direction: Direction = Factor {
            defaults: both("to"),
            summary: "Direction to or from --host, or both",
            details: "of bytes or calls; both: of streams",
            fits: PORTS,
            only_with: &[FactorKey::host],
            ..HOSTS
        },
        /// The round trip that an emulated link adds, nanoseconds.
        link_delay: u64 = Factor {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: both("10ms").and_tune("10ms"),
            summary: "Round-trip time of an emulated link, such as 10ms",
            details: "docs/emulated-link.md",
            ..LINK
        },
        /// The loss of an emulated link.
        link_loss: LossShare = Factor {
            defaults: both("0%").and_tune("0%"),
            summary: "Share of packets that an emulated link loses: 0.1%",
            details: "in each direction",
            ..LINK
        },
        /// The rate of an emulated link.
        link_rate: LinkRate = Factor {
            defaults: both("1Gbit").and_tune("1Gbit"),
            summary: "Bits per second of an emulated link: 100Mbit",
            details: "in each direction",
            ..LINK
        },
        /// Measured time of one trial, nanoseconds.
        duration: u64 = Factor {
            flag: Some("trial-time"),
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
            defaults: everywhere("auto"),
            summary: "Measured time of one trial, or auto",
            details: "auto: the design chooses",
            ..TRIALS
        },
    } } };
}

// Rows of the table of factors: conditions of the path and the program.

macro_rules! with_path_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        /// How the ends are joined.
        transport: Transport = Factor {
            defaults: each("unix,tcp", "tcp,unix"),
            summary: "Path between the ends, or a device or file to read",
            details: "unix, unix-seqpacket, tcp, tcp6, mptcp, vsock, pipe; udp, udp6, unix-dgram carry datagrams; a device such as /dev/zero or any file has one end",
            usual: &["tcp"],
            ..TEST
        },
        // Before all factors that it may turn into conditions: those that the peer of a program sets.
        /// The end that the user's program controls.
        role: ProgramRole = Factor {
            defaults: stream("both"),
            heading: "program",
            summary: "Your program: reader, writer, relay or both",
            details: "settings of its peer become conditions",
            fits: BYTE_PATHS,
            ..TEST
        },
        /// The condition whose levels are compared.
        compare: ComparedCondition = Factor {
            defaults: both("none"),
            heading: "chosen",
            summary: "Condition to compare: transport, flows, placement, …",
            details: "its levels become options of one test; those of other conditions become tests of their own",
            fits: TWO_ENDED,
            only_with: &[FactorKey::compare],
            ..TEST
        },
        /// How old a path is when it is measured.
        connection_age: ConnectionAge = Factor {
            defaults: stream("steady"),
            summary: "Age of the measured connections: steady or fresh",
            details: "fresh: their first milliseconds; steady: after 50 ms",
            fits: BYTE_PATHS,
            ..TEST
        },
        /// Where the ends run.
        placement: Placement = Factor {
            // The user's program is not pinned.
            defaults: both("cross-core").and_tune("unpinned"),
            summary: "CPUs of the ends: cross-core, same-cpu, unpinned, …",
            details: "unpinned, same-cpu, smt-sibling, cross-core, cross-node",
            fits: TWO_ENDED,
            within_test: true,
            ..TEST
        },
        /// Encryption of connections.
        tls: Tls = Factor {
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
            summary: "Connections that are busy at the same time",
            ..TEST
        },
    } } };
}
