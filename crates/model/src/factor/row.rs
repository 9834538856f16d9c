//! One row of the table of factors: its columns, and the values that many rows share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::end::EndRole;
use crate::factor::FactorKey;
use crate::level::LevelKind;
use crate::name_tables::{EngineEnd, Transport};
use crate::option::{OptionLayer, OptionRow, Switching, ValueForm, When};
use crate::spec::Spec;
use crate::value::TypedLevel;
use crate::workload::Workload;

/// Whether the user may set a factor, or the environment or the peer sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Compared within a group; the recommendation names it.
    Choice,
    /// Defines the group.
    Condition,
}

/// The heading of a factor in the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has its title")]
pub enum HelpSection {
    Test,
    Load,
    Work,
    Engines,
    Sizes,
    Options,
    Relays,
    Hosts,
    Ring,
    Trials,
}

/// The sections with their titles, in the order of the help.
pub const SECTIONS: &[(HelpSection, &str)] = &[
    (HelpSection::Test, "Test (factors take one level, a list or a range: 4K,64K or 4K..1M)"),
    (HelpSection::Load, "Messages and load"),
    (HelpSection::Work, "Work of the program"),
    (HelpSection::Engines, "Engines and threads"),
    (HelpSection::Sizes, "Sizes"),
    (HelpSection::Options, "Options of sockets and pipes"),
    (HelpSection::Relays, "Relays"),
    (HelpSection::Hosts, "Hosts and links"),
    (HelpSection::Ring, "Ring"),
    (HelpSection::Trials, "Trials"),
];

impl HelpSection {
    /// Its title.
    pub const fn title(self) -> &'static str {
        SECTIONS[self as usize].1
    }
}

/// The levels of other factors without which a factor has no effect.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// The factors that decide it. They come earlier in the table and have the same role.
    pub with: &'static [FactorKey],
    /// Whether the factor has an effect with these levels.
    pub when: fn(&Spec) -> bool,
    /// The change that would give it an effect.
    pub text: &'static str,
}

/// The default list of levels in each workload; where it is `None` the factor has no meaning.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// In `stream`.
    pub stream: Option<&'static str>,
    /// In `call`.
    pub call: Option<&'static str>,
    /// Over datagrams, in those workloads in which the factor has a meaning; `None`: the same.
    pub datagrams: Option<&'static str>,
    /// In `ring`.
    pub ring: Option<&'static str>,
    /// In `tune`.
    pub tune: Option<&'static str>,
}

/// One thing that can be varied.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The key in JSON (`read_size`), and in TOML unless the flag differs. The name, the key and the type are those of the row.
    pub name: &'static str,
    /// Its position in the table.
    pub key: FactorKey,
    /// The value of a level that is a name; `None` where the type has no such name.
    pub(crate) typed: fn(&str) -> Option<TypedLevel>,
    /// The names that a level may have, with their descriptions; empty if the levels are numbers.
    pub listed: fn() -> Vec<(&'static str, &'static str)>,
    /// The flag, where it is not the name with dashes: another row has that name in another workload.
    pub flag: Option<&'static str>,
    /// Choice or condition.
    pub role: Role,
    /// The heading in the help.
    pub section: HelpSection,
    /// How levels are read, bounded and printed. A row without it has that of its type.
    pub kind: LevelKind,
    /// The default list of levels of a plan that does not name the factor.
    pub defaults: Defaults,
    /// A short column heading. A row without it has its name with spaces.
    pub heading: &'static str,
    /// A summary of at most 60 characters.
    pub summary: &'static str,
    /// Details in addition to the summary; may be empty.
    pub details: &'static str,
    /// The transports that it applies to, of those that carry a workload in which it has a meaning; it is absent for others. Not used in a
    /// workload without a path.
    pub fits: fn(&Transport) -> bool,
    /// The ends that it is set at, where these are not both. An option of the kernel has `sites` instead.
    pub(crate) set_at: &'static [EndRole],
    /// The factors of which a plan must name one, so that this one has a level; empty where it always has one.
    pub only_with: &'static [FactorKey],
    /// The levels of its default list that are measured where only one is: the first that fits; else the first of the list.
    pub usual: &'static [&'static str],
    /// The end whose engine it names.
    pub engine_of: Option<EngineEnd>,
    /// Whether one recommendation may serve all levels of the condition: it does not separate the tests of a plan.
    pub within_test: bool,
    /// When it has an effect, if that depends on other factors.
    pub needs: Option<Needs>,
    /// The option of the kernel that it sets.
    pub option: Option<OptionRow>,
}

impl Factor {
    /// The summary with the details.
    pub fn description(&self) -> String {
        if self.details.is_empty() { self.summary.to_owned() } else { format!("{}; {}", self.summary, self.details) }
    }

    /// The long flag, without its two dashes: `read-size`.
    pub fn flag(&self) -> String {
        self.flag.unwrap_or(self.name).replace('_', "-")
    }

