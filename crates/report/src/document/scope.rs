//! The scope of the results: the conditions that all tests share, the time and the age of connections, and usual conditions that the plan
//! did not measure.
//!
//! Also lines about relays and links.

use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::unit::{about_bytes, byte_rate, counted, significant};
use bytegauge_model::{CellKind, Level, Nanos, Placement, SessionStatus, Spec, Transport, Workload, name_tables};

use super::Results;
use super::title::{seconds, varying, worker, workers_differ};
use crate::findings::is_loopback;
use crate::view::numbers::{CellView, GroupView, RelayProgramView, View};
use crate::words::interval_rounding::aged;
use crate::words::{option_label, phrase};

/// A sentence for each part of the scope: conditions, relays, links.
pub fn lines(results: &Results) -> Vec<String> {
    let view = results.view;
    let groups: Vec<Spec> = view.groups.iter().map(|group| group.factors.clone()).collect();
    let pinned = pinned(&groups).map(|pinned| format!("{pinned} (without pinning: --placement unpinned)"));
    let common = common(view, &groups, pinned.is_some());
    let parts = [
        unanalysed(view),
        groups.iter().any(|spec| spec.workload() == Workload::Ring).then(|| NOPS.to_owned()),
        pinned,
        loopback(view),
        (!common.is_empty()).then(|| common.join(", ")),
        no_work(view),
        verified(view),
        Some(when(view)).filter(|text| !text.is_empty()),
        not_measured(view, &groups),
    ];
    let mut all: Vec<String> = parts.into_iter().flatten().collect();
    for group in &view.groups {
        let test = results.test(&group.id).filter(|_| results.tests.len() > 1);
        let place = test.map_or_else(String::new, |test| format!("{}: ", test.name));
        let lines = relay_lines(results, group).into_iter().chain(link_line(group));
        all.extend(lines.map(|line| format!("{place}{line}")));
    }
    all.extend(product_of_path(view));
    phrase::unique(all.iter().map(|line| format!("{line}.")))
}

/// The scope of the rates of NOPs.
const NOPS: &str = "a NOP is an upper bound for every io_uring program here: it has no socket, no copy and no wake-up, so it does not \
                    show how fast real operations are (run tcp-echo does)";

/// The conditions that all tests share, where they are no default.
fn common(view: &View, groups: &[Spec], is_pinned: bool) -> Vec<String> {
    let Some(conditions) = groups.first() else { return Vec::new() };
    let varying = varying(view);
    let aged = view.groups.iter().any(|group| group.age_ns.is_some());
    // Conditions that do not exist in some tests, such as the placement of ends for a file, differ nowhere.
    let is_everywhere = |name: &str, level: &Level| {
        groups.iter().map(|group| group.get(name)).all(|other| other == *level || other == Level::Absent)
    };
    let is_reported = |name: &str| {
        phrase::PROFILE_FACTORS.contains(&name)
            || varying.iter().any(|varying| varying == name)
            || (aged && name == "connection_age")
            || (is_pinned && name == "placement")
    };
    // The called server is an option, and no condition of a group.
    let mut candidates = view.candidates().peekable();
    let is_external = candidates.peek().is_some() && candidates.all(|cell| cell.factors.connect().is_some());
    let phrases =
        conditions.present().filter(|(factor, level)| !is_reported(factor.name) && is_everywhere(factor.name, level));
    let phrases = phrases.filter_map(|(factor, _)| match factor.name {
        "role" if is_external => Some("the server is external".to_owned()),
        name => phrase::condition(name, conditions),
    });
    phrases.chain(work(view, conditions)).collect()
}

/// The work of the reader or the server, where it is the same in all tests: `the reader sums the bytes`.
fn work(view: &View, conditions: &Spec) -> Option<String> {
    view.groups.first().filter(|group| !workers_differ(view) && !group.throws_away && !worker(group).is_empty())?;
    let name = phrase::profile_name(conditions);
    let known = name_tables::PROFILES.iter().find(|profile| profile.name == name)?;
    // Levels alone may mean something in several workloads.
    let worker = known.workload.row().worker;
    // A reader that compares the bytes does not only discard them, whatever its profile.
    if phrase::throws_away(conditions) {
        return None;
    }
    Some(format!("the {worker} {}", known.phrase))
}

