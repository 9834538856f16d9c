//! What the answer holds for, and what was not looked at.

use bytegauge_model::unit::{counted, significant};
use bytegauge_model::{CellKind, Level, Placement, ProgramRole, SessionStatus, Spec, Stage, catalog, factor};

use super::super::document::{GroupView, LookView, View};
use super::super::groups::are_apart;
use super::{Questions, crowd, levels, seconds};
use crate::phrase;
use crate::sentence::{aged, shown_age};

/// What the answer holds for, and what was not looked at.
pub fn holds(view: &View, questions: &Questions) -> Vec<String> {
    let pinned = pinned(view);
    let is_pinned = pinned.is_some();
    let mut said: Vec<String> =
        unjudged(view).into_iter().chain(crowded(view)).chain(pinned).chain(loopback(view)).collect();
    let aged = view.groups.iter().any(|group| group.age_ns.is_some());
    let everywhere: Vec<String> = view.verdicts.first().map_or_else(Vec::new, |verdict| {
        let conditions = levels(&verdict.factors);
        let groups: Vec<Spec> = view.groups.iter().map(|group| levels(&group.factors)).collect();
        // What some have not at all, such as places of ends for a file, differs nowhere.
        let is_everywhere = |name: &str, level: &Level| {
            groups.iter().map(|group| group.get(name)).all(|other| other == *level || other == Level::Absent)
        };
        let common = conditions.present().filter(|(factor, level)| {
            !questions.varying.iter().any(|name| name == factor.name) && is_everywhere(factor.name, level)
        });
        // How old connections were says more than a word for it.
        let common = common.filter(|(factor, _)| !aged || factor.name != "connection_age");
        // Where all are pinned that is said already.
        let common = common.filter(|(factor, _)| !is_pinned || factor.name != "placement");
        // A row says what its peer does where rows differ in that.
        let peers_differ = ["write_size", "read_size"].iter().any(|name| !is_everywhere(name, &conditions.get(name)));
        // Which server is called is a choice, and no condition of a group.
        let mut candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).peekable();
        let is_foreign =
            candidates.peek().is_some() && candidates.all(|cell| levels(&cell.factors).connect().is_some());
        let said = common.filter_map(|(factor, _)| match factor.name {
            "role" if is_foreign => Some("the server is not yours".to_owned()),
            "role" if peers_differ => phrase::who(&conditions).map(str::to_owned),
            name => phrase::condition(name, &conditions),
        });
        said.chain(worker(view, questions)).collect()
    });
    if !everywhere.is_empty() {
        said.push(everywhere.join(", "));
    }
    if !view.groups.is_empty() && view.groups.iter().all(|group| group.throws_away) {
        said.push(match view.plan.workload.as_str() {
            "call" => {
                "the server does nothing with a request: one that works shifts this (--profile rpc,many-idle)".into()
            }
            _ => "the reader discards the bytes: one that works shifts this (--profile sum,parser)".to_owned(),
        });
    }
    if view.cells.iter().any(|cell| cell.counters.verified_bytes.is_some()) {
        said.push(
            "every byte that arrives is compared (--verify), which takes time: compare with such sessions alone".into(),
        );
    }
    said.push(when(view));
    said.extend(ages(view, questions));
    let not_asked = not_asked(view);
    if !not_asked.is_empty() {
        said.push(format!("not asked: {}", not_asked.join(", ")));
    }
    let compared = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate && cell.outcome == "measured");
    let screened = compared.clone().filter(|cell| cell.stage != Some(Stage::Confirm)).count();
    let all = compared.count();
    if screened > 0 && screened < all {
        said.push(format!(
            "{} of {all} choices confirmed, in every block; the others only screened, by a few trials",
            all - screened
        ));
    }
    said.retain(|part| !part.is_empty());
    said
}

/// Of which blocks the numbers are, where more were measured since.
fn unjudged(view: &View) -> Option<String> {
    let waits = |look: &&LookView| look.so_far > 0 && look.done > 0;
    let look =
        view.groups.iter().filter_map(|group| group.look.as_ref()).filter(waits).max_by_key(|look| look.so_far)?;
    Some(format!(
        "of judgement {} of {}: {} measured since then are in no number here, and count at the next",
        look.done,
        look.of,
        counted(look.so_far, "block")
    ))
}

/// What the worker does, where it is the same everywhere and no row says it: `the reader sums the bytes`.
fn worker(view: &View, questions: &Questions) -> Option<String> {
    let group = view.groups.first().filter(|group| !questions.workers_differ && !group.throws_away)?;
    let conditions = levels(&group.factors);
    let name = phrase::profile_name(&conditions);
    let known = catalog::PROFILES.iter().find(|profile| profile.name == name)?;
    // Who works is a matter of the profile: levels alone may mean something in several workloads.
    let worker = known.workload.row().worker;
    // Who compares the bytes does not drain them alone, whatever the profile is called.
    if phrase::throws_away(&conditions) {
        return None;
    }
    Some(match name.as_str() {
        "sum" => format!("the {worker} adds up every byte"),
        "rpc" => format!("the {worker} adds up every request and does a little work"),
        _ => format!("the {worker} {}", known.phrase),
    })
}

