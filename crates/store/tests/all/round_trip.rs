//! Stored values are read back exactly, in the order of measurement.

use crate::support::*;
use bytegauge_model::*;
use bytegauge_store::Store;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_trial_comes_back(trials in vec(any_trial(), 1..6)) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.db");
        let (mut store, session) = begin(&path);
        for trial in &trials {
            store.record_trial(session, trial).unwrap();
        }
        drop(store);

        let store = Store::open_existing(&path).unwrap();
        let expected: Vec<_> = trials.iter().cloned().map(without_series).collect();
        prop_assert_eq!(store.trials(session).unwrap(), expected);

        let mut series = store.series(session, None).unwrap().into_iter();
        for trial in &trials {
            let mut ends: Vec<_> = trial.ends.iter().collect();
            ends.sort_by_key(|(role, _)| role.name());
            for (role, end) in ends {
                for (index, flow) in end.flows.iter().enumerate() {
                    if !flow.series.is_empty() {
                        let found = series.next().unwrap();
                        prop_assert_eq!((found.end, found.flow, found.cell), (role, index, trial.cell.clone()));
                        prop_assert_eq!((found.stage, found.block, found.position), (trial.stage, trial.block, trial.position));
                        prop_assert_eq!(&found.bins, &flow.series);
                    }
                }
            }
        }
        prop_assert!(series.next().is_none());
    }
}

#[test]
fn a_session_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("a/new/folder/results.db"));
    store.add_note(id, "a note").unwrap();
    store.add_note(id, "a note").unwrap();
    store.finish_session(id, SessionStatus::Complete, 1_700_000_060_000_000_000, &json!({"load": 0.25})).unwrap();

    let new = new_session();
    let expected = SessionRecord {
        id,
        finished_unix_ns: Some(1_700_000_060_000_000_000),
        status: SessionStatus::Complete,
        machine_after: json!({"load": 0.25}),
        notes: vec![new.notes[0].clone(), "a note".into()],
        ..new
    };
    assert_eq!(store.session(id).unwrap(), expected);
}

#[test]
fn groups_cells_and_blocks_come_back_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, id) = begin(&folder.path().join("results.db"));
    let g0 = GroupId("g0".into());
    store.set_group_fact(id, &g0, "steady", &json!(false)).unwrap();
    store.set_group_fact(id, &g0, "steady", &json!(true)).unwrap();
    store.set_group_fact(id, &g0, "warmup_ns", &json!(2_000_000)).unwrap();
    store.add_groups(id, &[group()]).unwrap();

    let groups = store.groups(id).unwrap();
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].group, group());
    assert_eq!(serde_json::Value::from(groups[0].facts.clone()), json!({"steady": true, "warmup_ns": 2_000_000}));

    let control = Cell { kind: CellKind::Twin, twin_of: Some(CellId("c0".into())), ..cell("c0t", 4096) };
    store.add_cells(id, &[control.clone(), cell("c0", 4096)]).unwrap();
    let failed = Outcome::Failed("the sink died".into());
    store.set_cell_outcome(id, &CellId("c1".into()), &failed).unwrap();
    let cells: Vec<_> = store.cells(id).unwrap().into_iter().map(|row| (row.cell, row.outcome)).collect();
    assert_eq!(cells, [(cell("c0", 4096), None), (cell("c1", 65_536), Some(failed)), (control, None)]);

    let broken = BlockRecord { complete: false, ..block(1) };
    for record in [&block(2), &broken, &block(0), &block(1)] {
        store.record_block(id, record).unwrap();
    }
    assert_eq!(store.blocks(id).unwrap(), [block(0), block(1), block(2)]);
}

#[test]
fn sessions_are_listed_newest_first_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, first) = begin(&folder.path().join("results.db"));
    store.record_trial(first, &plain_trial(0)).unwrap();
    let second = store.create_session(&new_session()).unwrap();
    let listed: Vec<_> =
        store.sessions().unwrap().iter().map(|s| (s.id, s.status, s.groups, s.cells, s.trials)).collect();
    assert_eq!(listed, [(second, SessionStatus::Running, 0, 0, 0), (first, SessionStatus::Running, 1, 2, 1)]);
    assert_eq!(store.latest_session().unwrap(), Some(second));

    store.finish_session(second, SessionStatus::Complete, 1, &json!(null)).unwrap();
    store.finish_session(first, SessionStatus::Incomplete, 1, &json!(null)).unwrap();
    store.resume_session(first).unwrap();
    let resumed = store.session(first).unwrap();
    assert_eq!((resumed.status, resumed.finished_unix_ns), (SessionStatus::Running, None));
}

/// Prints the time to read a large session; asserts nothing, since machines differ.
#[test]
fn a_large_session_is_read_at_once() {
    let trials = if cfg!(debug_assertions) { 2_000 } else { 100_000 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let (mut store, session) = begin(&path);
    let begun = std::time::Instant::now();
    for n in 0..trials {
        store.record_trial(session, &plain_trial(n)).unwrap();
    }
    let written = begun.elapsed();
    drop(store);
    let size = std::fs::metadata(&path).unwrap().len();
    let store = Store::open_existing(&path).unwrap();
    let begun = std::time::Instant::now();
    let read = store.trials(session).unwrap();
    println!("{trials} trials: written in {written:?}, read in {:?}, {size} bytes", begun.elapsed());
    assert_eq!(read.len() as u64, trials);
    assert_eq!(read[1_234], plain_trial(1_234));
}
