//! The view on planted sessions: what is proven, what is not, and what is said about it.
//! Long because views have many sides, and each is tried on the same session.

use std::collections::BTreeSet;

use crate::support::{Plan, session};
use bytegauge_model::{CellKind, EndRole, GroupId, Level, Outcome, SessionStatus, Stage, Trial};
use bytegauge_report::view::document::{CellView, GroupView, Standing, VerdictView};
use bytegauge_report::{SessionData, Settings, View, render};
use serde_json::json;

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
        "within 5 % of the best confirmed, whether the reader drains, sums or parses (takes at most ",
        " more time, shown at 95 %, these ",
        " s, connections 4 to 44 ms after they opened)",
        "Nothing smaller was shown as good.",
        "(machine B of A to D, steal 0.3 %, measured twice: equal to within ",
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
        .filter(|row| row.cell.group.0 == "g1" && row.cell.factors.read_size() == Some(1 << 20))
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

/// The null engine does less than any other: one that was slower had lost its CPU.
#[test]
fn a_floor_that_is_slower_than_a_real_call_is_not_known() {
    let mut data = session(&small());
    for trial in data.trials.iter_mut().filter(|trial| trial.bytes == 0) {
        trial.ends.0.values_mut().for_each(|end| end.calls = 2);
    }
    let view = view(&data);
    assert_eq!((view.floor.ns_per_call, view.floor.share), (None, None));
    assert!(view.floor.trials > 0);
    assert!(view.cells.iter().all(|cell| cell.limit.name != "harness"));
    let printed = render::terminal::full(&view, &render::TerminalStyle { columns: 100, ..Default::default() });
    assert!(printed.contains("something disturbed it"), "{printed}");
}

#[test]
fn a_cell_with_two_modes_is_told_with_their_shares() {
    let mut data = session(&small());
    let confirmed = |trial: &&Trial| trial.stage == Stage::Confirm && trial.end(EndRole::Source).is_some();
    let planted = data.trials.iter().find(confirmed).expect("a confirmed cell").cell.clone();
    let ours = data.trials.iter_mut().filter(|trial| trial.cell == planted && trial.stage == Stage::Confirm);
    // Every other block a third as fast.
    ours.step_by(2).for_each(|trial| trial.bytes /= 3);
    let view = view(&data);
    let split: Vec<_> = view.cells.iter().filter(|cell| cell.modes.is_some()).collect();
    let [cell] = split.as_slice() else { panic!("{} cells with modes", split.len()) };
    let [low, high] = cell.modes.as_ref().unwrap().modes.as_slice() else { panic!("{:?}", cell.modes) };
    assert_eq!((&cell.id, low.share, high.share), (&planted, 0.5, 0.5));
    assert!((high.median / low.median - 3.0).abs() < 0.5, "{:?}", cell.modes);
    let text = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(text.contains(&format!("({planted}) has more than one speed: ")), "{text}");
}

#[test]
fn a_twin_that_differs_silences_its_own_group() {
    let mut data = session(&small());
    let calm = view(&data);
    let twin =
        data.cells.iter().find(|row| row.cell.group.0 == "g2" && row.cell.kind == CellKind::Twin).expect("a twin");
    let twin = twin.cell.id.clone();
    data.trials.iter_mut().filter(|trial| trial.cell == twin).for_each(|trial| trial.bytes = trial.bytes * 9 / 10);
    let view = view(&data);
    let proven = |view: &View| view.groups.iter().map(|group| group.recommendation.proven).collect::<Vec<_>>();
    assert_eq!((proven(&calm), proven(&view)), (vec![true; 3], vec![true, false, true]));
    // The bound stands and is said; over all readers nothing is proven.
    assert!(view.groups.iter().all(|group| group.recommendation.bound.is_some()));
    let recommendation = &only_verdict(&view).recommendation;
    assert!(!recommendation.proven && recommendation.cells.len() == 3 && recommendation.bound.is_some());
    for part in
        ["not proven (twin alarm: the same cell measured twice in every block of g2 was 11.5 % apart", "takes at most "]
    {
        assert!(recommendation.text.contains(part), "{}", recommendation.text);
    }
}

