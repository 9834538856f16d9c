//! A store of any released version opens like one of the present version.
//!
//! `fixtures/NAME.sql` was written by a released schema, `fixtures/NAME.jsonl` exported from it. Both never change.

use std::fs;
use std::path::{Path, PathBuf};

use bytegauge_import::{ImportOptions, import};
use bytegauge_model::{EndRole, SessionId, Workload};
use bytegauge_store::{CellRow, Store};
use rusqlite::Connection;

/// Every version with its fixtures: constructed sessions, and small real ones of each workload.
const FIXTURES: [(i64, &[&str]); 1] = [(3, &["schema-3-stream", "schema-3-call", "schema-3-ring"])];

fn fixture(name: &str, ending: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/{name}.{ending}"))
}

/// Writes the store of a fixture.
fn write(name: &str, path: &Path) {
    let sql = fs::read_to_string(fixture(name, "sql")).unwrap();
    let old = Connection::open(path).unwrap();
    // Tables are in the file in alphabetical order, not in the order of references.
    old.pragma_update(None, "foreign_keys", false).unwrap();
    old.execute_batch(&sql).unwrap();
}

fn current_version(fresh: &Path) -> i64 {
    drop(Store::open(fresh).unwrap());
    Connection::open(fresh).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Every table and view with its columns, and every index.
fn shape(path: &Path) -> Vec<(String, String, String)> {
    let connection = Connection::open(path).unwrap();
    let sql = "SELECT s.type, s.name, coalesce(group_concat(c.name || ' ' || c.type || ' ' || c.\"notnull\"), '')
               FROM sqlite_schema s LEFT JOIN pragma_table_info(s.name) c
               WHERE s.name NOT LIKE 'sqlite_%' GROUP BY s.type, s.name ORDER BY s.type, s.name";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn export(store: &Store, id: SessionId) -> String {
    let mut out = Vec::new();
    store.export_jsonl(id, false, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn every_version_comes_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = folder.path().join("fresh.db");
    let current = current_version(&fresh);
    assert_eq!(FIXTURES.map(|(version, _)| version).to_vec(), (3..=current).collect::<Vec<_>>());
    for name in FIXTURES.iter().flat_map(|(_, names)| *names) {
        let path = folder.path().join(format!("{name}.db"));
        write(name, &path);
        let mut store = Store::open(&path).unwrap();
        let lines = fs::read(fixture(name, "jsonl")).unwrap();
        let imported = import(&mut store, lines.as_slice(), &ImportOptions::default()).unwrap();
        let expected = export(&store, imported.session).replacen("\"id\":2", "\"id\":1", 1);
        assert_eq!(export(&store, SessionId(1)), expected, "{name}");
        drop(store);
        assert_eq!(shape(&path), shape(&fresh), "{name}");
    }
}

/// The store of a fixture, opened.
fn migrated(name: &str) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    write(name, &path);
    let store = Store::open(&path).unwrap();
    (folder, store)
}

#[test]
fn ends_have_their_roles() {
    use EndRole::{Client, Competitor, Ring, Server, Sink, Source};
    let check = |name: &str, workload: Workload, expected: &[EndRole]| {
        let (_folder, store) = migrated(name);
        let trials = store.trials(SessionId(1)).unwrap();
        assert!(trials.iter().all(|trial| trial.workload == workload), "{name}");
        let full = trials.iter().find(|trial| trial.ends.iter().count() == expected.len()).unwrap();
        assert_eq!(full.ends.iter().map(|(role, _)| role).collect::<Vec<_>>(), expected, "{name}");
        let series = store.series(SessionId(1), None).unwrap();
        assert!(!series.is_empty() && series.iter().all(|one| expected.contains(&one.end)), "{name}");
        let cells = store.cells(SessionId(1)).unwrap();
        let matches = |row: &CellRow| row.cell.factors == row.cell.factors.clone().with_workload(workload);
        assert!(!cells.is_empty() && cells.iter().all(matches), "{name}");
    };
    check("schema-3-stream", Workload::Stream, &[Source, Sink]);
    check("schema-3-call", Workload::Call, &[Client, Server, Competitor]);
    check("schema-3-ring", Workload::Ring, &[Ring]);
}

/// Versions before 1.0 stored some factors under names that they have no longer.
#[test]
fn old_factor_names_become_the_present_ones() {
    let text = fs::read_to_string(fixture("schema-3-stream", "sql")).unwrap();
    let (_folder, store) = migrated("schema-3-stream");
    let cells = store.cells(SessionId(1)).unwrap();
    for (old, new) in [("walk", "working_set"), ("fill", "writer_work"), ("think", "think_time")] {
        assert!(text.contains(&format!("\"{old}\":")), "the fixture has no {old}");
        assert!(cells.iter().all(|row| row.cell.factors.states(new) && !row.cell.factors.states(old)), "{old}");
    }
}
