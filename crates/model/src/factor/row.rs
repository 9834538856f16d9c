//! One row of the table of factors, and the values that many rows share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::Transport;
use crate::factor::defaults::{Defaults, NOWHERE};
use crate::level::LevelKind;
use crate::spec::{Lens, lens};
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

/// One thing that can be varied.
#[derive(Clone, Copy, Debug)]
pub struct Factor {
    /// The key in JSON (`read_size`), and in TOML unless the flag differs.
    pub name: &'static str,
    /// The field of a spec that holds its level.
    pub lens: Lens,
    /// The flag, where it is not the name with dashes: another row has that name in another workload.
    pub flag: Option<&'static str>,
    /// Choice or condition.
    pub role: Role,
    /// How levels are read, bounded and printed.
    pub kind: LevelKind,
    /// The default list of levels of a plan that does not name the factor.
    pub defaults: Defaults,
    /// A short column heading.
    pub heading: &'static str,
    /// A summary of at most 60 characters.
    pub summary: &'static str,
    /// Details in addition to the summary; may be empty.
    pub details: &'static str,
    /// The transports that it applies to; it is absent for others. Not used in a workload without a path.
    pub fits: fn(&Transport) -> bool,
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
}

/// The largest buffer of one call.
pub const SIZE_MAX: u64 = 16 << 20;

/// No end can have more flows than this: local ports and descriptors have 16 bits.
pub(crate) const FLOWS_MAX: u64 = 65_536;

// Each has a thread for either direction at both ends.
pub(crate) const LOAD_FLOWS_MAX: u64 = 1_024;
pub(crate) const THREADS: LevelKind = LevelKind::Count { min: 1, max: 1024, auto: false };

pub(crate) const EVERYWHERE: fn(&Transport) -> bool = |_| true;
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
pub(crate) const BUFFER: LevelKind = LevelKind::Size { min: 1, max: SIZE_MAX, auto: false };
pub(crate) const SOCKET_BUFFER: LevelKind = LevelKind::Size { min: 1, max: 1 << 30, auto: true };

/// The fields that most choices share.
pub(crate) const CHOICE: Factor = Factor {
    name: "",
    lens: lens!(transport),
    flag: None,
    role: Role::Choice,
    kind: THREADS,
    defaults: NOWHERE,
    heading: "",
    summary: "",
    details: "",
    fits: EVERYWHERE,
};

/// The fields that most conditions share.
pub(crate) const CONDITION: Factor = Factor { role: Role::Condition, ..CHOICE };
