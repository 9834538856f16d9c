//! One row of a table as a trial. The column gives the meaning of a value; missing values are computed from others where
//! possible.

use std::collections::HashMap;

use bytegauge_model::level::LevelKind;
use bytegauge_model::{
    CellId, EndCounts, EndReport, FACTORS, Factor, Level, Nanos, Outcome, Side, Spec, Stage, Transport, Trial,
    Workload, factor, suggest, unit,
};

use super::FIELD_MAX;

/// The extra condition that separates rows measured in different places.
pub(super) const MACHINE: &str = "machine";

/// The values of one row; the cell, block and position of its trial are set when all rows are known.
pub(super) struct Observation {
    pub line: u64,
    /// The place of its levels on the shelf: that of its cell.
    pub cell: usize,
    pub block: Option<u64>,
    pub trial: Trial,
}

/// A row while its values are read.
#[derive(Clone, Default)]
pub(super) struct Fields {
    factors: Spec,
    touches: Option<bool>,
    block: Option<u64>,
    bytes: Option<u64>,
    calls: Option<u64>,
    wall_ns: Option<u64>,
    rate: Option<Printed>,
    call_rate: Option<f64>,
    read_calls: Option<u64>,
    short_reads: Option<u64>,
}

/// The levels of rows, each combination made once: a table has many rows of few cells.
#[derive(Default)]
pub(super) struct Shelf {
    places: HashMap<(Spec, Option<bool>), usize>,
    /// The level of every factor, by place.
    pub(super) cells: Vec<Spec>,
}

impl Shelf {
    /// The place of the levels given in a row, completed to the level of every factor.
    fn place(&mut self, given: Spec, touches: Option<bool>) -> Result<usize, String> {
        let key = (given, touches);
        if let Some(place) = self.places.get(&key) {
            return Ok(*place);
        }
        let mut factors = key.0.clone();
        let transport = factors.transport().cloned().ok_or("it has no transport")?;
        if let Some(touches) = touches {
            fill_touches(&mut factors, touches);
        }
        for factor in factor::of(factors.workload()) {
            let fits = factors.workload().runs_over(&transport) && (factor.fits)(&transport);
            // A cell has a level of every factor, except those of an end that does not exist.
            let level = if fits { factors.get(factor.name).clone() } else { Level::Absent };
            factors.set(factor.name, level);
        }
        self.cells.push(factors);
        self.places.insert(key, self.cells.len() - 1);
        Ok(self.cells.len() - 1)
    }
}

fn fill(factors: &mut Spec, name: &str, level: Level) {
    if factors.get(name) == Level::Absent {
        factors.set(name, level);
    }
}

/// Touching every byte is the profile `sum` with a writer that fills its buffer; not touching it, `drain`.
fn fill_touches(factors: &mut Spec, touches: bool) {
    let (work, filling, profile) = if touches { ("sum", "touch", "sum") } else { ("none", "none", "drain") };
    for (name, level) in [("work", work), ("writer_work", filling), ("profile", profile)] {
        fill(factors, name, Level::Name(level.into()));
    }
    fill(factors, "working_set", Level::Number(0));
}

/// Refuses rates that no machine reaches: a mistake in a unit.
fn refuse_the_impossible(bytes: u64, calls: u64, wall_ns: u64) -> Result<(), String> {
    let (rate, call_rate) = (bytes as f64 * 1e9 / wall_ns as f64, calls as f64 * 1e9 / wall_ns as f64);
    let shown = |ns| Nanos(ns).to_string();
    if rate > BYTES_PER_SECOND_MAX {
        return Err(format!(
            "{bytes} bytes in {} are {}, more than any memory can move: check the units",
            shown(wall_ns),
            unit::byte_rate(rate)
        ));
    }
    if call_rate > CALLS_PER_SECOND_MAX {
        return Err(format!("{calls} calls in {} are more than any machine can make: check the units", shown(wall_ns)));
    }
    Ok(())
}

/// 10 TiB/s: about ten times the memory bandwidth of the largest machines.
const BYTES_PER_SECOND_MAX: f64 = 10.0 * (1u64 << 40) as f64;

/// A call takes two system calls of tens of nanoseconds each; no machine has enough CPUs for more.
const CALLS_PER_SECOND_MAX: f64 = 1e10;

