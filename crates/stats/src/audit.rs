//! Whether an answer holds in trials far longer than those that chose it.
//!
//! The choice of a group and some of its rivals run once more, in few long blocks of their own. Every paired difference
//! of ln costs has Student's interval, the error shared out among the rivals (Bonferroni). Few blocks show large
//! differences alone: with a paired spread of 14 % four of them show 30 %. What a connection does slowly is that large
//! where it has been seen (docs/statistics.md, "How old a path is"). So an audit can take a proof back and cannot make
//! one, and where its blocks are too few for a question, all questions of a session are judged together: each gives one
//! mean difference, and these are the replicates.
//!
//! Never looks at the trials that chose the answer, so what chance did for it there does not count here.

use crate::interval::student_interval;
use serde::{Deserialize, Serialize};

/// Confidence of every audit, as a share. An audit claims nothing, so no look has to share it.
pub const LEVEL: f64 = 0.95;

/// Fewer blocks, or questions, give no interval.
pub const MIN_BLOCKS: usize = 3;

/// What an audit shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// The choice is within the margin of every rival.
    Holds,
    /// Some rival is cheaper by more than the margin.
    Contradicts,
    /// Neither is shown.
    Open,
}

/// The choice against one rival, in long trials.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The rival.
    pub cell: usize,
    /// Mean of ln(cost of the choice / cost of the rival).
    pub mean: f64,
    /// Lower end of its interval; `None` for fewer than [`MIN_BLOCKS`].
    pub lower: Option<f64>,
    /// Upper end; `None` together with `lower`.
    pub upper: Option<f64>,
    /// Blocks that hold both.
    pub blocks: usize,
}

/// The audit of one choice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// Its rivals, in the order of the cells.
    pub rivals: Vec<Against>,
    /// What they show together.
    pub finding: Finding,
}

impl Audit {
    /// So much dearer than each of its rivals the choice is at most, in ln, at least 0; `None` without intervals.
    #[must_use]
    pub fn bound(&self) -> Option<f64> {
        let uppers: Option<Vec<f64>> = self.rivals.iter().map(|rival| rival.upper).collect();
        uppers?.into_iter().reduce(f64::max).map(|upper| upper.max(0.0))
    }

    /// The rival that most clearly is the cheaper one.
    #[must_use]
    pub fn strongest(&self) -> Option<&Against> {
        let lower = |rival: &Against| rival.lower.unwrap_or(f64::NEG_INFINITY);
        self.rivals.iter().max_by(|a, b| lower(a).total_cmp(&lower(b)))
    }
}

/// Audits cell `choice` by `blocks` (one cost a cell; what is missing or not positive takes its pair out). `None` where
/// no block holds it beside another. `ahead`: so much cheaper a rival was in the trials that chose, in ln, at least 0: only
/// what lies beyond that and the margin contradicts a choice that was not said to be as good.
#[must_use]
pub fn audit(
    blocks: &[Vec<Option<f64>>],
    choice: usize,
    level: f64,
    ln_margin: f64,
    ahead: impl Fn(usize) -> f64,
) -> Option<Audit> {
    let cells = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let pairs: Vec<(usize, Vec<f64>)> = (0..cells)
        .filter(|&rival| rival != choice)
        .map(|rival| (rival, differences(blocks, choice, rival)))
        .filter(|(_, differences)| !differences.is_empty())
        .collect();
    let each = 1.0 - (1.0 - level) / pairs.len().max(1) as f64;
    let rivals: Vec<Against> = pairs.iter().map(|(rival, differences)| against(*rival, differences, each)).collect();
    let finding = finding(&rivals, ln_margin, ahead)?;
    Some(Audit { rivals, finding })
}

/// All questions of a session together, by one mean difference each: how much dearer than their rivals the choices are
/// in the mean question.
#[must_use]
pub fn together(means: &[f64], level: f64, ln_margin: f64) -> (Against, Finding) {
    let all = against(0, means, level);
    (all, finding(&[all], ln_margin, |_| 0.0).unwrap_or(Finding::Open))
}

fn differences(blocks: &[Vec<Option<f64>>], choice: usize, rival: usize) -> Vec<f64> {
    let cost = |block: &[Option<f64>], cell: usize| {
        block.get(cell).copied().flatten().filter(|cost| cost.is_finite() && *cost > 0.0)
    };
    blocks.iter().filter_map(|block| Some((cost(block, choice)? / cost(block, rival)?).ln())).collect()
}

