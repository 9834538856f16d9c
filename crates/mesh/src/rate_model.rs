//! The model of a mesh: ln rate = mean + sender + receiver + rack pair + residual, fitted by median polish.
//!
//! Medians keep a few slow links out of the effects of their hosts, and a few slow hosts out of the mean (Tukey 1977,
//! *Exploratory Data Analysis*, chapter 11). A host with one or two partners has no useful median: there its best
//! partner counts, because a host is at least as fast as its fastest connection.
//!
//! Pure: takes numbers, returns numbers.

use std::collections::{BTreeMap, BTreeSet};

use bytegauge_stats::quantile::median;
use serde::{Deserialize, Serialize};

use crate::Rank;

/// The most passes of the polish; it usually settles in three or four.
const PASSES_MAX: usize = 12;

/// A pass that changes no effect by more than this ends the polish.
const SETTLED: f64 = 1e-6;

/// From this number of values on their median is used, below it their maximum.
const MEDIAN_FROM: usize = 3;

/// One rate in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateSample {
    /// The rank that sends.
    pub sender: Rank,
    /// The rank that receives.
    pub receiver: Rank,
    /// The natural logarithm of the rate.
    pub ln_rate: f64,
}

/// The rates of one direction of a pair.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectedPair {
    /// The rank that sends.
    pub sender: Rank,
    /// The rank that receives.
    pub receiver: Rank,
    /// The median of its rates, as a logarithm.
    pub ln_rate: f64,
    /// The median rate without the mean and the effects of hosts and racks.
    pub residual: f64,
    /// The same of each rate.
    pub residuals: Vec<f64>,
}

/// The effects of a fitted mesh. Ranks and rack pairs without a rate have none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeshFit {
    /// The typical rate, as a logarithm.
    pub mean: f64,
    /// By rank, how far it is from the typical sender.
    pub senders: BTreeMap<Rank, f64>,
    /// By rank, how far it is from the typical receiver.
    pub receivers: BTreeMap<Rank, f64>,
    /// By racks of sender and receiver.
    pub rack_pairs: BTreeMap<(u32, u32), f64>,
    /// Every direction that has a rate, by sender and receiver.
    pub pairs: Vec<DirectedPair>,
}

impl MeshFit {
    /// Fits the effects to the samples; samples that are not finite numbers are left out.
    ///
    /// `racks` has the rack of each rank. With fewer than two racks there is no effect of rack pairs.
    pub fn of(samples: &[RateSample], racks: &[u32]) -> MeshFit {
        let mut by_pair: BTreeMap<(Rank, Rank), Vec<f64>> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.ln_rate.is_finite()) {
            by_pair.entry((sample.sender, sample.receiver)).or_default().push(sample.ln_rate);
        }
        let pairs = by_pair.into_iter().map(|((sender, receiver), rates)| {
            let ln_rate = median(&rates).unwrap_or(0.0);
            DirectedPair { sender, receiver, ln_rate, residual: ln_rate, residuals: rates }
        });
        let mut fit = MeshFit { pairs: pairs.collect(), ..MeshFit::default() };
        if fit.pairs.is_empty() {
            return fit;
        }
        let all: Vec<f64> = fit.pairs.iter().map(|pair| pair.residual).collect();
        let mean = median(&all).unwrap_or(0.0);
        fit.mean = mean;
        fit.shift(|_| mean);
        let has_racks = racks.iter().any(|rack| Some(rack) != racks.first());
        for _ in 0..PASSES_MAX {
            if fit.pass(racks, has_racks) < SETTLED {
                break;
            }
        }
        fit
    }

    /// One pass over senders, receivers and rack pairs: the largest change of an effect.
    fn pass(&mut self, racks: &[u32], has_racks: bool) -> f64 {
        let senders = effects(&self.pairs, |pair| pair.sender);
        let mut change = self.apply(&senders, |pair| pair.sender, |fit| &mut fit.senders);
        let receivers = effects(&self.pairs, |pair| pair.receiver);
        change = change.max(self.apply(&receivers, |pair| pair.receiver, |fit| &mut fit.receivers));
        if has_racks {
            let key = |pair: &DirectedPair| (rack(racks, pair.sender), rack(racks, pair.receiver));
            let rack_pairs = effects(&self.pairs, key);
            change = change.max(self.apply(&rack_pairs, key, |fit| &mut fit.rack_pairs));
        }
        self.centre();
        change
    }

    /// Moves effects from the residuals into the model.
    fn apply<K: Ord + Copy>(
        &mut self,
        effects: &BTreeMap<K, f64>,
        key: impl Fn(&DirectedPair) -> K,
        table: impl Fn(&mut MeshFit) -> &mut BTreeMap<K, f64>,
    ) -> f64 {
        for (name, effect) in effects {
            *table(self).entry(*name).or_insert(0.0) += effect;
        }
        self.shift(|pair| effects.get(&key(pair)).copied().unwrap_or(0.0));
        effects.values().fold(0.0, |most: f64, effect| most.max(effect.abs()))
    }

    /// Takes an amount out of the residuals of each pair.
    fn shift(&mut self, amount: impl Fn(&DirectedPair) -> f64) {
        for pair in &mut self.pairs {
            let amount = amount(pair);
            pair.residual -= amount;
            pair.residuals.iter_mut().for_each(|residual| *residual -= amount);
        }
    }

    /// Moves the medians of the effects of hosts into the mean.
    fn centre(&mut self) {
        for table in [&mut self.senders, &mut self.receivers] {
            let values: Vec<f64> = table.values().copied().collect();
            let middle = median(&values).unwrap_or(0.0);
            table.values_mut().for_each(|effect| *effect -= middle);
            self.mean += middle;
        }
    }
}

