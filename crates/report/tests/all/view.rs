//! The view of planted sessions: results, and their findings.
//! Long because views have many sides, and each is tried on the same session.

use crate::flat;
use crate::phrases;
use crate::support::{Plan, session};
use crate::{State, state_of};
use bytegauge_model::{CellId, CellKind, EndRole, GroupId, Level, Outcome, SessionStatus, Stage, Trial};
use bytegauge_report::document::ReportedFinding;
use bytegauge_report::findings::{Fact, Severity};
use bytegauge_report::results::OptionStatus;
use bytegauge_report::view::numbers::{CellOutcome, CellView, GroupView};
use bytegauge_report::words::interval_rounding::at_most;
use bytegauge_report::{Report, SessionData, Settings, render};
use serde_json::json;

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

/// One transport, one placement, quiet.
fn small() -> Plan {
    Plan { transports: vec!["unix"], noise: 0.01, ..Plan::default() }
}

fn states(view: &Report) -> Vec<State> {
    view.tests.iter().map(state_of).collect()
}

fn group<'a>(view: &'a Report, id: &str) -> &'a GroupView {
    view.groups.iter().find(|group| group.id.0 == id).expect("a group")
}

fn cells_of_kind(view: &Report, kind: CellKind) -> Vec<&CellView> {
    view.cells.iter().filter(|cell| cell.kind == kind).collect()
}

#[test]
fn each_test_recommends_an_option_of_its_own() {
    let view = view(&session(&small()));
    assert_eq!(states(&view), [State::Decided; 3]);
    for test in &view.tests {
        let own =
            test.options.iter().find(|option| test.used().map(|own| &own.id) == Some(&option.id)).expect("an option");
        assert_eq!(own.status, OptionStatus::Use, "{own:?}");
        assert!(own.slower_upper.is_some_and(|upper| upper <= view.plan.margin), "{own:?}");
    }
    // The parser needs large reads.
    let sizes = view.groups.iter().map(|group| group.recommendation.cell.as_ref().and_then(|id| view.cell(id)));
    let sizes: Vec<_> = sizes.map(|cell| cell.and_then(|cell| cell.level("read_size").number())).collect();
    assert!(sizes[2] > sizes[0], "{sizes:?}");
    assert!(phrases(&view, "scope").contains("connections 4 ms to 44 ms after they opened"), "{view:?}");
}

#[test]
fn intervals_rest_on_confirmation_only() {
    let view = view(&session(&small()));
    let (confirmed, screened): (Vec<_>, Vec<_>) =
        cells_of_kind(&view, CellKind::Candidate).into_iter().partition(|cell| cell.stage == Some(Stage::Confirm));
    assert_eq!((confirmed.len(), screened.len()), (18, 42));
    for cell in confirmed {
        assert_eq!(cell.trials, 40);
        let e = &cell.estimate;
        assert!(e.lower < e.median && e.median < e.upper, "{e:?}");
    }
    for cell in screened {
        assert_eq!((cell.trials, cell.estimate.lower, cell.estimate.upper), (2, None, None));
        assert!(cell.estimate.median.is_some());
    }
}

#[test]
fn controls_and_floors_never_compete() {
    let view = view(&session(&small()));
    assert_eq!(cells_of_kind(&view, CellKind::Twin).len(), 3);
    for cell in view.cells.iter().filter(|cell| cell.kind != CellKind::Candidate) {
        let group = group(&view, &cell.group.0);
        assert!(!group.best_set.contains(&cell.id));
    }
    let floor = cells_of_kind(&view, CellKind::Floor)[0];
    assert_eq!((floor.estimate.median, floor.limit.name), (None, "unknown"));
    let ns = view.floor.ns_per_call.expect("a floor");
    assert!((ns - 40e6 / 1.3e6).abs() < 0.01, "{ns}");
    assert!(view.floor.share.is_some_and(|share| share < 0.02));
    assert!(view.groups.iter().all(|group| group.twin.as_ref().is_some_and(|twin| !twin.alarm)));
}