fn against(cell: usize, differences: &[f64], level: f64) -> Against {
    let blocks = differences.len();
    let mean = differences.iter().sum::<f64>() / blocks.max(1) as f64;
    let reach = student_interval(differences, level).filter(|_| blocks >= MIN_BLOCKS);
    Against { cell, mean, lower: reach.map(|(lower, _)| lower), upper: reach.map(|(_, upper)| upper), blocks }
}

/// `None` without rivals.
fn finding(rivals: &[Against], ln_margin: f64, ahead: impl Fn(usize) -> f64) -> Option<Finding> {
    let is_cheaper = |rival: &Against| rival.lower.is_some_and(|lower| lower > ln_margin + ahead(rival.cell));
    let any_cheaper = rivals.iter().any(is_cheaper);
    let all_within = rivals.iter().all(|rival| rival.upper.is_some_and(|upper| upper <= ln_margin));
    let found = match (any_cheaper, all_within) {
        (true, _) => Finding::Contradicts,
        (false, true) => Finding::Holds,
        (false, false) => Finding::Open,
    };
    (!rivals.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: f64 = 0.05;

    /// Blocks whose levels swing, with a rival that costs so much of the choice, less or more by `wobble` in turn.
    fn blocks(count: usize, rival: f64, wobble: f64) -> Vec<Vec<Option<f64>>> {
        let block = |at: usize| {
            let level = 1.0 + at as f64;
            let sign = if at.is_multiple_of(2) { 1.0 } else { -1.0 };
            vec![Some(level), Some(level * rival * (sign * wobble).exp()), None]
        };
        (0..count).map(block).collect()
    }

    fn check(count: usize, rival: f64, wobble: f64, expected: Finding) {
        let got = audit(&blocks(count, rival, wobble), 0, LEVEL, MARGIN, |_| 0.0).expect("a rival");
        assert_eq!(got.finding, expected, "{got:?}");
        assert_eq!(got.rivals.len(), 1);
    }

    #[test]
    fn what_is_shown_needs_blocks_and_a_difference() {
        check(4, 0.7, 0.02, Finding::Contradicts);
        check(4, 0.7, 0.9, Finding::Open);
        check(2, 0.7, 0.0, Finding::Open);
        check(4, 1.3, 0.02, Finding::Holds);
        check(4, 1.0, 0.01, Finding::Holds);
        check(4, 1.0, 0.2, Finding::Open);
    }

    #[test]
    fn the_bound_is_the_worst_rival_s_and_never_below_zero() {
        let mut both = blocks(4, 1.3, 0.01);
        both.iter_mut().for_each(|block| block[2] = block[0].map(|cost| cost * 0.5));
        let got = audit(&both, 0, LEVEL, MARGIN, |_| 0.0).expect("rivals");
        assert_eq!((got.finding, got.strongest().map(|rival| rival.cell)), (Finding::Contradicts, Some(2)));
        assert!(got.bound().is_some_and(|bound| (bound - 2.0_f64.ln()).abs() < 1e-9), "{got:?}");
        let alone = audit(&blocks(4, 1.3, 0.01), 0, LEVEL, MARGIN, |_| 0.0).expect("a rival");
        assert_eq!(alone.bound(), Some(0.0));
    }

    #[test]
    fn what_was_known_of_a_rival_contradicts_nothing() {
        let found = |ahead: f64| audit(&blocks(4, 0.7, 0.02), 0, LEVEL, MARGIN, |_| ahead).map(|audit| audit.finding);
        assert_eq!([0.0, 0.1, 0.4].map(found), [Finding::Contradicts, Finding::Contradicts, Finding::Open].map(Some));
    }

    #[test]
    fn without_a_pair_there_is_no_audit() {
        assert_eq!(audit(&[], 0, LEVEL, MARGIN, |_| 0.0), None);
        assert_eq!(audit(&blocks(4, 1.0, 0.0), 2, LEVEL, MARGIN, |_| 0.0), None);
    }

    #[test]
    fn questions_too_small_for_an_interval_speak_together() {
        assert_eq!(together(&[0.2, 0.22, 0.25, 0.19], LEVEL, MARGIN).1, Finding::Contradicts);
        assert_eq!(together(&[0.0, 0.01, -0.02, 0.01], LEVEL, MARGIN).1, Finding::Holds);
        assert_eq!(together(&[0.2, -0.2, 0.1], LEVEL, MARGIN).1, Finding::Open);
        assert_eq!(together(&[0.5], LEVEL, MARGIN).1, Finding::Open);
    }
}
