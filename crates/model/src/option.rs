//! Options of sockets and pipes: the columns of their rows, the ends that set an option, and how the kernel changes its value.
//!
//! The rows are in `factor/option_rows.rs`. Streams, calls and datagrams set options and read them back by walking these rows, and a
//! report compares the values in force with the requested ones. Never touches a socket.

use crate::end::EndRole;
use crate::level::{Level, LevelKind};
use crate::name_tables::Transport;
use crate::spec::Spec;

pub use crate::factor::OPTIONS;

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
pub type Sites = (&'static [EndRole], When);

/// The level of an option in setsockopt(2), with the kernel's number (`asm-generic/socket.h`, `linux/in.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionLayer {
    /// `SOL_SOCKET`.
    Socket = 1,
    /// `IPPROTO_IP`.
    Ip = 0,
    /// `IPPROTO_IPV6`.
    Ipv6 = 41,
    /// `IPPROTO_TCP`.
    Tcp = 6,
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
}

/// Whether an option can be switched on the open sockets of a running program, and set back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switching {
    /// Its effect ends when it is set back.
    Ends,
    /// A part of its effect lasts for some time.
    Lasts,
    /// It cannot: the reason.
    Never(&'static str),
}

/// Another option of the kernel with the same meaning: its name, level, number and type.
pub type Variant = (&'static str, OptionLayer, i32, ValueForm);

/// One option of sockets or pipes, and the factor that sets it.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// The factor's name. It and all up to `fits` are those of the factor's row.
    pub factor: &'static str,
    /// How levels are parsed, limited and printed.
    pub kind: LevelKind,
    /// The transports over which the option exists.
    pub fits: fn(&Transport) -> bool,
    /// The kernel's name for the option.
    pub name: &'static str,
    /// Its level.
    pub layer: OptionLayer,
    /// Its number there.
    pub number: i32,
    /// The option that replaces it at some ends, or over some transports.
    pub variant: fn(EndRole, &Transport) -> Option<Variant>,
    /// The type of its value.
    pub form: ValueForm,
    /// The kernel's unit, in the level's unit (1000 where the kernel counts µs and the level ns), and its name after a number.
    pub unit: (u64, &'static str),
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
    /// Whether a running program's sockets can be switched.
    pub switching: Switching,
    /// The reason why a request cannot have an effect on a path, where that is known before it is measured.
    pub no_effect: fn(&Spec) -> Option<&'static str>,
    /// What it does on a network, where a comparison over loopback shows little of that, or the opposite.
    pub beyond_loopback: Option<BeyondLoopback>,
    /// Why the value in force may differ from the requested one, and what to do.
    pub why: &'static str,
    /// The same where the value in force is larger, if that has another reason.
    pub why_more: Option<&'static str>,
}

/// What an option does beyond loopback.
#[derive(Clone, Copy, Debug)]
pub struct BeyondLoopback {
    /// Whether a level is concerned: it may be the best over loopback alone.
    pub concerns: fn(&Level) -> bool,
    /// What it does on a network. The kernel facts are from tcp(7) and socket(7).
    pub sentence: &'static str,
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
    spec.present().filter(|(_, level)| is_asked(level)).filter_map(|(factor, _)| {
        let option = factor.option?;
        let why = (option.no_effect)(spec)?;
        Some(format!("--{}: {} has no effect here: {why}", factor.flag(), option.name))
    })
}

/// The row of a factor.
pub fn of_factor(factor: &str) -> Option<&'static OptionRow> {
    OPTIONS.iter().find(|row| row.factor == factor)
}

impl OptionRow {
    /// Why `found` is in force where `expected` should be, and what to do.
    pub fn explained(&self, expected: &Level, found: &Level) -> &'static str {
        let more = expected.number().zip(found.number()).is_some_and(|(expected, found)| found > expected);
        self.why_more.filter(|_| more).unwrap_or(self.why)
    }

    /// A level in the kernel's units, as setsockopt(2) or fcntl(2) receives it.
    pub fn in_kernel_units(&self, level: Level) -> Level {
        match level {
            Level::Number(number) => Level::Number(number.div_ceil(self.unit.0)),
            other => other,
        }
    }

    /// The level in force if the kernel handles a request as documented.
    pub fn expected(&self, requested: &Level) -> Level {
        match requested {
            Level::Number(n) if self.doubled => Level::Number(n.saturating_mul(2)),
            Level::Number(n) => Level::Number(n.div_ceil(self.unit.0).saturating_mul(self.unit.0)),
            other => other.clone(),
        }
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
            assert!(row.unit.0 > 0 && !row.why.is_empty() && !(row.sites)(&Spec::default()).0.is_empty());
        }
    }

    #[test]
    fn what_changes_by_itself_is_not_switched() {
        for row in OPTIONS.iter().filter(|row| !matches!(row.switching, Switching::Never(_))) {
            // What the kernel changes, or has at a listener alone, cannot be compared or set back.
            assert!(!row.changes && !row.of_listener, "{}", row.factor);
        }
        for name in ["nodelay", "congestion", "rcvbuf"] {
            assert!(!matches!(of_factor(name).unwrap().switching, Switching::Never(_)), "{name}");
        }
        let refused = of_factor("reuseport").unwrap().switching;
        assert!(matches!(refused, Switching::Never(why) if why.contains("begins to listen")), "{refused:?}");
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
        assert_eq!(sites(&[]), (&[EndRole::Sink, EndRole::Server][..], When::Early));
        assert_eq!(sites(&[("rcvbuf_on", "accepted")]), (&[EndRole::Server][..], When::Accepted));
        assert_eq!(sites(&[("rcvbuf_on", "client")]), (&[EndRole::Client][..], When::Early));
        assert_eq!(sites(&[("connect", "127.0.0.1:7")]), (&[EndRole::Client][..], When::Early));
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
    }
}
