//! How levels are named in sentences and labels: "Unix sockets", "read with 32 KiB", "ends on the same CPU".
//!
//! Only words: the view decides what is reported.

mod brief;

use bytegauge_bottleneck::UNKNOWN;
use bytegauge_model::factor;
use bytegauge_model::{Level, Placement, Spec, Work, without_digits};

pub use brief::{code, compact, condition, in_code, profile_brief, rate_unit, word};

/// Conditions that a profile sets, and the profile itself: groups that agree in all others share one verdict.
pub const PROFILE_FACTORS: &[&str] = &["profile", "work", "working_set", "writer_work", "call_work", "idle_flows"];

/// The name of a limit for people.
pub fn limit(name: &'static str) -> &'static str {
    match name {
        "window" => "full TCP window",
        "the harness" => "the measurement itself",
        "wake-ups" => "waits for wake-ups",
        UNKNOWN => "no limit found",
        other => other,
    }
}

/// Each text once, in order, with the names that have it.
pub fn grouped(pairs: impl IntoIterator<Item = (String, String)>) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for (text, name) in pairs {
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => all.push((text, vec![name])),
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