/// The null engine does less than any other: one that was slower had lost its CPU.
#[test]
fn a_floor_slower_than_a_call_is_unknown() {
    let mut data = session(&small());
    for trial in data.trials.iter_mut().filter(|trial| trial.bytes == 0) {
        trial.ends.values_mut().for_each(|end| end.calls = 2);
    }
    let view = view(&data);
    assert_eq!((view.floor.ns_per_call, view.floor.share), (None, None));
    assert!(view.floor.trials > 0);
    assert!(view.cells.iter().all(|cell| cell.limit.name != "harness"));
    let printed = render::full::full(&view, &render::TerminalStyle { columns: 100, ..Default::default() });
    assert!(printed.contains("its cost is not known"), "{printed}");
}

#[test]
fn two_modes_have_their_shares() {
    let mut data = session(&small());
    let confirmed = |trial: &&Trial| trial.stage == Stage::Confirm && trial.end(EndRole::Source).is_some();
    let planted = data.trials.iter().find(confirmed).expect("a confirmed cell").cell.clone();
    let ours = data.trials.iter_mut().filter(|trial| trial.cell == planted && trial.stage == Stage::Confirm);
    // Every other block a third as fast.
    ours.step_by(2).for_each(|trial| trial.bytes /= 3);
    let view = view(&data);
    let split: Vec<_> = view.cells.iter().filter(|cell| !cell.modes.is_empty()).collect();
    let [cell] = split.as_slice() else { panic!("{} cells with modes", split.len()) };
    let [low, high] = cell.modes.as_slice() else { panic!("{:?}", cell.modes) };
    assert_eq!((&cell.id, low.share, high.share), (&planted, 0.5, 0.5));
    assert!((high.median / low.median - 3.0).abs() < 0.5, "{:?}", cell.modes);
    let text = phrases(&view, "several-speeds");
    assert!(text.contains(": 50 % of the trials take ") && text.contains("× as long"), "{text}");
}

#[test]
fn two_speeds_of_good_options_are_a_caveat() {
    let mut data = session(&small());
    // In every third block all options are a third as fast.
    data.trials.iter_mut().filter(|trial| trial.block % 3 == 0).for_each(|trial| trial.bytes /= 3);
    let view = view(&data);
    let speeds = || view.findings.iter().filter(|finding| crate::is_kind(finding, "several-speeds"));
    let of = |severity| {
        speeds()
            .filter(move |finding| finding.finding.severity == severity)
            .filter_map(|one| one.finding.option.as_ref())
    };
    let is_slower = |id: &CellId| {
        let option = view.tests.iter().find_map(|test| test.option(id)).expect("an option");
        option.status == OptionStatus::Avoid
    };
    assert!(of(Severity::Warning).count() > 0 && !of(Severity::Warning).any(is_slower));
    assert!(of(Severity::Note).count() > 0 && of(Severity::Note).all(is_slower));
    assert!(speeds().all(
        |one| matches!(one.finding.fact, Fact::SeveralSpeeds { times_most, .. } if (times_most - 3.0).abs() < 0.5)
    ));
}

