//! The numbers that a trial yields, in addition to its rate: a table for each workload.

use bytegauge_model::{
    ComparedCondition, Cost, DatagramReport, EndReport, EndRole, ProgramRole, Spec, Trial, Workload,
};

use crate::call_percentiles::{gap_p99_of_trial, mean_of_trial, p99_of_trial, round_trips_per_minute};
use crate::trial_counts::ratio;

/// A number that a trial yields.
pub struct TrialMetric {
    /// Its name in documents.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// How it is read.
    pub of: fn(&Trial) -> Option<f64>,
}

const fn metric(name: &'static str, unit: &'static str, of: fn(&Trial) -> Option<f64>) -> TrialMetric {
    TrialMetric { name, unit, of }
}

/// Bytes of a program of the user.
pub const THROUGHPUT: TrialMetric = metric("throughput", "bytes/s", Trial::rate);

/// Whatever a program prints of itself.
pub const PRINTED: TrialMetric = metric("printed", "printed", Trial::rate);

/// Runs for each second of CPU time.
pub const CPU_RUNS: TrialMetric = metric("cpu_runs", "runs/CPU s", Trial::rate);

/// One event more than were counted, so that a run without any has a rate.
pub const EVENTS: TrialMetric = metric("events", "runs/M events", Trial::rate);

/// Estimates of programs of the user.
pub const MORE_OF_RUNS: &[TrialMetric] = &[
    metric("ns_per_run", "ns", |trial| (trial.wall_ns > 0).then_some(trial.wall_ns as f64)),
    metric("cpu_ns_per_run", "ns", Trial::cpu_ns_per_run),
    metric("server_cpu_ns_per_run", "ns", |trial| trial.task()?.server_cpu_ns.map(|ns| ns as f64)),
    metric("events_per_run", "events", |trial| trial.task()?.events.map(|events| events as f64)),
];

/// Estimates of rings. A loop that takes no completions has submissions only.
pub const MORE_OF_RINGS: &[TrialMetric] = &[
    metric("ns_per_nop", "ns", |trial| trial.rate().map(|rate| 1e9 / rate)),
    metric("cpu_ns_per_nop", "ns", Trial::cpu_ns_per_nop),
    metric("submissions_per_second", "NOPs/s", |trial| per_second(trial, trial.ring()?.submitted)),
    metric("system_calls_per_second", "calls/s", |trial| per_second(trial, trial.ring()?.enters)),
];

/// A count within the window, per second of the window that the rate has.
fn per_second(trial: &Trial, count: u64) -> Option<f64> {
    ratio(count, trial.wall_ns).filter(|rate| *rate > 0.0).map(|per_ns| per_ns * 1e9)
}

/// Estimates of streams.
pub const MORE: &[TrialMetric] = &[
    metric("calls_per_second", "calls/s", |trial| calls_per_second(trial.sink_side()?)),
    metric("write_calls_per_second", "calls/s", |trial| calls_per_second(trial.source_side()?)),
    metric("ns_per_call", "ns", |trial| ns_per_call(trial.ends.measuring()?)),
    metric("ns_per_write_call", "ns", |trial| trial.sink_side().and(trial.source_side()).and_then(ns_per_call)),
    metric(WRITER_COPIED, "share", |trial| copied_share(trial, EndRole::Source)),
    metric("cpu_ns_per_byte", "ns/byte", Trial::cpu_ns_per_byte),
    metric("source_cpu_ns_per_byte", "ns/byte", |trial| end_cpu_ns_per_byte(trial.source_side()?)),
    metric("sink_cpu_ns_per_byte", "ns/byte", |trial| end_cpu_ns_per_byte(trial.sink_side()?)),
    metric("datagrams_per_second", "datagrams/s", |trial| per_second(trial, arrived(trial)?.datagrams)),
    metric("packets_per_second", "packets/s", |trial| per_second(trial, arrived(trial)?.packets)),
    metric(TO, "bytes/s", |trial| one_way(trial, false)),
    metric(FROM, "bytes/s", |trial| one_way(trial, true)),
    metric(NEAR_CPUS, "CPUs", |trial| cpus_of_host(trial, false)),
    metric(FAR_CPUS, "CPUs", |trial| cpus_of_host(trial, true)),
];

/// Where bytes go both ways at once: the rate of those that come from the end that connected.
pub const TO: &str = "to_bytes_per_second";
/// The rate of those that go back to it.
pub const FROM: &str = "from_bytes_per_second";
/// CPUs that the end used that connected, as a writer and as a reader.
pub const NEAR_CPUS: &str = "near_cpus";
/// The same of the other end.
pub const FAR_CPUS: &str = "far_cpus";

