//! Options of sockets and pipes: the columns of their table, the ends that set an option, and how the kernel changes its value.
//!
//! The rows are in `option_table`. Streams, calls and datagrams set options and read them back by walking these rows, and a
//! report compares the values in force with the requested ones. Never touches a socket.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::catalog::{RcvbufOn, Transport};
use crate::end::{EndRole, Side};
use crate::factor::FACTORS;
use crate::factor::defaults::{Defaults, both, call, stream};
use crate::factor::row::{CONNECTIONS, Factor, PORTS, Role, SOCKET_BUFFER, SOCKETS, TCP};
use crate::level::{Level, LevelKind};
use crate::program::{ComparedCondition, ProgramRole};
use crate::spec::{Lens, Spec, index_of};
use crate::workload::Workload;

/// Which end of a path a socket belongs to, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setter {
    /// Writes a stream, or sends datagrams.
    Source,
    /// Reads them.
    Sink,
    /// Calls.
    Client,
    /// Is called.
    Server,
}

impl Setter {
    /// The two ends of a workload's path, the one that connects first; `None` where there is no path, and so no socket.
    pub fn of(workload: Workload) -> Option<[Setter; 2]> {
        let setter = |side| match workload.end(side)? {
            EndRole::Source => Some(Setter::Source),
            EndRole::Sink => Some(Setter::Sink),
            EndRole::Client => Some(Setter::Client),
            EndRole::Server => Some(Setter::Server),
            _ => None,
        };
        Some([setter(Side::Source)?, setter(Side::Sink)?])
    }
}

/// When an option is set on an end that accepts connections. Other sockets get it before they connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// On the listening socket before bind(2) and listen(2): accepted TCP connections inherit it, Unix ones get
    /// it once more.
    Early,
    /// On each accepted connection.
    Accepted,
}

/// The ends that set an option, and when.
pub type Sites = (&'static [Setter], When);

/// The level of an option in setsockopt(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionLayer {
    /// `SOL_SOCKET`.
    Socket,
    /// `IPPROTO_IP`.
    Ip,
    /// `IPPROTO_IPV6`.
    Ipv6,
    /// `IPPROTO_TCP`.
    Tcp,
}

/// The type of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// An int: a number, or 0 and 1 of a switch.
    Int,
    /// An int that is 1 for any number, if the option only turns something on.
    Flag,
    /// A number of 64 bits, an unsigned long.
    Long,
    /// A name of at most 16 bytes.
    Text,
    /// `struct linger`.
    Linger,
    /// A pipe's value, set by fcntl(2).
    Pipe,
    /// A CPU, as an int: that of the thread which uses the socket, where a switch is on.
    Cpu,
    /// A value of the engine's epoll descriptor or ring, and not of a socket.
    Engine,
}

