//! Results of relays, as text: the rate of the path without one, the share of it that a relay reaches, what a connection holds, and
//! the programs that were measured.

use bytegauge_model::relay_program::short_relay_name;
use bytegauge_model::unit::{Bytes, significant};
use bytegauge_model::{CellKind, RelayHolds, RelayMethod};

use super::Results;
use crate::view::numbers::{CellView, GroupView, RelayProgramView, View};
use crate::words::phrase;
use crate::words::{option_label, own_buffer, relay_method};

/// Default capacity of a pipe (pipe(7)).
const PIPE: u64 = 64 << 10;

/// The lines of a group; none without a relay.
pub fn lines(view: &Results, group: &GroupView) -> Vec<String> {
    let all: Vec<&CellView> = view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate).collect();
    // One without CPU time in its windows has no cost; one that is never charged is a relay all the same.
    let used = |cell: &&CellView| has_cost(cell) || caveat(cell).is_some();
    let costed: Vec<&CellView> = all.iter().copied().filter(used).collect();
    // A skipped one is not named.
    let caveat = all.iter().filter(|cell| cell.trials > 0).find_map(|cell| caveat(cell)).map(str::to_owned);
    [caveat, reach(view, group, &costed), programs(group, &all)].into_iter().flatten().collect()
}

/// A note that belongs to a relay wherever it is named.
fn caveat(cell: &CellView) -> Option<&'static str> {
    method(cell)?.caveat()
}

/// The method of bytegauge's own relay.
fn method(cell: &CellView) -> Option<RelayMethod> {
    relay_method(&cell.factors)
}

/// The memory and descriptors of a connection through each of bytegauge's own relays, even when idle: the cost of many idle ones.
pub fn held(view: &View) -> Option<String> {
    let candidates = view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate);
    let each = candidates.filter_map(|cell| Some((holds(method(cell)?, cell), name(view.group(&cell.group)?, cell))));
    let mut held = phrase::grouped(each);
    held.sort();
    let held: Vec<String> = held.into_iter().map(|(text, names)| format!("{text} ({})", names.join(", "))).collect();
    (!held.is_empty()).then(|| format!("a connection holds {}", held.join("; ")))
}

fn holds(method: RelayMethod, cell: &CellView) -> String {
    let spec = &cell.factors;
    let threads = spec.relay_threads().unwrap_or_default();
    let RelayHolds { descriptors, pipes, threads } = method.holds(threads);
    let capacity = |pipes: u64| Bytes(pipes * spec.relay_pipe().unwrap_or(PIPE));
    let mut text = format!("{descriptors} descriptors");
    if pipes > 0 {
        text += &format!(", {} of pipes", capacity(pipes));
    }
    if threads > 0 {
        text += &format!(", {threads} threads");
    }
    if method == RelayMethod::Hybrid {
        text += &format!(", and 4 more descriptors with {} of pipes during large transfers", capacity(2));
    }
    text
}

/// Whether the CPU time of a relay is known.
fn has_cost(cell: &CellView) -> bool {
    ["relay_cpu_s_per_gib", "relay_cpu_s_per_million_calls"].into_iter().any(|name| cell.more.contains_key(name))
}

fn reach(view: &Results, group: &GroupView, relays: &[&CellView]) -> Option<String> {
    let rate = |cell: &CellView| cell.estimate.median;
    let (most, fastest) =
        relays.iter().filter_map(|cell| Some((rate(cell)?, *cell))).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let ceiling = view.cells_of(&group.id).find(|cell| cell.kind == CellKind::Ceiling)?;
    let without = rate(ceiling)?;
    let test = view.test(&group.id)?;
    let (divisor, unit) = test.rate_scale(view.tests);
    let ceiling_rate = format!("{} {unit}", significant(without / divisor, 3));
    // Pairs of trials show which is the best: the highest median may lead by chance, and would be a second name.
    let named = relays.iter().find(|cell| group.recommendation.cell.as_ref() == Some(&cell.id));
    let (most, who) = match named.and_then(|cell| Some((rate(cell)?, name(group, cell)))) {
        Some(named) => named,
        None => (most, format!("the fastest by its median, {},", name(group, fastest))),
    };
    let share = format!("{:.0} %", most / without * 100.0);
    Some(format!("without a relay {ceiling_rate}; {who} reaches {share} of it, by medians"))
}

/// A relay that moves less at a time than the others, and could move more, with its own buffer.
pub fn may_grow(cell: &CellView) -> Option<(RelayMethod, Bytes)> {
    method(cell).filter(|method| method.has_buffer()).zip(own_buffer(&cell.factors))
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
        Some(format!("{}: {version}{notes}", name(group, cell)))
    };
    let programs: Vec<String> = relays.iter().filter_map(known).collect();
    (!programs.is_empty()).then(|| format!("programs: {}", programs.join(", ")))
}

/// The settings of a relay that distinguish it from the others of its test, as the table names them; `splice + threads one`.
fn name(group: &GroupView, cell: &CellView) -> String {
    let of_relay: Vec<String> = group.varied.iter().filter(|name| name.starts_with("relay")).cloned().collect();
    match option_label(&of_relay, &cell.factors) {
        own if own.is_empty() => short_relay_name(&cell.level("relay").to_string()),
        own => own,
    }
}
