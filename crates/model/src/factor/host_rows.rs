//! Rows of the table of factors: the client, the CPUs of a relay, other hosts, links, and the length of trials.

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
            heading: "client threads",
            summary: "Threads of the client",
            details: "a blocking client has one for each connection",
            fits: SOCKETS,
            needs: Some(Needs { with: &[FactorKey::client_engine], when: |spec| shares_threads(spec.client_engine()), text: "another --client-engine" }),
            ..ENGINES
        },
        /// Where the relay runs.
        relay_placement: RelayPlacement = Factor {
            role: Role::Condition,
            kind: LevelKind::Name(canonical::<RelayPlacement>),
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
            heading: "relay host",
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
            heading: "host",
            summary: "Agent that runs one end, HOST:PORT",
            details: "auto: both ends on this host; needs --key-file (docs/far-host.md)",
            fits: PORTS,
            only_with: &[FactorKey::host],
            ..HOSTS
        },
        /// Direction of bytes or calls between two hosts.
        direction: Direction = Factor {
            kind: LevelKind::Name(canonical::<Direction>),
            defaults: both("to"),
            heading: "direction",
            summary: "Direction to or from --host, or both",
            details: "of bytes or calls; both: of streams",
            fits: PORTS,
            only_with: &[FactorKey::host],
            ..HOSTS
        },
        /// The round trip that an emulated link adds, nanoseconds.
        link_delay: u64 = Factor {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: both("10ms").and_check("10ms"),
            heading: "link delay",
            summary: "Round-trip time of an emulated link, such as 10ms",
            details: "docs/emulated-link.md",
            ..LINK
        },
        /// The loss of an emulated link.
        link_loss: LossShare = Factor {
            kind: LevelKind::Name(canonical::<LossShare>),
            defaults: both("0%").and_check("0%"),
            heading: "link loss",
            summary: "Share of packets that an emulated link loses: 0.1%",
            details: "in each direction",
            ..LINK
        },
        /// The rate of an emulated link.
        link_rate: LinkRate = Factor {
            kind: LevelKind::Name(canonical::<LinkRate>),
            defaults: both("1Gbit").and_check("1Gbit"),
            heading: "link rate",
            summary: "Bits per second of an emulated link: 100Mbit",
            details: "in each direction",
            ..LINK
        },
        /// Measured time of one trial, nanoseconds.
        duration: u64 = Factor {
            flag: Some("trial-time"),
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
            defaults: everywhere("auto"),
            heading: "duration",
            summary: "Measured time of one trial, or auto",
            details: "auto: the design chooses",
            ..TRIALS
        },
    } } };
}
