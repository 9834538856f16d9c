//! The view on planted sessions: what is proven, what is not, and what is said about it.

mod support;

use bytegauge_model::{CellKind, EndRole, Level, Outcome, SessionStatus, Stage};
use bytegauge_report::view::document::{CellView, GroupView, VerdictView};
use bytegauge_report::{SessionData, Settings, View, render};
use serde_json::json;
use support::{Plan, session};

fn view(data: &SessionData) -> View {
    View::of(data, &Settings::default())
}

/// One transport, one placement, quiet.
fn small() -> Plan {
    Plan { transports: vec!["unix"], noise: 0.01, ..Plan::default() }
}

fn only_verdict(view: &View) -> &VerdictView {
    let [verdict] = view.verdicts.as_slice() else { panic!("{} verdicts", view.verdicts.len()) };
    verdict
}

fn group<'a>(view: &'a View, id: &str) -> &'a GroupView {
    view.groups.iter().find(|group| group.id.0 == id).expect("a group")
}

fn cells_of_kind(view: &View, kind: CellKind) -> Vec<&CellView> {
    view.cells.iter().filter(|cell| cell.kind == kind).collect()
}

#[test]
fn one_choice_is_proven_over_every_profile() {
    let view = view(&session(&small()));
    let verdict = only_verdict(&view);
    assert_eq!(verdict.profiles, ["drain", "sum", "parser"]);
    assert!(verdict.recommendation.proven, "{}", verdict.recommendation.text);
    // The parser needs 1 MiB reads; among the choices confirmed in every profile the smallest good one is named.
    assert_eq!(verdict.recommendation.choice.get("read_size"), Some(&json!(1 << 20)));
    assert_eq!(verdict.recommendation.cells.len(), 3);
    let text = &verdict.recommendation.text;
    for part in [
        "Unix sockets, ends on different CPUs: read with 1 MiB and write with ",
        "within 5 % of the best confirmed, whether the reader drains, sums or parses (shown at 95 %, this machine, this boot)",
        "Nothing smaller was shown as good.",
        "(environment B, steal 0.3 %, noise floor ",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn where_profiles_disagree_the_boundary_is_said() {
    let plan = Plan {
        profiles: vec!["sum", "parser"],
        read_sizes: vec![16 << 10, 1 << 20],
        write_sizes: vec![64 << 10],
        finalists: 2,
        ..small()
    };
    let mut data = session(&plan);
    // A world in which large reads hurt a reader that only sums.
    let hurt: Vec<_> = data
        .cells
        .iter()
        .filter(|row| row.cell.group.0 == "g1" && row.cell.factors.get("read_size").number() == Some(1 << 20))
        .map(|row| row.cell.id.clone())
        .collect();
    data.trials.iter_mut().filter(|trial| hurt.contains(&trial.cell)).for_each(|trial| trial.bytes /= 3);
    let view = view(&data);
    let verdict = only_verdict(&view);
    assert!(!verdict.recommendation.proven && view.groups.iter().all(|group| group.recommendation.proven));
    let expected = "no one choice was shown for every reader: to read with 16 KiB is enough until the reader parses; \
                    then read with 1 MiB.";
    assert!(verdict.recommendation.text.contains(expected), "{}", verdict.recommendation.text);
}

#[test]
fn intervals_stand_on_confirmation_alone() {
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
        assert!(group(&view, &cell.group.0).undecided.contains(&cell.id));
    }
}

#[test]
fn twins_and_floors_are_shown_and_never_compete() {
    let view = view(&session(&small()));
    assert_eq!(cells_of_kind(&view, CellKind::Twin).len(), 3);
    for cell in view.cells.iter().filter(|cell| cell.kind != CellKind::Candidate) {
        let group = group(&view, &cell.group.0);
        assert!(!group.best_set.contains(&cell.id) && !group.undecided.contains(&cell.id));
    }
    let floor = cells_of_kind(&view, CellKind::Floor)[0];
    assert_eq!((floor.estimate.median, floor.limit.name), (None, "unknown"));
    let ns = view.floor.ns_per_call.expect("a floor");
    assert!((ns - 40e6 / 1.3e6).abs() < 0.01, "{ns}");
    assert!(view.floor.share.is_some_and(|share| share < 0.02));
    assert!(view.groups.iter().all(|group| group.twin.as_ref().is_some_and(|twin| !twin.alarm)));
}

#[test]
fn a_twin_that_differs_silences_everything() {
    let view = view(&session(&Plan { twin_bias: 0.05, ..small() }));
    assert_eq!(view.environment.grade, Some('D'));
    let verdict = only_verdict(&view);
    assert!(!verdict.recommendation.proven && verdict.recommendation.cells.is_empty());
    assert!(verdict.recommendation.text.contains("twin alarm"), "{}", verdict.recommendation.text);
    assert!(view.groups.iter().all(|group| group.recommendation.cell.is_none() && !group.recommendation.proven));
}

#[test]
fn steal_above_five_per_cent_is_unfit() {
    let view = view(&session(&Plan { steal: 0.07, ..small() }));
    assert_eq!(view.environment.grade, Some('D'));
    assert!(only_verdict(&view).recommendation.text.contains("nothing is recommended: environment D (steal 7.0 %"));
    // Every block breached: the numbers are still shown.
    assert!(view.cells.iter().any(|cell| cell.stage == Some(Stage::Confirm) && cell.estimate.median.is_some()));
}

#[test]
fn breaching_blocks_are_left_out_and_said() {
    let mut data = session(&small());
    let stolen: Vec<u64> = data
        .blocks
        .iter_mut()
        .filter(|block| block.group.0 == "g1" && block.stage == Stage::Confirm)
        .take(4)
        .map(|block| {
            block.surroundings.steal_share = Some(0.2);
            block.index
        })
        .collect();
    for trial in data.trials.iter_mut().filter(|trial| stolen.contains(&trial.block)) {
        trial.bytes /= 3;
    }
    let view = view(&data);
    let g1 = group(&view, "g1");
    assert_eq!((g1.blocks.used, g1.blocks.breached), (36, 4));
    assert!(view.cells_of(&g1.id).filter(|c| c.stage == Some(Stage::Confirm) && c.trials > 0).all(|c| c.trials == 36));
    assert!(view.notes.iter().any(|note| note.contains("4 blocks with more than 5 % steal were left out")));
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
    assert_eq!((cell.outcome, cell.failed_trials, cell.trials), ("measured", 1, 39));
}

#[test]
fn draining_alone_is_never_proven_for_the_machine() {
    let view = view(&session(&Plan { profiles: vec!["drain"], ..small() }));
    let verdict = only_verdict(&view);
    assert!(!verdict.recommendation.proven);
    assert!(verdict.recommendation.text.contains("is enough for a reader that throws the bytes away"));
    assert!(group(&view, "g1").recommendation.proven);
    assert!(group(&view, "g1").recommendation.text.contains("throws the bytes away"));
}

#[test]
fn another_placement_is_worth_a_remark() {
    let view = view(&session(&Plan { placements: vec!["cross-core", "same-cpu"], ..small() }));
    let [cross, same] = view.verdicts.as_slice() else { panic!("two verdicts") };
    let check = |verdict: &VerdictView, part: &str| {
        assert!(verdict.recommendation.text.contains(part), "{}", verdict.recommendation.text);
    };
    check(cross, "Ends on the same CPU would reach 10.");
    check(cross, ": placement matters more than buffers here.");
    check(same, "Ends on different CPUs would reach only 4.");
}

#[test]
fn what_would_settle_it() {
    let view = view(&session(&Plan { noise: 0.05, confirm_blocks: 8, profiles: vec!["sum"], finalists: 4, ..small() }));
    let verdict = only_verdict(&view);
    assert!(!verdict.recommendation.proven, "{}", verdict.recommendation.text);
    let blocks = verdict.recommendation.more_blocks.expect("a forecast");
    let seconds = verdict.recommendation.more_seconds.expect("a forecast");
    assert!((seconds - 0.42 * blocks as f64).abs() < 1e-6);
    let text = &verdict.recommendation.text;
    assert!(text.contains(&format!("about {blocks} more block")) && text.contains("--budget "), "{text}");
}

#[test]
fn a_session_without_confirmation_recommends_nothing() {
    let mut data = session(&Plan { confirm_blocks: 0, ..small() });
    data.record.status = SessionStatus::Incomplete;
    let view = view(&data);
    let text = &only_verdict(&view).recommendation.text;
    assert!(text.contains("nothing was confirmed; the fastest look was to read with "), "{text}");
    assert!(text.contains("go on with --resume"), "{text}");
}

#[test]
fn what_was_cut_off_proves_nothing() {
    let mut data = session(&small());
    data.groups[0].facts.insert("blocks_fixed".into(), json!(48));
    assert!(only_verdict(&view(&data)).recommendation.proven);
    for status in [SessionStatus::Incomplete, SessionStatus::Running] {
        data.record.status = status;
        let view = view(&data);
        let verdict = only_verdict(&view);
        let groups = view.groups.iter().map(|group| (group.recommendation.proven, &group.recommendation.text));
        for (proven, text) in groups.chain([(verdict.recommendation.proven, &verdict.recommendation.text)]) {
            assert!(!proven, "{text}");
            assert!(text.contains("not proven (interrupted after 40 of 48 blocks"), "{text}");
            assert!(text.contains("--resume") && !text.contains("shown at"), "{text}");
        }
    }
}

#[test]
fn one_cell_leaves_nothing_to_compare() {
    let plan =
        Plan { read_sizes: vec![65_536], write_sizes: vec![65_536], profiles: vec!["sum"], finalists: 1, ..small() };
    let view = view(&session(&plan));
    let verdict = only_verdict(&view);
    assert!(verdict.recommendation.text.contains("One cell was measured, so there is nothing to compare."));
    assert_eq!((verdict.recommendation.proven, &group(&view, "g1").recommendation.cell), (false, &None));
}

#[test]
fn an_offered_load_compares_cpu() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    let paced = |levels: &mut bytegauge_model::Levels| levels.set("rate", Level::Number(100 << 20));
    data.groups.iter_mut().for_each(|row| paced(&mut row.group.factors));
    data.cells.iter_mut().for_each(|row| paced(&mut row.cell.factors));
    let view = view(&data);
    assert_eq!(view.groups[0].cost, "cpu_ns_per_byte");
    assert!(only_verdict(&view).recommendation.text.contains("CPU s/GiB"));
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
    let text = &only_verdict(&view).recommendation.text;
    assert!(text.contains("(shown at 95 %, these trials alone)"), "{text}");
}

