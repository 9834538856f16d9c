//! `docs/factors.md`: every factor, and the names that its levels may have.

use anyhow::Result;
use bytegauge_model::catalog::{Batches, ENGINES, EngineEnd, PROFILES, TRANSPORTS, Threads};
use bytegauge_model::factor::{self, Factor, Role};
use bytegauge_model::level::Kind;
use bytegauge_model::meaning;
use bytegauge_model::relay_program::READY_RELAYS;
use bytegauge_model::{Bytes, Nanos, Transport, WORKLOADS, Workload};

use xtask::markdown::{code, table};

const INTRODUCTION: &str = "# Factors

Everything that `bytegauge stream`, `bytegauge call`, `bytegauge ring` and `bytegauge run` can vary. Each factor is a flag, and a key of the same name in
a plan file. It takes one level, a list (`4K,64K,1M`), or, where levels are numbers, a range (`4K..1M`: doubling, both
ends included). A **choice** is what you may set: choices are compared. A **condition** is what life imposes: it is
never compared, it tells where an answer holds.

";

/// The document.
pub fn text() -> Result<String> {
    let headings = ["flag", "key", "role", "levels", "default", "transports", "what it is"];
    let mut text = INTRODUCTION.to_owned();
    for row in WORKLOADS {
        text.push_str(&format!("\n## `{}`: {}\n\n", row.name, row.summary));
        text.push_str(&table(&headings, factor::of(row.value).map(|factor| factor_row(row.value, factor))));
    }
    text.push_str("\nIn `call`, `--engine` sets `--server-engine` and `--client-engine`.\n");
    text.push_str("\n## Transports\n\n");
    text.push_str(&names("transport"));
    text.push_str("| `/dev/zero`, `./file`, … | a device or any readable file: one end, nobody writes |\n");
    text.push_str("\n## Placements\n\n");
    text.push_str(&names("placement"));
    text.push_str("\n## Engines\n\n");
    text.push_str(&engines());
    text.push_str("\nWhich of them carry what:\n\n");
    text.push_str(&table(&["end", "transports", "engines"], carriers()));
    text.push_str("\n## Arrivals (`--arrivals`)\n\n");
    text.push_str(&names("arrivals"));
    text.push_str("\n## Sockets (`--rcvbuf-on`)\n\n");
    text.push_str(&names("rcvbuf_on"));
    text.push_str("\n## Relays (`--relay`)\n\nWhat each of them does in the kernel: [relays.md](relays.md).\n\n");
    let is_ours = |(name, _): &(&str, &str)| READY_RELAYS.iter().all(|ready| ready.name != *name);
    text.push_str(&listed(meaning::of("relay").into_iter().filter(is_ours)));
    text.push_str("\n## Programs that relay (`--relay`)\n\nBeside them `cmd:WORDS`: any program.\n\n");
    let rows = READY_RELAYS.iter().map(|ready| vec![code(ready.name), ready.summary.into(), ready.install.into()]);
    text.push_str(&table(&["name", "what it is", "how to get it"], rows));
    text.push_str("\n## Threads of a relay (`--relay-threads`)\n\n");
    text.push_str(&names("relay_threads"));
    text.push_str("\n## Places of a relay (`--relay-placement`)\n\n");
    text.push_str(&names("relay_placement"));
    text.push_str(
        "\n## Directions (`--direction`)\n\nBetween this host and a far one: [far-host.md](far-host.md).\n\n",
    );
    text.push_str(&names("direction"));
    text.push_str("\n## Rings (`--implementation`)\n\n");
    text.push_str(&names("implementation"));
    text.push_str("\n## Ring set-ups (`--setup`)\n\nSeveral go together: `single-issuer+no-sqarray`.\n\n");
    text.push_str(&names("setup"));
    text.push_str("\n## User data of a ring (`--user-data`)\n\n");
    text.push_str(&names("user_data"));
    text.push_str("\n## Modes of a ring (`--mode`)\n\n");
    text.push_str(&names("mode"));
    text.push_str("\n## Kinds of ends (`--ends`)\n\n");
    text.push_str(&names("ends"));
    text.push_str("\n## Profiles\n\nA profile sets several conditions at once. A plan file may define more.\n\n");
    let profiles = PROFILES.iter().map(|profile| {
        let sets: Vec<String> = profile.sets.iter().map(|(name, level)| code(format!("{name} = {level}"))).collect();
        vec![code(profile.name), profile.workload.to_string(), sets.join(", "), profile.summary.to_owned()]
    });
    text.push_str(&table(&["name", "workload", "sets", "what it is"], profiles));
    Ok(text)
}

fn factor_row(workload: Workload, factor: &Factor) -> Vec<String> {
    let role = match factor.role {
        Role::Choice => "choice",
        Role::Condition => "condition",
    };
    vec![
        code(format!("--{}", factor.flag())),
        code(factor.name),
        role.to_owned(),
        levels(factor.kind),
        defaults(workload, factor),
        transports(workload, factor),
        factor.description(),
    ]
}

