//! The result of a mesh: which hosts, links and rack pairs are slow, with intervals and few false alarms.
//!
//! A host is slow if it is slow with most of its partners; a link is slow if it is slower than both of its hosts
//! explain; a rack pair is slow if the connections between the racks are slower than those within a rack. "Slow"
//! means significantly slower than the margin allows. Each kind of claim is controlled by the procedure of Benjamini
//! and Hochberg, so that the share of false claims among all claims stays below 5 %.
//!
//! Pure: takes numbers, returns numbers.
//!
//! Also the rounds after the pattern, in which suspects are repeated.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_stats::compare::benjamini_hochberg;
use bytegauge_stats::quantile::median;
use bytegauge_stats::rng::seeded;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::Rank;
use crate::rate_model::{DirectedPair, MeshFit, RateSample, middle, rack};

/// The share of false claims that is accepted.
const FALSE_SHARE: f64 = 0.05;

/// Repetitions that a link needs before it is called slow: one slow test may be a disturbance of that moment.
pub const REPETITIONS_MIN: usize = 3;

/// Degrees of freedom from which on noise is estimated. The effects of three hosts fit six rates almost exactly: a scatter of
/// nearly nothing would make every difference significant.
const FREEDOM_MIN: f64 = 10.0;

/// The standard deviation of a normal sample, divided by its median absolute deviation.
const NORMAL_BY_MAD: f64 = 1.4826;

/// The standard error of a median, divided by that of a mean, of normal samples.
const MEDIAN_BY_MEAN: f64 = 1.2533;

/// A difference to the typical rate: shares of it, so −0.5 is half as fast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RateShift {
    /// The estimate.
    pub shift: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end of the 95 % interval.
    pub high: f64,
}

/// How a host differs from the typical one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostShifts {
    /// How it sends.
    pub sends: Option<RateShift>,
    /// How it receives.
    pub receives: Option<RateShift>,
}

/// A host that is slow with most of its partners.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowHost {
    /// The host's rank.
    pub rank: Rank,
    /// How it sends and receives, as far as that is slow.
    pub shifts: HostShifts,
}

/// A direction of a pair that is slower than both hosts explain, or of two racks between which connections are slower than within
/// racks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowLink {
    /// The rank, or the rack, that sends.
    pub sender: u32,
    /// The rank, or the rack, that receives.
    pub receiver: u32,
    /// How slow it is, compared with the other links of both hosts, or with those within racks.
    pub shift: RateShift,
}

/// The result of one option of a mesh.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeshResult {
    /// The effects behind it.
    pub fit: MeshFit,
    /// How far rates scatter; `None` if there are too few tests to call anything slow.
    pub noise: Option<MeshNoise>,
    /// How every host sends and receives.
    pub hosts: BTreeMap<Rank, HostShifts>,
    /// Slow hosts, the slowest first.
    pub slow_hosts: Vec<SlowHost>,
    /// Slow links, the slowest first.
    pub slow_links: Vec<SlowLink>,
    /// Slow rack pairs, the slowest first.
    pub slow_racks: Vec<SlowLink>,
    /// Pairs that look slow, are not called slow and were not repeated often, the slowest first.
    pub suspects: Vec<(Rank, Rank)>,
    /// Hosts that look slow and are not called slow, the slowest first.
    pub suspect_hosts: Vec<Rank>,
}

impl MeshResult {
    /// Judges samples of one option. `racks` has the rack of each rank. Differences below `margin`, a share of the
    /// typical rate, are never called slow.
    pub fn of(samples: &[RateSample], racks: &[u32], margin: f64) -> MeshResult {
        let fit = MeshFit::of(samples, racks);
        let mut result = MeshResult { noise: MeshNoise::of(&fit), fit, ..MeshResult::default() };
        if let Some(noise) = result.noise {
            let judge = Rules { margin_ln: (1.0 - margin).ln(), noise };
            (result.hosts, result.slow_hosts) = judge.hosts(&result.fit);
            result.slow_links = judge.links(&result.fit);
            result.slow_racks = judge.racks(&result.fit, racks);
        }
        result.find_suspects(margin);
        result
    }

    /// The typical rate, in the units of the samples.
    pub fn typical_rate(&self) -> f64 {
        self.fit.mean.exp()
    }

    /// Whether there are enough tests to call anything slow.
    pub fn is_judged(&self) -> bool {
        self.noise.is_some()
    }

    /// Whether nothing is called slow.
    pub fn is_sound(&self) -> bool {
        self.slow_hosts.is_empty() && self.slow_links.is_empty() && self.slow_racks.is_empty()
    }

