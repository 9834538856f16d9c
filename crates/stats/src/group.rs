//! Analyses one group: cells that are equal in every condition, measured together block by block.
//!
//! The steps: take complete blocks, limit outliers, merge blocks that depend on each other, judge the A/A control,
//! then find the best set and the bounds. The analysis is repeated by plain means, which can withdraw a claim. It is
//! repeated again with the control's costs in place of the repeated cell's; a claim that fails then is reported but
//! stays.
//!
//! Blocks in which the hypervisor took CPU time count like all others. CPU steal can depend on the cell, so leaving
//! such blocks out would bias the result.
//!
//! The caller passes confirmation blocks only, never screening blocks. No outlier is dropped.
//!
//! Also the A/A control, below.

use std::fmt;

use crate::best_set::{BestSet, best_set, random};
use crate::block_dependence::{FEW_BLOCKS, MIN_BLOCKS, Merge, merge, merging};
use crate::outlier::{Limited, limit, limit_rows};
use crate::quantile::{moments, student_critical};

/// A cell that is missing from more than this share of the blocks leaves the group. A cell that is missing from fewer
/// makes those blocks incomplete.
const LEFT_SHARE: f64 = 0.2;

/// Properties of a cell that the analysis needs in addition to its trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CellInput {
    /// Memory that the option occupies, in bytes; `None` where no factor is a size.
    pub footprint_bytes: Option<f64>,
    /// CPU time per unit of work (ns per byte or per call); breaks ties.
    pub cpu_per_unit: Option<f64>,
    /// Position in the plan; breaks the last ties.
    pub order: usize,
    /// It leaves everything that varies to the system: named before others where they are tied.
    pub is_default: bool,
    /// The option has a defect that costs do not show: it stalls, or it misses an offered load that other options
    /// carry.
    pub unfit: bool,
}

/// One visit to all cells of the group.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockInput {
    /// Cost per cell in cell order (for example ns per byte), above 0; `None` when missing. A value that is not a
    /// positive number counts as missing.
    pub cost: Vec<Option<f64>>,
    /// Cost of the A/A control in the same unit.
    pub twin_cost: Option<f64>,
}

/// The confirmation blocks of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupInput {
    /// The cells. Where several profiles are judged together, the same index means the same option in each of them.
    pub cells: Vec<CellInput>,
    /// The cell that the A/A control repeats.
    pub twin_of: Option<usize>,
    /// Confirmation blocks in the order they were run.
    pub blocks: Vec<BlockInput>,
}

/// Settings of the analysis. The defaults are the published method. The switches exist for negative controls, which
/// must fail the tests of the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    /// Confidence of every group, as a share.
    pub level: f64,
    /// The largest excess that counts as good enough, as a share above the cost of the best (0.05 = 5 %).
    pub margin: f64,
    /// Seed of the random flips and orders.
    pub seed: u64,
    /// Groups of the session; the error of the A/A control's alarm is divided among them.
    pub groups: usize,
    /// Random sign flips above 12 blocks.
    pub random_flips: usize,
    /// Negative control when `false`: keep the observed standard error at every flip.
    pub studentise_each_flip: bool,
    /// Limit outliers to [`crate::outlier::SPREADS`]; `false` judges by plain means.
    pub limit_outliers: bool,
    /// Negative control when `false`: assume that neighbouring blocks are independent.
    pub merge_dependent_blocks: bool,
}

impl Default for Method {
    fn default() -> Self {
        Self {
            level: 0.95,
            margin: 0.05,
            seed: 1,
            groups: 1,
            random_flips: 4999,
            studentise_each_flip: true,
            limit_outliers: true,
            merge_dependent_blocks: true,
        }
    }
}

impl Method {
    /// The margin as a difference of ln costs: ln(1 + x).
    pub fn ln_margin(&self) -> f64 {
        self.margin.ln_1p()
    }
}

/// Why a group has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inconclusive {
    /// No cell is present.
    NoCells,
    /// Fewer than two usable blocks: this number.
    TooFewBlocks(usize),
}