#[test]
fn a_differing_control_affects_its_group_only() {
    let mut data = session(&small());
    let calm = view(&data);
    let twin = data
        .cells
        .iter()
        .find(|row| row.cell.group.0 == "g2" && row.cell.kind == CellKind::Twin)
        .expect("an A/A control");
    let twin = twin.cell.id.clone();
    let mut faster = data.clone();
    faster.trials.iter_mut().filter(|trial| trial.cell == twin).for_each(|trial| trial.bytes = trial.bytes * 10 / 9);
    data.trials.iter_mut().filter(|trial| trial.cell == twin).for_each(|trial| trial.bytes = trial.bytes * 9 / 10);
    // Whether the control is slower or faster: as much is possible between other options.
    for view in [view(&data), view(&faster)] {
        let reach = view.tests[1].control_upper.expect("a control");
        let text = phrases(&view, "control-differs");
        assert!(text.contains(&format!("wider by {}", at_most(reach))), "{reach}: {text}");
        for (own, calm) in view.tests[1].options.iter().zip(&calm.tests[1].options) {
            let Some((own, calm)) = own.slower_upper.zip(calm.slower_upper) else { continue };
            // Below 0 the best is cut off.
            assert!(own > 0.0 && own > calm, "{own} {calm}");
        }
    }
    let view = view(&data);
    let proven = |view: &Report| view.groups.iter().map(|group| group.recommendation.proven).collect::<Vec<_>>();
    assert_eq!((proven(&calm), proven(&view)), (vec![true; 3], vec![true, false, true]));
    assert_eq!(states(&view), [State::Decided, State::Open, State::Decided]);
    let found = view.findings.iter().find(|finding| crate::is_kind(finding, "control-differs")).expect("a finding");
    assert_eq!(found.finding.test.as_ref(), Some(&view.groups[1].id));
}

#[test]
fn the_bound_holds_with_the_control_exchanged() {
    let plan = Plan { profiles: vec!["sum"], finalists: 2, ..small() };
    let mut data = session(&plan);
    assert_eq!(view(&data).groups[0].recommendation.survives_exchange, Some(true));
    // The A/A control is as fast on average, but far less steady.
    let twin = data.cells.iter().find(|row| row.cell.kind == CellKind::Twin).expect("an A/A control").cell.id.clone();
    for (at, trial) in data.trials.iter_mut().filter(|trial| trial.cell == twin).enumerate() {
        let coin =
            (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD1B5_4A32_D192_ED03);
        trial.bytes = trial.bytes * [60, 80, 125, 166][(coin >> 62) as usize] / 100;
    }
    let view = view(&data);
    let group = &view.groups[0];
    let alarm = group.twin.as_ref().is_some_and(|twin| twin.alarm);
    assert_eq!(
        (group.recommendation.proven, alarm, group.recommendation.survives_exchange),
        (true, false, Some(false))
    );
    assert_eq!(states(&view), [State::Open]);
    let own = view.tests[0]
        .options
        .iter()
        .find(|option| Some(&option.id) == view.groups[0].recommendation.cell.as_ref())
        .unwrap()
        .slower_upper;
    assert_eq!(own, group.twin.as_ref().and_then(|twin| twin.exchanged_bound), "the larger bound");
    assert!(own > view.cell(group.recommendation.cell.as_ref().unwrap()).unwrap().above_best_upper);
}

#[test]
fn blocks_with_much_steal_count() {
    let mut data = session(&small());
    let stolen = |block: &&mut bytegauge_model::BlockRecord| block.group.0 == "g1" && block.stage == Stage::Confirm;
    for block in data.blocks.iter_mut().filter(stolen).take(4) {
        block.surroundings.steal_share = Some(0.2);
    }
    let view = view(&data);
    let g1 = group(&view, "g1");
    assert_eq!(g1.blocks.used, 40);
    assert!(view.cells_of(&g1.id).filter(|c| c.stage == Some(Stage::Confirm) && c.trials > 0).all(|c| c.trials == 40));
}

fn with_analyses(blocks: u64, analyses: u64, status: SessionStatus) -> SessionData {
    let mut data = session(&Plan { confirm_blocks: blocks, ..small() });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), json!(analyses));
        row.facts.insert("blocks_fixed".into(), json!(16));
    }
    data.record.status = status;
    data
}

