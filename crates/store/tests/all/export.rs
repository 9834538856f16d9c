//! Exports can be imported again: JSON lines without any loss, CSV without a mapping.

use crate::support::*;
use bytegauge_import::{ImportOptions, Imported};
use bytegauge_model::*;
use bytegauge_store::Store;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

fn jsonl(store: &Store, id: SessionId) -> String {
    let mut out = Vec::new();
    store.export_jsonl(id, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn csv(store: &Store, id: SessionId) -> String {
    let mut out = Vec::new();
    store.export_csv(id, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn import(store: &mut Store, text: &str) -> Imported {
    bytegauge_import::import(store, text.as_bytes(), &ImportOptions::default()).unwrap()
}

fn without_id(text: &str, id: SessionId) -> String {
    text.replacen(&format!("\"id\":{id},"), "\"id\":0,", 1)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn json_lines_lose_nothing(trials in vec(any_trial(), 1..5), share in any::<f64>()) {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, id) = begin(&folder.path().join("results.db"));
        let mut record = block(7);
        record.surroundings.load = Some(share).filter(|share| share.is_finite());
        store.record_block(id, &record).unwrap();
        store.set_group_fact(id, &GroupId("g0".into()), "finalists", &json!(["c0"])).unwrap();
        store.set_cell_outcome(id, &CellId("c1".into()), &Outcome::Failed("it died".into())).unwrap();
        store.finish_session(id, SessionStatus::Incomplete, 5, &json!({"load": share})).unwrap();
        for trial in &trials {
            store.record_trial(id, trial).unwrap();
        }
        let first = jsonl(&store, id);
        let imported = import(&mut store, &first);
        prop_assert_eq!((imported.trials, imported.cells), (trials.len(), 2));
        prop_assert_eq!(without_id(&jsonl(&store, imported.session), imported.session), without_id(&first, id));
        // The new session counts as imported, so it cannot be resumed.
        let own = store.sessions().unwrap().into_iter().filter(|session| !session.imported).map(|session| session.id);
        prop_assert_eq!(own.collect::<Vec<_>>(), [id]);
    }
}

/// A session as the harness stores it: every factor has a level; complete and incomplete blocks, an A/A control, a
/// floor.
fn whole_session(store: &mut Store) -> SessionId {
    let id = store.create_session(&new_session()).unwrap();
    let mut factors = Spec::default();
    for factor in factor::of(Workload::Stream) {
        let default = factor.default_in(Workload::Stream).unwrap();
        let level = factor.kind.parse_list(default).unwrap().swap_remove(0);
        factors.set(factor.name, if (factor.fits)(&Transport::Unix) { level } else { Level::Absent });
    }
    let group = Group { id: GroupId("g0".into()), factors: factors.of_role(Role::Condition) };
    let cell = |id: &str, kind, engine: &str, twin_of: Option<&str>| {
        let mut factors = factors.clone();
        factors.set("engine", Level::Name(engine.into()));
        let twin_of = twin_of.map(|id| CellId(id.into()));
        Cell { id: CellId(id.into()), group: GroupId("g0".into()), kind, twin_of, factors }
    };
    let cells = [
        cell("c0", CellKind::Candidate, "blocking", None),
        cell("c0t", CellKind::Twin, "blocking", Some("c0")),
        cell("g0n", CellKind::Floor, "null", None),
    ];
    store.add_groups(id, &[group]).unwrap();
    store.add_cells(id, &cells).unwrap();
    for index in 0..4 {
        let stage = if index == 0 { Stage::Screen } else { Stage::Confirm };
        store.record_block(id, &BlockRecord { stage, complete: index != 2, ..block(index) }).unwrap();
        for (position, cell) in cells.iter().enumerate() {
            let n = index * 3 + position as u64;
            let mut trial = Trial { cell: cell.id.clone(), stage, block: index, ..plain_trial(n) };
            trial.position = position as u32;
            if n == 7 {
                trial.outcome = Outcome::NothingMoved("the sink died, \"oh\"".into());
                trial.ends.remove(EndRole::Source);
                (trial.machine, trial.wall_ns, trial.bytes) = (None, 0, 0);
            }
            store.record_trial(id, &trial).unwrap();
        }
    }
    id
}

#[test]
fn csv_has_a_column_for_every_factor() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open(&folder.path().join("results.db")).unwrap();
    let id = whole_session(&mut store);
    let text = csv(&store, id);
    let header: Vec<&str> = text.lines().next().unwrap().split(',').collect();
    for factor in factor::of(Workload::Stream) {
        assert_eq!(header.iter().filter(|name| **name == factor.name).count(), 1, "{}", factor.name);
    }
    assert_eq!(text.lines().count(), 1 + 12);
    let row: Vec<&str> = text.lines().nth(1).unwrap().split(',').collect();
    let value = |name: &str| row[header.iter().position(|heading| *heading == name).unwrap()];
    assert_eq!((value("read_size"), value("sndbuf"), value("nodelay")), ("4096", "auto", ""));
    assert_eq!((value("bytes"), value("wall_ns"), value("stage")), ("200000000", "42000000", "screen"));
}
