//! `docs/factors.md`: every factor, and the names that its levels may have.

use anyhow::Result;
use bytegauge_model::factor::{self, Factor, Role};
use bytegauge_model::level::LevelKind;
use bytegauge_model::name_tables::{Batches, ENDS, ENGINES, EngineEnd, PROFILES, TRANSPORTS};
use bytegauge_model::relay_program::{READY_RELAYS, ReadyRelay};
use bytegauge_model::value::rows;
use bytegauge_model::{Bytes, Nanos, Transport, Workload};

use super::NOTICE;
use xtask::markdown::{code, table};

const INTRODUCTION: &str = "# Factors

A factor is a setting that can vary. Each one is a flag of `bytegauge stream`, `call`, `ring`, `tune` and `run`, and a
key in a plan file (with `_` in place of `-`). It takes one level, a list (`4K,64K,1M`), or, for numbers, a range (`4K..1M`:
doubled at each step, both ends included).

**Options** are what your program can choose. They are compared. **Conditions** are decided by the environment or the peer. They
are not compared: each combination is a test of its own, except of one that `--compare` names.

`bytegauge stream --help`, `call --help` and the others have the details of each.
";

/// A heading, its workloads, and which of their factors it lists.
type FactorSection = (&'static str, &'static [Workload], fn(&Factor) -> bool);

/// The sections; each factor is in one of them only, except one that has another default for a program.
const SECTIONS: [FactorSection; 5] = [
    ("`stream` and `call`", &[Workload::Stream, Workload::Call], |factor| in_both(factor)),
    ("`stream`: bytes in one direction, or both", &[Workload::Stream], |factor| !in_both(factor)),
    ("`call`: requests and replies", &[Workload::Call], |factor| !in_both(factor)),
    ("`ring`: io_uring operations that do nothing", &[Workload::Ring], |_| true),
    ("`tune`: your own program", &[Workload::Tune], |factor| {
        !in_both(factor) || factor.default_in(Workload::Tune) != factor.default_in(Workload::Stream)
    }),
];

/// Whether streams and calls have the factor.
fn in_both(factor: &Factor) -> bool {
    [Workload::Stream, Workload::Call].iter().all(|workload| factor.default_in(*workload).is_some())
}

/// The document.
pub fn text() -> Result<String> {
    let mut text = format!("{NOTICE}{INTRODUCTION}");
    for (title, workloads, belongs) in SECTIONS {
        text.push_str(&format!("\n## {title}\n"));
        for (role, kind) in [(Role::Choice, "Options"), (Role::Condition, "Conditions")] {
            let rows: Vec<_> = factor::of(workloads[0])
                .filter(|factor| factor.role == role && belongs(factor))
                .map(|factor| factor_row(workloads, factor))
                .collect();
            if !rows.is_empty() {
                text.push_str(&format!("\n{}", table(&[kind, "levels", "default", "description"], rows)));
            }
        }
    }
    text.push_str("\nIn `call`, `--engine` sets `--server-engine` and `--client-engine`.\n");
    for (title, introduction, names) in named() {
        let introduction = if introduction.is_empty() { String::new() } else { format!("{introduction}\n\n") };
        text.push_str(&format!("\n## {title}\n\n{introduction}{names}"));
    }
    Ok(text)
}

/// The sections that explain names of levels: heading, introduction, table.
fn named() -> Vec<(&'static str, &'static str, String)> {
    let is_ours = |(name, _): &(&str, &str)| READY_RELAYS.iter().all(|ready| ready.name != *name);
    let transports =
        names("transport") + "| `/dev/zero`, `./file`, … | a device or any readable file, without a writer |\n";
    let carried = "\nThe ends and transports that each engine supports (`…:sqpoll` where its engine is listed):\n\n";
    let engines = engines() + carried + &table(&["end", "transports", "engines"], carriers());
    vec![
        ("Transports", "", transports),
        ("Placements", "", names("placement")),
        ("Engines", "", engines),
        ("Relays (`--relay`)", "Details of each: [research/relays.md](research/relays.md#methods).", {
            listed(factor::listed("relay").into_iter().filter(is_ours))
        }),
        ("Programs that relay (`--relay`)", "Any other program: `cmd:WORDS` ([relays.md](relays.md)).", ready_relays()),
        ("Threads of a relay (`--relay-threads`)", "", names("relay_threads")),
        ("CPUs of a relay (`--relay-placement`)", "", names("relay_placement")),
        ("Directions (`--direction`)", "", names("direction")),
        ("Profiles (`--profile`)", "A profile sets several conditions. A plan file may define more.", profiles()),
        ("Compared conditions (`--compare`)", "", names("compare")),
        ("Parts of a message (`--message-writes`)", "", names("message_writes")),
        ("Bytes of a writer (`--send-from`)", "", names("send_from")),
        ("Arrivals (`--arrivals`)", "", names("arrivals")),
        ("Sockets (`--rcvbuf-on`)", "", names("rcvbuf_on")),
        ("Rings (`--implementation`)", "", names("implementation")),
        ("Ring set-ups (`--setup`)", "Several can be joined: `single-issuer+no-sqarray`.", names("setup")),
        ("User data of a ring (`--user-data`)", "", names("user_data")),
        ("Modes of a ring (`--mode`)", "", names("mode")),
        ("Ends (`--ends`)", "", listed(rows(ENDS))),
    ]
}

