//! The third stage: facts that decide how to read the results. Each has a kind, its numbers and a severity;
//! `document::finding_texts` words it. What options do on a network is in their row, in `model::option`.

mod conditions;

use std::collections::BTreeMap;

use bytegauge_model::{CellId, GroupId};
pub use conditions::{LOST_MUCH, beyond_loopback, findings, is_checked, is_loopback, is_peers_size, of_earlier};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::numbers::{HarmKind, WorkersView};

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// Its kind, with its numbers.
    pub fact: Fact,
    /// How serious it is.
    pub severity: Severity,
    /// The test that it is about; `null` for the session.
    pub test: Option<GroupId>,
    /// The option that it is about.
    pub option: Option<CellId>,
    /// Another option that it mentions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<CellId>,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// It takes the result away.
    Error,
    /// It may change what a user does.
    Warning,
    /// For readers of all details.
    Note,
}

/// The kinds of facts. Shares are of 1, times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fact {
    /// The same option, measured twice, is significantly different from itself.
    ControlDiffers {
        /// By how much the intervals of its test are wider for it, as a share.
        widened: f64,
    },
    /// Something made the intervals wide, or part of a difference.
    Noise {
        /// What it was.
        cause: NoiseCause,
        /// How much: a share, a number of trials, seconds or CPUs, by the cause.
        amount: f64,
        /// Of how many trials or CPUs; the share of the other option, by the cause.
        of: Option<f64>,
    },
    /// A share of the trials ran at another speed than the others.
    SeveralSpeeds {
        /// Share of the trials that were slower.
        slow_share: f64,
        /// How much longer they took at least, as a multiple.
        times_least: f64,
        /// At most.
        times_most: f64,
    },
    /// Trials failed and were left out.
    FailedTrials {
        /// How many.
        trials: usize,
        /// Of how many.
        of: usize,
        /// Why the last of them did.
        why: Option<String>,
    },
    /// Harm that a rate does not show.
    Harm {
        /// Its kind.
        harm: HarmKind,
        /// The share of trials, load, calls, datagrams or clients that it concerns.
        share: f64,
    },
    /// TCP segments found no room at a receiver and were dropped, or moved to make room.
    TcpDrops {
        /// How many, by the kernel's names.
        counts: BTreeMap<String, u64>,
    },
    /// A compared socket option cannot have an effect on this path.
    NoEffect {
        /// The factor.
        factor: String,
        /// Why.
        why: String,
    },
    /// The check of the recommendations in long trials.
    LongTrials {
        /// Its result.
        result: LongTrials,
        /// Length of the trials, seconds.
        window_s: f64,
        /// Lower end of the interval by which the option is slower there than another one, as a share.
        lower: Option<f64>,
        /// Upper end.
        upper: Option<f64>,
    },
    /// An option was compared over loopback that does something else on a network.
    BeyondLoopback {
        /// The factor.
        factor: String,
    },
    /// Runs of a program are so short that its start matters.
    ShortRuns {
        /// The shortest median, nanoseconds.
        run_ns: f64,
    },
    /// Runs of a program left processes behind, or its server had to be killed.
    ProcessesLeft {
        /// After how many runs.
        runs: usize,
        /// Whether a server ignored its signal.
        killed: bool,
    },
    /// Trials took longer than planned, so that the session did less.
    Reduced {
        /// What there was time for, as the session stored it.
        kept: String,
    },
    /// An earlier session of the same plan recommended another option.
    Earlier {
        /// That session.
        session: i64,
        /// Whether the intervals of both have no value in common.
        contradicts: bool,
        /// Lower end of the interval of that option here, as a share.
        lower: Option<f64>,
        /// Upper end.
        upper: Option<f64>,
    },
    /// The value that an earlier session recommended, tried in a user's program.
    Advice {
        /// That session.
        session: i64,
        /// The test that it is from.
        test: String,
        /// Whether it is within the margin of the best here, or beyond it; `null` if neither is certain.
        held: Option<bool>,
        /// Lower end of the interval by which it is slower than the best, as a share.
        lower: Option<f64>,
        /// Upper end.
        upper: Option<f64>,
    },
    /// The threads of a server shared the calls unevenly.
    UnevenWorkers {
        /// Their shares.
        workers: WorkersView,
    },
    /// An option with a longer p99 than the one with the shortest, at an offered load.
    LongerTail {
        /// Lower end of the interval of the ratio.
        times_lower: f64,
        /// Upper end.
        times_upper: Option<f64>,
    },
}

