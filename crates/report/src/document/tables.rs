//! The table of each test with all its columns, and the lines below it.

use bytegauge_bottleneck::{LimitedOption, remedy};
use bytegauge_model::name_tables::Batches;
use bytegauge_model::spec::derived::threads;
use bytegauge_model::unit::{byte_rate, counted, significant};
use bytegauge_model::{CellId, Cost, Nanos, ProgramRole, Transport};
use bytegauge_stats::trial_metrics::{FAR_CPUS, FROM, NEAR_CPUS, RELAY_COPIED, TO};
use schemars::JsonSchema;
use serde::Serialize;

use super::decision::PERCENTILES;
use super::further_steps::STREAM_SIZES;
use super::{Results, details};
use crate::findings::{beyond_loopback, is_peers_size};
use crate::results::{Claim, InvalidReason, OptionResult, OptionStatus, Test, carried_share};
use crate::view::calls::missed;
use crate::view::numbers::{CellView, Estimate, GroupView, HarmKind};
use crate::words::interval_rounding::{ShareScale, at_most, ends, percent};
use crate::words::number::{UNKNOWN, size, time};
use crate::words::phrase::{self, capital};
use crate::words::table::Column;
use crate::words::{code_line, cost_words};

/// The table and the lines of a test.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TestTexts {
    /// The test.
    pub test: bytegauge_model::GroupId,
    /// The options with a row.
    pub rows: Vec<CellId>,
    /// The columns; the last one compares with the best option.
    pub columns: Vec<Column>,
    /// The quantity that is compared, where it is not the rate of a load without a limit.
    pub basis: Option<String>,
    /// Options without a result, and why.
    pub without_result: Vec<String>,
    /// What limits it, the line of code, the blocks: a heading, and a text.
    pub facts: Vec<Headed>,
    /// Counts and costs, a sentence each.
    pub details: Vec<String>,
}

/// A text with its heading.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headed {
    /// The heading.
    pub heading: String,
    /// The text.
    pub text: String,
}

fn headed(heading: &str, text: String) -> Headed {
    Headed { heading: heading.to_owned(), text }
}

/// The texts of a test.
pub fn texts(results: &Results, test: &Test) -> TestTexts {
    let rows: Vec<&OptionResult> = test.options.iter().filter(|option| option.rate.is_some()).collect();
    let group = results.group(&test.id);
    TestTexts {
        test: test.id.clone(),
        rows: rows.iter().map(|option| option.id.clone()).collect(),
        columns: columns(results, test, &rows),
        basis: basis(test),
        without_result: without_result(results, test),
        facts: group.map_or_else(Vec::new, |group| facts(results, group, test)),
        details: group.map_or_else(Vec::new, |group| details::lines(results, group)),
    }
}

/// An option with its cell.
struct Row<'a> {
    option: &'a OptionResult,
    cell: &'a CellView,
}

/// Collects the columns that have a value in some row.
struct Columns<'a> {
    rows: Vec<Row<'a>>,
    all: Vec<Column>,
}

impl Columns<'_> {
    fn add(&mut self, heading: &str, brief: bool, text: impl Fn(&Row) -> Option<String>) {
        let texts: Vec<Option<String>> = self.rows.iter().map(text).collect();
        if texts.iter().any(Option::is_some) {
            let texts = texts.into_iter().map(|text| text.unwrap_or_else(|| UNKNOWN.into())).collect();
            self.all.push(Column { heading: heading.to_owned(), texts, right: true, brief });
        }
    }

    /// The median of an estimate.
    fn median(&mut self, heading: &str, brief: bool, name: &str, shown: impl Fn(f64) -> String) {
        self.add(heading, brief, |row| row.cell.median(name).map(&shown));
    }

    /// Puts the column with one of these headings next to the interval of what is compared.
    fn put_last(&mut self, headings: &[&str]) {
        if let Some(at) = self.all.iter().position(|column| headings.contains(&column.heading.as_str())) {
            self.all[at..].rotate_left(1);
        }
    }
}

