//! The results of a session as data: tests, their options, and findings.
//!
//! The screen, the page, Markdown, JUnit and JSON all print these types. Nothing reads the sentences back.

use std::collections::BTreeMap;

use bytegauge_model::{CellId, GroupId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::factor_levels::FactorLevels;
use super::{Factors, OptionRatio, schema};
use crate::interval_rounding::ShareScale;
use crate::number::common_unit;
use crate::phrase::rate_unit;

/// One test: options that were measured under the same conditions and compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Test {
    /// Its group in `groups`.
    pub id: GroupId,
    /// The measured operation, with its conditions: `Read from a Unix socket (peer writes 64 KiB)`.
    pub title: String,
    /// The shortest part of the title that no other test of the session has: `Read from a Unix socket`.
    pub name: String,
    /// The title without its conditions: `Read from a Unix socket`.
    pub heading: String,
    /// The conditions that no other test with this heading has: `peer writes 64 KiB`; empty where there is none.
    pub conditions: String,
    /// The result in one sentence.
    pub result: String,
    /// The recommended option as it is written in a program: `SO_RCVBUF = 65536`; empty without a recommendation, and where no
    /// line of code sets it.
    pub code: Vec<String>,
    /// The conditions.
    #[schemars(with = "FactorLevels")]
    pub environment: Factors,
    /// The congestion control of the end that sends, over TCP; absent where the options vary it, and where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
    /// The quantity that `slower` compares.
    pub compares: Compares,
    /// The heading of the options' `slower`: `slower than best (95 %)`, `time / best time (95 %)` and the same of CPU time.
    pub slower_heading: &'static str,
    /// The heading of the options' `more_cpu`, where they have it: `more CPU`, `CPU / least`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu_heading: Option<&'static str>,
    /// Unit of the rates: `bytes/s`, `calls/s`, `NOPs/s`, `runs/s`.
    pub unit: &'static str,
    /// "Within the margin of the best", as a share.
    pub margin: f64,
    /// How far the results decide between the options.
    pub state: TestState,
    /// Length of a trial of the screening, nanoseconds, as in `groups`.
    #[serde(skip)]
    pub screening_trial_ns: Option<u64>,
    /// The factors that the options differ in, in the order of the factor table.
    pub varied: Vec<String>,
    /// The options in the order of the plan.
    pub options: Vec<OptionResult>,
    /// Options that are surely worse, the worst first.
    #[serde(skip)]
    pub avoid: Vec<Avoided>,
    /// The fastest option against each other one, where the user named the options.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<OptionRatio>,
    /// The option to use; `null` where none can be recommended.
    pub recommended: Option<CellId>,
    /// Why this option is recommended; `null` without a recommendation.
    pub because: Option<Because>,
    /// The limit of the recommended option; `null` where none was measured.
    pub bottleneck: Option<Bottleneck>,
    /// Upper end of the 95 % interval of the difference between two measurements of the same option, as a share; `null` where
    /// it is not known.
    pub control_upper: Option<f64>,
    /// Whether this makes the result less precise than the margin.
    #[serde(skip)]
    pub control_is_wide: bool,
    /// Complete blocks behind the comparison. A block measures each option once.
    pub blocks: usize,
}

impl Test {
    /// The recommended option.
    pub fn recommended_option(&self) -> Option<&OptionResult> {
        self.options.iter().find(|option| self.recommended.as_ref() == Some(&option.id))
    }

    /// Whether its options have intervals that hold.
    pub fn is_compared(&self) -> bool {
        matches!(self.state, TestState::Decided | TestState::Inconclusive)
    }

    /// The divisor and the unit of rates: one for all tests of a session, so that they compare by eye; one for a test where no unit
    /// suits all.
    pub fn rate_scale(&self, tests: &[Test]) -> (f64, &'static str) {
        let alike = tests.iter().filter(|other| other.unit == self.unit).flat_map(|other| &other.options);
        let of_all = common_unit(self.unit, alike.filter_map(|option| option.rate));
        let of_test = || common_unit(self.unit, self.options.iter().filter_map(|option| option.rate));
        let fastest = self.options.iter().filter_map(|option| option.rate).fold(0.0, f64::max);
        of_all.or_else(of_test).unwrap_or_else(|| rate_unit(self.unit, fastest))
    }
}

