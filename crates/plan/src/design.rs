//! The design of a session: calibration, screening of all cells, confirmation of few.
//!
//! Reported results come from confirmation alone, and the number of confirmation blocks is fixed before
//! the first of them starts: no optional stopping, no winner's curse.

use bytegauge_model::{ConnectionAge, Spec, Transport, Workload};
use serde::{Deserialize, Serialize};

/// How many cells of a family are confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finalists {
    /// At most this number; the others stay undecided.
    Cap(usize),
    /// All of them: nothing is screened.
    All,
    /// As many, the best of a screening, as get [`BLOCKS_WANTED`] blocks in the time that is left.
    ThatFit,
}

/// Blocks that an option of a program should get: with eleven of them, eight options and runs that stall now and then, one that saves
/// three quarters of the time was undecided.
pub const BLOCKS_WANTED: u64 = 32;

/// Lengths and counts of every plan, unless the plan changes them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Design {
    /// Calibration trials per family and placement; for a program the maximum (`Plan::calibration_trials`).
    pub calibration_trials: u64,
    /// Length of a calibration trial, nanoseconds.
    pub calibration_ns: u64,
    /// Screening blocks over all cells.
    pub screen_blocks: u64,
    /// Further screening blocks over the better cells.
    pub narrow_blocks: u64,
    /// How many cells a family keeps for them.
    pub narrow_cells: usize,
    /// Lengths of trials on fresh paths.
    #[serde(flatten)]
    pub fresh: Lengths,
    /// Lengths of trials on steady paths. An experiment gave the warm-up (docs/research/statistics.md, "How old a path is"):
    /// over TCP with bbr, paths of 2.5 ms ranked sizes in the reverse order; those of 50 ms ranked them as trials of a
    /// second did.
    pub steady: Lengths,
    /// Length of the null engine's trial in a block, nanoseconds.
    pub floor_ns: u64,
    /// Overhead of a trial in addition to its warm-up and window (sockets, threads, memory), nanoseconds.
    pub overhead_ns: u64,
    /// Additional overhead of each connection of a trial (opening and closing it at both ends), nanoseconds.
    pub flow_overhead_ns: u64,
    /// Share of the budget kept back for blocks that break.
    pub reserve: f64,
    /// Fewest confirmation blocks: below six no sign interval at 95 % exists.
    pub blocks_min: u64,
    /// Length of an audit trial, nanoseconds.
    pub audit_ns: u64,
    /// Most confirmation blocks a budget is spent on: more where the plan or the user states one.
    pub blocks_max: u64,
}

/// Lengths of trials on paths of one age, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lengths {
    /// Warm-up of a confirmation trial: the time until a path is steady, or the assumed time before calibration.
    pub warmup_ns: u64,
    /// Length of a confirmation trial.
    pub confirm_ns: u64,
    /// Most of the warm-up of a screening trial, which only ranks and is never reported.
    pub screen_warmup_ns: u64,
    /// Length of a screening trial.
    pub screen_ns: u64,
    /// To fit a budget, trials of screening and of confirmation become no shorter than this.
    pub shortest_ns: (u64, u64),
}

impl Default for Lengths {
    fn default() -> Lengths {
        Lengths {
            warmup_ns: 2_000_000,
            confirm_ns: CONFIRM_NS,
            screen_warmup_ns: 1_250_000,
            screen_ns: 5_000_000,
            shortest_ns: (3_000_000, 5_000_000),
        }
    }
}

/// Default time of a session.
pub const BUDGET_NS: u64 = 60_000_000_000;

/// Default time of a session that searches for knees: a search is about ten trials, and six blocks
/// of them need to fit.
pub const SEARCH_BUDGET_NS: u64 = 180_000_000_000;

/// Number of planned analyses of a session: after its blocks, and after twice and four times their number. The module
/// `bytegauge_stats::interim` gives the statistical cost and gain.
pub const ANALYSES: u64 = 3;

/// More analyses would leave too little error level for each.
pub const ANALYSES_MAX: u64 = 6;

/// Default share of a session's time for the long-trial check.
pub const AUDIT_SHARE: f64 = 0.1;

/// A larger share would leave too little to check.
pub const AUDIT_MAX: f64 = 0.5;

/// Length of an audit trial: by then a path over TCP with bbr had the order of sizes that it kept for a second
/// (docs/research/statistics.md, "How old a path is").
const AUDIT_NS: u64 = 250_000_000;

/// Cells of an audit block at least: the choice and a rival.
pub const AUDIT_CELLS_MIN: u64 = 2;

/// Most blocks without a stated budget: more precision is not worth the unrequested time.
const BLOCKS_DEFAULT_MAX: u64 = 96;

/// Most blocks with a stated budget, which may be spent.
pub(crate) const BLOCKS_STATED_MAX: u64 = 2_000;

