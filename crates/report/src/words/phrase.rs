//! How levels are named in sentences and labels: "Unix sockets", "read with 32 KiB", "ends on the same CPU".
//!
//! Only words: the view decides what is reported.

use bytegauge_model::level::LevelKind;
use bytegauge_model::name_tables::PROFILES;
use bytegauge_model::option::of_factor;
use bytegauge_model::socket_changes::AS_IT_IS;
use bytegauge_model::unit::Bytes;
use bytegauge_model::{
    Cost, Engine, Level, OptionChange, Placement, ProgramChange, ProgramRole, RelayMethod, SendFrom, SocketChanges,
    Spec, Transport, Work, Workload, factor, without_digits,
};

/// Conditions that a profile sets, and the profile itself: groups that agree in all others share one verdict.
pub const PROFILE_FACTORS: &[&str] = &["profile", "work", "working_set", "writer_work", "call_work", "idle_flows"];

/// Each value once, in the order of the first ones.
pub fn unique<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

/// Each key once, in order, with all values that have it.
pub fn grouped<K: PartialEq, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut all: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        match all.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => all.push((key, vec![value])),
        }
    }
    all
}

/// Two texts that differ in numbers alone as one, with ranges where these are words: `p99 was 4–6 ms`.
pub fn with_ranges(a: &str, b: &str) -> Option<String> {
    let word = |(a, b): (&str, &str)| match ends(a).zip(ends(b)) {
        _ if a == b => Some(a.to_owned()),
        Some(((a, b), (c, d))) => Some(format!("{}–{}", a.min(c), b.max(d))),
        None => (without_digits(a) == without_digits(b)).then(|| a.to_owned()),
    };
    let words: Option<Vec<String>> = a.split(' ').zip(b.split(' ')).map(word).collect();
    words.filter(|words| words.len() == a.split(' ').count().max(b.split(' ').count())).map(|words| words.join(" "))
}

/// The ends of a range of numbers, or a number twice.
fn ends(word: &str) -> Option<(f64, f64)> {
    let (low, high) = word.split_once('–').unwrap_or((word, word));
    Some((low.parse().ok()?, high.parse().ok()?))
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

/// Where a program of the user's runs, where that was decided.
pub fn placed(conditions: &Spec) -> Option<&'static str> {
    match conditions.placement()? {
        Placement::Unpinned => None,
        Placement::SameCpu => Some("on one CPU"),
        _ => placement(conditions),
    }
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

/// Whether the reader discards the bytes: then the kernel alone is measured.
pub fn throws_away(conditions: &Spec) -> bool {
    let costs = [conditions.working_set(), conditions.call_work()].into_iter().flatten().any(|cost| cost > 0);
    let discards = conditions.profile() == Some("drain") || conditions.work() == Some(Work::None);
    // Over datagrams a program has no work of its own per call either.
    discards && !costs && conditions.profile() != Some("program")
}

/// "a", "a and b", "a, b and c".
pub fn join(parts: &[String], last: &str) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [front @ .., back] => format!("{} {last} {back}", front.join(", ")),
    }
}

/// An objective of latency: `p99 ≤ 2ms`.
pub fn objective(slo: &str) -> String {
    slo.replace('=', " ≤ ")
}

/// With a capital at the start.
pub fn capital(text: &str) -> String {
    let word = text.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
    if matches!(word, "tcp" | "tcp6" | "udp" | "udp6") {
        return word.to_uppercase() + &text[word.len()..];
    }
    // A name such as `net.ipv4.tcp_rmem` is written as it is.
    if text.split(' ').next().is_some_and(|word| word.trim_end_matches('.').contains('.')) {
        return text.to_owned();
    }
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

// Short names for tables of 80 columns: "Unix, 2 CPUs", "parses", `SO_RCVBUF`, `read(fd, buf, 262144)`.

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

// The names of options: the levels in which they differ.

/// Factors whose levels name themselves: `epoll`, `cubic`.
const NAME_THEMSELVES: &str =
    "engine server_engine client_engine relay value implementation setup congestion transport connect";

/// The levels of the factors that options differ in, as every table names an option: `64K`, or `read 4K + epoll`. Empty
/// where they differ in none.
pub fn option_label(varied: &[String], spec: &Spec) -> String {
    let shown = |name: &String| {
        let level = spec.get(name);
        (level != Level::Absent).then(|| level_label(varied, spec, name, &level))
    };
    varied.iter().filter_map(shown).collect::<Vec<_>>().join(" + ")
}

/// Whether the name of a test has the size by its verb: "reads Unix".
fn is_named_by_title(factor: &str, spec: &Spec) -> bool {
    matches!(factor, "read_size" | "write_size") && spec.role() != Some(ProgramRole::Both)
}

/// One level, with the name of its factor where the level alone tells nothing, or options differ in several: `64K`, `epoll`,
/// `flows 4`, `SO_RCVBUF 256K`, `read 4K`.
pub fn level_label(varied: &[String], spec: &Spec, factor: &str, level: &Level) -> String {
    let mut text = compact(factor, level);
    // Its buffer, and not its method, may make a relay slower than others.
    if let Some(Bytes(own)) = own_buffer(spec).filter(|_| factor == "relay") {
        text += &format!(" {}", compact("relay_buffer", &Level::Number(own)));
    }
    let name = in_code(factor);
    // The relay itself is named before its threads and buffers.
    let has_relay = varied.iter().any(|name| name == "relay");
    let name = name.strip_prefix("relay ").filter(|_| has_relay).unwrap_or(name);
    // A sentence that begins with “4” or “off” tells nothing.
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit()) || matches!(text.as_str(), "on" | "off");
    // Neither do a number and `auto` without their option.
    let is_word = level.name().is_some_and(|_| !level.is_auto());
    let is_clear = !is_bare && (is_word || is_named_by_title(factor, spec));
    // A reader's or a writer's test names its one size next to other factors, too.
    let is_titled = !is_bare && spec.role().is_some() && is_named_by_title(factor, spec);
    match NAME_THEMSELVES.split(' ').any(|name| name == factor) || varied.len() == 1 && is_clear || is_titled {
        true => text,
        false => format!("{name} {text}"),
    }
}

