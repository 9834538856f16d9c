//! The trials that count for a cell: those of its furthest stage, and of whole blocks if it was confirmed.
//!
//! Intervals and comparisons come from confirmation alone, so that no number is the best of several analyses. Never drops an
//! outlier; never mixes stages of confirmation and screening.
//!
//! Also the checks that fail a cell whose trials contradict each other.

use std::collections::{HashMap, HashSet};

use bytegauge_model::unit::{byte_rate, significant};
use bytegauge_model::{BlockRecord, Cell, CellId, EndCounts, Engine, GroupId, Outcome, Spec, Stage, Trial, Workload};
use bytegauge_stats::quantile::median;
use bytegauge_stats::trial_counts::{sink_sums, source_sums};

use super::bottleneck_inputs::link_rate;
use super::numbers::CellOutcome;

/// Blocks by index. Without recorded blocks (an import) every trial belongs to a whole one; otherwise a trial without one belongs
/// to an interrupted block.
pub struct Blocks<'a> {
    by_index: HashMap<u64, &'a BlockRecord>,
    /// Confirmation blocks that are in no analysis yet.
    unjudged: HashSet<u64>,
}

impl<'a> Blocks<'a> {
    /// Sorts every block; `judged` is the number of a group's confirmation blocks in its last analysis, `None` for all. Later
    /// ones wait for the next analysis: otherwise rates and bounds would be of two sets of trials.
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

    /// Whether the block waits for an analysis, and does not count before.
    pub fn is_unjudged(&self, index: u64) -> bool {
        self.unjudged.contains(&index)
    }

    /// Whether every trial of the block was measured, and it counts; an interrupted one was repeated under a new index. CPU steal
    /// does not matter: it may depend on the cell, and the user has it too.
    pub fn is_whole(&self, index: u64) -> bool {
        let is_complete = || self.by_index.get(&index).is_some_and(|block| block.complete);
        self.by_index.is_empty() || is_complete() && !self.is_unjudged(index)
    }
}

/// A cell with the trials that count for it.
#[derive(Clone)]
pub struct Settled<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The furthest stage with a measured trial, except calibration and long trials.
    pub stage: Option<Stage>,
    /// Measured trials of its estimate, in the order of measurement.
    pub trials: Vec<&'a Trial>,
    /// Every measured trial, except calibration and long trials: for descriptions.
    pub measured: Vec<&'a Trial>,
    /// Measured confirmation trials of any block: the input of the comparison.
    pub confirmed: Vec<&'a Trial>,
    /// Measured long trials of any block: the input of their comparison only.
    pub audited: Vec<&'a Trial>,
    /// Its trials come from whole blocks.
    whole: bool,
    /// It finally failed or was skipped, and left its group.
    pub has_left: bool,
    /// The contradiction in its numbers: then it has no trials that count.
    pub contradiction: Option<String>,
    /// Trials of any stage that failed, and were not measured once more in their place.
    pub failed: Vec<&'a Trial>,
    /// Confirmation trials of any block, its A/A control's included, in which nothing moved: their blocks were interrupted and are
    /// compared with nothing.
    pub stalled: usize,
    /// Number of confirmation trials of it and its A/A control, those included.
    pub tried: usize,
    /// The last reason of a skipped or failed trial, with the outcome.
    trouble: Option<&'a Outcome>,
}

/// The outcome of a trial as that of its cell.
fn named(outcome: &Outcome) -> CellOutcome {
    match outcome {
        Outcome::Measured => CellOutcome::Measured,
        Outcome::Skipped(_) => CellOutcome::Skipped,
        Outcome::Failed(_) | Outcome::NothingMoved(_) => CellOutcome::Failed,
    }
}

/// A trial in which nothing moved shows nothing of an option, if it is the only one.
const STALLS_MIN: usize = 2;

/// From this share of an option's trials on, stalls are its own.
const STALLED_MIN: f64 = 0.05;