/// Another option of the kernel with the same meaning: its name, level, number and type.
pub type Variant = (&'static str, OptionLayer, i32, ValueForm);

/// One option of sockets or pipes, and the factor that sets it.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The factor's name. It and all up to `fits` are as in [`Factor`]; every option is a choice.
    pub factor: &'static str,
    /// How levels are parsed, limited and printed.
    pub kind: LevelKind,
    /// The default list of levels.
    pub(crate) defaults: Defaults,
    /// A short column heading.
    pub(crate) heading: &'static str,
    /// A description of at most 60 characters.
    pub(crate) summary: &'static str,
    /// More details.
    pub(crate) details: &'static str,
    /// The transports over which the option exists.
    pub fits: fn(&Transport) -> bool,
    /// A level for tests, which every kernel accepts from any user who may set the option.
    pub example: &'static str,
    /// The kernel's name for the option.
    pub name: &'static str,
    /// Its level.
    pub layer: OptionLayer,
    /// Its number there.
    pub number: i32,
    /// The option that replaces it at some ends, or over some transports.
    pub variant: fn(Setter, &Transport) -> Option<Variant>,
    /// The type of its value.
    pub form: ValueForm,
    /// The unit after a number from the kernel.
    pub suffix: &'static str,
    /// Size of the kernel's unit in the level's unit: 1000 where the kernel counts µs and the level ns.
    pub unit: u64,
    /// The ends that set it and when; depends on the levels of the cell's other options.
    pub sites: fn(&Spec) -> Sites,
    /// Whether the kernel doubles the requested value, to make room for its own structures (socket(7)).
    pub doubled: bool,
    /// Whether a report shows it even if it was not requested.
    pub always: bool,
    /// Whether the kernel changes the value while the connection is used.
    pub changes: bool,
    /// Whether the kernel reports the value over a transport.
    pub readable: fn(&Transport) -> bool,
    /// Whether it belongs to the listening socket of a server, and accepted connections do not inherit it.
    pub of_listener: bool,
    /// The reason why a request cannot have an effect on a path, where that is known before it is measured.
    pub no_effect: fn(&Spec) -> Option<&'static str>,
    /// Why the value in force may differ from the requested one, and what to do.
    pub why: &'static str,
    /// The same where the value in force is larger, if that has another reason.
    pub why_more: Option<&'static str>,
}

const WRITERS: &[Setter] = &[Setter::Source, Setter::Client, Setter::Server];
const READERS: &[Setter] = &[Setter::Sink, Setter::Client, Setter::Server];

const SWITCH: LevelKind = LevelKind::Switch { auto: true };

/// Values that most rows have.
const USUAL: OptionRow = OptionRow {
    factor: "",
    kind: SWITCH,
    defaults: both("auto"),
    heading: "",
    summary: "",
    details: "",
    fits: TCP,
    example: "64K",
    name: "",
    layer: OptionLayer::Socket,
    number: 0,
    variant: |_, _| None,
    form: ValueForm::Int,
    suffix: "",
    unit: 1,
    sites: |_| (WRITERS, When::Early),
    doubled: false,
    always: false,
    changes: false,
    readable: |_| true,
    of_listener: false,
    no_effect: |_| None,
    why: "the kernel may change it",
    why_more: None,
};

/// `SOCK_MIN_SNDBUF` and `SOCK_MIN_RCVBUF` (include/net/sock.h): room for a small packet and the kernel's structures for it.
const LEAST_BUFFER: &str = "that is the minimum of the kernel: use at least that";

/// The kernel's timers have a resolution of one tick (`CONFIG_HZ`).
const TICKS: &str = "the kernel rounds up to whole ticks of its timer, of 1 to 10 ms";

/// Busy polling needs a queue with NAPI.
const NO_QUEUE: &str = "loopback has no device queue to poll";

/// A reason that applies over loopback.
fn over_loopback(spec: &Spec, why: &'static str) -> Option<&'static str> {
    spec.is_over_loopback().then_some(why)
}

/// Over loopback, nothing is sent again.
fn without_loss(spec: &Spec) -> Option<&'static str> {
    over_loopback(spec, "loopback loses no packet, so no timer expires")
}

/// Connections are made before the measured window.
fn once_per_flow(spec: &Spec) -> Option<&'static str> {
    (spec.connect_per_call() != Some(true)).then_some("connections are made once: use --connect-per-call")
}

/// A thread with one connection has nothing to gather.
fn with_one_connection(spec: &Spec) -> Option<&'static str> {
    let is_alone = spec.flows().unwrap_or(1) <= spec.server_threads().unwrap_or(1);
    is_alone.then_some("a thread with one connection waits for its next completion alone: use more --flows")
}

/// A variant over IPv6.
fn ipv6(_: Setter, transport: &Transport, variant: Variant) -> Option<Variant> {
    matches!(transport, Transport::Tcp6 | Transport::Udp6).then_some(variant)
}

