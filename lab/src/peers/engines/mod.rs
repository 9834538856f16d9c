//! `engines`: every engine and a minimal C program of the same kind, one end at a time, against the same other end.
//!
//! In each round all entrants of a case run once, ours and theirs, in random order on the same CPUs. A row is the ratio within
//! rounds, of rates and of CPU time for a unit. Rounds are kept in a file, so that rows can be measured in portions.

mod rows;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::interval::MedianEstimate;
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::{self, RandomStream};
use bytegauge_sys::topology::Relation;
use serde::{Deserialize, Serialize};

use super::bench::{PeerTests, host_line};
use super::pairs::{Rates, interval, over, over_among, values};
use super::programs::{self, InC};
use rows::{EngineCase, Entrant, cases, is_asked, row_name};
use trial::{Cpus, EnginePrograms, ProgramSide, RunOutcome};
use xtask::cargo;
use xtask::markdown::table;

/// The C programs of the rows.
const PROGRAMS: [InC; 5] = [
    InC::of("blocking", &["pthread"]),
    InC::of("epoll", &["pthread"]),
    InC::of("uring", &["uring", "pthread"]),
    InC::of("datagram", &["pthread"]),
    InC::of("relay", &["pthread"]),
];

/// A ratio below this, or an interval that reaches below [`AIM_LOWER`], is marked.
const AIM: f64 = 0.97;
const AIM_LOWER: f64 = 0.95;

/// Length of a trial in a smoke test.
const QUICK_WINDOW: Duration = Duration::from_millis(50);

/// One side of a row, by round.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct SideRates {
    /// Units per second.
    rates: Rates,
    /// Units per CPU second of the measured process.
    per_cpu_second: Rates,
}

/// A row.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct ProgramsRow {
    /// The day, UTC.
    date: String,
    ours: SideRates,
    in_c: SideRates,
}

/// Rows by name.
type ProgramsRows = BTreeMap<String, ProgramsRow>;

/// Checks that the C programs can be built.
///
/// # Errors
/// The reason if they cannot.
pub fn prepare(_bench: &PeerTests) -> Result<(), String> {
    programs::prepare_uring()
}

/// Measures the rows that are asked for, and makes the document's part of all that were measured so far.
///
/// # Errors
/// When a program does not build, or nothing is asked for.
pub fn compared(bench: &PeerTests) -> Result<String> {
    let folder = cargo::workspace()?.target_directory.join("peers");
    for program in PROGRAMS {
        program.built()?;
    }
    programs::build_tokio_echo()?;
    let programs = EnginePrograms {
        ours: bench.ours.program().to_owned(),
        counter: bench.ours.file("counter"),
        folder: folder.clone(),
    };
    let store = folder.join("engines.json");
    let mut rows = if bench.effort.quick { ProgramsRows::new() } else { stored(&store)? };
    let mut random = rng::seeded(bench.seed, 0);
    let mut left_out = Vec::new();
    for case in if bench.rounds > 0 { chosen(bench) } else { Vec::new() } {
        let is_asked = |entrant: &Entrant| is_asked(&row_name(&case, entrant), bench.rows.as_deref());
        let entrants: Vec<Entrant> = case.entrants().into_iter().filter(is_asked).collect();
        let found = rounds(&programs, &case, &entrants, bench, &mut random, &mut left_out)?;
        for (entrant, row) in entrants.iter().zip(found) {
            println!("{}", line(&case, entrant, &row));
            rows.insert(row_name(&case, entrant), row);
        }
        if !bench.effort.quick {
            fs::write(&store, serde_json::to_string(&rows)?).context("keeping the rounds")?;
        }
    }
    ensure!(!rows.is_empty(), "no row was measured: check --rows");
    left_out.dedup();
    left_out.iter().for_each(|reason| println!("left out: {reason}"));
    let text = document(&rows, bench)?;
    println!("{text}");
    Ok(text)
}

