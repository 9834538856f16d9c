//! The result screen of a mesh: at most 24 lines.

use std::path::Path;

use bytegauge_mesh::files::MeshData;
use bytegauge_mesh::summary::{CallTimes, MeshStanding, MeshSummary, percentile};
use bytegauge_mesh::{MeshResult, Rank, RateShift};
use bytegauge_model::escape;
use bytegauge_model::unit::{byte_rate, call_rate, counted};
use bytegauge_model::{Nanos, Workload};
use bytegauge_stats::lifetimes::Lifetimes;

/// Slow hosts, links and rack pairs that are listed of one option; the files have all of them.
const LISTED: usize = 6;

/// Options that are listed.
const OPTIONS_LISTED: usize = 3;

/// Options that are compared in the table.
const STANDINGS_LISTED: usize = 6;

/// Reasons of missing tests that are listed.
const REASONS_LISTED: usize = 3;

/// Percentiles of calls that are listed.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

/// The share of calls by which hosts are compared: their p99.
const SLOWEST_BY: f64 = 0.99;

/// The most lines of a screen.
const LINES_MAX: usize = 24;

/// The screen.
pub fn render(data: &MeshData, summary: &MeshSummary, dir: &Path) -> String {
    let settings = &data.settings;
    let time = match summary.span_ns / 100_000_000 {
        0 => String::new(),
        tenths => format!(" in {}", Nanos(tenths * 100_000_000)),
    };
    let mut lines = vec![format!(
        "Mesh of {} ranks, pattern {}, {}: {} of {} tests measured{time}",
        settings.ranks, settings.pattern, settings.workload, summary.measured, summary.parts,
    )];
    let at_once =
        settings.concurrent.map_or("all pairs of a round".to_owned(), |count| counted(count as usize, "test"));
    lines.push(format!(
        "At the same time: {at_once}; slow: more than {:.0} % below typical, 95 % confidence",
        settings.margin * 100.0
    ));
    let missing = missing(summary);
    let room = LINES_MAX.saturating_sub(lines.len() + missing.len() + 3);
    let compared = standings(data, summary);
    let room = room.saturating_sub(compared.len());
    lines.extend(compared);
    let order = order(data, summary);
    let shown = order.len().min(OPTIONS_LISTED);
    for at in order.into_iter().take(OPTIONS_LISTED) {
        let name = &settings.options[at];
        let each = (room / shown).max(3);
        let mut found = match summary.results.get(at) {
            Some(result) => pairs(data, summary, name, result),
            None => hubs(data, summary, name, at),
        };
        let heading = found.len().min(1);
        found.splice(heading..heading, calls(data, summary, at));
        // The table has the rates.
        if found.len() > 1 || settings.options.len() == 1 {
            lines.push(String::new());
            lines.extend(shortened(found, each - 1));
        }
    }
    if !summary.results.is_empty() && !summary.results.iter().any(MeshResult::is_judged) {
        lines.push("Too few tests to name slow hosts or links: use more --replicates.".into());
    }
    lines.push(String::new());
    lines.extend(missing);
    lines.push(format!("Map of all pairs: {}; files: {}", dir.join("mesh.html").display(), dir.display()));
    lines.join("\n") + "\n"
}

/// Options in the order in which they are listed: from the fastest, if they were compared.
fn order(data: &MeshData, summary: &MeshSummary) -> Vec<usize> {
    let mut order: Vec<usize> = summary.standings.iter().map(|standing| standing.option).collect();
    let others = (0..data.settings.options.len()).filter(|option| !order.contains(option)).collect::<Vec<_>>();
    order.extend(others);
    order
}

/// The table of options, with a heading; nothing with fewer than two.
fn standings(data: &MeshData, summary: &MeshSummary) -> Vec<String> {
    let all = &summary.standings;
    if all.is_empty() {
        return Vec::new();
    }
    let name = |standing: &MeshStanding| data.settings.options[standing.option].as_str();
    let width = all.iter().take(STANDINGS_LISTED).map(|standing| name(standing).chars().count()).max().unwrap_or(0);
    let slower = |standing: &MeshStanding| match standing.slower {
        None => String::new(),
        Some(_) if standing.may_be_best => "may be the fastest".into(),
        Some((low, high)) => format!("{:.0} to {:.0} % slower than the fastest", low * 100.0, high * 100.0),
    };
    let heading = match all.iter().any(|standing| standing.slower.is_some()) {
        true => "Options, the fastest first (95 % confidence):",
        false => "Options, the fastest first (too few tests to compare them: use more --replicates):",
    };
    let mut lines = vec![String::new(), heading.into()];
    let row = |standing: &MeshStanding| {
        let cells = format!("  {:<width$}  {:<15}  {}", name(standing), rate(data, standing.rate), slower(standing));
        cells.trim_end().to_owned()
    };
    lines.extend(all.iter().take(STANDINGS_LISTED).map(row));
    if all.len() > STANDINGS_LISTED {
        lines.push(format!("  and {} more, which are in the files", all.len() - STANDINGS_LISTED));
    }
    lines
}