#[test]
fn only_completed_analyses_have_results() {
    let (complete, cut_off) = (SessionStatus::Complete, SessionStatus::Incomplete);
    for (blocks, status, done, judged, so_far, next) in [
        (16, complete, 1, 16, 0, Some(32)),
        (40, complete, 2, 32, 8, Some(64)),
        (40, cut_off, 2, 32, 8, Some(64)),
        (64, cut_off, 3, 64, 0, None),
        // Stopped by the clock within the first analysis, and interrupted there.
        (12, complete, 1, 12, 0, Some(16)),
        (12, cut_off, 0, 0, 12, Some(16)),
    ] {
        let view = view(&with_analyses(blocks, 3, status));
        for group in &view.groups {
            let analysis = group.analysis.as_ref().expect("looks");
            assert_eq!(
                (analysis.done, analysis.blocks, analysis.so_far, analysis.next_blocks),
                (done, judged, so_far, next),
                "{blocks}"
            );
            assert!((analysis.level - 0.983_333).abs() < 1e-5);
            assert_eq!(group.recommendation.proven, done > 0);
            assert!(done == 0 || group.blocks.used == judged);
        }
        let valid = phrases(&view, "scope");
        assert_eq!(valid.contains("blocks measured since then count at the next"), so_far > 0 && done > 0, "{valid}");
    }
}

#[test]
fn a_copied_session_has_no_resume_command() {
    for status in [SessionStatus::Complete, SessionStatus::Incomplete] {
        let open = Plan { noise: 0.05, confirm_blocks: 8, profiles: vec!["sum"], finalists: 4, ..small() };
        let mut data = session(&open);
        for row in &mut data.groups {
            row.facts.insert("looks".into(), json!(3));
            row.facts.insert("blocks_fixed".into(), json!(8));
        }
        data.record.status = status;
        let phrases = |data: &SessionData| serde_json::to_string(&view(data)).unwrap();
        assert!(phrases(&data).contains("--resume"), "{status:?}");
        data.record.imported = true;
        assert!(!phrases(&data).contains("--resume"), "{status:?}: {:?}", view(&data).next);
    }
}

#[test]
fn blocks_after_an_analysis_change_nothing() {
    let short = view(&with_analyses(32, 3, SessionStatus::Complete));
    let long = view(&with_analyses(40, 3, SessionStatus::Complete));
    let reported = |view: &Report| -> Vec<_> {
        let all = view.groups.iter().map(|group| (group.best_set.clone(), group.recommendation.bound));
        all.collect()
    };
    assert_eq!(reported(&long).len(), 3);
    // The planted noise of the first 32 blocks of the first group is the same in both sessions.
    assert_eq!(reported(&long)[0], reported(&short)[0]);
}

#[test]
fn broken_blocks_do_not_count() {
    let mut data = session(&small());
    let broken = data.blocks.iter_mut().rfind(|block| block.group.0 == "g1").expect("a block");
    broken.complete = false;
    let index = broken.index;
    let failed = data.trials.iter_mut().find(|trial| trial.block == index).expect("a trial");
    failed.outcome = Outcome::Failed("the sink died".into());
    let failed = failed.cell.clone();
    let view = view(&data);
    assert_eq!((group(&view, "g1").blocks.used, group(&view, "g1").blocks.broken), (39, 1));
    let cell = view.cell(&failed).expect("the cell");
    assert_eq!((cell.outcome, cell.failed_trials, cell.trials), (CellOutcome::Measured, 1, 39));
}

#[test]
fn a_reader_without_work_is_a_condition() {
    let view = view(&session(&Plan { profiles: vec!["drain"], ..small() }));
    assert!(view.groups[0].throws_away && view.groups[0].recommendation.proven);
    assert!(phrases(&view, "scope").contains("readers that discard the bytes"), "{:?}", view.findings);
}

#[test]
fn more_analyses_are_counted() {
    let plan = Plan { noise: 0.05, confirm_blocks: 8, profiles: vec!["sum"], finalists: 4, ..small() };
    let mut data = session(&plan);
    let once = view(&data);
    let own = &once.groups[0].recommendation;
    assert_eq!((own.proven, own.more_blocks), (false, None));
    data.groups
        .iter_mut()
        .for_each(|row| row.facts.extend([("looks".into(), json!(3)), ("blocks_fixed".into(), json!(8))]));
    let view = view(&data);
    let own = &view.groups[0].recommendation;
    // Analyses double: 24 more.
    assert_eq!(own.more_blocks, Some(24));
}