/// The numbers of options, then the interval.
fn columns(results: &Results, test: &Test, rows: &[&OptionResult]) -> Vec<Column> {
    let rows = rows.iter().filter_map(|option| Some(Row { option, cell: results.cell(&option.id)? }));
    let mut columns = Columns { rows: rows.collect(), all: Vec::new() };
    of_rates(results, test, &mut columns);
    of_latency(test, &mut columns);
    of_cpu_and_losses(test, &mut columns);
    of_counts(&mut columns);
    match test.compares {
        Cost::Latency => columns.put_last(&["mean time"]),
        Cost::P99 => columns.put_last(&["p99", "p99 (full load)"]),
        Cost::GapP99 => columns.put_last(&["gap p99"]),
        Cost::Urgent => columns.put_last(&["urgent mean"]),
        Cost::Time | Cost::Cpu => {}
    }
    let scale = scale(test);
    let words = cost_words(test.compares);
    let heading = if scale.multiples { words.ratio } else { words.by };
    columns.add(heading, true, |row| {
        let (lower, upper) = row.option.slower_lower.zip(row.option.slower_upper)?;
        Some(scale.interval(lower, upper))
    });
    if let Some(last) = columns.all.last_mut().filter(|last| last.heading == heading) {
        last.right = false;
    }
    columns.all
}

/// The unit of the differences of a test.
pub fn scale(test: &Test) -> ShareScale {
    ShareScale::of(test.options.iter().filter_map(|option| option.slower_lower))
}

/// The rate of an option; that of the second of two is as with their difference.
fn rate(results: &Results, option: &OptionResult) -> Option<f64> {
    results.versus.as_ref().filter(|two| two.b.cell == option.id).and_then(|two| two.b.rate).or(option.rate)
}

fn of_rates(results: &Results, test: &Test, columns: &mut Columns) {
    let (divisor, unit) = test.rate_scale(results.tests);
    let shown = move |rate: f64| significant(rate / divisor, 3);
    let is_run = test.unit.starts_with("runs");
    match test.unit {
        "runs/s" => columns.add("a run", true, |row| Some(time(1e9 / rate(results, row.option)?))),
        // Its inverse, CPU time, has a column.
        "runs/CPU s" => {}
        _ => columns.add(unit, true, |row| rate(results, row.option).map(shown)),
    }
    if columns.rows.iter().any(|row| carried_share(row.cell).is_some()) {
        columns.add("carried", true, |row| Some(carried_share(row.cell).map_or_else(|| "all".into(), percent)));
    }
    let is_search = test.searched().is_some();
    columns.add("overall", true, |row| {
        let overall = row.cell.call.as_ref().and_then(|call| call.knee.as_ref()?.overall_per_second);
        is_search.then(|| overall.map_or_else(|| "none".into(), shown))
    });
    columns.add("median (95 %)", false, |row| {
        let Estimate { lower, upper, .. } = row.cell.estimate;
        let (lower, upper) = lower.zip(upper).filter(|_| !is_run)?;
        Some(ends(lower / divisor, upper / divisor).0.join("–"))
    });
}

fn of_latency(test: &Test, columns: &mut Columns) {
    let is_loaded = test.environment.offers_load();
    let is_search = test.searched().is_some();
    // Where an option made too few calls for a p99, what is known of each is shown.
    let lacks =
        |rows: &[Row], name: &str| rows.iter().any(|row| row.cell.call.is_some() && row.cell.median(name).is_none());
    let is_few = !is_search && lacks(&columns.rows, "total_p99_ns");
    let is_very_few = is_few && lacks(&columns.rows, "total_p50_ns");
    // Without an offered load, most of it is waiting for other calls.
    let p99 = if is_loaded || is_search { "p99" } else { "p99 (full load)" };
    let has_parts = columns.rows.iter().any(|row| row.cell.factors.response_parts().is_some());
    // Parts that one call received have no gap, which their histogram counts as its least value.
    let shown = |ns: f64| if ns <= 1.0 { "none".to_owned() } else { time(ns) };
    for (heading, name, brief, applies) in [
        ("mean time", "total_mean_ns", true, is_very_few || test.compares == Cost::Latency),
        ("p50", "total_p50_ns", is_few, true),
        (p99, "total_p99_ns", !is_search, true),
        ("p99.9", "total_p99_9_ns", false, true),
        ("first byte p50", "first_byte_p50_ns", false, has_parts),
        ("first byte p99", "first_byte_p99_ns", true, has_parts),
        ("gap p50", "gap_p50_ns", false, has_parts),
        ("gap p99", "gap_p99_ns", true, has_parts),
    ] {
        columns.add(heading, brief, |row| row.cell.median(name).filter(|_| applies).map(shown));
    }
    let has_load = columns.rows.iter().any(|row| row.cell.factors.load_flows().is_some_and(|flows| flows > 0));
    if has_load {
        columns.median("RPM", false, "round_trips_per_minute", |rate| significant(rate, 3));
    }
    // The first, and the highest that is known.
    let is_known = |name: &str| columns.rows.iter().any(|row| row.cell.median(name).is_some());
    let highest = PERCENTILES.iter().rposition(|(_, name)| is_known(name));
    for (at, (heading, name)) in PERCENTILES.iter().enumerate() {
        columns.median(heading, at == 0 || Some(at) == highest, name, time);
    }
    columns.add("p99 of all", true, |row| {
        let call = row.cell.call.as_ref().filter(|call| call.offered_per_second.is_some())?;
        call.p99_all_ns.map(time)
    });
}