/// An option that is surely worse than the best one, by more than the margin and than the same option differs that is measured
/// twice; or that harms.
#[derive(Clone, Debug, PartialEq)]
pub struct Avoided {
    /// The option; `None` for a level of a factor, of which all options are worse.
    pub option: Option<CellId>,
    /// The option, or the level.
    pub label: String,
    /// Lower end of its extra time, as a share.
    pub lower: f64,
    /// Upper end of the same.
    pub upper: f64,
    /// The harm, where it is the reason.
    pub harm: Option<String>,
    /// Whether the screening alone shows it.
    pub is_screened: bool,
}

impl Avoided {
    /// The interval of its extra time.
    pub fn interval(&self, scale: ShareScale) -> String {
        scale.interval(self.lower, self.upper)
    }
}

/// The quantity that `slower_lower` and `slower_upper` compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compares {
    /// The time that the same work takes.
    Time,
    /// The CPU time that the same work takes: the plan fixed the rate.
    Cpu,
}

/// How far the results of a test decide between its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TestState {
    /// The recommended option is within the margin of the best.
    Decided,
    /// Intervals exist, but the recommended option may be slower than the best by more than the margin.
    Inconclusive,
    /// The A/A control differs significantly: the intervals of this test do not hold.
    Invalid,
    /// No option was measured often enough for an interval.
    Unconfirmed,
    /// One option was measured: there is nothing to compare.
    Single,
    /// No option was measured.
    Failed,
}

/// One option of a test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OptionResult {
    /// Its cell in `cells`.
    pub id: CellId,
    /// Its settings in short: `64K`, or `read 4K, write 64K`.
    pub label: String,
    /// The levels that the options of the test differ in.
    #[schemars(with = "FactorLevels")]
    pub settings: Factors,
    /// How it compares with the best option.
    pub status: OptionStatus,
    /// Median rate of its trials, in the unit of the test; `null` where nothing was measured.
    pub rate: Option<f64>,
    /// Lower end of the 95 % interval of the rate.
    pub rate_lower: Option<f64>,
    /// Upper end of the same.
    pub rate_upper: Option<f64>,
    /// With a latency objective: the highest rate that keeps it over all trials together, failed ones included, which is rather too
    /// high than too low; absent if no measured rate does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overall_rate: Option<f64>,
    /// Rate of all trials together, where the median is more than a tenth from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_all: Option<f64>,
    /// Measured trials behind the rate.
    pub trials: usize,
    /// Lower end of the extra time (or CPU time) compared with the best option, as a share. All intervals of a test hold
    /// together at the level of the session.
    pub slower_lower: Option<f64>,
    /// Upper end of the same.
    pub slower_upper: Option<f64>,
    /// The same interval as text, rounded outward: `12–97 %`, or in all options of the session `1.12–5.3×` where one is above 100 %;
    /// `screening only`, `failed` or `–` without an interval.
    pub slower: String,
    /// Median of a call's time, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// 99th percentile of a call's time, nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// 99th percentile of the calls of all trials together, nanoseconds, with an offered load: far above that of the median trial
    /// where few trials have most of the long calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_all_ns: Option<f64>,
    /// 99.9th percentile of a call's time, nanoseconds; absent below ten calls beyond it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_9_ns: Option<f64>,
    /// CPU time of one unit of work, in `cpu_unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<f64>,
    /// Lower end of the extra CPU time compared with the option that takes the least, as a share; where time leaves the test undecided
    /// and CPU time tells options apart. All intervals of a test hold together at the level of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu_lower: Option<f64>,
    /// Upper end of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu_upper: Option<f64>,
    /// The same interval as text, rounded outward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_cpu: Option<String>,
    /// CPU time of the server for each run of a program, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu_ms: Option<f64>,
    /// Share of the offered load that it carried, where it left more of it than it may; absent where it carried the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub carried_share: Option<f64>,
    /// Share of the datagrams sent that were lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_share: Option<f64>,
    /// The longest call, nanoseconds; one that had not ended counts for as long as it was observed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_ns: Option<u64>,
    /// Share of the clients that had no answer during a whole trial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starved_share: Option<f64>,
    /// Harm that forbids to call this option best; `findings` has the numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub harm: Vec<FindingKind>,
    /// Share of the calls that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed_share: Option<f64>,
    /// Unit of `cpu`: `s/GiB`, `µs/call`, `ns/op`, `ms/run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_unit: Option<&'static str>,
    /// Why it was skipped or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl OptionResult {
    /// Whether it left a load that another option carried, so that its cost is not compared.
    pub fn missed_load(&self) -> bool {
        self.harm.contains(&FindingKind::MissedLoad)
    }

    /// Its sizes, bytes, of the factors with these names.
    pub fn sizes<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = u64> + 'a {
        names.iter().filter_map(|name| self.settings.get(*name)?.as_u64())
    }
}