/// Length of a confirmation trial. Differences between two trials of one cell belong to the trial (its memory, its
/// threads, the rhythm of its two ends) and hardly average out within it: paired differences varied as widely at 80 ms as
/// at 5 ms (docs/research/statistics.md). So trials are short and many. Their lower limit is the warm-up and set-up,
/// which take 5 ms as well.
const CONFIRM_NS: u64 = 6_000_000;

impl Default for Design {
    fn default() -> Design {
        Design {
            calibration_trials: 3,
            calibration_ns: 300_000_000,
            screen_blocks: 2,
            narrow_blocks: 2,
            narrow_cells: 20,
            fresh: Lengths::default(),
            steady: Lengths {
                warmup_ns: 50_000_000,
                confirm_ns: 25_000_000,
                screen_warmup_ns: 10_000_000,
                screen_ns: 10_000_000,
                shortest_ns: (5_000_000, 10_000_000),
            },
            floor_ns: 1_000_000,
            overhead_ns: 2_500_000,
            flow_overhead_ns: 0,
            reserve: 0.03,
            blocks_min: 6,
            audit_ns: AUDIT_NS,
            blocks_max: BLOCKS_DEFAULT_MAX,
        }
    }
}

/// Length of a confirmation trial of calls. A 99th percentile needs a thousand calls (ten beyond it), and one flow
/// that waits for each reply on another CPU makes 15 to 40 thousand a second: 25 to 65 ms. Shorter trials would
/// leave the tails of slow cells to several trials at once; longer ones cost blocks, on which every comparison
/// rests.
const CONFIRM_CALLS_NS: u64 = 50_000_000;

/// Assumed time of a program's run before one was measured.
const RUN_ASSUMED_NS: u64 = 100_000_000;

/// A run of a program has no given length.
const NO_LENGTHS: Lengths =
    Lengths { warmup_ns: 0, confirm_ns: 0, screen_warmup_ns: 0, screen_ns: 0, shortest_ns: (0, 0) };

/// Round trips of a link until a connection is steady. Slow start doubles a window of ten segments in each round trip, so
/// that after ten of them 15 MB are under way, and the receiver's window follows within a few (RFC 6928,
/// tcp_rcv_space_adjust). Segments that the queue then dropped take as long again to be retransmitted, and the data behind
/// the gaps is read all at once. After 15 round trips bbr was 6 to 10 % above the capacity of a link of 20 to 50 ms; after
/// 30, cubic and bbr were at it.
const TRIPS_UNTIL_STEADY: u64 = 30;

/// Round trips of a link that a trial measures, since a sender's cycle takes one of them.
const TRIPS_MEASURED: u64 = 20;

impl Design {
    /// The design of a workload.
    pub fn of(workload: Workload) -> Design {
        match workload {
            // One thread that never waits: nothing is opened but a ring.
            Workload::Ring => Design {
                fresh: Lengths { warmup_ns: 1_000_000, ..Lengths::default() },
                overhead_ns: 1_000_000,
                ..Design::default()
            },
            // A few runs are enough: the first one, which reads uncached files, and then one each of both ends and the middle of
            // the values. A run's own warm-up cannot be separated from the rest, so nothing is cut off.
            Workload::Tune => Design {
                calibration_trials: 4,
                calibration_ns: 0,
                screen_blocks: 1,
                narrow_blocks: 1,
                narrow_cells: 12,
                fresh: NO_LENGTHS,
                steady: NO_LENGTHS,
                floor_ns: 0,
                overhead_ns: RUN_ASSUMED_NS,
                ..Design::default()
            },
            Workload::Call => Design {
                fresh: Lengths {
                    warmup_ns: 5_000_000,
                    confirm_ns: CONFIRM_CALLS_NS,
                    screen_warmup_ns: 5_000_000,
                    screen_ns: 20_000_000,
                    shortest_ns: (10_000_000, 20_000_000),
                },
                overhead_ns: 5_000_000,
                // connect(2), accept(2), registering and closing at both ends; a thread for each end where the
                // engine is blocking.
                flow_overhead_ns: 60_000,
                ..Design::default()
            },
            _ => Design::default(),
        }
    }
}

impl Design {
    /// Lengths on paths of the age that is asked about: over a link they are counted in its round trips, too.
    pub fn lengths(&self, conditions: &Spec) -> Lengths {
        let lengths = match conditions.connection_age().unwrap_or(ConnectionAge::Fresh) {
            ConnectionAge::Fresh => self.fresh,
            ConnectionAge::Steady => self.steady,
        };
        let Some(link) = conditions.emulated_link() else { return lengths };
        // The delay of a half-full queue, if that is longer.
        let trip_ns = link.delay_ns.max(link.passing_ns(link.queue_bytes()) / 2);
        let least = |ns: u64, trips: u64| ns.max(trips * trip_ns);
        let is_steady = conditions.connection_age() == Some(ConnectionAge::Steady);
        let warmup = |ns| if is_steady { least(ns, TRIPS_UNTIL_STEADY) } else { ns };
        Lengths {
            warmup_ns: warmup(lengths.warmup_ns),
            confirm_ns: least(lengths.confirm_ns, TRIPS_MEASURED),
            // A connection in slow start gives no ranking.
            screen_warmup_ns: warmup(lengths.screen_warmup_ns),
            screen_ns: least(lengths.screen_ns, TRIPS_MEASURED),
            shortest_ns: (least(lengths.shortest_ns.0, TRIPS_MEASURED), least(lengths.shortest_ns.1, TRIPS_MEASURED)),
        }
    }

