//! No two numbers that are printed of the same trials refute each other.

use crate::phrases;
use crate::several::one_of_several;
use crate::support::{Plan, session};
use bytegauge_compare::HistoryView;
use bytegauge_model::{EndRole, EngineReport, Level, SessionId, SessionStatus, Stage, Trial};
use bytegauge_report::view::document::FindingKind;
use bytegauge_report::{SessionData, Settings, View, render};
use serde_json::json;

/// One question about reads of four sizes.
fn reads(noise: f64) -> Plan {
    Plan {
        transports: vec!["tcp"],
        profiles: vec!["sum"],
        read_sizes: vec![1 << 10, 16 << 10, 64 << 10, 256 << 10],
        write_sizes: vec![64 << 10],
        finalists: 4,
        confirm_blocks: 12,
        noise,
        ..Plan::default()
    }
}

fn view(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// Declares analyses, of which the first ends with `first` blocks.
fn with_looks(mut data: SessionData, first: u64) -> SessionData {
    for row in &mut data.groups {
        row.facts.insert("looks".into(), json!(3));
        row.facts.insert("blocks_fixed".into(), json!(first));
    }
    data
}

/// The indices of the confirmation blocks, in their order.
fn confirmed(data: &SessionData) -> Vec<u64> {
    data.blocks.iter().filter(|block| block.stage == Stage::Confirm).map(|block| block.index).collect()
}

#[test]
fn compared_sessions_show_the_rates_of_their_reports() {
    let before = session(&reads(0.05));
    let mut after = session(&Plan { seed: 9, ..reads(0.05) });
    after.record.id = SessionId(13);
    // Slow trials, of which the session before has none: the mean falls, the median does not.
    after.trials.iter_mut().filter(|trial| trial.block % 4 == 0).for_each(|trial| trial.bytes /= 20);
    after.trials.iter_mut().for_each(|trial| trial.bytes = trial.bytes * 11 / 10);
    let sessions = [before, after];
    let (before, after) = sessions.split_at(1);
    let compared = HistoryView::of(before, after, &Settings::default()).expect("something before");
    let (before, after) = (view(&before[0]), view(&after[0]));
    let named = before.groups[0].recommendation.cell.as_ref().and_then(|id| before.cell(id)).expect("a choice");
    let later = after.cells.iter().find(|cell| cell.label == named.label).expect("the same");
    let line = &compared.lines[0];
    for (shown, of_report) in [(line.rate_before, named), (line.rate_after, later)] {
        let (shown, of_report) = shown.zip(of_report.estimate.median).expect("rates");
        assert!((shown / of_report - 1.0).abs() < 1e-9, "{shown} {of_report}");
    }
    // The difference of time follows from the two rates.
    let [was, is] = [named, later].map(|cell| cell.estimate.median.expect("a rate"));
    assert!(
        is > was && line.difference.longer.is_some_and(|longer| (longer - (1.0 - is / was)).abs() < 1e-9),
        "{line:?}"
    );
}

#[test]
fn a_test_without_a_later_result_decides_nothing() {
    let of = |number: u64| session(&Plan { transports: vec!["unix", "tcp"], ..one_of_several(number, 12) });
    let before: Vec<SessionData> = (0..6).map(of).collect();
    let compared = |after: SessionData| {
        let settings = Settings { margin: Some(0.3), ..Settings::default() };
        let view = HistoryView::of(&before, &[after], &settings).expect("something before");
        (view.verdict, view.text)
    };
    let whole = of(9);
    assert_eq!(compared(whole.clone()).1, "equivalent: 0 of 2 tests slower by more than 30 %");
    let mut lost = whole;
    let has_group = |data: &SessionData, trial: &Trial, group: &str| {
        data.cells.iter().any(|row| row.cell.id == trial.cell && row.cell.group.0 == group)
    };
    let kept: Vec<Trial> = lost.trials.iter().filter(|trial| has_group(&lost, trial, "g1")).cloned().collect();
    lost.trials = kept;
    let (verdict, text) = compared(lost.clone());
    assert!(verdict == "open" && text.starts_with("inconclusive: 0 of 1 test slower by more than 30 %"), "{text}");
    assert!(text.contains("; no result after: ") && text.contains("TCP"), "{text}");
    lost.trials.iter_mut().for_each(|trial| trial.bytes /= 4);
    let (verdict, text) = compared(lost);
    assert!(verdict == "worse" && text.contains("; no result after: "), "{text}");
}

#[test]
fn blocks_after_an_analysis_are_in_no_number() {
    let plan = reads(0.05);
    let few = with_looks(session(&plan), 8);
    let mut judged = few.clone();
    let later: Vec<u64> = confirmed(&few).split_off(8);
    judged.trials.retain(|trial| !later.contains(&trial.block));
    judged.blocks.retain(|block| !later.contains(&block.index));
    let mut more = few;
    more.trials.iter_mut().filter(|trial| later.contains(&trial.block)).for_each(|trial| trial.bytes /= 3);
    let (judged, more) = (view(&judged), view(&more));
    assert_eq!(judged.cells, more.cells);
    assert_eq!(judged.tests, more.tests);
    assert_eq!(judged.groups[0].avoid, more.groups[0].avoid);
    assert_eq!(judged.groups[0].course, more.groups[0].course);
    // The report states that they are left out, with the time of the others.
    assert!(more.judged_ns < more.elapsed_ns && judged.judged_ns.is_none(), "{:?}", more.judged_ns);
    let valid = |view: &View| phrases(view, FindingKind::ValidFor);
    assert!(valid(&more).contains("4 blocks measured since"), "{}", valid(&more));
    assert!(!valid(&judged).contains("measured since"));
}

#[test]
fn the_harness_cost_fits_the_rates() {
    let share = |stretched: u64| {
        let mut data = session(&reads(0.01));
        for end in data.trials.iter_mut().flat_map(|trial| trial.ends.values_mut()) {
            // An end whose own window is longer than that of the bytes.
            end.window_ns = end.window_ns * stretched / 100;
            end.flows.iter_mut().for_each(|flow| flow.window_ns = flow.window_ns * stretched / 100);
        }
        let view = view(&data);
        let cell = view.floor.fastest_cell.as_ref().and_then(|id| view.cell(id)).expect("a cell");
        (view.floor.fastest_ns_per_call.expect("a call"), cell.estimate.median.expect("a rate"))
    };
    let (plain, stretched) = (share(100), share(102));
    assert!(
        (plain.0 * plain.1 - stretched.0 * stretched.1).abs() < 1e-6 * plain.0 * plain.1,
        "{plain:?} {stretched:?}"
    );
}

#[test]
fn few_blocks_are_a_finding() {
    let mut data = with_looks(session(&Plan { confirm_blocks: 9, ..reads(0.01) }), 20);
    let view = view(&data);
    assert!(view.groups[0].recommendation.proven);
    let few = |view: &View| {
        view.findings
            .iter()
            .any(|finding| finding.text.contains("9 blocks measured in the time given, fewer than the 20 planned"))
    };
    assert!(few(&view), "{:?}", view.findings);
    data = with_looks(data, 9);
    assert!(!few(&self::view(&data)));
}

#[test]
fn an_imported_session_has_no_forecast() {
    let mut reported = 0;
    for seed in 1..=6 {
        let mut data = with_looks(session(&Plan { seed, ..reads(0.12) }), 8);
        let here = view(&data);
        data.record.status = SessionStatus::Imported;
        data.record.imported = true;
        let view = view(&data);
        let text = render::terminal::full(&view, &render::TerminalStyle::default());
        assert!(!text.contains("likely to decide") && !text.contains("--resume"), "{text}");
        reported += usize::from(here.next.iter().any(|step| step.text.contains("likely to decide")));
    }
    assert!(reported > 0);
}

#[test]
fn congestion_control_over_loopback_is_a_caveat() {
    for (transport, expected) in [("tcp", true), ("unix", false)] {
        let mut data = session(&Plan { transports: vec![transport], ..reads(0.01) });
        for row in &mut data.cells {
            let name = if row.cell.factors.read_size() == Some(1024) { "bbr" } else { "cubic" };
            if expected {
                row.cell.factors.set("congestion", Level::Name(name.into()));
            }
        }
        let text = phrases(&view(&data), FindingKind::CongestionOverLoopback);
        assert_eq!(text.contains("a network may differ"), expected, "{text}");
    }
}

/// A size that is best under bbr may be slow under cubic, and bbr itself slow over loopback.
#[test]
fn unnamed_congestion_control_is_a_caveat() {
    let seen = |transport: &'static str, default: &str| {
        let mut data = session(&Plan { transports: vec![transport], ..reads(0.01) });
        data.record.machine["network"]["congestion_control"] = default.into();
        data.record.plan["asked"] = serde_json::json!(["run", "buffer-size"]);
        let view = view(&data);
        let commands = view.next.iter().filter_map(|step| step.command.as_deref());
        let compares = commands.filter(|command| command.ends_with(" --congestion cubic,bbr")).count();
        (phrases(&view, FindingKind::CongestionNotCompared), compares)
    };
    let (text, compares) = seen("tcp", "bbr");
    assert!(text.starts_with("TCP used bbr, the default here."), "{text}");
    assert_eq!(compares, 1);
    assert_eq!((seen("tcp", "cubic"), seen("unix", "bbr")), ((String::new(), 0), (String::new(), 0)));
}