/// The name of a value of a session that tries options of a program: `nodelay on`, `without its SO_RCVBUF`, `as it is`.
pub fn change_label(changes: &SocketChanges, value: &str) -> String {
    if value == AS_IT_IS {
        return "as it is".to_owned();
    }
    let each = changes.named(value).iter().map(|change| {
        let on = change.option().and_then(|change| change.on).map_or_else(String::new, |on| format!("{on}: "));
        match change {
            ProgramChange::Option(OptionChange { option, level: Some(set), .. }) => {
                format!("{on}{} {}", option.replace('_', "-"), level(option, set))
            }
            ProgramChange::Option(change) => format!("{on}without its {}", change.row().name),
            ProgramChange::Sysctl(change) => format!("{} = {}", change.sysctl, change.value),
        }
    });
    let all: Vec<String> = each.collect();
    if all.is_empty() { value.to_owned() } else { all.join(", ") }
}

/// The method of bytegauge's own relay.
pub fn relay_method(spec: &Spec) -> Option<RelayMethod> {
    spec.relay_or_direct().filter(|method| *method != RelayMethod::Direct)
}

/// The bytes that a relay moves at a time by its own default, if that is less than the others, and no size was set.
pub fn own_buffer(spec: &Spec) -> Option<Bytes> {
    let bytes = relay_method(spec)?.small_buffer().filter(|_| spec.relay_buffer().is_none())?;
    Some(Bytes(bytes as u64))
}

// How a comparison by a cost is worded.

/// The words of a comparison by one cost.
pub struct CostWords {
    /// What is compared: `time`.
    pub noun: &'static str,
    /// The option with the least of it: `the fastest`.
    pub least: &'static str,
    /// Follows a share: `slower than the best`.
    pub above: &'static str,
    /// Heads intervals that are shares: `slower by`.
    pub by: &'static str,
    /// Heads intervals that are multiples: `time / best`.
    pub ratio: &'static str,
    /// States that an option has more, by a share in the place of `{}`: `takes at least {} longer`.
    pub has_more: &'static str,
    /// States the same by a multiple: `takes at least {} the time`.
    pub has_times: &'static str,
}

const TIME: CostWords = CostWords {
    noun: "time",
    least: "the fastest",
    above: "slower than the best",
    by: "slower by",
    ratio: "time / best",
    has_more: "takes at least {} longer",
    has_times: "takes at least {} the time",
};

const CPU: CostWords = CostWords {
    noun: "CPU time",
    least: "the least CPU time",
    above: "more CPU time than the best",
    by: "more CPU by",
    ratio: "CPU / least",
    has_more: "uses at least {} more CPU time",
    has_times: "uses at least {} the CPU time",
};

const LATENCY: CostWords = CostWords {
    noun: "the mean time of a call",
    least: "the shortest calls",
    above: "longer than the shortest",
    by: "calls longer by",
    ratio: "time / shortest",
    has_more: "takes at least {} longer for a call",
    has_times: "takes at least {} the time for a call",
};

const P99: CostWords = CostWords {
    noun: "the p99 of calls",
    least: "the lowest p99",
    above: "above the lowest p99",
    by: "p99 longer by",
    ratio: "p99 / least",
    has_more: "has a p99 at least {} longer",
    has_times: "has at least {} the p99",
};

const GAP_P99: CostWords = CostWords {
    noun: "the p99 of the gaps between parts of a reply",
    least: "the lowest gap p99",
    above: "above the lowest gap p99",
    by: "gap longer by",
    ratio: "gap / least",
    has_more: "has a gap p99 at least {} longer",
    has_times: "has at least {} the gap p99",
};