/// Writers and readers of a stream that goes both ways at once.
fn both_ways(trial: &Trial) -> Option<(&EndReport, &EndReport)> {
    let (source, sink) = (trial.end(EndRole::Source)?, trial.end(EndRole::Sink)?);
    sink.flows.iter().any(|flow| flow.back).then_some((source, sink))
}

fn one_way(trial: &Trial, back: bool) -> Option<f64> {
    let (_, sink) = both_ways(trial)?;
    per_second(trial, sink.flows.iter().filter(|flow| flow.back == back).map(|flow| flow.bytes).sum())
}

/// The end that connected writes what goes there and reads what comes back.
fn cpus_of_host(trial: &Trial, far: bool) -> Option<f64> {
    let (source, sink) = both_ways(trial)?;
    let used = |end: &EndReport, back: bool| -> u64 {
        end.flows.iter().filter(|flow| flow.back == back).map(|flow| flow.cpu_ns).sum()
    };
    ratio(used(source, far) + used(sink, !far), trial.wall_ns).filter(|cpus| *cpus > 0.0)
}

/// Sends of a relay that asked for no copy, and were copied: their share.
pub const RELAY_COPIED: &str = "relay_copied_share";
/// Share of a writer's sends that asked for no copy and were copied.
pub const WRITER_COPIED: &str = "writer_copied_share";

const CPUS_OF_RELAY: TrialMetric = metric("relay_cpus", "CPUs", Trial::relay_cpus);
const COPIED_BY_RELAY: TrialMetric = metric(RELAY_COPIED, "share", |trial| copied_share(trial, EndRole::Relay));

/// Estimates of relays of streams.
pub const OF_STREAM_RELAYS: &[TrialMetric] = &[
    metric("relay_cpu_s_per_gib", "s/GiB", |trial| {
        trial.relay_cpu_ns_per_unit().map(|ns| ns * (1u64 << 30) as f64 / 1e9)
    }),
    metric(RELAY_SYSTEM_CALLS[0], "system calls/MiB", |trial| Some(relay_system_calls(trial)? * MIB)),
    metric(RELAY_SWITCHES[0], "context switches/MiB", |trial| Some(relay_switches(trial)? * MIB)),
    CPUS_OF_RELAY,
    COPIED_BY_RELAY,
];

/// Estimates of relays of calls.
pub const OF_CALL_RELAYS: &[TrialMetric] = &[
    CPUS_OF_RELAY,
    COPIED_BY_RELAY,
    metric("relay_cpu_s_per_million_calls", "µs/call", |trial| trial.relay_cpu_ns_per_unit().map(|ns| ns * 1e6 / 1e9)),
    metric(RELAY_SYSTEM_CALLS[1], "system calls/call", relay_system_calls),
    metric(RELAY_SWITCHES[1], "context switches/call", relay_switches),
];

/// System calls of bytegauge's own relays, for a MiB of a stream or for a call.
pub const RELAY_SYSTEM_CALLS: [&str; 2] = ["relay_system_calls_per_mib", "relay_system_calls_per_call"];
/// Times that its threads left their CPUs, willing or not, in the same way.
pub const RELAY_SWITCHES: [&str; 2] = ["relay_switches_per_mib", "relay_switches_per_call"];

const MIB: f64 = (1u64 << 20) as f64;

/// A relay's system calls for each unit that came through. An engine counts all of them over its whole life; where there is none
/// they are those that moved bytes.
fn relay_system_calls(trial: &Trial) -> Option<f64> {
    let relay = trial.end(EndRole::Relay)?;
    let of_engine = relay.engine.as_ref().map(|engine| engine.system_calls as f64 * relay.window_share());
    relay_per_unit(trial, of_engine.unwrap_or(relay.calls as f64))
}

fn relay_switches(trial: &Trial) -> Option<f64> {
    let relay = trial.end(EndRole::Relay)?;
    relay_per_unit(trial, relay.voluntary_switches.saturating_add(relay.involuntary_switches) as f64)
}

/// The counts of a relay within its window for each unit; `None` without counts, as for external programs.
fn relay_per_unit(trial: &Trial, counted: f64) -> Option<f64> {
    let seconds = trial.end(EndRole::Relay)?.window_ns as f64 / 1e9;
    let units = trial.rate()? * seconds;
    (counted > 0.0 && units > 0.0).then(|| counted / units)
}