    fn find_suspects(&mut self, margin: f64) {
        let below = (1.0 - margin).ln();
        let slow: BTreeSet<(Rank, Rank)> = self.slow_links.iter().map(|link| (link.sender, link.receiver)).collect();
        let is_slow = |pair: &DirectedPair| slow.contains(&(pair.sender, pair.receiver));
        let is_few = |pair: &&DirectedPair| {
            pair.residual < below && pair.residuals.len() < 2 * REPETITIONS_MIN && !is_slow(pair)
        };
        let mut pairs: Vec<&DirectedPair> = self.fit.pairs.iter().filter(is_few).collect();
        pairs.sort_by(|one, other| one.residual.total_cmp(&other.residual));
        let mut seen = BTreeSet::new();
        let unordered = pairs.iter().map(|pair| (pair.sender.min(pair.receiver), pair.sender.max(pair.receiver)));
        self.suspects.extend(unordered.filter(|pair| seen.insert(*pair)));
        let effects = self.fit.senders.iter().chain(&self.fit.receivers);
        let mut hosts: Vec<(Rank, f64)> = effects.map(|(rank, effect)| (*rank, *effect)).collect();
        hosts.retain(|(rank, effect)| *effect < below && self.slow_hosts.iter().all(|host| host.rank != *rank));
        hosts.sort_by(|one, other| one.1.total_cmp(&other.1));
        for (rank, _) in hosts {
            if !self.suspect_hosts.contains(&rank) {
                self.suspect_hosts.push(rank);
            }
        }
    }
}

/// How far rates scatter, on the log scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshNoise {
    /// Standard deviation of repetitions of one pair; 0 without repetitions.
    pub within: f64,
    /// Standard deviation of the medians of sound pairs.
    pub between: f64,
    /// Degrees of freedom of both together.
    pub freedom: f64,
    /// Standard errors from an estimate to the end of its 95 % interval (Student's t).
    pub reach: f64,
}

impl MeshNoise {
    /// `None` if there are too few rates to estimate noise.
    fn of(fit: &MeshFit) -> Option<MeshNoise> {
        let pairs = fit.pairs.len() as f64;
        // The mean, and each effect but one of each kind.
        let parameters = 1 + fit.senders.len().saturating_sub(1) + fit.receivers.len().saturating_sub(1);
        let between_freedom = (pairs - parameters as f64).max(0.0);
        let deviations: Vec<f64> = fit
            .pairs
            .iter()
            .filter(|pair| pair.residuals.len() > 1)
            .flat_map(|pair| {
                // Deviations from a median of few values are too small (by √((n − 1)/n) for a mean).
                let n = pair.residuals.len() as f64;
                pair.residuals.iter().map(move |residual| (residual - pair.residual) * (n / (n - 1.0)).sqrt())
            })
            .collect();
        let within_freedom: f64 = fit.pairs.iter().map(|pair| pair.residuals.len() as f64 - 1.0).sum();
        let freedom = between_freedom + within_freedom;
        if freedom < FREEDOM_MIN {
            return None;
        }
        let within = scale(&deviations);
        let medians: Vec<f64> = fit.pairs.iter().map(|pair| pair.residual).collect();
        let spent = if between_freedom > 0.0 { (pairs / between_freedom).sqrt() } else { 1.0 };
        let repetitions = pairs.max(1.0) / (pairs + within_freedom);
        let between = (scale(&medians) * spent).max(within * repetitions.sqrt());
        Some(MeshNoise { within, between, freedom, reach: student(freedom).inverse_cdf(0.975) })
    }

    /// The distance from the median rate of a pair to the end of its 95 % interval, on the log scale.
    pub fn reach_of(&self, pair: &DirectedPair) -> f64 {
        let each = if self.within > 0.0 { self.within } else { self.between };
        self.reach * each / (pair.residuals.len().max(1) as f64).sqrt()
    }
}

/// Student's distribution; noise has at least one degree of freedom.
fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("at least one degree of freedom")
}

/// A robust standard deviation around 0.
fn scale(values: &[f64]) -> f64 {
    let sizes: Vec<f64> = values.iter().map(|value| value.abs()).collect();
    NORMAL_BY_MAD * median(&sizes).unwrap_or(0.0)
}

/// The tests behind the result.
struct Rules {
    /// The largest difference that is not slow, a negative logarithm.
    margin_ln: f64,
    noise: MeshNoise,
}

/// An estimate with its test.
#[derive(Clone, Copy)]
struct Tested {
    shift: RateShift,
    p: f64,
}