/// Causes of noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoiseCause {
    /// The same option, measured twice, may differ by more than the margin.
    Control,
    /// Neighbouring blocks depend on each other.
    DependentBlocks,
    /// The average and the median of the trials order two options differently.
    MeansDisagree,
    /// Other programs used CPUs.
    OtherPrograms,
    /// The hypervisor took CPU time.
    Steal,
    /// The control group was throttled.
    Throttled,
    /// The clients themselves were late.
    LateClients,
    /// Measuring takes a part of the shortest call.
    Harness,
}

/// Results of the check in long trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LongTrials {
    /// Another option is faster there.
    Contradict,
    /// All tests together contradict the recommendations.
    ContradictTogether,
    /// The recommendation holds.
    Confirm,
    /// Neither is shown.
    Open,
    /// There was no check, although connections were young.
    Missing,
}

impl Finding {
    /// A finding about the session.
    pub fn new(fact: Fact, severity: Severity) -> Finding {
        Finding { fact, severity, test: None, option: None, other: None }
    }

    /// The same about a test.
    #[must_use]
    pub fn of_test(self, id: &GroupId) -> Finding {
        Finding { test: Some(id.clone()), ..self }
    }

    /// The same about an option.
    #[must_use]
    pub fn of_option(self, id: &CellId) -> Finding {
        Finding { option: Some(id.clone()), ..self }
    }

    /// The same with another option.
    #[must_use]
    pub fn with_other(self, id: Option<&CellId>) -> Finding {
        Finding { other: id.cloned(), ..self }
    }

    /// Whether both are one caution: the sentence of the larger one holds for both.
    pub fn is_like(&self, other: &Finding) -> bool {
        match (&self.fact, &other.fact) {
            (Fact::Harm { harm: own, .. }, Fact::Harm { harm: other, .. }) => own == other,
            (Fact::Noise { cause: own, .. }, Fact::Noise { cause: other, .. }) => own == other,
            (Fact::BeyondLoopback { factor: own }, Fact::BeyondLoopback { factor: other })
            | (Fact::NoEffect { factor: own, .. }, Fact::NoEffect { factor: other, .. }) => own == other,
            // They name options or a session.
            (
                Fact::LongTrials { .. }
                | Fact::Earlier { .. }
                | Fact::Advice { .. }
                | Fact::LongerTail { .. }
                | Fact::UnevenWorkers { .. }
                | Fact::ControlDiffers { .. }
                | Fact::ProcessesLeft { .. },
                _,
            ) => self == other,
            (own, other) => std::mem::discriminant(own) == std::mem::discriminant(other),
        }
    }

    /// How much it matters among findings of one severity.
    pub fn rank(&self) -> usize {
        match &self.fact {
            // What makes advice wrong comes before what makes it imprecise.
            Fact::BeyondLoopback { .. } => 0,
            Fact::Harm { harm: HarmKind::DelayedAcks, .. } => 1,
            Fact::ControlDiffers { .. } => 2,
            // Causes come before their effects: a user can end another program.
            Fact::ProcessesLeft { .. } => 3,
            Fact::Noise { cause: NoiseCause::OtherPrograms, .. } => 4,
            Fact::Noise { cause: NoiseCause::Throttled, .. } => 5,
            Fact::Noise { cause: NoiseCause::Steal, .. } => 6,
            Fact::LongTrials { .. } => 7,
            Fact::SeveralSpeeds { .. } => 8,
            Fact::Harm { .. } | Fact::TcpDrops { .. } => 9,
            Fact::Noise { cause: NoiseCause::Control | NoiseCause::DependentBlocks, .. } => 10,
            Fact::NoEffect { .. } => 11,
            Fact::Earlier { .. } | Fact::Advice { .. } => 12,
            Fact::LongerTail { .. } | Fact::UnevenWorkers { .. } => 13,
            Fact::FailedTrials { .. } => 14,
            Fact::ShortRuns { .. } | Fact::Reduced { .. } => 15,
            Fact::Noise { .. } => 16,
        }
    }

    /// How large it is among those of one kind.
    pub fn size(&self) -> f64 {
        match &self.fact {
            Fact::ControlDiffers { widened } => *widened,
            Fact::Noise { amount, .. } => *amount,
            Fact::SeveralSpeeds { slow_share, .. } => *slow_share,
            Fact::FailedTrials { trials, of, .. } => *trials as f64 / (*of).max(1) as f64,
            Fact::Harm { share, .. } => *share,
            Fact::UnevenWorkers { workers } => workers.most_share,
            Fact::LongTrials { lower, .. } | Fact::Earlier { lower, .. } => lower.unwrap_or(0.0),
            Fact::LongerTail { times_lower, .. } => *times_lower,
            _ => 0.0,
        }
    }
}