/// Declares [`OPTIONS`]; the types of the fields are for `spec`.
macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $row:expr,)+) => {
        /// Every option that a factor sets.
        pub const OPTIONS: &[OptionRow] = &[$(OptionRow { factor: stringify!($name), ..$row }),+];
    };
}

with_options! { options {} {} }

/// Where the receive buffer is set decides whether it binds: the window scale is fixed in the handshake (tcp(7)).
fn rcvbuf_sites(spec: &Spec) -> Sites {
    match spec.rcvbuf_on() {
        // bytegauge has no other socket then.
        _ if spec.connect().is_some() && !spec.iperf3_writes() => (&[Setter::Client], When::Early),
        Some(RcvbufOn::Client) => (&[Setter::Client], When::Early),
        Some(RcvbufOn::Accepted) => (&[Setter::Server], When::Accepted),
        _ => (&[Setter::Sink, Setter::Server], When::Early),
    }
}

/// The requested level of an option; `None` if a spec leaves the option to the system.
pub fn asked(spec: &Spec, row: &OptionRow) -> Option<Level> {
    Some(spec.get(row.factor)).filter(is_asked)
}

fn is_asked(level: &Level) -> bool {
    *level != Level::Absent && !level.is_auto()
}

/// A sentence for each option of a cell that cannot have an effect on its path.
pub fn without_effect(spec: &Spec) -> impl Iterator<Item = String> {
    // Each of up to 100,000 cells of a plan is searched, so no option is looked up by its name.
    static ROWS: LazyLock<Vec<(&'static OptionRow, &'static Lens)>> = LazyLock::new(|| {
        let lens = |row: &OptionRow| Some(&FACTORS.get(index_of(row.factor)?)?.lens);
        OPTIONS.iter().filter_map(|row| Some((row, lens(row)?))).collect()
    });
    ROWS.iter().filter(|(_, lens)| is_asked(&spec.get_by(lens))).filter_map(|(row, _)| {
        let why = (row.no_effect)(spec)?;
        Some(format!("--{}: {} has no effect here: {why}", row.factor.replace('_', "-"), row.name))
    })
}

/// The row of a factor.
pub fn of_factor(factor: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.factor == factor)
}

impl OptionRow {
    /// The factor that sets the option, with the lens of its field.
    pub(crate) const fn as_factor(&self, lens: Lens) -> Factor {
        Factor {
            name: self.factor,
            lens,
            flag: None,
            role: Role::Choice,
            kind: self.kind,
            defaults: self.defaults,
            heading: self.heading,
            summary: self.summary,
            details: self.details,
            fits: self.fits,
        }
    }

    /// Why `found` is in force where `expected` should be, and what to do.
    pub fn explained(&self, expected: &Level, found: &Level) -> &'static str {
        let more = expected.number().zip(found.number()).is_some_and(|(expected, found)| found > expected);
        self.why_more.filter(|_| more).unwrap_or(self.why)
    }

    /// A level in the kernel's units, as setsockopt(2) or fcntl(2) receives it.
    pub fn in_kernel_units(&self, level: Level) -> Level {
        match level {
            Level::Number(number) => Level::Number(number.div_ceil(self.unit)),
            other => other,
        }
    }

    /// The level in force if the kernel handles a request as documented.
    pub fn expected(&self, requested: &Level) -> Level {
        match requested {
            Level::Number(n) if self.doubled => Level::Number(n.saturating_mul(2)),
            Level::Number(n) => Level::Number(n.div_ceil(self.unit).saturating_mul(self.unit)),
            other => other.clone(),
        }
    }
}

/// The role of a factor for a program: factors of its peer are conditions, except the condition that is compared.
pub fn role_of(role: ProgramRole, chosen: ComparedCondition, factor: &Factor) -> Role {
    let is_the_peers = role != ProgramRole::Both && owner(factor.name).is_some_and(|owner| owner != role);
    match (is_the_peers, chosen.is(factor.name)) {
        (true, _) => Role::Condition,
        (false, true) => Role::Choice,
        (false, false) => factor.role,
    }
}