fn no_work(view: &View) -> Option<String> {
    let applies = !view.groups.is_empty() && view.groups.iter().all(|group| group.throws_away);
    applies.then(|| match view.plan.workload.as_str() {
        "call" => "servers that do no work; work changes the results (--profile rpc,many-idle)".to_owned(),
        _ => "readers that discard the bytes; work changes the results (--profile sum,parser)".to_owned(),
    })
}

fn verified(view: &View) -> Option<String> {
    let any = view.cells.iter().any(|cell| cell.counters.verified_bytes.is_some());
    any.then(|| "readers that compare every byte (--verify); compare only with sessions that do so too".to_owned())
}

/// The last analysis, where blocks were measured after it.
fn unanalysed(view: &View) -> Option<String> {
    let analyses = view.groups.iter().filter_map(|group| group.analysis.as_ref());
    let waiting = analyses.filter(|analysis| analysis.so_far > 0 && analysis.done > 0);
    let analysis = waiting.max_by_key(|analysis| analysis.so_far)?;
    let more = counted(analysis.so_far, "block");
    Some(format!("analysis {} of {}; {more} measured since then count at the next", analysis.done, analysis.of))
}

/// The kind of CPUs that the ends were pinned to, where all were. The kernel moves the threads of most programs.
fn pinned(groups: &[Spec]) -> Option<String> {
    let pinned = |spec: &Spec| spec.placement().is_some_and(|place| place != Placement::Unpinned);
    if groups.is_empty() || !groups.iter().all(pinned) {
        return None;
    }
    let mut places = groups.iter().filter_map(phrase::placement);
    let first = places.next().filter(|first| places.all(|other| other == *first));
    let place = first.and_then(|place| Some(place.split_once(" on ")?.1)).unwrap_or("CPUs");
    Some(format!("ends pinned to {place}"))
}

/// Imports may have been measured between any machines.
fn loopback(view: &View) -> Option<String> {
    let any = view.groups.iter().any(|group| is_loopback(&group.factors));
    (any && view.status != SessionStatus::Imported).then(|| "loopback, without a network".to_owned())
}

