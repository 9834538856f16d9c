//! `engines`: every engine and a minimal C program of the same kind, one end at a time, against the same other end.
//!
//! A case is one end with one traffic; every engine that can be that end is an entrant with its C program. In each round all entrants
//! of a case run once, ours and theirs. A row is the ratio within rounds, of rates and of work per CPU second. Rounds are kept in a
//! file, so that rows can be measured in portions.

mod trial;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use anyhow::{Context, Result, ensure};
use bytegauge_model::{Bytes, EndRole};
use bytegauge_stats::quantile::MedianEstimate;
use bytegauge_sys::environment::MachineEnvironment;
use xtask::markdown::table;

use super::{PairRates, PeerTests, programs};
use trial::EnginePrograms;

/// The C programs of the rows, with the libraries that they need.
const PROGRAMS: [(&str, &[&str]); 5] =
    [("blocking", &[]), ("epoll", &[]), ("uring", &["-luring"]), ("datagram", &[]), ("relay", &[])];

/// A ratio below this, or an interval that reaches below [`AIM_LOWER`], is marked.
const AIM: f64 = 0.97;
const AIM_LOWER: f64 = 0.95;

/// The traffic between the ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// Bytes one way; the size is that of a read and a write.
    Stream,
    /// Echo calls; the size is that of a request and a reply.
    Calls,
    /// Datagrams one way.
    Datagrams,
}

/// One end with one traffic.
#[derive(Clone, Copy, Debug)]
struct EngineCase {
    end: EndRole,
    traffic: Traffic,
    /// As `--transport` takes it.
    transport: &'static str,
    connections: u64,
    size: u64,
}

/// An engine and a program of the same kind.
#[derive(Clone, Copy, Debug)]
struct Entrant {
    /// As `--engine` or `--relay` takes it.
    ours: &'static str,
    /// The program that it is compared with, as it is built.
    program: &'static str,
    mode: &'static str,
}

const fn entrant(ours: &'static str, program: &'static str, mode: &'static str) -> Entrant {
    Entrant { ours, program, mode }
}

const ENGINES: [Entrant; 4] = [
    entrant("blocking", "blocking", "-"),
    entrant("epoll", "epoll", "-"),
    entrant("uring:plain", "uring", "plain"),
    entrant("uring:multishot", "uring", "multishot"),
];
const ZERO_COPY: Entrant = entrant("uring:zc", "uring", "zc");
/// Tokio's own users write Rust; it serves TCP alone.
const TOKIO: Entrant = entrant("tokio", "tokio-echo/release/tokio-echo", "-");
const DATAGRAMS: [Entrant; 3] =
    [entrant("plain", "datagram", "plain"), entrant("mmsg", "datagram", "mmsg"), entrant("gso", "datagram", "gso")];
const RELAYS: [Entrant; 5] = [
    entrant("read-write", "relay", "read-write"),
    entrant("splice", "relay", "splice"),
    entrant("epoll", "relay", "epoll"),
    entrant("uring", "uring", "plain"),
    entrant("uring-multishot", "uring", "multishot"),
];

const STREAM_SIZES: [u64; 3] = [4 << 10, 64 << 10, 256 << 10];
/// Bytes of a message of which each has a call of its own.
const MESSAGE_SIZE: u64 = 64;
/// Bytes of a datagram: small ones, and nearly an MTU of Ethernet.
const DATAGRAM_SIZES: [u64; 2] = [64, 1000];
/// Bytes of a relay's buffer for one direction.
const RELAY_BUFFER: u64 = 64 << 10;

/// All cases; those of one table follow each other.
fn cases() -> Vec<EngineCase> {
    let mut cases = Vec::new();
    let mut case = |end, traffic, transport, connections, size| {
        cases.push(EngineCase { end, traffic, transport, connections, size });
    };
    for end in [EndRole::Sink, EndRole::Source] {
        for transport in ["unix", "tcp"] {
            STREAM_SIZES.iter().for_each(|size| case(end, Traffic::Stream, transport, 1, *size));
        }
        case(end, Traffic::Stream, "tcp", 1, MESSAGE_SIZE);
        DATAGRAM_SIZES.iter().for_each(|size| case(end, Traffic::Datagrams, "udp", 1, *size));
    }
    for end in [EndRole::Server, EndRole::Client] {
        case(end, Traffic::Calls, "unix", 50, 512);
        for connections in [1, 50, 500] {
            [64, 512, 10 << 10].iter().for_each(|size| case(end, Traffic::Calls, "tcp", connections, *size));
        }
    }
    case(EndRole::Relay, Traffic::Stream, "tcp", 1, RELAY_BUFFER);
    case(EndRole::Relay, Traffic::Calls, "tcp", 50, 10 << 10);
    cases
}