#[test]
fn what_is_proven_of_one_twin_alone_is_told() {
    let plan = Plan { profiles: vec!["sum"], finalists: 2, ..small() };
    let mut data = session(&plan);
    assert_eq!(only_verdict(&view(&data)).recommendation.survives_exchange, Some(true));
    // The twin is as fast on average, but far less steady.
    let twin = data.cells.iter().find(|row| row.cell.kind == CellKind::Twin).expect("a twin").cell.id.clone();
    for (at, trial) in data.trials.iter_mut().filter(|trial| trial.cell == twin).enumerate() {
        let coin =
            (at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD1B5_4A32_D192_ED03);
        trial.bytes = trial.bytes * [60, 80, 125, 166][(coin >> 62) as usize] / 100;
    }
    let view = view(&data);
    let recommendation = &only_verdict(&view).recommendation;
    let alarm = view.groups[0].twin.as_ref().is_some_and(|twin| twin.alarm);
    assert_eq!(
        (recommendation.proven, alarm, recommendation.survives_exchange),
        (true, false, Some(false)),
        "{view:?}"
    );
    assert!(recommendation.text.contains("by the second measurement it is not shown"), "{}", recommendation.text);
    assert!(
        view.notes.iter().any(|note| note.contains("by the second measurement it is not shown (at most ")),
        "{:?}",
        view.notes
    );
}

#[test]
fn steal_is_described_and_forbids_nothing() {
    let (calm, stolen) = (view(&session(&small())), view(&session(&Plan { steal: 0.07, ..small() })));
    assert_eq!((calm.environment.grade, stolen.environment.grade), (Some('B'), Some('D')));
    assert_eq!(only_verdict(&stolen).recommendation.cells, only_verdict(&calm).recommendation.cells);
    assert!(only_verdict(&stolen).recommendation.proven);
    assert!(only_verdict(&stolen).recommendation.text.contains("machine D of A to D, steal 7 %"));
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

#[test]
fn steal_that_goes_with_a_cell_is_said() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    let confirmed = |trial: &Trial| trial.stage == Stage::Confirm;
    let first = data.trials.iter().find(|trial| confirmed(trial)).expect("a trial").cell.clone();
    let mut hit = |cells: &dyn Fn(&bytegauge_model::CellId) -> bool, every: usize| {
        for (at, trial) in data.trials.iter_mut().filter(|trial| confirmed(trial) && cells(&trial.cell)).enumerate() {
            let stolen_ns = if at % every == 0 { 10_000_000 } else { 0 };
            trial.machine.as_mut().expect("the machine's use").steal_ns = stolen_ns;
        }
    };
    hit(&|_| true, 5);
    hit(&|cell| *cell == first, 1);
    let view = view(&data);
    let stolen = view.groups[0].stolen.as_ref().expect("steal was seen");
    assert_eq!((&stolen.most, stolen.most_share, stolen.trials), (&first, 1.0, 40));
    assert!(stolen.p <= 0.01 && stolen.least_share < 0.3, "{stolen:?}");
    let said = format!("g1: steal hit {first} (read ");
    assert!(
        view.notes.iter().any(|note| note.starts_with(&said) && note.contains(" in 100 % of trials, ")),
        "{:?}",
        view.notes
    );
    assert_eq!(view.cell(&first).map(|cell| cell.stolen_trials), Some(40));
    assert!(view.cells.iter().filter(|cell| cell.stage == Some(Stage::Screen)).all(|cell| cell.stolen_trials == 0));
}

