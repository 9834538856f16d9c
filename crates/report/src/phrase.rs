//! How levels are named in sentences and labels: "Unix sockets", "read with 32 KiB", "ends on the same CPU".
//!
//! Only words; whether a thing is said is decided in [`crate::sentence`] and in the view.

mod brief;

use bytegauge_model::catalog::PROFILES;
use bytegauge_model::factor::{self, FACTORS, Role};
use bytegauge_model::option::of_factor;
use bytegauge_model::{Direction, Level, Mode, Nanos, Placement, Spec, Transport, UserData, Work, Workload};

use crate::view::document::{LimitDoubt, LimitView};

pub use brief::{
    NO_CONDITION, brief, brief_of_several, code, compact, condition, in_code, profile_brief, rate_unit, who,
};

/// Conditions that a profile sets, and the profile itself: groups that agree in all others share one verdict.
pub const PROFILE_FACTORS: &[&str] = &["profile", "work", "working_set", "writer_work", "idle_flows"];

/// The transport as the subject of a sentence.
pub fn transport(levels: &Spec) -> String {
    let relayed = levels.relay_host().map_or_else(String::new, |place| format!(", relayed at {place}"));
    ends_joined(levels) + &relayed
}

/// The protocol of a network.
fn protocol(levels: &Spec) -> &'static str {
    match levels.transport() {
        Some(transport) if transport.is_udp() => "UDP",
        Some(Transport::Mptcp) => "MPTCP",
        _ => "TCP",
    }
}

/// How its two ends are joined.
fn ends_joined(levels: &Spec) -> String {
    if let Some((place, direction)) = levels.far() {
        let protocol = protocol(levels);
        let direction = match direction {
            Direction::Both => "to and from".into(),
            other => other.to_string(),
        };
        return format!("{protocol} {direction} the host {place}");
    }
    if let Some(link) = levels.emulated_link() {
        let protocol = protocol(levels);
        return format!("{protocol} over a link of {link}");
    }
    match levels.transport() {
        Some(Transport::Tcp | Transport::Tcp6) if levels.relay_host().is_some() => "TCP".into(),
        Some(Transport::Unix) => "Unix sockets".into(),
        Some(Transport::UnixDatagram) => "Unix datagrams".into(),
        Some(Transport::Tcp) => "TCP over loopback".into(),
        Some(Transport::Tcp6) => "TCP over loopback (IPv6)".into(),
        Some(Transport::Mptcp) => "MPTCP over loopback".into(),
        Some(Transport::Pipe) => "Pipes".into(),
        Some(Transport::Udp) => "UDP over loopback".into(),
        Some(Transport::Udp6) => "UDP over loopback (IPv6)".into(),
        Some(Transport::Source(path)) => path.clone(),
        // An import may name a transport that this version does not know.
        None => match levels.get("transport") {
            Level::Name(name) => name,
            _ => "An unnamed transport".into(),
        },
    }
}

/// Begins what is said of ties where nothing that was measured is told apart.
pub const ANY: &str = "any ";

/// A limit as people read it; what else there is explains itself.
pub fn limit(name: &'static str) -> &'static str {
    match name {
        "window" => "full TCP window",
        "the harness" => "bytegauge itself",
        "wake-ups" => "waits for wake-ups",
        "unknown" => "no limit found",
        other => other,
    }
}

/// The same with what may be the limit as well: `sender CPU (in 12 of 20 trials; full TCP window in 8)`.
pub fn limit_with_doubt(limit: &LimitView) -> String {
    let name = self::limit(limit.name);
    match &limit.doubt {
        None => name.to_owned(),
        Some(LimitDoubt { trials, agree, other, show_other }) => {
            format!("{name} (in {agree} of {trials} trials; {} in {show_other})", self::limit(other))
        }
    }
}

/// Where the ends run: "ends on different CPUs".
pub fn placement(levels: &Spec) -> Option<&'static str> {
    Some(match levels.placement()? {
        Placement::Unpinned => "ends not pinned",
        Placement::SameCpu => "ends on the same CPU",
        Placement::SmtSibling => "ends on two hardware threads of one core",
        Placement::CrossCore => "ends on different CPUs",
        Placement::CrossNode => "ends on different NUMA nodes",
    })
}