impl EngineCase {
    /// The engines that can be this end, in the order of the table.
    fn entrants(&self) -> Vec<Entrant> {
        match (self.end, self.traffic, self.transport) {
            (EndRole::Relay, ..) => RELAYS.to_vec(),
            (_, Traffic::Datagrams, _) => DATAGRAMS.to_vec(),
            (EndRole::Source, _, "unix") => ENGINES[..3].to_vec(),
            (EndRole::Source, ..) => [&ENGINES[..3], &[ZERO_COPY]].concat(),
            (EndRole::Server, _, "tcp") => [&ENGINES[..], &[TOKIO]].concat(),
            _ => ENGINES.to_vec(),
        }
    }

    /// The end's name in the document, and as the C programs take it.
    fn end_name(&self) -> &'static str {
        match self.end {
            EndRole::Source => "writer",
            EndRole::Sink => "reader",
            other => other.name(),
        }
    }

    /// The traffic, without the end: the heading of a column.
    fn column(&self) -> String {
        match self.traffic {
            Traffic::Calls => format!("{} {} × {}", self.transport, self.connections, Bytes(self.size)),
            _ => format!("{} {}", self.transport, Bytes(self.size)),
        }
    }

    /// The name of a row, by which its measurement is stored and `--rows` finds it.
    fn row(&self, entrant: &Entrant) -> String {
        format!("{self} {}", entrant.ours)
    }
}

impl fmt::Display for EngineCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.end_name(), self.column())
    }
}

/// Rows by name.
type ProgramsRows = BTreeMap<String, PairRates>;

/// Measures the rows that are asked for, and makes tables of all that were measured so far.
///
/// # Errors
/// When a program does not build, or nothing is asked for.
pub fn compared(bench: &mut PeerTests) -> Result<String> {
    for (name, libraries) in PROGRAMS {
        programs::built_in_c(name, libraries)?;
    }
    programs::build_tokio_echo()?;
    let folder = programs::folder()?;
    let store = folder.join("engines.json");
    let counter = tempfile::NamedTempFile::new().context("making the counter")?;
    let programs = EnginePrograms { counter: counter.path().display().to_string(), folder };
    let mut rows: ProgramsRows = programs::kept(&store)?.unwrap_or_default();
    for case in if bench.rounds > 0 { cases() } else { Vec::new() } {
        let entrants = case.entrants().into_iter().filter(|entrant| bench.is_asked(&case.row(entrant)));
        let entrants: Vec<Entrant> = entrants.collect();
        let names: Vec<String> = entrants.iter().map(|entrant| case.row(entrant)).collect();
        let found = bench.measured(&names, |bench, at, program, cpus| {
            programs.trial(&case, &entrants[at], (program == 0).then_some(&*bench.program), cpus, bench.window)
        });
        rows.extend(names.into_iter().zip(found));
        fs::write(&store, serde_json::to_string(&rows)?).context("keeping the rounds")?;
    }
    ensure!(!rows.is_empty(), "no row was measured: check --rows");
    Ok(document(&rows))
}

/// All tables: one for each end and traffic.
fn document(rows: &ProgramsRows) -> String {
    let MachineEnvironment { cpu, kernel_release, .. } = MachineEnvironment::read();
    // The part behind the version is the builder's own and may contain a customer's name.
    let kernel = kernel_release.unwrap_or_default();
    let kernel = kernel.split(['-', '+']).next().unwrap_or_default();
    let heading = format!(
        "{}, Linux {kernel}. A cell is bytegauge over the C program: ratio of rates / ratio of work per CPU second. Above 1, bytegauge \
         is better. Bold: the median is below {AIM}, or the 95 % interval reaches below {AIM_LOWER}.\n",
        cpu.model.as_deref().unwrap_or("unknown CPU")
    );
    let cases = cases();
    let tables = cases.chunk_by(|one, next| (one.end, one.traffic) == (next.end, next.traffic));
    heading + &tables.map(|columns| part(rows, columns)).collect::<String>()
}

