//! Does a second look keep its promise: planned interim analyses, the check by long trials, and several sessions?

use std::f64::consts::SQRT_2;

use bytegauge_stats::across::{Replicate, across};
use bytegauge_stats::audit::{AuditFinding, LEVEL, MIN_BLOCKS, audit, together};
use bytegauge_stats::compare::{Verdict, between_sessions};
use bytegauge_stats::group::{GroupInput, Method, analyse};
use bytegauge_stats::interim::{ANALYSES, schedule};
use bytegauge_stats::rng::RandomStream;

use super::{Demand, Runs, VerificationRow, row};
use crate::sim::{Noise, SWINGS, Scenario};

const FALSE: Demand = Demand::at_most(5.0);
const COVERED: Demand = Demand::at_least(95.0);
const MARGIN: f64 = 0.05;
/// Spread of a trial where paired differences have 14 %, as long trials on a virtual machine had.
const SPREAD: f64 = 0.14 / SQRT_2;

/// Blocks of the first analysis.
const FIRST: usize = 16;

/// Analyses of a cell that costs slightly more than the margin above the best: a claim for it is an error. The control analyses after
/// every other block.
pub(super) fn analyses(runs: Runs) -> Vec<VerificationRow> {
    let effects = vec![MARGIN.ln_1p() + 1e-4, 0.0];
    let scenario = Scenario { twin_of: Some(1), ..Scenario::new(effects, Noise::Normal, SPREAD) };
    let analyses = schedule(FIRST, ANALYSES, 0.95);
    let most = analyses.last().map_or(FIRST, |analysis| analysis.blocks);
    // Errors are few, and the control has to miss by more than chance.
    let [planned, single, any_time] = runs.at_least(400).tally(400, 0x51b, |_, seed| {
        let input = scenario.group(most, seed);
        let proves = |blocks: usize, level: f64| {
            let input = GroupInput { blocks: input.blocks[..blocks].to_vec(), ..input.clone() };
            let method = Method { level, seed, random_flips: 199, ..Method::default() };
            analyse(&input, &method).proves(0, &method)
        };
        [
            analyses.iter().any(|analysis| proves(analysis.blocks, analysis.level)),
            proves(most, 0.95),
            (8..=most).step_by(2).any(|blocks| proves(blocks, 0.95)),
        ]
    });
    vec![
        row(planned, "false results over three analyses", FALSE),
        row(single, "false results, one analysis", FALSE),
        row(any_time, "analyses at any time", FALSE).control(),
    ]
}

/// Tests of a session that have one block each.
const TESTS: usize = 9;

/// Checks of an option with rivals that are cheaper by just the margin. The control takes a mean for significant.
pub(super) fn audits(runs: Runs) -> Vec<VerificationRow> {
    let margin = MARGIN.ln_1p();
    let checked = |rivals: usize, noise: Noise, blocks: usize, random: &mut RandomStream| {
        let effects = [margin].into_iter().chain(std::iter::repeat_n(0.0, rivals)).collect();
        let scenario = Scenario { environment: SWINGS, ..Scenario::new(effects, noise, SPREAD) };
        audit(&scenario.costs(blocks, random), 0, LEVEL, margin, |_| 0.0)
    };
    let runs = runs.at_least(200);
    let mut rows = Vec::new();
    for (noise, blocks) in
        [Noise::Normal, Noise::LogNormal, Noise::Bursts].map(|noise| [(noise, MIN_BLOCKS), (noise, 8)]).concat()
    {
        let [contradicted, covered, by_mean] = runs.tally(700, 0xa0d1, |random, _| {
            let Some(audit) = checked(2, noise, blocks, random) else { return [None; 3] };
            [
                Some(audit.finding == AuditFinding::Contradicts),
                Some(audit.bound().is_some_and(|bound| margin <= bound)),
                Some(audit.rivals.iter().any(|rival| rival.mean > margin)),
            ]
        });
        let kind = format!("{}, {blocks} blocks", noise.name());
        rows.push(row(contradicted, format!("results withdrawn wrongly, {kind}"), FALSE));
        rows.push(row(covered, format!("bound by long trials covers, {kind}"), COVERED));
        if (noise, blocks) == (Noise::Normal, MIN_BLOCKS) {
            rows.push(row(by_mean, "audit without intervals", FALSE).control());
        }
    }
    // Sessions whose tests have too few blocks each for a result of their own.
    let [all] = runs.tally(700, 0xa0d2, |random, _| {
        let mut mean = |_| checked(1, Noise::LogNormal, 1, random).and_then(|audit| Some(audit.rivals.first()?.mean));
        let means: Vec<f64> = (0..TESTS).filter_map(&mut mean).collect();
        [together(&means, LEVEL, margin) == AuditFinding::Contradicts]
    });
    rows.push(row(all, "all results withdrawn wrongly", FALSE));
    rows
}