impl<'a> Settled<'a> {
    /// The same with one of `parts` parts of the trials of its estimate, in the order of measurement; all of them where there are
    /// too few to have parts.
    pub fn part(&self, part: usize, parts: usize) -> Settled<'a> {
        let mut own = self.clone();
        if own.trials.len() >= parts {
            own.trials = own.trials[own.trials.len() * part / parts..own.trials.len() * (part + 1) / parts].to_vec();
        }
        own
    }

    /// Whether trials in which nothing moved are a property of it.
    pub fn stalls(&self) -> bool {
        self.stalled >= STALLS_MIN && self.stalled as f64 >= self.tried as f64 * STALLED_MIN
    }

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

    fn take(&mut self, trial: &'a Trial) {
        if trial.outcome == Outcome::Measured {
            // One that was too short is measured once more in its place.
            let place = |trial: &Trial| (trial.stage, trial.block, trial.position);
            self.failed.retain(|failed| place(failed) != place(trial));
        }
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
            // Without a finished block there is still something to show.
            self.trials = self.confirmed.clone();
        }
    }

    /// Its trials; those that failed where none counts, since these need an explanation most.
    pub fn tried(&self) -> &[&'a Trial] {
        if self.trials.is_empty() && self.contradiction.is_none() { &self.failed } else { &self.trials }
    }

    /// The workload of its path.
    pub fn workload(&self) -> Workload {
        self.cell.factors.workload()
    }

    /// Whether the cell has confirmation trials of whole blocks. Those of interrupted blocks describe it, without an
    /// interval.
    pub fn is_confirmed(&self) -> bool {
        self.stage == Some(Stage::Confirm) && self.whole
    }

    /// Removes every trial of a cell whose numbers contradict each other.
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
    pub fn outcome(&self, recorded: Option<&Outcome>, resumable: bool) -> (CellOutcome, Option<String>) {
        if let Some(contradiction) = &self.contradiction {
            return (CellOutcome::Failed, Some(format!("its numbers contradict each other: {contradiction}")));
        }
        let recorded = recorded.filter(|outcome| **outcome != Outcome::Measured);
        let reason = |outcome: &Outcome| outcome.reason().map(str::to_owned);
        match (self.stage, recorded.or(self.trouble)) {
            // A single failed trial was repeated with its block and does not count against the cell; if the harness removed a cell from
            // its group, that is recorded.
            (Some(_), _) => (CellOutcome::Measured, recorded.and_then(reason)),
            (None, Some(outcome)) => (named(outcome), reason(outcome)),
            (None, None) => {
                let next = if resumable { ": go on with --resume" } else { "" };
                (CellOutcome::Skipped, Some(format!("the session ended before it was measured{next}")))
            }
        }
    }
}

/// Whether the ends compared received data with sent data, which takes time.
pub fn verifies(trials: &[Trial]) -> bool {
    trials
        .iter()
        .any(|trial| [trial.sink_side(), trial.source_side()].into_iter().flatten().any(|end| end.verified_bytes > 0))
}

/// Sorts the trials to their cells, in the order of the cells; linear in both.
pub fn settle<'a>(cells: impl Iterator<Item = &'a Cell>, trials: &'a [Trial], blocks: &Blocks) -> Vec<Settled<'a>> {
    let mut settled: Vec<Settled> = cells.map(Settled::empty).collect();
    let place: HashMap<&CellId, usize> =
        settled.iter().enumerate().map(|(at, settled)| (&settled.cell.id, at)).collect();
    for trial in trials {
        if let Some(&at) = place.get(&trial.cell) {
            settled[at].take(trial);
        }
    }
    for cell in &mut settled {
        cell.settle(blocks);
    }
    // An A/A control is its cell under another name.
    let controls: Vec<_> = settled.iter().map(|cell| (cell.cell.twin_of.clone(), cell.stalled, cell.tried)).collect();
    for (of, stalled, tried) in controls {
        if let Some(&at) = of.as_ref().and_then(|of| place.get(of)) {
            settled[at].stalled += stalled;
            settled[at].tried += tried;
        }
    }
    settled
}

// Checks that the numbers of a cell are consistent, before they are used.
//
// A rate implies how many bytes a call moved on average, CPU time implies how many CPUs were busy, and flows share one wall
// clock. If they contradict each other, it is unknown which is wrong, so the cell fails with the contradiction as its reason.
// Every bound is arithmetic, not a matter of plausibility: the tolerances are those of clocks.

/// The window of the rate and those of the ends are read by different threads: within a lap of about 1 ms, in trials of some
/// milliseconds.
const WINDOW: f64 = 0.25;
/// CPU clocks and windows are read one after the other.
const CPU: f64 = 0.1;
/// Tolerance of both in nanoseconds: some calls of the clock and a tick.
const CPU_SLACK_NS: f64 = 10e6;

/// Calls at the edges of windows.
const EDGES: f64 = 64.0;

/// Data held back before a window may be read within it, and data held back at its end is not; over several trials the difference
/// is small.
const LINK: f64 = 0.05;
/// Number of trials that distinguishes this from chance.
const LINK_TRIALS: usize = 4;