/// What is significantly slow among all tests of one kind, the slowest first.
fn slow<T>(tests: Vec<(T, Tested)>) -> Vec<(T, RateShift)> {
    let p_values: Vec<f64> = tests.iter().map(|(_, test)| test.p).collect();
    let found = tests.into_iter().zip(benjamini_hochberg(&p_values, FALSE_SHARE)).filter(|(_, is_slow)| *is_slow);
    let mut slow: Vec<(T, RateShift)> = found.map(|((of, test), _)| (of, test.shift)).collect();
    slow.sort_by(|one, other| one.1.shift.total_cmp(&other.1.shift));
    slow
}

/// The shifts of hosts, each with the rank and whether it sends, by rank.
fn by_rank(shifts: impl Iterator<Item = ((Rank, bool), RateShift)>) -> BTreeMap<Rank, HostShifts> {
    let mut hosts: BTreeMap<Rank, HostShifts> = BTreeMap::new();
    for ((rank, sends), shift) in shifts {
        let host = hosts.entry(rank).or_default();
        *(if sends { &mut host.sends } else { &mut host.receives }) = Some(shift);
    }
    hosts
}

impl Rules {
    /// Tests whether an effect is below the margin.
    fn test(&self, effect: f64, error: f64) -> Tested {
        // No estimate from finite samples is exact.
        let error = error.max(1e-9);
        let reach = self.noise.reach * error;
        let share = |ln: f64| ln.exp() - 1.0;
        let shift = RateShift { shift: share(effect), low: share(effect - reach), high: share(effect + reach) };
        Tested { shift, p: student(self.noise.freedom).cdf((effect - self.margin_ln) / error) }
    }

    /// Every host, and those that are slow.
    fn hosts(&self, fit: &MeshFit) -> (BTreeMap<Rank, HostShifts>, Vec<SlowHost>) {
        let ranks: Vec<Rank> = fit.senders.keys().chain(fit.receivers.keys()).copied().collect();
        let last = ranks.iter().copied().max().unwrap_or(0);
        let mut tests: Vec<((Rank, bool), Tested)> = Vec::new();
        let by_host = |host: fn(&DirectedPair) -> Rank| {
            let mut residuals: Vec<Vec<f64>> = vec![Vec::new(); last as usize + 1];
            for pair in &fit.pairs {
                residuals[host(pair) as usize].push(pair.residual);
            }
            residuals
        };
        let (sent, received) = (by_host(|pair| pair.sender), by_host(|pair| pair.receiver));
        for (effects, residuals, sends) in [(&fit.senders, &sent, true), (&fit.receivers, &received, false)] {
            for (rank, effect) in effects {
                tests.push(((*rank, sends), self.host(*effect, &residuals[*rank as usize])));
            }
        }
        let all = by_rank(tests.iter().map(|(of, test)| (*of, test.shift)));
        let slow = by_rank(slow(tests).into_iter());
        let mut slow: Vec<SlowHost> = slow.into_iter().map(|(rank, shifts)| SlowHost { rank, shifts }).collect();
        slow.sort_by(|one, other| one.shifts.slowest().total_cmp(&other.shifts.slowest()));
        (all, slow)
    }

    /// Tests the effect of a host by its residuals with each partner.
    fn host(&self, effect: f64, residuals: &[f64]) -> Tested {
        // With one partner, the host cannot be told from the link.
        if residuals.len() < 2 {
            return Tested { p: 1.0, ..self.test(effect, self.noise.between) };
        }
        let own = scale(residuals);
        let error = MEDIAN_BY_MEAN * own.max(self.noise.between) / (residuals.len().max(1) as f64).sqrt();
        self.test(effect + middle(residuals), error)
    }

    fn links(&self, fit: &MeshFit) -> Vec<SlowLink> {
        let test = |pair: &DirectedPair| {
            let n = pair.residuals.len();
            // A disturbance only slows a test down, so the repetitions above the median show whether the link can be faster.
            let above: f64 = pair.residuals.iter().map(|residual| (residual - pair.residual).max(0.0).powi(2)).sum();
            let own = (2.0 * above / (n - 1) as f64).sqrt();
            let error = (own.max(self.noise.within).powi(2) / n as f64 + self.noise.between.powi(2)).sqrt();
            let tested = self.test(pair.residual, error);
            // A pair with fewer repetitions counts among the tests, and is never called slow.
            Tested { p: if n < REPETITIONS_MIN { 1.0 } else { tested.p }, ..tested }
        };
        let slow = slow(fit.pairs.iter().map(|pair| (pair, test(pair))).collect());
        slow.into_iter().map(|(pair, shift)| SlowLink { sender: pair.sender, receiver: pair.receiver, shift }).collect()
    }

