//! Rows of the table of factors: the listener of a server, rings, and programs of the user.

macro_rules! with_ring_rows {
    ($next:ident $($rest:tt)*) => { $next! { $($rest)* {
        /// The socket whose `SO_RCVBUF` is set.
        rcvbuf_on: RcvbufOn = OPTION {
            defaults: call("listener"),
            heading: "SO_RCVBUF on",
            summary: "Socket with SO_RCVBUF: listener, accepted or client",
            details: "listener: accepted sockets inherit it, and the window scale is fixed by it",
            fits: CONNECTIONS,
            needs: Some(Needs { with: &[FactorKey::rcvbuf], when: |spec| spec.rcvbuf().is_some(), text: "a size in --rcvbuf" }),
        },
        /// Connections that may wait to be accepted.
        backlog: u64 = OPTION {
            kind: LevelKind::Count { min: 1, max: 65_535, auto: true },
            defaults: call("auto"),
            summary: "Connections that may wait for accept, or auto",
            details: "listen(2); auto: the largest that the system allows",
            fits: CONNECTIONS,
            set_at: &[EndRole::Server],
        },
        // Requirements of a program on its ring are conditions: whether it must find out which operation completed, and whether it
        // reads completions at all. The size of the ring, its flags and the code that drives it are choices.
        /// The task of the loop of a ring.
        mode: Mode = RING {
            role: Role::Condition,
            defaults: ring("ceiling,checked"),
            summary: "Loop of the ring: ceiling or checked",
            details: "ceiling: counts completions only; checked: fills whole entries and compares every completion",
            usual: &["checked"],
        },
        /// The data of each operation of a ring.
        user_data: UserData = RING {
            role: Role::Condition,
            defaults: ring("none"),
            summary: "User data of operations: none, unique or boxed",
            details: "unique: a number; boxed: an object on the heap",
        },
        /// Submissions that fit a ring.
        entries: u64 = RING {
            kind: LevelKind::PowerOfTwo { max: ENTRIES_MAX },
            defaults: ring("1,64..4096"),
            summary: "Submission entries of the ring, a power of two",
            details: "completion entries are twice as many",
            usual: &["64"],
        },
        /// Operations of one submission.
        submit_batch: u64 = RING {
            kind: LevelKind::Count { min: 1, max: ENTRIES_MAX, auto: true },
            defaults: ring("auto"),
            heading: "batch",
            summary: "Operations of one submission, or auto",
            details: "at most --entries; auto: as many as --entries",
        },
        /// The implementation that drives a ring.
        implementation: Implementation = RING {
            defaults: ring("raw,io-uring,liburing"),
            heading: "ring",
            summary: "Code that drives the ring: raw, io-uring, liburing",
            details: "liburing-undrained is never compared (docs/factors.md)",
        },
        /// The set-up of a ring.
        setup: RingFlags = RING {
            defaults: ring("default,single-issuer"),
            heading: "set-up",
            summary: "Set-up flags of the ring",
            details: "default, single-issuer, coop, sqpoll, no-sqarray, registered, or several joined by +",
        },
        /// How long a run of a program may take, nanoseconds.
        run_timeout: u64 = TRIALS {
            flag: Some("timeout"),
            kind: LevelKind::Duration { min_ns: 10_000_000, max_ns: 3_600_000_000_000, auto: false },
            defaults: check("60s"),
            heading: "timeout",
            summary: "Time after which a run has failed",
            details: "it is ended with all processes that it started",
            fits: NO_PATH,
        },
        /// The value that replaces the placeholder in the words of a program.
        value: ProgramValue = TEST {
            role: Role::Choice,
            flag: Some("values"),
            kind: LevelKind::Value,
            defaults: check("4K..1M"),
            summary: "Values for {value}: sizes, numbers or words",
            details: "4K is passed on as 4096",
            fits: NO_PATH,
        },
    } } };
}