impl Spec {
    /// Whether a factor, by its name, is a choice or a condition here. An unknown factor of an imported table is a condition:
    /// it separates groups.
    pub fn role_of(&self, name: &str) -> Role {
        let (role, chosen) = (self.role().unwrap_or_default(), self.compare().unwrap_or_default());
        index_of(name).map_or(Role::Condition, |index| role_of(role, chosen, &FACTORS[index]))
    }

    /// The levels of one role only: a group's conditions, or its choices.
    pub fn of_role(&self, role: Role) -> Spec {
        let mut kept = self.clone();
        kept.retain(|name| self.role_of(name) == role);
        kept
    }
}

/// The end of a stream at which a factor is set, where it is one of them alone.
fn owner(factor: &str) -> Option<ProgramRole> {
    match factor {
        "read_size" => return Some(ProgramRole::Reader),
        "write_size" | "send_from" => return Some(ProgramRole::Writer),
        _ => {}
    }
    let (setters, _) = (of_factor(factor)?.sites)(&Default::default());
    match (setters.contains(&Setter::Source), setters.contains(&Setter::Sink)) {
        (true, false) => Some(ProgramRole::Writer),
        (false, true) => Some(ProgramRole::Reader),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::factor;

    fn levels(given: &[(&str, &str)]) -> Spec {
        given.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    #[test]
    fn every_row_has_its_own_factor() {
        for (index, row) in OPTIONS.iter().enumerate() {
            let factor = factor::find(row.factor).unwrap_or_else(|| panic!("no factor {}", row.factor));
            assert!(OPTIONS[..index].iter().all(|other| other.factor != row.factor && other.name != row.name));
            assert!(factor.description().contains(row.name) || row.name == "TCP_CONGESTION", "{}", row.factor);
            assert!(row.unit > 0 && !row.why.is_empty() && !(row.sites)(&Spec::default()).0.is_empty());
        }
    }

    #[test]
    fn auto_requests_no_option() {
        let levels = levels(&[("sndbuf", "64K"), ("rcvbuf", "auto"), ("nodelay", "off")]);
        let asks = OPTIONS.iter().filter(|row| asked(&levels, row).is_some()).map(|row| row.factor);
        assert_eq!(asks.collect::<Vec<_>>(), ["sndbuf", "nodelay"]);
    }

    #[test]
    fn a_receive_buffer_is_set_on_its_socket() {
        let sites = |on: &[(&str, &str)]| (of_factor("rcvbuf").unwrap().sites)(&levels(on));
        assert_eq!(sites(&[]), (&[Setter::Sink, Setter::Server][..], When::Early));
        assert_eq!(sites(&[("rcvbuf_on", "accepted")]), (&[Setter::Server][..], When::Accepted));
        assert_eq!(sites(&[("rcvbuf_on", "client")]), (&[Setter::Client][..], When::Early));
        assert_eq!(sites(&[("connect", "127.0.0.1:7")]), (&[Setter::Client][..], When::Early));
    }

    #[test]
    fn the_expected_value_follows_from_the_request() {
        let check = |factor: &str, asked: &str, expected: Level| {
            let levels = levels(&[(factor, asked)]);
            assert_eq!(of_factor(factor).unwrap().expected(&levels.get(factor)), expected, "{factor} {asked}");
        };
        check("rcvbuf", "1000", Level::Number(2000));
        check("rcvlowat", "1000", Level::Number(1000));
        check("busy_poll", "1500ns", Level::Number(2000));
        check("nodelay", "on", Level::Switch(true));
        check("congestion", "reno", Level::Name("reno".into()));
    }

    #[test]
    fn kernel_units_are_those_of_the_option() {
        let of = |factor: &str, level: Level| of_factor(factor).unwrap().in_kernel_units(level);
        assert_eq!(of("busy_poll", Level::Number(50_000)), Level::Number(50));
        assert_eq!(of("sndbuf", Level::Number(65_536)), Level::Number(65_536));
        assert_eq!(of("nodelay", Level::Switch(true)), Level::Switch(true));
    }

    #[test]
    fn buffers_are_limited_by_the_kernel() {
        let check = |factor: &str, found: u64, expected: &str| {
            let row = of_factor(factor).unwrap();
            let asked = row.expected(&Level::Number(1 << 10));
            let why = row.explained(&asked, &Level::Number(found));
            assert!(why.contains(expected), "{factor} {found}: {why}");
        };
        check("rcvbuf", 2304, "the minimum of the kernel");
        check("sndbuf", 4608, "the minimum of the kernel");
        check("rcvbuf", 1024, "net.core.rmem_max");
        check("sndbuf", 1024, "net.core.wmem_max");
        check("pipe_size", 4096, "power of two of pages");
    }

    #[test]
    fn options_without_effect_state_the_reason() {
        let check = |given: &[(&str, &str)], expected: &[&str]| {
            let found: Vec<String> = without_effect(&levels(given)).collect();
            assert_eq!(found.len(), expected.len(), "{found:?}");
            found.iter().zip(expected).for_each(|(found, part)| assert!(found.contains(part), "{found}"));
        };
        let busy = ("busy_poll", "50us");
        check(&[("transport", "tcp"), busy], &["--busy-poll: SO_BUSY_POLL has no effect here: loopback has no device"]);
        check(&[("transport", "udp"), ("tos", "184"), ("busy_poll", "auto")], &["one queue for all classes"]);
        check(&[("transport", "tcp"), ("host", "192.0.2.1:7"), busy], &[]);
        check(&[("transport", "tcp"), ("pacing_rate", "1Gbit"), ("delack_max", "40ms")], &[]);
        let fast = ("fastopen", "256");
        check(&[("transport", "tcp"), ("connect_per_call", "off"), fast], &["use --connect-per-call"]);
        check(&[("transport", "tcp"), ("connect_per_call", "on"), fast], &[]);
        let gathers = ("min_wait", "20us");
        check(
            &[("transport", "tcp"), ("flows", "1"), gathers],
            &["--min-wait: min_wait_usec has no effect here: a thread"],
        );
        check(&[("transport", "tcp"), ("flows", "4"), ("server_threads", "4"), gathers], &["use more --flows"]);
        check(&[("transport", "tcp"), ("flows", "4"), ("server_threads", "2"), gathers], &[]);
    }

    fn check_role(role: ProgramRole, factor: &str, expected: Role) {
        let factor = factor::find(factor).unwrap();
        assert_eq!(role_of(role, ComparedCondition::None, factor), expected, "{role} {}", factor.name);
    }

    #[test]
    fn what_the_peer_decides_is_a_condition() {
        check_role(ProgramRole::Reader, "read_size", Role::Choice);
        check_role(ProgramRole::Reader, "write_size", Role::Condition);
        check_role(ProgramRole::Reader, "congestion", Role::Condition);
        check_role(ProgramRole::Reader, "rcvlowat", Role::Choice);
        check_role(ProgramRole::Writer, "write_size", Role::Choice);
        check_role(ProgramRole::Writer, "read_size", Role::Condition);
        check_role(ProgramRole::Writer, "rcvbuf", Role::Condition);
        check_role(ProgramRole::Writer, "sndbuf", Role::Choice);
        check_role(ProgramRole::Relay, "read_size", Role::Condition);
        check_role(ProgramRole::Relay, "write_size", Role::Condition);
        check_role(ProgramRole::Relay, "relay_buffer", Role::Choice);
        check_role(ProgramRole::Both, "write_size", Role::Choice);
        check_role(ProgramRole::Reader, "transport", Role::Condition);
        check_role(ProgramRole::Reader, "engine", Role::Choice);
    }
}
