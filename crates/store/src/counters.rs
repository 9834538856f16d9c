//! The counters that an end and each of its flows share, as one list: columns, export and detail walk it.

use bytegauge_model::{EndReport, FlowReport};

/// How many there are.
pub(crate) const COUNT: usize = 11;

/// Their names, in the order of [`of_end`].
pub(crate) const NAMES: [&str; COUNT] = [
    "bytes",
    "calls",
    "short_calls",
    "window_ns",
    "user_ns",
    "system_ns",
    "cpu_ns",
    "voluntary_switches",
    "involuntary_switches",
    "total_bytes",
    "verified_bytes",
];

// The patterns below name every field: one that the model gains cannot be forgotten here. What may be unknown or
// is not a counter stands in the JSON column.

/// An end's counters.
pub(crate) fn of_end(end: &EndReport) -> [u64; COUNT] {
    let EndReport {
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
        queued_ns: _,
        flows: _,
        call: _,
        engine: _,
        datagrams: _,
        ring: _,
        relay: _,
        relay_program: _,
        task: _,
    } = *end;
    [
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
    ]
}

/// An end with these counters and flows.
pub(crate) fn end(counters: [u64; COUNT], flows: Vec<FlowReport>) -> EndReport {
    let [
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
    ] = counters;
    EndReport {
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
        queued_ns: None,
        flows,
        call: None,
        engine: None,
        datagrams: None,
        ring: None,
        relay: None,
        relay_program: None,
        task: None,
    }
}

/// An end's counters as those of its only flow.
pub(crate) fn flow(end: &EndReport) -> FlowReport {
    let [
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
    ] = of_end(end);
    FlowReport {
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
        queued_ns: end.queued_ns,
        ..FlowReport::default()
    }
}
