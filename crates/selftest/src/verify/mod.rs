//! The method's promises, checked where the truth is known.
//!
//! Every row is a simulation with a target. The negative controls are the same code and data with
//! one switch changed; they have to *miss* the target, or the test could not see what it is for. A
//! row that misses is reported as it is.
//!
//! A target is widened by three Monte-Carlo standard errors, since a few hundred repetitions cannot tell 94.9 % from 95 %.
//!
//! Rows that need a real machine (A/A and a calibrated slowdown on real sockets, planted artefacts)
//! are not here.

mod best_set;
mod comparisons;
mod intervals;
mod models;
mod recommended;
mod repeated;
mod stages;

use bytegauge_stats::rng::{RandomStream, seeded};
use serde::Serialize;

/// How much to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Too little for an analysis, and finished at once; for tests of code that shows the table.
    Glance,
    /// Seconds; for the tests of this crate.
    Test,
    /// Less than a minute; for the self-test on a user's machine.
    Minute,
}

/// One line of the verification table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerificationRow {
    /// The tested property.
    pub name: String,
    /// The target as text; "published" if the number has no target.
    pub target: String,
    /// The result, in `unit`.
    pub got: f64,
    /// Unit of `got`.
    pub unit: String,
    /// Whether it is as it should be. For a negative control: whether it misses the target, as it
    /// must.
    pub passed: bool,
    /// Whether the method was crippled on purpose.
    pub negative_control: bool,
    /// Repetitions, and what else was seen.
    pub note: String,
}

impl VerificationRow {
    /// The row of a crippled method: it passes if the demand is missed. A control has to miss clearly, so the widening works against it.
    fn control(self) -> VerificationRow {
        let target = format!("must miss: {}", self.target);
        VerificationRow { target, passed: !self.passed, negative_control: true, ..self }
    }
}

/// The target of a number that has none: what the harness measures of a machine.
pub const PUBLISHED: &str = "published";

/// A part of the table: its name, and what makes its rows.
type TablePart = (&'static str, fn(Runs) -> Vec<VerificationRow>);

/// Every part, in the order of the table. The same scale and seed give the same rows, whichever others are run.
const PARTS: [TablePart; 14] = [
    ("sign intervals", intervals::sign_coverage),
    ("paired differences", intervals::paired_coverage),
    ("winner's curse", intervals::winners_curse),
    ("rounds", intervals::rounds),
    ("best set", best_set::kept),
    ("claims", best_set::claims),
    ("twin", best_set::twin_alarms),
    ("two stages", stages::rows),
    ("recommendations", recommended::rows),
    ("analyses", repeated::analyses),
    ("audit", repeated::audits),
    ("several sessions", repeated::sessions),
    ("two subjects", comparisons::rows),
    ("calls, warm-up, modes", models::rows),
];

/// Runs the whole table. `progress` is called before each part with the number of parts done, their total and the name of
/// the next.
pub fn run(scale: Scale, seed: u64, mut progress: impl FnMut(usize, usize, &str)) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (done, (name, part)) in PARTS.into_iter().enumerate() {
        progress(done, PARTS.len(), name);
        rows.extend(part(Runs::new(scale, seed)));
    }
    progress(PARTS.len(), PARTS.len(), "done");
    rows
}

/// The target of a share: at least the first and at most the second number, in per cent.
#[derive(Clone, Copy)]
struct Demand(f64, f64);

impl Demand {
    const fn at_least(least: f64) -> Demand {
        Demand(least, 100.0)
    }

    const fn at_most(most: f64) -> Demand {
        Demand(0.0, most)
    }

    /// The target as text, and how far chance alone may miss it in `of` repetitions.
    fn words(self, of: usize) -> String {
        let give = slack(self.0, of).max(slack(self.1, of));
        let by_chance = format!(" (give or take {give:.2} % by chance, with {of} repetitions)");
        match self {
            Demand(low, 100.0) => format!("at least {low} %{by_chance}"),
            Demand(0.0, high) => format!("at most {high} %{by_chance}"),
            Demand(low, high) => format!("{low} to {high} %{by_chance}"),
        }
    }

    /// Whether a share of `of` repetitions meets the demand.
    fn met(self, percent: f64, of: usize) -> bool {
        (self.0 - slack(self.0, of)..=self.1 + slack(self.1, of)).contains(&percent)
    }
}