/// The time of the measurement, and the age of its connections.
fn when(view: &View) -> String {
    let ages = view.groups.iter().filter_map(|group| group.age_ns);
    let age = ages.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
    let measured = match view.status {
        SessionStatus::Imported => Some("these trials".to_owned()),
        _ => view.elapsed_ns.map(|ns| format!("these {}", seconds(ns))),
    };
    let day = view.started.get(..10).unwrap_or(&view.started).to_owned();
    let age = age.map(|(from, to)| aged(from, to));
    [measured, Some(day), age].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A usual condition of programs that the plan did not measure.
fn not_measured(view: &View, groups: &[Spec]) -> Option<String> {
    let is_over_tcp = groups.iter().any(|spec| spec.transport().is_some_and(Transport::is_tcp));
    if !is_over_tcp || view.plan.varied.iter().any(|name| name == "congestion") {
        return None;
    }
    let set = view.environment.congestion().map_or_else(String::new, |name| format!(" than {name}"));
    Some(format!("not measured: other congestion controls{set} (--congestion)"))
}

// Results of relays, as text: the rate of the path without one, the share of it that a relay reaches, and the programs that were
// measured.

/// The lines of a group; none without a relay.
fn relay_lines(view: &Results, group: &GroupView) -> Vec<String> {
    let all: Vec<&CellView> = view.candidates_of(&group.id).collect();
    // One without CPU time in its windows has no cost.
    let costed: Vec<&CellView> = all.iter().copied().filter(|cell| has_cost(cell)).collect();
    [reach(view, group, &costed), programs(group, &all)].into_iter().flatten().collect()
}

/// Whether the CPU time of a relay is known.
fn has_cost(cell: &CellView) -> bool {
    ["relay_cpu_s_per_gib", "relay_cpu_s_per_million_calls"].into_iter().any(|name| cell.more.contains_key(name))
}

fn reach(view: &Results, group: &GroupView, relays: &[&CellView]) -> Option<String> {
    let rated = || relays.iter().filter_map(|cell| Some((cell.estimate.median?, *cell)));
    let (most, fastest) = rated().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let without = view.cells_of(&group.id).find(|cell| cell.kind == CellKind::Ceiling)?.estimate.median?;
    let (divisor, unit) = view.test(&group.id)?.rate_scale(view.tests);
    // Pairs of trials show which is the best: the highest median may lead by chance, and would be a second name.
    let named = rated().find(|(_, cell)| group.recommendation.cell.as_ref() == Some(&cell.id));
    let (most, who) = match named {
        Some((rate, cell)) => (rate, relay_name(group, cell)),
        None => (most, format!("the fastest by its median, {},", relay_name(group, fastest))),
    };
    let (ceiling, share) = (significant(without / divisor, 3), most / without * 100.0);
    Some(format!("without a relay {ceiling} {unit}; {who} reaches {share:.0} % of it, by medians"))
}

/// Which versions of programs were measured, and which of them did not leave properly.
fn programs(group: &GroupView, relays: &[&CellView]) -> Option<String> {
    let known = |cell: &&CellView| {
        let RelayProgramView { version, left_behind, stopped_by_force, charged } = cell.relay_program.as_ref()?;
        let version = version.as_deref().unwrap_or("of unknown version");
        let left = (*left_behind > 0).then(|| format!(" (left processes behind, which were ended: {left_behind})"));
        let by_force = stopped_by_force.then_some(" (ignored SIGTERM and was killed)");
        let charged = charged.as_ref().map(|whose| format!(" (charged: {whose})"));
        let notes = [charged, left, by_force.map(str::to_owned)].into_iter().flatten().collect::<String>();
        Some(format!("{}: {version}{notes}", relay_name(group, cell)))
    };
    let programs: Vec<String> = relays.iter().filter_map(known).collect();
    (!programs.is_empty()).then(|| format!("programs: {}", programs.join(", ")))
}

/// The settings of a relay that distinguish it from the others of its test, as the table names them; `splice + threads one`.
fn relay_name(group: &GroupView, cell: &CellView) -> String {
    let of_relay: Vec<String> = group.varied.iter().filter(|name| name.starts_with("relay")).cloned().collect();
    match option_label(&of_relay, &cell.factors) {
        own if own.is_empty() => short_relay_name(&cell.level("relay").to_string()),
        own => own,
    }
}

// The emulated link of a group: its settings and its measured properties.

/// Shorter round trips are those of a cable, over which any buffer is large enough, µs.
const FAR_US: u64 = 500;

/// Delay × rate of the path to another host, as measured: its shortest round trip, and the highest rate over it.
fn product_of_path(view: &View) -> Option<String> {
    let goes_far = |cell: &&CellView| {
        cell.kind == CellKind::Candidate && cell.estimate.unit == "bytes/s" && cell.factors.host().is_some()
    };
    let far = || view.cells.iter().filter(goes_far);
    let trip_us = far().filter_map(|cell| cell.counters.min_rtt_us).min().filter(|us| *us >= FAR_US)?;
    let rate = far().filter_map(|cell| cell.estimate.median).reduce(f64::max)?;
    Some(format!(
        "delay × rate of the path, as measured, is {} ({} × {})",
        about_bytes((rate * trip_us as f64 / 1e6) as u64),
        Nanos(trip_us * 1000),
        byte_rate(rate)
    ))
}

/// The line of a group; none without a link.
fn link_line(group: &GroupView) -> Option<String> {
    let (asked, link) = (group.factors.emulated_link()?, group.link.as_ref()?);
    let share = |packets: u64| {
        let all = link.passed + link.lost + link.queue_drops;
        format!("{} %", significant(packets as f64 / all.max(1) as f64 * 100.0, 2))
    };
    let trip = link.round_trip_ns.map_or_else(
        || format!("round trips {} longer", Nanos(link.late_ns)),
        |ns| format!("shortest round trips of {}", Nanos(ns)),
    );
    let cpus = link.cpus.map_or_else(String::new, |cpus| format!("; its process took {} CPUs", significant(cpus, 2)));
    Some(format!(
        "emulated link of {asked}: delay × rate is {}; measured: {trip}, of {} packets {} lost and {} dropped by the full queue ({}){cpus}",
        about_bytes(asked.product_bytes()),
        link.passed + link.lost + link.queue_drops,
        share(link.lost),
        share(link.queue_drops),
        about_bytes(asked.queue_bytes()),
    ))
}