    /// The default list of levels in a workload; `None` where the factor has no meaning.
    pub fn default_in(&self, workload: Workload) -> Option<&'static str> {
        (workload.row().defaults)(&self.defaults)
    }

    /// The default list of levels in a workload over a transport, or without one; `None` where the factor has no
    /// meaning.
    pub fn default_over(&self, workload: Workload, transport: Option<&Transport>) -> Option<&'static str> {
        let default = self.default_in(workload)?;
        Some(self.defaults.datagrams.filter(|_| transport.is_some_and(Transport::is_datagram)).unwrap_or(default))
    }

    /// Whether the factor has a meaning in a workload.
    pub fn is_in(&self, workload: Workload) -> bool {
        self.default_in(workload).is_some()
    }

    /// Whether the factor has a meaning in a workload over a transport, or without one.
    pub fn applies(&self, workload: Workload, transport: Option<&Transport>) -> bool {
        self.is_in(workload) && transport.is_none_or(|transport| (self.fits)(transport))
    }

    /// Its default list, for people: `off (10ms with --link-rate)`.
    pub fn shown_default(&self, default: &str) -> String {
        let flags: Vec<String> = self
            .only_with
            .iter()
            .filter(|key| **key != self.key)
            .map(|key| format!("--{}", key.row().flag()))
            .collect();
        if flags.is_empty() { default.to_owned() } else { format!("off ({default} with {})", flags.join(" or ")) }
    }

    /// The ends at which it is set with the levels of a cell; empty for both ends, and for neither.
    pub fn ends(&self, spec: &Spec) -> &'static [EndRole] {
        self.option.map_or(self.set_at, |option| (option.sites)(spec).0)
    }

    /// Whether it is set only at the end that accepts connections, so that it has no meaning for an external server.
    pub fn is_of_server(&self, workload: Workload, spec: &Spec) -> bool {
        let ends = self.ends(spec);
        let is_near = |[near, _]: [EndRole; 2]| ends.contains(&near);
        self.is_in(workload) && !ends.is_empty() && !workload.path_ends().is_none_or(is_near)
    }
}

/// The largest buffer of one call.
pub const SIZE_MAX: u64 = 16 << 20;

/// No end can have more flows than this: local ports and descriptors have 16 bits.
pub(crate) const FLOWS_MAX: u64 = 65_536;

// Each has a thread for either direction at both ends.
pub(crate) const LOAD_FLOWS_MAX: u64 = 1_024;
pub(crate) const THREADS: LevelKind = LevelKind::Count { min: 1, max: 1024, auto: false };
pub(crate) const BUFFER: LevelKind = LevelKind::Size { min: 1, max: SIZE_MAX, word: None };
pub(crate) const SOCKET_BUFFER: LevelKind = LevelKind::Size { min: 1, max: 1 << 30, word: Some("auto") };
pub(crate) const SHORT_TIME: LevelKind = LevelKind::Duration { min_ns: 1_000, max_ns: 1_000_000_000, auto: true };

pub(crate) const SOCKETS: fn(&Transport) -> bool = Transport::is_socket;
pub(crate) const CONNECTIONS: fn(&Transport) -> bool = Transport::is_connection;
pub(crate) const DATAGRAMS: fn(&Transport) -> bool = Transport::is_datagram;
pub(crate) const TCP: fn(&Transport) -> bool = Transport::is_tcp;
pub(crate) const PORTS: fn(&Transport) -> bool = |transport| transport.is_tcp() || transport.is_udp();
// An emulated link has IPv4 addresses.
pub(crate) const ROUTED: fn(&Transport) -> bool =
    |transport| matches!(transport, Transport::Tcp | Transport::Mptcp | Transport::Udp);
pub(crate) const TWO_ENDED: fn(&Transport) -> bool = Transport::two_ended;
pub(crate) const ENCRYPTED: fn(&Transport) -> bool = |transport| transport.is_tcp() || *transport == Transport::Unix;
pub(crate) const BYTE_PATHS: fn(&Transport) -> bool = |transport| transport.two_ended() && !transport.is_datagram();
pub(crate) const BYTE_STREAMS: fn(&Transport) -> bool = |transport| !transport.is_datagram();
pub(crate) const NO_PATH: fn(&Transport) -> bool = |_| false;

pub(crate) const WRITERS: &[EndRole] = &[EndRole::Source, EndRole::Client, EndRole::Server];
pub(crate) const READERS: &[EndRole] = &[EndRole::Sink, EndRole::Client, EndRole::Server];
/// The ends that work on the data.
pub(crate) const WORKERS: &[EndRole] = &[EndRole::Sink, EndRole::Server];

const NOWHERE: Defaults = Defaults { stream: None, call: None, datagrams: None, ring: None, tune: None };

impl Defaults {
    /// The same, with another list over datagrams.
    pub(crate) const fn datagrams(self, text: &'static str) -> Defaults {
        Defaults { datagrams: Some(text), ..self }
    }

