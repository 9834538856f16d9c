//! Reports of relays.

use crate::phrases;
use crate::support::{Plan, session};
use bytegauge_model::{
    CellId, CellKind, EndCounts, EndReport, EndRole, EngineReport, Level, RelayProgramReport, Stage,
};
use bytegauge_report::{Report, SessionData, Settings, render};
use bytegauge_store::CellRow;

/// A program that got no CPU within the windows, as on a busy machine, has no cost; its version is reported.
#[test]
fn a_program_without_cpu_time_is_reported() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for cpu_ns in [0, 50_000_000] {
        let mut data = session(&plan);
        let known = RelayProgramReport {
            version: Some("proxy version 4.5".into()),
            left_behind: 2,
            stopped_by_force: true,
            charged: Some("its process tree".into()),
            ..Default::default()
        };
        let counts = EndCounts { window_ns: 250_000_000, cpu_ns, ..EndCounts::default() };
        let end = EndReport { counts, relay_program: Some(Box::new(known)), ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("haproxy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.insert(EndRole::Relay, end.clone());
        });
        let view = Report::of(&data, &Settings::default());
        let reported = phrases(&view, "scope");
        for part in [
            "haproxy: proxy version 4.5 (charged: its process tree)",
            "left processes behind, which were ended: 2",
            "ignored SIGTERM",
        ] {
            assert!(reported.contains(part), "{reported}");
        }
        check_exported_cost(&view, &data, cpu_ns);
    }
}

/// CSV has the CPU time of the relay, and Go's format has it in place of that of the ends.
fn check_exported_cost(view: &Report, data: &SessionData, cpu_ns: u64) {
    let csv = render::csv::render(view);
    let has_column = csv.lines().next().unwrap().split(',').any(|name| name == "relay_cpu_s_per_gib");
    let cell = view.cells.iter().find(|cell| cell.trials > 0).unwrap();
    let known = cell.more.get("relay_cpu_s_per_gib").and_then(|cost| cost.median).is_some();
    assert_eq!((known, has_column), (cpu_ns > 0, cpu_ns > 0));
    let rate = |trial: &bytegauge_model::Trial| trial.rate().filter(|rate| *rate > 0.0);
    let costs = data.trials.iter().filter_map(rate).map(|rate| cpu_ns as f64 / 0.25 / rate * f64::from(1 << 20));
    let bench = render::go_bench::render(view, data);
    let printed =
        bench.lines().filter_map(|line| line.strip_suffix(" cpu-ns/MiB")?.rsplit_once(' ')?.1.parse::<f64>().ok());
    let printed: Vec<f64> = printed.collect();
    let is_printed = |cost: f64| printed.iter().any(|one| (one / cost - 1.0).abs() < 1e-3);
    assert_eq!(costs.filter(|cost| is_printed(*cost)).count() > 0, cpu_ns > 0, "{bench}");
}

/// Zero-copy sends are copied on loopback, and the report states it.
#[test]
fn copied_zero_copy_sends_are_reported() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for (zero_copy, expected) in [(0, None), (400, Some("75 %"))] {
        let mut data = session(&plan);
        let engine = EngineReport { zero_copy, zero_copy_copied: zero_copy / 4 * 3, ..EngineReport::default() };
        let counts = EndCounts { window_ns: 250_000_000, cpu_ns: 9_000_000, ..EndCounts::default() };
        let end = EndReport { counts, engine: Some(Box::new(engine)), ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("zerocopy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.insert(EndRole::Relay, end.clone());
        });
        let report = Report::of(&data, &Settings::default());
        let column = report.texts[0].columns.iter().find(|column| column.heading == "sends copied");
        assert_eq!(column.map(|column| column.texts[0].as_str()), expected);
    }
}

/// The needs of a relay for a MiB: the calls that moved bytes, or all of an engine's within the window, and its context switches.
#[test]
fn relay_system_calls_are_counted_for_each_unit() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for (engine_calls, expected) in [(None, 4.0), (Some(12), 6.0)] {
        let mut data = session(&plan);
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("epoll".into())));
        data.trials.iter_mut().for_each(|trial| {
            let mib = trial.bytes >> 20;
            let engine =
                engine_calls.map(|calls| EngineReport { system_calls: mib * calls, ..EngineReport::default() });
            let counts = EndCounts {
                calls: mib * 4,
                window_ns: trial.wall_ns,
                cpu_ns: 9_000_000,
                // Half of what it moved came within the window.
                bytes: trial.bytes,
                total_bytes: trial.bytes * 2,
                voluntary_switches: mib,
                involuntary_switches: mib * 2,
                ..EndCounts::default()
            };
            let end = EndReport { counts, engine: engine.map(Box::new), ..EndReport::default() };
            trial.ends.insert(EndRole::Relay, end);
        });
        let view = Report::of(&data, &Settings::default());
        let cell = view.cells.iter().find(|cell| cell.more.contains_key("relay_cpus")).expect("a relay");
        for (name, expected) in [("relay_system_calls_per_mib", expected), ("relay_switches_per_mib", 3.0)] {
            let reported = cell.more.get(name).and_then(|estimate| estimate.median).expect(name);
            // For whole MiB.
            assert!((reported / expected - 1.0).abs() < 0.05, "{name}: {reported}, not {expected}");
        }
    }
}

/// Under an offered load relays are compared by their own CPU time, not by that of the ends.
#[test]
fn offered_load_compares_the_cpu_of_relays() {
    let mut data =
        session(&Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() });
    for row in &mut data.cells {
        row.cell.factors.set("relay", Level::Name("splice".into()));
        row.cell.factors.set("rate", Level::Number(1 << 20));
    }
    data.groups.iter_mut().for_each(|row| row.group.factors.set("rate", Level::Number(1 << 20)));
    // One option, which the A/A control does not repeat, takes less CPU time than all others.
    let controls: Vec<_> =
        data.cells.iter().flat_map(|row| [Some(row.cell.id.clone()), row.cell.twin_of.clone()]).collect();
    let is_alone = |id: &CellId| controls.iter().filter(|one| one.as_ref() == Some(id)).count() == 1;
    let is_own = |row: &&CellRow| row.cell.kind == CellKind::Candidate && is_alone(&row.cell.id);
    let is_confirmed = |id: &CellId| data.trials.iter().any(|trial| trial.stage == Stage::Confirm && trial.cell == *id);
    let mut own = data.cells.iter().filter(is_own).map(|row| row.cell.id.clone());
    let cheap = own.find(|id| is_confirmed(id)).expect("a confirmed option");
    for trial in &mut data.trials {
        let cpu_ns = if trial.cell == cheap { 10_000_000 } else { 90_000_000 };
        let counts = EndCounts { window_ns: 250_000_000, cpu_ns, ..EndCounts::default() };
        trial.ends.insert(EndRole::Relay, EndReport { counts, ..EndReport::default() });
    }
    let view = Report::of(&data, &Settings::default());
    let compared: Vec<_> = view.tests[0].options.iter().filter(|option| option.slower_lower.is_some()).collect();
    assert!(compared.len() > 1);
    for option in compared {
        assert_eq!(option.slower_lower == Some(0.0), option.id == cheap, "{option:?}");
    }
}
