//! Statistics: estimates, intervals, best sets, recommendations and cost models from trials.
//!
//! Pure: takes plain numbers and indices, returns plain numbers. A cell is an index here; only [`call_percentiles`],
//! [`call_times`], [`trial_counts`] and [`trial_metrics`] know what is recorded of it. Randomness comes from a seed of the caller, so the same trials and the same seed give the same bits.
//!
//! Never reads a clock, never does I/O, never starts a thread, never drops an outlier, never writes a sentence.
//!
//! The path of the data: [`warmup`] (when to start counting) → [`finalists`] (which cells to confirm) → [`group`] (the
//! result of one group; calls [`block_dependence`], [`best_set`]) → [`recommendation`] and [`decision_rule`] (the
//! cheapest option that is good enough everywhere, and the tightest statement about the test). [`interim`] schedules interim analyses
//! and forecasts their blocks, and [`audit`] checks results with long trials.
//!
//! Other modules: [`quantile`] and [`modes`] (one cell), [`cost`] (time by size), [`compare`] (two subjects), [`across`] (several
//! sessions), [`noise_grade`] (the environment) and [`knee`] (the search for a rate). The
//! crate `selftest` tests every claim with trials whose truth is known.

#![forbid(unsafe_code)]

pub mod across;
pub mod audit;
pub mod best_set;
pub mod block_dependence;
pub mod call_percentiles;
pub mod call_times;
pub mod compare;
pub mod cost;
pub mod decision_rule;
pub mod finalists;
pub mod group;
pub mod interim;
pub mod knee;
pub mod lifetimes;
pub mod modes;
pub mod noise_grade;
pub mod outlier;
pub mod quantile;
pub mod recommendation;
pub mod rng;
pub mod trial_counts;
pub mod trial_metrics;
pub mod warmup;
