//! Files that are missing, damaged, read-only or of another program: a clear message with the next step.

use std::fs;
use std::path::Path;

use crate::support::*;
use bytegauge_model::*;
use bytegauge_store::{Store, StoreError};

fn check_open(path: &Path, expected: &[&str]) {
    let message = Store::open(path).map(|_| ()).unwrap_err().to_string();
    for part in expected {
        assert!(message.contains(part), "{message}");
    }
    assert!(message.contains("--store"), "no next step in: {message}");
}

#[test]
fn paths_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    check_open(folder.path(), &["cannot open", "it is a folder"]);
    check_open(&file.join("results.db"), &["cannot create the folder"]);
    check_open(Path::new("/proc/bytegauge/results.db"), &["cannot create the folder /proc/bytegauge"]);
    check_open(Path::new("/proc/results.db"), &["cannot open the results at /proc/results.db"]);
}

#[test]
fn files_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("notes.txt");
    fs::write(&text, "some notes that are no database, long enough to be mistaken for one\n".repeat(100)).unwrap();
    check_open(&text, &["is not a result store", "move it away"]);

    let short = folder.path().join("short.txt");
    fs::write(&short, "a line").unwrap();
    check_open(&short, &["is not a result store"]);
    assert_eq!(fs::read(&short).unwrap(), b"a line");

    let other = folder.path().join("bookmarks.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE bookmarks (url)").unwrap();
    check_open(&other, &["another program's database"]);
    let tables: i64 = rusqlite::Connection::open(&other)
        .unwrap()
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tables, 1, "the file must not change");
}

#[test]
fn a_newer_version() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    drop(begin(&path));
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    check_open(&path, &["newer bytegauge", "schema 99", "upgrade bytegauge"]);
    assert!(matches!(Store::open_existing(&path), Err(StoreError::Newer { found: 99, .. })));
}

#[test]
fn truncated_at_any_page() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let (mut store, session) = begin(&path);
    for n in 0..50 {
        store.record_trial(session, &plain_trial(n)).unwrap();
    }
    drop(store);
    let whole = fs::read(&path).unwrap();
    for length in (1..whole.len()).step_by(1_777) {
        let cut = folder.path().join("cut.db");
        fs::write(&cut, &whole[..length]).unwrap();
        let result = Store::open_existing(&cut).and_then(|store| store.trials(session));
        let message = result.unwrap_err().to_string();
        let known = message.contains("are damaged") || message.contains("is not a result store");
        assert!(known && message.contains("move"), "{length} bytes: {message}");
    }
}

#[test]
fn an_invalid_value_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("results.db");
    let (mut store, session) = begin(&path);
    store.record_trial(session, &plain_trial(0)).unwrap();
    drop(store);
    for wrong in [
        "trials SET stage = 'brew'",
        "trials SET outcome = 'eaten'",
        "trials SET workload = 'idle'",
        "trials SET machine = '{'",
        "ends SET role = 'cook' WHERE role = 'sink'",
        "ends SET detail = '{'",
        "ends SET calls = 'many'",
    ] {
        let sql = format!("UPDATE {wrong}");
        let copy = folder.path().join("copy.db");
        fs::copy(&path, &copy).unwrap();
        rusqlite::Connection::open(&copy).unwrap().execute(&sql, []).unwrap();
        let error = Store::open_existing(&copy).unwrap().trials(session).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{wrong}: {error}");
    }
}

#[test]
fn nothing_measured_yet() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("results.db");
    let empty = folder.path().join("empty.db");
    fs::write(&empty, "").unwrap();
    for path in [&missing, &empty] {
        let error = Store::open_existing(path).map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::NoResults { .. }), "{error}");
        assert!(error.to_string().contains("run `bytegauge run buffer-size` first"), "{error}");
    }
    assert!(!missing.exists(), "reading must not create a file");
}

#[test]
fn names_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, session) = begin(&folder.path().join("results.db"));
    let check = |result: Result<(), StoreError>, expected: &str| {
        let message = result.unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    let missing = SessionId(99);
    check(store.session(missing).map(|_| ()), "no session 99");
    check(store.export_csv(missing, false, Vec::new()), "`bytegauge sessions` lists them");
    check(store.add_note(missing, "x"), "no session 99");
    check(store.record_trial(session, &Trial { cell: CellId("c9".into()), ..plain_trial(0) }), "no cell c9");
    check(store.add_cells(session, &[Cell { group: GroupId("g9".into()), ..cell("c2", 1) }]), "no group g9");
    check(store.set_group_fact(session, &GroupId("g9".into()), "a", &serde_json::json!(1)), "no group g9");
    check(store.set_cell_outcome(session, &CellId("c9".into()), &Outcome::Skipped("x".into())), "no cell c9");
    assert_eq!(store.trials(session).unwrap(), []);
}
