//! Long-trial check: does a recommendation hold in trials far longer than those that selected it?
//!
//! The recommended cell of a group and some of its rivals run again, in a few long blocks. Every paired difference of
//! ln costs has Student's interval; the error is divided among the rivals (Bonferroni). Few blocks can only show large
//! differences: with a paired spread of 14 %, four blocks show 30 %. Slow effects in long-lived connections were that
//! large where they were observed (docs/research/statistics.md, "How old a path is"). So an audit can withdraw a claim but
//! cannot make one. Where a group has too few blocks, all groups of a session are judged together: each group
//! contributes one mean difference, and these means are the replicates.
//!
//! Never uses the trials that selected the cell, so their selection effect does not count here.

use schemars::JsonSchema;
use serde::Serialize;

use crate::quantile::{moments, student_interval};

/// Confidence of every audit, as a share. An audit makes no claim, so it does not share its error with interim
/// analyses.
pub const LEVEL: f64 = 0.95;

/// The fewest blocks, or groups, that give an interval.
pub const MIN_BLOCKS: usize = 3;

/// The verdict of long trials on a recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuditFinding {
    /// It is within the margin of its rivals.
    Holds,
    /// A rival is significantly faster.
    Contradicts,
    /// Neither is shown.
    Open,
}

/// The recommended cell compared with one rival, in long trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RivalDifference {
    /// The rival.
    pub cell: usize,
    /// Mean of ln(cost of the recommended cell / cost of the rival).
    pub mean: f64,
    /// Lower end of its interval; `None` for fewer than [`MIN_BLOCKS`].
    pub lower: Option<f64>,
    /// Upper end; `None` together with `lower`.
    pub upper: Option<f64>,
    /// Blocks in which both were measured.
    pub blocks: usize,
}

/// The audit of one recommended cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Audit {
    /// The rivals, in cell order.
    pub rivals: Vec<RivalDifference>,
    /// The result over all rivals.
    pub finding: AuditFinding,
}

impl Audit {
    /// Upper bound of ln(cost of the cell / cost of its cheapest rival), at least 0; `None` without intervals.
    pub fn bound(&self) -> Option<f64> {
        let uppers: Option<Vec<f64>> = self.rivals.iter().map(|rival| rival.upper).collect();
        uppers?.into_iter().reduce(f64::max).map(|upper| upper.max(0.0))
    }

    /// The rival with the highest lower bound: the strongest evidence against the cell.
    pub fn strongest(&self) -> Option<&RivalDifference> {
        let lower = |rival: &RivalDifference| rival.lower.unwrap_or(f64::NEG_INFINITY);
        self.rivals.iter().max_by(|a, b| lower(a).total_cmp(&lower(b)))
    }
}

/// Audits cell `choice` with `blocks` (one cost per cell). A missing or non-positive cost removes its pair. Returns
/// `None` if no block holds the cell together with a rival.
///
/// `ahead` gives, for each rival, how much cheaper it was in the trials that selected the cell, in ln, at least 0. Only
/// a difference beyond `ahead` plus the margin contradicts a cell that was not claimed to be as good as that rival.
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
    let rivals: Vec<RivalDifference> =
        pairs.iter().map(|(rival, differences)| against(*rival, differences, each)).collect();
    let finding = finding(&rivals, ln_margin, ahead)?;
    Some(Audit { rivals, finding })
}

/// Judges all groups of a session together. `means` holds one mean difference per group: ln(cost of the cell / cost of
/// its rivals).
pub fn together(means: &[f64], level: f64, ln_margin: f64) -> AuditFinding {
    finding(&[against(0, means, level)], ln_margin, |_| 0.0).unwrap_or(AuditFinding::Open)
}

fn differences(blocks: &[Vec<Option<f64>>], choice: usize, rival: usize) -> Vec<f64> {
    let cost = |block: &[Option<f64>], cell: usize| {
        block.get(cell).copied().flatten().filter(|cost| cost.is_finite() && *cost > 0.0)
    };
    blocks.iter().filter_map(|block| Some((cost(block, choice)? / cost(block, rival)?).ln())).collect()
}

fn against(cell: usize, differences: &[f64], level: f64) -> RivalDifference {
    let blocks = differences.len();
    let (mean, _) = moments(differences);
    let reach = student_interval(differences, level).filter(|_| blocks >= MIN_BLOCKS);
    RivalDifference { cell, mean, lower: reach.map(|(lower, _)| lower), upper: reach.map(|(_, upper)| upper), blocks }
}

