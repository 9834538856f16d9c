//! What is changed around a program from outside, as values of a setting of the program: options of its sockets, and settings of the
//! kernel for its network.
//!
//! Only the definition. Names and levels of options are those of the option table.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::level::Level;
use crate::name_tables::names;
use crate::option::{OPTIONS, OptionRow, ValueForm, of_factor};
use crate::sockets_seen::{ProgramCalls, SocketsSeen};
use crate::suggest;
use crate::unit::TextError;

/// The value of a program whose sockets are left alone.
pub const AS_IT_IS: &str = "as-it-is";

/// The value of a setting of the kernel that leaves it as this machine has it.
const DEFAULT: &str = "default";

/// The level that removes the program's own call.
const UNSET: &str = "unset";

names! {
    /// The programs whose sockets are changed.
    #[derive(Default)]
    ChangedProgram, "program to change", CHANGED_PROGRAMS {
        #[default]
        Client = "client": "the measured command",
        Server = "server": "the server of --start",
        Both = "both": "the command and its server",
    }
}

impl ChangedProgram {
    /// Whether the sockets of the server, or those of the command, are changed.
    pub fn includes(self, server: bool) -> bool {
        self == ChangedProgram::Both || (self == ChangedProgram::Server) == server
    }
}

/// One option of all sockets of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionChange {
    /// The factor of the option: `notsent_lowat`.
    pub option: String,
    /// The level to set; without one, the program's own call is removed and the kernel's default stays.
    pub level: Option<Level>,
    /// The program whose sockets are changed, where the changes of a session are not all on the same one.
    pub on: Option<ChangedProgram>,
}

impl OptionChange {
    /// Whether sockets that have a level already stay as they are. A buffer would not: setting it turns autotuning off.
    pub fn is_in_force(&self, present: &Level) -> bool {
        matches!(present, Level::Switch(_) | Level::Name(_)) && self.level.as_ref() == Some(present)
    }

    /// The row of the option.
    ///
    /// # Panics
    /// If there is none: a change is only made from the table.
    pub fn row(&self) -> &'static OptionRow {
        of_factor(&self.option).expect("an option of the table")
    }
}

/// A setting of the kernel for the network of a program, in which it runs alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SysctlChange {
    /// Its name as sysctl(8) has it: `net.ipv4.tcp_rmem`.
    pub sysctl: String,
    /// The value, its words separated by single spaces.
    pub value: String,
}

impl SysctlChange {
    /// The file of a setting below `/proc/sys`.
    pub fn file(sysctl: &str) -> String {
        sysctl.replace('.', "/")
    }
}

impl fmt::Display for SysctlChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.sysctl, self.value)
    }
}

/// One difference from a program as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ProgramChange {
    /// An option of its sockets.
    Option(OptionChange),
    /// A setting of the kernel.
    Sysctl(SysctlChange),
}

impl ProgramChange {
    /// The option, if it is one.
    pub fn option(&self) -> Option<&OptionChange> {
        match self {
            ProgramChange::Option(change) => Some(change),
            ProgramChange::Sysctl(_) => None,
        }
    }

    /// The setting of the kernel, if it is one.
    pub fn sysctl(&self) -> Option<&SysctlChange> {
        match self {
            ProgramChange::Option(_) => None,
            ProgramChange::Sysctl(change) => Some(change),
        }
    }

    /// Whether it changes the same option of the same program, or the same setting of the kernel, as another.
    pub fn replaces(&self, other: &ProgramChange) -> bool {
        let on = |change: &ProgramChange| change.option().and_then(|change| change.on);
        self.name() == other.name() && on(self) == on(other)
    }

    /// The name of what is changed, of which a program has one value: `sndbuf`, `net.ipv4.tcp_rmem`.
    pub fn name(&self) -> &str {
        match self {
            ProgramChange::Option(change) => &change.option,
            ProgramChange::Sysctl(change) => &change.sysctl,
        }
    }
}

impl From<OptionChange> for ProgramChange {
    fn from(change: OptionChange) -> ProgramChange {
        ProgramChange::Option(change)
    }
}

impl fmt::Display for ProgramChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramChange::Option(change) => change.fmt(f),
            ProgramChange::Sysctl(change) => change.fmt(f),
        }
    }
}

