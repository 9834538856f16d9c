//! Settles the results of a session as data: tests with their options, and findings.
//!
//! One place decides how an option compares with the best one, and every text follows from it: two lines of a report
//! cannot contradict each other. Computes no statistics; those are settled before.

mod advice;
mod avoid;
mod build;
mod copied;
mod effects;
mod findings;
mod further_steps;
mod harm;
mod heading;
mod kept;
pub mod least_cpu;
mod long_trials;
mod memory;
mod next;
mod next_of_check;
pub mod outcome;
mod repeat_command;
mod run_length;
mod sentences;
pub mod summary;
mod title;
mod valid_for;

use bytegauge_bottleneck::{LimitedOption, remedy};
use bytegauge_model::threads::threads;
use bytegauge_model::unit::Bytes;
use bytegauge_model::{
    CellId, CellKind, Level, ProgramRole, RelayChoice, RelayMethod, SessionStatus, Spec, Stage, Transport,
};
use serde_json::Value;

use super::document::{
    Because, Bottleneck, CellView, Compares, Estimate, Finding, GroupView, OptionResult, OptionStatus, Test, TestState,
    View,
};
use super::harm::Least;
use super::recommendation::is_control_wide;
use super::relays;
use crate::interval_rounding::excludes_nothing;
use crate::phrase;

/// Fills in the tests, then the findings, which name them.
pub fn settle(view: &mut View) {
    view.tests = tests(view);
    view.scale = outcome::scale(view);
    advice::settle(view);
    view.findings = findings::findings(view);
    view.heading = heading::heading(view);
    let results: Vec<String> = view.tests.iter().map(|test| outcome::of_test(view, test)).collect();
    let scale = view.scale;
    for (test, result) in view.tests.iter_mut().zip(results) {
        test.result = result;
        test.slower_heading = outcome::slower_heading(test, scale);
        let texts: Vec<String> = test.options.iter().map(|option| outcome::slower(test, option, scale)).collect();
        for (option, text) in test.options.iter_mut().zip(texts) {
            option.slower = text;
            let ends = option.more_cpu_lower.zip(option.more_cpu_upper);
            option.more_cpu = ends.map(|(lower, upper)| scale.interval(lower, upper));
        }
        let has_cpu = test.options.iter().any(|option| option.more_cpu.is_some());
        test.more_cpu_heading = has_cpu.then(|| least_cpu::heading(scale));
    }
    view.summary = summary::lines(view);
    view.next = next::next(view);
}

/// Adds findings that rest on other sessions.
pub fn add(view: &mut View, more: Vec<Finding>) {
    let all = [std::mem::take(&mut view.findings), more].concat();
    view.findings = findings::worded(view, all);
    view.summary = summary::lines(view);
    view.next.extend(next::over_sessions(view));
}

fn tests(view: &View) -> Vec<Test> {
    let test = |group| {
        let mut test = test(view, group);
        least_cpu::keep_what_tells(&mut test);
        Test { avoid: avoid::of(view, group, &test), ..test }
    };
    let mut tests: Vec<Test> = view.groups.iter().map(test).collect();
    for (test, title) in tests.iter_mut().zip(title::titles(view)) {
        test.title = title.full;
        test.name = title.short;
        test.heading = title.heading;
        test.conditions = title.conditions;
    }
    tests
}

