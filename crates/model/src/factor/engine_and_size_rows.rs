//! Rows of the table of factors: conditions of the client, the CPUs of a relay, other hosts, links and the length of trials; then
//! engines, servers, relays and sizes, which a program chooses.

macro_rules! with_engine_and_size_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        // The client measures the server, and a server cannot choose its clients, so the client's engine is a condition.
        // Two engines make two groups; their difference shows what the client adds.
        /// The engine of the client.
        client_engine: Engine = ENGINES {
            role: Role::Condition,
            kind: LevelKind::Name(calling_engine),
            defaults: call("epoll").datagrams("plain"),
            heading: "client",
            summary: "How the client moves bytes: epoll, blocking, …",
            details: "the client measures, so this is a condition, unless --compare client-engine asks for it; stream --help and call --help explain the names",
            engine_of: Some(EngineEnd::Client),
        },
        /// Threads of the client.
        client_threads: u64 = ENGINES {
            role: Role::Condition,
            kind: THREADS,
            defaults: call("1"),
            summary: "Threads of the client",
            details: "a blocking client has one for each connection",
            needs: Some(Needs { with: &[FactorKey::client_engine], when: |spec| shares_threads(spec.client_engine()), text: "another --client-engine" }),
        },
        /// Where the relay runs.
        relay_placement: RelayPlacement = RELAYS {
            role: Role::Condition,
            defaults: both("unpinned"),
            heading: "relay at",
            summary: "CPU of the relay: unpinned, own, client or server",
            details: "own: a CPU that neither end uses; needs --relay",
        },
        /// The agent on whose host the relays run, if that is not this one.
        relay_host: Place = RELAYS {
            role: Role::Condition,
            kind: LevelKind::Name(or_word::<Place>),
            defaults: both("auto"),
            summary: "Agent that runs the relay, HOST:PORT",
            details: "auto: this host; needs --relay and --key-file (docs/far-host.md)",
            fits: TCP,
            only_with: &[FactorKey::relay_host],
        },
        /// The agent on whose host one end runs, if that is not this one.
        host: Place = HOSTS {
            kind: LevelKind::Name(or_word::<Place>),
            defaults: both("auto"),
            summary: "Agent that runs one end, HOST:PORT",
            details: "auto: both ends on this host; needs --key-file (docs/far-host.md)",
            fits: PORTS,
            only_with: &[FactorKey::host],
        },
        /// Direction of bytes or calls between two hosts.
        direction: Direction = HOSTS {
            defaults: both("to"),
            summary: "Direction to or from --host, or both",
            details: "of bytes or calls; both: of streams",
            fits: PORTS,
            only_with: &[FactorKey::host],
        },
        /// The round trip that an emulated link adds, nanoseconds.
        link_delay: u64 = LINK {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: both("10ms").and_tune("10ms"),
            summary: "Round-trip time of an emulated link, such as 10ms",
            details: "docs/emulated-link.md",
        },
        /// The loss of an emulated link.
        link_loss: LossShare = LINK {
            defaults: both("0%").and_tune("0%"),
            summary: "Share of packets that an emulated link loses: 0.1%",
            details: "in each direction",
        },
        /// The rate of an emulated link.
        link_rate: LinkRate = LINK {
            defaults: both("1Gbit").and_tune("1Gbit"),
            summary: "Bits per second of an emulated link: 100Mbit",
            details: "in each direction",
        },
        /// Measured time of one trial, nanoseconds.
        duration: u64 = TRIALS {
            flag: Some("trial-time"),
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 3_600_000_000_000, auto: true },
            defaults: everywhere("auto"),
            summary: "Measured time of one trial, or auto",
            details: "auto: the design chooses",
        },
        /// The engine of both ends of a stream.
        engine: Engine = ENGINES {
            defaults: stream("blocking").datagrams("plain,mmsg,gso"),
            summary: "How the ends move bytes: blocking, epoll, uring, …",
            details: "stream --help and call --help explain the names",
            engine_of: Some(EngineEnd::Stream),
        },
        // A choice: the given servers are compared. Before the other factors of the server, which have no effect with it.
        /// An external server, which is used instead of bytegauge's own.
        connect: Place = HOSTS {
            role: Role::Choice,
            kind: LevelKind::Name(or_word::<Place>),
            defaults: both("auto"),
            heading: "server at",
            summary: "External server: HOST:PORT, unix:/path or iperf3://HOST",
            details: "it echoes calls or returns --response bytes; it reads streams; an iperf3 server reads, or with --role reader writes (docs/iperf3.md)",
            fits: SOCKETS,
        },
        // A choice: the author of a relay decides how it copies.
        /// The relay between the ends.
        relay: RelayChoice = RELAYS {
            kind: LevelKind::Name(relay_name),
            defaults: both("direct"),
            summary: "How a relay copies: splice, epoll, …, all, or direct",
            details: "stream --help and call --help explain the names; direct: no relay; all: every method; or a program such as haproxy, cmd:WORDS with {listen} and {upstream}, or addr:LISTEN=UPSTREAM for a relay that runs already",
        },
        /// The threads of a relay.
        relay_threads: RelayThreads = RELAYS {
            defaults: both("direction"),
            summary: "Threads of the relay: direction, one or cpus",
            details: "direction: a thread for each direction of each connection; one: a single thread with epoll; cpus: such a thread for each CPU",
            needs: Some(Needs { with: &[FactorKey::relay], when: |spec| relays(spec, RelayMethod::has_threads), text: "a --relay that supports both (read-write, readv-writev, splice, sendfile, hybrid)" }),
        },
        /// Bytes of the buffer of each direction of a relay.
        relay_buffer: u64 = RELAYS {
            kind: LevelKind::Size { min: 1, max: SIZE_MAX, word: Some("auto") },
            defaults: both("auto"),
            summary: "Bytes of the relay's buffer for each direction",
            details: "auto: 64 KiB; for tokio 8 KiB, its own default",
            needs: Some(Needs { with: &[FactorKey::relay], when: |spec| relays(spec, RelayMethod::has_buffer), text: "a --relay with a buffer (read-write, copy-buffer, hybrid, epoll, …)" }),
        },
        /// Capacity of each pipe of a relay, bytes.
        relay_pipe: u64 = RELAYS {
            kind: SOCKET_BUFFER,
            defaults: both("auto"),
            summary: "Capacity of each pipe of a relay that splices",
            details: "F_SETPIPE_SZ; auto: the kernel's 64 KiB",
            needs: Some(Needs { with: &[FactorKey::relay], when: |spec| relays(spec, RelayMethod::has_pipe), text: "a --relay that uses a pipe (splice, sendfile, hybrid)" }),
        },
        /// Whether both sockets of bytegauge's own relay have `TCP_NODELAY`.
        relay_nodelay: bool = RELAYS {
            kind: LevelKind::Switch { auto: false },
            defaults: both("on"),
            summary: "TCP_NODELAY of both sockets of the relay: on or off",
            details: "off: a proxy without it, which holds small messages back until an acknowledgement",
            fits: TCP,
            needs: Some(Needs { with: &[FactorKey::relay], when: |spec| relays(spec, |method| method != RelayMethod::Direct), text: "a --relay of bytegauge's own" }),
        },
        /// The engine of the server.
        server_engine: Engine = ENGINES {
            kind: LevelKind::Name(calling_engine),
            defaults: call("blocking,epoll,uring,tokio").datagrams("plain,mmsg,uring:plain,uring:multishot"),
            heading: "server",
            summary: "How the server moves bytes: epoll, uring, tokio, …",
            details: "stream --help and call --help explain the names",
            set_at: &[EndRole::Server],
            usual: &["epoll", "plain"],
            engine_of: Some(EngineEnd::Server),
        },
        /// Threads of the server.
        server_threads: u64 = ENGINES {
            kind: THREADS,
            defaults: call("1"),
            heading: "threads",
            summary: "Threads of the server",
            details: "a blocking server has one for each connection",
            set_at: &[EndRole::Server],
            needs: Some(Needs { with: &[FactorKey::server_engine], when: |spec| shares_threads(spec.server_engine()), text: "another --server-engine" }),
        },
        /// Most bytes of one receive.
        read_size: u64 = SIZES {
            kind: BUFFER,
            defaults: each("4K..1M", "64K").datagrams("64K"),
            heading: "read",
            summary: "Bytes of one read",
            details: "1 B to 16 MiB; a longer datagram is cut off",
            set_at: READERS,
            usual: &["64K"],
        },
        /// Bytes of one write.
        write_size: u64 = SIZES {
            kind: BUFFER,
            defaults: stream("16K..1M").datagrams("64,512,1000,4K,16K,60K"),
            heading: "write",
            summary: "Bytes of one write, or of one datagram",
            details: "1 B to 16 MiB; one-ended transports have none",
            fits: TWO_ENDED,
            set_at: &[EndRole::Source],
            usual: &["64K", "1000"],
        },
        /// Where buffers begin within a page.
        buffer_offset: u64 = SIZES {
            kind: LevelKind::Size { min: 0, max: 4095, word: Some("malloc") },
            defaults: both("malloc"),
            summary: "Begin of each buffer within a page, or malloc",
            details: "malloc: as glibc's malloc places a buffer of that size, page + 16 from 128 KiB on (docs/buffer-sizes.md)",
            usual: &["0"],
            needs: Some(Needs { with: &[FactorKey::engine], when: |spec| spec.engine() != Some(Engine::Null), text: "another --engine" }),
        },
        /// Where the writer of a stream has its bytes.
        send_from: SendFrom = SIZES {
            defaults: stream("memory"),
            summary: "Where a writer has its bytes: memory, file or sendfile",
            details: "file: pread(2) of a file of 16 MiB in the page cache before each send; sendfile: sendfile(2) of it, engine blocking",
            fits: |transport| transport.is_tcp() || matches!(transport, Transport::Unix | Transport::Pipe),
            set_at: &[EndRole::Source],
            needs: Some(Needs { with: &[FactorKey::engine], when: |spec| spec.engine() != Some(Engine::Null), text: "another --engine" }),
        },
        /// Datagrams of one call, or segments of one send.
        batch: u64 = SIZES {
            kind: LevelKind::Count { min: 1, max: 1024, auto: true },
            defaults: both("auto"),
            summary: "Datagrams of one system call of mmsg or gso",
            details: "for gso, segments of one send, at most 64 and 64 KiB together; auto: 64, or what fits",
            fits: DATAGRAMS,
            needs: Some(Needs { with: &[FactorKey::engine, FactorKey::server_engine], when: |spec| reader_can(spec, |can| can.batches != Batches::None), text: BATCHES }),
        },
        /// Whether the reader of engine `gso` takes several datagrams by one receive.
        gro: bool = SIZES {
            kind: LevelKind::Switch { auto: false },
            defaults: stream("on"),
            summary: "UDP_GRO at the reader of engine gso: on or off",
            details: "off: the kernel segments sends, and each receive takes one datagram",
            fits: Transport::is_udp,
            set_at: &[EndRole::Sink],
            needs: Some(Needs { with: &[FactorKey::engine], when: |spec| spec.engine() == Some(Engine::Gso), text: "--engine gso" }),
        },
        /// Receives of datagrams that an io_uring keeps in flight.
        outstanding: u64 = SIZES {
            kind: LevelKind::Count { min: 1, max: 4096, auto: false },
            defaults: both("64"),
            summary: "Receives of datagrams that io_uring keeps in flight",
            details: "for multishot, the buffers that it may fill",
            fits: DATAGRAMS,
            needs: Some(Needs { with: &[FactorKey::engine, FactorKey::server_engine], when: |spec| reader_can(spec, |can| can.outstanding), text: OUTSTANDING }),
        },
    } } };
}