impl fmt::Display for OptionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.option.replace('_', "-");
        self.on.map_or(Ok(()), |on| write!(f, "{on}:"))?;
        match &self.level {
            Some(level) => write!(f, "{name}={}", self.row().kind.compact(level)),
            None => write!(f, "{name}={UNSET}"),
        }
    }
}

/// What a session changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SocketChanges {
    /// The programs that are changed.
    pub on: ChangedProgram,
    /// The changes of each value; a value without an entry changes nothing.
    pub by_value: BTreeMap<String, Vec<ProgramChange>>,
    /// The values that this machine has of the settings of the kernel that are changed, by the names of sysctl(8): those of all other
    /// runs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Changes that were not tried, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_tried: Vec<String>,
    /// The sockets of a run before, in which nothing was changed: of the server where both programs are changed.
    pub watched: Option<SocketsSeen>,
    /// Those of the client, where both programs are changed.
    pub watched_client: Option<SocketsSeen>,
    /// The calls of their programs in that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ProgramCalls>,
    /// Time of the command in that run, nanoseconds.
    pub as_it_is_ns: Option<u64>,
    /// Time of that run with the start and end of its programs, nanoseconds.
    pub watched_ns: Option<u64>,
    /// Whether they are screened: they follow from the watched run, or that took so long that the user's changes cannot all have enough
    /// runs.
    #[serde(default)]
    pub are_proposed: bool,
    /// What the filter adds to a system call of the program, nanoseconds.
    pub filter_ns: Option<u64>,
    /// Whether this run is the watched one, in which the program's own options are reported.
    #[serde(default)]
    pub watches: bool,
    /// The running program whose sockets are changed; absent where trials start it.
    pub service: Option<RunningService>,
}

impl SocketChanges {
    /// The changes of a value.
    pub fn of_value(&self, value: &Level) -> &[ProgramChange] {
        value.name().map_or(&[], |name| self.named(name))
    }

