//! Long trials withdraw a result, split it by the age of connections, or confirm it.

use crate::phrases;
use crate::support::{Plan, session, trial};
use crate::{State, state_of};
use bytegauge_model::session::Surroundings;
use bytegauge_model::{BlockRecord, Cell, CellId, CellKind, GroupId, Level, Stage, Trial};
use bytegauge_report::view::numbers::{AuditFinding, GroupView};
use bytegauge_report::{Report, SessionData, Settings, analysed_groups, render};

/// Adds long trials of a group: 250 ms of its confirmed cells, each slower by its cost than one that moves
/// 1 GB/s, and every other block a little slower for the first of them.
pub fn audit(data: &mut SessionData, group: &str, blocks: u64, cost: impl Fn(&Cell) -> f64) {
    let confirmed: Vec<CellId> =
        data.trials.iter().filter(|trial| trial.stage == Stage::Confirm).map(|trial| trial.cell.clone()).collect();
    let is_audited =
        |cell: &Cell| cell.group.0 == group && cell.kind == CellKind::Candidate && confirmed.contains(&cell.id);
    let cells: Vec<Cell> = data.cells.iter().map(|row| row.cell.clone()).filter(is_audited).collect();
    for number in 0..blocks {
        let index = data.blocks.len() as u64;
        for (position, cell) in cells.iter().enumerate() {
            let wobble = if position == 0 && number.is_multiple_of(2) { 1.004 } else { 1.0 };
            let rate = 1e9 / cost(cell) / wobble;
            let one = trial(cell, Stage::Audit, index, position as u32, rate * 250.0 / 40.0);
            data.trials.push(Trial { wall_ns: 250_000_000, ..one });
        }
        data.blocks.push(BlockRecord {
            index,
            group: GroupId(group.into()),
            stage: Stage::Audit,
            started_unix_ns: 1_763_756_269_000_000_000 + index * 1_000_000_000,
            complete: true,
            surroundings: Surroundings { wall_ns: 700_000_000, ..Surroundings::default() },
        });
    }
}

