//! Simulated meshes with known faults: each must be named as what it is, and no sound host or link may be named.

use bytegauge_stats::rng::{RandomStream, seeded};

use super::*;
use crate::result::follow_up;
use crate::schedule::MeshPattern;
use crate::schedule::MeshSchedule;

const MARGIN: f64 = 0.1;

/// Simulations of each case.
const RUNS: u64 = 20;

/// A mesh whose rates scatter: by host, by link, by test, and by rare disturbances that halve a rate.
struct Simulated {
    ranks: u32,
    pattern: MeshPattern,
    replicates: u32,
    racks: Vec<u32>,
    /// The planted factor of each direction.
    factor: fn(Rank, Rank) -> f64,
}

impl Simulated {
    fn run(&self, seed: u64) -> MeshResult {
        let mut random = seeded(seed, 5);
        let n = self.ranks as usize;
        let hosts: Vec<f64> = (0..n).map(|_| 0.02 * random.normal()).collect();
        let links: Vec<f64> = (0..n * n).map(|_| 0.015 * random.normal()).collect();
        let mut samples = Vec::new();
        let mut measure = |hub: Rank, client: Rank, samples: &mut Vec<RateSample>| {
            // A disturbance hits both directions of a test.
            let disturbed = if random.uniform() < 0.02 { 0.5_f64.ln() } else { 0.0 };
            for (sender, receiver) in [(hub, client), (client, hub)] {
                let fixed = hosts[sender as usize] + hosts[receiver as usize];
                let link = links[sender as usize * n + receiver as usize];
                let planted = (self.factor)(sender, receiver).ln();
                let ln_rate = 23.0 + fixed + link + planted + disturbed + 0.03 * random.normal();
                samples.push(RateSample { sender, receiver, ln_rate });
            }
        };
        let schedule = MeshSchedule::new(self.ranks, self.pattern, self.replicates, seed);
        for (_, slot) in schedule.slots() {
            measure(slot.hub, slot.clients[0], &mut samples);
        }
        for (hub, client) in follow_up(&MeshResult::of(&samples, &self.racks, MARGIN), seed).concat() {
            measure(hub, client, &mut samples);
        }
        MeshResult::of(&samples, &self.racks, MARGIN)
    }

    /// Runs with different seeds; each result must pass.
    fn check(&self, passes: impl Fn(&MeshResult) -> bool) {
        for seed in 0..RUNS {
            let result = self.run(seed);
            assert!(
                passes(&result),
                "seed {seed}, {} ranks, {}: hosts {:?}, links {:?}, racks {:?}",
                self.ranks,
                self.pattern,
                result.slow_hosts,
                result.slow_links,
                result.slow_racks
            );
        }
    }
}

/// Sizes and patterns of the simulations.
fn meshes(factor: fn(Rank, Rank) -> f64) -> Vec<Simulated> {
    let sizes = [
        (3, MeshPattern::Pairs, 3),
        (4, MeshPattern::Pairs, 3),
        (8, MeshPattern::Pairs, 3),
        (16, MeshPattern::Pairs, 3),
        (16, MeshPattern::Pairs, 1),
        (64, MeshPattern::Pairs, 1),
    ];
    let mesh = |(ranks, pattern, replicates)| Simulated { ranks, pattern, replicates, racks: Vec::new(), factor };
    sizes.into_iter().map(mesh).collect()
}

#[test]
fn sound_meshes_accuse_nothing() {
    for mesh in meshes(|_, _| 1.0) {
        mesh.check(MeshResult::is_sound);
    }
}

#[test]
fn a_slow_host_is_named_alone() {
    for mesh in meshes(|sender, receiver| if sender == 2 || receiver == 2 { 0.6 } else { 1.0 }) {
        mesh.check(|result| {
            let [host] = result.slow_hosts.as_slice() else { return false };
            let both = host.shifts.sends.is_some() && host.shifts.receives.is_some();
            host.rank == 2 && both && result.slow_links.is_empty()
        });
    }
}