    /// The changes of the value of that name.
    pub fn named(&self, name: &str) -> &[ProgramChange] {
        self.by_value.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether the value of that name only leaves out calls that the program makes itself.
    pub fn only_removes(&self, name: &str) -> bool {
        let removes = |one: &ProgramChange| one.option().is_some_and(|option| option.level.is_none());
        !self.named(name).is_empty() && self.named(name).iter().all(removes)
    }

    /// The options of a value.
    pub fn options_of(&self, value: &Level) -> Vec<OptionChange> {
        self.of_value(value).iter().filter_map(ProgramChange::option).cloned().collect()
    }

    /// Whether a change is one of the server's sockets, or of those of the command.
    pub fn is_on(&self, change: &OptionChange, server: bool) -> bool {
        change.on.unwrap_or(self.on).includes(server)
    }

    /// The sockets of the programs that were watched, each with its name where there are two.
    pub fn seen(&self) -> impl Iterator<Item = (Option<ChangedProgram>, &SocketsSeen)> {
        let both = [(ChangedProgram::Server, &self.watched), (ChangedProgram::Client, &self.watched_client)];
        let name = |on| self.watched_client.is_some().then_some(on);
        both.into_iter().filter_map(move |(on, seen)| Some((name(on), seen.as_ref()?)))
    }

    /// The sockets of the programs that have a change.
    pub fn seen_of(&self, change: &OptionChange) -> SocketsSeen {
        let is_it = |on: Option<ChangedProgram>| on.is_none() || change.on.is_none() || on == change.on;
        let all = self.seen().filter(|(on, _)| is_it(*on));
        all.fold(SocketsSeen::default(), |all, (_, seen)| all.plus(seen.clone()))
    }

    /// All options that the session changes.
    pub fn options(&self) -> impl Iterator<Item = &OptionChange> {
        self.by_value.values().flatten().filter_map(ProgramChange::option)
    }

    /// The settings of the kernel in a run with a value, by their files below `/proc/sys`.
    pub fn sysctls_of(&self, value: &Level) -> Vec<(String, String)> {
        let mut all = self.sysctls.clone();
        let changed = self.of_value(value).iter().filter_map(ProgramChange::sysctl);
        all.extend(changed.map(|change| (change.sysctl.clone(), change.value.clone())));
        all.into_iter().map(|(name, value)| (SysctlChange::file(&name), value)).collect()
    }

    /// Adds a value: its name.
    pub fn add(&mut self, changes: Vec<ProgramChange>) -> String {
        let name = changes.iter().map(ToString::to_string).collect::<Vec<_>>().join("+");
        self.by_value.insert(name.clone(), changes);
        name
    }
}

/// Whether options of this row can be set on the sockets of a program.
fn is_changeable(row: &OptionRow) -> bool {
    !matches!(row.form, ValueForm::Pipe | ValueForm::Cpu)
}

/// The changes that `NAME=LEVELS` names, in its order; `auto` is the same as `unset`.
///
/// # Errors
/// The problem, and what to write instead.
pub fn parse(text: &str) -> Result<Vec<OptionChange>, TextError> {
    let no_levels =
        || TextError(format!("`{text}` has no values: write NAME=VALUES, such as nodelay=on or sndbuf=64K,1M,unset"));
    let (name, levels) = text.split_once('=').filter(|(_, levels)| !levels.is_empty()).ok_or_else(no_levels)?;
    let factor = name.replace('-', "_");
    let row = of_factor(&factor).filter(|row| is_changeable(row)).ok_or_else(|| unknown(name))?;
    let mut changes: Vec<OptionChange> = Vec::new();
    for element in levels.split(',') {
        let bad = |why: String| TextError(format!("{name}: {why}"));
        let levels = match element.trim() {
            UNSET => vec![None],
            other => {
                let levels = row.kind.parse_list(other).map_err(|error| bad(error.to_string()))?;
                levels.into_iter().map(|level| (!level.is_auto()).then_some(level)).collect()
            }
        };
        for level in levels {
            let change = OptionChange { option: factor.clone(), level, on: None };
            if changes.contains(&change) {
                return Err(bad(format!("duplicate value {change} in list")));
            }
            changes.push(change);
        }
    }
    Ok(changes)
}

/// The changes that `NAME=VALUES` of a setting of the kernel names, in its order. `default` is the value of this machine, which every
/// session measures as well.
///
/// # Errors
/// The problem, and what to write instead.
pub fn parse_sysctl(text: &str) -> Result<Vec<SysctlChange>, TextError> {
    let no_sysctl = || {
        TextError(format!(
            "`{text}` is no setting of a network: write it as sysctl(8) does, such as net.ipv4.tcp_slow_start_after_idle=0"
        ))
    };
    let (name, values) = text.split_once('=').ok_or_else(no_sysctl)?;
    let is_plain =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !name.starts_with("net.") || !name.split('.').all(is_plain) {
        return Err(no_sysctl());
    }
    let mut changes: Vec<SysctlChange> = Vec::new();
    for value in values.split(',').map(|value| value.split_whitespace().collect::<Vec<_>>().join(" ")) {
        let change = SysctlChange { sysctl: name.to_owned(), value };
        if change.value.is_empty() {
            return Err(no_sysctl());
        }
        if change.value != DEFAULT && !changes.contains(&change) {
            changes.push(change);
        }
    }
    Ok(changes)
}

fn unknown(name: &str) -> TextError {
    let names: Vec<String> =
        OPTIONS.iter().filter(|row| is_changeable(row)).map(|row| row.factor.replace('_', "-")).collect();
    TextError(format!("`{name}` is no option of sockets{}", suggest::hint(name, names.iter().map(String::as_str))))
}

// A running program whose socket options are switched while it serves: its connections, and the length of a trial.

/// A running program, and those of its TCP sockets that are changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningService {
    /// Its process; the descendants belong to it.
    pub pid: u32,
    /// When that process started, in clock ticks since boot: numbers are reused.
    pub start_ticks: u64,
    /// Its name.
    pub name: String,
    /// The local port of the sockets; any without one.
    pub port: Option<u16>,
    /// The address of the other end; any without one.
    pub peer: Option<IpAddr>,
    /// Open connections when the session began.
    pub connections: usize,
    /// Whether all of them were within this machine.
    #[serde(default)]
    pub is_local: bool,
    /// Length of a trial, nanoseconds.
    pub trial_ns: u64,
    /// The session ends if a change makes the program worse by more than this share twice in a row.
    pub max_harm: f64,
}

impl fmt::Display for RunningService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.pid)?;
        self.port.map_or(Ok(()), |port| write!(f, " at port {port}"))?;
        self.peer.map_or(Ok(()), |peer| write!(f, " with {peer}"))
    }
}