/// What a program may well have otherwise, and the plan did not look at.
fn not_asked(view: &View) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    let groups: Vec<Spec> = view.groups.iter().map(|group| levels(&group.factors)).collect();
    let is_tcp = |levels: &Spec| levels.transport().is_some_and(bytegauge_model::Transport::is_tcp);
    let over_tcp: Vec<&Spec> = groups.iter().filter(|levels| is_tcp(levels)).collect();
    if !over_tcp.is_empty() && !view.plan.varied.iter().any(|name| name == "congestion") {
        let set = view.environment.congestion().map_or_else(String::new, |name| format!(" than {name}"));
        // Whoever sends sets it.
        said.push(match over_tcp.iter().all(|levels| levels.role() == Some(ProgramRole::Reader)) {
            true => format!("other congestion controls of the peer, which sends,{set} (--congestion)"),
            false => format!("other congestion controls{set} (--congestion)"),
        });
    }
    if view.plan.ends.as_deref() == Some("threads")
        && groups.iter().any(|levels| levels.placement().is_some() && levels.workload().has_path())
    {
        said.push("processes (--ends)".into());
    }
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let smallest = candidates.filter_map(|cell| cell.spec().write_size()).min();
    if let Some(size) = smallest.filter(|size| *size > 1 && view.plan.varied.iter().any(|name| name == "write_size")) {
        said.push(format!("writes below {}", phrase::level("write_size", &Level::Number(size))));
    }
    if let Some("buffer-size") = (!said.is_empty()).then_some(view.plan.name.as_str()) {
        if !groups.iter().any(|levels| levels.role() == Some(ProgramRole::Both)) {
            said.push("both ends yours (--role both)".into());
        }
        said.push("peers of other sizes, other readers (run buffer-grid)".into());
        said.push("socket buffers (run socket-buffers)".into());
    }
    said
}

/// Whose threads it holds for, where every end was kept on a CPU: of most programs the kernel moves them about.
fn pinned(view: &View) -> Option<String> {
    let pinned = |levels: &Spec| levels.placement().is_some_and(|place| place != Placement::Unpinned);
    let groups: Vec<Spec> = view.groups.iter().map(|group| levels(&group.factors)).collect();
    if groups.is_empty() || !groups.iter().all(pinned) {
        return None;
    }
    let mut places = groups.iter().filter_map(phrase::placement);
    let first = places.next().filter(|first| places.all(|other| other == *first));
    let where_to = first.and_then(|place| Some(place.split_once(" on ")?.1)).unwrap_or("CPUs");
    Some(format!("ends kept on {where_to} (else: --placement unpinned)"))
}

/// That others used much of the machine: choices that wait for CPUs are ranked by that.
fn crowded(view: &View) -> Option<String> {
    let (busy, cpus) = crowd(view)?;
    Some(format!("while others used {} of {cpus} CPUs: a quiet machine may differ", significant(busy, 2)))
}

/// That no network was crossed, where the kernel's own stood in for one.
fn loopback(view: &View) -> Option<String> {
    // What was imported may have been measured between any machines.
    let any = view.groups.iter().any(|group| is_loopback(&levels(&group.factors)));
    (any && view.status != SessionStatus::Imported).then(|| "over loopback, no network".to_owned())
}

/// Whether the kernel's own interface stood in for a network.
pub fn is_loopback(levels: &Spec) -> bool {
    // A condition that only an import knows says where it was measured, which was not this machine's loopback.
    levels.is_over_loopback() && levels.iter().all(|(name, _)| factor::find(name).is_some())
}

/// The ages of connections where questions differ in them: one range for all would be true of none.
fn ages(view: &View, questions: &Questions) -> Option<String> {
    let [young, old] = of_two_ages(view)?.map(|(group, (_, to))| (shown_age(to), questions.of_group(group)));
    Some(format!("connections up to {} old ({}) to {} old ({})", young.0, young.1, old.0, old.1))
}

/// The groups with the youngest and the oldest connections, where those are of different ages.
fn of_two_ages(view: &View) -> Option<[(&GroupView, (u64, u64)); 2]> {
    let mut aged: Vec<_> = view.groups.iter().filter_map(|group| Some((group, group.age_ns?))).collect();
    aged.sort_by_key(|(_, (from, to))| (*to, *from));
    let (young, old) = (*aged.first()?, *aged.last()?);
    let froms = || aged.iter().map(|(_, (from, _))| *from);
    are_apart((froms().min()?, young.1.1), (froms().max()?, old.1.1)).then_some([young, old])
}

/// The time and the connections that it was measured in.
pub fn when(view: &View) -> String {
    let ages = view.groups.iter().filter_map(|group| group.age_ns);
    let age = ages.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).filter(|_| of_two_ages(view).is_none());
    let seconds = view.judged_ns.or(view.elapsed_ns).map(|ns| format!("these {}", seconds(ns)));
    let seconds = match view.status {
        SessionStatus::Imported => Some("these trials alone".to_owned()),
        _ => seconds,
    };
    let day = view.started.get(..10).unwrap_or(&view.started).to_owned();
    let longer = if view.audit.is_some() { " (older: AUDIT)" } else { "" };
    let age = age.map(|(from, to)| aged(from, to) + longer);
    [seconds, Some(day), age].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
