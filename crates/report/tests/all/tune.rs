//! Numbers that cannot all be true fail their cell, whatever they are.

use crate::support::{Plan, session};
use bytegauge_model::{EndRole, Stage};

use crate::{State, state_of};
use bytegauge_report::view::numbers::{CellOutcome, Verdict};
use bytegauge_report::{Report, SessionData, Settings, render};
use proptest::prelude::*;

fn small() -> Plan {
    Plan {
        transports: vec!["unix"],
        profiles: vec!["sum"],
        read_sizes: vec![4096, 65_536],
        write_sizes: vec![16_384, 65_536],
        finalists: 2,
        confirm_blocks: 8,
        ..Plan::default()
    }
}

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

/// The cell that is recommended where nothing is planted.
fn best(data: &SessionData) -> bytegauge_model::CellId {
    view(data).groups[0].recommendation.cell.clone().expect("a choice")
}

fn check(spoil: impl Fn(&mut bytegauge_model::Trial), phrases: &str) {
    let mut data = session(&small());
    let best = best(&data);
    data.trials.iter_mut().filter(|trial| trial.cell == best).for_each(spoil);
    let view = view(&data);
    let cell = view.cell(&best).expect("the cell");
    let reason = cell.reason.clone().unwrap_or_default();
    assert_eq!((cell.outcome, cell.estimate.median), (CellOutcome::Failed, None), "{reason}");
    assert!(reason.contains("contradict each other") && reason.contains(phrases), "{reason}");
    assert!(view.groups[0].recommendation.cell.as_ref() != Some(&best), "it wins nothing");
    let text = render::screen::render(&view, &render::TerminalStyle::default());
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("read 64K + write 64K failed: its numbers"), "{text}");
}

#[test]
fn a_rate_beyond_its_reads_fails_the_cell() {
    check(|trial| trial.bytes *= 8, "times what");
}

#[test]
fn impossible_cpu_time_fails_the_cell() {
    check(|trial| trial.ends.get_mut(EndRole::Sink).expect("a sink").cpu_ns *= 8, "CPUs of the 2 that there are");
}

#[test]
fn more_short_reads_than_reads_fail_the_cell() {
    let spoil = |trial: &mut bytegauge_model::Trial| {
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        sink.short_calls = 2 * sink.calls;
    };
    check(spoil, "moved less than they might");
}

#[test]
fn two_blocks_have_no_control_interval() {
    let reported = |blocks: u64| {
        let view = view(&session(&Plan { confirm_blocks: blocks, ..small() }));
        let group = &view.groups[0];
        let twin = group.twin.as_ref().expect("an A/A control");
        (group.twin_reach.is_some(), view.environment.twin_reach.is_some(), twin.upper.is_some())
    };
    assert_eq!(reported(2), (false, false, false));
    assert_eq!(reported(8), (true, true, true));
}

#[test]
fn a_reader_that_compares_does_work() {
    let plan = Plan { profiles: vec!["drain"], ..small() };
    let mut data = session(&plan);
    let phrases = |data: &SessionData| {
        let view = view(data);
        (view.groups[0].throws_away, crate::phrases(&view, "scope"))
    };
    let (away, holds) = phrases(&data);
    assert!(away && holds.contains("discard the bytes") && !holds.contains("--verify"), "{holds}");
    for trial in &mut data.trials {
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        sink.verified_bytes = sink.total_bytes;
    }
    let (away, holds) = phrases(&data);
    assert!(
        !away && !holds.contains("discard the bytes") && holds.contains("compare every byte (--verify)"),
        "{holds}"
    );
    assert!(!holds.contains("the reader drains"), "{holds}");
    // It is not comparable with sessions that compare nothing.
    let plain = session(&plan);
    let three = [plain.clone(), plain.clone(), plain];
    let history = |after: SessionData| {
        let view = bytegauge_compare::HistoryView::of(&three, &[after], &Settings::default());
        let view = view.expect("a history");
        (view.verdict, view.text)
    };
    let (verdict, text) = history(data.clone());
    assert!(verdict == Verdict::Open && text.contains("--verify"), "{text}");
    assert!(!history(session(&plan)).1.contains("--verify"));
}

#[test]
fn an_impossible_floor_is_left_out() {
    let mut data = session(&small());
    assert!(view(&data).floor.ns_per_call.is_some());
    for trial in &mut data.trials {
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        // A batch added in one step.
        sink.calls = if trial.bytes == 0 { 1_000_000_000_000 } else { sink.calls };
    }
    assert_eq!((view(&data).floor.ns_per_call, view(&data).floor.share), (None, None));
}