#[test]
fn compared_options_without_effect_are_a_caveat() {
    let text = |polled: Option<u64>| {
        let mut data = session(&reads(0.01));
        for row in &mut data.cells {
            let level =
                polled.filter(|_| row.cell.factors.read_size() == Some(1024)).map_or(Level::auto(), Level::Number);
            row.cell.factors.set("busy_poll", level);
        }
        phrases(&view(&data), FindingKind::NoEffect)
    };
    assert_eq!(text(Some(50_000)), "SO_BUSY_POLL has no effect here: loopback has no device queue to poll.");
    assert_eq!(text(None), "");
}

/// Where all options copy, none is worse for it: the session's caveat reports it.
#[test]
fn copies_that_all_options_make_are_one_caveat() {
    let engine = |sends: bool| match sends {
        true => EngineReport { zero_copy: 100, zero_copy_copied: 100, ..EngineReport::default() },
        false => EngineReport { mapping_calls: 10, mapped_bytes: 0, ..EngineReport::default() },
    };
    for (role, sends, expected) in [
        (EndRole::Source, true, "The kernel copied 100 % of the zero-copy sends, as always over loopback"),
        (EndRole::Sink, false, "The kernel copied 100 % of the bytes that TCP_ZEROCOPY_RECEIVE asked it to map"),
    ] {
        let mut data = session(&Plan { transports: vec!["tcp"], ..reads(0.01) });
        for end in data.trials.iter_mut().filter_map(|trial| trial.ends.get_mut(role)) {
            end.engine = Some(Box::new(engine(sends)));
            end.total_bytes = 1 << 20;
        }
        let caveats = |view: &View| -> Vec<String> {
            let caveats = view.summary.iter().filter(|line| line.heading == "Caveat");
            caveats.map(|line| line.text.clone()).filter(|text| text.contains("The kernel copied")).collect()
        };
        let found = caveats(&view(&data));
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

#[test]
fn other_programs_are_a_finding_without_a_limit() {
    let mut data = session(&reads(0.01));
    for end in data.trials.iter_mut().flat_map(|trial| trial.ends.values_mut()) {
        (end.cpu_ns, end.queued_ns, end.voluntary_switches) = (end.window_ns / 4, 0.into(), 0);
        for flow in &mut end.flows {
            (flow.cpu_ns, flow.user_ns, flow.system_ns) = (flow.window_ns / 4, flow.window_ns / 8, flow.window_ns / 8);
            flow.voluntary_switches = 0;
        }
    }
    let seen = |data: &SessionData| {
        let view = view(data);
        let limit = view.tests[0].bottleneck.as_ref().expect("a bottleneck").limit;
        (limit, phrases(&view, FindingKind::OtherPrograms))
    };
    assert_eq!(seen(&data), ("unknown", String::new()));
    data.blocks.iter_mut().for_each(|block| block.surroundings.foreign_cpus = Some(1.4));
    assert_eq!(seen(&data), ("unknown", "Other programs used 1.4 of 2 CPUs.".to_owned()));
}