const URGENT: CostWords = CostWords {
    noun: "the mean delay of urgent messages",
    least: "the least urgent delay",
    above: "above the least urgent delay",
    by: "delay longer by",
    ratio: "delay / least",
    has_more: "delays urgent messages at least {} longer",
    has_times: "delays urgent messages at least {} as long",
};

/// The words of a comparison by `cost`.
pub fn cost_words(cost: Cost) -> &'static CostWords {
    match cost {
        Cost::Time => &TIME,
        Cost::Cpu => &CPU,
        Cost::Latency => &LATENCY,
        Cost::P99 => &P99,
        Cost::GapP99 => &GAP_P99,
        Cost::Urgent => &URGENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(pairs: &[(&str, &str)]) -> Spec {
        pairs.iter().map(|(name, text)| (*name, factor::find(name).unwrap().kind.parse(text).unwrap())).collect()
    }

    #[test]
    fn texts_with_other_numbers_become_one() {
        let check = |a: &str, b: &str, expected| assert_eq!(with_ranges(a, b).as_deref(), expected, "{a} | {b}");
        check("p99 was 4 ms at 2.15 k", "p99 was 3.9 ms at 10 k", Some("p99 was 3.9–4 ms at 2.15–10 k"));
        check("p99 was 3.9–4 ms", "p99 was 5 ms", Some("p99 was 3.9–5 ms"));
        check("flow 0: it died", "flow 12: it died", Some("flow 0: it died"));
        check("4 ms", "4 µs", None);
        check("it died", "it died early", None);
    }

    #[test]
    fn sentences_begin_with_names_as_they_are_written() {
        let check = |text: &str, expected: &str| assert_eq!(capital(text), expected);
        check("tcp · 1 flow", "TCP · 1 flow");
        check("udp6, drains", "UDP6, drains");
        check("unix · cross-core", "Unix · cross-core");
        check("tcpdump", "Tcpdump");
        check("net.ipv4.tcp_rmem small takes", "net.ipv4.tcp_rmem small takes");
        check("undecided. More", "Undecided. More");
        check("", "");
    }

    #[test]
    fn a_reader_that_does_nothing_is_recognised() {
        assert!(throws_away(&levels(&[("profile", "drain")])));
        assert!(throws_away(&levels(&[("work", "none"), ("working_set", "0")])));
        assert!(!throws_away(&levels(&[("work", "none"), ("working_set", "512K")])));
        assert!(!throws_away(&levels(&[("profile", "sum"), ("work", "sum"), ("working_set", "0")])));
        assert!(throws_away(&levels(&[("profile", "echo"), ("work", "none"), ("working_set", "0")])));
        assert!(throws_away(&levels(&[("profile", "own"), ("work", "none")])));
        assert!(!throws_away(&levels(&[("transport", "udp"), ("profile", "program"), ("work", "none")])));
        // Its own time per call is work, too.
        assert!(!throws_away(&levels(&[("work", "none"), ("call_work", "1us")])));
        assert!(!throws_away(&levels(&[("profile", "program"), ("work", "none"), ("call_work", "1us")])));
        // The work of the reader of an import is unknown.
        assert!(!throws_away(&levels(&[("transport", "unix")])));
    }
}

#[cfg(test)]
mod tests_of_brief {
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

#[cfg(test)]
mod tests_of_label {
    use bytegauge_model::factor;

    use super::*;

    #[test]
    fn label_names_the_option_of_a_number() {
        let check = |varied: &[&str], levels: &[(&str, &str)], expected: &str| {
            let mut spec = Spec::default();
            for (name, text) in levels {
                spec.set(name, factor::find(name).unwrap().kind.parse(text).unwrap());
            }
            let varied: Vec<String> = varied.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(option_label(&varied, &spec), expected);
        };
        let of = |role: &'static str| [("transport", "tcp"), ("role", role), ("read_size", "64K"), ("rcvbuf", "256K")];
        check(&["read_size"], &of("reader"), "64K");
        check(&["read_size"], &of("both"), "read 64K");
        check(&["rcvbuf"], &of("reader"), "SO_RCVBUF 256K");
        check(&["read_size", "rcvbuf"], &of("reader"), "64K + SO_RCVBUF 256K");
        check(&["rcvbuf"], &[("transport", "tcp"), ("rcvbuf", "auto")], "SO_RCVBUF auto");
        check(&["congestion"], &[("transport", "tcp"), ("congestion", "bbr")], "bbr");
        check(&["engine"], &[("transport", "tcp"), ("engine", "epoll")], "epoll");
        check(&["relay"], &[("relay", "tokio")], "tokio 8K");
        check(&["relay"], &[("relay", "tokio"), ("relay_buffer", "64K")], "tokio");
        check(&["relay"], &[("relay", "splice")], "splice");
    }
}
