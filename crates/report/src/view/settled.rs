//! Which trials speak for a cell: those of its furthest stage, and of whole blocks where it was confirmed.
//!
//! Intervals and comparisons come from confirmation alone, so that no number is the best of several
//! looks. Never drops an outlier; never mixes stages of confirmation and screening.

use std::collections::{HashMap, HashSet};

use bytegauge_model::{BlockRecord, Cell, CellId, GroupId, Outcome, Stage, Trial, Workload};

/// Blocks by index. Where no block was recorded (an import) every trial belongs to a whole one; where some were, a
/// trial without one belongs to a block that was cut off.
pub struct Blocks<'a> {
    by_index: HashMap<u64, &'a BlockRecord>,
    /// Confirmation blocks that no look has judged yet.
    unjudged: HashSet<u64>,
}

impl<'a> Blocks<'a> {
    /// Sorts every block; `judged` says how many of a group's confirmation blocks its last look had, `None` for all. Those
    /// behind it wait for the next look: a rate of them beside a bound without them would be of two sets of trials.
    pub fn of(blocks: &'a [BlockRecord], judged: impl Fn(&GroupId) -> Option<usize>) -> Blocks<'a> {
        let mut whole: HashMap<&GroupId, Vec<u64>> = HashMap::new();
        for block in blocks.iter().filter(|block| block.stage == Stage::Confirm && block.complete) {
            whole.entry(&block.group).or_default().push(block.index);
        }
        let mut unjudged = HashSet::new();
        for (group, mut indices) in whole {
            indices.sort_unstable();
            unjudged.extend(indices.into_iter().skip(judged(group).unwrap_or(usize::MAX)));
        }
        Blocks { by_index: blocks.iter().map(|block| (block.index, block)).collect(), unjudged }
    }

    /// Whether the block waits for a look, and counts for nothing before.
    pub fn is_unjudged(&self, index: u64) -> bool {
        self.unjudged.contains(&index)
    }

    /// Whether any block waits for a look.
    pub fn any_unjudged(&self) -> bool {
        !self.unjudged.is_empty()
    }

    /// Whether every trial of the block was measured, and it counts; one that broke off was repeated under a new index. What
    /// the hypervisor took meanwhile does not matter: it may go with the cell, and the user pays for it.
    pub fn is_whole(&self, index: u64) -> bool {
        let is_complete = || self.by_index.get(&index).is_some_and(|block| block.complete);
        self.by_index.is_empty() || is_complete() && !self.is_unjudged(index)
    }

    /// Share of CPU time that others took in the block.
    pub fn steal_share(&self, index: u64) -> Option<f64> {
        self.by_index.get(&index).and_then(|block| block.surroundings.steal_share)
    }
}

/// A cell with the trials that speak for it.
pub struct Settled<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The furthest stage with a measured trial, calibration and audit aside.
    pub stage: Option<Stage>,
    /// Measured trials behind its estimate, in the order of measurement.
    pub trials: Vec<&'a Trial>,
    /// Every measured trial, calibration and audit aside: for what is only described.
    pub measured: Vec<&'a Trial>,
    /// Measured confirmation trials of any block: what the comparison picks from.
    pub confirmed: Vec<&'a Trial>,
    /// Measured audit trials of any block: what the audit picks from, and nobody else.
    pub audited: Vec<&'a Trial>,
    /// Its trials come from whole blocks.
    whole: bool,
    /// It failed or was skipped for good, and left its group.
    pub has_left: bool,
    /// What its numbers contradict each other in: then it has no trials that could speak for it.
    pub contradiction: Option<String>,
    /// Trials of any stage that failed.
    pub failed: Vec<&'a Trial>,
    /// Confirmation trials of any block, its twin's among them, in which nothing moved: their blocks broke off and are compared
    /// with nothing.
    pub stalled: usize,
    /// So many confirmation trials it and its twin had, those included.
    pub tried: usize,
    /// The last reason that a trial was skipped or failed, with the outcome.
    trouble: Option<&'a Outcome>,
}

