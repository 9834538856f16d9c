//! Levels of factors that are names: a table of each, with the meaning of every name. Defines meanings only, never measurements.
//!
//! A program that only reads does not control its peer's writes: the size of a write is then a condition, and only the size
//! of a read is compared.

use crate::name_tables::{Engine, EpollMode, name_of, names};

names! {
    /// How a program writes a message of several parts, such as a header and a body.
    #[derive(Default)]
    MessageWrites, "way of writing a message", MESSAGE_WRITES {
        #[default]
        Separate = "separate": "send(2) for each part",
        Writev = "writev": "one sendmsg(2) with a list of the parts",
        Copy = "copy": "copies the parts into one buffer, then one send(2)",
        More = "more": "send(2) for each part, all but the last with MSG_MORE",
        Cork = "cork": "send(2) for each part, with TCP_CORK on until the last",
        Sendfile = "sendfile": "of replies: send(2) for the first part, then sendfile(2) for all others",
        MoreSendfile = "more-sendfile": "the same, the first part with MSG_MORE",
    }
}

impl MessageWrites {
    /// Whether the parts after the first one are in a file.
    pub fn sends_file(self) -> bool {
        matches!(self, MessageWrites::Sendfile | MessageWrites::MoreSendfile)
    }
}

/// The bytes of the parts in which a message is sent: a first one, such as a header, and equal ones behind it. At least 1 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageParts {
    /// Bytes of the first part.
    pub first: usize,
    /// Most bytes of each other one.
    pub others: usize,
}

impl MessageParts {
    /// A message in one part.
    pub const WHOLE: MessageParts = MessageParts::of(usize::MAX);

    /// Equal parts.
    pub const fn of(bytes: usize) -> MessageParts {
        MessageParts { first: bytes, others: bytes }
    }

    /// The position behind the part with the byte at this position, in a message of any length.
    #[inline]
    pub fn end_of(self, at: usize) -> usize {
        match at.checked_sub(self.first) {
            None => self.first,
            Some(behind) => at.saturating_add(self.others - behind % self.others),
        }
    }

    /// How many parts the first `bytes` of a message belong to.
    #[inline]
    pub fn count(self, bytes: usize) -> usize {
        usize::from(bytes > 0) + bytes.saturating_sub(self.first).div_ceil(self.others)
    }
}

names! {
    /// The ends of calls that set an option.
    #[derive(Default)]
    CallEnds, "end of calls", CALL_ENDS {
        #[default]
        Both = "both": "the client and the server",
        Client = "client": "the client only",
        Server = "server": "the server only",
    }
}

names! {
    /// Which end of a stream the program controls.
    #[derive(Default)]
    ProgramRole, "end of a path", PROGRAMS {
        Reader = "reader": "your program reads; its peer's writes are conditions",
        Writer = "writer": "your program writes; its peer's reads are conditions",
        Relay = "relay": "your program relays from one peer to another; both peers' settings are conditions",
        #[default]
        Both = "both": "both ends are yours",
    }
}

names! {
    /// A condition that is compared although most programs cannot choose it: a program that may open several connections, or
    /// place its threads, can choose how many and where.
    #[derive(Default)]
    ComparedCondition, "condition to compare", COMPARED_CONDITIONS {
        #[default]
        None = "none": "conditions separate tests",
        Flows = "flows": "how many of the listed numbers of connections are enough",
        Placement = "placement": "where the ends should run",
        Transport = "transport": "which of the listed transports is fastest, such as unix or tcp",
        Depth = "depth": "how many requests should be in flight",
        RequestChunk = "request-chunk": "in which parts a client should write its requests",
        ResponseChunk = "response-chunk": "in which parts a server should write its responses",
        Tls = "tls": "the cost of encryption, by the program or the kernel",
        RelayPlacement = "relay-placement": "where a relay should run",
        ClientEngine = "client-engine": "how a client should move bytes",
        LoadFlows = "load-flows": "what streams on the path cost calls",
    }
}

impl ComparedCondition {
    /// Whether this is the factor of the name.
    pub fn is(self, factor: &str) -> bool {
        self != ComparedCondition::None && name_of(COMPARED_CONDITIONS, &self).replace('-', "_") == factor
    }
}