/// The cases with a row that is asked for; in a smoke test one of each end and traffic.
fn chosen(bench: &PeerTests) -> Vec<EngineCase> {
    let is_asked = |case: &EngineCase| {
        case.entrants().iter().any(|entrant| is_asked(&row_name(case, entrant), bench.rows.as_deref()))
    };
    let mut chosen: Vec<EngineCase> = cases().into_iter().filter(is_asked).collect();
    if bench.effort.quick {
        chosen.sort_by_key(|case| (case.end, case.traffic));
        chosen.dedup_by_key(|case| (case.end, case.traffic));
    }
    chosen
}

/// Runs the rounds of a case.
fn rounds(
    programs: &EnginePrograms,
    case: &EngineCase,
    entrants: &[Entrant],
    bench: &PeerTests,
    random: &mut RandomStream,
    left_out: &mut Vec<String>,
) -> Result<Vec<ProgramsRow>> {
    let (one, other) = *bench
        .topology
        .pairs(Relation::CrossCore)
        .first()
        .context("the two ends need a core each, and this process may use only one")?;
    let (rounds, window) = match bench.effort.quick {
        true => (1, QUICK_WINDOW),
        false => (bench.rounds, Duration::from_millis(bench.window_ms)),
    };
    let mut rows = vec![ProgramsRow { date: bench.date.clone(), ..ProgramsRow::default() }; entrants.len()];
    let mut turns: Vec<(usize, ProgramSide)> =
        (0..entrants.len()).flat_map(|at| [(at, ProgramSide::Ours), (at, ProgramSide::InC)]).collect();
    for round in 0..rounds {
        let (measured, others) = if random.below(2) == 1 { (one, other) } else { (other, one) };
        random.shuffle(&mut turns);
        for (at, side) in &turns {
            let found = programs.trial(case, &entrants[*at], *side, Cpus { measured, others }, window);
            match found.with_context(|| format!("{} {side:?}", row_name(case, &entrants[*at]))) {
                Ok(outcome) => rows[*at].side(*side).add(round, outcome),
                Err(error) => left_out.push(format!("{error:#}")),
            }
        }
    }
    Ok(rows)
}

impl ProgramsRow {
    fn side(&mut self, side: ProgramSide) -> &mut SideRates {
        match side {
            ProgramSide::Ours => &mut self.ours,
            ProgramSide::InC => &mut self.in_c,
        }
    }

    /// Ours over C: of rates, and of units per CPU second.
    fn ratios(&self) -> [MedianEstimate; 2] {
        [over(&self.ours.rates, &self.in_c.rates), over(&self.ours.per_cpu_second, &self.in_c.per_cpu_second)]
    }
}

impl SideRates {
    fn add(&mut self, round: u64, outcome: RunOutcome) {
        self.rates.insert(round, outcome.rate);
        self.per_cpu_second.insert(round, 1e9 / outcome.cpu_ns);
    }
}

