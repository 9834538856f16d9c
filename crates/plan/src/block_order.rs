//! The order of a block: a seeded random permutation. Never reads the clock.
//!
//! The generator is a fixed algorithm of a fixed version (PCG XSL RR 128/64), so that a seed gives the
//! same order on every machine and for ever.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64;

/// The order in which a block visits `count` cells: a permutation of `0..count`.
pub fn order(count: usize, seed: u64, block: u64) -> Vec<usize> {
    let mut random = Pcg64::seed_from_u64(seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, below(&mut random, last as u64 + 1) as usize);
    }
    order
}

/// A fair coin for this block: which of two CPUs is the source's.
pub fn coin(seed: u64, block: u64) -> bool {
    let mut random = Pcg64::seed_from_u64(!seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.next_u64() >> 63 == 1
}

/// A number below `bound`, every one equally likely (rejection of the uneven tail).
fn below(random: &mut Pcg64, bound: u64) -> u64 {
    let fair = u64::MAX - u64::MAX % bound;
    loop {
        let value = random.next_u64();
        if value < fair {
            return value % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_block_is_a_permutation(count in 0usize..100, seed: u64, block: u64) {
            let mut sorted = order(count, seed, block);
            prop_assert_eq!(&sorted, &order(count, seed, block));
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_seed_gives_this_order_for_ever() {
        assert_eq!(order(8, 1, 0), [3, 6, 2, 0, 1, 4, 5, 7]);
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut first = [0u32; 5];
        for block in 0..10_000 {
            first[order(5, 42, block)[0]] += 1;
        }
        assert!(first.iter().all(|n| (1_850..2_150).contains(n)), "{first:?}");
    }
}
