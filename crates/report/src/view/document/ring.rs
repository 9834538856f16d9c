//! The part of the document about a ring, in addition to its rate.

use schemars::JsonSchema;
use serde::Serialize;

/// A ring's counts, summed over the trials of the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RingView {
    /// Operations submitted within the windows.
    pub submitted: u64,
    /// Completions taken within the windows.
    pub completed: u64,
    /// Completions whose result and user data were compared, over the rings' whole lives.
    pub checked: u64,
    /// Completions that the loop never took, over the rings' whole lives.
    pub left: u64,
    /// Calls of io_uring_enter(2) within the windows.
    pub enters: u64,
    /// Completions per such call.
    pub nops_per_enter: Option<f64>,
    /// Rounds after which the completion queue had overflowed, if it did.
    pub overflowed_after_rounds: Option<u64>,
    /// Completions that fit the ring that the kernel made.
    pub completion_entries: u32,
    /// CPU time of the kernel's submission thread, in CPUs.
    pub kernel_thread_cpus: Option<f64>,
}