/// Cells of a test in several sessions.
const CELLS: usize = 5;
/// Standard error of a difference within a session: 14 % over 64 blocks.
const OWN: f64 = 0.0175;
/// Spread between sessions.
const BETWEEN: f64 = 0.1;

/// Results over several sessions must hold for the mean session: the bound of the cell with the least bound, and the difference of two
/// equal subjects in sessions of their own. The control takes all blocks for those of one session.
pub(super) fn sessions(runs: Runs) -> Vec<VerificationRow> {
    let runs = runs.at_least(200);
    let mut rows = Vec::new();
    for (sessions, between) in [(3, 0.0), (3, BETWEEN), (6, 0.0), (6, BETWEEN)] {
        let [bounded, pooled] = runs.tally(700, 0xac05, |random, _| {
            let effects: Vec<f64> = (0..CELLS).map(|_| 0.03 * random.normal()).collect();
            let best = effects.iter().copied().fold(f64::INFINITY, f64::min);
            let spread = ((between * between + OWN * OWN) / 2.0).sqrt();
            let session = |_| Replicate {
                means: effects.iter().map(|effect| effect + spread * random.normal()).collect(),
                errors: vec![vec![OWN; CELLS]; CELLS],
            };
            let judged = across(&(0..sessions).map(session).collect::<Vec<_>>(), 0.95);
            let covers = |upper: &[f64]| {
                let chosen = (0..CELLS).min_by(|&a, &b| upper[a].total_cmp(&upper[b])).unwrap_or(0);
                effects[chosen] - best <= upper[chosen]
            };
            // 1.96 standard errors of the mean of all blocks.
            let narrow = judged.excess.iter().map(|excess| excess + 1.96 * OWN / f64::from(sessions).sqrt());
            let narrow: Vec<f64> = narrow.collect();
            [judged.upper.as_deref().map(covers), judged.upper.is_some().then(|| covers(&narrow))]
        });
        let name = format!("bound over {sessions} sessions covers, {:.0} % between them", between * 100.0);
        rows.push(row(bounded, name, COVERED));
        if (sessions, between) == (6, BETWEEN) {
            rows.push(row(pooled, "blocks of six sessions pooled", COVERED).control());
        }
    }
    let [different, covered] = runs.tally(700, 0xac06, |random, _| {
        // The mean of 20 trials that spread by 5 %.
        let mut mean = |_| BETWEEN * random.normal() + 0.05 / 20_f64.sqrt() * random.normal();
        let [before, after] = [6, 3].map(|sessions| (0..sessions).map(&mut mean).collect::<Vec<f64>>());
        let judged = between_sessions(&before, &after, 0.95);
        [
            matches!(judged.by_interval(MARGIN), Verdict::Worse | Verdict::Better),
            judged.lower <= 0.0 && judged.upper >= 0.0,
        ]
    });
    rows.push(row(different, "sessions of equals called different", FALSE));
    rows.push(row(covered, "difference over sessions covers", Demand(93.5, 96.5)));
    rows
}
