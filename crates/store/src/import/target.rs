//! What a column of a table can stand for, and the names by which a column is recognised.
//!
//! A name with a unit is preferred to a guess: `MB/s` may be a million bytes or a million bits, so a
//! heading in it is not recognised but mapped by the user.

use bytegauge_model::{FACTORS, Factor, Side, factor, renamed, suggest};

use crate::counters;

/// What a column stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target {
    /// A factor's level.
    Factor(&'static Factor),
    /// Where it was measured: a condition beyond the table of factors.
    Machine,
    /// Whether both ends touched every byte: work, fill and profile in one.
    Touches,
    /// The number of the session it was exported from, or what follows from other columns: says nothing here.
    Session,
    /// Calls per second at the client.
    CallRate,
    /// What only a client's report can hold, which no table brings.
    Reported(&'static str),
    /// The group's name.
    Group,
    /// The cell's name.
    Cell,
    /// Candidate, twin or floor.
    Kind,
    /// The cell that a twin repeats.
    TwinOf,
    /// What the trial was for.
    Stage,
    /// The block, or the repetition.
    Block,
    /// The place in the block.
    Position,
    /// Whether the block is whole.
    BlockComplete,
    /// Measured, skipped or failed.
    Outcome,
    /// Why not measured.
    Reason,
    /// When the trial began, nanoseconds of Unix time.
    Started,
    /// Bytes at the sink.
    Bytes,
    /// Calls completed at the client.
    Completed,
    /// Length of the trial, in a unit of so many nanoseconds.
    Wall(f64),
    /// Throughput, in a unit of so many bytes per second.
    Rate(f64),
    /// Warm-up, nanoseconds.
    Warmup,
    /// The CPU that an end was pinned to.
    Cpu(Side),
    /// One of an end's counters, by its index.
    Counter(Side, usize),
    /// One of the machine's times, by its index: wall, busy, softirq, steal.
    Machines(usize),
}

impl Target {
    /// What it says something about: two columns of one key would contradict each other.
    pub(super) fn key(&self) -> String {
        match self {
            Target::Factor(factor) => factor.name.into(),
            Target::Wall(_) => "wall_ns".into(),
            Target::Rate(_) => "throughput_bytes_per_second".into(),
            Target::CallRate => "calls_per_second".into(),
            Target::Reported(name) => (*name).into(),
            other => format!("{other:?}"),
        }
    }
}

const KIB: f64 = 1024.0;

/// Our names, beside those of factors and counters.
const NAMES: &[(&str, Target)] = &[
    ("machine", Target::Machine),
    ("touches_data", Target::Touches),
    ("session", Target::Session),
    ("group", Target::Group),
    ("cell", Target::Cell),
    ("kind", Target::Kind),
    ("twin_of", Target::TwinOf),
    ("stage", Target::Stage),
    ("block", Target::Block),
    ("position", Target::Position),
    ("block_complete", Target::BlockComplete),
    ("outcome", Target::Outcome),
    ("reason", Target::Reason),
    ("started_unix_ns", Target::Started),
    ("bytes", Target::Bytes),
    ("completed_calls", Target::Completed),
    ("calls_per_second", Target::CallRate),
    ("failed_calls", Target::Reported("failed_calls")),
    ("competing_calls", Target::Reported("competing_calls")),
    ("wall_ns", Target::Wall(1.0)),
    ("duration_ns", Target::Wall(1.0)),
    ("duration_us", Target::Wall(1e3)),
    ("duration_ms", Target::Wall(1e6)),
    ("duration_sec", Target::Wall(1e9)),
    ("throughput_bytes_per_second", Target::Rate(1.0)),
    ("throughput_kib_s", Target::Rate(KIB)),
    ("throughput_mib_s", Target::Rate(KIB * KIB)),
    ("throughput_gib_s", Target::Rate(KIB * KIB * KIB)),
    ("throughput_megabytes_s", Target::Rate(1e6)),
    ("throughput_gigabytes_s", Target::Rate(1e9)),
    ("throughput_mbit_s", Target::Rate(1e6 / 8.0)),
    ("throughput_gbit_s", Target::Rate(1e9 / 8.0)),
    ("warmup_ns", Target::Warmup),
    ("source_cpu", Target::Cpu(Side::Source)),
    ("sink_cpu", Target::Cpu(Side::Sink)),
    ("machine_wall_ns", Target::Machines(0)),
    ("machine_busy_ns", Target::Machines(1)),
    ("machine_softirq_ns", Target::Machines(2)),
    ("machine_steal_ns", Target::Machines(3)),
];

/// What others call it, and what we call it.
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
    ("throughput_b_s", "throughput_bytes_per_second"),
    ("mib_s", "throughput_mib_s"),
    ("gib_s", "throughput_gib_s"),
    ("throughput_gbits_s", "throughput_gbit_s"),
    ("throughput_mbits_s", "throughput_mbit_s"),
];

/// The target of one of our names; the error is a hint at what was meant.
pub(super) fn ours(name: &str) -> Result<Target, String> {
    let plain = plain(name);
    named(&plain).ok_or_else(|| suggest::hint(name, names().iter().map(String::as_str)))
}

/// The target that a heading of a table gives away.
pub(super) fn recognise(heading: &str) -> Option<Target> {
    let plain = plain(heading);
    let name = ALIASES.iter().find(|(theirs, _)| *theirs == plain).map_or(plain.as_str(), |(_, ours)| ours);
    named(name)
}

/// One of an end's counters by name.
fn counter(name: &str) -> Option<Target> {
    let (end, name) = match name.split_once('_')? {
        ("source", name) => (Side::Source, name),
        ("sink", name) => (Side::Sink, name),
        _ => return None,
    };
    counters::NAMES.iter().position(|counter| *counter == name).map(|index| Target::Counter(end, index))
}

fn named(name: &str) -> Option<Target> {
    let fixed = NAMES.iter().find(|(ours, _)| *ours == name).map(|(_, target)| *target);
    let of_factor = || factor::find(renamed::factor(name)).map(Target::Factor);
    fixed.or_else(of_factor).or_else(|| counter(name))
}

fn names() -> Vec<String> {
    let ends = ["source", "sink"].into_iter().flat_map(|end| counters::NAMES.map(|name| format!("{end}_{name}")));
    let fixed = NAMES.iter().map(|(name, _)| *name);
    FACTORS.iter().map(|factor| factor.name).chain(fixed).map(str::to_owned).chain(ends).collect()
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
            assert!(ours(&name).is_ok(), "{name}");
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
                    Target::Rate(unit) => format!("{unit} B/s"),
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
        check("short_reads", "Counter(Sink, 2)");
        check("weather", "none");
    }

    #[test]
    fn slips_are_hinted_at() {
        assert_eq!(ours("read_sise").err().as_deref(), Some(": did you mean `read_size`?"));
    }
}