#[test]
fn an_interrupted_session_has_no_result() {
    let mut data = session(&small());
    data.groups[0].facts.insert("blocks_fixed".into(), json!(48));
    assert_eq!(states(&view(&data)), [State::Decided; 3]);
    // A session that is stored as running, and that no process measures, was killed.
    for status in [SessionStatus::Incomplete, SessionStatus::Running] {
        data.record.status = status;
        let view = view(&data);
        assert_eq!(view.status, SessionStatus::Incomplete);
        assert_eq!(states(&view), [State::NoResult; 3]);
        assert!(view.groups.iter().all(|group| !group.recommendation.proven && group.recommendation.bound.is_none()));
        assert!(view.decisions.iter().all(|one| one.why.starts_with("the session stopped before its first analysis")));
        assert!(view.next[0].command.as_ref().is_some_and(|command| command.contains("--resume")), "{:?}", view.next);
    }
}

#[test]
fn a_broken_block_names_the_failed_cell() {
    let mut data = session(&small());
    let choices: Vec<_> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).map(|row| row.cell.id.clone()).collect();
    let of_choice = |trial: &&mut Trial| trial.stage == Stage::Confirm && choices.contains(&trial.cell);
    let failed = data.trials.iter_mut().rfind(of_choice).expect("a trial");
    failed.outcome = Outcome::Failed("no byte arrived".into());
    let (block, cell) = (failed.block, failed.cell.clone());
    data.blocks.iter_mut().filter(|record| record.index == block).for_each(|record| record.complete = false);
    let view = view(&data);
    let note = "1 block with a failed trial left out and repeated";
    assert!(view.notes.iter().any(|one| one.text.contains(note)), "{:?}", view.notes);
    let is_own =
        |one: &&ReportedFinding| crate::is_kind(one, "failed-trials") && one.finding.option.as_ref() == Some(&cell);
    let found = view.findings.iter().find(is_own).expect("a finding");
    assert!(found.text.contains("1 of ") && found.text.contains(" trials failed"), "{}", found.text);
}

#[test]
fn a_running_session_has_no_result() {
    let mut data = session(&small());
    data.groups[0].facts.insert("blocks_fixed".into(), json!(48));
    for analyses in [None, Some(3)] {
        data.groups[0].facts.extend(analyses.map(|analyses| ("looks".to_owned(), json!(analyses))));
        data.record.status = SessionStatus::Running;
        let view = Report::of(&data, &Settings { is_running: true, ..Settings::default() });
        assert_eq!(view.status, SessionStatus::Running);
        assert_eq!(states(&view), [State::NoResult; 3]);
        assert!(view.decisions.iter().all(|one| one.why == "the first analysis is not reached"));
        assert_eq!(view.next[0].text, "the session is running; results follow at its first analysis");
        let document = render::json::render(&view);
        assert!(!document.contains("cut off after") && !document.contains("interrupted after"), "{document}");
    }
}

#[test]
fn one_cell_leaves_nothing_to_compare() {
    let plan =
        Plan { read_sizes: vec![65_536], write_sizes: vec![65_536], profiles: vec!["sum"], finalists: 1, ..small() };
    let view = view(&session(&plan));
    assert_eq!(states(&view), [State::Single]);
    assert!(view.decisions[0].why.ends_with(" only: nothing to compare it with"), "{}", view.decisions[0].why);
    assert_eq!(group(&view, "g1").recommendation.cell, None);
}