#[test]
fn a_level_whose_confirmed_cells_are_all_dearer_is_to_be_avoided() {
    // Two factors vary, and all four cells are confirmed.
    let four = Plan { read_sizes: vec![4096, 1 << 16], write_sizes: vec![1 << 16, 1 << 18], finalists: 4, ..small() };
    let view = view(&session(&Plan { confirm_blocks: 24, profiles: vec!["parser"], ..four }));
    let avoid = &view.groups[0].avoid;
    let read = avoid.iter().find(|one| one.factor == "read_size" && one.level == json!(4096)).expect("a slow read");
    assert_eq!((&read.against, read.pairs), (&json!(null), 24), "{avoid:?}");
    let of_4k = view.cells.iter().filter(|cell| cell.level("read_size").number() == Some(4096));
    assert_eq!(of_4k.filter(|cell| cell.stage == Some(Stage::Confirm)).count(), 2);
    assert!(read.dearer_lower > 0.05 && read.dearer_upper.is_some_and(|upper| upper > read.dearer_lower), "{read:?}");
    // Of a level that was confirmed in part nothing is said by confirmation.
    let some =
        Plan { read_sizes: vec![4096, 1 << 16, 1 << 18], write_sizes: vec![1 << 16, 1 << 18], finalists: 4, ..small() };
    let view = self::view(&session(&Plan { confirm_blocks: 24, profiles: vec!["parser"], ..some }));
    for one in view.groups[0].avoid.iter().filter(|one| one.against == json!(null)) {
        let of_level = |cell: &&CellView| one.level == serde_json::to_value(cell.level(&one.factor)).unwrap();
        let cells: Vec<&CellView> =
            view.cells.iter().filter(|cell| cell.kind == CellKind::Candidate).filter(of_level).collect();
        assert!(cells.iter().all(|cell| cell.stage == Some(Stage::Confirm)), "{one:?}");
    }
}

#[test]
fn what_to_avoid_comes_from_the_screening() {
    let view = view(&session(&Plan { profiles: vec!["parser"], screen_blocks: 3, ..small() }));
    let avoid = &view.groups[0].avoid;
    // A parser pays 24 µs a call: 4 KiB reads are several times as dear as 1 MiB, in every column.
    let reads: Vec<_> = avoid.iter().filter(|one| one.factor == "read_size").collect();
    assert!(reads.iter().any(|one| one.level == json!(4096) && one.dearer_lower > 3.0), "{avoid:?}");
    // What confirmation shows is against the best of those confirmed, whichever that is.
    let screened = || reads.iter().filter(|one| one.against != json!(null));
    assert!(screened().all(|one| one.against == json!(1 << 20) && one.pairs == 12 && one.level != json!(1 << 20)));
    assert!(screened().count() > 0);
    for one in avoid {
        assert!(one.dearer_lower > 0.05 && one.dearer_upper.is_some_and(|upper| upper >= one.dearer_lower), "{one:?}");
    }
}

fn with_looks(blocks: u64, looks: u64, status: SessionStatus) -> SessionData {
    let mut data = session(&Plan { confirm_blocks: blocks, ..small() });
    for row in &mut data.groups {
        row.facts.insert("looks".into(), json!(looks));
        row.facts.insert("blocks_fixed".into(), json!(16));
    }
    data.record.status = status;
    data
}

#[test]
fn a_completed_look_proves_and_what_follows_reads_so_far() {
    let (complete, cut_off) = (SessionStatus::Complete, SessionStatus::Incomplete);
    for (blocks, status, done, judged, so_far, next) in [
        (16, complete, 1, 16, 0, Some(32)),
        (40, complete, 2, 32, 8, Some(64)),
        (40, cut_off, 2, 32, 8, Some(64)),
        (64, cut_off, 3, 64, 0, None),
        // Stopped by the clock within the first look, and cut off by somebody there.
        (12, complete, 1, 12, 0, Some(16)),
        (12, cut_off, 0, 0, 12, Some(16)),
    ] {
        let view = view(&with_looks(blocks, 3, status));
        for group in &view.groups {
            let look = group.look.as_ref().expect("looks");
            assert_eq!(
                (look.done, look.blocks, look.so_far, look.next_blocks),
                (done, judged, so_far, next),
                "{blocks}"
            );
            assert!((look.level - 0.983_333).abs() < 1e-5);
            assert_eq!(group.recommendation.proven, done > 0, "{}", group.recommendation.text);
            assert!(done == 0 || group.blocks.used == judged);
        }
        let said = view.notes.iter().any(|note| note.contains("so far: they prove nothing before the"));
        assert_eq!(said, so_far > 0, "{:?}", view.notes);
    }
}