/// The conditions of a family of groups: "Unix sockets, ends on different CPUs, 4 flows".
pub fn subject(conditions: &Spec) -> String {
    // A condition that only an import knows says where it was measured, which was not this machine's loopback.
    let elsewhere: Vec<String> = foreign(conditions).map(|(name, level)| format!("{name} {level}")).collect();
    if conditions.workload() == Workload::Ring {
        return ring(conditions).into_iter().chain(elsewhere).collect::<Vec<_>>().join(", ");
    }
    if conditions.workload() == Workload::Check {
        let program = ["your program".to_owned()].into_iter();
        return program.chain(placed(conditions).map(str::to_owned)).chain(elsewhere).collect::<Vec<_>>().join(", ");
    }
    let joint = transport(conditions);
    let joint = if elsewhere.is_empty() { joint } else { joint.replace(" over loopback", "") };
    let mut parts: Vec<String> = [joint].into_iter().chain(elsewhere).collect();
    parts.extend(placement(conditions).map(str::to_owned));
    parts.extend(flows(conditions));
    parts.extend(call(conditions));
    parts.extend(load(conditions));
    parts.join(", ")
}

/// Where a program of the user's runs, where that was decided.
pub fn placed(conditions: &Spec) -> Option<&'static str> {
    match conditions.placement()? {
        Placement::Unpinned => None,
        Placement::SameCpu => Some("on one CPU"),
        _ => placement(conditions),
    }
}

/// A ring that does nothing, and what is asked of it.
fn ring(conditions: &Spec) -> Vec<String> {
    let mode = match conditions.mode() {
        Some(Mode::Checked) => "every completion checked",
        _ => "at its ceiling",
    };
    let user_data = match conditions.user_data() {
        Some(UserData::Unique) => "a number with each operation",
        Some(UserData::Boxed) => "a heap object with each operation",
        _ => "without user data",
    };
    ["NOPs through an io_uring", mode, user_data].map(str::to_owned).to_vec()
}

/// What is called, and how.
fn call(conditions: &Spec) -> Vec<String> {
    let shown = |name: &str| level(name, &conditions.get(name));
    let Some(request) = conditions.request().map(|_| shown("request")) else { return Vec::new() };
    let response = match conditions.response() {
        Some(_) => format!("calls of {request} answered by {}", shown("response")),
        None => format!("calls of {request}"),
    };
    let chunk = conditions.request_chunk().map(|_| format!("written in pieces of {}", shown("request_chunk")));
    let depth = conditions.depth().filter(|depth| *depth > 1).map(|depth| format!("{depth} outstanding"));
    let per_call = conditions.connect_per_call() == Some(true);
    let per_call = per_call.then(|| "a connection for every call".to_owned());
    let read_once = conditions.read_once() == Some(true);
    let read_once = read_once.then(|| "to a server that takes its first read for the request".to_owned());
    let competing = conditions.competing_flows().filter(|flows| *flows > 0);
    let competing = competing.map(|flows| format!("beside {flows} competing flows"));
    [Some(response), chunk, depth, per_call, read_once, competing].into_iter().flatten().collect()
}

/// Conditions that are no factor of ours.
fn foreign(conditions: &Spec) -> impl Iterator<Item = (&str, Level)> {
    conditions.iter().filter(|(name, level)| factor::find(name).is_none() && *level != Level::Absent)
}

fn flows(conditions: &Spec) -> Option<String> {
    conditions.flows().filter(|flows| *flows > 1).map(|flows| format!("{flows} flows"))
}

fn load(conditions: &Spec) -> Vec<String> {
    let shown = |name: &str| level(name, &conditions.get(name));
    let offered = |name: &str| format!("{} offered", shown(name));
    let stream = conditions.rate().map(|_| offered("rate"));
    let calls = conditions.call_rate().map(|_| offered("call_rate"));
    let is_stream = conditions.workload() == Workload::Stream;
    let (who, what) = if is_stream { ("the writer", "writes") } else { ("each client", "calls") };
    let think = conditions.think_time().filter(|ns| *ns > 0);
    let think = think.map(|_| format!("{who} pausing {} between {what}", shown("think_time")));
    let slo =
        conditions.slo().map(|slo| format!("{} within {} of the intended send", slo.percentile, Nanos(slo.limit_ns)));
    stream.into_iter().chain(calls).chain(slo).chain(think).collect()
}

