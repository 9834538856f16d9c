//! How a comparison by a cost is worded.

use bytegauge_model::Cost;

/// The words of a comparison by one cost.
pub struct CostWords {
    /// What is compared: `time`.
    pub noun: &'static str,
    /// The option with the least of it: `the fastest`.
    pub least: &'static str,
    /// Follows a share: `slower than the best`.
    pub above: &'static str,
    /// Heads intervals that are shares: `slower by`.
    pub by: &'static str,
    /// Heads intervals that are multiples: `time / best`.
    pub ratio: &'static str,
    /// States that an option has more, by a share in the place of `{}`: `takes at least {} longer`.
    pub has_more: &'static str,
    /// States the same by a multiple: `takes at least {} the time`.
    pub has_times: &'static str,
}

const TIME: CostWords = CostWords {
    noun: "time",
    least: "the fastest",
    above: "slower than the best",
    by: "slower by",
    ratio: "time / best",
    has_more: "takes at least {} longer",
    has_times: "takes at least {} the time",
};

const CPU: CostWords = CostWords {
    noun: "CPU time",
    least: "the least CPU time",
    above: "more CPU time than the best",
    by: "more CPU by",
    ratio: "CPU / least",
    has_more: "uses at least {} more CPU time",
    has_times: "uses at least {} the CPU time",
};

const P99: CostWords = CostWords {
    noun: "the p99 of calls",
    least: "the lowest p99",
    above: "above the lowest p99",
    by: "p99 longer by",
    ratio: "p99 / least",
    has_more: "has a p99 at least {} longer",
    has_times: "has at least {} the p99",
};

const GAP_P99: CostWords = CostWords {
    noun: "the p99 of the gaps between parts of a reply",
    least: "the lowest gap p99",
    above: "above the lowest gap p99",
    by: "gap longer by",
    ratio: "gap / least",
    has_more: "has a gap p99 at least {} longer",
    has_times: "has at least {} the gap p99",
};

const URGENT: CostWords = CostWords {
    noun: "the mean delay of urgent messages",
    least: "the least urgent delay",
    above: "above the least urgent delay",
    by: "delay longer by",
    ratio: "delay / least",
    has_more: "delays urgent messages at least {} longer",
    has_times: "delays urgent messages at least {} as long",
};

/// The words of a comparison by `cost`.
pub fn cost_words(cost: Cost) -> &'static CostWords {
    match cost {
        Cost::Time => &TIME,
        Cost::Cpu => &CPU,
        Cost::P99 => &P99,
        Cost::GapP99 => &GAP_P99,
        Cost::Urgent => &URGENT,
    }
}
