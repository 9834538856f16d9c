//! Do results over several sessions hold for the mean session, and would pooled blocks be wrong?

use bytegauge_stats::across::{Replicate, across};
use bytegauge_stats::compare::{Verdict, between_sessions};
use bytegauge_stats::outlier::limit;
use bytegauge_stats::quantile::{ROUND_MEANS, batched_interval, student_interval};
use bytegauge_stats::rng::{RandomStream, seeded};

use super::{Demand, RunTally, Runs, VerificationRow};

const COVERED: Demand = Demand::AtLeast(95.0);
const CELLS: usize = 5;
/// Standard error of a difference within a session: 14 % over 64 blocks.
const OWN: f64 = 0.0175;

pub(super) fn rows(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for sessions in [3, 6] {
        for between in [0.0, 0.1] {
            let (bounded, _) = covered(sessions, between, runs);
            let name = format!("bound over {sessions} sessions covers, {:.0} % between them", between * 100.0);
            let note = format!("{CELLS} cells, the one with the least bound is chosen");
            rows.push(runs.row(bounded, name, COVERED, note));
        }
    }
    let (_, heap) = covered(6, 0.1, runs);
    let note = "the sessions' own errors alone, as if all blocks were of one session";
    rows.push(runs.row(heap, "blocks of six sessions pooled", COVERED, note).control());
    rows.extend(compared(runs));
    rows
}

/// Trials of a run.
const TRIALS: usize = 20;
/// Spread of a trial's ln cost.
const TRIAL: f64 = 0.05;
/// Spread between sessions.
const BETWEEN: f64 = 0.1;
const MARGIN: f64 = 0.05;

/// Two subjects in sessions of their own: six and three of them.
fn compared(runs: Runs) -> Vec<VerificationRow> {
    let mut random = seeded(runs.seed, 0xac06);
    let [mut called, mut alike] = [RunTally::default(); 2];
    for _ in 0..runs.repetitions(4000) {
        let mut means = |sessions: usize| -> Vec<f64> {
            let mean = |_| {
                let middle = BETWEEN * random.normal();
                (0..TRIALS).map(|_| middle + TRIAL * random.normal()).sum::<f64>() / TRIALS as f64
            };
            (0..sessions).map(mean).collect()
        };
        let (before, after) = (means(6), means(3));
        let judged = between_sessions(&before, &after, 0.95);
        called.count(matches!(judged.by_interval(MARGIN), Verdict::Worse | Verdict::Better));
        alike.count(judged.lower <= 0.0 && judged.upper >= 0.0);
    }
    let several = format!("6 and 3 sessions, equal subjects, {:.0} % between sessions", BETWEEN * 100.0);
    let covers = Demand::Within(93.5, 96.5);
    vec![
        runs.row(called, "sessions of equals called different", Demand::AtMost(5.0), &several),
        runs.row(alike, "difference over sessions covers", covers, several),
    ]
}

fn covered(sessions: usize, between: f64, runs: Runs) -> (RunTally, RunTally) {
    let (mut bounded, mut heap) = (RunTally::default(), RunTally::default());
    for mut random in runs.streams(runs.at_least(200, 4000), 0xac05) {
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

fn session(effects: &[f64], between: f64, random: &mut RandomStream) -> Replicate {
    let spread = ((between.powi(2) + OWN.powi(2)) / 2.0).sqrt();
    let means = effects.iter().map(|effect| effect + spread * random.normal()).collect();
    Replicate { means, errors: vec![vec![OWN; CELLS]; CELLS] }
}

// Does the interval of two groups' difference, which have no blocks in common, cover although rounds resemble each other?

const ROUNDS_COVERED: Demand = Demand::AtLeast(93.0);
/// Rounds, and how neighbouring ones correlate: of a session on a quiet machine, and of a minute on a usual one. Means of one or
/// two rounds still resemble each other, so few rounds that correlate have no target.
const ROUNDS: [(usize, f64); 4] = [(15, 0.0), (96, 0.0), (96, 0.3), (96, 0.5)];

pub(super) fn rows_of_rounds(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (rounds, rho) in ROUNDS {
        let [batched, plain] = rounds_covered(rounds, rho, runs);
        let note = format!("neighbouring rounds correlate by {rho}, {rounds} rounds in at most {ROUND_MEANS} means");
        let name = format!("difference of two groups is covered, {rounds} rounds, {rho}");
        rows.push(runs.row(batched, name, ROUNDS_COVERED, note));
        if rho == 0.5 {
            let note = "every round counts by itself";
            rows.push(runs.row(plain, "rounds taken for independent", ROUNDS_COVERED, note).control());
        }
    }
    rows
}

fn rounds_covered(rounds: usize, rho: f64, runs: Runs) -> [RunTally; 2] {
    let mut tallies = [RunTally::default(); 2];
    for mut random in runs.streams(runs.at_least(200, 4000), 0x20d5) {
        let mut wave = random.normal();
        let values: Vec<f64> = (0..rounds)
            .map(|_| {
                wave = rho * wave + (1.0 - rho * rho).sqrt() * random.normal();
                0.14 * wave
            })
            .collect();
        let values = limit(&values);
        let intervals = [batched_interval(&values, ROUND_MEANS, 0.95), student_interval(&values, 0.95)];
        for (tally, interval) in tallies.iter_mut().zip(intervals) {
            tally.count(interval.is_some_and(|(lower, upper)| lower <= 0.0 && 0.0 <= upper));
        }
    }
    tallies
}