impl fmt::Display for Inconclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCells => write!(f, "no block was measured"),
            Self::TooFewBlocks(blocks) => {
                let plural = if *blocks == 1 { "" } else { "s" };
                write!(f, "{blocks} usable block{plural}; at least {FEW_BLOCKS} are needed")
            }
        }
    }
}

/// The result for one group. Vectors over cells are in the order of [`GroupInput::cells`].
#[derive(Clone, Debug, PartialEq)]
pub struct GroupVerdict {
    /// Cells judged, ascending. Others left the group: they are missing from more than a fifth of the blocks.
    pub present: Vec<usize>,
    /// Complete blocks; only these count.
    pub blocks_used: usize,
    /// Neighbouring blocks merged into one.
    pub merged_by: usize,
    /// Whether these look independent. Otherwise the intervals are wide.
    pub independent: bool,
    /// Factor by which the correlation of these widens the intervals, from 1.
    pub widening: f64,
    /// The A/A control's difference; `None` without a control.
    pub twin: Option<Twin>,
    /// Cells that may still be the best, ascending. All present cells when inconclusive.
    pub best_set: Vec<usize>,
    /// Cells significantly worse than the best, ascending.
    pub left: Vec<usize>,
    /// Mean ln(cost / cost of the cell with the least mean): the point estimate, 0 for the leader.
    pub excess: Vec<Option<f64>>,
    /// Uᵢ: upper bound of ln(cost / cost of the best), at least 0. `None` for absent cells and when
    /// inconclusive.
    pub upper: Vec<Option<f64>>,
    /// Lᵢ: lower bound of the same, at least 0.
    pub lower: Vec<Option<f64>>,
    /// Pairs and critical values over `present`; use [`GroupVerdict::pair`] to read them.
    pub judged: BestSet,
    /// [`GroupVerdict::upper`] with the control's costs in place of the repeated cell's. Empty where no claim is made
    /// or without a control.
    pub exchanged_upper: Vec<Option<f64>>,
    /// Why the group has no result, if so.
    pub inconclusive: Option<Inconclusive>,
    /// Number of limited slow trials of each cell.
    pub slow_limited: Vec<usize>,
    /// Cells that the limited means keep or put within the margin, without a claim, ascending. Plain means,
    /// in which every slow trial counts in full, reject these cells and put them beyond the margin. A trial that moved
    /// nothing counts against its cell as well: its cost is infinite and has no logarithm, so its block is not compared.
    pub contradicted: Vec<usize>,
}

/// A paired difference of two cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairDifference {
    /// Mean of ln(cost i / cost j).
    pub mean: f64,
    /// Its standard error, in ln.
    pub error: f64,
    /// Half the width of its interval that more blocks reduce, in ln.
    pub random: f64,
    /// The half that they do not reduce: what an A/A control that differs may have missed.
    pub systematic: f64,
}

impl PairDifference {
    /// Half the width of its interval, in ln: mean + reach is the bound that enters Uᵢ.
    pub fn reach(&self) -> f64 {
        self.random + self.systematic
    }
}

impl GroupVerdict {
    /// How far equal cells of this group may be apart by more than chance, in ln: all bounds are wider by it. 0 where the A/A control does
    /// not differ.
    pub fn systematic(&self) -> f64 {
        self.twin.filter(|twin| twin.alarm).map_or(0.0, |twin| twin.reach)
    }

    /// The difference of cells `i` and `j` (indices of the input). `None` if either is absent or the group is inconclusive.
    pub fn pair(&self, i: usize, j: usize) -> Option<PairDifference> {
        let (a, b) = (self.place(i)?, self.place(j)?);
        let (critical, pairs) = (*self.judged.critical.get(b)?, &self.judged.pairs);
        let (mean, error) = (pairs.mean(a, b), pairs.error(a, b));
        Some(PairDifference {
            mean,
            error,
            random: random(critical, error, pairs.blocks()),
            systematic: self.systematic(),
        })
    }

    /// Whether cell `i` is significantly within the margin of the best of this group.
    pub fn proves(&self, i: usize, method: &Method) -> bool {
        let within = |upper: f64| upper <= method.ln_margin();
        self.upper.get(i).copied().flatten().is_some_and(within) && self.contradicted.binary_search(&i).is_err()
    }

