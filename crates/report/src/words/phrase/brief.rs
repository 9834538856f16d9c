//! Short names for tables of 80 columns: "Unix, 2 CPUs", "parses", `SO_RCVBUF`, `read(fd, buf, 262144)`.

use bytegauge_model::factor;
use bytegauge_model::level::LevelKind;
use bytegauge_model::name_tables::PROFILES;
use bytegauge_model::option::of_factor;
use bytegauge_model::{Engine, Level, ProgramRole, SendFrom, Spec, Transport, Workload};

use super::{level, placed, placement, profile_name};

/// Longer names of profiles do not fit a column.
const PROFILE_MAX: usize = 12;

/// One condition: `2 CPUs`; `None` where it does not exist or has no effect.
pub fn word(name: &str, value: &Level) -> Option<String> {
    let text = compact(name, value);
    Some(match (name, text.as_str()) {
        (_, _) if *value == Level::Absent => return None,
        // Absent and default levels need no word.
        ("link_loss", "0%") | ("duration", "auto") => return None,
        ("link_loss", _) => format!("{text} lost"),
        ("link_delay" | "link_rate", _) => text,
        ("transport", _) => transport(value),
        ("placement", "unpinned") => "not pinned".into(),
        ("placement", "cross-core") => "2 CPUs".into(),
        ("placement", "same-cpu") => "1 CPU".into(),
        ("placement", "smt-sibling") => "1 core".into(),
        ("placement", "cross-node") => "2 nodes".into(),
        ("flows", "1") => "1 flow".into(),
        ("competing_flows", "0") => "none competing".into(),
        ("load_flows", "0") => "idle path".into(),
        ("user_data", "none") => "no user data".into(),
        ("connect_per_call", _) => if text == "on" { "connect per call" } else { "connected" }.into(),
        ("read_once", _) => if text == "on" { "reads once" } else { "reads all" }.into(),
        ("connection_age", "fresh") => "young".into(),
        ("connection_age", "steady") => "in use".into(),
        ("mode" | "placement", _) => text,
        ("write_size" | "read_size", _) => format!("peer {text}"),
        _ => match unit(name) {
            Some(unit) => format!("{text} {unit}"),
            None => format!("{} {text}", heading(name)),
        },
    })
}

/// The unit of a number, printed behind it.
fn unit(name: &str) -> Option<&'static str> {
    Some(match name {
        "flows" => "flows",
        "idle_flows" => "idle",
        "competing_flows" => "competing",
        "load_flows" => "load streams",
        "rate" | "call_rate" => "offered",
        "depth" => "deep",
        _ => return None,
    })
}

fn heading(name: &str) -> &str {
    factor::find(name).map_or(name, |factor| factor.heading)
}

/// As a flag takes it; a size that no prefix follows has its unit: `64K`, `512 B`.
pub fn compact(name: &str, value: &Level) -> String {
    let Some(factor) = factor::find(name) else { return value.to_string() };
    let text = factor.kind.compact(value);
    let is_size = matches!(factor.kind, LevelKind::Size { .. });
    if is_size && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) { text + " B" } else { text }
}

fn transport(value: &Level) -> String {
    let name = value.name().unwrap_or("?");
    match name.parse() {
        Ok(Transport::Unix) => "Unix".into(),
        Ok(Transport::UnixDatagram) => "Unix datagrams".into(),
        Ok(Transport::UnixSeqpacket) => "Unix packets".into(),
        Ok(Transport::Vsock) => "vsock".into(),
        Ok(Transport::Tcp) => "TCP".into(),
        Ok(Transport::Tcp6) => "TCP (IPv6)".into(),
        Ok(Transport::Mptcp) => "MPTCP".into(),
        Ok(Transport::Pipe) => "Pipe".into(),
        Ok(Transport::Udp) => "UDP".into(),
        Ok(Transport::Udp6) => "UDP (IPv6)".into(),
        Ok(Transport::Source(path)) => path,
        Err(_) => name.to_owned(),
    }
}