/// The first lines, and how many there are more.
fn shortened(mut lines: Vec<String>, most: usize) -> Vec<String> {
    if lines.len() > most {
        let left = lines.len() - most + 1;
        lines.truncate(most - 1);
        lines.push(format!("  and {left} more"));
    }
    lines
}

/// The result of an option between pairs.
fn pairs(data: &MeshData, summary: &MeshSummary, name: &str, result: &MeshResult) -> Vec<String> {
    if result.fit.pairs.is_empty() {
        return vec![format!("{}No rate was measured.", option(name))];
    }
    let spread = spread(result);
    let mut lines = vec![format!(
        "{}Typical rate {} per direction; hosts within {spread}",
        option(name),
        rate(data, result.typical_rate())
    )];
    if !result.is_judged() {
        return lines;
    }
    if result.is_sound() {
        lines.push("No host and no link is slow.".into());
    }
    for host in result.slow_hosts.iter().take(LISTED) {
        let parts: Vec<String> = [("sends", host.shifts.sends), ("receives", host.shifts.receives)]
            .into_iter()
            .filter_map(|(verb, shift)| Some(format!("{verb} {}", slower(&shift?))))
            .collect();
        lines.push(format!("Slow host: {}: {}, with most partners", rank(data, host.rank), parts.join(", ")));
    }
    for link in result.slow_links.iter().take(LISTED) {
        let shift = slower(&link.shift);
        lines.push(format!("Slow link: {} to {}: {shift}", rank(data, link.sender), rank(data, link.receiver)));
    }
    for racks in result.slow_racks.iter().take(LISTED) {
        let name = |number: u32| summary.racks.get(number as usize).map_or("?", String::as_str);
        lines.push(format!(
            "Slow between racks: {} to {}: {}",
            name(racks.sender),
            name(racks.receiver),
            slower(&racks.shift)
        ));
    }
    if !result.suspects.is_empty() {
        let pairs = counted(result.suspects.len(), "pair");
        lines.push(format!("Perhaps slow, and not repeated often enough: {pairs}; use more --replicates"));
    }
    lines
}

/// Percentiles of the calls of an option; nothing for streams.
fn calls(data: &MeshData, summary: &MeshSummary, at: usize) -> Vec<String> {
    let Some(times) = summary.call_times.get(at).filter(|times| !times.servers.is_empty()) else { return Vec::new() };
    let mut lines = vec![format!("Time of all calls: {}", percentiles(&times.together))];
    let hosts = [("server", &times.servers), ("client", &times.clients)];
    lines.extend(hosts.into_iter().filter(|(_, hosts)| hosts.len() > 1).filter_map(|(role, hosts)| {
        let (host, _) = CallTimes::slowest(hosts, SLOWEST_BY)?;
        Some(format!("Slowest {role}: {}: {}", rank(data, host), percentiles(hosts.get(&host)?)))
    }));
    lines
}

/// `p50 45.1 µs, p99 120 µs`: those percentiles that enough calls exceed.
fn percentiles(times: &Lifetimes) -> String {
    let stated = PERCENTILES.iter().filter_map(|(name, share)| {
        let ns = percentile(times, *share)?;
        Some(if ns.is_finite() { format!("{name} {}", Nanos(ns as u64)) } else { format!("{name} beyond the trial") })
    });
    let all: Vec<String> = stated.collect();
    if all.is_empty() { "too few calls".into() } else { all.join(", ") }
}

