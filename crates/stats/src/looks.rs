//! Looks: after how many blocks a session may stop because it has seen enough.
//!
//! Whoever stops at a moment chosen by what the trials show can prove anything. So the moments are declared
//! beforehand, at 1, 2 and 4 times the blocks, and the error of 5 % is shared between them evenly (Bonferroni: each
//! look at 98.3 %): whichever look is the last, what it proves is wrong in at most 5 %. Every look judges all blocks
//! from the first on; blocks behind the last look that was completed prove nothing.
//!
//! Three looks that double cost little: in groups resampled from real sessions, where a fixed 64 blocks prove 76 % and
//! 256 prove 95 %, looks at 64, 128 and 256 prove as many as 256 do, in about 100 blocks on average.
//!
//! Never decides by what was measured how many looks there are, or where.

use crate::budget::more_blocks;
use crate::group::{GroupVerdict, Method};
use serde::{Deserialize, Serialize};

/// Looks of a session that does not say otherwise.
pub const LOOKS: usize = 3;

/// A moment, declared beforehand, at which a session is judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Its number, from 1.
    pub number: usize,
    /// How many there are at most.
    pub of: usize,
    /// Blocks of a group with which it ends, counted from the session's first.
    pub blocks: usize,
    /// Confidence of its judgement, as a share: [`Method::level`].
    pub level: f64,
}

/// The level of each of `of` looks which together keep `overall` (a share, 0.95).
#[must_use]
pub fn level(overall: f64, of: usize) -> f64 {
    1.0 - (1.0 - overall) / of.max(1) as f64
}

/// All looks of a group whose first one ends with `first_blocks` blocks: each has twice the blocks of the one before.
/// One look is a number of blocks fixed beforehand, at the full level.
#[must_use]
pub fn schedule(first_blocks: usize, of: usize, overall: f64) -> Vec<Look> {
    let of = of.max(1);
    let blocks = |number: usize| {
        let times = u32::try_from(number - 1).ok().and_then(|power| 2_usize.checked_pow(power)).unwrap_or(usize::MAX);
        first_blocks.saturating_mul(times)
    };
    (1..=of).map(|number| Look { number, of, blocks: blocks(number), level: level(overall, of) }).collect()
}

/// The last look that a group with so many whole blocks has completed.
#[must_use]
pub fn completed(looks: &[Look], blocks: usize) -> Option<Look> {
    looks.iter().copied().rfind(|look| look.blocks <= blocks)
}

/// The look that a group with so many whole blocks has still before it; `None` behind the last.
#[must_use]
pub fn next(looks: &[Look], blocks: usize) -> Option<Look> {
    looks.iter().copied().find(|look| look.blocks > blocks)
}

/// Whether another look is of no use: in every group something is proven, or no number of blocks would prove
/// anything (its twin alarms, its blocks depend on each other, plain means speak against what leads). `verdicts` are
/// those of the look that was just completed, one a group, judged at its level.
#[must_use]
pub fn settled(verdicts: &[GroupVerdict], method: &Method) -> bool {
    let is_settled = |verdict: &GroupVerdict| {
        let cells = || verdict.present.iter().copied();
        cells().any(|cell| verdict.proves(cell, method))
            || cells().all(|cell| more_blocks(verdict, cell, method).is_none())
    };
    verdicts.iter().all(is_settled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::analyse;
    use crate::sim::{Noise, Scenario};

    #[test]
    fn looks_double_and_share_the_error() {
        let looks = schedule(64, LOOKS, 0.95);
        let ends: Vec<usize> = looks.iter().map(|look| look.blocks).collect();
        assert_eq!(ends, [64, 128, 256]);
        assert!(looks.iter().all(|look| (look.level - 0.983_333).abs() < 1e-6), "{looks:?}");
        assert!((schedule(64, 1, 0.95)[0].level - 0.95).abs() < 1e-12);
        assert_eq!(schedule(usize::MAX, 80, 0.95).last().map(|look| look.blocks), Some(usize::MAX));
    }

    #[test]
    fn blocks_between_two_looks_belong_to_neither() {
        let looks = schedule(10, LOOKS, 0.95);
        for (blocks, done, ahead) in [
            (9, None, Some(1)),
            (10, Some(1), Some(2)),
            (39, Some(2), Some(3)),
            (40, Some(3), None),
            (99, Some(3), None),
        ] {
            let number = |look: Option<Look>| look.map(|look| look.number);
            assert_eq!((number(completed(&looks, blocks)), number(next(&looks, blocks))), (done, ahead), "{blocks}");
        }
    }

    #[test]
    fn a_look_settles_what_can_be_settled() {
        let method = Method { level: level(0.95, LOOKS), ..Method::default() };
        let judged = |effects: &[f64], spread: f64, twin_off: f64| {
            let mut scenario = Scenario::new(effects.to_vec(), Noise::Normal, spread);
            scenario.twin_of = Some(0);
            let mut input = scenario.group(40, 2);
            input
                .blocks
                .iter_mut()
                .for_each(|block| block.twin_cost = block.twin_cost.map(|cost| cost * twin_off.exp()));
            analyse(&input, &method)
        };
        let (proven, open) = (judged(&[0.0, 0.2], 0.01, 0.0), judged(&[0.0, 0.0], 0.5, 0.0));
        let alarmed = judged(&[0.0, 0.0], 0.1, 0.4);
        assert!(alarmed.twin_alarm);
        assert!(settled(std::slice::from_ref(&proven), &method) && settled(&[proven.clone(), alarmed], &method));
        assert!(!settled(&[proven, open], &method));
    }
}
