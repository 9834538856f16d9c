//! Seeded random numbers that never change between versions.
//!
//! A plan or a result must be repeatable years later. So the generator is a named, portable one (PCG XSL RR 128/64, M.
//! O'Neill 2014), and the functions that draw integers are written here: those of the usual crates may change between
//! versions.
//!
//! Never seeds itself from the clock or the operating system.

use bytegauge_model::mix;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::RngCore;

/// A stream of random numbers. The same seed and stream number give the same numbers on every machine.
/// [`RandomStream::normal`] and its users need the same `ln` as well.
#[derive(Clone, Debug)]
pub struct RandomStream {
    generator: Pcg64,
    spare_normal: Option<f64>,
}

/// A generator for `seed`. Different `stream` numbers give independent sequences, so that a new consumer of randomness
/// does not change the numbers of the others.
pub fn seeded(seed: u64, stream: u64) -> RandomStream {
    // Seeds are often 1, 2, 3: mixing spreads them over all 128 bits.
    let high = mix(seed);
    let low = mix(high ^ seed.rotate_left(32));
    let state = (u128::from(high) << 64) | u128::from(low);
    RandomStream { generator: Pcg64::new(state, u128::from(mix(stream))), spare_normal: None }
}

impl RandomStream {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A number in [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A whole number in `0..bound`, every one equally likely.
    ///
    /// # Panics
    /// If `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "there is no number below 0");
        let bound = bound as u64;
        // The remainder is unbiased only below the largest multiple of the bound.
        let fair = u64::MAX - u64::MAX % bound;
        loop {
            let bits = self.bits();
            if bits < fair {
                return (bits % bound) as usize;
            }
        }
    }

    /// Puts `items` in a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// A standard normal number (Marsaglia's polar method).
    pub fn normal(&mut self) -> f64 {
        if let Some(spare) = self.spare_normal.take() {
            return spare;
        }
        loop {
            let x = 2.0 * self.uniform() - 1.0;
            let y = 2.0 * self.uniform() - 1.0;
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.spare_normal = Some(y * factor);
                return x * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_numbers_never_change() {
        let mut stream = seeded(1, 0);
        let got: Vec<u64> = (0..3).map(|_| stream.bits()).collect();
        assert_eq!(got, [9_032_778_915_119_634_378, 325_664_119_574_768_382, 12_572_552_208_658_563_778]);
    }

    #[test]
    fn normal_numbers_have_mean_0_and_variance_1() {
        let mut stream = seeded(7, 1);
        let n = 200_000;
        let (mut sum, mut square) = (0.0, 0.0);
        for _ in 0..n {
            let x = stream.normal();
            sum += x;
            square += x * x;
        }
        assert!((sum / f64::from(n)).abs() < 0.01, "mean {sum}");
        assert!((square / f64::from(n) - 1.0).abs() < 0.02);
    }

    proptest! {
        #[test]
        fn a_shuffle_is_a_permutation(seed: u64, n in 0_usize..100) {
            let mut items: Vec<usize> = (0..n).collect();
            seeded(seed, 3).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..n).collect::<Vec<_>>());
        }

        #[test]
        fn streams_of_one_seed_differ(seed: u64) {
            prop_assert_ne!(seeded(seed, 0).bits(), seeded(seed, 1).bits());
        }
    }
}