#[test]
fn an_offered_load_compares_cpu() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    let paced = |levels: &mut bytegauge_model::Spec| levels.set("rate", Level::Number(100 << 20));
    data.groups.iter_mut().for_each(|row| paced(&mut row.group.factors));
    data.cells.iter_mut().for_each(|row| paced(&mut row.cell.factors));
    let view = view(&data);
    assert_eq!(view.groups[0].cost, "cpu_ns_per_byte");
    assert!(view.texts[0].columns.iter().any(|column| column.heading == "CPU s/GiB"));
    assert!(view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).all(|c| c.limit.name == "offered load"));
}

#[test]
fn an_import_claims_no_machine() {
    let mut data = session(&small());
    data.record.status = SessionStatus::Imported;
    data.record.machine = json!(null);
    data.blocks.clear();
    let view = view(&data);
    assert_eq!(view.environment.grade, None);
    assert!(phrases(&view, "scope").contains("these trials, "), "{:?}", view.findings);
}

#[test]
fn an_engine_that_moves_nothing_recommends_nothing() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    for row in &mut data.cells {
        row.cell.factors.set("engine", Level::Name("null".into()));
    }
    let view = view(&data);
    assert!(view.tests[0].used().is_none() && view.groups[0].recommendation.cell.is_none());
    assert!(view.cells[0].label.ends_with("(moves nothing)"));
}

#[test]
fn the_plain_fit_finds_the_planted_line() {
    let plan = Plan {
        transports: vec!["/dev/zero"],
        profiles: vec!["drain"],
        read_sizes: (6..16).map(|power| 1 << power).collect(),
        confirm_blocks: 0,
        noise: 0.0,
        ..Plan::default()
    };
    let mut data = session(&plan);
    // Exactly 160 ns a call and 0.022 ns a byte, whatever the blocks did.
    for trial in &mut data.trials {
        let Some(cell) =
            data.cells.iter().find(|row| row.cell.id == trial.cell && row.cell.kind == CellKind::Candidate)
        else {
            continue;
        };
        let size = cell.cell.factors.read_size().expect("a size");
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        (sink.calls, sink.bytes) = (1_000_000, 1_000_000 * size);
        sink.window_ns = 160_000_000 + 22_000 * size;
    }
    let view = Report::of(&data, &Settings { fit_max: Some(32 << 10), ..Settings::default() });
    let model = &group(&view, "g1").cost_model;
    let (call, byte) = (model.main.linear.per_call_ns.expect("a fit"), model.main.linear.per_byte_ns.expect("a fit"));
    assert!((call - 160.0).abs() < 1e-3 && (byte - 0.022).abs() < 1e-6, "{call} {byte}");
    assert_eq!((model.main.metric, model.main.fit_max), (Some("wall_ns_per_call"), Some(32 << 10)));
    assert_eq!(model.writer, None);
    let text = render::full::full(&view, &render::TerminalStyle::default());
    assert!(
        flat(&text).contains("reading costs about 160 ns a call + 0.022 ns a byte (wall time, up to 32 KiB"),
        "{text}"
    );
}

#[test]
fn a_size_beyond_the_fit_changes_no_cost() {
    let plan = Plan {
        transports: vec!["/dev/zero"],
        profiles: vec!["drain"],
        read_sizes: (6..16).map(|power| 1 << power).collect(),
        confirm_blocks: 0,
        noise: 0.0,
        ..Plan::default()
    };
    let fitted = |beyond: u64, fit_max: Option<u64>| {
        let mut data = session(&plan);
        for trial in data.trials.iter_mut().filter(|trial| trial.end(EndRole::Sink).is_some()) {
            let row = data.cells.iter().find(|row| row.cell.id == trial.cell).expect("a cell");
            let size = row.cell.factors.read_size().expect("a size");
            let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
            (sink.calls, sink.bytes) = (1_000_000, 1_000_000 * size);
            sink.window_ns = (160_000_000 + 22_000 * size) * if size > 4096 { beyond } else { 1 };
        }
        let view = Report::of(&data, &Settings { fit_max, ..Settings::default() });
        let main = view.groups[0].cost_model.main.clone();
        (main.per_call_ns, main.per_byte_ns, main.linear)
    };
    assert_eq!(fitted(1, Some(4096)), fitted(9, Some(4096)));
    assert_ne!(fitted(1, None), fitted(9, None));
}