names! {
    /// How old a connection is when it is measured.
    ConnectionAge, "connection age", CONNECTION_AGES {
        Fresh = "fresh": "the first milliseconds of a connection",
        Steady = "steady": "after its first 50 ms, as most bytes are moved",
    }
}

names! {
    /// Where a writer of a stream has its bytes.
    #[derive(Default)]
    SendFrom, "place of a writer's bytes", SEND_FROM {
        #[default]
        Memory = "memory": "bytes are in the writer's memory",
        File = "file": "pread(2) of a file in the page cache before each send",
        Sendfile = "sendfile": "sendfile(2) of a file in the page cache",
    }
}

/// The length of the file of all writers of a process, bytes; each begins again at its end.
pub const FILE_LEN: u64 = 16 << 20;

// Encryption of connections: none, by a library in the program, or by the kernel.

names! {
    /// How a connection is encrypted.
    #[derive(Default)]
    Tls, "kind of encryption", TLS_KINDS {
        #[default]
        None = "none": "bytes are not encrypted",
        Rustls = "rustls": "TLS 1.3 by the library rustls, as in Rust programs",
        Kernel = "kernel": "TLS 1.3 by the kernel (kTLS), keys set without a handshake",
    }
}

impl Tls {
    /// Whether an end of a stream can use it with this engine.
    pub fn fits_stream(self, engine: Engine) -> bool {
        match self {
            Tls::None => true,
            Tls::Rustls => engine == Engine::Blocking,
            Tls::Kernel => works_with_kernel(engine),
        }
    }

    /// Whether an end of calls can use it with this engine.
    pub fn fits_call(self, engine: Engine) -> bool {
        match self {
            Tls::None => true,
            Tls::Rustls => matches!(engine, Engine::Blocking | Engine::Epoll(_)),
            Tls::Kernel => works_with_kernel(engine),
        }
    }
}

/// Whether an engine works over a connection that the kernel encrypts.
///
/// The kernel returns decrypted records one by one, so after a receive that left room in its buffer there may be more, which no edge
/// announces: an engine that waits for one would stall. The kernel also refuses sends with `MSG_WAITALL` (net/tls/tls_sw.c,
/// `tls_sw_sendmsg`), which io_uring needs for whole messages.
fn works_with_kernel(engine: Engine) -> bool {
    matches!(engine, Engine::Blocking | Engine::Epoll(EpollMode { edge: false, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_the_first_one() {
        let parts = MessageParts { first: 30, others: 100 };
        assert_eq!([0, 29, 30, 129, 130, 231].map(|at| parts.end_of(at)), [30, 30, 130, 130, 230, 330]);
        assert_eq!([0, 1, 30, 31, 130, 131].map(|bytes| parts.count(bytes)), [0, 1, 1, 2, 2, 3]);
        assert_eq!((MessageParts::WHOLE.end_of(0), MessageParts::WHOLE.count(9)), (usize::MAX, 1));
        let header = MessageParts { first: 30, ..MessageParts::WHOLE };
        assert_eq!((header.end_of(30), header.count(500)), (usize::MAX, 2));
    }

    #[test]
    fn names_round_trip() {
        assert!(PROGRAMS.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name));
        assert!(
            CONNECTION_AGES.iter().all(|row| row.name.parse() == Ok(row.value) && row.value.to_string() == row.name)
        );
        assert_eq!(
            "steddy".parse::<ConnectionAge>().unwrap_err().to_string(),
            "no connection age is called `steddy`: did you mean `steady`?"
        );
    }
}

#[cfg(test)]
mod tls_tests {
    use super::*;

    #[test]
    fn engines_fit_who_encrypts() {
        let check = |tls: Tls, engine: &str, expected| {
            let engine = engine.parse().unwrap();
            assert_eq!((tls.fits_stream(engine), tls.fits_call(engine)), expected, "{tls} {engine}");
        };
        check(Tls::Rustls, "blocking", (true, true));
        check(Tls::Rustls, "epoll:edge", (false, true));
        check(Tls::Rustls, "uring", (false, false));
        check(Tls::Kernel, "uring", (false, false));
        check(Tls::Kernel, "epoll", (true, true));
        check(Tls::Kernel, "epoll:edge", (false, false));
        check(Tls::Kernel, "tokio", (false, false));
        check(Tls::None, "tokio", (true, true));
    }
}