/// Two sizes, of which confirmation proves the larger one, on connections of an age.
fn planted(age: &str, profiles: &[&'static str]) -> SessionData {
    let mut data = session(&Plan {
        transports: vec!["tcp"],
        profiles: profiles.to_vec(),
        read_sizes: vec![16 << 10, 1 << 20],
        write_sizes: vec![64 << 10],
        finalists: 2,
        confirm_blocks: 20,
        noise: 0.01,
        seed: 3,
        ..Plan::default()
    });
    let level = Level::Name(age.into());
    data.groups.iter_mut().for_each(|row| row.group.factors.set("connection_age", level.clone()));
    data.cells.iter_mut().for_each(|row| row.cell.factors.set("connection_age", level.clone()));
    data
}

fn is_large(cell: &Cell) -> bool {
    cell.factors.read_size() == Some(1 << 20)
}

/// In long trials large reads take this multiple of the time of small ones.
fn large_costs(times: f64) -> impl Fn(&Cell) -> f64 {
    move |cell| if is_large(cell) { times } else { 1.0 }
}

fn view(data: &SessionData) -> Report {
    Report::of(data, &Settings::default())
}

fn screen(view: &Report) -> String {
    let text = render::screen::render(view, &render::TerminalStyle { columns: 80, ..Default::default() });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn full(view: &Report) -> String {
    let text = render::full::full(view, &render::TerminalStyle { columns: 80, ..Default::default() });
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn first(view: &Report) -> &GroupView {
    view.groups.first().expect("a group")
}

#[test]
fn a_result_that_long_trials_contradict_is_withdrawn() {
    let mut data = planted("steady", &["sum"]);
    let before = view(&data);
    assert!(first(&before).recommendation.proven);
    audit(&mut data, "g1", 4, large_costs(1.5));
    let view = view(&data);
    let own = &first(&view).recommendation;
    assert!(!own.proven);
    let seen = first(&view).audit.as_ref().expect("an audit");
    assert_eq!((seen.finding, seen.rivals[0].blocks, seen.better.is_some()), (AuditFinding::Contradicts, 4, true));
    assert_eq!(state_of(&view.tests[0]), State::Open);
    let text = screen(&view);
    for part in ["in trials of 250 ms it takes at least 4", "longer than 16K: use 16K for long connections"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("the fastest"), "{text}");
}

#[test]
fn results_of_fresh_connections_remain_with_a_caveat() {
    let mut data = planted("fresh", &["sum"]);
    audit(&mut data, "g1", 4, large_costs(1.5));
    let view = view(&data);
    assert!(first(&view).recommendation.proven);
    let text = screen(&view);
    assert!(text.contains("longer than 16K: use 16K for long connections"), "{text}");
}

#[test]
fn a_confirmed_result_has_one_line() {
    let mut data = planted("steady", &["sum"]);
    audit(&mut data, "g1", 5, large_costs(0.8));
    let view = view(&data);
    assert!(first(&view).recommendation.proven);
    assert_eq!(
        first(&view).audit.as_ref().map(|audit| (audit.finding, audit.bound)),
        Some((AuditFinding::Holds, Some(0.0)))
    );
    let text = full(&view);
    assert!(text.contains("1M: trials of 250 ms confirm it: at most "), "{text}");
}

#[test]
fn too_few_long_trials_change_nothing() {
    let mut data = planted("steady", &["sum"]);
    audit(&mut data, "g1", 2, large_costs(1.5));
    let view = view(&data);
    assert!(first(&view).recommendation.proven);
    let text = full(&view);
    assert!(text.contains("1M: trials of 250 ms neither confirm nor contradict it"), "{text}");
}

#[test]
fn tests_with_one_long_trial_count_together() {
    let mut data = planted("steady", &["drain", "sum", "parser"]);
    for (group, times) in [("g1", 1.45), ("g2", 1.5), ("g3", 1.55)] {
        audit(&mut data, group, 1, large_costs(times));
    }
    let view = view(&data);
    assert!(view.groups.iter().all(|group| !group.recommendation.proven), "none of them is trusted");
    let alone: Vec<_> = view.groups.iter().map(|group| group.audit.as_ref().map(|audit| audit.finding)).collect();
    assert_eq!(alone, [Some(AuditFinding::Open); 3]);
    assert_eq!(view.audit.map(|all| all.finding), Some(AuditFinding::Contradicts));
    let text = screen(&view);
    assert!(text.contains("of all 3 tests together contradict the recommendations"), "{text}");
}

#[test]
fn long_trials_are_in_no_estimate() {
    let plain = planted("steady", &["sum"]);
    let mut with = plain.clone();
    audit(&mut with, "g1", 4, large_costs(0.9));
    let (plain, with) = (view(&plain), view(&with));
    for (a, b) in plain.cells.iter().zip(&with.cells) {
        assert_eq!((a.stage, a.trials, &a.estimate, &a.more), (b.stage, b.trials, &b.estimate, &b.more));
    }
    assert_eq!(first(&plain).blocks, first(&with).blocks);
    assert!(with.cells.iter().any(|cell| cell.stage == Some(Stage::Confirm)));
}

#[test]
fn long_trials_begin_with_the_recommendation() {
    let data = planted("steady", &["sum", "parser"]);
    let view = view(&data);
    let subjects = analysed_groups(&data, &Settings::default());
    assert_eq!(subjects.len(), 2);
    for (subject, group) in subjects.iter().zip(&view.groups) {
        assert_eq!((Some(&subject.cells[0]), subject.proven), (group.recommendation.cell.as_ref(), true));
        assert_eq!((&subject.group, subject.cells.len()), (&group.id, 2));
    }
}

#[test]
fn inconclusive_long_trials_decide_nothing() {
    let mut data = planted("steady", &["sum"]);
    // Three in a hundred: shown, and within the margin.
    audit(&mut data, "g1", 8, large_costs(1.03));
    let view = view(&data);
    assert_eq!(first(&view).audit.as_ref().map(|audit| audit.finding), Some(AuditFinding::Holds));
    // By how much is open: by less than the margin, or by more.
    let mut wide = planted("steady", &["sum"]);
    audit(&mut wide, "g1", 3, large_costs(1.04));
    audit(&mut wide, "g1", 3, large_costs(1.06));
    let view = self::view(&wide);
    assert_eq!(
        first(&view).audit.as_ref().map(|audit| audit.finding),
        Some(AuditFinding::Open),
        "{:?}",
        first(&view).audit
    );
    let text = phrases(&view, "long-trials/open");
    assert!(text.contains("1M: trials of 250 ms neither confirm nor contradict it"), "{text}");
}

#[test]
fn tests_together_may_be_inconclusive() {
    let mut data = planted("steady", &["sum", "parser", "drain"]);
    for (group, times) in [("g1", 0.8), ("g2", 1.0), ("g3", 1.3)] {
        audit(&mut data, group, 5, large_costs(times));
    }
    let view = Report::of(&data, &Settings::default());
    assert_eq!(view.audit.as_ref().map(|all| all.finding), Some(AuditFinding::Open));
    assert!(!phrases(&view, "long-trials/contradict").contains("together"), "{:?}", view.findings);
}