fn test(view: &View, group: &GroupView) -> Test {
    let cells: Vec<&CellView> = view.cells_of(&group.id).filter(|cell| cell.kind == CellKind::Candidate).collect();
    let least = harm::least_of(&cells);
    let options: Vec<OptionResult> = cells.iter().map(|cell| option(view, group, cell, &least)).collect();
    let named = group.recommendation.cell.as_ref();
    let kept = kept::present(view, group, &options).filter(|_| !control_differs(group));
    let recommended = kept.or_else(|| options.iter().find(|option| named == Some(&option.id)));
    let state = state(group, &options, recommended);
    // Nothing is recommended without an interval that holds.
    let recommended = recommended.filter(|_| matches!(state, TestState::Decided | TestState::Inconclusive));
    // An interval that includes twice the time of the best is no reason to choose.
    let excludes = |option: &&OptionResult| option.slower_upper.is_some_and(|upper| !excludes_nothing(upper));
    // To change nothing needs none.
    let recommended = recommended.filter(|option| kept.is_some() || excludes(option));
    let only = options.iter().find(|option| option.trials > 0).filter(|_| state == TestState::Single);
    let shown = recommended.or(only).or_else(|| fastest(&options)).and_then(|option| view.cell(&option.id));
    Test {
        id: group.id.clone(),
        title: String::new(),
        name: String::new(),
        heading: String::new(),
        conditions: String::new(),
        result: String::new(),
        code: recommended.and_then(|option| view.cell(&option.id)).map_or_else(Vec::new, |cell| code(group, cell)),
        environment: group.factors.clone(),
        congestion: title::congestion(view, group),
        slower_heading: "",
        more_cpu_heading: None,
        compares: if group.compares_cpu() { Compares::Cpu } else { Compares::Time },
        unit: cells.first().map_or("bytes/s", |cell| cell.estimate.unit),
        margin: view.plan.margin,
        state,
        screening_trial_ns: group.screening_trial_ns,
        varied: group.varied.clone(),
        recommended: recommended.or(only).map(|option| option.id.clone()),
        because: match (recommended, only) {
            (_, Some(_)) => Some(Because::Only),
            (Some(_), _) if kept.is_some() => Some(Because::Present),
            (Some(option), _) => Some(because(view, group, option, &options)),
            _ => None,
        },
        bottleneck: shown.map(|cell| bottleneck(view, group, cell)),
        control_upper: group.twin_reach,
        control_is_wide: control_is_wide(view, group, group.recommendation.cell.as_ref()),
        blocks: group.blocks.used,
        avoid: Vec::new(),
        options,
        comparisons: if group.asked { group.ratios.clone() } else { Vec::new() },
    }
}

/// The option with the highest rate, of those without harm where there is one.
fn fastest(options: &[OptionResult]) -> Option<&OptionResult> {
    let rated = options.iter().filter_map(|option| Some((!harm::is_avoided(&option.harm), option.rate?, option)));
    rated.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(.., option)| option)
}

fn state(group: &GroupView, options: &[OptionResult], recommended: Option<&OptionResult>) -> TestState {
    let measured = options.iter().filter(|option| option.trials > 0).count();
    match recommended {
        _ if measured == 0 => TestState::Failed,
        _ if measured == 1 => TestState::Single,
        _ if control_differs(group) => TestState::Invalid,
        Some(option) if option.status == OptionStatus::Best => TestState::Decided,
        Some(option) if option.slower_upper.is_some() => TestState::Inconclusive,
        _ => TestState::Unconfirmed,
    }
}

/// Whether the same option measured twice is significantly different from itself.
fn control_differs(group: &GroupView) -> bool {
    group.twin.as_ref().is_some_and(|twin| twin.alarm)
}

/// Whether the intervals of a test hold: an A/A control that differs contradicts them, and a session that stopped before
/// its first analysis may have been stopped because of what it showed.
fn has_intervals(view: &View, group: &GroupView) -> bool {
    is_analysed(view, group) && !control_differs(group)
}

/// Whether the first analysis of a test is reached; before it, blocks are counted and not judged.
fn is_analysed(view: &View, group: &GroupView) -> bool {
    let unfinished = matches!(view.status, SessionStatus::Incomplete | SessionStatus::Running);
    group.look.as_ref().map_or(!unfinished, |look| look.done > 0)
}

/// The recommended option as it is written in the program of the user.
fn code(group: &GroupView, cell: &CellView) -> Vec<String> {
    let spec = cell.spec();
    let conditions = group.spec();
    let is_own = |name: &&String| !is_peers_size(&conditions, name);
    group.varied.iter().filter(is_own).filter_map(|name| phrase::code(name, &spec)).collect()
}

/// Whether a size is that of the other end, which is not the user's program.
fn is_peers_size(conditions: &Spec, factor: &str) -> bool {
    matches!(
        (conditions.role(), factor),
        (Some(ProgramRole::Reader), "write_size") | (Some(ProgramRole::Writer), "read_size")
    )
}

/// Fewer trials give no rate over all trials.
const TRIALS_MIN: usize = 6;

/// A median this far from the rate of all trials misleads, as a share.
const MEDIAN_MISLEADS: f64 = 0.1;

/// The rate of all confirmed trials together, slow ones in full.
fn all_trials(cell: &CellView) -> Option<f64> {
    cell.total_rate.filter(|_| cell.trials >= TRIALS_MIN && cell.stage == Some(Stage::Confirm))
}

/// Whether that rate is far from the median.
fn median_misleads(cell: &CellView) -> bool {
    let both = all_trials(cell).zip(cell.estimate.median);
    both.is_some_and(|(all, median)| all.max(median) > all.min(median) * (1.0 + MEDIAN_MISLEADS))
}