#[test]
fn a_host_that_only_sends_slowly_is_named() {
    for mesh in meshes(|sender, _| if sender == 1 { 0.6 } else { 1.0 }) {
        mesh.check(|result| {
            let [host] = result.slow_hosts.as_slice() else { return false };
            host.rank == 1
                && host.shifts.sends.is_some()
                && host.shifts.receives.is_none()
                && result.slow_links.is_empty()
        });
    }
}

#[test]
fn a_slow_link_is_named_alone() {
    for mesh in meshes(|sender, receiver| if sender + receiver == 1 { 0.6 } else { 1.0 }) {
        mesh.check(|result| {
            let mut links: Vec<_> = result.slow_links.iter().map(|link| (link.sender, link.receiver)).collect();
            links.sort_unstable();
            links == [(0, 1), (1, 0)] && result.slow_hosts.is_empty()
        });
    }
}

#[test]
fn a_slow_direction_is_named_alone() {
    for mesh in meshes(|sender, receiver| if (sender, receiver) == (1, 2) { 0.6 } else { 1.0 }) {
        mesh.check(|result| {
            let [link] = result.slow_links.as_slice() else { return false };
            (link.sender, link.receiver) == (1, 2) && result.slow_hosts.is_empty()
        });
    }
}

#[test]
fn few_matchings_find_a_slow_host() {
    let factor = |sender, receiver| if sender == 7 || receiver == 7 { 0.6 } else { 1.0 };
    let pattern = MeshPattern::Matchings(5);
    let mesh = Simulated { ranks: 64, pattern, replicates: 1, racks: Vec::new(), factor };
    mesh.check(|result| result.slow_hosts.iter().map(|host| host.rank).eq([7]) && result.slow_links.is_empty());
}

#[test]
fn a_slow_spine_is_named_alone() {
    let factor = |sender: Rank, receiver: Rank| if sender / 8 == receiver / 8 { 1.0 } else { 0.6 };
    let racks = (0..16).map(|rank| rank / 8).collect();
    let mesh = Simulated { ranks: 16, pattern: MeshPattern::Pairs, replicates: 3, racks, factor };
    mesh.check(|result| result.slow_racks.len() == 2 && result.slow_hosts.is_empty() && result.slow_links.is_empty());
}

#[test]
fn shifts_contain_the_planted_factor() {
    let factor = |sender, receiver| if sender == 2 || receiver == 2 { 0.6 } else { 1.0 };
    let mesh = Simulated { ranks: 16, pattern: MeshPattern::Pairs, replicates: 3, racks: Vec::new(), factor };
    let result = mesh.run(1);
    let sends = result.slow_hosts[0].shifts.sends.unwrap();
    // The host's own deviation of 2 % is part of its shift.
    assert!(
        sends.low < -0.36 && sends.high > -0.44 && sends.low < sends.shift && sends.shift < sends.high,
        "{sends:?}"
    );
    assert!((result.typical_rate().ln() - 23.0).abs() < 0.1);
}

#[test]
fn three_hosts_without_repetitions_accuse_nothing() {
    for seed in 0..RUNS {
        let mut random = seeded(seed, 9);
        let pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
        let samples: Vec<RateSample> = pairs
            .into_iter()
            .map(|(sender, receiver)| RateSample { sender, receiver, ln_rate: 20.0 + 0.2 * random.normal() })
            .collect();
        let result = MeshResult::of(&samples, &[], MARGIN);
        assert!(!result.is_judged() && result.is_sound(), "seed {seed}: {:?}", result.slow_hosts);
    }
}

#[test]
fn a_single_pair_accuses_nothing() {
    let mut random: RandomStream = seeded(1, 1);
    for repetitions in [0, 1, 2, 10] {
        let sample = |(sender, receiver), random: &mut RandomStream| RateSample {
            sender,
            receiver,
            ln_rate: 20.0 + random.normal(),
        };
        let samples: Vec<RateSample> =
            (0..repetitions).flat_map(|_| [(0, 1), (1, 0)]).map(|pair| sample(pair, &mut random)).collect();
        assert!(MeshResult::of(&samples, &[], MARGIN).slow_hosts.is_empty());
    }
}