fn stored(file: &Path) -> Result<ProgramsRows> {
    match fs::read(file) {
        Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| format!("{}: remove it", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(ProgramsRows::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", file.display())),
    }
}

/// Whether a ratio misses the aim.
fn is_below(ratio: &MedianEstimate) -> bool {
    ratio.median.is_some_and(|median| median < AIM) || ratio.lower.is_some_and(|lower| lower < AIM_LOWER)
}

/// A row on the terminal.
fn line(case: &EngineCase, entrant: &Entrant, row: &ProgramsRow) -> String {
    let (unit, scale) = case.unit();
    let [rate, per_cpu] = row.ratios();
    let shown =
        |rates: &Rates| median(&values(rates)).map_or_else(|| "–".into(), |rate| format!("{:.3}", rate / scale));
    let mark = if is_below(&rate) || is_below(&per_cpu) { "  BELOW" } else { "" };
    format!(
        "{}: ours {} C {} {unit}; rate {}; per CPU second {}{mark}",
        row_name(case, entrant),
        shown(&row.ours.rates),
        shown(&row.in_c.rates),
        interval(&rate),
        interval(&per_cpu)
    )
}

/// The document's part.
fn document(rows: &ProgramsRows, bench: &PeerTests) -> Result<String> {
    let days: Vec<&str> = rows.values().map(|row| row.date.as_str()).collect();
    let (first, last) = (days.iter().min().unwrap_or(&""), days.iter().max().unwrap_or(&""));
    let environment = host_line();
    let mut text = format!(
        "## Engines, compared with C programs\n\nMeasured by `cargo lab peers engines` from {first} to {last}. {environment}, \
         {} CPUs. A cell is bytegauge over the C program: ratio of rates / ratio of work per CPU second. Above 1, bytegauge is \
         better. Bold: the median is below {AIM}, or the 95 % interval reaches below {AIM_LOWER}.\n",
        bench.topology.cpus.len()
    );
    let all = cases();
    let mut done: Vec<(bytegauge_model::EndRole, rows::Traffic)> = Vec::new();
    for case in &all {
        if done.contains(&(case.end, case.traffic)) {
            continue;
        }
        done.push((case.end, case.traffic));
        let columns: Vec<&EngineCase> =
            all.iter().filter(|other| (other.end, other.traffic) == (case.end, case.traffic)).collect();
        text.push_str(&part(rows, &columns));
    }
    text.push_str(&rankings(rows, &all));
    text.push_str(&format!("\n{METHOD}"));
    Ok(text)
}

/// The table of one end and traffic.
fn part(rows: &ProgramsRows, columns: &[&EngineCase]) -> String {
    let Some(first) = columns.first() else { return String::new() };
    let mut entrants: Vec<Entrant> = columns.iter().flat_map(|case| case.entrants()).collect();
    let mut names = Vec::new();
    entrants.retain(|entrant| {
        !names.contains(&entrant.ours) && {
            names.push(entrant.ours);
            true
        }
    });
    let cells = |entrant: &Entrant| -> Vec<String> {
        let cell = |case: &&EngineCase| rows.get(&row_name(case, entrant)).map_or_else(|| "–".into(), cell);
        columns.iter().map(cell).collect()
    };
    let lines: Vec<Vec<String>> = entrants
        .iter()
        .map(|entrant| [vec![format!("{} {}", first.end_name(), entrant.ours)], cells(entrant)].concat())
        .filter(|line| line.iter().skip(1).any(|cell| cell != "–"))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    let headings: Vec<String> =
        ["end, engine".to_owned()].into_iter().chain(columns.iter().map(|case| case.column())).collect();
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    format!("\n{}", table(&headings, lines))
}

fn cell(row: &ProgramsRow) -> String {
    let shown = |ratio: &MedianEstimate| match ratio.median {
        None => "–".to_owned(),
        Some(median) if is_below(ratio) => format!("**{median:.2}**"),
        Some(median) => format!("{median:.2}"),
    };
    let [rate, per_cpu] = row.ratios();
    format!("{} / {}", shown(&rate), shown(&per_cpu))
}

/// The pairs of engines that both programs rank, and rank differently.
fn rankings(rows: &ProgramsRows, cases: &[EngineCase]) -> String {
    let mut found = Vec::new();
    for case in cases {
        let measured: Vec<(Entrant, &ProgramsRow)> = case
            .entrants()
            .into_iter()
            .filter_map(|entrant| Some((entrant, rows.get(&row_name(case, &entrant))?)))
            .collect();
        let pairs = measured.len() * measured.len().saturating_sub(1) / 2;
        for (at, (one, of_one)) in measured.iter().enumerate() {
            for (other, of_other) in &measured[at + 1..] {
                for (what, rates) in MEASURES {
                    let ratio = |side: fn(&ProgramsRow) -> &SideRates| {
                        over_among(rates(side(of_one)), rates(side(of_other)), pairs.max(1))
                    };
                    let (ours, in_c) = (ratio(|row| &row.ours), ratio(|row| &row.in_c));
                    if is_reversed(&ours, &in_c) {
                        let name = format!("{case}: {} over {}, {what}", one.ours, other.ours);
                        found.push(vec![name, interval(&ours), interval(&in_c)]);
                    }
                }
            }
        }
    }
    if found.is_empty() {
        return "\nEvery pair of engines that both programs rank is ranked in the same order.\n".to_owned();
    }
    let headings = ["ranked differently", "bytegauge (95 %, for all pairs of the case)", "C"];
    format!("\n{}", table(&headings, found))
}

type OfMeasured = fn(&SideRates) -> &Rates;

const MEASURES: [(&str, OfMeasured); 2] =
    [("rate", |measured| &measured.rates), ("work per CPU second", |measured| &measured.per_cpu_second)];

/// Whether both are decided, and in opposite ways.
fn is_reversed(ours: &MedianEstimate, in_c: &MedianEstimate) -> bool {
    let above = |ratio: &MedianEstimate| ratio.lower.is_some_and(|lower| lower > 1.0);
    let below = |ratio: &MedianEstimate| ratio.upper.is_some_and(|upper| upper < 1.0);
    (above(ours) && below(in_c)) || (below(ours) && above(in_c))
}

const METHOD: &str = "\
- One end is measured at a time. The other end is always the same C program (`lab/peers/c`), for bytegauge and for the C program \
that it is compared with: same CPUs, same socket options, congestion control cubic.
- A round runs every engine of a column once, bytegauge's and the C program's, in random order. A ratio is the median over rounds, its \
interval the sign interval at 95 %.
- The rate is counted by the other end, or for datagrams by the kernel. CPU time is that of the whole measured process, read from \
outside.
- Where the C program has one thread, the end of bytegauge has a descriptor table of its own (`--fd-table private`), except relays.
- The measured end and the other ends have one CPU each. A coin deals the two CPUs in each round.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rate: f64) -> Rates {
        (0..12).map(|round| (round, rate)).collect()
    }

    fn row(ours: f64, in_c: f64) -> ProgramsRow {
        let side = |rate| SideRates { rates: rates(rate), per_cpu_second: rates(rate) };
        ProgramsRow { date: "2030-01-31".into(), ours: side(ours), in_c: side(in_c) }
    }

    #[test]
    fn rows_below_the_aim_are_bold() {
        assert_eq!(cell(&row(1.0, 1.0)), "1.00 / 1.00");
        assert_eq!(cell(&row(0.96, 1.0)), "**0.96** / **0.96**");
        let mut wide = row(1.0, 1.0);
        wide.ours.rates.extend((0..3).map(|round| (round, 0.9)));
        assert_eq!(cell(&wide), "**1.00** / 1.00");
        assert_eq!(cell(&ProgramsRow::default()), "– / –");
    }

    #[test]
    fn opposite_rankings_are_listed() {
        let case = cases()[0];
        let entrants = case.entrants();
        let measured = |first: (f64, f64), second: (f64, f64)| {
            let rows = [first, second].map(|(ours, in_c)| row(ours, in_c));
            entrants.iter().map(|entrant| row_name(&case, entrant)).zip(rows).collect::<ProgramsRows>()
        };
        let opposite = rankings(&measured((2.0, 1.0), (1.0, 2.0)), &[case]);
        assert_eq!(opposite.matches(&format!("{case}: ")).count(), 2, "{opposite}");
        for (first, second) in [((2.0, 3.0), (1.0, 2.0)), ((2.0, 1.0), (1.0, 1.0))] {
            assert!(rankings(&measured(first, second), &[case]).contains("in the same order"));
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_engine() {
        let all = cases();
        let columns: Vec<&EngineCase> = all[..2].iter().collect();
        let entrants = columns[0].entrants();
        let rows: ProgramsRows = [(row_name(columns[0], &entrants[1]), row(1.0, 1.0))].into();
        let text = part(&rows, &columns);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert!(text.contains("| 1.00 / 1.00 | – |"), "{text}");
        assert_eq!(part(&ProgramsRows::new(), &columns), "");
    }
}