    /// Whether the claim for cell `i` still holds with the control's costs in place of the repeated cell's.
    ///
    /// Both are the same cell, so a claim that fails here depends on which of the two was used. It also fails by chance
    /// (see the verification table), so it is reported and forbids nothing. `None` if no claim is made for the cell or
    /// there is no control.
    pub fn survives_exchange(&self, i: usize, method: &Method) -> Option<bool> {
        let upper = self.exchanged_upper.get(i).copied().flatten()?;
        self.proves(i, method).then_some(upper <= method.ln_margin())
    }

    /// The present cell with the least mean cost.
    pub fn leader(&self) -> Option<usize> {
        self.present.iter().copied().find(|&i| self.excess[i] == Some(0.0))
    }

    fn place(&self, cell: usize) -> Option<usize> {
        self.present.binary_search(&cell).ok()
    }
}

/// Analyses one group by its confirmation blocks.
///
/// # Panics
/// If a block has a different number of costs than the group has cells.
pub fn analyse(input: &GroupInput, method: &Method) -> GroupVerdict {
    let mut primary = judge_blocks(input, method);
    if method.limit_outliers && primary.slow_limited.iter().any(|&trials| trials > 0) {
        let plain = judge_blocks(input, &Method { limit_outliers: false, ..*method });
        primary.contradicted = contradicted(&primary, &plain, method);
    }
    primary.contradicted.extend(primary.present.iter().filter(|&&cell| input.cells[cell].unfit));
    primary.contradicted.sort_unstable();
    primary.contradicted.dedup();
    if (0..input.cells.len()).any(|cell| primary.proves(cell, method)) {
        primary.exchanged_upper = exchanged(input).map_or_else(Vec::new, |input| judge_blocks(&input, method).upper);
    }
    primary
}

/// The same blocks with the control's costs in place of the repeated cell's; `None` without a control.
fn exchanged(input: &GroupInput) -> Option<GroupInput> {
    let of = input.twin_of?;
    let mut exchanged = input.clone();
    exchanged.blocks.iter_mut().for_each(|block| block.cost[of] = block.twin_cost);
    exchanged.blocks.iter().any(|block| block.twin_cost.is_some()).then_some(exchanged)
}

/// Cells that the limited means keep or put within the margin, but that the plain means reject and put beyond the
/// margin.
fn contradicted(typical: &GroupVerdict, plain: &GroupVerdict, method: &Method) -> Vec<usize> {
    let beyond = |cell: &&usize| plain.excess[**cell].is_some_and(|excess| excess > method.ln_margin());
    let is_favoured = |cell: &&usize| {
        typical.best_set.binary_search(cell).is_ok()
            || typical.upper[**cell].is_some_and(|upper| upper <= method.ln_margin())
    };
    plain.left.iter().filter(beyond).filter(is_favoured).copied().collect()
}

fn judge_blocks(input: &GroupInput, method: &Method) -> GroupVerdict {
    let present = presence(input);
    let used: Vec<&BlockInput> = input.blocks.iter().filter(|block| is_complete(block, &present)).collect();
    let rows: Vec<Vec<f64>> = used.iter().map(|block| ln_costs(block, &present)).collect();
    let mut slow_limited = vec![0; input.cells.len()];
    // Few blocks do not show which trials are outliers.
    let limits = method.limit_outliers && used.len() >= MIN_BLOCKS;
    let rows = if limits {
        let Limited { rows, slow, .. } = limit_rows(&rows);
        present.iter().zip(slow).for_each(|(&cell, trials)| slow_limited[cell] = trials);
        rows
    } else {
        rows
    };
    let merging = merging_of(&rows, present.len(), method);
    let rows = merge_rows(&rows, present.len(), merging.by);
    let twin = twin_differences(input, &used, limits)
        .and_then(|d| judge(&merge(&d, merging.by), merging.widening, method.groups));
    let inconclusive = why_inconclusive(&present, &merging);
    let mut verdict = GroupVerdict {
        blocks_used: used.len(),
        merged_by: merging.by,
        independent: merging.independent,
        widening: merging.widening,
        twin,
        best_set: present.clone(),
        left: Vec::new(),
        excess: excess(&rows, &present, input.cells.len()),
        upper: vec![None; input.cells.len()],
        lower: vec![None; input.cells.len()],
        judged: BestSet::default(),
        exchanged_upper: Vec::new(),
        inconclusive,
        slow_limited,
        contradicted: Vec::new(),
        present,
    };
    if inconclusive.is_none() {
        let judged = best_set(&rows, merging.widening, verdict.systematic(), method);
        fill(&mut verdict, judged);
    }
    verdict
}