/// `None` without rivals.
fn finding(rivals: &[RivalDifference], ln_margin: f64, ahead: impl Fn(usize) -> f64) -> Option<AuditFinding> {
    let is_cheaper = |rival: &RivalDifference| rival.lower.is_some_and(|lower| lower > ln_margin + ahead(rival.cell));
    let any_cheaper = rivals.iter().any(is_cheaper);
    let all_within = rivals.iter().all(|rival| rival.upper.is_some_and(|upper| upper <= ln_margin));
    let found = match (any_cheaper, all_within) {
        (true, _) => AuditFinding::Contradicts,
        (false, true) => AuditFinding::Holds,
        (false, false) => AuditFinding::Open,
    };
    (!rivals.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: f64 = 0.05;

    /// Blocks with different levels. The rival costs `rival` times the cell, alternately raised and lowered by `wobble`
    /// (ln).
    fn blocks(count: usize, rival: f64, wobble: f64) -> Vec<Vec<Option<f64>>> {
        let block = |at: usize| {
            let level = 1.0 + at as f64;
            let sign = if at.is_multiple_of(2) { 1.0 } else { -1.0 };
            vec![Some(level), Some(level * rival * (sign * wobble).exp()), None]
        };
        (0..count).map(block).collect()
    }

    fn check(count: usize, rival: f64, wobble: f64, expected: AuditFinding) {
        let got = audit(&blocks(count, rival, wobble), 0, LEVEL, MARGIN, |_| 0.0).expect("a rival");
        assert_eq!(got.finding, expected, "{got:?}");
        assert_eq!(got.rivals.len(), 1);
    }

    #[test]
    fn a_result_needs_blocks_and_a_difference() {
        check(4, 0.7, 0.02, AuditFinding::Contradicts);
        check(4, 0.7, 0.9, AuditFinding::Open);
        check(2, 0.7, 0.0, AuditFinding::Open);
        check(4, 1.3, 0.02, AuditFinding::Holds);
        check(4, 1.0, 0.01, AuditFinding::Holds);
        check(4, 1.0, 0.2, AuditFinding::Open);
    }

    #[test]
    fn bound_is_the_worst_rivals_and_never_negative() {
        let mut both = blocks(4, 1.3, 0.01);
        both.iter_mut().for_each(|block| block[2] = block[0].map(|cost| cost * 0.5));
        let got = audit(&both, 0, LEVEL, MARGIN, |_| 0.0).expect("rivals");
        assert_eq!((got.finding, got.strongest().map(|rival| rival.cell)), (AuditFinding::Contradicts, Some(2)));
        assert!(got.bound().is_some_and(|bound| (bound - 2.0_f64.ln()).abs() < 1e-9), "{got:?}");
        let alone = audit(&blocks(4, 1.3, 0.01), 0, LEVEL, MARGIN, |_| 0.0).expect("a rival");
        assert_eq!(alone.bound(), Some(0.0));
    }

    #[test]
    fn a_rival_known_to_be_cheaper_contradicts_nothing() {
        let found = |ahead: f64| audit(&blocks(4, 0.7, 0.02), 0, LEVEL, MARGIN, |_| ahead).map(|audit| audit.finding);
        assert_eq!(
            [0.0, 0.1, 0.4].map(found),
            [AuditFinding::Contradicts, AuditFinding::Contradicts, AuditFinding::Open].map(Some)
        );
    }

    #[test]
    fn no_pair_gives_no_audit() {
        assert_eq!(audit(&[], 0, LEVEL, MARGIN, |_| 0.0), None);
        assert_eq!(audit(&blocks(4, 1.0, 0.0), 2, LEVEL, MARGIN, |_| 0.0), None);
    }

    #[test]
    fn small_groups_are_judged_together() {
        assert_eq!(together(&[0.2, 0.22, 0.25, 0.19], LEVEL, MARGIN), AuditFinding::Contradicts);
        assert_eq!(together(&[0.0, 0.01, -0.02, 0.01], LEVEL, MARGIN), AuditFinding::Holds);
        assert_eq!(together(&[0.2, -0.2, 0.1], LEVEL, MARGIN), AuditFinding::Open);
        assert_eq!(together(&[0.5], LEVEL, MARGIN), AuditFinding::Open);
    }
}