#[test]
fn an_engine_that_moves_nothing_recommends_nothing() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    for row in &mut data.cells {
        row.cell.factors.set("engine", Level::Name("null".into()));
    }
    let view = view(&data);
    assert!(only_verdict(&view).recommendation.text.contains("its engine moves nothing"));
    assert!(view.cells[0].label.ends_with("(moves nothing)"));
}

#[test]
fn what_lies_off_the_curve_is_given_with_what_goes_with_it() {
    let plan = Plan {
        transports: vec!["/dev/zero"],
        profiles: vec!["drain"],
        read_sizes: (6..12).map(|power| 1 << power).collect(),
        confirm_blocks: 0,
        screen_blocks: 8,
        ..Plan::default()
    };
    let mut data = session(&plan);
    for trial in &mut data.trials {
        let row = data.cells.iter().find(|row| row.cell.id == trial.cell).expect("a cell");
        let size = row.cell.factors.get("read_size").number().expect("a size");
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        // Every second block was preempted and is 2 % slower; no read is short.
        let preempted = trial.block % 2;
        (sink.calls, sink.bytes, sink.short_calls) = (1_000_000, 1_000_000 * size, 0);
        (sink.voluntary_switches, sink.involuntary_switches) = (0, 5_000 * preempted);
        sink.window_ns = (160_000_000 + 22_000 * size) * (100 + 2 * preempted) / 100;
    }
    let view = view(&data);
    let slice = view.groups[0].cost_model.reader.as_ref().expect("a slice");
    let residuals = slice.residuals.as_ref().expect("residuals");
    assert_eq!((residuals.len(), slice.trials), (48, 48));
    for residual in residuals {
        let block = residual.block;
        assert_eq!(residual.ln > 0.0, block % 2 == 1, "{residual:?}");
        assert!((0.009..0.011).contains(&residual.ln.abs()), "{residual:?}");
        assert!(data.trials.iter().any(|trial| trial.cell == residual.cell && trial.block == block), "{residual:?}");
    }
    assert!(slice.residual_correlation.context_switches.is_some_and(|r| r > 0.99), "{slice:?}");
    assert_eq!(slice.residual_correlation.short_call_share, None, "the same in every trial");
    assert_eq!(view.groups[0].cost_model.main.residuals, slice.residuals);
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
        let size = cell.cell.factors.get("read_size").number().expect("a size");
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        (sink.calls, sink.bytes) = (1_000_000, 1_000_000 * size);
        sink.window_ns = 160_000_000 + 22_000 * size;
    }
    let view = View::of(&data, &Settings { fit_max: Some(32 << 10), ..Settings::default() });
    let model = &group(&view, "g1").cost_model;
    let (call, byte) = (model.main.linear.per_call_ns.expect("a fit"), model.main.linear.per_byte_ns.expect("a fit"));
    assert!((call - 160.0).abs() < 1e-3 && (byte - 0.022).abs() < 1e-6, "{call} {byte}");
    assert_eq!((model.main.metric, model.main.fit_max), (Some("wall_ns_per_call"), Some(32 << 10)));
    assert_eq!(model.writer, None);
}

#[test]
fn the_same_trials_give_the_same_bytes() {
    let plan = Plan { noise: 0.05, ..Plan::default() };
    let report = || {
        let view = view(&session(&plan));
        (render::json::render(&view), render::terminal::render(&view, &render::TerminalStyle::default()))
    };
    assert_eq!(report(), report());
}
