//! Rows of the table of factors: conditions of the path and the program, messages, offered load, and the work of the program.

macro_rules! with_load_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        /// How the ends are joined.
        transport: Transport = TEST {
            defaults: each("unix,tcp", "tcp,unix"),
            summary: "Path between the ends, or a device or file to read",
            details: "unix, unix-seqpacket, tcp, tcp6, mptcp, vsock, pipe; udp, udp6, unix-dgram carry datagrams; a device such as /dev/zero or any file has one end",
            usual: &["tcp"],
        },
        // Before all factors that it may turn into conditions: those that the peer of a program sets.
        /// The end that the user's program controls.
        role: ProgramRole = TEST {
            defaults: stream("both"),
            heading: "program",
            summary: "Your program: reader, writer, relay or both",
            details: "settings of its peer become conditions",
            fits: BYTE_PATHS,
        },
        /// The condition whose levels are compared.
        compare: ComparedCondition = TEST {
            defaults: both("none"),
            heading: "chosen",
            summary: "Condition to compare: transport, flows, placement, …",
            details: "its levels become options of one test; those of other conditions become tests of their own",
            fits: TWO_ENDED,
            only_with: &[FactorKey::compare],
        },
        /// How old a path is when it is measured.
        connection_age: ConnectionAge = TEST {
            defaults: stream("steady"),
            summary: "Age of the measured connections: steady or fresh",
            details: "fresh: their first milliseconds; steady: after 50 ms",
            fits: BYTE_PATHS,
        },
        /// Where the ends run.
        placement: Placement = TEST {
            // The user's program is not pinned.
            defaults: both("cross-core").and_tune("unpinned"),
            summary: "CPUs of the ends: cross-core, same-cpu, unpinned, …",
            details: "unpinned, same-cpu, smt-sibling, cross-core, cross-node",
            fits: TWO_ENDED,
            within_test: true,
        },
        /// Encryption of connections.
        tls: Tls = TEST {
            defaults: both("none"),
            heading: "TLS",
            summary: "Encryption of connections: none, rustls or kernel",
            details: "rustls: by the library, engines blocking and, for calls, epoll; kernel: kTLS over TCP, engines blocking and epoll",
            fits: ENCRYPTED,
        },
        /// The named set of conditions.
        profile: ProfileName = TEST {
            kind: LevelKind::Name(|s| Ok(s.to_owned())),
            defaults: each("drain,program,parser", "rpc,many-idle"),
            summary: "Named set of conditions: program, drain, parser, rpc, …",
            details: "drain, sum, program, parser, tls of streams; echo, rpc, many-idle, tls-rpc of calls; or one that the plan defines; stream --help and call --help explain them",
            set_at: WORKERS,
            usual: &["program", "rpc"],
            within_test: true,
        },
        /// Parallel flows.
        flows: u64 = TEST {
            kind: LevelKind::Count { min: 1, max: FLOWS_MAX, auto: false },
            defaults: each("1", "50"),
            summary: "Connections that are busy at the same time",
        },
        /// Bytes of a request.
        request: u64 = LOAD {
            kind: BUFFER,
            defaults: call("512"),
            summary: "Bytes of a request",
            details: "1 B to 16 MiB",
        },
        /// Bytes of a response, where it has another size than the request.
        response: u64 = LOAD {
            kind: LevelKind::Size { min: 1, max: SIZE_MAX, word: Some("same") },
            defaults: call("same"),
            summary: "Bytes of a response, or same",
            details: "same: the size of the request, which is echoed",
        },
        /// Most bytes of one write of a request.
        request_chunk: u64 = LOAD {
            kind: LevelKind::Size { min: 1, max: SIZE_MAX, word: Some("auto") },
            defaults: call("auto"),
            heading: "chunk",
            summary: "Bytes of each write of a request",
            details: "auto: the whole request in one write",
            fits: CONNECTIONS,
        },
        /// Most bytes of one write of a response.
        response_chunk: u64 = LOAD {
            kind: LevelKind::Size { min: 1, max: SIZE_MAX, word: Some("auto") },
            defaults: call("auto"),
            summary: "Bytes of each write of a response",
            details: "auto: the whole response, or all behind its header, in one write",
            fits: CONNECTIONS,
            set_at: &[EndRole::Server],
        },
        /// Bytes of the first write of a response.
        response_header: u64 = LOAD {
            kind: LevelKind::Size { min: 1, max: SIZE_MAX, word: Some("auto") },
            defaults: call("auto"),
            heading: "header",
            summary: "Bytes of the first write of a response",
            details: "a header in front of its body; auto: no write of its own",
            fits: CONNECTIONS,
            set_at: &[EndRole::Server],
        },
        /// Pause between two writes of a response, nanoseconds.
        response_gap: u64 = LOAD {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: call("0ns"),
            summary: "Pause of the server between two parts of a response",
            details: "as a server that streams tokens or events (20ms)",
            fits: CONNECTIONS,
            set_at: &[EndRole::Server],
            needs: Some(Needs { with: &[FactorKey::response_chunk, FactorKey::response_header], when: |spec| spec.response_parts().is_some(), text: "--response-header or --response-chunk, the same for all options" }),
        },
        /// Requests outstanding per flow.
        depth: u64 = LOAD {
            kind: LevelKind::Count { min: 1, max: 4096, auto: false },
            defaults: call("1"),
            summary: "Requests in flight on each connection",
        },
        /// Whether every call opens a connection of its own.
        connect_per_call: bool = LOAD {
            kind: LevelKind::Switch { auto: false },
            defaults: call("off"),
            heading: "per call",
            summary: "Open a connection for each call",
            details: "connect, send, receive the reply, close",
            fits: CONNECTIONS,
        },
        // A condition: a fault of a server is no option to choose.
        /// Whether the server takes its first read for the whole request.
        read_once: bool = LOAD {
            kind: LevelKind::Switch { auto: false },
            defaults: call("off"),
            heading: "reads once",
            summary: "Reply after the first read, then close",
            details: "a server without a read loop: bytes that arrive later reset the connection",
            fits: CONNECTIONS,
            set_at: &[EndRole::Server],
            needs: Some(Needs { with: &[FactorKey::connect_per_call], when: |spec| spec.connect_per_call() == Some(true), text: "--connect-per-call on" }),
        },
        /// Connections that the server holds and that never call.
        idle_flows: u64 = LOAD {
            kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
            defaults: call("0"),
            heading: "idle",
            summary: "Connections that are open and never call",
            fits: CONNECTIONS,
            within_test: true,
        },
        /// The reader's work per read, the server's per request.
        work: Work = WORK {
            defaults: both("none"),
            summary: "Work per read or request: none, sum, copy, 0.5ns",
            details: "of the reader per read, of the server per request; 0.5ns: nanoseconds per byte",
            set_at: WORKERS,
        },
        /// Bytes of private state that the reader touches per read, the server per request.
        working_set: u64 = WORK {
            kind: LevelKind::Size { min: 0, max: 1 << 30, word: None },
            defaults: both("0"),
            summary: "Bytes of state touched per read or request",
            details: "private memory of each connection, touched by the reader per read, by the server per request",
            set_at: WORKERS,
        },
        /// The writer's work per write.
        writer_work: Fill = WORK {
            defaults: stream("none"),
            summary: "Work per write: none, touch, 0.5ns",
            details: "touch: write every byte; 0.5ns: nanoseconds per byte",
            fits: TWO_ENDED,
        },
        /// CPU time that each end of a stream spends on its own per read or write, nanoseconds.
        call_work: u64 = WORK {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: stream("0ns"),
            summary: "CPU time of the program itself per read or write (1us)",
            details: "at both ends: programs also wait in poll, keep accounts and allocate between two calls",
            fits: BYTE_STREAMS,
        },
        // Before the rate, which has no effect with it.
        /// The share of datagrams that may be lost in a search for the highest rate.
        max_loss: LossShare = LOAD {
            kind: LevelKind::Name(or_word::<LossShare>),
            defaults: stream("none"),
            summary: "Share of datagrams that may be lost: 0.1%, or none",
            details: "searches for the highest rate that keeps it",
            fits: DATAGRAMS,
        },
        /// Offered load of all flows of a stream, bytes per second.
        rate: u64 = LOAD {
            kind: LevelKind::Rate { word: "max" },
            defaults: stream("max"),
            summary: "Offered load of all connections: bytes/s, or max",
            details: "100M is 100 MiB/s, 100Mbit is 100,000,000 bit/s",
            fits: TWO_ENDED,
            needs: Some(Needs { with: &[FactorKey::max_loss], when: without_search, text: NO_MAX_LOSS }),
        },
        // Before the rate, the arrivals and the pause, which have no effect with it, or only with it.
        /// The latency objective of a search for the knee.
        slo: Slo = LOAD {
            kind: LevelKind::Name(or_word::<Slo>),
            defaults: call("none"),
            summary: "Latency to keep, such as p99=2ms, or none",
            details: "searches for the highest rate that keeps it; p50, p90, p99, p99.9, p99.99",
        },
        /// Offered load of all flows, calls per second.
        call_rate: u64 = LOAD {
            flag: Some("rate"),
            kind: LevelKind::CallRate,
            defaults: call("max"),
            heading: "rate",
            summary: "Offered load of all connections: calls/s, or max",
            details: "20k is 20,000 calls/s; max: the next call waits for the reply",
            needs: Some(Needs { with: &[FactorKey::slo], when: without_search, text: NO_SLO }),
        },
        /// How offered calls are spaced.
        arrivals: Arrivals = LOAD {
            defaults: call("constant"),
            summary: "Spacing of offered calls: constant or poisson",
            details: "needs --rate or --slo",
            needs: Some(Needs { with: &[FactorKey::slo, FactorKey::call_rate], when: |spec| spec.slo().is_some() || spec.call_rate().is_some(), text: "--rate or --slo" }),
        },
        // Before the time between bursts, which has no effect without them.
        /// Writes of a burst, which follow each other without a pause.
        burst: u64 = LOAD {
            kind: LevelKind::Count { min: 1, max: 1_000_000, auto: true },
            defaults: stream("auto"),
            summary: "Writes or datagrams of one burst, or auto: no bursts",
            details: "each connection writes them without a pause, then waits for the next burst (--every)",
            fits: TWO_ENDED,
            needs: Some(Needs { with: &[FactorKey::max_loss], when: without_search, text: NO_MAX_LOSS }),
        },
        /// From the begin of a burst to that of the next one, nanoseconds.
        every: u64 = LOAD {
            kind: LevelKind::Duration { min_ns: 100_000, max_ns: 1_000_000_000, auto: false },
            defaults: stream("10ms"),
            heading: "burst every",
            summary: "Time from one burst to the next, such as 10ms",
            details: "needs --burst; a burst that is late is not skipped",
            fits: TWO_ENDED,
            needs: Some(Needs { with: &[FactorKey::burst], when: |spec| spec.burst().is_some(), text: "--burst N" }),
        },
        /// Pause between two writes, or two calls, nanoseconds.
        think_time: u64 = LOAD {
            kind: LevelKind::Duration { min_ns: 0, max_ns: 1_000_000_000, auto: false },
            defaults: both("0ns"),
            summary: "Pause between two writes or calls",
            details: "of the writer, of each client (50us)",
            fits: TWO_ENDED,
            needs: Some(Needs { with: &[FactorKey::slo], when: without_search, text: NO_SEARCH }),
        },
        /// From one urgent message between the bulk data of a stream to the next, nanoseconds.
        urgent: u64 = LOAD {
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 100_000_000, auto: true },
            defaults: stream("auto"),
            summary: "Time from one urgent message to the next, or auto: none",
            details: "64 bytes between the writes of the same connection; measures how long each waits behind bulk data (10ms)",
            fits: BYTE_PATHS,
            set_at: &[EndRole::Sink],
            needs: Some(Needs { with: &[FactorKey::rate, FactorKey::burst, FactorKey::think_time], when: |spec| !spec.offers_load() && spec.direction() != Some(Direction::Both), text: "a writer that never pauses (leave out --rate, --burst and --think-time), in one direction" }),
        },
        /// How long a call may take, nanoseconds.
        timeout: u64 = LOAD {
            kind: LevelKind::Duration { min_ns: 1_000_000, max_ns: 600_000_000_000, auto: false },
            // Datagrams are not retransmitted: a flow that waits long for a lost one measures its own timeout.
            defaults: call("5s").datagrams("250ms"),
            summary: "Time after which a call has failed",
            details: "over datagrams, losses are noticed by it",
        },
        /// Flows of a second group of clients against the same server.
        competing_flows: u64 = LOAD {
            kind: LevelKind::Count { min: 0, max: FLOWS_MAX, auto: false },
            defaults: call("0"),
            heading: "competing",
            summary: "Connections of a second client process",
            details: "to the same server",
            within_test: true,
        },
        /// Streams in each direction that load the path of the calls.
        load_flows: u64 = LOAD {
            kind: LevelKind::Count { min: 0, max: LOAD_FLOWS_MAX, auto: false },
            defaults: call("0"),
            heading: "load",
            summary: "Streams each way on the path of the calls",
            details: "0: the path is idle; 0,8 measures calls on both, the idle and the loaded path",
            fits: TCP,
            set_at: &[EndRole::Server],
            within_test: true,
        },
    } } };
}