/// How an option compares with the best one of its test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptionStatus {
    /// Within the margin of the best option.
    Best,
    /// Not significantly slower than the best option; `slower_upper` shows by how much it may be.
    Tied,
    /// Not significantly slower, but with harm that another option does not have: `harm` shows which.
    Harmful,
    /// Significantly slower than the best option.
    Slower,
    /// Measured, without an interval that holds: too few trials, an A/A control that differs, or screening only.
    Unconfirmed,
    /// Not measured, with a reason.
    Skipped,
    /// Failed, with a reason.
    Failed,
}

/// Why an option is recommended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// It has the highest rate, or the lowest CPU time.
    Fastest,
    /// It is what the system does by default, and no other option is significantly better.
    Default,
    /// It is the smallest option within the margin of the best.
    Smallest,
    /// No size varies, and of the options within the margin it uses the least CPU time.
    LeastCpu,
    /// No size varies, CPU time is unknown, and it is the first in the plan of the options within the margin.
    First,
    /// It has the smallest upper end of the interval.
    SmallestMaximum,
    /// It is the only option.
    Only,
    /// It is the value that the user's program has now, and no other one is significantly better.
    Present,
}

/// The limit of an option.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bottleneck {
    /// The limit; `unknown` where no number proves one.
    #[schemars(schema_with = "schema::limit")]
    pub limit: &'static str,
    /// The limit that most of the other trials show; absent where the trials agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<&'static str>,
    /// The one of both that more trials show, for which `remedy` is.
    #[serde(skip)]
    pub leading: &'static str,
    /// Both as a phrase, the one that more trials show first.
    pub title: String,
    /// The limit and its evidence as a sentence.
    pub text: String,
    /// A change that may help against the limit that more trials show, in one clause; absent where nothing is known to help.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// One fact about the session that decides how to read the results.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Finding {
    /// The kind.
    pub kind: FindingKind,
    /// How much it matters.
    pub severity: Severity,
    /// The test; `null` where it concerns the session.
    pub test: Option<GroupId>,
    /// The option; `null` where it concerns the test.
    pub option: Option<CellId>,
    /// The option that it is compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<CellId>,
    /// The numbers behind it, by name: shares between 0 and 1, units last in the name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub numbers: BTreeMap<&'static str, f64>,
    /// Levels of factors and names behind it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub names: BTreeMap<&'static str, Value>,
    /// The finding as a sentence.
    pub text: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// A result of a test does not hold.
    Error,
    /// A result holds with a limitation.
    Warning,
    /// A result in itself: a large effect, one setting for all tests.
    Result,
    /// The scope of the results, and details.
    Note,
}