#[test]
fn a_rate_beyond_a_link_fails() {
    let over_link = {
        let mut data = session(&Plan { transports: vec!["tcp"], ..small() });
        let link = crate::support::levels(&[("link_loss", "0%".into()), ("link_rate", "1Gbit".into())]);
        let place = |levels: &mut bytegauge_model::Spec| {
            levels.extend(&link);
            levels.set("link_delay", bytegauge_model::Level::Number(20_000_000));
        };
        data.groups.iter_mut().for_each(|row| place(&mut row.group.factors));
        data.cells.iter_mut().for_each(|row| place(&mut row.cell.factors));
        view(&data)
    };
    // The planted sessions move gigabytes per second.
    let reasons = over_link.cells.iter().filter_map(|cell| cell.reason.clone()).collect::<Vec<_>>();
    assert!(reasons.iter().any(|reason| reason.contains("over a link that carries 115 MiB/s")), "{reasons:?}");
    let plain = view(&session(&Plan { transports: vec!["tcp"], ..small() }));
    assert!(plain.cells.iter().all(|cell| cell.reason.is_none()), "{:?}", plain.cells);
}

/// The best cell where each of its trials is spoiled.
fn spoilt(spoil: impl Fn(&mut bytegauge_model::Trial)) -> bytegauge_report::view::numbers::CellView {
    let mut data = session(&small());
    let best = best(&data);
    data.trials.iter_mut().filter(|trial| trial.cell == best).for_each(spoil);
    view(&data).cell(&best).expect("the cell").clone()
}

#[test]
fn ends_of_different_windows_have_no_common_cpu() {
    let reported = |cell: &bytegauge_report::view::numbers::CellView| {
        (cell.cpu.ends_s_per_gib.is_some(), cell.median("cpu_ns_per_byte").is_some())
    };
    assert_eq!(reported(&spoilt(|_| ())), (true, true));
    // The writer was seen while the buffers were full: a tenth of the bytes in the same time.
    let cell = spoilt(|trial| trial.ends.get_mut(EndRole::Source).expect("a source").bytes /= 10);
    assert_eq!(reported(&cell), (false, false), "{:?}", cell.cpu);
    assert_eq!(cell.outcome, CellOutcome::Measured);
    let (source, sink) = (cell.cpu.source.expect("a source"), cell.cpu.sink.expect("a sink"));
    assert_eq!((source.total_s_per_gib, sink.total_s_per_gib), (None, None));
    assert!(source.cpus.is_some() && sink.cpus.is_some(), "how busy each was is known all the same");
}

#[test]
fn waits_for_a_cpu_end_with_the_window() {
    let cell = spoilt(|trial| {
        for role in [EndRole::Source, EndRole::Sink] {
            let end = trial.ends.get_mut(role).expect("an end");
            end.cpu_ns = end.window_ns / 3;
            // A wait that began before the window and is counted when it ends.
            end.queued_ns = (2 * end.window_ns).into();
        }
    });
    assert_eq!(cell.limit.name, "other programs", "{:?}", cell.limit);
    let shares: Vec<f64> = cell.limit.evidence.values().copied().collect();
    assert!(shares.iter().all(|share| *share <= 2.0 / 3.0 + 1e-6), "{shares:?}");
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1u64..1000, 1_000_000u64..100_000_000, any::<u64>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_printed_contradicts(
        spoils in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, number()), 0..80),
    ) {
        let mut data = session(&small());
        for (at, what, by) in spoils {
            let at = at.index(data.trials.len());
            let trial = &mut data.trials[at];
            let Some(sink) = trial.ends.get_mut(EndRole::Sink) else { continue };
            match what {
                0 => trial.bytes = by,
                1 => trial.wall_ns = by,
                2 => sink.calls = by,
                3 => sink.window_ns = by,
                _ => sink.cpu_ns = by,
            }
        }
        let view = view(&data);
        for cell in view.cells.iter().filter(|cell| cell.stage == Some(Stage::Confirm) && cell.outcome == CellOutcome::Measured) {
            let size = cell.level("read_size").number().expect("a size") as f64;
            if let Some((rate, reads)) = cell.estimate.median.zip(cell.median("calls_per_second")) {
                prop_assert!(rate <= reads * size * 1.3, "{rate} by {reads} reads of {size}: {}", cell.id);
            }
        }
    }
}

/// An option cannot be a little better than another one where it differs that much from itself, but it can be much better.
#[test]
fn a_wide_control_leaves_a_clear_result() {
    let state = |read_sizes: Vec<u64>| {
        let plan = Plan { seed: 11, read_sizes, write_sizes: vec![65_536], noise: 0.1, confirm_blocks: 12, ..small() };
        let view = view(&session(&plan));
        let test = &view.tests[0];
        assert!(test.control_upper.is_some_and(|upper| upper > test.margin), "{:?}", test.control_upper);
        let is_caveat = view.findings.iter().any(|one| crate::is_kind(one, "noise/control"));
        (state_of(test), is_caveat)
    };
    assert_eq!(state(vec![512, 1 << 20]), (State::Decided, false));
    assert_eq!(state(vec![768 << 10, 1 << 20]), (State::Open, true));
}