/// The assumed length of a trial if only its rate was published: long enough that rounding a count changes the rate by less
/// than a thousandth.
const NOMINAL_NS: u64 = 1_000_000_000_000;

/// A rate as printed, with its rounding error.
#[derive(Clone, Copy)]
struct Printed {
    bytes_per_second: f64,
    half_digit: f64,
}

impl Fields {
    /// Reads one value. An empty one is missing.
    pub(super) fn set(&mut self, target: ColumnTarget, text: &str) -> Result<(), String> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(());
        }
        if text.len() > FIELD_MAX {
            let head: String = text.chars().take(40).collect();
            return Err(format!("`{head}…` is {} bytes long: longer than any value", text.len()));
        }
        match target {
            ColumnTarget::Factor(factor) if factor.name == "transport" => self.set_transport(text)?,
            ColumnTarget::Factor(factor) => self.factors.set(factor.name, level(factor, text)?),
            ColumnTarget::Machine => self.set_machine(text),
            ColumnTarget::Touches => self.touches = Some(switch(text)?),
            ColumnTarget::Block => self.block = Some(count(text)?),
            ColumnTarget::Bytes => self.bytes = Some(count(text)?),
            ColumnTarget::Completed => self.calls = Some(count(text)?),
            ColumnTarget::Wall(unit) => self.wall_ns = Some(duration_ns(text, unit)?),
            ColumnTarget::Rate(unit) => self.rate = Some(printed(text, unit)?),
            ColumnTarget::CallRate => self.call_rate = Some(number(text)?),
            ColumnTarget::ReadCalls => self.read_calls = Some(count(text)?),
            ColumnTarget::ShortReads => self.short_reads = Some(count(text)?),
        }
        Ok(())
    }

    /// Sets a level unless the row has one of its own.
    pub(super) fn fill(&mut self, name: &str, level: Level) {
        fill(&mut self.factors, name, level);
    }

    fn set_transport(&mut self, text: &str) -> Result<(), String> {
        let (transport, elsewhere) = transport(text).ok_or_else(|| {
            format!("`{text}` names no transport: use unix, tcp, tcp6, pipe or a path such as /dev/zero")
        })?;
        self.factors.set("transport", Level::Name(transport.to_string()));
        if elsewhere {
            self.set_machine(text);
        }
        Ok(())
    }

    fn set_machine(&mut self, text: &str) {
        let label = match self.factors.get(MACHINE).name() {
            Some(other) => format!("{other}; {text}"),
            None => text.to_owned(),
        };
        self.factors.set(MACHINE, Level::Name(label));
    }

    /// The whole row.
    pub(super) fn finish(mut self, line: u64, shelf: &mut Shelf) -> Result<Observation, String> {
        let cell = shelf.place(std::mem::take(&mut self.factors), self.touches)?;
        let factors = &shelf.cells[cell];
        let workload = factors.workload();
        let is_call = workload == Workload::Call;
        let wall_ns = match self.wall_ns {
            Some(0) => return Err("its duration is 0".into()),
            Some(wall_ns) => wall_ns,
            None if is_call && self.call_rate.is_some() || !is_call && self.rate.is_some() => NOMINAL_NS,
            // A row without a factor of calls only belongs to a stream.
            None if self.call_rate.is_some() => {
                return Err(
                    "it has a rate of calls but no other value of a call: head the engine's column `server_engine` \
                            (or map it: --map server_engine=HEADING)"
                        .into(),
                );
            }
            None => return Err("its duration is missing".into()),
        };
        let seconds = wall_ns as f64 / 1e9;
        let calls = match self.calls.or_else(|| Some((self.call_rate? * seconds).round() as u64)) {
            None if is_call => return Err("it has neither calls nor a rate of them".into()),
            calls => calls.filter(|_| is_call).unwrap_or(0),
        };
        let bytes = match self.bytes.or_else(|| self.bytes_from_rate(wall_ns, factors)) {
            None if !is_call => return Err("it has neither bytes nor a throughput".into()),
            bytes => bytes.unwrap_or(0),
        };
        refuse_the_impossible(bytes, calls, wall_ns)?;
        let mut trial = Trial::without_numbers(CellId("".into()), workload, Stage::Confirm, Outcome::Measured);
        (trial.bytes, trial.calls, trial.wall_ns) = (bytes, calls, wall_ns);
        if let Some(role) = workload.end(Side::Sink).filter(|_| self.read_calls.or(self.short_reads).is_some()) {
            let (calls, short_calls) = (self.read_calls.unwrap_or(0), self.short_reads.unwrap_or(0));
            let counts =
                EndCounts { bytes, total_bytes: bytes, calls, short_calls, window_ns: wall_ns, ..EndCounts::default() };
            trial.ends = [(role, EndReport { counts, ..EndReport::default() })].into_iter().collect();
        }
        Ok(Observation { line, cell, block: self.block, trial })
    }

    /// Bytes = throughput × duration. When no read was short, they are also calls × size: that count is
    /// exact, so it is taken if it rounds to the throughput that was printed.
    fn bytes_from_rate(&self, wall_ns: u64, factors: &Spec) -> Option<u64> {
        let Printed { bytes_per_second, half_digit } = self.rate?;
        let seconds = wall_ns as f64 / 1e9;
        let counted = match (self.read_calls, self.short_reads, factors.read_size()) {
            (Some(calls), Some(0), Some(size)) => calls.checked_mul(size),
            _ => None,
        };
        let agrees = |bytes: &u64| (*bytes as f64 / seconds - bytes_per_second).abs() <= half_digit * 1.001;
        Some(counted.filter(agrees).unwrap_or((bytes_per_second * seconds).round() as u64))
    }
}