/// A group for people and tables: `unix · cross-core · drain`.
pub fn group_label(conditions: &Spec) -> String {
    let shown = conditions.present().filter(|(factor, level)| says_something(factor.name, level, conditions));
    let names: Vec<String> = shown
        .map(|(factor, level)| {
            let text = factor.kind.show(&level);
            match factor.name {
                "transport" | "placement" | "profile" | "mode" => text,
                "flows" if level.number() == Some(1) => "1 flow".into(),
                "flows" => format!("{text} flows"),
                "idle_flows" => format!("{text} idle"),
                "competing_flows" => format!("{text} competing"),
                "role" => format!("your program is the {text}"),
                "connection_age" => format!("{text} connections"),
                "write_size" => format!("its peer writes {text}"),
                "read_size" => format!("its peer reads {text}"),
                "call_rate" => format!("{text} offered"),
                "connect_per_call" => "connection per call".into(),
                "read_once" => "server reads once".into(),
                _ => format!("{} {text}", in_code(factor.name)),
            }
        })
        .chain(foreign(conditions).map(|(name, level)| format!("{name} {level}")))
        .collect();
    if names.is_empty() { "all".into() } else { names.join(" · ") }
}

/// Defaults say nothing, and what a profile sets is said by its name.
fn says_something(name: &str, level: &Level, conditions: &Spec) -> bool {
    let set_by_profile =
        |profile: &str| PROFILES.iter().any(|p| p.name == profile && p.sets.iter().any(|(factor, _)| *factor == name));
    match name {
        "transport" | "placement" | "profile" | "request" | "mode" | "user_data" => true,
        // The column of what is chosen says it.
        "compare" => false,
        "flows" => level.number() != Some(1) || conditions.workload() == Workload::Call,
        _ => {
            let is_default = factor::find(name).is_some_and(|factor| is_default(factor, level, conditions));
            !is_default && !conditions.profile().is_some_and(set_by_profile)
        }
    }
}

fn is_default(factor: &factor::Factor, level: &Level, conditions: &Spec) -> bool {
    let workload = conditions.workload();
    let default = factor.default_over(workload, conditions.transport());
    default.is_some_and(|default| factor.kind.parse(default).as_ref() == Ok(level))
}

/// One level for people, by its factor's kind.
pub fn level(name: &str, level: &Level) -> String {
    factor::find(name).map_or_else(|| level.to_string(), |factor| factor.kind.show(level))
}

/// The name of a group's profile; where the plan gave single conditions, those.
pub fn profile_name(conditions: &Spec) -> String {
    if let Some(name) = conditions.profile() {
        return name.to_owned();
    }
    if let Some(mode) = conditions.mode() {
        return mode.to_string();
    }
    let given = PROFILE_FACTORS.iter().filter(|name| conditions.get(name) != Level::Absent);
    let parts: Vec<String> = given.map(|name| format!("{name} {}", level(name, &conditions.get(name)))).collect();
    if parts.is_empty() { "unstated".into() } else { parts.join(", ") }
}

/// What the reader does under a profile: "drains", "sums".
pub fn profile_phrase(name: &str) -> String {
    let known = PROFILES.iter().find(|profile| profile.name == name);
    known.map_or_else(|| format!("follows `{name}`"), |profile| profile.phrase.to_owned())
}

/// Whether the reader discards the bytes: then the kernel alone is measured.
pub fn throws_away(conditions: &Spec) -> bool {
    let no_work = conditions.work() == Some(Work::None) && conditions.working_set().unwrap_or(0) == 0;
    conditions.profile() == Some("drain") || no_work
}

/// What to set, as an instruction: "read with 32 KiB and write with 256 KiB".
pub fn choice(levels: &Spec, varied: &[String]) -> String {
    let said: Vec<String> = FACTORS
        .iter()
        .filter(|factor| levels.role_of(factor.name) == Role::Choice && varied.iter().any(|name| name == factor.name))
        .filter_map(|factor| setting(factor.name, &levels.get(factor.name)))
        .collect();
    join(&said, "and")
}

