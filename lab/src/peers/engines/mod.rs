//! `engines`: every engine and a minimal C program of the same kind, one end at a time, against the same other end.
//!
//! In each round all entrants of a case run once, ours and theirs, in random order on the same CPUs. A row is the ratio within
//! rounds, of rates and of CPU time for a unit. Rounds are kept in a file, so that rows can be measured in portions.

mod rows;
mod trial;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bytegauge_stats::quantile::{MedianEstimate, median};
use bytegauge_sys::environment::MachineEnvironment;
use serde::{Deserialize, Serialize};

use super::PeerTests;
use super::programs::{self, InC};
use crate::peers::{Rates, interval, over, over_among};
pub use rows::is_asked;
use rows::{EngineCase, Entrant, cases, row_name};
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
    ours: SideRates,
    in_c: SideRates,
}

/// Rows by name.
type ProgramsRows = BTreeMap<String, ProgramsRow>;

/// Measures the rows that are asked for, and makes tables of all that were measured so far.
///
/// # Errors
/// When a program does not build, or nothing is asked for.
pub fn compared(bench: &mut PeerTests) -> Result<String> {
    programs::prepare_uring().map_err(anyhow::Error::msg)?;
    for program in PROGRAMS {
        program.built()?;
    }
    programs::build_tokio_echo()?;
    let folder = cargo::workspace()?.target_directory.join("peers");
    let counter = tempfile::NamedTempFile::new().context("making the counter")?;
    let programs =
        EnginePrograms { ours: bench.program.clone(), counter: counter.path().to_owned(), folder: folder.clone() };
    let store = folder.join("engines.json");
    let mut rows = stored(&store)?;
    let mut left_out = Vec::new();
    for case in if bench.rounds > 0 { cases() } else { Vec::new() } {
        let is_asked = |entrant: &Entrant| is_asked(&row_name(&case, entrant), bench.rows.as_deref());
        let entrants: Vec<Entrant> = case.entrants().into_iter().filter(is_asked).collect();
        let found = rounds(&programs, &case, &entrants, bench, &mut left_out)?;
        for (entrant, row) in entrants.iter().zip(found) {
            eprintln!("{}", line(&case, entrant, &row));
            rows.insert(row_name(&case, entrant), row);
        }
        fs::write(&store, serde_json::to_string(&rows)?).context("keeping the rounds")?;
    }
    ensure!(!rows.is_empty(), "no row was measured: check --rows");
    left_out.dedup();
    left_out.iter().for_each(|reason| eprintln!("left out: {reason}"));
    Ok(document(&rows))
}

/// Runs the rounds of a case.
fn rounds(
    programs: &EnginePrograms,
    case: &EngineCase,
    entrants: &[Entrant],
    bench: &mut PeerTests,
    left_out: &mut Vec<String>,
) -> Result<Vec<ProgramsRow>> {
    let mut rows = vec![ProgramsRow::default(); entrants.len()];
    let mut turns: Vec<(usize, ProgramSide)> =
        (0..entrants.len()).flat_map(|at| [(at, ProgramSide::Ours), (at, ProgramSide::InC)]).collect();
    for round in 0..bench.rounds {
        let (measured, others) = bench.deal();
        bench.random.shuffle(&mut turns);
        for (at, side) in &turns {
            let found = programs.trial(case, &entrants[*at], *side, Cpus { measured, others }, bench.window);
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
    let shown = |rates: &Rates| {
        median(&rates.values().copied().collect::<Vec<_>>())
            .map_or_else(|| "–".into(), |rate| format!("{:.3}", rate / scale))
    };
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

/// All tables.
fn document(rows: &ProgramsRows) -> String {
    let MachineEnvironment { cpu, kernel_release, .. } = MachineEnvironment::read();
    // The part behind the version is the builder's own and may contain a customer's name.
    let kernel = kernel_release.unwrap_or_default();
    let kernel = kernel.split(['-', '+']).next().unwrap_or_default();
    let mut text = format!(
        "{}, Linux {kernel}. A cell is bytegauge over the C program: ratio of rates / ratio of work per CPU second. Above 1, bytegauge \
         is better. Bold: the median is below {AIM}, or the 95 % interval reaches below {AIM_LOWER}.\n",
        cpu.model.as_deref().unwrap_or("unknown CPU")
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
    text + &rankings(rows, &all)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(rate: f64) -> Rates {
        (0..12).map(|round| (round, rate)).collect()
    }

    fn row(ours: f64, in_c: f64) -> ProgramsRow {
        let side = |rate| SideRates { rates: rates(rate), per_cpu_second: rates(rate) };
        ProgramsRow { ours: side(ours), in_c: side(in_c) }
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