/// Parses a level. A plain number is in base units; other text is as on the command line, where a duration has a unit.
fn level(factor: &Factor, text: &str) -> Result<Level, String> {
    let takes_numbers =
        !matches!(factor.kind, LevelKind::Name(_) | LevelKind::Switch { .. } | LevelKind::Duration { .. });
    match text.parse() {
        Ok(number) if takes_numbers => Ok(Level::Number(number)),
        _ => factor.kind.parse(text).map_err(|error| error.to_string()),
    }
}

/// The transport that a text names, and whether the text names something else too, such as a place.
pub(super) fn transport(text: &str) -> Option<(Transport, bool)> {
    let text = text.trim();
    if text.starts_with(['/', '.']) {
        let path = text.split_whitespace().next()?;
        return path.parse().ok().map(|transport| (transport, path != text));
    }
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let has = |word: &str| words.contains(&word);
    let transport = if has("unix") || has("uds") {
        Transport::Unix
    } else if has("tcp6") || has("tcp") && has("ipv6") {
        Transport::Tcp6
    } else if has("tcp") {
        Transport::Tcp
    } else if has("pipe") || has("pipes") {
        Transport::Pipe
    } else if has("zero") || has("urandom") {
        Transport::Source(format!("/dev/{}", if has("zero") { "zero" } else { "urandom" }))
    } else {
        return None;
    };
    const TRANSPORT_WORDS: &str = "unix uds tcp tcp6 ipv4 ipv6 pipe pipes dev zero urandom socket sockets stream local localhost \
                                   loopback domain";
    Some((transport, words.iter().any(|word| TRANSPORT_WORDS.split(' ').all(|known| known != *word))))
}

fn count(text: &str) -> Result<u64, String> {
    let text = plain(text);
    let fraction = || text.parse::<f64>().ok().filter(|n| n.fract() == 0.0 && (0.0..=(1u64 << 53) as f64).contains(n));
    // Some tables write integers with a decimal point.
    text.parse().ok().or_else(|| fraction().map(|n| n as u64)).ok_or_else(|| format!("`{text}` is no count"))
}

fn switch(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither true nor false")),
    }
}

/// A duration with its own unit (`742.017215ms`), or in the unit of its column.
fn duration_ns(text: &str, unit_ns: f64) -> Result<u64, String> {
    if unit_ns == 1.0
        && let Ok(exact) = text.parse()
    {
        return Ok(exact);
    }
    const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("µs", 1e3), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let own = UNITS.iter().find_map(|(name, unit)| text.strip_suffix(name).map(|digits| (digits, *unit)));
    let (digits, unit) = own.unwrap_or((text, unit_ns));
    Ok((number(digits.trim())? * unit).round() as u64)
}