    /// The same, and in `tune`.
    pub(crate) const fn and_tune(self, text: &'static str) -> Defaults {
        Defaults { tune: Some(text), ..self }
    }
}

pub(crate) const fn both(text: &'static str) -> Defaults {
    each(text, text)
}

pub(crate) const fn everywhere(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..both(text) }
}

pub(crate) const fn each(stream: &'static str, call: &'static str) -> Defaults {
    Defaults { stream: Some(stream), call: Some(call), ..NOWHERE }
}

pub(crate) const fn stream(text: &'static str) -> Defaults {
    Defaults { stream: Some(text), ..NOWHERE }
}

pub(crate) const fn call(text: &'static str) -> Defaults {
    Defaults { call: Some(text), ..NOWHERE }
}

pub(crate) const fn ring(text: &'static str) -> Defaults {
    Defaults { ring: Some(text), ..NOWHERE }
}

pub(crate) const fn check(text: &'static str) -> Defaults {
    Defaults { tune: Some(text), ..NOWHERE }
}

/// A name with spaces, as bytes.
pub(crate) const fn spaced<const N: usize>(name: &str) -> [u8; N] {
    let (mut spaced, mut at) = ([b' '; N], 0);
    while at < N {
        if name.as_bytes()[at] != b'_' {
            spaced[at] = name.as_bytes()[at];
        }
        at += 1;
    }
    spaced
}

/// The heading of a row, or else its name.
pub(crate) const fn heading(given: &'static str, name: &'static [u8]) -> &'static str {
    match str::from_utf8(name) {
        Ok(name) if given.is_empty() => name,
        _ => given,
    }
}

/// The fields that most rows of a section share, by section.
pub(crate) const TEST: Factor = Factor {
    name: "",
    key: FactorKey::transport,
    typed: |_| None,
    listed: Vec::new,
    flag: None,
    role: Role::Condition,
    section: HelpSection::Test,
    kind: LevelKind::Value,
    defaults: NOWHERE,
    heading: "",
    summary: "",
    details: "",
    fits: |_| true,
    set_at: &[],
    only_with: &[],
    usual: &[],
    engine_of: None,
    within_test: false,
    needs: None,
    option: None,
};
pub(crate) const LOAD: Factor = Factor { section: HelpSection::Load, ..TEST };
pub(crate) const WORK: Factor = Factor { section: HelpSection::Work, within_test: true, ..TEST };
pub(crate) const HOSTS: Factor = Factor { section: HelpSection::Hosts, ..TEST };
pub(crate) const TRIALS: Factor = Factor { section: HelpSection::Trials, ..TEST };
pub(crate) const ENGINES: Factor = Factor { section: HelpSection::Engines, role: Role::Choice, ..TEST };
pub(crate) const SIZES: Factor = Factor { section: HelpSection::Sizes, role: Role::Choice, ..TEST };
pub(crate) const LINK: Factor =
    Factor { fits: ROUTED, only_with: &[FactorKey::link_delay, FactorKey::link_loss, FactorKey::link_rate], ..HOSTS };
pub(crate) const RELAYS: Factor = Factor {
    section: HelpSection::Relays,
    role: Role::Choice,
    fits: CONNECTIONS,
    only_with: &[FactorKey::relay],
    ..TEST
};
pub(crate) const RING: Factor = Factor { section: HelpSection::Ring, role: Role::Choice, fits: NO_PATH, ..TEST };
pub(crate) const OPTION: Factor =
    Factor { section: HelpSection::Options, role: Role::Choice, defaults: both("auto"), fits: TCP, ..TEST };

/// The fields that most options of the kernel share.
pub(crate) const KERNEL: OptionRow = OptionRow {
    factor: "",
    kind: LevelKind::Value,
    fits: TCP,
    name: "",
    layer: OptionLayer::Socket,
    number: 0,
    variant: |_, _| None,
    form: ValueForm::Int,
    unit: (1, ""),
    sites: |_| (WRITERS, When::Early),
    doubled: false,
    always: false,
    changes: false,
    readable: |_| true,
    of_listener: false,
    switching: Switching::Never("it is not known to leave nothing behind when it is set back"),
    no_effect: |_| None,
    beyond_loopback: None,
    why: "the kernel may change it",
    why_more: None,
};

/// An option of all sockets.
pub(crate) const fn socket_option(name: &'static str, number: i32) -> OptionRow {
    OptionRow { name, number, ..KERNEL }
}

/// An option of TCP.
pub(crate) const fn tcp_option(name: &'static str, number: i32) -> OptionRow {
    OptionRow { layer: OptionLayer::Tcp, ..socket_option(name, number) }
}

/// An option that is none of a socket.
pub(crate) const fn other_option(name: &'static str) -> OptionRow {
    OptionRow { name, ..KERNEL }
}
