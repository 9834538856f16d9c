//! Is the best kept, and are significant results true?

use super::{Demand, RunTally, Runs, Scale, VerificationRow};
use crate::sim::stages::{World, WorldDesign};
use crate::sim::{Noise, SWINGS, Scenario};
use bytegauge_stats::decision_rule::{ClaimKind, OptionState, claim, state};
use bytegauge_stats::group::{Method, analyse};
use bytegauge_stats::rng::seeded;

const KEPT: Demand = Demand::AtLeast(95.0);

/// Spread of paired differences with bursts as a shared machine makes them; without the bursts it is 14 %.
const BURSTS_PAIRED: f64 = 0.5;
/// That of one trial.
const BURSTS_SPREAD: f64 = BURSTS_PAIRED / std::f64::consts::SQRT_2;

/// Equal cells are the hard case for a best set: every one of them is the best. The control keeps
/// the observed standard error at every flip.
pub(super) fn best_set_of_equals(runs: Runs) -> Vec<VerificationRow> {
    let seeds = || runs.seeds(runs.repetitions(8000));
    let mut rows = Vec::new();
    for blocks in [6, 8, 12, 20, 48] {
        let (kept, size) = kept(&[Noise::Normal], blocks, seeds(), &method(runs));
        let note = format!("7 equal cells, {blocks} blocks; mean size {size:.2}");
        rows.push(runs.row(kept, format!("best set keeps the best, {blocks} blocks"), KEPT, note));
    }
    for blocks in [6, 8] {
        let fixed = Method { studentise_each_flip: false, ..method(runs) };
        let (kept, _) = kept(&[Noise::Normal], blocks, seeds(), &fixed);
        let note = "the observed standard error kept at every flip";
        rows.push(runs.row(kept, format!("fixed standard error, {blocks} blocks"), KEPT, note).control());
    }
    rows
}

/// Other noise than normal; also cells of one group with different kinds, whose differences are
/// skewed.
pub(super) fn unlike_noise(runs: Runs) -> Vec<VerificationRow> {
    let seeds = || runs.seeds(runs.repetitions(4000));
    let mut rows = Vec::new();
    for noise in Noise::ALL.into_iter().skip(1) {
        let (kept, _) = kept(&[noise], 20, seeds(), &method(runs));
        rows.push(runs.row(kept, format!("best set keeps the best, {}", noise.name()), KEPT, "20 blocks"));
    }
    for (kinds, name) in [
        ([Noise::Normal, Noise::LogNormal], "normal among log-normal"),
        ([Noise::Spikes, Noise::Normal], "spikes among normal"),
    ] {
        let (both, _) = kept(&kinds, 20, seeds(), &method(runs));
        rows.push(runs.row(both, format!("best set keeps the best, {name}"), KEPT, "20 blocks, 7 equal means"));
    }
    rows
}

/// Claims about independent blocks. The negative control assumes independence where a cell's own noise lasts from block to block,
/// which pairing cannot remove.
pub(super) fn dependent_blocks(runs: Runs) -> Vec<VerificationRow> {
    let seeds = || runs.seeds(runs.repetitions(2000));
    let lasting = |rho: f64| Scenario { own_rho: rho, ..Scenario::new(CLAIMED.to_vec(), Noise::Normal, 0.04) };
    let (is_true, useful) = claims(&lasting(0.0), 12, seeds(), &method(runs));
    let note = format!("12 blocks; {:.0} % of tests have a claim", useful.percent());
    let believing = Method { merge_dependent_blocks: false, ..method(runs) };
    let (trusted, _) = claims(&lasting(0.9), 48, seeds(), &believing);
    vec![
        runs.row(is_true, "claim is true, independent, 12 blocks", KEPT, note),
        runs.row(trusted, "no merging, own noise AR(1) 0.9", KEPT, "neighbouring blocks believed to be independent")
            .control(),
    ]
}

/// ln costs of the cells about which claims are made.
const CLAIMED: [f64; 5] = [0.0, 0.02, 0.06, 0.12, 0.7];

