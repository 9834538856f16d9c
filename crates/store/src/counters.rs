//! The counters that an end and each of its flows share, as one list for columns, export and detail.

use bytegauge_model::{EndCounts, EndReport, FlowReport, OptionalCount};

/// Number of counters.
pub const COUNT: usize = NAMES.len();

/// Generates everything that depends on the list. A value that may be unknown is in the JSON column. The
/// pattern names every field, so a field that the model gains cannot be forgotten here.
macro_rules! counters {
    ($($name:ident),+ $(,)?) => {
        /// Their names, in the order of [`of_end`].
        pub const NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        /// An end's counters.
        pub fn of_end(end: &EndReport) -> [u64; COUNT] {
            let EndCounts { $($name,)+ queued_ns: _ } = end.counts;
            [$($name),+]
        }

        /// An end with these counters and flows.
        pub fn end(counters: [u64; COUNT], flows: Vec<FlowReport>) -> EndReport {
            let [$($name),+] = counters;
            let counts = EndCounts { $($name,)+ queued_ns: OptionalCount::NONE };
            EndReport { counts, flows, ..EndReport::default() }
        }
    };
}

counters![
    bytes,
    calls,
    short_calls,
    window_ns,
    user_ns,
    system_ns,
    cpu_ns,
    voluntary_switches,
    involuntary_switches,
    total_bytes,
    verified_bytes,
];
