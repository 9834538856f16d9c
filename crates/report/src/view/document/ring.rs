//! What a document says of a ring beside its rate.

use schemars::JsonSchema;
use serde::Serialize;

/// What a ring counted, summed over the trials behind the estimate.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RingView {
    /// Operations handed to the kernel within the windows.
    pub submitted: u64,
    /// Completions taken within the windows.
    pub completed: u64,
    /// Completions of which result and user data were compared, over the rings' whole lives.
    pub checked: u64,
    /// Completions that the loop never took, over the rings' whole lives.
    pub left: u64,
    /// Calls of io_uring_enter(2) within the windows.
    pub enters: u64,
    /// Completions for each of those calls.
    pub nops_per_enter: Option<f64>,
    /// Rounds after which the completion queue had overflowed, if it ever had.
    pub overflowed_after_rounds: Option<u64>,
    /// Completions that fit the ring that the kernel made.
    pub completion_entries: u32,
    /// CPU time of the kernel's thread that submits for the ring, in CPUs.
    pub kernel_thread_cpus: Option<f64>,
}