/// How often every number of a claim is true, and how often there is a claim that excludes or bounds.
fn claims(
    scenario: &Scenario,
    blocks: usize,
    seeds: impl Iterator<Item = u64>,
    method: &Method,
) -> (RunTally, RunTally) {
    let [mut is_true, mut useful] = [RunTally::default(); 2];
    let truth = &scenario.effects;
    for seed in seeds {
        let input = scenario.group(blocks, seed);
        let verdict = analyse(&input, method);
        // As the report does: shares, and options that plain means contradict are doubted.
        let option = |&cell: &usize| {
            let (lower, upper) = (verdict.lower[cell]?.exp_m1(), verdict.upper[cell]?.exp_m1());
            let state = state(lower, upper, verdict.contradicted.contains(&cell), method.margin);
            Some((truth[cell].exp_m1(), lower, state, upper))
        };
        let options: Vec<(f64, f64, OptionState, f64)> = verdict.present.iter().filter_map(option).collect();
        let kind = claim(&options.iter().map(|option| (option.2, option.3)).collect::<Vec<_>>(), method.margin);
        useful.count(kind.is_some_and(|kind| kind != ClaimKind::Undecided));
        is_true.count(options.iter().all(|(truth, lower, state, upper)| match state {
            OptionState::Good => truth <= upper,
            OptionState::Undecided => !matches!(kind, Some(ClaimKind::FreeChoice(apart)) if *truth > apart),
            OptionState::Avoid => truth >= lower,
        }));
    }
    (is_true, useful)
}

/// How often the first of seven equal cells is kept, and the mean size of the best set.
fn kept(kinds: &[Noise], blocks: usize, seeds: impl Iterator<Item = u64>, method: &Method) -> (RunTally, f64) {
    let scenario = Scenario { noise: kinds.to_vec(), ..Scenario::new(vec![0.0; 7], Noise::Normal, 0.03) };
    let (mut tally, mut size) = (RunTally::default(), 0);
    for seed in seeds {
        let input = scenario.group(blocks, seed);
        let verdict = analyse(&input, method);
        // A group without a result keeps everything and would make the method look better.
        if verdict.inconclusive.is_none() {
            tally.count(verdict.best_set.contains(&0));
            size += verdict.best_set.len();
        }
    }
    (tally, size as f64 / tally.of.max(1) as f64)
}

/// A grid of 64 cells, screened, six finalists, 48 blocks; by noise.
pub(super) fn one_profile(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for percent in [3.0, 6.0, 10.0, 14.0] {
        let design = WorldDesign::paired(6, 48, percent / 100.0);
        rows.extend(session_rows(&format!("noise {percent} %"), 1, &design, runs));
    }
    for noise in [Noise::Spikes, Noise::LogNormal] {
        let design = WorldDesign { noise, ..WorldDesign::paired(6, 48, 0.06) };
        rows.extend(session_rows(&format!("noise 6 %, {}", noise.name()), 1, &design, runs));
    }
    // As on a shared machine.
    let design = WorldDesign { noise: Noise::Bursts, ..WorldDesign::paired(4, 80, BURSTS_PAIRED) };
    rows.extend(session_rows("bursts, 4 finalists, 80 blocks", 1, &design, runs));
    rows
}

/// The same grid in three and four profiles at once.
pub(super) fn several_profiles(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (profiles, blocks, percent) in [(3, 24, 2.7), (4, 24, 2.7), (4, 24, 6.0), (4, 48, 6.0)] {
        let design = WorldDesign::paired(6, blocks, percent / 100.0);
        let name = format!("{profiles} profiles, {blocks} blocks, noise {percent} %");
        rows.extend(session_rows(&name, profiles, &design, runs));
    }
    rows
}

fn session_rows(name: &str, profiles: usize, design: &WorldDesign, runs: Runs) -> Vec<VerificationRow> {
    let Sessions { held, within, mean_size } = sessions(profiles, design, runs);
    let shape = format!("64 cells, {} finalists, {} blocks", design.finalists, design.blocks);
    let note = format!("{shape}; mean size of the best set {mean_size:.2}");
    vec![
        runs.row(held, format!("best set or undecided holds the best, {name}"), KEPT, note),
        runs.row(within, format!("proven is true of the finalists, {name}"), KEPT, shape),
    ]
}

