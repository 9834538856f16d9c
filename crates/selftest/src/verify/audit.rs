//! Does the long-trial check withdraw false results, and seldom true ones?

use super::{Demand, RunTally, Runs, VerificationRow};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::audit::{AuditFinding, LEVEL, MIN_BLOCKS, audit, together};
use bytegauge_stats::rng::RandomStream;

const FALSE: Demand = Demand::AtMost(5.0);
const COVERED: Demand = Demand::AtLeast(95.0);
/// Spread of a trial where paired differences have 14 %, as long trials on a virtual machine had.
const SPREAD: f64 = 0.14 / std::f64::consts::SQRT_2;
/// Tests of a session that have one block each.
const TESTS: usize = 9;
const MARGIN: f64 = 0.05;

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for noise in [Noise::Normal, Noise::LogNormal, Noise::Bursts] {
        for blocks in [MIN_BLOCKS, 8] {
            let found = audits(MARGIN.ln_1p(), noise, blocks, runs);
            let note = format!("two rivals cheaper by just the margin, {blocks} blocks, paired noise 14 %");
            let name = format!("results withdrawn wrongly, {}, {blocks} blocks", noise.name());
            rows.push(runs.row(found.contradicted, name, FALSE, note.clone()));
            let name = format!("bound by long trials covers, {}, {blocks} blocks", noise.name());
            rows.push(runs.row(found.covered, name, COVERED, note));
        }
    }
    let control = audits(MARGIN.ln_1p(), Noise::Normal, MIN_BLOCKS, runs).by_mean;
    let note = "a rival whose mean is cheaper by more than the margin counts as significant";
    rows.push(runs.row(control, "audit without intervals", FALSE, note).control());
    rows.push(sessions(runs));
    rows
}

#[derive(Default)]
struct AuditCounts {
    contradicted: RunTally,
    covered: RunTally,
    by_mean: RunTally,
}

/// Checks of an option that costs `excess` more than its two rivals, in ln.
fn audits(excess: f64, noise: Noise, blocks: usize, runs: Runs) -> AuditCounts {
    let mut found = AuditCounts::default();
    for mut random in runs.streams(runs.at_least(200, 4000), 0xa0d1) {
        let costs = costs(vec![excess, 0.0, 0.0], noise, blocks, &mut random);
        let Some(audit) = audit(&costs, 0, LEVEL, MARGIN.ln_1p(), |_| 0.0) else { continue };
        found.contradicted.count(audit.finding == AuditFinding::Contradicts);
        found.covered.count(audit.bound().is_some_and(|bound| excess <= bound));
        found.by_mean.count(audit.rivals.iter().any(|rival| rival.mean > MARGIN.ln_1p()));
    }
    found
}

/// Sessions whose tests have too few blocks each for a result of their own.
fn sessions(runs: Runs) -> VerificationRow {
    let mut tally = RunTally::default();
    for mut random in runs.streams(runs.at_least(200, 4000), 0xa0d2) {
        let mean = |random: &mut RandomStream| {
            let costs = costs(vec![MARGIN.ln_1p(), 0.0], Noise::LogNormal, 1, random);
            audit(&costs, 0, LEVEL, MARGIN.ln_1p(), |_| 0.0).and_then(|audit| Some(audit.rivals.first()?.mean))
        };
        let means: Vec<f64> = (0..TESTS).filter_map(|_| mean(&mut random)).collect();
        tally.count(together(&means, LEVEL, MARGIN.ln_1p()) == AuditFinding::Contradicts);
    }
    let note = format!("{TESTS} tests, one block each, paired noise 14 %, log-normal");
    runs.row(tally, "all results withdrawn wrongly", FALSE, note)
}

fn costs(effects: Vec<f64>, noise: Noise, blocks: usize, random: &mut RandomStream) -> Vec<Vec<Option<f64>>> {
    let scenario = Scenario { environment: SWINGS, ..Scenario::new(effects, noise, SPREAD) };
    scenario.rows(blocks, random).iter().map(|row| row.iter().map(|ln| Some(ln.exp())).collect()).collect()
}