#[test]
fn a_copy_of_a_session_is_never_told_to_resume() {
    for status in [SessionStatus::Complete, SessionStatus::Incomplete] {
        let open = Plan { noise: 0.05, confirm_blocks: 8, profiles: vec!["sum"], finalists: 4, ..small() };
        let mut data = session(&open);
        for row in &mut data.groups {
            row.facts.insert("looks".into(), json!(3));
            row.facts.insert("blocks_fixed".into(), json!(8));
        }
        data.record.status = status;
        let said = |data: &SessionData| serde_json::to_string(&view(data)).unwrap();
        assert!(said(&data).contains("--resume"), "{status:?}");
        data.record.imported = true;
        assert!(!said(&data).contains("--resume"), "{status:?}: {:?}", view(&data).answer);
    }
}

#[test]
fn blocks_after_a_look_change_nothing_of_it() {
    let short = view(&with_looks(32, 3, SessionStatus::Complete));
    let long = view(&with_looks(40, 3, SessionStatus::Complete));
    let told = |view: &View| -> Vec<_> {
        let all = view.groups.iter().map(|group| (group.best_set.clone(), group.recommendation.bound));
        all.collect()
    };
    assert_eq!(told(&long).len(), 3);
    // The planted noise of the first 32 blocks of the first group is the same in both sessions.
    assert_eq!(told(&long)[0], told(&short)[0]);
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
    let course = group(&view, "g1").course.as_ref().expect("a course");
    assert_eq!(course.block.len(), 39, "no point stands for a block that counts for nothing");
    assert!(!course.block.contains(&index));
}

#[test]
fn draining_alone_is_never_proven_for_the_machine() {
    let view = view(&session(&Plan { profiles: vec!["drain"], ..small() }));
    let verdict = only_verdict(&view);
    assert!(!verdict.recommendation.proven);
    assert!(verdict.recommendation.text.contains("is enough for a reader that discards the bytes"));
    assert!(group(&view, "g1").recommendation.proven);
    assert!(group(&view, "g1").recommendation.text.contains("discards the bytes"));
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
    let [lever] = view.levers.iter().filter(|lever| lever.group.0 == "g2").collect::<Vec<_>>()[..] else {
        panic!("{:?}", view.levers)
    };
    assert_eq!(
        (lever.factor.as_str(), &lever.from, &lever.to),
        ("placement", &json!("cross-core"), &json!("same-cpu"))
    );
    // What was planted, less what the noise of 40 blocks leaves open.
    assert!(lever.times_lower > 2.2 && lever.times_lower < 2.4 && lever.times_upper > Some(2.4), "{lever:?}");
    let first = &view.answer.lever;
    assert!(first.len() == 1 && first[0].starts_with("placement matters more than buffers here: "), "{first:?}");
}

#[test]
fn what_moves_no_more_than_the_choices_is_no_lever() {
    // Placement moves a factor of 2.4, and so do the sizes that are confirmed here.
    let sizes = Plan { read_sizes: vec![1 << 10, 1 << 20], write_sizes: vec![1 << 20], finalists: 2, ..small() };
    let view = view(&session(&Plan { placements: vec!["cross-core", "same-cpu"], ..sizes }));
    assert!(view.levers.is_empty() && view.answer.lever.is_empty(), "{:?}", view.levers);
}

#[test]
fn what_going_on_likely_brings() {
    let plan = Plan { noise: 0.05, confirm_blocks: 8, profiles: vec!["sum"], finalists: 4, ..small() };
    let mut data = session(&plan);
    let once = view(&data);
    let verdict = only_verdict(&once);
    assert!(!verdict.recommendation.proven, "{}", verdict.recommendation.text);
    let text = &verdict.recommendation.text;
    assert!(text.contains("no judgement of this session is left") && !text.contains("--time"), "{text}");
    assert_eq!(verdict.recommendation.more_blocks, None);
    data.groups
        .iter_mut()
        .for_each(|row| row.facts.extend([("looks".into(), json!(3)), ("blocks_fixed".into(), json!(8))]));
    let view = view(&data);
    let own = &only_verdict(&view).recommendation;
    // Looks double: 24 more, and a quarter of the blocks behind twice the bound.
    assert_eq!((own.more_blocks, own.likely_bound), (Some(24), own.bound.map(|bound| bound / 2.0)));
}