/// Counts over sessions.
struct Sessions {
    /// Best set or undecided hold the best in every profile.
    held: RunTally,
    /// The result is true of the finalists, which is the claim.
    within: RunTally,
    /// Mean size of the best set.
    mean_size: f64,
}

fn sessions(profiles: usize, design: &WorldDesign, runs: Runs) -> Sessions {
    let repetitions = runs.repetitions(2000);
    let [mut held, mut within] = [RunTally::default(); 2];
    let mut size = 0;
    for seed in runs.seeds(repetitions) {
        let world = World::draw(profiles, 8, &mut seeded(seed, 500));
        let method = Method { seed, ..method(runs) };
        let session = world.session(design, &method, seed);
        let all_held = session.groups.iter().enumerate().all(|(profile, (_, verdict))| {
            let best = world.best(profile);
            !session.finalists.contains(&best) || verdict.best_set.contains(&best)
        });
        held.count(all_held);
        size += session.groups.iter().map(|(_, verdict)| verdict.best_set.len()).sum::<usize>();
        for (profile, recommendation) in session.recommendations.iter().enumerate() {
            if let Some(cell) = recommendation.cell.filter(|_| recommendation.proven) {
                within.count(world.regret_among(profile, cell, &session.finalists) <= method.ln_margin());
            }
        }
    }
    Sessions { held, within, mean_size: size as f64 / (repetitions as f64 * profiles as f64) }
}

/// Equal A/A controls rarely alarm; one that is 2 % off does.
const FALSE_ALARMS: Demand = Demand::AtMost(1.5);

/// How often an equal A/A control alarms, and how often one that is 2 % off does. Uses the whole path of a report:
/// limiting, merging, judging. Limiting is meant for spikes and bursts.
pub(super) fn twin_alarms(runs: Runs) -> Vec<VerificationRow> {
    let mut rows = Vec::new();
    for (noise, spread, shift, demand) in [
        (Noise::Normal, 0.019, 0.0, FALSE_ALARMS),
        (Noise::LogNormal, 0.019, 0.0, FALSE_ALARMS),
        (Noise::Spikes, 0.019, 0.0, FALSE_ALARMS),
        (Noise::Bursts, BURSTS_SPREAD, 0.0, FALSE_ALARMS),
        (Noise::Normal, 0.019, 0.02, Demand::AtLeast(95.0)),
    ] {
        let (tally, reach) = alarms(noise, spread, shift, runs);
        let name = format!("A/A alarm, {}, control {:.0} % off", noise.name(), 100.0 * shift);
        let note = format!("48 blocks, one group of 3 cells; mean A/A interval {:.2} %", 100.0 * reach);
        rows.push(runs.row(tally, name, demand, note));
    }
    rows
}

/// How often the A/A control of a group alarms, and its mean interval in ln.
fn alarms(noise: Noise, spread: f64, shift: f64, runs: Runs) -> (RunTally, f64) {
    // The whole path is slow: a self-test has a minute for everything.
    let repetitions = runs.repetitions(if runs.scale == Scale::Full { 8000 } else { 2400 });
    let quiet = Scenario::new(vec![0.0, 0.02, 0.05], noise, spread);
    let scenario = Scenario { environment: SWINGS, twin_of: Some(0), ..quiet };
    let (mut tally, mut reach) = (RunTally::default(), 0.0);
    for seed in runs.seeds(repetitions) {
        let mut input = scenario.group(48, seed);
        input.blocks.iter_mut().filter_map(|block| block.twin_cost.as_mut()).for_each(|cost| *cost *= shift.exp());
        // The flips judge the cells, not the control.
        let verdict = analyse(&input, &Method { seed, random_flips: 19, ..method(runs) });
        tally.count(verdict.systematic() > 0.0);
        reach += verdict.twin.map_or(0.0, |twin| twin.reach) / repetitions as f64;
    }
    (tally, reach)
}

fn method(runs: Runs) -> Method {
    // Fewer flips than in a report: they only affect the critical value, not its mean.
    Method { seed: runs.seed, random_flips: 999, ..Method::default() }
}
