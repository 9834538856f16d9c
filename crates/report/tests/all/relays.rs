//! What is said of relays that are programs.

use crate::support::{Plan, session};
use bytegauge_model::{EndReport, EndRole, EngineReport, Level, RelayProgramReport};
use bytegauge_report::{Settings, View};

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
            ..Default::default()
        };
        let end = EndReport { window_ns: 250_000_000, cpu_ns, relay_program: Some(known), ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("haproxy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.0.insert(EndRole::Relay, end.clone());
        });
        let view = View::of(&data, &Settings::default());
        let told = view.answer.relays.join(" ");
        for part in ["haproxy: proxy version 4.5", "left 2 processes behind", "did not heed SIGTERM"] {
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
        let end = EndReport { window_ns: 250_000_000, cpu_ns: 9_000_000, engine: Some(engine), ..EndReport::default() };
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("relay", Level::Name("zerocopy".into())));
        data.trials.iter_mut().for_each(|trial| {
            trial.ends.0.insert(EndRole::Relay, end.clone());
        });
        let told = View::of(&data, &Settings::default()).answer.relays.join(" ");
        assert_eq!(told.contains("asked for no copy"), expected.is_some(), "{told}");
        assert!(told.contains(expected.unwrap_or_default()), "{told}");
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
            let slow = levels.get("read_size").number() == Some(4 << 10);
            levels.set("relay", Level::Name(if slow { "tokio" } else { "splice" }.into()));
            if !sizes_vary {
                levels.set("read_size", Level::Number(256 << 10));
            }
        }
        let view = View::of(&data, &Settings::default());
        view.levers.iter().map(|lever| lever.factor.clone()).zip(view.answer.lever).collect::<Vec<_>>()
    };
    assert_eq!(planted(false), []);
    let [(factor, told)] = &planted(true)[..] else { panic!("{:?}", planted(true)) };
    assert!(factor == "relay" && told.starts_with("relay matters more than buffers here: splice"), "{told}");
}
