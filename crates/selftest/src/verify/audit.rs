//! Does the long-trial check withdraw false results, and seldom true ones?

use bytegauge_stats::audit::{AuditFinding, LEVEL, MIN_BLOCKS, audit, together};
use bytegauge_stats::group::{GroupInput, Method, analyse};
use bytegauge_stats::interim::{ANALYSES, level, schedule};
use bytegauge_stats::rng::RandomStream;

use super::{Demand, RunTally, Runs, VerificationRow};
use crate::sim::{Noise, SWINGS, Scenario};
use crate::verify::Scale;

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

// Do planned interim analyses keep the error level, and do unplanned ones exceed it?

/// Blocks of the first analysis.
const FIRST: usize = 16;

pub(super) fn rows_of_interim(runs: Runs) -> Vec<VerificationRow> {
    // Errors are few, and the control has to miss by more than chance.
    let repetitions = runs.at_least(400, if runs.scale == Scale::Full { 4000 } else { 400 });
    // The cheaper cell costs slightly more than the margin above the best: a claim for it is an error.
    let effects = vec![0.05_f64.ln_1p() + 1e-4, 0.0];
    let scenario = Scenario { twin_of: Some(1), ..Scenario::new(effects, Noise::Normal, SPREAD) };
    let analyses = schedule(FIRST, ANALYSES, 0.95);
    let most = analyses.last().map_or(FIRST, |analysis| analysis.blocks);
    let [mut shared, mut whole, mut peeked] = [RunTally::default(); 3];
    for seed in runs.seeds(repetitions) {
        let input = scenario.group(most, seed);
        let proves = |blocks: usize, level: f64| proves(&input, blocks, 0, &Method { level, seed, ..method() });
        shared.count(analyses.iter().any(|analysis| proves(analysis.blocks, analysis.level)));
        whole.count(proves(most, 0.95));
        peeked.count((8..=most).step_by(2).any(|blocks| proves(blocks, 0.95)));
    }
    let shape = format!("a cell just beyond the margin; {FIRST} to {most} blocks, paired noise 14 %");
    vec![
        runs.row(shared, "false results over three analyses", FALSE, format!("{shape}; each at 98.3 %")),
        runs.row(whole, "false results, one analysis", FALSE, format!("{shape}; at 95 %")),
        runs.row(peeked, "analyses at any time", FALSE, format!("{shape}; after every other block, at 95 %")).control(),
    ]
}

fn proves(input: &GroupInput, blocks: usize, cell: usize, method: &Method) -> bool {
    let input = GroupInput { blocks: input.blocks[..blocks].to_vec(), ..input.clone() };
    analyse(&input, method).proves(cell, method)
}

fn method() -> Method {
    Method { level: level(0.95, 1), random_flips: 199, ..Method::default() }
}