fn setting(name: &str, value: &Level) -> Option<String> {
    let text = level(name, value);
    Some(match (name, value) {
        (_, Level::Absent) => return None,
        ("value", _) => format!("use {text}"),
        ("read_size", _) => format!("read with {text}"),
        ("write_size", _) => format!("write with {text}"),
        ("engine", _) => format!("use the engine {text}"),
        ("connect", _) => format!("use the server at {text}"),
        ("server_engine", _) => format!("serve with the engine {text}"),
        ("server_threads", _) => format!("serve with {text} {}", if text == "1" { "thread" } else { "threads" }),
        ("entries", _) => format!("make room for {text} {}", if text == "1" { "entry" } else { "entries" }),
        ("submit_batch", level) if level.is_auto() => "submit as many at once as fit".into(),
        ("submit_batch", _) => format!("submit {text} at once"),
        ("implementation", _) => match text.as_str() {
            "raw" => "drive the ring by hand (raw)".into(),
            "io-uring" => "use the io-uring crate".into(),
            other => format!("use {other}"),
        },
        ("setup", _) if text == "default" => "set no flag".into(),
        ("setup", _) => format!("set the ring up with {text}"),
        ("rcvbuf_on", _) => match text.as_str() {
            "accepted" => "set it on each accepted socket".into(),
            "client" => "set it on the client's socket".into(),
            _ => "set it on the listening socket".into(),
        },
        (_, level) if level.is_auto() => format!("leave {} to the system", option(name)),
        (_, Level::Switch(_)) if of_factor(name).is_some() => format!("turn {} {text}", option(name)),
        _ => format!("set {} to {text}", option(name)),
    })
}

fn option(name: &str) -> &str {
    match name {
        "congestion" => "the congestion control",
        "pipe_size" => "the pipe's capacity",
        "backlog" => "the backlog",
        other => of_factor(other).map_or(other, |row| row.name),
    }
}

/// A cell for tables: `read 32 KiB, write 256 KiB`.
pub fn cell_label(levels: &Spec, varied: &[String]) -> String {
    let shown: Vec<String> = levels
        .present()
        .filter(|(factor, _)| varied.iter().any(|name| name == factor.name))
        .map(|(factor, level)| format!("{} {}", in_code(factor.name), factor.kind.show(&level)))
        .collect();
    shown.join(", ")
}

/// "a", "a and b", "a, b and c".
pub fn join(parts: &[String], last: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., back] => format!("{} {last} {back}", front.join(", ")),
    }
}

