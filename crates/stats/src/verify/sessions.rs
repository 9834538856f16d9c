//! Does what is said over several sessions hold for the mean session, and would their blocks in one heap lie?

use super::{Demand, Row, Scale, Tally};
use crate::across::{Replicate, across};
use crate::rng::{Stream, seeded};

const COVERED: Demand = Demand::AtLeast(95.0);
const CELLS: usize = 5;
/// Standard error of a difference within a session: 14 % over 64 blocks.
const OWN: f64 = 0.0175;

pub(super) fn rows(scale: Scale, seed: u64) -> Vec<Row> {
    let mut rows = Vec::new();
    for sessions in [3, 6] {
        for between in [0.0, 0.1] {
            let (bounded, _) = covered(sessions, between, scale, seed);
            let name = format!("bound over {sessions} sessions covers, {:.0} % between them", between * 100.0);
            rows.push(bounded.row(
                name,
                COVERED,
                scale,
                format!("{CELLS} cells, the one with the least bound is chosen"),
            ));
        }
    }
    let (_, heap) = covered(6, 0.1, scale, seed);
    let note = "the sessions' own errors alone, as if all blocks were of one session";
    rows.push(heap.control("blocks of six sessions in one heap", COVERED, scale, note));
    rows
}

fn covered(sessions: usize, between: f64, scale: Scale, seed: u64) -> (Tally, Tally) {
    let (mut bounded, mut heap) = (Tally::default(), Tally::default());
    for run in 0..scale.repetitions(4000).max(200) as u64 {
        let mut random = seeded(seed.wrapping_mul(1_000_003).wrapping_add(run), 0xac05);
        let effects: Vec<f64> = (0..CELLS).map(|_| 0.03 * random.normal()).collect();
        let best = effects.iter().copied().fold(f64::INFINITY, f64::min);
        let seen: Vec<Replicate> = (0..sessions).map(|_| session(&effects, between, &mut random)).collect();
        let judged = across(&seen, 0.95);
        let Some(upper) = &judged.upper else { continue };
        let chosen = (0..CELLS).min_by(|&a, &b| upper[a].total_cmp(&upper[b])).unwrap_or(0);
        bounded.count(effects[chosen] - best <= upper[chosen]);
        // 1.96 standard errors of the mean of all blocks.
        let narrow = |cell: usize| judged.excess[cell] + 1.96 * OWN / (sessions as f64).sqrt();
        let chosen = (0..CELLS).min_by(|&a, &b| narrow(a).total_cmp(&narrow(b))).unwrap_or(0);
        heap.count(effects[chosen] - best <= narrow(chosen));
    }
    (bounded, heap)
}

fn session(effects: &[f64], between: f64, random: &mut Stream) -> Replicate {
    let spread = ((between.powi(2) + OWN.powi(2)) / 2.0).sqrt();
    let means = effects.iter().map(|effect| effect + spread * random.normal()).collect();
    Replicate { means, errors: vec![vec![OWN; CELLS]; CELLS] }
}