fn fill(verdict: &mut GroupVerdict, judged: BestSet) {
    for (place, &cell) in verdict.present.iter().enumerate() {
        // No cell is cheaper than the best.
        verdict.upper[cell] = Some(judged.upper[place].max(0.0));
        verdict.lower[cell] = Some(judged.lower[place].max(0.0));
    }
    let place_of = |cell: &usize| verdict.present.binary_search(cell).expect("a present cell");
    let (best, left) = verdict.present.iter().partition(|cell| judged.kept[place_of(cell)]);
    (verdict.best_set, verdict.left) = (best, left);
    verdict.judged = judged;
}

fn presence(input: &GroupInput) -> Vec<usize> {
    let cells = input.cells.len();
    for block in &input.blocks {
        assert_eq!(block.cost.len(), cells, "a block has one cost a cell");
    }
    let missing = |cell: usize| input.blocks.iter().filter(|block| cost(block, cell).is_none()).count();
    let most = input.blocks.len() as f64 * LEFT_SHARE;
    let there = |cell: &usize| !input.blocks.is_empty() && missing(*cell) as f64 <= most;
    (0..cells).filter(there).collect()
}

fn cost(block: &BlockInput, cell: usize) -> Option<f64> {
    block.cost[cell].filter(|cost| cost.is_finite() && *cost > 0.0)
}

fn is_complete(block: &BlockInput, present: &[usize]) -> bool {
    present.iter().all(|&cell| cost(block, cell).is_some())
}

fn ln_costs(block: &BlockInput, present: &[usize]) -> Vec<f64> {
    let ln = |&cell: &usize| cost(block, cell).expect("the block is complete").ln();
    present.iter().map(ln).collect()
}

/// Tests every cell's difference from its block's mean: together these contain every paired difference.
fn merging_of(rows: &[Vec<f64>], cells: usize, method: &Method) -> Merge {
    if cells < 2 || !method.merge_dependent_blocks {
        return Merge { by: 1, blocks: rows.len(), independent: true, widening: 1.0 };
    }
    let means: Vec<f64> = rows.iter().map(|row| row.iter().sum::<f64>() / cells as f64).collect();
    let differences: Vec<Vec<f64>> =
        (0..cells).map(|i| rows.iter().zip(&means).map(|(row, mean)| row[i] - mean).collect()).collect();
    merging(&differences, method.seed)
}

fn merge_rows(rows: &[Vec<f64>], cells: usize, by: usize) -> Vec<Vec<f64>> {
    let columns: Vec<Vec<f64>> =
        (0..cells).map(|i| merge(&rows.iter().map(|row| row[i]).collect::<Vec<_>>(), by)).collect();
    (0..rows.len() / by).map(|b| columns.iter().map(|column| column[b]).collect()).collect()
}

fn twin_differences(input: &GroupInput, used: &[&BlockInput], limits: bool) -> Option<Vec<f64>> {
    let of = input.twin_of?;
    let difference = |block: &&BlockInput| {
        let twin = block.twin_cost.filter(|cost| cost.is_finite() && *cost > 0.0)?;
        Some((twin / cost(block, of)?).ln())
    };
    let differences: Vec<f64> = used.iter().filter_map(difference).collect();
    Some(if limits { limit(&differences) } else { differences })
}

