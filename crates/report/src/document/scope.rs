//! The scope of the results: the conditions that all tests share, the time and the age of connections, and usual conditions that the plan
//! did not measure.

use bytegauge_model::unit::counted;
use bytegauge_model::{CellKind, Level, Placement, ProgramRole, SessionStatus, Spec, Transport, Workload, name_tables};

use super::title::{seconds, varying, worker, workers_differ};
use super::{Results, relays};
use crate::findings::is_loopback;
use crate::view::link;
use crate::view::numbers::{InterimView, View};
use crate::words::interval_rounding::aged;
use crate::words::phrase;

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
        let lines = relays::lines(results, group).into_iter().chain(link::line(group));
        all.extend(lines.map(|line| format!("{place}{line}")));
    }
    all.extend(relays::held(view));
    all.extend(link::of_path(view));
    let mut unique: Vec<String> = Vec::new();
    for line in all.iter().map(|line| format!("{line}.")) {
        if !unique.contains(&line) {
            unique.push(line);
        }
    }
    unique
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
    let mut candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).peekable();
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
    let waits = |analysis: &&InterimView| analysis.so_far > 0 && analysis.done > 0;
    let analysis = view
        .groups
        .iter()
        .filter_map(|group| group.analysis.as_ref())
        .filter(waits)
        .max_by_key(|analysis| analysis.so_far)?;
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

/// Usual conditions of programs that the plan did not measure.
fn not_measured(view: &View, groups: &[Spec]) -> Option<String> {
    let mut phrases: Vec<String> = Vec::new();
    let over_tcp: Vec<&Spec> = groups.iter().filter(|spec| spec.transport().is_some_and(Transport::is_tcp)).collect();
    if !over_tcp.is_empty() && !view.plan.varied.iter().any(|name| name == "congestion") {
        let set = view.environment.congestion().map_or_else(String::new, |name| format!(" than {name}"));
        // The end that sends sets it.
        phrases.push(match over_tcp.iter().all(|spec| spec.role() == Some(ProgramRole::Reader)) {
            true => format!("other congestion controls{set} in the peer (--congestion)"),
            false => format!("other congestion controls{set} (--congestion)"),
        });
    }
    let has_ends = |spec: &Spec| spec.placement().is_some() && spec.workload().has_path();
    if view.plan.ends.as_deref() == Some("threads") && groups.iter().any(has_ends) {
        phrases.push("processes (--ends)".into());
    }
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let smallest = candidates.filter_map(|cell| cell.factors.write_size()).min();
    if let Some(size) = smallest.filter(|size| *size > 1 && view.plan.varied.iter().any(|name| name == "write_size")) {
        phrases.push(format!("writes below {}", phrase::level("write_size", &Level::Number(size))));
    }
    (!phrases.is_empty()).then(|| format!("not measured: {}", phrases.join(", ")))
}