#[test]
fn a_line_that_fits_nothing_is_left_out() {
    let plan = Plan { transports: vec!["/dev/zero"], profiles: vec!["drain"], noise: 1.0, ..Plan::default() };
    let view = view(&session(&plan));
    let main = &view.groups[0].cost_model.main;
    assert!(main.relative_error.is_some_and(|error| error > 0.25), "{main:?}");
    assert_eq!((main.per_call_ns, main.per_byte_ns, main.size_for_half), (None, None, None));
    assert_eq!((main.linear.per_call_ns, main.linear.per_byte_ns), (None, None));
    let text = render::full::full(&view, &render::TerminalStyle::default());
    assert!(!text.contains("costs about"));
}

#[test]
fn equal_trials_give_equal_bytes() {
    let plan = Plan { noise: 0.05, ..Plan::default() };
    let report = || {
        let view = view(&session(&plan));
        (render::json::render(&view), render::full::full(&view, &render::TerminalStyle::default()))
    };
    assert_eq!(report(), report());
}

#[test]
fn unmeasured_options_have_their_reason() {
    let mut data = session(&small());
    let added = |kind: CellKind| kind != CellKind::Candidate;
    for row in data.cells.iter_mut().filter(|row| added(row.cell.kind)) {
        row.outcome = Some(Outcome::Skipped("planted".into()));
        data.trials.retain(|trial| trial.cell != row.cell.id);
    }
    let reasons = |data: &SessionData| {
        let texts = view(data).texts;
        texts.into_iter().flat_map(|texts| texts.without_result).collect::<Vec<_>>().join("\n")
    };
    assert!(!reasons(&data).contains("skipped"), "{}", reasons(&data));
    let row = data.cells.iter_mut().find(|row| row.cell.kind == CellKind::Candidate).unwrap();
    row.outcome = Some(Outcome::Skipped("planted".into()));
    let left = row.cell.id.clone();
    data.trials.retain(|trial| trial.cell != left);
    assert!(reasons(&data).contains("skipped: planted"), "{}", reasons(&data));
}

#[test]
fn the_product_of_a_path_is_a_finding() {
    let why = |host: &str, trip_us: u64| {
        let mut data = session(&Plan { transports: vec!["tcp"], ..small() });
        let host = Level::Name(host.into());
        data.groups.iter_mut().for_each(|row| row.group.factors.set("host", host.clone()));
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("host", host.clone()));
        for trial in &mut data.trials {
            for role in [EndRole::Source, EndRole::Sink] {
                let flows = trial.ends.get_mut(role).into_iter().flat_map(|end| &mut end.flows);
                flows.filter_map(|flow| flow.tcp.as_mut()).for_each(|tcp| tcp.min_rtt_us = trip_us.into());
            }
        }
        phrases(&view(&data), "scope")
    };
    let far = why("192.0.2.7:4711", 20_000);
    assert!(far.contains("delay × rate of the path, as measured, is ") && far.contains(" (20 ms × "), "{far}");
    // A cable, and the same machine.
    assert!(!why("192.0.2.7:4711", 100).contains("delay × rate") && !why("auto", 20_000).contains("delay × rate"));
}

#[test]
fn failed_options_have_no_bottleneck() {
    let mut data = session(&small());
    let mut groups: Vec<GroupId> = Vec::new();
    let candidates = data.cells.iter_mut().rev().filter(|row| row.cell.kind == CellKind::Candidate);
    for row in candidates {
        if groups.contains(&row.cell.group) {
            row.outcome = Some(Outcome::Failed("the relay broke off".into()));
            data.trials.retain(|trial| trial.cell != row.cell.id);
        } else {
            groups.push(row.cell.group.clone());
        }
    }
    for texts in view(&data).texts {
        let limit = texts.facts.into_iter().find(|fact| fact.heading == "Bottleneck").expect("a bottleneck").text;
        assert!(!limit.contains("nothing was measured"), "{limit}");
    }
}