/// The table of one end and traffic; empty if nothing of it was measured.
fn part(rows: &ProgramsRows, columns: &[EngineCase]) -> String {
    // The longest list has the engines of all others.
    let entrants = columns.iter().map(EngineCase::entrants).max_by_key(Vec::len).unwrap_or_default();
    let line = |entrant: &Entrant| -> Option<Vec<String>> {
        let found: Vec<_> = columns.iter().map(|case| rows.get(&case.row(entrant))).collect();
        let name = format!("{} {}", columns[0].end_name(), entrant.ours);
        found.iter().any(Option::is_some).then(|| [vec![name], found.into_iter().map(cell).collect()].concat())
    };
    let lines: Vec<Vec<String>> = entrants.iter().filter_map(line).collect();
    let columns: Vec<String> = columns.iter().map(EngineCase::column).collect();
    let headings: Vec<&str> = ["end, engine"].into_iter().chain(columns.iter().map(String::as_str)).collect();
    if lines.is_empty() { String::new() } else { format!("\n{}", table(&headings, lines)) }
}

fn cell(row: Option<&PairRates>) -> String {
    let is_below = |ratio: &MedianEstimate| {
        ratio.median.is_some_and(|median| median < AIM) || ratio.lower.is_some_and(|lower| lower < AIM_LOWER)
    };
    let shown = |ratio: MedianEstimate| match ratio.median {
        None => "–".to_owned(),
        Some(median) if is_below(&ratio) => format!("**{median:.2}**"),
        Some(median) => format!("{median:.2}"),
    };
    row.map_or_else(|| "–".to_owned(), |row| row.ratios().map(shown).join(" / "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::rates;
    use super::*;

    fn row(ours: f64, in_c: f64) -> PairRates {
        PairRates([rates([ours; 12]), rates([in_c; 12])])
    }

    #[test]
    fn rows_below_the_aim_are_bold() {
        assert_eq!(cell(Some(&row(1.0, 1.0))), "1.00 / 1.00");
        assert_eq!(cell(Some(&row(0.96, 1.0))), "**0.96** / **0.96**");
        let mut wide = row(1.0, 1.0);
        (0..3).for_each(|round| wide.0[0].get_mut(&round).unwrap()[0] = 0.9);
        assert_eq!(cell(Some(&wide)), "**1.00** / 1.00");
        assert_eq!(cell(Some(&PairRates::default())), "– / –");
    }

    #[test]
    fn a_table_has_a_line_for_each_engine() {
        let columns = &cases()[..2];
        let entrants = columns[0].entrants();
        let rows: ProgramsRows = [(columns[0].row(&entrants[1]), row(1.0, 1.0))].into();
        let text = part(&rows, columns);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("| 1.00 / 1.00 | – |"), "{text}");
        assert_eq!(part(&ProgramsRows::new(), columns), "");
    }

    #[test]
    fn rows_have_different_names_and_a_place_in_one_table() {
        let cases = cases();
        let names: Vec<String> = cases
            .iter()
            .flat_map(|case| case.entrants().iter().map(|entrant| case.row(entrant)).collect::<Vec<_>>())
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(names.contains(&"reader tcp 64 KiB uring:multishot".to_owned()), "{names:?}");
        let rows: ProgramsRows = names.iter().map(|name| (name.clone(), row(1.0, 1.0))).collect();
        assert_eq!(document(&rows).matches("1.00 / 1.00").count(), names.len());
    }

    #[test]
    fn engines_are_those_of_the_product() {
        for case in cases() {
            for Entrant { ours, .. } in case.entrants() {
                let is_known = match case.end {
                    EndRole::Relay => ours.parse::<bytegauge_model::RelayMethod>().is_ok(),
                    _ => ours.parse::<bytegauge_model::Engine>().is_ok(),
                };
                assert!(is_known, "{ours}");
            }
        }
    }
}