fn of_cpu_and_losses(test: &Test, columns: &mut Columns) {
    columns.median("server CPU ms/run", false, "server_cpu_ns_per_run", |ns| significant(ns / 1e6, 3));
    columns.median("k datagrams/s", false, "datagrams_per_second", |per_s| significant(per_s / 1e3, 3));
    columns.add("lost", true, |row| row.cell.datagrams.as_ref()?.lost_share.map(percent));
    columns.median("sends copied", false, RELAY_COPIED, percent);
    columns.add("worst burst", true, |row| row.cell.datagrams.as_ref()?.worst_burst_share.map(percent));
    let any_failed = columns.rows.iter().any(|row| failed(row.cell) > 0.0);
    columns.add("failed", true, |row| any_failed.then(|| percent(failed(row.cell))));
    let starves = columns.rows.iter().any(|row| row.option.harm.contains(&HarmKind::StarvedClients));
    columns.add("starved", true, |row| row.cell.harm.starved_share.filter(|_| starves).map(percent));
    columns.add("longest", true, |row| row.cell.harm.longest_ns.filter(|_| starves).map(|ns| time(ns as f64)));
    let unit = columns.rows.iter().find_map(|row| cpu(row.cell)).map_or("", |(_, unit)| unit);
    // Of sizes the rate tells most; other options of a stream may save CPU time alone.
    let of_sizes = test.varied.iter().any(|name| STREAM_SIZES.contains(&name.as_str()));
    let is_brief = has_relay(test) || unit != "s/GiB" || test.compares == Cost::Cpu || !of_sizes;
    columns.add(&format!("CPU {unit}"), is_brief, |row| cpu(row.cell).map(|(cpu, _)| significant(cpu, 3)));
}

/// Numbers that are in --full alone.
fn of_counts(columns: &mut Columns) {
    for (heading, name) in [("there", TO), ("back", FROM)] {
        columns.median(heading, false, name, byte_rate);
    }
    for (heading, name) in
        [("near CPUs", NEAR_CPUS), ("far CPUs", FAR_CPUS), ("system calls/call", "server_system_calls_per_call")]
    {
        columns.median(heading, false, name, |count| significant(count, 3));
    }
    // As many digits as the rate and the calls next to it have, so that the three agree.
    let mean = |bytes: Option<f64>| bytes.filter(|bytes| *bytes > 0.0).map(|bytes| size(bytes, 3));
    columns.add("a read", false, |row| mean(row.cell.counters.bytes_per_read));
    columns.add("a write", false, |row| mean(row.cell.counters.bytes_per_write));
    columns.add("NOPs/enter", false, |row| row.cell.ring.as_ref()?.nops_per_enter.map(|nops| significant(nops, 3)));
    columns.add("p99 (95 %)", false, |row| {
        let p99 = row.cell.more.get("total_p99_ns")?;
        let (lower, upper) = p99.lower.zip(p99.upper)?;
        let (ns, unit) = [(1e9, "s"), (1e6, "ms")].into_iter().find(|(ns, _)| upper >= *ns).unwrap_or((1e3, "µs"));
        Some(format!("{} {unit}", ends(lower / ns, upper / ns).0.join("–")))
    });
}

