//! Streams that go both ways at once, planted: the rate of each way and of both, and what each end's CPUs did.

use crate::support::{Plan, session};
use bytegauge_model::{EndCounts, EndReport, EndRole, FlowReport};
use bytegauge_report::{Report, Settings, render};

/// A quarter of the bytes goes back; the end that connected uses 0.75 CPU as a writer and 0.125 as a reader, the other one the
/// rest of one and a half.
fn planted(both: bool) -> Report {
    let plan = Plan {
        transports: vec!["tcp"],
        profiles: vec!["drain"],
        read_sizes: vec![64 << 10],
        write_sizes: vec![64 << 10, 256 << 10],
        finalists: 2,
        ..Plan::default()
    };
    let mut data = session(&plan);
    let direction = if both { "both" } else { "to" };
    let levels = [("host", "192.0.2.7:4711"), ("direction", direction)];
    for (name, level) in levels {
        data.cells.iter_mut().for_each(|row| row.cell.factors.set(name, level.into()));
        data.groups.iter_mut().for_each(|row| row.group.factors.set(name, level.into()));
    }
    for trial in data.trials.iter_mut().filter(|trial| trial.bytes > 0) {
        let (bytes, wall_ns) = (trial.bytes, trial.wall_ns);
        for (role, shares) in [(EndRole::Source, [6, 3]), (EndRole::Sink, [2, 1])] {
            let Some(end) = trial.ends.get_mut(role) else { continue };
            // In eighths of a CPU.
            let flow = |back: bool| FlowReport {
                counts: EndCounts {
                    bytes: if back { bytes / 4 } else { bytes - bytes / 4 },
                    window_ns: wall_ns,
                    cpu_ns: wall_ns / 8 * shares[usize::from(back)],
                    ..EndCounts::default()
                },
                back,
                ..FlowReport::default()
            };
            let flows = if both { vec![flow(false), flow(true)] } else { vec![flow(false)] };
            *end = EndReport { flows, ..end.clone() };
        }
    }
    Report::of(&data, &Settings::default())
}

#[test]
fn both_directions_add_up_to_the_rate() {
    let view = planted(true);
    let cell = view.cells.iter().find(|cell| cell.trials > 0).unwrap();
    let median = |name: &str| cell.more[name].median.unwrap();
    let (to, from) = (median("to_bytes_per_second"), median("from_bytes_per_second"));
    assert!((to / from - 3.0).abs() < 0.01, "{to} {from}");
    let rate = cell.estimate.median.unwrap();
    assert!(((to + from) / rate - 1.0).abs() < 0.01, "{to} {from} {rate}");
    // It connected: it writes what goes there, and reads what comes back.
    assert!((median("near_cpus") - 0.875).abs() < 0.01 && (median("far_cpus") - 0.625).abs() < 0.01);
    let style = render::TerminalStyle { columns: 160, ..Default::default() };
    let text = render::full::full(&view, &style).split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["TCP to and from the host 192.0.2.7:4711", " there ", " back ", " far CPUs", " 0.875 ", " 0.625 "]
    {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn one_direction_has_no_second_rate() {
    let view = planted(false);
    assert!(view.cells.iter().all(|cell| !cell.more.contains_key("to_bytes_per_second")));
}