/// The result of an option with several clients of one host.
fn hubs(data: &MeshData, summary: &MeshSummary, name: &str, at: usize) -> Vec<String> {
    let mut hubs: Vec<(Rank, f64)> =
        summary.hub_rates.get(at).into_iter().flatten().map(|(hub, rate)| (*hub, *rate)).collect();
    hubs.sort_by(|one, other| one.1.total_cmp(&other.1));
    let (Some(slowest), Some(fastest)) = (hubs.first(), hubs.last()) else {
        return vec![format!("{}No host was measured with all its clients.", option(name))];
    };
    if data.settings.server.is_some() {
        return clients(data, summary, name, at, slowest.1);
    }
    let middle = hubs[hubs.len() / 2].1;
    let mut lines = vec![format!(
        "{}All clients together: {} at the median host, {} to {}",
        option(name),
        rate(data, middle),
        rate(data, slowest.1),
        rate(data, fastest.1)
    )];
    let times = |hub: Rank| summary.call_times.get(at).and_then(|times| times.servers.get(&hub));
    let calls = |hub: Rank| times(hub).map_or_else(String::new, |times| format!("  {}", percentiles(times)));
    lines.extend(
        hubs.iter()
            .take(LISTED)
            .map(|(hub, sum)| format!("  {:<24} {}{}", rank(data, *hub), rate(data, *sum), calls(*hub))),
    );
    lines
}

/// The result of an option at an external server: all clients together, and those with the longest p99.
fn clients(data: &MeshData, summary: &MeshSummary, name: &str, at: usize, sum: f64) -> Vec<String> {
    let server = data.settings.server.as_deref().unwrap_or_default();
    let mut lines = vec![format!("{}{server}: {} for all clients together", option(name), rate(data, sum))];
    let Some(times) = summary.call_times.get(at) else { return lines };
    let p99 = |times: &Lifetimes| percentile(times, SLOWEST_BY).unwrap_or(0.0);
    let mut clients: Vec<(Rank, &Lifetimes)> = times.clients.iter().map(|(rank, times)| (*rank, times)).collect();
    clients.sort_by(|one, other| p99(other.1).total_cmp(&p99(one.1)));
    lines.extend(
        clients
            .into_iter()
            .take(LISTED)
            .map(|(client, times)| format!("  {:<24} {}", rank(data, client), percentiles(times))),
    );
    lines
}

/// The heading of an option; nothing if there is only one.
fn option(name: &str) -> String {
    if name == "all" { String::new() } else { format!("{name}: ") }
}

fn rank(data: &MeshData, rank: Rank) -> String {
    match data.host(rank) {
        Some(host) if rank < data.settings.ranks => format!("{} (rank {rank})", escape::line(host)),
        Some(server) => escape::line(server).into_owned(),
        None => format!("rank {rank}"),
    }
}

fn rate(data: &MeshData, rate: f64) -> String {
    if data.settings.workload == Workload::Call { call_rate(rate) } else { byte_rate(rate) }
}

/// The range of the effects of hosts: `hosts within −3 % to +2 %`.
fn spread(result: &MeshResult) -> String {
    let effects = || result.fit.senders.values().chain(result.fit.receivers.values()).copied();
    let (low, high) = effects().fold((0.0_f64, 0.0_f64), |(low, high), effect| (low.min(effect), high.max(effect)));
    let [low, high] = [low, high].map(|effect| ((effect.exp() - 1.0) * 100.0).round() as i64);
    let signed = |percent: i64| if percent == 0 { "0 %".to_owned() } else { format!("{percent:+} %") };
    if low == 0 && high == 0 { "1 %".into() } else { format!("{} to {}", signed(low), signed(high)) }
}

fn slower(shift: &RateShift) -> String {
    let percent = |share: f64| (-share * 100.0).clamp(-999.0, 100.0);
    format!("{:.0} % slower ({:.0} to {:.0})", percent(shift.shift), percent(shift.high), percent(shift.low))
}

fn missing(summary: &MeshSummary) -> Vec<String> {
    let listed = |head: &str, what: &str, reasons: &[(String, usize)]| {
        let all: usize = reasons.iter().map(|(_, count)| count).sum();
        let head = (all > 0).then(|| format!("{head}: {}", counted(all, what)));
        let each = reasons.iter().take(REASONS_LISTED);
        let each = each.map(|(reason, count)| format!("  {count}: {}", escape::line(reason)));
        let more = reasons.len().saturating_sub(REASONS_LISTED);
        let more = (more > 0).then(|| format!("  and {}", counted(more, "more reason")));
        head.into_iter().chain(each).chain(more).collect::<Vec<_>>()
    };
    let mut lines = listed("Not measured", "test", &summary.missing);
    lines.extend(listed("Failed in tests that were measured", "trial", &summary.failed));
    if summary.has_files_elsewhere {
        lines.push(
            "Copy the files rank-*.jsonl of all hosts into one directory, then: bytegauge mesh gather DIR".into(),
        );
    }
    lines
}