/// A condition that all questions share, where it is worth a word: it is not the default, or it decides much.
pub fn condition(name: &str, conditions: &Spec) -> Option<String> {
    let value = conditions.get(name);
    match name {
        "placement" if conditions.workload() == Workload::Tune => placed(conditions).map(str::to_owned),
        "placement" => placement(conditions).map(str::to_owned),
        // Sentence by the table.
        "transport" | "mode" | "profile" => None,
        // The title of a test has the sizes of its peer.
        "role" => who(conditions).map(str::to_owned),
        "connection_age" => Some(match value.name()? {
            "fresh" => "connections in their first milliseconds".into(),
            "steady" => "connections past their first moments".into(),
            other => format!("connections {other}"),
        }),
        "request" => Some(format!("calls of {}", level(name, &value))),
        "flows" if value.number() == Some(1) && conditions.workload() != Workload::Call => None,
        "read_size" | "write_size" if conditions.role().is_some() => None,
        _ => {
            let factor = factor::find(name)?;
            let default = factor.default_over(conditions.workload(), conditions.transport())?;
            let is_default = factor.kind.parse(default).is_ok_and(|default| default == value);
            (!is_default).then(|| word(name, &value)).flatten()
        }
    }
}

/// The role of the user's program: "your program reads".
fn who(conditions: &Spec) -> Option<&'static str> {
    Some(match conditions.role()? {
        ProgramRole::Reader => "your program reads",
        ProgramRole::Writer => "your program writes",
        ProgramRole::Relay => "your program is the relay",
        ProgramRole::Both if conditions.connect().is_some() => "the server is not yours",
        ProgramRole::Both => "both ends are yours",
    })
}

/// The work of the reader or the server, for a column: the profile's phrase where it is short, else its name.
pub fn profile_brief(conditions: &Spec) -> String {
    let name = profile_name(conditions);
    let phrase = PROFILES.iter().find(|profile| profile.name == name).map(|profile| profile.phrase);
    match phrase {
        Some(phrase) if phrase.len() <= PROFILE_MAX => phrase.to_owned(),
        // The mode of a ring is part of its question.
        _ if name == "unstated" || conditions.mode().is_some() => String::new(),
        _ => name,
    }
}

/// A choice as it is called in a program: the kernel's name of an option, else a short heading.
pub fn in_code(name: &str) -> &str {
    of_factor(name).map_or_else(|| heading(name), |row| row.name)
}

/// An option as a line of a program; `None` where no line of code sets it. Engines that move many datagrams a call have
/// calls of their own for a size.
pub fn code(name: &str, levels: &Spec) -> Option<String> {
    let value = levels.get(name);
    if let ("read_size" | "write_size", Level::Number(bytes)) = (name, &value) {
        let is_read = name == "read_size";
        return Some(match (levels.engine(), is_read) {
            (Some(Engine::Gso), true) => format!("UDP_GRO = 1, read(fd, buf, {bytes})"),
            (Some(Engine::Gso), false) => format!("UDP_SEGMENT = {bytes}, many in one send"),
            (Some(Engine::Mmsg), true) => format!("recvmmsg(fd, buffers of {bytes})"),
            (Some(Engine::Mmsg), false) => format!("sendmmsg(fd, messages of {bytes})"),
            (_, true) => format!("read(fd, buf, {bytes})"),
            (_, false) if levels.send_from() == Some(SendFrom::Sendfile) => format!("sendfile(fd, file, &at, {bytes})"),
            (_, false) if levels.send_from() == Some(SendFrom::File) => {
                format!("pread(file, buf, {bytes}, at), write(fd, buf, {bytes})")
            }
            (_, false) => format!("write(fd, buf, {bytes})"),
        });
    }
    if name == "buffer_offset" {
        return Some(match value {
            Level::Number(0) => "posix_memalign(&buf, 4096, size)".into(),
            Level::Number(offset) => format!("buf = page + {offset}"),
            _ => "buf = malloc(size)".into(),
        });
    }
    let row = of_factor(name)?;
    let option = row.name;
    Some(match row.in_kernel_units(value) {
        value if value.is_auto() => format!("leave {option} alone"),
        Level::Switch(on) => format!("{option} = {}", u8::from(on)),
        Level::Number(number) => format!("{option} = {number}"),
        Level::Name(text) => format!("{option} = \"{text}\""),
        _ => return None,
    })
}