/// Three standard errors of a share of `of` repetitions whose truth is `edge`, both in per cent.
fn slack(edge: f64, of: usize) -> f64 {
    3.0 * (edge * (100.0 - edge) / of.max(1) as f64).sqrt()
}

/// Counts how often something held.
#[derive(Clone, Copy, Default)]
struct RunTally {
    held: usize,
    of: usize,
}

/// How many runs each row counts, and the seed of their random numbers.
#[derive(Clone, Copy)]
struct Runs {
    scale: Scale,
    seed: u64,
    least: usize,
}

impl Runs {
    fn new(scale: Scale, seed: u64) -> Runs {
        Runs { scale, seed, least: 40 }
    }

    /// The same with at least this many repetitions, where fewer would show nothing.
    fn at_least(self, least: usize) -> Runs {
        Runs { least, ..self }
    }

    /// Repetitions: `minute` on a user's machine, fewer in tests.
    fn repetitions(self, minute: usize) -> usize {
        match self.scale {
            Scale::Glance => 8,
            Scale::Test => (minute * 3 / 20).max(self.least),
            Scale::Minute => minute.max(self.least),
        }
    }

    /// Counts how often each of some properties holds, if a run shows them at all. Each run has random numbers and a seed of its own.
    fn tally<const N: usize, T: Into<Option<bool>>>(
        self,
        minute: usize,
        stream: u64,
        mut run: impl FnMut(&mut RandomStream, u64) -> [T; N],
    ) -> [RunTally; N] {
        let mut tallies = [RunTally::default(); N];
        for at in 0..self.repetitions(minute) as u64 {
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(at);
            let held = run(&mut seeded(seed, stream), seed).map(Into::into);
            for (tally, held) in tallies.iter_mut().zip(held) {
                tally.of += usize::from(held.is_some());
                tally.held += usize::from(held == Some(true));
            }
        }
        tallies
    }
}

/// A row of a share.
fn row(tally: RunTally, name: impl Into<String>, demand: Demand) -> VerificationRow {
    let RunTally { held, of } = tally;
    let percent = 100.0 * held as f64 / of.max(1) as f64;
    number(name, demand.words(of), percent, "%", demand.met(percent, of), format!("{held} of {of}"))
}

/// A number that is judged by the caller.
pub(crate) fn number(
    name: impl Into<String>,
    target: impl Into<String>,
    got: f64,
    unit: &str,
    passed: bool,
    note: impl Into<String>,
) -> VerificationRow {
    let (name, target, note) = (name.into(), target.into(), note.into());
    VerificationRow { name, target, got, unit: unit.to_owned(), passed, negative_control: false, note }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_glance_has_every_row() {
        let mut calls = Vec::new();
        let rows = run(Scale::Glance, 1, |done, total, name| calls.push((done, total, name.to_owned())));
        assert_eq!(calls.len(), PARTS.len() + 1);
        assert_eq!(calls.last(), Some(&(PARTS.len(), PARTS.len(), "done".to_owned())));
        assert!(rows.iter().all(|row| !row.name.is_empty() && !row.target.is_empty() && !row.note.is_empty()));
        assert_eq!(rows, run(Scale::Glance, 1, |_, _, _| {}), "the same seed gives the same rows");
        assert_ne!(rows, run(Scale::Glance, 2, |_, _, _| {}));
    }

    #[test]
    fn the_target_shows_the_tolerance() {
        let share = |held, of| row(RunTally { held, of }, "coverage", Demand::at_least(95.0));
        let short = share(1893, 2000);
        assert!(short.passed, "{short:?}");
        assert_eq!(short.target, "at least 95 % (give or take 1.46 % by chance, with 2000 repetitions)");
        assert!(!share(1860, 2000).passed && share(2000, 2000).passed);
    }

    #[test]
    fn every_promise_holds_at_the_small_scale() {
        // The seed is fixed, so nothing is left to chance from run to run. Some 150 rows have three standard errors each.
        // The parts at once: one after another is half of what all other tests of this crate take.
        let rows: Vec<VerificationRow> = thread::scope(|scope| {
            let parts = PARTS.map(|(_, part)| scope.spawn(move || part(Runs::new(Scale::Test, 1))));
            parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
        });
        let failing: Vec<&VerificationRow> = rows.iter().filter(|row| !row.passed).collect();
        assert!(failing.is_empty(), "{failing:#?}");
        assert!(rows.iter().filter(|row| row.negative_control).count() >= 4);
    }
}