fn why_inconclusive(present: &[usize], merging: &Merge) -> Option<Inconclusive> {
    if present.is_empty() {
        Some(Inconclusive::NoCells)
    } else if merging.blocks < FEW_BLOCKS {
        Some(Inconclusive::TooFewBlocks(merging.blocks))
    } else {
        None
    }
}

fn excess(rows: &[Vec<f64>], present: &[usize], cells: usize) -> Vec<Option<f64>> {
    let mut excess = vec![None; cells];
    let n = rows.len() as f64;
    let means: Vec<f64> = (0..present.len()).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / n).collect();
    let least = means.iter().copied().fold(f64::INFINITY, f64::min);
    if !rows.is_empty() {
        present.iter().zip(&means).for_each(|(&cell, mean)| excess[cell] = Some(mean - least));
    }
    excess
}

// The A/A control: the difference that the harness measures between two equal cells.
//
// A group's leader runs twice in every block under two names. The interval of their difference shows how far apart
// equal cells may still be at this number of blocks. It shrinks with more blocks, so it is no property of the machine.
// A difference that chance cannot explain means that something other than the cell affects the result, by as much.
//
// Swapping the two names changes nothing, so the difference is symmetric by construction, and Student's interval is
// valid for it even when the noise is skewed. It also works with few blocks, where sign flips cannot reach a
// Bonferroni level. All intervals of the group are then wider by as much as equal cells may differ.
//
// Never compares different cells.

/// Level of the interval whose outer end is [`Twin::reach`].
const REACH_LEVEL: f64 = 0.95;
/// Level of the alarm before it is divided among the groups.
const ALARM_LEVEL: f64 = 0.99;

/// The result of the A/A control of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Twin {
    /// Mean of ln(cost of the control / cost of the leader).
    pub difference: f64,
    /// Standard deviation of that difference between blocks, in ln.
    pub spread: f64,
    /// The larger absolute end of the 95 % interval, in ln: the largest plausible difference of the two.
    pub reach: f64,
    /// Whether the 99 % interval, Bonferroni over the groups, excludes 0.
    pub alarm: bool,
    /// Number of blocks.
    pub blocks: usize,
}

/// Judges ln(control / leader), one value per block, in a session of `groups` groups, with standard errors that grow by the
/// factor `widening`. `None` for fewer than two blocks.
pub fn judge(differences: &[f64], widening: f64, groups: usize) -> Option<Twin> {
    let blocks = differences.len();
    if blocks < 2 {
        return None;
    }
    let (mean, variance) = moments(differences);
    let error = widening * (variance / blocks as f64).sqrt();
    let quantile = |level: f64| student_critical(blocks as f64 - 1.0, level).expect("two blocks or more");
    let alarm_level = 1.0 - (1.0 - ALARM_LEVEL) / groups.max(1) as f64;
    Some(Twin {
        difference: mean,
        spread: variance.sqrt(),
        reach: mean.abs() + quantile(REACH_LEVEL) * error,
        alarm: mean.abs() > quantile(alarm_level) * error,
        blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::seeded;

    fn check(differences: &[f64], groups: usize, reach: f64, alarm: bool) {
        let got = judge(differences, 1.0, groups).unwrap();
        assert!((got.reach - reach).abs() < 1e-4, "{got:?}");
        assert_eq!(got.alarm, alarm, "{got:?}");
    }

    #[test]
    fn known_cases() {
        // Mean 0.01, sd 0.01, n = 4: t(3, 0.975) = 3.1824.
        let values = [0.0, 0.01, 0.01, 0.02];
        check(&values, 1, 0.01 + 3.1824 * 0.008_165 / 2.0, false);
        check(&[0.02, 0.021, 0.019, 0.02, 0.02, 0.02], 1, 0.020_66, true);
        assert_eq!(judge(&[0.1], 1.0, 1), None);
    }

    #[test]
    fn more_groups_need_more_evidence() {
        let mut random = seeded(5, 0);
        let values: Vec<f64> = (0..20).map(|_| 0.007 + 0.01 * random.normal()).collect();
        assert!(judge(&values, 1.0, 1).unwrap().alarm);
        assert!(!judge(&values, 1.0, 5000).unwrap().alarm);
    }
}