fn option(view: &View, group: &GroupView, cell: &CellView, least: &Least) -> OptionResult {
    let spec = cell.spec();
    let status = status(view, group, cell, least);
    let again = group.twin.as_ref().and_then(|twin| twin.exchanged_bound).filter(|_| exchange_fails(group, cell));
    let interval =
        cell.above_best_upper.filter(|_| has_intervals(view, group)).map(|upper| upper.max(again.unwrap_or(0.0)));
    let (cpu, cpu_unit) = cpu(cell).unzip();
    let call = cell.call.as_ref();
    OptionResult {
        id: cell.id.clone(),
        label: side_of(view, cell).map_or_else(|| label(group, cell, &spec), str::to_owned),
        settings: group
            .varied
            .iter()
            .filter_map(|name| Some((name.clone(), cell.factors.get(name)?.clone())))
            .filter(|(_, level): &(String, Value)| !level.is_null())
            .collect(),
        status,
        rate: cell.estimate.median,
        rate_lower: cell.estimate.lower,
        rate_upper: cell.estimate.upper,
        overall_rate: call.and_then(|call| call.knee.as_ref()?.overall_per_second),
        rate_all: all_trials(cell).filter(|_| median_misleads(cell)),
        trials: cell.trials,
        slower_lower: interval.and(cell.above_best_lower).map(|lower| lower.max(0.0)),
        slower_upper: interval.map(|upper| upper.max(0.0)),
        slower: String::new(),
        p50_ns: cell.median("total_p50_ns"),
        p99_ns: cell.median("total_p99_ns"),
        p99_all_ns: call.filter(|call| call.offered_per_second.is_some()).and_then(|call| call.p99_all_ns),
        p99_9_ns: cell.median("total_p99_9_ns"),
        more_cpu_lower: cell.more_cpu_lower.filter(|_| has_intervals(view, group)),
        more_cpu_upper: cell.more_cpu_upper.filter(|_| has_intervals(view, group)),
        more_cpu: None,
        cpu,
        server_cpu_ms: cell.median("server_cpu_ns_per_run").map(|ns| ns / 1e6),
        carried_share: harm::carried_share(cell),
        lost_share: harm::lost_share(cell),
        longest_ns: cell.harm.longest_ns,
        starved_share: cell.harm.starved_share,
        harm: if cell.trials > 0 { harm::of(cell, least) } else { Vec::new() },
        failed_share: cell.call.as_ref().and_then(|call| call.failed_share).filter(|share| *share > 0.0),
        cpu_unit,
        reason: cell.reason.clone(),
    }
}

/// How an option compares with the best: the one rule that the screen, the page and the other formats follow.
fn status(view: &View, group: &GroupView, cell: &CellView, least: &Least) -> OptionStatus {
    match cell.outcome {
        "failed" => return OptionStatus::Failed,
        "skipped" => return OptionStatus::Skipped,
        _ => {}
    }
    let is_confirmed = cell.stage == Some(Stage::Confirm) && has_intervals(view, group);
    let Some(upper) = cell.above_best_upper.filter(|_| is_confirmed) else {
        return OptionStatus::Unconfirmed;
    };
    let margin = view.plan.margin;
    let is_doubtful = exchange_fails(group, cell)
        || control_is_wide(view, group, Some(&cell.id))
        || group.spoken_against.contains(&cell.id)
        || long_trials::contradict(view, group, cell);
    let is_best = upper <= margin && !is_doubtful;
    let harm = harm::of(cell, least);
    match cell.above_best_lower {
        _ if is_best && harm.is_empty() => OptionStatus::Best,
        Some(lower) if lower > 0.0 => OptionStatus::Slower,
        _ if harm::is_avoided(&harm) => OptionStatus::Harmful,
        _ => OptionStatus::Tied,
    }
}

/// Whether the recommended option is outside of the margin with the A/A control in the place of the option that it repeats. Its
/// interval reaches as far then.
fn exchange_fails(group: &GroupView, cell: &CellView) -> bool {
    group.recommendation.cell.as_ref() == Some(&cell.id) && group.recommendation.survives_exchange == Some(false)
}

/// Whether the same option measured twice differs by more than the margin: no result is more precise, unless no other option is
/// near `own`.
fn control_is_wide(view: &View, group: &GroupView, own: Option<&CellId>) -> bool {
    let is_other = |cell: &&CellView| cell.kind == CellKind::Candidate && own.is_some_and(|own| cell.id != *own);
    let others = view.cells_of(&group.id).filter(is_other).filter(|cell| cell.above_best_upper.is_some());
    let slower: Vec<f64> = others.map(|cell| cell.above_best_lower.unwrap_or(0.0)).collect();
    is_control_wide(group.twin_reach, view.plan.margin, &slower)
}