/// The divisor in which a rate is read best, and the name of the unit: powers of 1024 for bytes, of 1000 for
/// calls and NOPs.
pub fn rate_unit(base: &str, per_second: f64) -> (f64, &'static str) {
    let counted = match base {
        "runs/s" => Some(["runs/s", "k runs/s", "M runs/s", "G runs/s"]),
        "runs/CPU s" => Some(["runs/CPU s", "k runs/CPU s", "M runs/CPU s", "G runs/CPU s"]),
        "printed" => Some(["printed", "k printed", "M printed", "G printed"]),
        "runs/M events" => Some(["runs/M events", "runs/k events", "runs/event", "k runs/event"]),
        "calls/s" => Some(["calls/s", "k calls/s", "M calls/s", "G calls/s"]),
        "NOPs/s" => Some(["NOPs/s", "k NOPs/s", "M NOPs/s", "G NOPs/s"]),
        _ => None,
    };
    if let Some(names) = counted {
        let step = (per_second.max(1.0).log10() / 3.0).floor().clamp(0.0, 3.0) as usize;
        return (1000f64.powi(step as i32), names[step]);
    }
    let step = (per_second.max(1.0).log2() / 10.0).floor().clamp(0.0, 4.0) as usize;
    (1024f64.powi(step as i32), ["B/s", "KiB/s", "MiB/s", "GiB/s", "TiB/s"][step])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(conditions: &Spec, names: &[String]) -> String {
        let words: Vec<String> = names.iter().filter_map(|name| word(name, &conditions.get(name))).collect();
        words.join(", ")
    }

    fn levels(pairs: &[(&str, &str)]) -> Spec {
        let mut levels = Spec::default();
        for (name, text) in pairs {
            let level = factor::find(name).map(|factor| factor.kind.parse(text).unwrap());
            levels.set(name, level.unwrap_or_else(|| Level::Name((*text).into())));
        }
        levels
    }

    #[test]
    fn questions_are_short() {
        let levels = levels(&[("transport", "tcp"), ("placement", "cross-core"), ("flows", "50"), ("request", "128")]);
        let names = ["transport", "placement", "flows", "request"].map(str::to_owned);
        assert_eq!(brief(&levels, &names), "TCP, 2 CPUs, 50 flows, request 128 B");
        assert_eq!(brief(&levels, &names[..2]), "TCP, 2 CPUs");
    }

    #[test]
    fn a_link_has_a_short_name() {
        let names = ["transport", "link_delay", "link_loss", "link_rate", "duration"].map(str::to_owned);
        let link = |loss| {
            let link = [("link_delay", "20ms"), ("link_loss", loss), ("link_rate", "1Gbit"), ("duration", "auto")];
            levels(&[&[("transport", "tcp"), ("role", "reader")], &link[..]].concat())
        };
        assert_eq!(brief(&link("0%"), &names), "TCP, 20ms, 1Gbit");
        assert_eq!(brief(&link("0.1%"), &names), "TCP, 20ms, 0.1% lost, 1Gbit");
    }

    #[test]
    fn a_size_without_prefix_has_its_unit() {
        let check = |name: &str, number: u64, expected: &str| {
            assert_eq!(compact(name, &Level::Number(number)), expected);
        };
        check("write_size", 512, "512 B");
        check("write_size", 64 << 10, "64K");
        check("request", 64, "64 B");
        check("flows", 512, "512");
    }

    #[test]
    fn options_are_printed_as_code() {
        let check = |name: &str, pairs: &[(&str, &str)], expected: Option<&str>| {
            assert_eq!(code(name, &levels(pairs)).as_deref(), expected);
        };
        check("read_size", &[("read_size", "256K")], Some("read(fd, buf, 262144)"));
        check("rcvbuf", &[("rcvbuf", "64K")], Some("SO_RCVBUF = 65536"));
        check("rcvbuf", &[("rcvbuf", "auto")], Some("leave SO_RCVBUF alone"));
        // The kernel counts microseconds.
        check("busy_poll", &[("busy_poll", "50us")], Some("SO_BUSY_POLL = 50"));
        check("server_engine", &[("server_engine", "epoll")], None);
        // Some engines move data by other calls than write(2).
        check("write_size", &[("engine", "blocking"), ("write_size", "1400")], Some("write(fd, buf, 1400)"));
        check("buffer_offset", &[("buffer_offset", "0")], Some("posix_memalign(&buf, 4096, size)"));
        check("buffer_offset", &[("buffer_offset", "16")], Some("buf = page + 16"));
        check("buffer_offset", &[("buffer_offset", "malloc")], Some("buf = malloc(size)"));
        check("write_size", &[("engine", "gso"), ("write_size", "1400")], Some("UDP_SEGMENT = 1400, many in one send"));
        check("write_size", &[("engine", "mmsg"), ("write_size", "1400")], Some("sendmmsg(fd, messages of 1400)"));
    }
}