fn failed(cell: &CellView) -> f64 {
    cell.call.as_ref().and_then(|call| call.failed_share).unwrap_or(0.0)
}

/// CPU time of a unit of work, and the unit: of the relay, the server, or compared clients where there are any, else of the end that
/// the program is, or of both.
fn cpu(cell: &CellView) -> Option<(f64, &'static str)> {
    let relay =
        ["relay_cpu_s_per_gib", "relay_cpu_s_per_million_calls"].into_iter().find_map(|name| cell.more.get(name));
    if let Some(cost) = relay {
        // A second for a million calls is a microsecond for each.
        let per_call = cell.more.contains_key("relay_cpu_s_per_million_calls");
        return Some((cost.median?, if per_call { "µs/call" } else { "s/GiB" }));
    }
    if cell.factors.has_relay() {
        return None;
    }
    let compares_clients = cell.level("compare").name() == Some("client-engine");
    let of_stream = match cell.factors.role() {
        Some(ProgramRole::Reader) => "sink_cpu_ns_per_byte",
        Some(ProgramRole::Writer) => "source_cpu_ns_per_byte",
        _ => "cpu_ns_per_byte",
    };
    let known = [
        (if compares_clients { "client_cpu_ns_per_call" } else { "server_cpu_ns_per_call" }, 1e-3, "µs/call"),
        ("cpu_ns_per_run", 1e-6, "ms/run"),
        (of_stream, (1u64 << 30) as f64 / 1e9, "s/GiB"),
    ];
    let known = known.into_iter().find_map(|(name, factor, unit)| Some((cell.median(name)? * factor, unit)));
    // Of imported numbers what is known.
    known.or_else(|| Some((cell.cpu.ends_s_per_gib?, "s/GiB")))
}

/// Whether a relay is between the ends; its CPU time is shown then.
fn has_relay(test: &Test) -> bool {
    test.varied.iter().any(|name| name == "relay") || test.environment.has_relay()
}

/// The quantity that is compared, where it is not the rate of a load without a limit.
fn basis(test: &Test) -> Option<String> {
    let words = cost_words(test.compares);
    if matches!(test.compares, Cost::Latency | Cost::P99 | Cost::GapP99 | Cost::Urgent) {
        return Some(format!("Options are compared by {}.", words.noun));
    }
    if test.compares == Cost::Cpu && !test.unit.starts_with("runs") && test.options.len() > 1 {
        let load = match (test.environment.offered_rate(), test.environment.offers_load()) {
            (Some(_), _) => "The load is fixed, so options",
            (None, true) => "Pauses limit the load, so options",
            (None, false) => "Options",
        };
        return Some(format!("{load} are compared by CPU time."));
    }
    let objective = phrase::objective(&test.searched()?);
    Some(format!(
        "Rates are the highest at which half of the trials keep {objective}; “overall” is that of all trials."
    ))
}

/// Options that were not measured, by their reason; none where it is that of the whole test.
fn without_result(results: &Results, test: &Test) -> Vec<String> {
    let is_of_test = matches!(test.claim, Claim::Invalid { reason: InvalidReason::NothingMeasured });
    if is_of_test && test.options.windows(2).all(|pair| pair[0].reason == pair[1].reason) {
        return Vec::new();
    }
    let mut reasons: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for option in test.options.iter().filter(|option| option.rate.is_none() || option.reason.is_some()) {
        let what = match option.status {
            OptionStatus::Failed => "failed",
            _ if option.rate.is_some() => "stopped",
            OptionStatus::Skipped => "skipped",
            _ => "not measured",
        };
        // The number of a missed objective is that of all searches together, as in the sentence.
        let missed = results.cell(&option.id).and_then(missed);
        let missed = missed.map(|(ns, knee)| format!("{} was {} at best", knee.objective.percentile, Nanos(ns)));
        let reason = missed.or_else(|| option.reason.clone()).unwrap_or_default();
        let mut known = reasons.iter_mut().filter(|(known, ..)| *known == what);
        match known.find_map(|(_, why, labels)| Some((phrase::with_ranges(why, &reason)?, why, labels))) {
            Some((both, why, labels)) => {
                *why = both;
                labels.push(&option.label);
            }
            None => reasons.push((what, reason, vec![&option.label])),
        }
    }
    let phrases = reasons.into_iter().map(|(what, reason, labels)| {
        let labels = if labels.len() > 4 { format!("{} options", labels.len()) } else { labels.join(", ") };
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        format!("{labels}  {what}{reason}")
    });
    phrases.collect()
}

