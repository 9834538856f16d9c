//! One row of a table as a trial. The column gives the meaning of a value; missing values are computed from others where
//! possible.

use std::collections::HashMap;
use std::rc::Rc;

use bytegauge_model::factor::Role;
use bytegauge_model::level::LevelKind;
use bytegauge_model::{
    CellId, CellKind, EndReport, Factor, Level, MachineUse, Nanos, Outcome, Side, Spec, Stage, Transport, Trial,
    Workload, factor, unit,
};

use bytegauge_store::counters;
use bytegauge_store::kind_from_name;
use bytegauge_store::outcome;

use super::limits::FIELD_MAX;
use super::number::{number, plain, rate};
use super::target::ColumnTarget;

/// The extra condition that separates rows measured in different places.
pub(super) const MACHINE: &str = "machine";

/// The values of one row; the cell, block and position of its trial are set when all rows are known.
pub(super) struct Observation {
    pub line: u64,
    /// The level of every factor, shared by rows of the same cell.
    pub factors: Rc<Spec>,
    pub group: Option<String>,
    pub cell: Option<String>,
    pub kind: CellKind,
    pub twin_of: Option<String>,
    pub block: Option<u64>,
    pub position: Option<u32>,
    pub block_complete: Option<bool>,
    pub trial: Trial,
}

/// A row while its values are read.
#[derive(Clone, Default)]
pub(super) struct Fields {
    /// Whether plain numbers are in base units, as in tables that `export` wrote: a duration in nanoseconds.
    pub in_base_units: bool,
    factors: Spec,
    touches: Option<bool>,
    group: Option<String>,
    cell: Option<String>,
    kind: CellKind,
    twin_of: Option<String>,
    stage: Option<Stage>,
    block: Option<u64>,
    position: Option<u32>,
    block_complete: Option<bool>,
    outcome: Option<String>,
    reason: Option<String>,
    started_unix_ns: u64,
    bytes: Option<u64>,
    calls: Option<u64>,
    wall_ns: Option<u64>,
    rate: Option<Printed>,
    call_rate: Option<f64>,
    warmup_ns: u64,
    cpus: [Option<u64>; 2],
    ends: [[Option<u64>; counters::COUNT]; 2],
    machine: [Option<u64>; 4],
}

/// The levels of rows, each combination made once: a table has many rows of few cells.
#[derive(Default)]
pub(super) struct Shelf {
    known: HashMap<(Spec, Option<bool>), Rc<Spec>>,
}