/// A rate in the unit of its column, or with its unit in the cell.
fn printed(text: &str, unit: Option<f64>) -> Result<Printed, String> {
    let (text, unit) = rate(text, unit)?;
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let half_digit = 0.5 * 10f64.powi(-(decimals as i32)) * unit;
    Ok(Printed { bytes_per_second: number(text)? * unit, half_digit })
}

// Reads numbers as tables print them: `11,090`, `1_000`, `3.8 GiB/s`.

/// Units of a rate of bytes in cells of a table, bytes per second. `MB/s` is not among them: some mean bytes, others bits.
pub const RATE_UNITS: &[(&str, f64)] = &[
    ("B/s", 1.0),
    ("KiB/s", 1024.0),
    ("MiB/s", 1_048_576.0),
    ("GiB/s", 1_073_741_824.0),
    ("kbit/s", 1e3 / 8.0),
    ("Mbit/s", 1e6 / 8.0),
    ("Gbit/s", 1e9 / 8.0),
    ("Mbits/sec", 1e6 / 8.0),
    ("Gbits/sec", 1e9 / 8.0),
    ("Mbps", 1e6 / 8.0),
    ("Gbps", 1e9 / 8.0),
];

/// Without separators of thousands; unchanged where they do not separate groups of three digits.
pub(super) fn plain(text: &str) -> String {
    let (whole, fraction) = text.split_once('.').map_or((text, None), |(whole, fraction)| (whole, Some(fraction)));
    let separator = [',', '_', '\u{a0}', '\u{202f}', '\''].into_iter().find(|separator| whole.contains(*separator));
    let Some(separator) = separator else { return text.to_owned() };
    let groups: Vec<&str> = whole.split(separator).collect();
    let digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups[0].trim_start_matches('-');
    let is_grouped = (1..=3).contains(&first.len())
        && digits(first)
        && groups[1..].iter().all(|group| group.len() == 3 && digits(group));
    match (is_grouped, fraction) {
        (false, _) => text.to_owned(),
        (true, None) => groups.concat(),
        (true, Some(fraction)) => format!("{}.{fraction}", groups.concat()),
    }
}