/// Programs that relay. Those in Go share a line: docs/research/relays.md describes each.
fn ready_relays() -> String {
    let (go, programs): (Vec<&ReadyRelay>, Vec<&ReadyRelay>) =
        READY_RELAYS.iter().partition(|ready| ready.name.starts_with("go-"));
    let rows = programs.into_iter().map(|ready| vec![code(ready.name), ready.summary.to_owned()]);
    let names: Vec<String> = go.iter().map(|ready| code(ready.name)).collect();
    format!(
        "{}\nWays to copy in Go ([research/relays.md](research/relays.md#the-go-methods)): {}.\n",
        table(&["name", "description"], rows),
        names.join(", ")
    )
}

fn profiles() -> String {
    let rows = PROFILES.iter().map(|profile| {
        let sets: Vec<String> = profile.sets.iter().map(|(name, level)| code(format!("{name} = {level}"))).collect();
        vec![code(profile.name), profile.workload.to_string(), sets.join(", "), profile.summary.to_owned()]
    });
    table(&["name", "workload", "sets", "description"], rows)
}

/// The row of a factor that these workloads have.
fn factor_row(workloads: &[Workload], factor: &Factor) -> Vec<String> {
    let transports = transports(workloads, factor);
    let summary = match transports.is_empty() {
        true => factor.summary.to_owned(),
        false => format!("{} ({transports})", factor.summary),
    };
    vec![code(format!("--{}", factor.flag())), levels(factor.kind), defaults(workloads, factor), summary]
}

/// The defaults, where they differ also those of a second workload and of datagrams.
fn defaults(workloads: &[Workload], factor: &Factor) -> String {
    let default_in = |workload: &Workload| factor.default_in(*workload).unwrap_or_default();
    let default = default_in(&workloads[0]);
    let mut text = match factor.shown_default("").is_empty() {
        true => code(default),
        false => factor.shown_default(&code(default)),
    };
    for workload in workloads.iter().filter(|workload| default_in(workload) != default) {
        text.push_str(&format!("; `{workload}`: {}", code(default_in(workload))));
    }
    let carried = || TRANSPORTS.iter().filter_map(|row| row.name.parse::<Transport>().ok());
    let is_datagram = |workload: &Workload| {
        carried()
            .any(|transport| transport.is_datagram() && workload.runs_over(&transport) && (factor.fits)(&transport))
    };
    if let Some(other) = factor.defaults.datagrams.filter(|_| workloads.iter().any(is_datagram)) {
        text.push_str(&format!("; datagrams: {}", code(other)));
    }
    text
}

fn levels(kind: LevelKind) -> String {
    let or_word = |text: String, word: Option<&str>| text + &word.map_or(String::new(), |word| format!(", `{word}`"));
    let or_auto = |text: String, auto: bool| or_word(text, auto.then_some("auto"));
    match kind {
        LevelKind::Size { min, max, word } => or_word(format!("{} to {}", Bytes(min), Bytes(max)), word),
        LevelKind::Count { min, max, auto } => or_auto(format!("{min} to {max}"), auto),
        LevelKind::Duration { min_ns, max_ns, auto } => {
            or_auto(format!("{} to {}", Nanos(min_ns).compact(), Nanos(max_ns).compact()), auto)
        }
        LevelKind::PowerOfTwo { max } => format!("powers of two, 1 to {max}"),
        LevelKind::Rate { word } => format!("bytes per second, `{word}`"),
        LevelKind::CallRate => "calls per second, `max`".to_owned(),
        LevelKind::Switch { auto: true } => "`on`, `off`, `auto`".to_owned(),
        LevelKind::Switch { auto: false } => "`on`, `off`".to_owned(),
        LevelKind::Value => "sizes, numbers, words".to_owned(),
        LevelKind::Name(_) => "names".to_owned(),
    }
}

