//! What is said of relays that are programs.

use crate::said;
use crate::support::{Plan, session};
use bytegauge_model::{EndReport, EndRole, EngineReport, Level, RelayProgramReport};
use bytegauge_report::view::document::{CellView, FindingKind};
use bytegauge_report::{Settings, View, render};

/// A program that got no CPU within the windows, as on a busy machine, has no cost; its version stands all the same.
#[test]
fn a_program_is_told_of_whatever_cpu_time_it_took() {
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
        let end =
            EndReport { window_ns: 250_000_000, cpu_ns, relay_program: Some(Box::new(known)), ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("haproxy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.0.insert(EndRole::Relay, Box::new(end.clone()));
        });
        let view = View::of(&data, &Settings::default());
        let told = said(&view, FindingKind::Relay);
        for part in
            ["haproxy: proxy version 4.5 (charged: its process tree)", "left 2 processes behind", "ignored SIGTERM"]
        {
            assert!(told.contains(part), "{told}");
        }
        assert_eq!(told.contains("least CPU"), cpu_ns > 0, "{told}");
    }
}

/// Sends without a copy are copied on loopback: nobody reads of them without hearing so.
#[test]
fn sends_that_were_copied_after_all_are_told() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for (zero_copy, expected) in [(0, None), (400, Some("75 % of the sends of zerocopy"))] {
        let mut data = session(&plan);
        let engine = EngineReport { zero_copy, zero_copy_copied: zero_copy / 4 * 3, ..EngineReport::default() };
        let end = EndReport {
            window_ns: 250_000_000,
            cpu_ns: 9_000_000,
            engine: Some(Box::new(engine)),
            ..EndReport::default()
        };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("zerocopy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.0.insert(EndRole::Relay, Box::new(end.clone()));
        });
        let told = said(&View::of(&data, &Settings::default()), FindingKind::Relay);
        assert_eq!(told.contains("asked for no copy"), expected.is_some(), "{told}");
        assert!(told.contains(expected.unwrap_or_default()), "{told}");
    }
}

/// A method that is slow for the size of its buffer is not blamed for how it moves bytes.
#[test]
fn relays_that_move_less_at_a_time_by_their_own_default_say_so() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    let told = |relay: &str, buffer: Option<u64>| {
        let mut data = session(&plan);
        for row in &mut data.cells {
            row.cell.factors.set("relay", Level::Name(relay.into()));
            row.cell.factors.set("relay_buffer", buffer.map_or(Level::auto(), Level::Number));
        }
        said(&View::of(&data, &Settings::default()), FindingKind::Relay)
    };
    assert!(told("tokio", None).contains("tokio moved 8 KiB at a time"), "{}", told("tokio", None));
    assert!(told("tokio", None).contains("--relay-buffer"));
    assert!(
        told("std-copy", None).contains("std-copy moved 8 KiB") && !told("std-copy", None).contains("--relay-buffer")
    );
    assert!(!told("tokio", Some(65_536)).contains("at a time") && !told("epoll", None).contains("at a time"));
    // Beside it stands what the others had.
    let mut data = session(&plan);
    for (row, relay) in data.cells.iter_mut().zip(["tokio", "epoll"].into_iter().cycle()) {
        row.cell.factors.set("relay", Level::Name(relay.into()));
        row.cell.factors.set("relay_buffer", Level::auto());
    }
    let both = said(&View::of(&data, &Settings::default()), FindingKind::Relay);
    assert!(both.contains("tokio moved 8 KiB at a time") && both.contains("; others with a buffer 64 KiB"), "{both}");
}

/// What has no back-pressure is never named without saying so, and its CPU time, which nobody is charged for, is not told.
#[test]
fn a_relay_without_back_pressure_is_told_with_its_caveat() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for (relay, warned) in [("sockmap", true), ("splice", false)] {
        let mut data = session(&plan);
        let end = EndReport { window_ns: 250_000_000, cpu_ns: 1_000_000, ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name(relay.into())));
        data.trials.iter_mut().for_each(|trial| {
            // Ends that wait for a CPU for most of the time.
            for end in trial.ends.0.values_mut() {
                (end.cpu_ns, end.queued_ns) = (end.window_ns / 10, Some(end.window_ns / 10 * 6));
                end.flows.iter_mut().for_each(|flow| flow.cpu_ns = end.window_ns / 10);
            }
            trial.ends.0.insert(EndRole::Relay, Box::new(end.clone()));
        });
        let view = View::of(&data, &Settings::default());
        let text = said(&view, FindingKind::Relay);
        assert_eq!(text.contains("sockmap has no back-pressure"), warned, "{text}");
        assert_eq!(text.contains("least CPU"), !warned, "{text}");
        let told = |cell: &CellView| cell.more.keys().any(|name| name.starts_with("relay_cpu"));
        assert_eq!(view.cells.iter().any(told), !warned);
        assert_eq!(said(&view, FindingKind::NoBackPressure).contains("no back-pressure"), warned);
        // They may wait for the kernel's workers.
        let waits = |cell: &CellView| cell.limit.sentence.contains("that others have");
        assert_eq!(view.cells.iter().any(waits), !warned);
        let style = render::TerminalStyle { columns: 100, ..Default::default() };
        let printed = [
            render::screen::render(&view, &style),
            render::terminal::full(&view, &style),
            render::markdown::render(&view),
        ];
        for text in printed {
            assert_eq!(text.contains("no back-pressure"), warned, "{text}");
        }
    }
}