/// A number from 0 up.
pub(super) fn number(text: &str) -> Result<f64, String> {
    let number = plain(text).parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{text}` is no number from 0 up"))
}

/// The digits of a rate and its unit, bytes per second: its own, or that of its column.
pub(super) fn rate(text: &str, column: Option<f64>) -> Result<(&str, f64), String> {
    // The longest unit first: `MiB/s` ends in `B/s`.
    let own = RATE_UNITS.iter().filter_map(|(name, unit)| Some((text.strip_suffix(name)?.trim(), *unit, name.len())));
    let own = own.filter(|(digits, ..)| digits.ends_with(|last: char| last.is_ascii_digit()));
    match (own.max_by_key(|(.., len)| *len), column) {
        (Some((digits, unit, _)), _) => Ok((digits, unit)),
        (None, Some(unit)) => Ok((text, unit)),
        (None, None) => Err(format!("`{text}` has no unit: write it in the heading or the cell, such as {}", units())),
    }
}

/// The units that are recognised, for help and errors.
pub fn units() -> String {
    RATE_UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

// Possible meanings of a column, and the names by which a column is recognised.
//
// Only a name with an unambiguous unit is recognised: `MB/s` may be a million bytes or a million bits, so the user
// must map such a column.

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
    ("read_buffer_bytes read_buf_size buffer_size buf_size", "read_size"),
    ("write_buffer_bytes write_buf_size", "write_size"),
    ("so_rcvbuf", "rcvbuf"),
    ("so_sndbuf", "sndbuf"),
    ("connections", "flows"),
    ("request_size request_bytes", "request"),
    ("response_size response_bytes", "response"),
    ("calls_s calls_sec cps cps_mean requests_per_second requests_s requests_sec", "calls_per_second"),
    ("machine_configuration", "machine"),
    ("use_buffer", "touches_data"),
    ("duration_s duration_seconds seconds", "duration_sec"),
    ("num_syscalls calls", "sink_calls"),
    ("short_reads", "sink_short_calls"),
    ("bandwidth", "throughput"),
    ("throughput_b_s", "throughput_bytes_per_second"),
    ("mib_s", "throughput_mib_s"),
    ("gib_s", "throughput_gib_s"),
    ("rate_gbit_s throughput_gbits_s", "throughput_gbit_s"),
    ("throughput_mbits_s", "throughput_mbit_s"),
];

/// The target of a name of bytegauge; the error is a hint at the likely name.
pub(super) fn ours(name: &str) -> Result<ColumnTarget, String> {
    named(&snake_case(name)).ok_or_else(|| suggest::hint(name, names()))
}

/// The target that a heading implies.
pub(super) fn recognise(heading: &str) -> Option<ColumnTarget> {
    let name = snake_case(heading);
    let known = ALIASES.iter().find(|(theirs, _)| theirs.split(' ').any(|alias| alias == name));
    named(known.map_or(name.as_str(), |(_, ours)| ours))
}

fn named(name: &str) -> Option<ColumnTarget> {
    let fixed = NAMES.iter().find(|(ours, _)| *ours == name).map(|(_, target)| *target);
    fixed.or_else(|| factor::find(name).map(ColumnTarget::Factor))
}

fn names() -> impl Iterator<Item = &'static str> + Clone {
    FACTORS.iter().map(|factor| factor.name).chain(NAMES.iter().map(|(name, _)| *name))
}

/// `throughput (MiB/s)` as `throughput_mib_s`.
fn snake_case(heading: &str) -> String {
    let words = heading.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports() {
        let check = |text: &str, expected: Option<(&str, bool)>| {
            let got = transport(text).map(|(transport, more)| (transport.to_string(), more));
            assert_eq!(got, expected.map(|(name, more)| (name.into(), more)), "{text}");
        };
        check("unix", Some(("unix", false)));
        check("Unix sockets", Some(("unix", false)));
        check("TCP localhost", Some(("tcp", false)));
        check("TCP Remote", Some(("tcp", true)));
        check("tcp (IPv6)", Some(("tcp6", false)));
        check("/dev/urandom", Some(("/dev/urandom", false)));
        check("DevZero", None);
        check("dev_zero", Some(("/dev/zero", false)));
        check("Results summary", None);
    }

    #[test]
    fn durations() {
        let check = |text: &str, unit: f64, expected: Option<u64>| {
            assert_eq!(duration_ns(text, unit).ok(), expected, "{text}");
        };
        check("1.508913262s", 1e9, Some(1_508_913_262));
        check("742.017215ms", 1e9, Some(742_017_215));
        check("12.5µs", 1e9, Some(12_500));
        check("2.103", 1e9, Some(2_103_000_000));
        check("18446744073709551615", 1.0, Some(u64::MAX));
        check("-1", 1e9, None);
        check("soon", 1e9, None);
    }
}

#[cfg(test)]
mod number_tests {
    use super::*;

    #[test]
    fn thousands_have_separators() {
        let check = |text: &str, expected: Option<f64>| assert_eq!(number(text).ok(), expected, "{text}");
        check("11,090", Some(11_090.0));
        check("1,234,567.5", Some(1_234_567.5));
        check("1_000", Some(1000.0));
        check("12'345", Some(12_345.0));
        check("3.8", Some(3.8));
        // A decimal comma is no separator of thousands.
        check("3,8", None);
        check("11,09,000", None);
        check("1,2345", None);
        check("-1,000", None);
    }

    #[test]
    fn unit_is_in_the_cell_or_column() {
        assert_eq!(rate("3.8 GiB/s", None), Ok(("3.8", 1_073_741_824.0)));
        assert_eq!(rate("940Mbps", Some(1.0)), Ok(("940", 125_000.0)));
        assert_eq!(rate("7", Some(8.0)), Ok(("7", 8.0)));
        assert!(rate("7", None).unwrap_err().contains("Gbit/s"));
        assert!(rate("7 MB/s", None).is_err());
    }
}

#[cfg(test)]
mod tests_of_target {
    use super::*;

    #[test]
    fn every_name_and_alias_leads_somewhere() {
        for name in names() {
            assert!(ours(name).is_ok(), "{name}");
        }
        for (theirs, name) in ALIASES {
            assert!(ours(name).is_ok() && theirs.split(' ').all(|alias| recognise(alias).is_some()), "{theirs}");
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