#[test]
fn a_session_without_confirmation_recommends_nothing() {
    let mut data = session(&Plan { confirm_blocks: 0, ..small() });
    data.record.status = SessionStatus::Incomplete;
    let view = view(&data);
    let text = &only_verdict(&view).recommendation.text;
    assert!(text.contains("nothing was confirmed; the fastest of those screened was to read with "), "{text}");
    assert!(text.contains("go on with --resume"), "{text}");
}

#[test]
fn what_was_cut_off_proves_nothing() {
    let mut data = session(&small());
    data.groups[0].facts.insert("blocks_fixed".into(), json!(48));
    assert!(only_verdict(&view(&data)).recommendation.proven);
    // What is stored as running, and measured by nobody, was killed.
    for status in [SessionStatus::Incomplete, SessionStatus::Running] {
        data.record.status = status;
        let view = view(&data);
        assert_eq!(view.status, SessionStatus::Incomplete);
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
fn what_was_cut_off_tells_each_question_its_own_blocks() {
    let mut data = session(&small());
    for group in &mut data.groups {
        group.facts.extend([("looks".into(), json!(3)), ("blocks_fixed".into(), json!(48))]);
    }
    data.record.status = SessionStatus::Incomplete;
    // The last block of the second group broke off.
    let short = data.groups[1].group.id.clone();
    let of_short: Vec<_> =
        data.cells.iter().filter(|row| row.cell.group == short).map(|row| row.cell.id.clone()).collect();
    let confirmed = data.trials.iter().filter(|trial| trial.stage == Stage::Confirm && of_short.contains(&trial.cell));
    let last = confirmed.map(|trial| trial.block).max().expect("blocks");
    data.trials.retain(|trial| trial.block != last);
    data.blocks.retain(|block| block.index != last);
    let view = view(&data);
    let mut told = BTreeSet::new();
    for row in view.answer.to_use.rows.iter().filter(|row| row.groups.len() == 1) {
        let group = view.groups.iter().find(|group| group.id == row.groups[0]).expect("its group");
        let note = row.note.as_deref().and_then(|note| note.strip_prefix("cut off after ")).expect("why it is open");
        let text = &group.recommendation.text;
        assert!(text.contains(&format!("interrupted after {note}")), "{note}: {text}");
        told.insert(note.to_owned());
    }
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_block_that_broke_off_tells_whose_trials_failed() {
    let mut data = session(&small());
    let choices: Vec<_> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).map(|row| row.cell.id.clone()).collect();
    let of_choice = |trial: &&mut Trial| trial.stage == Stage::Confirm && choices.contains(&trial.cell);
    let failed = data.trials.iter_mut().rfind(of_choice).expect("a trial");
    failed.outcome = Outcome::Failed("no byte arrived".into());
    let (block, cell) = (failed.block, failed.cell.clone());
    data.blocks.iter_mut().filter(|record| record.index == block).for_each(|record| record.complete = false);
    let view = view(&data);
    let label = &view.cells.iter().find(|other| other.id == cell).expect("its cell").label;
    let said = format!("1 block broke off, to be repeated, and counted for nothing; 1 trial of “{label}” failed");
    assert!(view.notes.iter().any(|note| note.contains(&said)), "{said}: {:?}", view.notes);
}

#[test]
fn what_is_measured_just_now_reads_as_running() {
    let mut data = session(&small());
    data.groups[0].facts.insert("blocks_fixed".into(), json!(48));
    for looks in [None, Some(3)] {
        data.groups[0].facts.extend(looks.map(|looks| ("looks".to_owned(), json!(looks))));
        data.record.status = SessionStatus::Running;
        let view = View::of(&data, &Settings { is_running: true, ..Settings::default() });
        assert_eq!(view.status, SessionStatus::Running);
        let recommendation = &only_verdict(&view).recommendation;
        let text = &recommendation.text;
        assert!(!recommendation.proven && text.contains("not judged yet (40 of 48 blocks so far"), "{text}");
        let row = &view.answer.to_use.rows[0];
        assert!(row.note.as_ref().is_some_and(|note| note.starts_with("running: ")), "{:?}", row.note);
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
    let verdict = only_verdict(&view);
    assert!(verdict.recommendation.text.contains("No other choice was confirmed, so there is nothing to compare."));
    assert_eq!((verdict.recommendation.proven, &group(&view, "g1").recommendation.cell), (false, &None));
}

#[test]
fn an_offered_load_compares_cpu() {
    let mut data = session(&Plan { profiles: vec!["sum"], ..small() });
    let paced = |levels: &mut bytegauge_model::Spec| levels.set("rate", Level::Number(100 << 20));
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
    assert!(text.contains("shown at 95 %, these trials alone"), "{text}");
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

/// Reads of `/dev/zero`: 160 ns a call and 0.022 ns a byte, and every second block 2 % slower, since it was preempted; at one
/// size so many times as long.
fn along_a_curve(slower_at: u64, times: u64) -> SessionData {
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
        let size = row.cell.factors.read_size().expect("a size");
        let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
        let preempted = trial.block % 2;
        (sink.calls, sink.bytes, sink.short_calls) = (1_000_000, 1_000_000 * size, 0);
        (sink.voluntary_switches, sink.involuntary_switches) = (0, 5_000 * preempted);
        sink.window_ns = (160_000_000 + 22_000 * size) * (100 + 2 * preempted) / 100;
        if size == slower_at {
            sink.window_ns = sink.window_ns * times / 100;
        }
    }
    data
}

#[test]
fn what_lies_off_the_curve_is_given_with_what_goes_with_it() {
    let data = along_a_curve(0, 100);
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
    let sizes: Vec<(u64, bool)> = slice.off_curve.iter().map(|one| (one.asked_bytes, one.is_off)).collect();
    assert_eq!(sizes, (6..12).map(|power| (1 << power, false)).collect::<Vec<_>>());
}

#[test]
fn a_curve_that_misses_a_size_says_which() {
    let view = view(&along_a_curve(512, 115));
    let slice = view.groups[0].cost_model.reader.as_ref().expect("a slice");
    let off = slice.off_curve.iter().find(|one| one.asked_bytes == 512).expect("it was measured");
    assert!(off.is_off && off.ln > 0.04 && off.bytes_per_call == 512.0, "{off:?}");
    let told = render::terminal::full(&view, &render::TerminalStyle { columns: 1000, ..Default::default() });
    assert!(told.contains("not only by chance at 5 of 6 sizes: the curve is wrong there"), "{told}");
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
    let view = View::of(&data, &Settings { fit_max: Some(32 << 10), ..Settings::default() });
    let model = &group(&view, "g1").cost_model;
    let (call, byte) = (model.main.linear.per_call_ns.expect("a fit"), model.main.linear.per_byte_ns.expect("a fit"));
    assert!((call - 160.0).abs() < 1e-3 && (byte - 0.022).abs() < 1e-6, "{call} {byte}");
    assert_eq!((model.main.metric, model.main.fit_max), (Some("wall_ns_per_call"), Some(32 << 10)));
    assert_eq!(model.writer, None);
    let text = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(text.contains("reading costs about 160 ns a call + 0.022 ns a byte (wall time, up to 32 KiB"), "{text}");
}

#[test]
fn no_break_is_read_off_sizes_that_nobody_asked_for() {
    let breaks = |powers: std::ops::Range<u32>| {
        let plan = Plan {
            transports: vec!["/dev/zero"],
            profiles: vec!["drain"],
            read_sizes: powers.map(|power| 1 << power).collect(),
            confirm_blocks: 0,
            screen_blocks: 12,
            noise: 0.0,
            ..Plan::default()
        };
        let mut data = session(&plan);
        for trial in data.trials.iter_mut().filter(|trial| trial.end(EndRole::Sink).is_some()) {
            let row = data.cells.iter().find(|row| row.cell.id == trial.cell).expect("a cell");
            // Short reads: what calls move differs from trial to trial.
            let size = row.cell.factors.read_size().expect("a size") * (8 - trial.block % 4) / 8;
            let ns = 160 + size / 16 + if size > 65_536 { (size - 65_536) / 2 } else { 0 };
            let ns = ns * (100 + trial.block % 3) / 100;
            (trial.bytes, trial.wall_ns) = (1_000_000 * size, 1_000_000 * ns);
            let sink = trial.ends.get_mut(EndRole::Sink).expect("a sink");
            (sink.calls, sink.bytes, sink.window_ns) = (1_000_000, 1_000_000 * size, 1_000_000 * ns);
        }
        view(&data).groups[0].cost_model.main.breaks.len()
    };
    assert!(breaks(13..21) > 0, "eight sizes tell it");
    assert_eq!(breaks(15..18), 0, "three do not");
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
        let view = View::of(&data, &Settings { fit_max, ..Settings::default() });
        let main = view.groups[0].cost_model.main.clone();
        (main.per_call_ns, main.segments, main.linear)
    };
    assert_eq!(fitted(1, Some(4096)), fitted(9, Some(4096)));
    assert_ne!(fitted(1, None), fitted(9, None));
}

#[test]
fn a_curve_that_fits_nothing_is_not_told() {
    let plan = Plan { transports: vec!["/dev/zero"], profiles: vec!["drain"], noise: 1.0, ..Plan::default() };
    let view = view(&session(&plan));
    let main = &view.groups[0].cost_model.main;
    assert!(main.relative_error.is_some_and(|error| error > 0.25), "{main:?}");
    assert_eq!((main.per_call_ns, main.segments.len(), main.size_for_half), (None, 0, None));
    assert_eq!((main.linear.per_call_ns, main.linear.per_byte_ns), (None, None));
    let text = render::terminal::full(&view, &render::TerminalStyle::default());
    assert!(!text.contains("costs about"));
    // A line that stood in another session does not vanish without a word.
    assert!(text.contains("what reading costs a call and a byte cannot be told here: trials lie "), "{text}");
}

#[test]
fn the_same_trials_give_the_same_bytes() {
    let plan = Plan { noise: 0.05, ..Plan::default() };
    let report = || {
        let view = view(&session(&plan));
        (render::json::render(&view), render::terminal::full(&view, &render::TerminalStyle::default()))
    };
    assert_eq!(report(), report());
}

#[test]
fn what_was_not_measured_is_counted_in_choices() {
    let mut data = session(&small());
    let added = |kind: CellKind| kind != CellKind::Candidate;
    for row in data.cells.iter_mut().filter(|row| added(row.cell.kind)) {
        row.outcome = Some(Outcome::Skipped("planted".into()));
        data.trials.retain(|trial| trial.cell != row.cell.id);
    }
    let notes = |data: &SessionData| view(data).notes.join("\n");
    assert!(!notes(&data).contains("skipped, "), "{}", notes(&data));
    let row = data.cells.iter_mut().find(|row| row.cell.kind == CellKind::Candidate).unwrap();
    row.outcome = Some(Outcome::Skipped("planted".into()));
    let left = row.cell.id.clone();
    data.trials.retain(|trial| trial.cell != left);
    assert!(notes(&data).contains("1 cell skipped, 0 failed"), "{}", notes(&data));
}

#[test]
fn what_is_on_its_way_to_another_host_is_told_as_measured() {
    let why = |host: &str, trip_us: u64| {
        let mut data = session(&Plan { transports: vec!["tcp"], ..small() });
        let host = Level::Name(host.into());
        data.groups.iter_mut().for_each(|row| row.group.factors.set("host", host.clone()));
        data.cells.iter_mut().for_each(|row| row.cell.factors.set("host", host.clone()));
        for trial in &mut data.trials {
            for role in [EndRole::Source, EndRole::Sink] {
                let flows = trial.ends.get_mut(role).into_iter().flat_map(|end| &mut end.flows);
                flows.filter_map(|flow| flow.tcp.as_mut()).for_each(|tcp| tcp.min_rtt_us = Some(trip_us));
            }
        }
        view(&data).answer.why.join("; ")
    };
    let far = why("192.0.2.7:4711", 20_000);
    assert!(far.contains("delay × rate of the path, as measured, is ") && far.contains(" (20 ms × "), "{far}");
    // A cable, and the same machine.
    assert!(!why("192.0.2.7:4711", 100).contains("delay × rate") && !why("auto", 20_000).contains("delay × rate"));
}

#[test]
fn where_the_first_choice_failed_the_limit_is_that_of_the_one_that_is_left() {
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
    let why = view(&data).answer.why.join("; ");
    assert!(!why.is_empty() && !why.contains("nothing was measured"), "{why}");
}

#[test]
fn one_choice_that_is_left_is_compared_with_nothing() {
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
    let answer = view(&data).answer;
    for row in answer.to_use.rows.iter().filter(|row| !row.one_for_all) {
        assert_eq!(row.standing, Standing::Alone, "{row:?}");
        let note = row.note.as_deref().unwrap_or_default();
        assert!(note.contains("nothing to compare: what else was asked was skipped"), "{note}");
    }
    assert!(answer.noise[0].ends_with("skipped: io_uring is refused here"), "{:?}", answer.noise);
    assert_eq!(answer.next[0], "bytegauge doctor");
    for row in data.cells.iter_mut().filter(|row| row.outcome.is_some()) {
        row.outcome = Some(Outcome::Failed("the relay broke off".into()));
    }
    let rows = view(&data).answer.to_use.rows;
    let notes: Vec<&str> = rows.iter().filter(|row| !row.one_for_all).filter_map(|row| row.note.as_deref()).collect();
    assert!(notes.iter().all(|note| note.contains("what else was asked failed")), "{notes:?}");
}

#[test]
fn only_a_session_that_was_cut_off_is_told_to_go_on() {
    let mut data = session(&small());
    let left = data.cells[0].cell.id.clone();
    data.trials.retain(|trial| trial.cell != left);
    let reason = |data: &SessionData| view(data).cell(&left).unwrap().reason.clone().unwrap();
    assert_eq!(reason(&data), "the session ended before it was measured");
    data.record.status = SessionStatus::Incomplete;
    assert_eq!(reason(&data), "the session ended before it was measured: go on with --resume");
}

#[test]
fn a_floor_that_failed_is_not_blamed_for_moving_no_byte() {
    let mut data = session(&small());
    let floors: Vec<_> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Floor).map(|row| row.cell.id.clone()).collect();
    let said = "no byte arrived within the window (the reader was kept from running): use a longer --trial-time";
    for trial in data.trials.iter_mut().filter(|trial| floors.contains(&trial.cell)) {
        trial.outcome = Outcome::NothingMoved(said.into());
    }
    let view = view(&data);
    let reason = cells_of_kind(&view, CellKind::Floor)[0].reason.clone().expect("a reason");
    assert!(reason.contains("moves no byte on purpose") && !reason.contains("no byte arrived"), "{reason}");
}

#[test]
fn what_stands_alone_has_no_bound() {
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
fn connections_of_different_ages_are_not_told_as_of_one() {
    let holds = |older: u64| {
        let mut data = session(&small());
        let second = data.groups.last().expect("groups").group.id.clone();
        let cells: Vec<_> =
            data.cells.iter().filter(|row| row.cell.group == second).map(|row| row.cell.id.clone()).collect();
        for trial in data.trials.iter_mut().filter(|trial| cells.contains(&trial.cell)) {
            trial.warmup_ns *= older;
            trial.wall_ns *= older;
        }
        view(&data).answer.holds.join("; ")
    };
    assert!(holds(1).contains("connections 4 to 44 ms after they opened"), "{}", holds(1));
    let differ = holds(10);
    assert!(differ.contains("connections up to 44 ms old ("), "{differ}");
    assert!(differ.contains(") to 440 ms old ("), "{differ}");
}

#[test]
fn an_import_of_one_trial_each_speaks_of_trials() {
    let mut data = session(&Plan { confirm_blocks: 1, ..small() });
    data.record.status = SessionStatus::Imported;
    let view = view(&data);
    let notes: Vec<_> = view.answer.to_use.rows.iter().filter_map(|row| row.note.as_deref()).collect();
    assert!(!notes.is_empty() && notes.iter().all(|note| note.starts_with("one trial of each: too few")), "{notes:?}");
}

#[test]
fn where_nothing_was_measured_the_screen_says_so() {
    let mut data = session(&small());
    for trial in &mut data.trials {
        trial.outcome = Outcome::Failed("the server is gone: start it again".into());
    }
    let screen = render::screen::render(&view(&data), &render::TerminalStyle { columns: 80, ..Default::default() });
    assert!(screen.contains("nothing was measured"), "{screen}");
}