/// A name of a group of transports, and whether one belongs to it.
type TransportGroup = (&'static str, fn(&Transport) -> bool);

const GROUPS: &[TransportGroup] = &[
    ("sockets", Transport::is_socket),
    ("connections", Transport::is_connection),
    ("datagrams", Transport::is_datagram),
    ("TCP", Transport::is_tcp),
    ("TCP and UDP", |transport| transport.is_tcp() || transport.is_udp()),
    ("two ends", Transport::two_ended),
];

/// The transports to which a factor applies, if not all: a group, or their names, where IPv6 is like IPv4.
fn transports(workloads: &[Workload], factor: &Factor) -> String {
    let runs =
        |transport: &Transport| workloads.iter().any(|workload| workload.has_path() && workload.runs_over(transport));
    let carried: Vec<Transport> = TRANSPORTS.iter().map(|row| row.value.clone()).filter(runs).collect();
    let is_like =
        |fits: fn(&Transport) -> bool| carried.iter().all(|transport| fits(transport) == (factor.fits)(transport));
    if is_like(|_| true) {
        return String::new();
    }
    if let Some((name, _)) = GROUPS.iter().find(|(_, fits)| is_like(*fits)) {
        return (*name).to_owned();
    }
    let fitting = carried.iter().filter(|transport| (factor.fits)(transport)).map(Transport::to_string);
    fitting.filter(|name| !name.ends_with('6')).collect::<Vec<_>>().join(", ")
}

/// The ends that an engine can drive.
const ENGINE_ENDS: [(Workload, &str, EngineEnd); 3] = [
    (Workload::Stream, "both ends of a `stream`", EngineEnd::Stream),
    (Workload::Call, "the server of a `call`", EngineEnd::Server),
    (Workload::Call, "the client of a `call`", EngineEnd::Client),
];

/// Each engine with its threads and batches.
fn engines() -> String {
    let rows = ENGINES.iter().map(|row| {
        let threads = if row.can.thread_per_flow { "one per flow" } else { "shared" };
        let batches = match row.can.batches {
            Batches::None => "",
            Batches::Calls => "`--batch` per call",
            Batches::Cuts => "`--batch` per send",
        };
        let outstanding = if row.can.outstanding { "`--outstanding` receives" } else { "" };
        let at_once: Vec<&str> = [batches, outstanding].into_iter().filter(|text| !text.is_empty()).collect();
        vec![code(row.name), threads.to_owned(), at_once.join(", "), row.summary.to_owned()]
    });
    table(&["name", "threads for connections", "datagrams at once", "description"], rows)
}

/// Rows of ends, transports and the engines that support them.
fn carriers() -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (workload, end, role) in ENGINE_ENDS {
        let names = TRANSPORTS.iter().map(|row| row.name).chain(["/dev/zero"]);
        let transports = names.filter_map(|name| name.parse::<Transport>().ok());
        for transport in transports.filter(|transport| workload.runs_over(transport)) {
            let fitting =
                ENGINES.iter().filter(|row| row.value.carries(role, &transport) && !row.name.ends_with(":sqpoll"));
            let engines = fitting.map(|row| code(row.name));
            let engines = engines.collect::<Vec<_>>().join(", ");
            match rows.iter_mut().find(|row| row[0] == end && row[2] == engines) {
                Some(row) => row[1].push_str(&format!(", {}", code(&transport))),
                None => rows.push(vec![end.to_owned(), code(&transport), engines]),
            }
        }
    }
    rows
}

/// The names of a factor's levels, with their meaning.
fn names(factor: &str) -> String {
    listed(factor::listed(factor))
}

fn listed(names: impl IntoIterator<Item = (&'static str, &'static str)>) -> String {
    table(&["name", "description"], names.into_iter().map(|(name, meaning)| vec![code(name), meaning.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::factor::find;

    fn check(name: &str, expected: &str) {
        let row = factor_row(&[Workload::Stream, Workload::Call], find(name).unwrap());
        assert_eq!(row[..3].join(" · "), expected);
    }

    #[test]
    fn engines_are_listed_with_their_transports() {
        let check = |end: &str, transport: &str, expected: &[&str], others: &[&str]| {
            let rows = carriers();
            let row = rows.iter().find(|row| row[0].contains(end) && row[1].contains(&code(transport))).unwrap();
            assert!(expected.iter().all(|engine| row[2].contains(&code(engine))), "{row:?}");
            assert!(!others.iter().any(|engine| row[2].contains(&code(engine))), "{row:?}");
        };
        check("`stream`", "tcp", &["blocking", "null", "epoll", "tokio", "uring:zc"], &["plain", "gso"]);
        check("`stream`", "udp", &["null", "plain", "mmsg", "gso", "uring:plain"], &["blocking", "uring:zc"]);
        check("`stream`", "pipe", &["blocking", "null", "epoll"], &["tokio", "uring:plain"]);
        check("`stream`", "unix-dgram", &["plain", "mmsg"], &["gso"]);
        check("server", "udp", &["plain", "mmsg", "uring:multishot"], &["gso", "null"]);
        check("client", "udp", &["plain", "mmsg"], &["gso", "uring:plain"]);
        check("client", "tcp", &["blocking", "uring:plain"], &["null"]);
    }

    #[test]
    fn rows() {
        check(
            "write_size",
            "`--write-size` · 1 B to 16 MiB · `16K..1M`; `call`: ``; datagrams: `64,512,1000,4K,16K,60K`",
        );
        check("nodelay", "`--nodelay` · `on`, `off`, `auto` · `auto`");
        check("flows", "`--flows` · 1 to 65536 · `1`; `call`: `50`");
    }

    #[test]
    fn a_factor_has_one_row() {
        let text = text().unwrap();
        for name in ["--flows", "--read-size", "--link-delay", "--slo"] {
            assert_eq!(text.matches(&format!("\n| `{name}` |")).count(), 1, "{name}");
        }
    }
}