/// The default, and that over datagrams where it differs.
fn defaults(workload: Workload, factor: &Factor) -> String {
    let default = code(factor.default_in(workload).unwrap_or_default());
    let carried = TRANSPORTS.iter().filter_map(|row| row.name.parse::<Transport>().ok());
    let mut datagrams = carried.filter(|transport| transport.is_datagram() && workload.runs_over(transport));
    match factor.defaults.datagrams.filter(|_| datagrams.next().is_some()) {
        Some(other) => format!("{default}; over datagrams {}", code(other)),
        None => default,
    }
}

fn levels(kind: Kind) -> String {
    let or_auto = |text: String, auto: bool| if auto { format!("{text}, or `auto`") } else { text };
    match kind {
        Kind::Size { min, max, auto } => or_auto(format!("{} to {}", Bytes(min), Bytes(max)), auto),
        Kind::SizeOr { min, max, name } => format!("{} to {}, or `{name}`", Bytes(min), Bytes(max)),
        Kind::Count { min, max, auto } => or_auto(format!("{min} to {max}"), auto),
        Kind::Duration { min_ns, max_ns, auto } => {
            or_auto(format!("{} to {}", Nanos(min_ns).compact(), Nanos(max_ns).compact()), auto)
        }
        Kind::PowerOfTwo { max } => format!("powers of two, 1 to {max}"),
        Kind::Rate => "bytes per second, or `max`".to_owned(),
        Kind::CallRate => "calls per second, or `max`".to_owned(),
        Kind::Switch { auto: true } => "`on`, `off`, `auto`".to_owned(),
        Kind::Switch { auto: false } => "`on`, `off`".to_owned(),
        Kind::Value => "sizes, numbers or words".to_owned(),
        Kind::Name(_) => "names".to_owned(),
    }
}

/// The transports that a factor fits, in words.
fn transports(workload: Workload, factor: &Factor) -> String {
    if !workload.has_path() {
        return "none: there is no path of ours".to_owned();
    }
    let source = Transport::Source("/dev/zero".into());
    let carries = |transport: &Transport| workload.runs_over(transport);
    let two_ended: Vec<Transport> = TRANSPORTS.iter().filter_map(|row| row.name.parse().ok()).filter(carries).collect();
    let fitting: Vec<&Transport> = two_ended.iter().filter(|transport| (factor.fits)(transport)).collect();
    match (fitting.len() == two_ended.len(), carries(&source) && (factor.fits)(&source)) {
        (true, _) if workload == Workload::Call => "all sockets".to_owned(),
        (true, true) => "all".to_owned(),
        (true, false) => "all with two ends".to_owned(),
        (false, sources) => {
            let mut names: Vec<String> = fitting.iter().map(code).collect();
            names.extend(sources.then(|| "files and devices".to_owned()));
            names.join(", ")
        }
    }
}

/// The ends of the workloads with a path that an engine can be.
const ENGINE_ENDS: [(Workload, &str, EngineEnd); 3] = [
    (Workload::Stream, "both ends of a `stream`", EngineEnd::Stream),
    (Workload::Call, "the server of a `call`", EngineEnd::Server),
    (Workload::Call, "the client of a `call`", EngineEnd::Client),
];

/// Each engine with how it moves what it carries.
fn engines() -> String {
    let rows = ENGINES.iter().map(|row| {
        let threads = match row.can.threads {
            Threads::PerFlow => "one a flow",
            Threads::Shared => "shared",
        };
        let batches = match row.can.batches {
            Batches::None => "",
            Batches::Calls => "`--batch` a call",
            Batches::Cuts => "`--batch` a send",
        };
        let outstanding = if row.can.outstanding { "`--outstanding` receives" } else { "" };
        let at_once: Vec<&str> = [batches, outstanding].into_iter().filter(|text| !text.is_empty()).collect();
        vec![code(row.name), threads.to_owned(), at_once.join(", "), row.summary.to_owned()]
    });
    table(&["name", "threads for connections", "datagrams at once", "what it is"], rows)
}

/// Rows of ends, the transports over which the same engines carry them, and these engines.
fn carriers() -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (workload, end, role) in ENGINE_ENDS {
        let names = TRANSPORTS.iter().map(|row| row.name).chain(["/dev/zero"]);
        let transports = names.filter_map(|name| name.parse::<Transport>().ok());
        for transport in transports.filter(|transport| workload.runs_over(transport)) {
            let fitting = ENGINES.iter().filter(|row| row.value.carries(role, &transport));
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

/// The names that the levels of a factor have, each with what it means.
fn names(factor: &str) -> String {
    listed(meaning::of(factor))
}

fn listed(names: impl IntoIterator<Item = (&'static str, &'static str)>) -> String {
    table(&["name", "what it is"], names.into_iter().map(|(name, meaning)| vec![code(name), meaning.to_owned()]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_model::factor::find;

    fn check(name: &str, expected: &str) {
        let row = factor_row(Workload::Stream, find(name).unwrap());
        assert_eq!(row[..6].join(" · "), expected);
    }

    #[test]
    fn engines_stand_beside_what_they_carry() {
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
            "`--write-size` · `write_size` · choice · 1 B to 16 MiB · `16K..1M`; over datagrams `64,512,1000,4K,16K,60K` · \
             all with two ends",
        );
        check("nodelay", "`--nodelay` · `nodelay` · choice · `on`, `off`, `auto` · `auto` · `tcp`, `tcp6`");
        check("flows", "`--flows` · `flows` · condition · 1 to 65536 · `1` · all");
    }
}
