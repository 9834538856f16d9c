//! The table of profiles: named sets of conditions for which a recommendation must hold.

use crate::workload::Workload;

/// A named set of condition levels: a kind of reader, server or path.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name in `--profile` and in reports.
    pub name: &'static str,
    /// The workload that it belongs to.
    pub workload: Workload,
    /// One line of help.
    pub summary: &'static str,
    /// Its phrase in a sentence: "whether the reader {phrase}", "whether the server {phrase}".
    pub phrase: &'static str,
    /// The factors it sets, by name, with the level as a flag would give it.
    pub sets: &'static [(&'static str, &'static str)],
}

/// The profiles that come with the product. A plan file may define more.
///
/// Calls have their own. `echo` corresponds to `drain` of streams: a server without work per request measures only the
/// kernel and the engine, so nothing is recommended from it, and it is not among the defaults.
/// `program` does no work per byte: where a program spends time on each byte, as a parser does, sizes matter little, and its best
/// size is within the interval of `program`. Real programs agree with it better than with one that reads or fills every byte
/// (docs/research/verification.md).
/// `rpc` is a small handler; its 16 KiB are a request's own state, not a parser's tables. `many-idle` adds connections
/// that only wait: most servers have them, and engines differ in them.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "drain",
        workload: Workload::Stream,
        summary: "the receiver discards the data: the kernel alone",
        phrase: "drains",
        sets: &[("work", "none"), ("working_set", "0")],
    },
    Profile {
        name: "sum",
        workload: Workload::Stream,
        summary: "the receiver reads every byte",
        phrase: "sums",
        sets: &[("work", "sum"), ("working_set", "0")],
    },
    Profile {
        name: "program",
        workload: Workload::Stream,
        summary: "ends pass the bytes on and spend 1 us per system call",
        phrase: "works as programs do (--profile program)",
        sets: &[("work", "none"), ("working_set", "0"), ("writer_work", "none"), ("call_work", "1us")],
    },
    Profile {
        name: "parser",
        workload: Workload::Stream,
        summary: "the receiver reads every byte, with 512 KiB of state",
        phrase: "parses",
        sets: &[("work", "sum"), ("working_set", "512K")],
    },
    Profile {
        name: "tls",
        workload: Workload::Stream,
        summary: "as program, over connections that rustls encrypts",
        phrase: "works as programs do, with TLS",
        sets: &[
            ("tls", "rustls"),
            ("work", "none"),
            ("working_set", "0"),
            ("writer_work", "none"),
            ("call_work", "1us"),
        ],
    },
    Profile {
        name: "echo",
        workload: Workload::Call,
        summary: "the server has no work per request: kernel and engine",
        phrase: "echoes",
        sets: &[("work", "none"), ("working_set", "0"), ("idle_flows", "0")],
    },
    Profile {
        name: "rpc",
        workload: Workload::Call,
        summary: "the server reads each byte, with 16 KiB of state",
        phrase: "handles calls",
        sets: &[("work", "sum"), ("working_set", "16K"), ("idle_flows", "0")],
    },
    Profile {
        name: "tls-rpc",
        workload: Workload::Call,
        summary: "as rpc, over connections that rustls encrypts",
        phrase: "handles calls with TLS",
        sets: &[("tls", "rustls"), ("work", "sum"), ("working_set", "16K"), ("idle_flows", "0")],
    },
    Profile {
        name: "many-idle",
        workload: Workload::Call,
        summary: "as rpc, with 1000 connections that never call",
        phrase: "also holds 1000 idle connections",
        sets: &[("work", "sum"), ("working_set", "16K"), ("idle_flows", "1000")],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (at, profile) in PROFILES.iter().enumerate() {
            assert!(PROFILES[..at].iter().all(|other| other.name != profile.name), "{} occurs twice", profile.name);
        }
    }
}