/// The contradiction in a cell's trials on a machine with this number of CPUs; `None` without one.
pub fn contradiction(levels: &Spec, trials: &[&Trial], cpus: Option<u64>) -> Option<String> {
    let ends = [source_sums(trials), sink_sums(trials)];
    let of_stream = levels.workload() == Workload::Stream;
    let plain = of_stream && !levels.transport().is_some_and(bytegauge_model::Transport::is_datagram);
    // A completion of a ring may use several buffers.
    let ring = matches!(levels.engine(), Some(Engine::Uring(_)));
    // Two ends on two hosts have the CPUs of both.
    let cpus = cpus.filter(|_| !levels.spans_hosts());
    let short = short_calls(&ends).filter(|_| of_stream);
    short
        .or_else(|| rate_of_sizes(levels, trials).filter(|_| plain && !ring))
        .or_else(|| over_link(levels, trials))
        .or_else(|| rate_of_calls(trials, ends[1].as_ref().filter(|_| plain)?))
        .or_else(|| cpu(trials, &ends, cpus?))
}

/// A call moves at most its buffer size, so the rate is at most that of the reads times their size. Medians keep the order that
/// every correct trial has.
fn rate_of_sizes(levels: &Spec, trials: &[&Trial]) -> Option<String> {
    let size = levels.read_size().filter(|size| *size > 0)? as f64;
    let middle = |of: &dyn Fn(&Trial) -> Option<f64>| {
        median(&trials.iter().filter_map(|trial| of(trial)).filter(|value| value.is_finite()).collect::<Vec<_>>())
    };
    let rate = middle(&|trial| trial.rate())?;
    let reads = middle(&|trial| {
        let sink = trial.sink_side().filter(|sink| sink.calls > 0 && sink.window_ns > 0)?;
        Some(sink.calls as f64 * 1e9 / sink.window_ns as f64)
    })?;
    let times = rate / (reads * size);
    (times > 1.0 + WINDOW)
        .then(|| format!("its rate is {} what its reads of {size} bytes can carry", times_text(times)))
}

/// No rate exceeds that of the link.
fn over_link(levels: &Spec, trials: &[&Trial]) -> Option<String> {
    let carries = link_rate(levels).filter(|_| levels.workload() == Workload::Stream)?;
    let rates: Vec<f64> = trials.iter().filter_map(|trial| trial.rate()).collect();
    let rate = median(&rates).filter(|rate| rates.len() >= LINK_TRIALS && *rate > carries * (1.0 + LINK))?;
    Some(format!(
        "{} went over a link that carries {} of data at most: much of it came before the window; use a longer --trial-time",
        byte_rate(rate),
        byte_rate(carries)
    ))
}

/// A call is short or it is not. Both are counted at a window's edges, where each flow's are shared out by time.
fn short_calls(ends: &[Option<EndCounts>]) -> Option<String> {
    let beyond = |end: &&EndCounts| end.short_calls as f64 > end.calls as f64 * (1.0 + WINDOW) + EDGES;
    let end = ends.iter().flatten().find(beyond)?;
    Some(format!("of {} calls {} moved less than they might", end.calls, end.short_calls))
}

/// The rate must be that of the calls: bytes of all flows over the window that they share.
fn rate_of_calls(trials: &[&Trial], sink: &EndCounts) -> Option<String> {
    let (bytes, wall_ns) =
        trials.iter().fold((0.0, 0.0), |(bytes, ns), trial| (bytes + trial.bytes as f64, ns + trial.wall_ns as f64));
    if sink.bytes == 0 || sink.window_ns == 0 || wall_ns <= 0.0 {
        return None;
    }
    let by_calls = sink.bytes as f64 / sink.window_ns as f64;
    let times = bytes / wall_ns / by_calls;
    (times > 1.0 + WINDOW).then(|| format!("its rate is {} what its reads carried in their window", times_text(times)))
}

/// CPU time cannot exceed that of all CPUs.
fn cpu(trials: &[&Trial], ends: &[Option<EndCounts>], cpus: u64) -> Option<String> {
    let used: f64 = ends.iter().flatten().map(|sums| sums.cpu_ns as f64).sum();
    let window = ends.iter().flatten().map(|sums| sums.window_ns as f64).fold(0.0, f64::max);
    let most = window * cpus as f64 * (1.0 + CPU) + CPU_SLACK_NS * trials.len() as f64;
    (window > 0.0 && used > most).then(|| {
        format!("its ends used {} CPUs of the {cpus} that there are", significant((used / window).min(1e9), 3))
    })
}

/// A factor as text; a very large one is just "far more".
fn times_text(times: f64) -> String {
    if times < 1e6 { format!("{} times", significant(times, 3)) } else { "more than a million times".into() }
}