/// The interval end that must come down to the margin, as a share: that of the recommended option, or of the A/A control where it
/// is the wider one.
fn open_bound(view: &View, group: &GroupView) -> Option<f64> {
    let control = group.twin_reach.filter(|_| control_is_wide(view, group, group.recommendation.cell.as_ref()));
    let kept = view.test(&group.id).filter(|test| test.because == Some(Because::Present));
    let of_kept = kept.and_then(Test::recommended_option).and_then(|option| option.slower_upper);
    let bound = of_kept.or(group.recommendation.bound).filter(|bound| !excludes_nothing(*bound))?;
    Some(bound.max(control.unwrap_or(0.0)))
}

fn because(view: &View, group: &GroupView, option: &OptionResult, options: &[OptionResult]) -> Because {
    let cell = view.cell(&option.id).filter(|_| !group.varied.is_empty());
    let is_default = cell.is_some_and(|cell| group.varied.iter().all(|name| cell.level(name).is_auto()));
    let has_size = |cell: &CellView| group.varied.iter().any(|name| matches!(cell.level(name), Level::Number(_)));
    let is_fastest = match group.compares_cpu() {
        true => group.recommendation.best.as_ref() == Some(&option.id),
        false => fastest(options).is_some_and(|fastest| fastest.id == option.id),
    };
    match option.status {
        _ if is_fastest => Because::Fastest,
        _ if is_default => Because::Default,
        OptionStatus::Best if cell.is_some_and(has_size) => Because::Smallest,
        OptionStatus::Best => {
            if option.cpu.is_some() {
                Because::LeastCpu
            } else {
                Because::First
            }
        }
        _ => Because::SmallestMaximum,
    }
}

/// Factors whose levels name themselves: `epoll`, `cubic`.
const NAME_THEMSELVES: &[&str] = &[
    "engine",
    "server_engine",
    "client_engine",
    "relay",
    "value",
    "implementation",
    "setup",
    "congestion",
    "transport",
    "connect",
];

/// The name of a side, where two are compared.
fn side_of(view: &View, cell: &CellView) -> Option<&'static str> {
    let versus = view.versus.as_ref()?;
    [("A", &versus.a), ("B", &versus.b)].into_iter().find(|(_, side)| side.cell == cell.id).map(|(name, _)| name)
}

fn label(group: &GroupView, cell: &CellView, spec: &Spec) -> String {
    let own = option_label(&group.varied, spec);
    match (own.is_empty(), cell.label.is_empty()) {
        (false, _) => own,
        _ if spec.relay().and_then(RelayChoice::method).is_some_and(|method| method != RelayMethod::Direct) => {
            format!("relay {}", phrase::compact("relay", &spec.get("relay")))
        }
        (true, false) => cell.label.clone(),
        (true, true) => "the only option".into(),
    }
}

/// The levels of the factors that options differ in, as every table names an option: `64K`, or `read 4K + epoll`. Empty
/// where they differ in none.
pub fn option_label(varied: &[String], spec: &Spec) -> String {
    let shown = |name: &String| {
        let level = spec.get(name);
        (level != Level::Absent).then(|| level_label(varied, spec, name, &level))
    };
    varied.iter().filter_map(shown).collect::<Vec<_>>().join(" + ")
}

/// Whether the title of a test names the size by its verb: "Read from a Unix socket".
fn is_named_by_title(factor: &str, spec: &Spec) -> bool {
    matches!(factor, "read_size" | "write_size") && spec.role() != Some(ProgramRole::Both)
}

/// One level, with the name of its factor where the level alone tells nothing, or options differ in several: `64K`, `epoll`,
/// `flows 4`, `SO_RCVBUF 256K`, `read 4K`.
fn level_label(varied: &[String], spec: &Spec, factor: &str, level: &Level) -> String {
    let mut text = phrase::compact(factor, level);
    // Its buffer, and not its method, may make a relay slower than others.
    if let Some(Bytes(own)) = relays::own_buffer(spec).filter(|_| factor == "relay") {
        text += &format!(" {}", phrase::compact("relay_buffer", &Level::Number(own)));
    }
    let name = phrase::in_code(factor);
    // The relay itself is named before its threads and buffers.
    let has_relay = varied.iter().any(|name| name == "relay");
    let name = name.strip_prefix("relay ").filter(|_| has_relay).unwrap_or(name);
    // A sentence that begins with “4” or “off” tells nothing.
    let is_bare = text.bytes().all(|byte| byte.is_ascii_digit()) || matches!(text.as_str(), "on" | "off");
    // Neither do a number and `auto` without their option.
    let is_word = level.name().is_some_and(|_| !level.is_auto());
    let is_clear = !is_bare && (is_word || is_named_by_title(factor, spec));
    match NAME_THEMSELVES.contains(&factor) || varied.len() == 1 && is_clear {
        true => text,
        false => format!("{name} {text}"),
    }
}

