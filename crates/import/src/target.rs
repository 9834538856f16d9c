//! Possible meanings of a column, and the names by which a column is recognised.
//!
//! Only a name with an unambiguous unit is recognised: `MB/s` may be a million bytes or a million bits, so the user
//! must map such a column.

use bytegauge_model::{FACTORS, Factor, factor, suggest};

/// The meaning of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnTarget {
    /// A factor's level.
    Factor(&'static Factor),
    /// The place of measurement: a condition that is not in the table of factors.
    Machine,
    /// Whether both ends touched every byte: work, fill and profile in one.
    Touches,
    /// Calls per second at the client.
    CallRate,
    /// The block, or the repetition.
    Block,
    /// Bytes at the sink.
    Bytes,
    /// Calls completed at the client.
    Completed,
    /// Length of the trial, in a unit of this number of nanoseconds.
    Wall(f64),
    /// Throughput, in a unit of this number of bytes per second, or with its unit in each cell.
    Rate(Option<f64>),
    /// Read calls of the sink.
    ReadCalls,
    /// Those that returned less than their buffer holds.
    ShortReads,
}

impl ColumnTarget {
    /// The value that it sets: two columns with the same key would contradict each other.
    pub(super) fn key(&self) -> String {
        match self {
            ColumnTarget::Factor(factor) => factor.name.into(),
            ColumnTarget::Wall(_) => "wall_ns".into(),
            ColumnTarget::Rate(_) => "throughput_bytes_per_second".into(),
            ColumnTarget::CallRate => "calls_per_second".into(),
            other => format!("{other:?}"),
        }
    }
}

const KIB: f64 = 1024.0;

/// Column names, in addition to those of factors and counters.
const NAMES: &[(&str, ColumnTarget)] = &[
    ("machine", ColumnTarget::Machine),
    ("touches_data", ColumnTarget::Touches),
    ("block", ColumnTarget::Block),
    ("bytes", ColumnTarget::Bytes),
    ("completed_calls", ColumnTarget::Completed),
    ("calls_per_second", ColumnTarget::CallRate),
    ("wall_ns", ColumnTarget::Wall(1.0)),
    ("duration_ns", ColumnTarget::Wall(1.0)),
    ("duration_us", ColumnTarget::Wall(1e3)),
    ("duration_ms", ColumnTarget::Wall(1e6)),
    ("duration_sec", ColumnTarget::Wall(1e9)),
    ("throughput_bytes_per_second", ColumnTarget::Rate(Some(1.0))),
    ("throughput_kib_s", ColumnTarget::Rate(Some(KIB))),
    ("throughput_mib_s", ColumnTarget::Rate(Some(KIB * KIB))),
    ("throughput_gib_s", ColumnTarget::Rate(Some(KIB * KIB * KIB))),
    ("throughput_megabytes_s", ColumnTarget::Rate(Some(1e6))),
    ("throughput_gigabytes_s", ColumnTarget::Rate(Some(1e9))),
    ("throughput_mbit_s", ColumnTarget::Rate(Some(1e6 / 8.0))),
    ("throughput_gbit_s", ColumnTarget::Rate(Some(1e9 / 8.0))),
    ("throughput", ColumnTarget::Rate(None)),
    ("sink_calls", ColumnTarget::ReadCalls),
    ("sink_short_calls", ColumnTarget::ShortReads),
];

/// Names that other programs use, with the name in bytegauge.
const ALIASES: &[(&str, &str)] = &[
    ("connection_type", "transport"),
    ("read_buffer_bytes", "read_size"),
    ("read_buf_size", "read_size"),
    ("buffer_size", "read_size"),
    ("buf_size", "read_size"),
    ("write_buffer_bytes", "write_size"),
    ("write_buf_size", "write_size"),
    ("so_rcvbuf", "rcvbuf"),
    ("so_sndbuf", "sndbuf"),
    ("connections", "flows"),
    ("request_size", "request"),
    ("request_bytes", "request"),
    ("response_size", "response"),
    ("response_bytes", "response"),
    ("calls_s", "calls_per_second"),
    ("calls_sec", "calls_per_second"),
    ("cps", "calls_per_second"),
    ("cps_mean", "calls_per_second"),
    ("requests_per_second", "calls_per_second"),
    ("requests_s", "calls_per_second"),
    ("requests_sec", "calls_per_second"),
    ("machine_configuration", "machine"),
    ("use_buffer", "touches_data"),
    ("duration_s", "duration_sec"),
    ("duration_seconds", "duration_sec"),
    ("seconds", "duration_sec"),
    ("num_syscalls", "sink_calls"),
    ("calls", "sink_calls"),
    ("short_reads", "sink_short_calls"),
    ("bandwidth", "throughput"),
    ("rate_gbit_s", "throughput_gbit_s"),
    ("throughput_b_s", "throughput_bytes_per_second"),
    ("mib_s", "throughput_mib_s"),
    ("gib_s", "throughput_gib_s"),
    ("throughput_gbits_s", "throughput_gbit_s"),
    ("throughput_mbits_s", "throughput_mbit_s"),
];

/// The target of a name of bytegauge; the error is a hint at the likely name.
pub(super) fn ours(name: &str) -> Result<ColumnTarget, String> {
    let plain = plain(name);
    named(&plain).ok_or_else(|| suggest::hint(name, names()))
}

/// The target that a heading implies.
pub(super) fn recognise(heading: &str) -> Option<ColumnTarget> {
    let plain = plain(heading);
    let name = ALIASES.iter().find(|(theirs, _)| *theirs == plain).map_or(plain.as_str(), |(_, ours)| ours);
    named(name)
}

fn named(name: &str) -> Option<ColumnTarget> {
    let fixed = NAMES.iter().find(|(ours, _)| *ours == name).map(|(_, target)| *target);
    fixed.or_else(|| factor::find(name).map(ColumnTarget::Factor))
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    FACTORS.iter().map(|factor| factor.name).chain(NAMES.iter().map(|(name, _)| *name))
}

/// `throughput (MiB/s)` as `throughput_mib_s`.
fn plain(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_and_alias_leads_somewhere() {
        for name in names() {
            assert!(ours(name).is_ok(), "{name}");
        }
        for (theirs, name) in ALIASES {
            assert!(ours(name).is_ok() && recognise(theirs).is_some(), "{theirs}");
        }
    }

    #[test]
    fn headings() {
        let check = |heading: &str, expected: &str| {
            assert_eq!(
                recognise(heading).map_or("none".into(), |target| match target {
                    ColumnTarget::Rate(Some(unit)) => format!("{unit} B/s"),
                    other => other.key(),
                }),
                expected,
                "{heading}"
            );
        };
        check("connection_type", "transport");
        check("Read-Size", "read_size");
        check("throughput (MiB/s)", "1048576 B/s");
        check("throughput (MB/s)", "none");
        check("short_reads", "ShortReads");
        check("weather", "none");
    }

    #[test]
    fn slips_are_hinted_at() {
        assert_eq!(ours("read_sise").err().as_deref(), Some(": did you mean `read_size`?"));
    }
}
