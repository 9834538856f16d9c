//! The counters that an end and each of its flows share, as one list for columns, export and detail.

use bytegauge_model::{EndReport, FlowReport};

/// Number of counters.
pub const COUNT: usize = NAMES.len();

/// Generates everything that depends on the list. Values that may be unknown, or are no counters, are in the JSON
/// column. The patterns name every field, so a field that the model gains cannot be forgotten here.
macro_rules! counters {
    ($($name:ident),+ $(,)?) => {
        /// Their names, in the order of [`of_end`].
        pub const NAMES: [&str; [$(stringify!($name)),+].len()] = [$(stringify!($name)),+];

        /// An end's counters.
        pub fn of_end(end: &EndReport) -> [u64; COUNT] {
            let EndReport {
                $($name,)+
                queued_ns: _,
                flows: _,
                call: _,
                engine: _,
                datagrams: _,
                ring: _,
                relay: _,
                relay_program: _,
                task: _,
                iperf3: _,
            } = *end;
            [$($name),+]
        }

        /// An end with these counters and flows.
        pub fn end(counters: [u64; COUNT], flows: Vec<FlowReport>) -> EndReport {
            let [$($name),+] = counters;
            EndReport { $($name,)+ flows, ..EndReport::default() }
        }

        /// An end's counters as those of its only flow.
        pub fn flow(end: &EndReport) -> FlowReport {
            FlowReport { $($name: end.$name,)+ queued_ns: end.queued_ns, ..FlowReport::default() }
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