/// What a relay needs for a MiB: the calls that moved bytes, or all of an engine's within the window, and how often it left its CPUs.
#[test]
fn system_calls_and_switches_of_a_relay_are_told_for_a_unit() {
    let plan = Plan { transports: vec!["tcp"], profiles: vec!["sum"], confirm_blocks: 8, ..Plan::default() };
    for (engine_calls, expected) in [(None, 4.0), (Some(12), 6.0)] {
        let mut data = session(&plan);
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("epoll".into())));
        data.trials.iter_mut().for_each(|trial| {
            let mib = trial.bytes >> 20;
            let engine =
                engine_calls.map(|calls| EngineReport { system_calls: mib * calls, ..EngineReport::default() });
            let end = EndReport {
                calls: mib * 4,
                window_ns: trial.wall_ns,
                cpu_ns: 9_000_000,
                // Half of what it moved came within the window.
                bytes: trial.bytes,
                total_bytes: trial.bytes * 2,
                voluntary_switches: mib,
                involuntary_switches: mib * 2,
                engine: engine.map(Box::new),
                ..EndReport::default()
            };
            trial.ends.0.insert(EndRole::Relay, Box::new(end));
        });
        let view = View::of(&data, &Settings::default());
        let cell = view.cells.iter().find(|cell| cell.more.contains_key("relay_cpus")).expect("a relay");
        for (name, expected) in [("relay_system_calls_per_mib", expected), ("relay_switches_per_mib", 3.0)] {
            let told = cell.more.get(name).and_then(|estimate| estimate.median).expect(name);
            // Of whole MiB.
            assert!((told / expected - 1.0).abs() < 0.05, "{name}: {told}, not {expected}");
        }
        let wide = render::terminal::full(&view, &render::TerminalStyle { columns: 300, ..Default::default() });
        assert!(wide.contains("relay switches/MiB"), "{wide}");
    }
}

/// Levels that are compared cannot matter more than what was compared.
#[test]
fn relays_matter_more_than_sizes_and_not_more_than_themselves() {
    let sizes =
        Plan { read_sizes: vec![4 << 10, 1 << 20], write_sizes: vec![1 << 20], finalists: 2, ..Plan::default() };
    let planted = |sizes_vary: bool| {
        let mut data = session(&Plan { transports: vec!["tcp"], profiles: vec!["sum"], noise: 0.01, ..sizes.clone() });
        for row in &mut data.cells {
            let levels = &mut row.cell.factors;
            let slow = levels.read_size() == Some(4 << 10);
            levels.set("relay", Level::Name(if slow { "tokio" } else { "splice" }.into()));
            if !sizes_vary {
                levels.set("read_size", Level::Number(256 << 10));
            }
        }
        let view = View::of(&data, &Settings::default());
        said(&view, FindingKind::BiggestEffect)
    };
    assert_eq!(planted(false), "");
    assert!(planted(true).starts_with("relay: splice reaches "), "{}", planted(true));
}

/// Threads that a method does not have to choose are no level of them: which method it is decides there.
#[test]
fn what_a_relay_does_not_have_is_no_lever() {
    let sizes =
        Plan { read_sizes: vec![4 << 10, 1 << 20], write_sizes: vec![1 << 20], finalists: 2, ..Plan::default() };
    let levers = |threads_of_tokio: Option<&str>| {
        let mut data = session(&Plan { transports: vec!["tcp"], profiles: vec!["sum"], noise: 0.01, ..sizes.clone() });
        for row in &mut data.cells {
            let levels = &mut row.cell.factors;
            let slow = levels.read_size() == Some(4 << 10);
            levels.set("relay", Level::Name(if slow { "tokio" } else { "splice" }.into()));
            levels.set("read_size", Level::Number(256 << 10));
            let threads = if slow { threads_of_tokio } else { Some("cpus") };
            threads.into_iter().for_each(|threads| levels.set("relay_threads", Level::Name(threads.into())));
        }
        let view = View::of(&data, &Settings::default());
        view.levers.iter().map(|lever| lever.factor.clone()).collect::<Vec<_>>()
    };
    assert!(!levers(Some("one")).is_empty());
    assert!(!levers(None).contains(&"relay_threads".to_owned()), "{:?}", levers(None));
}
