//! Kinds of noise, each with standard deviation 1 and mean 0, so that they can be exchanged.
//!
//! Medians are known exactly (or to 1e-9), since sign intervals estimate medians.

use bytegauge_stats::rng::RandomStream;
use statrs::distribution::{ContinuousCDF, Normal};

/// Samples within a trial, where a kind looks inside it.
pub const SAMPLES: usize = 10;
/// Correlation of the samples of one trial.
const WITHIN_TRIAL: f64 = 0.4;

/// A kind of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    /// Gaussian.
    Normal,
    /// Student's t with 3 degrees of freedom: heavy tails.
    StudentT3,
    /// exp of a Gaussian with σ = 1: long right tail.
    LogNormal,
    /// 85 % in one mode, 15 % in a slower one six mode widths away.
    Bimodal,
    /// Ten samples a trial with correlation 0.4; the trial is their mean.
    IntraTrial,
    /// A Gaussian with 5 % of trials far slower.
    Spikes,
    /// A Gaussian with 5 % of trials slower by sixteen of its widths, as it occurs on shared machines
    /// (measured: 14 % wide, tenfold slower).
    Bursts,
}

impl Noise {
    /// Every kind.
    pub const ALL: [Self; 7] =
        [Self::Normal, Self::StudentT3, Self::LogNormal, Self::Bimodal, Self::IntraTrial, Self::Spikes, Self::Bursts];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::StudentT3 => "t3",
            Self::LogNormal => "log-normal",
            Self::Bimodal => "bimodal 85/15",
            Self::IntraTrial => "intra-trial 0.4",
            Self::Spikes => "spikes",
            Self::Bursts => "bursts",
        }
    }

    /// One trial's deviation.
    pub fn draw(self, random: &mut RandomStream) -> f64 {
        match self {
            Self::Normal => random.normal(),
            Self::StudentT3 => {
                let square: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                // t₃ has variance 3.
                random.normal() / (square / 3.0).sqrt() / 3.0_f64.sqrt()
            }
            Self::LogNormal => (random.normal().exp() - log_normal_mean()) / log_normal_spread(),
            Self::Bimodal | Self::Spikes | Self::Bursts => {
                let m = self.mixture();
                let slow = random.uniform() < m.share;
                m.standard(m.width * random.normal() + if slow { m.shift } else { 0.0 })
            }
            Self::IntraTrial => {
                let samples = self.samples(random);
                samples.iter().sum::<f64>() / SAMPLES as f64
            }
        }
    }

    /// The samples of one trial. Only [`Noise::IntraTrial`] looks inside; the others have one.
    pub fn samples(self, random: &mut RandomStream) -> Vec<f64> {
        if self != Self::IntraTrial {
            return vec![self.draw(random)];
        }
        // Scaled so that the mean of the samples has standard deviation 1.
        let scale = (WITHIN_TRIAL + (1.0 - WITHIN_TRIAL) / SAMPLES as f64).sqrt().recip();
        let shared = WITHIN_TRIAL.sqrt() * random.normal();
        (0..SAMPLES).map(|_| scale * (shared + (1.0 - WITHIN_TRIAL).sqrt() * random.normal())).collect()
    }

    /// The true median of [`Noise::draw`].
    pub fn median(self) -> f64 {
        match self {
            Self::Normal | Self::StudentT3 | Self::IntraTrial => 0.0,
            Self::LogNormal => (1.0 - log_normal_mean()) / log_normal_spread(),
            Self::Bimodal | Self::Spikes | Self::Bursts => self.mixture().median(),
        }
    }

    fn mixture(self) -> Mixture {
        match self {
            Self::Bimodal => Mixture { share: 0.15, shift: 2.4, width: 0.4 },
            Self::Bursts => Mixture { share: 0.05, shift: 4.0, width: 0.25 },
            _ => Mixture { share: 0.05, shift: 4.0, width: 0.6 },
        }
    }
}

/// Two Gaussians of one width; the second is `shift` higher and has the given share.
struct Mixture {
    share: f64,
    shift: f64,
    width: f64,
}

impl Mixture {
    fn standard(&self, value: f64) -> f64 {
        let mean = self.share * self.shift;
        let variance = self.width.powi(2) + self.share * (1.0 - self.share) * self.shift.powi(2);
        (value - mean) / variance.sqrt()
    }

    fn median(&self) -> f64 {
        let normal = Normal::standard();
        let below = |x: f64| {
            (1.0 - self.share) * normal.cdf(x / self.width) + self.share * normal.cdf((x - self.shift) / self.width)
        };
        let (mut low, mut high) = (-self.width, self.shift);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if below(middle) < 0.5 { low = middle } else { high = middle }
        }
        self.standard(low)
    }
}

fn log_normal_mean() -> f64 {
    0.5_f64.exp()
}

fn log_normal_spread() -> f64 {
    (1.0_f64.exp() * (1.0_f64.exp() - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytegauge_stats::quantile::median;
    use bytegauge_stats::rng::seeded;

    fn check(noise: Noise) {
        let mut random = seeded(1, 2);
        let values: Vec<f64> = (0..60_000).map(|_| noise.draw(&mut random)).collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
        assert!(mean.abs() < 0.02, "{noise:?} has mean {mean}");
        // The variance of t₃ converges slowly, if at all.
        let slack = if matches!(noise, Noise::StudentT3 | Noise::LogNormal) { 0.4 } else { 0.05 };
        assert!((variance - 1.0).abs() < slack, "{noise:?} has variance {variance}");
        let middle = median(&values).unwrap();
        assert!((middle - noise.median()).abs() < 0.015, "{noise:?} has median {middle}");
    }

    #[test]
    fn every_kind_is_standard_and_knows_its_median() {
        Noise::ALL.into_iter().for_each(check);
    }
}
