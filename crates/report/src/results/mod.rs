//! The second stage: the result of each test, typed. The state of every option, and the claim that holds at the session's
//! confidence. Has names, no sentences. Here are the types; `decide` makes them.

mod decide;

use bytegauge_model::{CellId, Cost, GroupId, Spec};
pub use decide::{carried_share, control_is_wide, harm_share, is_analysed, is_answered, is_avoided, present, tests};
use schemars::JsonSchema;
use serde::Serialize;

use crate::view::numbers::HarmKind;
use crate::view::numbers::schema::{FactorLevels, present_levels};
use crate::words::number::common_unit;
use crate::words::phrase::rate_unit;

/// One test: options that are compared with each other under the same conditions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Test {
    /// The group that it is about.
    pub id: GroupId,
    /// What is measured, with its conditions: `Read from a Unix socket (peer writes 64 KiB)`.
    pub title: String,
    /// The shortest form that no other test of the session has: `reads Unix`.
    pub name: String,
    /// The conditions of all its options.
    #[serde(serialize_with = "present_levels")]
    #[schemars(with = "FactorLevels")]
    pub environment: Spec,
    /// The quantity by which options are compared.
    pub compares: Cost,
    /// The base unit of all its rates.
    pub unit: &'static str,
    /// "Within x of the best", as a share.
    pub margin: f64,
    /// The tightest statement that holds at the session's confidence.
    pub claim: Claim,
    /// The factors in which its options differ.
    pub varied: Vec<String>,
    /// Its options, in the order of the plan.
    pub options: Vec<OptionResult>,
    /// The option to use; `null` where none is certain.
    pub recommended: Option<CellId>,
    /// How much the same option, measured twice, may differ, as a share.
    pub control_upper: Option<f64>,
    /// Complete blocks behind it.
    pub blocks: usize,
}

/// The tightest statement about a test that holds at the session's confidence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Claim {
    /// These options are at most this much slower than the best, which is within the margin. The first is the one to use.
    Use {
        /// The option to use, and those that are as good.
        options: Vec<CellId>,
        /// The largest upper end of the interval of the option to use, as a share.
        at_most: f64,
    },
    /// Each of these may be the best; none is slower than the best by more than `apart`. All others are surely slower.
    FreeChoice {
        /// The options.
        options: Vec<CellId>,
        /// The largest upper end of their intervals, as a share.
        apart: f64,
    },
    /// Intervals are wide: it is certain only that some options are slower.
    OnlyCertain {
        /// The options that may be the best.
        options: Vec<CellId>,
    },
    /// Nothing is ruled out.
    Undecided {
        /// The options that may be the best.
        options: Vec<CellId>,
    },
    /// There is no result.
    Invalid {
        /// Why.
        reason: InvalidReason,
    },
}

/// Why a test has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InvalidReason {
    /// Nothing could be measured.
    NothingMeasured,
    /// There was one option only.
    OneOption,
    /// The session is running, and its first analysis is not reached.
    NotYet,
    /// The session stopped before its first analysis.
    Interrupted,
    /// Too few complete blocks.
    FewBlocks,
    /// Trials of one of the options kept failing.
    TrialsFailed,
    /// A fixed rate compares CPU time, and that of an external server is not visible.
    ExternalServer,
    /// The best option harms its users.
    Harmful,
}

/// One option of a test. Its other numbers are those of the cell with its id.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OptionResult {
    /// The cell.
    pub id: CellId,
    /// The settings that distinguish it, short: `64K`.
    pub label: String,
    /// The same as levels.
    #[serde(serialize_with = "present_levels")]
    #[schemars(with = "FactorLevels")]
    pub settings: Spec,
    /// How it compares with the best.
    pub status: OptionStatus,
    /// The rate that a user gets, per second: the median of its trials, or all work by all time where the two are apart by more
    /// than the margin.
    pub rate: Option<f64>,
    /// Trials behind it.
    pub trials: usize,
    /// Lower end of the interval by which it is slower than the best, as a share.
    pub slower_lower: Option<f64>,
    /// Upper end.
    pub slower_upper: Option<f64>,
    /// What a rate does not show.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub harm: Vec<HarmKind>,
    /// Why it was not measured, or left the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How an option compares with the best: four words, and three for options without a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptionStatus {
    /// Within the margin of the best, and the one to use.
    Use,
    /// Within the margin of the best.
    AsGood,
    /// Its interval contains the margin, or something contradicts its result.
    Undecided,
    /// Surely slower than the best by more than the margin; or harmful.
    Avoid,
    /// Far behind in the first trials: it has no interval.
    Dropped,
    /// It was not measured.
    Skipped,
    /// Every trial failed.
    Failed,
}

impl OptionStatus {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            OptionStatus::Use => "use",
            OptionStatus::AsGood => "as good",
            OptionStatus::Undecided => "undecided",
            OptionStatus::Avoid => "avoid",
            OptionStatus::Dropped => "dropped",
            OptionStatus::Skipped => "skipped",
            OptionStatus::Failed => "failed",
        }
    }
}

impl Test {
    /// The option to use.
    pub fn used(&self) -> Option<&OptionResult> {
        self.options.iter().find(|option| option.status == OptionStatus::Use)
    }

    /// Whether an option is to be used.
    pub fn is_decided(&self) -> bool {
        matches!(self.claim, Claim::Use { .. })
    }

    /// Whether options have intervals that hold.
    pub fn is_compared(&self) -> bool {
        !matches!(self.claim, Claim::Invalid { .. })
    }

    /// The option of that id.
    pub fn option(&self, id: &CellId) -> Option<&OptionResult> {
        self.options.iter().find(|option| option.id == *id)
    }

    /// The options with a status.
    pub fn with(&self, status: OptionStatus) -> impl Iterator<Item = &OptionResult> {
        self.options.iter().filter(move |option| option.status == status)
    }

    /// The options that the claim names: those to use, or those that may be the best.
    pub fn named(&self) -> Vec<&OptionResult> {
        let ids: &[CellId] = match &self.claim {
            Claim::Use { options, .. } | Claim::FreeChoice { options, .. } => options,
            Claim::OnlyCertain { options } | Claim::Undecided { options } => options,
            Claim::Invalid { .. } => &[],
        };
        ids.iter().filter_map(|id| self.option(id)).collect()
    }

    /// The option that can lose least: the one to use, else the one with the smallest upper end.
    pub fn safest(&self) -> Option<&OptionResult> {
        let bounded = self.options.iter().filter(|option| !is_avoided(&option.harm));
        let bounded = bounded.filter_map(|option| Some((option.slower_upper?, option)));
        self.used().or_else(|| bounded.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, option)| option))
    }

    /// The objective of a search for the highest rate: `p99=2ms`.
    pub fn searched(&self) -> Option<String> {
        self.environment.get("slo").name().filter(|slo| slo.contains('=')).map(str::to_owned)
    }

    /// The divisor and the unit in which all rates of these tests can be read; else those of this test.
    pub fn rate_scale(&self, tests: &[Test]) -> (f64, &'static str) {
        let alike = tests.iter().filter(|other| other.unit == self.unit).flat_map(|other| &other.options);
        let of_all = common_unit(self.unit, alike.filter_map(|option| option.rate));
        let of_test = || common_unit(self.unit, self.options.iter().filter_map(|option| option.rate));
        let fastest = self.options.iter().filter_map(|option| option.rate).fold(0.0, f64::max);
        of_all.or_else(of_test).unwrap_or_else(|| rate_unit(self.unit, fastest))
    }
}