    /// Whether calibration looks for the warm-up: paths that are measured late have one that outlasts what it finds.
    pub fn calibrates(&self, conditions: &Spec) -> bool {
        conditions.connection_age().unwrap_or(ConnectionAge::Fresh) == ConnectionAge::Fresh
    }

    /// Warm-up of a confirmation trial, where calibration found that a path settles within `found_ns`, nanoseconds.
    pub fn confirm_warmup_ns(&self, conditions: &Spec, found_ns: Option<u64>) -> u64 {
        let found_ns = found_ns.filter(|_| self.calibrates(conditions));
        found_ns.unwrap_or(self.lengths(conditions).warmup_ns)
    }

    /// Warm-up and length of a screening trial, where calibration found that a path settles within `found_ns`,
    /// nanoseconds. Screening ranks within a block, where a rest of drift is common to all.
    pub fn screening_ns(&self, conditions: &Spec, found_ns: Option<u64>) -> (u64, u64) {
        let Lengths { screen_warmup_ns, screen_ns, .. } = self.lengths(conditions);
        (self.confirm_warmup_ns(conditions, found_ns).min(screen_warmup_ns), screen_ns)
    }

    /// Whether longer trials could change the result of a group: it has a path, its trials are not as long already, and
    /// it has no search. `needed_ns` is the length that slow calls and bursts need, 0 where it is not known yet.
    pub fn audits(&self, conditions: &Spec, needed_ns: u64) -> bool {
        // Transports that are compared are no condition; a file among them is an end that needs no audit.
        let is_path = conditions.transport().map_or(conditions.workload().has_path(), Transport::two_ended);
        let longest_ns = || self.lengths(conditions).confirm_ns.max(needed_ns);
        let is_long = conditions.duration().unwrap_or_else(longest_ns) >= self.audit_ns;
        is_path && !is_long && !conditions.searches_rate()
    }

    /// The shortest useful confirmation trial, nanoseconds.
    pub fn shortest_confirm_ns(&self, conditions: &Spec) -> u64 {
        self.lengths(conditions).shortest_ns.1
    }
}

/// Default number of finalists of a family.
pub const FINALISTS: usize = 6;

/// A short budget reduces the finalists to no fewer: an option and one that it is compared with.
pub const FINALISTS_MIN: usize = 2;

/// A session may take this multiple of its budget before it stops: the machine may slow down.
pub const OVERTIME: f64 = 1.1;

/// A session may take this many times the budget that the user stated, where the fewest blocks need it. A longer plan is refused.
pub(crate) const OVERRUN_STATED: f64 = 1.2;

/// The same where the user stated no budget.
pub(crate) const OVERRUN_UNSTATED: f64 = 2.0;

/// The time of each stage, for the dry run and the progress bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageTimes {
    /// Time of the calibration trials, nanoseconds.
    pub calibrate_ns: u64,
    /// Time of the screening, nanoseconds.
    pub screen_ns: u64,
    /// Time of the narrowing, nanoseconds.
    pub narrow_ns: u64,
    /// Time of one confirmation block of every group, nanoseconds.
    pub confirm_round_ns: u64,
    /// Time of the long-trial check until the first analysis, nanoseconds.
    pub audit_ns: u64,
    /// Confirmation blocks of a group.
    pub blocks: u64,
}

impl Design {
    /// How many blocks of each group fit into a time, at least the fewest and at most the most that are useful. `round_ns` is the
    /// time of one block of every group.
    pub fn fitting_blocks(&self, time_ns: f64, round_ns: f64) -> u64 {
        let range = self.blocks_min..=self.blocks_max;
        range.rev().find(|blocks| *blocks as f64 * round_ns <= time_ns).unwrap_or(self.blocks_min)
    }
}

impl StageTimes {
    /// Time of the confirmation until the first analysis, nanoseconds.
    pub fn confirm_ns(&self) -> u64 {
        self.confirm_round_ns.saturating_mul(self.blocks)
    }

    /// Time until the first analysis, nanoseconds.
    pub fn total_ns(&self) -> u64 {
        (self.calibrate_ns + self.screen_ns + self.narrow_ns + self.audit_ns).saturating_add(self.confirm_ns())
    }
}