    fn racks(&self, fit: &MeshFit, racks: &[u32]) -> Vec<SlowLink> {
        let within: Vec<f64> =
            fit.rack_pairs.iter().filter(|((from, to), _)| from == to).map(|(_, effect)| *effect).collect();
        let all: Vec<f64> = fit.rack_pairs.values().copied().collect();
        let base = median(if within.is_empty() { &all } else { &within }).unwrap_or(0.0);
        let test = |(pair, effect): (&(u32, u32), &f64)| {
            let hosts = |wanted: u32| fit.senders.keys().filter(|rank| rack(racks, **rank) == wanted).count();
            // Connections of one host are not independent of each other.
            let independent = hosts(pair.0).min(hosts(pair.1)).max(1) as f64;
            (*pair, self.test(effect - base, MEDIAN_BY_MEAN * self.noise.between / independent.sqrt()))
        };
        let slow = slow(fit.rack_pairs.iter().filter(|((from, to), _)| from != to).map(test).collect());
        slow.into_iter().map(|((sender, receiver), shift)| SlowLink { sender, receiver, shift }).collect()
    }
}

impl HostShifts {
    /// The larger difference.
    fn slowest(&self) -> f64 {
        let both = [&self.sends, &self.receives];
        both.into_iter().flatten().map(|shift| shift.shift).fold(0.0, f64::min)
    }
}

// Rounds after the pattern: pairs that look slow are repeated, and hosts that look slow meet sound partners.
//
// A pattern measures most pairs once, so a slow test may be a disturbance of that moment. Pure: a function of the
// result and the seed.

/// The stream of random numbers that partners are drawn from.
const RANDOM_STREAM: u64 = 0x666f_6c6c;

/// The most pairs that are repeated: more are no exceptions but the normal state of this mesh.
pub const SUSPECTS_MAX: usize = 64;

/// Sound partners of each suspect host.
const PARTNERS: usize = 4;

/// One round: disjoint pairs of a hub and its client.
pub type FollowUpRound = Vec<(Rank, Rank)>;

/// The rounds that the suspects of a result need; empty if there are none.
pub fn follow_up(result: &MeshResult, seed: u64) -> Vec<FollowUpRound> {
    let mut random = seeded(seed, RANDOM_STREAM);
    let is_suspect =
        |rank: Rank| result.suspect_hosts.contains(&rank) || result.slow_hosts.iter().any(|host| host.rank == rank);
    let ranks: Vec<Rank> = result.fit.senders.keys().copied().collect();
    let mut pairs: Vec<(Rank, Rank)> = Vec::new();
    for pair in result.suspects.iter().take(SUSPECTS_MAX) {
        pairs.extend(std::iter::repeat_n(*pair, REPETITIONS_MIN));
    }
    for host in result.suspect_hosts.iter().take(SUSPECTS_MAX) {
        let mut partners: Vec<Rank> = ranks.iter().copied().filter(|rank| !is_suspect(*rank)).collect();
        random.shuffle(&mut partners);
        pairs.extend(partners.into_iter().take(PARTNERS).map(|partner| (*host, partner)));
    }
    rounds_of(pairs)
}

/// Puts pairs into as few rounds as a greedy choice finds, without a rank twice in a round.
fn rounds_of(pairs: Vec<(Rank, Rank)>) -> Vec<FollowUpRound> {
    let mut rounds: Vec<FollowUpRound> = Vec::new();
    for (one, other) in pairs {
        let is_free =
            |round: &FollowUpRound| round.iter().all(|(a, b)| ![*a, *b].iter().any(|rank| [one, other].contains(rank)));
        // Alternate the hub, so that both hosts are measured from both sides.
        let pair = if rounds.len().is_multiple_of(2) { (one, other) } else { (other, one) };
        match rounds.iter_mut().find(|round| is_free(round)) {
            Some(round) => round.push(pair),
            None => rounds.push(vec![pair]),
        }
    }
    rounds
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod follow_up_tests {
    use super::*;

    #[test]
    fn a_round_has_no_rank_twice() {
        let rounds = rounds_of(vec![(0, 1), (0, 1), (2, 3), (1, 2), (4, 5)]);
        for round in &rounds {
            let mut ranks: Vec<Rank> = round.iter().flat_map(|(a, b)| [*a, *b]).collect();
            ranks.sort_unstable();
            ranks.dedup();
            assert_eq!(ranks.len(), 2 * round.len(), "{rounds:?}");
        }
        assert_eq!(rounds.len(), 3);
    }

    #[test]
    fn suspects_are_repeated_often_enough() {
        let result = MeshResult { suspects: vec![(0, 1)], ..MeshResult::default() };
        assert_eq!(follow_up(&result, 1).concat().len(), REPETITIONS_MIN);
    }

    #[test]
    fn no_suspects_need_no_rounds() {
        assert_eq!(follow_up(&MeshResult::default(), 1), Vec::<FollowUpRound>::new());
    }
}