/// CPU time of a unit of work with its interval, and the factor to the unit: of the relay, the server, or compared clients where
/// there are any, else of both ends.
fn cpu_estimate(cell: &CellView) -> Option<(&Estimate, f64, &'static str)> {
    if let Some(cost) = relays::cost(cell) {
        // A second for a million calls is a microsecond for each.
        let per_call = cell.more.contains_key("relay_cpu_s_per_million_calls");
        return Some((cost, 1.0, if per_call { "µs/call" } else { "s/GiB" }));
    }
    if relays::has_one(cell) {
        return None;
    }
    let compares_clients = cell.factors.get("compare").is_some_and(|condition| condition == "client-engine");
    let known = [
        (if compares_clients { "client_cpu_ns_per_call" } else { "server_cpu_ns_per_call" }, 1e-3, "µs/call"),
        ("cpu_ns_per_run", 1e-6, "ms/run"),
        ("cpu_ns_per_byte", (1u64 << 30) as f64 / 1e9, "s/GiB"),
    ];
    known.into_iter().find_map(|(name, factor, unit)| Some((cell.more.get(name)?, factor, unit)))
}

/// The same without the interval; of imported numbers what is known.
fn cpu(cell: &CellView) -> Option<(f64, &'static str)> {
    let median = cpu_estimate(cell).and_then(|(estimate, factor, unit)| Some((estimate.median? * factor, unit)));
    let of_ends = || cell.cpu.ends_s_per_gib.filter(|_| !relays::has_one(cell)).map(|seconds| (seconds, "s/GiB"));
    median.or_else(of_ends)
}

fn bottleneck(view: &View, group: &GroupView, cell: &CellView) -> Bottleneck {
    let limit = &cell.limit;
    let doubt = limit.doubt.as_ref().map_or_else(String::new, |doubt| format!(" ({})", doubt.text));
    let with = Some(option_label(&group.varied, &cell.spec())).filter(|label| !label.is_empty());
    let with = with.map_or_else(String::new, |label| format!(", with {label}"));
    let text = format!("{}{with}: {}{doubt}", limit.title, limit.brief);
    let other = limit.doubt.as_ref().map(|doubt| doubt.other);
    let spec = cell.spec();
    let used = threads(&spec).into_iter().fold(u64::from(spec.has_relay()), u64::saturating_add);
    let of = LimitedOption {
        workload: spec.workload(),
        datagrams: spec.transport().is_some_and(Transport::is_datagram),
        tcp: spec.transport().is_some_and(Transport::is_tcp),
        spare_cpu: spec.spans_hosts() || view.environment.allowed_cpus().is_none_or(|cpus| cpus as u64 > used),
        varied: &group.varied,
    };
    let remedy = remedy(&of, limit.leading);
    Bottleneck { limit: limit.name, other, leading: limit.leading, title: limit.title.clone(), text, remedy }
}

#[cfg(test)]
mod tests {
    use bytegauge_model::factor;

    use super::*;

    #[test]
    fn label_names_the_option_of_a_number() {
        let check = |varied: &[&str], levels: &[(&str, &str)], expected: &str| {
            let mut spec = Spec::default();
            for (name, text) in levels {
                spec.set(name, factor::find(name).unwrap().kind.parse(text).unwrap());
            }
            let varied: Vec<String> = varied.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(option_label(&varied, &spec), expected);
        };
        let of = |role: &'static str| [("transport", "tcp"), ("role", role), ("read_size", "64K"), ("rcvbuf", "256K")];
        check(&["read_size"], &of("reader"), "64K");
        check(&["read_size"], &of("both"), "read 64K");
        check(&["rcvbuf"], &of("reader"), "SO_RCVBUF 256K");
        check(&["read_size", "rcvbuf"], &of("reader"), "read 64K + SO_RCVBUF 256K");
        check(&["rcvbuf"], &[("transport", "tcp"), ("rcvbuf", "auto")], "SO_RCVBUF auto");
        check(&["congestion"], &[("transport", "tcp"), ("congestion", "bbr")], "bbr");
        check(&["engine"], &[("transport", "tcp"), ("engine", "epoll")], "epoll");
        check(&["relay"], &[("relay", "tokio")], "tokio 8K");
        check(&["relay"], &[("relay", "tokio"), ("relay_buffer", "64K")], "tokio");
        check(&["relay"], &[("relay", "splice")], "splice");
    }
}