/// What the connections of a running program did in a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceCounts {
    /// Connections at the end of the trial.
    pub connections: u64,
    /// Those of them that were accepted or opened within the trial.
    pub new: u64,
    /// Connections that ended within the trial, whose last bytes are not counted.
    pub ended: u64,
    /// Bytes acknowledged by the other ends, and bytes received.
    pub bytes: u64,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Median of the smoothed round-trip times, microseconds.
    pub rtt_us: u64,
    /// CPU time of the process and its descendants, nanoseconds.
    pub cpu_ns: u64,
}

impl ServiceCounts {
    /// Units of 2³⁰ bytes that were moved.
    pub fn gib(&self) -> f64 {
        self.bytes as f64 / (1_u64 << 30) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_round_trip() {
        let check = |text: &str, expected: &[&str]| {
            let shown: Vec<String> = parse(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected, "{text}");
        };
        check("sndbuf=auto,64K,1M", &["sndbuf=unset", "sndbuf=64K", "sndbuf=1M"]);
        check("notsent-lowat=128K", &["notsent-lowat=128K"]);
        check("notsent_lowat=128K", &["notsent-lowat=128K"]);
        check("nodelay=on,off,unset", &["nodelay=on", "nodelay=off", "nodelay=unset"]);
        check("congestion=cubic,bbr", &["congestion=cubic", "congestion=bbr"]);
    }

    #[test]
    fn errors_name_the_next_step() {
        let check = |text: &str, expected: &str| {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("nodelay", "write NAME=VALUES");
        check("nodelay=", "write NAME=VALUES");
        check("nodelai=on", "did you mean `nodelay`?");
        check("pipe-size=64K", "is no option of sockets");
        check("sndbuf=64Q", "sndbuf: ");
        check("sndbuf=64K,64K", "duplicate");
    }

    #[test]
    fn settings_of_the_kernel_are_parsed_by_their_words() {
        let check = |text: &str, expected: &[&str]| {
            let shown: Vec<String> = parse_sysctl(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected, "{text}");
        };
        check("net.ipv4.tcp_rmem=4096  65536\t1048576,default", &["net.ipv4.tcp_rmem=4096 65536 1048576"]);
        check(
            "net.ipv4.tcp_notsent_lowat=16384,131072",
            &["net.ipv4.tcp_notsent_lowat=16384", "net.ipv4.tcp_notsent_lowat=131072"],
        );
        for bad in [
            "net.ipv4.tcp_rmem",
            "net.ipv4.tcp_rmem=",
            "vm.swappiness=1",
            "net.../x=1",
            "net.ipv4/../../vm=1",
            "net.=1",
        ] {
            let error = parse_sysctl(bad).unwrap_err().to_string();
            assert!(error.contains("is no setting of a network: write it as sysctl(8) does"), "{bad}: {error}");
        }
    }

    #[test]
    fn other_runs_have_the_settings_of_the_machine() {
        let name = "net.ipv4.tcp_sack".to_owned();
        let mut changes =
            SocketChanges { sysctls: [(name.clone(), "1".to_owned())].into(), ..SocketChanges::default() };
        let value = changes.add(vec![ProgramChange::Sysctl(SysctlChange { sysctl: name, value: "0".into() })]);
        let of = |value: &str| changes.sysctls_of(&Level::Name(value.into()));
        assert_eq!(of(&value), [("net/ipv4/tcp_sack".to_owned(), "0".to_owned())]);
        assert_eq!(of(AS_IT_IS), [("net/ipv4/tcp_sack".to_owned(), "1".to_owned())]);
        let text = serde_json::to_string(&changes).unwrap();
        assert_eq!(serde_json::from_str::<SocketChanges>(&text).unwrap(), changes);
        assert!(changes.options_of(&Level::Name(value)).is_empty());
    }

    #[test]
    fn a_program_is_included_by_its_part() {
        let included = |on: ChangedProgram| [on.includes(false), on.includes(true)];
        assert_eq!(included(ChangedProgram::Client), [true, false]);
        assert_eq!(included(ChangedProgram::Server), [false, true]);
        assert_eq!(included(ChangedProgram::Both), [true, true]);
    }
}

#[cfg(test)]
mod running_service_tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_its_sockets() {
        let service = RunningService {
            pid: 7,
            start_ticks: 1,
            name: "nginx".into(),
            port: Some(443),
            peer: "10.0.0.1".parse().ok(),
            connections: 2,
            is_local: false,
            trial_ns: 1,
            max_harm: 0.1,
        };
        assert_eq!(service.to_string(), "nginx (7) at port 443 with 10.0.0.1");
    }
}