impl<'a> Settled<'a> {
    fn empty(cell: &'a Cell) -> Settled<'a> {
        Settled {
            cell,
            stage: None,
            trials: Vec::new(),
            measured: Vec::new(),
            confirmed: Vec::new(),
            audited: Vec::new(),
            whole: false,
            has_left: false,
            contradiction: None,
            failed: Vec::new(),
            stalled: 0,
            tried: 0,
            trouble: None,
        }
    }

    /// The cell as one of its trials alone shows it.
    pub fn by(&self, trial: &'a Trial) -> Settled<'a> {
        let alone = vec![trial];
        Settled { stage: self.stage, trials: alone.clone(), measured: alone, ..Settled::empty(self.cell) }
    }

    fn take(&mut self, trial: &'a Trial) {
        match &trial.outcome {
            Outcome::Measured if trial.stage == Stage::Calibrate => {}
            Outcome::Measured if trial.stage == Stage::Audit => self.audited.push(trial),
            Outcome::Measured => {
                self.tried += usize::from(trial.stage == Stage::Confirm);
                self.stage = self.stage.max(Some(trial.stage));
                self.measured.push(trial);
            }
            other => {
                let stalled = trial.stage == Stage::Confirm && other.moved_nothing();
                self.stalled += usize::from(stalled);
                self.tried += usize::from(stalled);
                self.failed.extend(other.is_failed().then_some(trial));
                self.trouble = Some(other);
            }
        }
    }

    fn settle(&mut self, blocks: &Blocks) {
        self.measured.retain(|trial| !blocks.is_unjudged(trial.block));
        if self.stage != Some(Stage::Confirm) {
            self.trials = self.measured.clone();
            return;
        }
        self.confirmed = self.measured.iter().copied().filter(|trial| trial.stage == Stage::Confirm).collect();
        let whole = self.confirmed.iter().copied().filter(|trial| blocks.is_whole(trial.block));
        self.trials = whole.collect();
        self.whole = !self.trials.is_empty();
        if !self.whole {
            // Where no block was finished there is still something to show.
            self.trials = self.confirmed.clone();
        }
    }

    /// What is said over its path.
    pub fn workload(&self) -> Workload {
        self.cell.factors.workload()
    }

    /// Whether the cell has confirmation trials of whole blocks. Those of blocks that broke off describe it,
    /// without an interval.
    pub fn is_confirmed(&self) -> bool {
        self.stage == Some(Stage::Confirm) && self.whole
    }

    /// Takes every trial from a cell whose numbers contradict each other.
    pub fn reject(&mut self, contradiction: String) {
        self.stage = None;
        self.whole = false;
        self.trials.clear();
        self.failed.append(&mut self.measured);
        self.confirmed.clear();
        self.audited.clear();
        self.contradiction = Some(contradiction);
    }

    /// `measured`, `skipped` or `failed`, and why it was not measured or left its group.
    pub fn outcome(&self, recorded: Option<&Outcome>, resumable: bool) -> (&'static str, Option<String>) {
        if let Some(contradiction) = &self.contradiction {
            return ("failed", Some(format!("its numbers contradict each other: {contradiction}")));
        }
        match (self.stage, self.trouble(recorded)) {
            (Some(_), None) => ("measured", None),
            (Some(_), Some(outcome)) => ("measured", self.why_it_left(recorded, outcome)),
            (None, Some(outcome)) => (outcome.name(), outcome.reason().map(str::to_owned)),
            (None, None) => {
                let next = if resumable { ": go on with --resume" } else { "" };
                ("skipped", Some(format!("the session ended before it was measured{next}")))
            }
        }
    }

    /// How the cell ended for good, where that is recorded, else its last trial that was not measured.
    pub fn trouble<'b>(&'b self, recorded: Option<&'b Outcome>) -> Option<&'b Outcome> {
        recorded.filter(|outcome| **outcome != Outcome::Measured).or(self.trouble)
    }

    /// A single failed trial was repeated with its block and says nothing about the cell; a cell that the
    /// harness took out of its group has that recorded.
    fn why_it_left(&self, recorded: Option<&Outcome>, outcome: &Outcome) -> Option<String> {
        let left = recorded.is_some_and(|recorded| *recorded != Outcome::Measured);
        left.then(|| outcome.reason().map(str::to_owned)).flatten()
    }
}

/// Whether the ends compared what arrived with what was sent, which takes time.
pub fn verifies(trials: &[Trial]) -> bool {
    trials
        .iter()
        .any(|trial| [trial.sink_side(), trial.source_side()].into_iter().flatten().any(|end| end.verified_bytes > 0))
}

/// Sorts the trials to their cells, in the order of the cells; linear in both.
pub fn settle<'a>(cells: &'a [Cell], trials: &'a [Trial], blocks: &Blocks) -> Vec<Settled<'a>> {
    let mut settled: Vec<Settled> = cells.iter().map(Settled::empty).collect();
    let place: HashMap<&CellId, usize> = cells.iter().enumerate().map(|(at, cell)| (&cell.id, at)).collect();
    for trial in trials {
        if let Some(&at) = place.get(&trial.cell) {
            settled[at].take(trial);
        }
    }
    for cell in &mut settled {
        cell.settle(blocks);
    }
    // A twin is its cell under another name.
    let twins: Vec<_> = settled.iter().map(|cell| (cell.cell.twin_of.clone(), cell.stalled, cell.tried)).collect();
    for (of, stalled, tried) in twins {
        if let Some(&at) = of.as_ref().and_then(|of| place.get(of)) {
            settled[at].stalled += stalled;
            settled[at].tried += tried;
        }
    }
    settled
}