/// With a capital at the start.
pub fn capital(text: &str) -> String {
    let word = text.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    if matches!(word, "tcp" | "tcp6" | "udp" | "udp6") {
        return word.to_uppercase() + &text[word.len()..];
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(pairs: &[(&str, &str)]) -> Spec {
        pairs.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    #[test]
    fn sentences_begin_with_names_as_they_are_written() {
        let check = |text: &str, expected: &str| assert_eq!(capital(text), expected);
        check("tcp · 1 flow", "TCP · 1 flow");
        check("udp6, drains", "UDP6, drains");
        check("unix · cross-core", "Unix · cross-core");
        check("tcpdump", "Tcpdump");
        check("", "");
    }

    #[test]
    fn a_server_is_chosen_by_its_place() {
        let levels = levels(&[("connect", "127.0.0.1:7000")]);
        assert_eq!(choice(&levels, &["connect".into()]), "use the server at 127.0.0.1:7000");
        assert_eq!(cell_label(&levels, &["connect".into()]), "server at 127.0.0.1:7000");
    }

    #[test]
    fn a_path_says_where_its_relays_stand() {
        let check = |pairs: &[(&str, &str)], expected: &str| assert_eq!(transport(&levels(pairs)), expected);
        let relayed = ("relay_host", "192.0.2.7:4711");
        check(&[("transport", "tcp"), relayed], "TCP, relayed at 192.0.2.7:4711");
        check(&[("transport", "tcp6"), ("relay_host", "[2001:db8::7]:1")], "TCP, relayed at [2001:db8::7]:1");
        check(
            &[("transport", "tcp"), ("host", "192.0.2.8:1"), relayed],
            "TCP to the host 192.0.2.8:1, relayed at 192.0.2.7:4711",
        );
        check(&[("transport", "tcp"), ("relay_host", "auto")], "TCP over loopback");
        let link = [("link_delay", "20ms"), ("link_loss", "0.1%"), ("link_rate", "1Gbit")];
        check(&[&[("transport", "tcp")], &link[..]].concat(), "TCP over a link of 20 ms, 1 Gbit/s, 0.1 % lost");
    }

    #[test]
    fn groups_are_named_by_what_is_not_the_default() {
        let check = |pairs: &[(&str, &str)], label: &str, sentence: &str| {
            let levels = levels(pairs);
            assert_eq!((group_label(&levels).as_str(), subject(&levels).as_str()), (label, sentence));
        };
        check(
            &[
                ("transport", "unix"),
                ("placement", "cross-core"),
                ("profile", "parser"),
                ("work", "sum"),
                ("working_set", "512K"),
            ],
            "unix · cross-core · parser",
            "Unix sockets, ends on different CPUs",
        );
        check(
            &[("transport", "tcp"), ("flows", "4"), ("work", "sum"), ("rate", "100M"), ("writer_work", "none")],
            "tcp · 4 flows · work sum · rate 100 MiB/s",
            "TCP over loopback, 4 flows, 100 MiB/s offered",
        );
        check(&[("transport", "/dev/zero"), ("flows", "1")], "/dev/zero", "/dev/zero");
        check(
            &[
                ("transport", "tcp"),
                ("placement", "cross-core"),
                ("profile", "many-idle"),
                ("flows", "50"),
                ("request", "512"),
                ("response", "same"),
                ("depth", "1"),
                ("connect_per_call", "off"),
                ("idle_flows", "1000"),
                ("work", "sum"),
                ("working_set", "16K"),
                ("call_rate", "max"),
                ("client_engine", "epoll"),
            ],
            "tcp · cross-core · many-idle · 50 flows · request 512 B",
            "TCP over loopback, ends on different CPUs, 50 flows, calls of 512 B",
        );
        check(
            &[
                ("transport", "tcp"),
                ("flows", "20"),
                ("request", "10K"),
                ("response", "100"),
                ("request_chunk", "100"),
                ("connect_per_call", "on"),
                ("call_rate", "20k"),
                ("competing_flows", "30"),
                ("client_engine", "blocking"),
            ],
            "tcp · 20 flows · request 10 KiB · response 100 B · chunk 100 B · connection per call · 20 k calls/s offered \
             · 30 competing · client blocking",
            "TCP over loopback, 20 flows, calls of 10 KiB answered by 100 B, written in pieces of 100 B, a connection for every \
             call, beside 30 competing flows, 20 k calls/s offered",
        );
    }

    #[test]
    fn choices_name_what_varied() {
        let levels = levels(&[("read_size", "32K"), ("write_size", "256K"), ("sndbuf", "auto"), ("nodelay", "on")]);
        let check = |varied: &[&str], expected: &str| {
            let varied: Vec<String> = varied.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(choice(&levels, &varied), expected);
        };
        check(&["read_size", "write_size"], "read with 32 KiB and write with 256 KiB");
        check(&["read_size"], "read with 32 KiB");
        check(
            &["read_size", "sndbuf", "nodelay", "pipe_size"],
            "read with 32 KiB, leave SO_SNDBUF to the system and turn TCP_NODELAY on",
        );
    }

    #[test]
    fn a_reader_that_does_nothing_is_recognised() {
        assert!(throws_away(&levels(&[("profile", "drain")])));
        assert!(throws_away(&levels(&[("work", "none"), ("working_set", "0")])));
        assert!(!throws_away(&levels(&[("work", "none"), ("working_set", "512K")])));
        assert!(!throws_away(&levels(&[("profile", "sum"), ("work", "sum"), ("working_set", "0")])));
        // An import does not say what its reader did.
        assert!(!throws_away(&levels(&[("transport", "unix")])));
    }
}
