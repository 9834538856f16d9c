//! What is said where nothing is proven, and of what is shown to be worse.

use crate::support::{Plan, session};
use bytegauge_model::{BlockRecord, CellId, CellKind, Outcome, Stage, Trial};
use bytegauge_report::view::document::Standing;
use bytegauge_report::{SessionData, Settings, View};

fn view(plan: &Plan) -> View {
    View::of(&session(plan), &Settings::default())
}

/// Two transports of which one size is asked, with so much noise.
fn noisy(noise: f64) -> Plan {
    Plan {
        transports: vec!["unix", "tcp"],
        profiles: vec!["sum"],
        read_sizes: vec![1024, 16_384, 65_536, 262_144],
        write_sizes: vec![65_536],
        finalists: 4,
        confirm_blocks: 12,
        noise,
        ..Plan::default()
    }
}

#[test]
fn nothing_is_bounded_more_closely_than_what_an_open_row_names() {
    let mut told = 0;
    for seed in 1..=12 {
        let view = view(&Plan { seed, ..noisy(0.3) });
        for group in view.groups.iter().filter(|group| !group.recommendation.proven) {
            let Some(named) = group.recommendation.bound else { continue };
            let others = view.cells_of(&group.id).filter(|cell| !group.spoken_against.contains(&cell.id));
            let closest = others.filter_map(|cell| cell.above_best_upper).fold(f64::INFINITY, f64::min);
            assert!(named <= closest, "{seed} {}: {named} of what is named, {closest}", group.id);
            told += 1;
        }
        // So no row may be answered with the one constant for all, either.
        for one in &view.answer.to_use.one {
            let Some((_, bound)) = one.split_once("at most ") else { continue };
            let bound: f64 = bound.split(' ').next().expect("a number").parse().expect(one);
            let open = view.answer.to_use.rows.iter().filter(|row| row.standing == Standing::Open);
            let most = open.filter_map(|row| row.within).fold(0.0, f64::max);
            assert!(most * 100.0 <= bound, "{seed}: {one}, beside {most}");
        }
    }
    assert!(told > 12, "{told}");
}

/// So many confirmation trials of a cell more, in which no byte came, each in a block that broke off.
fn with_stalls(data: &mut SessionData, cell: &CellId, stalls: u64) {
    let of_cell = |trial: &&Trial| trial.cell == *cell && trial.stage == Stage::Confirm;
    let trial = data.trials.iter().rfind(of_cell).expect("a trial").clone();
    let record = data.blocks.iter().find(|block| block.index == trial.block).expect("its block").clone();
    for more in 1..=stalls {
        let index = 1_000_000 + more + data.trials.len() as u64;
        let outcome = Outcome::NothingMoved("planted".into());
        data.trials.push(Trial { block: index, bytes: 0, outcome, ..trial.clone() });
        data.blocks.push(BlockRecord { index, complete: false, ..record.clone() });
    }
}

#[test]
fn nothing_is_proven_of_a_choice_that_stalls_and_its_share_is_told() {
    let plan = Plan { transports: vec!["unix"], ..noisy(0.02) };
    let mut data = session(&plan);
    let of = |data: &SessionData| View::of(data, &Settings::default());
    let before = of(&data);
    let group = &before.groups[0];
    let named = group.recommendation.cell.clone().expect("a choice");
    assert!(group.recommendation.proven, "{:?}", group.recommendation);
    let noise = |view: &View| view.answer.noise.join("\n");
    assert!(!noise(&before).contains("moved nothing"), "{}", noise(&before));
    with_stalls(&mut data, &named, 1);
    let after = of(&data);
    let said = &after.groups[0].recommendation;
    assert!(said.cell.as_ref() != Some(&named) || !said.proven, "{said:?}");
    let cell = after.cell(&named).expect("its cell");
    let Some(stalled) = cell.stalled else { panic!("{cell:?}") };
    // Its twin's trials are its own.
    let twin = data.cells.iter().any(|row| row.cell.twin_of.as_ref() == Some(&named));
    assert_eq!((stalled.trials, stalled.of), (1, if twin { 25 } else { 13 }));
    let told =
        format!("{}: 1 of {} trials moved nothing: nothing is proven of a choice that stalls", cell.label, stalled.of);
    assert!(noise(&after).contains(&told), "{told}: {}", noise(&after));
    // Where all of them stall there is no answer, and the row says why.
    let all: Vec<CellId> =
        data.cells.iter().filter(|row| row.cell.kind == CellKind::Candidate).map(|row| row.cell.id.clone()).collect();
    let confirmed = |id: &&CellId| data.trials.iter().any(|trial| trial.cell == **id && trial.stage == Stage::Confirm);
    let confirmed: Vec<CellId> = all.iter().filter(confirmed).cloned().collect();
    confirmed.iter().for_each(|id| with_stalls(&mut data, id, 2));
    let open = of(&data);
    let said = &open.groups[0].recommendation;
    assert!(!said.proven && said.text.contains("moved nothing"), "{}", said.text);
    let note = open.answer.to_use.rows[0].note.as_deref().unwrap_or_default();
    assert!(note.contains("moved nothing"), "{note}");
}

#[test]
fn questions_without_an_answer_share_a_row_and_its_worst_bound() {
    let mut shared = 0;
    for seed in 1..=6 {
        let placements = vec!["cross-core", "same-cpu", "unpinned"];
        let view = view(&Plan { seed, placements, profiles: vec!["drain", "sum"], ..noisy(2.0) });
        for row in view.answer.to_use.rows.iter().filter(|row| row.times.is_some() && !row.one_for_all) {
            let bound =
                |id: &bytegauge_model::GroupId| view.groups.iter().find(|group| group.id == *id)?.recommendation.bound;
            let all: Vec<f64> = row.groups.iter().filter_map(bound).map(|bound| 1.0 + bound).collect();
            let most = all.iter().copied().fold(0.0, f64::max);
            assert!(row.within.is_none() && (row.times.unwrap_or(0.0) - most).abs() < 1e-9, "{row:?}: {all:?}");
            shared += usize::from(all.iter().any(|times| (times - most).abs() > 0.1));
        }
    }
    assert!(shared > 0, "bounds that differ kept all questions apart");
}