/// The number of each rank's rack, and the names of the racks by number. Ranks without a rack share one without a name.
pub fn rack_numbers<'a>(ranks: u32, rack: impl Fn(Rank) -> Option<&'a str>) -> (Vec<u32>, Vec<String>) {
    let of_rank: Vec<&str> = (0..ranks).map(|rank| rack(rank).unwrap_or_default()).collect();
    let names: BTreeSet<&str> = of_rank.iter().copied().collect();
    let names: Vec<&str> = names.into_iter().collect();
    let number = |name: &&str| names.binary_search(name).unwrap_or(0) as u32;
    (of_rank.iter().map(number).collect(), names.iter().map(|name| (*name).to_owned()).collect())
}

/// The rack of a rank; ranks beyond the list are in rack 0.
pub(crate) fn rack(racks: &[u32], rank: Rank) -> u32 {
    racks.get(rank as usize).copied().unwrap_or(0)
}

/// The middle of the residuals of each key.
fn effects<K: Ord>(pairs: &[DirectedPair], key: impl Fn(&DirectedPair) -> K) -> BTreeMap<K, f64> {
    let mut values: BTreeMap<K, Vec<f64>> = BTreeMap::new();
    for pair in pairs {
        values.entry(key(pair)).or_default().push(pair.residual);
    }
    values.into_iter().map(|(key, values)| (key, middle(&values))).collect()
}

/// The median, or the maximum of fewer than [`MEDIAN_FROM`] values.
pub(crate) fn middle(values: &[f64]) -> f64 {
    match values.len() < MEDIAN_FROM {
        true => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        false => median(values).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mesh without noise: 1 everywhere, times the factor of each direction.
    fn samples(ranks: u32, factor: impl Fn(Rank, Rank) -> f64) -> Vec<RateSample> {
        let pairs = (0..ranks).flat_map(|sender| (0..ranks).map(move |receiver| (sender, receiver)));
        pairs
            .filter(|(sender, receiver)| sender != receiver)
            .map(|(sender, receiver)| RateSample { sender, receiver, ln_rate: factor(sender, receiver).ln() })
            .collect()
    }

    fn residual(fit: &MeshFit, sender: Rank, receiver: Rank) -> f64 {
        let is_it = |pair: &&DirectedPair| (pair.sender, pair.receiver) == (sender, receiver);
        fit.pairs.iter().find(is_it).map(|pair| pair.residual).unwrap()
    }

    #[test]
    fn a_slow_host_is_an_effect() {
        for ranks in [3, 4, 5, 16] {
            let slow = |sender, receiver| if sender == 2 || receiver == 2 { 0.5 } else { 1.0 };
            let fit = MeshFit::of(&samples(ranks, slow), &[]);
            assert!((fit.senders[&2] - 0.5_f64.ln()).abs() < 1e-3, "{ranks} ranks: {fit:?}");
            assert!((fit.receivers[&2] - 0.5_f64.ln()).abs() < 1e-3, "{ranks} ranks: {fit:?}");
            assert!(fit.senders[&0].abs() < 1e-3 && residual(&fit, 0, 2).abs() < 1e-3, "{ranks} ranks: {fit:?}");
        }
    }

    #[test]
    fn a_slow_link_is_a_residual() {
        for ranks in [3, 4, 5, 16] {
            let slow = |sender: Rank, receiver: Rank| {
                if sender.min(receiver) == 0 && sender + receiver == 1 { 0.5 } else { 1.0 }
            };
            let fit = MeshFit::of(&samples(ranks, slow), &[]);
            assert!((residual(&fit, 0, 1) - 0.5_f64.ln()).abs() < 1e-3, "{ranks} ranks: {fit:?}");
            assert!(fit.senders.values().chain(fit.receivers.values()).all(|effect| effect.abs() < 1e-3));
        }
    }

    #[test]
    fn a_slow_spine_is_a_rack_effect() {
        let racks = [0, 0, 0, 0, 1, 1, 1, 1];
        let slow =
            |sender: Rank, receiver: Rank| if racks[sender as usize] == racks[receiver as usize] { 1.0 } else { 0.5 };
        let fit = MeshFit::of(&samples(8, slow), &racks);
        let across = fit.rack_pairs[&(0, 1)] - (fit.rack_pairs[&(0, 0)] + fit.rack_pairs[&(1, 1)]) / 2.0;
        assert!((across - 0.5_f64.ln()).abs() < 1e-3, "{fit:?}");
    }

    #[test]
    fn no_samples_fit_nothing() {
        assert_eq!(MeshFit::of(&[], &[]), MeshFit::default());
        let broken = RateSample { sender: 0, receiver: 1, ln_rate: f64::NEG_INFINITY };
        assert_eq!(MeshFit::of(&[broken], &[]), MeshFit::default());
    }
}