/// What limits the test, the line of code of the option to use, and the blocks behind it.
fn facts(results: &Results, group: &GroupView, test: &Test) -> Vec<Headed> {
    let mut facts = Vec::new();
    let code = code(group, test).into_iter().chain(changed(results, test)).collect::<Vec<_>>();
    if !code.is_empty() {
        facts.push(headed("In the program", code.join(", ")));
    }
    let shown = test.safest().or_else(|| test.options.iter().find(|option| option.rate.is_some()));
    facts.extend(shown.and_then(|option| bottleneck(results, group, option)));
    let safest = test.safest().filter(|_| test.used().is_none() && results.view.changes().is_none());
    facts.extend(safest.map(|safest| {
        let upper = safest.slower_upper.unwrap_or(f64::INFINITY);
        headed("Can lose least", format!("{}, at most {}", safest.label, at_most(upper)))
    }));
    let control =
        test.control_upper.map(|upper| format!("the same option, measured twice, is up to {} apart", at_most(upper)));
    let blocks = (test.blocks > 0).then(|| counted(test.blocks, "complete block"));
    let basis: Vec<String> = blocks.into_iter().chain(control).collect();
    if !basis.is_empty() {
        facts.push(headed("Basis", basis.join("; ")));
    }
    facts
}

/// The option to use as it is written in the program of the user; without settings that do something else on a network.
fn code(group: &GroupView, test: &Test) -> Vec<String> {
    let Some(own) = test.used() else { return Vec::new() };
    let mut spec = group.factors.clone();
    own.settings.iter().for_each(|(name, level)| spec.set(name, level));
    let flips =
        |name: &&String| beyond_loopback(&group.factors, name).is_some_and(|known| (known.concerns)(&spec.get(name)));
    let is_own = |name: &&String| !is_peers_size(&group.factors, name) && !flips(name);
    group.varied.iter().filter(is_own).filter_map(|name| phrase::code(name, &spec)).collect()
}

/// The lines of a program to change, where its options were tried.
fn changed(results: &Results, test: &Test) -> Vec<String> {
    let (Some(tune), Some(task)) = (&results.tune, results.socket_changes()) else { return Vec::new() };
    let all = tune.changes.iter().flat_map(|changes| &changes.changes);
    let best = all.filter(|change| change.is_best && test.option(&change.cell).is_some());
    best.flat_map(|change| code_line::lines(task, &change.value)).collect()
}

/// What limits a cell, and the change that may help.
fn bottleneck(results: &Results, group: &GroupView, option: &OptionResult) -> Option<Headed> {
    let cell = results.cell(&option.id)?;
    let limit = &cell.limit;
    let with = if group.varied.is_empty() { String::new() } else { format!(", with {}", option.label) };
    let spec = &cell.factors;
    let used = threads(spec).into_iter().fold(u64::from(spec.has_relay()), u64::saturating_add);
    let of = LimitedOption {
        workload: spec.workload(),
        datagrams: spec.transport().is_some_and(Transport::is_datagram),
        batches: spec.engine().is_some_and(|engine| engine.can().batches != Batches::None),
        tcp: spec.transport().is_some_and(Transport::is_tcp),
        spare_cpu: spec.spans_hosts() || results.environment.allowed_cpus().is_none_or(|cpus| cpus as u64 > used),
        varied: &group.varied,
    };
    let remedy = remedy(&of, limit.name).map_or_else(String::new, |remedy| format!(". {}", capital(&remedy)));
    let sentence = limit.sentence.trim_end_matches('.');
    Some(headed("Bottleneck", format!("{}{with}: {sentence}{remedy}", limit.title)))
}