/// The subject of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// How the options that the user named compare.
    Comparison,
    /// The p99 of an option is longer than that of another one, at an offered load.
    LongerP99,
    /// Another setting has a larger effect than the options that were compared.
    BiggestEffect,
    /// One level of a setting is not significantly worse in any test.
    OneSetting,
    /// The A/A control differs significantly: the same option measured twice has two results.
    ControlDiffers,
    /// The A/A control may differ by more than the margin.
    ControlWide,
    /// A compared option of sockets cannot have an effect on this path.
    NoEffect,
    /// Trials in which nothing moved.
    Stalled,
    /// An option did not carry the offered load, or none of a test did.
    MissedLoad,
    /// Calls failed.
    FailedCalls,
    /// Datagrams were lost.
    LostDatagrams,
    /// Clients had no answer during a whole trial.
    StarvedClients,
    /// Connections found the listener's queue full.
    ListenOverflows,
    /// TCP waited for its retransmission time-out.
    TimeOuts,
    /// The kernel copied zero-copy sends.
    CopiedSends,
    /// The kernel copied bytes that it was asked to map.
    CopiedReceives,
    /// Datagrams were longer than the buffer of the reader.
    TruncatedDatagrams,
    /// A relay without back-pressure.
    NoBackPressure,
    /// Long trials contradict the recommendation.
    LongTrialsContradict,
    /// Long trials confirm the recommendation.
    LongTrialsConfirm,
    /// Long trials do not decide.
    LongTrialsInconclusive,
    /// The rates of all options are far from those of shorter trials.
    LongTrialsDiffer,
    /// Long trials were not run.
    LongTrialsMissing,
    /// All trials together favour another option than the median.
    SlowTrialsDisagree,
    /// Plain means favour another option, so nothing is significant for this one.
    MeansDisagree,
    /// The rate rose or fell during the session.
    Drift,
    /// The rates of an option have more than one mode.
    SeveralSpeeds,
    /// Some trials of an option failed, and the others are its result.
    FailedTrials,
    /// CPU steal hit some options more often than others.
    UnevenSteal,
    /// CPU steal during trials.
    Steal,
    /// The control group throttled the session.
    Throttled,
    /// Other programs used CPU time.
    OtherPrograms,
    /// The client began calls late.
    LateClient,
    /// The harness takes a noticeable part of a call.
    HarnessCost,
    /// Runs of a program are so short that starting it matters.
    ShortRuns,
    /// Processes were left behind by a program and ended.
    ProcessesLeft,
    /// A server ignored its stop signal and was killed.
    ServerKilled,
    /// The session was slower than planned, so the plan was reduced.
    PlanReduced,
    /// The session took longer than its budget.
    Overrun,
    /// Fewer blocks than planned.
    FewBlocks,
    /// Neighbouring blocks depend on each other.
    DependentBlocks,
    /// The machine was not quiet.
    NoisyMachine,
    /// An earlier interim analysis found this option within the margin; the present one does not.
    NoLongerBest,
    /// An earlier interim analysis found this option slower; the present one does not.
    NoLongerSlower,
    /// An earlier session of the same plan recommended this option, and the intervals of the two contradict each other.
    EarlierContradicts,
    /// An earlier session of the same plan recommended this option, which may be the best here as well.
    EarlierDiffers,
    /// The screening found a level significantly slower.
    ScreenedSlower,
    /// Options that were screened only.
    ScreenedOnly,
    /// The congestion control was compared over loopback.
    CongestionOverLoopback,
    /// Another congestion control than the default was not compared.
    CongestionNotCompared,
    /// How relays compare with the direct path, and what they cost.
    Relay,
    /// Counts of the emulated link.
    Link,
    /// The scope of the results.
    ValidFor,
    /// The memory of the recommended buffers with many connections.
    Memory,
    /// How a program compares with its present setting.
    Gain,
    /// How an earlier recommendation did in a program.
    Advice,
}

/// One line of the summary that ends a report.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SummaryLine {
    /// The subject of the line: the name of a test, `One setting for all`, `Biggest effect`, `Bottleneck`, `Caveat`.
    pub heading: String,
    /// The line.
    pub text: String,
    /// How many further findings have this heading; absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more: Option<usize>,
    /// Whether it recommends options: a terminal prints these lines last, above the prompt.
    #[serde(skip)]
    pub is_result: bool,
}

/// A next step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NextStep {
    /// The command, as a shell takes it; `null` where no command does it.
    pub command: Option<String>,
    /// Its effect, or the step itself.
    pub text: String,
}