#[test]
fn one_remaining_option_has_no_comparison() {
    let mut data = session(&small());
    let mut kept: Vec<GroupId> = Vec::new();
    for row in data.cells.iter_mut().filter(|row| row.cell.kind == CellKind::Candidate) {
        if kept.contains(&row.cell.group) {
            row.outcome = Some(Outcome::Skipped("io_uring is refused here".into()));
            data.trials.retain(|trial| trial.cell != row.cell.id);
        } else {
            kept.push(row.cell.group.clone());
        }
    }
    let one = view(&data);
    assert_eq!(states(&one), [State::Single; 3]);
    let options = one.tests.iter().flat_map(|test| &test.options);
    let skipped: Vec<_> = options.filter(|option| option.status == OptionStatus::Skipped).collect();
    assert!(!skipped.is_empty());
    assert!(skipped.iter().all(|option| option.reason.as_deref() == Some("io_uring is refused here")));
    assert_eq!(one.next[0].command.as_deref(), Some("bytegauge doctor"));
}

#[test]
fn only_an_interrupted_session_can_resume() {
    let mut data = session(&small());
    let left = data.cells[0].cell.id.clone();
    data.trials.retain(|trial| trial.cell != left);
    let reason = |data: &SessionData| view(data).cell(&left).unwrap().reason.clone().unwrap();
    assert_eq!(reason(&data), "the session ended before it was measured");
    data.record.status = SessionStatus::Incomplete;
    assert_eq!(reason(&data), "the session ended before it was measured: go on with --resume");
}

#[test]
fn a_single_option_has_no_bound() {
    let plan = Plan {
        read_sizes: vec![64 << 10],
        write_sizes: vec![64 << 10],
        finalists: 1,
        profiles: vec!["sum"],
        ..small()
    };
    let view = view(&session(&plan));
    let cells = cells_of_kind(&view, CellKind::Candidate);
    assert!(cells.iter().all(|cell| cell.estimate.median.is_some() && cell.above_best_upper.is_none()));
}

#[test]
fn different_ages_of_connections_are_reported() {
    let holds = |older: u64| {
        let mut data = session(&small());
        let second = data.groups.last().expect("groups").group.id.clone();
        let cells: Vec<_> =
            data.cells.iter().filter(|row| row.cell.group == second).map(|row| row.cell.id.clone()).collect();
        for trial in data.trials.iter_mut().filter(|trial| cells.contains(&trial.cell)) {
            trial.warmup_ns *= older;
            trial.wall_ns *= older;
        }
        phrases(&view(&data), "scope")
    };
    assert!(holds(1).contains("connections 4 ms to 44 ms after they opened"), "{}", holds(1));
    assert!(holds(10).contains("connections 4 ms to 440 ms after they opened"), "{}", holds(10));
}

#[test]
fn single_trials_of_an_import_have_no_result() {
    let mut data = session(&Plan { confirm_blocks: 1, ..small() });
    data.record.status = SessionStatus::Imported;
    let view = view(&data);
    assert_eq!(states(&view), [State::NoResult; 3]);
    assert!(view.decisions[0].why.starts_with("too few trials for an interval"), "{}", view.decisions[0].why);
}

#[test]
fn the_screen_reports_that_nothing_was_measured() {
    let mut data = session(&small());
    for trial in &mut data.trials {
        trial.outcome = Outcome::Failed("the server is gone: start it again".into());
    }
    let screen = render::screen::render(&view(&data), &render::TerminalStyle { columns: 80, ..Default::default() });
    assert!(screen.contains("nothing was measured"), "{screen}");
}