impl Shelf {
    /// How many combinations there are.
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The level of every factor, given the levels in a row.
    fn whole(&mut self, given: Spec, touches: Option<bool>) -> Result<Rc<Spec>, String> {
        let key = (given, touches);
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        let mut factors = key.0.clone();
        let transport = factors.transport().cloned().ok_or("it has no transport")?;
        if let Some(touches) = touches {
            fill_touches(&mut factors, touches);
        }
        for factor in factor::of(factors.workload()) {
            let fits = (factor.fits)(&transport);
            // A cell has a level of every factor, except those of an end that does not exist.
            let level = if fits { factors.get(factor.name).clone() } else { Level::Absent };
            factors.set(factor.name, level);
        }
        let whole = Rc::new(factors);
        self.known.insert(key, Rc::clone(&whole));
        Ok(whole)
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

/// Refuses rates that no machine reaches: a mistake in a unit. The floor moves nothing but has a rate, so it is not checked.
fn refuse_the_impossible(kind: CellKind, bytes: u64, calls: u64, wall_ns: u64) -> Result<(), String> {
    if kind == CellKind::Floor || wall_ns == 0 {
        return Ok(());
    }
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
        let owned = || Some(text.to_owned());
        match target {
            ColumnTarget::Factor(factor) if factor.name == "transport" => self.set_transport(text)?,
            ColumnTarget::Factor(factor) => self.factors.set(factor.name, level(factor, text, self.in_base_units)?),
            ColumnTarget::Machine => self.set_machine(text),
            ColumnTarget::Touches => self.touches = Some(switch(text)?),
            ColumnTarget::Session | ColumnTarget::Reported(_) => {}
            ColumnTarget::Group => self.group = owned(),
            ColumnTarget::Cell => self.cell = owned(),
            ColumnTarget::Kind => {
                self.kind = kind_from_name(text).ok_or_else(|| format!("`{text}` is no kind of cell"))?;
            }
            ColumnTarget::TwinOf => self.twin_of = owned(),
            ColumnTarget::Stage => {
                self.stage = Some(Stage::from_name(text).ok_or_else(|| format!("`{text}` is no stage"))?);
            }
            ColumnTarget::Block => self.block = Some(count(text)?),
            ColumnTarget::Position => {
                self.position = Some(u32::try_from(count(text)?).map_err(|_| format!("`{text}` is too large"))?);
            }
            ColumnTarget::BlockComplete => self.block_complete = Some(switch(text)?),
            ColumnTarget::Outcome => self.outcome = owned(),
            ColumnTarget::Reason => self.reason = owned(),
            ColumnTarget::Started => self.started_unix_ns = count(text)?,
            ColumnTarget::Bytes => self.bytes = Some(count(text)?),
            ColumnTarget::Completed => self.calls = Some(count(text)?),
            ColumnTarget::Wall(unit) => self.wall_ns = Some(duration_ns(text, unit)?),
            ColumnTarget::Rate(unit) => self.rate = Some(printed(text, unit)?),
            ColumnTarget::RateWithUnit => self.rate = Some(printed_with_unit(text)?),
            ColumnTarget::CallRate => self.call_rate = Some(number(text)?),
            ColumnTarget::Warmup => self.warmup_ns = count(text)?,
            ColumnTarget::Cpu(end) => self.cpus[end as usize] = Some(count(text)?),
            ColumnTarget::Counter(end, index) => self.ends[end as usize][index] = Some(count(text)?),
            ColumnTarget::Machines(index) => self.machine[index] = Some(count(text)?),
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
        let factors = shelf.whole(std::mem::take(&mut self.factors), self.touches)?;
        let is_call = factors.workload() == Workload::Call;
        let outcome = match &self.outcome {
            None => Outcome::Measured,
            Some(name) => outcome::stored(name, self.reason.take()).ok_or_else(|| format!("`{name}` is no outcome"))?,
        };
        let measured = outcome == Outcome::Measured;
        let rated = if is_call { self.call_rate.is_some() } else { self.rate.is_some() };
        let wall_ns = match self.wall_ns {
            None if measured && rated => NOMINAL_NS,
            // A row without a factor of calls only belongs to a stream.
            None if measured && self.call_rate.is_some() => {
                return Err(
                    "it has a rate of calls but no other value of a call: head the engine's column `server_engine` \
                            (or map it: --map server_engine=HEADING)"
                        .into(),
                );
            }
            Some(0) | None if measured => return Err("it was measured, but its duration is 0 or missing".into()),
            wall_ns => wall_ns.unwrap_or(0),
        };
        let seconds = wall_ns as f64 / 1e9;
        let calls = self.calls.or_else(|| Some((self.call_rate? * seconds).round() as u64)).filter(|_| is_call);
        let bytes = match self.bytes.or_else(|| self.bytes_from_rate(wall_ns, &factors)) {
            None if measured && !is_call => return Err("it has neither bytes nor a throughput".into()),
            bytes => bytes.unwrap_or(0),
        };
        if measured && is_call && calls.is_none() {
            return Err("it has neither calls nor a rate of them".into());
        }
        if measured {
            refuse_the_impossible(self.kind, bytes, calls.unwrap_or(0), wall_ns)?;
        }
        let workload = factors.workload();
        let sides = [workload.end(Side::Source), workload.end(Side::Sink)];
        let ends = sides.into_iter().zip(self.ends).filter_map(|(role, counts)| {
            let report = end_report(counts, bytes, wall_ns)?;
            Some((role?, report))
        });
        let cpus = sides.into_iter().zip(self.cpus).filter_map(|(role, cpu)| Some((role?, cpu? as usize)));
        let stage = self.stage.unwrap_or(Stage::Confirm);
        let trial = Trial {
            started_unix_ns: self.started_unix_ns,
            bytes,
            calls: calls.unwrap_or(0),
            wall_ns,
            warmup_ns: self.warmup_ns,
            cpus: cpus.collect(),
            ends: ends.collect(),
            machine: machine_use(self.machine),
            ..Trial::without_numbers(CellId("".into()), workload, stage, outcome)
        };
        let Fields { group, cell, kind, twin_of, block, position, block_complete, .. } = self;
        Ok(Observation { line, factors, group, cell, kind, twin_of, block, position, block_complete, trial })
    }

    /// Bytes = throughput × duration. When no read was short, they are also calls × size: that count is
    /// exact, so it is taken if it rounds to the throughput that was printed.
    fn bytes_from_rate(&self, wall_ns: u64, factors: &Spec) -> Option<u64> {
        let Printed { bytes_per_second, half_digit } = self.rate?;
        let seconds = wall_ns as f64 / 1e9;
        let [_, calls, short, ..] = self.ends[Side::Sink as usize];
        let counted = match (calls, short, factors.read_size()) {
            (Some(calls), Some(0), Some(size)) => calls.checked_mul(size),
            _ => None,
        };
        let agrees = |bytes: &u64| (*bytes as f64 / seconds - bytes_per_second).abs() <= half_digit * 1.001;
        Some(counted.filter(agrees).unwrap_or((bytes_per_second * seconds).round() as u64))
    }
}

/// An end's counters. Bytes and window are those of the trial if the end has none.
fn end_report(counts: [Option<u64>; counters::COUNT], bytes: u64, wall_ns: u64) -> Option<EndReport> {
    if counts.iter().all(Option::is_none) {
        return None;
    }
    let default = |name: &str| match name {
        "bytes" | "total_bytes" => bytes,
        "window_ns" => wall_ns,
        _ => 0,
    };
    let mut filled = [0; counters::COUNT];
    for ((count, given), name) in filled.iter_mut().zip(counts).zip(counters::NAMES) {
        *count = given.unwrap_or_else(|| default(name));
    }
    Some(counters::end(filled, Vec::new()))
}

fn machine_use(times: [Option<u64>; 4]) -> Option<MachineUse> {
    let [wall_ns, busy_ns, softirq_ns, steal_ns] = times;
    Some(MachineUse {
        wall_ns: wall_ns?,
        busy_ns: busy_ns.unwrap_or(0),
        softirq_ns: softirq_ns.unwrap_or(0),
        steal_ns: steal_ns.unwrap_or(0),
        ..MachineUse::default()
    })
}

/// Parses a level. A plain number is in base units; other text is as on the command line.
fn level(factor: &Factor, text: &str, in_base_units: bool) -> Result<Level, String> {
    let takes_numbers = match factor.kind {
        LevelKind::Name(_) | LevelKind::Switch { .. } => false,
        LevelKind::Duration { .. } => in_base_units,
        _ => true,
    };
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
    const TRANSPORT_WORDS: [&str; 18] = [
        "unix",
        "uds",
        "tcp",
        "tcp6",
        "ipv4",
        "ipv6",
        "pipe",
        "pipes",
        "dev",
        "zero",
        "urandom",
        "socket",
        "sockets",
        "stream",
        "local",
        "localhost",
        "loopback",
        "domain",
    ];
    Some((transport, words.iter().any(|word| !TRANSPORT_WORDS.contains(word))))
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

/// A rate with its unit in the cell.
fn printed_with_unit(text: &str) -> Result<Printed, String> {
    let (digits, unit) = rate(text, None)?;
    printed(digits, unit)
}

fn printed(text: &str, unit: f64) -> Result<Printed, String> {
    let (text, unit) = rate(text, Some(unit))?;
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let half_digit = 0.5 * 10f64.powi(-(decimals as i32)) * unit;
    Ok(Printed { bytes_per_second: number(text)? * unit, half_digit })
}

/// The conditions of a row, by which rows are grouped.
pub(super) fn conditions(factors: &Spec) -> Spec {
    factors.of_role(Role::Condition)
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