/// Share of the sends of an end that asked for no copy and were copied.
fn copied_share(trial: &Trial, end: EndRole) -> Option<f64> {
    let engine = trial.end(end)?.engine.as_deref()?;
    ratio(engine.zero_copy_copied, engine.zero_copy)
}

/// Counts of datagrams at the sink.
fn arrived(trial: &Trial) -> Option<&DatagramReport> {
    trial.end(EndRole::Sink)?.datagrams.as_deref()
}

/// Estimates of calls. The server's CPU time is the cost of an answer; the client's is the cost of measuring it.
pub const MORE_OF_CALLS: &[TrialMetric] = &[
    metric("server_cpu_ns_per_call", "ns", Trial::server_cpu_ns_per_call),
    metric("calls_per_server_cpu_second", "calls/s", |trial| trial.server_cpu_ns_per_call().map(|ns| 1e9 / ns)),
    metric("client_cpu_ns_per_call", "ns", client_cpu_ns_per_call),
    metric("round_trips_per_minute", "calls/min", |trial| round_trips_per_minute(trial.client()?)),
    metric("server_system_calls_per_call", "system calls", |trial| {
        trial.end(EndRole::Server).and_then(|server| system_calls_per_call(server, server.calls))
    }),
    metric("client_system_calls_per_call", "system calls", |trial| {
        system_calls_per_call(trial.end(EndRole::Client)?, trial.calls)
    }),
];

/// A cost of one trial, nanoseconds; `None` where it is not known.
pub fn cost_ns(trial: &Trial, cost: Cost, factors: &Spec) -> Option<f64> {
    match cost {
        Cost::Time => trial.rate().map(|rate| 1e9 / rate),
        Cost::Cpu => compared_cpu_ns(trial, factors),
        Cost::Latency => mean_of_trial(trial.client()?),
        Cost::P99 => p99_of_trial(trial.client()?),
        Cost::GapP99 => gap_p99_of_trial(trial.client()?),
        Cost::Urgent => mean_of_trial(trial.end(EndRole::Sink)?.call.as_deref()?),
    }
}

/// The CPU time of a unit of work by which options are compared, nanoseconds: of the end that the program of the user takes
/// (`role`), of the client where client engines are compared, else what [`Trial::cpu_ns_per_unit`] counts.
fn compared_cpu_ns(trial: &Trial, factors: &Spec) -> Option<f64> {
    let has_relay = trial.end(EndRole::Relay).is_some();
    let of_end = |end: Option<&EndReport>| end_cpu_ns_per_byte(end?);
    match (trial.workload, factors.role(), factors.compare()) {
        (Workload::Stream, Some(ProgramRole::Reader), _) if !has_relay => of_end(trial.sink_side()),
        (Workload::Stream, Some(ProgramRole::Writer), _) if !has_relay => of_end(trial.source_side()),
        (.., Some(ComparedCondition::ClientEngine)) if !has_relay => client_cpu_ns_per_call(trial),
        _ => trial.cpu_ns_per_unit(),
    }
}

fn client_cpu_ns_per_call(trial: &Trial) -> Option<f64> {
    let client = trial.end(EndRole::Client)?;
    ratio(client.cpu_and_kernel_threads_ns(), trial.calls).filter(|ns| *ns > 0.0)
}

/// Engines count over their whole lives; `calls` are those of the window.
fn system_calls_per_call(end: &EndReport, calls: u64) -> Option<f64> {
    let counted = end.engine.as_ref()?.system_calls as f64 * end.window_share();
    (calls > 0 && counted > 0.0).then(|| counted / calls as f64)
}

fn calls_per_second(end: &EndReport) -> Option<f64> {
    ratio(end.calls, end.window_ns).filter(|rate| *rate > 0.0).map(|per_ns| per_ns * 1e9)
}

/// Wall time of a flow per call.
pub fn ns_per_call(end: &EndReport) -> Option<f64> {
    ns_of_threads(end, end.flows.len() as u64)
}

/// Wall time of each of `threads` threads per call.
pub fn ns_of_threads(end: &EndReport, threads: u64) -> Option<f64> {
    ratio(end.window_ns, end.calls).filter(|ns| *ns > 0.0).map(|ns| ns * threads.max(1) as f64)
}

fn end_cpu_ns_per_byte(end: &EndReport) -> Option<f64> {
    ratio(end.cpu_time_ns(), end.bytes).filter(|ns| *ns > 0.0)
}
